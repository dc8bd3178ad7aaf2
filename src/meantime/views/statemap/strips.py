"""The rows of a picture: a group for each, and in it a path for each colour.

Where columns of pixels mix states, the rows are one image instead. So they are if there are too
many paths: an element for each would need seconds to parse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.text import UNITS_PER_PX, base64, strokes
from meantime.views.statemap.row_images import BAND_PX, mixes, rows_png
from meantime.views.svg import escape, px

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.views.statemap.data import StatemapPanel

__all__ = ["strips"]

# Browsers need seconds for more elements.
_MOST_PATHS = 40_000


def strips(
    panel: StatemapPanel, *, left_px: int, top_px: float, width_px: int, row_px: float, banded: int
) -> Iterator[bytes]:
    """Yield the markup of a panel's rows.

    Args:
        panel: What to draw.
        left_px: Where the rows begin.
        top_px: Where the first row begins.
        width_px: Their length.
        row_px: The height of a row, a whole number unless rows are banded.
        banded: How many rows share a band of `BAND_PX`; 1 for a strip each.
    """
    origin = f"translate({left_px} {px(top_px)})"
    rows = None
    if banded > 1:
        row_px = BAND_PX
    elif not mixes(panel, width_px=width_px):
        held = panel.rectangles
        rows = strokes(
            held.row_offsets,
            held.start_ns,
            held.end_ns,
            held.state_index,
            np.array([int(state.color[1:], 16) for state in panel.states], np.uint32),
            panel.start_ns,
            max(panel.end_ns, panel.start_ns + 1),  # a window may be empty
            width_px * UNITS_PER_PX,
            _MOST_PATHS,
        )
    if rows is None:
        image = rows_png(panel, width_px=width_px, row_px=int(row_px), rows_a_band=banded)
        height_px = int(row_px) * -(-len(panel.entities) // banded)
        yield f'\n<g transform="{origin}">'.encode()
        yield _image(image, width_px, height_px)
    else:
        # Without antialiasing, which would mix the colours of neighbours. Browsers leave it out
        # only if both axes have one scale.
        yield (
            f'\n<g transform="{origin} scale({1 / UNITS_PER_PX})" fill="none"'
            f' stroke-width="{px(row_px * UNITS_PER_PX)}" shape-rendering="crispEdges">\n'
        ).encode()
        for row, paths in enumerate(rows):
            if paths:
                name = escape(f"{panel.entity_kind} {panel.entities[row]}")
                y = px((row + 0.5) * row_px * UNITS_PER_PX)
                yield f'<g transform="translate(0 {y})">'.encode()
                yield f"<title>{name}</title>".encode()
                yield paths
                yield b"</g>\n"
    yield b"</g>\n"


def _image(file: bytes, width_px: int, height_px: int) -> bytes:
    size = f'width="{width_px}" height="{height_px}" preserveAspectRatio="none"'
    style = "image-rendering:pixelated"
    href = base64(file).decode()
    return f'<image {size} style="{style}" href="data:image/png;base64,{href}"/>'.encode()
