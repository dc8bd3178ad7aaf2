"""What of a history on disk cannot be read, and what is known in place of a damaged segment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.history.segment import segment_of_changes
from meantime.kernels.tail import UNTYPED
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.segment import Segment
    from meantime.model.columns import Int32s

__all__ = ["Damage", "DamageLog", "LostSegment", "without"]

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Damage:
    """A part of a history that cannot be read.

    Attributes:
        file: The file.
        start_ns: The first time at which something is unknown.
        end_ns: The first time after that.
        reason: What is wrong with the file, and what to do.
        anomaly: What it is counted as: `segment_damaged` or `table_damaged`.
    """

    file: str
    start_ns: int
    end_ns: int
    reason: str
    anomaly: str

    def __str__(self) -> str:
        """Return a sentence."""
        what = "states" if self.anomaly == "segment_damaged" else "events"
        return f"{self.reason} ({what} from {self.start_ns} ns to {self.end_ns} ns are unknown)"


@dataclass(slots=True)
class DamageLog:
    """What was found damaged so far, since rows are read when they are first used.

    Attributes:
        kinds: By quark, the type of its values.
        skips: Whether queries answer from the intact rest; otherwise one about damage raises.
        found: All damage, in the order in which it was found.
    """

    kinds: npt.NDArray[np.uint8]
    skips: bool
    found: list[Damage] = field(default_factory=list)

    def add(self, damage: Damage) -> None:
        """Add damage, and log it if it would otherwise go unnoticed."""
        self.found.append(damage)
        if self.skips:
            import logging  # noqa: PLC0415 - 2 ms, for damaged files only

            logging.getLogger("meantime").warning("%s", damage)


@dataclass(frozen=True, slots=True)
class LostSegment:
    """A damaged segment that a history does without.

    Attributes:
        start_ns: When it begins.
        end_ns: When the next full one begins, with which all states are known again.
        quarks: The attributes whose states in it are unknown; None if all are.
        error: Why it cannot be read.
    """

    start_ns: int
    end_ns: int
    quarks: Int32s | None
    error: InputError

    def damage(self) -> Damage:
        """Return it as what a history reports."""
        file = self.error.source
        return Damage(file, self.start_ns, self.end_ns, str(self.error), "segment_damaged")

    def hidden(self, quarks: Int32s, start_ns: int, end_ns: int) -> Int32s:
        """Return those of some attributes whose states in a range may be unknown."""
        if end_ns <= self.start_ns or self.end_ns <= start_ns:
            return quarks[:0]
        return quarks if self.quarks is None else quarks[np.isin(quarks, self.quarks)]


def without(
    segments: Sequence[Segment], index: int, end_ns: int, error: InputError, log: DamageLog
) -> tuple[LostSegment, Segment]:
    """Return what is lost with a damaged segment, and the segment to be used in place of it.

    In that one, an attribute has no state from the beginning of the damaged segment on, unless it
    is known from the next full segment, which has for each attribute the last change before it:
    either that there was no change, or what the last one was.

    Args:
        segments: The segments of the history.
        index: The damaged one.
        end_ns: When the history ends.
        error: What is wrong with it.
        log: Has the types of the attributes.
    """
    start_ns = segments[index].head.base_ns
    until_ns = segments[index + 1].head.base_ns if index + 1 < len(segments) else end_ns
    quarks = _may_have_changed(segments, index)
    full = next((each for each in segments[index + 1 :] if _has_carry(each)), None)
    none = np.empty(0, np.int64)
    known_ns, known, word, meta = none, none.astype(np.int32), none, none.astype(np.uint32)
    if full is not None:
        carried = full.sections["quarks"]
        carry_ns = full.sections["carry_start"]
        changed = carry_ns >= start_ns
        if quarks is not None:
            changed &= np.isin(carried, quarks)
        quarks = carried[changed]
        last = np.flatnonzero(changed & (carry_ns < until_ns))
        last = last[np.argsort(carry_ns[last], kind="stable")]
        known_ns, known = carry_ns[last], carried[last]
        word, meta = full.sections["carry_word"][last], full.sections["carry_meta"][last]
    # in the segments up to the next full one, an attribute can have no change
    lost_ns = full.head.base_ns if full is not None else end_ns
    lost = LostSegment(start_ns, max(lost_ns, start_ns), quarks, error)
    if quarks is None:
        # those that never changed before have no state anyway
        before = [_runs(each) for each in segments[:index]]
        quarks = distinct(np.concatenate([np.empty(0, np.int32), *before]))
    unknown = np.setdiff1d(quarks, known[known_ns == start_ns])
    kinds = log.kinds
    if not len(unknown) and not len(known):
        # a segment has at least one run, also that of a history without attributes
        unknown = np.zeros(1, np.int32)
        kinds = kinds if len(kinds) else np.full(1, UNTYPED, np.uint8)
    count = len(unknown)
    return lost, segment_of_changes(
        kinds,
        np.concatenate([np.full(count, start_ns), known_ns]),
        np.concatenate([unknown, known]).astype(np.int32),
        np.concatenate([np.zeros(count, np.int64), word]),
        np.concatenate([np.ones(count, np.uint32), meta]),
    )


def _may_have_changed(segments: Sequence[Segment], index: int) -> Int32s | None:
    """Return the attributes that change in a damaged segment; None if its index is damaged too."""
    try:
        sections = segments[index].sections
    except InputError:
        return None
    changed: Int32s = sections["quarks"][np.diff(sections["offsets"].astype(np.int64)) > 0]
    return changed


def _runs(segment: Segment) -> Int32s:
    """Return the attributes of which a segment has a run, as far as it can be read."""
    try:
        quarks: Int32s = segment.sections["quarks"]
    except InputError:
        quarks = np.empty(0, np.int32)
    return quarks


def _has_carry(segment: Segment) -> bool:
    """Return whether a segment is intact and has the state of each attribute before it."""
    if not segment.head.full:
        return False
    try:
        segment.load()
    except InputError:
        return False
    return True
