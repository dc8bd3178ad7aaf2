"""Processed profiles of Firefox, for profiler.firefox.com: samples, markers and counters by thread.

Spans become markers with an interval, since those that overlap cannot be stacks.
Times are milliseconds from the beginning of the trace, with all decimals.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime.kernels import export_rows
from meantime.model import attribute_paths as tree
from meantime.model.columns import Interner, distinct
from meantime.query.sample_units import sample_unit
from meantime.query.threads import thread_of
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Parts, converted, given, pieces

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.model.columns import Coded, Int64s

__all__ = ["write"]

# The last version whose threads have their own tables; later readers upgrade it.
_VERSION, _GECKO_VERSION = 41, 24
_CATEGORY = {"name": "Other", "color": "grey", "subcategories": ["Other"]}
_INSTANT, _INTERVAL = 0, 1
_NS_PER_MS, _MS_DECIMALS = 10**6, 6
_NUMBERS_AT_ONCE = 1 << 16
# What a weight of a unit is called.
_WEIGHTS = {"ns": "tracing-ms", "bytes": "bytes"}
_SAMPLES: Final = "samples"


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    count_rest(history, lost, "flows", "objects", "descriptions", "categories")
    writer = _Writer(history, lost)
    yield f'{{"meta": {json.dumps(writer.meta())}, "libs": [], "pages": [], "threads": ['.encode()
    for number, quark in enumerate(writer.threads()):
        yield b",\n" if number else b"\n"
        yield from writer.thread(quark)
    yield b'], "counters": ['
    for number, counter in enumerate(writer.counters()):
        yield (b", " if number else b"") + counter
    yield b"]}\n"


class _Writer:
    """Writes a history, thread by thread."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._history = history
        self._lost = lost
        self._spans, self._points = history.spans(), history.points()
        self._index = {quark: index for index, quark in enumerate(self._spans.threads.tolist())}
        self._samples = history.samples()
        self._unit = sample_unit(self._samples) if len(self._samples) else ""
        # the points of each thread, in their order
        self._points_by_thread = np.argsort(self._points.quark, kind="stable")
        self._quark_of_point = self._points.quark[self._points_by_thread]
        # of a trace in UTC, times since 1970 would be too long for the doubles of other readers
        self._start_ns, _ = history.bounds
        others = len(history.metadata.sample_units) - 1
        lost["other events of samples"] += max(0, others) if len(self._samples) else 0
        lost["unfinished spans, which became finished"] += int(self._spans.unfinished.sum())
        lost["spans, which became markers"] += len(self._spans)

    def meta(self) -> dict[str, Any]:
        """Return what is known of the whole profile."""
        utc_ns = self._history.clock.utc_at_origin_ns
        if utc_ns is None:
            self._lost["times in UTC"] += 1
        start_ms = 0.0 if utc_ns is None else (utc_ns + self._start_ns) / _NS_PER_MS
        weights = _WEIGHTS.get(self._unit, _SAMPLES)
        return {
            "categories": [_CATEGORY], "debug": False, "markerSchema": [], "pausedRanges": [],
            "extensions": {"baseURL": [], "id": [], "length": 0, "name": []},
            "interval": 1, "processType": 0, "startTime": start_ms, "stackwalk": 1,
            "product": self._history.title or "meantime", "symbolicated": True,
            "preprocessedProfileVersion": _VERSION, "version": _GECKO_VERSION,
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
            "importedFrom": f"meantime ({weights})",
        }  # fmt: skip

    def threads(self) -> list[int]:
        """Return the attributes that become threads."""
        columns = (self._spans.threads, self._points.quark, self._samples.thread)
        return [int(quark) for quark in distinct(np.concatenate(columns)).tolist()]

    def thread(self, quark: int) -> Iterator[bytes]:
        """Yield a thread as JSON."""
        whose = thread_of(self._history, quark)
        path = self._history.attributes.path(quark)
        name = whose.name or whose.path or str(whose.tid)
        if whose.path is None and path[-1] == tree.STATUS:
            name += f" {tree.STATUS}"
        strings: list[str] = []
        interned = Interner(strings)
        samples = self._samples.select([quark]) if len(self._samples) else None
        tables = _tables(samples, interned.code)
        stacks = tables.pop("stacks")
        fields = {
            "name": name, "processName": whose.process or str(whose.pid), "processType": "default",
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
            "unregisterTime": None, "pausedRanges": [], "pid": str(whose.pid),
            "tid": name if whose.tid is None else whose.tid, **tables,
        }  # fmt: skip
        yield f'{json.dumps(fields)[:-1]}, "samples": '.encode()
        yield from self._sample_columns(samples, stacks)
        yield b', "markers": '
        yield from self._markers(quark, interned)
        yield f', "stringArray": {json.dumps(strings)}}}'.encode()

    def _ms(self, times_ns: Int64s) -> Iterator[bytes]:
        return _numbers(times_ns, self._start_ns, _MS_DECIMALS)

    def _sample_columns(
        self, samples: SampleTable | None, stacks: list[int | None]
    ) -> Iterator[bytes]:
        if samples is None:
            yield b'{"length": 0, "stack": [], "time": [], "weight": [], "weightType": "samples"}'
            return
        kind = _WEIGHTS.get(self._unit, _SAMPLES)
        yield f'{{"length": {len(samples)}, "stack": {json.dumps(stacks)}, "time": '.encode()
        yield from self._ms(samples.time_ns)
        yield b', "weight": '
        weight = samples.weight.astype(np.int64)
        yield from _numbers(weight, 0, _MS_DECIMALS if kind == "tracing-ms" else 0)
        yield f', "weightType": "{kind}"}}'.encode()

    def _markers(self, quark: int, strings: Interner[str]) -> Iterator[bytes]:
        """Yield spans and points as markers, in order of time."""
        spans, points = self._spans, self._points
        first = last = 0
        if (index := self._index.get(quark)) is not None:
            first, last = int(spans.offsets[index]), int(spans.offsets[index + 1])
        in_thread = slice(*np.searchsorted(self._quark_of_point, [quark, quark + 1]).tolist())
        of_points = self._points_by_thread[in_thread]
        rows = np.concatenate([np.arange(first, last), of_points])
        is_point = np.arange(len(rows)) >= last - first
        # in the order of the rows, as strings are numbered by their first appearance
        name = np.concatenate([
            _interned(spans.name, slice(first, last), strings),
            _interned(points.name, of_points, strings),
        ])  # fmt: skip
        start_ns = np.concatenate([spans.start_ns[first:last], points.time_ns[of_points]])
        end_ns = np.concatenate([spans.end_ns[first:last], points.time_ns[of_points]])
        order = np.argsort(start_ns, kind="stable")
        is_point, rows = is_point[order], rows[order]
        yield f'{{"length": {len(rows)}, "name": '.encode()
        yield from _numbers(name[order], 0, 0)
        yield b', "startTime": '
        yield from self._ms(start_ns[order])
        yield b', "endTime": '
        yield from _numbers(end_ns[order], self._start_ns, _MS_DECIMALS, is_point)
        yield b', "phase": '
        yield from _numbers(np.where(is_point, _INSTANT, _INTERVAL), 0, 0)
        yield b', "category": '
        yield from _numbers(np.zeros(len(rows), np.int64), 0, 0)
        yield b', "data": ['
        length = np.concatenate([
            spans.arguments_length[first:last], points.arguments_length[of_points]
        ])[order]  # fmt: skip
        for part in pieces(length):
            of_part = is_point[part]
            found = Parts.either(
                of_part,
                *(
                    converted(export_rows.MARKER, given(table, rows[part][chosen]), _data)
                    for table, chosen in ((spans, ~of_part), (points, of_part))
                ),
            )
            yield (b", " if part.start else b"") + export_rows.joined(*found, b"null")
        yield b"]}"

    def counters(self) -> Iterator[bytes]:
        """Yield each counter of a process as JSON."""
        quarks = self._history.quarks(tree.COUNTER_PATTERN).tolist()
        every = [lane.quarks for lane in self._history.lanes if lane.declaration.kind == "counter"]
        self._lost["counter series of no process"] += len(
            {quark for each in every for quark in each.tolist()} - {*quarks}
        )
        whole_ns = self._history.start_ns, self._history.end_ns
        for quark in quarks:
            _, pid, _, name, series = self._history.attributes.path(quark)
            times, values = [], []
            for batch in self._history.interval_batches([quark], *whole_ns):
                for _, start_ns, _, value, _, _ in batch:
                    if value is not None:
                        times.append(start_ns)
                        values.append(value)
                    else:
                        self._lost["times without a value of counters"] += bool(values)
            head = {
                "name": name, "category": series, "description": "", "pid": pid,
                "mainThreadIndex": 0, "display": {"graphType": "line-rate"},
            }  # fmt: skip
            times_ms = b"".join(self._ms(np.array(times, np.int64)))
            text = f'{json.dumps(head)[:-1]}, "samples": {{"length": {len(times)}, "time": '
            yield text.encode() + times_ms + f', "count": {json.dumps(values)}}}}}'.encode()


def _numbers(
    values: Int64s, origin: int, decimals: int, is_null: npt.NDArray[np.bool_] | None = None
) -> Iterator[bytes]:
    """Yield a list of numbers, each less the origin and with so many decimals, as exact JSON."""
    nulls = np.zeros(len(values), np.bool_) if is_null is None else is_null
    yield b"["
    for first in range(0, len(values), _NUMBERS_AT_ONCE):
        part = slice(first, first + _NUMBERS_AT_ONCE)
        text = export_rows.decimals(values[part], origin, decimals, nulls[part].view(np.uint8))
        yield (b", " if first else b"") + text
    yield b"]"


def _interned(column: Coded, rows: slice | npt.NDArray[np.intp], strings: Interner[str]) -> Int64s:
    """Return the codes of names in a table of strings; no name is an empty one."""
    codes = column.codes[rows]
    used, first = np.unique(codes, return_index=True)
    used = used[np.argsort(first)]
    names = [column.names[code] if code >= 0 else "" for code in used.tolist()]
    number = np.zeros(len(column.names) + 1, np.int64)
    # that of no name, -1, is the last one
    number[used] = strings.codes(names)
    return number[codes]


def _data(text: str) -> bytes:
    """Return the arguments of a span or point as the data of a marker."""
    try:
        value = json.loads(text, strict=False)
    except (RecursionError, ValueError):
        value = text
    fields = value if isinstance(value, dict) else {"value": value}
    # the kind of a marker decides what its fields mean
    kept = {key: each for key, each in fields.items() if key != "type"}
    return json.dumps({"type": "Arguments", **kept}).encode()


def _tables(samples: SampleTable | None, text: Any) -> dict[str, Any]:
    """Return the tables of stacks and functions of a thread, and the stack of each sample."""
    table = None if samples is None else samples.stacks
    used: dict[int, int] = {}
    prefix: list[int | None] = []
    frame: list[int] = []
    functions: dict[int, int] = {}
    names: list[int] = []
    stacks: list[int | None] = []
    for stack in [] if samples is None or table is None else samples.stack.tolist():
        assert table is not None
        chain = []
        at = stack
        while at >= 0 and at not in used:
            chain.append(at)
            at = int(table.parent[at])
        above = used[at] if at >= 0 else None
        for each in reversed(chain):
            code = int(table.frame[each])
            if code not in functions:
                functions[code] = len(names)
                names.append(text(table.frames[code]))
            prefix.append(above)
            frame.append(functions[code])
            above = used[each] = len(frame) - 1
        stacks.append(used[stack] if stack >= 0 else None)
    count, rows = len(names), len(frame)
    none: list[None] = [None] * count
    return {
        "stacks": stacks,
        "stackTable": {
            "length": rows, "prefix": prefix, "frame": frame, "category": [0] * rows,
            "subcategory": [0] * rows,
        },
        "frameTable": {
            "length": count, "address": [-1] * count, "inlineDepth": [0] * count,
            "category": [0] * count, "subcategory": [0] * count, "func": [*range(count)],
            "nativeSymbol": none, "innerWindowID": none, "implementation": none, "line": none,
            "column": none, "optimizations": none,
        },
        "funcTable": {
            "length": count, "name": names, "isJS": [False] * count,
            "relevantForJS": [False] * count, "resource": [-1] * count, "fileName": none,
            "lineNumber": none, "columnNumber": none,
        },
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": []},
    }  # fmt: skip
