"""Rectangles in the order in which rows are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.rectangles import Visible
from meantime.model.columns import first_rows
from meantime.views.statemap.data import Rectangles, UnmergedRectangles

if TYPE_CHECKING:
    from typing import TypeAlias

    from meantime.kernels.rectangles import Columns
    from meantime.model.columns import Int32s, Int64s

    # Where those of each rectangle begin, of which state or tag they are, and how long.
    Times: TypeAlias = tuple[Int64s, Int32s, Int64s]

__all__ = ["LIKENESS", "in_order", "ragged"]

# What rows are sorted by, unless a state is called that.
LIKENESS = "likeness"


def in_order(columns: Columns | Visible, order: Int64s) -> Rectangles | UnmergedRectangles:
    """Return rectangles with the rows in this order."""
    row_offsets = first_rows(columns.row, np.arange(len(order) + 1))
    is_moved = not np.array_equal(order, np.arange(len(order)))
    start_ns, end_ns = columns.start, columns.end
    if is_moved:
        row_offsets, source = ragged(row_offsets, order)
        start_ns, end_ns = start_ns[source], end_ns[source]
    if isinstance(columns, Visible):
        state, tag = columns.state, columns.tag
        if is_moved:
            state, tag = state[source], None if tag is None else tag[source]
        return UnmergedRectangles(row_offsets, start_ns, end_ns, state, tag)
    states, tags = columns[4:7], columns[7:10]
    if is_moved:
        states, tags = _moved(states, source), _moved(tags, source)
    return Rectangles(row_offsets, start_ns, end_ns, *states, *tags)


def _moved(times: Times, source: Int64s) -> Times:
    """Return the times of rectangles in another order."""
    offsets, moved = ragged(times[0], source)
    return offsets, times[1][moved], times[2][moved]


def ragged(offsets: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Return the offsets of reordered lists, and the previous index of each of their items."""
    lengths = np.diff(offsets)[order]
    after = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=after[1:])
    return after, np.repeat(offsets[order] - after[:-1], lengths) + np.arange(after[-1])
