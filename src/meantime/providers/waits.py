"""The reasons for which recorded tasks wait, derived from their innermost coroutines."""

from __future__ import annotations

from meantime.kernels.record_kinds import LEAVES
from meantime.providers.tasks import STATES

__all__ = ["wait_reason", "wait_state"]

# the innermost coroutine: end of its file's path, beginning of its name, what it waits for;
# the first match applies, so within a file special names precede the empty one
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

# for these, the awaited object identifies the reason better than the coroutine does
_REASON_OF_LEAF = {
    LEAVES["ITEM"]: "thread",
    LEAVES["READ"]: "io-read",
    LEAVES["WRITE"]: "io-write",
}


def wait_reason(coroutine: str, file: str, leaf: int) -> str:
    """Return the reason for which a task waits, such as `sleep`; empty if it is unknown.

    Args:
        coroutine: The innermost coroutine's qualified name.
        file: The path of the file in which it is defined.
        leaf: What it waits for, one of `LEAVES`.
    """
    if leaf in _REASON_OF_LEAF:
        return _REASON_OF_LEAF[leaf]
    path = file.replace("\\", "/")
    for ending, name, reason in _REASONS:
        if path.endswith("/" + ending) and coroutine.startswith(name):
            return reason
    if leaf == LEAVES["TASK"]:
        return "tasks"
    if leaf == LEAVES["FUTURE"]:
        return "future"
    return "sleep" if leaf == LEAVES["NONE"] else ""


def wait_state(reason: str, leaf: int) -> int:
    """Return the index in `STATES` of the state of a task that waits for this.

    A task that waits for nothing has only let the others run: it is scheduled again at once.
    """
    if leaf == LEAVES["NONE"]:
        return STATES.index("runnable")
    return STATES.index(f"waiting:{reason}" if reason else "waiting")
