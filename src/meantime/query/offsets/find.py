"""Findings in a map: periods, stripes, gaps, and what ran in the gaps of something else.

Findings depend on which cells are busy, not on their values: how many samples a cell gets depends
on the alignment of the sampling interval and the rows, and would look like a period itself. For the
same reason there is no search for periods below two cells.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from meantime.query.offsets.periods import PeriodSearch, Sight
from meantime.query.offsets.ranges import clipped, union
from meantime.units import format_ns

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.query.offsets.map import OffsetMap

__all__ = ["Finding", "find"]

_FEWEST_CELLS = 12
_MOST_NAMES = 40
_MOST_CELLS = 2**25
# This limits the transforms of all names to a second or two.
_MOST_SIGHT = 2**21


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in a map.

    Attributes:
        kind: `period`, `stripe`, `gap`, or `filler` (what ran in a gap).
        name: The name that it is about; empty for all together.
        sentence: The finding in words.
        period_ns: The period, if the kind is `period`.
        span_ns: Start and end: of a stripe within each column, of a gap in time.
        other: The name whose gaps `name` fills.
        score: How clear it is; comparable within a kind.
    """

    kind: Literal["period", "stripe", "gap", "filler"]
    name: str
    sentence: str
    period_ns: int | None = None
    span_ns: tuple[int, int] | None = None
    other: str | None = None
    score: float = 0.0


def find(found: OffsetMap) -> list[Finding]:
    """Return the findings in a map, by kind, the clearest first."""
    if not found.recorded:
        return []
    rows = found.fold.rows
    first, cells = _extent(found)
    if cells < 2 * rows:
        return []
    names = sorted(found.by, key=lambda name: -len(found.by[name].number))[:_MOST_NAMES]
    busy = {name: _inside(found.by[name].number, first, cells) for name in names}
    sight = Sight.of(
        cells,
        found.fold.period_ns / rows,
        most=max(2**16, min(2**20, _MOST_SIGHT // max(1, len(names)))),
        intervals_ns=[each.interval_ns for each in found.sources if each.interval_ns],
    )
    search = PeriodSearch(sight)
    findings: list[Finding] = []
    for name, numbers in busy.items():
        if len(numbers) >= _FEWEST_CELLS:
            findings += _periods(name, numbers, search)
            findings += _stripes(found, name, numbers, cells, first % rows)
    findings += _gaps(found)
    findings += _fillers(busy, cells)
    order = ("period", "stripe", "gap", "filler")
    return sorted(findings, key=lambda each: (order.index(each.kind), -each.score))


def _extent(found: OffsetMap) -> tuple[int, int]:
    """Return the first cell to examine and the number of cells, without stray times."""
    first = found.fold.number(found.recorded[0][0])
    cells = found.fold.number(found.recorded[-1][1] - 1) - first + 1
    numbers = found.total.number
    if cells <= _MOST_CELLS or not len(numbers):
        return first, min(cells, _MOST_CELLS)
    # a stray time can be years away: only the largest cluster of cells is examined
    cuts = np.flatnonzero(np.diff(numbers) > _MOST_CELLS // 64) + 1
    largest = max(np.split(numbers, cuts), key=len)
    return int(largest[0]), min(int(largest[-1] - largest[0]) + 1, _MOST_CELLS)


def _inside(numbers: Int64s, first: int, cells: int) -> Int64s:
    """Return the busy cells among those examined, counted from the first of these."""
    low, high = np.searchsorted(numbers, [first, first + cells])
    return numbers[low:high] - first


def _periods(name: str, numbers: Int64s, search: PeriodSearch) -> list[Finding]:
    period = search.period_of(numbers)
    if period is None:
        return []
    ns = round(period.ns)
    return [
        Finding(
            "period",
            name,
            f"{name} runs every {format_ns(_rounded(ns, period.error_ns))}",
            period_ns=ns,
            score=period.score,
        )
    ]


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


def _stripes(found: OffsetMap, name: str, numbers: Int64s, cells: int, shift: int) -> list[Finding]:
    """Find runs of rows in which a name is busy in most columns, and seldom elsewhere."""
    rows = found.fold.rows
    columns = cells / rows
    share = np.bincount((numbers + shift) % rows, minlength=rows) / columns
    strong = (share >= 0.4) & (share >= 2.5 * share.mean())
    findings = []
    for low, high in np.flatnonzero(np.diff(strong.astype(np.int8), prepend=0, append=0)).reshape(
        -1, 2
    ):
        begin_ns = found.fold.edge_ns(0, int(low)) - found.fold.origin_ns
        end_ns = found.fold.edge_ns(0, int(high)) - found.fold.origin_ns
        part = min(1.0, float(share[low:high].mean()))
        text = (
            f"{name} runs from {format_ns(begin_ns)} to {format_ns(end_ns)} in "
            f"{part:.0%} of the columns"
        )
        findings.append(
            Finding("stripe", name, text, span_ns=(int(begin_ns), int(end_ns)), score=part)
        )
    return findings


def _gaps(found: OffsetMap) -> list[Finding]:
    """Find columns that were recorded completely, without events and without losses."""
    rows = found.fold.rows
    busy = np.unique(found.total.number // rows)
    findings = []
    for start_ns, end_ns in found.recorded:
        first = -(-(start_ns - found.fold.origin_ns) // found.fold.period_ns)
        last = found.fold.column(end_ns) - 1
        inside = busy[(busy >= first) & (busy <= last)]
        edges = np.concatenate([[first - 1], inside, [last + 1]])
        for before, after in itertools.pairwise(edges):
            if after - before > 1:
                span = (found.fold.edge_ns(int(before) + 1), found.fold.edge_ns(int(after)))
                if clipped(found.lost, *span):
                    continue
                text = (
                    f"nothing happened for {format_ns(span[1] - span[0])} from {format_ns(span[0])}"
                )
                findings.append(
                    Finding("gap", "", text, span_ns=span, score=float(after - before - 1))
                )
    return findings


def _fillers(busy: dict[str, Int64s], cells: int) -> list[Finding]:
    """Rank names by how well their busy cells cover another's long gaps, and only those."""
    findings = []
    for name, numbers in busy.items():
        gaps = _long_gaps(numbers, cells)
        if gaps is None:
            continue
        empty = np.zeros(cells, np.bool_)
        for start, end in gaps:
            empty[start:end] = True
        size = int(empty.sum())
        for other, others in busy.items():
            covered = int(empty[others].sum())
            if other == name or covered < 3 or covered < 0.3 * size:
                continue
            recall, precision = covered / size, covered / len(others)
            # the F1 score, the harmonic mean of both
            score = 2 * recall * precision / (recall + precision)
            # A name that is independent of the gaps covers the same share of them as of all cells.
            if score < 0.35 or recall < 2 * len(others) / cells:
                continue
            text = (
                f"{other} ran in {recall:.0%} of the time when {name} did not, and "
                f"{precision:.0%} of {other} was in that time"
            )
            findings.append(Finding("filler", other, text, other=name, score=score))
    return findings


def _long_gaps(numbers: Int64s, cells: int) -> tuple[tuple[int, int], ...] | None:
    """Return the gaps that are far longer than those a name mostly has; None if it has none."""
    edges: npt.NDArray[np.int64] = np.concatenate([[-1], numbers, [cells]])
    lengths = np.diff(edges) - 1
    if len(numbers) < cells // 5:
        return None
    longest = max(4.0, 6 * float(np.median(lengths)))
    at = np.flatnonzero(lengths >= longest)
    return union((int(edges[i]) + 1, int(edges[i + 1])) for i in at) if len(at) else None
