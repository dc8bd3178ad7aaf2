"""HTTP archives (HAR): the requests that a browser, a proxy or a load tester made.

A page is a process, a host or one of its connections a thread, and a request a span, with the
phases that are stated as spans in it. Phases follow each other, but for TLS, which is the end of
the phase that connects. Requests that overlap on one connection are in lanes. Times are dates, and
lengths milliseconds. Queries of addresses, headers and cookies are private.
Definition: the HAR 1.2 specification, http://www.softwareishard.com/blog/har-12-spec/.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError, UsageError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC, naive_dates
from meantime.model.units import parse_instant
from meantime.readers.contract import lazy_trace
from meantime.readers.json_file import load_object
from meantime.readers.span_rows import SpanRows, lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "har"
TEXT = True
OBJECTS = True

_MS = 10**6
_MOST_MS = 10**12
_MOST_NS = 2**62
_PHASES = ("blocked", "dns", "connect", "send", "wait", "receive")
_PAGE_TIMES = ("onContentLoad", "onLoad")
_LONGEST_NAME = 200
_ERROR = 400


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole input. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    log = load_object(source).get("log")
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    trace.anomalies.add("truncated", int(source.truncated))
    if not isinstance(log, dict) or not isinstance(log.get("entries"), list):
        raise InputError(source.name, "a HAR file has its requests in log.entries, a list")
    trace.clock = UTC
    _add_facts(log, trace)
    spans = SpanRows(trace)
    pages = _add_pages(log, spans, trace)
    by_thread: defaultdict[tuple[str, str], list[_Request]] = defaultdict(list)
    for number, entry in enumerate(log["entries"]):
        try:
            request = _request(entry, pages, trace, private=options.private)
        except _BadEntryError as error:
            if not options.lenient:
                raise InputError(source.name, f"log.entries[{number}]: {error}") from None
            trace.anomalies.add("bad_record")
            continue
        trace.records += 1
        by_thread[request.page, request.thread].append(request)
    for (page, thread), requests in by_thread.items():
        requests.sort(key=lambda request: request.times_ns)
        for lane, request in zip(
            lanes([request.times_ns for request in requests]).tolist(), requests, strict=True
        ):
            _add(request, thread_path(f"{thread} ({lane + 1})" if lane else thread, page), spans)
    yield from spans.batches()


class _BadEntryError(ValueError):
    """What is wrong with an entry."""


class _Request(NamedTuple):
    page: str
    thread: str
    times_ns: tuple[int, int]
    name: str
    kind: str
    fields: dict[str, Any]
    phases: list[tuple[str, int, int]]


def _add_facts(log: dict[str, Any], trace: Trace) -> None:
    for key in ("creator", "browser"):
        made_by = log.get(key)
        if isinstance(made_by, dict) and isinstance(made_by.get("name"), str):
            trace.facts[key] = f"{made_by['name']} {made_by.get('version') or ''}".strip()


def _add_pages(log: dict[str, Any], spans: SpanRows, trace: Trace) -> dict[str, str]:
    """Add when pages were loaded, and return what each is called."""
    pages = log.get("pages")
    found: dict[str, str] = {}
    for page in pages if isinstance(pages, list) else ():
        try:
            start_ns = _date_ns(page, "startedDateTime", trace)
            identity = page["id"]
        except (_BadEntryError, KeyError):
            trace.anomalies.add("bad_metadata")
            continue
        name = str(page.get("title") or identity).split("?", 1)[0][:_LONGEST_NAME]
        taken = set(found.values())
        found[str(identity)] = f"{name} ({identity})" if name in taken else name
        timings = page.get("pageTimings")
        for key in _PAGE_TIMES:
            after_ns = _length_ns(timings.get(key)) if isinstance(timings, dict) else None
            if after_ns is not None:
                path = thread_path("page", found[str(identity)])
                spans.point(path, start_ns + after_ns, key)
    return found


def _request(entry: Any, pages: dict[str, str], trace: Trace, *, private: bool) -> _Request:
    start_ns = _date_ns(entry, "startedDateTime", trace)
    asked = entry.get("request")
    if not isinstance(asked, dict) or not isinstance(asked.get("url"), str):
        raise _BadEntryError("request.url is not a text")
    answered = entry["response"] if isinstance(entry.get("response"), dict) else {}
    timings = entry["timings"] if isinstance(entry.get("timings"), dict) else {}
    total_ns = _length_ns(entry.get("time"))
    phases = _phases(start_ns, timings, total_ns)
    end_ns = max((end for _, _, end in phases), default=start_ns)
    if total_ns is not None:
        end_ns = start_ns + total_ns
    elif not phases:
        trace.anomalies.add("span_without_duration")
    host, path, query = _address(asked["url"])
    fields = _fields(entry, asked, answered)
    if query and private:
        fields["query"] = query
    elif query:
        trace.anomalies.add("private_field")
    status = answered.get("status")
    kind = f"{status // 100}xx" if isinstance(status, int) and 100 <= status < 1000 else "no answer"
    connection = entry.get("connection") or entry.get("_connectionId")
    return _Request(
        pages.get(str(entry.get("pageref")), "requests"),
        f"{host} #{connection}" if isinstance(connection, str) and connection != "0" else host,
        (start_ns, end_ns),
        f"{asked.get('method') or 'GET'} {host}{path}"[:_LONGEST_NAME],
        kind,
        fields,
        # what is stated in fractions may add up to more by rounding
        [(name, min(begin, end_ns), min(end, end_ns)) for name, begin, end in phases],
    )


def _fields(
    entry: dict[str, Any], asked: dict[str, Any], answered: dict[str, Any]
) -> dict[str, Any]:
    content = answered["content"] if isinstance(answered.get("content"), dict) else {}
    found = {
        "status": answered.get("status"),
        "protocol": answered.get("httpVersion") or asked.get("httpVersion"),
        "mime_type": content.get("mimeType"),
        "content_bytes": content.get("size"),
        "transferred_bytes": answered.get("_transferSize", answered.get("bodySize")),
        "sent_bytes": asked.get("bodySize"),
        "server_address": entry.get("serverIPAddress"),
        "resource_type": entry.get("_resourceType"),
        "priority": entry.get("_priority"),
        "error": answered.get("_error"),
    }
    return {
        key: value
        for key, value in found.items()
        if (isinstance(value, str) and value) or (type(value) is int and value >= 0)
    }


def _phases(
    start_ns: int, timings: dict[str, Any], total_ns: int | None
) -> list[tuple[str, int, int]]:
    """Return the phases of a request, with their begins and ends in nanoseconds.

    `connect` contains `ssl`, unless the total is the sum of both, as some programs write it.
    """
    lengths = {
        name: length
        for name in (*_PHASES, "ssl")
        if (length := _length_ns(timings.get(name))) is not None
    }
    ssl_ns = lengths.pop("ssl", 0)
    apart = sum(lengths.values()) + ssl_ns
    is_apart = total_ns is not None and ssl_ns and abs(apart - total_ns) < _MS
    found = []
    at_ns = start_ns
    for name in _PHASES:
        if name not in lengths:
            continue
        end_ns = at_ns + lengths[name]
        if lengths[name]:
            found.append((name, at_ns, end_ns))
        if name == "connect" and ssl_ns:
            begin_ns = end_ns if is_apart else max(at_ns, end_ns - ssl_ns)
            end_ns = begin_ns + ssl_ns if is_apart else end_ns
            found.append(("ssl", begin_ns, end_ns))
        at_ns = end_ns
    return found


def _add(request: _Request, path: tuple[str, ...], spans: SpanRows) -> None:
    spans.add(path, request.times_ns, request.name, request.kind, request.fields)
    for name, begin, end in request.phases:
        if end > begin:
            spans.add(path, (begin, end), name, "phase")
    status = request.fields.get("status", 0)
    if request.kind == "no answer" or (isinstance(status, int) and status >= _ERROR):
        name = f"{status}" if status else str(request.fields.get("error", "no answer"))
        spans.point(path, request.times_ns[1], name, {"request": request.name})


def _address(url: str) -> tuple[str, str, str]:
    """Return the host, the path and the query of an address.

    >>> _address("https://a.org:8080/b/c?key=1#d")
    ('a.org:8080', '/b/c', 'key=1')
    >>> _address("data:image/png;base64,iVBO")
    ('data:image/png', '', '')
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return url.split(";", 1)[0].split(",", 1)[0][:_LONGEST_NAME] or "requests", "", ""
    rest = rest.split("#", 1)[0]
    place, _, query = rest.partition("?")
    host, slash, path = place.partition("/")
    # a name and a password may stand before the host
    return host.rpartition("@")[2] or scheme, slash + path, query


def _date_ns(holder: Any, key: str, trace: Trace) -> int:
    """Return a date in nanoseconds since 1970.

    Raises:
        _BadEntryError: If there is none, or the holder is not an object.
    """
    text = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(text, str):
        raise _BadEntryError(f"{key} is not a date")
    try:
        instant = parse_instant(text)
    except UsageError:
        instant = None
    if instant is None or instant.base != "utc" or abs(instant.ns) > _MOST_NS:
        raise _BadEntryError(f"{key} is {text[:40]!r}, not a date")
    if instant.is_naive:
        trace.facts["times"] = naive_dates()
    return instant.ns


def _length_ns(value: Any) -> int | None:
    """Return a length that is stated in milliseconds; None if it does not apply."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return int(value * _MS) if 0 <= value < _MOST_MS else None
