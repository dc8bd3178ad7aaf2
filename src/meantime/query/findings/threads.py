"""The threads of a recorded program: which could not go on, and which kept others from it.

On a machine that is busy with other programs, whatever a program does takes longer, and nothing in
it is the cause. A thread waits for a processor itself, or for another that does: one that has the
GIL, that is to receive it, or that is to release a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct, first_rows
from meantime.query.processes import ProcessTree
from meantime.query.ranges import clipped, ranges_of, union
from meantime.query.scope import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope, StateRows

__all__ = ["LATE", "Threads", "is_on", "last_running", "states_within", "thread_name"]

_RUNNING, _CPU_WAIT, _GIL_WAIT = "running", "cpu-wait", "gil-wait"
_GIL_HANDOFF, _LOCK_WAIT = "gil-handoff", "lock-wait"
# Who releases a lock ran so long before the one that waits for it is recorded as woken: on a busy
# machine that is when it gets a processor. The shortest in which any thread ran counts.
_RIGHT_BEFORE_NS = (10**5, 10**6, 10**7)
# What a thread that is to receive the GIL, or that has it, waits for is a processor.
LATE = {_CPU_WAIT, _GIL_HANDOFF}


def is_on(scope: Scope, task: int, loop: int) -> bool:
    """Return whether a task or a request, and a loop are in one process, by their names."""
    process, dot, _ = scope.history.attributes.path(task)[-1].rpartition(".")
    names = scope.history.attributes.path(loop)[-1].split(" ")
    return not dot or process in names


def thread_name(scope: Scope, quark: int) -> str:
    """Return the name of a thread, from the path of its lane or its loop's, with its process."""
    process, _, thread = scope.history.attributes.path(quark)[-1].partition(" ")
    if process.isdecimal() and " " in thread:
        # the thread that a process begins with has its number
        role = thread.removesuffix(f"MainThread {process}").rstrip(", ")
        return f"{role} in process {process}" if role else f"process {process}"
    return f"{process} {thread}".strip()


def last_running(rows: StateRows, waits: Int64s) -> Int64s:
    """Return the thread that ran right before each of some waits ended, or -1.

    -1 as well if several did: then who ended the wait is not known.
    """
    runs = np.isin(rows.state, rows.codes({_RUNNING}))
    quark, start_ns, end_ns = rows.quark[runs], rows.start_ns[runs], rows.end_ns[runs]
    found = np.full(len(waits), -1, np.int64)
    for index, wait in enumerate(waits.tolist()):
        at_ns = int(rows.end_ns[wait])
        others = (start_ns <= at_ns) & (quark != rows.quark[wait])
        for before_ns in _RIGHT_BEFORE_NS:
            ran = distinct(quark[others & (end_ns >= at_ns - before_ns)])
            if len(ran):
                found[index] = ran[0] if len(ran) == 1 else -1
                break
    return found


def states_within(rows: StateRows, thread: int, wait: int) -> dict[str, int]:
    """Return for how long a thread was in which states during a wait, but for waits for locks."""
    begin_ns, end_ns = int(rows.start_ns[wait]), int(rows.end_ns[wait])
    own = np.arange(*first_rows(rows.quark, [thread, thread + 1]).tolist())
    ns = np.minimum(rows.end_ns[own], end_ns) - np.maximum(rows.start_ns[own], begin_ns)
    found: dict[str, int] = {}
    for state, part_ns in zip(rows.state[own].tolist(), ns.tolist(), strict=True):
        name = rows.names[state]
        if part_ns > 0 and name != _LOCK_WAIT:
            found[name] = found.get(name, 0) + part_ns
    return found


class Threads:
    """The states of the threads of a recording.

    Args:
        scope: The history.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._history = scope.history
        self._quarks = scope.history.quarks("Threads/*")
        self._tree = ProcessTree(scope.history)
        self._others: dict[int, Int32s] = {}

    def time_in(self, quark: int, names: set[str], range_ns: Range) -> int:
        """Return for how long an entity was in any of some states in a range."""
        return sum(end - start for start, end in self._when(quark, names, range_ns))

    def late_ns(self, loop: int, range_ns: Range) -> int:
        """Return for how long a loop's thread could not go on because of other programs."""
        late = [*self._when(loop, LATE, range_ns)]
        for wait_ns in self._when(loop, {_GIL_WAIT}, range_ns):
            keeping = self.when_others_ran(loop, wait_ns)
            free_ns = wait_ns[0]
            for start_ns, end_ns in [*keeping, (wait_ns[1], wait_ns[1])]:
                if start_ns > free_ns:
                    late.append((free_ns, start_ns))
                free_ns = end_ns
        for wait_ns in self._when(loop, {_LOCK_WAIT}, range_ns):
            late += self._of_others(loop, LATE, wait_ns)
        return sum(end - start for start, end in union(late))

    def gil_wait_ns(self, loop: int, range_ns: Range) -> int:
        """Return for how long the thread of a loop waited for the GIL, if that is recorded."""
        return self.time_in(loop, {_GIL_WAIT}, range_ns)

    def gil_holder(self, loop: int, range_ns: Range) -> int:
        """Return the thread that ran most while a loop waited for the GIL; -1 if none did."""
        rows = self._beside(loop, {_RUNNING, *LATE}, range_ns)
        if not len(rows.quark):
            return -1
        threads, at = np.unique(rows.quark, return_inverse=True)
        ran_ns = np.zeros(len(threads), np.int64)
        np.add.at(ran_ns, at, rows.duration_ns)
        most = int(np.argmax(ran_ns))
        return int(threads[most]) if 2 * ran_ns[most] > range_ns[1] - range_ns[0] else -1

    def lock_holder(self, loop: int, range_ns: Range) -> tuple[int, int]:
        """Return the thread that released the lock a loop waited for in a range, and its tag.

        -1 if the loop did not wait for one for most of it, or if that is not known.
        """
        rows = self._scope.between(np.append(self._threads(loop), np.int32(loop)), range_ns)
        waits = np.flatnonzero((rows.quark == loop) & np.isin(rows.state, rows.codes({_LOCK_WAIT})))
        longest = waits[np.argsort(-rows.duration_ns[waits], kind="stable")][:1]
        if not len(longest) or 2 * rows.duration_ns[longest[0]] < range_ns[1] - range_ns[0]:
            return -1, -1
        thread = int(last_running(rows, longest)[0])
        tags = rows.tag[rows.quark == thread]
        return thread, int(tags[-1]) if len(tags) else -1

    def when_others_ran(self, thread: int, range_ns: Range) -> tuple[Range, ...]:
        """Return when another thread ran in a range: if one waits for the GIL, that has it."""
        return self._of_others(thread, {_RUNNING}, range_ns)

    def running_beside(self, loop: int, range_ns: Range) -> StateRows:
        """Return when the other threads of a loop's process ran in a range."""
        return self._beside(loop, {_RUNNING}, range_ns)

    def _of_others(self, loop: int, names: set[str], range_ns: Range) -> tuple[Range, ...]:
        """Return when at least one of the other threads was in one of some states."""
        rows = self._beside(loop, names, range_ns)
        return union(ranges_of(rows.start_ns, rows.end_ns))

    def _beside(self, loop: int, names: set[str], range_ns: Range) -> StateRows:
        """Return when the other threads of a loop's process were in some states."""
        rows = self._scope.between(self._threads(loop), range_ns)
        return chosen(rows, np.isin(rows.state, rows.codes(names)))

    def _threads(self, loop: int) -> Int32s:
        """Return the other threads of a loop's process."""
        if loop not in self._others:
            owners = self._tree.owners(np.append(self._quarks, np.int32(loop)))
            threads = self._quarks[owners[:-1] == owners[-1]]
            paths = [self._history.attributes.path(thread) for thread in threads.tolist()]
            own = self._history.attributes.path(loop)[-1]
            self._others[loop] = threads[np.array([path[-1] != own for path in paths], np.bool_)]
        return self._others[loop]

    def _when(self, quark: int, names: set[str], range_ns: Range) -> Iterator[Range]:
        """Yield when an entity was in any of some states in a range, in order of time."""
        for state in self._history.iterate(quark, range_ns[0]):
            if state.start_ns >= range_ns[1]:
                break
            if state.value in names:
                yield from clipped([(state.start_ns, state.end_ns)], *range_ns)
