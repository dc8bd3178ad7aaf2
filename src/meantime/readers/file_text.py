"""Random access to a file's bytes, read when they are needed.

The file is not mapped: if another program truncated it meanwhile, access to the mapping would kill
the process with SIGBUS.
"""

from __future__ import annotations

import os
import weakref
from functools import lru_cache
from typing import Final

from meantime.errors import InputError
from meantime.system_calls import read_at, read_into_at

__all__ = ["BLOCK_BYTES", "FileText", "block_of"]

# Small enough to stay in the second-level cache between reading and scanning.
BLOCK_BYTES: Final = 1 << 20
# Short texts are read nearly in the order of the file: a begin's, its end's, then the next begin's.
_CACHED_BYTES = 1 << 15
_CACHED_BLOCKS = 256


class _File:
    """A file of which some bytes may be gone by now."""

    def __init__(self, name: str, descriptor: int, begin: int, size: int) -> None:
        self.size = size
        self._name = name
        self._begin = begin
        # duplicated, since the source closes its own, while arguments are read as long as the trace
        # exists; a finalizer closes it, because nothing else determines when that ends
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._modified_ns = os.fstat(descriptor).st_mtime_ns

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer with the bytes from an offset on."""
        read = 0
        while read < len(buffer):
            try:
                count = read_into_at(self._descriptor, buffer[read:], self._begin + offset + read)
            except OSError as error:
                raise self._unreadable(error) from error
            if not count:
                raise self._cut(offset + read)
            read += count

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes in a range, if the file is unchanged."""
        self._check_unchanged()
        found, size = [], stop - start
        while size:
            try:
                found.append(read_at(self._descriptor, size, self._begin + stop - size))
            except OSError as error:
                raise self._unreadable(error) from error
            if not found[-1]:
                raise self._cut(stop - size)
            size -= len(found[-1])
        return found[0] if len(found) == 1 else b"".join(found)

    def cached(self, index: int) -> bytes:
        """Return a block to be cached."""
        start = index * _CACHED_BYTES
        return self.part(start, min(start + _CACHED_BYTES, self.size))

    def _check_unchanged(self) -> None:
        status = os.fstat(self._descriptor)
        left = status.st_size - self._begin
        if left < self.size:
            raise self._cut(left)
        # A longer file is probably still being written: the part that was read is unchanged.
        if left == self.size and status.st_mtime_ns != self._modified_ns:
            raise InputError(self._name, "the file was changed after it was read: read it again")

    def _unreadable(self, error: OSError) -> InputError:
        reason = error.strerror or str(error)
        return InputError(self._name, f"it cannot be read ({reason})")

    def _cut(self, left: int) -> InputError:
        return InputError(
            self._name,
            f"the file became shorter while it was read: {left:,} of {self.size:,} bytes are left",
        )


def zeros_in(data: memoryview) -> int:
    """Return how many bytes are zero.

    >>> zeros_in(memoryview(bytes([1, 0])))
    1
    """
    import numpy as np  # noqa: PLC0415 - recognising a format needs no NumPy

    found = np.frombuffer(data, np.uint8)
    # twenty times as fast as counting, and nearly all blocks have none
    return 0 if not found.size or np.min(found) else found.size - int(np.count_nonzero(found))


class FileText:
    """`size` bytes of an open file from `begin` on, through a duplicate of its descriptor.

    Attributes:
        is_counted: Whether zero bytes in its blocks are counted.
        zero_bytes: How many there were so far.
    """

    def __init__(self, name: str, descriptor: int, size: int, begin: int = 0) -> None:
        self._file = _File(name, descriptor, begin, size)
        # `_file` is an object of its own so that this cache is not a cycle, which would delay the
        # close of the descriptor
        self._cached = lru_cache(_CACHED_BLOCKS)(self._file.cached)
        self._size = size
        self._buffer = bytearray()
        self.is_counted = False
        self.zero_bytes: int = 0
        self._counted_to = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        """Return some of the bytes.

        Raises:
            InputError: If the file was changed since it was opened.
        """
        start, stop = part.start or 0, part.stop
        # `indices` is slow, and nearly all slices are of arguments inside the file
        if stop is None or not 0 <= start < stop <= self._size:
            start, stop, _ = part.indices(self._size)
            if start >= stop:
                return b""
        index, offset = divmod(start, _CACHED_BYTES)
        end = offset + stop - start
        if end <= _CACHED_BYTES:
            return self._cached(index)[offset:end]
        if end <= 2 * _CACHED_BYTES:
            return self._cached(index)[offset:] + self._cached(index + 1)[: end - _CACHED_BYTES]
        # not cached: a long text would evict blocks that are still needed
        return self._file.part(start, stop)

    def block(self, offset: int, size: int) -> memoryview:
        """Return the bytes from an offset on, at most `size`; they are valid until the next call.

        Raises:
            InputError: If the file became shorter.
        """
        size = min(size, self._size - offset)
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        block = memoryview(self._buffer)[:size]
        self._file.read_into(block, offset)
        # a block may begin with the end of the one before
        if self.is_counted and offset + size > self._counted_to:
            self.zero_bytes += zeros_in(block[max(0, self._counted_to - offset) :])
            self._counted_to = offset + size
        return block


def block_of(text: FileText | memoryview, offset: int, size: int) -> memoryview:
    """Return the bytes of a text from an offset on, at most `size`; valid until the next call."""
    if isinstance(text, FileText):
        return text.block(offset, size)
    return text[offset : offset + size]
