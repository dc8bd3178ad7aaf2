"""A statemap as one SVG file: the picture, and the data and script that make it interactive.

Above `_MOST_HEIGHT_PX` rows there are fewer pixels than rows, and adjacent rows share a band.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.views.axis import Tick, ticks, wall_ticks
from meantime.views.page import MARGIN_PX, Page, header, lines
from meantime.views.statemap import captions, packed
from meantime.views.statemap.row_images import BAND_PX
from meantime.views.statemap.strips import strips
from meantime.views.svg import cut_to, element, px, width_px, without_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.views.statemap.data import Statemap, StatemapPanel, StateRow

__all__ = ["parts", "render"]

_WIDTH_PX = 1280
_HEADER_PX = 68
_AXIS_PX = 24
_GAP_PX = 14
_LEGEND_LINE_PX = 22
_PANEL_TITLE_PX = 26
_MOST_HEIGHT_PX = 4000
_MOST_LABEL_PX = 210
# So many rectangles are likely to be in all states, so that the others need not be looked at.
_SOME = 1 << 16
# A legend of more names is not read.
_MOST_STATES = 40
_EVENT_APART_PX = 4  # closer together, on average, they hide the states


def render(statemap: Statemap) -> bytes:
    """Return the file; the same statemap gives the same bytes."""
    return b"".join(parts(statemap))


def parts(statemap: Statemap) -> Iterator[bytes]:
    """Return the file in parts, which are made while they are written."""
    layout = _Layout.of(statemap)
    picture = [header(captions.title(statemap), captions.subtitle(statemap)).encode(), _HATCH]
    top = float(_HEADER_PX)
    last_states: tuple[StateRow, ...] | None = None
    for number, panel in enumerate(statemap.panels):
        if panel.states != last_states:
            markup, height = _legend(*_occurring(statemap.panels[number:]), top)
            picture.append(markup.encode())
            top += height
            last_states = panel.states
        if len(statemap.panels) > 1:
            text = cut_to(captions.panel_title(statemap, panel), _WIDTH_PX - 2 * MARGIN_PX, 12)
            position = {"class": "ink", "x": MARGIN_PX, "y": top + 17, "font-weight": "600"}
            picture.append(element("text", position, text=text).encode())
            top += _PANEL_TITLE_PX
        if number == 0 or layout.map_px(panel) > 300:
            picture.append(_axis(statemap, layout, top).encode())
            top += _AXIS_PX
        picture += _map(panel, layout, top)
        top += layout.map_px(panel) + _GAP_PX
    notes = captions.footer(statemap)
    picture.append(lines(notes, top).encode())
    return Page(
        title=captions.title(statemap),
        width_px=_WIDTH_PX,
        height_px=top + 16 * len(notes) + _GAP_PX,
        picture=picture,
        script="statemap",
        head=packed.head(statemap),
        blocks=packed.blocks(statemap),
    ).parts()


_HATCH = (
    b'<defs><pattern id="none" width="6" height="6" patternUnits="userSpaceOnUse">'
    b'<rect class="none" width="6" height="6"/><path class="hatch" d="M-1 7l8-8"/>'
    b"</pattern></defs>\n"
)


class _Layout(NamedTuple):
    """Positions and sizes; all panels have one scale.

    Attributes:
        row_px: The height of a row.
        rows_a_band: How many rows share a band; 1 unless a row is under a pixel.
        left_px: Where the strips begin.
        label_px: The size of row labels; 0 if there are no rows.
    """

    row_px: float
    rows_a_band: int
    left_px: int
    label_px: float

    @classmethod
    def of(cls, statemap: Statemap) -> _Layout:
        rows = sum(len(panel.entities) for panel in statemap.panels)
        row_px = float(statemap.state_height_px or 10)
        row_px = min(row_px, max(1.0, _MOST_HEIGHT_PX // max(rows, 1)))
        rows_a_band = -(-rows * BAND_PX // _MOST_HEIGHT_PX) if rows > _MOST_HEIGHT_PX else 1
        if rows_a_band > 1:
            row_px = BAND_PX / rows_a_band
        label_px = max(8.0, min(11.0, row_px - 1))
        every = cls.label_every(row_px, label_px)
        widest = max(
            (
                width_px(name[:80], label_px)
                for panel in statemap.panels
                for name in panel.entities[::every]
            ),
            default=0.0,
        )
        left_px = MARGIN_PX + int(min(_MOST_LABEL_PX, max(16.0, widest))) + 8
        return cls(row_px, rows_a_band, left_px, label_px)

    @staticmethod
    def label_every(row_px: float, label_px: float) -> int:
        return max(1, -(-int(1000 * (label_px + 1)) // int(1000 * row_px)))

    @property
    def strip_px(self) -> int:
        return _WIDTH_PX - MARGIN_PX - self.left_px

    def map_px(self, panel: StatemapPanel) -> float:
        return len(panel.entities) * self.row_px

    def x(self, panel: StatemapPanel, time_ns: int) -> float:
        # a window may be empty
        ratio = (time_ns - panel.start_ns) / max(1, panel.end_ns - panel.start_ns)
        return self.left_px + self.strip_px * ratio


def _occurring(panels: Sequence[StatemapPanel]) -> tuple[list[StateRow], int]:
    """Return the states in the panels that share the legend of the first, and how many others.

    Of very many, those with the most time.
    """
    states = panels[0].states
    sharing = takewhile(lambda panel: panel.states == states, panels)
    if len(states) > _MOST_STATES:
        total_ns = np.zeros(len(states))
        for panel in sharing:
            columns = panel.rectangles.with_times()
            total_ns += np.bincount(columns.state_index, columns.state_ns, len(states))
        longest = np.argsort(-total_ns, kind="stable")[:_MOST_STATES]
        shown = np.sort(longest[total_ns[longest] > 0]).tolist()
        return [states[index] for index in shown], int((total_ns > 0).sum()) - len(shown)
    occur = np.zeros(len(states), np.bool_)
    for panel in sharing:
        index = panel.rectangles.state_index
        for first in range(0, len(index), _SOME):
            occur[index[first : first + _SOME]] = True
            if occur.all():
                break
    return [states[index] for index in np.flatnonzero(occur).tolist()], 0


def _legend(states: Sequence[StateRow], others: int, top: float) -> tuple[str, float]:
    parts: list[str] = []
    x, y = float(MARGIN_PX), top
    for state in states:
        name = cut_to(state.name, 300, 12)
        width = 18 + width_px(name, 12) + 18
        if x + width > _WIDTH_PX - MARGIN_PX and x > MARGIN_PX:
            x, y = float(MARGIN_PX), y + _LEGEND_LINE_PX
        box = {"class": "swatch", "x": x + 0.5, "y": y + 0.5, "width": 12, "height": 12, "rx": 2}
        parts.append(element("rect", {**box, "fill": state.color}))
        parts.append(element("text", {"class": "ink", "x": x + 18, "y": y + 10.5}, text=name))
        x += width
    if others:
        text = f"and {others:,} others"
        if x + width_px(text, 12) > _WIDTH_PX - MARGIN_PX:
            x, y = float(MARGIN_PX), y + _LEGEND_LINE_PX
        parts.append(element("text", {"class": "muted", "x": x, "y": y + 10.5}, text=text))
    return "".join(parts) + "\n", y - top + _LEGEND_LINE_PX + 4


def _axis(statemap: Statemap, layout: _Layout, top: float) -> str:
    panel = statemap.panels[0]
    if statemap.clock is None:
        zero_ns = panel.begin_ns
        base, marks = ticks(panel.start_ns - zero_ns, panel.end_ns - zero_ns, 10)
    else:
        utc_ns, offsets = statemap.clock
        zero_ns = -utc_ns
        base, marks = wall_ticks(panel.start_ns + utc_ns, panel.end_ns + utc_ns, 10, offsets)
    marks = [Tick(mark.time_ns + zero_ns, mark.label) for mark in marks]
    style = {"class": "muted", "y": top + 14, "font-size": 11}
    parts: list[str] = []
    if base:
        parts.append(
            element("text", {**style, "x": layout.left_px - 8, "text-anchor": "end"}, text=base)
        )
    grid = "".join(f"M{px(layout.x(panel, mark.time_ns))} {px(top + 19)}v5" for mark in marks)
    parts.append(element("path", {"class": "frame", "d": grid}))
    for mark in marks:
        x = layout.x(panel, mark.time_ns)
        half = width_px(mark.label, 11) / 2
        x = min(x, _WIDTH_PX - 4 - half)
        parts.append(element("text", {**style, "x": x, "text-anchor": "middle"}, text=mark.label))
    return "".join(parts) + "\n"


def _map(panel: StatemapPanel, layout: _Layout, top: float) -> Iterator[bytes]:
    height = layout.map_px(panel)
    if not panel.entities:
        return
    strip = {"x": layout.left_px, "y": top, "width": layout.strip_px, "height": height}
    yield element("rect", {**strip, "fill": "url(#none)"}).encode()
    yield _labels(panel, layout, top).encode()
    yield from strips(
        panel,
        left_px=layout.left_px,
        top_px=top,
        width_px=layout.strip_px,
        row_px=layout.row_px,
        banded=layout.rows_a_band,
    )
    yield element("rect", {**strip, "class": "frame"}).encode()
    if 0 < len(panel.events) * _EVENT_APART_PX <= layout.strip_px:
        yield _events(panel, layout, top).encode()


def _labels(panel: StatemapPanel, layout: _Layout, top: float) -> str:
    every = layout.label_every(layout.row_px, layout.label_px)
    middle = top + layout.row_px / 2 + layout.label_px * 0.36
    style = {"class": "ink", "font-size": layout.label_px, "text-anchor": "end"}
    names = panel.entities
    # names that are too long lose what all begin with before they lose their middle
    if any(width_px(name, layout.label_px) > _MOST_LABEL_PX for name in names[::every]):
        names = without_prefix(names)
    return element(
        "g",
        style,
        inner="".join(
            element(
                "text",
                {"x": layout.left_px - 6, "y": middle + row * layout.row_px},
                text=cut_to(names[row], _MOST_LABEL_PX, layout.label_px),
            )
            for row in range(0, len(panel.entities), every)
        ),
    )


def _events(panel: StatemapPanel, layout: _Layout, top: float) -> str:
    """Return a tick for each event, and an arrow to its target's row."""
    marks: list[str] = []
    heads: list[str] = []
    for time_ns, row, target in zip(
        panel.events.time_ns.tolist(),
        panel.events.row.tolist(),
        panel.events.target.tolist(),
        strict=True,
    ):
        x = px(layout.x(panel, time_ns))
        y = top + row * layout.row_px
        marks.append(f"M{x} {px(y)}v{px(layout.row_px)}")
        if target >= 0 and target != row:
            down = target > row
            tip = top + target * layout.row_px + (0 if down else layout.row_px)
            marks.append(f"M{x} {px(y + layout.row_px / 2)}V{px(tip)}")
            heads.append(f"M{x} {px(tip)}l-3 {-5 if down else 5}h6z")
    line = "".join(marks)
    return (
        element(
            "path",
            {
                "d": line,
                "fill": "none",
                "stroke": "#fff",
                "stroke-opacity": "0.6",
                "stroke-width": 2.5,
            },
        )
        + element("path", {"d": line, "fill": "none", "stroke": "#1b1f24"})
        + element("path", {"d": "".join(heads), "fill": "#1b1f24"})
    )
