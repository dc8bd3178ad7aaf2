"""What can be recorded, and what each program needs for it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["KINDS", "Kind", "Method", "Request"]

Method: TypeAlias = Literal["bpftrace", "perf", "tracefs"]

_SCHEDULER = (
    *("sched:sched_switch", "sched:sched_wakeup", "sched:sched_wakeup_new", "sched:sched_waking"),
    *("sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_exit"),
)
_INTERRUPTS = (
    *("irq:irq_handler_entry", "irq:irq_handler_exit", "irq:softirq_entry", "irq:softirq_exit"),
)
_REQUESTS = ("block:block_rq_issue", "block:block_rq_complete", "block:block_rq_requeue")
# Of x86 only; the exits have the same names with `exit`.
_VECTORS = tuple(
    f"irq_vectors:{name}_{side}"
    for name in ("local_timer", "reschedule", "call_function", "call_function_single")
    for side in ("entry", "exit")
)
_STATES = ("sched:sched_switch", "sched:sched_wakeup", "sched:sched_wakeup_new")
_BIRTHS = ("sched:sched_process_fork",)


class Kind(NamedTuple):
    """One thing that can be recorded.

    Attributes:
        what: What is recorded, for messages.
        script: The script in `bpftrace/`; None if bpftrace is not used.
        probes: The tracepoints of the script.
        machines: The machines that the script knows; empty for all.
        reads_types: Whether the script needs BTF.
        events: The tracepoints that perf or tracefs records instead; empty if they cannot.
        of_process: Whether it may be of one process.
        title: The title of its statemap.
        methods: The programs that may record it, the first that can does.
    """

    what: str
    script: str | None
    probes: tuple[str, ...]
    machines: tuple[str, ...]
    reads_types: bool
    events: tuple[str, ...]
    of_process: bool = False
    title: str = ""
    methods: tuple[Method, ...] = ("bpftrace", "perf", "tracefs")


class Request(NamedTuple):
    """What is to be recorded.

    Attributes:
        kind: What.
        pid: Of which process; None if all, or if it is to be found.
        duration_ns: For how long; 0 until a `KeyboardInterrupt`.
    """

    kind: Kind
    pid: int | None
    duration_ns: int


KINDS = {
    "cpu": Kind(
        "what each CPU does",
        "cpu-statemap.bt",
        ("sched:sched_switch", "task:task_rename", *_INTERRUPTS, *_VECTORS),
        ("x86_64", "i686"),
        reads_types=True,
        events=(*_SCHEDULER, *_INTERRUPTS),
        title="CPUs",
    ),
    "threads": Kind(
        "threads, of one process tree or of all",
        "threads-statemap.bt",
        (*_STATES, *_BIRTHS, "task:task_rename", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"),
        ("x86_64",),
        reads_types=True,
        events=_SCHEDULER,
        of_process=True,
        title="Threads",
    ),
    "block": Kind(
        "block devices by outstanding requests",
        "block-statemap.bt",
        _REQUESTS,
        (),
        reads_types=False,
        events=_REQUESTS,
        title="Block devices",
    ),
    "postgres": Kind(
        "the processes of a PostgreSQL server by wait event",
        "postgres-statemap.bt",
        (*_STATES, *_BIRTHS),
        (),
        reads_types=True,
        events=(),
        of_process=True,
        title="PostgreSQL",
        methods=("bpftrace",),
    ),
    "sched": Kind(
        "switches and wake-ups of all threads, for `meantime why`",
        None,
        (),
        (),
        reads_types=False,
        events=(*_SCHEDULER, *_INTERRUPTS),
        # its text says what an interrupt did, such as a timer that woke a thread; perf's does not
        methods=("tracefs", "perf"),
    ),
}
