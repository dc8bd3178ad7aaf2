"""Selections of spans, compared with what every span says by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels.span_search import TimeIndex
from meantime.testing import history_from_spans

TIMES = st.integers(0, 60)


class Range(NamedTuple):
    start_ns: int | None
    end_ns: int | None


@st.composite
def recorded(draw: st.DrawFn) -> dict[str, list[tuple[str, int, int]]]:
    """Draw the spans of some threads: nested, touching, empty, and partly overlapping."""
    spans = st.tuples(st.sampled_from("abc"), TIMES, st.sampled_from([0, 0, 1, 2, 5, 30]))
    threads = draw(st.dictionaries(st.sampled_from("vwxyz"), st.lists(spans, max_size=40)))
    return {
        thread: [(name, start, start + length) for name, start, length in found]
        for thread, found in threads.items()
    }


def overlaps(start_ns: int, end_ns: int, asked: Range) -> bool:
    """The definition: it is open at some time of the range, or it is empty and inside."""
    from_ns, to_ns = asked.start_ns, asked.end_ns
    if to_ns is not None and start_ns >= to_ns:
        return False
    return from_ns is None or end_ns > from_ns or (start_ns == end_ns and start_ns >= from_ns)


@given(
    recorded(),
    st.builds(Range, st.none() | TIMES, st.none() | TIMES),
    st.none() | st.lists(st.integers(0, 4)),
)
def test_a_selection_has_the_spans_that_overlap_and_their_numbers(
    threads: dict[str, list[tuple[str, int, int]]], asked: Range, chosen: list[int] | None
) -> None:
    table = history_from_spans(threads).spans()
    quarks = None
    if chosen is not None:
        quarks = [quark for i, quark in enumerate(table.threads.tolist()) if i in chosen]

    part = table.select(quarks, start_ns=asked.start_ns, end_ns=asked.end_ns)

    kept = [
        row
        for row in range(len(table))
        if (quarks is None or table.thread_at(row) in quarks)
        and overlaps(int(table.start_ns[row]), int(table.end_ns[row]), asked)
    ]
    parents = []
    for row in kept:
        above = int(table.parent[row])
        while above >= 0 and above not in kept:
            above = int(table.parent[above])
        parents.append(above)
    assert part.rows.tolist() == table.rows[kept].tolist()
    assert sorted(table.rows.tolist()) == list(range(len(table)))
    assert part.thread.tolist() == [table.thread_at(row) for row in kept]
    assert part.parent.tolist() == [kept.index(row) if row >= 0 else -1 for row in parents]
    numbers = table.rows.tolist()
    assert part.columns()["parent"].tolist() == [  # type: ignore[union-attr] # a masked array
        numbers[row] if row >= 0 else None for row in parents
    ]
    for name in ("start_ns", "end_ns", "depth", "lane", "flags"):
        assert getattr(part, name).tolist() == getattr(table, name)[kept].tolist()
    assert part.name.to_list() == [table.name[row] for row in kept]
    again = part.select(start_ns=20, end_ns=30)
    assert again.rows.tolist() == [
        numbers[row]
        for row in kept
        if overlaps(int(table.start_ns[row]), int(table.end_ns[row]), Range(20, 30))
    ]


@given(st.data())
def test_an_index_of_several_levels_finds_the_same_spans(data: st.DataObject) -> None:
    seed, count = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 20_000))
    random = np.random.default_rng(seed)
    start_ns = np.sort(random.integers(0, 10**6, count))
    end_ns = start_ns + random.choice([0, 1, 50, 10**5], count, p=[0.1, 0.4, 0.49, 0.01])
    edges = np.sort(random.integers(0, count + 1, 4)).astype(np.int64)
    low, high = sorted(random.integers(-1, 10**6 + 2, 2).tolist())

    index = TimeIndex(start_ns, end_ns)
    found = index.overlapping(edges[::2].copy(), edges[1::2].copy(), low, high)

    inside = np.zeros(count, np.bool_)
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        inside[first:last] = True
    expected = inside & (start_ns < high) & ((end_ns > low) | (start_ns >= low))
    assert found.tolist() == np.flatnonzero(expected).tolist()
