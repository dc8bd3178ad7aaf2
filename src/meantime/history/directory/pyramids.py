"""A segment's pyramid as a file: a header of 128 bytes, and its arrays as they are in memory."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from meantime.files import open_regular
from meantime.history.directory.container import (
    HEADER_BYTES,
    ContainerFile,
    Section,
    pack_arrays,
    pack_header,
    views,
)
from meantime.history.pyramid import pyramid_of
from meantime.history.validation import pyramid_fault
from meantime.kernels.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history.directory.row_memory import Room
    from meantime.history.pyramid import Arrays
    from meantime.history.segment import Limits, Segment

__all__ = ["check_pyramid", "has_pyramid", "open_pyramid", "pack_pyramid", "pyramid_path"]

_MAGIC = b"MTPYR\0\0\2"
# Answers do without these, as without any.
_OLDER = {b"MTPYR\0\0\1"}
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
# Magic, the checksum of the segment's header, the length of each section, the bytes of an item of
# `times`, the checksum of the sections, and that of the header.
_HEADER = Struct(f"<8sI{len(_SECTIONS)}IBxxxI4xI")
_ADVICE = "answers do without it: it may be removed"


def pyramid_path(segment_path: Path) -> Path:
    """Return where the pyramid of a segment's file is."""
    return segment_path.parent.with_name("pyramid") / f"{segment_path.stem}.pyr"


def has_pyramid(path: Path) -> bool:
    """Return whether there is a file of a pyramid that is not of an older version."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) not in _OLDER
    except FileNotFoundError:
        return False
    except OSError:
        # Opening it says what is wrong.
        return True


def pack_pyramid(arrays: Arrays, checksum: int) -> list[bytes]:
    """Return the parts of a pyramid's file; the checksum is that of its segment's header."""
    parts = pack_arrays(arrays.values())
    lengths = [len(array) for array in arrays.values()]
    body_crc = 0
    for part in parts:
        body_crc = crc32(part, body_crc)
    time_bytes = arrays["times"].itemsize
    return [pack_header(_HEADER, _MAGIC, checksum, *lengths, time_bytes, body_crc), *parts]


def open_pyramid(
    path: Path,
    checksum: int,
    segment: Segment | None = None,
    limits: Limits | None = None,
    new_room: Callable[[int], Room] | None = None,
) -> Arrays:
    """Return the pyramid in a file, of the segment whose header has this checksum.

    Args:
        path: The file.
        checksum: That of the segment's header.
        segment: The segment, if the pyramid must fit it.
        limits: What the segment's codes refer to.
        new_room: Where to keep it; None is memory of its own.

    Raises:
        InputError: If the file cannot be read, is cut, damaged or another segment's, does not fit
            the segment, or cannot be kept.
    """
    file = ContainerFile(path, _ADVICE)
    its_checksum, *lengths, time_bytes, body_crc, _ = file.header(_HEADER, _MAGIC)
    if its_checksum != checksum:
        raise file.error("is not of this segment", 8)
    body = file.read(HEADER_BYTES, file.size_bytes - HEADER_BYTES)
    file.close()
    if crc32(body.data) != body_crc:
        raise file.error("is cut or damaged", HEADER_BYTES)
    if new_room is not None:
        room = new_room(len(body))
        room.keep(body)
        body = room.rows
    sections = [
        Section(name, np.dtype("<u8" if name == "times" and time_bytes == 8 else kind), length)
        for (name, kind), length in zip(_SECTIONS.items(), lengths, strict=True)
    ]
    try:
        arrays = views(body, sections)
    except ValueError as error:
        raise file.error(f"is cut: {error}", file.size_bytes) from None
    if segment is not None and limits is not None:
        fault = pyramid_fault(arrays, segment, limits)
        if fault is not None:
            raise file.error(f"is invalid: {fault}", 0)
    return arrays


def check_pyramid(path: Path, segment: Segment, checksum: int, limits: Limits) -> None:
    """Check the pyramid in a file, of a segment whose rows are whole.

    Raises:
        InputError: If it is damaged, or does not match the rows.
    """
    kept = open_pyramid(path, checksum, segment, limits)
    # An older version, which stored larger segments, may have kept one that is too large now.
    made = pyramid_of(segment, limits.kinds)
    if pack_arrays(kept.values()) != pack_arrays(made.values()):
        file = ContainerFile(path, _ADVICE)
        raise file.error("does not match its segment", 0)
