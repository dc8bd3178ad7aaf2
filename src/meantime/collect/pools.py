"""Hooks of threads and of thread pools: of the standard library, trio, anyio and Dask."""

from __future__ import annotations

import sys

from meantime.collect import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["POOL_MODULES", "PoolHooks", "watch_threads"]

# extension modules in which threads block, besides the interpreter itself
_BLOCKING = ("_socket", "select", "_ssl", "_multiprocessing")


class PoolHooks:
    """Replaces what starts threads and gives them work.

    Args:
        replace: Replaces an attribute of a class by a hook, until the recording ends.
    """

    def __init__(self, replace: Callable[[Any, str, str], None]) -> None:
        self._replace = replace

    def callbacks(self) -> dict[str, Callable[[ModuleType], None]]:
        """Return what to call when modules of pools have been imported."""
        pools = {name: _bound(change, self) for name, change in _POOLS.items()}
        return pools | dict.fromkeys(_BLOCKING, _recorder.watch_calls)

    def threads(self, threading: ModuleType, *, watched: bool) -> None:
        """Record threads from the first on that the program starts, or now, if there are some.

        If they are not to be watched, the recording says from then on that their waits are missing.
        """
        begin = _watch_or_report if watched else _report_unwatched
        self._replace(threading.Thread, "start", "thread_start")
        if threading.active_count() > 1:
            begin()
        else:
            _recorder.await_threads(begin)

    def _executor(self, thread: ModuleType) -> None:
        item = thread._WorkItem  # noqa: SLF001 - what a pool's threads run has no public name
        self._replace(item, "__init__", "item_init")
        self._replace(item, "run", "item_run")
        self._replace(thread.ThreadPoolExecutor, "submit", "submit")

    def _thread_pool(self, pool: ModuleType) -> None:
        self._replace(pool.ThreadPool, "_setup_queues", "pool_queues")

    def _trio(self, cache: ModuleType) -> None:
        _recorder.add_pool("trio", 0)
        self._replace(cache.ThreadCache, "start_thread_soon", "trio_thread")

    def _anyio(self, backend: ModuleType) -> None:
        _recorder.add_pool("anyio", 0)
        self._replace(backend.AsyncIOBackend, "run_sync_in_worker_thread", "anyio_thread")


# what to call when modules of pools have been imported
_POOLS = {
    "concurrent.futures.thread": PoolHooks._executor,  # noqa: SLF001 - of this module
    # Dask's own copy of that module
    "distributed._concurrent_futures_thread": PoolHooks._executor,  # noqa: SLF001 - as above
    "multiprocessing.pool": PoolHooks._thread_pool,  # noqa: SLF001 - as above
    "trio._core._thread_cache": PoolHooks._trio,  # noqa: SLF001 - as above
    "anyio._backends._asyncio": PoolHooks._anyio,  # noqa: SLF001 - as above
}
POOL_MODULES = tuple(_POOLS)


def _bound(
    change: Callable[[PoolHooks, ModuleType], None], hooks: PoolHooks
) -> Callable[[ModuleType], None]:
    return lambda module: change(hooks, module)


def _watch_or_report() -> None:
    if not watch_threads():
        _recorder.leave_threads_unwatched("they cannot be watched in this Python", chosen=False)


def _report_unwatched() -> None:
    _recorder.leave_threads_unwatched("they are with --threads", chosen=True)


def watch_threads() -> bool:
    """Record waits of threads from now on; return whether that is possible here."""
    if not _recorder.watch_threads():
        return False
    for name in _BLOCKING:
        if (module := sys.modules.get(name)) is not None:
            _recorder.watch_calls(module)
    if (threading := sys.modules.get("threading")) is not None:
        # those that run already have passed the hook that reads a thread's name
        for thread in threading.enumerate():
            if thread.native_id is not None:
                _recorder.name_thread(thread.native_id, thread.name)
    return True
