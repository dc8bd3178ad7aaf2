"""Files and folders that are made, and who may read them.

A file appears under its name only when it is complete. What is made of a trace is readable by
those who may read the trace, as with `cp`; the cache and recordings only by their owner.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from meantime.system_calls import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "ANYBODY",
    "folder_of_mode",
    "lasting_folder",
    "mode_of",
    "open_regular",
    "private_folder",
    "regular_descriptor",
    "whole_file",
    "write_whole",
]

# Who may read and write a file, as far as the umask permits.
ANYBODY = 0o666
_OWNER = 0o600
# Not everywhere there are such files.
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OTHERS = 0o077
_LASTING = "/var/tmp"  # noqa: S108 - the files in it have no names


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file inside of what someone else may have written, to read it.

    Raises:
        OSError: If it cannot be read, or is a pipe or device, at which reading might wait for ever.
    """
    return os.fdopen(regular_descriptor(path), "rb")


def regular_descriptor(path: str | os.PathLike[str]) -> int:
    """Return the descriptor of a file that is opened as by `open_regular`.

    Raises:
        OSError: As `open_regular`.
    """
    handle = os.open(path, os.O_RDONLY | PRIVATE | _NOT_WAITING)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return handle


def mode_of(sources: Iterable[object]) -> int:
    """Return the mode of a file that is made of others: who may read it may read all of them.

    Args:
        sources: Paths of files or directories; what has no mode, as a URL, changes nothing.
    """
    mode = ANYBODY
    for source in sources:
        if isinstance(source, str | os.PathLike):
            try:
                mode &= Path(source).stat().st_mode
            except (OSError, ValueError):
                continue
    return mode | _OWNER


def lasting_folder() -> str:
    """Return the directory for large temporary files, which is on a disk where it can be."""
    from tempfile import gettempdir  # noqa: PLC0415 - only for large inputs

    # many systems keep the usual directory in memory
    own = "TMPDIR" in os.environ or not os.access(_LASTING, os.W_OK)
    return gettempdir() if own else _LASTING


def folder_of_mode(path: Path, mode: int) -> None:
    """Create a folder in which files of a mode are, and those above it; one that exists stays.

    Raises:
        OSError: If it cannot be created.
    """
    # who may read the files may look for them
    path.mkdir(mode=mode | (mode & 0o444) >> 2, parents=True, exist_ok=True)


def private_folder(path: Path) -> None:
    """Create a folder that only its owner may look into; one that exists becomes such a folder.

    Raises:
        OSError: If it cannot be created.
    """
    folder_of_mode(path, _OWNER)
    if not hasattr(os, "geteuid"):
        return  # modes say nothing, as on Windows
    state = path.stat()
    if state.st_mode & _OTHERS and state.st_uid == os.geteuid():
        path.chmod(state.st_mode & ~_OTHERS & 0o7777)


@contextmanager
def whole_file(path: Path, mode: int = ANYBODY) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside a path, which is renamed to the path if no exception is raised.

    Args:
        path: The path.
        mode: Who may read and write it, as far as the umask permits.

    Raises:
        OSError: If it cannot be written; the temporary file is removed then.
    """
    # in the target's own directory, since a rename is atomic within a file system only; a symbolic
    # link is resolved, so that it still refers to the result
    target = path.resolve()
    # not by tempfile, which takes 2 ms to import
    temporary = target.parent / f".{target.name}.{os.urandom(4).hex()}"
    file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PRIVATE, mode), "wb")
    try:
        with file:
            yield file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, chunks: Iterable[bytes], mode: int = ANYBODY) -> None:
    """Write the chunks to a file that appears under its name when it is complete.

    Raises:
        OSError: If it cannot be written; nothing is left of it then.
    """
    with whole_file(path, mode) as file:
        file.writelines(chunks)
