"""Processed profiles of Firefox, for profiler.firefox.com: samples, markers and counters by thread.

Spans become markers with an interval, since those that overlap cannot be stacks.
Times are milliseconds from the beginning of the history, with all decimals.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime import attribute_paths as tree
from meantime.columns import Interner, distinct
from meantime.query.threads import thread_of
from meantime.query.trees import sample_unit
from meantime.views.export.rest import count_rest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.columns import Int64s
    from meantime.history.history import History
    from meantime.history.samples import SampleTable

__all__ = ["write"]

# The last version whose threads have their own tables; later readers upgrade it.
_VERSION, _GECKO_VERSION = 41, 24
_CATEGORY = {"name": "Other", "color": "grey", "subcategories": ["Other"]}
_INSTANT, _INTERVAL = 0, 1
_NS_PER_MS = 10**6
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
        yield f"{',' if number else ''}\n{writer.thread(quark)}".encode()
    yield f'], "counters": [{", ".join(writer.counters())}]}}\n'.encode()


class _Writer:
    """Writes a history, thread by thread."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._history = history
        self._lost = lost
        self._spans, self._points = history.spans(), history.points()
        self._index = {quark: index for index, quark in enumerate(self._spans.threads.tolist())}
        self._samples = history.samples()
        self._unit = sample_unit(self._samples) if len(self._samples) else ""
        self._rows_of_points: dict[int, list[int]] = {}
        for row, quark in enumerate(self._points.quark.tolist()):
            self._rows_of_points.setdefault(quark, []).append(row)
        self._start_ns = history.start_ns
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

    def thread(self, quark: int) -> str:
        """Return a thread as JSON."""
        whose = thread_of(self._history, quark)
        path = self._history.attributes.path(quark)
        name = whose.name or whose.path or str(whose.tid)
        if whose.path is None and path[-1] == tree.STATUS:
            name += f" {tree.STATUS}"
        strings: list[str] = []
        text = Interner(strings).code
        samples = self._samples.select([quark]) if len(self._samples) else None
        tables = _tables(samples, text)
        column = self._sample_columns(samples, tables.pop("stacks"))
        markers = self._markers(quark, text)
        fields = {
            "name": name, "processName": whose.process or str(whose.pid), "processType": "default",
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
            "unregisterTime": None, "pausedRanges": [], "pid": str(whose.pid),
            "tid": name if whose.tid is None else whose.tid, **tables,
        }  # fmt: skip
        text_of = json.dumps(fields)[:-1]
        return (
            f'{text_of}, "samples": {column}, "markers": {markers},'
            f' "stringArray": {json.dumps(strings)}}}'
        )

    def _ms(self, times_ns: Int64s) -> str:
        return f"[{', '.join(_ms(time_ns - self._start_ns) for time_ns in times_ns.tolist())}]"

    def _sample_columns(self, samples: SampleTable | None, stacks: list[int | None]) -> str:
        if samples is None:
            return '{"length": 0, "stack": [], "time": [], "weight": [], "weightType": "samples"}'
        kind = _WEIGHTS.get(self._unit, _SAMPLES)
        weights = samples.weight.tolist()
        texts = map(_ms if kind == "tracing-ms" else str, weights)
        return (
            f'{{"length": {len(samples)}, "stack": {json.dumps(stacks)},'
            f' "time": {self._ms(samples.time_ns)}, "weight": [{", ".join(texts)}],'
            f' "weightType": "{kind}"}}'
        )

    def _markers(self, quark: int, text: Any) -> str:
        """Return spans and points as markers, in order of time."""
        spans, points = self._spans, self._points
        rows = range(0)
        if (index := self._index.get(quark)) is not None:
            rows = range(int(spans.offsets[index]), int(spans.offsets[index + 1]))
        found: list[tuple[int, int | None, int, str]] = [
            (int(spans.start_ns[row]), int(spans.end_ns[row]), text(spans.name[row] or ""),
             _data(spans, row))
            for row in rows
        ]  # fmt: skip
        found += [
            (int(points.time_ns[row]), None, text(points.name[row] or ""), _data(points, row))
            for row in self._rows_of_points.get(quark, ())
        ]
        found.sort(key=lambda each: each[0])
        starts = ", ".join(_ms(each[0] - self._start_ns) for each in found)
        ends = ", ".join(
            "null" if each[1] is None else _ms(each[1] - self._start_ns) for each in found
        )
        phases = [_INSTANT if each[1] is None else _INTERVAL for each in found]
        return (
            f'{{"length": {len(found)}, "name": {json.dumps([each[2] for each in found])},'
            f' "startTime": [{starts}], "endTime": [{ends}], "phase": {json.dumps(phases)},'
            f' "category": {json.dumps([0] * len(found))},'
            f' "data": [{", ".join(each[3] for each in found)}]}}'
        )

    def counters(self) -> Iterator[str]:
        """Yield each counter of a process as JSON."""
        quarks = self._history.quarks(tree.COUNTER_PATTERN).tolist()
        every = [lane.quarks for lane in self._history.lanes if lane.declaration.kind == "counter"]
        self._lost["counter series of no process"] += len(
            {quark for each in every for quark in each.tolist()} - {*quarks}
        )
        for quark in quarks:
            _, pid, _, name, series = self._history.attributes.path(quark)
            times, values = [], []
            for batch in self._history.interval_batches([quark]):
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
            yield (
                f'{json.dumps(head)[:-1]}, "samples": {{"length": {len(times)},'
                f' "time": {self._ms(np.array(times, np.int64))}, "count": {json.dumps(values)}}}}}'
            )


def _ms(time_ns: int) -> str:
    """Return milliseconds as an exact decimal.

    >>> _ms(1_500_000), _ms(-1), _ms(2_000_000)
    ('1.5', '-0.000001', '2')
    """
    sign = "-" if time_ns < 0 else ""
    whole, rest = divmod(abs(time_ns), _NS_PER_MS)
    return f"{sign}{whole}.{rest:06}".rstrip("0") if rest else f"{sign}{whole}"


def _data(table: Any, row: int) -> str:
    """Return the arguments of a span or point as the data of a marker."""
    text = table.arguments(row)
    if text is None:
        return "null"
    try:
        value = json.loads(text, strict=False)
    except (RecursionError, ValueError):
        value = text
    fields = value if isinstance(value, dict) else {"value": value}
    # the kind of a marker decides what its fields mean
    kept = {key: each for key, each in fields.items() if key != "type"}
    return json.dumps({"type": "Arguments", **kept})


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
