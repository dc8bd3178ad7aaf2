"""A differential heat map: where within equal periods something has more or less than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.units import format_ns
from meantime.views.axis import ticks
from meantime.views.comparison.colors import LESS, MORE
from meantime.views.page import MARGIN_PX
from meantime.views.svg import cut_to, element, px, width_px

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.query.compare.folds import Folds

__all__ = ["heat"]

_HEIGHT_PX = 250
_COLUMN_PX = 24
# Each direction has so many colours, so that all of them are in the legend.
_LEVELS = 6
_SWATCH_PX = 12
_SMALL = {"font-size": 11}


def heat(drawn: Folds, left_px: int, width_px_: int, top_px: float) -> tuple[str, float]:
    """Return the map as markup, and its height in pixels.

    Args:
        drawn: The cells.
        left_px: Where columns begin.
        width_px_: What all columns may take.
        top_px: Where it begins.
    """
    change = drawn.change
    columns, rows = change.shape
    most = float(np.nanmax(np.abs(change), initial=0.0))
    column = min(_COLUMN_PX, width_px_ / columns)
    row = _HEIGHT_PX / rows
    levels = np.zeros(change.shape, np.int64)
    if most:
        with np.errstate(invalid="ignore"):
            levels = np.nan_to_num(np.sign(change) * np.ceil(np.abs(change) / most * _LEVELS))
    text = f"Within each {format_ns(drawn.period_ns)}"
    parts = [_text(MARGIN_PX, top_px + 12, text, "ink", **{"font-weight": "600"})]
    about = f"how many {drawn.row} there are at once, after less before, the mean of the runs"
    parts.append(_text(left_px, top_px + 12, cut_to(about, width_px_ - 330, 12), "muted"))
    parts.append(_legend(most, left_px + width_px_, top_px))
    top = top_px + 28
    unknown = np.isnan(change)
    parts.append(
        '<pattern id="unknown" width="8" height="8" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><path class="hatch" d="M2 0v8" stroke-width="2"/></pattern>'
    )
    if unknown.any():
        shape = _cells(unknown, left_px, top, column, row)
        parts.append(element("path", {"fill": "url(#unknown)", "d": shape}))
    for sign, color in ((1, MORE), (-1, LESS)):
        for level in range(1, _LEVELS + 1):
            if shape := _cells(levels == sign * level, left_px, top, column, row):
                style = {"d": shape, "shape-rendering": "crispEdges", **_look(color, level)}
                parts.append(element("path", style))
    frame = {"x": left_px, "y": top, "width": columns * column, "height": _HEIGHT_PX}
    parts.append(element("rect", {**frame, "class": "frame"}))
    parts.append(_axes(drawn, left_px, top, column))
    return element("g", {}, inner="".join(parts)) + "\n", _HEIGHT_PX + 28 + 26


def _look(color: str, level: int) -> dict[str, object]:
    # on light and on dark ground, what differs little is near the ground
    return {"fill": color, "fill-opacity": f"{level / _LEVELS:.3f}"}


def _text(x: float, y: float, text: str, look: str, **more: object) -> str:
    return element("text", {"class": look, "x": x, "y": y, **more}, text=text)


def _cells(mask: npt.NDArray[np.bool_], left: float, top: float, column: float, row: float) -> str:
    """Return a path over cells: a box for each run in a column; offsets increase upwards."""
    parts = []
    for number in np.flatnonzero(mask.any(axis=1)).tolist():
        edges = np.flatnonzero(np.diff(mask[number].astype(np.int8), prepend=0, append=0))
        for low, high in edges.reshape(-1, 2).tolist():
            y = top + _HEIGHT_PX - high * row
            tall = (high - low) * row
            x = left + number * column
            parts.append(f"M{px(x)} {px(y)}h{px(column)}v{px(tall)}h{px(-column)}z")
    return "".join(parts)


def _legend(most: float, right: float, top: float) -> str:
    """Return all colours, the least first, with what the ends stand for."""
    if not most:
        return _text(right, top + 12, "no difference", "muted", **{"text-anchor": "end"})
    label = f"{most:.3g} more"
    x = right - width_px(label, 11)
    parts = [_text(x, top + 12, label, "muted", **_SMALL)]
    for level in range(_LEVELS, -_LEVELS - 1, -1):
        if not level:
            continue
        x -= _SWATCH_PX + 1
        box = {"x": x - 3, "y": top + 2, "width": _SWATCH_PX, "height": _SWATCH_PX}
        parts.append(element("rect", {**box, **_look(MORE if level > 0 else LESS, abs(level))}))
    end = {"text-anchor": "end", **_SMALL}
    parts.append(_text(x - 9, top + 12, f"{most:.3g} less", "muted", **end))
    return "".join(parts)


def _axes(drawn: Folds, left: float, top: float, column: float) -> str:
    """Return the labels of offsets at the left, and of times below."""
    parts = []
    end = {"text-anchor": "end", **_SMALL}
    for tick in ticks(0, drawn.period_ns, 5)[1]:
        y = top + _HEIGHT_PX - tick.time_ns * _HEIGHT_PX / drawn.period_ns
        parts.append(_text(left - 8, y + 4, tick.label, "muted", **end))
    columns = len(drawn.before)
    start_ns = -drawn.lead_columns * drawn.period_ns
    length_ns = columns * drawn.period_ns
    most = max(1, int(columns * column // 110))
    for tick in ticks(start_ns, start_ns + length_ns, most)[1]:
        x = left + (tick.time_ns - start_ns) / drawn.period_ns * column
        look = {"text-anchor": "middle", **_SMALL}
        parts.append(_text(x, top + _HEIGHT_PX + 16, tick.label, "muted", **look))
    return "".join(parts)
