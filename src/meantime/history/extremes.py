"""The least and the greatest integer of each attribute, for all of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.search import Segments
from meantime.kernels.tail import INT

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.segment import Segment

__all__ = ["Extremes"]

_INT64 = np.iinfo(np.int64)


class Extremes:
    """By quark, the least and the greatest integer of all sealed changes.

    Changes that another one of their time replaced count too. An attribute without integers has
    the greatest and the least 64-bit integer.

    Args:
        segments: Segments whose integers are not yet included: their rows are read by `resolve`.

    Attributes:
        low: The least.
        high: The greatest.
    """

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.low: Int64s = np.empty(0, np.int64)
        self.high: Int64s = np.empty(0, np.int64)
        self._segments = list(segments)

    def copy(self) -> Extremes:
        """Return extremes that do not change with these."""
        other = Extremes(self._segments)
        other.low, other.high = self.low.copy(), self.high.copy()
        return other

    def reserve(self, quarks: int) -> None:
        """Grow the arrays to `quarks`; new attributes have no integers."""
        more = quarks - len(self.low)
        if more > 0:
            self.low = np.append(self.low, np.full(more, _INT64.max))
            self.high = np.append(self.high, np.full(more, _INT64.min))

    def widen(self, quarks: Int32s, low: Int64s, high: Int64s) -> None:
        """Add the least and the greatest integer of some attributes, each given once."""
        self.low[quarks] = np.minimum(self.low[quarks], low)
        self.high[quarks] = np.maximum(self.high[quarks], high)

    def resolve(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """Include all segments, and attributes of these types; return this.

        Raises:
            InputError: If a segment is damaged.
        """
        self.reserve(len(kinds))
        while self._segments:
            self.widen(*_integers_of(self._segments[-1], kinds))
            self._segments.pop()
        return self


def _integers_of(segment: Segment, kinds: npt.NDArray[np.uint8]) -> tuple[Int32s, Int64s, Int64s]:
    """Return the attributes that have integers in a segment, and the extremes of those."""
    if segment.integers is None:
        if not segment.head.numeric:
            none = np.empty(0, np.int64)
            segment.integers = np.empty(0, np.int32), none, none
        else:
            segment.load()
            alone = Segments(searchable=False)
            segment.add_to(alone)
            quarks = segment.sections["quarks"]
            low, high = np.full(len(quarks), _INT64.max), np.full(len(quarks), _INT64.min)
            alone.extremes(0, low, high)
            some = (kinds[quarks] == INT) & (low <= high)
            segment.integers = quarks[some], low[some], high[some]
    return segment.integers
