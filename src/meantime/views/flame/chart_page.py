"""A flame chart as one SVG file: the picture, and all its spans for the page's script.

Columns of spans are differences coded as varints and deflated: a span takes some 5 bytes.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.varints import encoded
from meantime.model.columns import distinct
from meantime.model.units import format_ns
from meantime.views.axis import ticks
from meantime.views.name_colors import NameColors
from meantime.views.page import MARGIN_PX, Page, header, lines
from meantime.views.svg import cut_to, element, px

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.columns import Int32s, Int64s
    from meantime.views.flame.chart import Chart, ChartPanel, Flows

__all__ = ["page", "render"]

_WIDTH_PX = 1280
_ROOM_PX = _WIDTH_PX - 2 * MARGIN_PX
_TOP_PX = 92
_ROW_PX = 18
_PANEL_TITLE_PX = 24
_GAP_PX = 10
# Boxes below this height are in the page's data, but not in the static picture.
_MOST_HEIGHT_PX = 6000
_SLIVER = "#b9bec8"
_LEAST_PX = 1.0
_LABEL_PX = 34
_FONT_PX = 11
# Higher levels take twice as long for 1 % less.
_LEVEL = 1


def render(chart: Chart) -> bytes:
    """Return the file; the same chart gives the same bytes."""
    return page(chart).document()


def page(chart: Chart) -> Page:
    """Return the page of a flame chart."""
    used, new_index = _used_frames(chart)
    names = [chart.frames[frame] for frame in used.tolist()]
    notes = _notes(chart)
    tops, height = _tops(chart)
    return Page(
        title=chart.title,
        width_px=_WIDTH_PX,
        height_px=height + 16 * len(notes) + 16,
        picture=[
            header(chart.title, _subtitle(chart)).encode(),
            "".join(_axis(chart, height)).encode(),
            "".join(_boxes(chart, tops, NameColors(names))).encode(),
            lines(notes, height + 4).encode(),
        ],
        script="chart",
        head=_head(chart, names, notes),
        blocks=_blocks(chart, new_index[chart.frame]),
    )


def _used_frames(chart: Chart) -> tuple[Int64s, Int32s]:
    """Return the frames that occur, the most frequent first, and the new index of each frame."""
    # most names of a large history may not be drawn, and small indices take fewer bytes
    counts = np.bincount(chart.frame, minlength=len(chart.frames))
    used = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    new_index = np.zeros(len(chart.frames) + 1, np.int32)
    new_index[used] = np.arange(len(used), dtype=np.int32)
    return used, new_index


def _head(chart: Chart, names: Sequence[str], notes: Sequence[str]) -> dict[str, object]:
    flow_names: list[str] = []
    if chart.flows is not None:
        flow_names = [chart.flows.names[code] for code in distinct(chart.flows.name).tolist()]
    return {
        "title": chart.title,
        "subtitle": _subtitle(chart),
        "notes": notes,
        "origin": str(chart.origin_ns - chart.begin_ns),
        "width": chart.width,
        "frames": names,
        "rows": np.diff(chart.row_start).tolist(),
        "panels": [
            {
                "title": panel.title,
                "process": panel.process,
                "kind": panel.kind,
                "rows": panel.rows,
                "thread": -1 if panel.kind == "async" else panel.quarks[0],
            }
            for panel in chart.panels
        ],
        "counters": [
            {"title": each.title, "process": each.process, "points": len(each.time)}
            for each in chart.counters
        ],
        "flows": 0 if chart.flows is None else len(chart.flows.name),
        "flowNames": flow_names,
        "source": chart.source,
        "label": chart.label,
    }


def _blocks(chart: Chart, frame: Int32s) -> dict[str, bytes]:
    """Return the columns, in the order of the boxes."""
    # the distance from the end of the box before it in its row
    gap = chart.start.copy()
    gap[1:] -= chart.start[:-1] + chart.length[:-1]
    firsts = chart.row_start[:-1]
    firsts = firsts[firsts < len(chart)]
    gap[firsts] = chart.start[firsts]
    # parents ascend in a row, so their differences are small, and mostly 0 or 1
    step = chart.parent.astype(np.int64)
    step[1:] -= chart.parent[:-1]
    step[:1] += 1
    columns: dict[str, Int64s] = {
        "gap": gap,
        "length": chart.length,
        "name": frame.astype(np.int64),
        "parent": (step << 1) ^ (step >> 63),
    }
    if chart.arguments.code is not None:
        columns["argument"] = chart.arguments.code.astype(np.int64) + 1
    if chart.count is not None:
        columns["count"] = chart.count
    blocks = {
        name: zlib.compress(encoded(np.ascontiguousarray(column, np.int64)), _LEVEL)
        for name, column in columns.items()
    }
    for number, counter in enumerate(chart.counters):
        step = np.diff(counter.time, prepend=np.int64(0)).astype(np.int64)
        blocks[f"counter{number}"] = zlib.compress(encoded(step), _LEVEL)
        blocks[f"value{number}"] = zlib.compress(counter.value.astype("<f8").tobytes(), _LEVEL)
    if chart.flows is not None:
        blocks["flows"] = zlib.compress(encoded(_flow_numbers(chart.flows)), _LEVEL)
    if chart.arguments.texts:
        texts = json.dumps(list(chart.arguments.texts), separators=(",", ":"))
        blocks["texts"] = zlib.compress(texts.encode(), _LEVEL)
    return blocks


def _flow_numbers(flows: Flows) -> Int64s:
    """Return the numbers of flows, five each: differences of time, and indices."""
    begin = flows.from_time.copy()
    begin[1:] -= flows.from_time[:-1]
    later = flows.to_time - flows.from_time
    name = np.unique(flows.name, return_inverse=True)[1]
    columns = [begin, flows.from_panel, (later << 1) ^ (later >> 63), flows.to_panel, name]
    return np.ascontiguousarray(np.stack(columns, axis=1).reshape(-1), np.int64)


def _subtitle(chart: Chart) -> str:
    threads = len({panel.quarks for panel in chart.panels if panel.kind in {"spans", "samples"}})
    counts = [
        (chart.represented("spans", "async"), "spans"),
        (chart.represented("samples"), "samples"),
        (chart.represented("instants"), "instants"),
        (len(chart.counters), "counters"),
        (0 if chart.flows is None else len(chart.flows.name), "flows"),
    ]
    found = ", ".join(f"{count:,} {noun}" for count, noun in counts if count) or "0 spans"
    on = f" on {threads:,} threads" if threads > 1 else ""
    return f"flame chart · {format_ns(chart.width)} · {found}{on}"


def _notes(chart: Chart) -> list[str]:
    notes = []
    if chart.merged_ns and chart.count is not None:
        short = int(chart.count[chart.count > 1].sum())
        spans = chart.represented("spans", "async")
        notes.append(
            f"{short:,} of {spans:,} spans, each shorter than {format_ns(chart.merged_ns)},"
            " are merged with their neighbours; a chart of a range (--from, --to) shows each."
        )
    if chart.represented("samples"):
        notes.append(
            "≈ Estimated from samples: a box begins at a sample of its stack and lasts until the"
            " next sample of another one, or until samples are missing."
        )
    if chart.arguments.left_out:
        notes.append(
            f"The arguments of {chart.arguments.left_out:,} spans are left out, as they are too"
            " large for a page; a chart of a range (--from, --to) has more of them."
        )
    return notes


def _tops(chart: Chart) -> tuple[list[float], float]:
    """Return the tops of the panels, and the bottom of the last."""
    top = float(_TOP_PX)
    tops = []
    for panel in chart.panels:
        top += _PANEL_TITLE_PX
        tops.append(top)
        top += panel.rows * _ROW_PX + _GAP_PX
    return tops, min(top, _MOST_HEIGHT_PX)


def _axis(chart: Chart, height: float) -> Iterator[str]:
    """Yield the ticks of the time axis, each with a vertical line."""
    start_ns = chart.origin_ns - chart.begin_ns
    base, marks = ticks(start_ns, start_ns + chart.width, 10)
    for index, mark in enumerate(marks):
        x = MARGIN_PX + (mark.time_ns - start_ns) * _ROOM_PX / max(1, chart.width)
        yield element(
            "path",
            {"class": "line", "d": f"M{px(x)} {_TOP_PX - 20}V{px(height)}", "stroke-width": 1},
        )
        label = f"{base} {mark.label}" if base and not index else mark.label
        yield element(
            "text",
            {"class": "muted", "x": x + 3, "y": _TOP_PX - 10, "font-size": _FONT_PX},
            text=label,
        )


def _boxes(chart: Chart, tops: Sequence[float], colors: NameColors) -> Iterator[str]:
    """Yield the boxes that are at least a pixel wide, above lines where narrower ones are."""
    scale = _ROOM_PX / max(1, chart.width)
    for panel, top in zip(chart.panels, tops, strict=True):
        if top >= _MOST_HEIGHT_PX:
            return
        yield element(
            "text",
            {"class": "ink", "x": MARGIN_PX, "y": top - 7, "font-weight": "600"},
            text=cut_to(panel.title, _ROOM_PX, 12),
        )
        yield _slivers(chart, panel, top, scale)
        part = slice(panel.first, panel.last)
        drawn = chart.length[part] * scale >= _LEAST_PX
        drawn &= top + (chart.row[part] + 1) * _ROW_PX <= _MOST_HEIGHT_PX
        for box in (np.flatnonzero(drawn) + panel.first).tolist():
            yield _box(chart, box, top, scale, colors)


def _box(chart: Chart, box: int, top: float, scale: float, colors: NameColors) -> str:
    name = chart.frames[chart.frame[box]]
    y = top + int(chart.row[box]) * _ROW_PX
    x, width = MARGIN_PX + int(chart.start[box]) * scale, int(chart.length[box]) * scale
    label = ""
    if width >= _LABEL_PX:
        label = element(
            "text",
            {"x": x + 3, "y": y + 12.5, "font-size": _FONT_PX, "fill": "#14161b"},
            text=cut_to(name + _label_value(chart, box), width - 6, _FONT_PX),
        )
    title = element("t", text=_title(chart, box, name))[3:-4]
    return (
        f'<g><title>{title}</title><rect x="{px(x)}" y="{px(y)}"'
        f' width="{px(max(0.5, width - 1))}" height="{_ROW_PX - 1}" fill="{colors[name]}"/>'
        f"{label}</g>\n"
    )


def _label_value(chart: Chart, box: int) -> str:
    """Return the value of the argument that labels have, to append it to a name."""
    if chart.label is None or chart.arguments.code is None or chart.arguments.code[box] < 0:
        return ""
    try:
        fields = json.loads(chart.arguments.texts[chart.arguments.code[box]])
    except ValueError:
        return ""
    if not isinstance(fields, dict) or chart.label not in fields:
        return ""
    value = fields[chart.label]
    return f" · {value if isinstance(value, str) else json.dumps(value)}"


def _title(chart: Chart, box: int, name: str) -> str:
    length, own = int(chart.length[box]), int(chart.own[box])
    text = f"{name} · {format_ns(length)} ({length / max(1, chart.width):.2%})"
    return text + (f", itself {format_ns(own)}" if own != length else "")


def _slivers(chart: Chart, panel: ChartPanel, top: float, scale: float) -> str:
    """Return a vertical line for each pixel of a row that contains boxes narrower than a pixel."""
    part = slice(panel.first, panel.last)
    narrow = chart.length[part] * scale < _LEAST_PX
    narrow &= top + (chart.row[part] + 1) * _ROW_PX <= _MOST_HEIGHT_PX
    pixel = (chart.start[part][narrow] * scale).astype(np.int64)
    has_any = np.zeros(panel.rows * _WIDTH_PX, np.bool_)
    has_any[chart.row[part][narrow].astype(np.int64) * _WIDTH_PX + pixel] = True
    at = np.flatnonzero(has_any)
    if not len(at):
        return ""
    strokes = "".join(
        f"M{MARGIN_PX + x}.5 {px(top + row * _ROW_PX)}v{_ROW_PX - 1}"
        for row, x in (divmod(each, _WIDTH_PX) for each in at.tolist())
    )
    return element("path", {"d": strokes, "stroke": _SLIVER, "fill": "none"}) + "\n"
