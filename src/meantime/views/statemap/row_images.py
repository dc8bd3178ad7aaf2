"""Rows as an image: each column of pixels stacks the shares of its states, or each pixel shows one.

No pixel mixes colours: a mixture would be the colour of nothing in the legend, or of a state that
does not occur.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.dithered_rows import dither
from meantime.kernels.pixel_columns import stack
from meantime.model.state_classes import is_quiet, rank
from meantime.views.png import indexed_png, png
from meantime.views.statemap.data import Rectangles

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.views.statemap.data import StatemapPanel

__all__ = ["BAND_PX", "mixes", "rows_png", "thresholds"]

# The height of a band of rows that are too many for a line each.
BAND_PX = 2
# In flatter rows nobody can see how a column is divided.
_LEAST_STACKED_PX = 6
# An index of a PNG is a byte, and 0 is where nothing is drawn.
_MOST_INDEXED = 255
_THRESHOLDS_SIDE = 64


@cache
def thresholds() -> npt.NDArray[np.uint16]:
    """Return the matrix by which a pixel chooses a state: 64 x 64, a permutation of 0 to 4,095.

    Pixels with similar thresholds are far from each other, and each row has one threshold of every
    64 in order, so that any state gets its share of 64 pixels in a row to within two of them.
    """
    # not by importlib.resources, which imports zipfile and takes 8 ms
    data = (Path(__file__).parents[1] / "static" / "thresholds.bin").read_bytes()
    return np.frombuffer(data, "<u2").astype(np.uint16).reshape(_THRESHOLDS_SIDE, _THRESHOLDS_SIDE)


def mixes(panel: StatemapPanel, *, width_px: int) -> bool:
    """Return whether a column of pixels of any row shows more than two rectangles meeting in it."""
    held = panel.rectangles
    length_ns = held.end_ns - held.start_ns
    if (length_ns < (panel.end_ns - panel.start_ns) / width_px).any():
        return True
    if not isinstance(held, Rectangles):
        return False
    return len(held.state_index) > len(held) or bool((held.state_ns < length_ns).any())


def rows_png(panel: StatemapPanel, *, width_px: int, row_px: int, rows_a_band: int) -> bytes:
    """Return the rows of a panel as a PNG with lines of `width_px` pixels.

    Each row, or each band of `rows_a_band` rows, has `row_px` lines.
    """
    held = panel.rectangles
    ranks = [rank(state.name) for state in panel.states]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    layer_of = np.empty(len(order), np.int32)
    layer_of[order] = np.arange(len(order))
    times = (held.state_offsets, held.state_ns) if isinstance(held, Rectangles) else (None, None)
    columns = (held.row_offsets, held.start_ns, held.end_ns, times[0], held.state_index, times[1])
    window_ns = panel.start_ns, max(panel.end_ns, panel.start_ns + 1)
    colors = [bytes.fromhex(panel.states[state].color[1:]) for state in order]
    is_indexed = len(colors) <= _MOST_INDEXED
    if row_px >= _LEAST_STACKED_PX and is_indexed:
        noticed = [not is_quiet(panel.states[state].name) for state in order]
        pixels = stack(
            *columns,
            layer_of.astype(np.uint8),
            np.array(noticed, np.uint8),
            *window_ns,
            width_px,
            row_px,
        )
        return indexed_png(pixels, width=width_px, colors=colors)
    layers = dither(*columns, layer_of, *window_ns, width_px, row_px, rows_a_band, thresholds())
    if is_indexed:
        return indexed_png(layers.astype(np.uint8).tobytes(), width=width_px, colors=colors)
    opaque = [color + b"\xff" for color in colors]
    palette = np.frombuffer(b"".join([bytes(4), *opaque]), np.uint8).reshape(-1, 4)
    return png(palette[layers].tobytes(), width=width_px)
