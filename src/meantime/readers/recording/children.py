"""The tasks that a request's task leaves its work to, and waits for.

Middleware of web frameworks runs what it wraps in a task of its own: the request's task only waits
until that task wakes it, or ends. Such a wait is what the other task did meanwhile, until its step
ends; once it has ended, the request's task is runnable. Of several tasks, such as those of
`gather`, that is the last one that ended. A step that one of them runs while the request's task is
runnable is a step of the request, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.model.columns import distinct
from meantime.providers.tasks import STATES

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import StateChanges

__all__ = ["Children", "Rows"]

_SPAWN, _WAKE = KINDS["SPAWN"], KINDS["WAKE"]
_RUNNABLE, _RUNNING = STATES.index("runnable"), STATES.index("running")
_OUTCOMES = [STATES.index(state) for state in ("completed", "failed", "cancelled", "dropped")]
# by state + 1
_IS_WAIT = np.array([False, *(state.startswith("waiting") for state in STATES)])
# Middleware is nested, but not without end; each wake is looked for in all of them.
_MOST_ANCESTORS = 64
# of the numbers of changes and of different times, in a key that begins with an entity's index
_NUMBER_BITS, _TIME_BITS = 40, 32


class Rows(NamedTuple):
    """Changes of tasks, by entity; their numbers count all changes of the recording."""

    entity: Int64s
    number: Int64s
    time_ns: Int64s
    state: Int64s
    tag: Int64s

    @classmethod
    def of(cls, changes: StateChanges, first: int, tasks: npt.NDArray[np.bool_]) -> Rows:
        """Return the changes of some tasks, in their order; the first of all is number `first`."""
        rows = np.flatnonzero(tasks[changes.entity])
        found = (changes.entity, changes.time_ns, changes.state, changes.tag)
        entity, *others = (column[rows].astype(np.int64) for column in found)
        return cls(entity, rows + first, *others)

    def taken(self, which: npt.NDArray[np.bool_] | Int64s) -> Rows:
        """Return some of the rows."""
        return Rows(*(column[which] for column in self))


class Children:
    """The tasks that those of open requests have spawned, and when they woke one of their parents.

    A wake is known with its flow; it is used once the end of the step that it is in is known, too.
    """

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        # (woken, waker, time_ns, how many parents the woken one has)
        self._wakes = np.empty((4, 0), np.int64)

    def note(self, flows: tuple[Int32s, Int64s, Int32s, Int64s, Int32s], tasks: Int64s) -> None:
        """Add the children of these tasks, and the wakes, that are among flows.

        Args:
            flows: From entity and time, to entity and time, and kind.
            tasks: The tasks of the open requests.
        """
        waker, _, woken, time_ns, kind = flows
        spawns = np.flatnonzero(kind == _SPAWN)
        roots = set(tasks.tolist())
        for parent, child in zip(waker[spawns].tolist(), woken[spawns].tolist(), strict=True):
            # only once, so that no task is its own ancestor whatever a damaged recording says
            is_new = child not in self._parents and child not in roots
            if is_new and (parent in self._parents or parent in roots):
                self._parents[child] = parent
        if not self._parents:
            return
        wakes = np.flatnonzero(kind == _WAKE)
        wakes = wakes[np.isin(waker[wakes], self.entities())]
        found = [
            (*pair, at, len(self._ancestors(pair[0])))
            for *pair, at in zip(
                *(column[wakes].tolist() for column in (woken, waker, time_ns)), strict=True
            )
            if pair[0] in self._ancestors(pair[1])
        ]
        if found:
            self._wakes = np.hstack([self._wakes, np.array(found, np.int64).T])

    def entities(self) -> Int64s:
        """Return the children of open requests' tasks, and their children."""
        return np.fromiter(self._parents, np.int64, len(self._parents))

    def _ancestors(self, task: int) -> list[int]:
        """Return the tasks above one, the nearest first; of a long chain only the nearest."""
        found: list[int] = []
        while len(found) < _MOST_ANCESTORS and (parent := self._parents.get(task)) is not None:
            found.append(parent)
            task = parent
        return found

    def replace_waits(self, rows: Rows, *, final: bool) -> Rows:
        """Return rows with the states of children in place of the waits that they ended.

        Args:
            rows: The rows of tasks and their children, by entity and number.
            final: Whether no more rows follow.
        """
        waiting = self._wakes
        # what a child itself waited for replaces its waits first
        for depth in distinct(waiting[3])[::-1].tolist():
            of_depth = waiting[:, waiting[3] == depth]
            rows, is_open = _replaced(rows, *of_depth[:3], final=final)
            others = self._wakes[:, self._wakes[3] != depth]
            self._wakes = np.hstack([others, of_depth[:, is_open]])
        return self._with_steps(rows)

    def _with_steps(self, rows: Rows) -> Rows:
        """Return rows with the steps of children in place of what requests were runnable then."""
        children = self.entities()
        steps = np.flatnonzero((rows.state[:-1] == _RUNNING) & np.isin(rows.entity[:-1], children))
        steps = steps[rows.entity[steps + 1] == rows.entity[steps]]
        if not len(steps):
            return rows
        roots = {child: self._ancestors(child)[-1] for child in children.tolist()}
        root = np.array([roots[child] for child in rows.entity[steps].tolist()], np.int64)
        entities, index = np.unique(rows.entity, return_inverse=True)
        by_number = index << _NUMBER_BITS | rows.number
        root_index = np.minimum(np.searchsorted(entities, root), len(entities) - 1)
        key = root_index << _NUMBER_BITS | rows.number[steps]
        at = np.searchsorted(by_number, key, "right") - 1
        following = np.minimum(at + 1, len(rows.entity) - 1)
        # until the task itself goes on, which is after the step
        inside = (at >= 0) & (rows.entity[at] == root) & (rows.state[at] == _RUNNABLE)
        inside &= (following > at) & (rows.entity[following] == root)
        inside &= rows.number[following] > rows.number[steps + 1]
        # a child is in the steps of its own children, too
        _, first = np.unique(key[inside], return_index=True)
        inside = np.flatnonzero(inside)[first]
        begins, ends = rows.taken(steps[inside]), rows.taken(steps[inside] + 1)
        begins.entity[:] = ends.entity[:] = root[inside]
        ends.state[:], ends.tag[:] = _RUNNABLE, rows.tag[at[inside]]
        return _in_order(rows, begins, ends)

    def hold_back(self, rows: Rows, task: Int64s, first: Int64s, last: Int64s) -> None:
        """Reduce the ends of ranges of rows to those before a wait that a child may end.

        Args:
            rows: As returned by `replace_waits`.
            task: The task of each range.
            first: The first row of each range.
            last: The row after its last, which is changed.
        """
        if not self._parents:
            return
        has_child = np.isin(task, np.fromiter(self._parents.values(), np.int64))
        held = np.flatnonzero(has_child & (last > first))
        state = rows.state[last[held] - 1]
        is_wait = _IS_WAIT[state + 1] | (state == _RUNNABLE)
        is_woken = np.isin(task[held], self._wakes[0])
        last[held] -= np.where(is_woken, 2, is_wait)
        np.maximum(last, first, out=last)

    def kept(self, rows: Rows, first: dict[int, int]) -> npt.NDArray[np.bool_]:
        """Return which rows of children may still be needed; forget the other children.

        Args:
            rows: As returned by `replace_waits`.
            first: Of each open request's task, the number of its first row that is needed.
        """
        result = np.zeros(len(rows.entity), np.bool_)
        with_children = set(self._parents.values())
        known: dict[int, int] = {}
        for child, parent in list(self._parents.items()):
            # a parent precedes its children
            since = first.get(parent, known.get(parent))
            if since is None:
                del self._parents[child]
                continue
            known[child] = since
            low, high = np.searchsorted(rows.entity, [child, child + 1]).tolist()
            before = int(np.searchsorted(rows.number[low:high], since, "right")) - 1
            low += max(0, before)
            if low + 1 == high and rows.state[low] < 0 and child not in with_children:
                del self._parents[child]
            else:
                result[low:high] = True
        self._wakes = self._wakes[:, np.isin(self._wakes[1], self.entities())]
        return result


def _replaced(
    rows: Rows, woken: Int64s, waker: Int64s, time_ns: Int64s, *, final: bool
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return rows with waits replaced, and which of the wakes need rows that are to come."""
    count = len(rows.entity)
    entities, index = np.unique(rows.entity, return_inverse=True)
    by_number = index << _NUMBER_BITS | rows.number
    _, rank = np.unique(np.concatenate([rows.time_ns, time_ns]), return_inverse=True)
    by_time = index << _TIME_BITS | rank[:count]
    is_known = np.isin(woken, entities) & np.isin(waker, entities)
    woken_index, waker_index = (np.searchsorted(entities, each) for each in (woken, waker))
    wake = np.searchsorted(by_time, woken_index << _TIME_BITS | rank[count:], "right") - 1
    # The wait before the first of these wakes was in rows that have been dropped.
    is_known &= wake > 0
    is_known &= (rows.entity[wake] == woken) & (rows.entity[wake - 1] == woken)
    is_known &= (rows.time_ns[wake] == time_ns) & (rows.state[wake] == _RUNNABLE)
    is_known &= _IS_WAIT[rows.state[wake - 1] + 1]
    begin, end = rows.number[wake - 1], rows.number[wake]
    low = np.searchsorted(by_number, waker_index << _NUMBER_BITS | begin, "right") - 1
    high = np.searchsorted(by_number, waker_index << _NUMBER_BITS | end)
    was_there = (low >= 0) & (rows.entity[low] == waker)
    low = np.where(was_there, low, low + 1)
    following = np.minimum(high, count - 1)
    has_end = (high < count) & (rows.entity[following] == waker)
    has_ended = (high > low) & (rows.state[high - 1] < 0)
    high -= has_ended
    has_end &= ~has_ended
    is_open = is_known & ~has_end & ~has_ended & (not final)
    used = np.flatnonzero(is_known & ~is_open)
    if not len(used):
        return rows, is_open
    wake, low, high, was_there = wake[used], low[used], high[used], was_there[used]
    # until its step ends, the child runs, although what it woke could
    ends_ns = np.where(has_end, rows.time_ns[following], time_ns)[used]
    after = np.minimum(wake + 1, count - 1)
    ends_ns = np.where(
        (after > wake) & (rows.entity[after] == woken[used]),
        np.minimum(ends_ns, rows.time_ns[after]),
        ends_ns,
    )
    times_ns = rows.time_ns.copy()
    times_ns[wake] = np.maximum(ends_ns, rows.time_ns[wake])
    counts = np.maximum(high - low, 0)
    firsts = np.cumsum(counts) - counts
    source = np.repeat(low - firsts, counts) + np.arange(counts.sum())
    inserted = rows.taken(source)
    inserted.entity[:] = np.repeat(woken[used], counts)
    inserted.time_ns[:] = np.maximum(inserted.time_ns, np.repeat(rows.time_ns[wake - 1], counts))
    replaced = was_there & (counts > 0)
    inserted.number[firsts[replaced]] = begin[used][replaced]
    # what waited for a child's end could run from then on
    ends = np.isin(inserted.state, _OUTCOMES)
    inserted.state[ends], inserted.tag[ends] = _RUNNABLE, -1
    kept = np.ones(count, np.bool_)
    kept[wake[replaced] - 1] = False
    remaining = rows._replace(time_ns=times_ns).taken(kept)
    return _in_order(remaining, inserted), is_open


def _in_order(*parts: Rows) -> Rows:
    """Join rows by entity and number, without those that another follows at once."""
    rows = Rows(*map(np.concatenate, zip(*parts, strict=True)))
    rows = rows.taken(np.lexsort((rows.number, rows.entity)))
    # a child that sleeps is runnable since it was due, which may be before the wait that it ends
    lasts = np.ones(len(rows.entity), np.bool_)
    lasts[:-1] = (rows.entity[1:] != rows.entity[:-1]) | (rows.time_ns[1:] != rows.time_ns[:-1])
    return rows.taken(lasts)
