"""A statemap as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from meantime.model.anomalies import Anomalies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.columns import Int32s, Int64s
    from meantime.views.statemap.data import SharedRows, Statemap, StatemapPanel

__all__ = ["render"]


def render(statemap: Statemap) -> bytes:
    """Return the document, in UTF-8; the same statemap gives the same bytes.

    The reference documents it under "JSON output". Every entity has a row, even if it is empty.
    """
    anomalies = Anomalies()
    for panel in statemap.panels:
        anomalies.update(panel.anomalies)
    maps = ",\n".join(map(_map, statemap.panels))
    return f'{{"maps": [\n{maps}\n],\n"anomalies": {_json(dict(anomalies))}}}\n'.encode()


def _json(value: object) -> str:
    return json.dumps(value)


def _map(panel: StatemapPanel) -> str:
    head = {
        "title": panel.name,
        "host": panel.host,
        "entity_kind": panel.entity_kind,
        "origin_ns": panel.origin_ns,
        "start_ns": panel.start_ns,
        "end_ns": panel.end_ns,
        "states": [
            {"name": state.name, "value": state.value, "color": state.color}
            for state in panel.states
        ],
        "tags": list(panel.tags),
        "rectangles": len(panel.rectangles),
        "coalesced": panel.coalesced,
        "clipped": {
            "before": panel.clipped.before,
            "after": panel.clipped.after,
            "filtered": panel.clipped.filtered,
        },
        "events": list(_events(panel)),
    }
    rows = ",\n".join(_rows(panel))
    return f'{_json(head)[:-1]}, "rows": [\n{rows}\n]}}'


def _events(panel: StatemapPanel) -> Iterator[dict[str, object]]:
    events = panel.events
    columns = (events.time_ns, events.row, events.name, events.target)
    for time_ns, row, name, target in zip(*(column.tolist() for column in columns), strict=True):
        yield {
            "time_ns": time_ns,
            "entity": panel.entities[row],
            "event": events.names[name],
            "target": None if target < 0 else panel.entities[target],
        }


def _rows(panel: StatemapPanel) -> Iterator[str]:
    offsets = panel.rectangles.row_offsets.tolist()
    rectangles = list(_rectangles(panel))
    for row, entity in enumerate(panel.entities):
        head = _json(
            {
                "entity": entity,
                "description": panel.descriptions.get(row),
                **({} if panel.shared is None else {"entities": _entities(panel.shared, row)}),
            }
        )
        held = ",\n".join(rectangles[offsets[row] : offsets[row + 1]])
        yield f'{head[:-1]}, "rects": [{held}]}}'


def _entities(shared: SharedRows, row: int) -> list[dict[str, object]]:
    part = slice(*shared.row_offsets[row : row + 2].tolist())
    times_ns = shared.start_ns[part].tolist()
    return [
        {"name": name, "start_ns": start_ns}
        for name, start_ns in zip(shared.names[part], times_ns, strict=True)
    ]


def _rectangles(panel: StatemapPanel) -> Iterator[str]:
    # Text is joined here: creating an object for each rectangle takes ten times as long.
    held = panel.rectangles.with_times()
    states = _times([_json(state.name) for state in panel.states], held.state_index, held.state_ns)
    tags = _times([f'"{tag}"' for tag in range(len(panel.tags))], held.tag_index, held.tag_ns)
    state_offsets, tag_offsets = held.state_offsets.tolist(), held.tag_offsets.tolist()
    times = zip(held.start_ns.tolist(), held.end_ns.tolist(), strict=True)
    for number, (start_ns, end_ns) in enumerate(times):
        in_states = ", ".join(states[state_offsets[number] : state_offsets[number + 1]])
        in_tags = ", ".join(tags[tag_offsets[number] : tag_offsets[number + 1]])
        yield (
            f'{{"start_ns": {start_ns}, "end_ns": {end_ns}, "states": {{{in_states}}},'
            f' "tags": {{{in_tags}}}}}'
        )


def _times(names: list[str], index: Int32s, ns: Int64s) -> list[str]:
    return [
        f"{names[held]}: {held_ns}"
        for held, held_ns in zip(index.tolist(), ns.tolist(), strict=True)
    ]
