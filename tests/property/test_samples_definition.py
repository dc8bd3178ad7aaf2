"""The samples of a recording are what a plain reading of its records says."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.readers.recording.merge import Records
from meantime.readers.recording.samples import SampledStacks, Sampling
from meantime.trace import Trace

PERIOD_NS = 100
SAMPLE, ON_CPU, TICK, NOT_ON_CPU = 40, 41, 42, 43


class Seen(NamedTuple):
    tid: int
    task: int
    ran_ns: int
    running: bool


class Tick(NamedTuple):
    skipped: int
    late_ns: int
    seen: list[Seen]


SEEN = st.builds(Seen, st.integers(1, 3), st.integers(0, 2), st.integers(0, 150), st.booleans())
TICKS = st.lists(
    st.builds(
        Tick,
        st.sampled_from([0, 0, 0, 1, 5]),
        st.integers(0, PERIOD_NS - 1),
        st.lists(SEEN, max_size=3),
    ),
    max_size=12,
)

Row = tuple[int, int, int, int]
Found = tuple[int, int, str, int, int]


def records(ticks: list[Tick]) -> list[Row]:
    """What a sampler writes: (time, kind, ident, aux)."""
    rows = []
    due_ns = 0
    for tick in ticks:
        due_ns += (tick.skipped + 1) * PERIOD_NS
        time_ns = due_ns + tick.late_ns
        rows.append((time_ns, TICK, tick.late_ns, tick.skipped))
        for seen in tick.seen:
            rows.append((time_ns, SAMPLE, seen.tid, 1))
            kind = ON_CPU if seen.running else NOT_ON_CPU
            rows.append((time_ns, kind, seen.task, seen.ran_ns))
    return rows


def definition(ticks: list[Tick]) -> tuple[list[Found], list[tuple[int, int]]]:
    """Samples (time, thread, event, weight, task), and what is lost, tick by tick."""
    found, lost = [], []
    unseen: dict[int, int] = {}
    before_ns: int | None = None
    due_ns = 0
    for tick in ticks:
        due_ns += (tick.skipped + 1) * PERIOD_NS
        time_ns = due_ns + tick.late_ns
        since_ns = due_ns - PERIOD_NS
        if before_ns is not None and before_ns > since_ns:
            since_ns = before_ns
        elif before_ns is not None and before_ns + 1 < since_ns:
            lost.append((before_ns + 1, since_ns))
        for seen in tick.seen:
            rest_ns = time_ns - since_ns - seen.ran_ns
            unseen[seen.tid] = unseen.get(seen.tid, 0) + seen.ran_ns
            if seen.running and unseen[seen.tid]:
                found.append((time_ns, seen.tid, "on-cpu", unseen.pop(seen.tid), seen.task))
            if rest_ns > 0:
                found.append((time_ns, seen.tid, "off-cpu", rest_ns, seen.task))
        before_ns = time_ns
    found += [(before_ns or 0, tid, "on-cpu", ns, 0) for tid, ns in unseen.items() if ns]
    return found, lost


def block(rows: list[Row]) -> Records:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    return Records(
        columns[:, 0].copy(),
        np.zeros(len(rows), np.int32),
        columns[:, 1].astype(np.uint8),
        columns[:, 2].astype(np.uint32),
        columns[:, 3].astype(np.uint32),
        np.arange(len(rows)),
        [],
    )


def read(rows: list[Row], cuts: list[int]) -> tuple[list[Found], Trace]:
    stacks = SampledStacks()
    stacks.add({1: "f"}, {1: (0, 1)})
    trace = Trace("", "recording", iter(()))
    sampling = Sampling(trace, [0], [PERIOD_NS], stacks)
    places = sorted({0, *(min(cut, len(rows)) for cut in cuts), len(rows)})
    for begin, end in pairwise(places):
        item = block(rows[begin:end])
        sampling.feed(item, item.time_ns)
    sampling.finish()
    entity_of = {(0, tid): tid for tid in (1, 2, 3)}
    found: list[Found] = []
    for batch in sampling.take(entity_of, lambda _, tid, task: f"{tid} {task}"):
        assert batch.name is not None
        found.extend(
            (
                int(batch.time_ns[row]),
                int(batch.thread[row]),
                trace.values[batch.event[row]],
                int(batch.weight[row]),
                int(trace.values[batch.name[row]].split()[1]),
            )
            for row in range(len(batch.time_ns))
        )
    return found, trace


@given(TICKS, st.lists(st.integers(0, 60), max_size=4))
def test_samples_and_what_was_missed_are_as_defined(ticks: list[Tick], cuts: list[int]) -> None:
    found, trace = read(records(ticks), cuts)

    expected, lost = definition(ticks)
    assert sorted(found) == sorted(expected)
    assert trace.lost == lost
    assert trace.anomalies["samples_skipped"] == sum(tick.skipped for tick in ticks)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=20))
def test_stacks_of_several_processes_share_a_table(rows: list[tuple[int, int]]) -> None:
    stacks = {
        number: (min(parent, number - 1), frame)
        for number, (parent, frame) in enumerate(rows, start=1)
    }
    frames = {number: f"f{number}" for number in range(1, 5)}
    both = SampledStacks()
    both.add(frames, stacks)
    both.add(frames, stacks)

    table = both.table()
    for number in stacks:
        expected: list[str] = []
        at = number
        while at:
            at, frame = stacks[at]
            expected.insert(0, frames[frame])
        for process in (0, 1):
            (row,) = both.rows(process, np.array([number])).tolist()
            assert table.frames_of(row) == expected
    assert both.rows(0, np.array([0, 10**6])).tolist() == [-1, -1]
