"""Files and folders that are made, and who may read them.

A file appears under its name only when it is complete. What is made of a trace is readable by
those who may read the trace, as with `cp`; the cache and recordings only by their owner. The files
of a history are readable by those who may use its folder, so they stay private where they are
moved or copied to.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal

from meantime.system_calls import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "ANYBODY",
    "belongs_to_another",
    "descriptor_inside",
    "folder_inside",
    "folder_of_mode",
    "lasting_folder",
    "mode_of",
    "only_for",
    "open_inside",
    "open_regular",
    "private_folder",
    "regular_descriptor",
    "resolved",
    "whole_file",
    "write_whole",
]

# Who may read and write a file, as far as the umask permits.
ANYBODY = 0o666
_OWNER = 0o600
# Not everywhere there are such files.
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OTHERS = 0o077
# The mode of a folder in which all may make files, and none may remove files of others.
_SHARED = stat.S_ISVTX | stat.S_IWOTH
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


def open_inside(path: Path, how: Literal["ab", "r+b", "w+b", "wb"]) -> BinaryIO:
    """Open a file of a history or of the cache; a new one is for those who may use its folder.

    Args:
        path: Its path.
        how: The mode, as of `open`.

    Raises:
        OSError: If it cannot be opened.
    """
    return open(path, how, opener=descriptor_inside)


def descriptor_inside(path: str | os.PathLike[str], flags: int) -> int:
    """Return the descriptor of a file that is opened as by `open_inside`.

    Raises:
        OSError: As `open_inside`.
    """
    return os.open(path, flags | PRIVATE, _mode_inside(path) & ANYBODY | _OWNER)


def folder_inside(path: Path) -> None:
    """Create a folder of a history or of the cache, for those who may use the one it is in.

    Raises:
        OSError: If it cannot be created.
    """
    path.mkdir(_mode_inside(path) & 0o777, exist_ok=True)


def _mode_inside(path: str | os.PathLike[str]) -> int:
    return os.stat(os.path.dirname(path) or ".").st_mode  # noqa: PTH116,PTH120 - for each file of a history


def only_for(path: Path, mode: int) -> None:
    """Let only those use a folder and all in it who may use files of a mode.

    What belongs to another user, or is gone meanwhile, stays as it is.
    """
    for folder, _, names in os.walk(path):
        for each in (Path(folder), *(Path(folder, name) for name in names)):
            with suppress(OSError):
                state = each.lstat()
                others = (mode | (mode & 0o444) >> 2) & _OTHERS
                is_own = not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
                is_open = state.st_mode & _OTHERS & ~others and not stat.S_ISLNK(state.st_mode)
                if is_open and is_own:
                    each.chmod(stat.S_IMODE(state.st_mode) & (~_OTHERS | others))


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
    if hasattr(os, "geteuid") and not belongs_to_another(path):  # as modes say nothing on Windows
        path.chmod(path.stat().st_mode & ~_OTHERS & 0o7777)


def belongs_to_another(path: Path) -> bool:
    """Return whether what is there is of another user, as far as the system knows users.

    Raises:
        OSError: If nothing is there.
    """
    return hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid()


def resolved(path: Path) -> Path:
    """Return what a path to be replaced refers to: of a link, what it names.

    Raises:
        OSError: If it is a link that another user has left in a folder that all may write to, such
            as `/tmp`: what it names is not what the caller means.
    """
    if hasattr(os, "geteuid") and path.is_symlink():
        link, folder = path.lstat(), path.parent.stat()
        if folder.st_mode & _SHARED == _SHARED and link.st_uid not in {os.geteuid(), folder.st_uid}:
            raise OSError(errno.EACCES, "it is a link of another user", os.fspath(path))
    return path.resolve()


@contextmanager
def whole_file(path: Path, mode: int = ANYBODY) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside a path, which is renamed to the path if no exception is raised.

    Args:
        path: The path.
        mode: Who may read and write it, as far as the umask permits.

    Raises:
        OSError: If it cannot be written, or is a link that `resolved` refuses; the temporary file
            is removed then.
    """
    # in the target's own directory, since a rename is atomic within a file system only; a symbolic
    # link is resolved, so that it still refers to the result
    target = resolved(path)
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
