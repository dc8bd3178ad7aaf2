"""Names that run, or stop, again and again: those of one period and phase are one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.query.offsets.finding import Finding, named_list
from meantime.query.offsets.periods import Period, PeriodSearch
from meantime.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.columns import Int64s
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.periods import Sight
    from meantime.query.offsets.stops import RegularStops

__all__ = ["Repeat", "has_lines", "repeats"]

_FEWEST_CELLS = 12
# How far apart cycles that begin together are, as a part of the period.
_SAME_PHASE = 0.1
# The score of a regular stop: that of a sharp run in every cycle.
_REGULAR = 16.0


class Repeat(NamedTuple):
    """Names that run, or stop, together again and again; one empty name is all together."""

    names: tuple[str, ...]
    period: Period
    stops: bool

    def finding(self) -> Finding:
        """Return it as a finding."""
        ns = round(self.period.ns)
        if self.names == ("",):
            subject, verb = "everything", "stops" if self.stops else "runs"
        else:
            subject, verb = named_list(self.names), "stop" if self.stops else "run"
            verb += "s" if len(self.names) == 1 else ""
        return Finding(
            "period",
            self.names[0],
            f"{subject} {verb} every {format_ns(_rounded(ns, self.period.error_ns))}",
            names=self.names if self.names != ("",) else (),
            period_ns=ns,
            score=self.period.score,
        )


def repeats(
    busy: Mapping[str, Int64s],
    cells: int,
    sight: Sight,
    *,
    regular: Mapping[str, RegularStops],
    cell_ns: float,
) -> list[Repeat]:
    """Find the periods of names, those of one period and phase together.

    Args:
        busy: The busy cells of each name; the empty name is all together.
        cells: The number of cells.
        sight: The resolution of the search.
        regular: The regular stops of names, which are exact: the search would see parts of their
            period, too.
        cell_ns: The length of a cell.
    """
    search = PeriodSearch(sight)
    alone = []
    for name, numbers in busy.items():
        if name in regular:
            alone.append(Repeat((name,), _period_of(regular[name], cell_ns), stops=True))
            continue
        stops = 2 * len(numbers) > cells
        # All together are only asked for their stops: their runs are those of the names.
        if len(numbers) >= _FEWEST_CELLS and (name or stops):
            period = search.period_of(numbers)
            if period is not None:
                alone.append(Repeat((name,), period, stops))
    joined: list[Repeat] = []
    for each in sorted(alone, key=lambda each: (each.names != ("",), -each.period.score)):
        for index, other in enumerate(joined):
            if each.stops == other.stops and _is_same(each.period, other.period):
                if other.names != ("",):
                    names = tuple(sorted({*other.names, *each.names}))
                    joined[index] = other._replace(names=names)
                break
        else:
            joined.append(each)
    return joined


def _period_of(found: RegularStops, cell_ns: float) -> Period:
    """Return regular stops as a period; as clear as there are stops."""
    return Period(
        found.period * cell_ns,
        found.error * cell_ns,
        found.phase * cell_ns,
        _REGULAR * len(found.cells),
    )


def _is_same(one: Period, other: Period) -> bool:
    """Return whether two periods are equal, and their cycles begin together."""
    if abs(one.ns - other.ns) > 3 * (one.error_ns + other.error_ns):
        return False
    apart = (one.phase_ns - other.phase_ns) / one.ns
    return abs(apart - round(apart)) <= _SAME_PHASE


def has_lines(period: Period, fold: Fold) -> bool:
    """Return whether a period makes several stripes in each column."""
    times = fold.period_ns / period.ns
    return times > 1.5 and abs(times - round(times)) * period.ns <= 3 * period.error_ns * times


def _rounded(ns: int, error_ns: float) -> int:
    """Return the roundest time within the error.

    >>> _rounded(1_099_700_000, 400_000), _rounded(2_582_400_000, 900_000)
    (1100000000, 2580000000)
    """
    for exponent in range(len(str(ns)), -1, -1):
        digit: int = 10**exponent
        found = (ns + digit // 2) // digit * digit
        if found and abs(found - ns) <= 3 * error_ns:
            return found
    return ns
