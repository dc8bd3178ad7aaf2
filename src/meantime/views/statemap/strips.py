"""The rows of a picture: a group for each, and in it a path for each colour.

Where columns of pixels mix states, the rows are one image instead that stacks their shares. So are
rows that are too flat for that, if nearly every rectangle is a blend with a colour of its own: an
element for each would need seconds to parse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.kernels.text import UNITS_PER_PX, base64, pixels, strokes
from meantime.views.png import png
from meantime.views.statemap.bands import GROUND, bands
from meantime.views.statemap.stacked_rows import can_stack, stacked_png
from meantime.views.svg import escape, px

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.views.statemap.data import StatemapPanel

__all__ = ["BAND_PX", "strips"]

BAND_PX = 2
# Browsers need seconds for more elements; the rows of such a panel become one image.
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
    if banded == 1 and can_stack(panel, width_px=width_px, row_px=row_px):
        yield f'\n<g transform="{origin}">'.encode()
        image = stacked_png(panel, width_px=width_px, row_px=int(row_px))
        yield _image(image, width_px, int(row_px) * len(panel.entities))
        yield b"</g>\n"
        return
    units = width_px * UNITS_PER_PX
    end_ns = max(panel.end_ns, panel.start_ns + 1)  # a window may be empty
    if banded == 1:
        names = [f"{panel.entity_kind} {name}" for name in panel.entities]
        held = panel.rectangles.with_times()
        drawn = (held.row_offsets, held.start_ns, held.end_ns, held.fill)
        window = (panel.start_ns, end_ns)
    else:
        row_px = BAND_PX
        names = []
        cells = width_px // BAND_PX
        window = (0, cells)
        drawn = bands(
            panel.rectangles.with_times(),
            start_ns=panel.start_ns,
            end_ns=end_ns,
            rows_a_band=banded,
            cells=cells,
            ground=GROUND,
        )
    rows = strokes(*drawn, *window, units, _MOST_PATHS)
    if rows is None:
        yield f'\n<g transform="{origin}">'.encode()
        image = png(pixels(*drawn, *window, units, width_px), width=width_px, tall=int(row_px))
        yield _image(image, width_px, int(row_px) * (len(drawn[0]) - 1))
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


def _image(file: bytes, width_px: int, height_px: int) -> bytes:
    size = f'width="{width_px}" height="{height_px}" preserveAspectRatio="none"'
    style = "image-rendering:pixelated"
    href = base64(file).decode()
    return f'<image {size} style="{style}" href="data:image/png;base64,{href}"/>'.encode()
