"""How late an event loop is: figures of the time between its polls, and of its timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from meantime.model.durations import FIGURES, Durations
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from meantime.model.columns import Int64s

    # durations within 4 %, ascending, how many there are of each, and the longest
    Counted: TypeAlias = tuple[Int64s, Int64s, int]

__all__ = ["Lag"]


class Lag(NamedTuple):
    """How late a loop was; figures are within 4 %, and the longest is exact.

    Attributes:
        late: From when timers were due until they ran.
        turns: From the end of a poll for events to the next poll, while nothing else can run.
    """

    late: Durations[int, float]
    turns: Durations[int, float]

    @classmethod
    def of(cls, late: Counted, turns: Counted) -> Lag:
        """Return the lag of a loop from the counts of the state machine."""
        return cls(Durations.counted(*late), Durations.counted(*turns))

    def text(self) -> str:
        """Return it as one phrase."""
        parts = [f"poll to poll {_text(self.turns)}"] if self.turns.count else []
        if self.late.count:
            parts.append(f"timers late by {_text(self.late)}")
        return "; ".join(parts)


def _text(found: Durations[int, float]) -> str:
    quantiles = [
        f"{each.title} {format_ns(_rounded(getattr(found, each.key)))}"
        for each in FIGURES.values()
        if each.percent is not None
    ]
    return ", ".join([*quantiles, f"longest {format_ns(found.max_ns)}"])


def _rounded(value_ns: int) -> int:
    """Return a duration with the two digits that are exact."""
    unit: int = 10 ** max(0, len(str(value_ns)) - 2)
    return (value_ns + unit // 2) // unit * unit
