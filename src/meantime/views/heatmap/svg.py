"""A heat map as SVG or HTML: a picture with its data, which its script turns into a page."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.views.heatmap.figure import LEFT_PX, RIGHT_PX, TOP_PX, facts
from meantime.views.heatmap.image import cells_png
from meantime.views.heatmap.packing import packed_cells, packed_stacks
from meantime.views.heatmap.palette import palette
from meantime.views.page import Page, header, lines
from meantime.views.svg import element

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.query.offsets import Finding, OffsetMap
    from meantime.views.heatmap.command import FlameCommand
    from meantime.views.heatmap.figure import Figure
    from meantime.views.heatmap.look import Look
    from meantime.views.heatmap.selection import Selection

__all__ = ["figure_page"]

_CUT = (
    "The cells have too many parts for this page to show what is in a selection: select a shorter"
    " range with --from and --to, or longer cells."
)
_LEGEND_PX = 260
_ENTRY_PX = 20
# The number of ramps in a page; further names reuse them from the second on.
_RAMPS = 7


def figure_page(
    figure: Figure,
    found: OffsetMap,
    selection: Selection,
    look: Look,
    *,
    findings: Sequence[Finding] = (),
    command: FlameCommand | None = None,
) -> Page:
    """Return the page of a figure, with the data of everything that it can show.

    Args:
        figure: The figure to draw.
        found: The whole map.
        selection: The initial selection.
        look: The initial colours.
        findings: The findings in the map.
        command: The command that draws flame graphs of the same samples, if there is one.
    """
    # without those of one input, a graph would show less than there is
    is_cut = any(source.is_cut for source in found.sources)
    stacks = None if found.stacks is None or is_cut else packed_stacks(found, found.stacks)
    traits = None if found.traits is None else packed_stacks(found, found.traits, "trait")
    head = _head(figure, found, selection, look)
    if is_cut:
        head["notes"].append(_CUT)
    width, height = figure.plot_px
    legend_px = _LEGEND_PX if figure.entries else 0
    tall = max(height, _ENTRY_PX * len(figure.entries))
    return Page(
        title=figure.title,
        width_px=max(LEFT_PX + width + legend_px, figure.key_px) + RIGHT_PX,
        height_px=TOP_PX + tall + 48 + 16 * len(figure.notes),
        picture=[part.encode() for part in _picture(figure, tall)],
        script="heatmap",
        head={
            **head,
            "findings": [_finding(each) for each in findings],
            "command": command and command.head(),
            "least": stacks and stacks.least,
            "least_trait": traits and traits.least,
            "holds": found.sources[0].kind if stacks else None,
        },
        blocks={
            "cells": packed_cells(found),
            **(stacks.blocks if stacks else {}),
            **(traits.blocks if traits else {}),
        },
    )


def _picture(figure: Figure, tall: int) -> Iterator[str]:
    width, height = figure.plot_px
    yield header(figure.title, figure.subtitle)
    yield (
        "<style>.night{display:none}@media (prefers-color-scheme:dark)"
        "{.day{display:none}.night{display:inline}}</style>"
    )
    for name, dark in (("day", False), ("night", True)):
        data = b64encode(cells_png(figure.colors(dark=dark))).decode()
        yield element(
            "image",
            {
                "class": name,
                "x": LEFT_PX,
                "y": TOP_PX,
                "width": width,
                "height": height,
                "preserveAspectRatio": "none",
                "style": "image-rendering:pixelated",
                "href": f"data:image/png;base64,{data}",
            },
        )
    yield from _key(figure)
    yield from _masked(figure)
    frame = {"x": LEFT_PX, "y": TOP_PX, "width": width, "height": height, "class": "frame"}
    yield element("rect", frame)
    for x, label in figure.times:
        yield _tick(LEFT_PX + x, TOP_PX + height, 0, 5)
        position = {"x": LEFT_PX + x, "y": TOP_PX + height + 19, "text-anchor": "middle"}
        yield element("text", {**position, "class": "muted"}, text=label)
    for y, label in figure.offsets:
        yield _tick(LEFT_PX, TOP_PX + y, -5, 0)
        position = {"x": LEFT_PX - 9, "y": TOP_PX + y + 4, "text-anchor": "end"}
        yield element("text", {**position, "class": "muted"}, text=label)
    for number, entry in enumerate(figure.entries):
        left, top = LEFT_PX + width + 20, TOP_PX + _ENTRY_PX * number
        for name, color in (("day", entry.color), ("night", entry.dark_color)):
            fill = f"#{bytes(color).hex()}"
            box = {"x": left, "y": top + 1, "width": 12, "height": 12, "rx": 2}
            yield element("rect", {**box, "class": name, "fill": fill})
        yield element("text", {"x": left + 20, "y": top + 11, "class": "ink"}, text=entry.name[:24])
        position = {"x": left + 232, "y": top + 11, "text-anchor": "end"}
        yield element("text", {**position, "class": "muted"}, text=entry.amount)
    yield lines(figure.notes, TOP_PX + tall + 36)


def _key(figure: Figure) -> Iterator[str]:
    """Draw the key of the colours, from the right edge of the plot to the left."""
    right = figure.key_px
    for key in reversed(figure.key):
        position = {"x": right, "y": TOP_PX - 18, "text-anchor": "end", "class": "muted"}
        yield element("text", position, text=key.amount)
        right -= 8 * len(key.amount) + 18
        for name, color in (("day", key.color), ("night", key.dark_color)):
            box = {"x": right, "y": TOP_PX - 28, "width": 12, "height": 12, "rx": 2}
            fill = f"#{bytes(color).hex()}"
            yield element("rect", {**box, "class": f"{name} swatch", "fill": fill})
        right -= 10


def _tick(x: float, y: float, dx: int, dy: int) -> str:
    return element("path", {"class": "frame", "d": f"M{x:.2f} {y:.2f}l{dx} {dy}"})


def _masked(figure: Figure) -> Iterator[str]:
    """Cover unrecorded cells, and hatch both these and cells with losses."""
    width, height = figure.plot_px
    yield (
        '<pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M2 0v8" stroke-width="2"/></pattern>'
    )
    step_px, row_px = width / figure.grid.width, height / figure.grid.fold.rows
    for mask, covers in ((figure.unrecorded, True), (figure.lost, False)):
        shape = _outline(mask, step_px, row_px, height)
        if shape and covers:
            yield element("path", {"class": "none", "d": shape})
        if shape:
            yield element("path", {"fill": "url(#hatch)", "d": shape})
    if shape := _outline(figure.repeated, step_px, row_px, height):
        yield element("path", {"class": "twice", "d": shape})


def _outline(mask: npt.NDArray[np.bool_], step_px: float, row_px: float, height: float) -> str:
    """Return a path over the cells of a mask: a rectangle for each run in each distinct column."""
    parts = []
    busy = np.flatnonzero(mask.any(axis=1))
    while len(busy):
        column = int(busy[0])
        same = column
        while same + 1 < len(mask) and (mask[same + 1] == mask[column]).all():
            same += 1
        edges = np.flatnonzero(np.diff(mask[column].astype(np.int8), prepend=0, append=0))
        for low, high in edges.reshape(-1, 2).tolist():
            x, y = LEFT_PX + column * step_px, TOP_PX + height - high * row_px
            wide, tall = (same + 1 - column) * step_px, (high - low) * row_px
            parts.append(f"M{x:.2f} {y:.2f}h{wide:.2f}v{tall:.2f}h{-wide:.2f}z")
        busy = busy[busy > same]
    return "".join(parts)


def _head(figure: Figure, found: OffsetMap, selection: Selection, look: Look) -> dict[str, Any]:
    first, last = found.columns
    several = palette(look.palette, figure.scales.rest, maps=2, hues=look.hues)
    alone = palette(look.palette, figure.scales.rest, hues=look.hues)
    return {
        "title": figure.title,
        "subtitle": figure.subtitle,
        # times are texts: JavaScript numbers are exact only to 2^53
        "origin_ns": str(found.fold.edge_ns(first)),
        "utc_ns": None if found.utc_at_zero_ns is None else str(found.utc_at_zero_ns),
        "begin_ns": str(found.begin_ns),
        "bounds": [str(edge) for edge in _bounds(found)],
        "period_ns": str(found.fold.period_ns),
        "rows": found.fold.rows,
        "y": _rows(found),
        "samples": any(source.kind == "samples" for source in found.sources),
        "columns": last - first + 1,
        "value": found.value,
        "names": list(found.by) or [""],
        "selected": list(selection.names),
        "mode": selection.mode,
        "hidden": list(selection.hidden),
        "method": look.method if look.largest is None else "linear",
        "lock": look.lock,
        "largest": look.largest,
        "least_strength": look.least,
        "runs": [[begin - first, count] for begin, count in figure.grid.runs],
        "recorded": _ranges(found, found.recorded),
        "lost": _ranges(found, found.lost),
        "repeated": _ranges(found, found.repeated),
        "zone": _zone(found),
        "cloud": look.is_cloud,
        "palette": {
            shade: {
                "empty": list(several.empty(dark=dark)),
                "alone": _base64(alone.ramp(0, dark=dark)),
                "ramps": [_base64(several.ramp(index, dark=dark)) for index in range(_RAMPS)],
            }
            for shade, dark in (("light", False), ("dark", True))
        },
        "notes": facts(found) + found.anomalies.lines(),
    }


def _rows(found: OffsetMap) -> dict[str, Any] | None:
    """Return what rows are, if they are not offsets; edges are texts, as times are."""
    axis = found.fold.axis
    if axis is None:
        return None
    listed = axis.document()
    if axis.unit == "ns":
        listed["edges"] = list(map(str, axis.edges))
    return listed


def _bounds(found: OffsetMap) -> tuple[int, int]:
    """Return from when to when something was recorded."""
    recorded = found.recorded
    return (recorded[0][0], recorded[-1][1]) if recorded else (0, 0)


def _zone(found: OffsetMap) -> dict[str, Any] | None:
    """Return the zone of a map's times, and by how much these are ahead of the trace's own."""
    calendar = found.fold.calendar
    if calendar is None:
        return None
    edges = [edge for each in found.recorded for edge in each] or [0]
    return calendar.offsets(min(edges), max(edges)).document()


def _finding(finding: Finding) -> dict[str, Any]:
    """Return a finding, with what a click on it selects."""
    names = finding.names or tuple(filter(None, (finding.name,)))
    return {
        "kind": finding.kind,
        "text": finding.sentence,
        "names": [*names, *filter(None, (finding.other,))],
        "rows": finding.rows,
        "span_ns": None if finding.span_ns is None else [str(edge) for edge in finding.span_ns],
    }


def _ranges(found: OffsetMap, ranges: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """Return ranges of time as ranges of cells, [first, last], from the first column."""
    base = found.columns[0] * found.fold.rows
    return [[first - base, last - base] for first, last in found.cells_of(ranges)]


def _base64(colors: npt.NDArray[np.uint8]) -> str:
    return b64encode(colors.tobytes()).decode()
