"""The words of facts and streams, each once: of segments, and of the tail that follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.readers.recording.layout import MAX_TIME_NS, SLOT_BYTES, read_header
from meantime.readers.recording.listing import segments_beside
from meantime.readers.recording.pieces import StreamWords, piece_of
from meantime.readers.recording.tails import CHUNK_BYTES, UNWRITTEN, chunks_flushed, read_tail

if TYPE_CHECKING:
    from meantime.anomalies import Anomalies
    from meantime.readers.recording.layout import Header
    from meantime.readers.recording.listing import Process, StreamFiles
    from meantime.readers.recording.pieces import Piece
    from meantime.readers.recording.tails import Tail

__all__ = ["facts_words", "stream_words"]


def facts_words(process: Process, anomalies: Anomalies) -> tuple[Header, list[Piece]] | None:
    """Return a process's facts: the file's header and its words; None if it was never begun.

    What is gone when the words are read is counted in `anomalies`.
    """
    if process.packed_facts is not None or process.facts_path is None:
        return process.packed_facts
    return read_header(process.facts_path), [piece_of(process.facts_path, anomalies)]


def stream_words(stream: StreamFiles, anomalies: Anomalies) -> StreamWords:  # noqa: C901 - what is wrong is counted where it is met
    """Return what is there of a stream, each record once.

    What is gone when the words are read is counted in `anomalies`.
    """
    if stream.packed is not None:
        return stream.packed
    # the tail first: what is flushed meanwhile is then in both, never in neither
    tail = None
    damaged = 0
    try:
        if stream.tail is not None:
            tail = read_tail(stream.tail)
            damaged += tail is None or tail.is_cut
    except FileNotFoundError:
        # the recording has ended since the directory was listed: all is in segments now
        assert stream.tail is not None
        stream.segments.update(segments_beside(stream.tail))
    base_ns = None if tail is None else tail.base_ns
    pieces: list[Piece] = []
    missing = slots = gaps = 0
    for number in sorted(stream.segments):
        try:
            header = read_header(stream.segments[number])
            piece = piece_of(stream.segments[number], anomalies)
        except FileNotFoundError:
            # taken away since the directory was listed, to keep a growing recording small
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
    if tail is None:
        return StreamWords(pieces, base_ns, missing, 0, False, slots, gaps, damaged)
    twice = 0
    if tail.written != UNWRITTEN:
        # what was being written when the process was killed is in both the segments and the tail
        twice = slots - tail.written
        if twice > _most_flushed(stream, tail) or tail.written > MAX_TIME_NS:
            damaged, twice = damaged + 1, 0
        gaps += max(0, -twice)
    skip = max(0, twice) * 2
    for words in tail.chunks:
        pieces.append(words[skip:])
        skip = max(0, skip - len(words))
    return StreamWords(
        pieces, base_ns, missing, tail.lost, tail.is_ring, slots, gaps, damaged, slots
    )


def _most_flushed(stream: StreamFiles, tail: Tail) -> int:
    """Return how many slots can have been written to segments since a tail was read."""
    assert stream.tail is not None
    try:
        chunks = chunks_flushed(stream.tail) - tail.flushed
    except FileNotFoundError:
        # the recording has ended since: all of it
        return MAX_TIME_NS
    # and one that is being written, or was when the process was killed
    return (chunks + 1) * (CHUNK_BYTES // SLOT_BYTES)
