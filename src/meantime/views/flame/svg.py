"""A flame graph as one SVG file: the picture, and the call tree for the page's script.

The graph grows downwards, as an icicle graph: a caller is above the functions it calls. Without
scripts the file is a static picture with every box that is at least a pixel wide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import format_ns
from meantime.views.name_colors import NameColors
from meantime.views.page import MARGIN_PX, Page, header, lines
from meantime.views.svg import cut_to, element, px

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.columns import Int32s
    from meantime.views.flame.data import Flame

__all__ = ["amount", "change_color", "page", "render"]

_WIDTH_PX = 1280
_TOP_PX = 72
_ROW_PX = 18
_GAP_PX = 10
# Boxes below this height are in the page's data, but not in the static picture.
_MOST_HEIGHT_PX = 6000
_LEAST_PX = 1.0
_LABEL_PX = 34
_FONT_PX = 11


def render(flame: Flame) -> bytes:
    """Return the file; the same flame gives the same bytes."""
    return page(flame).document()


def page(flame: Flame) -> Page:
    """Return the page of a flame graph."""
    # frames are numbered again, as most names of a large history may not be drawn
    used = distinct(flame.frame) if len(flame) else np.empty(0, np.int32)
    new_index = np.zeros(len(flame.frames) + 1, np.int32)
    new_index[used] = np.arange(len(used), dtype=np.int32)
    names = [flame.frames[frame] for frame in used.tolist()]
    notes = _notes(flame)
    rows = int(flame.row.max(initial=-1)) + 1
    height = min(_TOP_PX + rows * _ROW_PX + _GAP_PX, _MOST_HEIGHT_PX)
    picture = [
        header(flame.title, _subtitle(flame)).encode(),
        "".join(_boxes(flame, NameColors(names))).encode(),
        lines(notes, height + 4).encode(),
    ]
    return Page(
        title=flame.title,
        width_px=_WIDTH_PX,
        height_px=height + 16 * len(notes) + 16,
        picture=picture,
        script="flame",
        head=_head(flame, names, notes),
        blocks=_blocks(flame, new_index),
    )


def _head(flame: Flame, names: Sequence[str], notes: Sequence[str]) -> dict[str, object]:
    return {
        "title": flame.title,
        "subtitle": _subtitle(flame),
        "notes": notes,
        "unit": flame.unit,
        "frames": names,
        "compared": flame.before is not None,
        "command": flame.command,
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
    boxes = " · ".join([f"{len(flame):,} boxes", *flame.chosen])
    if flame.before is not None:
        after = amount(flame, flame.width - flame.before_width)
        against = amount(flame, flame.before_width)
        return f"differential flame graph · {after} against {against} · {boxes}"
    return f"flame graph · {amount(flame, flame.width)} · {boxes}"


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
    else:
        notes.append("Each box is a function, called by the box above it; its width is its total.")
    return notes


def _boxes(flame: Flame, colors: NameColors) -> Iterator[str]:
    room_px = _WIDTH_PX - 2 * MARGIN_PX
    scale = room_px / max(1, flame.width)
    for box in np.flatnonzero(flame.length * scale >= _LEAST_PX).tolist():
        y = _TOP_PX + int(flame.row[box]) * _ROW_PX
        if y + _ROW_PX > _MOST_HEIGHT_PX:
            continue
        name = flame.frames[flame.frame[box]]
        x, width = MARGIN_PX + int(flame.start[box]) * scale, int(flame.length[box]) * scale
        is_compared = flame.before is not None
        fill = change_color(_shares(flame, box)[2]) if is_compared else str(colors[name])
        label = ""
        if width >= _LABEL_PX:
            label = element(
                "text",
                {"x": x + 3, "y": y + 12.5, "font-size": _FONT_PX, "fill": "#14161b"},
                text=cut_to(name, width - 6, _FONT_PX),
            )
        yield (
            f'<g><title>{_title(flame, box)}</title><rect x="{px(x)}" y="{px(y)}"'
            f' width="{px(max(0.5, width - 1))}" height="{_ROW_PX - 1}" fill="{fill}"/>'
            f"{label}</g>\n"
        )


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
