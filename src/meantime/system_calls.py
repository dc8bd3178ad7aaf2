"""Calls that not every system has, or has alike: reads at a position, locks of files, syncing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

try:
    import fcntl
except ImportError:
    # as on Windows, where `lock_file` has another call
    fcntl = None  # type: ignore[assignment,unused-ignore]  # tested where it is used

__all__ = [
    "PRIVATE",
    "enlarge_pipe",
    "interrupts_later",
    "lock_file",
    "read_at",
    "read_into_at",
    "sync",
    "write_at",
]

# Flags for `os.open`: not inherited by programs that are run, and nothing is translated.
PRIVATE: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A lock of Windows forbids to read what is locked, so it is of a byte behind all that is written.
_LOCKED_BYTE: Final = 1 << 30
_positions = threading.Lock()


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return up to `size` bytes of a file from an offset on, which leaves its position alone.

    They are fewer, or none, where the file ends.
    """
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    # Duplicates of a descriptor share its position, so all descriptors share a lock.
    with _positions:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, size)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def read_into_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read bytes of a file from an offset on into a buffer, and return how many: 0 at its end."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    found = read_at(descriptor, len(buffer), offset)
    buffer[: len(found)] = found
    return len(found)


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Write bytes to a file from an offset on, which leaves its position alone."""
    while data:
        if hasattr(os, "pwrite"):
            count = os.pwrite(descriptor, data, offset)
        else:
            with _positions:
                before = os.lseek(descriptor, 0, os.SEEK_CUR)
                os.lseek(descriptor, offset, os.SEEK_SET)
                count = os.write(descriptor, data)
                os.lseek(descriptor, before, os.SEEK_SET)
        data, offset = data[count:], offset + count


def lock_file(descriptor: int) -> None:
    """Lock an open file until it is closed.

    Where the system has no locks, as in a browser, nothing is locked.

    Raises:
        BlockingIOError: If another process, or another descriptor, has locked it.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - only Windows has it

        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(*error.args) from error
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def enlarge_pipe(descriptor: int, size_bytes: int) -> None:
    """Let a pipe hold more, if the system can change it, and the user may."""
    if fcntl is not None:
        with suppress(AttributeError, OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size_bytes)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    is_windows = os.name == "nt"
    if is_windows and path.is_dir():
        return  # it cannot be opened there
    handle = os.open(path, (os.O_RDWR if is_windows else os.O_RDONLY) | PRIVATE)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Let Ctrl-C wait until the block ends; processes that it starts are never interrupted.

    What starts them ends them: an interrupt while Python starts would be reported by each.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
