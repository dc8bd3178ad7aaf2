"""Gaps and bursts: what everything, or some names, did not do again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import format_ns
from meantime.query.offsets.bursts import bursts
from meantime.query.offsets.finding import Finding, clearest, named_list
from meantime.query.offsets.repeats import rounded
from meantime.query.offsets.stops import Stop, regular_gaps, regular_stops, shared_stops, stops
from meantime.query.ranges import clipped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.offsets.cells import Cells
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.offsets.stops import RegularStops
    from meantime.query.offsets.wording import Wording
    from meantime.query.ranges import Range

__all__ = ["burst_findings", "gap_findings", "stops_of"]

_LEAST_STOP = 4
# Beyond this many empty stretches of columns, only those much longer than most are findings.
_FEW_EMPTY, _MUCH_LONGER = 8, 3


def stops_of(
    found: OffsetMap, busy: Mapping[str, Int64s], whole: Int64s
) -> tuple[dict[str, list[Range]], dict[str, RegularStops]]:
    """Return the ranges of cells in which each name stopped, and those at equal distances.

    The empty name is everything. Of stops at equal distances their lengths need not be improbable.
    """
    cell_ns = found.fold.period_ns / found.fold.rows
    interval_ns = max((each.interval_ns or 0 for each in found.sources), default=0)
    least = max(_LEAST_STOP, int(np.ceil(3 * interval_ns / cell_ns)))
    own = {name: numbers for name, numbers in busy.items() if name not in found.idle}
    stopped, regular = {}, {}
    for name, numbers in {**own, "": whole}.items():
        stopped[name] = stops(numbers, least)
        each = regular_stops(stopped[name]) or regular_gaps(numbers, least)
        if each is not None:
            regular[name] = each
    return stopped, regular


def gap_findings(
    found: OffsetMap,
    stopped: Mapping[str, Sequence[Range]],
    regular: Mapping[str, RegularStops],
    first: int,
    stopping: set[str],
    *,
    wording: Wording,
) -> list[Finding]:
    """Find ranges in which everything stopped, or some names, apart from periodic stops.

    Args:
        found: The map.
        stopped: The stops of each name, of everything by the empty name.
        regular: Those of them that come at equal distances.
        first: The number of the first cell.
        stopping: The names that stop periodically.
        wording: How times are put in words.
    """
    cell_ns = found.fold.period_ns / found.fold.rows
    everything = stopped[""]
    by = {
        name: _irregular(ranges, regular[name]) if name in regular else ranges
        for name, ranges in stopped.items()
        if name and (name in regular or name not in stopping)
    }
    shared = shared_stops(by, everything)
    alone: Sequence[Range] = () if "" in stopping else everything
    if "" in regular:
        alone = _irregular(everything, regular[""])
    chosen = [Stop(cells, ()) for cells in alone] + shared
    spans = [(_span(found, first, stop.cells), stop.names) for stop in chosen]
    periodic = regular[""].cells if "" in regular else ()
    known = [_span(found, first, cells) for cells in (*everything, *periodic)]
    spans += [
        (span, ())
        for span in _unusual(_empty_columns(found))
        if not any(clipped([span], *other) for other in known)
    ]
    findings = []
    for span, names in spans:
        if clipped(found.lost, *span) or clipped(found.recorded, *span) != (span,):
            continue
        what = f"{named_list(names)} stopped" if names else "nothing happened"
        text = f"{what} for {format_ns(span[1] - span[0])} {wording.moment(span[0])}"
        score = (span[1] - span[0]) / cell_ns
        findings.append(
            Finding("gap", names[0] if names else "", text, names, span_ns=span, score=score)
        )
    return clearest(findings, "gap")


def _irregular(ranges: Sequence[Range], regular: RegularStops) -> list[Range]:
    """Return the stops that are none of the regular ones."""
    of_them = set(regular.cells)
    return [cells for cells in ranges if cells not in of_them]


def _span(found: OffsetMap, first: int, cells: Range) -> Range:
    """Return a range of examined cells as times."""
    start, end = (divmod(first + each, found.fold.rows) for each in cells)
    return found.fold.edge_ns(*start), found.fold.edge_ns(*end)


def _unusual(spans: list[Range]) -> list[Range]:
    """Return empty stretches unless there are many of that length."""
    if len(spans) <= _FEW_EMPTY:
        return spans
    usual = float(np.median([end - start for start, end in spans]))
    return [(start, end) for start, end in spans if end - start > _MUCH_LONGER * usual]


def _empty_columns(found: OffsetMap) -> list[Range]:
    """Return the columns that were recorded completely and have no events."""
    rows = found.fold.rows
    busy = found.total.number // rows
    busy = busy[np.flatnonzero(np.diff(busy, prepend=busy[:1] - 1))]
    spans: list[Range] = []
    for start_ns, end_ns in found.recorded:
        first = -(-(start_ns - found.fold.origin_ns) // found.fold.period_ns)
        last = found.fold.column(end_ns) - 1
        inside = busy[(busy >= first) & (busy <= last)]
        edges = np.concatenate([[first - 1], inside, [last + 1]])
        spans += [
            (found.fold.edge_ns(int(edges[at]) + 1), found.fold.edge_ns(int(edges[at + 1])))
            for at in np.flatnonzero(np.diff(edges) > 1)
        ]
    return spans


def burst_findings(
    found: OffsetMap,
    total: Cells,
    first: int,
    cells: int,
    periodic: set[str],
    *,
    wording: Wording,
) -> list[Finding]:
    """Find ranges in which much more happened than usual, apart from the runs of periodic names.

    Those at equal distances are one finding.
    """
    counts = found.value in {"count", "starts", "ends"}
    findings = []
    all_bursts = bursts(total, first, cells, found.fold.rows, counts=counts)
    regular = regular_stops([burst.cells for burst in all_bursts])
    for burst in all_bursts:
        is_regular = regular is not None and burst.cells in regular.cells
        if is_regular and regular is not None and burst.cells != regular.cells[0]:
            continue
        span = _span(found, first, burst.cells)
        inside = first + np.array(burst.cells)
        share = (burst.cells[1] - burst.cells[0]) / cells
        # how much more each name has than its usual
        more = {
            name: _sum(each, inside) - share * float(each.value.sum())
            for name, each in found.by.items()
            if name not in found.idle
        }
        name = max(more, key=lambda name: more[name], default="")
        half = 0.5 * sum(more.values())
        if more and sum(max(0.0, more[name]) for name in periodic if name in more) >= half:
            continue
        mostly = bool(name) and more[name] >= half
        when, period_ns = wording.moment(span[0]), None
        if is_regular and regular is not None:
            cell_ns = found.fold.period_ns / found.fold.rows
            period_ns = rounded(round(regular.period * cell_ns), regular.error * cell_ns)
            when = f"{wording.recurring(period_ns, span[0])} ({len(regular.cells)} times)"
        text = (
            f"{burst.times:.1f} times the usual load for {format_ns(span[1] - span[0])} {when}"
            f"{f', most of it {name}' if mostly else ''}"
        )
        names = (name,) if mostly else ()
        findings.append(
            Finding(
                "burst",
                name if mostly else "",
                text,
                names,
                period_ns=period_ns,
                span_ns=span,
                score=burst.deviations,
            )
        )
    return clearest(findings, "burst")


def _sum(cells: Cells, inside: Int64s) -> float:
    low, high = np.searchsorted(cells.number, inside)
    return float(cells.value[low:high].sum())
