"""A segment as a file: a header of 128 bytes, and the segment's sections as they are in memory.

The index is read when a file is opened, the rows before they are first used. They are read and not
mapped: mapped pages vanish when another process cuts the file, which ends this one, and they may
change after they were checked, on which compiled code relies. Only histories that are too large to
be kept in memory are mapped, and the length of their files is checked before each use.
"""

from __future__ import annotations

import threading
import zlib
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.directory.container import (
    HEADER_BYTES,
    ContainerFile,
    offsets_of,
    pack_header,
)
from meantime.history.directory.pyramids import (
    check_pyramid,
    has_pyramid,
    open_pyramid,
    pyramid_path,
)
from meantime.history.pyramid import Pyramids
from meantime.history.segment import Head, Segment
from meantime.history.validation import head_fault, index_fault, rows_fault

if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence
    from pathlib import Path

    from meantime.history.pyramid import Arrays
    from meantime.history.sealed import SealedSegments
    from meantime.history.validation import Limits

__all__ = ["MOST_IN_MEMORY", "StoredSegment", "open_segment", "segment_header", "stored_pyramids"]

# The rows of one history beyond so many bytes are mapped: that is 190 million changes of 5.6 bytes.
MOST_IN_MEMORY = 2**30

_MAGIC = b"MTSEG\0\0\1"
# Magic, the numbers of the head, its flags, two checksums; zeros; the checksum of all before it.
_HEADER = Struct("<8s8qqII36xI")
_ADVICE = "`meantime check --salvage` recovers the intact part"


def segment_header(segment: Segment) -> bytes:
    """Return what is before a segment's sections in its file."""
    head = segment.head
    flags = head.wide | head.numeric << 1 | head.full << 2
    index_crc, rows_crc = zlib.crc32(segment.index.data), zlib.crc32(segment.rows.data)
    return pack_header(_HEADER, _MAGIC, *head[:8], flags, index_crc, rows_crc)


class StoredSegment(Segment):
    """A segment whose rows are in a file until they are first used.

    Attributes:
        path: The file.
        checksum: That of its header.
        bytes_so_far: The bytes of this and all earlier segments of its history.
        limits: What its codes refer to, if they have yet to be checked; None if this process wrote
            them.
    """

    def __init__(
        self,
        path: Path,
        file: ContainerFile,
        head: Head,
        crcs: tuple[int, int],
        before: StoredSegment | None,
    ) -> None:
        """Read the index of the segment with this head; `crcs` are of its header and its rows."""
        index = file.read(HEADER_BYTES, head.index_bytes())
        bytes_before = before.bytes_so_far if before is not None else 0
        self.bytes_so_far: int = bytes_before + head.size_bytes()
        self._mapped: mmap.mmap | None = None
        if bytes_before >= MOST_IN_MEMORY:
            self._mapped = file.map()
            file.close()
            rows = np.frombuffer(self._mapped, np.uint8, offset=HEADER_BYTES + len(index))
        else:
            # Not filled: the system provides this memory only when it is first written to.
            rows = np.empty(head.size_bytes() - len(index), np.uint8)
        super().__init__(head, index, rows)
        self.path = path
        self.checksum, self._rows_crc = crcs
        self.limits: Limits | None = None
        self._file = file
        self._checked = False
        self._lock = threading.Lock()

    @property
    def loaded(self) -> bool:
        """Whether `load` has nothing left to do; False of a mapped segment, which may be cut."""
        return self._checked and self._mapped is None

    def load(self) -> None:
        """Read the rows and check them, if that was not done before.

        Raises:
            InputError: If they are damaged or impossible, or the file was cut.
        """
        # Two threads that query at once must not both read into the same rows.
        with self._lock:
            offset = HEADER_BYTES + len(self.index)
            if self._mapped is not None and self._mapped.size() < len(self._mapped):
                raise self._file.error("was cut", self._mapped.size())
            if self._checked:
                return
            if self._mapped is None:
                self._file.read_into(self.rows, offset)
            if zlib.crc32(self.rows.data) != self._rows_crc:
                raise self._file.error("the rows are damaged", offset)
            if self.limits is not None and (fault := rows_fault(self, self.limits)) is not None:
                raise self._file.error(f"is invalid: {fault}", offset)
            self._checked = True
            self._file.close()

    def pyramid(self, limits: Limits) -> Arrays | None:
        """Return the pyramid that was written beside the segment; None if there is none.

        Raises:
            InputError: If it is damaged, or does not fit the segment.
        """
        path = pyramid_path(self.path)
        if not has_pyramid(path):
            return None
        return open_pyramid(path, self.checksum, self, limits, mapped=self._mapped is not None)

    def check_pyramid(self, limits: Limits) -> None:
        """Check that the pyramid beside the segment, if there is one, is that of its rows.

        Raises:
            InputError: If it is damaged, or does not match the rows.
        """
        path = pyramid_path(self.path)
        if has_pyramid(path):
            check_pyramid(path, self, self.checksum, limits)


def stored_pyramids(
    sealed: SealedSegments, segments: Sequence[StoredSegment], limits: Limits
) -> Pyramids:
    """Return the pyramids of a history's segments, which are opened when they are first used."""
    return Pyramids(
        sealed.searched, segments, limits.kinds, lambda index: segments[index].pyramid(limits)
    )


def open_segment(path: Path, before: StoredSegment | None = None) -> StoredSegment:
    """Return the segment in a file, the next of its history; all but its rows is checked.

    Raises:
        InputError: If the file is missing, cut or damaged.
    """
    file = ContainerFile(path, _ADVICE)
    *numbers, flags, index_crc, rows_crc, checksum = file.header(_HEADER, _MAGIC)
    head = Head._make([*numbers, *(bool(flags >> bit & 1) for bit in range(3))])
    if (fault := head_fault(head)) is not None:
        raise file.error(f"the header is wrong: {fault}", 0)
    size_bytes = HEADER_BYTES + head.size_bytes()
    if file.size_bytes != size_bytes:
        wrong = f"is {file.size_bytes} bytes long and should be {size_bytes}"
        raise file.error(wrong, file.size_bytes)
    segment = StoredSegment(path, file, head, (checksum, rows_crc), before)
    # First the checksum, then the content: a matching checksum does not make numbers valid, and
    # kernels do not check them again.
    if zlib.crc32(segment.index.data) != index_crc:
        raise file.error("the index is damaged", HEADER_BYTES)
    if (fault := index_fault(segment)) is not None:
        offset = HEADER_BYTES + offsets_of(head.index_sections())[fault]
        raise file.error(f"the index is wrong: {fault}", offset)
    return segment
