"""OpenTelemetry's traces as OTLP JSON: processes are services, spans without a parent are traces.

Ids, kinds and states that were read from a trace of services are written again; other spans get
ids from their numbers. Points are events of the span that they are in, flows are links.
Definition: https://opentelemetry.io/docs/specs/otlp
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels import export_rows
from meantime.model.service_spans import OWN_FIELDS, SERVICE
from meantime.query.statistics import state_quarks
from meantime.query.threads import threads_of
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Parts, Texts, converted, given, pieces

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.threads import Thread

__all__ = ["write"]

# By number; the kernel has the same ones.
_KINDS = ("", "internal", "server", "client", "producer", "consumer")
# What the reader of services calls the flows that follow from parents, the points that follow from
# a state, and the threads that are only lanes.
_OF_PARENTS = ("call", "child")
_OF_STATES = "error"
_LANE = "lane"
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
_DEEPEST = 20
_DECODER = json.JSONDecoder(strict=False)


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
        quarks = spans.threads.tolist()
        self._threads = threads_of(history, quarks)
        self._index = {quark: index for index, quark in enumerate(quarks)}
        self._base_ns = history.clock.utc_at_origin_ns or 0
        earliest_ns = int(spans.start_ns.min(initial=1)) + self._base_ns
        if history.clock.utc_at_origin_ns is None:
            lost["times in UTC, so times count from 1970"] += 1
        if earliest_ns <= 0:
            # a time of 0 is an unknown one
            self._base_ns += 1 - earliest_ns
            lost["times before 1970, so all are later"] += 1
        # the index of each span's thread
        self._thread = np.repeat(np.arange(len(quarks), dtype=np.int32), np.diff(spans.offsets))
        self._unfinished = spans.unfinished
        self._failed = np.zeros(len(spans), np.bool_)
        self._ids = self._all_ids()
        # the last one is for spans without a name
        self._names = Texts([json.dumps(name).encode() for name in [*spans.name.names, ""]])
        # the last one is for spans whose attributes include those of their threads
        self._of_threads = Texts([*(_items(_of_thread(whose)) for whose in self._threads), b""])
        # as above
        self._point_names = [
            json.dumps(name).encode() for name in [*history.points().name.names, ""]
        ]
        self._events: dict[int, list[int]] = defaultdict(list)
        self._links: dict[int, list[int]] = defaultdict(list)
        self._place_points()
        self._place_flows()
        self._has_more = np.zeros(len(spans), np.bool_)
        self._has_more[[*self._events, *self._links]] = True
        lost["ids of processes and threads"] += sum(
            isinstance(whose.pid, int) and bool(whose.process) for whose in self._threads
        )

    def services(self) -> Iterator[tuple[str, Int32s]]:
        """Yield the name of each process, and the rows of its spans."""
        numbers: dict[str, int] = {}
        service = [
            numbers.setdefault(whose.process or str(whose.pid) or "unknown", len(numbers))
            for whose in self._threads
        ]
        of_row = np.array(service, np.int32)[self._thread]
        yield from zip(numbers, _grouped(of_row, len(numbers)), strict=True)

    def scopes(self, rows: Int32s) -> Iterator[bytes]:
        """Yield the spans in these rows, by category."""
        category = self._spans.category
        numbers: dict[str, int] = {"": 0}
        of_code = [numbers.setdefault(name, len(numbers)) for name in category.names]
        # a span without a category has the last one
        scope = np.array([*of_code, 0], np.int32)[category.codes[rows]]
        names = [*numbers]
        used, first = np.unique(scope, return_index=True)
        used = used[np.argsort(first)]
        number = np.zeros(len(names), np.int32)
        number[used] = np.arange(len(used))
        separator = ""
        for name, listed in zip(used.tolist(), _grouped(number[scope], len(used)), strict=True):
            text = json.dumps({"name": names[name]})
            yield f'{separator}{{"scope": {text}, "spans": [\n'.encode()
            separator = ","
            of_scope = rows[listed]
            for part in pieces(self._spans.arguments_length[of_scope]):
                yield (b",\n" if part.start else b"") + self._lines(of_scope[part])
            yield b"]}"

    def _lines(self, rows: Int32s) -> bytes:
        """Return the spans in these rows, each in a line of its own."""
        spans = self._spans
        arguments = given(spans, rows)
        text, ends, done, kind, is_error = export_rows.arguments(
            export_rows.SPAN_ATTRIBUTES, *arguments
        )
        attributes = Parts(text, ends[:-1], np.diff(ends))
        of_thread = self._thread[rows]
        others = np.flatnonzero(done == 0)
        if len(others):
            found = []
            for index in others.tolist():
                fields = _fields(arguments.of_row(index).decode("utf-8", "replace"))
                own = {key: value for key, value in fields.items() if key not in OWN_FIELDS}
                own |= _of_thread(self._threads[of_thread[index]])
                found.append(_items(own))
                if fields.get("kind") in _KINDS[1:]:
                    kind[index] = _KINDS.index(str(fields["kind"]))
                is_error[index] = fields.get("status") == "error"
            attributes = attributes.with_parts(others, found)
            of_thread[others] = len(self._threads)
        name = spans.name.codes[rows]
        with_more = np.flatnonzero(self._has_more[rows]).tolist()
        more = self._more(with_more, rows[with_more].tolist())
        base = np.uint64(self._base_ns % 2**64)
        return export_rows.otlp_spans(
            np.ascontiguousarray(self._ids[:, rows]),
            *self._names.of(np.where(name < 0, np.int32(len(self._names) - 1), name)),
            kind,
            spans.start_ns[rows].view(np.uint64) + base,
            spans.end_ns[rows].view(np.uint64) + base,
            self._unfinished[rows].view(np.uint8),
            *attributes,
            *self._of_threads.of(of_thread),
            is_error,
            *Parts.of(len(rows), more),
        )

    def _all_ids(self) -> npt.NDArray[np.uint64]:
        """Return the halves of the trace's id, the own id and the parent's id of each span."""
        spans = self._spans
        found = np.zeros((4, len(spans)), np.uint64)
        rows = np.flatnonzero(spans.arguments_length)
        for part in pieces(spans.arguments_length[rows]):
            arguments = given(spans, rows[part])
            ids, done, failed = export_rows.service_ids(*arguments)
            for index in np.flatnonzero(done == 0).tolist():
                fields = _fields(arguments.of_row(index).decode("utf-8", "replace"))
                ids[:, index] = _ids(fields)
                failed[index] = fields.get("status") == "error"
            found[:, rows[part]] = ids
            self._failed[rows[part]] = failed != 0
        export_rows.inherit_ids(found, spans.parent)
        return found

    def _at(self, quark: Int32s, time_ns: Int64s) -> Int64s:
        """Return the innermost span of a thread that is open at each time; -1 if there is none."""
        spans = self._spans
        thread = np.array([self._index.get(each, -1) for each in quark.tolist()], np.int64)
        row = np.full(len(quark), -1, np.int64)
        if not len(quark):
            return row
        order = np.argsort(thread, kind="stable")
        listed, begins = np.unique(thread[order], return_index=True)
        for index, of_thread in zip(listed.tolist(), np.split(order, begins[1:]), strict=True):
            if index >= 0:
                first, last = int(spans.offsets[index]), int(spans.offsets[index + 1])
                begun = np.searchsorted(spans.start_ns[first:last], time_ns[of_thread], "right")
                row[of_thread] = np.where(begun > 0, first + begun - 1, -1)
        ended = np.flatnonzero(row >= 0)
        while len(ended := ended[spans.end_ns[row[ended]] < time_ns[ended]]):
            row[ended] = spans.parent[row[ended]]
            ended = ended[row[ended] >= 0]
        return row

    def _place_points(self) -> None:
        points = self._history.points()
        rows = self._at(points.quark, points.time_ns)
        for index, row in enumerate(rows.tolist()):
            if row < 0:
                self._lost["points outside of spans"] += 1
            elif not self._failed[row] or points.name[index] != _OF_STATES:
                self._events[row].append(index)

    def _place_flows(self) -> None:
        flows = self._history.flows()
        sources = self._at(flows.from_quark, flows.from_ns)
        targets = self._at(flows.to_quark, flows.to_ns)
        for index, (source, target) in enumerate(
            zip(sources.tolist(), targets.tolist(), strict=True)
        ):
            if flows.name[index] in _OF_PARENTS:
                continue
            if source < 0 or target < 0:
                self._lost["flows between other places than spans"] += 1
            else:
                self._links[target].append(source)
                self._lost["names and times of flows"] += 1

    def _more(self, keys: list[int], rows: list[int]) -> dict[int, bytes]:
        """Return the events and links of some spans by key, as fields with a comma before each."""
        found: dict[int, bytes] = {}
        listed = [point for row in rows for point in self._events.get(row, ())]
        events = iter(self._event_texts(np.array(listed, np.int64)))
        for key, row in zip(keys, rows, strict=True):
            text = b""
            if row in self._events:
                text = b", ".join(islice(events, len(self._events[row])))
                text = b', "events": [' + text + b"]"
            if row in self._links:
                links = self._ids[:, self._links[row]].T.tolist()
                texts = [
                    f'{{"traceId": "{high:016x}{low:016x}", "spanId": "{own:016x}"}}'
                    for high, low, own, _ in links
                ]
                text += f', "links": [{", ".join(texts)}]'.encode()
            found[key] = text
        return found

    def _event_texts(self, rows: Int64s) -> Iterator[bytes]:
        """Yield points as events."""
        points = self._history.points()
        for part in pieces(points.arguments_length[rows]):
            listed = rows[part]
            attributes = converted(
                export_rows.ATTRIBUTES, given(points, listed), lambda text: _items(_fields(text))
            )
            times, names = points.time_ns[listed].tolist(), points.name.codes[listed].tolist()
            has_any = points.arguments_length[listed] > 0
            for index, (time_ns, name, has) in enumerate(
                zip(times, names, has_any.tolist(), strict=True)
            ):
                text = f'{{"timeUnixNano": "{self._base_ns + time_ns}", "name": '.encode()
                text += self._point_names[name]
                if has:
                    text += b', "attributes": [' + attributes.of_row(index) + b"]"
                yield text + b"}"


def _grouped(number: Int32s, groups: int) -> list[npt.NDArray[np.intp]]:
    """Return the rows of each number, in their order."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number, minlength=groups))[:-1])


def _fields(text: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(text)
    except (RecursionError, ValueError):
        value = text
    return value if isinstance(value, dict) else {"value": value}


def _ids(fields: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return the ids of a span of a service, which are among its arguments; 0 for none."""
    trace, own, above = (fields.get(key) for key in ("trace_id", "span_id", "parent_id"))
    if not (_is_hex(trace, 32) and _is_hex(own, 16)):
        return 0, 0, 0, 0
    digits = str(trace)
    parent = int(str(above), 16) if _is_hex(above, 16) else 0
    return int(digits[:16], 16), int(digits[16:], 16), int(str(own), 16), parent


def _items(attributes: dict[str, Any]) -> bytes:
    """Return attributes as JSON without the brackets around them."""
    return json.dumps(_attributes(attributes))[1:-1].encode()


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
