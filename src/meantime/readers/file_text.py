"""Random access to a file's bytes, read when they are needed.

The file is not mapped: if another program truncated it meanwhile, access to the mapping would kill
the process with SIGBUS.
"""

from __future__ import annotations

import os
import weakref
from typing import Final

from meantime.errors import InputError

__all__ = ["BLOCK_BYTES", "FileText", "block_of"]

# Small enough to stay in the second-level cache between reading and scanning.
BLOCK_BYTES: Final = 1 << 20
# Requests are mostly short and in the order of the file.
_READ_AHEAD_BYTES = 1 << 14


class FileText:
    """The bytes of an open file, through a duplicate of its descriptor.

    What is appended to the file later is ignored.
    """

    def __init__(self, name: str, descriptor: int, size: int) -> None:
        self._name = name
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._size = size
        self._modified_ns = os.fstat(descriptor).st_mtime_ns
        self._buffer = bytearray()
        self._ahead = (0, b"")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        """Return some of the bytes.

        Raises:
            InputError: If the file was changed since it was opened.
        """
        start, stop, _ = part.indices(self._size)
        offset, ahead = self._ahead
        if start < offset or stop > offset + len(ahead):
            self._check_unchanged()
            wanted = min(max(stop - start, _READ_AHEAD_BYTES), self._size - start)
            read = bytearray(wanted)
            self._read_into(memoryview(read), start)
            offset, ahead = self._ahead = (start, bytes(read))
        return ahead[start - offset : stop - offset]

    def block(self, offset: int, size: int) -> memoryview:
        """Return the bytes from an offset on, at most `size`; they are valid until the next call.

        Raises:
            InputError: If the file became shorter.
        """
        size = min(size, self._size - offset)
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        block = memoryview(self._buffer)[:size]
        self._read_into(block, offset)
        return block

    def _read_into(self, buffer: memoryview, offset: int) -> None:
        read = 0
        while read < len(buffer):
            try:
                count = os.preadv(self._descriptor, [buffer[read:]], offset + read)
            except OSError as error:
                reason = error.strerror or str(error)
                raise InputError(self._name, f"it cannot be read ({reason})") from error
            if not count:
                raise self._cut(offset + read)
            read += count

    def _check_unchanged(self) -> None:
        status = os.fstat(self._descriptor)
        if status.st_size < self._size:
            raise self._cut(status.st_size)
        # A longer file is probably still being written: what was read of it is unchanged.
        if status.st_size == self._size and status.st_mtime_ns != self._modified_ns:
            raise InputError(self._name, "the file was changed after it was read: read it again")

    def _cut(self, left: int) -> InputError:
        return InputError(
            self._name,
            f"the file became shorter while it was read: {left:,} of {self._size:,} bytes are left",
        )


def block_of(text: FileText | memoryview, offset: int, size: int) -> memoryview:
    """Return the bytes of a text from an offset on, at most `size`; valid until the next call."""
    if isinstance(text, FileText):
        return text.block(offset, size)
    return text[offset : offset + size]
