"""The samples of a recording are what a plain reading of its records says."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.model.trace import Trace
from meantime.readers.recording.merge import Records
from meantime.readers.recording.samples import SampledStacks, Sampling

PERIOD_NS = 100
SAMPLE, ON_CPU, TICK, NOT_ON_CPU = 40, 41, 42, 43


class Seen(NamedTuple):
    tid: int
    task: int
    ran_ns: int
    running: bool
    stall_ns: int


class Tick(NamedTuple):
    skipped: int
    late_ns: int
    seen: list[Seen]


STALL = st.sampled_from([0, 0, 0, 0, 1, 100, 101, 250])
SEEN = st.builds(
    Seen, st.integers(1, 3), st.integers(0, 2), st.integers(0, 150), st.booleans(), STALL
)
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
    rows: list[Row] = []
    due_ns = time_ns = 0
    for tick in ticks:
        skipped = tick.skipped
        due_ns += (skipped + 1) * PERIOD_NS
        while due_ns + tick.late_ns < time_ns:
            due_ns += PERIOD_NS
            skipped += 1
        time_ns = due_ns + tick.late_ns
        rows.append((time_ns, TICK, tick.late_ns, skipped))
        for seen in tick.seen:
            time_ns += seen.stall_ns
            rows.append((time_ns, SAMPLE, seen.tid, 1))
            kind = ON_CPU if seen.running else NOT_ON_CPU
            rows.append((time_ns, kind, seen.task, seen.ran_ns))
    return rows


def definition(rows: list[Row]) -> tuple[list[Found], list[tuple[int, int]]]:
    """Samples (time, thread, event, weight, task), and what is lost, record by record."""
    found, lost = [], []
    unseen: dict[int, int] = {}
    ran_ns: dict[int, int] = {}
    tick_ns: int | None = None
    interval_ns = last_ns = tid = 0
    for time_ns, kind, ident, aux in rows:
        if kind == TICK:
            since_ns = time_ns - ident - PERIOD_NS
            if tick_ns is not None and last_ns + 1 < since_ns:
                lost.append((last_ns + 1, since_ns))
            interval_ns = time_ns - max(since_ns, since_ns if tick_ns is None else tick_ns)
            tick_ns = time_ns
        elif kind == SAMPLE:
            tid = ident
            if time_ns - last_ns > PERIOD_NS:
                lost.append((last_ns + 1, time_ns))
        else:
            unseen[tid] = unseen.get(tid, 0) + aux
            if aux:
                ran_ns[tid] = time_ns
            if kind == ON_CPU and unseen[tid]:
                found.append((time_ns, tid, "on-cpu", unseen.pop(tid), ident))
            if interval_ns > aux:
                found.append((time_ns, tid, "off-cpu", interval_ns - aux, ident))
        last_ns = time_ns
    found += [(ran_ns[tid], tid, "on-cpu", ns, 0) for tid, ns in unseen.items() if ns]
    return found, lost


def block(rows: list[Row]) -> Records:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    nothing = np.empty(0, np.int64)
    return Records(
        columns[:, 0].copy(),
        np.zeros(len(rows), np.int32),
        columns[:, 1].astype(np.uint8),
        columns[:, 2].astype(np.uint32),
        columns[:, 3].astype(np.uint32),
        np.arange(len(rows)),
        *(nothing, nothing, nothing),
        b"",
        frozenset(),
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

    expected, lost = definition(records(ticks))
    assert sorted(found) == sorted(expected)
    assert sorted(trace.lost) == sorted(lost)
    skipped = sum(aux for _, kind, _, aux in records(ticks) if kind == TICK)
    assert trace.anomalies["samples_skipped"] == skipped


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
