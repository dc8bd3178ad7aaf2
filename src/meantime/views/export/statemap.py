"""Statemap data: the states of state lanes and, depth by depth, of the stacks of threads.

Each attribute is an entity, identified by its name or path. Time 0 is where the bounds begin.
The format has no way to say that an entity has no state any more: that becomes a state of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels import export_rows
from meantime.model.attribute_paths import VALUE, is_async
from meantime.model.attributes import entity_name
from meantime.model.columns import distinct
from meantime.views.export.changes import Changes
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Texts, numbered_pairs

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import State

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
    lines = _Lines.of(history, quarks, changes, lost)
    kinds = [lane.declaration.kind for lane in history.lanes]
    lost["groups of entities, which became one"] += max(
        0, kinds.count("state") + kinds.count("stack") - 1
    )
    if history.clock.utc_at_origin_ns is None:
        lost["date, as the trace does not say when it began: it became 1970"] += 1
    yield _line(_header(history, changes.states))
    for quark, text in history.descriptions.items():
        yield _line({"entity": _name(history, quark), "description": text})
    yield from _data(history, changes, lines, lost)
    yield b"".join([_line(payload) for payload in _events(history, lost)])


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


class _Lines(NamedTuple):
    """Lines of data: a time, and the change whose state it has; and by line, its number if any."""

    time_ns: Int64s
    change: npt.NDArray[np.intp]
    numbers: dict[int, float]

    @classmethod
    def of(cls, history: History, quarks: Int32s, changes: Changes, lost: Counter[str]) -> _Lines:
        """Return a line for each change and for each number that changes within a state."""
        rows = len(changes.time_ns)
        of_changes: dict[int, float] = {}
        others: list[tuple[int, int, int, float]] = []
        for quark, own, start_ns, number in _numbers(history, quarks, changes):
            index = int(np.searchsorted(changes.time_ns[own], start_ns, "right")) - 1
            if index < 0:
                lost["values of what has no state yet"] += 1
            elif changes.time_ns[own[index]] == start_ns:
                of_changes[int(own[index])] = number
            else:
                others.append((start_ns, quark, int(own[index]), number))
        others.sort(key=lambda other: other[:2])
        time_ns = np.append(changes.time_ns, np.array([each[0] for each in others], np.int64))
        change = np.append(np.arange(rows), np.array([each[2] for each in others], np.intp))
        numbers = of_changes | {rows + index: each[3] for index, each in enumerate(others)}
        if others:
            order = np.argsort(time_ns, kind="stable")
            line_of = np.empty_like(order)
            line_of[order] = np.arange(len(order))
            time_ns, change = time_ns[order], change[order]
            numbers = {int(line_of[row]): number for row, number in numbers.items()}
        finish_ns = history.bounds[1]
        # the format has no end time: readers end the data at the last datum
        if rows and time_ns[-1] < finish_ns:
            last = np.flatnonzero(changes.quark == changes.quark[0])[-1]
            time_ns, change = np.append(time_ns, finish_ns), np.append(change, last)
        return cls(time_ns, change, numbers)


def _numbers(
    history: History, quarks: Int32s, changes: Changes
) -> Iterator[tuple[int, npt.NDArray[np.intp], int, float]]:
    """Yield the numbers that accompany states: an attribute, its changes, a time, the number."""
    children = {quark: history.attributes.find(VALUE, parent=quark) for quark in quarks.tolist()}
    if not any(child is not None for child in children.values()):
        return
    order = np.argsort(changes.quark, kind="stable")
    in_order = changes.quark[order]
    for quark, child in children.items():
        if child is not None:
            first, last = np.searchsorted(in_order, [quark, quark + 1]).tolist()
            for interval in history.intervals([child], history.start_ns, history.end_ns):
                if isinstance(interval.value, int | float):
                    yield quark, order[first:last], interval.start_ns, interval.value


def _data(history: History, changes: Changes, lines: _Lines, lost: Counter[str]) -> Iterator[bytes]:
    begin_ns = history.bounds[0]
    tags, states = _Tags(history, lost), len(changes.states)
    quarks = distinct(changes.quark)
    entities = Texts(_json(_name(history, quark)) for quark in quarks.tolist())
    numbers = sorted(lines.numbers.items(), reverse=True)
    for first in range(0, len(lines.time_ns), _LINES_AT_ONCE):
        change = lines.change[first : first + _LINES_AT_ONCE]
        state, tag = changes.state[change], changes.tag[change]
        pairs, tail = numbered_pairs(
            (tag.astype(np.int64) + 1) * states + state, (len(history.tags) + 1) * states
        )
        tails = []
        for pair in pairs.tolist():
            tag_of_pair, state_of_pair = divmod(pair - states, states)
            yield from map(_line, tags.define(tag_of_pair, state_of_pair))
            tails.append(tags.field(tag_of_pair, state_of_pair))
        while numbers and numbers[-1][0] < first + len(change):
            line, number = numbers.pop()
            tails.append(tails[tail[line - first]] + b', "value": ' + _json(number))
            tail[line - first] = len(tails) - 1
        entity = np.searchsorted(quarks, changes.quark[change]).astype(np.int32)
        yield export_rows.state_lines(
            lines.time_ns[first : first + _LINES_AT_ONCE],
            begin_ns,
            *entities.of(entity),
            state,
            *Texts(tails).of(tail),
        )
    if begin_ns:
        lost["ns before the first event: times begin there"] += begin_ns


class _Tags:
    """Tags by state and text, each defined once."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._tags = history.tags
        self._lost = lost
        self._texts: dict[tuple[int, int], str] = {}
        self._used: set[tuple[int, str]] = set()

    def field(self, tag: int, state: int) -> bytes:
        """Return the field that identifies a tag of a state, if there is one."""
        return b"" if tag < 0 else b', "tag": ' + _json(self._texts[tag, state])

    def define(self, tag: int, state: int) -> Iterator[dict[str, Any]]:
        """Yield the definition of a tag that is used for the first time, if it has fields."""
        if tag < 0 or (tag, state) in self._texts:
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


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def _line(content: dict[str, Any]) -> bytes:
    return _json(content) + b"\n"
