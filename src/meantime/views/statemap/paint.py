"""Rectangles in the order in which rows are drawn, and in colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import first_rows
from meantime.kernels.rectangles import MERGED, Visible, blend
from meantime.views.palette import parse
from meantime.views.statemap.bands import GROUND
from meantime.views.statemap.data import Rectangles, UnmergedRectangles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.kernels.rectangles import Columns

__all__ = ["paint", "ragged"]


def paint(
    columns: Columns | Visible, order: Int64s, colors: Sequence[str]
) -> Rectangles | UnmergedRectangles:
    """Return rectangles with the rows in this order, each colored by its states.

    A single state has its own color. Several are mixed as in the original: starting with the color
    of the longest (of equals, the last), the others mix in theirs by their share of the time. Where
    a rectangle was merged with gaps, the result is mixed with the ground.
    """
    row_offsets = first_rows(columns.row, np.arange(len(order) + 1))
    encoded = np.array([parse(color) for color in colors], np.float64).reshape(-1, 3) / 255
    if isinstance(columns, Visible):
        return _unmerged(columns, row_offsets, order, encoded)
    state_offsets, state_index, state_ns = columns[4:7]
    tag_offsets, tag_index, tag_ns = columns[7:10]
    start_ns, end_ns = columns.start, columns.end
    if not np.array_equal(order, np.arange(len(order))):
        row_offsets, source = ragged(row_offsets, order)
        start_ns, end_ns = start_ns[source], end_ns[source]
        state_offsets, state_source = ragged(state_offsets, source)
        state_index, state_ns = state_index[state_source], state_ns[state_source]
        tag_offsets, tag_source = ragged(tag_offsets, source)
        tag_index, tag_ns = tag_index[tag_source], tag_ns[tag_source]
    fill = np.empty((len(start_ns), 3), np.uint8)
    times = state_offsets, state_index, state_ns
    if (columns.marks & MERGED).any():
        _mix(start_ns, end_ns, times, encoded, fill)
    else:
        blend(start_ns, end_ns, *times, encoded, fill)
    return Rectangles(
        row_offsets,
        start_ns,
        end_ns,
        *times,
        tag_offsets,
        tag_index,
        tag_ns,
        fill,
    )


def _unmerged(
    columns: Visible, row_offsets: Int64s, order: Int64s, encoded: npt.NDArray[np.float64]
) -> UnmergedRectangles:
    start_ns, end_ns, state, tag = columns.start, columns.end, columns.state, columns.tag
    if not np.array_equal(order, np.arange(len(order))):
        row_offsets, source = ragged(row_offsets, order)
        start_ns, end_ns, state = start_ns[source], end_ns[source], state[source]
        tag = None if tag is None else tag[source]
    count = len(encoded)
    fill = np.empty((count, 3), np.uint8)
    # one rectangle of length 1 for each state
    ones, upto = np.ones(count, np.int64), np.arange(count + 1)
    blend(0 * ones, ones, upto, upto[:-1].astype(np.int32), ones, encoded, fill)
    return UnmergedRectangles(row_offsets, start_ns, end_ns, state, tag, fill)


def _mix(
    start_ns: Int64s,
    end_ns: Int64s,
    times: tuple[Int64s, Int32s, Int64s],
    encoded: npt.NDArray[np.float64],
    fill: npt.NDArray[np.uint8],
) -> None:
    """Write the colours of rectangles that may have several states, and gaps between them."""
    state_offsets, state_index, state_ns = times
    # each rectangle has a state
    covered_ns = np.add.reduceat(state_ns, state_offsets[:-1])
    blend(start_ns, start_ns + covered_ns, state_offsets, state_index, state_ns, encoded, fill)
    partly = np.flatnonzero(covered_ns < end_ns - start_ns)
    if len(partly):
        share = (covered_ns[partly] / (end_ns - start_ns)[partly])[:, None]
        fill[partly] = share * fill[partly] + (1 - share) * np.array(GROUND)


def ragged(offsets: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """Return the offsets of reordered lists, and the previous index of each of their items."""
    lengths = np.diff(offsets)[order]
    after = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=after[1:])
    return after, np.repeat(offsets[order] - after[:-1], lengths) + np.arange(after[-1])
