"""Statemap data: the states of state lanes and, depth by depth, of the stacks of threads.

Each attribute is an entity, identified by its name or path. Time 0 is where the bounds begin.
The format has no way to say that an entity has no state any more: that becomes a state of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import VALUE, is_async
from meantime.attributes import entity_name
from meantime.views.export.changes import Changes
from meantime.views.export.rest import count_rest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.columns import Int32s
    from meantime.history.history import History
    from meantime.trace import State

__all__ = ["drawn_quarks", "write"]

_NS_PER_S = 10**9
_LINES_AT_ONCE = 2**14
# Members that distinguish other payloads from the definition of a tag.
_TAKEN = {
    *("time", "entity", "state", "tag", "event", "target", "description", "value"),
    *("start", "title", "host", "entityKind", "states"),
}


def drawn_quarks(history: History) -> Int32s:
    """Return the attributes that become entities: of state lanes, and the depths of stacks."""
    found = []
    for lane in history.lanes:
        if lane.declaration.kind == "state":
            found += lane.quarks.tolist()
        elif lane.declaration.kind == "stack":
            for stack in lane.quarks.tolist():
                found += history.attributes.children(stack).tolist()
    quarks = np.array(list(dict.fromkeys(found)), np.int32)
    return quarks[history.has_values(quarks)]


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file, in order of time."""
    del version
    quarks = drawn_quarks(history)
    _count_the_rest(history, lost)
    changes = Changes.of(history, quarks, lost)
    values = _values(history, quarks, changes, lost)
    kinds = [lane.declaration.kind for lane in history.lanes]
    lost["groups of entities, which became one"] += max(
        0, kinds.count("state") + kinds.count("stack") - 1
    )
    if history.clock.utc_at_origin_ns is None:
        lost["date, as the trace does not say when it began: it became 1970"] += 1
    yield _line(_header(history, changes.states))
    for quark, text in history.descriptions.items():
        yield _line({"entity": _name(history, quark), "description": text})
    waiting: list[bytes] = []
    for payload in _payloads(history, changes, values, lost):
        waiting.append(_line(payload))
        if len(waiting) == _LINES_AT_ONCE:
            yield b"".join(waiting)
            waiting.clear()
    waiting += [_line(payload) for payload in _events(history, lost)]
    yield b"".join(waiting)


def _count_the_rest(history: History, lost: Counter[str]) -> None:
    spans = history.spans()
    overlapping = sum(
        count
        for quark, count in zip(spans.threads.tolist(), np.diff(spans.offsets), strict=True)
        if is_async(history.attributes.path(quark))
    )
    lost["async spans"] += int(overlapping)
    lost["spans without a length"] += int((spans.start_ns == spans.end_ns).sum())
    count_rest(
        history,
        lost,
        "categories",
        "arguments",
        "samples",
        "arguments of points",
        "objects",
        "names of processes and threads",
    )
    lanes = [lane for lane in history.lanes if lane.declaration.kind == "counter"]
    series = {quark for lane in lanes for quark in lane.quarks.tolist()}
    entities = set(drawn_quarks(history).tolist())
    attributes = history.attributes
    lost["counter series"] += sum(
        attributes.name(quark) != VALUE or attributes.parent(quark) not in entities
        for quark in series
    )


def _header(history: History, states: list[State]) -> dict[str, Any]:
    origin_ns = history.clock.utc_at_origin_ns
    utc_ns = 0 if origin_ns is None else max(0, origin_ns + history.bounds[0])
    lanes = [lane.declaration for lane in history.lanes]
    kinds = [lane.entity_kind for lane in lanes if lane.kind in {"state", "stack"}]
    facts = {
        "title": history.title,
        "host": history.clock.host,
        "entityKind": next(filter(None, kinds), None),
    }
    header: dict[str, Any] = {"start": list(divmod(utc_ns, _NS_PER_S))}
    header |= {key: text for key, text in facts.items() if text is not None}
    header["states"] = {
        state.name: {"value": value} | ({"color": state.color} if state.color else {})
        for value, state in enumerate(states)
    }
    return header


def _values(
    history: History, quarks: Int32s, changes: Changes, lost: Counter[str]
) -> dict[tuple[int, int], float]:
    """Return the numbers that accompany states, by time and attribute."""
    values = {}
    begun = dict(zip(changes.quark[::-1].tolist(), changes.time_ns[::-1].tolist(), strict=True))
    for quark in quarks.tolist():
        child = history.attributes.find(VALUE, parent=quark)
        for interval in [] if child is None else history.intervals([child]):
            if isinstance(interval.value, int | float):
                if quark in begun and interval.start_ns >= begun[quark]:
                    values[interval.start_ns, quark] = interval.value
                else:
                    lost["values of what has no state yet"] += 1
    return values


def _payloads(
    history: History,
    changes: Changes,
    values: dict[tuple[int, int], float],
    lost: Counter[str],
) -> Iterator[dict[str, Any]]:
    begin_ns, finish_ns = history.bounds
    tags = _Tags(history, lost)
    names = {quark: _name(history, quark) for quark in np.unique(changes.quark).tolist()}
    lasting: dict[int, tuple[int, int]] = {}
    alone = sorted(values)

    def datum(time_ns: int, quark: int, state: int, tag: int) -> Iterator[dict[str, Any]]:
        datum: dict[str, Any] = {"time": str(time_ns - begin_ns), "entity": names[quark]}
        datum["state"] = state
        if tag >= 0:
            yield from tags.define(tag, state)
            datum["tag"] = tags.text(tag, state)
        if (value := values.pop((time_ns, quark), None)) is not None:
            datum["value"] = value
        yield datum

    waiting = iter(alone)
    ahead = next(waiting, None)
    last_ns = begin_ns
    columns = (changes.time_ns, changes.quark, changes.state, changes.tag)
    for time_ns, quark, state, tag in zip(*(each.tolist() for each in columns), strict=True):
        # a number that changes within a state repeats the state at that time
        while ahead is not None and ahead[0] < time_ns:
            if ahead in values:
                yield from datum(*ahead, *lasting[ahead[1]])
            ahead = next(waiting, None)
        lasting[quark] = (state, tag)
        last_ns = time_ns
        yield from datum(time_ns, quark, state, tag)
    for time_ns, quark in sorted(values):
        last_ns = max(last_ns, time_ns)
        yield from datum(time_ns, quark, *lasting[quark])
    # the format has no end time: readers end the data at the last datum
    if lasting and last_ns < finish_ns:
        quark, ongoing = next(iter(lasting.items()))
        yield from datum(finish_ns, quark, *ongoing)
    if begin_ns:
        lost["ns before the first event: times begin there"] += begin_ns


class _Tags:
    """Tags by state and text, each defined once."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._tags = history.tags
        self._lost = lost
        self._texts: dict[tuple[int, int], str] = {}
        self._used: set[tuple[int, str]] = set()

    def text(self, tag: int, state: int) -> str:
        """Return the text that identifies a tag of a state."""
        return self._texts[tag, state]

    def define(self, tag: int, state: int) -> Iterator[dict[str, Any]]:
        """Yield the definition of a tag that is used for the first time, if it has fields."""
        if (tag, state) in self._texts:
            return
        fields = self._tags[tag]
        given = fields.get("tag")
        text = str(tag if given is None else given)
        if (state, text) in self._used:
            text = f"{text} ({tag})"
            self._lost["names of tags, which got a number"] += 1
        self._used.add((state, text))
        self._texts[tag, state] = text
        rest = {key: value for key, value in fields.items() if key not in {"state", "tag"}}
        for key in [key for key in rest if key in _TAKEN]:
            rest[f"{key}_"] = rest.pop(key)
            self._lost["names of tags' fields, which the format uses"] += 1
        if rest:
            yield {"state": state, "tag": text, **rest}


def _events(history: History, lost: Counter[str]) -> Iterator[dict[str, Any]]:
    begin_ns = history.bounds[0]
    points, flows = history.points(), history.flows()
    lost["arrivals of flows, of which only the starts are written"] += int(
        np.count_nonzero(flows.from_ns != flows.to_ns)
    )
    found = [
        (time_ns, quark, name, None)
        for time_ns, quark, name in zip(
            points.time_ns.tolist(), points.quark.tolist(), points.name.to_list(), strict=True
        )
    ] + [
        (time_ns, quark, name, target)
        for time_ns, quark, name, target in zip(
            flows.from_ns.tolist(),
            flows.from_quark.tolist(),
            flows.name.to_list(),
            flows.to_quark.tolist(),
            strict=True,
        )
    ]
    for time_ns, quark, name, target in sorted(found, key=lambda event: event[0]):
        if time_ns < begin_ns:
            lost["events before the first state"] += 1
            continue
        event = {"time": str(time_ns - begin_ns), "entity": _name(history, quark), "event": name}
        if target is not None:
            event["target"] = _name(history, target)
        yield event


def _name(history: History, quark: int) -> str:
    return entity_name(history.attributes.path(quark))


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
