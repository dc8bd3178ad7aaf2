"""OpenTelemetry's traces as OTLP JSON: processes are services, spans without a parent are traces.

Ids, kinds and states that were read from a trace of services are written again; other spans get
ids from their numbers. Points are events of the span that they are in, flows are links.
Definition: https://opentelemetry.io/docs/specs/otlp
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime.query.statistics import state_quarks
from meantime.query.threads import thread_of
from meantime.service_spans import OWN_FIELDS, SERVICE
from meantime.views.export.rest import count_rest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.query.threads import Thread

__all__ = ["write"]

_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_ERROR: Final = 2
# What the reader of services calls the flows that follow from parents, the points that follow from
# a state, and the threads that are only lanes.
_OF_PARENTS = ("call", "child")
_OF_STATES = "error"
_LANE = "lane"
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
_DEEPEST = 20
_SPANS_AT_ONCE = 2**12
_ENCODER, _DECODER = json.JSONEncoder(), json.JSONDecoder(strict=False)
_KEYS = tuple(f'"{key}"' for key in ("trace_id", "span_id", "parent_id", "status"))
# How the reader of services begins the arguments of a span.
_OF_SERVICE = re.compile(
    r'\{"trace_id":"([0-9a-f]*)","span_id":"([0-9a-f]*)"(?:,"parent_id":"([0-9a-f]*)")?'
    r'(?:,"kind":"[a-z]*")?(?:,"status":"(error)")?[,}]'
)


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    count_rest(history, lost, "samples", "counter series", "objects", "descriptions")
    # open requests of services follow from their spans when they are read
    states = state_quarks(history.without_derived())
    derived = {
        quark
        for lane in history.lanes
        if lane.declaration.entity_kind == SERVICE
        for quark in lane.quarks.tolist()
    }
    lost["entities with states"] += len({*states.tolist()} - derived)
    yield b'{"resourceSpans": ['
    writer = _Writer(history, lost)
    separator = ""
    for service, rows in writer.services():
        name = {"key": "service.name", "value": {"stringValue": service}}
        resource = json.dumps({"attributes": [name]})
        yield f'{separator}{{"resource": {resource}, "scopeSpans": ['.encode()
        separator = ",\n"
        yield from writer.scopes(rows)
        yield b"]}"
    yield b"]}\n"


class _Writer:
    """Writes the spans of a history."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._history = history
        self._lost = lost
        self._spans = spans = history.spans()
        self._threads = {quark: thread_of(history, quark) for quark in spans.threads.tolist()}
        self._index = {quark: index for index, quark in enumerate(spans.threads.tolist())}
        self._base_ns = history.clock.utc_at_origin_ns or 0
        earliest_ns = int(spans.start_ns.min(initial=1)) + self._base_ns
        if history.clock.utc_at_origin_ns is None:
            lost["times in UTC, so times count from 1970"] += 1
        if earliest_ns <= 0:
            # a time of 0 is an unknown one
            self._base_ns += 1 - earliest_ns
            lost["times before 1970, so all are later"] += 1
        # columns that are computed when they are asked for
        self._thread: list[int] = spans.thread.tolist()
        self._unfinished: list[bool] = spans.unfinished.tolist()
        self._failed = np.zeros(len(spans), np.bool_)
        self._ids = self._all_ids()
        self._events: dict[int, list[int]] = defaultdict(list)
        self._links: dict[int, list[int]] = defaultdict(list)
        self._place_points()
        self._place_flows()
        lost["ids of processes and threads"] += sum(
            isinstance(whose.pid, int) and bool(whose.process) for whose in self._threads.values()
        )

    def services(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the name of each process, and the rows of its spans."""
        found: dict[str, list[int]] = {}
        service = {
            quark: found.setdefault(whose.process or str(whose.pid) or "unknown", [])
            for quark, whose in self._threads.items()
        }
        for row, quark in enumerate(self._thread):
            service[quark].append(row)
        yield from found.items()

    def scopes(self, rows: list[int]) -> Iterator[bytes]:
        """Yield the spans in these rows, by category."""
        by_category: dict[str, list[int]] = {}
        category = self._spans.category
        codes = category.codes.tolist()
        for row in rows:
            name = "" if codes[row] < 0 else category.names[codes[row]]
            by_category.setdefault(name, []).append(row)
        separator = ""
        for name, listed in by_category.items():
            scope = json.dumps({"name": name})
            yield f'{separator}{{"scope": {scope}, "spans": [\n'.encode()
            separator = ","
            for first in range(0, len(listed), _SPANS_AT_ONCE):
                part = listed[first : first + _SPANS_AT_ONCE]
                # a span a line: its encoder is made only once
                text = ",\n".join(map(_ENCODER.encode, map(self._span, part)))
                yield (text if first == 0 else f",\n{text}").encode()
            yield b"]}"

    def _fields_of(self, row: int) -> dict[str, Any]:
        text = self._spans.arguments(row)
        if text is None:
            return {}
        try:
            value = _DECODER.decode(text)
        except (RecursionError, ValueError):
            value = text
        return value if isinstance(value, dict) else {"value": value}

    def _all_ids(self) -> list[tuple[str, str, str]]:
        """Return the trace, the own id and the parent's id of each span."""
        found: list[tuple[str, str, str]] = []
        parent = self._spans.parent.tolist()
        # a span that is alone in its trace has that of its row
        for row, above in enumerate(parent):
            if (ids := self._ids_of(row)) is not None:
                found.append(ids)
                continue
            own = f"{row + 1:016x}"
            # callers come before the spans in them
            if 0 <= above < row:
                found.append((found[above][0], own, found[above][1]))
            else:
                found.append((f"{row + 1:032x}", own, ""))
        return found

    def _ids_of(self, row: int) -> tuple[str, str, str] | None:
        """Return the ids of a span that was read from a trace of services; note if it failed."""
        text = self._spans.arguments(row)
        if text is None:
            return None
        trace: Any
        usual = _OF_SERVICE.match(text)
        if usual is not None and not any(text.find(key, usual.end()) >= 0 for key in _KEYS):
            trace, own, above, status = usual.groups()
        else:
            fields = self._fields_of(row)
            trace, own, above = (fields.get(key) for key in ("trace_id", "span_id", "parent_id"))
            status = fields.get("status")
        self._failed[row] = status == "error"
        if not (_is_hex(trace, 32) and _is_hex(own, 16)):
            return None
        return str(trace), str(own), str(above) if _is_hex(above, 16) else ""

    def _at(self, quark: int, time_ns: int) -> int:
        """Return the innermost span of a thread that is open at a time; -1 if there is none."""
        spans = self._spans
        index = self._index.get(quark, -1)
        if index < 0:
            return -1
        first, last = int(spans.offsets[index]), int(spans.offsets[index + 1])
        row = first + int(np.searchsorted(spans.start_ns[first:last], time_ns, "right")) - 1
        while row >= first and spans.end_ns[row] < time_ns:
            row = int(spans.parent[row])
        return row if row >= first else -1

    def _place_points(self) -> None:
        points = self._history.points()
        for index in range(len(points)):
            row = self._at(int(points.quark[index]), int(points.time_ns[index]))
            if row < 0:
                self._lost["points outside of spans"] += 1
            elif points.name[index] != _OF_STATES or not self._failed[row]:
                self._events[row].append(index)

    def _place_flows(self) -> None:
        flows = self._history.flows()
        for index in range(len(flows)):
            if flows.name[index] in _OF_PARENTS:
                continue
            source = self._at(int(flows.from_quark[index]), int(flows.from_ns[index]))
            target = self._at(int(flows.to_quark[index]), int(flows.to_ns[index]))
            if source < 0 or target < 0:
                self._lost["flows between other places than spans"] += 1
            else:
                self._links[target].append(source)
                self._lost["names and times of flows"] += 1

    def _span(self, row: int) -> dict[str, Any]:
        spans, fields = self._spans, self._fields_of(row)
        trace, own, parent = self._ids[row]
        found: dict[str, Any] = {"traceId": trace, "spanId": own}
        if parent:
            found["parentSpanId"] = parent
        found["name"] = spans.name[row] or ""
        kind = fields.get("kind")
        if kind in _KINDS[1:]:
            found["kind"] = _KINDS.index(str(kind))
        found["startTimeUnixNano"] = str(self._base_ns + int(spans.start_ns[row]))
        if not self._unfinished[row]:
            found["endTimeUnixNano"] = str(self._base_ns + int(spans.end_ns[row]))
        attributes = {key: value for key, value in fields.items() if key not in OWN_FIELDS}
        attributes |= _of_thread(self._threads[self._thread[row]])
        if attributes:
            found["attributes"] = _attributes(attributes)
        if fields.get("status") == "error":
            found["status"] = {"code": _ERROR}
        if row in self._events:
            found["events"] = [self._event(index) for index in self._events[row]]
        if row in self._links:
            found["links"] = [
                {"traceId": self._ids[source][0], "spanId": self._ids[source][1]}
                for source in self._links[row]
            ]
        return found

    def _event(self, index: int) -> dict[str, Any]:
        points = self._history.points()
        time_ns = self._base_ns + int(points.time_ns[index])
        found: dict[str, Any] = {"timeUnixNano": str(time_ns), "name": points.name[index] or ""}
        text = points.arguments(index)
        if text is not None:
            try:
                value = _DECODER.decode(text)
            except (RecursionError, ValueError):
                value = text
            found["attributes"] = _attributes(
                value if isinstance(value, dict) else {"value": value}
            )
        return found


def _is_hex(text: object, digits: int) -> bool:
    return (
        isinstance(text, str)
        and len(text) == digits
        and text.strip("0") != ""
        and not text.strip("0123456789abcdef")
    )


def _of_thread(whose: Thread) -> dict[str, Any]:
    """Return the attributes that say which thread a span ran on."""
    if whose.name == _LANE or whose.tid is None:
        return {} if whose.path is None else {"thread.name": whose.path}
    named = {"thread.name": whose.name} if whose.name else {}
    return {"thread.id": whose.tid, **named}


def _attributes(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in fields.items()]


def _value(value: Any, depth: int = 0) -> dict[str, Any]:
    """Return a value as OTLP has it."""
    if depth > _DEEPEST:
        return {"stringValue": json.dumps(value)}
    match value:
        case bool():
            found: dict[str, Any] = {"boolValue": value}
        case int() if _SMALLEST <= value <= _LARGEST:
            found = {"intValue": str(value)}
        case float():
            found = {"doubleValue": value}
        case list():
            found = {"arrayValue": {"values": [_value(each, depth + 1) for each in value]}}
        case dict():
            pairs = [{"key": key, "value": _value(each, depth + 1)} for key, each in value.items()]
            found = {"kvlistValue": {"values": pairs}}
        case None:
            found = {}
        case _:
            found = {"stringValue": str(value)}
    return found
