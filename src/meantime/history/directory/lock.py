"""One builder at a time: a lock on a directory, which the system releases when its owner ends."""

from __future__ import annotations

import gc
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from meantime.errors import OutputError
from meantime.files import descriptor_inside
from meantime.system_calls import lock_file, read_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["LOCK_NAME", "DirectoryLock", "is_begun"]

LOCK_NAME = "lock"

_HELD: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def is_begun(path: Path) -> bool:
    """Return whether a process that runs has created a directory for a history and nothing else.

    The lock is not tried, as a builder that wants it at that moment would be refused.
    """
    try:
        content = (path / LOCK_NAME).read_bytes().strip()
    except OSError:
        # a directory is created before its lock
        return path.suffix == ".mth" and path.is_dir() and not any(path.iterdir())
    if not content.isdigit():
        # it is filled once it is locked
        return not content
    if os.name == "nt":
        # a signal of number 0 would interrupt it there
        return True
    try:
        os.kill(int(content), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True


class DirectoryLock:
    """Locks a directory for one builder, until it is released or collected, or the process ends.

    Args:
        path: The directory.
        forked: Called in a child that is forked while the directory is locked by its parent.

    Raises:
        OutputError: If another builder has locked it, or the file cannot be written.
    """

    def __init__(self, path: Path, forked: Callable[[], None]) -> None:
        self._file = path / LOCK_NAME
        self.forked = forked
        self._handle = -1
        try:
            while self._handle < 0:
                self._handle = self._taken(path)
        except OSError as error:
            raise OutputError(f"{self._file}: {error.strerror or error}") from error
        _HELD.add(self)

    def _taken(self, path: Path) -> int:
        """Return the locked file; -1 if it was removed meanwhile."""
        handle = descriptor_inside(self._file, os.O_RDWR | os.O_CREAT)
        try:
            self._lock(handle, path)
            # Between opening and locking, its owner may have removed the file: a lock on a file
            # without a name would exclude nobody.
            there = self._file.stat()
            mine = os.fstat(handle)
            if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                os.ftruncate(handle, 0)
                os.write(handle, b"%d\n" % os.getpid())
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return -1

    @staticmethod
    def _lock(handle: int, path: Path) -> None:
        for last in (False, True):
            try:
                lock_file(handle)
            except BlockingIOError:
                holder = read_at(handle, 20, 0).strip()
                if not last and holder == b"%d" % os.getpid():
                    # an unreferenced builder keeps its lock until it is collected
                    gc.collect()
                    continue
                who = f"process {holder.decode()}" if holder.isdigit() else "another process"
                raise OutputError(
                    f"{path}: {who} is building it: wait until it is done, or stop it"
                ) from None
            return

    def release(self) -> None:
        """Unlock the directory, and remove the file."""
        if self._handle >= 0:
            if os.name == "nt":
                # It cannot be removed while it is open, nor once someone else has opened it.
                self.close()
                with suppress(OSError):
                    self._file.unlink()
                return
            # Removed while it is locked, so that nobody else's file is.
            self._file.unlink(missing_ok=True)
            self.close()

    def close(self) -> None:
        """Unlock the directory, and leave the file."""
        handle, self._handle = self._handle, -1
        _HELD.discard(self)
        if handle >= 0:
            with suppress(OSError):  # nothing of it is needed any more, as on a full disk
                os.close(handle)

    def __del__(self) -> None:
        self.close()


def _leave_in_child() -> None:
    """Close a forked child's copies of the locks.

    `flock` locks belong to the open file, which parent and child share: a child that outlives its
    parent would otherwise keep the directory locked.
    """
    for lock in list(_HELD):
        lock.close()
        lock.forked()


if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=_leave_in_child)
