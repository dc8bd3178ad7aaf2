"""Damage that shows in the order of lines: parts that are exchanged, there twice, or late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.trace import Trace

__all__ = ["count_order", "count_order_of"]

# Lines have an order if so many steps in its direction come with each one against it.
_LEAST = 2


def count_order(trace: Trace, back: int, forward: int, most_ns: int) -> None:
    """Count where times go against the order of lines, if they have one.

    Logs may have their newest lines first. Lines that are sorted by something else have no order
    in which damage could be seen.

    Args:
        trace: What the lines are read into.
        back: How often times go back from one line to the next.
        forward: How often they go forward.
        most_ns: The longest way back.
    """
    if back and back * _LEAST <= forward:
        trace.anomalies.add("line_went_back", back)
        trace.facts["lines went back"] = f"by up to {format_ns(most_ns)}"
    elif forward and forward * _LEAST <= back:
        trace.anomalies.add("line_went_back", forward)


def count_order_of(
    trace: Trace, times: Sequence[Int64s], group: npt.NDArray[np.int32], groups: int
) -> None:
    """Count where times of rows go against their order, by that of their times which has most.

    Rows that are grouped are in order of time within a group.

    Args:
        trace: What the rows are read into.
        times: Times of the rows, such as their starts, and their ends.
        group: The group of each row, such as its entity.
        groups: How many groups there are.
    """
    if any(_is_ordered(each) for each in times):
        return
    same = group[1:] == group[:-1]
    if np.count_nonzero(~same) >= 2 * groups:
        same[:] = True
    found = []
    for each in times:
        before, after = each[:-1][same], each[1:][same]
        is_back = after < before
        back, forward = int(np.count_nonzero(is_back)), int(np.count_nonzero(after > before))
        # differences of times may need 64 bits without a sign
        ways = before[is_back].view(np.uint64) - after[is_back].view(np.uint64)
        found.append((min(back, forward), back, forward, int(ways.max(initial=0))))
    if found:
        count_order(trace, *min(found)[1:])


def _is_ordered(times: Int64s) -> bool:
    return not (times[1:] < times[:-1]).any()
