"""Switches between threads that a trace has recorded, as state changes of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import THREADS, thread_path
from meantime.providers.sched import THREAD_STATES, thread_states
from meantime.trace import LaneDeclaration, State, StateChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.trace import Trace

__all__ = ["state_changes"]


def state_changes(
    trace: Trace,
    switches: npt.NDArray[np.int64],
    names: Sequence[str],
    value_of: Callable[[str], int],
) -> StateChanges:
    """Return the states of threads, and add the threads and CPUs that are new to the trace.

    A running thread is tagged with its CPU. Stretches in which switches of a CPU were lost are
    added to what the trace lost.

    Args:
        trace: Where threads are looked up.
        switches: Rows of time, CPU, leaving thread, letter of its state, coming thread, its name.
        names: What those names are.
        value_of: Returns the code of a state's name.
    """
    time_ns, cpu, leaving, letter, coming, name = switches.T
    states = thread_states(time_ns, cpu, leaving, letter, coming)
    trace.lost.extend(states.lost)
    trace.anomalies.add("lost_switch", len(states.lost))
    called = {tid: names[code] for tid, code in zip(coming.tolist(), name.tolist(), strict=True)}
    tids = np.unique(states.tid)
    entity_of = np.array(_entities(trace, tids.tolist(), called), np.int32)
    cpus = np.unique(cpu)
    first_tag = len(trace.tags)
    trace.tags += [{"cpu": int(each)} for each in cpus]
    code_of = np.array([*map(value_of, states.names), -1], np.int32)
    met = {states.names[state] for state in np.unique(states.state).tolist() if state >= 0}
    ordered = [name for name in THREAD_STATES if name in met]
    legend = tuple(State(name, value) for value, name in enumerate(ordered))
    for pattern in ("Threads/*", "Processes/*/Threads/*"):
        trace.lanes.append(LaneDeclaration(pattern, entity_kind="Thread", states=legend))
    tag = np.where(states.cpu < 0, -1, np.searchsorted(cpus, states.cpu) + first_tag)
    return StateChanges(
        time_ns=states.time_ns,
        entity=entity_of[np.searchsorted(tids, states.tid)],
        state=code_of[states.state],  # -1, no state, is the last item
        tag=tag.astype(np.int32),
    )


def _entities(trace: Trace, tids: Sequence[int], called: Mapping[int, str]) -> list[int]:
    """Return the entity of each thread."""
    known = {
        path[-1]: entity for entity, path in enumerate(trace.paths) if path[-2:-1] == (THREADS,)
    }
    entities = []
    for tid in tids:
        if str(tid) not in known:
            known[str(tid)] = len(trace.paths)
            trace.paths.append(thread_path(tid))
            if tid in called:
                trace.names[known[str(tid)]] = called[tid]
        entities.append(known[str(tid)])
    return entities
