"""What CPUs' switches from thread to thread say: in which state each thread was, exactly.

A thread runs from the switch that brings it until the next one of that CPU, if that one takes it
off again. If another thread leaves there, switches in between were lost, and nothing is known of
the time: it is neither given to the thread nor to anybody else. The same holds at the end. A thread
that does not run is in the state in which it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.trace import LaneDeclaration, StateChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.trace import Trace

__all__ = ["RUNNING", "state_changes"]

RUNNING = "running"
# perf's letters, which are those of ps; + is perf's own for who would have gone on running.
_STATES = {
    "R": "runnable",
    "+": "preempted",
    "S": "sleeping",
    "D": "blocked",
    "I": "idle",
    "T": "stopped",
    "t": "traced",
    "X": "exited",
    "Z": "exited",
    "P": "parked",
}


def state_changes(
    trace: Trace,
    switches: npt.NDArray[np.int64],
    names: Sequence[str],
    value_of: Callable[[str], int],
) -> StateChanges:
    """Return the states of threads, and add the threads and CPUs that are new to the trace.

    The idle task, thread 0 of every CPU, has no states. A running thread is tagged with its CPU.
    Stretches in which switches of a CPU were lost are added to what the trace lost.

    Args:
        trace: Where threads are looked up.
        switches: Rows of time, CPU, leaving thread, letter of its state, coming thread, its name.
        names: What those names are.
        value_of: Gives the code of a state's name.
    """
    order = np.lexsort((switches[:, 0], switches[:, 1]))
    time_ns, cpu, leaving, letter, coming, name = switches[order].T
    follows = np.zeros(len(order), np.bool_)
    of_one_cpu = cpu[1:] == cpu[:-1]
    follows[:-1] = of_one_cpu & (leaving[1:] == coming[:-1])
    lost = np.flatnonzero(of_one_cpu & ~follows[:-1])
    trace.lost.extend(zip(time_ns[lost].tolist(), time_ns[lost + 1].tolist(), strict=True))
    trace.anomalies.add("lost_switch", len(lost))
    called = {tid: names[code] for tid, code in zip(coming.tolist(), name.tolist(), strict=True)}
    tids = np.unique(switches[:, [2, 4]])
    entity_of = np.array(_entities(trace, tids.tolist(), called), np.int64)
    cpus, at = np.unique(cpu, return_inverse=True)
    tag_of = len(trace.tags) + at
    trace.tags += [{"cpu": int(each)} for each in cpus]
    letters, which = np.unique(letter, return_inverse=True)
    state_of = np.array([value_of(_state(chr(each))) for each in letters], np.int64)
    running = value_of(RUNNING)
    # Of one switch the leaving thread first: it may be the coming one of another CPU.
    changes = np.empty((len(order), 2, 4), np.int64)
    changes[:, :, 0] = time_ns[:, None]
    changes[:, 0, 1], changes[:, 1, 1] = (
        entity_of[np.searchsorted(tids, tid)] for tid in (leaving, coming)
    )
    changes[:, 0, 2], changes[:, 1, 2] = state_of[which], np.where(follows, running, -1)
    changes[:, 0, 3], changes[:, 1, 3] = -1, np.where(follows, tag_of, -1)
    rows = changes.reshape(-1, 4)
    rows = rows[rows[:, 1] >= 0]
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    for pattern in ("Threads/*", "Processes/*/Threads/*"):
        trace.lanes.append(LaneDeclaration(pattern, entity_kind="Thread"))
    return StateChanges(
        time_ns=rows[:, 0].copy(),
        entity=rows[:, 1].astype(np.int32),
        state=rows[:, 2].astype(np.int32),
        tag=rows[:, 3].astype(np.int32),
    )


def _state(letter: str) -> str:
    return _STATES.get(letter, letter)


def _entities(trace: Trace, tids: Sequence[int], called: Mapping[int, str]) -> list[int]:
    """Return the entity of each thread, -1 of the idle task."""
    known = {
        path[-1]: entity for entity, path in enumerate(trace.paths) if path[-2:-1] == ("Threads",)
    }
    entities = []
    for tid in tids:
        if tid == 0:
            entities.append(-1)
            continue
        if str(tid) not in known:
            known[str(tid)] = len(trace.paths)
            trace.paths.append(("Threads", str(tid)))
            if tid in called:
                trace.names[known[str(tid)]] = called[tid]
        entities.append(known[str(tid)])
    return entities
