"""A segment as a file: a header of 128 bytes, and the segment's buffer as it is in memory."""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.history.segment import Head, Segment
from meantime.history.validation import head_fault, index_fault, rows_fault

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.validation import Limits

__all__ = ["check_rows", "open_segment", "segment_header"]

_MAGIC = b"MTSEG\0\0\1"
# Magic, the numbers of the head, its flags, two checksums; zeros; the checksum of all before it.
_HEADER = Struct("<8s8qqII36xI")
_HEADER_BYTES = 128
_DAMAGED = "`meantime check --salvage` keeps what is whole"


def segment_header(segment: Segment) -> bytes:
    """Return what stands before a segment's buffer in its file."""
    head = segment.head
    index_bytes = _index_bytes(head)
    buffer = segment.buffer.data
    flags = head.wide | head.numeric << 1 | head.full << 2
    index_crc, rows_crc = zlib.crc32(buffer[:index_bytes]), zlib.crc32(buffer[index_bytes:])
    header = _HEADER.pack(_MAGIC, *head[:8], flags, index_crc, rows_crc, 0)
    return header[:-4] + zlib.crc32(header[:-4]).to_bytes(4, "little")


def open_segment(path: Path) -> Segment:
    """Return the segment in a file, mapped into memory; all but its rows is checked.

    Raises:
        InputError: If the file is missing, cut or damaged.
    """
    try:
        mapped = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read: {error}; {_DAMAGED}") from None
    if len(mapped) < _HEADER_BYTES:
        raise InputError(str(path), f"is cut; {_DAMAGED}", offset=len(mapped))
    header = mapped[:_HEADER_BYTES].tobytes()
    magic, *numbers, flags, index_crc, rows_crc, header_crc = _HEADER.unpack(header)
    if magic != _MAGIC or zlib.crc32(header[:-4]) != header_crc:
        raise InputError(str(path), f"the header is damaged; {_DAMAGED}", offset=0)
    head = Head._make([*numbers, *(bool(flags >> bit & 1) for bit in range(3))])
    if (fault := head_fault(head)) is not None:
        raise InputError(str(path), f"the header is wrong: {fault}; {_DAMAGED}", offset=0)
    if len(mapped) != _HEADER_BYTES + head.size_bytes():
        wrong = f"is {len(mapped)} bytes long and should be {_HEADER_BYTES + head.size_bytes()}"
        raise InputError(str(path), f"{wrong}; {_DAMAGED}", offset=len(mapped))
    buffer: npt.NDArray[np.uint8] = mapped[_HEADER_BYTES:].view(np.ndarray)
    if zlib.crc32(buffer.data[: _index_bytes(head)]) != index_crc:
        raise InputError(str(path), f"the index is damaged; {_DAMAGED}", offset=_HEADER_BYTES)
    segment = Segment(head, buffer, header_crc, rows_crc)
    if (fault := index_fault(segment)) is not None:
        offset = _HEADER_BYTES + head.offset_of(fault)
        raise InputError(str(path), f"the index is wrong: {fault}; {_DAMAGED}", offset=offset)
    return segment


def check_rows(path: Path, segment: Segment, limits: Limits) -> None:
    """Check the rest of an open segment, so that its rows can be used.

    What is mapped is checked, and the path only named: it may have been removed meanwhile.

    Raises:
        InputError: If it is damaged, or says what cannot be.
    """
    index_bytes = _index_bytes(segment.head)
    if zlib.crc32(segment.buffer.data[index_bytes:]) != segment.rows_crc:
        raise InputError(
            str(path), f"the rows are damaged; {_DAMAGED}", offset=_HEADER_BYTES + index_bytes
        )
    if (fault := rows_fault(segment, limits)) is not None:
        raise InputError(
            str(path),
            f"says what cannot be: {fault}; {_DAMAGED}",
            offset=_HEADER_BYTES + index_bytes,
        )


def _index_bytes(head: Head) -> int:
    return head.offset_of("rows")
