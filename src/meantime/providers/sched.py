"""The states of threads and CPUs, from the switches of CPUs from one thread to the next.

A thread runs from the switch to it until the next switch of that CPU, if it is the thread that
leaves there. If another thread leaves, switches in between were lost, and what the CPU and both
threads did is unknown, as it is after a CPU's last switch. A thread that leaves in the first switch
of a CPU came there unseen: what it did since its last change is unknown. A thread that does not run
is in the state in which it left until it is woken; one that has exited is in none. The idle task,
thread 0 of every CPU, has no states. A CPU serves an interrupt from its entry to its exit, and
otherwise runs a thread of a program or of the kernel, which their names distinguish.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import linux_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s

__all__ = ["CPU_STATES", "NO_NAME", "THREAD_STATES", "Scheduling", "scheduling_of", "state_name"]

CPU_STATES = ("idle", "user", "kernel thread", "irq", "softirq")
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
}
THREAD_STATES = ("running", *_STATES.values())
_IDLE_TASK, _OF_PROGRAM, _OF_KERNEL = 0, 1, 2
_KERNEL_THREAD = re.compile(
    r"(?:kworker|ksoftirqd|migration|cpuhp|idle_inject|irq|rcuop|rcuos|rcuob|rcuog|rcuc|rcub|jbd2"
    r"|ext4|xfs\w*|btrfs|kcompactd|scsi_eh|dm|md|loop|nvme|kvm|vhost|watchdog|mmcqd|posixcputmr"
    r"|ktimers|nv_queue|card\d+-crtc)[/\-_:\d].*"
    r"|kthreadd|rcu_\w+|kswapd\d*|khugepaged|ksmd|kauditd|khungtaskd|oom_reaper|kdevtmpfs|kintegrityd"
    r"|kblockd|writeback|netns|mm_percpu_wq|kcompactd\d+|watchdogd|pool_workqueue_|hwrng|ata_sff"
    r"|devfreq_wq|kstrp|edac-poller|tpm_dev_wq|inet_frag_wq|blkcg_punt_bio|md|crypto|bioset|kswapd"
)


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
            interrupt.
        pairs: Threads with their names.
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
    records: npt.NDArray[np.void], tids: Int64s, names: Sequence[str], cpus: int
) -> Scheduling:
    """Return the states of the threads and CPUs in records, placed by their times.

    Args:
        records: An array of `RECORD_TYPE`.
        tids: The ids of its threads.
        names: Its names.
        cpus: How many CPUs it has.
    """
    has_name = np.array([each != NO_NAME for each in names], np.uint8)
    name, calls, in_order = linux_records.names_of_threads(records, has_name, len(tids))
    of_kernel = np.array([bool(_KERNEL_THREAD.fullmatch(each)) for each in names] or [False])
    role = np.full(len(tids), _OF_PROGRAM, np.uint8)
    role[(name >= 0) & of_kernel[name]] = _OF_KERNEL
    role[calls > 0] = _OF_PROGRAM
    role[tids == 0] = _IDLE_TASK
    order = None if in_order else np.argsort(records["time_ns"], kind="stable")
    return Scheduling(*linux_records.thread_states_of_records(records, order, role, cpus), name)
