"""Items of pools are counted like the definition, whatever the order of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels.record_kinds import KINDS
from meantime.model.trace import Trace
from meantime.readers.recording.merge import Records
from meantime.readers.recording.pools import PoolCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

POOL, BEGIN, END, DROPPED = (
    KINDS[name] for name in ("ITEM_POOL", "ITEM_BEGIN", "ITEM_END", "ITEM_DROPPED")
)
STREAMS = 3
OWNERS = [0, 1, 0]  # the process of each stream
LAST_NS = 1_000

Row = tuple[int, int, int, int]  # stream, kind, item, pool


def rows() -> st.SearchStrategy[list[Row]]:
    return st.lists(
        st.tuples(
            st.integers(0, STREAMS - 1),
            st.sampled_from([POOL, BEGIN, END, DROPPED, KINDS["WAKE"]]),
            st.integers(0, 3),
            st.integers(0, 1),
        ),
        max_size=30,
    )


def defined(found: Sequence[Row], ended: int) -> list[tuple[int, str, int]]:
    """Return the values of each counter with their times, in order of time."""
    items: dict[tuple[int, int], tuple[int, int, str]] = {}
    counts: dict[tuple[int, int, str], int] = {}
    values = []

    def count(counter: tuple[int, int, str], change: int, time_ns: int) -> None:
        counts[counter] = counts.get(counter, 0) + change
        values.append((time_ns, " ".join(map(str, counter)), counts[counter]))

    for time_ns, (stream, kind, item, pool) in enumerate(found):
        process = OWNERS[stream]
        if kind == KINDS["WAKE"]:
            continue
        before = items.pop((process, item), None)
        if before:
            count(before, -1, time_ns)
        if kind == POOL:
            items[process, item] = process, pool, "queued"
        elif kind == BEGIN and before:
            items[process, item] = *before[:2], "running"
        if counter := items.get((process, item)):
            count(counter, 1, time_ns)
    for counter, value in counts.items():
        if counter[0] == ended and value:
            count(counter, -value, LAST_NS)
    return values


def block(found: Sequence[Row], first: int) -> Records:
    stream, kind, item, pool = np.array(found, np.int64).reshape(-1, 4).T
    nothing = np.empty(0, np.int64)
    # rows in descending order of time, so that they are not in that of `order`
    return Records(
        np.arange(first, first + len(found), dtype=np.int64)[::-1].copy(),
        stream[::-1].astype(np.int32),
        kind[::-1].astype(np.uint8),
        item[::-1].astype(np.uint32),
        pool[::-1].astype(np.uint32),
        np.arange(len(found))[::-1].copy(),
        *(nothing, nothing, nothing),
        b"",
        frozenset(),
    )


@given(rows(), st.integers(0, 30), st.integers(0, 1))
def test_items_are_counted(found: list[Row], cut: int, ended: int) -> None:
    names: list[str] = []

    def add(process: int, name: str, series: str) -> int:
        names.append(f"{process} {name.removeprefix('pool ')} {series}")
        return len(names) - 1

    counters = PoolCounters(Trace("", "recording", iter(())), OWNERS, [None, None], [-1, -1], add)
    values: list[tuple[int, int, int]] = []
    for part, first in ((found[:cut], 0), (found[cut:], cut)):
        counters.feed(block(part, first), 0)
        if first:
            counters.finish(ended, LAST_NS)
        for batch in counters.take():
            columns = (batch.time_ns, batch.entity, batch.value)
            values += zip(*(column.tolist() for column in columns), strict=True)

    finished = ended if cut else -1
    made = [(time_ns, names[entity], value) for time_ns, entity, value in values]
    # values of several counters at the end have no order
    assert sorted(made) == sorted(defined(found, finished))
