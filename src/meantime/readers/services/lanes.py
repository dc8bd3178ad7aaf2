"""Which lane each span of a service is drawn in, when its spans run at the same time."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s

__all__ = ["lanes_of"]


def lanes_of(start_ns: Int64s, end_ns: Int64s, parent: Int64s) -> tuple[Int32s, Int32s]:
    """Return the lane of each span, and how many spans it is nested in there.

    A span is in the lane of its parent if it is contained in it, and no other child of the parent
    is open there; otherwise it begins a stack in the first lane where nothing is open. Times alone
    never make a span the child of another.

    >>> lanes, levels = lanes_of(np.array([0, 1, 2]), np.array([9, 5, 4]), np.array([-1, 0, 0]))
    >>> lanes.tolist(), levels.tolist()
    ([0, 0, 1], [0, 1, 0])

    Args:
        start_ns: When the spans of one service began, ascending; of those that begin together, the
            longer ones first, and parents before their children.
        end_ns: When they ended.
        parent: The row of each span's parent; -1 for none.
    """
    count = len(start_ns)
    lane_of, level_of = np.zeros(count, np.int32), np.zeros(count, np.int32)
    open_in: list[list[int]] = []
    # a lane is busy until its outermost span ends, as all others there are nested in it
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    starts, ends, parents = start_ns.tolist(), end_ns.tolist(), parent.tolist()
    lanes = [0] * count
    for row, (start, end, above) in enumerate(zip(starts, ends, parents, strict=True)):
        while busy and busy[0][0] <= start:
            lane = heappop(busy)[1]
            open_in[lane].clear()
            heappush(free, lane)
        # parents before it in the order only: one that begins later cannot contain it
        if 0 <= above < row:
            lane = lanes[above]
            stack = open_in[lane]
            while stack and ends[stack[-1]] <= start:
                stack.pop()
            if stack and stack[-1] == above and end <= ends[above]:
                level_of[row] = len(stack)
                lanes[row] = lane
                stack.append(row)
                continue
        if free:
            lane = heappop(free)
        else:
            lane = len(open_in)
            open_in.append([])
        open_in[lane].append(row)
        lanes[row] = lane
        heappush(busy, (end, lane))
    lane_of[:] = lanes
    return lane_of, level_of
