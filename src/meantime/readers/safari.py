"""Timeline recordings of Safari's Web Inspector: the sampled stacks of JavaScript, and the events.

What the page did (scripts, layout, frames, requests) are spans, with a thread for each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.stacks import StackTableBuilder
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import exact, load_object
from meantime.readers.sample_rows import SampleRows
from meantime.readers.span_rows import SpanRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "safari"
TEXT = True

_MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
_NS_PER_S = 10**9
_PREFIX = "timeline-record-type-"
_TITLE_CHARACTERS = 200


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    file = load_object(source)
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    stacks = StackTableBuilder()
    samples = SampleRows(trace.values)
    trace.paths.append(thread_path(0, 0))
    trace.names[0] = "JavaScript"
    try:
        recording = file["recording"]
        traces = list(recording.get("sampleStackTraces") or [])
        durations = list(recording.get("sampleDurations") or [])
        if len(durations) != len(traces):
            raise ValueError(len(durations))
        for each, duration in zip(traces, durations, strict=True):
            frames = each["stackFrames"]
            stack = stacks.add(str(frame["name"] or "(anonymous)") for frame in reversed(frames))
            samples.add(0, _ns(each["timestamp"]), stack, _ns(duration), "wall")
        trace.title = str(recording.get("displayName") or "")[:_TITLE_CHARACTERS] or None
        records = list(recording.get("records") or [])
    except _MALFORMED:
        raise InputError(
            source.name,
            "not a recording of Safari: sampleStackTraces or sampleDurations are malformed",
        ) from None
    trace.records = len(traces) + len(records)
    if samples:
        trace.stacks = stacks.build()
        yield samples.batch()
    spans = SpanRows(trace)
    for record in records:
        try:
            _add(record, spans, trace)
        except _MALFORMED:
            if not options.lenient:
                raise InputError(source.name, "a record of the recording is malformed") from None
            trace.anomalies.add("bad_record")
    yield from spans.batches()


def _add(record: dict[str, Any], spans: SpanRows, trace: Trace) -> None:
    kind = str(record["type"]).removeprefix(_PREFIX)
    if record.get("startTime") is None or record.get("endTime") is None:
        # the load of the CPU, and the tree of the heap
        trace.anomalies.add("record_skipped")
        return
    times_ns = _ns(record["startTime"]), _ns(record["endTime"])
    spans.add(thread_path(kind, 0), times_ns, str(record.get("eventType") or kind), kind)


def _ns(seconds: object) -> int:
    """Return a time in seconds, rounded to the nearest nanosecond.

    Raises:
        ArithmeticError, TypeError: If it is not a number.
    """
    if isinstance(seconds, bool | str):
        raise TypeError(seconds)
    time_ns = (exact(str(seconds)) * _NS_PER_S).to_integral_value()
    return int(time_ns)
