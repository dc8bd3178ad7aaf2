"""Names that run, or stop, again and again: those of one period and phase are one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.query.offsets.finding import Finding, named_list
from meantime.query.offsets.periods import Period, PeriodSearch
from meantime.query.offsets.wording import DAY_NS, HOUR_NS, MINUTE_NS, WEEK_NS, every

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.model.columns import Int64s
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.periods import Sight
    from meantime.query.offsets.stops import RegularStops
    from meantime.query.offsets.wording import Wording
    from meantime.query.ranges import Range

__all__ = ["Cycles", "Repeat", "has_lines", "repeats", "rounded"]

_FEWEST_CELLS = 12
# How far apart cycles that begin together are, as a part of the period.
_SAME_PHASE = 0.1
# Edges of cycles are alike if they differ by so many cells, or by this part of the period.
_NEAR_CELLS, _NEAR, _NEARLY_ALL = 0.5, 0.01, 0.8
# A name that is in every part of the cycles outside of the stops of everything has no period of its
# own: in the least of so many parts it has this much of what it has in the others.
_PARTS, _EVEN = 8, 0.3
# The score of a regular stop: that of a sharp run in every cycle.
_REGULAR = 16.0


class Repeat(NamedTuple):
    """Names that run, or stop, together again and again; one empty name is all together."""

    names: tuple[str, ...]
    period: Period
    stops: bool

    def finding(self, wording: Wording, cycles: Cycles, fold: Fold, first: int) -> Finding:
        """Return it as a finding.

        Args:
            wording: How times are put in words.
            cycles: Its runs, or its stops.
            fold: The cells.
            first: The number of the first cell.
        """
        ns = round(self.period.ns)
        if self.names == ("",):
            subject, verb = "everything", "stops" if self.stops else "runs"
        else:
            subject, verb = named_list(self.names), "stop" if self.stops else "run"
            verb += "s" if len(self.names) == 1 else ""
        rounded_ns = rounded(ns, self.period.error_ns)
        usual = cycles.usual(rounded_ns * fold.rows / fold.period_ns)
        when, offsets_ns = every(rounded_ns), None
        if usual is not None and wording.is_civil and rounded_ns in {DAY_NS, WEEK_NS}:
            begin_ns, end_ns = (fold.edge_ns(*divmod(first + each, fold.rows)) for each in usual)
            when = wording.recurring(rounded_ns, begin_ns, end_ns)
            if rounded_ns == fold.period_ns:
                begin_ns, length_ns = (begin_ns - fold.origin_ns) % ns, end_ns - begin_ns
                offsets_ns = (begin_ns, begin_ns + length_ns)
        return Finding(
            "period",
            self.names[0],
            f"{subject} {verb} {when}",
            names=self.names if self.names != ("",) else (),
            period_ns=ns,
            span_ns=offsets_ns,
            score=self.period.score,
            stops=self.stops,
        )


class Cycles(NamedTuple):
    """What happens once in each cycle: the first and last cells of the runs, or of the stops."""

    begin: Int64s
    end: Int64s

    @classmethod
    def of_runs(cls, busy: Int64s, period: Period, cell_ns: float) -> Cycles:
        """Return the busy cells of each cycle, as one run."""
        start = (period.phase_ns - period.ns / 2) / cell_ns
        cycle = np.floor((busy + 0.5 - start) * (cell_ns / period.ns)).astype(np.int64)
        firsts = np.flatnonzero(np.diff(cycle, prepend=cycle[:1] - 1))
        lasts = np.append(firsts[1:], len(cycle)) - 1
        return cls(busy[firsts], busy[lasts] + 1)

    def usual(self, period: float) -> Range | None:
        """Return a cycle like nearly all others: where it begins and ends; None if none is.

        Args:
            period: The period, in cells.
        """
        if not len(self.begin):
            return None
        usual = []
        for edges in (self.begin, self.end):
            offset = (edges - edges[0] + period / 2) % period - period / 2
            median = float(np.median(offset))
            near = np.abs(offset - median) <= max(_NEAR_CELLS, _NEAR * period)
            if near.mean() < _NEARLY_ALL:
                return None
            usual.append(int(edges[0]) + round(median))
        begin, end = usual
        return (begin, end) if begin < end <= begin + period / 2 else None


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
    whole = next((each for each in alone if each.names == ("",) and each.stops), None)
    if whole is not None:
        alone = [
            each
            for each in alone
            if each is whole
            or each.stops
            or not _follows(busy[each.names[0]], whole, each, cell_ns)
        ]
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


def _follows(numbers: Int64s, whole: Repeat, each: Repeat, cell_ns: float) -> bool:
    """Return whether a name runs periodically only because everything stops so.

    Then it runs in all of the cycle but the stop.

    Args:
        numbers: The busy cells of the name.
        whole: The stops of everything.
        each: The runs of the name.
        cell_ns: The length of a cell.
    """
    times = whole.period.ns / each.period.ns
    if abs(times - round(times)) > 0.01 * times and abs(1 / times - round(1 / times)) > 0.01:
        return False
    phase = ((numbers + 0.5) * cell_ns - whole.period.phase_ns) / whole.period.ns % 1
    # the stop is where cycles begin and end
    counts = np.bincount((phase * (_PARTS + 2)).astype(np.int64), minlength=_PARTS + 2)[1:-1]
    return bool(counts.min() >= _EVEN * counts.mean())


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


def rounded(ns: int, error_ns: float) -> int:
    """Return the roundest time within the error: whole days, hours and minutes are round.

    >>> rounded(1_099_700_000, 400_000), rounded(2_582_400_000, 900_000)
    (1100000000, 2580000000)
    >>> rounded(86_500 * 10**9, 50 * 10**9) == 86_400 * 10**9
    True
    """
    for unit_ns in (DAY_NS, HOUR_NS, MINUTE_NS):
        near_ns = (ns + unit_ns // 2) // unit_ns * unit_ns
        if near_ns and abs(near_ns - ns) <= 3 * error_ns < unit_ns / 2:
            return near_ns
    for exponent in range(len(str(ns)), -1, -1):
        digit: int = 10**exponent
        found = (ns + digit // 2) // digit * digit
        if found and abs(found - ns) <= 3 * error_ns:
            return found
    return ns
