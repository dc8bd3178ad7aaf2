"""The words of facts and streams without duplicates: of segments, then of the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.readers.recording.layout import MAX_TIME_NS, SLOT_BYTES, read_header
from meantime.readers.recording.listing import segments_beside
from meantime.readers.recording.pieces import StreamWords, piece_of
from meantime.readers.recording.tails import CHUNK_BYTES, UNWRITTEN, chunks_flushed, read_tail

if TYPE_CHECKING:
    from meantime.model.anomalies import Anomalies
    from meantime.readers.recording.layout import Header
    from meantime.readers.recording.listing import Process, StreamFiles
    from meantime.readers.recording.pieces import Piece
    from meantime.readers.recording.tails import Tail

__all__ = ["facts_words", "stream_words"]


def facts_words(process: Process, anomalies: Anomalies) -> tuple[Header, list[Piece]] | None:
    """Return a process's facts: the file's header and its words; None if there is no file.

    Words that are missing when they are read are counted in `anomalies`.
    """
    if process.packed_facts is not None or process.facts_path is None:
        return process.packed_facts
    return read_header(process.facts_path), [piece_of(process.facts_path, anomalies)]


def stream_words(stream: StreamFiles, anomalies: Anomalies) -> StreamWords:
    """Return the words of a stream, each record once.

    Words that are missing when they are read are counted in `anomalies`.
    """
    if stream.packed is not None:
        return stream.packed
    # The tail is read first, so a chunk that is flushed meanwhile is in both, never in neither.
    tail = None
    damaged = 0
    try:
        if stream.tail is not None:
            tail = read_tail(stream.tail)
            damaged += tail is None or tail.is_cut
    except FileNotFoundError:
        # the recording has ended since the directory was listed: everything is in segments now
        assert stream.tail is not None
        stream.segments.update(segments_beside(stream.tail))
    found = _segments(stream, anomalies)
    if tail is None:
        return StreamWords(
            found.pieces, found.base_ns, found.missing, 0, False, found.slots, found.gaps,
            damaged + found.damaged,
        )  # fmt: skip
    if UNWRITTEN > tail.written > found.slots:
        # the chunks that the tail no longer has can be in a segment begun since the listing
        assert stream.tail is not None
        more = segments_beside(stream.tail)
        if more.keys() - stream.segments.keys():
            stream.segments.update(more)
            found = _segments(stream, anomalies)
    pieces, slots, gaps = found.pieces, found.slots, found.gaps
    damaged += found.damaged
    twice = 0
    if tail.written != UNWRITTEN:
        # slots that were being flushed at the process's death are in both segments and tail
        twice = slots - tail.written
        if twice > _most_flushed(stream, tail) or tail.written > MAX_TIME_NS:
            damaged, twice = damaged + 1, 0
        gaps += max(0, -twice)
    skip = max(0, twice) * 2
    for words in tail.chunks:
        pieces.append(words[skip:])
        skip = max(0, skip - len(words))
    return StreamWords(
        pieces, tail.base_ns if found.base_ns is None else found.base_ns, found.missing,
        tail.lost, tail.is_ring, slots, gaps, damaged, slots,
    )  # fmt: skip


class _Segments(NamedTuple):
    """The words of a stream's segments; see `StreamWords`."""

    pieces: list[Piece]
    base_ns: int | None
    missing: int
    slots: int
    gaps: int
    damaged: int


def _segments(stream: StreamFiles, anomalies: Anomalies) -> _Segments:
    pieces: list[Piece] = []
    base_ns = None
    missing = slots = gaps = damaged = 0
    for number in sorted(stream.segments):
        try:
            header = read_header(stream.segments[number])
            piece = piece_of(stream.segments[number], anomalies)
        except FileNotFoundError:
            # deleted by rotation since the directory was listed
            continue
        base_ns = header.base_ns
        before = header.slots_before
        if not MAX_TIME_NS > before >= slots:
            damaged += 1
        elif pieces:
            gaps += before - slots
            slots = before
        else:
            missing = slots = before
        pieces.append(piece)
        slots += piece.slots
    return _Segments(pieces, base_ns, missing, slots, gaps, damaged)


def _most_flushed(stream: StreamFiles, tail: Tail) -> int:
    """Return how many slots can have been written to segments since a tail was read."""
    assert stream.tail is not None
    try:
        chunks = chunks_flushed(stream.tail) - tail.flushed
    except FileNotFoundError:
        # the recording has ended since, which flushed everything
        return MAX_TIME_NS
    # plus one that is being written, or was when the process was killed
    return (chunks + 1) * (CHUNK_BYTES // SLOT_BYTES)
