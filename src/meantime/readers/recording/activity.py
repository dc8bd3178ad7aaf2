"""Where the time of a recording went, group by group: sums over its state changes, no history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.tasks import STATES

if TYPE_CHECKING:
    from meantime.columns import Int64s
    from meantime.trace import StateChanges, Trace

__all__ = ["Activity", "Group"]

_RUNNING = STATES.index("running")


class Group(NamedTuple):
    """What the tasks of one spawn site, or one loop or thread, did together.

    Attributes:
        name: The path without the task's number: `("Tasks", "handle (app.py:12)")`.
        members: How many attributes there were.
        now: How many are in each state, of those that are in one.
        state_ns: Time in each state, summed.
        longest_ns: The longest time that one of them ran without a pause.
    """

    name: tuple[str, ...]
    members: int
    now: dict[str, int]
    state_ns: dict[str, int]
    longest_ns: int


class Activity:
    """Sums of a recording's state changes, batch by batch.

    Args:
        trace: The recording's trace, whose tables name what is in the batches.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._groups: dict[tuple[str, ...], int] = {}
        self._group_of = np.empty(0, np.int64)
        self._since_ns = np.empty(0, np.int64)
        self._state = np.empty(0, np.int64)
        self._sums = np.zeros((0, len(STATES)), np.int64)
        self._longest = np.zeros(0, np.int64)
        self.changes = 0

    def add(self, batch: StateChanges) -> None:
        """Add a batch of the trace."""
        self._name_new()
        self.changes += len(batch.time_ns)
        order = np.argsort(batch.entity, kind="stable")
        entity = batch.entity[order].astype(np.int64)
        time_ns, state = batch.time_ns[order], batch.state[order].astype(np.int64)
        # a task that runs on with another tag has not paused
        changed = state != self._before(entity, state, self._state)
        entity, time_ns, state = entity[changed], time_ns[changed], state[changed]
        if not len(entity):
            return
        before = self._before(entity, state, self._state)
        before_ns = self._before(entity, time_ns, self._since_ns)
        last = np.append(np.flatnonzero(np.diff(entity)), len(entity) - 1)
        self._sum(entity, before, time_ns - before_ns)
        self._since_ns[entity[last]] = time_ns[last]
        self._state[entity[last]] = state[last]

    @staticmethod
    def _before(entity: Int64s, column: Int64s, carried: Int64s) -> Int64s:
        """Return what each row's entity had before it; rows are sorted by entity."""
        before = np.roll(column, 1)
        first = np.flatnonzero(np.diff(entity, prepend=-1))
        before[first] = carried[entity[first]]
        return before

    def groups(self) -> list[Group]:
        """Return the groups, the ones that ran longest first."""
        group = self._group_of
        counts = np.zeros_like(self._sums)
        there = self._state >= 0
        np.add.at(counts, (group[there], self._state[there]), 1)
        members = np.bincount(group, minlength=len(self._groups))
        found = [
            Group(
                name,
                int(members[number]),
                _named(counts[number]),
                _named(self._sums[number]),
                int(self._longest[number]),
            )
            for name, number in self._groups.items()
        ]
        return sorted(found, key=lambda each: (-each.state_ns.get("running", 0), each.name))

    def _name_new(self) -> None:
        paths = self._trace.paths[len(self._group_of) :]
        if not paths:
            return
        numbers = [self._groups.setdefault(path[:2], len(self._groups)) for path in paths]
        more = len(self._groups) - len(self._sums)
        self._group_of = np.append(self._group_of, numbers)
        self._since_ns = np.append(self._since_ns, np.zeros(len(paths), np.int64))
        self._state = np.append(self._state, np.full(len(paths), -1))
        self._sums = np.vstack([self._sums, np.zeros((more, len(STATES)), np.int64)])
        self._longest = np.append(self._longest, np.zeros(more, np.int64))

    def _sum(self, entity: Int64s, state: Int64s, duration_ns: Int64s) -> None:
        there = state >= 0
        group = self._group_of[entity[there]]
        np.add.at(self._sums, (group, state[there]), duration_ns[there])
        ran = there & (state == _RUNNING)
        np.maximum.at(self._longest, self._group_of[entity[ran]], duration_ns[ran])


def _named(row: Int64s) -> dict[str, int]:
    return {STATES[state]: int(row[state]) for state in np.flatnonzero(row).tolist()}
