"""A flame graph or chart as one SVG file: the picture, and the data and script for search and zoom.

The graph grows downwards, as an icicle graph: a caller is above the functions it calls. Without
scripts the file is a static picture with every box that is at least a pixel wide; narrower boxes of
a chart are drawn as lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.units import format_ns
from meantime.views.axis import ticks
from meantime.views.name_colors import NameColors
from meantime.views.page import MARGIN_PX, Page, header, lines
from meantime.views.svg import cut_to, element, px

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.columns import Int32s
    from meantime.views.flame.data import Flame, Panel

__all__ = ["amount", "change_color", "page", "render"]

_WIDTH_PX = 1280
_TOP_PX = 72
_ROW_PX = 18
_PANEL_TITLE_PX = 24
_GAP_PX = 10
# Boxes below this height are in the page's data, but not in the static picture.
_MOST_HEIGHT_PX = 6000
_AXIS_PX = 20
_SLIVER = "#dca98f"
_LEAST_PX = 1.0
_LABEL_PX = 34
_FONT_PX = 11


def render(flame: Flame) -> bytes:
    """Return the file; the same flame gives the same bytes."""
    return page(flame).document()


def page(flame: Flame) -> Page:
    """Return the page of a flame graph or chart."""
    # frames are numbered again, as most names of a large history may not be drawn
    used = np.unique(flame.frame) if len(flame) else np.empty(0, np.int32)
    new_index = np.zeros(len(flame.frames) + 1, np.int32)
    new_index[used] = np.arange(len(used), dtype=np.int32)
    names = [flame.frames[frame] for frame in used.tolist()]
    notes = _notes(flame)
    tops, height = _tops(flame)
    picture = [
        header(flame.title, _subtitle(flame)).encode(),
        "".join(_axis(flame, height)).encode(),
        "".join(_boxes(flame, tops, NameColors(names))).encode(),
        lines(notes, height + 4).encode(),
    ]
    return Page(
        title=flame.title,
        width_px=_WIDTH_PX,
        height_px=height + 16 * len(notes) + 16,
        picture=picture,
        script="chart" if flame.is_chart else "flame",
        head=_chart_head(flame, names, notes) if flame.is_chart else _head(flame, names, notes),
        blocks=_chart_blocks(flame, new_index) if flame.is_chart else _blocks(flame, new_index),
    )


def _head(flame: Flame, names: Sequence[str], notes: Sequence[str]) -> dict[str, object]:
    return {
        "title": flame.title,
        "subtitle": _subtitle(flame),
        "notes": notes,
        "unit": flame.unit,
        "frames": names,
        "compared": flame.before is not None,
    }


def _blocks(flame: Flame, new_index: Int32s) -> dict[str, bytes]:
    blocks = {
        "parent": flame.parent.astype("<i4").tobytes(),
        "frame": new_index[flame.frame].astype("<i4").tobytes(),
        "total": flame.length.astype("<f8").tobytes(),
        "own": flame.own.astype("<f8").tobytes(),
        "count": flame.count.astype("<f8").tobytes(),
    }
    if flame.before is not None:
        blocks["before"] = flame.before.astype("<f8").tobytes()
    return blocks


def _chart_head(flame: Flame, names: Sequence[str], notes: Sequence[str]) -> dict[str, object]:
    colors = NameColors(names)
    return {
        "title": flame.title,
        "subtitle": _subtitle(flame),
        "notes": notes,
        "unit": flame.unit,
        "width": flame.width,
        "chart": True,
        "origin": str(flame.origin_ns),
        "frames": names,
        "colors": [str(colors[name]) for name in names],
        "panels": [list(panel_fields(panel)) for panel in flame.panels],
        "changes": [],
    }


def _chart_blocks(flame: Flame, new_index: Int32s) -> dict[str, bytes]:
    return {
        "start": flame.start.astype("<f8").tobytes(),
        "length": flame.length.astype("<f8").tobytes(),
        "own": flame.own.astype("<f8").tobytes(),
        "count": flame.count.astype("<f8").tobytes(),
        "row": flame.row.astype("<i4").tobytes(),
        "frame": new_index[flame.frame].astype("<i4").tobytes(),
    }


def panel_fields(panel: object) -> Iterator[object]:
    """Yield the fields of a panel in their order."""
    for name in ("title", "first", "last", "rows"):
        yield getattr(panel, name)


def change_color(change: float) -> str:
    """Return the colour of a change of share, -1 to 1: red grew, blue shrank, grey is neither.

    >>> change_color(0), change_color(1), change_color(-1)
    ('#e9e9e9', '#e95a4f', '#4f8fe9')
    """
    # most changes are small: the square root makes them visible
    far = min(1.0, abs(change)) ** 0.5
    end = (0xE9, 0x5A, 0x4F) if change > 0 else (0x4F, 0x8F, 0xE9)
    return "#" + "".join(f"{round(0xE9 + (part - 0xE9) * far):02x}" for part in end)


def _shares(flame: Flame, box: int) -> tuple[int, int, float]:
    """Return the width of a box before and after, and by how much its share grew."""
    assert flame.before is not None
    before = int(flame.before[box])
    after = int(flame.length[box]) - before
    after_width = flame.width - flame.before_width
    return before, after, after / max(1, after_width) - before / max(1, flame.before_width)


def _change(flame: Flame, box: int) -> str:
    before, after, grown = _shares(flame, box)
    only = ", new" if not before else ", gone" if not after else ""
    return (
        f"{amount(flame, after)}, against {amount(flame, before)}{only}"
        f" ({grown * 100:+.2f} points of share)"
    )


def amount(flame: Flame, value: int) -> str:
    """Return a width as text with its unit."""
    return format_ns(value) if flame.unit == "ns" else f"{value:,} {flame.unit}"


def _subtitle(flame: Flame) -> str:
    what = "flame chart" if flame.is_chart else "flame graph"
    boxes = " · ".join([f"{len(flame):,} boxes", *flame.chosen])
    if flame.before is not None:
        after = amount(flame, flame.width - flame.before_width)
        against = amount(flame, flame.before_width)
        return f"differential flame graph · {after} against {against} · {boxes}"
    return f"{what} · {amount(flame, flame.width)} · {boxes}"


def _notes(flame: Flame) -> list[str]:
    notes = []
    if flame.left_out:
        notes.append(f"{flame.left_out:,} boxes are not shown: they are empty or too narrow.")
    if flame.before is not None:
        came = int((flame.before == 0).sum())
        went = int((flame.before == flame.length).sum())
        notes.append(
            "Red has a larger share than in the other range, blue a smaller one; the width of a box"
            " is the sum of both."
        )
        notes.append(f"{came:,} boxes are new, {went:,} were removed.")
    elif not flame.is_chart:
        notes.append("Each box is a function, called by the box above it; its width is its total.")
    return notes


def _tops(flame: Flame) -> tuple[list[float], float]:
    top = float(_TOP_PX) + (_AXIS_PX if flame.is_chart else 0)
    tops = []
    for panel in flame.panels:
        top += _PANEL_TITLE_PX if panel.title else 0
        tops.append(top)
        top += panel.rows * _ROW_PX + _GAP_PX
    return tops, min(top, _MOST_HEIGHT_PX)


def _axis(flame: Flame, height: float) -> Iterator[str]:
    """Yield the ticks of a chart's time axis, each with a vertical line."""
    if not flame.is_chart:
        return
    room_px = _WIDTH_PX - 2 * MARGIN_PX
    base, marks = ticks(flame.origin_ns, flame.origin_ns + flame.width, 10)
    for index, mark in enumerate(marks):
        x = MARGIN_PX + (mark.time_ns - flame.origin_ns) * room_px / max(1, flame.width)
        yield element(
            "path", {"class": "line", "d": f"M{px(x)} {_TOP_PX}V{px(height)}", "stroke-width": 1}
        )
        label = f"{base} {mark.label}" if base and not index else mark.label
        yield element(
            "text", {"class": "muted", "x": x + 3, "y": _TOP_PX + 10, "font-size": 10}, text=label
        )


def _boxes(flame: Flame, tops: list[float], colors: NameColors) -> Iterator[str]:
    room_px = _WIDTH_PX - 2 * MARGIN_PX
    scale = room_px / max(1, flame.width)
    wide = flame.length * scale >= _LEAST_PX
    for panel, top in zip(flame.panels, tops, strict=True):
        if panel.title and top < _MOST_HEIGHT_PX:
            yield element(
                "text",
                {"class": "ink", "x": MARGIN_PX, "y": top - 7, "font-weight": "600"},
                text=cut_to(panel.title, room_px, 12),
            )
        if flame.is_chart:
            yield _slivers(flame, panel, top, scale)
        for box in (np.flatnonzero(wide[panel.first : panel.last]) + panel.first).tolist():
            y = top + int(flame.row[box]) * _ROW_PX
            if y + _ROW_PX > _MOST_HEIGHT_PX:
                continue
            name = flame.frames[flame.frame[box]]
            x, width = MARGIN_PX + int(flame.start[box]) * scale, int(flame.length[box]) * scale
            fill = (
                str(colors[name]) if flame.before is None else change_color(_shares(flame, box)[2])
            )
            label = ""
            if width >= _LABEL_PX:
                label = element(
                    "text",
                    {"x": x + 3, "y": y + 12.5, "font-size": _FONT_PX, "fill": "#1b1f24"},
                    text=cut_to(name, width - 6, _FONT_PX),
                )
            yield (
                f'<g><title>{_title(flame, box)}</title><rect x="{px(x)}" y="{px(y)}"'
                f' width="{px(max(0.5, width - 0.6))}" height="{_ROW_PX - 1}" rx="1.5"'
                f' fill="{fill}"/>{label}</g>\n'
            )


def _slivers(flame: Flame, panel: Panel, top: float, scale: float) -> str:
    """Return a vertical line for each pixel of a row that contains spans narrower than a pixel."""
    part = slice(panel.first, panel.last)
    narrow = flame.length[part] * scale < _LEAST_PX
    narrow &= top + (flame.row[part] + 1) * _ROW_PX <= _MOST_HEIGHT_PX
    pixel = (flame.start[part][narrow] * scale).astype(np.int64)
    at = np.unique(flame.row[part][narrow].astype(np.int64) * _WIDTH_PX + pixel)
    if not len(at):
        return ""
    strokes = "".join(
        f"M{MARGIN_PX + x}.5 {px(top + row * _ROW_PX)}v{_ROW_PX - 1}"
        for row, x in (divmod(pixel, _WIDTH_PX) for pixel in at.tolist())
    )
    return element("path", {"d": strokes, "stroke": _SLIVER, "fill": "none"}) + "\n"


def _title(flame: Flame, box: int) -> str:
    if flame.before is not None:
        text = f"{flame.frames[flame.frame[box]]} · {_change(flame, box)}"
        return element("t", text=text.replace("\n", " · "))[3:-4]
    length = int(flame.length[box])
    share = length / max(1, flame.width)
    text = f"{flame.frames[flame.frame[box]]}\n{amount(flame, length)} ({share:.2%})"
    if int(flame.own[box]) != length:
        text += f", itself {amount(flame, int(flame.own[box]))}"
    return element("t", text=text.replace("\n", " · "))[3:-4]
