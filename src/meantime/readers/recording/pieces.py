"""Words of a recording in pieces that are read when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from meantime.files import open_regular
from meantime.kernels.records import count
from meantime.readers.recording.layout import HEADER_BYTES, SLOT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from meantime.model.anomalies import Anomalies

    Words: TypeAlias = npt.NDArray[np.uint64]
    Piece: TypeAlias = "Words | Callable[[], Words] | FilePiece"

__all__ = ["FilePiece", "Piece", "StreamWords", "Words", "piece_of", "taken"]

_READ_SLOTS = 1 << 17  # a record has fewer


class FilePiece(NamedTuple):
    """Slots of a facts or segment file that are still to be read.

    They are not mapped: access to a mapped file that was truncated would raise SIGBUS.

    Attributes:
        path: The file.
        begin: The first slot.
        end: The slot after the last that was there when the file was listed.
        anomalies: Counts the slots that are missing when they are read.
    """

    path: Path
    begin: int
    end: int
    anomalies: Anomalies

    @property
    def slots(self) -> int:
        """The number of slots to read."""
        return self.end - self.begin

    def read(self) -> tuple[Words, FilePiece | None]:
        """Return whole records, and the rest of the piece after them.

        If the end of the piece cuts off a record, its beginning is among the words.
        """
        slots = min(self.slots, _READ_SLOTS)
        try:
            with open_regular(self.path) as file:
                file.seek(HEADER_BYTES + self.begin * SLOT_BYTES)
                data = file.read(slots * SLOT_BYTES)
        except FileNotFoundError:
            # deleted by rotation since the directory was listed
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
    """Return words of a piece, and the rest of it."""
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
        pieces: In order; `taken` returns their words. No record crosses the end of one.
        base_ns: The CLOCK_MONOTONIC time that is time 0; None if there are no words.
        missing_slots: The number of missing slots before the first piece.
        lost_events: Lost events as counted by the tail.
        is_ring: Whether it is a ring in memory, whose new chunks overwrite the oldest.
        slots: The number of slots written to segments, up to the end of the last one.
        gaps: The number of missing slots between the pieces.
        damaged: The number of files, or parts of them, that could not be read.
        tail_slot: The slot at which the tail's words begin; None if they are in segments now.
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
