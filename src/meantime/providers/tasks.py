"""The states of a recorded program's tasks, event loops, pool threads and other threads.

This module defines which state begins with which record, and `waits` the reasons for waiting. The
kernel that processes the records tracks which task or thread each of them is about; it defines no
states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import (
    CALLBACK,
    LAG,
    LOOP,
    REQUEST,
    TASK,
    TEST,
    THREAD,
    WORKER,
    TaskStates,
)
from meantime.model.trace import LaneDeclaration, State
from meantime.providers.tests import TESTS

if TYPE_CHECKING:
    from meantime.model.columns import Int32s

__all__ = [
    "FLOWS",
    "GROUPS",
    "LAGS",
    "OUTCOME_NS",
    "STATES",
    "flow_codes",
    "lane_of",
    "task_states",
]

STATES = (
    "spawned",
    "runnable",
    "running",
    "cancelling",
    "completed",
    "failed",
    "cancelled",
    "dropped",
    "parked",
    "stopped",
    "idle",
    "gil-wait",
    "gil-handoff",
    "lock-wait",
    "polling",
    "lost",
    "waiting",
    "waiting:sleep",
    "waiting:lock",
    "waiting:semaphore",
    "waiting:event",
    "waiting:condition",
    "waiting:queue",
    "waiting:io-read",
    "waiting:io-write",
    "waiting:thread",
    "waiting:children",
    "waiting:tasks",
    "waiting:future",
    "collector-stall",
    "possibly-runnable",
    "cpu-wait",
    "waiting:pool",
    "sleeping",
    "io-wait",
    "child-wait",
    # of a thread that did not run, for a reason that is not recorded
    "unrecorded-wait",
)

# the state that begins with a record; a waiting task's depends on the reason, if that is known
_STATE_OF = {
    "SPAWN": "spawned",
    "START": "running",
    "THROW": "running",
    "WAIT": "waiting",
    "CANCELLING": "cancelling",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "DROPPED": "dropped",
    "WAKE": "runnable",
    "LOOP_BEGIN": "running",
    "LOOP_END": "stopped",
    "PARK": "parked",
    "UNPARK": "running",
    "ITEM_BEGIN": "running",
    "ITEM_END": "idle",
    "GIL_WAIT": "gil-wait",
    "GIL_HANDOFF": "gil-handoff",
    "LOCK_WAIT": "lock-wait",
    "POLL": "polling",
    "RESUMED": "running",
    "THREAD_BEGIN": "running",
    "SLEEP": "sleeping",
    "IO_WAIT": "io-wait",
    "CHILD_WAIT": "child-wait",
    # of a task that waits for an item: until a thread begins it, and until it ends
    "SUBMIT": "waiting:pool",
    "ITEM_AWAITED": "waiting:thread",
    "THREAD_END": "stopped",
    "FLUSH": "collector-stall",
    "LOST": "lost",
    "DUE": "possibly-runnable",
    "CPU_WAIT": "cpu-wait",
    "ASLEEP": "sleeping",
    "ASLEEP_OR_LATE": "unrecorded-wait",
    "OFF_CPU": "unrecorded-wait",
}
# in these a task waits for events, which a busy loop finds later than they happen
_EVENT_WAITS = ("waiting:io-read", "waiting:io-write")
# in these it waits for tasks to end, of asyncio or of a nursery of trio
_TASK_WAITS = ("waiting:tasks", "waiting:children")

# a task's outcome is a state, so that it can be counted and drawn; it needs a length for that
OUTCOME_NS = 1
# a pool thread sets its result before its work item ends: how long before, at most
_RESULT_LEAD_NS = 10_000_000

# flows, by the kind of the record that causes them
_FLOW_OF = {"SPAWN": "spawn", "WAKE": "wake", "SUBMIT": "submit", "ITEM_END": "result"}
FLOWS = tuple(_FLOW_OF.values())
_FLOW_KINDS = np.full(256, -1, np.int32)
_FLOW_KINDS[[KINDS[kind] for kind in _FLOW_OF]] = np.arange(len(_FLOW_OF))

# the first path element of entities, by the kernel's number for their kind, in the order of drawing
LAGS = "Loop lag"
GROUPS = {
    TEST: "Tests",
    LOOP: "Loops",
    LAG: LAGS,
    REQUEST: "Requests",
    WORKER: "Workers",
    THREAD: "Threads",
    CALLBACK: "Callbacks",
    TASK: "Tasks",
}

# those of state_classes.py, for the states that have a class there
_COLORS = {
    "spawned": "#b9a796",
    "runnable": "#f6b324",
    "possibly-runnable": "#f2d3a0",
    "running": "#1d8759",
    "cancelling": "#841c58",
    "completed": "#5c6b7a",
    "failed": "#841c58",
    "cancelled": "#841c58",
    "dropped": "#841c58",
    "parked": "#ebedf1",
    "stopped": "#8a94a0",
    "idle": "#ebedf1",
    "gil-wait": "#9952ba",
    "gil-handoff": "#f08a5d",
    "cpu-wait": "#f6b324",
    "lock-wait": "#9952ba",
    "polling": "#ebedf1",
    "lost": "#000000",
    "collector-stall": "#37474f",
    "waiting": "#a3cae3",
    "waiting:sleep": "#d1d5dd",
    "waiting:lock": "#9952ba",
    "waiting:semaphore": "#9952ba",
    "waiting:event": "#a3cae3",
    "waiting:condition": "#9952ba",
    "waiting:queue": "#a3cae3",
    "waiting:io-read": "#659cd3",
    "waiting:io-write": "#659cd3",
    "waiting:thread": "#76bec1",
    "waiting:children": "#adb0f4",
    "waiting:tasks": "#adb0f4",
    "waiting:future": "#a3cae3",
    "waiting:pool": "#a3cae3",
    "sleeping": "#d1d5dd",
    "io-wait": "#659cd3",
    "child-wait": "#adb0f4",
    "unrecorded-wait": "#c7a27c",
}

# the states of a thread, alike on its own lane, its loop's and its pool's
_THREAD_STATES = (
    "running",
    "cpu-wait",
    "gil-wait",
    "gil-handoff",
    "lock-wait",
    "polling",
    "sleeping",
    "io-wait",
    "child-wait",
    "unrecorded-wait",
    "stopped",
    "collector-stall",
    "lost",
)

_LANES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "Tasks": (
        "Task",
        "Tasks",
        (
            "spawned",
            "possibly-runnable",
            "runnable",
            "running",
            "cancelling",
            "completed",
            "failed",
            "cancelled",
            "dropped",
            "lost",
        ),
    ),
    "Loops": ("Loop", "Event loops", (*_THREAD_STATES, "parked")),
    "Workers": ("Worker", "Pool threads", (*_THREAD_STATES, "idle")),
    "Threads": ("Thread", "Threads", (*_THREAD_STATES, "parked", "idle")),
    "Callbacks": ("Callback", "Callbacks", ("running",)),
}


def task_states() -> TaskStates:
    """Return a new state machine for the records of a recording."""
    state_of = np.full(256, -1, np.int8)
    for kind, state in _STATE_OF.items():
        state_of[KINDS[kind]] = STATES.index(state)
    is_event_wait, is_task_wait = np.zeros((2, 128), np.int8)
    is_event_wait[[STATES.index(state) for state in _EVENT_WAITS]] = 1
    is_task_wait[[STATES.index(state) for state in _TASK_WAITS]] = 1
    return TaskStates(
        state_of,
        is_event_wait,
        is_task_wait,
        outcome_ns=OUTCOME_NS,
        result_lead_ns=_RESULT_LEAD_NS,
    )


def flow_codes(kinds: Int32s) -> Int32s:
    """Return the index in `FLOWS` of flows that records of these kinds caused."""
    return _FLOW_KINDS[kinds]


def lane_of(group: str) -> LaneDeclaration:
    """Return the lane of a group of `GROUPS`; requests have the states of the tasks they are."""
    if group == LAGS:
        return LaneDeclaration(f"{LAGS}/*", kind="counter", label=LAGS, unit="ns")
    if group == "Tests":
        return TESTS
    is_short = group in {"Tasks", "Requests", "Callbacks"}
    kind, label, names = _LANES["Tasks" if group == "Requests" else group]
    if group == "Requests":
        kind, label = "Request", group
    states = tuple(
        State(name, number, _COLORS[name])
        for number, name in enumerate(STATES)
        if name in names or ("spawned" in names and name.startswith("waiting"))
    )
    pattern = f"{group}/*/*" if is_short else f"{group}/*"
    return LaneDeclaration(
        pattern, entity_kind=kind, label=label, states=states, short_lived=is_short
    )
