"""SVGs of the original statemap: its script has the states of each entity as literals.

What several states share has a share of each, with three digits.
Definition: `output_svg` in the program's src/statemap.rs.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.model.attributes import format_path
from meantime.model.clocks import Clock
from meantime.model.columns import Interner
from meantime.model.metadata import LaneDeclaration
from meantime.readers.picture.states import Rectangles, changes, state_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace

__all__ = ["batches"]

_MAP = re.compile(r"g_statemaps\[\d+\] = \{(.*?)\]\]></script>", re.DOTALL)
_GLOBALS = re.compile(r"var globals = \{(.*?)\n\}", re.DOTALL)
_DATUM = re.compile(
    r'\{ "?t"?: (?P<time>\d{1,19}), "?s"?: (?:(?P<state>\d{1,9})|\{(?P<shares>[^{}]*)\})'
    r"(?:, g: \{(?P<tags>[^{}]*)\})?\s*\}"
    r'|^,?"(?P<entity>[^\n]*)": \[$',
    re.MULTILINE,
)
_SHARE = re.compile(r"'(\d{1,9})': (\d(?:\.\d{1,9})?)")
_DESCRIPTION = re.compile(r'^ *,? "([^\n]*)": \{ description: "([^\n]*)" \}$', re.MULTILINE)
_TAGS = "\n, tags: ["
_NS = 10**9


def batches(data: bytes, trace: Trace, *, lenient: bool) -> Iterator[Batch]:  # noqa: ARG001 - as the others
    """Yield what is in a picture.

    Raises:
        ValueError: If it is malformed.
    """
    text = data.decode("utf-8", "replace")
    found = _GLOBALS.search(text)
    if found is None:
        raise ValueError("there are no globals")
    settings = found[1]
    begin_ns, width_ns = _value(settings, "begin"), _value(settings, "timeWidth")
    start = _value(settings, "start") or []
    if len(start) == 2 and any(start):
        trace.clock = Clock(utc_at_origin_ns=int(start[0]) * _NS + int(start[1]))
    end_ns = int(begin_ns) + int(width_ns)
    values = Interner(trace.values)
    maps = [each[1] for each in _MAP.finditer(text)]
    for number, part in enumerate(maps):
        title = str(_value(part, "title") or "")
        above = () if len(maps) == 1 else (f"{title or 'map'} {number + 1}",)
        trace.title = trace.title or title or None
        states = state_table(_value(part, "states"))
        codes = np.array([values.code(state.name) for state in states], np.int32)
        trace.lanes.append(
            LaneDeclaration(
                f"{format_path(above)}/*" if above else "*",
                entity_kind=str(_value(part, "entityKind") or "Entity"),
                states=states,
            )
        )
        offset_ns = int(_value(part, "offset") or 0)
        rectangles = _rectangles(part, trace, above, end_ns + offset_ns)
        for name, description in _DESCRIPTION.findall(part):
            trace.descriptions[trace.paths.code((*above, name))] = description
        trace.records += len(rectangles)
        yield changes(rectangles, codes)
    trace.bounds = int(begin_ns), max(end_ns, int(begin_ns) + 1)


def _value(text: str, key: str) -> Any:
    """Return the value of a key in JSON, the first; None if there is none."""
    mark = f'"{key}": '
    at = text.find(mark)
    return None if at < 0 else json.JSONDecoder().raw_decode(text, at + len(mark))[0]


def _rectangles(part: str, trace: Trace, above: tuple[str, ...], end_ns: int) -> Any:
    """Return the rectangles of a map; each lasts until the next one of its entity."""
    first_tag = len(trace.tags)
    if (at := part.find(_TAGS)) >= 0:
        tags = json.JSONDecoder().raw_decode(part, at + len(_TAGS) - 1)[0]
        trace.tags += [each if isinstance(each, dict) else {"tag": each} for each in tags]
    found = Rectangles(trace)
    entity = -1
    waiting: re.Match[str] | None = None
    for datum in _DATUM.finditer(part, max(0, part.find('"data": {'))):
        is_entity = datum["entity"] is not None
        if waiting is not None:
            until_ns = max(end_ns, int(waiting["time"])) if is_entity else int(datum["time"])
            _add(found, entity, waiting, until_ns, (first_tag, len(trace.tags)))
        waiting = None if is_entity else datum
        if is_entity:
            entity = trace.paths.code((*above, datum["entity"]))
        elif entity < 0:
            raise ValueError("a state of no entity")
    if waiting is not None:
        until_ns = max(end_ns, int(waiting["time"]))
        _add(found, entity, waiting, until_ns, (first_tag, len(trace.tags)))
    return found.columns()


def _add(
    found: Rectangles, entity: int, datum: re.Match[str], until_ns: int, tags: tuple[int, int]
) -> None:
    """Add a rectangle from the time of a datum on."""
    start_ns = int(datum["time"])
    if datum["state"] is not None:
        tag = -1
        shares = _SHARE.findall(datum["tags"] or "")
        if len(shares) == 1:
            tag = tags[0] + int(shares[0][0])
            if tag >= tags[1]:
                raise ValueError("a tag that is not defined")
        found.add(entity, start_ns, until_ns, int(datum["state"]), tag)
        return
    lasted_ns = until_ns - start_ns
    states = [
        (int(state), round(float(share) * lasted_ns))
        for state, share in _SHARE.findall(datum["shares"])
    ]
    if not states:
        raise ValueError("a rectangle without a state")
    # shares are rounded, and the last one has what is left
    before = sum(ns for _, ns in states[:-1])
    states[-1] = (states[-1][0], max(0, lasted_ns - before))
    found.add_merged(entity, start_ns, until_ns, states)
