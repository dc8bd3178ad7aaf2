"""The states of threads, from the switches of CPUs from one thread to the next.

A thread runs from the switch to it until the next switch of that CPU, if it is the thread that
leaves there. If another thread leaves, switches in between were lost, and the time is attributed to
no thread. The same applies after a CPU's last switch. A thread that does not run is in the state in
which it left; one that has exited is in none. The idle task, thread 0 of every CPU, has no states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s

__all__ = ["THREAD_STATES", "ThreadStates", "thread_states"]

_IDLE_TASK = 0
_RUNNING = "running"
# perf prints the letters of ps, and + for a thread that was preempted. In the order of a legend.
_STATES = {
    "R": "runnable",
    "+": "preempted",
    "D": "blocked",
    "S": "sleeping",
    "I": "idle",
    "P": "parked",
    "T": "stopped",
    "t": "traced",
}
THREAD_STATES = (_RUNNING, *_STATES.values())
# A thread that has exited is in no state.
_EXITED = (ord("X"), ord("Z"))


class ThreadStates(NamedTuple):
    """State changes of threads, in order of time.

    Attributes:
        time_ns: The time of each change.
        tid: Its thread.
        state: Index into `names`; -1 for none.
        cpu: The CPU on which the thread runs; -1 if it does not.
        names: The states' names.
        lost: Ranges of time in which switches of a CPU were lost.
    """

    time_ns: Int64s
    tid: Int64s
    state: Int32s
    cpu: Int64s
    names: list[str]
    lost: list[tuple[int, int]]


def thread_states(
    time_ns: Int64s, cpu: Int64s, leaving: Int64s, letter: Int64s, coming: Int64s
) -> ThreadStates:
    """Return the states of threads.

    Args:
        time_ns: When each switch was, in any order.
        cpu: On which CPU.
        leaving: The thread that left.
        letter: The state in which it left, as perf prints it: a character's number.
        coming: The thread that came.
    """
    order = np.lexsort((time_ns, cpu))
    time_ns, cpu, leaving, letter, coming = (
        column[order] for column in (time_ns, cpu, leaving, letter, coming)
    )
    # whether the next switch of the same CPU leaves the thread that came with this one
    follows = np.zeros(len(order), np.bool_)
    of_one_cpu = cpu[1:] == cpu[:-1]
    follows[:-1] = of_one_cpu & (leaving[1:] == coming[:-1])
    lost = np.flatnonzero(of_one_cpu & ~follows[:-1])
    letters, which = np.unique(letter, return_inverse=True)
    names = [*(_STATES.get(chr(each), chr(each)) for each in letters), _RUNNING]
    running = len(letters)
    which = np.where(np.isin(letters, _EXITED), -1, np.arange(running))[which.reshape(-1)]
    # The leaving thread of a switch is first: at the same time it may come on another CPU.
    tid = np.stack([leaving, coming], axis=1).reshape(-1)
    state = np.stack([which, np.where(follows, running, -1)], axis=1).reshape(-1)
    on_cpu = np.stack([np.full(len(order), -1), np.where(follows, cpu, -1)], axis=1).reshape(-1)
    rows = np.flatnonzero(tid != _IDLE_TASK)
    rows = rows[np.argsort(time_ns[rows // 2], kind="stable")]
    return ThreadStates(
        time_ns=time_ns[rows // 2],
        tid=tid[rows],
        state=state[rows].astype(np.int32),
        cpu=on_cpu[rows],
        names=names,
        lost=list(zip(time_ns[lost].tolist(), time_ns[lost + 1].tolist(), strict=True)),
    )
