"""Execution traces of Go 1.11 to 1.21: `runtime/trace`, `go test -trace`, `/debug/pprof/trace`.

Goroutines are threads with states: running, runnable, and what they wait for. Collections of
garbage, regions and tasks of the program are spans, who unblocked whom is a flow. Later versions
have another layout. Definition: `internal/trace/parser.go` and `order.go` of Go 1.19.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.errors import InputError
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
from meantime.model.columns import Interner
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.model.trace import Counters, Flows, LaneDeclaration, State, StateChanges
from meantime.readers.contract import lazy_trace
from meantime.readers.sample_rows import SampleRows
from meantime.readers.span_rows import SpanRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "go-trace"
OBJECTS = True

_HEADER_BYTES = 16
_INLINE_ARGUMENTS = 4
_MOST_VARINT_BYTES = 10
_NS_PER_S = 10**9
_LIMIT = 2**62
_PID = "0"
_BATCH, _FREQUENCY, _STACK = 1, 2, 3
_GOMAXPROCS, _PROC_START, _PROC_STOP, _GC_START, _GC_DONE, _STW_START, _STW_DONE = range(4, 11)
_CREATE, _START, _END, _STOP, _SCHED, _PREEMPT, _SLEEP, _BLOCK, _UNBLOCK = range(13, 22)
_SYSCALL, _SYS_EXIT, _SYS_BLOCK, _WAITING, _IN_SYSCALL, _HEAP, _HEAP_GOAL = range(28, 35)
_TIMER, _STRING, _START_LOCAL, _UNBLOCK_LOCAL, _SYS_EXIT_LOCAL = 35, 37, 38, 39, 40
_START_LABEL, _BLOCK_GC, _ASSIST_START, _ASSIST_DONE = 41, 42, 43, 44
_TASK, _TASK_END, _REGION, _LOG, _SAMPLE = 45, 46, 47, 48, 49
_RUNNING, _RUNNABLE, _BLOCKED, _IN_CALL = "running", "runnable", "blocked", "system call"
# What a goroutine is from the event on that takes it off its processor.
_LEFT: Final = {
    _STOP: _BLOCKED, _SCHED: _RUNNABLE, _PREEMPT: _RUNNABLE, _SLEEP: "sleep", _BLOCK: _BLOCKED,
    22: "send to channel", 23: "receive from channel", 24: "select", 25: "lock", 26: "condition",
    27: "network", _SYS_BLOCK: _IN_CALL, _BLOCK_GC: "garbage collector", _END: None,
}  # fmt: skip
_COLORS = {
    _RUNNING: "#1d8759", _RUNNABLE: "#f6b324", _IN_CALL: "#8e63b5", "network": "#659cd3",
    "sleep": "#c8ccd4", _BLOCKED: "#9aa0ab", "lock": "#c9423c", "garbage collector": "#7a4b2a",
}  # fmt: skip
_STARTS = {_START, _START_LOCAL, _START_LABEL}
_UNBLOCKS = {_UNBLOCK, _UNBLOCK_LOCAL}
_EXITS = {_SYS_EXIT, _SYS_EXIT_LOCAL}
# Events of a goroutine that no processor runs.
_OF_ANOTHER = {*_EXITS, _WAITING, _IN_SYSCALL}
_OF_RUNTIME = {
    _GOMAXPROCS, _PROC_START, _PROC_STOP, _GC_START, _GC_DONE, _STW_START, _STW_DONE, _HEAP,
    _HEAP_GOAL, _ASSIST_START, _ASSIST_DONE,
}  # fmt: skip
_OF_PROGRAM = {_TASK, _TASK_END, _REGION, _LOG, _SAMPLE}
# How many numbers follow the time of each event that is read.
_ARGUMENTS: Final = {
    _GOMAXPROCS: 1, _CREATE: 2, _START: 1, _START_LOCAL: 1, _START_LABEL: 1, _UNBLOCK: 1,
    _UNBLOCK_LOCAL: 1, _SYS_EXIT: 3, _SYS_EXIT_LOCAL: 2, _WAITING: 1, _IN_SYSCALL: 1, _HEAP: 1,
    _BATCH: 1, _HEAP_GOAL: 1, _TASK: 3, _TASK_END: 1, _REGION: 3, _LOG: 2, _SAMPLE: 4,
}  # fmt: skip


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Event(NamedTuple):
    """An event, with the goroutine that ran when it was written; 0 for none."""

    ticks: int
    kind: int
    processor: int
    goroutine: int
    arguments: list[int]
    text: str


_BY_TICKS = itemgetter(0)


class _Parsed:
    """What the bytes of a trace contain."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.strings: dict[int, str] = {}
        # by id, the functions of a stack, innermost first
        self.stacks: dict[int, list[int]] = {}
        self.frequency = 0
        self._running: dict[int, int] = {}
        # of the batch that is being read
        self._processor = self._ticks = 0

    def parse(self, data: bytes) -> bool:
        """Read all events, and return whether the last one is cut.

        Raises:
            ValueError: With the offset of what is malformed.
        """
        at, size = _HEADER_BYTES, len(data)
        while at < size:
            begin = at
            kind, count = data[at] & 63, (data[at] >> 6) + 1
            if not 0 < kind <= _SAMPLE:
                raise ValueError(begin)
            at += 1
            try:
                if kind == _STRING:
                    id_, at = _varint(data, at)
                    self.strings[id_], at = _text(data, at)
                    continue
                arguments, at = _arguments(data, at, count)
                text = ""
                if kind == _LOG:
                    text, at = _text(data, at)
            except IndexError:
                return True
            except ValueError:
                raise ValueError(begin) from None
            if len(arguments) <= _ARGUMENTS.get(kind, 0):
                raise ValueError(begin)
            self._take(kind, arguments, text)
            if self._ticks > _LIMIT:
                raise ValueError(begin)
        return False

    def _take(self, kind: int, arguments: list[int], text: str) -> None:
        if kind == _BATCH:
            self._processor, self._ticks = arguments[:2]
        elif kind == _FREQUENCY:
            self.frequency = arguments[0]
        elif kind == _STACK:
            self.stacks[arguments[0]] = arguments[3::4]
        elif kind != _TIMER:
            self._ticks += arguments[0]
            own = self._goroutine(kind, arguments)
            self.events.append(_Event(self._ticks, kind, self._processor, own, arguments[1:], text))

    def _goroutine(self, kind: int, arguments: list[int]) -> int:
        """Return the goroutine that an event is of, and note which one its processor runs next."""
        if kind in _STARTS:
            own = self._running[self._processor] = arguments[1]
        elif kind in _OF_ANOTHER:
            own = arguments[1]
        elif kind == _SAMPLE:
            own = arguments[3]
        else:
            own = self._running.get(self._processor, 0)
        if kind in _LEFT:
            self._running[self._processor] = 0
        return own

    def ordered(self) -> list[_Event]:
        """Return the events in order of time; a call returned before its event was written."""
        self.events.sort(key=_BY_TICKS)
        called: dict[int, int] = {}
        found = []
        for event in self.events:
            if event.kind in {_SYS_BLOCK, _IN_SYSCALL}:
                called[event.goroutine] = event.ticks
            elif event.kind in _EXITS:
                returned = (
                    event.arguments[-1] if event.kind == _SYS_EXIT_LOCAL else event.arguments[2]
                )
                if called.get(event.goroutine, returned) <= returned <= event.ticks and returned:
                    event = event._replace(ticks=returned)  # noqa: PLW2901 - the same event
            found.append(event)
        found.sort(key=_BY_TICKS)
        return found

    def name(self, stack: int) -> str:
        """Return the function that a goroutine began with."""
        functions = self.stacks.get(stack)
        return self.strings.get(functions[-1], "") if functions else ""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise ValueError(at)


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _varint(data, at)
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size].decode("utf-8", "replace"), at + size


def _arguments(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Return the numbers of an event, and the offset after them."""
    found = []
    if count < _INLINE_ARGUMENTS:
        for _ in range(count):
            value = data[at]
            at += 1
            if value > 127:
                value, at = _varint(data, at - 1)
            found.append(value)
        return found, at
    size, at = _varint(data, at)
    end = at + size
    if end > len(data):
        raise IndexError(at)
    while at < end:
        value, at = _varint(data, at)
        found.append(value)
    if at != end:
        raise ValueError(at)
    return found, at


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        data = bytes(source.whole())
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    parsed = _Parsed()
    is_cut = source.truncated
    try:
        is_cut |= parsed.parse(data)
    except ValueError as error:
        if not options.lenient:
            raise InputError(
                source.name, "an event of the execution trace is malformed", offset=error.args[0]
            ) from None
        trace.anomalies.add("bad_record")
    trace.anomalies.add("truncated", int(is_cut))
    if parsed.frequency <= 0:
        if not options.lenient or not parsed.events:
            raise InputError(
                source.name, "the execution trace is cut: the frequency of its clock is at its end"
            )
        parsed.frequency = _NS_PER_S
        trace.facts["times"] = "in ticks: the frequency of the clock is missing"
    yield from _Reading(trace, parsed).batches()


class _Reading:
    """Turns events into states, spans, flows and counters."""

    def __init__(self, trace: Trace, parsed: _Parsed) -> None:
        self._trace = trace
        self._parsed = parsed
        self._events = parsed.ordered()
        trace.records = len(self._events)
        self._paths, self._values = trace.paths, Interner(trace.values)
        self._spans = SpanRows(trace)
        self._samples = SampleRows(trace.values)
        self._stacks = StackTableBuilder()
        self._states: list[tuple[int, int, int]] = []
        self._flows: list[tuple[int, int, int, int]] = []
        self._counters: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._open: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        self._last_ns = 0
        self._names: dict[int, str] = {}
        self._threads: dict[int, int] = {}
        self._statuses: dict[int, int] = {}

    def batches(self) -> Iterator[Batch]:
        """Yield all that is read."""
        first = self._events[0].ticks if self._events else 0
        for event in self._events:
            time_ns = (event.ticks - first) * _NS_PER_S // self._parsed.frequency
            if time_ns > _LIMIT:
                self._trace.anomalies.add("time_out_of_range")
                continue
            self._last_ns = max(self._last_ns, time_ns)
            if event.kind in _OF_RUNTIME:
                self._runtime(event, time_ns)
            elif event.kind in _OF_PROGRAM:
                self._program(event, time_ns)
            else:
                self._goroutine(event, time_ns)
        self._close()
        self._declare()
        yield from self._state_batches()
        yield from self._spans.batches()
        if self._flows:
            columns = np.array(self._flows, np.int64).T
            yield Flows(
                from_entity=columns[0].astype(np.int32),
                from_ns=columns[1].copy(),
                to_entity=columns[2].astype(np.int32),
                to_ns=columns[3].copy(),
                name=np.full(len(self._flows), self._values.code("unblock"), np.int32),
            )
        for code, rows in self._counters.items():
            time_ns, value = np.array(rows, np.int64).T
            yield Counters(time_ns.copy(), np.full(len(rows), code, np.int32), value.copy())
        if self._samples:
            self._trace.stacks = self._stacks.build()
            yield self._samples.batch()

    def _thread(self, goroutine: int) -> int:
        code = self._threads.get(goroutine)
        if code is None:
            code = self._threads[goroutine] = self._paths.code(thread_path(goroutine, _PID))
        return code

    def _enter(self, goroutine: int, time_ns: int, state: str | None) -> None:
        """Put a goroutine into a state."""
        if not goroutine:
            return
        entity = self._statuses.get(goroutine)
        if entity is None:
            path = (*thread_path(goroutine, _PID), STATUS)
            entity = self._statuses[goroutine] = self._paths.code(path)
        self._states.append((time_ns, entity, -1 if state is None else self._values.code(state)))

    def _goroutine(self, event: _Event, time_ns: int) -> None:
        """Read an event about the state of a goroutine."""
        kind, own, arguments = event.kind, event.goroutine, event.arguments
        if kind == _CREATE:
            self._enter(arguments[0], time_ns, _RUNNABLE)
            self._names[arguments[0]] = self._parsed.name(arguments[1])
        elif kind in _STARTS:
            self._enter(own, time_ns, _RUNNING)
        elif kind in _LEFT:
            self._enter(own, time_ns, _LEFT[kind])
        elif kind in _EXITS:
            self._enter(own, time_ns, _RUNNABLE)
        elif kind in {_WAITING, _IN_SYSCALL}:
            self._enter(own, time_ns, _BLOCKED if kind == _WAITING else _IN_CALL)
        elif kind in _UNBLOCKS:
            self._enter(arguments[0], time_ns, _RUNNABLE)
            if own:
                ends = (self._thread(own), time_ns, self._thread(arguments[0]), time_ns)
                self._flows.append(ends)
        elif kind == _SYSCALL and own:
            self._spans.point(thread_path(own, _PID), time_ns, _IN_CALL)

    def _runtime(self, event: _Event, time_ns: int) -> None:
        """Read an event about processors and the garbage collector."""
        kind, own, arguments = event.kind, event.goroutine, event.arguments
        if kind in {_GC_START, _STW_START, _PROC_START}:
            name = {_GC_START: "GC", _STW_START: "stop the world", _PROC_START: "running"}[kind]
            self._begin(name, event.processor if kind == _PROC_START else 0, time_ns, name)
        elif kind in {_GC_DONE, _STW_DONE}:
            name = "GC" if kind == _GC_DONE else "stop the world"
            self._end(name, 0, time_ns)
        elif kind == _PROC_STOP:
            self._end("running", event.processor, time_ns)
        elif kind == _ASSIST_START:
            self._begin("assist", own, time_ns, "GC mark assist")
        elif kind == _ASSIST_DONE:
            self._end("assist", own, time_ns)
        elif kind in {_HEAP, _HEAP_GOAL, _GOMAXPROCS}:
            name, series = {
                _HEAP: ("Heap", "allocated"), _HEAP_GOAL: ("Heap", "goal"),
                _GOMAXPROCS: ("Processors", "GOMAXPROCS"),
            }[kind]  # fmt: skip
            code = self._paths.code(counter_path(_PID, name, series))
            self._counters[code].append((time_ns, min(arguments[0], _LIMIT)))

    def _program(self, event: _Event, time_ns: int) -> None:
        """Read an event that the program or the profiler wrote."""
        kind, own, arguments = event.kind, event.goroutine, event.arguments
        text = self._parsed.strings.get
        if kind == _TASK:
            self._begin("task", arguments[0], time_ns, text(arguments[2], "task"))
        elif kind == _TASK_END:
            self._end("task", arguments[0], time_ns)
        elif kind == _REGION and arguments[1] == 0:
            self._begin("region", own, time_ns, text(arguments[2], "region"))
        elif kind == _REGION:
            self._end("region", own, time_ns)
        elif kind == _LOG and own:
            fields = {"message": event.text, "task": arguments[0]}
            key = text(arguments[1], "") or "log"
            self._spans.point(thread_path(own, _PID), time_ns, key, fields)
        elif kind == _SAMPLE:
            functions = self._parsed.stacks.get(arguments[3], [])
            names = [text(each, "unknown") for each in reversed(functions)]
            stack = self._stacks.add(names) if names else NO_STACK
            self._samples.add(self._thread(own), time_ns, stack, 1, "samples")

    def _begin(self, kind: str, id_: int, time_ns: int, name: str) -> None:
        self._open[kind, id_].append((time_ns, name))

    def _end(self, kind: str, id_: int, time_ns: int, *, unfinished: bool = False) -> None:
        """Add the span that was begun last."""
        begun = self._open[kind, id_]
        if not begun:
            self._trace.anomalies.add("end_without_begin")
            return
        start_ns, name = begun.pop()
        match kind:
            case "assist" | "region":
                path = thread_path(id_, _PID)
            case "task":
                path = async_path(_PID, "Tasks", str(id_))
            case "running":
                path = async_path(_PID, "Processors", str(id_))
            case _:
                path = async_path(_PID, "Runtime", kind)
        times_ns = start_ns, max(start_ns, time_ns)
        self._spans.add(path, times_ns, name, kind, unfinished=unfinished)

    def _close(self) -> None:
        """Add the spans that were never ended."""
        for (kind, id_), begun in self._open.items():
            while begun:
                self._end(kind, id_, self._last_ns, unfinished=kind != "running")

    def _declare(self) -> None:
        trace = self._trace
        trace.names[self._paths.code(process_path(_PID))] = "Go"
        for goroutine, name in self._names.items():
            if name:
                trace.names[self._thread(goroutine)] = name
                if goroutine in self._statuses:
                    trace.names[self._statuses[goroutine]] = name
        states = tuple(
            State(name, number, _COLORS.get(name))
            for number, name in enumerate(
                dict.fromkeys([_RUNNING, _RUNNABLE, *filter(None, _LEFT.values())])
            )
        )
        trace.lanes.append(
            LaneDeclaration(
                f"Processes/*/Threads/*/{STATUS}",
                entity_kind="Goroutine",
                states=states,
            )
        )
        if any(is_async(path) for path in trace.paths):
            trace.lanes.append(
                LaneDeclaration(
                    ASYNC_PATTERN, kind="async", label="Tasks and runtime", entity_kind="Task"
                )
            )
        if self._counters:
            trace.lanes.append(LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters"))

    def _state_batches(self) -> Iterator[Batch]:
        if not self._states:
            return
        time_ns, entity, state = np.array(self._states, np.int64).T
        yield StateChanges(
            time_ns=time_ns.copy(),
            entity=entity.astype(np.int32),
            state=state.astype(np.int32),
            tag=np.full(len(time_ns), -1, np.int32),
        )
