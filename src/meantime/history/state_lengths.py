"""The states of attributes in parts whose lengths are read where they are kept.

No interval becomes a row of an answer, which takes most of the time that reading one takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.history.source import cut_groups
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.directory.answers import Answers
    from meantime.history.history import History
    from meantime.history.snapshot import Snapshot
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = ["StatePart", "StringStates", "kept_answers", "string_states"]

# Attributes with so many changes are read at once. How many are in a range does not matter: so the
# sums of the same attributes, which segments keep, are those of any range.
_PART_ROWS = 1 << 26


@struct
class StatePart:
    """The states of some attributes.

    Attributes:
        snapshot: The moment of the history.
        quark: The attributes.
        range_ns: The range.
    """

    snapshot: Snapshot
    quark: Int32s
    range_ns: tuple[int, int]

    @property
    def strings(self) -> Sequence[str]:
        """The strings by code."""
        return self.snapshot.strings

    def __len__(self) -> int:
        return len(self.quark)

    def add_to(self, lengths: StateLengths) -> None:
        """Add how long each state lasts in the range."""
        question = self.snapshot.question(self.quark, self.range_ns)
        self.snapshot.segments.lengths(question, lengths)


@struct
class StringStates:
    """The states of attributes that have strings alone, in parts.

    Attributes:
        snapshot: The moment of the history.
        quarks: The attributes.
        range_ns: The range.
        counts: By attribute, how many intervals overlap the range at most.
    """

    snapshot: Snapshot
    quarks: Int32s
    range_ns: tuple[int, int]
    counts: Int64s

    def __iter__(self) -> Iterator[StatePart]:
        question = self.snapshot.question(self.quarks, self.range_ns)
        *_, changes = self.snapshot.segments.bounds(question)
        for first, last in cut_groups(changes, _PART_ROWS):
            yield StatePart(self.snapshot, self.quarks[first:last], self.range_ns)


def kept_answers(history: History) -> Answers | None:
    """Return what is kept beside a history; None in memory, and where damage was found."""
    now = history._asked()  # noqa: SLF001 - what reads them is a query, not a user
    return now.answers if now.damage is None or not now.damage.found else None


def string_states(
    history: History, quarks: Int32s, range_ns: tuple[int, int]
) -> StringStates | None:
    """Return the states of attributes in a range; None if some have numbers.

    Raises:
        QuarkError: If an attribute does not exist.
        TimeRangeError: If the range is empty.
    """
    now = history._asked()  # noqa: SLF001 - what reads them is a kernel, not a user
    asked, range_ns = now.query(quarks, *range_ns)
    if not now.is_text(asked):
        return None
    counts = now.segments.count(now.question(asked, range_ns))
    return StringStates(now, asked, range_ns, counts)
