"""Java flight recordings: samples, states of threads, collections, safepoints and counters.

What the events of the JDK, of async-profiler and of Datadog mean is in `_STATES` and the tables
beside it; any other event is a span of its thread if it lasted, else a point. An event that lasted
is recorded only above a threshold (10 or 20 ms by default), so a thread has no state in between.

A recording describes its own types, so `chunks` compiles each to a program that the kernel `jfr`
runs: events of a type, and constants, become columns of integers. Names and stacks are found once
for each constant that is used (`constants`), and the kernel writes the fields of events as JSON.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels.jfr import Op, StackRows, objects, times
from meantime.model.attribute_paths import (
    ASYNC_PATTERN,
    COUNTER_PATTERN,
    STATUS,
    async_path,
    counter_path,
    is_async,
    process_path,
    thread_path,
)
from meantime.model.clocks import UTC
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import StackTable
from meantime.model.trace import (
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
from meantime.readers.contract import lazy_trace
from meantime.readers.jfr.chunks import (
    HEADER_BYTES,
    INTEGERS,
    MAGIC,
    Chunk,
    Header,
    Pool,
)
from meantime.readers.jfr.constants import LONGEST_TEXT, Constants
from meantime.readers.memory_limit import MemoryLimit
from meantime.readers.private_fields import is_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.file_text import FileText
    from meantime.readers.jfr.chunks import (
        Description,
        Type,
    )
    from meantime.readers.source import Source

    # Adds events.
    Add = Callable[["_Events"], None]

__all__ = ["FORMAT", "read"]

FORMAT = "jfr"
OBJECTS = True

_BATCH_ROWS = 1 << 15
# How many events of a type are read at a time.
_EVENTS = 1 << 17
_LAST_NS = 2**62

_SAMPLES = {
    "jdk.ExecutionSample",
    "jdk.NativeMethodSample",
    "jdk.CPUTimeSample",
    "datadog.ExecutionSample",
    "datadog.MethodSample",
    "profiler.WallClockSample",
}
# Samples of what a thread did on a CPU; those of other kinds may be of threads that wait.
_RUNNING = re.compile(r"(?:Execution|CPUTime)Sample(?: STATE_(?:RUNNABLE|DEFAULT))?")
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
_USUAL = {"startTime", "duration", "eventThread", "stackTrace", "sampledThread", "thread"}


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; each chunk is in memory while it is read.

    `keep` is called with a thread's name, and `until_ns` leaves out later events. A recording that
    was not finished is read as far as it goes.

    Raises:
        InputError: From the batches, if the version is another one, or nothing can be read.
    """
    trace = lazy_trace(source, FORMAT, _batches, options)
    trace.samples_first = True
    return trace


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        text = source.text()
    trace.clock = UTC
    reading = _Reading(trace, options)
    described: dict[bytes, Description] = {}
    limit = MemoryLimit(source.name, source.most_memory)
    at, chunks = 0, 0
    is_cut = source.truncated
    size = len(text)
    while at < size:
        options.report_progress(at, size)
        chunk, length = _chunk(source.name, text, at, chunks, described, limit=limit)
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
    name: str,
    text: FileText | memoryview,
    at: int,
    chunks: int,
    described: dict[bytes, Description],
    *,
    limit: MemoryLimit,
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
    chunk = Chunk(name, bytes(text[at : at + length]), header, at, described, limit=limit)
    chunk.is_cut |= not is_whole
    return chunk, length


class _Rows:
    """Rows of one kind of batch until they are delivered."""

    def __init__(self, *types: Any) -> None:
        self._types = types
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._size = 0

    def add(self, *columns: Any) -> None:
        """Add columns; a number is that of all rows."""
        self._size += len(columns[0])
        self._parts.append(columns)

    def __len__(self) -> int:
        return self._size

    def take(self) -> list[Any]:
        """Return the columns as arrays, and forget them."""
        found = [np.empty(self._size, type_) for type_ in self._types]
        begin = 0
        for part in self._parts:
            end = begin + len(part[0])
            for column, values in zip(found, part, strict=True):
                column[begin:end] = values
            begin = end
        self._parts.clear()
        self._size = 0
        return found


class _Events:
    """Events of one type: their fields as columns, and when they began and ended."""

    def __init__(
        self, found: Constants, type_: Type, pool: Pool, start_ns: Int64s, end_ns: Int64s
    ) -> None:
        self.found = found
        self.type = type_
        self.start_ns = start_ns
        self.end_ns = end_ns
        self._pool = pool

    def __len__(self) -> int:
        return len(self.start_ns)

    def kind(self, index: int) -> int:
        """Return what a field is: an `Op`."""
        return self._pool.kinds[index]

    def column(self, index: int) -> Int64s:
        """Return the values of a field."""
        found: Int64s = self._pool.values[index]
        return found

    def keys(self, index: int | None) -> Int64s | None:
        """Return the integers in a field; None if it has something else."""
        if index is None or self.kind(index) not in INTEGERS:
            return None
        return self.column(index)

    def texts(self, index: int) -> tuple[Int64s, list[Any]] | None:
        """Return what a field says: an index by event, and the texts, or None, that differ.

        None if it has no texts.
        """
        of = self.type.fields[index]
        kind = self.kind(index)
        if of.is_pooled and kind in INTEGERS:
            keys, codes = np.unique(self.column(index), return_inverse=True)
            names = self.found.names(of.type, keys)
            shown = zip(keys.tolist(), names, strict=True)
            return codes, [name[:LONGEST_TEXT] or None if key else None for key, name in shown]
        if kind == Op.TEXT:
            found, texts = self.found.chunk.texts(self.column(index))
            return found.astype(np.int64), [
                text if text is None else text[:LONGEST_TEXT] for text in texts
            ]
        return None

    def of(self, rows: npt.NDArray[np.bool_]) -> _Events:
        """Return some of the events."""
        pool = Pool(self._pool.kinds, self._pool.keys[rows], self._pool.values[:, rows])
        return _Events(self.found, self.type, pool, self.start_ns[rows], self.end_ns[rows])


class _Member:
    """A field of events that is shown.

    Attributes:
        name: Its name.
        kind: What its values are: an `Op`.
        values: int64 by event; of texts, an index of the table.
        table: The texts; None where there is none. None of other kinds.
    """

    def __init__(
        self, name: str, kind: int, values: Int64s, table: list[str | None] | None
    ) -> None:
        self.name = name
        self.kind = kind
        self.values = values
        self.table = table

    def of(self, rows: npt.NDArray[np.bool_]) -> _Member:
        """Return the field of some of the events."""
        return _Member(self.name, self.kind, self.values[rows], self.table)

    def count(self) -> int:
        """Return how many events have the field."""
        if self.table is None:
            return len(self.values)
        is_there = np.array([text is not None for text in self.table], np.bool_)
        return int(np.count_nonzero(is_there[self.values]))

    def written(self) -> list[bytes] | None:
        """Return the table as JSON."""
        if self.table is None:
            return None
        return [b"" if text is None else json.dumps(text).encode() for text in self.table]


def _different(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values in order of their first rows, and which of them each row has."""
    different, first, of = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return different[order], rank[of]


class _Reading:
    """Reads chunk after chunk into a trace."""

    def __init__(self, trace: Trace, options: ReadOptions) -> None:
        self._trace = trace
        # the events of samples so far
        self._sampled: dict[str, None] = {}
        self._lenient = options.lenient
        self._until_ns = _LAST_NS if options.until_ns is None else options.until_ns
        self._keep = options.keep
        self._left_out = set() if options.private else _PRIVATE
        self._with_private = options.private
        self._paths, self._values = trace.paths, Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._tags: Interner[str] = Interner([])
        self._stacks = StackRows()
        self._frames: list[str] = []
        self._frame_codes = Interner(self._frames)
        self._pid = "java"
        i8, i4 = np.int64, np.int32
        self._spans = _Rows(i8, i8, i4, i4, i4, i8, i4)
        self._points = _Rows(i8, i4, i4, i8, i4)
        self._samples = _Rows(i8, i4, i4, i8, i4)
        self._flows = _Rows(i4, i8, i4, i8, i4)
        self._numbers = _Rows(i8, i4, np.float64)
        self._states = _Rows(i4, i8, i8, i8, i8)

    def chunk(self, chunk: Chunk, options: ReadOptions) -> Iterator[Batch]:
        """Yield the events of a chunk, but for states."""
        self._trace.anomalies.add("bad_record", chunk.bad_pools)
        found = Constants(chunk, self._stacks, self._frame_codes, self._frames)
        self._find_process(found)
        for number in list(chunk.events):
            type_ = chunk.types.get(number)
            count = len(chunk.events[number])
            if type_ is None:
                self._trace.anomalies.add("bad_record", count)
                continue
            if type_.name in self._left_out:
                self._trace.anomalies.add("private_field", count)
            elif type_.name in _SETTINGS or "startTime" not in type_.index:
                self._trace.anomalies.add("record_skipped", count)
            else:
                yield from self._type(found, type_, options)
            self._trace.records += count

    def _find_process(self, found: Constants) -> None:
        chunk = found.chunk
        for number, type_ in chunk.types.items():
            if type_.name != "jdk.JVMInformation" or number not in chunk.events:
                continue
            if chunk.problem(number) is not None:
                continue
            events, problems = chunk.rows(number, 0, len(chunk.events[number]))
            at = type_.index.get("pid")
            if at is None or events.kinds[at] not in INTEGERS:
                continue
            for pid in events.values[at][problems == 0].tolist():
                if 0 < pid < 2**32:
                    self._pid = str(pid)

    def _type(self, found: Constants, type_: Type, options: ReadOptions) -> Iterator[Batch]:
        add = self._adder(type_)
        offsets = found.chunk.events[type_.number]
        count = len(offsets)
        problem = found.chunk.problem(type_.number)
        if problem is not None:
            if not options.lenient:
                raise found.chunk.damaged(int(offsets[0]), problem)
            self._trace.anomalies.add("bad_record", count)
            return
        for first in range(0, count, _EVENTS):
            events = self._timed(found, type_, first, min(first + _EVENTS, count), options)
            if len(events):
                add(events)
            yield from self._full()

    def _timed(
        self, found: Constants, type_: Type, first: int, end: int, options: ReadOptions
    ) -> _Events:
        """Read some events of a type, without those that have no time."""
        chunk = found.chunk
        start_at, length_at = type_.index["startTime"], type_.index.get("duration")
        pool, problems = chunk.rows(type_.number, first, end)
        bad = problems != 0
        has_times = all(at is None or pool.kinds[at] in INTEGERS for at in (start_at, length_at))
        if not has_times:
            bad[:] = True
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            if not options.lenient and (not chunk.is_cut or not problems[row]):
                error = IndexError() if problems[row] else ValueError("its time is not a number")
                raise chunk.damaged(int(pool.keys[row]), error)
            self._trace.anomalies.add("bad_record", int(np.count_nonzero(bad)))
        ticks = pool.values[start_at]
        header = chunk.header
        start_ns, length_ns, outside = times(
            ticks,
            np.zeros_like(ticks) if length_at is None else pool.values[length_at],
            header.start_ticks,
            header.ticks_per_second,
            header.start_ns,
            _LAST_NS,
        )
        is_outside = (outside != 0) & ~bad
        self._trace.anomalies.add("time_out_of_range", int(np.count_nonzero(is_outside)))
        events = _Events(found, type_, pool, start_ns, start_ns + length_ns)
        kept = ~bad & ~is_outside & (start_ns <= self._until_ns)
        return events if kept.all() else events.of(kept)

    def _adder(self, type_: Type) -> Add:
        """Return what adds events of a type."""
        if type_.name in _SAMPLES:
            return self._add_samples
        if type_.name in _COUNTERS:
            return self._add_counters
        return self._add_events

    def _add_events(self, events: _Events) -> None:
        type_, index = events.type, events.type.index
        name = type_.name
        label = name.rsplit(".", 1)[-1]
        state = _STATES.get(name)
        lane = next((lane for begin, lane in _LANES if name.startswith(begin)), None)
        category, own = self._categories.code(label), self._values.code(label)
        # a phase or an operation says more than the event's name
        naming = next((each for each in ("name", "operation") if lane and each in index), None)
        owner_at = index.get("previousOwner", index.get("parentThread"))
        entity = self._entities(events, lane)
        if (entity < 0).any():
            events, entity = events.of(entity >= 0), entity[entity >= 0]
        if not len(events):
            return
        members = self._members(events)
        called: Int32s | int = own
        if naming is not None and index[naming] in members:
            called = self._named(members.pop(index[naming]), own)
        start_ns, end_ns = events.start_ns, events.end_ns
        lasts = end_ns > start_ns
        if state is not None and lasts.any():
            tags = self._state_tags([each for each in members.values() if each.table], lasts)
            self._states.add(
                entity[lasts], start_ns[lasts], end_ns[lasts], self._values.code(state), tags
            )
        if owner_at is not None:
            self._add_flows(events, owner_at, entity)
        stack = events.keys(index.get("stackTrace"))
        for rows, is_span in ((lasts, True), (~lasts, False)):
            if not rows.any():
                continue
            parts = [each.of(rows) for each in members.values()]
            if is_span and stack is not None:
                keys, which = np.unique(stack[rows], return_inverse=True)
                texts = events.found.stack_texts(type_.fields[index["stackTrace"]].type, keys)
                parts.append(_Member("stack", Op.TEXT, which, texts))
            offset, length = self._write(parts, int(np.count_nonzero(rows)))
            name_of = called if isinstance(called, int) else called[rows]
            if is_span:
                self._spans.add(
                    start_ns[rows], end_ns[rows], entity[rows], name_of, category, offset, length
                )
            else:
                self._points.add(start_ns[rows], entity[rows], name_of, offset, length)

    def _members(self, events: _Events) -> dict[int, _Member]:
        """Return the fields that are numbers, texts, or constants with a name, by index."""
        found: dict[int, _Member] = {}
        for at, each in enumerate(events.type.fields):
            kind = events.kind(at)
            if each.name in _USUAL or kind in {Op.ARRAY, Op.MARK}:
                continue
            texts = events.texts(at)
            member = _Member(each.name, kind, events.column(at), None)
            if texts is not None:
                member = _Member(each.name, Op.TEXT, *texts)
            if not self._with_private and is_private(each.name):
                self._trace.anomalies.add("private_field", member.count())
            else:
                found[at] = member
        return found

    def _named(self, member: _Member, own: int) -> Int32s:
        """Return the names of events that a field has."""
        values, which = _different(member.values)
        if member.table is not None:
            names = [member.table[value] for value in values.tolist()]
        elif member.kind in {Op.FLOAT, Op.DOUBLE}:
            names = [str(value) for value in values.view(np.float64).tolist()]
        elif member.kind == Op.BOOLEAN:
            names = [str(bool(value)) for value in values.tolist()]
        else:
            names = [str(value) for value in values.tolist()]
        codes = [own if name is None else self._values.code(name) for name in names]
        found: Int32s = np.array(codes, np.int32)[which]
        return found

    def _state_tags(self, members: list[_Member], rows: npt.NDArray[np.bool_]) -> Int64s:
        """Return the tag of each state: its fields that are texts."""
        # of what is in nearly every event another number, there would be too many
        which = np.zeros(int(np.count_nonzero(rows)), np.int64)
        for member in members:
            assert member.table is not None
            _, which = _different(which * len(member.table) + member.values[rows])
        different, first = np.unique(which, return_index=True)
        tags = np.empty(len(different), np.int64)
        chosen = [member.values[rows][first].tolist() for member in members]
        for at in range(len(different)):
            fields = {}
            for member, values in zip(members, chosen, strict=True):
                assert member.table is not None
                value = member.table[values[at]]
                if value is not None:
                    fields[member.name] = value
            tags[at] = self._tag(fields)
        found: Int64s = tags[which]
        return found

    def _write(self, members: list[_Member], rows: int) -> tuple[Int64s, Int32s]:
        """Write fields, and return where those of each event are."""
        text, offset, length = objects(
            rows,
            [json.dumps(each.name).encode() for each in members],
            [int(each.kind) for each in members],
            [np.ascontiguousarray(each.values) for each in members],
            [each.written() for each in members],
        )
        return np.where(length > 0, offset + self._trace.text.add(text), 0), length

    def _entities(self, events: _Events, lane: str | None) -> Int32s:
        """Return what each event is of; -1 for those that are left out."""
        if lane is not None:
            code = self._paths.code(async_path(self._pid, "JVM", lane))
            return np.full(len(events), code, np.int32)
        entity = self._threads(events, events.type.index.get("eventThread"))
        # what lasted is drawn in a lane, and what has no thread may overlap others
        process = self._paths.code(process_path(self._pid))
        beside = (entity == process) & (events.end_ns > events.start_ns)
        if beside.any():
            entity[beside] = self._paths.code(async_path(self._pid, "JVM", "Other"))
        return entity

    def _add_samples(self, events: _Events) -> None:
        type_, index = events.type, events.type.index
        label = type_.name.rsplit(".", 1)[-1]
        entity = self._threads(events, index.get("sampledThread", index.get("eventThread")))
        if (entity < 0).any():
            events, entity = events.of(entity >= 0), entity[entity >= 0]
        if not len(events):
            return
        state, state_at = None, index.get("state")
        if state_at is not None:
            state = events.keys(state_at)
        event: Int32s | int
        if state is None or state_at is None:
            self._sampled[label] = None
            event = self._values.code(label)
        else:
            keys, which = _different(state)
            names = events.found.names(type_.fields[state_at].type, keys)
            labels = [f"{label} {name}".strip() for name in names]
            self._sampled |= dict.fromkeys(labels)
            codes = [self._values.code(name) for name in labels]
            event = np.array(codes, np.int32)[which]
        stack: Int32s | int = -1
        stacks = events.keys(index.get("stackTrace"))
        if stacks is not None:
            keys, which = _different(stacks)
            of = type_.fields[index["stackTrace"]].type
            stack = events.found.stack_rows(of, keys)[which]
        weight: Int64s | int = 1
        weights = events.keys(index.get("samples"))
        if weights is not None:
            weight = np.clip(weights, 1, 2**40)
        self._samples.add(events.start_ns, entity, stack, weight, event)

    def _add_counters(self, events: _Events) -> None:
        type_ = events.type
        called, wanted = _COUNTERS[type_.name]
        thread_at = type_.index.get("eventThread")
        group = called + {"Heap": " (bytes)", "CPU load": " (share)"}.get(called, "")
        entities = np.zeros(len(events), np.int32)
        groups = {0: group}
        if thread_at is not None:
            entities = self._threads(events, thread_at)
            groups = {
                each: f"{group} of {self._trace.names.get(each, self._trace.paths[each][-1])}"
                for each in distinct(entities[entities >= 0]).tolist()
            }
        for name, _, below in (each.partition(".") for each in wanted):
            values = self._counted(events, name, below)
            if values is None:
                continue
            for each, of_entity in groups.items():
                rows = np.isfinite(values) & (entities == each)
                if rows.any():
                    path = counter_path(self._pid, of_entity, below or name)
                    self._numbers.add(events.start_ns[rows], self._paths.code(path), values[rows])

    def _counted(self, events: _Events, name: str, below: str) -> npt.NDArray[np.float64] | None:
        """Return the numbers in a field, or in a field of it; None if there are none."""
        at = events.type.index.get(name)
        if at is None:
            return None
        kind, column = events.kind(at), events.column(at)
        if below and kind == Op.MARK:
            chunk, number = events.found.chunk, events.type.fields[at].type
            inner = chunk.types[number].index.get(below)
            if inner is None:
                return None
            pool = chunk.nested(number, column)
            kind, column = pool.kinds[inner], pool.values[inner]
        if kind in INTEGERS:
            return column.astype(np.float64)
        return column.view(np.float64) if kind in {Op.FLOAT, Op.DOUBLE} else None

    def _threads(self, events: _Events, at: int | None) -> Int32s:
        """Return the entities of events: threads, or the process; -1 for those left out."""
        keys = events.keys(at)
        if keys is None or at is None:
            return np.full(len(events), self._paths.code(process_path(self._pid)), np.int32)
        different, which = _different(keys)
        number = events.type.fields[at].type
        codes = [self._thread(*each) for each in events.found.threads(number, different)]
        found: Int32s = np.array(codes, np.int32)[which]
        return found

    def _thread(self, tid: str, name: str) -> int:
        """Return the entity of a thread, or the process; -1 if it is left out."""
        if not tid:
            return self._paths.code(process_path(self._pid))
        if self._keep is not None and not self._keep(name):
            return -1
        code = self._paths.code(thread_path(tid, self._pid))
        if name:
            self._trace.names[code] = name
        return code

    def _add_flows(self, events: _Events, owner_at: int, entity: Int32s) -> None:
        keys = events.keys(owner_at)
        if keys is None or not keys.any():
            return
        name = "unlock" if "previousOwner" in events.type.index else "start"
        some = keys != 0
        owner = self._threads(events.of(some), owner_at)
        to, time_ns = entity[some], events.end_ns[some]
        rows = (owner >= 0) & (owner != to)
        if rows.any():
            code = self._values.code(name)
            self._flows.add(owner[rows], time_ns[rows], to[rows], time_ns[rows], code)

    def _tag(self, fields: dict[str, Any]) -> int:
        # of what is in nearly every event another number, there would be too many
        fields = {key: value for key, value in fields.items() if isinstance(value, str)}
        text = json.dumps(fields, default=str, allow_nan=False)
        known = len(self._trace.tags)
        tag = self._tags.code(text)
        if tag == known:
            self._trace.tags.append(fields)
        return tag

    def _full(self) -> Iterator[Batch]:
        for rows in (self._spans, self._points, self._samples, self._flows):
            if len(rows) >= _BATCH_ROWS:
                yield from self._delivered()
                return

    def _delivered(self) -> Iterator[Batch]:
        """Yield what was added."""
        if len(self._spans):
            start, end, entity, name, category, offset, length = self._spans.take()
            rows = len(start)
            yield Spans(
                start_ns=start,
                end_ns=end,
                thread=entity,
                name=name,
                category=category,
                level=np.zeros(rows, np.int32),
                flags=np.zeros(rows, np.uint8),
                arguments=Arguments(offset, length),
            )
        if len(self._points):
            time, entity, name, offset, length = self._points.take()
            target = np.full(len(time), -1, np.int32)
            yield Points(time, entity, name, target, Arguments(offset, length))
        if len(self._samples):
            yield Samples(*self._samples.take())
        if len(self._flows):
            yield Flows(*self._flows.take())

    def rest(self) -> Iterator[Batch]:
        """Yield what is left, and the states of threads; declare the lanes."""
        yield from self._delivered()
        has_counters = bool(len(self._numbers))
        if has_counters:
            time, entity, value = self._numbers.take()
            # the values of a counter are in order of time, and those of chunks need not be
            order = np.argsort(time, kind="stable")
            yield Counters(time[order], entity[order], value[order])
        parent, frame = self._stacks.build()
        self._trace.stacks = StackTable(parent, frame, self._frames)
        self._trace.sample_units |= _counted_apart(self._sampled)
        process = self._paths.code(process_path(self._pid))
        self._trace.names[process] = "java"
        lanes = self._trace.lanes
        if len(self._states):
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
        if has_counters:
            lanes.append(LaneDeclaration(COUNTER_PATTERN, kind="counter"))
        if not len(self._states):
            return
        entity, start, end, state, tag = self._states.take()
        order = np.lexsort((tag, state, end, start, entity))
        entity, rows = entity[order], np.stack((start, end, state, tag))[:, order]
        firsts = np.flatnonzero(np.diff(entity, prepend=-1)).tolist()
        for first, after in zip(firsts, [*firsts[1:], len(entity)], strict=True):
            of = int(entity[first])
            status = self._paths.code((*self._trace.paths[of], STATUS))
            if of in self._trace.names:
                self._trace.names[status] = self._trace.names[of]
            changes = _changes(rows[:, first:after])
            for begin in range(0, changes.shape[1], _BATCH_ROWS):
                time, state, tag = changes[:, begin : begin + _BATCH_ROWS]
                yield StateChanges(
                    time.copy(),
                    np.full(len(time), status, np.int32),
                    state.astype(np.int32),
                    tag.astype(np.int32),
                )


def _changes(rows: Int64s) -> Int64s:
    """Return the changes of state of a thread: of events that overlap, the one that began last.

    Args:
        rows: By column, when each began and ended, the state and the tag, in order of these.

    Returns:
        By column, the time, the state and the tag.

    >>> _changes(np.array([(0, 10, 1, -1), (12, 13, 2, -1)]).T).T.tolist()
    [[0, 1, -1], [10, -1, -1], [12, 2, -1], [13, -1, -1]]
    """
    start, end, state, tag = rows
    # events of one group overlap others of it
    begins = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    group = np.cumsum(begins)
    sizes = np.bincount(group)
    alone = sizes[group] == 1
    count = int(np.count_nonzero(alone))
    none = np.full(count, -1, np.int64)
    parts = [
        np.stack((group[alone], start[alone], state[alone], tag[alone])),
        np.stack((group[alone], end[alone], none, none)),
    ]
    firsts = np.flatnonzero(begins & ~alone).tolist()
    for first in firsts:
        of = rows[:, first : first + int(sizes[group[first]])].T.tolist()
        nested = np.array(_nested_changes([*map(tuple, of)]), np.int64).T
        parts.append(np.concatenate((np.full((1, nested.shape[1]), group[first]), nested)))
    found = np.concatenate(parts, axis=1)
    found = found[1:, np.lexsort((found[1], found[0]))]
    # of several changes at one time the last counts
    changes: Int64s = found[:, np.append(found[0, 1:] != found[0, :-1], True)]
    return changes


def _nested_changes(rows: list[tuple[int, ...]]) -> list[tuple[int, int, int]]:
    """Return the changes of state of a thread whose events overlap.

    >>> _nested_changes([(0, 10, 1, -1), (4, 6, 2, -1)])
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


def _counted_apart(events: Iterable[str]) -> dict[str, str]:
    """Return the units of events of samples, those of running threads first, if there are others.

    Samples of threads that wait, as in a call of the system, would count as much as those of
    threads that run, so they are not added up. Of other recordings nothing is returned.

    >>> _counted_apart(["NativeMethodSample STATE_RUNNABLE", "ExecutionSample STATE_RUNNABLE"])
    {'ExecutionSample STATE_RUNNABLE': 'count', 'NativeMethodSample STATE_RUNNABLE': 'count'}
    """
    ordered = sorted(events, key=lambda event: _RUNNING.fullmatch(event) is None)
    is_alike = not ordered or bool(_RUNNING.fullmatch(ordered[0])) == bool(
        _RUNNING.fullmatch(ordered[-1])
    )
    return {} if is_alike else dict.fromkeys(ordered, "count")
