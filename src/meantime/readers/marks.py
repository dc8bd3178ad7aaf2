"""What programs write to `trace_marker` in the way of atrace, and the calls of function_graph.

A mark is `B|PID|NAME` and `E` around what a thread does, `S|PID|NAME|COOKIE` and `F` around what
may begin and end anywhere, `G|PID|TRACK|NAME|COOKIE` and `H|PID|TRACK|COOKIE` for such on a track,
`C|PID|NAME|VALUE` for a counter, and `I|PID|NAME` for a moment. Other text is a moment too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import linux_records, nest
from meantime.model.attribute_paths import (
    ASYNC_PATTERN,
    COUNTER_PATTERN,
    async_path,
    counter_path,
    thread_path,
)
from meantime.model.clocks import Clock
from meantime.model.columns import distinct
from meantime.model.trace import Counters, LaneDeclaration, Points, SpanFlag, Spans
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.readers.switches import thread_paths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from meantime.model.clocks import Kind
    from meantime.model.trace import Batch, Trace
    from meantime.readers.switches import Records

__all__ = ["ClockSync", "clock_of", "marks_of"]

_NUMBER = re.compile(r"-?\d{1,18}")
_SYNC = re.compile(r"trace_event_clock_sync: (parent_ts|realtime_ts)=(\d{1,13})(?:\.(\d{1,9}))?")
_CLOCKS: dict[str, Kind] = {
    "mono": "monotonic",
    "boot": "boottime",
    "tai": "unknown",
    "perf": "unknown",
}
_WITH_COOKIE = 4


class _Mark(NamedTuple):
    kind: str
    pid: str
    name: str
    value: str
    track: str = ""


@dataclass(slots=True)
class ClockSync:
    """What the marks of atrace say of the clock: `parent_ts` is monotonic, `realtime_ts` UTC.

    Attributes:
        is_monotonic: Whether the trace's times are those of the monotonic clock.
        utc_at_origin_ns: UTC at the time 0 of the trace, if it is said.
    """

    is_monotonic: bool = False
    utc_at_origin_ns: int | None = None

    def add(self, text: str, time_ns: int) -> None:
        """Take what a mark says of the clocks."""
        if not (found := _SYNC.match(text)):
            return
        if found[1] == "realtime_ts":
            # milliseconds
            self.utc_at_origin_ns = int(found[2]) * 10**6 - time_ns
        else:
            parent_ns = int(found[2]) * 10**9 + int((found[3] or "").ljust(9, "0"))
            # the mark was written just before or after its time was read
            self.is_monotonic = abs(parent_ns - time_ns) < 10**9

    def applied_to(self, clock: Clock) -> Clock:
        """Return the clock with what is known now."""
        if self.is_monotonic and clock.kind == "unknown":
            clock = replace(clock, kind="monotonic")
        if self.utc_at_origin_ns is not None and clock.utc_at_origin_ns is None:
            clock = replace(clock, utc_at_origin_ns=self.utc_at_origin_ns)
        return clock


def clock_of(named: str | None) -> Clock:
    """Return the clock that the kernel's name for it means.

    >>> clock_of("mono").kind, clock_of("local").kind, clock_of(None).kind
    ('monotonic', 'unknown', 'unknown')
    """
    return Clock(_CLOCKS.get(named or "", "unknown"))


def marks_of(
    trace: Trace, found: Records, sync: ClockSync, keep: Callable[[str], bool] | None
) -> Iterator[Batch]:
    """Yield the spans, counters and points of marks and functions, in the order of the text."""
    rows = found.rows
    rows = rows[
        np.isin(
            rows["kind"],
            (linux_records.MARK, linux_records.BEGIN, linux_records.END, linux_records.LEAF),
        )
    ]
    if keep is not None:
        kept = [keep(found.called.get(tid, str(tid))) for tid in found.tids.tolist()]
        thread, is_kept = rows["thread"], np.append(np.array(kept, np.bool_), True)
        rows = rows[is_kept[thread]]
    if not len(rows):
        return
    is_mark = rows["kind"] == linux_records.MARK
    parsed = {code: _parsed(found.names[code]) for code in distinct(rows["name"][is_mark]).tolist()}
    # by code of a text, the letter of its mark
    letter = np.zeros(len(found.names) + 1, np.uint8)
    for code, mark in parsed.items():
        letter[code] = ord(mark.kind)
    kind = np.where(is_mark, letter[rows["name"]], 0)
    begins = (
        (kind == ord("B"))
        | (rows["kind"] == linux_records.BEGIN)
        | (rows["kind"] == linux_records.LEAF)
    )
    ends = (kind == ord("E")) | (rows["kind"] == linux_records.END)
    marks = _Marks(trace, found, rows, parsed)
    if (begins | ends).any():
        yield from marks.nested(begins, ends)
    if (started := np.isin(kind, [*b"SF"])).any():
        yield from marks.asynchronous(started)
    if (counted := kind == ord("C")).any():
        yield from marks.counters(counted)
    if (moments := kind == ord("I")).any():
        yield from marks.points(moments, sync)


def _parsed(text: str) -> _Mark:
    """Return a mark; of a text that is none, a moment with its text as the name.

    >>> _parsed("C|7|heap|12")
    _Mark(kind='C', pid='7', name='heap', value='12', track='')
    >>> _parsed("G|7|net|load|3").track, _parsed("B|7|draw").name, _parsed("hello").kind
    ('net', 'draw', 'I')
    """
    parts = text.split("|")
    kind, pid = parts[0], parts[1] if len(parts) > 1 else ""
    if kind == "E" and len(parts) <= _WITH_COOKIE and (not pid or pid.isdecimal()):
        return _Mark("E", pid, "", "")
    if not pid.isdecimal() or len(parts) < 3:
        return _Mark("I", "", text, "")
    rest = "|".join(parts[2:])
    found = _Mark("I", pid, text, "")
    if kind in {"B", "I"}:
        found = _Mark(kind, pid, rest, "")
    elif kind == "N":
        # a moment on a track of its own
        found = _Mark("I", pid, "|".join(parts[3:]) or rest, "")
    elif kind == "C" and len(parts) >= _WITH_COOKIE and _NUMBER.fullmatch(parts[3]):
        found = _Mark(kind, pid, parts[2], parts[3])
    elif kind in {"S", "F"} and len(parts) >= _WITH_COOKIE:
        found = _Mark(kind, pid, "|".join(parts[2:-1]), parts[-1])
    elif kind == "G" and len(parts) > _WITH_COOKIE:
        found = _Mark("S", pid, "|".join(parts[3:-1]), parts[-1], parts[2])
    elif kind == "H" and len(parts) >= _WITH_COOKIE:
        found = _Mark("F", pid, "", parts[-1], parts[2])
    return found


class _Marks:
    """Makes batches of marks."""

    def __init__(
        self, trace: Trace, found: Records, rows: npt.NDArray[np.void], parsed: dict[int, _Mark]
    ) -> None:
        self._trace = trace
        self._found = found
        self._rows = rows
        self._parsed = parsed

    def _threads(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.int32]:
        """Return the entity of each row's thread."""
        codes = np.full(len(self._found.tids) + 1, -1, np.int32)
        known = thread_paths_of(self._trace)
        for thread in distinct(rows["thread"]).tolist():
            tid = int(self._found.tids[thread]) if thread >= 0 else 0
            path = known.get(str(tid), thread_path(tid))
            codes[thread] = self._trace.paths.code(self._found.path_of(path, thread))
        return np.asarray(codes[rows["thread"]], np.int32)

    def _names(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.int32]:
        """Return the code of the name of each row."""
        codes = np.full(len(self._found.names), -1, np.int32)
        for code in distinct(rows["name"]).tolist():
            mark = self._parsed.get(code)
            name = self._found.names[code] if mark is None else mark.name
            codes[code] = self._found.values.code(name)
        return np.asarray(codes[rows["name"]], np.int32)

    def nested(self, begins: npt.NDArray[np.bool_], ends: npt.NDArray[np.bool_]) -> Iterator[Batch]:
        begun, ended = self._rows[begins], self._rows[ends]
        # a function that is all of its calls has its end
        is_leaf = begun["kind"] == linux_records.LEAF
        start_ns = begun["time_ns"].copy()
        leaf_end_ns = start_ns + begun["value"]
        end_ns = np.where(is_leaf, leaf_end_ns, start_ns)
        thread, name = self._threads(begun), self._names(begun)
        flags = np.where(is_leaf, 0, int(nest.OPEN)).astype(np.uint8) | np.uint8(
            SpanFlag.STRUCTURED
        )
        level = np.zeros(len(begun), np.int32)
        of_ends = self._threads(ended)
        position = np.cumsum(begins, dtype=np.int32)[ends]
        count = len(self._trace.paths)
        spans = Begins(start_ns, end_ns, thread, name, flags)
        closing = Ends(
            ended["time_ns"].copy(), of_ends, np.full(len(ended), -1, np.int32), position
        )
        times, whose = self._rows["time_ns"], self._threads(self._rows)
        order = np.lexsort((np.arange(len(times)), whose))
        back = (np.diff(times[order]) < 0) & (np.diff(whose[order]) == 0)
        backwards = np.zeros(count, np.bool_)
        backwards[whose[order][1:][back]] = True
        close_spans(
            spans,
            level,
            closing,
            last_ns=np.full(count, self._found.end_ns, np.int64),
            backwards=backwards,
            anomalies=self._trace.anomalies,
        )
        self._lane(
            LaneDeclaration("Threads/*/Stack", kind="stack", entity_kind="Depth", label="Calls")
        )
        flags &= ~np.uint8(nest.OPEN)
        none = np.full(len(begun), -1, np.int32)
        yield Spans(start_ns, end_ns, thread, name, none, level, flags)

    def _lane(self, lane: LaneDeclaration) -> None:
        if lane not in self._trace.lanes:
            self._trace.lanes.append(lane)

    def asynchronous(self, chosen: npt.NDArray[np.bool_]) -> Iterator[Batch]:
        found = self._found
        waiting: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
        spans: list[tuple[int, int, int, int, int]] = []
        unmatched = 0
        rows = self._rows[chosen]
        for time_ns, code in zip(rows["time_ns"].tolist(), rows["name"].tolist(), strict=True):
            mark = self._parsed[code]
            key = mark.pid, mark.track or mark.name, mark.value
            if mark.kind == "S":
                waiting.setdefault(key, []).append((time_ns, mark.name))
            elif waiting.get(key):
                begun_ns, name = waiting[key].pop()
                spans.append((begun_ns, time_ns, *self._track(key, name), 0))
            else:
                unmatched += 1
        for key, begun in waiting.items():
            unfinished = int(SpanFlag.UNFINISHED)
            spans += [
                (begun_ns, found.end_ns, *self._track(key, name), unfinished)
                for begun_ns, name in begun
            ]
            self._trace.anomalies.add("unfinished_span", len(begun))
        self._trace.anomalies.add("end_without_begin", unmatched)
        if not spans:
            return
        self._lane(LaneDeclaration(ASYNC_PATTERN, kind="async", label="Async", entity_kind="Id"))
        columns = np.array(spans, np.int64).T
        code32 = [column.astype(np.int32) for column in columns[2:4]]
        none = np.full(len(spans), -1, np.int32)
        yield Spans(
            columns[0].copy(),
            np.maximum(columns[1], columns[0]),
            code32[0],
            code32[1],
            none,
            np.zeros(len(spans), np.int32),
            columns[4].astype(np.uint8),
        )

    def _track(self, key: tuple[str, str, str], name: str) -> tuple[int, int]:
        return self._trace.paths.code(async_path(*key)), self._found.values.code(name)

    def counters(self, chosen: npt.NDArray[np.bool_]) -> Iterator[Batch]:
        rows = self._rows[chosen]
        rows = rows[np.argsort(rows["time_ns"], kind="stable")]
        entity = np.full(len(self._found.names), -1, np.int32)
        value = np.zeros(len(self._found.names), np.int64)
        for code in distinct(rows["name"]).tolist():
            mark = self._parsed[code]
            entity[code] = self._trace.paths.code(counter_path(mark.pid, mark.name, "value"))
            value[code] = int(mark.value)
        self._lane(LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters"))
        yield Counters(rows["time_ns"].copy(), entity[rows["name"]], value[rows["name"]])

    def points(self, chosen: npt.NDArray[np.bool_], sync: ClockSync) -> Iterator[Batch]:
        rows = self._rows[chosen]
        for time_ns, code in zip(rows["time_ns"].tolist(), rows["name"].tolist(), strict=True):
            sync.add(self._parsed[code].name, time_ns)
        entity = self._threads(rows)
        none = np.full(len(rows), -1, np.int32)
        yield Points(rows["time_ns"].copy(), entity, self._names(rows), none)
