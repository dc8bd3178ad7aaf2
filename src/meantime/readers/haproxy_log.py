"""Logs of HAProxy: requests (`option httplog`) and connections (`option tcplog`).

A frontend is a process, a server behind it a thread, and a request a span, with its phases as spans
in it: receiving the request, waiting in a queue, connecting, waiting for the response, and the data
that follows. Requests to a server that overlap are in lanes. A line may begin with what syslog
adds. Queries of addresses are private.
Definition: https://docs.haproxy.org/3.0/configuration.html, 8.2.2, 8.2.3 and 8.4.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC as UTC_ZONE
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.errors import InputError
from meantime.model.attribute_paths import thread_path
from meantime.model.clocks import UTC, naive_dates
from meantime.readers.access_log import route_of
from meantime.readers.contract import lazy_trace
from meantime.readers.span_rows import SpanRows, lanes
from meantime.readers.window import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "haproxy-log"
TEXT = True
OBJECTS = True

_NUMBER = rb"[-+]?\d{1,10}"  # of ms: sums with dates fit 64 bits in ns
_START = (
    rb"(?P<client>[0-9A-Fa-f.:]{2,45}|unix):\d{1,6}"
    rb" \[(?P<date>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d)\.(?P<ms>\d{3})\]"
    rb" (?P<frontend>[^\s~]{1,200})~? (?P<backend>[^\s/]{1,200})/(?P<server>[^\s/]{1,200})"
    rb" (?P<times>" + _NUMBER + rb"(?:/" + _NUMBER + rb"){2,4})"
    rb"(?: (?P<status>\d{3}|-1))? \+?(?P<bytes>\d{1,18})(?: \S+ \S+)? (?P<end>\S{2}|\S{4})"
    rb" \d+/\d+/\d+/\d+/\+?(?P<retries>\d{1,9}) \d+/\d+"
)
_LINE = re.compile(_START + rb'(?P<rest>[^"]*(?:"(?P<request>.*)")?)')
# By how many lengths a line has: its phases. The last length is the whole.
_HTTP = ("request", "queue", "connect", "response")
_PHASES = {5: _HTTP, 3: ("queue", "connect")}
_MS = 10**6
_MOST_NS = 2**62
_LONGEST_SHOWN = 80
_ERROR = 500


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its first batch reads the whole log. Ranges and `keep` are ignored.

    Raises:
        InputError: From the batches, if no line is one of HAProxy.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Request(NamedTuple):
    times_ns: tuple[int, int]
    name: str
    kind: str
    fields: dict[str, Any]
    phases: list[tuple[str, int, int]]
    failed: str


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    trace.clock = UTC
    trace.facts["times"] = naive_dates()
    by_server: defaultdict[tuple[str, str], list[_Request]] = defaultdict(list)
    first, unknown = b"", 0
    for line in lines(source, options):
        match = _LINE.search(line)
        request = None if match is None else _request(match, trace, private=options.private)
        if match is None or request is None:
            unknown += bool(line.strip())
            first = first or line.strip()
            continue
        trace.records += 1
        text = {name: match[name].decode("utf-8", "replace") for name in ("backend", "server")}
        frontend = match["frontend"].decode("utf-8", "replace")
        by_server[frontend, f"{text['backend']}/{text['server']}"].append(request)
    if not by_server:
        shown = first[:_LONGEST_SHOWN].decode("utf-8", "replace")
        raise InputError(source.name, f"no line is one of HAProxy; the first one is {shown!r}")
    trace.anomalies.add("unknown_line", unknown)
    trace.anomalies.add("truncated", int(source.truncated))
    spans = SpanRows(trace)
    for (frontend, server), requests in by_server.items():
        requests.sort(key=lambda request: request.times_ns)
        for lane, request in zip(
            lanes([request.times_ns for request in requests]).tolist(), requests, strict=True
        ):
            path = thread_path(f"{server} ({lane + 1})" if lane else server, frontend)
            spans.add(path, request.times_ns, request.name, request.kind, request.fields)
            for name, begin_ns, end_ns in request.phases:
                spans.add(path, (begin_ns, end_ns), name, "phase")
            if request.failed:
                spans.point(path, request.times_ns[1], request.failed, {"request": request.name})
    yield from spans.batches()


def _request(match: re.Match[bytes], trace: Trace, *, private: bool) -> _Request | None:
    """Return what a line says; None if its numbers do not fit each other."""
    lengths = [int(each) for each in match["times"].split(b"/")]
    is_http = match["status"] is not None
    names = _PHASES.get(len(lengths))
    begin_ns = _date_ns(match)
    if names is None or begin_ns is None or is_http != (names is _HTTP):
        return None
    end_ns = begin_ns + max(lengths[-1], 0) * _MS
    trace.anomalies.add("span_without_duration", int(lengths[-1] < 0))
    name, path, query = "connection", "", ""
    if is_http:
        name, path, query = route_of((match["request"] or b"-").decode("utf-8", "replace"))
    status = int(match["status"]) if is_http else 0
    fields: dict[str, Any] = {
        "client": match["client"].decode(),
        "path": path,
        "status": status,
        "bytes": int(match["bytes"]),
        "retries": int(match["retries"]),
        "termination": match["end"].decode("utf-8", "replace").strip("-"),
    }
    if query and private:
        fields["query"] = query
    elif query:
        trace.anomalies.add("private_field")
    kind = "" if not is_http else "no status" if status < 0 else f"{status // 100}xx"
    failed = str(status) if status >= _ERROR else kind if status < 0 else ""
    fields = {key: value for key, value in fields.items() if value not in {"", 0, -1}}
    phases = _phases(names, lengths, begin_ns, end_ns)
    return _Request((begin_ns, end_ns), name, kind, fields, phases, failed)


def _date_ns(match: re.Match[bytes]) -> int | None:
    """Return when a line's request began, in ns since 1970; None if it has no such date."""
    try:
        date = datetime.strptime(match["date"].decode(), "%d/%b/%Y:%H:%M:%S")  # noqa: DTZ007 - read as UTC, which is said
    except ValueError:
        return None
    seconds = int(date.replace(tzinfo=UTC_ZONE).timestamp())
    time_ns = seconds * 10**9 + int(match["ms"]) * _MS
    return time_ns if abs(time_ns) < _MOST_NS else None


def _phases(
    names: tuple[str, ...], lengths: list[int], begin_ns: int, end_ns: int
) -> list[tuple[str, int, int]]:
    """Return the phases of a request; one that was not reached has the length -1."""
    found, at_ns = [], begin_ns
    for name, length in zip(names, lengths, strict=False):
        until_ns = min(at_ns + max(length, 0) * _MS, end_ns)
        if until_ns > at_ns:
            found.append((name, at_ns, until_ns))
        at_ns = until_ns
    if end_ns > at_ns and min(lengths) >= 0:
        found.append(("data", at_ns, end_ns))
    return found
