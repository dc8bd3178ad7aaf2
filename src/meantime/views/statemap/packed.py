"""A statemap's data as the page's script reads it: names as JSON, rectangles as bytes.

Times are written as text or as varints, since a JSON number is exact only to 2^53.
"""

from __future__ import annotations

import re
import zlib
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels import text as kernel
from meantime.kernels.varints import encoded
from meantime.model.natural_order import natural_order
from meantime.model.state_classes import is_quiet, rank
from meantime.views.page import PIECE_BYTES
from meantime.views.statemap import captions
from meantime.views.statemap.data import Rectangles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.columns import Int64s
    from meantime.views.statemap.data import Events, SharedRows, Statemap, StatemapPanel

__all__ = ["blocks", "head"]

_MAX_SAFE_INTEGER = 2**53 - 1
_LEVEL = 1
# A number that a double has exactly, and as JavaScript prints it.
_ID = re.compile(r"0|[1-9][0-9]{0,14}")


def head(statemap: Statemap) -> dict[str, Any]:
    """Return everything except the rectangles and the events."""
    return {
        "title": captions.title(statemap),
        "subtitle": captions.subtitle(statemap),
        "footer": captions.footer(statemap),
        "sort": statemap.sort_state,
        "rowHeight": statemap.state_height_px,
        "commands": statemap.commands and statemap.commands._asdict(),
        "zone": _zone(statemap),
        "panels": [_panel_head(statemap, panel) for panel in statemap.panels],
    }


def _zone(statemap: Statemap) -> dict[str, Any] | None:
    """Return the zone and by how much it is ahead of UTC, from when to when."""
    offsets = statemap.offsets
    return None if offsets is None else offsets.document()


def _panel_head(statemap: Statemap, panel: StatemapPanel) -> dict[str, Any]:
    rectangles, shared = panel.rectangles, panel.shared
    return {
        "title": captions.panel_title(statemap, panel),
        "label": panel.label,
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
        "byName": None if statemap.sort_state is None else natural_order(panel.entities),
        "descriptions": panel.descriptions,
        "intervals": panel.intervals,
        "rectangles": len(rectangles),
        "stateEntries": len(rectangles.state_index),
        "tagEntries": rectangles.tag_entries,
        "events": len(panel.events),
        "eventNames": list(panel.events.names),
        "existence": panel.existence,
        "existed": {
            row: [str(time_ns - panel.start_ns) for time_ns in when]
            for row, when in panel.existed.items()
        },
        # one without entities is false
        "shared": None
        if shared is None
        else {
            "count": len(shared),
            "sites": list(shared.sites),
            "site": shared.site.tolist(),
        },
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


def blocks(statemap: Statemap) -> dict[str, bytes | Iterator[bytes]]:
    """Return the rectangles and the events of each panel, as `p0`, `e0`, `p1` and so on.

    The entities of shared rows are deflated: `s0` has the number of each row, then the time from
    one to the next, or from the window's start, as varints; `n0` has their names, or if these are
    numbers `i0` has the steps from one to the next, as varints of which odd ones are negative.
    """
    packed: dict[str, bytes | Iterator[bytes]] = {}
    for number, panel in enumerate(statemap.panels):
        held = panel.rectangles
        where = held.row_offsets, held.start_ns, held.end_ns
        if isinstance(held, Rectangles):
            states = held.state_offsets, held.state_index, held.state_ns
            tags = held.tag_offsets, held.tag_index, held.tag_ns
            records = kernel.Records(*where, *states, *tags, panel.start_ns, PIECE_BYTES)
        else:
            records = kernel.Records(
                *where,
                None,
                held.state_index,
                None,
                None,
                held.tag_index,
                None,
                panel.start_ns,
                PIECE_BYTES,
            )
        packed[f"p{number}"] = records
        if panel.shared is not None:
            packed |= _shared_blocks(panel.shared, number, panel.start_ns)
        if len(panel.events):
            packed[f"e{number}"] = _events(panel.events, panel.start_ns)
    return packed


def _shared_blocks(shared: SharedRows, number: int, start_ns: int) -> dict[str, bytes]:
    since_ns = np.diff(shared.start_ns, prepend=start_ns)
    first = shared.row_offsets[:-1][np.diff(shared.row_offsets) > 0]
    since_ns[first] = shared.start_ns[first] - start_ns
    numbers = np.concatenate([np.diff(shared.row_offsets), since_ns])
    ids = _ids(shared.names)
    if ids is None:
        names = "\0".join(name.replace("\0", " ") for name in shared.names)
        named = names.encode("utf-8", "replace")
    else:
        step = np.diff(ids, prepend=0)
        named = encoded(np.where(step < 0, -2 * step - 1, 2 * step))
    return {
        f"s{number}": zlib.compress(encoded(numbers), _LEVEL),
        f"{'n' if ids is None else 'i'}{number}": zlib.compress(named, _LEVEL),
    }


def _ids(names: Sequence[str]) -> Int64s | None:
    """Return names that all are plain numbers as numbers."""
    if not names or not all(map(_ID.fullmatch, names)):
        return None
    return np.array(names).astype(np.int64)


def _events(events: Events, start_ns: int) -> bytes:
    """Return deflated varints: times, each since the one before, rows, names, targets plus 1."""
    since_ns = np.diff(events.time_ns, prepend=start_ns)
    numbers = np.concatenate([since_ns, events.row, events.name, events.target + 1])
    return zlib.compress(encoded(numbers.astype(np.int64)), _LEVEL)
