"""Formats that are recognised but not read, and what to do with each.

They are recognised by signs, as those that are read, which win where both are seen equally well.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.summary_sign import BEGINS
from meantime.readers.evidence import Sign, Strength, begins, keys, matches
from meantime.readers.source import HEAD_BYTES

if TYPE_CHECKING:
    from meantime.readers.evidence import Head

__all__ = ["REFUSED", "Refused", "advised"]

_KEYS, _FORM, _HINT = Strength.KEYS, Strength.FORM, Strength.HINT
_TABLE = "write what it contains as CSV with the columns start_ns, end_ns, path and value"
# What these have is near their beginning.
_ENOUGH_BYTES = 4096


class Refused(NamedTuple):
    """A format that is not read.

    Attributes:
        called: What it is called.
        advice: What to do with one, with {name} for its name.
        signs: What speaks for it.
    """

    called: str
    advice: str
    signs: tuple[Sign, ...]


def _json(called: str, advice: str, key: bytes, pattern: bytes) -> Refused:
    """Return a format of JSON with a key, near whose beginning an expression matches."""

    def is_seen(head: Head) -> bool:
        return (
            key in head.keys
            and b"ph" not in head.keys
            and re.search(pattern, head.data[:_ENOUGH_BYTES], re.DOTALL) is not None
        )

    return Refused(called, advice, (Sign(_KEYS, "", is_seen),))


def _is_bzip2(head: Head) -> bool:
    return head.data.startswith(b"BZh") and head.data[3:4].isdigit()


def _is_ctf_2(head: Head) -> bool:
    return head.data.startswith(b"\x1e{") and b'"preamble"' in head.data[:512]


# Of those that are seen equally well, the first counts.
REFUSED = (
    Refused(
        "a summary of a trace",
        "compare it with `meantime diff {name} -- FILE`, or check rules with `meantime assert`",
        (begins(BEGINS),),
    ),
    Refused(
        "a report of perf sched",
        "run `perf script > perf.txt` on the perf.data it was made from and open perf.txt",
        (
            matches(rb"(?:[^\n]*\n){0,3} +time +cpu +task name", "", _FORM, having=b"task name"),
            matches(rb"\s*-{20,}\n +Task ", "", _FORM, having=b" Task "),
            # `map`: a column for each CPU, with a sign for the thread that runs there
            matches(rb"(?= +\*[A-Z]\d )[ *.A-Z0-9-]{4,4000} secs ", "", _FORM, having=b" secs "),
        ),
    ),
    Refused(
        "an execution trace of Go 1.22 or later, or before 1.11",
        "run `go tool trace -http=localhost:8080 {name}` and, beside it,"
        " `curl localhost:8080/jsontrace > trace.json`, and open trace.json",
        (matches(rb"go 1\.\d+ trace\0", "", _KEYS, having=b" trace\0"),),
    ),
    Refused(
        "a legacy pprof profile",
        "run `go tool pprof -proto {name} > profile.pb.gz` and open profile.pb.gz",
        (
            begins(b"heap profile: ", b"MAPPED_LIBRARIES:"),
            begins(b"--- heapz", b"--- contentionz", b"--- mutexz", b"--- threadz", b"--- growthz"),
            # words of 4 or 8 bytes, with the least or the greatest byte first
            begins(
                bytes(4) + b"\3" + bytes(7),
                bytes(8) + b"\3" + bytes(11),
                bytes(7) + b"\3" + bytes(4),
                bytes(15) + b"\3" + bytes(4),
                what="0 3 0",
            ),
        ),
    ),
    Refused(
        "a text dump of goroutines",
        "fetch /debug/pprof/goroutine without debug= and open what it returns",
        (matches(rb"goroutine (?:profile: total )?\d+", "", having=b"goroutine "),),
    ),
    Refused(
        "a part of a CTF trace",
        "open its directory",
        (
            # a stream, its index, and descriptions of CTF 1
            begins(b"W\x1d\xd1u", b"\xc1\x1f\xfc\xc1", b"\xc1\xf1\xdc\xc1", b"/* CTF ", what="CTF"),
            Sign(Strength.MAGIC, "", _is_ctf_2),
        ),
    ),
    Refused(
        "an eventlog of GHC",
        "run `hs-speedscope {name}` and open the .json that it writes",
        (matches(rb"hdrb.{0,4}hetb", "", having=b"hdrb"),),
    ),
    Refused(
        "a report of pmcstat",
        "run `pmcstat -R FILE -z 32 -G stacks.txt` and `stackcollapse-pmc.pl stacks.txt`",
        (matches(rb"@ [\w.]+ \[\d+ samples\]", "", having=b" samples]"),),
    ),
    Refused(
        "a log of Papyrus",
        "open it at speedscope.app, export it from there, and open the .speedscope.json",
        (matches(rb"\w+ log opened \(PC\)", "", having=b" log opened (PC)"),),
    ),
    Refused(
        "an export of xctrace",
        "open the .trace in Instruments, choose Edit > Deep Copy in its call tree, and paste that"
        " into a file",
        (
            matches(
                rb"\s*(?:<\?xml[^>]*>\s*)?<trace-(?:query-result|toc)",
                "",
                _KEYS,
                having=b"<trace-",
            ),
        ),
    ),
    Refused(
        "the output of perf trace",
        "run `perf trace record COMMAND` and `perf script > perf.txt`, and open perf.txt",
        (
            matches(rb" *(?:\?|\d+\.\d+) \( *(?:\d+\.\d+ ms)? *\): ", "", _FORM, having=b"): "),
            matches(rb"\n* Summary of events:\n", "", _FORM, having=b" Summary of events:"),
        ),
    ),
    Refused(
        "a page of `meantime view`",
        "open it in a browser, or read the trace that it was made of",
        (
            matches(
                rb'<script type="application/json" id="meantime-session">',
                "",
                _KEYS,
                having=b"meantime-session",
                anywhere=True,
                within=HEAD_BYTES,
            ),
        ),
    ),
    Refused(
        "XML or a web page",
        "open the trace itself",
        (matches(rb"\s*<(?:\?xml|!DOCTYPE|html|svg)", "", _HINT, having=b"<"),),
    ),
    Refused(
        "a tar archive",
        "unpack it and open what it contains",
        (Sign(Strength.MAGIC, "", lambda head: head.data[257:262] == b"ustar"),),
    ),
    Refused("compressed with bzip2", "run `bunzip2 {name}` first", (Sign(_FORM, "", _is_bzip2),)),
    Refused(
        "a recording of memray",
        "`memray stats {name}` and `memray flamegraph {name}` show it",
        # its records may be compressed
        (matches(rb"(?:\x04\x22\x4d\x18.{6,20}?)?memray\0", "", having=b"memray\0"),),
    ),
    Refused(
        "compressed with lz4",
        "run `lz4 -d {name}` first",
        (begins(b"\x04\x22\x4d\x18", what="lz4"),),
    ),
    Refused(
        "a report of Nsight Systems",
        # its form is not published, so it is known by name
        "run `nsys export -t sqlite {name}` and open the .sqlite file",
        (Sign(_HINT, "", lambda head: head.is_named(".nsys-rep", ".qdrep", ".qdstrm")),),
    ),
    _json(
        "a profile of scalene",
        _TABLE,
        b"elapsed_time_sec",
        rb'"elapsed_time_sec".*"growth_rate"',
    ),
    _json(
        "a session of pyinstrument",
        "run `pyinstrument -r speedscope --load-prev ID -o profile.speedscope.json` and open that",
        b"root_frame",
        rb'"sample_count".*"root_frame"',
    ),
    _json("a result of hyperfine", _TABLE, b"times", rb'"results".*"command".*"times"'),
    Refused("OpenTelemetry metrics", _TABLE, (keys(some=("resourceMetrics", "resource_metrics")),)),
    _json(
        "the output of OpenTelemetry's console exporter",
        "record with an OTLP exporter, and open what the collector's file exporter writes",
        b"trace_id",
        rb'"trace_id"\s*:\s*"0x',
    ),
    _json(
        "Jaeger's model in protobuf's JSON",
        "download the trace as JSON from Jaeger's user interface",
        b"traceId",
        rb'"traceId".*"(?:refType|vType)"',
    ),
    Refused(
        "a profile of Cleopatra, before 2016",
        "load it at profiler.firefox.com, and save it from there",
        (keys("profileJSON"),),
    ),
    _json(
        "a trace of Google Cloud",
        "record with an OTLP exporter, and open what the collector's file exporter writes",
        b"projectId",
        rb'"projectId".*"traceId".*"spans".*"startTime"',
    ),
    _json(
        "a profile of Sentry",
        "look at it at sentry.io",
        b"profile",
        rb'"profile"\s*:\s*\{\s*"(?:frames|stacks|samples|thread_metadata)"',
    ),
    Refused("a DHAT profile", "open it with dh_view.html of Valgrind", (keys("dhatFileVersion"),)),
    _json(
        "a GHC profile",
        "open it at speedscope.app, export it from there, and open the .speedscope.json",
        b"rts_arguments",
        rb'"program".*"rts_arguments"',
    ),
    _json(
        "a V8 heap snapshot",
        "open it with the DevTools of Chrome",
        b"snapshot",
        rb'\A\s*\{\s*"snapshot"\s*:',
    ),
)


def advised(refused: Refused, name: str = "FILE") -> str:
    """Return what to do with an input of a format, by its name."""
    return refused.advice.format(name=shlex.quote(name))
