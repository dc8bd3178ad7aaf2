"""Perfetto's protobuf: track events, tracks, flows and counters.

Threads and processes with numbers are tracks of their kind. Everything else, also each further lane
of spans that overlap, is a track with a name. Names and categories are in the first packet.
Definition: https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from meantime import attribute_paths as tree
from meantime.errors import MeantimeError
from meantime.views.export.protobuf import double, fixed64, message, number
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lanes, walk

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.attributes import Path
    from meantime.history.history import History
    from meantime.history.spans import SpanTable

__all__ = ["write"]

_SEQUENCE: Final = number(10, 1)
_CLEARED, _NEEDS_STATE = number(13, 1), number(13, 2)
_BEGIN, _END, _INSTANT, _COUNTER = (number(9, kind) for kind in (1, 2, 3, 4))
_BOOTTIME, _REALTIME = 6, 1
_MOST_ID, _MOST_DIGITS = 2**31 - 1, 10
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
_DEEPEST = 20
_ENOUGH = 1 << 16
_MOST_KEYS = 1 << 12
_DECODER = json.JSONDecoder(strict=False)


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    count_rest(history, lost, "samples", "objects", "descriptions")
    waiting = bytearray()
    for packet in _Writer(history, lost).packets():
        waiting += message(1, packet)
        if len(waiting) >= _ENOUGH:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


class _Tracks:
    """The tracks that were described so far, by what they show."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._uuids: dict[Any, int] = {}
        self.described: list[bytes] = []

    def of(self, path: Path) -> int:
        """Return the track of an attribute."""
        if path in self._uuids:
            return self._uuids[path]
        match path:
            case (tree.PROCESSES, pid) if _is_id(pid):
                content = message(3, number(1, int(pid)) + self._name(6, path))
            case (tree.PROCESSES, pid, tree.THREADS, tid) if _is_id(pid) and _is_id(tid):
                # its process has a track before it
                self.of(path[:2])
                thread = number(1, int(pid)) + number(2, int(tid)) + self._name(5, path)
                content = message(4, thread)
            case (tree.PROCESSES, _, tree.ASYNC, group, _):
                content = _text(2, group) + number(5, self.of(path[:2]))
            case (tree.PROCESSES | tree.THREADS, own):
                content = _text(2, self._called(path, own))
            case (tree.PROCESSES, _, tree.THREADS, own):
                content = _text(2, self._called(path, own)) + number(5, self.of(path[:2]))
            case (*above, own):
                content = _text(2, own) + (number(5, self.of(tuple(above))) if above else b"")
        return self._add(path, content)

    def lane(self, path: Path, lane: int) -> int:
        """Return the track of a lane of a thread: its own, or one below it."""
        own = self.of(path)
        if lane == 0:
            return own
        key = (path, lane)
        if key in self._uuids:
            return self._uuids[key]
        return self._add(key, _text(2, f"lane {lane + 1}") + number(5, own))

    def counter(self, path: Path) -> int:
        """Return the track of a counter."""
        key = ("counter", path)
        if key in self._uuids:
            return self._uuids[key]
        match path:
            case (tree.PROCESSES, _, tree.COUNTERS, name, series):
                parent = b"" if path[1] == tree.GLOBAL else number(5, self.of(path[:2]))
                unit = b"" if series == "value" else _text(6, series)
            case _:
                name, parent, unit = "/".join(path), b"", b""
        return self._add(key, _text(2, name) + parent + message(8, unit))

    def _add(self, key: Any, content: bytes) -> int:
        uuid = self._uuids[key] = len(self._uuids) + 1
        self.described.append(message(60, number(1, uuid) + content))
        return uuid

    def _quark_name(self, path: Path) -> str | None:
        attributes, names = self._history.attributes, self._history.names
        try:
            return names.get(attributes.quark(*path))
        except MeantimeError:
            # such as a process of which only the threads are known
            return None

    def _name(self, field: int, path: Path) -> bytes:
        name = self._quark_name(path)
        return _text(field, name) if name else b""

    def _called(self, path: Path, own: str) -> str:
        name = self._quark_name(path)
        return f"{name} {own}" if name else own


class _Writer:
    """Writes a history, packet by packet."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._history = history
        self._lost = lost
        self._tracks = _Tracks(history)
        spans, points = history.spans(), history.points()
        self._unfinished: list[bool] = spans.unfinished.tolist()
        self._codes: list[tuple[int, int]] = [
            *zip(spans.name.codes.tolist(), spans.category.codes.tolist(), strict=True)
        ]
        # what begins a span with a name and a category; the name of an argument
        self._begins: dict[tuple[int, int], bytes] = {}
        self._keys: dict[str, bytes] = {}
        self._names = {name: code for code, name in enumerate(self._all_names(spans, points), 1)}
        self._categories = spans.category.names
        # times are not negative there
        self._later_ns = max(0, -history.start_ns)
        lost["times below 0, so all are later"] += int(self._later_ns > 0)
        self._out: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._in: dict[tuple[int, int], list[int]] = defaultdict(list)

    @staticmethod
    def _all_names(spans: SpanTable, points: Any) -> list[str]:
        return list(dict.fromkeys([*spans.name.names, *points.name.names]))

    def packets(self) -> Iterator[bytes]:
        """Yield all packets."""
        yield self._first()
        if (utc_ns := self._history.clock.utc_at_origin_ns) is not None:
            yield from self._clocks(utc_ns)
        flows = self._history.flows()
        for row in range(len(flows)):
            self._out[int(flows.from_quark[row]), int(flows.from_ns[row])].append(row + 1)
            self._in[int(flows.to_quark[row]), int(flows.to_ns[row])].append(row + 1)
        self._lost["names of flows"] += len(flows)
        spans = self._history.spans()
        for thread, quark in enumerate(spans.threads.tolist()):
            path = self._history.attributes.path(quark)
            if tree.is_async(path):
                self._lost["ids of async operations"] += 1
            for lane, rows in lanes(spans, thread):
                yield from self._lane(spans, rows, quark, self._tracks.lane(path, lane))
                yield from self._described()
        yield from self._points()
        yield from self._ends_of_flows()
        yield from self._counters()
        yield from self._named()

    def _first(self) -> bytes:
        names = b"".join(
            message(2, number(1, code) + _text(2, name)) for name, code in self._names.items()
        )
        categories = b"".join(
            message(1, number(1, code) + _text(2, name))
            for code, name in enumerate(self._categories, 1)
        )
        return _SEQUENCE + _CLEARED + message(12, categories + names)

    def _clocks(self, utc_ns: int) -> Iterator[bytes]:
        """Yield a pair of times of the trace's clock and of UTC."""
        time_ns = self._history.start_ns
        now_ns = utc_ns + time_ns
        if now_ns <= 0:
            self._lost["times in UTC"] += 1
            return
        pair = ((_BOOTTIME, time_ns + self._later_ns), (_REALTIME, now_ns))
        clocks = b"".join(message(1, number(1, id_) + number(2, at)) for id_, at in pair)
        yield _SEQUENCE + number(8, time_ns + self._later_ns) + message(6, clocks)

    def _described(self) -> Iterator[bytes]:
        for descriptor in self._tracks.described:
            yield _SEQUENCE + descriptor
        self._tracks.described.clear()

    def _named(self) -> Iterator[bytes]:
        """Yield the names of threads and processes without events."""
        for quark in self._history.names:
            self._tracks.of(self._history.attributes.path(quark))
        yield from self._described()

    def _event(self, time_ns: int, uuid: int, content: bytes) -> bytes:
        return self._packet(time_ns, _NEEDS_STATE + message(11, content + number(11, uuid)))

    def _packet(self, time_ns: int, content: bytes) -> bytes:
        return _SEQUENCE + number(8, time_ns + self._later_ns) + content

    def _begin(self, codes: tuple[int, int]) -> bytes:
        """Return how a span with the codes of a name and a category begins."""
        if codes not in self._begins:
            name, category = codes
            names = self._history.spans().name.names
            content = _BEGIN + number(10, self._names[names[name] if name >= 0 else ""])
            self._begins[codes] = content + (number(3, category + 1) if category >= 0 else b"")
        return self._begins[codes]

    def _flow_ids(self, quark: int, time_ns: int) -> bytes:
        """Return the flows that begin and end at an event, each only once."""
        key = (quark, time_ns)
        if key not in self._out and key not in self._in:
            return b""
        ids = b"".join(fixed64(47, id_) for id_ in self._out.pop(key, ()))
        return ids + b"".join(fixed64(48, id_) for id_ in self._in.pop(key, ()))

    def _lane(self, spans: SpanTable, rows: list[int], quark: int, uuid: int) -> Iterator[bytes]:
        steps = [*walk(spans, rows)]
        unfinished, has_arguments = self._unfinished, spans.arguments_length
        track = number(11, uuid)
        end = _NEEDS_STATE + message(11, _END + track)
        # an end ends the latest begin, so only the last ones can be left out
        left_out = len([*takewhile(lambda s: not s.begins and unfinished[s.row], steps[::-1])])
        ends = sum(1 for step in steps if not step.begins and unfinished[step.row])
        self._lost["unfinished spans, which became finished"] += ends - left_out
        for begins, row, time_ns in steps[: len(steps) - left_out]:
            if not begins:
                yield self._packet(time_ns, end)
                continue
            content = self._begin(self._codes[row])
            if has_arguments[row]:
                content += self._arguments(spans.arguments(row))
            content += self._flow_ids(quark, time_ns) + track
            yield self._packet(time_ns, _NEEDS_STATE + message(11, content))

    def _points(self) -> Iterator[bytes]:
        points = self._history.points()
        for row in range(len(points)):
            quark, time_ns = int(points.quark[row]), int(points.time_ns[row])
            content = _INSTANT + number(10, self._names[points.name[row] or ""])
            content += self._arguments(points.arguments(row)) + self._flow_ids(quark, time_ns)
            uuid = self._tracks.of(self._history.attributes.path(quark))
            yield self._event(time_ns, uuid, content)
        yield from self._described()

    def _ends_of_flows(self) -> Iterator[bytes]:
        """Yield events for the ends of flows at which there is no other."""
        flows = self._history.flows()
        left = sorted({*self._out, *self._in}, key=lambda key: key[1])
        self._lost["ends of flows at no event, which got one"] += len(left)
        for quark, time_ns in left:
            ids = self._out.get((quark, time_ns)) or self._in[quark, time_ns]
            name = flows.name[ids[0] - 1] or ""
            content = _INSTANT + _text(23, name) + self._flow_ids(quark, time_ns)
            uuid = self._tracks.of(self._history.attributes.path(quark))
            yield self._event(time_ns, uuid, content)
        yield from self._described()

    def _counters(self) -> Iterator[bytes]:
        listed = [lane.quarks for lane in self._history.lanes if lane.declaration.kind == "counter"]
        for quark in sorted({quark for quarks in listed for quark in quarks.tolist()}):
            uuid = self._tracks.counter(self._history.attributes.path(quark))
            yield from self._described()
            has_value = False
            for batch in self._history.interval_batches([quark]):
                for _, start_ns, _, value, _, _ in batch:
                    if isinstance(value, float):
                        yield self._event(start_ns, uuid, _COUNTER + double(44, value))
                    elif isinstance(value, int):
                        yield self._event(start_ns, uuid, _COUNTER + number(30, value))
                    else:
                        # the value before goes on there
                        self._lost["times without a value of counters"] += has_value
                        continue
                    has_value = True

    def _arguments(self, text: str | None) -> bytes:
        if text is None:
            return b""
        try:
            value = _DECODER.decode(text)
            named = value if isinstance(value, dict) else {"value": value}
            return b"".join(
                message(4, self._key(key) + _annotation("", each)) for key, each in named.items()
            )
        except (RecursionError, ValueError):
            return message(4, _text(10, "value") + _text(6, text))

    def _key(self, key: str) -> bytes:
        """Return the field with the name of an argument."""
        if not key:
            return b""
        found = self._keys.get(key)
        if found is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            found = self._keys[key] = _text(10, key)
        return found


def _is_id(text: str) -> bool:
    """Return whether the id of a process or thread is a number that Perfetto can have."""
    # 0 is the idle task
    return (
        text.isascii() and text.isdecimal() and text == str(int(text)) and 0 < int(text) <= _MOST_ID
    )


def _text(field: int, text: str) -> bytes:
    return message(field, text.encode("utf-8", "replace"))


def _annotation(name: str, value: Any, depth: int = 0) -> bytes:
    """Return an argument as a message.

    Raises:
        RecursionError: If it is nested too deeply.
    """
    if depth > _DEEPEST:
        raise RecursionError
    named = _text(10, name) if name else b""
    if isinstance(value, bool):
        return named + number(2, int(value))
    if isinstance(value, int) and _SMALLEST <= value <= _LARGEST:
        return named + number(4, value)
    if isinstance(value, float):
        return named + double(5, value)
    if isinstance(value, dict):
        parts = (message(11, _annotation(key, each, depth + 1)) for key, each in value.items())
        return named + b"".join(parts)
    if isinstance(value, list):
        return named + b"".join(message(12, _annotation("", each, depth + 1)) for each in value)
    return named + _text(6, "null" if value is None else str(value))
