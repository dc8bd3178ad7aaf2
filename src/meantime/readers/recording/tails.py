"""The tail of a stream: its newest records, in a file that its process maps and writes to."""

from __future__ import annotations

import struct
from io import FileIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.files import open_regular, regular_descriptor
from meantime.kernels.record_kinds import KINDS, POLICIES, SIZES
from meantime.kernels.records import count
from meantime.readers.recording.layout import MAX_TIME_NS, SLOT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["CHUNK_BYTES", "UNWRITTEN", "Tail", "chunks_flushed", "read_tail", "whole_records"]

CHUNK_BYTES = SIZES["CHUNK_BYTES"]
UNWRITTEN = 2**63

_TAIL = struct.Struct("<8s4Iq2I9Q")
_TAIL_HEADER_BYTES, _MAX_CHUNKS = SIZES["TAIL_HEADER_BYTES"], SIZES["MAX_CHUNKS"]
_WRITTEN_BYTES = 128
_SEQ_BYTES, _FLUSHED_BYTES, _OVERWRITTEN_BYTES = 40, 48, 64
_RING = POLICIES["RING"]
_LOST = KINDS["LOST"]
_ATTEMPTS = 8


class Tail(NamedTuple):
    """The content of a tail's file when it was read.

    Attributes:
        chunks: The words of each chunk, in order.
        base_ns: The CLOCK_MONOTONIC time that is time 0 of its records.
        flushed: How many chunks were in the stream's segments.
        written: Slots in the stream's segments by then; `UNWRITTEN` if it does not count them.
        lost: Events that were not recorded.
        is_ring: Whether new chunks overwrite the oldest.
        is_cut: Whether the end of the file is missing.
    """

    chunks: list[npt.NDArray[np.uint64]]
    base_ns: int
    flushed: int
    written: int
    lost: int
    is_ring: bool
    is_cut: bool


def read_tail(path: Path) -> Tail | None:
    """Return the content of a tail; None if its header is damaged.

    The process may write meanwhile. Only its last chunk changes, unless chunks were reused.
    """
    for _ in range(_ATTEMPTS):
        # not buffered, since what is read again must be read
        with FileIO(regular_descriptor(path)) as file:
            data = file.read(_TAIL_HEADER_BYTES + _MAX_CHUNKS * CHUNK_BYTES)
            again = _last_chunk(file, data)
        if len(data) < _TAIL_HEADER_BYTES:
            return None
        base_ns, chunk_bytes, chunks, seq, flushed, lost, passed, *dumped = _TAIL.unpack_from(data)[
            5:
        ]
        dumped_seq, dumped_slots, policy, reported, dumped_ns = dumped
        if chunk_bytes != CHUNK_BYTES or not 0 < chunks <= _MAX_CHUNKS:
            return None
        ring = policy == _RING
        first = max(0, seq + 1 - chunks, dumped_seq) if ring else flushed
        # copy again if the writer has reused one of these chunks meanwhile
        newest = _seq_now(path)
        if newest - first < chunks:
            break
    else:
        # the writer of a large ring is faster: what it reused is not what the header describes
        if ring:
            first = min(newest + 1 - chunks, seq + 1)
            passed = _number_at(path, _OVERWRITTEN_BYTES)
    # -1: the last chunk was flushed before the next one began
    if not -1 <= seq - first < chunks or max(lost, passed, reported) > MAX_TIME_NS:
        return None
    pieces: list[npt.NDArray[np.uint64]] = []
    for number in range(first, seq + 1):
        begin = _TAIL_HEADER_BYTES + number % chunks * chunk_bytes
        there = max(0, min(chunk_bytes, len(data) - begin)) // SLOT_BYTES * 2
        words = np.frombuffer(data, np.uint64, there, begin if there else 0)
        if number == seq:
            words = whole_records(words, again)
        skip = dumped_slots * 2 if ring and number == dumped_seq else 0
        pieces.append(words[skip : count(words, len(words))[2]])
    if ring and passed > reported:
        pieces.insert(0, _gap(pieces, passed - reported, min(dumped_ns, MAX_TIME_NS)))
    counted = struct.unpack_from("<Q", data, _WRITTEN_BYTES + flushed % chunks * 8)
    written = UNWRITTEN if ring else counted[0]
    is_cut = len(data) < _TAIL_HEADER_BYTES + chunks * chunk_bytes
    return Tail(pieces, base_ns, flushed, written, lost, ring, is_cut)


def whole_records(
    words: npt.NDArray[np.uint64], again: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Return the words of a chunk up to where a later copy of it has others.

    Behind its last record a chunk has older ones, from before it was reused. The writer stores an
    end there, and then the record, but a copy may read the two in any order: the record, and the
    older ones that were behind it. The later copy has the end, or what followed.
    """
    common = min(len(words), len(again))
    differ = np.flatnonzero(words[:common] != again[:common])
    return words[: int(differ[0]) // 2 * 2 if len(differ) else common]


def _last_chunk(file: FileIO, data: bytes) -> npt.NDArray[np.uint64]:
    """Return the words of a tail's last chunk as they are now."""
    if len(data) < _TAIL_HEADER_BYTES:
        return np.empty(0, np.uint64)
    chunks, seq = _TAIL.unpack_from(data)[7:9]
    begin = _TAIL_HEADER_BYTES + seq % max(1, chunks) * CHUNK_BYTES
    file.seek(begin)
    found = file.read(CHUNK_BYTES)
    return np.frombuffer(found, np.uint64, len(found) // SLOT_BYTES * 2)


def _gap(pieces: list[npt.NDArray[np.uint64]], events: int, from_ns: int) -> npt.NDArray[np.uint64]:
    """Return a LOST record for the events that a ring overwrote and has not reported itself."""
    until_ns = next((int(words[0]) >> 8 for words in pieces if len(words)), from_ns)
    return np.array([until_ns << 8 | _LOST, 32 << 32, events, from_ns, until_ns, 0], np.uint64)


def chunks_flushed(path: Path) -> int:
    """Return how many chunks of a tail are in segments now."""
    return _number_at(path, _FLUSHED_BYTES)


def _seq_now(path: Path) -> int:
    return _number_at(path, _SEQ_BYTES)


def _number_at(path: Path, offset: int) -> int:
    with open_regular(path) as file:
        file.seek(offset)
        return int.from_bytes(file.read(8), "little")
