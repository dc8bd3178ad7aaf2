"""Hours of the day, or of the week, in which there is more than in the others: office hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.query.offsets.finding import Finding
from meantime.query.offsets.wording import DAY_NS, HOUR_NS, WEEK_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.query.offsets.cells import Cells
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.offsets.wording import Wording
    from meantime.query.ranges import Range

__all__ = ["hours_findings"]

Bools: TypeAlias = "npt.NDArray[np.bool_]"

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# A pattern of days needs as many days, and one of weeks as many weeks.
_FEWEST_DAYS, _FEWEST_WEEKS = 4, 2
# How many times the load of the quiet hours the busy ones have, and how many hours are as expected.
_MORE, _AS_EXPECTED = 2.0, 0.9
_MOST_HOURS = 2**20


def hours_findings(
    found: OffsetMap, total: Cells, first: int, cells: int, *, wording: Wording
) -> list[Finding]:
    """Find the hours of every day, or of some days of the week, that have more than the others.

    Args:
        found: The map.
        total: The cells of the names that are not periodic.
        first: The first cell to examine.
        cells: How many.
        wording: How times are put in words.
    """
    fold = found.fold
    if not wording.is_civil or HOUR_NS * fold.rows % fold.period_ns:
        return []
    start_ns, end_ns = (
        wording.local_ns(fold.edge_ns(*divmod(each, fold.rows))) for each in (first, first + cells)
    )
    begin, end = -(-start_ns // HOUR_NS), end_ns // HOUR_NS
    if not _FEWEST_DAYS * 24 <= end - begin <= _MOST_HOURS:
        return []
    cell_ns = fold.period_ns // fold.rows
    low, high = np.searchsorted(total.number, [first, first + cells])
    hour = (start_ns + (total.number[low:high] - first) * cell_ns) // HOUR_NS
    inside = (hour >= begin) & (hour < end)
    load = np.bincount(
        (hour[inside] - begin).astype(np.int64), total.value[low:high][inside], end - begin
    ).astype(np.float64)
    weekly = end - begin >= _FEWEST_WEEKS * 168
    return _of_week(load, begin, found, wording) if weekly else _of_day(load, begin, found, wording)


def _of_day(
    load: npt.NDArray[np.float64], begin: int, found: OffsetMap, wording: Wording
) -> list[Finding]:
    busy = _busy(load, begin, 24)
    if busy is None:
        return []
    times, is_busy = busy
    return [_finding(hours, range(7), times, found, wording) for hours in _ranges(is_busy)]


def _of_week(
    load: npt.NDArray[np.float64], begin: int, found: OffsetMap, wording: Wording
) -> list[Finding]:
    busy = _busy(load, begin, 168)
    if busy is None:
        return []
    times, is_busy = busy
    days: dict[Range, list[int]] = {}
    for day in range(7):
        for hours in _ranges(is_busy[24 * day : 24 * day + 24]):
            days.setdefault(hours, []).append(day)
    # an hour of a single day is a burst
    return [
        _finding(hours, of_days, times, found, wording)
        for hours, of_days in sorted(days.items())
        if len(of_days) > 1
    ]


def _busy(load: npt.NDArray[np.float64], begin: int, length: int) -> tuple[float, Bools] | None:
    """Return how many times the load of the others busy hours have, and which they are.

    None if the hours are not of two kinds, or too few are what their place in the cycle says.

    Args:
        load: The load of each hour.
        begin: The number of the first hour.
        length: The hours of a cycle.
    """
    place = (begin + np.arange(len(load))) % length
    # the usual load of each hour of the cycle: of few cycles, one can be unlike the others
    usual = np.array([np.median(load[place == each]) for each in range(length)])
    ordered = np.sort(usual)
    steps = ordered[1:] / np.maximum(ordered[:-1], 1)
    # one or two hours of a cycle, or all but these, make no pattern
    few = max(2, length // 24)
    inner = steps[few - 1 : length - few]
    at = int(np.argmax(inner)) + few
    if steps[at - 1] < _MORE / 1.25 or ordered[at - 1] >= ordered[at]:
        return None
    limit = float(np.sqrt(max(ordered[at - 1], 0.5) * ordered[at]))
    is_busy = usual > limit
    quiet, more = float(np.median(usual[~is_busy])), float(np.median(usual[is_busy]))
    if more < _MORE * max(quiet, 1.0):
        return None
    as_expected = (load > limit) == is_busy[place]
    if as_expected.mean() < _AS_EXPECTED:
        return None
    return more / max(quiet, 1.0), is_busy


def _ranges(is_busy: Bools) -> list[Range]:
    """Return the ranges of hours that are busy; one that continues after midnight is whole."""
    if is_busy.all() or not is_busy.any():
        return []
    edges = np.flatnonzero(np.diff(is_busy.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    ranges = [(int(begin), int(end)) for begin, end in edges]
    if len(is_busy) == 24 and len(ranges) > 1 and ranges[0][0] == 0 and ranges[-1][1] == 24:
        ranges = [*ranges[1:-1], (ranges[-1][0], 24 + ranges[0][1])]
    return ranges


def _finding(
    hours: Range, days: Sequence[int], times: float, found: OffsetMap, wording: Wording
) -> Finding:
    begin, end = hours
    clock = f"{begin:02}:00 to {end if end <= 24 else end - 24:02}:00"
    text = f"{_named(days)}, {clock}, {times:.1f} times the load of other hours"
    span_ns = None
    if found.fold.period_ns == DAY_NS:
        shift = wording.local_ns(found.fold.origin_ns) % DAY_NS
        from_ns = (begin * HOUR_NS - shift) % DAY_NS
        to_ns = from_ns + (end - begin) * HOUR_NS
        span_ns = (from_ns, to_ns) if to_ns <= DAY_NS else None
    period_ns = DAY_NS if len(days) == 7 else WEEK_NS
    return Finding("stripe", "", text, period_ns=period_ns, span_ns=span_ns, score=times)


def _named(days: Sequence[int]) -> str:
    """Return days of the week in words.

    >>> _named(range(7)), _named([0, 1, 2, 3, 4]), _named([5, 6]), _named([0, 2])
    ('every day', 'Monday to Friday', 'Saturday and Sunday', 'Monday and Wednesday')
    """
    listed = list(days)
    if len(listed) == 7:
        return "every day"
    if len(listed) > 2 and listed == list(range(listed[0], listed[-1] + 1)):
        return f"{_DAYS[listed[0]]} to {_DAYS[listed[-1]]}"
    names = [_DAYS[day] for day in listed]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
