"""OpenTelemetry's data model as JSON names it, read into spans of services.

Definitions: https://opentelemetry.io/docs/specs/otlp and
https://github.com/open-telemetry/opentelemetry-proto (trace.proto, logs.proto).
"""

from __future__ import annotations

import base64
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from meantime.readers.services.model import (
    NO_ID,
    Record,
    Resource,
    ServiceSpan,
    hexadecimal,
    time_of,
)

if TYPE_CHECKING:
    from meantime.model.anomalies import Anomalies
    from meantime.readers.services.collect import Collected

__all__ = ["add_document", "resource_of", "scope_name", "span_of"]

_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_OUTER = ("result", "trace", "data")
_SPANS = ("resourceSpans", "resource_spans", "batches")
_LOGS = ("resourceLogs", "resource_logs")
_METRICS = ("resourceMetrics", "resource_metrics")
_ERROR_CODE = 2
_DROPPED = ("Attributes", "Events", "Links")
_MOST_DROPPED = 2**32
# How many digits ids of traces and of spans have in base64.
_BASE64 = {24, 12}
_DEEPEST = 20


def _groups(document: dict[str, Any], names: tuple[str, ...], *, inside: bool = True) -> Any:
    """Return the groups of a document by the first of these names that it has; None for none."""
    for name in names:
        if name in document:
            return document[name]
    for name in _OUTER if inside else ():
        inner = document.get(name)
        if isinstance(inner, dict):
            groups = _groups(inner, names, inside=False)
            if groups is not None:
                return groups
    return None


def add_document(document: Any, collected: Collected, anomalies: Anomalies) -> None:
    """Add the spans and logs of one export: a request, or a line of a file.

    Raises:
        ArithmeticError, AttributeError, KeyError, TypeError, ValueError: If it is not one.
    """
    if not isinstance(document, dict):
        raise TypeError("not an object")
    spans, logs = _groups(document, _SPANS), _groups(document, _LOGS)
    if spans is None and logs is None:
        metrics = _groups(document, _METRICS)
        if metrics is None and document:
            raise KeyError("resourceSpans")
        anomalies.add("record_skipped")
    for group in spans or ():
        resource = resource_of(group.get("resource") or {})
        for scope in _any(group, "scopeSpans", "instrumentationLibrarySpans") or ():
            category = scope_name(_any(scope, "scope", "instrumentationLibrary") or {})
            for span in scope.get("spans", ()):
                collected.add(span_of(span, resource, category, anomalies))
    for group in logs or ():
        resource = resource_of(group.get("resource") or {})
        for scope in _any(group, "scopeLogs", "instrumentationLibraryLogs") or ():
            for log in _any(scope, "logRecords") or ():
                collected.add_log(resource, *_log(log))


def _any(value: dict[str, Any], *names: str) -> Any:
    """Return the first field that there is: names in camel case may be in snake case."""
    for name in names:
        if name in value:
            return value[name]
    for name in map(_in_snake_case, names):
        if name in value:
            return value[name]
    return None


@cache
def _in_snake_case(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


def scope_name(scope: dict[str, Any]) -> str:
    """Return what the spans of a scope were recorded by."""
    return str(scope.get("name", ""))


def resource_of(resource: dict[str, Any]) -> Resource:
    """Return what a resource is called."""
    fields = _fields(resource.get("attributes"))
    instance = fields.get("service.instance.id", "")
    host, pid = fields.get("host.name", ""), fields.get("process.pid", "")
    if pid != "":
        # shorter than the usual random id, and what other tools show
        instance = f"{host}:{pid}" if host else pid
    return Resource(
        str(fields.get("service.name", "")),
        str(fields.get("service.namespace", "")),
        str(instance),
    )


def span_of(
    span: dict[str, Any], resource: Resource, category: str, anomalies: Anomalies
) -> ServiceSpan:
    """Return a span of a resource and of the scope with this name, and count its oddities."""
    fields = _fields(span.get("attributes"))
    for what in _DROPPED:
        _count_dropped(span, f"dropped{what}Count", anomalies)
    status = span.get("status") or {}
    code = status.get("code", 0)
    if message := status.get("message"):
        fields["status.message"] = str(message)
    kind = span.get("kind", 0)
    if isinstance(kind, str) and not kind.isdecimal():
        kind = kind.removeprefix("SPAN_KIND_").lower()
        kind = kind if kind in _KINDS else ""
    else:
        kind = _KINDS[int(kind)] if 0 <= int(kind) < len(_KINDS) else ""
    thread = fields.get("thread.id", "")
    return ServiceSpan(
        resource=resource,
        trace_id=_id(_any(span, "traceId")),
        span_id=_id(_any(span, "spanId")),
        parent_id=_id(_any(span, "parentSpanId")),
        name=str(span.get("name", "")),
        category=category,
        kind=kind,
        start_ns=time_of(_any(span, "startTimeUnixNano")),
        end_ns=time_of(_any(span, "endTimeUnixNano")),
        is_error=code in {_ERROR_CODE, "STATUS_CODE_ERROR"},
        thread=str(thread),
        fields=fields,
        records=[_event(event, anomalies) for event in span.get("events") or ()],
        links=[
            (_id(_any(link, "traceId")), _id(_any(link, "spanId")))
            for link in span.get("links") or ()
        ],
    )


def _count_dropped(value: dict[str, Any], name: str, anomalies: Anomalies) -> None:
    count = int(_any(value, name) or 0)
    if not 0 <= count < _MOST_DROPPED:
        raise ValueError(f"its {name} is not a 32-bit number")
    anomalies.add("fields_dropped", count)


def _event(event: dict[str, Any], anomalies: Anomalies) -> Record:
    _count_dropped(event, "droppedAttributesCount", anomalies)
    return Record(
        time_of(_any(event, "timeUnixNano")),
        str(event.get("name", "")),
        _fields(event.get("attributes")),
    )


def _log(log: dict[str, Any]) -> tuple[tuple[str, str], Record]:
    body = _value(log.get("body") or {})
    fields = _fields(log.get("attributes"))
    if severity := _any(log, "severityText"):
        fields["severity"] = str(severity)
    name = str(_any(log, "eventName") or (body if isinstance(body, str) else "")) or "log"
    if body is not None and name != body:
        fields["body"] = body
    time_ns = time_of(_any(log, "timeUnixNano")) or time_of(_any(log, "observedTimeUnixNano"))
    return (_id(_any(log, "traceId")), _id(_any(log, "spanId"))), Record(time_ns, name, fields)


def _id(value: object) -> str:
    """Return an id in lower case hexadecimal digits; `NO_ID` for none, as zeros are too.

    >>> _id("5B8EFFF798038103"), _id("AAAAAABkfZg="), _id("0000000000000000")
    ('5b8efff798038103', '0000000000647d98', '')
    """
    if isinstance(value, str) and len(value) in _BASE64 and value.endswith("="):
        value = base64.b64decode(value, validate=True).hex()
    return NO_ID if value is None else hexadecimal(value)


def _fields(attributes: Any) -> dict[str, Any]:
    if not attributes:
        return {}
    return {str(each["key"]): _value(each.get("value") or {}) for each in attributes}


@lru_cache(64)
def _without_case(name: str) -> str:
    return name.replace("_", "").lower()


def _value(value: dict[str, Any], depth: int = 0) -> Any:
    """Return the value of an attribute: text, a number, or a list or object of these."""
    if depth > _DEEPEST:
        raise ValueError("an attribute is nested too deeply")
    for name, inner in value.items():
        match _without_case(name):
            case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
                return inner
            case "intvalue":
                return int(inner)
            case "arrayvalue":
                return [_value(each, depth + 1) for each in (inner or {}).get("values") or ()]
            case "kvlistvalue":
                pairs = (inner or {}).get("values") or ()
                return {str(each["key"]): _value(each["value"], depth + 1) for each in pairs}
    return None
