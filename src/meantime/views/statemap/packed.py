"""A statemap's data as the page's script reads it: names as JSON, rectangles as bytes.

Times are written as text or as varints, since a JSON number is exact only to 2^53.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels import text as kernel
from meantime.views.state_classes import is_quiet, rank
from meantime.views.statemap import captions
from meantime.views.statemap.rows import natural_order

if TYPE_CHECKING:
    from meantime.views.statemap.data import Events, Statemap, StatemapPanel

__all__ = ["blocks", "head"]

_MAX_SAFE_INTEGER = 2**53 - 1


def head(statemap: Statemap) -> dict[str, Any]:
    """Return everything except the rectangles and the events."""
    return {
        "title": captions.title(statemap),
        "subtitle": captions.subtitle(statemap),
        "footer": captions.footer(statemap),
        "sort": statemap.sort_state,
        "rowHeight": statemap.state_height_px,
        "commands": statemap.commands and statemap.commands._asdict(),
        "panels": [_panel_head(panel, statemap.sort_state is None) for panel in statemap.panels],
    }


def _panel_head(panel: StatemapPanel, given_by_name: bool) -> dict[str, Any]:  # noqa: FBT001 - one caller
    rectangles = panel.rectangles
    return {
        "title": captions.panel_title(panel),
        "kind": panel.entity_kind,
        "origin": None if panel.origin_ns is None else str(panel.origin_ns + panel.begin_ns),
        "start": str(panel.start_ns - panel.begin_ns),
        "end": str(panel.end_ns - panel.begin_ns),
        "states": [
            {
                "name": state.name,
                "value": state.value,
                "color": state.color,
                "dark": state.dark,
                "rank": rank(state.name),
                "quiet": is_quiet(state.name),
            }
            for state in panel.states
        ],
        "tags": [_exact(tag) for tag in panel.tags],
        "entities": list(panel.entities),
        "byName": None if given_by_name else natural_order(panel.entities),
        "descriptions": panel.descriptions,
        "intervals": panel.intervals,
        "rectangles": len(rectangles),
        "stateEntries": len(rectangles.state_index),
        "tagEntries": len(rectangles.tag_index),
        "events": len(panel.events),
        "eventNames": list(panel.events.names),
    }


def _exact(value: Any) -> Any:
    """Return a JSON value in which integers that are too large for JavaScript are text."""
    if isinstance(value, dict):
        return {key: _exact(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_exact(held) for held in value]
    if isinstance(value, int) and abs(value) > _MAX_SAFE_INTEGER:
        return str(value)
    # JSON has neither NaN nor infinities
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def blocks(statemap: Statemap) -> dict[str, bytes]:
    """Return the rectangles and the events of each panel, as `p0`, `e0`, `p1` and so on."""
    packed: dict[str, bytes] = {}
    for number, panel in enumerate(statemap.panels):
        held = panel.rectangles
        packed[f"p{number}"] = kernel.records(
            held.row_offsets,
            held.start_ns,
            held.end_ns,
            held.state_offsets,
            held.state_index,
            held.state_ns,
            held.tag_offsets,
            held.tag_index,
            held.tag_ns,
            held.fill,
            panel.start_ns,
        )
        if len(panel.events):
            packed[f"e{number}"] = _events(panel.events, panel.start_ns)
    return packed


def _events(events: Events, start_ns: int) -> bytes:
    """Return columns, one after the other: times from the window's start, rows, names, targets."""
    return b"".join(
        np.ascontiguousarray(column, dtype=dtype).tobytes()
        for column, dtype in (
            (events.time_ns - start_ns, "<i8"),
            (events.row, "<i4"),
            (events.name, "<i4"),
            (events.target, "<i4"),
        )
    )
