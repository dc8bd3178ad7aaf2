"""Where nearly everything in a trace is, if that is a small part of its range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.structs import struct

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.columns import Int64s

__all__ = ["CoreRange", "core_range"]

# Of so many things, one in a hundred may be elsewhere; of fewer, one would be many.
_FEWEST = 50
_PER_CENT = 100
# All of the range is shown unless it is so many times as long.
_FAR = 4


@struct
class CoreRange:
    """The range of nearly everything, and how much begins outside of it.

    Attributes:
        start_ns: Where it begins.
        end_ns: Where the last thing ends that begins in it.
        before: How many spans, samples and points begin before it.
        after: How many begin after it.
        count: How many there are in all.
    """

    start_ns: int
    end_ns: int
    before: int
    after: int
    count: int


def core_range(history: History) -> CoreRange | None:
    """Return the range in which all but a hundredth of spans, samples and points begin.

    It is None unless the history is at least four times as long. States are not counted: one that
    lasts from an early event on would be a part of every range.
    """
    spans, samples, points = history.spans(), history.samples(), history.points()
    columns = [spans.start_ns, samples.time_ns, points.time_ns]
    count = sum(map(len, columns))
    begin_ns, finish_ns = history.bounds
    if count < _FEWEST or _has_states(history):
        return None
    time_ns: Int64s = np.concatenate(columns)
    few = count // _PER_CENT or 1
    ranks = sorted({0, few // 2, few, count - 1 - few, count - 1 - few // 2, count - 1})
    ordered = np.partition(time_ns, ranks)
    ends = [(low, count - 1 - (few - low)) for low in (0, few // 2, few)]
    low, high = min(ends, key=lambda each: int(ordered[each[1]]) - int(ordered[each[0]]))
    start_ns, last_ns = int(ordered[low]), int(ordered[high])
    # what is beside them is not far
    length_ns = last_ns - start_ns
    is_near = (time_ns >= start_ns - length_ns) & (time_ns <= last_ns + length_ns)
    start_ns, last_ns = int(time_ns[is_near].min()), int(time_ns[is_near].max())
    is_inside = (spans.start_ns >= start_ns) & (spans.start_ns <= last_ns)
    end_ns = max(last_ns + 1, int(spans.end_ns[is_inside].max(initial=last_ns + 1)))
    if finish_ns - begin_ns < _FAR * (end_ns - start_ns):
        return None
    before, after = int((time_ns < start_ns).sum()), int((time_ns > last_ns).sum())
    return CoreRange(start_ns, end_ns, before, after, count)


def _has_states(history: History) -> bool:
    return any(lane.declaration.kind in {"state", "object"} for lane in history.lanes)
