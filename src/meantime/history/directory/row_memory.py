"""Where the rows of a history are once they are read: in memory, or in a file without a name.

A program with more rows than fit in memory needs a file that the system may move them to and back.
It cannot be the history's own, mapped: another program that cuts that one would end this one with a
bus error, and one that writes to it would change rows after they were checked, on which compiled
code relies. Nobody else can open a file that has no name.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.history.directory.container import ALIGNMENT, aligned
from meantime.kernels.memory import Mapping

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

__all__ = ["Room", "RowMemory"]

# Allocators obtain blocks of this size directly from the system, which provides them in large
# pages: in small ones, providing the memory takes longer than reading the rows.
_BLOCK_BYTES = 2**26
# Smaller rows have memory of their own, as a page would be larger than a small history.
_SHARED_BYTES = 2**20


class Room:
    """Room for the rows of a segment, which is not filled.

    Attributes:
        rows: The bytes, aligned; of a file they cannot be written to.
    """

    def __init__(self, rows: Bytes, file: _NamelessFile | None = None, offset: int = 0) -> None:
        self.rows = rows
        self._file = file
        self._offset = offset

    def buffer(self) -> Bytes:
        """Return the memory to read the rows into, before they are kept."""
        return self.rows if self._file is None else np.empty(len(self.rows), np.uint8)

    def keep(self, buffer: Bytes) -> None:
        """Keep what was read into the buffer.

        Raises:
            InputError: If the disk is full.
        """
        if self._file is not None:
            self._file.write(buffer, self._offset)


class RowMemory:
    """Memory for the rows of the segments of one history."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest = np.empty(0, np.uint8)
        self._file: _NamelessFile | None = None

    def take(self, size_bytes: int) -> Room:
        """Return room in memory."""
        if not _SHARED_BYTES <= size_bytes <= _BLOCK_BYTES // 2:
            return Room(np.empty(size_bytes, np.uint8))
        with self._lock:
            if len(self._rest) < size_bytes:
                block = np.empty(_BLOCK_BYTES + ALIGNMENT, np.uint8)
                self._rest = block[-block.ctypes.data % ALIGNMENT :]
            found, self._rest = _split(self._rest, size_bytes)
        return Room(found)

    def take_in_file(self, size_bytes: int, source: str) -> Room:
        """Return room in a file.

        Args:
            size_bytes: How much.
            source: What the rows are of, for messages.

        Raises:
            InputError: If there can be no such file.
        """
        with self._lock:
            if self._file is None:
                self._file = _NamelessFile(source)
            return self._file.room(size_bytes)


def _split(rest: Bytes, size_bytes: int) -> tuple[Bytes, Bytes]:
    return rest[:size_bytes], rest[aligned(size_bytes) :]


class _NamelessFile:
    """A file that only this process has, mapped in blocks."""

    def __init__(self, source: str) -> None:
        from tempfile import TemporaryFile  # noqa: PLC0415 - for large histories only

        from meantime.files import lasting_folder  # noqa: PLC0415 - as above

        self._source = source
        self._folder = lasting_folder()
        self._size_bytes = 0
        self._rest = np.empty(0, np.uint8)
        self._descriptor = -1
        try:
            with TemporaryFile(dir=self._folder) as file:
                self._descriptor = os.dup(file.fileno())
        except OSError as error:
            raise self._error(error) from error

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def room(self, size_bytes: int) -> Room:
        """Return room behind all that was returned so far."""
        if len(self._rest) < size_bytes:
            block_bytes = max(_BLOCK_BYTES, -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES)
            try:
                # it takes place on the disk as it is written to
                os.truncate(self._descriptor, self._size_bytes + block_bytes)
                mapping = Mapping(self._descriptor, block_bytes, self._size_bytes)
            except OSError as error:
                raise self._error(error) from error
            self._size_bytes += block_bytes
            self._rest = np.frombuffer(memoryview(mapping), np.uint8)
        offset = self._size_bytes - len(self._rest)
        rows, self._rest = _split(self._rest, size_bytes)
        return Room(rows, self, offset)

    def write(self, data: Bytes, offset: int) -> None:
        """Write to room that was returned."""
        from meantime.system_calls import write_at  # noqa: PLC0415 - as above

        try:
            write_at(self._descriptor, data.data, offset)
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> InputError:
        return InputError(
            self._source,
            "of a history of more than 1 GiB, what a question needs is copied to"
            f" {self._folder}: {error.strerror or error}; set TMPDIR to a directory with more room",
        )
