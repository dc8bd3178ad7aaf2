"""Replaces functions of a program while it is recorded, and restores them."""

from __future__ import annotations

import os
import sys

from meantime.collect import _recorder
from meantime.collect.imports import ImportWatch
from meantime.collect.pools import POOL_MODULES, PoolHooks, watch_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["CHANGED_MODULES", "Hooks"]

_MISSING = object()
# what has its requests recorded by `requests`
_SERVERS = (
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.http.httptools_impl",
    "aiohttp.web_protocol",
)


class Hooks:
    """The hooks of one recording.

    Args:
        tasks: Whether to record tasks.
        workers: Whether to record event loops, and threads once the program starts some.
        threads: Whether to note the names of all threads.
        waits: Whether to record threads even before the program starts one.
        polls: Whether to be called at each turn of a loop, to detect when it is blocked.
        errors: Whether to dump rings when an exception is not handled.
    """

    def __init__(
        self,
        *,
        tasks: bool,
        workers: bool,
        threads: bool,
        waits: bool,
        errors: bool,
        polls: bool,
    ) -> None:
        self._tasks = tasks
        self._workers = workers
        self._errors = errors
        self._see_names = threads
        self._undo: list[tuple[Any, str, object]] = []
        self._loops: dict[int, tuple[Any, Any]] = {}
        self._library: list[str] = []
        # Whether the select module's epoll_wait is replaced, which costs loops less than a hook
        # of their selectors; None until the first loop needs it.
        self._watched: bool | None = False if polls else None
        self._cancellations: list[type[BaseException]] = []
        _recorder.configure_loops(self._loop_begins, self._loop_ends, workers=workers)
        self.waits_recorded: bool = waits and watch_threads()
        self._awaits_threads = (tasks or workers or waits) and not self.waits_recorded
        # A ring of each thread would take memory that nobody asked for.
        self._watches_threads = waits or (workers and not errors)
        callbacks: dict[str, Callable[[ModuleType], None]] = {}
        if tasks or workers or errors:
            callbacks = {name: _bound(change, self) for name, change in _LIBRARIES.items()}
        self._pools = PoolHooks(self._replace)
        if workers:
            callbacks.update(self._pools.callbacks())
        if errors:
            self._replace(sys, "excepthook", "unhandled")
        if threads or errors or self._awaits_threads:
            callbacks[_THREADING] = self._threads
        self._detach: list[Callable[[], None]] = []
        if tasks:
            callbacks.update(dict.fromkeys(_SERVERS, self._server))
        self._watch = ImportWatch(
            {name: _guarded(name, change) for name, change in callbacks.items()}
        )
        self._removed = False
        if tasks or workers:
            self._attach_running()

    def remove(self) -> None:
        """Restore everything that was replaced."""
        self._removed = True
        self._watch.remove()
        for detach in self._detach:
            detach()
        for loop, _ in list(self._loops.values()):
            self._loop_ends(loop)
        for owner, name, original in reversed(self._undo):
            if type(vars(owner).get(name)).__name__ != "Hook":
                # the program has replaced the hook in the meantime: keep that
                continue
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._undo.clear()

    def _replace(self, owner: Any, name: str, hook: str) -> None:
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, _recorder.hook(hook, getattr(owner, name)))

    def _asyncio(self, asyncio: ModuleType) -> None:
        self._add_library(asyncio)
        self._add_cancellation(asyncio.CancelledError)
        futures, tasks = sys.modules["asyncio.futures"], sys.modules["asyncio.tasks"]
        python_task = tasks._PyTask  # noqa: SLF001 - the one class whose tasks are not C's
        _recorder.configure_tasks(asyncio.Task, futures.Future, python_task, asyncio.iscoroutine)
        loop_class = sys.modules["asyncio.base_events"].BaseEventLoop
        self._replace(loop_class, "run_forever", "run_forever")
        if self._tasks:
            self._replace(loop_class, "create_task", "create_task")
            self._replace(python_task, "get_coro", "get_coro")
            if asyncio.Task is not python_task:
                _recorder.record_created(asyncio.Task, on=True)
                self._detach.append(lambda: _recorder.record_created(asyncio.Task, on=False))
        events = sys.modules["asyncio.events"]
        if _recorder.configure_handles(events.Handle, events.TimerHandle):
            self._replace(events.Handle, "_run", "handle_run")
            self._replace(loop_class, "run_in_executor", "run_in_executor")
        else:
            _report(asyncio, "callbacks")
        if self._errors:
            self._replace(loop_class, "call_exception_handler", "unhandled")

    def _attach_running(self) -> None:
        """Attach to the loops that run already, and to their tasks."""
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None and hasattr(asyncio, "run"):
            # asyncio is completely imported, so `attaching` can import its submodules
            from meantime.collect import attaching, unfinished  # noqa: PLC0415 - for asyncio only

            here = asyncio._get_running_loop()  # noqa: SLF001 - get_running_loop raises instead
            elsewhere = attaching.running_loops()
            if here is not None:
                _recorder.begin_loop(here)
            if self._tasks:
                attaching.attach_tasks(
                    task
                    for task in unfinished.unfinished_tasks()
                    if task.get_loop() not in elsewhere
                )
                # there is no list of recorded tasks: detaching tries all of them
                self._detach.append(attaching.detach_tasks)
            for loop in elsewhere:
                # another thread's loop is attached by that loop, between two of its callbacks
                try:
                    loop.call_soon_threadsafe(self._attach_loop, loop)
                except Exception:  # noqa: BLE001,S112 - closed in the meantime, or of an odd kind
                    continue
        if self._tasks and (trio := sys.modules.get("trio")) is not None:
            from meantime.collect import attaching  # noqa: PLC0415 - for a running trio only

            if (detach := attaching.attach_trio_tasks(trio)) is not None:
                self._detach.append(detach)

    def _attach_loop(self, loop: Any) -> None:
        if self._removed:
            return
        from meantime.collect import attaching  # noqa: PLC0415 - for asyncio only

        _recorder.begin_loop(loop)
        if self._tasks:
            attaching.attach_tasks(sys.modules["asyncio"].all_tasks(loop))

    def _uvloop(self, uvloop: ModuleType) -> None:
        self._add_library(uvloop)
        self._replace(uvloop.Loop, "run_forever", "run_forever")
        if self._tasks:
            self._replace(uvloop.Loop, "create_task", "create_task")
            self._replace(uvloop.Loop, "run_in_executor", "run_in_executor")
        # its loops wait in compiled code, not in a selector
        if self._workers and not _recorder.watch_events(sys.modules["uvloop.loop"].Loop):
            _report(uvloop, "polls of loops")
        if self._errors:
            self._replace(uvloop.Loop, "call_exception_handler", "unhandled")

    def _trio(self, trio: ModuleType) -> None:
        self._add_library(trio)
        self._add_cancellation(trio.Cancelled)
        traps = sys.modules["trio._core._traps"]
        checkpoint = getattr(traps, "CancelShieldedCheckpoint", None)
        _recorder.configure_trio(checkpoint)
        if checkpoint is None:
            _report(trio, "checkpoints")
        runner = sys.modules["trio._core._run"].Runner
        if self._tasks:
            self._replace(runner, "spawn_impl", "trio_spawn")
        if self._workers:
            self._replace(runner, "close", "trio_close")
            epoll = sys.modules.get("trio._core._io_epoll")
            if epoll is not None and not self._epoll_is_watched():
                self._replace(epoll.EpollIOManager, "get_events", "trio_get_events")

    def _threads(self, threading: ModuleType) -> None:
        if self._see_names or self._workers:
            self._replace(threading.Thread, "_bootstrap_inner", "thread_begin")
        if self._awaits_threads:
            self._pools.threads(threading, watched=self._watches_threads)
        if self._errors:
            self._replace(threading, "excepthook", "unhandled")

    def _server(self, module: ModuleType) -> None:
        from meantime.collect import requests  # noqa: PLC0415 - for servers only

        self._detach.append(requests.attach(module))

    def _add_library(self, module: ModuleType) -> None:
        if module.__file__:
            self._library.append(os.path.dirname(module.__file__) + os.sep)  # noqa: PTH120 - pathlib is an import the program may not have made
            _recorder.library(self._library)

    def _add_cancellation(self, kind: type[BaseException]) -> None:
        self._cancellations.append(kind)
        _recorder.configure_cancellation(self._cancellations)

    def _epoll_is_watched(self) -> bool:
        """Return whether the select module's epoll_wait is replaced; try it at the first call."""
        if self._watched is None:
            epoll = getattr(sys.modules.get("select"), "epoll", None)
            self._watched = epoll is not None and _recorder.watch_events(epoll)
        return self._watched

    def _loop_begins(self, loop: Any) -> None:
        if id(loop) in self._loops:
            return
        selector = getattr(loop, "_selector", None)
        self._loops[id(loop)] = (loop, selector)
        if self._tasks:
            _hook_instance(loop, "call_soon")
            # the handles of other loops are compiled, and are not hooked
            base_class = sys.modules["asyncio.base_events"].BaseEventLoop
            _recorder.hide_timers(on=not isinstance(loop, base_class))
        if self._workers and not (
            type(selector).__name__ == "EpollSelector" and self._epoll_is_watched()
        ):
            _hook_instance(selector, "select")

    def _loop_ends(self, loop: Any) -> None:
        hooked = self._loops.pop(id(loop), None)
        if hooked is not None:
            _unhook_instance(loop, "call_soon")
            _unhook_instance(hooked[1], "select")


# what to call when modules of libraries have been imported
_LIBRARIES = {
    "asyncio": Hooks._asyncio,  # noqa: SLF001 - of this module
    "uvloop": Hooks._uvloop,  # noqa: SLF001 - as above
    "trio": Hooks._trio,  # noqa: SLF001 - as above
    "anyio": Hooks._add_library,  # noqa: SLF001 - as above
}
# what is not recorded of a library whose parts are not found
_RECORDED = dict.fromkeys(_LIBRARIES, "tasks") | dict.fromkeys(POOL_MODULES, "thread pools")
_THREADING = "threading"
CHANGED_MODULES = (*_LIBRARIES, _THREADING, *POOL_MODULES, *_SERVERS)


def _guarded(name: str, change: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Return what reports an error of `change` in the recording: the program's import goes on."""

    def guarded(module: ModuleType) -> None:
        try:
            change(module)
        except Exception:  # noqa: BLE001 - a version of the library that is not known
            _report(module, _RECORDED.get(name, "requests" if name in _SERVERS else "threads"))

    return guarded


def _report(module: ModuleType, what: str) -> None:
    package = module.__name__.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "")
    _recorder.report_unrecognised(package, version if type(version) is str else "", what)


def _bound(
    change: Callable[[Hooks, ModuleType], None], hooks: Hooks
) -> Callable[[ModuleType], None]:
    return lambda module: change(hooks, module)


# Neither reads the object's __dict__: up to 3.12, that alone makes all its attributes slower, since
# the interpreter then moves them from inline values into a dictionary.


def _hook_instance(owner: Any, name: str) -> None:
    if not hasattr(type(owner), name):
        # not a usual loop or selector, such as a mock
        return
    try:
        setattr(owner, name, _recorder.hook(name, getattr(owner, name)))
    except AttributeError:
        # an object with slots: it works, but is not watched
        return


def _unhook_instance(owner: Any, name: str) -> None:
    hook: Any = getattr(owner, name, None)
    if type(hook).__name__ != "Hook":
        # never hooked, or the program has replaced the hook in the meantime
        return
    original = hook.__wrapped__
    delattr(owner, name)
    # a bound method of the class is found again; a function that was set on the instance is not
    if getattr(owner, name, None) != original:
        setattr(owner, name, original)
