"""What can limit a recorded program: each detector once, for findings and for conclusions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.query.explain.lanes import TimeClass
from meantime.query.findings.blocks import blocking_steps
from meantime.query.findings.loops import drifting_timers, full_loops
from meantime.query.findings.polls import long_polls
from meantime.query.findings.queues import (
    busy_polling,
    contention,
    full_pools,
    gil_contention,
    stuck_tasks,
    thread_gil,
    thread_locks,
)
from meantime.query.findings.tasks import (
    attempts,
    cancelled_tasks,
    destroyed_tasks,
    failing_tasks,
    leaking_tasks,
    repeated_waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.query.findings.finding import Finding
    from meantime.query.scope import Scope

__all__ = ["EVENT_LOOP", "FULL_LOOP", "LIMITS", "WORKERS", "WORKER_LIMITS", "Limit"]

EVENT_LOOP, WORKERS = "event loop", "worker"
FULL_LOOP = "loop.full"


class Limit(NamedTuple):
    """A limit of a program, and which time of its tasks would be saved without it.

    Attributes:
        id: The id of the conclusion.
        detect: Yields findings, of which the one that lost most is the conclusion.
        time_class: The class of the time that tasks would save; None if that is not known.
        label: Its label.
    """

    id: str
    detect: Callable[[Scope], Iterator[Finding]]
    time_class: TimeClass | None
    label: str


LIMITS: tuple[Limit, ...] = (
    Limit(FULL_LOOP, full_loops, TimeClass.READY, EVENT_LOOP),
    Limit("loop.polled", busy_polling, TimeClass.READY, EVENT_LOOP),
    Limit("loop.late", drifting_timers, TimeClass.READY, EVENT_LOOP),
    Limit("loop.blocked", blocking_steps, TimeClass.READY, EVENT_LOOP),
    Limit("lock.contention", contention, TimeClass.WAIT, "lock"),
    Limit("lock.threads", thread_locks, TimeClass.WAIT, "lock"),
    Limit("lock.stuck", stuck_tasks, TimeClass.WAIT, "lock"),
    Limit("pool.full", full_pools, TimeClass.WAIT, "pool"),
    Limit("gil.contention", gil_contention, TimeClass.READY, EVENT_LOOP),
    Limit("gil.threads", thread_gil, TimeClass.READY, EVENT_LOOP),
    Limit("tasks.leaking", leaking_tasks, None, ""),
    Limit("tasks.cancelled", cancelled_tasks, None, ""),
    Limit("tasks.destroyed", destroyed_tasks, None, ""),
    Limit("tasks.failed", failing_tasks, None, ""),
    Limit("tasks.repeated_waits", repeated_waits, None, ""),
    Limit("tasks.attempts", attempts, None, ""),
)
_LONG_POLLS = Limit("tasks.long_polls", long_polls, TimeClass.READY, WORKERS)
# Where workers take tasks from each other, there is no loop to wait for.
WORKER_LIMITS = (_LONG_POLLS, *(each for each in LIMITS if each.time_class is None))
