"""Jaeger's JSON: what its user interface and its query service download.

Times are in microseconds. Definition:
https://github.com/jaegertracing/jaeger-ui (packages/jaeger-ui/src/types/trace.ts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

FORMAT = "jaeger"
TEXT = True
REPAIRS_CLOCKS = True

_US = 1000


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    collected = Collected(trace, private=options.private, repair_clocks=options.repair_clocks)
    for document in documents(source, trace, options):
        for spans, processes in _traces(document.value, source):
            for number, span in enumerate(spans):
                try:
                    collected.add(_span(span, processes, trace))
                except MALFORMED as error:
                    if not options.lenient:
                        raise InputError(
                            source.name,
                            f"span {number} of a trace is malformed ({reason(error)})",
                            line=document.line if document.line > 1 else None,
                        ) from None
                    trace.anomalies.add("bad_record")
    trace.anomalies.add("truncated", int(source.truncated))
    yield from collected.batches()


def _traces(value: Any, source: Source) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the spans and the processes of each trace, in any of the forms of files."""
    if isinstance(value, dict) and isinstance(value.get("data"), (dict, list)):
        value = value["data"]
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise InputError(source.name, "not Jaeger's JSON: neither an object nor a list")
    loose = []
    for each in value:
        if isinstance(each, dict) and isinstance(each.get("spans"), list):
            processes = each.get("processes")
            yield each["spans"], processes if isinstance(processes, dict) else {}
        else:
            loose.append(each)
    if loose:
        yield loose, {}


def _span(span: dict[str, Any], processes: dict[str, Any], trace: Trace) -> ServiceSpan:
    trace_id = hexadecimal(span["traceID"])
    fields = _fields(span.get("tags"))
    kind = str(fields.pop("span.kind", ""))
    process = span.get("process") or processes.get(str(span.get("processID"))) or {}
    of_process = _fields(process.get("tags"))
    instance = of_process.get("hostname") or of_process.get("ip") or ""
    start_ns = time_of(span.get("startTime"), _US)
    parent, links = NO_ID, []
    follows = NO_ID
    for reference in span.get("references") or ():
        other = hexadecimal(reference["traceID"]), hexadecimal(reference["spanID"])
        if other[0] != trace_id:
            links.append(other)
        elif reference.get("refType") == "CHILD_OF" and parent == NO_ID:
            parent = other[1]
        elif follows == NO_ID and reference.get("refType") != "CHILD_OF":
            follows = other[1]
        else:
            links.append(other)
    if parent == NO_ID:
        parent = follows or hexadecimal(span.get("parentSpanID") or "")
    elif follows != NO_ID:
        links.append((trace_id, follows))
    if warnings := span.get("warnings"):
        trace.anomalies.add("warned_span", len(warnings))
        fields["warnings"] = warnings
    return ServiceSpan(
        resource=Resource(str(process.get("serviceName", "")), instance=str(instance)),
        trace_id=trace_id,
        span_id=hexadecimal(span["spanID"]),
        parent_id=parent,
        name=str(span.get("operationName", "")),
        category=str(fields.get("otel.scope.name", fields.get("otel.library.name", ""))),
        kind=kind.lower(),
        start_ns=start_ns,
        end_ns=end_after(start_ns, span["duration"]),
        is_error=_is_error(fields),
        thread=str(fields.get("thread.id", "")),
        fields=fields,
        records=[_record(log) for log in span.get("logs") or ()],
        links=links,
    )


def _is_error(fields: dict[str, Any]) -> bool:
    if fields.get("otel.status_code") == "ERROR":
        return True
    return str(fields.get("error", "")).lower() == "true"


def _record(log: dict[str, Any]) -> Record:
    fields = _fields(log.get("fields"))
    name = next((str(fields[key]) for key in ("event", "message") if key in fields), "log")
    return Record(time_of(log.get("timestamp"), _US), name, fields)


def _fields(tags: Any) -> dict[str, Any]:
    return {str(tag["key"]): tag.get("value") for tag in tags or ()}
