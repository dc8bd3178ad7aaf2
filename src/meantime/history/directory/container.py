"""The layout that files of columns share: sections at multiples of 64 bytes, headers, checksums.

Files are read, not mapped. A mapped page raises SIGBUS when another process truncates the file,
which ends the program. It may also change after it was checked, while compiled code relies on the
check. Comparing lengths before each query would not help against either, and a library cannot
install signal handlers. So the header of a segment is read when a history is opened, its index at
the first query, and its rows when an answer first depends on them, which already had to read all
of them for the checksum.

The first states that are asked for are looked up in a few segments around their times, so that the
indexes of the others, 5 to 10 ms each with a million attributes, are read only for an interval
that is longer, or for other queries. The names and the extremes of many attributes stay texts
until one is needed (`unread`). Pyramids are read at their first use, and so is each column of the
event tables. A segment keeps its file open until its rows are read, and so do the tables, so a
history that was removed or replaced still answers. Histories of many hosts have more files than a
process may open, so `ContainerFile` closes the one that was opened longest ago, and opens it again
when it is read.

Measured on 10 million changes of 1,000 attributes, 54 MB: opening takes 15 ms either way, the
first query of everything 52 ms instead of 44, since memory is cleared before it is read into.
Memory grows segment by segment, as resident pages do, but the kernel cannot reclaim it. So the
rows of a history beyond its first GiB are copied as they are read to a temporary file that has no
name, and this copy is mapped: the kernel can reclaim its pages, and no other process can open it.
Copying adds 0.5 s of CPU time per GiB, once. The file is in `/var/tmp`, or in `TMPDIR` where that
is set; if there is no room, an `InputError` says so.
"""

from __future__ import annotations

import os
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from meantime.errors import InputError
from meantime.system_calls import read_into_at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from struct import Struct

    import numpy.typing as npt

__all__ = [
    "ALIGNMENT",
    "HEADER_BYTES",
    "ContainerFile",
    "Section",
    "aligned",
    "identity_of",
    "offsets_of",
    "pack_arrays",
    "pack_header",
    "size_of",
    "views",
]

ALIGNMENT = 64
HEADER_BYTES = 128
_CHECKSUM_BYTES = 4


class Section(NamedTuple):
    """An array in a file: its name, the type of its items, and how many there are."""

    name: str
    dtype: np.dtype[Any]
    length: int

    @property
    def size_bytes(self) -> int:
        """The bytes of its items, without padding."""
        return self.dtype.itemsize * self.length


def aligned(size_bytes: int) -> int:
    """Return a size rounded up to the alignment.

    >>> aligned(0), aligned(1), aligned(64)
    (0, 64, 64)
    """
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def size_of(sections: Iterable[Section]) -> int:
    """Return the bytes of all sections, each padded to the alignment."""
    return sum(aligned(section.size_bytes) for section in sections)


def offsets_of(sections: Iterable[Section]) -> dict[str, int]:
    """Return by name where each section begins."""
    offsets, offset = {}, 0
    for section in sections:
        offsets[section.name] = offset
        offset += aligned(section.size_bytes)
    return offsets


def views(
    buffer: npt.NDArray[np.uint8], sections: Iterable[Section]
) -> dict[str, npt.NDArray[Any]]:
    """Return by name the array of each section.

    Raises:
        ValueError: If the buffer ends before a section does; the argument is its name.
    """
    arrays, offset = {}, 0
    for section in sections:
        end = offset + section.size_bytes
        if end > len(buffer):
            raise ValueError(section.name)
        arrays[section.name] = buffer[offset:end].view(section.dtype)
        offset += aligned(section.size_bytes)
    return arrays


def pack_arrays(arrays: Iterable[npt.NDArray[Any]]) -> list[bytes]:
    """Return the bytes of arrays, each with its padding."""
    parts = []
    for array in arrays:
        data = array.tobytes()
        parts.append(data + bytes(aligned(len(data)) - len(data)))
    return parts


def pack_header(layout: Struct, *fields: Any) -> bytes:
    """Return a header: the fields, the checksum of them in the layout's last four bytes, zeros."""
    header = layout.pack(*fields, 0)[:-_CHECKSUM_BYTES]
    checksum = zlib.crc32(header).to_bytes(_CHECKSUM_BYTES, "little")
    return (header + checksum).ljust(HEADER_BYTES, b"\0")


def identity_of(stat: os.stat_result) -> tuple[int, int, int]:
    """Return a value that changes when a file is replaced, or written to."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


class ContainerFile:
    """A file open for reading: errors name it, and end with what to do about it.

    It is closed when nothing refers to it any more, if not before. A file that was removed or
    replaced after it was opened is still read, unless so many others were opened since that it was
    closed meanwhile: a process can have only so many files open. A relative path is that of when
    it was opened first.

    Attributes:
        size_bytes: Its length when it was opened.

    Raises:
        InputError: If it cannot be opened.
    """

    def __init__(self, path: Path, advice: str = "") -> None:
        self._path = path
        # a text: making one of a path for each use takes longer than opening the file
        self._absolute = str(path if path.is_absolute() else path.absolute())
        self._advice = advice
        # reentrant, as a file may be collected, and closed, while another is opened
        self._lock = threading.RLock()
        self._descriptor: int | None = None
        self._identity = os.fstat(self._open())
        self.size_bytes: int = self._identity.st_size

    @property
    def identity(self) -> tuple[int, int, int]:
        """A value that changes when the file is replaced, or written to."""
        return identity_of(self._identity)

    def close(self) -> None:
        """Close the file; what was read of it stays, and what is read later opens it again."""
        _OPEN.pop(id(self), None)
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int:
        """Return the descriptor; the file is opened if it is not."""
        if self._descriptor is None:
            _close_oldest()
            from meantime.files import regular_descriptor  # noqa: PLC0415 - only for what is stored

            try:
                self._descriptor = regular_descriptor(self._absolute)
            except OSError as error:
                raise self.error(f"cannot be read: {error.strerror or error}") from None
            _OPEN[id(self)] = ref(self)
        return self._descriptor

    def _again(self) -> int:
        """Return the descriptor of the file that was opened first.

        Raises:
            InputError: If it is not there any more.
        """
        if self._descriptor is not None:
            return self._descriptor
        descriptor = self._open()
        now, then = os.fstat(descriptor), self._identity
        if (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino):
            self.close()
            raise self.error("was replaced while it was read")
        return descriptor

    def _release(self) -> bool:
        """Close the file for now, unless another thread reads it; return whether it is closed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.close()
        finally:
            self._lock.release()
        return True

    def __del__(self) -> None:
        self.close()

    def error(self, what: str, offset: int | None = None) -> InputError:
        """Return an error about the file."""
        reason = f"{what}; {self._advice}" if self._advice else what
        return InputError(str(self._path), reason, offset=offset)

    def header(self, layout: Struct, magic: bytes) -> tuple[Any, ...]:
        """Return the fields of the header behind its magic; the last is its checksum.

        Raises:
            InputError: If the file is shorter than that, or the header is damaged.
        """
        data = self.read(0, HEADER_BYTES).tobytes()
        packed = data[: layout.size]
        checksum = int.from_bytes(packed[-_CHECKSUM_BYTES:], "little")
        if (
            not packed.startswith(magic)
            or zlib.crc32(packed[:-_CHECKSUM_BYTES]) != checksum
            or any(data[layout.size :])
        ):
            raise self.error("the header is damaged", 0)
        return layout.unpack(packed)[1:]

    def read(self, offset: int, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return so many bytes in memory of their own.

        Raises:
            InputError: If the file ends before that, or cannot be read.
        """
        # a damaged number may ask for more memory than there is
        if offset + size_bytes > self.size_bytes:
            raise self.error("is cut", self.size_bytes)
        buffer = np.empty(size_bytes, np.uint8)
        self.read_into(buffer, offset)
        return buffer

    def read_into(self, buffer: npt.NDArray[np.uint8], offset: int) -> None:
        """Read the bytes from an offset on into a buffer.

        Raises:
            InputError: If the file ends before that, or cannot be read.
        """
        with self._lock:
            descriptor = self._again()
            done = 0
            while done < len(buffer):
                try:
                    count = read_into_at(descriptor, buffer[done:].data, offset + done)
                except OSError as error:
                    raise self.error(f"cannot be read: {error.strerror or error}") from None
                if not count:
                    raise self.error("is cut", os.fstat(descriptor).st_size)
                done += count


# The files that are open, the longest first, and how many may be: hosts that are joined, or
# segments, can be thousands, and a process is mostly allowed a few hundred.
_OPEN: dict[int, ref[ContainerFile]] = {}
_MOST_OPEN = 128


def _close_oldest() -> None:
    """Close files until another one can be opened."""
    # a copy of the keys only: making pairs may run the garbage collector, which closes files
    for number in [*_OPEN] if len(_OPEN) >= _MOST_OPEN else ():
        known = _OPEN.get(number)
        file = known() if known is not None else None
        if file is None:
            _OPEN.pop(number, None)
        elif file._release() and len(_OPEN) < _MOST_OPEN:  # noqa: SLF001 - of the same module
            break
