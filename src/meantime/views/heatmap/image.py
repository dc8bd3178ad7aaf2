"""PNG files: the image of the cells alone, and with Pillow the whole figure."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import MissingExtraError
from meantime.views.heatmap.figure import LEFT_PX, RIGHT_PX, TOP_PX

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from meantime.views.heatmap.color import Colors
    from meantime.views.heatmap.figure import Figure

__all__ = ["cells_png", "figure_png", "scaled"]

_INK, _MUTED, _LINE, _NONE = (27, 31, 36), (95, 102, 113), (154, 161, 171), (241, 242, 244)
_ENTRY_PX = 19


def cells_png(image: Colors) -> bytes:
    """Return an image, rows x columns x 3, as a PNG file; equal images become equal files."""
    height, width, _ = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 3)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def scaled(figure: Figure, *, dark: bool = False) -> Colors:
    """Return the plot with cells in their drawn size, and unrecorded cells hatched."""
    width, height = figure.plot_px
    rows = np.arange(height) * figure.grid.fold.rows // height
    columns = np.arange(width) * figure.grid.width // width
    image = figure.colors(dark=dark)[rows][:, columns]
    flat = np.array((29, 32, 37) if dark else _NONE, np.uint8)
    line = np.array((59, 65, 74) if dark else (214, 218, 224), np.uint8)
    stripe = (np.add.outer(np.arange(height), np.arange(width)) % 8 < 2)[..., None]
    unrecorded = figure.unrecorded.T[::-1][rows][:, columns][..., None]
    lost = figure.lost.T[::-1][rows][:, columns][..., None]
    image = np.where(unrecorded, flat, image)
    image = np.where((unrecorded | lost) & stripe, line, image)
    repeated = figure.repeated.T[::-1][rows][:, columns]
    inside = np.pad(repeated, 1)
    edge = ~(inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:])
    ink = np.array((231, 232, 236) if dark else _INK, np.uint8)
    return np.where((repeated & edge)[..., None], ink, image).astype(np.uint8)


def figure_png(figure: Figure) -> bytes:
    """Return the figure as a PNG file: the cells, axes, a legend and notes.

    Raises:
        MissingExtraError: If Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(
            "PNG needs Pillow: python -m pip install 'meantime[png]', or write SVG"
        ) from None
    width, height = figure.plot_px
    legend_px = 250 if figure.entries else 0
    foot_px = 40 + 18 * len(figure.notes)
    tall = max(height, _ENTRY_PX * len(figure.entries))
    size = (LEFT_PX + width + legend_px + RIGHT_PX, TOP_PX + tall + foot_px)
    canvas = Image.new("RGB", (max(size[0], round(figure.key_px) + RIGHT_PX), size[1]), "white")
    pen = ImageDraw.Draw(canvas)
    title, text = ImageFont.load_default(18), ImageFont.load_default(12)
    pen.text((24, 16), figure.title, _INK, font=title)
    pen.text((24, 42), figure.subtitle, _MUTED, font=text)
    right = round(figure.key_px)
    for key in reversed(figure.key):
        pen.text((right, 49), key.amount, _MUTED, font=text, anchor="rm")
        right -= round(text.getlength(key.amount)) + 17
        pen.rectangle((right, 44, right + 11, 55), fill=key.color, outline=_LINE)
        right -= 10
    canvas.paste(Image.fromarray(scaled(figure)), (LEFT_PX, TOP_PX))
    pen.rectangle((LEFT_PX - 1, TOP_PX - 1, LEFT_PX + width, TOP_PX + height), outline=_LINE)
    for x, label in figure.times:
        _tick(pen, (LEFT_PX + x, TOP_PX + height + 1), (0, 5))
        pen.text(
            (LEFT_PX + x, TOP_PX + height + 9), _in_font(label), _MUTED, font=text, anchor="ma"
        )
    for y, label in figure.offsets:
        _tick(pen, (LEFT_PX - 1, TOP_PX + y), (-5, 0))
        pen.text((LEFT_PX - 9, TOP_PX + y), _in_font(label), _MUTED, font=text, anchor="rm")
    for number, entry in enumerate(figure.entries):
        left, top = LEFT_PX + width + 20, TOP_PX + _ENTRY_PX * number
        pen.rectangle((left, top + 2, left + 11, top + 13), fill=entry.color)
        pen.text((left + 20, top + 8), entry.name[:22], _INK, font=text, anchor="lm")
        pen.text((left + 226, top + 8), entry.amount, _MUTED, font=text, anchor="rm")
    for number, note in enumerate(figure.notes):
        pen.text((24, TOP_PX + tall + 36 + 18 * number), note, _MUTED, font=text)
    out = BytesIO()
    canvas.save(out, "PNG", compress_level=3)
    return out.getvalue()


def _in_font(label: str) -> str:
    """Return a label in letters that Pillow's own font has."""
    return label.replace("μ", "u")


def _tick(pen: ImageDraw, at: tuple[float, float], along: tuple[int, int]) -> None:
    pen.line((*at, at[0] + along[0], at[1] + along[1]), fill=_LINE)
