"""Which lane each span of a service is drawn in, when its spans run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels import service_rows

if TYPE_CHECKING:
    from meantime.model.columns import Int32s, Int64s

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
    columns = (np.ascontiguousarray(column, np.int64) for column in (start_ns, end_ns, parent))
    return service_rows.lanes_of(*columns)
