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

__all__ = ["BLOCK_BYTES", "FileText", "block_of"]

# Small enough to stay in the second-level cache between reading and scanning.
BLOCK_BYTES: Final = 1 << 20
# Short texts are read nearly in the order of the file: a begin's, its end's, then the next begin's.
_CACHED_BYTES = 1 << 15
_CACHED_BLOCKS = 256


class _File:
    """A file of which some bytes may be gone by now."""

    def __init__(self, name: str, descriptor: int, size: int) -> None:
        self.size = size
        self._name = name
        # duplicated, since the source closes its own, while arguments are read as long as the trace
        # exists; a finalizer closes it, because nothing else determines when that ends
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)
        self._modified_ns = os.fstat(descriptor).st_mtime_ns

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer with the bytes from an offset on."""
        # preadv needs no file position, which the duplicate shares with the source
        read = 0
        while read < len(buffer):
            try:
                count = os.preadv(self._descriptor, [buffer[read:]], offset + read)
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
                found.append(os.pread(self._descriptor, size, stop - size))
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
        if status.st_size < self.size:
            raise self._cut(status.st_size)
        # A longer file is probably still being written: the part that was read is unchanged.
        if status.st_size == self.size and status.st_mtime_ns != self._modified_ns:
            raise InputError(self._name, "the file was changed after it was read: read it again")

    def _unreadable(self, error: OSError) -> InputError:
        reason = error.strerror or str(error)
        return InputError(self._name, f"it cannot be read ({reason})")

    def _cut(self, left: int) -> InputError:
        return InputError(
            self._name,
            f"the file became shorter while it was read: {left:,} of {self.size:,} bytes are left",
        )


class FileText:
    """The first `size` bytes of an open file, through a duplicate of its descriptor."""

    def __init__(self, name: str, descriptor: int, size: int) -> None:
        self._file = _File(name, descriptor, size)
        # `_file` is an object of its own so that this cache is not a cycle, which would delay the
        # close of the descriptor
        self._cached = lru_cache(_CACHED_BLOCKS)(self._file.cached)
        self._size = size
        self._buffer = bytearray()

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
        return block


def block_of(text: FileText | memoryview, offset: int, size: int) -> memoryview:
    """Return the bytes of a text from an offset on, at most `size`; valid until the next call."""
    if isinstance(text, FileText):
        return text.block(offset, size)
    return text[offset : offset + size]
