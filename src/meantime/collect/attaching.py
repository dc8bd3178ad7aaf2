"""Tasks and loops that exist when a recording begins, and those that remain at its end."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from meantime.collect import _recorder
from meantime.collect.unfinished import unfinished_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["attach_tasks", "attach_trio_tasks", "detach_tasks", "running_loops"]


def running_loops() -> list[asyncio.AbstractEventLoop]:
    """Return the loops that run in other threads; asyncio has no list of them."""
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        return []
    here = asyncio._get_running_loop()  # noqa: SLF001 - get_running_loop raises instead
    loops = _recorder.instances(asyncio.AbstractEventLoop)
    return [loop for loop in loops if loop is not here and _runs(loop)]


def _runs(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return loop.is_running()
    except Exception:  # noqa: BLE001 - half constructed, or a mock: it may do anything
        return False


def attach_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Record these tasks from now on; none may be running, except the caller's."""
    for task in tasks:
        coroutine = _recorder.coroutine_of(task)
        waiter = getattr(task, "_fut_waiter", None)
        proxy = _recorder.attach(coroutine, task, waiter, waiter is None or waiter.done())
        _set(task, proxy)
    if (loop := asyncio._get_running_loop()) is not None:  # noqa: SLF001 - as above
        # the current step began before its task was attached: nothing else may report its end
        loop.call_soon(_recorder.end_unseen)


def detach_tasks() -> None:
    """Restore the coroutines of all tasks except those that are in the middle of a step."""
    for task in unfinished_tasks():
        _set(task, _recorder.detach(_recorder.coroutine_of(task)))


def attach_trio_tasks(trio: Any) -> Callable[[], None] | None:
    """Record the tasks of the trio that runs in this thread; return what detaches them again."""
    context = sys.modules["trio._core._run"].GLOBAL_RUN_CONTEXT
    runner = getattr(context, "runner", None)
    if runner is None or not trio.lowlevel.in_trio_run():
        return None
    for task in list(runner.tasks):
        send = task._next_send_fn  # noqa: SLF001 - the run queue is not public
        proxy = _recorder.attach_trio(task.coro, task, send is not None)
        if proxy is not None:
            task.coro = proxy
            if send is not None:
                # scheduled with the coroutine's own method, send or throw: now with the proxy's
                task._next_send_fn = getattr(proxy, send.__name__)  # noqa: SLF001 - as above

    def detach() -> None:
        for task in list(runner.tasks):
            coroutine = _recorder.detach(task.coro)
            if coroutine is not None:
                task.coro = coroutine

    return detach


def _set(task: asyncio.Task[Any], coroutine: object | None) -> None:
    if coroutine is None:
        return
    if isinstance(task, asyncio.tasks._PyTask):  # type: ignore[attr-defined] # noqa: SLF001 - tasks written in Python
        task._coro = coroutine  # noqa: SLF001 - as above
    else:
        _recorder.set_coroutine(task, coroutine)
