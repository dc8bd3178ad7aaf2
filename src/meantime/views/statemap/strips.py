"""The rows of a picture: a group for each, and in it a path for each colour.

If nearly every rectangle is a blend with a colour of its own, that would be an element for each
rectangle, which browsers need seconds to parse. Such a panel is one image instead, with the same
colours at the same positions.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from meantime.kernels.text import UNITS_PER_PX, pixels, strokes
from meantime.views.png import png
from meantime.views.statemap.bands import bands
from meantime.views.svg import escape, px

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.views.statemap.data import StatemapPanel

__all__ = ["BAND_PX", "strips"]

BAND_PX = 2
# Browsers need seconds for more elements; the rows of such a panel become one image.
_MOST_PATHS = 40_000
_GROUND = (0xF1, 0xF2, 0xF4)


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
    units = width_px * UNITS_PER_PX
    end_ns = max(panel.end_ns, panel.start_ns + 1)  # a window may be empty
    if banded == 1:
        names = [f"{panel.entity_kind} {name}" for name in panel.entities]
        held = panel.rectangles
        drawn = (held.row_offsets, held.start_ns, held.end_ns, held.fill)
        window = (panel.start_ns, end_ns)
    else:
        row_px = BAND_PX
        names = []
        cells = width_px // BAND_PX
        window = (0, cells)
        drawn = bands(
            panel.rectangles,
            start_ns=panel.start_ns,
            end_ns=end_ns,
            rows_a_band=banded,
            cells=cells,
            ground=_GROUND,
        )
    rows = strokes(*drawn, *window, units, _MOST_PATHS)
    origin = f"translate({left_px} {px(top_px)})"
    if rows is None:
        yield f'\n<g transform="{origin}">'.encode()
        yield from _image(drawn, window, width_px, int(row_px))
    else:
        yield (
            f'\n<g transform="{origin} scale({1 / UNITS_PER_PX} 1)" fill="none"'
            f' stroke-width="{px(row_px)}">\n'
        ).encode()
        for row, paths in enumerate(rows):
            if paths:
                yield f'<g transform="translate(0 {px((row + 0.5) * row_px)})">'.encode()
                if names:
                    yield f"<title>{escape(names[row])}</title>".encode()
                yield paths
                yield b"</g>\n"
    yield b"</g>\n"


def _image(
    drawn: tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint8]],
    window: tuple[int, int],
    width_px: int,
    row_px: int,
) -> Iterator[bytes]:
    image = pixels(*drawn, *window, width_px * UNITS_PER_PX, width_px)
    height = row_px * (len(drawn[0]) - 1)
    yield (
        f'<image width="{width_px}" height="{height}" preserveAspectRatio="none"'
        ' href="data:image/png;base64,'
    ).encode()
    yield b64encode(png(image, width=width_px, tall=row_px))
    yield b'"/>'
