"""What reading a history's directory returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.changes import Changes
from meantime.history.segment import Limits

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.directory.delta import Cursor
    from meantime.history.directory.segments import StoredSegment
    from meantime.history.directory.tail_log import Entry
    from meantime.history.events import EventStore
    from meantime.history.extremes import Extremes
    from meantime.history.journal import ScheduledChange

__all__ = ["SALVAGE", "VERSION", "WRONG", "LoadedHistory", "reason_of"]

VERSION = 3
SALVAGE = "`meantime check --salvage` recovers the intact part"
# Raised by reading a record that is JSON but does not have the expected content.
WRONG = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(slots=True)
class LoadedHistory:
    """The contents of a directory.

    Attributes:
        path: The directory.
        catalogue: Names, tags and metadata.
        segments: The segments; their rows are read when they are first used.
        ends: Where each line of the manifest ends; the first is not of a segment.
        cursors: After each line, how much of names, tags and metadata had been written.
        kinds: By quark, the type of its values.
        extremes: The least and the greatest integers, which a finished history has from version 2
            on.
        boundary_ns: Where the sealed part ends.
        replaced: How many states of no length were replaced.
        capacity: How many changes there was room for before a segment had to be sealed.
        position: Where in the input an unfinished build can be resumed; None if it is not set.
        done: How many operations since then took effect, and how many rows of the next one.
        scheduled: The changes that were still scheduled.
        closed: The last line of a finished history; None if it is not finished.
        entries: What was logged since the last segment.
        late: The changes that came late.
        late_bytes: How much of their log counts.
        damaged: Logs, and where in them what counts ends because of damage.
        missing: What is damaged or missing, when salvaging.
        events: The rows of the event tables of an unfinished history; None if there are none.
        event_sizes: By table, how many blocks it has, and how much of its log counts.
        version: The version of the format of the directory.
        limits: What codes in segments refer to.
        lenient: Whether segments that cannot be opened are among `segments`.
    """

    path: Path
    catalogue: Catalogue
    segments: list[StoredSegment] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    kinds: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    extremes: Extremes | None = None
    boundary_ns: int = np.iinfo(np.int64).min
    replaced: int = 0
    capacity: int = 0
    position: Any = None
    done: tuple[int, int] = (0, 0)
    scheduled: list[ScheduledChange] = field(default_factory=list)
    closed: dict[str, Any] | None = None
    entries: list[Entry] = field(default_factory=list)
    late: Changes = field(default_factory=lambda: Changes.room(0))
    late_bytes: int = 0
    damaged: list[tuple[Path, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    events: EventStore | None = None
    event_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    version: int = VERSION
    limits: Limits = field(default_factory=lambda: Limits(np.zeros(0, np.uint8), 0, 0))
    lenient: bool = False

    def set_limits(self) -> None:
        """Set `limits` from what was read so far, for all segments."""
        catalogue = self.catalogue
        kinds = np.zeros(len(catalogue.attributes), np.uint8)
        kinds[: len(self.kinds)] = self.kinds
        self.kinds = kinds
        # Tags may be defined last, so their number is not final before the history is closed.
        tags = 2**31 - 1 if self.closed is None else len(catalogue.tags)
        self.limits = Limits(self.kinds, len(catalogue.strings.names), tags)
        for segment in self.segments:
            segment.limits = self.limits


def reason_of(error: Exception) -> str:
    """Return why reading a record failed with one of `WRONG`."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
