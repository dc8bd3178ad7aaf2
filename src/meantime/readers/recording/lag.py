"""How late an event loop is: figures of the time between its polls, and of its timers."""

from __future__ import annotations

from typing import NamedTuple

from meantime.units import format_ns

__all__ = ["Lag", "Percentiles"]


class Percentiles(NamedTuple):
    """Some durations.

    Attributes:
        events: Their number.
        p50_ns: Half of them are not longer; within 4 %.
        p99_ns: 99 % of them are not longer; within 4 %.
        most_ns: The longest.
    """

    events: int
    p50_ns: int
    p99_ns: int
    most_ns: int

    def text(self) -> str:
        """Return them as one phrase."""
        p50_ns, p99_ns = (_rounded(value) for value in (self.p50_ns, self.p99_ns))
        return f"p50 {format_ns(p50_ns)}, p99 {format_ns(p99_ns)}, max {format_ns(self.most_ns)}"


class Lag(NamedTuple):
    """How late a loop was.

    Attributes:
        late: From when timers were due until they ran.
        turns: From the end of a poll for events to the next poll, while nothing else can run.
    """

    late: Percentiles
    turns: Percentiles

    @classmethod
    def of(cls, late: tuple[int, int, int, int], turns: tuple[int, int, int, int]) -> Lag:
        """Return the lag of a loop from the figures of the state machine."""
        return cls(Percentiles(*late), Percentiles(*turns))

    def text(self) -> str:
        """Return it as one phrase."""
        parts = [f"poll to poll {self.turns.text()}"] if self.turns.events else []
        if self.late.events:
            parts.append(f"timers late by {self.late.text()}")
        return "; ".join(parts)


def _rounded(value_ns: int) -> int:
    """Return a duration with the two digits that are exact."""
    unit: int = 10 ** max(0, len(str(value_ns)) - 2)
    return (value_ns + unit // 2) // unit * unit
