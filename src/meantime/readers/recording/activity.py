"""Sums of a recording's states per group, made from its state changes without a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from meantime.model.columns import Interner
from meantime.providers.tasks import LAGS, STATES

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = ["Activity", "Group"]

_RUNNING = STATES.index("running")
_Scalar = TypeVar("_Scalar", bound=np.generic)


class Group(NamedTuple):
    """The activity of the tasks of one spawn site, or of one loop or thread.

    Attributes:
        name: The path without the task's number: `("Tasks", "handle (app.py:12)")`.
        members: The number of entities so far.
        now: The number of entities in each state.
        state_ns: The sum of time in each state, without the present states until the end.
        longest_ns: The longest step of a task, block of a loop, or run of a thread.
    """

    name: tuple[str, ...]
    members: int
    now: dict[str, int]
    state_ns: dict[str, int]
    longest_ns: int


class Activity:
    """Sums of a recording's state changes; the cost of a batch depends on its size only."""

    def __init__(self) -> None:
        self._groups: list[tuple[str, ...]] = []
        self._number = Interner(self._groups).code
        self._entities = 0
        self._group_of = np.empty(0, np.int32)
        self._since_ns = np.empty(0, np.int64)
        self._state = np.empty(0, np.int8)
        self._members = np.zeros(0, np.int64)
        self._now = np.zeros((0, len(STATES)), np.int64)
        self._sums = np.zeros((0, len(STATES)), np.int64)
        # entities that were removed: how many are in each state, and the sum of since when
        self._left = np.zeros((0, len(STATES)), np.int64)
        self._left_ns = np.zeros((0, len(STATES)), np.int64)
        self._longest = np.zeros(0, np.int64)
        self._is_loop = np.zeros(0, np.bool_)
        self.changes: int = 0

    def group(self, name: tuple[str, ...]) -> int:
        """Return the number of a group, which is created if it does not exist."""
        number = self._number(name)
        if number >= len(self._members):
            rooms = max(16, 2 * number)
            self._members = _grown(self._members, rooms)
            self._now = _grown(self._now, rooms)
            self._sums = _grown(self._sums, rooms)
            self._left = _grown(self._left, rooms)
            self._left_ns = _grown(self._left_ns, rooms)
            self._longest = _grown(self._longest, rooms)
            self._is_loop = _grown(self._is_loop, rooms)
        self._is_loop[number] = name[0] == "Loops"
        return number

    def enter(self, groups: Int64s) -> None:
        """Add entities with these groups after the existing ones."""
        first, self._entities = self._entities, self._entities + len(groups)
        if self._entities > len(self._group_of):
            rooms = max(1024, 2 * self._entities)
            self._group_of = _grown(self._group_of, rooms)
            self._since_ns = _grown(self._since_ns, rooms)
            self._state = _grown(self._state, rooms)
        self._group_of[first : self._entities] = groups
        self._state[first : self._entities] = -1
        np.add.at(self._members, groups, 1)

    def keep(self, entities: Int64s) -> None:
        """Remove all but these entities, and renumber them in this order."""
        removed = self._state[: self._entities] >= 0
        removed[entities] = False
        rows = np.flatnonzero(removed)
        where = self._group_of[rows], self._state[rows]
        np.add.at(self._left, where, 1)
        np.add.at(self._left_ns, where, self._since_ns[rows])
        self._entities = len(entities)
        self._group_of = self._group_of[entities]
        self._since_ns = self._since_ns[entities]
        self._state = self._state[entities]

    def end(self, time_ns: int) -> None:
        """Count the present states until `time_ns`, where all end."""
        entity = np.flatnonzero(self._state[: self._entities] >= 0).astype(np.int32)
        changes = self.changes
        nothing = np.full(len(entity), -1, np.int32)
        self.add(np.full(len(entity), time_ns, np.int64), entity, nothing)
        self.changes = changes
        self._sums += self._left * time_ns - self._left_ns
        self._now -= self._left
        self._left[:] = self._left_ns[:] = 0

    def rename(self, group: int, name: tuple[str, ...]) -> None:
        """Give a group another name; a group that already has it takes what this one has."""
        to = self.group(name)
        for sums in (self._members, self._now, self._sums, self._left, self._left_ns):
            sums[to] += sums[group]
            sums[group] = 0
        self.note_longest(np.array([to]), self._longest[[group]])
        self._longest[group] = 0
        of_group = self._group_of[: self._entities] == group
        self._group_of[: self._entities][of_group] = to

    @property
    def entities(self) -> tuple[int, int]:
        """The number of entities, and of those that are in a state."""
        return self._entities, int(np.count_nonzero(self._state[: self._entities] >= 0))

    def group_of(self, entity: Int32s) -> Int32s:
        """Return the groups of entities."""
        return self._group_of[entity]

    def name_of(self, entity: int) -> tuple[str, ...]:
        """Return the name of an entity's group."""
        return self._groups[int(self._group_of[entity])]

    def name_of_group(self, group: int) -> tuple[str, ...]:
        """Return the name of a group."""
        return self._groups[group]

    def has(self, kind: str) -> bool:
        """Return whether there is a group of a kind, such as `Tasks`."""
        return any(name[0] == kind for name in self._groups)

    def least_longest_loop(self) -> int:
        """Return the smallest of the loops' longest blocks."""
        of_loops = self._longest[self._is_loop & (self._members > 0)]
        return int(of_loops.min()) if len(of_loops) else int(self._longest.max(initial=0))

    def add(self, time_ns: Int64s, entity: Int32s, state: Int32s) -> None:
        """Add state changes; each entity's are in order of time."""
        self.changes += len(time_ns)
        order = np.argsort(entity, kind="stable")
        entity, time_ns, state = entity[order], time_ns[order], state[order].astype(np.int8)
        # a change of the tag alone does not end a state
        changed = state != _before(entity, state, self._state)
        entity, time_ns, state = entity[changed], time_ns[changed], state[changed]
        if not len(entity):
            return
        before = _before(entity, state, self._state)
        duration_ns = time_ns - _before(entity, time_ns, self._since_ns)
        group = self._group_of[entity]
        was, there = np.greater_equal(before, 0), np.greater_equal(state, 0)
        np.add.at(self._sums, (group[was], before[was]), duration_ns[was])
        np.subtract.at(self._now, (group[was], before[was]), 1)
        np.add.at(self._now, (group[there], state[there]), 1)
        # for loops, the longest time is that of a block, not of a run
        ran = (before == _RUNNING) & ~self._is_loop[group]
        self.note_longest(group[ran], duration_ns[ran])
        last = np.append(np.flatnonzero(np.diff(entity)), len(entity) - 1)
        self._since_ns[entity[last]] = time_ns[last]
        self._state[entity[last]] = state[last]

    def note_longest(self, group: Int32s, duration_ns: Int64s) -> None:
        """Update the longest durations of groups."""
        np.maximum.at(self._longest, group, duration_ns)

    def groups(self) -> list[Group]:
        """Return the groups, the ones that ran longest first."""
        found = [
            Group(
                name,
                int(self._members[number]),
                _named(self._now[number]),
                _named(self._sums[number]),
                int(self._longest[number]),
            )
            for number, name in enumerate(self._groups)
            if name[0] != LAGS and self._members[number]
        ]
        return sorted(found, key=lambda each: (-each.state_ns.get("running", 0), each.name))


def _before(
    entity: Int32s, column: npt.NDArray[_Scalar], carried: npt.NDArray[_Scalar]
) -> npt.NDArray[_Scalar]:
    """Return the previous value of each row's entity; rows are sorted by entity."""
    before = np.roll(column, 1)
    first = np.flatnonzero(np.diff(entity, prepend=-1))
    before[first] = carried[entity[first]]
    return before


def _grown(column: npt.NDArray[_Scalar], rooms: int) -> npt.NDArray[_Scalar]:
    grown = np.zeros((rooms, *column.shape[1:]), column.dtype)
    grown[: len(column)] = column
    return grown


def _named(row: Int64s) -> dict[str, int]:
    return {STATES[state]: int(row[state]) for state in np.flatnonzero(row).tolist()}
