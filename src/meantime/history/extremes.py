"""The least and the greatest integer of each attribute, for all of a history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s

__all__ = ["Extremes"]

_INT64 = np.iinfo(np.int64)


@dataclass(slots=True)
class Extremes:
    """By quark, the least and the greatest integer of all sealed changes.

    Changes that another one of their time replaced count too. An attribute without integers has
    the greatest and the least 64-bit integer.

    Attributes:
        low: The least.
        high: The greatest.
        changed: The quarks that got another one since the last `take_changed`; None for all.
    """

    low: Int64s
    high: Int64s
    changed: list[Int32s] | None

    @classmethod
    def empty(cls, quarks: int = 0) -> Extremes:
        """Return the extremes of so many attributes without integers."""
        return cls(np.full(quarks, _INT64.max), np.full(quarks, _INT64.min), [])

    def copy(self) -> Extremes:
        """Return extremes that do not change with these."""
        return Extremes(self.low.copy(), self.high.copy(), [])

    def reserve(self, quarks: int) -> None:
        """Grow the arrays to `quarks`; new attributes have no integers."""
        more = quarks - len(self.low)
        if more > 0:
            self.low = np.append(self.low, np.full(more, _INT64.max))
            self.high = np.append(self.high, np.full(more, _INT64.min))

    def widen(self, quarks: Int32s, low: Int64s, high: Int64s) -> None:
        """Add integers of some attributes, each given once."""
        wider = (low < self.low[quarks]) | (high > self.high[quarks])
        if not wider.any():
            return
        quarks, low, high = quarks[wider], low[wider], high[wider]
        self.low[quarks] = np.minimum(self.low[quarks], low)
        self.high[quarks] = np.maximum(self.high[quarks], high)
        if self.changed is not None:
            self.changed.append(quarks)

    def take_changed(self) -> Int32s:
        """Return the attributes that got another extreme since the last time."""
        changed, self.changed = self.changed, []
        if changed is None:
            return np.flatnonzero(self.low <= self.high).astype(np.int32)
        if not changed:
            return np.empty(0, np.int32)
        return np.unique(np.concatenate(changed))
