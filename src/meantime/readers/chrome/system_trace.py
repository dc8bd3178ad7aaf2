"""Events of the kernel inside Chrome JSON: the text of ftrace that is the value of a key.

Android's systrace and `traceconv json` write it. Its threads are those of the other events that
have the same id. Its times are moved to the clock of these: by a `clock_sync` that both sides have,
by the monotonic time that atrace wrote into the text, or not at all if both cover the same time.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.model.attribute_paths import COUNTERS
from meantime.model.trace import Points, Samples, SpanFlag, StateChanges, Trace
from meantime.model.units import format_exact
from meantime.readers.contract import ReadOptions
from meantime.readers.ftrace import FtraceReading
from meantime.readers.source import Source
from meantime.readers.switches import thread_paths_of
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.kernels import perf
    from meantime.model.attributes import Path
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch
    from meantime.readers.chrome.records import Records

__all__ = ["read_system_trace"]

_MARK = re.compile(
    r" (\d{1,10})\.(\d{6}(?:\d{3})?): \S{1,30}: trace_event_clock_sync: (parent_ts|name)=(\S+)"
)
_SECONDS = re.compile(r"(\d{1,10})(?:\.(\d{1,9}))?")
# A mark is written just before or after its time was read.
_SAME_CLOCK_NS = 10**6
_LIMIT_NS = 2**62
_TIMES = ("time_ns", "start_ns", "end_ns", "from_ns", "to_ns")
_ENTITIES = ("entity", "thread", "target", "from_entity", "to_entity")
_IDLE = "0"


class _Offset(NamedTuple):
    """What is added to times of the text, and what says so."""

    ns: int
    reason: str


class _Reading(FtraceReading):
    """Reads the text into a trace of its own."""

    def __init__(self, trace: Trace, window: Window, options: ReadOptions) -> None:
        super().__init__(trace, window, options)
        self._known = thread_paths_of(trace)
        self.others: set[str] = set()

    def path_of(self, name: str, ids: bytes | None) -> Path:
        """Return a thread's path: that of the other events if they have it."""
        path = super().path_of(name, ids)
        return self._known.get(path[-1], path)

    def ended(self, text: perf.PerfText) -> None:
        """Note which events nothing else is derived from."""
        super().ended(text)
        names = map(self.event_name, text.events_from(0))
        self.others = {
            name for name, is_other in zip(names, text.are_others(), strict=True) if is_other
        }


def read_system_trace(
    raw: bytes, records: Records, trace: Trace, bounds: tuple[int, int] | None, *, scheduling: bool
) -> Iterator[Batch]:
    """Yield what the text says of CPUs and threads, on the clock of the trace; extend its bounds.

    Args:
        raw: The text, as it is in the file.
        records: The records of the other events.
        trace: What they were read into.
        bounds: The range of these events.
        scheduling: Whether states of CPUs and threads are derived.
    """
    try:
        text = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except ValueError:
        trace.anomalies.add("bad_metadata")
        return
    kernel = Trace(trace.source, "ftrace")
    kernel.paths.extend(path for tid, path in thread_paths_of(trace).items() if tid != _IDLE)
    kernel.values, kernel.tags, kernel.text = trace.values, trace.tags, trace.text
    source = Source(trace.source, io.BytesIO(text.encode("utf-8", "replace")))
    reading = _Reading(kernel, Window(source), ReadOptions(scheduling=scheduling))
    try:
        batches = [*reading.batches(with_stacks=False, with_switches=True)]
    except InputError as error:
        _leave_out(trace, text, error.reason)
        return
    assert kernel.bounds is not None
    offset = _offset(text, records, kernel.bounds, bounds)
    if offset is None:
        _leave_out(trace, text, "nothing says how its clock is related to that of the other events")
        return
    _take_metadata(trace, kernel, offset)
    begin_ns, end_ns = (each + offset.ns for each in kernel.bounds)
    if bounds is not None and end_ns < bounds[1]:
        batches.append(_end(batches, kernel.bounds[1]))
    entities = _entities(trace, kernel)
    for batch in batches:
        yield _moved(_shown(batch, trace.values, reading.others), offset.ns, entities)
    if bounds is not None:
        begin_ns, end_ns = min(begin_ns, bounds[0]), max(end_ns, bounds[1])
    trace.bounds = begin_ns, end_ns


def _leave_out(trace: Trace, text: str, reason: str) -> None:
    """Count the events of a text that is not read."""
    lines = (line for line in text.split("\n") if line.strip())
    trace.anomalies.add("system_trace_left_out", sum(not line.startswith("#") for line in lines))
    trace.facts["system trace"] = reason


def _offset(
    text: str, records: Records, own: tuple[int, int], bounds: tuple[int, int] | None
) -> _Offset | None:
    """Return what moves the times of the text to the clock of the other events; None if unknown."""
    if bounds is None:
        return _Offset(0, "there are no other events")
    named, parents = _marks(text)
    for sync_id, issued_ns, answered_ns in _syncs(records):
        if sync_id in named:
            offset_ns = (issued_ns + answered_ns) // 2 - named[sync_id]
            within = format_exact((answered_ns - issued_ns + 1) // 2)
            if _fits(own, offset_ns):
                said = f"moved by {format_exact(offset_ns)}, as clock_sync says, within {within}"
                return _Offset(offset_ns, said)
    # atrace writes a mark where it begins, and another one where it ends
    for parent_ns in parents[-1:]:
        offset = _Offset(parent_ns, f"moved by {format_exact(parent_ns)}, as parent_ts says")
        if abs(parent_ns) < _SAME_CLOCK_NS:
            offset = _Offset(0, "on the clock of the other events, as parent_ts says")
        if _fits(own, offset.ns) and _overlap(own, bounds, offset.ns):
            return offset
    if _overlap(own, bounds, 0):
        return _Offset(0, "on the clock of the other events, since both cover the same time")
    return None


def _marks(text: str) -> tuple[dict[str, int], list[int]]:
    """Return the times of named marks, and how far the monotonic clock was ahead at others."""
    named: dict[str, int] = {}
    parents: list[int] = []
    for seconds, fraction, kind, value in _MARK.findall(text):
        time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        if kind == "name":
            named[value] = time_ns
        elif found := _SECONDS.fullmatch(value):
            parent_ns = int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0"))
            parents.append(parent_ns - time_ns)
    return named, parents


def _fits(own: tuple[int, int], offset_ns: int) -> bool:
    """Return whether all times of a range are still such when they are moved."""
    return own[0] + offset_ns > -_LIMIT_NS and own[1] + offset_ns < _LIMIT_NS


def _overlap(own: tuple[int, int], bounds: tuple[int, int], offset_ns: int) -> bool:
    return own[0] + offset_ns < bounds[1] and bounds[0] < own[1] + offset_ns


def _syncs(records: Records) -> Iterator[tuple[str, int, int]]:
    """Yield the id of each `clock_sync`, and when it was issued and answered."""
    for row in records.rows("c").tolist():
        arguments = records.arguments_of(row)
        if not isinstance(arguments, dict):
            continue
        sync_id, issue_us = arguments.get("sync_id"), arguments.get("issue_ts")
        if isinstance(sync_id, str) and isinstance(issue_us, int | float):
            answered_ns = int(records.time_ns[row])
            if abs(issue_us) < _LIMIT_NS / 1000:
                issued_ns = round(issue_us * 1000)
                yield sync_id, min(issued_ns, answered_ns), answered_ns


def _take_metadata(trace: Trace, kernel: Trace, offset: _Offset) -> None:
    """Add what the text says of the trace as a whole."""
    trace.records += kernel.records
    trace.anomalies.update(kernel.anomalies)
    for name, fact in kernel.facts.items():
        trace.facts.setdefault(name, fact)
    trace.facts["system trace"] = offset.reason
    trace.lost.extend((start + offset.ns, end + offset.ns) for start, end in kernel.lost)
    trace.lanes[:0] = [lane for lane in kernel.lanes if lane not in trace.lanes]
    clock = trace.clock
    if offset.ns == 0 and clock.kind == "unknown":
        clock = replace(clock, kind=kernel.clock.kind)
    if clock.utc_at_origin_ns is None and kernel.clock.utc_at_origin_ns is not None:
        clock = replace(clock, utc_at_origin_ns=kernel.clock.utc_at_origin_ns - offset.ns)
    trace.clock = clock


def _entities(trace: Trace, kernel: Trace) -> Int32s:
    """Return the trace's code of each path of the text, and add the names that are new."""
    known = {*trace.paths}
    # the numbers of a counter have one type, so those of two sources are two counters
    paths = [
        (*path[:-1], f"{path[-1]} (ftrace)") if COUNTERS in path and path in known else path
        for path in kernel.paths
    ]
    codes = trace.paths.codes(paths)
    for code, name in kernel.names.items():
        trace.names.setdefault(int(codes[code]), name)
    return np.append(codes, np.int32(-1))


def _shown(batch: Batch, values: Sequence[str], others: set[str]) -> Batch:
    """Return a batch; of events, those from which nothing else follows, as points."""
    if not isinstance(batch, Samples):
        return batch
    wanted = [code for code, name in enumerate(values) if name in others]
    rows = np.flatnonzero(np.isin(batch.event, wanted))
    none = np.full(len(rows), -1, np.int32)
    return Points(batch.time_ns[rows], batch.thread[rows], batch.event[rows], none)


def _moved(batch: Batch, offset_ns: int, entities: Int32s) -> Batch:
    """Return a batch of the text in the times and codes of the trace."""
    changed: dict[str, Any] = {}
    for name in _TIMES:
        if (times := getattr(batch, name, None)) is not None:
            changed[name] = times + offset_ns
    for name in _ENTITIES:
        if (codes := getattr(batch, name, None)) is not None:
            changed[name] = entities[codes]
    if (flags := getattr(batch, "flags", None)) is not None:
        # of the depths among the other events of a thread the text knows nothing
        changed |= {"flags": flags & ~np.uint8(SpanFlag.STRUCTURED)}
    return replace(batch, **changed)  # type: ignore[type-var] # every batch is a dataclass


def _end(batches: Sequence[Batch], end_ns: int) -> StateChanges:
    """Return the changes that end all states where the text ends."""
    changes = [batch for batch in batches if isinstance(batch, StateChanges)]
    size = max((int(each.entity.max()) + 1 for each in changes if len(each.entity)), default=0)
    last = np.full(size, -1, np.int32)
    for each in changes:
        last[each.entity] = each.state
    entity = np.flatnonzero(last >= 0).astype(np.int32)
    times: Int64s = np.full(len(entity), end_ns, np.int64)
    none = np.full(len(entity), -1, np.int32)
    return StateChanges(times, entity, none, none)
