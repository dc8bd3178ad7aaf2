"""Java flight recordings: samples, states of threads, collections, safepoints and counters.

What the events of the JDK, of async-profiler and of Datadog mean is in `_STATES` and the tables
beside it; any other event is a span of its thread if it lasted, else a point. An event that lasted
is recorded only above a threshold (10 or 20 ms by default), so a thread has no state in between.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import (
    ASYNC_PATTERN,
    COUNTER_PATTERN,
    STATUS,
    async_path,
    counter_path,
    is_async,
    process_path,
    thread_path,
)
from meantime.clocks import Clock
from meantime.columns import Interner
from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.jfr.chunks import HEADER_BYTES, MAGIC, Chunk, Header, Type
from meantime.readers.private_fields import PRIVATE_NAME
from meantime.stacks import NO_STACK, StackTableBuilder
from meantime.trace import (
    Arguments,
    Counters,
    Flows,
    LaneDeclaration,
    Points,
    Samples,
    Spans,
    State,
    StateChanges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

    # Adds an event: its fields, when it began, and when it ended.
    Add = Callable[[list[Any], int, int], None]

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "jfr"

_BATCH_ROWS = 1 << 15
_LAST_NS = 2**62
_MOST_FRAMES = 20
_LONGEST_TEXT, _LONGEST_NAME = 200, 2000

_SAMPLES = {
    "jdk.ExecutionSample",
    "jdk.NativeMethodSample",
    "jdk.CPUTimeSample",
    "datadog.ExecutionSample",
    "datadog.MethodSample",
    "profiler.WallClockSample",
}
# What a thread does while an event lasts.
_STATES = {
    "jdk.JavaMonitorEnter": "blocked",
    "jdk.JavaMonitorWait": "waiting",
    "jdk.ThreadPark": "parked",
    "jdk.ThreadSleep": "sleeping",
    "jdk.SocketRead": "socket",
    "jdk.SocketWrite": "socket",
    "jdk.SocketConnect": "socket",
    "jdk.FileRead": "file",
    "jdk.FileWrite": "file",
    "jdk.FileForce": "file",
}
_COLORS = {
    "blocked": "#b90005",
    "waiting": "#9952ba",
    "parked": "#a3cae3",
    "sleeping": "#d1d5dd",
    "socket": "#659cd3",
    "file": "#76bec1",
}
# Lanes of the virtual machine, by the beginning of the names of their events.
_LANES = (
    ("jdk.GarbageCollection", "Garbage collection"),
    ("jdk.GCPhasePause", "Garbage collection"),
    ("jdk.GCPhaseConcurrent", "Concurrent collection"),
    ("jdk.YoungGarbageCollection", "Garbage collection"),
    ("jdk.OldGarbageCollection", "Garbage collection"),
    ("jdk.ParallelOldGarbageCollection", "Garbage collection"),
    ("jdk.G1GarbageCollection", "Garbage collection"),
    ("jdk.Safepoint", "Safepoints"),
    ("jdk.ExecuteVMOperation", "VM operations"),
)
# Of each, what it is called and its fields; a name with a dot is one in another.
_COUNTERS = {
    "jdk.CPULoad": ("CPU load", ("jvmUser", "jvmSystem", "machineTotal")),
    "jdk.ThreadCPULoad": ("CPU load", ("user", "system")),
    "jdk.GCHeapSummary": ("Heap", ("heapUsed", "heapSpace.committedSize")),
    "jdk.JavaThreadStatistics": ("Threads", ("activeCount", "daemonCount")),
    "jdk.ThreadContextSwitchRate": ("Context switches", ("switchRate",)),
}
# Command lines, environments and whatever else was configured: copied only if that is wanted.
_PRIVATE = {
    "jdk.InitialEnvironmentVariable",
    "jdk.InitialSystemProperty",
    "jdk.InitialSecurityProperty",
    "jdk.SystemProcess",
    "jdk.ProcessStart",
    "jdk.JVMInformation",
    "jdk.OSInformation",
    "jdk.ActiveRecording",
    "jdk.StringFlag",
    "jdk.ThreadDump",
}
# Descriptions of the machine and of the recording: they did not happen at a time.
_SETTINGS = {
    "jdk.ActiveSetting",
    "jdk.BooleanFlag",
    "jdk.IntFlag",
    "jdk.LongFlag",
    "jdk.UnsignedIntFlag",
    "jdk.UnsignedLongFlag",
    "jdk.DoubleFlag",
    "jdk.NativeLibrary",
    "jdk.ModuleExport",
    "jdk.ModuleRequire",
    "jdk.CPUInformation",
    "datadog.ProfilerSetting",
}
_UNKNOWN = Type(-1, "")
_USUAL = {"startTime", "duration", "eventThread", "stackTrace", "sampledThread", "thread"}


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins like a Java flight recording."""
    del name
    return head.startswith(MAGIC)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; each chunk is in memory while it is read.

    `keep` is called with a thread's name, and `until_ns` leaves out later events. A recording that
    was not finished is read as far as it goes.

    Raises:
        InputError: From the batches, if the version is another one, or nothing can be read.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        text = source.text()
    trace.clock = Clock("realtime", utc_at_origin_ns=0)
    reading = _Reading(trace, options)
    at, chunks = 0, 0
    is_cut = source.truncated
    size = len(text)
    while at < size:
        options.report_progress(at, size)
        chunk, length = _chunk(source.name, text, at, chunks)
        is_cut |= chunk is None or chunk.is_cut
        if chunk is not None and chunk.types:
            chunks += 1
            yield from reading.chunk(chunk, options)
        at += length
    options.report_progress(size, size)
    trace.anomalies.add("truncated", int(is_cut))
    if not chunks:
        raise InputError(
            source.name,
            "nothing of this Java flight recording can be read: it ends before the description of"
            " its types",
        )
    trace.facts["chunks"] = str(chunks)
    yield from reading.rest()


def _chunk(
    name: str, text: FileText | memoryview, at: int, chunks: int
) -> tuple[Chunk | None, int]:
    """Return the chunk at an offset, and its bytes; None if what is there is not one."""
    left = len(text) - at
    try:
        header = Header.of(bytes(text[at : at + HEADER_BYTES]))
    except ValueError:
        if not chunks:
            raise InputError(name, "the header of this Java flight recording is cut") from None
        return None, left
    if header.major != 2:
        raise InputError(
            name,
            f"this Java flight recording has version {header.major}.{header.minor}, of JDK 8 or"
            " earlier; meantime reads version 2",
            offset=at,
        )
    if header.ticks_per_second <= 0 or not 0 <= header.start_ns < _LAST_NS:
        raise InputError(name, "the times of this Java flight recording are damaged", offset=at)
    size = header.size
    following = bytes(text[at + size : at + size + 4]) if 0 < size < left else b""
    # a chunk that was not finished goes on until the end
    is_whole = HEADER_BYTES < size <= left and following in {b"", MAGIC}
    length = size if is_whole else left
    chunk = Chunk(name, bytes(text[at : at + length]), header, at)
    chunk.is_cut |= not is_whole
    return chunk, length


class _Rows:
    """Rows of one kind of batch until they are delivered."""

    def __init__(self, columns: int) -> None:
        self.columns: list[list[Any]] = [[] for _ in range(columns)]

    def add(self, *values: Any) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, *types: Any) -> list[Any]:
        """Return the columns as arrays, and forget them."""
        found = [np.array(column, type_) for column, type_ in zip(self.columns, types, strict=True)]
        for column in self.columns:
            column.clear()
        return found


class _Reading:
    """Reads chunk after chunk into a trace."""

    def __init__(self, trace: Trace, options: ReadOptions) -> None:
        self._trace = trace
        self._lenient = options.lenient
        self._until_ns = _LAST_NS if options.until_ns is None else options.until_ns
        self._keep = options.keep
        self._left_out = set() if options.private else _PRIVATE
        self._with_private = options.private
        self._paths, self._values = Interner(trace.paths), Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._tags: Interner[str] = Interner([])
        self._stacks = StackTableBuilder()
        self._pid = "java"
        self._names: dict[str, str] = {}
        self._spans, self._points, self._samples = _Rows(7), _Rows(5), _Rows(5)
        self._flows, self._numbers = _Rows(5), _Rows(3)
        self._states: dict[int, list[tuple[int, int, int, int]]] = {}
        self._has_counters = False

    def chunk(self, chunk: Chunk, options: ReadOptions) -> Iterator[Batch]:
        """Yield the events of a chunk, but for states."""
        self._trace.anomalies.add("bad_record", chunk.bad_pools)
        found = _Chunk(chunk, self._stacks)
        self._find_process(found)
        for number in list(chunk.events):
            type_ = chunk.types.get(number)
            if type_ is None:
                self._trace.anomalies.add("bad_record", len(chunk.events[number]))
                continue
            count = len(chunk.events[number])
            if type_.name in self._left_out:
                self._trace.anomalies.add("private_field", count)
            elif type_.name in _SETTINGS or "startTime" not in type_.index:
                self._trace.anomalies.add("record_skipped", count)
            else:
                yield from self._type(found, type_, options)
            self._trace.records += count

    def _find_process(self, found: _Chunk) -> None:
        chunk = found.chunk
        for number, type_ in chunk.types.items():
            if type_.name != "jdk.JVMInformation" or number not in chunk.events:
                continue
            for _, values in chunk.rows(number):
                pid = values[type_.index["pid"]] if values and "pid" in type_.index else 0
                if isinstance(pid, int) and 0 < pid < 2**32:
                    self._pid = str(pid)

    def _type(self, found: _Chunk, type_: Type, options: ReadOptions) -> Iterator[Batch]:
        chunk = found.chunk
        add = self._adder(found, type_)
        start_at, length_at = type_.index["startTime"], type_.index.get("duration")
        done = 0
        for at, values in chunk.rows(type_.number):
            done += 1
            if values is None:
                if not options.lenient and not chunk.is_cut:
                    raise chunk.damaged(at, IndexError())
                self._trace.anomalies.add("bad_record")
                continue
            ticks = values[start_at], 0 if length_at is None else values[length_at]
            if not all(isinstance(each, int) for each in ticks):
                if not options.lenient:
                    raise chunk.damaged(at, ValueError("its time is not a number"))
                self._trace.anomalies.add("bad_record")
                continue
            start_ns = chunk.time_ns(ticks[0])
            length_ns = max(0, chunk.length_ns(ticks[1]))
            if not -_LAST_NS < start_ns < _LAST_NS - length_ns or length_ns > _LAST_NS:
                self._trace.anomalies.add("time_out_of_range")
                continue
            if start_ns <= self._until_ns:
                add(values, start_ns, start_ns + length_ns)
            if not done % 1024:
                yield from self._full()
        yield from self._full()

    def _adder(self, found: _Chunk, type_: Type) -> Add:
        """Return what adds an event of a type."""
        if type_.name in _SAMPLES:
            return self._sample_adder(found, type_)
        if type_.name in _COUNTERS:
            return self._counter_adder(found, type_)
        return self._event_adder(found, type_)

    def _event_adder(self, found: _Chunk, type_: Type) -> Add:
        name, index = type_.name, type_.index
        label = name.rsplit(".", 1)[-1]
        state = _STATES.get(name)
        lane = next((lane for begin, lane in _LANES if name.startswith(begin)), None)
        category, own = self._categories.code(label), self._values.code(label)
        # a phase or an operation says more than the event's name
        naming = next((each for each in ("name", "operation") if lane and each in index), None)
        owner_at = index.get("previousOwner", index.get("parentThread"))
        private = set() if self._with_private else set(filter(PRIVATE_NAME.search, index))

        def add(values: list[Any], start_ns: int, end_ns: int) -> None:
            lasts = end_ns > start_ns
            entity = self._entity(found, type_, values, lane, lasts=lasts)
            if entity is None:
                return
            fields = found.fields(type_, values)
            for each in private & fields.keys():
                del fields[each]
                self._trace.anomalies.add("private_field")
            called = self._values.code(str(fields.pop(naming))) if naming in fields else own
            if state is not None and lasts:
                self._states.setdefault(entity, []).append(
                    (start_ns, end_ns, self._values.code(state), self._tag(fields))
                )
            if owner_at is not None:
                self._flow(found, type_, values, owner_at, entity, end_ns)
            if lasts:
                offset, length = self._text(fields | found.stack_fields(type_, values))
                self._spans.add(start_ns, end_ns, entity, called, category, offset, length)
            else:
                self._points.add(start_ns, entity, called, *self._text(fields))

        return add

    def _entity(
        self, found: _Chunk, type_: Type, values: list[Any], lane: str | None, *, lasts: bool
    ) -> int | None:
        """Return what an event is of; None if that is left out."""
        if lane is None:
            at = type_.index.get("eventThread")
            entity = self._thread(found, type_, values, at)
            # what lasted is drawn in a lane, and what has no thread may overlap others
            if entity is None or not lasts or len(self._trace.paths[entity]) > 2:
                return entity
        return self._paths.code(async_path(self._pid, "JVM", lane or "Other"))

    def _sample_adder(self, found: _Chunk, type_: Type) -> Add:
        index = type_.index
        label = type_.name.rsplit(".", 1)[-1]
        thread_at = index.get("sampledThread", index.get("eventThread"))
        stack_at, state_at = index.get("stackTrace"), index.get("state")
        weight_at = index.get("samples")
        events: dict[Any, int] = {}

        def add(values: list[Any], start_ns: int, _: int) -> None:
            entity = self._thread(found, type_, values, thread_at)
            if entity is None:
                return
            key = None if state_at is None else values[state_at]
            if isinstance(key, list):
                key = None
            if key not in events:
                state = "" if state_at is None else found.name(type_.fields[state_at].type, key)
                events[key] = self._values.code(f"{label} {state}".strip())
            stack = NO_STACK
            if stack_at is not None and isinstance(values[stack_at], int):
                stack = found.stack(type_.fields[stack_at].type, values[stack_at])
            weight = 1
            if weight_at is not None and isinstance(values[weight_at], int):
                weight = min(max(values[weight_at], 1), 2**40)
            self._samples.add(start_ns, entity, stack, weight, events[key])

        return add

    def _counter_adder(self, found: _Chunk, type_: Type) -> Add:
        called, wanted = _COUNTERS[type_.name]
        thread_at = type_.index.get("eventThread")
        series = [each.partition(".") for each in wanted]
        unit = {"Heap": " (bytes)", "CPU load": " (share)"}.get(called, "")

        def add(values: list[Any], start_ns: int, _: int) -> None:
            group = called + unit
            if thread_at is not None:
                entity = self._thread(found, type_, values, thread_at)
                if entity is None:
                    return
                group += f" of {self._trace.names.get(entity, self._trace.paths[entity][-1])}"
            for name, _dot, below in series:
                value = found.field(type_, values, name)
                if below and isinstance(value, list):
                    inner = found.type(type_.fields[type_.index[name]].type)
                    value = found.field(inner, value, below)
                if isinstance(value, int | float) and math.isfinite(value):
                    path = counter_path(self._pid, group, below or name)
                    self._numbers.add(start_ns, self._paths.code(path), float(value))

        return add

    def _thread(self, found: _Chunk, type_: Type, values: list[Any], at: int | None) -> int | None:
        """Return the entity of an event: its thread, or the process; None if it is left out."""
        key = None if at is None else values[at]
        own = ("", "") if at is None or not key else found.thread(type_.fields[at].type, key)
        tid, name = own
        if not tid:
            return self._paths.code(process_path(self._pid))
        if self._keep is not None and not self._keep(name):
            return None
        code = self._paths.code(thread_path(tid, self._pid))
        if name:
            self._trace.names[code] = name
        return code

    def _flow(  # noqa: PLR0917 - of one event
        self,
        found: _Chunk,
        type_: Type,
        values: list[Any],
        owner_at: int,
        entity: int,
        time_ns: int,
    ) -> None:
        if not values[owner_at]:
            return
        owner = self._thread(found, type_, values, owner_at)
        if owner is not None and owner != entity:
            name = "unlock" if "previousOwner" in type_.index else "start"
            self._flows.add(owner, time_ns, entity, time_ns, self._values.code(name))

    def _tag(self, fields: dict[str, Any]) -> int:
        # of what is in nearly every event another number, there would be too many
        fields = {key: value for key, value in fields.items() if isinstance(value, str)}
        text = json.dumps(fields, default=str, allow_nan=False)
        known = len(self._trace.tags)
        tag = self._tags.code(text)
        if tag == known:
            self._trace.tags.append(fields)
        return tag

    def _text(self, fields: dict[str, Any]) -> tuple[int, int]:
        if not fields:
            return 0, 0
        data = json.dumps(fields, default=str, allow_nan=False).encode("utf-8", "replace")
        return self._trace.text.add(data), len(data)

    def _full(self) -> Iterator[Batch]:
        for rows in (self._spans, self._points, self._samples, self._flows, self._numbers):
            if len(rows) >= _BATCH_ROWS:
                yield from self._delivered()
                return

    def _delivered(self) -> Iterator[Batch]:
        """Yield what was added."""
        i8, i4 = np.int64, np.int32
        if len(self._spans):
            start, end, entity, name, category, offset, length = self._spans.take(
                i8, i8, i4, i4, i4, i8, i4
            )
            rows = len(start)
            yield Spans(
                start_ns=start,
                end_ns=end,
                thread=entity,
                name=name,
                category=category,
                level=np.zeros(rows, i4),
                flags=np.zeros(rows, np.uint8),
                arguments=Arguments(offset, length),
            )
        if len(self._points):
            time, entity, name, offset, length = self._points.take(i8, i4, i4, i8, i4)
            target = np.full(len(time), -1, i4)
            yield Points(time, entity, name, target, Arguments(offset, length))
        if len(self._samples):
            time, entity, stack, weight, event = self._samples.take(i8, i4, i4, i8, i4)
            yield Samples(time, entity, stack, weight, event)
        if len(self._flows):
            yield Flows(*self._flows.take(i4, i8, i4, i8, i4))
        if len(self._numbers):
            time, entity, value = self._numbers.take(i8, i4, np.float64)
            self._has_counters = True
            # the values of a counter are in order of time
            order = np.argsort(time, kind="stable")
            yield Counters(time[order], entity[order], value[order])

    def rest(self) -> Iterator[Batch]:
        """Yield what is left, and the states of threads; declare the lanes."""
        yield from self._delivered()
        self._trace.stacks = self._stacks.build()
        process = self._paths.code(process_path(self._pid))
        self._trace.names[process] = "java"
        lanes = self._trace.lanes
        if self._states:
            lanes.append(
                LaneDeclaration(
                    "Processes/*/Threads/*/Status",
                    entity_kind="Thread",
                    states=tuple(
                        State(name, value, color)
                        for value, (name, color) in enumerate(_COLORS.items())
                        if name in self._trace.values
                    ),
                )
            )
        if any(is_async(path) for path in self._trace.paths):
            lanes.append(
                LaneDeclaration(
                    ASYNC_PATTERN, kind="async", label="Virtual machine", entity_kind="Lane"
                )
            )
        if self._has_counters:
            lanes.append(LaneDeclaration(COUNTER_PATTERN, kind="counter"))
        for entity, rows in self._states.items():
            status = self._paths.code((*self._trace.paths[entity], STATUS))
            if entity in self._trace.names:
                self._trace.names[status] = self._trace.names[entity]
            changes = _changes(sorted(rows))
            for first in range(0, len(changes), _BATCH_ROWS):
                part = changes[first : first + _BATCH_ROWS]
                time, state, tag = np.array(part, np.int64).T
                yield StateChanges(
                    time.copy(),
                    np.full(len(part), status, np.int32),
                    state.astype(np.int32),
                    tag.astype(np.int32),
                )


def _changes(rows: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the changes of state of a thread: of events that overlap, the one that began last.

    >>> _changes([(0, 10, 1, -1), (4, 6, 2, -1)])
    [(0, 1, -1), (4, 2, -1), (6, 1, -1), (10, -1, -1)]
    """
    found: list[tuple[int, int, int]] = []
    open_: list[tuple[int, int, int]] = []

    def close(until_ns: int) -> None:
        while open_ and open_[-1][0] <= until_ns:
            end_ns, _, _ = open_.pop()
            # what ended below it meanwhile is over, too
            while open_ and open_[-1][0] <= end_ns:
                open_.pop()
            found.append((end_ns, *(open_[-1][1:] if open_ else (-1, -1))))

    for start_ns, end_ns, state, tag in rows:
        close(start_ns)
        found.append((start_ns, state, tag))
        open_.append((end_ns, state, tag))
    close(_LAST_NS)
    # of several changes at one time the last counts
    return [
        change
        for change, after in zip(found, [*found[1:], None], strict=True)
        if after is None or after[0] != change[0]
    ]


class _Chunk:
    """The constants of a chunk, resolved once each."""

    def __init__(self, chunk: Chunk, stacks: StackTableBuilder) -> None:
        self.chunk = chunk
        self._builder = stacks
        self._threads: dict[int, tuple[str, str]] = {}
        self._stack_of: dict[int, int] = {}
        self._frames: dict[int, list[str]] = {}
        self._methods: dict[int, str] = {}
        self._called: dict[tuple[int, int], str] = {}

    def type(self, number: int) -> Type:
        """Return a type; one without fields if it is not described."""
        return self.chunk.types.get(number, _UNKNOWN)

    def stack_fields(self, type_: Type, values: list[Any]) -> dict[str, str]:
        """Return the top of an event's stack as a field, if it has one."""
        at = type_.index.get("stackTrace")
        frames = [] if at is None else self.frames(type_.fields[at].type, values[at])
        names = (frame[:_LONGEST_TEXT] for frame in frames[:_MOST_FRAMES])
        return {"stack": "; ".join(names)} if frames else {}

    def field(self, type_: Type, values: Any, name: str) -> Any:
        """Return a field's value; None if there is none."""
        at = type_.index.get(name)
        return values[at] if at is not None and isinstance(values, list) else None

    def thread(self, number: int, key: Any) -> tuple[str, str]:
        """Return a thread's id, empty if it has none, and its name."""
        if not isinstance(key, int):
            return "", ""
        if key not in self._threads:
            type_ = self.type(number)
            values = self.chunk.constant(number, key)
            os_id = self.field(type_, values, "osThreadId")
            java_id = self.field(type_, values, "javaThreadId")
            name = self.chunk.text(self.field(type_, values, "javaName"))
            name = name or self.chunk.text(self.field(type_, values, "osName"))
            tid = ""
            if isinstance(os_id, int) and 0 < os_id < 2**62:
                tid = str(os_id)
            elif isinstance(java_id, int) and 0 < java_id < 2**62:
                # a virtual thread, or one that ended before it was described
                tid = f"java {java_id}"
            self._threads[key] = tid, name[:_LONGEST_TEXT]
        return self._threads[key]

    def stack(self, number: int, key: int) -> int:
        """Return the row of a stack."""
        if key not in self._stack_of:
            frames = self.frames(number, key)
            self._stack_of[key] = self._builder.add(reversed(frames)) if frames else NO_STACK
        return self._stack_of[key]

    def frames(self, number: int, key: Any) -> list[str]:
        """Return the functions of a stack, the top one first."""
        if not isinstance(key, int) or not key:
            return []
        if key not in self._frames:
            type_ = self.type(number)
            values = self.chunk.constant(number, key)
            found = self.field(type_, values, "frames")
            names: list[str] = []
            if isinstance(found, list):
                frame = self.type(type_.fields[type_.index["frames"]].type)
                at = frame.index.get("method")
                if at is not None:
                    method, known = frame.fields[at].type, self._methods
                    keys = [each[at] for each in found if isinstance(each, list)]
                    names = [
                        known[key]
                        if type(key) is int and key in known
                        else self._method(method, key)
                        for key in keys
                    ]
            if names and self.field(type_, values, "truncated"):
                names.append("[truncated]")
            self._frames[key] = names
        return self._frames[key]

    def _method(self, number: int, key: Any) -> str:
        if not isinstance(key, int):
            return "[unknown]"
        if key not in self._methods:
            type_ = self.type(number)
            values = self.chunk.constant(number, key)
            parts = []
            for each in ("type", "name"):
                at = type_.index.get(each)
                if at is not None and isinstance(values, list):
                    parts.append(self.name(type_.fields[at].type, values[at]))
            called = ".".join(part for part in parts if part)
            self._methods[key] = called or "[unknown]"
        return self._methods[key]

    def name(self, number: int, key: Any, depth: int = 0) -> str:
        """Return what a constant is called: a class, a symbol, a state; empty if it has no name."""
        if not isinstance(key, int) or depth > 4:
            return ""
        known = self._called.get((number, key))
        if known is None:
            # many constants may have the same long text in their names
            known = self._called[number, key] = self._name(number, key, depth)[:_LONGEST_NAME]
        return known

    def _name(self, number: int, key: int, depth: int) -> str:
        type_ = self.type(number)
        values = self.chunk.constant(number, key)
        if isinstance(values, str):
            return values
        for each in ("string", "name", "javaName", "osName", "type", "cause", "when", "origin"):
            value = self.field(type_, values, each)
            if value is None:
                continue
            of = type_.fields[type_.index[each]]
            pooled = of.is_pooled
            text = self.name(of.type, value, depth + 1) if pooled else self.chunk.text(value)
            if text:
                return text.replace("/", ".") if type_.name == "java.lang.Class" else text
        return ""

    def fields(self, type_: Type, values: list[Any]) -> dict[str, Any]:
        """Return the fields of an event that are numbers, texts, or constants with a name."""
        found: dict[str, Any] = {}
        for each, value in zip(type_.fields, values, strict=True):
            if each.name in _USUAL or each.is_array or value is None:
                continue
            if each.is_pooled:
                text = self.name(each.type, value) if value else ""
                if text:
                    found[each.name] = text[:_LONGEST_TEXT]
            elif isinstance(value, float):
                found[each.name] = value if math.isfinite(value) else str(value)
            elif isinstance(value, str):
                found[each.name] = value[:_LONGEST_TEXT]
            elif isinstance(value, int):
                of = self.type(each.type).name
                is_text = of == "java.lang.String"
                found[each.name] = self.chunk.text(value)[:_LONGEST_TEXT] if is_text else value
        return found
