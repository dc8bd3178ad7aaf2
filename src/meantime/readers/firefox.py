"""Firefox Profiler's JSON: profiles of Gecko and processed ones, also of samply.

The categories of the sampled stacks are states of their thread, intervals of markers async spans,
and other markers points. Screenshots, and fields with requests or environments, are left out.
Formats: https://github.com/firefox-devtools/profiler/blob/main/docs-developer/gecko-profile-format.md
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.kernels import calls
from meantime.model.attribute_paths import (
    ASYNC_PATTERN,
    COUNTER_PATTERN,
    async_path,
    counter_path,
    process_path,
    thread_path,
)
from meantime.model.clocks import Clock
from meantime.model.columns import Interner
from meantime.model.stacks import StackTable
from meantime.model.trace import (
    Arguments,
    Counters,
    Flows,
    LaneDeclaration,
    Points,
    Samples,
    SpanFlag,
    Spans,
    StateChanges,
)
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object, parse_object
from meantime.readers.private_fields import is_private
from meantime.readers.services.lanes import lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

    Floats = npt.NDArray[np.float64]

__all__ = ["FORMAT", "read"]

FORMAT = "firefox"
TEXT = True

_CATEGORY = "Category"
_SAMPLES, _CPU = "samples", "cpu"
# A stack counts until the next sample, at most for so many intervals.
_BRIDGED = 3
_NS_PER_MS, _LIMIT_NS = 10**6, 2**62
# No sum or product of a few such numbers overflows.
_MOST = 1e100
_INSTANT, _INTERVAL, _BEGIN, _END = range(4)
_DEEPEST_PROCESS = 16
_MOST_TEXT = 500
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)(?:[^/@\s]*@)?([^?#\s]*)[?#]\S*")
_LEFT_OUT = {"stack", "cause", "type", "screenshot", "innerWindowID"}
_NAMED_BY_DATA = {"UserTiming", "Text", "tracing-text", "Log"}
_CPU_UNITS = {"ns": 1, "µs": 1000, "us": 1000}
_MALFORMED = (
    ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError,
)  # fmt: skip


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole file.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    trace = lazy_trace(source, FORMAT, _batches, options)
    trace.samples_first = True
    return trace


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    profile = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    # what the performance panel saved before Firefox 70
    if "meta" not in profile and isinstance(profile.get("profile"), dict):
        profile = profile["profile"]
        _leave_markers_out(profile, trace)
    meta = profile.get("meta")
    if not isinstance(meta, dict) or not isinstance(profile.get("threads"), list):
        raise InputError(source.name, "not a Firefox profile: meta or threads are missing")
    reading = _Reading(source.name, trace, meta, options)
    reading.add_process(profile, Decimal(0), 0)
    yield from reading.batches()


def _leave_markers_out(profile: dict[str, Any], trace: Trace) -> None:
    """Leave out markers that count another time than samples, and nothing relates the two."""
    threads = profile.get("threads")
    for thread in threads if isinstance(threads, list) else []:
        markers = thread.pop("markers", None) if isinstance(thread, dict) else None
        rows = markers.get("data") if isinstance(markers, dict) else None
        trace.anomalies.add("unplaced_marker", len(rows) if isinstance(rows, list) else 0)


class _Table:
    """A table of a profile by column: of arrays, or of rows with a schema."""

    def __init__(self, table: Any) -> None:
        if not isinstance(table, dict):
            raise TypeError(table)
        self._columns: dict[str, list[Any]] = {}
        if "schema" in table:
            rows = table["data"]
            self.size = len(rows)
            for name, column in table["schema"].items():
                self._columns[name] = [row[column] if column < len(row) else None for row in rows]
            return
        self._columns = {name: each for name, each in table.items() if isinstance(each, list)}
        sizes = {len(each) for each in self._columns.values()}
        self.size = int(table["length"]) if "length" in table else max(sizes, default=0)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str) -> list[Any]:
        """Return a column; it is of nulls if there is none.

        Raises:
            ValueError: If it is shorter than the table.
        """
        found = self._columns.get(name)
        if found is None:
            if self.size > 2**31:
                raise ValueError(self.size)
            return [None] * self.size
        if len(found) < self.size:
            raise ValueError(name)
        return found[: self.size]

    def index(self, name: str, below: int | None = None) -> Int64s:
        """Return a column of indices; -1 for null.

        Raises:
            ValueError: If one is not below a number.
        """
        column = [-1 if each is None else each for each in self.column(name)]
        found = np.array(column, np.int64) if column else np.zeros(0, np.int64)
        if below is not None and len(found) and (found.max() >= below or found.min() < -1):
            raise ValueError(name)
        return found

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers; NaN for null.

        Raises:
            ValueError: As `_numbers`.
        """
        return _numbers(self.column(name))

    def times(self) -> Floats:
        """Return the times of samples in milliseconds, which may be differences."""
        if "timeDeltas" in self:
            return np.cumsum(self.numbers("timeDeltas"))
        return self.numbers("time")


class _Thread(NamedTuple):
    """What was read of a thread, until the stacks of all are numbered."""

    entity: int
    categories: int
    time_ns: Int64s
    stack: Int64s
    category: Int64s
    weight: Int64s
    event: str
    cpu_ns: Int64s | None


class _Marker(NamedTuple):
    """A marker that is drawn; `end_ns` is None for a point."""

    start_ns: int
    end_ns: int | None
    name: str
    category: str | None
    arguments: bytes
    unfinished: bool = False


class _Reading:
    """Reads the processes and threads of a profile."""

    def __init__(
        self, name: str, trace: Trace, meta: Mapping[str, Any], options: ReadOptions
    ) -> None:
        self._name = name
        self._trace = trace
        self._lenient = options.lenient
        self._with_private = options.private
        self._threads: list[_Thread] = []
        self._parents: list[Int64s] = []
        self._frames: list[Int32s] = []
        self._names: list[str] = []
        self._frame = Interner(self._names)
        self._rows = 0
        self._paths = trace.paths
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._taken: set[Path] = set()
        self._markers: dict[int, list[_Marker]] = {}
        self._points: list[tuple[int, _Marker]] = []
        self._calls: dict[tuple[Any, ...], dict[str, tuple[int, int]]] = defaultdict(dict)
        self._counters: list[tuple[int, Int64s, Floats]] = []
        self._counted: dict[int, int] = {}
        self._read_meta(meta)

    def _read_meta(self, meta: Mapping[str, Any]) -> None:
        trace = self._trace
        try:
            start_ms = _decimal(meta.get("startTime", 0))
            self.interval_ns = max(1, int(_decimal(meta.get("interval", 1)) * _NS_PER_MS))
        except _MALFORMED:
            raise InputError(self._name, "meta.startTime or meta.interval is malformed") from None
        if start_ms > 0:
            utc_ns = int((start_ms * _NS_PER_MS).to_integral_value())
            if utc_ns < _LIMIT_NS:
                trace.clock = Clock(utc_at_origin_ns=utc_ns)
        self._start_ms = start_ms
        units = meta.get("sampleUnits")
        unit = units.get("threadCPUDelta") if isinstance(units, dict) else None
        # before the units were written, processed profiles had microseconds
        self._cpu_scale = _CPU_UNITS.get(str(unit), 1000 if unit is None else 0)
        trace.facts |= {
            called: str(meta[name])[:_MOST_TEXT]
            for name, called in (
                ("product", "program"), ("misc", "version"), ("oscpu", "system"),
                ("abi", "abi"), ("CPUName", "processor"), ("appBuildID", "build"),
                ("version", "gecko version"),
                ("preprocessedProfileVersion", "processed version"),
            )
            if meta.get(name)
        }  # fmt: skip
        trace.facts["interval"] = f"{self.interval_ns:,} ns"
        named = meta.get("categories")
        self._category_names = [
            str(each.get("name", "")) if isinstance(each, dict) else str(each)
            for each in (named if isinstance(named, list) else [])
        ]

    def add_process(self, profile: dict[str, Any], shift_ms: Decimal, depth: int) -> None:
        """Read the threads and counters of a process, and of the processes in it.

        Raises:
            InputError: Unless it is read leniently, if one is malformed.
        """
        if depth > _DEEPEST_PROCESS:
            raise InputError(self._name, "processes are nested too deeply")
        shared = profile.get("shared")
        of_all = {**profile, **shared} if isinstance(shared, dict) else profile
        pids: list[Any] = []
        for number, thread in enumerate(profile["threads"]):
            if isinstance(thread, str):
                # Gecko 3 has the profile of a child process as a text
                self._add_inner(parse_object(self._name, thread), depth)
                continue
            try:
                pids.append(self._add_thread(thread, of_all, shift_ms, len(self._threads)))
            except _MALFORMED:
                self._malformed(f"threads[{number}]")
        counters = profile.get("counters")
        for number, counter in enumerate(counters if isinstance(counters, list) else []):
            try:
                self._add_counter(counter, pids, shift_ms)
            except _MALFORMED:
                self._malformed(f"counters[{number}]")
        processes = profile.get("processes")
        for process in processes if isinstance(processes, list) else []:
            if isinstance(process, dict):
                self._add_inner(process, depth)

    def _add_inner(self, process: dict[str, Any], depth: int) -> None:
        meta = process.get("meta")
        if not isinstance(meta, dict) or not isinstance(process.get("threads"), list):
            self._malformed("a process")
            return
        try:
            shift_ms = _decimal(meta.get("startTime", self._start_ms)) - self._start_ms
        except _MALFORMED:
            self._malformed("the startTime of a process")
            return
        self.add_process(process, shift_ms, depth + 1)

    def _malformed(self, what: str) -> None:
        if not self._lenient:
            raise InputError(self._name, f"{what} is malformed")
        self._trace.anomalies.add("bad_profile")

    def _add_thread(
        self, thread: dict[str, Any], shared: dict[str, Any], shift_ms: Decimal, number: int
    ) -> Any:
        texts = _texts(thread, shared)
        tables = {
            name: _Table(thread[name] if name in thread else shared[name])
            for name in ("samples", "stackTable", "frameTable")
        }
        frames, categories = self._frames_of(tables["frameTable"], thread, shared, texts)
        stacks = tables["stackTable"]
        prefix = stacks.index("prefix", stacks.size)
        if (prefix >= np.arange(stacks.size)).any():
            raise ValueError("prefix")
        frame = stacks.index("frame", len(frames))
        if (frame < 0).any():
            raise ValueError("frame")
        own = stacks.index("category") if "category" in stacks else categories[frame]
        samples = tables["samples"]
        stack = samples.index("stack", stacks.size)
        time_ns = _in_ns(samples.times(), shift_ms)
        kind = str(thread["samples"].get("weightType") or _SAMPLES)
        weight, event = _weights(samples, kind)
        cpu_ns = None
        if self._cpu_scale and "threadCPUDelta" in samples:
            with np.errstate(over="ignore"):
                delta = np.nan_to_num(samples.numbers("threadCPUDelta")) * self._cpu_scale
            cpu_ns = np.clip(delta, 0, _LIMIT_NS // max(1, len(delta))).astype(np.int64)
        # a sample has no more than its stack
        category = _inherited(own, prefix)
        in_sample = np.where(stack >= 0, category[stack] if len(category) else -1, -1)
        entity, pid = self._entity(thread, number)
        if "markers" in thread:
            self._add_markers(_Table(thread["markers"]), texts, entity, pid, shift_ms)
        order = np.argsort(time_ns, kind="stable")
        self._threads.append(
            _Thread(
                entity,
                int(categories.max(initial=-1)),
                time_ns[order],
                np.where(stack >= 0, stack + self._rows, -1)[order],
                in_sample[order],
                weight[order],
                event,
                None if cpu_ns is None else cpu_ns[order],
            )
        )
        self._parents.append(np.where(prefix >= 0, prefix + self._rows, -1))
        self._frames.append(frames[frame])
        self._rows += stacks.size
        self._trace.records += samples.size
        return pid

    def _entity(self, thread: dict[str, Any], number: int) -> tuple[int, Any]:
        pid, tid = thread.get("pid"), thread.get("tid")
        kind = thread.get("processName") or thread.get("processType") or ""
        pid = str(kind or "0") if pid is None else str(pid)
        tid = number if tid is None else tid
        path = thread_path(str(tid), pid)
        again = 1
        while path in self._taken:
            # after an exec, a thread stands twice in a profile of samply
            again += 1
            path = thread_path(f"{tid}.{again}", pid)
        self._taken.add(path)
        entity = self._paths.code(path)
        self._trace.names[entity] = str(thread.get("name") or "")
        process = self._paths.code(process_path(pid))
        if kind:
            self._trace.names[process] = str(kind)
        return entity, pid

    def _frames_of(
        self,
        table: _Table,
        thread: dict[str, Any],
        shared: dict[str, Any],
        texts: list[str],
    ) -> tuple[Int32s, Int64s]:
        """Return the code of each frame's name, and its category."""
        if "location" in table:
            names = [texts[each] for each in table.index("location", len(texts)).tolist()]
        else:
            functions = _Table(thread.get("funcTable") or shared["funcTable"])
            name_of = [texts[each] for each in functions.index("name", len(texts)).tolist()]
            library = _libraries(functions, thread, shared, texts)
            full = [
                f"{name} ({of})" if of and name.startswith("0x") else name
                for name, of in zip(name_of, library, strict=True)
            ]
            names = [full[each] for each in table.index("func", len(full)).tolist()]
        return self._frame.codes(names), table.index("category")

    def _add_markers(
        self, table: _Table, texts: list[str], entity: int, pid: Any, shift_ms: Decimal
    ) -> None:
        names = [texts[each] for each in table.index("name", len(texts)).tolist()]
        data = [each if isinstance(each, dict) else {} for each in table.column("data")]
        category = table.index("category").tolist()
        is_old = "phase" not in table
        start = table.numbers("time" if is_old else "startTime")
        end = start if is_old else table.numbers("endTime")
        phase = table.index("phase").tolist()
        if is_old:
            start, end, phase = _old_markers(start, data)
        # an interval may lack its end, and an end its begin
        start = np.where(np.isnan(start), end, start)
        end = np.where(np.isnan(end), start, end)
        start_ns, end_ns = _in_ns(start, shift_ms).tolist(), _in_ns(end, shift_ms).tolist()
        last_ns = max([*start_ns, *end_ns], default=0)
        found: list[_Marker] = []
        begins: dict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(names):
            fields = data[row]
            if name == "CompositorScreenshot" or fields.get("type") == "CompositorScreenshot":
                self._trace.anomalies.add("record_skipped")
                continue
            self._note_call(fields, entity, str(pid), start_ns[row], end_ns[row])
            of = category[row]
            group = self._category_names[of] if 0 <= of < len(self._category_names) else None
            called = (
                str(fields.get("name") or name) if fields.get("type") in _NAMED_BY_DATA else name
            )
            at = phase[row]
            if at == _END:
                if begins[name]:
                    first = begins[name].pop()
                    found[first] = found[first]._replace(
                        end_ns=max(end_ns[row], found[first].start_ns), unfinished=False
                    )
                else:
                    self._trace.anomalies.add("end_without_begin")
                continue
            until = None
            if at == _INTERVAL:
                self._trace.anomalies.add("negative_duration", end_ns[row] < start_ns[row])
                until = max(start_ns[row], end_ns[row])
            elif at == _BEGIN:
                begins[name].append(len(found))
                until = max(last_ns, start_ns[row])
            arguments = self._arguments(fields)
            found.append(
                _Marker(start_ns[row], until, called, group, arguments, unfinished=at == _BEGIN)
            )
        self._trace.anomalies.add("unfinished_span", sum(each.unfinished for each in found))
        self._place(found, entity, str(pid))

    def _place(self, found: list[_Marker], entity: int, pid: str) -> None:
        """Put the intervals of each name into lanes in which none overlaps another."""
        thread = self._trace.names.get(entity) or "thread"
        group = f"{thread} {self._trace.paths[entity][-1]} markers"
        by_name: dict[str, list[_Marker]] = defaultdict(list)
        for marker in found:
            if marker.end_ns is None:
                self._points.append((entity, marker))
            else:
                by_name[marker.name].append(marker)
        for name, markers in by_name.items():
            markers.sort(key=lambda each: (each.start_ns, -(each.end_ns or 0)))
            starts = np.array([each.start_ns for each in markers], np.int64)
            ends = np.array([each.end_ns for each in markers], np.int64)
            lanes, _ = lanes_of(starts, ends, np.full(len(markers), -1, np.int64))
            for marker, lane in zip(markers, lanes.tolist(), strict=True):
                id_ = name[:_MOST_TEXT] + (f" ({lane + 1})" if lane else "")
                code = self._paths.code(async_path(pid, group, id_))
                self._markers.setdefault(code, []).append(marker)

    def _arguments(self, fields: dict[str, Any]) -> bytes:
        kept: dict[str, Any] = {}
        for name, value in fields.items():
            if not self._with_private and is_private(name):
                self._trace.anomalies.add("private_field")
            elif name not in _LEFT_OUT and isinstance(value, (str, int, Decimal)):
                kept[name] = _plain(value)
        return json.dumps(kept).encode() if kept else b""

    def _note_call(
        self, fields: dict[str, Any], entity: int, pid: str, start_ns: int, end_ns: int
    ) -> None:
        """Keep one side of a message between processes."""
        if fields.get("type") != "IPC" or "messageSeqno" not in fields:
            return
        side = str(fields.get("direction"))
        if str(fields.get("phase") or "endpoint") != "endpoint" or side not in {
            "sending",
            "receiving",
        }:
            return
        ends = (pid, str(fields.get("otherPid")))
        ends = ends if side == "sending" else ends[::-1]
        key = (*ends, str(fields.get("messageType")), str(fields["messageSeqno"]))
        self._calls[key].setdefault(side, (entity, start_ns if side == "sending" else end_ns))

    def _add_counter(self, counter: dict[str, Any], pids: list[Any], shift_ms: Decimal) -> None:
        pid = counter.get("pid")
        main = counter.get("mainThreadIndex")
        if pid is None and isinstance(main, int) and 0 <= main < len(pids):
            pid = pids[main]
        pid = "0" if pid is None else str(pid)
        name = str(counter.get("name") or "counter")
        category = str(counter.get("category") or "")
        display = counter.get("display")
        kind = display.get("graphType") if isinstance(display, dict) else None
        groups = counter.get("sampleGroups") or counter.get("sample_groups")
        if isinstance(groups, dict):
            # before version 14 of Gecko's and 25 of processed profiles there was a single one
            groups = [groups]
        tables = [each["samples"] for each in groups] if groups else [counter["samples"]]
        for number, each in enumerate(tables):
            table = _Table(each)
            count = np.nan_to_num(table.numbers("count"))
            # memory is written as changes, other counters as amounts
            if kind == "line-accumulated" or (kind is None and category == "Memory"):
                count = np.cumsum(count)
            series = category or name if len(tables) == 1 else str(number)
            path = counter_path(pid, name, series)
            code = first = self._paths.code(path)
            while code in self._counted:  # several of one name have a number
                self._counted[first] += 1
                path = counter_path(pid, name, f"{series} {self._counted[first]}")
                code = self._paths.code(path)
            self._counted[code] = 1
            self._counters.append((code, _in_ns(table.times(), shift_ms), count))

    def batches(self) -> Iterator[Batch]:
        """Yield what was read."""
        trace = self._trace
        if self._rows > 2**31 - 2:
            raise InputError(self._name, "there are too many stacks")
        if self._threads:
            yield from self._sample_batches()
        yield from self._marker_batches()
        for code, time_ns, count in self._counters:
            lane = LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Counters")
            if lane not in trace.lanes:
                trace.lanes.append(lane)
            order = np.argsort(time_ns, kind="stable")
            entity = np.full(len(time_ns), code, np.int32)
            yield Counters(time_ns[order], entity, count[order])
        rows = [
            (*sides["sending"], *sides["receiving"], key[2])
            for key, sides in self._calls.items()
            if len(sides) == 2 and sides["sending"][1] <= sides["receiving"][1]
        ]
        if rows:
            from_entity, from_ns, to_entity, to_ns, _ = zip(*rows, strict=True)
            yield Flows(
                np.array(from_entity, np.int32),
                np.array(from_ns, np.int64),
                np.array(to_entity, np.int32),
                np.array(to_ns, np.int64),
                self._values.codes([row[-1] for row in rows]),
            )

    def _sample_batches(self) -> Iterator[Batch]:
        trace = self._trace
        parents = np.concatenate(self._parents).astype(np.int32)
        stacks, parent, frame = calls.stacks(parents, np.concatenate(self._frames))
        trace.stacks = StackTable(parent, frame, self._names)
        for thread in self._threads:
            yield from self._states(thread)
        batches = [(each.event, each.weight, each) for each in self._threads]
        batches += [(_CPU, each.cpu_ns, each) for each in self._threads if each.cpu_ns is not None]
        for event in dict.fromkeys(event for event, _, _ in batches):
            trace.sample_units[event] = _UNIT_OF.get(event, event)
        columns = [
            (
                thread.time_ns,
                np.full(len(thread.time_ns), thread.entity, np.int32),
                np.where(thread.stack >= 0, stacks[thread.stack], -1).astype(np.int32)
                if len(stacks)
                else np.full(len(thread.stack), -1, np.int32),
                weight,
                np.full(len(thread.time_ns), self._values.code(event), np.int32),
            )
            for event, weight, thread in batches
        ]
        time_ns, entity, stack, weight, event_code = map(np.concatenate, zip(*columns, strict=True))
        if len(time_ns):
            order = np.argsort(time_ns, kind="stable")
            yield Samples(
                time_ns[order], entity[order], stack[order], weight[order], event_code[order]
            )

    def _states(self, thread: _Thread) -> Iterator[StateChanges]:
        """Yield the categories of the sampled stacks as states of the thread."""
        names = self._category_names
        if not names or not len(thread.time_ns):
            return
        trace = self._trace
        lane = LaneDeclaration(
            f"Processes/*/Threads/*/{_CATEGORY}", entity_kind="Thread", label="Categories"
        )
        if lane not in trace.lanes:
            trace.lanes.append(lane)
        code = self._values.codes(names)
        known = (thread.category >= 0) & (thread.category < len(names))
        state = np.where(known, code[np.where(known, thread.category, 0)], -1)
        following = np.append(thread.time_ns[1:], _LIMIT_NS)
        # the thread was not sampled for longer: it was not on a CPU, or its state is unknown
        late = following - thread.time_ns > _BRIDGED * self.interval_ns
        ends = thread.time_ns[late] + self.interval_ns
        times = np.concatenate([thread.time_ns, ends])
        order = np.argsort(times, kind="stable")
        states = np.concatenate([state, np.full(len(ends), -1)])[order]
        entity = self._paths.code((*trace.paths[thread.entity], _CATEGORY))
        trace.names[entity] = trace.names[thread.entity]
        yield StateChanges(
            times[order],
            np.full(len(times), entity, np.int32),
            states.astype(np.int32),
            np.full(len(times), -1, np.int32),
        )

    def _marker_batches(self) -> Iterator[Batch]:
        trace = self._trace
        if self._markers:
            trace.lanes.append(
                LaneDeclaration(ASYNC_PATTERN, kind="async", label="Markers", entity_kind="Id")
            )
            spans = [(code, each) for code, listed in self._markers.items() for each in listed]
            entity, name, category, arguments = self._columns(spans)
            flags = [SpanFlag.UNFINISHED if each.unfinished else 0 for _, each in spans]
            yield Spans(
                start_ns=np.array([each.start_ns for _, each in spans], np.int64),
                end_ns=np.array([each.end_ns for _, each in spans], np.int64),
                thread=entity,
                name=name,
                category=category,
                level=np.zeros(len(spans), np.int32),
                flags=np.array(flags, np.uint8),
                arguments=arguments,
            )
        if self._points:
            entity, name, _, arguments = self._columns(self._points)
            yield Points(
                np.array([each.start_ns for _, each in self._points], np.int64),
                entity,
                name,
                np.full(len(self._points), -1, np.int32),
                arguments,
            )

    def _columns(self, rows: list[tuple[int, _Marker]]) -> tuple[Int32s, Int32s, Int32s, Arguments]:
        """Return the entities, names, categories and arguments of markers."""
        category = self._categories.code
        add = self._trace.text.add
        return (
            np.array([code for code, _ in rows], np.int32),
            self._values.codes([each.name for _, each in rows]),
            np.array(
                [-1 if each.category is None else category(each.category) for _, each in rows],
                np.int32,
            ),
            Arguments(
                np.array([add(each.arguments) for _, each in rows], np.int64),
                np.array([len(each.arguments) for _, each in rows], np.int32),
            ),
        )


_UNIT_OF = {_SAMPLES: "samples", _CPU: "ns", "tracing": "ns"}


def _decimal(value: Any) -> Decimal:
    """Return a number exactly.

    Raises:
        ValueError: If it is not a finite number.
    """
    found = Decimal(str(value))
    if not found.is_finite() or abs(found) > _LIMIT_NS:
        raise ValueError(value)
    return found


def _in_ns(time_ms: Floats, shift_ms: Decimal) -> Int64s:
    """Return times as nanoseconds, shifted; those that are missing are 0.

    Raises:
        ValueError: If one does not fit into 64 bits.
    """
    shift_ns = int((shift_ms * _NS_PER_MS).to_integral_value())
    found = np.rint(np.nan_to_num(time_ms * _NS_PER_MS))
    if len(found) and not (np.abs(found).max() + abs(shift_ns) < _LIMIT_NS):
        raise ValueError("time")
    return found.astype(np.int64) + shift_ns


def _texts(thread: dict[str, Any], shared: dict[str, Any]) -> list[str]:
    for place in (thread, shared):
        for name in ("stringTable", "stringArray"):
            found = place.get(name)
            if isinstance(found, list):
                return list(map(str, found))
    raise KeyError("stringArray")


def _libraries(
    functions: _Table, thread: dict[str, Any], shared: dict[str, Any], texts: list[str]
) -> list[str]:
    """Return the name of the library of each function; empty if it is in none."""
    given = thread.get("resourceTable") or shared.get("resourceTable")
    if not given:
        return [""] * functions.size
    resources = _Table(given)
    # in the first versions, tables have fewer rows than they say
    try:
        names = resources.index("name", len(texts)).tolist()
        rows = functions.index("resource", len(names)).tolist()
    except (ValueError, TypeError):
        return [""] * functions.size
    return [texts[names[row]] if row >= 0 and names[row] >= 0 else "" for row in rows]


def _weights(samples: _Table, kind: str) -> tuple[Int64s, str]:
    """Return the weights of samples, and the event that they count."""
    weight = samples.numbers("weight")
    weight = np.where(np.isnan(weight), 1, weight)
    event = kind
    if kind == "tracing-ms":
        weight, event = weight * _NS_PER_MS, "tracing"
    if len(weight) and float(np.abs(weight).sum()) > _LIMIT_NS:
        raise ValueError("weight")
    return np.rint(weight).astype(np.int64), event


def _inherited(category: Int64s, prefix: Int64s) -> Int64s:
    """Return the category of each stack: its own, or else that of its callers."""
    found = category.tolist()
    for row, (own, above) in enumerate(zip(found, prefix.tolist(), strict=True)):
        if own < 0 <= above:
            found[row] = found[above]
    return np.array(found, np.int64).reshape(-1)


def _numbers(values: list[Any]) -> Floats:
    """Return values as floats; NaN for null.

    Raises:
        ValueError: If one is not a number, or too large for its sums or nanoseconds.
    """
    found = np.array(values, np.float64).reshape(-1)
    if (np.abs(found) > _MOST).any():
        raise ValueError("number")
    return found


def _old_markers(time: Floats, data: list[dict[str, Any]]) -> tuple[Floats, Floats, list[int]]:
    """Return the starts, ends and phases of markers that have one time."""
    start, end, phase = time.copy(), time.copy(), [_INSTANT] * len(time)
    for row, fields in enumerate(data):
        kind = fields.get("interval") if fields.get("type") == "tracing" else None
        if kind in {"start", "end"}:
            phase[row] = _BEGIN if kind == "start" else _END
        elif fields.get("endTime") is not None and fields.get("startTime") is not None:
            start[row], end[row] = _numbers([fields["startTime"], fields["endTime"]])
            phase[row] = _INTERVAL
    return start, end, phase


def _plain(value: str | int | Decimal) -> str | int | float:
    """Return a value for JSON, without what follows the path of a URL."""
    if isinstance(value, str):
        return _URL.sub(r"\1\2", value)[:_MOST_TEXT]
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else str(value)
    return value
