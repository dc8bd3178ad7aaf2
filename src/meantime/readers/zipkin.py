"""Zipkin's JSON, version 2: a list of spans, or of lists of the spans of a trace.

Times are in microseconds. Definition: https://zipkin.io/zipkin-api (zipkin2-api.yaml).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from meantime.errors import InputError
from meantime.readers.contract import lazy_trace
from meantime.readers.services.collect import Collected
from meantime.readers.services.model import (
    MALFORMED,
    NO_ID,
    Record,
    Resource,
    ServiceSpan,
    end_after,
    hexadecimal,
    reason,
    time_of,
)
from meantime.readers.services.text import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "REPAIRS_CLOCKS", "read"]

FORMAT = "zipkin"
TEXT = True
REPAIRS_CLOCKS = True

_US = 1000
# The trace id, the span id and the kind.
_Key: TypeAlias = "tuple[str, str, str]"
# A trace's id of 128 bits may be cut to its lower half by older programs.
_SHORT_ID = 16


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input.

    Raises:
        InputError: From the batches, if it is malformed, or of version 1.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    collected = Collected(trace, private=options.private, repair_clocks=options.repair_clocks)
    merged: dict[_Key, _Report] = {}
    number = 0
    for document in documents(source, trace, options):
        for span in _spans(document.value, source):
            try:
                _add(_report(span, source), merged, trace)
            except MALFORMED as error:
                if not options.lenient:
                    raise InputError(
                        source.name, f"span {number} is malformed ({reason(error)})"
                    ) from None
                trace.anomalies.add("bad_record")
            number += 1
    _complete(merged, trace)
    for each, duration_us in merged.values():
        each.end_ns = end_after(each.start_ns, duration_us)
        collected.add(each)
    trace.anomalies.add("truncated", int(source.truncated))
    yield from collected.batches()


def _spans(value: Any, source: Source) -> Iterator[Any]:
    if not isinstance(value, list):
        raise InputError(source.name, "not Zipkin's JSON: it is not a list of spans")
    for each in value:
        if isinstance(each, list):
            yield from each
        else:
            yield each


class _Report(NamedTuple):
    """A span without its end, and how many microseconds it lasted; None if that is unknown."""

    span: ServiceSpan
    duration_us: int | None


def _report(span: dict[str, Any], source: Source) -> _Report:
    if "binaryAnnotations" in span:
        raise InputError(
            source.name,
            "this is Zipkin's JSON of version 1, which meantime does not read: ask the server for"
            " /api/v2/trace instead",
        )
    trace_id, own = hexadecimal(span["traceId"])[-_SHORT_ID:], hexadecimal(span["id"])
    parent = hexadecimal(span.get("parentId") or "")
    kind = str(span.get("kind") or "").lower()
    fields: dict[str, Any] = {str(key): value for key, value in (span.get("tags") or {}).items()}
    remote = _service(span.get("remoteEndpoint"))
    if remote:
        fields["peer.service"] = remote
    start_ns, duration_us = time_of(span.get("timestamp"), _US), span.get("duration")
    end_after(start_ns, duration_us)  # raises if it is of another type
    found = ServiceSpan(
        resource=Resource(_service(span.get("localEndpoint")) or ""),
        trace_id=trace_id,
        span_id=own,
        parent_id=parent,
        name=str(span.get("name") or ""),
        kind=kind,
        start_ns=start_ns,
        is_error="error" in fields,
        fields=fields,
        records=[
            Record(time_of(each.get("timestamp"), _US), str(each.get("value", "")), {})
            for each in span.get("annotations") or ()
        ],
        shares_id=bool(span.get("shared")) and kind == "server",
    )
    return _Report(found, duration_us)


def _service(endpoint: Any) -> str:
    return str((endpoint or {}).get("serviceName") or "")


def _add(report: _Report, merged: dict[_Key, _Report], trace: Trace) -> None:
    """Add a span, or what a further report of it says; the two sides of a call are two spans."""
    span = report.span
    key = span.trace_id, span.span_id, span.kind
    before = merged.setdefault(key, report)
    if before is report:
        return
    trace.anomalies.add("reports_merged")
    known = before.span
    starts = [each.start_ns for each in (known, span) if each.start_ns is not None]
    known.start_ns = min(starts, default=None)
    lengths = [each for _, each in (before, report) if each is not None]
    merged[key] = _Report(known, max(lengths, default=None))
    known.name = known.name or span.name
    known.resource = known.resource if known.resource.service else span.resource
    known.parent_id = known.parent_id or span.parent_id
    known.is_error |= span.is_error
    known.fields = span.fields | known.fields
    known.records += [record for record in span.records if record not in known.records]


def _complete(merged: dict[_Key, _Report], trace: Trace) -> None:
    """Join the sides of calls, and let spans without a time begin where they are known to be."""
    sides = Counter((trace_id, span_id) for trace_id, span_id, _ in merged)
    for span, _ in merged.values():
        # without the client's side it is an ordinary span
        span.shares_id &= sides[span.trace_id, span.span_id] > 1
        if span.shares_id:
            span.parent_id = span.span_id
    starts: dict[tuple[str, str], int] = {}
    for span, _ in merged.values():
        if span.start_ns is not None and span.parent_id != NO_ID:
            key = span.trace_id, span.parent_id
            starts[key] = min(starts.get(key, span.start_ns), span.start_ns)
    for span, _ in merged.values():
        if span.start_ns is None:
            times = [record.time_ns for record in span.records if record.time_ns is not None]
            span.start_ns = min(times, default=None) or starts.get((span.trace_id, span.span_id))
            if span.start_ns is not None:
                trace.anomalies.add("start_inferred")
