"""Statemaps drawn as pictures: a letter is a state, a dot is none.

>>> drawn = panel({"disk0": "aa.b", "disk1": "bbbb"}, step_ns=10)
>>> len(drawn.rectangles), drawn.end_ns, [state.name for state in drawn.states]
(3, 40, ['a', 'b'])
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meantime.model.anomalies import Anomalies
from meantime.views.statemap.data import (
    Clipped,
    Events,
    Rectangles,
    Statemap,
    StatemapPanel,
    StateRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Drawn", "panel", "panel_of", "statemap"]

Drawn: TypeAlias = "tuple[int, int, Mapping[int, int], Mapping[int, int]]"
"""A rectangle: start and end in ns, time in each state, time with each tag (both by index)."""

_COLORS = ("#2e8b57", "#ffd700", "#f9f9f9", "#c0c0f0", "#c70039", "#6aa0d4", "#000000", "#581845")


def statemap(
    *panels: StatemapPanel, sort_state: str | None = None, state_height_px: int = 10
) -> Statemap:
    """Return panels as one statemap."""
    return Statemap(tuple(panels), sort_state, state_height_px)


def panel(rows: Mapping[str, str], *, step_ns: int = 1, **facts: Any) -> StatemapPanel:
    """Return the panel of one picture for each row; a letter lasts `step_ns`.

    States are named by their letters and valued in the letters' order. `facts` are what
    `panel_of` takes.
    """
    letters = sorted({letter for picture in rows.values() for letter in picture} - {"."})
    start_ns = facts.get("start_ns", 0)
    drawn: list[list[Drawn]] = []
    for picture in rows.values():
        drawn.append([])
        time_ns = start_ns
        for letter, run in groupby(picture):
            length_ns = step_ns * len(list(run))
            if letter != ".":
                states = {letters.index(letter): length_ns}
                drawn[-1].append((time_ns, time_ns + length_ns, states, {}))
            time_ns += length_ns
    longest = max((len(picture) for picture in rows.values()), default=0)
    facts = {"end_ns": start_ns + step_ns * longest, "states": letters, **facts}
    return panel_of(dict(zip(rows, drawn, strict=True)), **facts)


def panel_of(
    rows: Mapping[str, Sequence[Drawn]], *, states: Sequence[str], end_ns: int, **facts: Any
) -> StatemapPanel:
    """Return the panel of rectangles given one by one.

    Args:
        rows: The rectangles of each row, in order of time.
        states: What the states are called.
        end_ns: Where the window ends.
        facts: Any other attribute of `StatemapPanel`; the defaults are those of a plain trace.
    """
    legend = tuple(
        StateRow(name, value, _COLORS[value % len(_COLORS)]) for value, name in enumerate(states)
    )
    rectangles = _rectangles(list(rows.values()))
    merged = int((np.diff(rectangles.state_offsets) > 1).sum())
    plain: dict[str, Any] = {
        "title": "",
        "host": None,
        "entity_kind": "Entity",
        "origin_ns": None,
        "start_ns": 0,
        "end_ns": end_ns,
        "offset_ns": 0,
        "aligned": True,
        "states": legend,
        "tags": (),
        "entities": list(rows),
        "descriptions": {},
        "rectangles": rectangles,
        "events": events([]),
        "intervals": len(rectangles) + merged,
        "coalesced": merged,
        "clipped": Clipped(0, 0, 0),
        "anomalies": Anomalies(),
    }
    return StatemapPanel(**{**plain, **facts})


def events(happened: Iterable[tuple[int, int, int, int]], names: Sequence[str] = ()) -> Events:
    """Return events given as (time, row, name, target or -1)."""
    table = np.array(list(happened), np.int64).reshape(-1, 4)
    row, name, target = (table[:, column].astype(np.int32) for column in (1, 2, 3))
    return Events(table[:, 0].copy(), row, name, target, names)


def _rectangles(rows: Sequence[Sequence[Drawn]]) -> Rectangles:
    flat = [drawn for row in rows for drawn in row]
    states = [sorted(drawn[2].items()) for drawn in flat]
    tags = [sorted(drawn[3].items()) for drawn in flat]
    return Rectangles(
        row_offsets=_offsets(rows),
        start_ns=np.array([drawn[0] for drawn in flat], np.int64),
        end_ns=np.array([drawn[1] for drawn in flat], np.int64),
        state_offsets=_offsets(states),
        state_index=np.array([state for held in states for state, _ in held], np.int32),
        state_ns=np.array([ns for held in states for _, ns in held], np.int64),
        tag_offsets=_offsets(tags),
        tag_index=np.array([tag for held in tags for tag, _ in held], np.int32),
        tag_ns=np.array([ns for held in tags for _, ns in held], np.int64),
    )


def _offsets(rows: Sequence[Sequence[object]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)
