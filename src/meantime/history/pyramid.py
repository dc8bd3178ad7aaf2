"""Pyramids: beside a segment, what blocks of its rows come to, so that not each is read.

They make answers faster and are never needed for one: what is missing or damaged is done without.
"""

from __future__ import annotations

import logging
import zlib
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.history.validation import pyramid_fault
from meantime.kernels import pyramid as kernel
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.segment import Segment
    from meantime.history.validation import Limits

__all__ = [
    "Pyramids",
    "build_pyramid",
    "check_pyramid",
    "open_pyramid",
    "pack_pyramid",
    "pyramid_path",
]

Arrays = dict[str, "npt.NDArray[Any]"]

_MAGIC = b"MTPYR\0\0\1"
# Magic, the checksum of the segment's header, the length of each section, the checksum of these,
# zeros, and the checksum of the header.
_SECTIONS = {
    "timed_run": "<i4",
    "step": "u1",
    "value_offset": "<u4",
    "values": "<u4",
    "time_offset": "<u4",
    "times": "<u4",
    "celled_run": "<i4",
    "cell_offset": "<u4",
    "some": "u1",
    "low": "<i8",
    "high": "<i8",
    "sums": "<i8",
    "magnitude": "<f8",
}
_HEADER = Struct(f"<8sI{len(_SECTIONS)}IBxxxI4xI")
_ALIGNMENT = 64
_HEADER_BYTES = 128
# A pyramid takes at most one in so many of its segment's bytes, or there is none.
_SEGMENT_BYTES = 5
_USELESS = "answers do without it: it may be removed"
_LOG = logging.getLogger("meantime")


def pyramid_path(segment_path: Path) -> Path:
    """Return where the pyramid of a segment's file is."""
    return segment_path.parent.with_name("pyramid") / f"{segment_path.stem}.pyr"


def build_pyramid(segment: Segment, kinds: npt.NDArray[np.uint8]) -> Arrays | None:
    """Return a segment's pyramid; None if it would be too large to pay.

    Args:
        segment: The segment.
        kinds: By quark, the type of its values.
    """
    alone = Segments()
    segment.add_to(alone)
    arrays = kernel.build(alone, 0, kinds, segment.head.last_ns)
    size_bytes = _HEADER_BYTES + sum(_aligned(array.nbytes) for array in arrays.values())
    return arrays if size_bytes * _SEGMENT_BYTES <= len(segment.buffer) else None


def pack_pyramid(arrays: Arrays, checksum: int) -> list[bytes]:
    """Return the parts of a pyramid's file; the checksum is that of its segment's header."""
    parts = []
    for array in arrays.values():
        data = array.tobytes()
        parts += [data, bytes(_aligned(len(data)) - len(data))]
    lengths = [len(array) for array in arrays.values()]
    body_crc = 0
    for part in parts:
        body_crc = zlib.crc32(part, body_crc)
    time_bytes = arrays["times"].itemsize
    header = _HEADER.pack(_MAGIC, checksum, *lengths, time_bytes, body_crc, 0)[:-4]
    header += zlib.crc32(header).to_bytes(4, "little")
    return [header + bytes(_HEADER_BYTES - len(header)), *parts]


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def open_pyramid(
    path: Path, checksum: int, segment: Segment | None = None, limits: Limits | None = None
) -> Arrays:
    """Return the pyramid in a file, of the segment whose header has this checksum.

    Raises:
        InputError: If the file cannot be read, is cut, damaged or another segment's, or does not
            fit that segment, where it is given.
    """
    try:
        data = np.memmap(path, np.uint8, "r").data
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise InputError(str(path), f"cannot be read: {error}; {_USELESS}", offset=0) from None
    header = bytes(data[: _HEADER.size])
    if (
        len(header) < _HEADER.size
        or header[:8] != _MAGIC
        or zlib.crc32(header[:-4]) != int.from_bytes(header[-4:], "little")
    ):
        raise InputError(str(path), f"the header is damaged; {_USELESS}", offset=0)
    _, its_checksum, *lengths, time_bytes, body_crc, _ = _HEADER.unpack(header)
    if its_checksum != checksum:
        raise InputError(str(path), f"is not of this segment; {_USELESS}", offset=8)
    position = _HEADER_BYTES
    if zlib.crc32(data[position:]) != body_crc or any(data[_HEADER.size : position]):
        raise InputError(str(path), f"is cut or damaged; {_USELESS}", offset=position)
    arrays = {}
    for (name, kind), length in zip(_SECTIONS.items(), lengths, strict=True):
        of_section = np.dtype("<u8" if name == "times" and time_bytes == 8 else kind)
        if position + length * of_section.itemsize > len(data):
            raise InputError(str(path), f"is cut: {name}; {_USELESS}", offset=len(data))
        arrays[name] = np.frombuffer(data[position:], of_section, length)
        position += _aligned(arrays[name].nbytes)
    if segment is not None and limits is not None:
        fault = pyramid_fault(arrays, segment, limits)
        if fault is not None:
            raise InputError(str(path), f"says what cannot be: {fault}; {_USELESS}", offset=0)
    return arrays


def check_pyramid(segment_path: Path, segment: Segment, checksum: int, limits: Limits) -> None:
    """Check the pyramid of a segment whose rows are whole, if there is one.

    Raises:
        InputError: If it is damaged, or says something else than the rows.
    """
    path = pyramid_path(segment_path)
    if not path.exists():
        return
    kept = open_pyramid(path, checksum, segment, limits)
    made = build_pyramid(segment, limits.kinds)
    if made is None or b"".join(pack_pyramid(kept, 0)) != b"".join(pack_pyramid(made, 0)):
        raise InputError(str(path), f"says something else than its segment; {_USELESS}", offset=0)


class Pyramids:
    """The pyramids of a finished history's segments, which are taken into use as they pay.

    Args:
        segments: What is searched.
        parts: The segments that it was made of.
        files: Of each the file and the checksum of its header; empty in memory.
        limits: What codes in segments refer to.
    """

    def __init__(
        self,
        segments: Segments,
        parts: Sequence[Segment],
        limits: Limits,
        files: Sequence[tuple[Path, int]] = (),
    ) -> None:
        self._segments = segments
        self._parts = parts
        self._limits = limits
        self._files = files
        self._opened = not files
        self._without = set(range(len(parts)))
        self._rows_read = 0
        self._rows = sum(part.head.changes for part in parts)

    def use(self) -> None:
        """Use the pyramids that there are."""
        if self._opened:
            return
        self._opened = True
        for index, (segment_path, checksum) in enumerate(self._files):
            path = pyramid_path(segment_path)
            if not path.exists():
                continue
            try:
                arrays = open_pyramid(path, checksum, self._parts[index], self._limits)
            except InputError as error:
                _LOG.warning("%s", error)
                continue
            self._segments.attach(index, **arrays)
            self._without.discard(index)

    def read(self, rows: int) -> None:
        """Know that so many rows were read that pyramids would have saved.

        Once those are as many as it takes to make the pyramids, they are made.
        """
        if not self._without:
            return
        self._rows_read += rows
        if self._rows_read < self._rows:
            return
        for index in sorted(self._without):
            arrays = build_pyramid(self._parts[index], self._limits.kinds)
            if arrays is not None:
                self._segments.attach(index, **arrays)
        self._without.clear()
