"""Findings in a map: periods, stripes, gaps, bursts, and what ran in the gaps of something else.

Only bursts depend on values, all others on which cells are busy: how many samples a cell gets
depends on the alignment of the sampling interval and the rows, and would look like a period itself.
For the same reason there is no search for periods below two cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.query.offsets.cells import merge_cells
from meantime.query.offsets.disturbances import burst_findings, gap_findings, stops_of
from meantime.query.offsets.finding import Finding
from meantime.query.offsets.hours import hours_findings
from meantime.query.offsets.periods import Sight
from meantime.query.offsets.repeats import Cycles, has_lines, repeats
from meantime.query.offsets.wording import Wording
from meantime.query.ranges import union

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.offsets.map import OffsetMap

__all__ = ["find"]

_FEWEST_CELLS = 12
_MOST_NAMES = 40
_MOST_CELLS = 2**25
# This limits the transforms of all names to a second or two.
_MOST_SIGHT = 2**20


def find(found: OffsetMap) -> list[Finding]:
    """Return the findings in a map, by kind, the clearest first."""
    if not found.recorded:
        return []
    if found.fold.axis is not None:
        from meantime.query.offsets.apart import apart  # noqa: PLC0415 - not of offsets

        return apart(found)
    rows = found.fold.rows
    first, cells = _extent(found)
    if cells < 2 * rows:
        return []
    ranked = sorted(found.by, key=lambda name: -len(found.by[name].number))[:_MOST_NAMES]
    busy = {name: _inside(found.by[name].number, first, cells) for name in ranked}
    # The idle task runs when nothing else does: it is not part of the load.
    total = found.total
    if found.idle:
        total = merge_cells([each for name, each in found.by.items() if name not in found.idle])
    whole = _inside(total.number, first, cells)
    sight = Sight.of(
        cells,
        found.fold.period_ns / rows,
        most=max(2**16, min(2**20, _MOST_SIGHT // max(1, len(busy)))),
        intervals_ns=[each.interval_ns for each in found.sources if each.interval_ns],
    )
    stopped, regular = stops_of(found, busy, whole)
    repeated = repeats(
        {**busy, "": whole} if len(busy) != 1 else busy,
        cells,
        sight,
        regular=regular,
        cell_ns=found.fold.period_ns / rows,
    )
    wording = Wording(found)
    cell_ns = found.fold.period_ns / rows
    findings: list[Finding] = []
    for repeat in repeated:
        if repeat.stops and repeat.names[0] in regular:
            begin, end = np.array(regular[repeat.names[0]].cells, np.int64).T
            cycles = Cycles(begin, end)
        else:
            numbers = distinct(np.concatenate([{**busy, "": whole}[name] for name in repeat.names]))
            if repeat.stops:
                numbers = np.setdiff1d(np.arange(cells), numbers, assume_unique=True)
            cycles = Cycles.of_runs(numbers, repeat.period, cell_ns)
        findings.append(repeat.finding(wording, cycles, found.fold, first))
    periods = {name: each for each in repeated for name in each.names}
    placed = {name for each in findings if each.span_ns for name in each.names}
    for name, numbers in busy.items():
        is_lines = name in periods and has_lines(periods[name].period, found.fold)
        if len(numbers) >= _FEWEST_CELLS and not is_lines and name not in placed:
            findings += _stripes(found, name, numbers, cells, first % rows, wording=wording)
    stopping = {name for name, each in periods.items() if each.stops}
    findings += gap_findings(found, stopped, regular, first, stopping, wording=wording)
    running = set(periods) - stopping
    findings += burst_findings(found, total, first, cells, running, wording=wording)
    others = [cells for name, cells in found.by.items() if name not in {*running, *found.idle}]
    rest = merge_cells(others) if running else total
    findings += hours_findings(found, rest, first, cells, wording=wording)
    findings += _fillers(busy, cells)
    order = ("period", "stripe", "gap", "burst", "filler")
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


def _stripes(
    found: OffsetMap, name: str, numbers: Int64s, cells: int, shift: int, *, wording: Wording
) -> list[Finding]:
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
        when, noun = wording.columns((int(begin_ns), int(end_ns))), wording.noun
        text = f"{name} runs {when} in {part:.0%} of the columns"
        if noun != "columns":
            text = f"{name} runs {when}" + (
                "" if part >= 0.995 else f", on {part:.0%} of the {noun}"
            )
        findings.append(
            Finding("stripe", name, text, span_ns=(int(begin_ns), int(end_ns)), score=part)
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
