"""`--confined`: the rest of a command in a process that can do no harm, whatever is in its inputs.

The process reads the files that are named, and nothing else. What it writes goes into a file
without a name, which the process that was called copies to the output once all is right.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import ExitStack
from glob import glob
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile, mkdtemp
from typing import IO, TYPE_CHECKING

import click

from meantime.cli import output
from meantime.confinement import confine, limit
from meantime.errors import MeantimeError, UsageError
from meantime.model.units import format_bytes, parse_size
from meantime.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["go_on_confined"]

_MOST_BYTES = 2_000_000_000
# Of all processors together, and so many bytes of the inputs are worth a second more.
_MOST_S, _BYTES_A_SECOND = 60, 2_000_000
_BLOCK_BYTES = 1 << 20
_DIRECTORY = ".mth"
_WRITTEN = ("output", "arrow", "parquet")
# What belongs to an input, and is beside it.
_BESIDE = (".columns.toml", "-wal", "-shm", "-journal")


def go_on_confined(context: click.Context) -> None:
    """Return in a process that is confined; in this one, end as it ended.

    Raises:
        Exit: With the status of that process.
        MeantimeError: If the system ended it.
        UsageError: If the command cannot be confined.
    """
    if not hasattr(os, "fork"):
        raise UsageError("--confined needs a system that can fork processes")
    _check(context)
    named = [*_texts(context.params)]
    written: str = next((path for name in _WRITTEN if (path := context.params.get(name))), "-")
    inputs = [each for each in named if each != written]
    memory = context.meta.get("meantime.memory")
    most_bytes = _MOST_BYTES if memory is None else parse_size(memory)
    most_s = _MOST_S + sum(map(_size, inputs)) // _BYTES_A_SECOND
    with ExitStack() as stack:
        own = mkdtemp(prefix="meantime-")
        stack.callback(rmtree, own, ignore_errors=True)
        result = _Result(written, stack, force=bool(context.params.get("force")))
        readable = [*_readable(inputs)]
        sys.stdout.flush()
        child = os.fork()
        if not child:
            stack.pop_all()  # is done by the process that waits
            os.environ["TMPDIR"] = own
            result.hand_over()
            if "-" not in inputs:
                _leave_terminal()
            if "statement" in context.params:
                from meantime.query.confined import prepare  # noqa: PLC0415 - for SQL alone

                prepare()  # no other program can be started later
            limit(most_bytes, most_s)
            confine(readable, [own, *result.folders], _listed(inputs))
            return
        status = _waited(child, most_bytes, most_s)
        if not status:
            result.take(inputs)
    raise click.exceptions.Exit(status)


class _Result:
    """What the command writes, where nothing of it can harm what has the same place later.

    Args:
        path: Its output; `-` is none.
        stack: Removes what is left of it.
        force: Whether a directory that is there is replaced.

    Raises:
        OutputError: If something else is there.
    """

    def __init__(self, path: str, stack: ExitStack, *, force: bool) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.folders: list[str] = []
        if path.endswith(_DIRECTORY):
            # it says the same of what is there as the process that builds
            output.is_to_be_replaced(path, force=force, resume=False)
            name, folder = Path(path).name, Path(path).absolute().parent
            self.folders.append(mkdtemp(prefix=f".{name}.", dir=folder))
            stack.callback(rmtree, self.folders[0], ignore_errors=True)
            self._made = Path(self.folders[0], name)
        elif path != "-":
            self._file = stack.enter_context(TemporaryFile())  # noqa: SIM115 - that closes it

    def hand_over(self) -> None:
        """Let this process write there, and nowhere else."""
        if self._file is not None:
            output.handed_over[self._path] = self._file
        elif self.folders:
            output.made_elsewhere[self._path] = str(self._made)

    def take(self, inputs: list[str]) -> None:
        """Give it its name."""
        if (file := self._file) is not None:
            file.seek(0)
            output.write(self._path, iter(lambda: file.read(_BLOCK_BYTES), b""), inputs)
        elif self.folders:
            with output.replacing(Path(self._path)) as new:
                self._made.rename(new)


def _leave_terminal() -> None:
    """Read nothing from the standard input, which may be a terminal."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _waited(child: int, most_bytes: int, most_s: int) -> int:
    """Return the exit status of a process.

    Raises:
        MeantimeError: If a signal ended it.
    """
    # Ctrl-C is for that process, too, which says so
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.signal(signal.SIGINT, before)
    if status == -signal.SIGXCPU:
        raise MeantimeError(f"this takes more than {most_s:,} s of the processor")
    if status < 0:
        raise MeantimeError(
            f"the process ended by {signal.Signals(-status).name}: it may need more than"
            f" {format_bytes(most_bytes)} of memory, which --memory SIZE allows"
        )
    return status


def _readable(inputs: Iterable[str]) -> Iterator[str]:
    for each in inputs:
        for path in [each] if os.path.exists(each) else glob(each):  # noqa: PTH110,PTH207 - patterns of users
            yield path
            yield from (path + end for end in _BESIDE)
            if path.endswith(".mtj"):
                from meantime.opening.joined_file import files_of  # noqa: PLC0415 - few are

                yield from files_of(path)


def _listed(inputs: Iterable[str]) -> Iterator[str]:
    """Yield the folders in which files are looked for by a pattern."""
    for each in inputs:
        if not os.path.exists(each) and glob(each):  # noqa: PTH110,PTH207 - as above
            yield str(Path(re.split(r"[*?[]", each)[0] + "x").absolute().parent)


def _size(path: str) -> int:
    try:
        own = os.stat(path).st_size  # noqa: PTH116 - it may be any text
    except (OSError, ValueError):
        return 0
    below = Path(path).rglob("*") if Path(path).is_dir() else ()
    return own + sum(each.lstat().st_size for each in below)


def _check(context: click.Context) -> None:
    """Raise UsageError if there is something that the command could not do."""
    params, meta = context.params, context.meta
    if context.command.name == "view" and params["output"] is None:
        raise UsageError("--confined applies to a page in a file: name it with -o")
    if params.get("client"):
        raise UsageError("--client and --confined are mutually exclusive: it has no network")
    if params.get("jobs", 1) > 1:
        raise UsageError("-j and --confined are mutually exclusive: it reads in one process")
    for kind in ("paths", "urls"):
        if meta.get(f"meantime.allow_{kind}"):
            raise UsageError(f"--allow-{kind} and --confined are mutually exclusive")
    for text in _texts(params):
        if is_url(text):
            raise UsageError(f"{text}: a process that is confined has no network; copy it first")


def _texts(value: object) -> Iterator[str]:
    """Yield all words of the command line that may name a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _texts(each)
