"""The instants of a history on the rows of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.views.statemap.data import Events

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.model.columns import Int32s
    from meantime.views.statemap.panel_source import PanelSource
    from meantime.views.statemap.window import Window

__all__ = ["events", "without_row"]


def events(history: History, row_of_quark: Int32s, window: Window, most: int) -> tuple[Events, int]:
    """Return the events in a window on attributes that have a row, and how many are left out.

    Events are in order of time. An arrow is drawn at its start; one to an entity without a row is
    an instant. Events cannot be merged, so if there are more than `most` all are left out.
    """
    points, flows = history.points(), history.flows()
    time_ns = np.concatenate([points.time_ns, flows.from_ns])
    row = row_of_quark[np.concatenate([points.quark, flows.from_quark])]
    target = np.concatenate([np.full(len(points), -1, np.int32), row_of_quark[flows.to_quark]])
    code = np.concatenate([points.name.codes, flows.name.codes])
    kept = np.flatnonzero((row >= 0) & (time_ns >= window.start_ns) & (time_ns < window.end_ns))
    left_out = len(kept) if len(kept) > most else 0
    kept = kept[:0] if left_out else kept
    kept = kept[np.argsort(time_ns[kept], kind="stable")]
    used, name = np.unique(code[kept], return_inverse=True)
    names = [points.name.names[number] for number in used.tolist()]
    found = Events(time_ns[kept], row[kept], name.astype(np.int32), target[kept], names)
    return found, left_out


def without_row(sources: list[PanelSource]) -> tuple[int, int]:
    """Return how many events of one history, and how many of their targets, have no row."""
    history = sources[0].history
    known = np.zeros(len(history.attributes), np.bool_)
    for source in sources:
        known[source.owners] = True
        known[source.absent] = True
        known[source.filtered] = True
    flows = history.flows()
    drawn = known[flows.from_quark]
    alone = np.count_nonzero(~known[history.points().quark])
    return int(alone + np.count_nonzero(~drawn)), int(
        np.count_nonzero(drawn & ~known[flows.to_quark])
    )
