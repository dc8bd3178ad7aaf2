"""Writing results: a file is complete or not written at all."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import click

from meantime.errors import InputError, MeantimeError, OutputError
from meantime.files import mode_of, private_folder, resolved, whole_file
from meantime.stores import is_there, is_url, put_directory, put_file

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

__all__ = [
    "LeftOverError",
    "handed_over",
    "is_to_be_replaced",
    "made_elsewhere",
    "replacing",
    "report_lost",
    "result_file",
    "write",
    "written_locally",
]

# In a process that may open no file: those for what it writes, by path; and where it may make a
# directory instead.
handed_over: dict[str, IO[bytes]] = {}
made_elsewhere: dict[str, str] = {}


class LeftOverError(OutputError):
    """What was replaced is still there, under another name."""


def write(path: str, chunks: Iterable[bytes], sources: Iterable[object] = ()) -> None:
    """Write the chunks to a file, or to standard output if the path is `-`; see `result_file`."""
    with result_file(path, sources) as file:
        for chunk in chunks:
            file.write(chunk)


def report_lost(lost: Counter[str], *, as_json: bool = False) -> None:
    """Print what is not in a result: one line each on standard error, or one JSON object."""
    if as_json:
        click.echo(json.dumps({"lost": {what: count for what, count in lost.items() if count}}))
        return
    for what, count in lost.items():
        if count:
            click.echo(f"not in the result: {count:,} {what}", err=True)


@contextmanager
def result_file(path: str, sources: Iterable[object] = ()) -> Iterator[IO[bytes]]:
    """Yield the file to write a result to: standard output if the path is `-`.

    A file appears under its name only when it is complete; a pipe or device is written directly.

    Args:
        path: The path.
        sources: The paths of what is copied into it; who may read it may read all of them.

    Raises:
        OutputError: If the file cannot be written.
    """
    if path in handed_over:
        yield handed_over[path]
        handed_over[path].flush()
        return
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with _opened(path, sources) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def written_locally(output: str, last: str, *, force: bool, keep: bool = False) -> Iterator[str]:
    """Yield the path to write a result to, which is then copied to the output if that is a URL.

    If the copy fails, what was written is left in the cache.

    Args:
        output: A path or a URL.
        last: Of a directory, the file that is copied last, and makes it complete; or empty.
        force: Replace what is in the store.
        keep: Leave in the cache what the block has written, also if it fails.

    Raises:
        OutputError: If it is there already, or cannot be copied.
    """
    if not is_url(output):
        yield made_elsewhere.get(output, output)
        return
    try:
        if not force and is_there(f"{output.rstrip('/')}/{last}".rstrip("/")):
            raise OutputError(f"{output}: already exists; choose another name, or use --force")
    except InputError as error:
        raise OutputError(str(error)) from None
    from tempfile import mkdtemp  # noqa: PLC0415 - few outputs are URLs

    from meantime.opening.cache import cache_directory  # noqa: PLC0415 - NumPy is not for --help

    folder = cache_directory() / "outgoing"
    try:
        private_folder(cache_directory())
        private_folder(folder)
        local = Path(mkdtemp(dir=folder)) / PurePosixPath(output).name
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}") from None
    try:
        yield str(local)
    except BaseException:
        if not (keep and any(local.parent.iterdir())):
            _remove(local.parent)
        raise
    try:
        if local.is_dir():
            put_directory(local, output, last)
        else:
            put_file(local, output)
    except MeantimeError as error:
        raise OutputError(f"{error}; it is in {local}") from None
    _remove(local.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield where the block makes a directory, which then gets the path, in place of what is there.

    If the block fails, nothing is left of it, and what is there is unchanged.

    Raises:
        LeftOverError: If the old one cannot be removed.
        OutputError: If the new one cannot be written.
    """
    # as of a file: a link refers to the new one then
    try:
        path = resolved(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    if Path.cwd().is_relative_to(path):
        raise OutputError(f"{path}: cannot be replaced: the command runs in it")
    # names that nobody knows before: in /tmp another user could put a link there
    some = os.urandom(4).hex()
    new, old = (path.with_name(f".{path.name}.{some}.{age}") for age in ("new", "old"))
    is_there = path.exists()
    try:
        yield new
        if is_there:
            path.rename(old)
        try:
            new.rename(path)
        except OSError:
            if is_there:
                old.rename(path)
            raise
    except BaseException as error:
        _remove(new)
        cause = error.__cause__ if isinstance(error, OutputError) else error
        if isinstance(cause, OSError):
            unchanged = ", and is unchanged" if is_there else ""
            raise OutputError(
                f"{path}: cannot be written{unchanged}: {cause.strerror or cause}"
            ) from None
        raise
    if not is_there:
        return
    try:
        _remove(old, ignore_errors=False)
    except OSError as error:
        raise LeftOverError(
            f"{path}: was replaced, but {old} cannot be removed: {error.strerror}"
        ) from None


def is_to_be_replaced(output: str, *, force: bool, resume: bool = True) -> bool:
    """Return whether a history is there that is to be replaced.

    Args:
        output: The directory of a history to build.
        force: Whether one that is there may be replaced.
        resume: Whether an interrupted build may be there.

    Raises:
        OutputError: If something else is there, or the folder of it is not.
    """
    from meantime.history.directory import is_history  # noqa: PLC0415 - not for --help
    from meantime.history.directory.open import is_unfinished  # noqa: PLC0415 - as above

    path = Path(output)
    is_there = path.exists()
    is_replaced = force and is_there and is_history(path)
    if is_there and not is_replaced and not (resume and is_unfinished(path)):
        hint = ", or use --force" if is_history(path) and not force else ""
        raise OutputError(f"{output}: already exists; choose another name{hint}")
    if not path.resolve().parent.is_dir():
        raise OutputError(f"{output}: the directory {path.parent} does not exist")
    return is_replaced


def _remove(directory: Path, *, ignore_errors: bool = True) -> None:
    from shutil import rmtree  # noqa: PLC0415 - with its compressors 2 ms, and few outputs need it

    rmtree(directory, ignore_errors=ignore_errors)


def _opened(path: str, sources: Iterable[object]) -> AbstractContextManager[IO[bytes]]:
    if _is_special(path):
        return Path(path).open("wb")
    return whole_file(Path(path), mode_of(sources))


def _is_special(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - one call for all kinds of files
    except FileNotFoundError:
        return False
