"""Stops of everything, and work and stops that repeat, by the search of heat maps.

`query.offsets.find` decides what chance cannot explain; it states its tests. Of what it finds, this
reports what loses time: ranges in which nothing happens, and periodic work of one name, or periodic
stops of everything, among the work of others. A period counts only if a cycle has at least
`_EVENTS_OF_A_CYCLE` events: work that alternates with pauses at that pace is how a program works,
not something that interrupts it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct
from meantime.model.extent import current_zone
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.outliers import FEWEST, Usual
from meantime.query.sample_units import events
from meantime.query.sentences import FILE, times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int64s
    from meantime.query.offsets.finding import Finding as MapFinding
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope

__all__ = ["stops"]

_ROWS, _COLUMNS = 50, 200
_FEWEST_EVENTS = 200
_MOST_SPANS = 20_000_000
# How many samples show what is usual.
_MOST_SAMPLES = 2**20
_EVENTS_OF_A_CYCLE = 20
# A pause, or periodic work, of less than this share of the range is not reported.
_LEAST_SHARE, _LEAST_PERIODIC = 0.01, 0.02
# What takes up more of the time than this is how the program works.
_MOST_OF_IT, _MOST_STOPPED = 0.5, 0.2


class _Activity(NamedTuple):
    """The activity in cells, and of how many events it consists."""

    cells: OffsetMap
    events: int

    @property
    def cell_ns(self) -> float:
        return self.cells.fold.period_ns / self.cells.fold.rows

    def span(self, first: int, last: int) -> Range:
        """Return the range of cells [first, last) in the times of the trace."""
        fold = self.cells.fold
        edges = fold.edge_ns(*divmod(first, fold.rows)), fold.edge_ns(*divmod(last, fold.rows))
        return self.in_trace(edges)

    def in_trace(self, span_ns: Range) -> Range:
        """Return a range of the map's times, which may be local ones, in those of the trace."""
        found = self.cells.in_map(*span_ns)
        return (found[0][0], found[-1][1]) if found else span_ns


def stops(scope: Scope) -> Iterator[Finding]:
    """Yield what stopped everything, and what repeats."""
    activity = _activity(scope)
    if activity is None:
        return
    from meantime.query.offsets.finder import find  # noqa: PLC0415 - 15 ms, and few are searched

    found = find(activity.cells)
    for each in found:
        if each.kind == "period" and each.period_ns is not None:
            yield from _periodic(scope, activity, each)
    pauses = [
        activity.in_trace(each.span_ns)
        for each in found
        if each.kind == "gap" and each.span_ns is not None and not each.names
    ]
    least_ns = max(_LEAST_SHARE * scope.length_ns, _usual_gap_ns(scope, activity))
    # before the first and after the last of the work, nothing is stopped
    edge_ns = int(_LEAST_SHARE * scope.length_ns)
    pauses = [
        (start_ns, end_ns)
        for start_ns, end_ns in pauses
        if end_ns - start_ns >= least_ns
        and start_ns > scope.start_ns + edge_ns
        and end_ns < scope.end_ns - edge_ns
    ]
    if not pauses:
        return
    pauses.sort(key=lambda span: span[0] - span[1])
    lost_ns = sum(end - start for start, end in pauses)
    text = f"nothing happened for {rounded_ns(pauses[0][1] - pauses[0][0])}"
    if len(pauses) > 1:
        text += f", and {times(len(pauses) - 1)} more ({rounded_ns(lost_ns)} in all)"
    yield Finding(
        "stop",
        text,
        lost_ns,
        tuple(pauses),
        len(pauses),
        arguments=("heatmap", FILE, "--find", *scope.options()),
    )


def _activity(scope: Scope) -> _Activity | None:
    """Return the activity in the range; None if there is too little, or loops show it better."""
    history = scope.history
    period_ns = scope.length_ns // _COLUMNS
    if period_ns < _ROWS or any(kind.entity_kind in {"Task", "Loop"} for kind in scope.kinds):
        return None
    event, by = None, None
    samples = len(history.samples(start_ns=scope.start_ns, end_ns=scope.end_ns))
    count = samples or len(history.spans(start_ns=scope.start_ns, end_ns=scope.end_ns))
    if not _FEWEST_EVENTS <= count <= _MOST_SPANS:
        return None
    from meantime.model.zones import Calendar  # noqa: PLC0415 - as above
    from meantime.query.offsets.fold import Fold  # noqa: PLC0415 - as above
    from meantime.query.offsets.gather import Choice, offset_map  # noqa: PLC0415 - as above
    from meantime.query.offsets.sampling_interval import is_tracepoint  # noqa: PLC0415 - as above

    if samples:
        event, by = next(iter(events(history))), "name"
        if is_tracepoint(event):
            # when events happen is not when work does
            return None
    zone, utc_ns = current_zone(), history.clock.utc_at_origin_ns
    calendar = None if zone is None or utc_ns is None else Calendar(zone, utc_ns)
    start_ns = scope.start_ns if calendar is None else calendar.local(scope.start_ns)
    fold = Fold(start_ns, period_ns, _ROWS, calendar)
    choice = Choice(event=event, by=by, window=(scope.start_ns, scope.end_ns))
    cells = offset_map(history, fold, choice, source="trace")
    return _Activity(replace(cells, utc_at_zero_ns=utc_ns), count)


def _usual_gap_ns(scope: Scope, activity: _Activity) -> float:
    """Return how long a gap may be that is like the others: of everything, and of each thread."""
    gaps = np.diff(activity.cells.total.number) - 1
    gaps = gaps[gaps > 0]
    usual_ns = _pauses(scope).limit_ns()
    if len(gaps) < FEWEST:
        return usual_ns
    return max(usual_ns, Usual.of((gaps * activity.cell_ns).astype(np.int64)).limit_ns())


def _pauses(scope: Scope) -> Usual:
    """Return what is usual between two samples of a thread, or two of its outermost spans."""
    samples = scope.history.samples(start_ns=scope.start_ns, end_ns=scope.end_ns)
    if len(samples):
        samples = samples.select(end_ns=int(samples.time_ns[min(len(samples), _MOST_SAMPLES) - 1]))
        order = np.argsort(samples.thread, kind="stable")
        thread, time_ns = samples.thread[order], samples.time_ns[order]
        pauses = (time_ns[1:] - time_ns[:-1])[thread[1:] == thread[:-1]]
    else:
        spans = scope.history.spans(start_ns=scope.start_ns, end_ns=scope.end_ns)
        rows = np.flatnonzero(spans.depth == 0)
        owner = np.searchsorted(spans.offsets, rows, side="right")
        between = spans.start_ns[rows[1:]] - spans.end_ns[rows[:-1]]
        pauses = between[owner[1:] == owner[:-1]]
    pauses = pauses[pauses > 0]
    return Usual.of(pauses)


def _periodic(scope: Scope, activity: _Activity, each: MapFinding) -> Iterator[Finding]:
    """Yield periodic work of some names, or periodic stops of everything."""
    assert each.period_ns is not None
    cycles = scope.length_ns // each.period_ns
    total = activity.cells.total.number
    names = each.names or (each.name,)
    numbers = [activity.cells.by[name].number for name in names if name in activity.cells.by]
    is_stop = each.stops
    busy = distinct(np.concatenate(numbers)) if numbers else total
    cells = int(total[-1] - total[0]) + 1
    lost_cells = cells - len(busy) if is_stop else len(busy)
    lost_ns = int(lost_cells * activity.cell_ns)
    most = _MOST_STOPPED if is_stop else _MOST_OF_IT
    if (
        cycles < 1
        or activity.events < _EVENTS_OF_A_CYCLE * cycles
        or not _LEAST_PERIODIC * cells <= lost_cells <= most * cells
        # work of which everything consists interrupts nothing
        or (not is_stop and len(busy) > _MOST_OF_IT * len(total))
    ):
        return
    first, last = _longest_gap(busy) if is_stop else _longest_run(busy)
    worst = activity.span(first, last)
    length = rounded_ns(worst[1] - worst[0])
    by = ("--highlight", ",".join(names)) if numbers else ()
    if any("," in name for name in names):
        by = ()
    yield Finding(
        "repeat",
        f"{each.sentence}, for up to {length}; {lost_ns / scope.length_ns:.0%} of the time",
        lost_ns,
        (worst,),
        cycles,
        arguments=("heatmap", FILE, *by, *scope.options()),
    )


def _longest_run(numbers: Int64s) -> Range:
    """Return the longest range of adjacent cells."""
    first = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) > 1)
    lengths = np.diff(np.append(first, len(numbers)))
    at = int(np.argmax(lengths))
    begin = int(numbers[first[at]])
    return begin, begin + int(lengths[at])


def _longest_gap(numbers: Int64s) -> Range:
    """Return the longest range of cells between two of these."""
    at = int(np.argmax(np.diff(numbers)))
    return int(numbers[at]) + 1, int(numbers[at + 1])
