"""Where processes, threads, CPUs and what belongs to them are in the attribute tree.

Readers build these paths; queries and exports recognise them. A trace may have other paths too.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.model.attributes import Path

__all__ = [
    "ASYNC",
    "ASYNC_PATTERN",
    "CALLBACKS",
    "COUNTER_PATTERN",
    "GLOBAL",
    "HOSTS",
    "IDLE_SUFFIX",
    "INTERRUPT",
    "OBJECTS",
    "OBJECT_PATTERN",
    "PROCESSES",
    "REQUESTS",
    "STACK",
    "STACK_PATTERN",
    "STATUS",
    "THREADS",
    "THREAD_STATE_PATTERNS",
    "VALUE",
    "WAKES",
    "async_path",
    "counter_path",
    "cpu_path",
    "host_and_path",
    "is_async",
    "is_idle_task",
    "is_in_thread",
    "location_path",
    "object_path",
    "process_id",
    "process_path",
    "recorded_paths",
    "task_names",
    "task_process",
    "thread_path",
]

HOSTS: Final = "Hosts"
PROCESSES: Final = "Processes"
THREADS: Final = "Threads"
CPUS: Final = "CPUs"
ASYNC: Final = "Async"
COUNTERS: Final = "Counters"
OBJECTS: Final = "Objects"
TASKS: Final = "Tasks"
REQUESTS: Final = "Requests"
CALLBACKS: Final = "Callbacks"
STACK: Final = "Stack"
STATUS: Final = "Status"
VALUE: Final = "value"
EVENTS: Final = "Events"
GLOBAL: Final = "Global"

ASYNC_PATTERN: Final = f"{PROCESSES}/*/{ASYNC}/*/*"
COUNTER_PATTERN: Final = f"{PROCESSES}/*/{COUNTERS}/*/*"
OBJECT_PATTERN: Final = f"{PROCESSES}/*/{OBJECTS}/*/*"
THREAD_STATE_PATTERNS: Final = (
    f"{THREADS}/*/{STATUS}",
    f"{PROCESSES}/*/{THREADS}/*/{STATUS}",
)
STACK_PATTERN: Final = f"{PROCESSES}/*/{THREADS}/*/**/{STACK}"

# The name of flows from a thread to one that it wakes, and the waker that is not a thread.
WAKES: Final = "wakes"
INTERRUPT: Final = "an interrupt"

_IDLE_TID = "0"
# Behind what samples are grouped by, for those of idle CPUs.
IDLE_SUFFIX: Final = " (idle)"


def process_path(pid: int | str) -> Path:
    """Return the path of a process."""
    return (PROCESSES, str(pid))


def thread_path(tid: int | str, pid: int | str | None = None) -> Path:
    """Return the path of a thread, below its process if that is known.

    >>> thread_path(7, 1), thread_path(7)
    (('Processes', '1', 'Threads', '7'), ('Threads', '7'))
    """
    own = (THREADS, str(tid))
    return own if pid is None else (*process_path(pid), *own)


def cpu_path(cpu: int) -> Path:
    """Return the path of a CPU."""
    return (CPUS, str(cpu))


def task_names(numbers: Iterable[int], processes: Iterable[str] | None) -> list[str]:
    """Return the last parts of the paths of recorded tasks, callbacks or requests.

    The processes are given if there are several.

    >>> task_names([7, 8], ["1203", "1204"]), task_names([7], None)
    (['1203.7', '1204.8'], ['7'])
    """
    if processes is None:
        return list(map(str, numbers))
    return [f"{process}.{number}" for process, number in zip(processes, numbers, strict=True)]


def recorded_paths(kind: str, groups: Iterable[str], names: Iterable[str]) -> list[Path]:
    """Return the paths of recorded tasks, callbacks or requests, as `kind` says.

    A task's group is where it was created, a callback's its code, a request's what it asks for.

    >>> recorded_paths(TASKS, ["main (app.py:3)"], ["1203.7"])
    [('Tasks', 'main (app.py:3)', '1203.7')]
    >>> recorded_paths(REQUESTS, ["GET /users/{id}"], ["7"])
    [('Requests', 'GET /users/{id}', '7')]
    """
    return [*zip(repeat(kind), groups, names, strict=False)]


def task_process(name: str) -> str:
    """Return the process in the last part of a task's path; empty if there is none.

    >>> task_process("1203.7"), task_process("7")
    ('1203', '')
    """
    process, _, number = name.rpartition(".")
    return process if number.isdecimal() else ""


def counter_path(pid: int | str, name: str, series: str) -> Path:
    """Return the path of one series of a process's counter."""
    return (*process_path(pid), COUNTERS, name, series)


def async_path(pid: int | str, group: str, id_: str) -> Path:
    """Return the path of the asynchronous operations of a process that share an id."""
    return (*process_path(pid), ASYNC, group, id_)


def object_path(pid: int | str, name: str, id_: str) -> Path:
    """Return the path of an object of a process."""
    return (*process_path(pid), OBJECTS, name, id_)


def host_and_path(path: Path) -> tuple[str, Path]:
    """Return the host of a joined history in which a path is, and the path there.

    The host is empty if the path is in none.

    >>> host_and_path(("Hosts", "web1", "CPUs", "0"))
    ('web1', ('CPUs', '0'))
    >>> host_and_path(("CPUs", "0"))
    ('', ('CPUs', '0'))
    """
    hosts = []
    while len(path) > 2 and path[0] == HOSTS:
        hosts.append(path[1])
        path = path[2:]
    return "/".join(hosts), path


def location_path(cpu: int, pid: int, tid: int) -> Path:
    """Return the path of where an event happened; negative numbers are unknown.

    >>> location_path(3, -1, 7), location_path(3, -1, -1)
    (('Threads', '7'), ('CPUs', '3'))
    """
    if tid >= 0:
        return thread_path(tid, None if pid < 0 else pid)
    if pid >= 0:
        return process_path(pid)
    return (EVENTS,) if cpu < 0 else (CPUS, str(cpu))


def process_id(path: Path) -> str | None:
    """Return the process that a path is in; None if it is in none."""
    return path[1] if path[0] == PROCESSES and len(path) > 1 else None


def is_in_thread(path: Path) -> bool:
    """Return whether a path is a thread or below one: anything but the other parts of a process.

    >>> is_in_thread(thread_path(7, 1)), is_in_thread(async_path(1, "net", "0x1"))
    (True, False)
    """
    return len(path) < 4 or path[0] != PROCESSES or path[2] == THREADS


def is_async(path: Path) -> bool:
    """Return whether a path is of asynchronous operations, which may overlap."""
    return path[0] == PROCESSES and path[2:3] == (ASYNC,)


def is_idle_task(path: Path) -> bool:
    """Return whether a thread is the idle task, which Linux runs as thread 0 of every CPU."""
    return path[-1] == _IDLE_TID
