"""The states of threads and CPUs, from the switches of CPUs from one thread to the next.

A thread runs from the switch to it until the next switch of that CPU, if it is the thread that
leaves there. Each line of a CPU names its current thread, and proves that it ran: without another
switch from the switch to it until the last such line, and before the first switch of a CPU from the
first such line on; until the end of the trace, or from its beginning on, where the format says that
the buffers of all CPUs are in it as a whole. If another thread leaves than the one that came,
switches in between were lost. What no line proves is `unknown`, of CPUs and of threads that have
been seen. A thread that does not run is in the state in which it left until it is woken; one that
has exited is in none. A thread that `sched_waking` wakes while it still runs waits for a CPU from
when it leaves, unless it is woken once more. The idle task, thread 0 of every CPU, has no states. A
CPU serves an interrupt from its entry to its exit, and otherwise runs a thread of a program or of
the kernel, which their names distinguish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import linux_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "CPU_STATES",
    "NO_NAME",
    "THREAD_STATES",
    "UNKNOWN",
    "Scheduling",
    "scheduling_of",
    "state_name",
]

UNKNOWN = "unknown"
CPU_STATES = ("idle", "user", "kernel thread", "irq", "softirq", UNKNOWN)
# What ftrace prints for a thread whose name it has not kept.
NO_NAME = "<...>"
_RUNNING = 256
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
    "?": UNKNOWN,
}
THREAD_STATES = ("running", *_STATES.values())
_IDLE_TASK, _OF_PROGRAM, _OF_KERNEL = 0, 1, 2


class Scheduling(NamedTuple):
    """What the records of a scheduler say.

    Attributes:
        threads: Changes of threads: time_ns, thread, state (see `state_name`), tag.
        cpus: Changes of CPUs: time_ns, cpu, state (-1, or an index into `CPU_STATES`), and which
            thread (-1 for none, -2 if the thread stays the same) came by which of the pairs.
        lost: Stretches of CPUs that are unknown: from_ns, to_ns, cpu, was_told.
        wakes: The rows of the wake-ups that made a thread runnable.
        tags: By tag: the CPU, the priority, the name, the waker. The waker is -2 for a thread that
            runs, where the CPU is a code; otherwise the CPU is a number, and the waker -1 for an
            interrupt. A name of -2 or less is that of thread -2 less the name, and its priority
            `linux_records.UNKNOWN_PRIORITY`: no switch says with which it came.
        pairs: Threads with their names, which are as in `tags`.
        name: By thread, the code of its last name; -1 if it has none.
    """

    threads: npt.NDArray[np.void]
    cpus: npt.NDArray[np.void]
    lost: npt.NDArray[np.void]
    wakes: Int32s
    tags: npt.NDArray[np.int32]
    pairs: npt.NDArray[np.int32]
    name: Int32s


def state_name(code: int) -> str | None:
    """Return the name of a thread's state: of a letter's number, 256 for running, or -1.

    >>> state_name(ord("D")), state_name(256), state_name(-1)
    ('blocked', 'running', None)
    """
    if code < 0:
        return None
    return "running" if code == _RUNNING else _STATES.get(chr(code), chr(code))


def scheduling_of(
    records: npt.NDArray[np.void],
    tids: Int64s,
    names: Sequence[str],
    cpus: int,
    *,
    range_ns: tuple[int, int],
    read_ns: tuple[int | None, int | None] = (None, None),
) -> Scheduling:
    """Return the states of the threads and CPUs in records, placed by their times.

    Args:
        records: An array of `RECORD_TYPE`.
        tids: The ids of its threads.
        names: Its names.
        cpus: How many CPUs it has.
        range_ns: [begin, end) of the trace.
        read_ns: From when and until when the records have all that happened on each CPU; None for
            what is not known.
    """
    from meantime.model.kernel_threads import is_kernel_thread  # noqa: PLC0415 - of few traces

    has_name = np.array([each != NO_NAME for each in names], np.uint8)
    name, calls, in_order = linux_records.names_of_threads(records, has_name, len(tids))
    of_kernel = np.array([is_kernel_thread(each) for each in names] or [False])
    role = np.full(len(tids), _OF_PROGRAM, np.uint8)
    role[(name >= 0) & of_kernel[name]] = _OF_KERNEL
    role[calls > 0] = _OF_PROGRAM
    role[tids == 0] = _IDLE_TASK
    order = None if in_order else np.argsort(records["time_ns"], kind="stable")
    states = linux_records.thread_states_of_records(records, order, role, cpus, range_ns, read_ns)
    return Scheduling(*states, name)
