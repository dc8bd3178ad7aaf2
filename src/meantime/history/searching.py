"""Searching for intervals with a value or tag, and counting them.

Windows that grow are searched, so a near interval is found without reading what is behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.interval_filter import interval_filter
from meantime.kernels.interval_filter import EQUAL, NEVER
from meantime.kernels.tail import INT

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy.typing as npt

    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.results import Interval
    from meantime.history.snapshot import Snapshot
    from meantime.model.columns import Int32s, Int64s, Value

__all__ = ["counts", "nearest"]

# In the first window about so many intervals begin.
_FIRST_ROWS = 2**10


def nearest(
    snapshot: Snapshot,
    quarks: Int32s,
    time_ns: int,
    value: Value | EllipsisType,
    tag: int | None,
    *,
    backwards: bool,
) -> Interval | None:
    """Return the first matching interval that begins after a time, or the last before it."""
    snapshot.check_time(time_ns)
    segments = snapshot.segments
    criteria = interval_filter(value, tag, snapshot.strings)
    # the window [low, high) has the beginnings to be searched next
    low, high = (segments.start_ns, time_ns) if backwards else (time_ns + 1, segments.end_ns)
    if low >= high or not len(quarks):
        return None
    snapshot.check_known(quarks, low)
    quarks = quarks[_possible(snapshot, quarks, (low, high), criteria)]
    if not len(quarks):
        return None
    question = snapshot.question(quarks, (low, high))
    rows, span_ns = segments.estimate(question), high - low
    # a window takes some time for each attribute
    first_rows = max(_FIRST_ROWS, len(quarks))
    width = max(1, span_ns * first_rows // max(rows, first_rows))
    while low < high:
        window = (max(low, high - width), high) if backwards else (low, min(high, low + width))
        found = segments.nearest(question.within(*window), criteria, backwards=backwards)
        if found is not None:
            index, begin_ns = found
            return snapshot.gather(quarks[index : index + 1], (begin_ns, begin_ns + 1))[0]
        low, high = (low, window[0]) if backwards else (window[1], high)
        width *= 2
    return None


def counts(
    snapshot: Snapshot,
    quarks: Int32s,
    range_ns: tuple[int, int],
    value: Value | EllipsisType,
    tag: int | None,
) -> Int64s:
    """Return how many matching intervals of each attribute overlap a range."""
    criteria = interval_filter(value, tag, snapshot.strings)
    total = np.zeros(len(quarks), np.int64)
    rows = np.flatnonzero(_possible(snapshot, quarks, range_ns, criteria))
    if len(rows):
        question = snapshot.question(quarks[rows], range_ns)
        total[rows] = snapshot.segments.matching(question, criteria)
    return total


def _possible(
    snapshot: Snapshot, quarks: Int32s, range_ns: tuple[int, int], criteria: IntervalFilter
) -> npt.NDArray[np.bool_]:
    """Return for each attribute whether it may have the value, by its type and its limits."""
    question = snapshot.question(quarks, range_ns)
    kinds = question.kinds
    found: npt.NDArray[np.bool_] = criteria.modes[kinds] != NEVER
    if criteria.modes[INT] == EQUAL and (kinds == INT).any():
        low, high, _ = snapshot.segments.bounds(question)
        word = criteria.words[INT]
        found &= (kinds != INT) | ((low <= word) & (word <= high))
    return found
