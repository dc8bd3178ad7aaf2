"""Notebooks: after `%load_ext meantime`, `%%statemap` records a cell and shows its statemap."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from meantime.errors import InputError, MeantimeError

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_MAGIC = re.compile(r"%%statemap(?:[ \t]+(.*?))?\s*$")
_USAGE = "%%statemap [-o NAME.mtr]: record the tasks and event loops of a cell, and draw them"
_NOTHING = "meantime: the cell ran no tasks, event loops or thread pools"
# Files of the tasks that belong to the notebook's kernel, not to the cell.
_KERNEL = re.compile(r"[\\/](?:ipykernel|tornado|zmq|jupyter_client|IPython)[\\/]")
_KERNEL_THREADS = ("Control", "Heartbeat", "IOPub", "Shell channel", "Subshell")


class _Cell:
    """The recording of the current cell."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._path: str | None = None
        self._kernel: set[str] = set()
        self._threads: list[int | None] = []
        self._number = 0

    def begin(self, arguments: str) -> None:
        """Start recording; called at the beginning of a cell."""
        from meantime.collect import _recorder, session  # noqa: PLC0415 - not before a cell is recorded

        path = _output(arguments)
        if session.recording_path() is not None:
            _refuse("this notebook is already being recorded")
        if path is None:
            self._folder = tempfile.mkdtemp(prefix="meantime-")
            path = str(Path(self._folder) / "cell.mtr")
        self._kernel = _tasks_of_kernel()
        self._threads = [thread.native_id for thread in threading.enumerate()]
        try:
            session.create(path, ["%%statemap"])
            session.begin(path, session.Options(), fresh=False)
        except OSError as error:
            _refuse(f"{path}: {error.strerror}")
        except MeantimeError as error:
            _refuse(str(error))
        self._path = path
        # The cell runs in one of the kernel's tasks.
        self._number = _recorder.current()
        _recorder.emit_text(_recorder.KINDS["NAME"], self._number, "the cell")

    def end(self, _result: object = None) -> None:
        """Stop recording and show the statemap; called after every cell."""
        if self._path is None:
            return
        from meantime.collect import session  # noqa: PLC0415 - as above

        path, self._path = self._path, None
        # again, since the kernel may have started tasks while the cell ran
        self._kernel |= _tasks_of_kernel()
        session.stop()
        try:
            self._show(path)
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder)
                self._folder = None

    def _show(self, path: str) -> None:
        from meantime.opening.history_from_path import open_history  # noqa: PLC0415 - as above
        from meantime.view_functions.statemap import statemap  # noqa: PLC0415 - as above

        history = open_history(path)
        hidden = [
            *(
                f"Tasks/{re.escape(name)}(?: .*)?/(?!{self._number}$)"
                for name in sorted(self._kernel)
            ),
            *(f"(?:Loops|Workers)/{re.escape(name)}" for name in _KERNEL_THREADS),
            # what the main thread does is shown by its loop
            *(f"Threads/.* {thread}$" for thread in self._threads),
        ]
        if any(lane.declaration.entity_kind != "Thread" for lane in history.lanes):
            with suppress(InputError):  # all of them are the kernel's
                drawn = statemap(history, filter=f"^(?!{'|'.join(hidden)})")
                import_module("IPython.display").display(drawn)
                return
        print(_NOTHING)  # noqa: T201 - where a cell's output goes


def _output(arguments: str) -> str | None:
    words = shlex.split(arguments)
    if not words:
        return None
    if len(words) != 2 or words[0] != "-o":
        _refuse(_USAGE)
    return words[1]


def _refuse(message: str) -> NoReturn:
    raise import_module("IPython.core.error").UsageError(message)


def _tasks_of_kernel() -> set[str]:
    """Return the names of the coroutines of the kernel's own tasks."""
    if "asyncio" not in sys.modules:
        return set()
    from meantime.collect.unfinished import unfinished_tasks  # noqa: PLC0415 - asyncio is there

    coroutines: list[Any] = [task.get_coro() for task in unfinished_tasks()]
    return {
        coroutine.__qualname__
        for coroutine in coroutines
        if _KERNEL.search(getattr(getattr(coroutine, "cr_code", None), "co_filename", ""))
    }


def _transform(lines: list[str]) -> list[str]:
    """Return a cell that begins with `%%statemap` as a cell whose first line starts recording.

    So it runs like other cells: with `await` at the top level, and its last value is shown.
    """
    match = _MAGIC.match(lines[0]) if lines else None
    if match is None:
        return lines
    first = f"get_ipython().run_line_magic('_statemap_begin', {match[1] or ''!r})\n"
    return [first, *lines[1:]]


_cells: dict[int, _Cell] = {}


def load_ipython_extension(shell: Any) -> None:
    """Add `%%statemap` to IPython."""
    cell = _cells[id(shell)] = _Cell()

    def statemap(line: str, body: str) -> None:
        cell.begin(line)
        try:
            shell.run_cell(body)
        finally:
            cell.end()

    statemap.__doc__ = _USAGE
    shell.register_magic_function(cell.begin, "line", "_statemap_begin")
    shell.register_magic_function(statemap, "cell", "statemap")
    shell.input_transformers_cleanup.append(_transform)
    shell.events.register("post_run_cell", cell.end)


def unload_ipython_extension(shell: Any) -> None:
    """Remove `%%statemap`."""
    cell = _cells.pop(id(shell))
    shell.input_transformers_cleanup.remove(_transform)
    shell.events.unregister("post_run_cell", cell.end)
    del shell.magics_manager.magics["line"]["_statemap_begin"]
    del shell.magics_manager.magics["cell"]["statemap"]
