"""Rows as an image in which each column of pixels stacks the shares of its states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.pixel_columns import stack
from meantime.views.png import indexed_png
from meantime.views.state_classes import is_quiet, rank
from meantime.views.statemap.data import Rectangles

if TYPE_CHECKING:
    from meantime.views.statemap.data import StatemapPanel, UnmergedRectangles

__all__ = ["can_stack", "stacked_png"]

# In flatter rows nobody can see how a column is divided.
_LEAST_PX = 6
# An index of a PNG is a byte, and 0 is where nothing is drawn.
_MOST_STATES = 255
# Up to this height an image has two pixels for one of the picture, for fine screens.
_MOST_DOUBLED_PX = 1000


def can_stack(panel: StatemapPanel, *, width_px: int, row_px: float) -> bool:
    """Return whether columns of pixels mix states that rows of this height can show apart."""
    if row_px < _LEAST_PX or len(panel.states) > _MOST_STATES:
        return False
    held = panel.rectangles
    if np.diff(held.row_offsets).max(initial=0) > 2 * width_px:
        return True
    if isinstance(held, Rectangles):
        if len(held.state_index) > len(held):
            return True
        if (held.state_ns < held.end_ns - held.start_ns).any():
            return True
    return _is_crowded(held, panel.start_ns, max(1, panel.end_ns - panel.start_ns), width_px)


def _is_crowded(
    held: Rectangles | UnmergedRectangles, start_ns: int, span_ns: int, width_px: int
) -> bool:
    """Return whether any column of pixels shows more than two rectangles, or one with gaps."""
    first, last = (
        ((times - start_ns) / span_ns * width_px).astype(np.int64)
        for times in (held.start_ns, held.end_ns)
    )
    row = np.repeat(np.arange(len(held.row_offsets) - 1), np.diff(held.row_offsets))
    return bool(((last[:-2] == first[2:]) & (row[:-2] == row[2:])).any())


def stacked_png(panel: StatemapPanel, *, width_px: int, row_px: int) -> bytes:
    """Return the rows of a panel as a PNG."""
    held = panel.rectangles
    scale = 2 if row_px * len(panel.entities) <= _MOST_DOUBLED_PX else 1
    ranks = [rank(state.name) for state in panel.states]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    layer_of = np.empty(len(order), np.uint8)
    layer_of[order] = np.arange(len(order))
    times = (held.state_offsets, held.state_ns) if isinstance(held, Rectangles) else (None, None)
    pixels = stack(
        held.row_offsets,
        held.start_ns,
        held.end_ns,
        times[0],
        held.state_index,
        times[1],
        layer_of,
        np.array([not is_quiet(panel.states[state].name) for state in order], np.uint8),
        panel.start_ns,
        max(panel.end_ns, panel.start_ns + 1),
        scale * width_px,
        scale * row_px,
    )
    colors = (bytes.fromhex(panel.states[state].color[1:]) for state in order)
    return indexed_png(pixels, width=scale * width_px, colors=colors)
