"""The states of threads that only samples show: `on-cpu`, or `idle`.

A sample of a thread shows that it was on a CPU, or that its profiler found it idle, from then on
for as long as the sample represents:

- A sample of wall time whose duration the file gives represents that.
- Any other sample represents the sampling interval, which is taken from the data. A profiler of
  wall time samples whatever a thread does, so the next sample may be late: up to three missing ones
  are bridged. One of CPU time samples only what runs, so only a delay of half an interval is.

What is further from a sample is unknown: the thread has no state then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.ingest import build
from meantime.model.columns import distinct
from meantime.model.trace import LaneDeclaration, State, StateChanges, Trace
from meantime.query.idle_samples import are_idle

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.model.columns import Int64s

__all__ = ["SAMPLED_STATES", "Stretches", "has_sampled_states", "stretches", "with_sampled_states"]

SAMPLED_STATES = ("on-cpu", "idle")
_ON_CPU, _IDLE = range(2)
_WALL = "wall"
# The two events of a recording: they divide the time before a sample, not its place.
_DIVIDED = {"on-cpu", "off-cpu"}
# Software events that perf counts, of which each sample is one: neither a clock nor a counter.
_COUNTED = {
    "alignment-faults",
    "bpf-output",
    "context-switches",
    "cpu-migrations",
    "cs",
    "dummy",
    "emulation-faults",
    "faults",
    "major-faults",
    "migrations",
    "minor-faults",
    "page-faults",
}
# The event of rows of a table, which happen whether or not a thread runs.
_ROWS = {"event"}
# What profilers put in place of a stack when a thread has nothing to do.
_IDLE_FRAMES = {"(idle)", "[idle]"}
# How much later than expected the next sample may be, in halves of the interval.
_LATE_WALL, _LATE_CPU = 6, 1


class Stretches(NamedTuple):
    """Ranges of time in which threads were in a state, by thread, in order of time.

    Attributes:
        thread: The thread of each.
        start_ns: Where it begins.
        end_ns: Where it ends; the next one of the thread begins there or later.
        state: Index into `SAMPLED_STATES`.
    """

    thread: Int64s
    start_ns: Int64s
    end_ns: Int64s
    state: Int64s


def with_sampled_states(history: History) -> History:
    """Return the history or, if nothing in it can be drawn over time, one of sampled states.

    >>> from meantime.testing import history_from_samples
    >>> rows = [(0, "t", ["f"], 1), (10, "t", ["f"], 1), (20, "t", ["(idle)"], 1)]
    >>> sampled = with_sampled_states(history_from_samples([*rows, (90, "t", ["f"], 1)]))
    >>> states = sampled.intervals("Processes/1/Threads/t")
    >>> states.value.to_list(), states.end_ns.tolist()
    (['on-cpu', 'idle', None, 'on-cpu'], [20, 30, 90, 100])
    """
    if not has_sampled_states(history):
        return history
    found = stretches(history)
    return history if found is None else _history_of(history, found)


def has_sampled_states(history: History) -> bool:
    """Return whether samples are all that shows what threads did over time."""
    samples = history.samples()
    if not len(samples):
        return False  # before `lanes`, which take time to derive where there are many threads
    drawn = any(lane.declaration.kind != "counter" and len(lane.quarks) for lane in history.lanes)
    return not drawn and bool(_is_sampled(samples).any())


def stretches(history: History) -> Stretches | None:
    """Return what the samples of a history show; None if they have no interval."""
    samples = history.samples()
    is_idle = _is_idle(history, samples)[(rows := np.flatnonzero(_is_sampled(samples)))]
    order = np.lexsort((samples.time_ns[rows], samples.thread[rows]))
    rows, state = rows[order], np.where(is_idle[order], _IDLE, _ON_CPU)
    thread, time_ns = samples.thread[rows].astype(np.int64), samples.time_ns[rows]
    is_last = np.append(thread[1:] != thread[:-1], True)
    is_wall = _is_called(samples, {_WALL})[rows]
    length = _given(samples.weight[rows], is_last, is_wall)
    is_given = length >= 0
    interval = np.zeros(len(rows), np.int64)
    if not is_given.all():
        interval_ns = _interval_ns(samples, thread, time_ns)
        if interval_ns is None:
            return None
        interval[~is_given] = interval_ns
        length = np.where(is_given, length, interval_ns)
    following = np.append(time_ns[1:], 0)
    distance = np.where(is_last, length, following - time_ns)
    late = np.where(is_wall, _LATE_WALL, _LATE_CPU) * interval // 2
    reached = distance - length <= late
    end_ns = time_ns + np.where(reached, distance, np.minimum(length, distance))
    return _merged(Stretches(thread, time_ns, end_ns, state.astype(np.int64)))


def _is_called(samples: SampleTable, names: set[str]) -> npt.NDArray[np.bool_]:
    """Return which samples are of these events."""
    event = samples.event
    return np.isin(event.codes, [code for code, name in enumerate(event.names) if name in names])


def _is_sampled(samples: SampleTable) -> npt.NDArray[np.bool_]:
    """Return which samples a clock or a counter triggered, in contrast to tracepoints."""
    from meantime.query.offsets.sampling_interval import is_tracepoint  # noqa: PLC0415 - 30 ms, and few histories have samples

    names = {
        name
        for name in samples.event.names
        if not is_tracepoint(name) and name.partition(":")[0] not in _DIVIDED | _COUNTED | _ROWS
    }
    return _is_called(samples, names)


def _is_idle(history: History, samples: SampleTable) -> npt.NDArray[np.bool_]:
    """Return which samples show that there was nothing to do."""
    table = samples.stacks
    named = np.array([name.lower() in _IDLE_FRAMES for name in table.frames], np.bool_)
    # the last is for samples without a stack
    idle = np.append(named[table.frame] if len(table) else np.zeros(0, np.bool_), False)
    found: npt.NDArray[np.bool_] = idle[samples.stack] | are_idle(history, samples)
    return found


def _given(
    weight: Int64s, is_last: npt.NDArray[np.bool_], is_wall: npt.NDArray[np.bool_]
) -> Int64s:
    """Return the durations that the file gives; -1 where it gives none."""
    # a reader that computes weights of wall time as distances has none for a thread's last sample
    last = np.flatnonzero(is_last)
    counts = np.diff(last, prepend=-1)
    given = np.repeat(weight[last] > 0, counts) & is_wall
    return np.where(given, np.maximum(weight, 0), -1)


def _interval_ns(samples: SampleTable, thread: Int64s, time_ns: Int64s) -> int | None:
    """Return the sampling interval: that of a clock, or the median distance of neighbours."""
    from meantime.query.offsets.sampling_interval import (  # noqa: PLC0415 - as above
        clock_interval_ns,
        sampling_interval_ns,
    )

    found = sampling_interval_ns(samples)
    if found is None:
        events = {samples.event.names[code] for code in distinct(samples.event.codes).tolist()}
        found = clock_interval_ns(samples.weight, events)
    if found is not None:
        return found
    distance = np.diff(time_ns)[thread[1:] == thread[:-1]]
    distance = distance[distance > 0]
    return int(np.median(distance)) if len(distance) else None


def _merged(found: Stretches) -> Stretches:
    """Return the stretches, those of one state that touch as one, without empty ones."""
    kept = found.end_ns > found.start_ns
    thread, start_ns, end_ns, state = (column[kept] for column in found)
    if not len(thread):
        return Stretches(thread, start_ns, end_ns, state)
    touches = (thread[1:] == thread[:-1]) & (end_ns[:-1] == start_ns[1:])
    begins = np.append(True, ~(touches & (state[1:] == state[:-1])))
    ends = np.append(begins[1:], True)
    return Stretches(thread[begins], start_ns[begins], end_ns[ends], state[begins])


def _history_of(history: History, found: Stretches) -> History:
    """Return the history of stretches, whose threads are those of another history."""
    known = history.metadata
    trace = Trace(known.source, known.format, clock=known.clock, title=known.title)
    quarks = distinct(found.thread)
    trace.paths.extend(map(history.attributes.path, quarks.tolist()))
    entity = {quark: code for code, quark in enumerate(quarks.tolist())}
    trace.names = {entity[quark]: name for quark, name in known.names.items() if quark in entity}
    begin_ns, end_ns = history.bounds
    trace.bounds = (begin_ns, max(end_ns, int(found.end_ns.max(initial=end_ns))))
    trace.lost, trace.facts, trace.records = known.lost, known.facts, known.records
    trace.anomalies.update(history.anomalies)
    met = [SAMPLED_STATES[state] for state in distinct(found.state).tolist()]
    trace.values = list(SAMPLED_STATES)
    legend = tuple(State(name, value) for value, name in enumerate(met))
    patterns = {"Threads/*": False, "Processes/*/Threads/*": False}
    for path in trace.paths:
        patterns["Threads/*" if len(path) == 2 else "Processes/*/Threads/*"] = True
    trace.lanes = [
        LaneDeclaration(pattern, entity_kind="Thread", states=legend)
        for pattern, is_used in patterns.items()
        if is_used
    ]
    trace.batches = iter([_changes(found, quarks, trace.bounds[1])])
    return build(trace)


def _changes(found: Stretches, quarks: Int64s, end_ns: int) -> StateChanges:
    """Return the changes at both ends of stretches, in order of time."""
    thread, start_ns, until_ns, state = found
    follows = np.append((thread[1:] == thread[:-1]) & (until_ns[:-1] == start_ns[1:]), False)
    # nothing changes where the history ends, or where the next stretch begins
    ending = ~follows & (until_ns < end_ns)
    time_ns = np.concatenate([start_ns, until_ns[ending]])
    entity = np.searchsorted(quarks, np.concatenate([thread, thread[ending]]))
    code = np.concatenate([state, np.full(int(ending.sum()), -1, np.int64)])
    order = np.argsort(time_ns, kind="stable")
    return StateChanges(
        time_ns=time_ns[order],
        entity=entity[order].astype(np.int32),
        state=code[order].astype(np.int32),
        tag=np.full(len(order), -1, np.int32),
    )
