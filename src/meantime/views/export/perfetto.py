"""Perfetto's protobuf: track events, tracks, flows and counters.

Threads and processes with numbers are tracks of their kind. Everything else, also each further lane
of spans that overlap, is a track with a name. Names and categories are in the first packet.
Definition: https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime.errors import MeantimeError
from meantime.kernels import export_rows
from meantime.model import attribute_paths as tree
from meantime.model.columns import distinct
from meantime.model.trace import SpanFlag
from meantime.views.export.protobuf import double, fixed64, message, number
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Parts, Texts, converted, given, numbered_pairs, pieces
from meantime.views.export.walk import lane_groups, steps

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s

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
    for part in _Writer(history, lost).written():
        waiting += part
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
        self._spans, self._points = history.spans(), history.points()
        self._names = {name: code for code, name in enumerate(self._all_names(), 1)}
        self._categories = self._spans.category.names
        # the name of an argument
        self._keys: dict[str, bytes] = {}
        # times are not negative there
        self._later_ns = max(0, -history.start_ns)
        lost["times below 0, so all are later"] += int(self._later_ns > 0)
        self._out: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._in: dict[tuple[int, int], list[int]] = defaultdict(list)
        flows = history.flows()
        self._flow_times = distinct(np.concatenate([flows.from_ns, flows.to_ns]))

    def _all_names(self) -> list[str]:
        names = dict.fromkeys([*self._spans.name.names, *self._points.name.names])
        if any((column.codes < 0).any() for column in (self._spans.name, self._points.name)):
            names.setdefault("")
        return list(names)

    def written(self) -> Iterator[bytes]:
        """Yield the file."""
        yield _field(self._first())
        if (utc_ns := self._history.clock.utc_at_origin_ns) is not None:
            yield from map(_field, self._clocks(utc_ns))
        flows = self._history.flows()
        ends = (flows.from_quark, flows.from_ns, flows.to_quark, flows.to_ns)
        for id_, (source, from_ns, target, to_ns) in enumerate(
            zip(*(column.tolist() for column in ends), strict=True), 1
        ):
            self._out[source, from_ns].append(id_)
            self._in[target, to_ns].append(id_)
        self._lost["names of flows"] += len(flows)
        yield from self._of_spans()
        yield from self._of_points()
        yield from map(_field, self._ends_of_flows())
        yield from self._counters()
        yield from map(_field, self._named())

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
        # not the origin of the clock, which may be 1970, a time that is none there
        time_ns, _ = self._history.bounds
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

    def _flow_ids(self, quark: int, time_ns: int) -> bytes:
        """Return the flows that begin and end at an event, each only once."""
        key = (quark, time_ns)
        if key not in self._out and key not in self._in:
            return b""
        ids = b"".join(fixed64(47, id_) for id_ in self._out.pop(key, ()))
        return ids + b"".join(fixed64(48, id_) for id_ in self._in.pop(key, ()))

    def _of_spans(self) -> Iterator[bytes]:
        """Yield the begins and ends of spans, and after those of a lane the tracks it needs."""
        spans, attributes = self._spans, self._history.attributes
        head, heads = self._begins()
        paths = [attributes.path(quark) for quark in spans.threads.tolist()]
        self._lost["ids of async operations"] += sum(map(tree.is_async, paths))
        # roots of a lane have parents in others
        parent = np.where(spans.lane[spans.parent] == spans.lane, spans.parent, np.int32(-1))
        for group in lane_groups(spans):
            index, begins, time_ns = steps(spans, group.rows, parent)
            lane = np.repeat(np.arange(len(group.lane)), 2 * np.diff(group.starts))
            if (kept := self._kept(index, begins, 2 * group.starts)) is not None:
                index, begins, time_ns, lane = index[kept], begins[kept], time_ns[kept], lane[kept]
            tracks, described = [], []
            for thread, number_ in zip(group.thread.tolist(), group.lane.tolist(), strict=True):
                tracks.append(number(11, self._tracks.lane(paths[thread], number_)))
                described.append(b"".join(map(_field, self._described())))
            quark = spans.threads[group.thread]
            tails = Texts(tracks)
            ends = np.searchsorted(lane, np.arange(1, len(tracks) + 1))
            following = _Following(ends, described)
            for part in pieces(spans.arguments_length[index]):
                rows, of_lane, is_begin = index[part], lane[part], begins[part]
                found = converted(
                    export_rows.ANNOTATIONS, given(spans, rows, is_begin), self._arguments
                ).followed_by(self._flows_at(quark[of_lane], time_ns[part], is_begin))
                text, offset = self._events(
                    time_ns[part], np.where(is_begin, head[rows], 0), heads, found, of_lane, tails
                )
                yield from following.with_text(text, offset, part.start)

    def _begins(self) -> tuple[Int32s, Texts]:
        """Return the code of how each span begins, and the texts of those; that of ends is 0."""
        names, categories = self._spans.name, self._spans.category
        width = len(categories.names) + 1
        pair = (names.codes.astype(np.int64) + 1) * width + categories.codes + 1
        listed, code = numbered_pairs(pair, (len(names.names) + 1) * width)
        texts = [_END]
        for name, category in zip(
            *(each.tolist() for each in np.divmod(listed, width)), strict=True
        ):
            content = _BEGIN + number(10, self._names[names.names[name - 1] if name else ""])
            texts.append(content + (number(3, category) if category else b""))
        return code + np.int32(1), Texts(texts)

    def _kept(
        self, index: Int32s, begins: npt.NDArray[np.bool_], starts: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.bool_] | None:
        """Return which steps are written: without the ends of unfinished spans, where possible.

        An end ends the latest begin, so only the last ones of a lane can be left out.
        """
        is_open = ~begins & ((self._spans.flags[index] & np.uint8(SpanFlag.UNFINISHED)) != 0)
        if not is_open.any():
            return None
        step = np.arange(len(index))
        last = np.maximum.reduceat(np.where(is_open, -1, step), starts[:-1])
        kept = step <= np.repeat(last, np.diff(starts))
        ends = int(np.count_nonzero(is_open & kept))
        self._lost["unfinished spans, which became finished"] += ends
        return kept

    def _events(  # noqa: PLR0917 - the columns of events
        self,
        time_ns: Int64s,
        head: npt.NDArray[np.integer],
        heads: Texts,
        content: Parts,
        track: npt.NDArray[np.integer],
        tails: Texts,
    ) -> tuple[bytes, Int64s]:
        return export_rows.track_events(
            _SEQUENCE,
            _NEEDS_STATE,
            time_ns.view(np.uint64) + np.uint64(self._later_ns),
            *heads.of(head.astype(np.int32)),
            *content,
            *tails.of(track.astype(np.int32)),
        )

    def _flows_at(
        self, quark: Int32s, time_ns: Int64s, chosen: npt.NDArray[np.bool_]
    ) -> dict[int, bytes]:
        """Return the flows that begin and end at some of these events, by index."""
        times = self._flow_times
        if not len(times):
            return {}
        where = np.minimum(np.searchsorted(times, time_ns), len(times) - 1)
        rows = np.flatnonzero(chosen & (times[where] == time_ns))
        at = zip(rows.tolist(), quark[rows].tolist(), time_ns[rows].tolist(), strict=True)
        found = {row: self._flow_ids(own, time) for row, own, time in at}
        return {row: ids for row, ids in found.items() if ids}

    def _of_points(self) -> Iterator[bytes]:
        points, attributes = self._points, self._history.attributes
        codes = points.name.codes
        texts = [_INSTANT + number(10, self._names[name or ""]) for name in points.name.names]
        if (codes < 0).any():
            texts.append(_INSTANT + number(10, self._names[""]))
            codes = np.where(codes < 0, np.int32(len(texts) - 1), codes)
        heads = Texts(texts)
        quarks, first, track = np.unique(points.quark, return_index=True, return_inverse=True)
        track = track.reshape(-1)
        tracks = [b""] * len(quarks)
        for index in np.argsort(first).tolist():
            uuid = self._tracks.of(attributes.path(int(quarks[index])))
            tracks[index] = number(11, uuid)
        tails = Texts(tracks)
        rows = np.arange(len(points))
        for part in pieces(points.arguments_length):
            own = converted(
                export_rows.ANNOTATIONS, given(points, rows[part]), self._arguments
            ).followed_by(self._flows_at(points.quark[part], points.time_ns[part], rows[part] >= 0))
            yield self._events(points.time_ns[part], codes[part], heads, own, track[part], tails)[0]
        yield from map(_field, self._described())

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
        heads = Texts([_COUNTER])
        whole_ns = self._history.start_ns, self._history.end_ns
        for quark in sorted({quark for quarks in listed for quark in quarks.tolist()}):
            track = number(11, self._tracks.counter(self._history.attributes.path(quark)))
            tails = Texts([track])
            yield from map(_field, self._described())
            has_value = False
            for batch in self._history.interval_batches([quark], *whole_ns):
                found: dict[int, bytes] = {}
                for row, value in enumerate(batch.value.to_list()):
                    if isinstance(value, float):
                        found[row] = double(44, value)
                    elif isinstance(value, int):
                        found[row] = number(30, value)
                    else:
                        # the value before goes on there
                        self._lost["times without a value of counters"] += has_value
                        continue
                    has_value = True
                rows = np.fromiter(found, np.intp, len(found))
                values = Parts.of(len(rows), dict(enumerate(found.values())))
                none = np.zeros(len(rows), np.int32)
                yield self._events(batch.start_ns[rows], none, heads, values, none, tails)[0]

    def _arguments(self, text: str) -> bytes:
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


class _Following:
    """Texts that are written behind events with an index.

    Args:
        ends: By text, the index of the event that follows it; ascending.
        texts: The texts.
    """

    def __init__(self, ends: npt.NDArray[np.intp], texts: list[bytes]) -> None:
        self._ends = ends.tolist()
        self._texts = texts
        self._next = 0

    def with_text(self, text: bytes, offset: Int64s, first: int) -> Iterator[bytes]:
        """Yield events and the texts behind them.

        Args:
            text: The events.
            offset: By event, where it begins; where the last one ends.
            first: The index of the first event.
        """
        at, last = 0, first + len(offset) - 1
        while self._next < len(self._ends) and self._ends[self._next] <= last:
            end = int(offset[self._ends[self._next] - first])
            if self._texts[self._next]:
                yield text[at:end] + self._texts[self._next]
                at = end
            self._next += 1
        yield text[at:]


def _field(packet: bytes) -> bytes:
    return message(1, packet)


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
