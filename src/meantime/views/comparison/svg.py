"""A comparison as one SVG file: what changed by how much, and both sides over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.views.axis import ticks
from meantime.views.comparison.colors import LESS, MORE
from meantime.views.comparison.heat import heat
from meantime.views.page import MARGIN_PX, Page, header, lines
from meantime.views.palette import choose
from meantime.views.svg import cut_to, element, px, width_px

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from meantime.query.compare import ComparedRow, Comparison
    from meantime.query.compare.folds import Folds
    from meantime.query.compare.timelines import Lane, Strip, Timelines

__all__ = ["BINS", "page"]

_WIDTH_PX = 1280
_LEFT_PX = 230
_STRIP_PX = _WIDTH_PX - _LEFT_PX - MARGIN_PX
_COLUMN_PX = 2
BINS = _STRIP_PX // _COLUMN_PX
_TOP_PX = 76
_ROW_PX = 26
_DEPTH_PX = 14
_CHANGE_PX = 26
_APART_PX = 12
_MOST_ROWS = 12
_MOST_COLORS = 24
_PLOT_LEFT_PX, _PLOT_PX = 330, 500
# Where the columns of numbers end.
_RIGHT_PX = (970, 1080, 1170, 1240)
_END, _MIDDLE = {"text-anchor": "end"}, {"text-anchor": "middle"}
# Changes beyond this are drawn at the edge.
_MOST_RELATIVE = 1.0
_OTHER = "#9aa0ac"


def page(
    found: Comparison, drawn: Timelines | None, title: str, folded: Folds | None = None
) -> Page:
    """Return the picture."""
    sentences = found.sentences
    parts = [header(title, sentences[0])]
    top = float(_TOP_PX)
    markup, height = _changes(found, top)
    parts.append(markup)
    top += height + 20
    if drawn is not None and drawn.lanes:
        markup, height = _lanes(drawn, found, top)
        parts.append(markup)
        top += height
    if folded is not None:
        markup, height = heat(folded, _LEFT_PX, _STRIP_PX, top)
        parts.append(markup)
        top += height
    notes = list(sentences[1:])
    parts.append(lines(notes, top))
    return Page(
        title=title,
        width_px=_WIDTH_PX,
        height_px=top + 16 * len(notes) + _APART_PX,
        picture=[part.encode() for part in parts],
    )


def _text(x: float, y: float, text: str, look: str = "ink", **more: object) -> str:
    return element("text", {"class": look, "x": x, "y": y, **more}, text=text)


def _changes(found: Comparison, top: float) -> tuple[str, float]:
    """Return a line for each row: its runs, and the interval of its change."""
    several = len(found.wholes) > 1
    wholes = [row for row in found.wholes if row.is_noticeable or not several]
    rows = [row for row in (*wholes, *found.rows) if row.relative is not None]
    # what takes no time itself, such as the outermost span, says nothing
    shown = [row for row in rows if row.before and any(found.values(row))][:_MOST_ROWS]
    extent = min(_MOST_RELATIVE, max([0.02, *map(_farthest, shown)]) * 1.08)
    middle = _PLOT_LEFT_PX + _PLOT_PX / 2
    small: dict[str, object] = {"font-size": 11}
    parts = [_text(MARGIN_PX, top + 12, "What changed", **{"font-weight": "600"})]
    for right, name in zip(_RIGHT_PX, ("before", "after", "change", "p"), strict=True):
        parts.append(_text(right, top + 12, name, "muted", **small, **_END))
    for mark in (-extent, 0.0, extent):
        x = middle + mark / extent * _PLOT_PX / 2
        label = f"{100 * mark:+.3g} %" if mark else "as before"
        parts.append(_text(x, top + 12, label, "muted", **small, **_MIDDLE))
    height = 22 + _ROW_PX * len(shown)
    line = f"M{px(middle)} {px(top + 18)}V{px(top + height)}"
    parts.append(element("path", {"class": "frame", "d": line}))
    for number, row in enumerate(shown):
        parts.append(_change(found, row, top + 22 + number * _ROW_PX, extent))
    about = "each mark is a run: those before above the bar, those after below"
    if found.is_certain:
        about += "; the bar has the sizes of the change that they do not rule out, at 95 %"
    parts.append(_text(_PLOT_LEFT_PX, top + height + 14, about, "muted", **small))
    return "".join(parts), height + 18


def _farthest(row: ComparedRow) -> float:
    assert row.relative is not None
    ends = row.interval or (row.relative,)
    return max(*(abs(each) for each in ends), abs(row.relative), *map(abs, _relative(row, "both")))


def _relative(row: ComparedRow, side: str) -> list[float]:
    """Return the runs of a side as changes from the mean before."""
    mean = sum(row.runs_before) / len(row.runs_before)
    if not mean:
        return []
    runs = {"before": row.runs_before, "after": row.runs_after}
    chosen = runs.get(side, (*row.runs_before, *row.runs_after))
    return [each / mean - 1 for each in chosen]


def _change(found: Comparison, row: ComparedRow, top: float, extent: float) -> str:
    assert row.relative is not None
    middle = top + _ROW_PX / 2

    def x(relative: float) -> float:
        inside = max(-extent, min(extent, relative))
        return _PLOT_LEFT_PX + _PLOT_PX / 2 * (1 + inside / extent)

    is_whole = row in found.wholes
    name = f"all {row.key[0]}" if is_whole and row.key else "all" if is_whole else " ".join(row.key)
    bold = {"font-weight": "600"} if row.is_noticeable else {}
    color = (MORE if row.relative > 0 else LESS) if row.is_noticeable else _OTHER
    parts = [
        _text(
            _PLOT_LEFT_PX - 24,
            middle + 4,
            cut_to(name, _PLOT_LEFT_PX - 24 - MARGIN_PX, 12),
            **bold,
            **_END,
        )
    ]
    for side, ends, look in (("before", (4, 11), _OTHER), ("after", (15, 22), color)):
        marks = "".join(
            f"M{px(x(each))} {px(top + ends[0])}V{px(top + ends[1])}"
            for each in _relative(row, side)
        )
        style = {"d": marks, "stroke": look, "stroke-width": 1.4, "stroke-opacity": 0.75}
        parts.append(element("path", style))
    if row.interval is not None:
        low, high = x(row.interval.low), x(row.interval.high)
        bar = {"x": low, "y": middle - 2, "width": max(1.0, high - low), "height": 4, "rx": 2}
        parts.append(element("rect", {**bar, "fill": color}))
    dot = {"cx": x(row.relative), "cy": middle, "r": 4, "fill": color}
    parts.append(element("circle", dot))
    values = [found.text(value) if value is not None else "" for value in found.values(row)]
    values += [f"{row.relative:+.1%}", "" if row.corrected is None else f"{row.corrected:.2g}"]
    for right, text in zip(_RIGHT_PX, values, strict=True):
        parts.append(_text(right, middle + 4, text, **bold, **_END))
    tip = f"{name}: {values[0]} before, {values[1]} after, {row.relative:+.1%}"
    if row.interval is not None:
        tip += f" ({row.interval.low:+.1%} to {row.interval.high:+.1%})"
    return element("g", {}, inner=element("title", text=tip) + "".join(parts)) + "\n"


def _lanes(drawn: Timelines, found: Comparison, top: float) -> tuple[str, float]:
    """Return the lanes of both sides over time, with what changed between them."""
    first = top
    before, after = drawn.runs
    counts = found.runs
    parts = [_text(MARGIN_PX, top + 12, "Over time", **{"font-weight": "600"})]
    if max(counts) > 1:
        which = (
            f"run {before + 1} of {counts[0]} before and run {after + 1} of {counts[1]} after, each"
            " the nearest to the mean of its side"
        )
        parts.append(_text(MARGIN_PX + 76, top + 12, which, "muted"))
    x = float(_WIDTH_PX - MARGIN_PX)
    for color, size in ((LESS, "less"), (MORE, "more")):
        text = cut_to(f"{size} {drawn.row}", 220, 12)
        x -= width_px(text, 12) + 34
        parts.append(_swatch(x, top, color, text))
    top += 24
    colors = _colors(drawn)
    markup, height = _legend(colors, top)
    parts.append(markup)
    top += height
    parts.append(_axis(drawn, top))
    top += 24
    for lane in drawn.lanes:
        markup, height = _lane(lane, drawn, colors, top)
        parts.append(markup)
        top += height + _APART_PX
    if drawn.left_out:
        more = f"{drawn.left_out:,} more lanes, in which {drawn.row} changed less"
        parts.append(_text(_LEFT_PX, top + 8, more, "muted", **{"font-size": 11}))
        top += 20
    return "".join(parts), top - first


def _swatch(x: float, top: float, color: str, text: str) -> str:
    box = {"class": "swatch", "x": x + 0.5, "y": top + 2.5, "width": 12, "height": 12, "rx": 2}
    return element("rect", {**box, "fill": color}) + _text(x + 18, top + 12, text)


def _colors(drawn: Timelines) -> dict[str, str]:
    """Return the colours of the names with most time; all others have one colour."""
    time: dict[str, float] = {}
    for lane in drawn.lanes:
        for strip in (*lane.before, *lane.after):
            for name, share in zip(strip.name, strip.share.tolist(), strict=True):
                time[name] = time.get(name, 0.0) + share
    most = sorted(time, key=lambda name: (-time[name], name))[:_MOST_COLORS]
    chosen = choose(most)
    return {name: str(chosen[name]) for name in most}


def _legend(colors: Mapping[str, str], top: float) -> tuple[str, float]:
    parts, x, y = [], float(MARGIN_PX), top
    for name, color in colors.items():
        text = cut_to(name, 220, 12)
        width = 18 + width_px(text, 12) + 18
        if x + width > _WIDTH_PX - MARGIN_PX and x > MARGIN_PX:
            x, y = float(MARGIN_PX), y + 22
        parts.append(_swatch(x, y, color, text))
        x += width
    return "".join(parts), y - top + 26


def _axis(drawn: Timelines, top: float) -> str:
    base, marks = ticks(-drawn.lead_ns, drawn.length_ns - drawn.lead_ns, 10)
    parts = [_text(_LEFT_PX - 8, top + 14, base, "muted", **{"text-anchor": "end"})] if base else []
    for mark in marks:
        x = _LEFT_PX + _STRIP_PX * (mark.time_ns + drawn.lead_ns) / drawn.length_ns
        x = min(x, _WIDTH_PX - 4 - width_px(mark.label, 11) / 2)
        style = {"font-size": 11, "text-anchor": "middle"}
        parts.append(_text(x, top + 14, mark.label, "muted", **style))
    return "".join(parts)


def _lane(lane: Lane, drawn: Timelines, colors: Mapping[str, str], top: float) -> tuple[str, float]:
    parts, first = [], top
    height = len(lane.before) * _DEPTH_PX + _CHANGE_PX + len(lane.after) * _DEPTH_PX
    name = cut_to(lane.name, _LEFT_PX - MARGIN_PX - 60, 12)
    parts.append(_text(MARGIN_PX, top + height / 2 + 4, name, **{"font-weight": "600"}))
    for side, strips, (start_ns, end_ns) in zip(
        ("before", "after"), (lane.before, lane.after), drawn.ranges_ns, strict=True
    ):
        label = {"font-size": 11, "text-anchor": "end"}
        tall = len(strips) * _DEPTH_PX
        parts.append(_text(_LEFT_PX - 8, top + max(tall, 8) / 2 + 4, side, "muted", **label))
        left = _LEFT_PX + _STRIP_PX * start_ns / drawn.length_ns
        width = _STRIP_PX * (end_ns - start_ns) / drawn.length_ns
        for strip in strips:
            parts.append(_strip(strip, drawn, colors, top))
            top += _DEPTH_PX
        frame = {"x": left, "y": top - tall, "width": width, "height": tall}
        parts.append(element("rect", {**frame, "class": "frame"}))
        if side == "before":
            parts.append(_difference(lane, drawn, top))
            top += _CHANGE_PX
    tip = element("title", text=lane.name)
    return element("g", {}, inner=tip + "".join(parts)) + "\n", top - first


def _strip(strip: Strip, drawn: Timelines, colors: Mapping[str, str], top: float) -> str:
    """Return a column for each bin, in which each name has its share of the height."""
    paths: dict[str, list[str]] = {}
    for left, right, bottom, tall, color in _boxes(strip, drawn.bins, colors):
        paths.setdefault(color, []).append(
            f"M{px(_LEFT_PX + left)} {px(top + _DEPTH_PX - bottom - tall)}"
            f"h{px(right - left)}v{px(tall)}h{px(left - right)}z"
        )
    return "".join(
        element("path", {"d": "".join(each), "fill": color, "shape-rendering": "crispEdges"})
        for color, each in paths.items()
    )


def _boxes(
    strip: Strip, bins: int, colors: Mapping[str, str]
) -> Iterator[tuple[float, float, float, float, str]]:
    """Yield left, right, bottom, height and colour; bins that are alike are one box."""
    order = {name: rank for rank, name in enumerate(colors)}
    width = _STRIP_PX / bins
    cells: dict[int, list[tuple[int, str, float]]] = {}
    for number, name, share in zip(
        strip.bin.tolist(), strip.name, strip.share.tolist(), strict=True
    ):
        cells.setdefault(number, []).append((order.get(name, len(order)), name, share))
    begin = None
    whole: str | None = None
    for number in range(bins + 1):
        cell = sorted(cells.get(number, ()))
        only = cell[0][1] if len(cell) == 1 and cell[0][2] > 0.999 else None
        if whole is not None and only != whole:
            assert begin is not None
            yield begin * width, number * width, 0, _DEPTH_PX, colors.get(whole, _OTHER)
            whole = None
        if only is not None:
            if whole is None:
                whole, begin = only, number
            continue
        bottom = 0.0
        for _, name, share in cell:
            tall = share * _DEPTH_PX
            yield number * width, (number + 1) * width, bottom, tall, colors.get(name, _OTHER)
            bottom += tall


def _difference(lane: Lane, drawn: Timelines, top: float) -> str:
    """Return a bar for each bin in which the compared row has more, upwards, or less."""
    middle, half, width = top + _CHANGE_PX / 2, _CHANGE_PX / 2 - 2, _STRIP_PX / drawn.bins
    paths: dict[str, list[str]] = {MORE: [], LESS: []}
    for number, change in enumerate(lane.change.tolist()):
        if not change:
            continue
        tall = abs(change) * half
        y = middle - tall if change > 0 else middle
        paths[MORE if change > 0 else LESS].append(
            f"M{px(_LEFT_PX + number * width)} {px(y)}h{px(width)}v{px(tall)}h{px(-width)}z"
        )
    line = f"M{_LEFT_PX} {px(middle)}h{_STRIP_PX}"
    found = element("path", {"class": "line", "d": line})
    for color, each in paths.items():
        if each:
            style = {"d": "".join(each), "fill": color, "shape-rendering": "crispEdges"}
            found += element("path", style)
    return found
