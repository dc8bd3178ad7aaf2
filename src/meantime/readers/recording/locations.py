"""Code locations of a process: where its tasks were spawned, where they waited, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.record_kinds import LEAVES
from meantime.kernels.tasks import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s

__all__ = ["CodeLocation", "DefinedLocations", "parents_of", "wait_state"]

_LEAF_NONE, _LEAF_FUTURE, _LEAF_TASK = LEAVES["NONE"], LEAVES["FUTURE"], LEAVES["TASK"]
_LEAF_SPAWN, _LEAF_NAME = LEAVES["SPAWN"], LEAVES["NAME"]
_MAX_DIGITS = 9

# the innermost coroutine: end of its file's path, beginning of its name, what it waits for
_REASONS = (
    ("asyncio/tasks.py", "sleep", "sleep"),
    ("asyncio/tasks.py", "", "tasks"),
    ("asyncio/locks.py", "Lock.", "lock"),
    ("asyncio/locks.py", "Semaphore.", "semaphore"),
    ("asyncio/locks.py", "BoundedSemaphore.", "semaphore"),
    ("asyncio/locks.py", "Event.", "event"),
    ("asyncio/locks.py", "Condition.", "condition"),
    ("asyncio/locks.py", "Barrier.", "condition"),
    ("asyncio/queues.py", "", "queue"),
    ("asyncio/streams.py", "StreamWriter.", "io-write"),
    ("asyncio/streams.py", "FlowControlMixin.", "io-write"),
    ("asyncio/streams.py", "", "io-read"),
    ("asyncio/threads.py", "", "thread"),
    ("asyncio/taskgroups.py", "", "children"),
    ("asyncio/timeouts.py", "", "tasks"),
    ("asyncio/runners.py", "", "tasks"),
    ("asyncio/subprocess.py", "", "io-read"),
    ("asyncio/selector_events.py", "BaseSelectorEventLoop.sock_recv", "io-read"),
    ("asyncio/selector_events.py", "BaseSelectorEventLoop.sock_accept", "io-read"),
    ("asyncio/selector_events.py", "BaseSelectorEventLoop.sock_", "io-write"),
    ("asyncio/base_events.py", "Server.", "event"),
    ("asyncio/base_events.py", "BaseEventLoop.run_in_executor", "thread"),
    ("asyncio/base_events.py", "BaseEventLoop.shutdown_default_executor", "thread"),
    ("asyncio/base_events.py", "BaseEventLoop.getaddrinfo", "thread"),
    ("asyncio/base_events.py", "BaseEventLoop.", "io-read"),
    ("aiohttp/streams.py", "", "io-read"),
    ("aiohttp/base_protocol.py", "", "io-write"),
    ("aiohttp/connector.py", "", "io-read"),
    ("aiohttp/client_proto.py", "", "io-read"),
    ("aiohttp/web_protocol.py", "RequestHandler.start", "io-read"),
    ("trio/_timeouts.py", "", "sleep"),
    ("trio/_sync.py", "Lock", "lock"),
    ("trio/_sync.py", "StrictFIFOLock", "lock"),
    ("trio/_sync.py", "_LockImpl", "lock"),
    ("trio/_sync.py", "Semaphore", "semaphore"),
    ("trio/_sync.py", "CapacityLimiter", "semaphore"),
    ("trio/_sync.py", "Event", "event"),
    ("trio/_sync.py", "Condition", "condition"),
    ("trio/_core/_parking_lot.py", "", "lock"),
    ("trio/_core/_run.py", "checkpoint", "sleep"),
    ("trio/_channel.py", "", "queue"),
    ("trio/_threads.py", "", "thread"),
    ("trio/_core/_run.py", "Nursery", "children"),
    ("trio/_core/_run.py", "NurseryManager", "children"),
    ("trio/_core/_io_epoll.py", "EpollIOManager.wait_writable", "io-write"),
    ("trio/_core/_io_epoll.py", "EpollIOManager.wait_readable", "io-read"),
    ("trio/_core/_io_epoll.py", "", "io-read"),
    ("anyio/_backends/_asyncio.py", "Event.", "event"),
    ("anyio/_backends/_asyncio.py", "Lock.", "lock"),
    ("anyio/_backends/_asyncio.py", "Semaphore.", "semaphore"),
    ("anyio/_backends/_asyncio.py", "CapacityLimiter.", "semaphore"),
    ("anyio/_backends/_asyncio.py", "TaskGroup.", "children"),
    ("anyio/_backends/_asyncio.py", "AsyncIOBackend.run_sync_in_worker_thread", "thread"),
    ("anyio/_backends/_asyncio.py", "SocketStream.receive", "io-read"),
    ("anyio/_backends/_asyncio.py", "SocketStream.send", "io-write"),
    ("anyio/streams/memory.py", "", "queue"),
)


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A line of code, and whose it is.

    Attributes:
        line: Its number, 0 if unknown.
        function: The function's qualified name.
        file: The file's path as the code object has it.
        subject: Of a spawn the coroutine's name, of a wait the innermost coroutine's.
        subject_file: Where the subject is defined.
        leaf: What the innermost coroutine waits for, as the format numbers it.
    """

    line: int
    function: str
    file: str
    subject: str = ""
    subject_file: str = ""
    leaf: int = _LEAF_NONE

    @classmethod
    def parse(cls, text: str) -> CodeLocation:
        """Return the location that a definition's text means; what is missing is left empty."""
        line, function, file, subject, subject_file, _, leaf, *_ = [*text.split("\0"), *[""] * 7]
        return cls(
            _number(line),
            function,
            file,
            subject,
            subject_file,
            _number(leaf),
        )

    @property
    def location(self) -> str:
        """The line as `app.py:12`."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}" if self.file else ""

    @property
    def site(self) -> str:
        """What tasks spawned there are, as `handle (app.py:12)`."""
        name = self.subject or "unknown"
        return f"{name} ({self.location})" if self.location else name

    def fields(self) -> Mapping[str, Any]:
        """Return what a tag says of it."""
        if self.leaf == _LEAF_SPAWN:
            fields = {
                "coroutine": self.subject,
                "location": self.location,
                "function": self.function,
                "file": self.file,
                "line": self.line,
            }
        elif self.leaf == _LEAF_NAME:
            fields = {
                "function": self.function or self.subject,
                "location": self.location,
                "file": self.file,
                "line": self.line,
            }
        else:
            fields = {
                "reason": _reason(self),
                "location": self.location,
                "function": self.function,
                "file": self.file,
                "line": self.line,
                "in": self.subject,
            }
        return {name: value for name, value in fields.items() if value}


class DefinedLocations:
    """The code locations of all processes; the index of one is its tag, also when more are added.

    Attributes:
        all: In the order in which they were added.
    """

    def __init__(self) -> None:
        self.all: list[CodeLocation] = []
        self._waits: list[int] = []
        self._process: list[int] = []
        self._number: list[int] = []
        self._added: dict[int, int] = {}

    def add(self, process: int, locations: Mapping[int, CodeLocation]) -> None:
        """Add the locations, by number, that a process has defined since the last time."""
        for number, location in islice(locations.items(), self._added.get(process, 0), None):
            self.all.append(location)
            self._waits.append(wait_state(location))
            self._process.append(process)
            self._number.append(number)
        self._added[process] = len(locations)

    def columns(self) -> tuple[npt.NDArray[np.int8], Int32s, npt.NDArray[np.uint32]]:
        """Return, of each, the state of a task that waits there, its process and its number."""
        return (
            np.array(self._waits, np.int8),
            np.array(self._process, np.int32),
            np.array(self._number, np.uint32),
        )


def parents_of(
    keys: Sequence[tuple[int, int]], parents: Mapping[tuple[int, int], tuple[int, int]]
) -> Int32s:
    """Return the index of each process's parent among the keys, or -1."""
    index = {key: number for number, key in enumerate(keys)}
    return np.array([index.get(parents.get(key, (0, 0)), -1) for key in keys], np.int32)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def wait_state(location: CodeLocation) -> int:
    """Return the number of the state of a task that waits there."""
    reason = _reason(location)
    return STATES.index(f"waiting:{reason}" if reason else "waiting")


def _reason(location: CodeLocation) -> str:
    file = location.subject_file.replace("\\", "/")
    for ending, name, reason in _REASONS:
        if file.endswith("/" + ending) and location.subject.startswith(name):
            return reason
    if location.leaf == _LEAF_TASK:
        return "tasks"
    if location.leaf == _LEAF_FUTURE:
        return "future"
    return "sleep" if location.leaf == _LEAF_NONE else ""
