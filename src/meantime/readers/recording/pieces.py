"""Words of a recording in pieces that are read when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from meantime.kernels.records import count
from meantime.readers.recording.layout import HEADER_BYTES, SLOT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from meantime.anomalies import Anomalies

    Words: TypeAlias = npt.NDArray[np.uint64]
    Piece: TypeAlias = "Words | Callable[[], Words] | FilePiece"

__all__ = ["FilePiece", "Piece", "StreamWords", "Words", "piece_of", "taken"]

_READ_SLOTS = 1 << 17  # a record has fewer


class FilePiece(NamedTuple):
    """Slots of a facts or segment file that are still to be read.

    They are not mapped: what is cut off a mapped file ends the process that reads it with SIGBUS.

    Attributes:
        path: The file.
        begin: The first slot.
        end: The slot after the last that was there when the file was listed.
        anomalies: Where slots are counted that are gone when they are read.
    """

    path: Path
    begin: int
    end: int
    anomalies: Anomalies

    @property
    def slots(self) -> int:
        """How many there are to be read."""
        return self.end - self.begin

    def read(self) -> tuple[Words, FilePiece | None]:
        """Return whole records, and what is left after them.

        Where a record is cut off by the end of the piece, its beginning is among the words.
        """
        slots = min(self.slots, _READ_SLOTS)
        try:
            with self.path.open("rb") as file:
                file.seek(HEADER_BYTES + self.begin * SLOT_BYTES)
                data = file.read(slots * SLOT_BYTES)
        except FileNotFoundError:
            # taken away since the directory was listed, to keep a growing recording small
            data = b""
        words = np.frombuffer(data, np.uint64, len(data) // SLOT_BYTES * 2)
        if len(words) < slots * 2:
            self.anomalies.add("records_missing", self.slots - len(words) // 2)
            return words, None
        if slots == self.slots:
            return words, None
        used = count(words, slots)[2]
        if not used:
            # words that are not a record: where the next record would begin is unknown
            return words, None
        return words[:used], self._replace(begin=self.begin + used // 2)


def taken(piece: Piece) -> tuple[Words, FilePiece | None]:
    """Return words of a piece, and what is left of it."""
    if isinstance(piece, FilePiece):
        return piece.read()
    return (piece() if callable(piece) else piece), None


def piece_of(path: Path, anomalies: Anomalies) -> FilePiece:
    """Return the whole slots of a facts or segment file after its header."""
    slots = max(0, path.stat().st_size - HEADER_BYTES) // SLOT_BYTES
    return FilePiece(path, 0, slots, anomalies)


class StreamWords(NamedTuple):
    """A stream's words.

    Attributes:
        pieces: In order; `taken` gives their words. A record does not go over the end of one.
        base_ns: The CLOCK_MONOTONIC time from which its times count; None if nothing is there.
        missing_slots: How many slots before the first piece are gone.
        lost_events: Events that its writer could not keep, by the tail's count.
        is_ring: Whether it is a ring in memory, which is overwritten in turn.
        slots: How many slots there were in segments up to the last piece from one.
        gaps: How many slots between the pieces are not there.
        damaged: How many files, or parts of them, could not be read.
        tail_slot: At which slot the tail's words begin; None if they are in segments by now.
    """

    pieces: list[Piece]
    base_ns: int | None
    missing_slots: int
    lost_events: int
    is_ring: bool = False
    slots: int = 0
    gaps: int = 0
    damaged: int = 0
    tail_slot: int | None = None
