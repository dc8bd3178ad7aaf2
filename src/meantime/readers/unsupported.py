"""Formats that are recognised but not read, and what to do with each."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["advice", "refused"]

# Text does not contain these.
_BINARY = rb"(?=.{0,512}?[\x00-\x08])"
_TABLE = "write what it contains as CSV with the columns start_ns, end_ns, path and value"


class _Format(NamedTuple):
    """A format: how the input begins, what it is called, and what to do."""

    beginning: re.Pattern[bytes]
    called: str
    advised: str


def _format(pattern: bytes, called: str, advised: str) -> _Format:
    return _Format(re.compile(pattern, re.DOTALL), called, advised)


# The first that matches the beginning of the input.
_FORMATS = (
    _format(
        rb"PERFILE2|2ELIFREP",
        "a perf.data file",
        "run `perf script -i {name} > perf.txt` and open perf.txt",
    ),
    _format(
        rb"\x17\x08Dtracing",
        "a trace-cmd file",
        "run `trace-cmd report -i {name} > trace.txt` and open trace.txt",
    ),
    _format(
        rb"(?:[^\n]*\n){0,3} +time +cpu +task name|\s*-{20,}\n +Task "
        # `map`: a column for each CPU, with a sign for the thread that runs there
        rb"|(?= +\*[A-Z]\d )[ *.A-Z0-9-]{4,4000} secs ",
        "a report of perf sched",
        "run `perf script > perf.txt` on the perf.data it was made from and open perf.txt",
    ),
    _format(
        rb"go 1\.\d+ trace\0",
        "an execution trace of Go 1.22 or later, or before 1.11",
        "run `go tool trace -http=localhost:8080 {name}` and, beside it,"
        " `curl localhost:8080/jsontrace > trace.json`, and open trace.json",
    ),
    _format(
        rb"heap profile: |--- (?:heap|contention|mutex|thread|growth)z|MAPPED_LIBRARIES:"
        rb"|\x00{4}(?:\x00{4})?\x03\x00{3}(?:\x00{4})?\x00{4}"
        rb"|\x00{4}(?:\x00{4})?(?:\x00{4})?\x00{3}\x03\x00{4}",
        "a legacy pprof profile",
        "run `go tool pprof -proto {name} > profile.pb.gz` and open profile.pb.gz",
    ),
    _format(
        rb"goroutine (?:profile: total )?\d+",
        "a text dump of goroutines",
        "fetch /debug/pprof/goroutine without debug= and open what it returns",
    ),
    _format(
        # a stream, its index, and descriptions of CTF 1 and 2
        rb"(?:W\x1d\xd1u|\xc1\x1f\xfc\xc1|\xc1\xf1\xdc\xc1|/\* CTF |\x1e\{.{0,200}\"preamble\")",
        "a part of a CTF trace",
        "open its directory",
    ),
    _format(
        rb"hdrb.{0,4}hetb",
        "an eventlog of GHC",
        "run `hs-speedscope {name}` and open the .json that it writes",
    ),
    _format(
        rb"@ [\w.]+ \[\d+ samples\]",
        "a report of pmcstat",
        "run `pmcstat -R FILE -z 32 -G stacks.txt` and `stackcollapse-pmc.pl stacks.txt`",
    ),
    _format(
        rb"\w+ log opened \(PC\)",
        "a log of Papyrus",
        "open it at speedscope.app, export it from there, and open the .speedscope.json",
    ),
    _format(
        rb"\s*(?:<\?xml[^>]*>\s*)?<trace-(?:query-result|toc)",
        "an export of xctrace",
        "open the .trace in Instruments, choose Edit > Deep Copy in its call tree, and paste that"
        " into a file",
    ),
    _format(
        rb" *(?:\?|\d+\.\d+) \( *(?:\d+\.\d+ ms)? *\): |\n* Summary of events:\n",
        "the output of perf trace",
        "run `perf trace record COMMAND` and `perf script > perf.txt`, and open perf.txt",
    ),
    _format(rb"\s*<(?:\?xml|!DOCTYPE|html|svg)", "XML or a web page", "open the trace itself"),
    _format(rb"PK\x03\x04", "a zip archive", "unpack it and open what it contains"),
    _format(rb".{257}ustar", "a tar archive", "unpack it and open what it contains"),
    _format(rb"BZh[1-9]", "compressed with bzip2", "run `bunzip2 {name}` first"),
    _format(
        # its records may be compressed
        rb"(?:\x04\x22\x4d\x18.{6,20}?)?memray\0",
        "a recording of memray",
        "`memray stats {name}` and `memray flamegraph {name}` show it",
    ),
    _format(rb"\x04\x22\x4d\x18", "compressed with lz4", "run `lz4 -d {name}` first"),
)
# JSON is recognised by keys near its beginning; Chrome's events have other ones.
_JSON_FORMATS = (
    _format(rb'"log"\s*:\s*\{.{0,400}"(?:creator|entries)"', "a HAR file", _TABLE),
    _format(rb'"elapsed_time_sec".*"growth_rate"', "a profile of scalene", _TABLE),
    _format(
        rb'"sample_count".*"root_frame"',
        "a session of pyinstrument",
        "run `pyinstrument -r speedscope --load-prev ID -o profile.speedscope.json` and open that",
    ),
    _format(rb'"results".*"command".*"times"', "a result of hyperfine", _TABLE),
    _format(rb'"resourceMetrics"|"resource_metrics"', "OpenTelemetry metrics", _TABLE),
    _format(
        rb'"trace_id"\s*:\s*"0x',
        "the output of OpenTelemetry's console exporter",
        "record with an OTLP exporter, and open what the collector's file exporter writes",
    ),
    _format(
        rb'"traceId".*"(?:refType|vType)"',
        "Jaeger's model in protobuf's JSON",
        "download the trace as JSON from Jaeger's user interface",
    ),
    _format(
        rb'"profileJSON"',
        "a profile of Cleopatra, before 2016",
        "load it at profiler.firefox.com, and save it from there",
    ),
    _format(
        rb'"projectId".*"traceId".*"spans".*"startTime"',
        "a trace of Google Cloud",
        "record with an OTLP exporter, and open what the collector's file exporter writes",
    ),
    _format(
        rb'"profile"\s*:\s*\{\s*"(?:frames|stacks|samples|thread_metadata)"',
        "a profile of Sentry",
        "look at it at sentry.io",
    ),
    _format(rb'"dhatFileVersion"', "a DHAT profile", "open it with dh_view.html of Valgrind"),
    _format(
        rb'"program".*"rts_arguments"',
        "a GHC profile",
        "open it at speedscope.app, export it from there, and open the .speedscope.json",
    ),
    _format(
        rb'\A\s*\{\s*"snapshot"\s*:', "a V8 heap snapshot", "open it with the DevTools of Chrome"
    ),
)
_ENOUGH_BYTES = 4096
# Their form is not published, so they are known by name.
_NSYS_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")


def refused() -> Iterator[tuple[str, str]]:
    """Yield what each format that is not read is called, and what to do with one."""
    for each in (*_FORMATS, *_JSON_FORMATS):
        yield each.called, each.advised.format(name="FILE")


def advice(head: bytes, name: str) -> str | None:
    """Return what an input that is not read is and what to run instead; None if it is unknown.

    Args:
        head: The beginning of the input, decompressed.
        name: The name of the input.
    """
    if name.endswith(_NSYS_REPORTS):
        advised = f"run `nsys export -t sqlite {shlex.quote(name)}` and open the .sqlite file"
        return f"this is a report of Nsight Systems, which only its own tools read: {advised}"
    part = head[:_ENOUGH_BYTES]
    found = None
    if part.lstrip()[:1] in {b"{", b"["} and b'"ph"' not in head and b'"traceEvents"' not in head:
        found = next((each for each in _JSON_FORMATS if each.beginning.search(part)), None)
    found = found or next((each for each in _FORMATS if each.beginning.match(part)), None)
    if found is None:
        return None
    advised = found.advised.format(name=shlex.quote(name))
    return f"this is {found.called}, which meantime does not read: {advised}"
