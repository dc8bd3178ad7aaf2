"""The least and the greatest integer of each attribute, for all of a history."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = ["Extremes"]

_INT64 = np.iinfo(np.int64)


class _Segment(Protocol):
    def integers(self, kinds: npt.NDArray[np.uint8], /) -> tuple[Int32s, Int64s, Int64s]:
        """Return the attributes that have integers, and the extremes of those."""


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

    def __init__(self, segments: Iterable[_Segment] = ()) -> None:
        self.low: Int64s = np.empty(0, np.int64)
        self.high: Int64s = np.empty(0, np.int64)
        self._segments = list(segments)
        # Two threads that ask at once must not both remove the last segment.
        self._resolving = Lock()

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
        with self._resolving:
            self.reserve(len(kinds))
            while self._segments:
                self.widen(*self._segments[-1].integers(kinds))
                self._segments.pop()
        return self
