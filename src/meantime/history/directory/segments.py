"""A segment as a file: a header of 128 bytes, the packed index, and the rows as in memory.

The header is read when a history is opened, the index when it is first queried, the rows before an
answer first depends on them. They are read and not mapped: mapped pages vanish when another process
cuts the file, which ends this one, and they may change after they were checked, on which compiled
code relies. What is too large to be kept in memory is copied to a file that only this process has.
"""

from __future__ import annotations

import threading
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.directory.container import (
    HEADER_BYTES,
    ContainerFile,
    aligned,
    pack_header,
)
from meantime.history.directory.pyramids import (
    check_pyramid,
    has_pyramid,
    open_pyramid,
    pyramid_path,
)
from meantime.history.directory.row_memory import Room, RowMemory
from meantime.history.directory.segment_index import (
    PackedIndex,
    size_in_version_1,
    unpacked,
    unpacked_version_1,
)
from meantime.history.segment import Head, Segment
from meantime.history.validation import head_fault, index_fault, rows_fault
from meantime.kernels.checksum import crc32

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.errors import InputError
    from meantime.history.pyramid import Arrays
    from meantime.history.segment import Limits, Sections

__all__ = [
    "MOST_IN_MEMORY",
    "MissingSegment",
    "StoredSegment",
    "open_segment",
    "packed_segment",
]

# The rows of one history beyond so many bytes are in a file: 190 million changes of 5.6 bytes.
MOST_IN_MEMORY = 2**30

_MAGIC = b"MTSEG\0\0\2"
# Magic, the numbers of the head, its flags, two checksums, the bytes of each column of the index;
# zeros; the checksum of all before it.
_HEADER = Struct("<8s8qqII5I16xI")
# In version 1 the index had arrays of fixed width.
_MAGIC_1 = b"MTSEG\0\0\1"
_HEADER_1 = Struct("<8s8qqII36xI")
_ADVICE = "`meantime check --salvage` recovers the intact part"


class _Stored(NamedTuple):
    """What a header says of the file.

    Attributes:
        sizes: The bytes of each column of the index; None in version 1.
        index_crc: The checksum of the index.
        rows_crc: That of the rows.
        checksum: That of the header.
    """

    sizes: tuple[int, ...] | None
    index_crc: int
    rows_crc: int
    checksum: int

    def rows_offset(self, head: Head) -> int:
        """Return where the rows begin."""
        sizes = self.sizes
        return HEADER_BYTES + (size_in_version_1(head) if sizes is None else aligned(sum(sizes)))


def packed_segment(segment: Segment) -> tuple[bytes, bytes]:
    """Return the header and the index of a segment, which are before its rows in its file."""
    head, packed = segment.head, PackedIndex.of(segment)
    flags = head.wide | head.numeric << 1 | head.full << 2
    index = packed.data()
    index_crc, rows_crc = crc32(index), crc32(segment.rows.data)
    sizes = packed.sizes()
    return pack_header(_HEADER, _MAGIC, *head[:8], flags, index_crc, rows_crc, *sizes), index


class StoredSegment(Segment):
    """A segment whose index and rows are in a file until they are first used.

    Attributes:
        path: The file.
        checksum: That of its header.
        bytes_so_far: The bytes of this and all earlier segments of its history.
        limits: What its codes refer to, if they have yet to be checked; None if this process wrote
            them.
        memory: Where the rows of its history are read to.
    """

    def __init__(
        self,
        path: Path,
        file: ContainerFile,
        head: Head,
        stored: _Stored,
        before: StoredSegment | None,
    ) -> None:
        """Read nothing yet."""
        super().__init__(head, {}, np.empty(0, np.uint8))
        bytes_before = before.bytes_so_far if before is not None else 0
        self.bytes_so_far: int = bytes_before + head.size_bytes()
        self.path = path
        self.checksum: int = stored.checksum
        self._stored = stored
        self._rows_offset = stored.rows_offset(head)
        self.limits: Limits | None = None
        self.memory: RowMemory = RowMemory() if before is None else before.memory
        self._is_in_file = bytes_before >= MOST_IN_MEMORY
        self._room = Room(self.rows)
        self._file = file
        self._checked = False
        # Two threads that query at once must not both read into the same rows.
        self._lock = threading.RLock()

    @property
    def sections(self) -> Sections:
        """The arrays by name; those of the index are read and checked, those of the rows empty.

        Raises:
            InputError: If the index is damaged or impossible.
        """
        if self._sections is not None:
            return self._sections
        with self._lock:
            if not self._index:
                index = self._read_index()
                # the system provides this memory when it is first written to
                self._room = self._new_room(self.head.row_bytes())
                self.rows: npt.NDArray[np.uint8] = self._room.rows
                self._index = index
            return super().sections

    def check_index(self) -> None:
        """Read the index, if that was not done before.

        Raises:
            InputError: If it is damaged or impossible.
        """
        assert self.sections

    def _read_index(self) -> Sections:
        file, head = self._file, self.head
        size_bytes = self._rows_offset - HEADER_BYTES
        data = file.read(HEADER_BYTES, size_bytes)
        # First the checksum, then the content: a matching checksum does not make numbers valid,
        # and kernels do not check them again.
        if crc32(data.data) != self._stored.index_crc:
            raise file.error("the index is damaged", HEADER_BYTES)
        try:
            if self._stored.sizes is None:
                index = unpacked_version_1(head, data)
            else:
                index = unpacked(head, data, self._stored.sizes)
            fault = index_fault(head, index)
        except ValueError as error:
            fault = str(error)
        if fault is not None:
            raise file.error(f"the index is wrong: {fault}", HEADER_BYTES)
        # Searching allocates by the last quark.
        if self.limits is not None and int(index["quarks"][-1]) >= len(self.limits.kinds):
            raise file.error("has attributes that are not there")
        return index

    def _new_room(self, size_bytes: int) -> Room:
        if self._is_in_file:
            return self.memory.take_in_file(size_bytes, str(self.path))
        return self.memory.take(size_bytes)

    @property
    def loaded(self) -> bool:
        """Whether `load` has nothing left to do."""
        return self._checked

    def load(self) -> None:
        """Read the rows and check them, if that was not done before.

        Raises:
            InputError: If they are damaged or impossible, or cannot be kept.
        """
        with self._lock:
            offset = self._rows_offset
            if self._checked:
                return
            self.check_index()
            buffer = self._room.buffer()
            self._file.read_into(buffer, offset)
            if crc32(buffer.data) != self._stored.rows_crc:
                raise self._file.error("the rows are damaged", offset)
            self._room.keep(buffer)
            if self.limits is not None and (fault := rows_fault(self, self.limits)) is not None:
                raise self._file.error(f"is invalid: {fault}", offset)
            self._checked = True
            self._file.close()

    def reopened(self) -> StoredSegment:
        """Return the same segment, which does not share memory with others.

        Raises:
            InputError: If it is damaged.
        """
        again = open_segment(self.path)
        again.limits = self.limits
        return again

    def pyramid(self, limits: Limits) -> Arrays | None:
        """Return the pyramid that was written beside the segment; None if there is none.

        Raises:
            InputError: If it is damaged, or does not fit the segment.
        """
        path = pyramid_path(self.path)
        if not has_pyramid(path):
            return None
        new_room = self._new_room if self._is_in_file else None
        return open_pyramid(path, self.checksum, self, limits, new_room)

    def check_pyramid(self, limits: Limits) -> None:
        """Check that the pyramid beside the segment, if there is one, is that of its rows.

        Raises:
            InputError: If it is damaged, or does not match the rows.
        """
        path = pyramid_path(self.path)
        if has_pyramid(path):
            check_pyramid(path, self, self.checksum, limits)


class MissingSegment(StoredSegment):
    """A segment whose file is not there, or so damaged that not even its header can be read.

    Args:
        path: The file.
        base_ns: The earliest time at which it can begin.
        error: Why it cannot be read.
        before: The segment before it.
    """

    def __init__(  # pylint: disable=super-init-not-called
        self, path: Path, base_ns: int, error: InputError, before: StoredSegment | None
    ) -> None:
        Segment.__init__(self, _no_rows(base_ns), {}, np.empty(0, np.uint8))
        self.path = path
        self.checksum = -1
        self.limits: Limits | None = None
        self.bytes_so_far: int = before.bytes_so_far if before is not None else 0
        self.memory: RowMemory = RowMemory() if before is None else before.memory
        self.error = error

    def begin_at(self, base_ns: int) -> None:
        """Set when it begins."""
        self.head: Head = _no_rows(base_ns)

    @property
    def sections(self) -> Sections:
        """Raise the error."""
        raise self.error

    @property
    def loaded(self) -> bool:
        """Return False."""
        return False

    def load(self) -> None:
        """Raise the error."""
        raise self.error


def _no_rows(base_ns: int) -> Head:
    return Head(
        base_ns=base_ns,
        last_ns=base_ns,
        changes=0,
        runs=0,
        numbers=0,
        width=1,
        code_bits=0,
        payload_bits=0,
        wide=False,
        numeric=False,
        full=False,
    )


def open_segment(
    path: Path, before: StoredSegment | None = None, advice: str = _ADVICE
) -> StoredSegment:
    """Return the segment in a file, the next of its history; its header is checked.

    Args:
        path: The file.
        before: The segment before it in its history.
        advice: What to do if it is damaged.

    Raises:
        InputError: If the file is missing or cut, or its header is damaged.
    """
    file = ContainerFile(path, advice)
    sizes: tuple[int, ...] | None = None
    if file.read(0, len(_MAGIC_1)).tobytes() == _MAGIC_1:
        fields = file.header(_HEADER_1, _MAGIC_1)
    else:
        fields = file.header(_HEADER, _MAGIC)
        sizes = fields[11:-1]
    flags = fields[8]
    head = Head._make([*fields[:8], *(bool(flags >> bit & 1) for bit in range(3))])
    if (fault := head_fault(head)) is not None:
        raise file.error(f"the header is wrong: {fault}", 0)
    stored = _Stored(sizes, fields[9], fields[10], fields[-1])
    size_bytes = stored.rows_offset(head) + head.row_bytes()
    if file.size_bytes != size_bytes:
        wrong = f"is {file.size_bytes} bytes long and should be {size_bytes}"
        raise file.error(wrong, file.size_bytes)
    return StoredSegment(path, file, head, stored, before)
