"""What an input must have for each format, so that only readers that may recognise it are imported.

A signature is a necessary condition: it is true of everything that its reader recognises, and of
little else. The reader decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SIGNATURES"]

# The time of a sample in perf and ftrace text.
_PERF_TIME = rb"\d\.\d{6}(?:\d{3})?:"
_OTLP_KEYS = (b'logs"', b'Logs"', b'spans"', b'Spans"')
_FTRACE_TIME = (
    rb"-\d+ (?:[^\n]*\[\d{3,}\] [^\n]*|[ \t]*\d+[^\s\d:][^\s:]{3,11}[ \t]+\d*)\d\.\d{6}(?:\d{3})?:"
)
_FTRACE_WORDS = (b"# tracer:", b"TRACE:", b"ystem Trace", b"linuxPerfData", b"trace-data")
_JSONL_LINES = 8
# A date, or a level before it.
_LOG_LINE = rb"\s*\[?(?:\d{4}[-/]\d\d[-/]\d\d|[A-Za-z]{4,8}\b[^\n]{0,8}\d{4}[-/]\d\d)"
# A call, perhaps after an id, a time or an address.
_STRACE_LINE = (
    rb"(?m)^(?= *\d|[\[a-z_<+-])[^{\n]{0,120}?(?:[a-z_0-9]\(|<\.\.\. \w+ resumed>|\+\+\+ |--- )"
)
# The first line of a table has the name of a time, and something between names.
_HEADER = (
    rb"(?i)(?=[^\n]*[,;|\t])"
    rb"[^\n]*?(?:time|date|start|begin|end|until|finish|stop|complet|from|_ns|ts)"
)
_LONGEST_HEADER = 1 << 16
# Of the fields of a pprof profile.
_PPROF_TAGS = {bytes([tag]) for tag in b'\n\x12\x1a"*28@HPZ`hjpx'}


def _json(head: bytes, _: str) -> bool:
    return head.lstrip().startswith((b"{", b"["))


def _packed(head: bytes, _: str) -> bool:
    return head.startswith(b"mtrpack")


def _spall(head: bytes, _: str) -> bool:
    return b"\0" in head[:32]


def _speedscope(head: bytes, name: str) -> bool:
    return b"speedscope.app/" in head or b'"profiles"' in head or ".speedscope.json" in name


def _cpuprofile(head: bytes, name: str) -> bool:
    return b'"nodes"' in head or b'"hitCount"' in head or name.endswith(".cpuprofile")


def _table(head: bytes, name: str) -> bool:
    if head.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"SQLite format 3\0")):
        return True
    if (text := head.lstrip()).startswith((b"{", b"[", b"<")):
        return text.startswith(b"[") and b'"ph"' not in head
    return (
        head[8:12] == b"DUCK"
        or any(end in name.lower() for end in (".csv", ".tsv", ".psv"))
        or re.match(_HEADER, head[:_LONGEST_HEADER]) is not None
    )


def _perf(head: bytes, _: str) -> bool:
    # stacks of Go have the form of perf's
    if b"\0" in head[:4096] or head.startswith(b"goroutine "):
        return False
    # a command's name may begin with a bracket: then its line has a time, or a colon as its end
    first = head.lstrip(b" \r\n").split(b"\n", 1)[0].rstrip()
    return (
        not first.startswith((b"{", b"[", b"<"))
        or first.endswith(b":")
        or re.search(_PERF_TIME, first) is not None
    )


def _ftrace(head: bytes, _: str) -> bool:
    return (
        any(each in head for each in _FTRACE_WORDS)
        or head.startswith(b"cpus=")
        or re.search(_FTRACE_TIME, head) is not None
    )


def _folded(head: bytes, name: str) -> bool:
    has_weight = b";" in head and re.search(rb"[ \t][\d.]+[ \t]*\r?(?:\n|\Z)", head) is not None
    named = name.endswith((".folded", ".collapsed"))
    return has_weight or named or head.startswith(b"# austin:")


def _log(head: bytes, _: str) -> bool:
    return re.match(_LOG_LINE, head) is not None


def _jsonl(head: bytes, name: str) -> bool:
    if any(end in name.lower() for end in (".jsonl", ".ndjson")):
        return True
    lines = (line for line in head.split(b"\n") if line.strip())
    return any(
        line.strip().startswith(b"{") and line.rstrip().endswith(b"}")
        for line, _ in zip(lines, range(_JSONL_LINES), strict=False)
    )


def _otlp(head: bytes, _: str) -> bool:
    # JSON, or a message of protobuf, perhaps behind its length, and then perhaps compressed
    if any(each in head for each in _OTLP_KEYS):
        return True
    delimited = head[4:5] == b"\n" or head[4:8] == b"\x28\xb5\x2f\xfd"
    return head[:1] == b"\n" or (head[:1] == b"\0" and delimited)


def _perfetto(head: bytes, _: str) -> bool:
    # a message in field 1: a packet
    return head[:1] == b"\n" and head[:64].strip() != b""


def _pprof(head: bytes, _: str) -> bool:
    # any field may be the first; text has no tags of numbers
    return head[:1] in _PPROF_TAGS and (b"\x08" in head[:512] or b"\x10" in head[:512])


def _firefox(head: bytes, _: str) -> bool:
    return b'"meta"' in head or b'"stackTable"' in head or b'"libs"' in head


def _jaeger(head: bytes, _: str) -> bool:
    return b'"traceID"' in head or b'"spanID"' in head


def _zipkin(head: bytes, _: str) -> bool:
    return b'"traceId"' in head and head.lstrip().startswith(b"[")


def _jfr(head: bytes, _: str) -> bool:
    return head.startswith(b"FLR\0")


def _nsys(head: bytes, _: str) -> bool:
    return head.startswith(b"SQLite format 3\0")


def _strace(head: bytes, _: str) -> bool:
    part = head[:8192]
    return b"\0" not in part and (
        re.search(_STRACE_LINE, part) is not None or b"usecs/call" in part or b"attached" in part
    )


def _ninja(head: bytes, _: str) -> bool:
    return head.startswith(b"# ninja log")


def _junit(head: bytes, _: str) -> bool:
    return b"<testsuite" in head


def _github_jobs(head: bytes, _: str) -> bool:
    return b'"completed_at"' in head


def _dask_tasks(head: bytes, _: str) -> bool:
    return b'"startstops"' in head


def _stackprof(head: bytes, _: str) -> bool:
    return b'"interval"' in head and b'"frames"' in head


def _safari(head: bytes, _: str) -> bool:
    return b'"recording"' in head


def _heapprofile(head: bytes, _: str) -> bool:
    return b'"head"' in head[:64]


def _instruments(head: bytes, _: str) -> bool:
    return b"\tSymbol Name" in head[:_LONGEST_HEADER]


def _callgrind(head: bytes, _: str) -> bool:
    return b"events:" in head


def _art(head: bytes, _: str) -> bool:
    return head.startswith((b"*version\n", b"SLOW"))


def _go_trace(head: bytes, _: str) -> bool:
    return head.startswith(b"go 1.")


def _simpleperf(head: bytes, _: str) -> bool:
    return head.startswith(b"SIMPLEPERF")


# The modules of the formats. The first that recognises the beginning reads the input.
SIGNATURES: dict[str, Callable[[bytes, str], bool]] = {
    "meantime.readers.packed": _packed,
    "meantime.readers.pprof": _pprof,
    "meantime.readers.firefox": _firefox,
    "meantime.readers.otlp": _otlp,
    "meantime.readers.jaeger": _jaeger,
    "meantime.readers.zipkin": _zipkin,
    "meantime.readers.ninja": _ninja,
    "meantime.readers.junit": _junit,
    "meantime.readers.github_jobs": _github_jobs,
    "meantime.readers.dask_tasks": _dask_tasks,
    "meantime.readers.perfetto": _perfetto,
    "meantime.readers.stackprof": _stackprof,
    "meantime.readers.safari": _safari,
    "meantime.readers.heapprofile": _heapprofile,
    "meantime.readers.instruments": _instruments,
    "meantime.readers.callgrind": _callgrind,
    "meantime.readers.art": _art,
    "meantime.readers.simpleperf": _simpleperf,
    "meantime.readers.go_trace": _go_trace,
    "meantime.readers.statemap": _json,
    "meantime.readers.jfr": _jfr,
    # before spall, which has zeros near its beginning too
    "meantime.readers.nsys": _nsys,
    "meantime.readers.spall": _spall,
    # before perf, which takes a call in a line for the name of a thread
    "meantime.readers.strace": _strace,
    "meantime.readers.speedscope": _speedscope,
    "meantime.readers.cpuprofile": _cpuprofile,
    "meantime.readers.log": _log,
    "meantime.readers.table": _table,
    # before perf, which has the same fields in another order
    "meantime.readers.ftrace": _ftrace,
    "meantime.readers.perf": _perf,
    "meantime.readers.folded": _folded,
    "meantime.readers.jsonl": _jsonl,
    # last, since it accepts any JSON object: the events may be far behind the beginning
    "meantime.readers.chrome": _json,
}
