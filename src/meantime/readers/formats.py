"""Every format that is read, declared once.

A declaration is all that is known of a format outside of its reader: what it is called, who makes
it, by which signs it is recognised, and what its tests need. From these follow recognition, the
names that `--format` takes, `meantime formats`, the table in `docs/formats.md`, the contract tests
and the inputs that are fuzzed. They are in one module, as every command that opens a file needs
them all, and a module for each would take longer to load than the reader itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from meantime.readers.evidence import Sign, Strength, begins, keys, looks, matches, named
from meantime.readers.source import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meantime.readers.evidence import Head

__all__ = ["FORMATS", "Format", "Use"]

_FORM, _GENERAL, _HINT, _KEYS, _MAGIC = (
    Strength.FORM, Strength.GENERAL, Strength.HINT, Strength.KEYS, Strength.MAGIC,
)  # fmt: skip


class Use(NamedTuple):
    """A row of the table in `docs/formats.md`.

    Attributes:
        called: What somebody has.
        made_by: The command or the program that makes one, in Markdown.
        run: The commands to begin with, in Markdown.
        see: Links to more, in Markdown.
    """

    called: str
    made_by: str
    run: str
    see: str = ""


class Format(NamedTuple):
    """A format that is read.

    Attributes:
        format: Its reader's name for it, which `--format` takes.
        names: The usual ends of its names; empty where any is usual.
        uses: What documents say of it: what it is called, who makes it, what to do with it.
        signs: What speaks for it in the beginning of an input; none for directories.
        module: The module of its reader in this package; empty if it has the format's name.
        is_directory: Whether it is a directory, and not a file.
        takes_columns: Whether its columns or fields are named by whoever wrote it, so that
            `--columns` says which is what.
        has_spans: Whether it is made of spans, so that their number is stated even if it is none.
        example: A small sound input. It is recognised as nothing else, kept to by the reader's
            contract and damaged by the fuzzer. Empty if the tests make one.
        rows: The number of rows that are read from it, by the name of the batches' class. Where
            these are events, `meantime info` counts them by name.
        damaged: An input with a malformed record, which lenient reading counts; empty if the format
            has none that can be left out.
        large: Makes an input of at least so many rows, of which no batch has very many.
        unbounded: Instead of it, why a batch may have any number of rows.
    """

    format: str
    names: tuple[str, ...]
    uses: tuple[Use, ...]
    signs: tuple[Sign, ...] = ()
    module: str = ""
    is_directory: bool = False
    takes_columns: bool = False
    has_spans: bool = False
    example: bytes = b""
    rows: Mapping[str, int] = {}
    damaged: bytes = b""
    large: Callable[[int], bytes] | None = None
    unbounded: str = ""

    @property
    def called(self) -> str:
        """What documents call it."""
        return self.uses[0].called

    @property
    def content(self) -> str:
        """By what it is recognised."""
        return "; ".join(dict.fromkeys(sign.what for sign in self.signs)) or "is a directory"


# The time of a sample in perf and ftrace text.
_PERF_TIME = rb"\d\.\d{6}(?:\d{3})?:"
_PERF_HEADER, _PERF_BYTES = b"# captured on", 4096
# Each part has a limit, as a line may be as long as the input.
_FTRACE_TIME = (
    rb"-\d+ (?:[^\n]{0,120}\[\d{3,}\] [^\n]{0,120}|[ \t]*\d+[^\s\d:][^\s:]{3,11}[ \t]+\d*)"
    rb"\d\.\d{6}(?:\d{3})?:"
)
_FTRACE_WORDS = (b"# tracer:", b"TRACE:", b"ystem Trace", b"linuxPerfData", b"trace-data")
# A date, or a level, a priority or the name of a day before it.
_LOG_LINE = (
    rb"\s*(?:\[?(?:\d{4}[-/]\d\d[-/]\d\d|[A-Za-z]{4,8}\b[^\n]{0,8}\d{4}[-/]\d\d)"
    rb"|(?:<\d{1,3}>|\[[A-Z][a-z]{2} )?(?:\d{4}-|[A-Z][a-z]{2} [ \d]?\d \d\d:))"
)
# A call, perhaps after an id, a time or an address.
_STRACE_LINE = (
    rb"(?m)^(?= *\d|[\[a-z_<+-])[^{\n]{0,120}?(?:[a-z_0-9]\(|<\.\.\. \w+ resumed>|\+\+\+ |--- )"
)
_STRACE_BYTES = 8192
# The level of a message of PostgreSQL, in text and in CSV.
_POSTGRES_LEVEL = (
    rb"(?:[:,]|\b)(?:LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|DEBUG[1-5])(?::  ?\S|,\w{5},)"
)
# What HAProxy writes behind what syslog adds: a client, a date, a frontend, a server and lengths.
_HAPROXY_LINE = (
    rb"(?:[0-9A-Fa-f.:]{2,45}|unix):\d{1,6} \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\]"
    rb" [^\s]{1,200} [^\s/]{1,200}/[^\s/]{1,200} [-+]?\d{1,12}(?:/[-+]?\d{1,12}){2,4} "
)
# Two pairs of a key and a value at the beginning.
_PAIRS = rb'\s*[A-Za-z_][\w.@/-]{0,80}=(?:"[^"\n]{0,4000}"|[^\s"]{0,4000})[ \t]+[^\s="]{1,80}='
# The end of a line of folded stacks.
_WEIGHT = rb"[ \t][\d.]+[ \t]*\r?(?:\n|\Z)"
# The first line of a table has the name of a time, and something between names.
_HEADER = (
    # columns that are separated, or names that blanks align
    rb"(?i)(?=[^\n]*[,;|\t]| *[a-z_%#][^\s:]*(?: +[a-z_%#(][^\s:]*)+ *\r?(?:\n|\Z))"
    rb"[^\n]*?(?:time|date|start|begin|end|until|finish|stop|complet|from|_ns|ts)"
)
_JSON_LINES = 8
# Of the fields of a pprof profile.
_PPROF_TAGS = {bytes([tag]) for tag in b'\n\x12\x1a"*28@HPZ`hjpx'}
_SQLITE = b"SQLite format 3\0"
# Names of tables, which are in the first pages of a database.
_NSYS_TABLES = (
    b"META_DATA_EXPORT", b"CUPTI_ACTIVITY_KIND_", b"NVTX_EVENTS", b"TARGET_INFO_SESSION_START",
    b"ENUM_NSYS_EVENT", b"OSRT_API",
)  # fmt: skip
# Logs have a traceID, a spanID and a duration, too, and what only they have.
_JAEGER_KEYS = ("operationName", "processes", "processID", "startTime")
_LOG_KEYS = frozenset(
    (b"message", b"msg", b"level", b"severity", b"logger", b"@timestamp", b"time")
)
_ZIPKIN_IDS = re.compile(rb'"(?:traceId|id)"\s*:\s*(?!"[0-9A-Fa-f]{1,32}")[^\s]')
_STATEMAP_KEYS = frozenset((b"states", b"entityKind", b"state", b"entity"))


def _statemap(head: Head) -> bool:
    return head.is_json and (
        ".statemap" in head.name.lower() or not _STATEMAP_KEYS.isdisjoint(head.keys)
    )


def _phases(head: Head) -> bool:
    # a table of water has a pH, which is a number
    return b"ph" in head.keys and re.search(rb'"ph"\s*:\s*"', head.text) is not None


def _trace_events(head: Head) -> bool:
    # in lines of a log it may be a number
    return (
        head.bracket == b"{"
        and b"traceEvents" in head.keys
        and re.search(rb'"traceEvents"\s*:\s*(?:[\[{n]|\Z)', head.data) is not None
    )


def _zipkin_ids(head: Head) -> bool:
    return (
        head.bracket == b"["
        and {b"traceId", b"id", b"duration"} <= head.keys
        and _LOG_KEYS.isdisjoint(head.keys)
        and _ZIPKIN_IDS.search(head.data) is None
    )


def _perf_header(head: Head) -> bool:
    return _PERF_HEADER in head.data[:_PERF_BYTES]


def _perf(head: Head) -> bool:
    if head.is_binary or head.is_surely_json:
        return False
    # a command's name may begin with a bracket: then its line has a time, or a colon as its end
    first = head.data.lstrip(b" \r\n").split(b"\n", 1)[0].rstrip()
    is_text = not first.startswith((b"{", b"[", b"<")) or first.endswith(b":")
    return is_text or re.search(_PERF_TIME, first) is not None


def _ftrace(head: Head) -> bool:
    # the expression takes 0.2 ms in JSON, which is never ftrace text
    return not (head.keys or head.is_surely_json) and (
        any(each in head.data for each in _FTRACE_WORDS)
        or head.data.startswith(b"cpus=")
        or re.search(_FTRACE_TIME, head.data) is not None
    )


def _strace(head: Head) -> bool:
    part = head.data[:_STRACE_BYTES]
    return b"\0" not in part and (
        re.search(_STRACE_LINE, part) is not None or b"usecs/call" in part or b"attached" in part
    )


def _postgres_log(head: Head) -> bool:
    part = head.data[:_PERF_BYTES]
    return re.search(_POSTGRES_LEVEL, part) is not None and not head.is_surely_json


def _logfmt(head: Head) -> bool:
    return not head.is_json and re.match(_PAIRS, head.data) is not None


def _folded(head: Head) -> bool:
    return (
        head.is_named(".folded", ".collapsed")
        or head.data.startswith(b"# austin:")
        or (b";" in head.data and re.search(_WEIGHT, head.data) is not None)
    )


def _otlp(head: Head) -> bool:
    # a message of protobuf, perhaps behind its length, and then perhaps compressed
    delimited = head.data[4:5] == b"\n" or head.data[4:8] == b"\x28\xb5\x2f\xfd"
    return head.data[:1] == b"\n" or (head.data[:1] == b"\0" and delimited)


def _perfetto(head: Head) -> bool:
    # a message in field 1: a packet
    return head.data[:1] == b"\n" and head.data[:64].strip() != b""


def _pprof(head: Head) -> bool:
    # any field may be the first; text has no tags of numbers
    part = head.data[:512]
    return part[:1] in _PPROF_TAGS and (b"\x08" in part or b"\x10" in part)


def _spall(head: Head) -> bool:
    return b"\0" in head.data[:32]


def _nsys(head: Head) -> bool:
    return head.data.startswith(_SQLITE) and any(each in head.data for each in _NSYS_TABLES)


def _art(head: Head) -> bool:
    # a version below 256 is behind the magic, with its flags
    return head.data.startswith(b"SLOW") and head.data[5:6] == b"\0"


def _go_trace(head: Head) -> bool:
    found = re.match(rb"go 1\.(\d{2}) trace\0\0\0", head.data)
    return found is not None and 11 <= int(found[1]) <= 21


def _heapprofile(head: Head) -> bool:
    return head.bracket == b"{" and b'"head"' in head.text[:64] and b"callFrame" in head.keys


def _speedscope(head: Head) -> bool:
    return head.bracket == b"{" and b"speedscope.app/file-format-schema" in head.text


def _is_object(head: Head) -> bool:
    return head.bracket == b"{"


def _lines(head: Head) -> bool:
    if head.is_named(".jsonl", ".ndjson"):
        return True
    lines = (line.strip() for line in head.data.split(b"\n") if line.strip())
    return any(
        line.startswith(b"{") and line.endswith(b"}")
        for line, _ in zip(lines, range(_JSON_LINES), strict=False)
    )


def _cut_chrome(head: Head) -> bool:
    """Whether a trace of Chrome may go on behind what is seen of it."""
    if head.bracket == b"[":
        inside = head.text[1:].lstrip()
        return not inside or inside.startswith((b"{", b"]", b","))
    # the events may follow any number of other keys
    return head.bracket == b"{" and (head.is_cut or not head.text.rstrip().endswith(b"}"))


def _array(head: Head) -> bool:
    return head.bracket == b"["


def _header(head: Head) -> bool:
    return not head.bracket and (
        head.is_named(".csv", ".tsv", ".psv") or re.match(_HEADER, head.data) is not None
    )


def _database(head: Head) -> bool:
    return head.data[8:12] == b"DUCK"


_VIEW = "`meantime view FILE`"
_FLAME = "`meantime flame FILE -o flame.svg`"
_STATS = "`meantime stats FILE`"
_CHART = "`meantime flame --chart FILE -o chart.html`"
_VIEW_AND_FLAME = f"{_VIEW}, {_FLAME}"
_SERVICES = f"{_VIEW}, `meantime stats FILE --by service`"
_PROFILERS = "[what is read](reference/span-formats.md#other-profilers)"
_BUILDS = "[below](#builds-and-tests)"
_TABLES = "[below](#tables)"

# In the order of docs/formats.md.
FORMATS = (
    Format(
        "statemap",
        (".statemap",),
        (
            Use(
                "statemap data",
                "`statemap`'s bpftrace and DTrace scripts, your own program",
                "`meantime statemap FILE -o map.svg`",
                "[format](reference/statemap-format.md)",
            ),
        ),
        (looks("is JSON with `states`, or with an `entity` with a `state`", _FORM, _statemap),),
        example=b'{"start": [0, 0], "states": {"on": {"value": 0}}}\n'
        b'{"time": "1", "entity": "a", "state": 0}\n',
        rows={"StateChanges": 1},
    ),
    Format(
        "perf",
        (".perf", ".txt"),
        (
            Use(
                "CPU samples",
                "`perf record -F 99 -a -g`, then `perf script --header > out.perf`",
                "`meantime heatmap out.perf -o heat.html`, `meantime flame out.perf -o flame.svg`",
                "[below](#perf)",
            ),
            Use(
                "scheduler switches",
                "`perf sched record`, then `perf script > sched.txt`",
                "`meantime statemap sched.txt -o sched.svg`",
                "[below](#perf)",
            ),
        ),
        (
            looks(
                "has `# captured on`", _FORM, lambda head: _PERF_HEADER in head.data[:_PERF_BYTES]
            ),
            # the name of a thread may be any text, so lines of other formats have this form, too
            looks("has lines COMM PID [CPU] TIME: EVENT:", _GENERAL, _perf),
        ),
        example=b"java 7 [000] 1.000000:  1 cycles: \n\t 7f start (x)\n\t 80 main (x)\n\n"
        b"java 7 [000] 2.000000:  1 cycles: \n\t 7f start ([unknown])\n\n",
        rows={"Samples": 2},
        large=lambda rows: b"java 7 [000] 1.000000:  1 cycles: \n\n" * rows,
    ),
    Format(
        "perf-data",
        (".data",),
        (
            Use(
                "a `perf.data` file",
                "`perf record -g`, `perf sched record`, `perf record -o -`",
                "`meantime flame perf.data -o flame.svg`, `meantime view perf.data`",
                "[what is read](#perfdata)",
            ),
        ),
        (begins(b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"),),
        "perf_data",
    ),
    Format(
        "trace-dat",
        (".dat",),
        (
            Use(
                "a `trace.dat` file",
                "`trace-cmd record`, `trace-cmd extract`",
                f"{_VIEW}, `meantime statemap trace.dat -o sched.svg`",
                "[what is read](#tracedat)",
            ),
        ),
        (begins(b"\x17\x08Dtracing", what="17 08 44 tracing"),),
        "trace_dat",
    ),
    Format(
        "ftrace",
        (".txt",),
        (
            Use(
                "ftrace text",
                "`trace-cmd report`, the kernel's `trace` file, systrace and atrace",
                f"{_VIEW}, `meantime statemap FILE -o sched.svg`",
                "[below](#ftrace)",
            ),
        ),
        (looks("has `# tracer:`, or lines COMM-PID [CPU] TIME: EVENT:", _FORM, _ftrace),),
        example=b"# tracer: nop\n#\n  ui-7 [000] 1.000200: lock <-take\n",
        rows={"Samples": 1},
        large=lambda rows: b"# tracer: nop\n" + b"  ui-7 [000] 1.000200: lock <-take\n" * rows,
    ),
    Format(
        "ctf",
        (),
        (
            Use(
                "CTF",
                "LTTng, `perf data convert --to-ctf`, barectf",
                "`meantime view DIRECTORY`, `meantime why DIRECTORY --thread NAME`",
                "[below](#ctf)",
            ),
        ),
        is_directory=True,
    ),
    Format(
        "strace",
        (".txt",),
        (
            Use(
                "strace text",
                "`strace -f -ttt -T -o trace.txt COMMAND`",
                "`meantime statemap trace.txt -o calls.svg`, `meantime stats trace.txt`",
                "[below](#strace)",
            ),
        ),
        (looks("has lines of calls, such as `read(3, ...) = 5`", _FORM, _strace),),
        example=b"7 1770000000.123456 getpid() = 7 <0.000010>\n",
        rows={"Spans": 1, "StateChanges": 2},
    ),
    Format(
        "chrome",
        (".json",),
        (
            Use(
                "Chrome trace JSON",
                "Chromium, Perfetto's JSON export, VizTracer, PyTorch, JAX, `clang -ftime-trace`,"
                " Bazel",
                f"{_CHART}, {_STATS}",
            ),
        ),
        (
            Sign(_MAGIC, "is JSON with the key traceEvents", _trace_events),
            matches(
                rb'\s*\[?[\s,]*\{[^{}\[\]]*"ph"\s*:\s*"',
                "is JSON whose first object has the key ph",
                _MAGIC,
                having=b'"ph"',
            ),
            Sign(_FORM, "is JSON with the key ph", _phases),
            Sign(_HINT, "is a JSON object or array that goes on behind its beginning", _cut_chrome),
        ),
        has_spans=True,
        example=b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}',
        rows={"Spans": 1},
    ),
    Format(
        "perfetto",
        (".pftrace", ".perfetto-trace"),
        (
            Use(
                "a Perfetto trace",
                "Android, `chrome://tracing` and `--trace-startup-format=proto`, programs with"
                " Perfetto's SDK",
                f"{_VIEW}, `meantime statemap FILE -o sched.svg`, {_STATS}",
                "[what is read](reference/span-formats.md#perfetto)",
            ),
        ),
        (looks("has messages of protobuf: packets of a trace", _FORM, _perfetto),),
    ),
    Format(
        "otlp",
        (".json", ".jsonl", ".bin"),
        (
            Use(
                "OpenTelemetry",
                "an OTLP exporter, the collector's file exporter, Grafana Tempo: JSON, JSON lines"
                " or protobuf",
                f"{_VIEW}, `meantime statemap FILE -o services.svg`",
                "[what is read](reference/span-formats.md#opentelemetry-jaeger-and-zipkin)",
            ),
        ),
        (
            keys(
                some=(
                    "resourceSpans",
                    "resource_spans",
                    "resourceLogs",
                    "resource_logs",
                    "scopeSpans",
                    "scope_spans",
                    "instrumentationLibrarySpans",
                    "instrumentation_library_spans",
                ),
                brackets=b"{",
            ),
            looks("has messages of protobuf: spans of resources", _FORM, _otlp),
        ),
        example=b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId":'
        b' "0123456789abcdef0123456789abcdef", "spanId": "0123456789abcdef", "name": "a",'
        b' "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]}\n',
        rows={"Spans": 1, "Counters": 2, "StateChanges": 2},
        unbounded="a parent may come after its children, on any line",
    ),
    Format(
        "jaeger",
        (".json",),
        (
            Use(
                "Jaeger JSON",
                "what its page and its server download",
                _SERVICES,
                "[what is read](reference/span-formats.md#opentelemetry-jaeger-and-zipkin)",
            ),
        ),
        (
            keys("traceID", "spanID", some=_JAEGER_KEYS, none=_LOG_KEYS),
            keys("traceID", "spanID", "operationName", "references"),
            keys("traceID", "spans", "processes"),
        ),
    ),
    Format(
        "zipkin",
        (".json",),
        (
            Use(
                "Zipkin JSON",
                "what its page and its server download",
                _SERVICES,
                "[what is read](reference/span-formats.md#opentelemetry-jaeger-and-zipkin)",
            ),
        ),
        (
            keys(
                "traceId",
                "id",
                some=("localEndpoint", "remoteEndpoint", "annotations", "binaryAnnotations"),
                brackets=b"[",
            ),
            Sign(_KEYS, "is JSON with hexadecimal traceId and id, and a duration", _zipkin_ids),
        ),
    ),
    Format(
        "jfr",
        (".jfr",),
        (
            Use(
                "Java flight recording",
                "the JVM (`-XX:StartFlightRecording`), `jcmd PID JFR.dump`, async-profiler,"
                " Datadog's tracer",
                _VIEW_AND_FLAME,
                "[what is read](reference/span-formats.md#java-flight-recordings)",
            ),
        ),
        (begins(b"FLR\0"),),
    ),
    Format(
        "nsys",
        (".sqlite",),
        (
            Use(
                "Nsight Systems",
                "`nsys export -t sqlite report.nsys-rep`",
                _VIEW,
                "[what is read](reference/span-formats.md#nsight-systems)",
            ),
        ),
        (Sign(_KEYS, "is SQLite with tables of Nsight", _nsys),),
    ),
    Format(
        "spall",
        (".spall",),
        (Use("`.spall`", "`spall.h`, `spall-odin`", _CHART),),
        (
            begins(
                bytes.fromhex("0df0ad0b00000000"),
                bytes.fromhex("0df0ad0a00000000"),
                what="0d f0 ad 0b or 0d f0 ad 0a",
            ),
            named(".spall", may_be=_spall),
        ),
        has_spans=True,
    ),
    Format(
        "cpuprofile",
        (".cpuprofile",),
        (Use("`.cpuprofile`", "`node --cpu-prof`, Chrome DevTools", _FLAME),),
        (
            keys("nodes", "callFrame", brackets=b"{"),
            keys("head", "hitCount", brackets=b"{"),
            named(".cpuprofile", may_be=_is_object),
        ),
        unbounded="the file is one JSON value",
    ),
    Format(
        "pprof",
        (".pb.gz", ".pprof"),
        (
            Use(
                "pprof",
                "Go's `/debug/pprof`, `go test -cpuprofile`, Pyroscope, Parca, `@datadog/pprof`",
                f"{_FLAME}, {_STATS}",
            ),
        ),
        (looks("has messages of protobuf: types of samples", _FORM, _pprof),),
    ),
    Format(
        "firefox",
        (".json", ".json.gz"),
        (
            Use(
                "Firefox profile",
                "profiler.firefox.com, `samply record`, the performance panel of old Firefox",
                _VIEW_AND_FLAME,
            ),
        ),
        (
            keys(
                "meta",
                some=(
                    "preprocessedProfileVersion",
                    "stackwalk",
                    "processType",
                    "geckoProfile",
                    "sampleUnits",
                ),
                brackets=b"{",
            ),
            keys("stackTable", "frameTable", "threads", brackets=b"{"),
            keys("libs", some=("breakpadId", "debugName", "pdbName"), brackets=b"{"),
        ),
    ),
    Format(
        "speedscope",
        (".speedscope.json",),
        (Use("speedscope JSON", "py-spy, rbspy, speedscope itself", _FLAME),),
        (
            Sign(_MAGIC, "is JSON with the schema of speedscope", _speedscope),
            keys("profiles", "shared", brackets=b"{"),
            named(".speedscope.json", may_be=_is_object),
        ),
    ),
    Format(
        "folded",
        (".folded", ".collapsed"),
        (
            Use(
                "folded stacks",
                "`stackcollapse-*.pl`, bcc, DTrace scripts, `py-spy record -f raw`, Austin",
                _FLAME,
            ),
        ),
        (looks("has lines a;b;c WEIGHT", _GENERAL, _folded),),
        example=b"main;work 3\nmain;[unknown] 1\r\n\nmain 2\n",
        rows={"Samples": 3},
        damaged=b"main;work 3\nmain;work\nmain;rest 1\n",
        unbounded="the whole file is parsed before its stacks are numbered",
    ),
    Format(
        "stackprof",
        (".json",),
        (
            Use(
                "stackprof",
                "Ruby: `StackProf.run(mode: :wall, raw: true)`, written with `JSON.generate`",
                _FLAME,
                _PROFILERS,
            ),
        ),
        (keys("mode", "interval", "frames", "samples", brackets=b"{"),),
    ),
    Format(
        "heapprofile",
        (".heapprofile",),
        (Use("`.heapprofile`", "`node --heap-prof`, Chrome DevTools", _FLAME),),
        (Sign(_KEYS, "is JSON that begins with the keys head and callFrame", _heapprofile),),
    ),
    Format(
        "safari",
        (".json",),
        (Use("Safari recording", "Web Inspector, Timelines: Export", _VIEW_AND_FLAME, _PROFILERS),),
        (keys("recording", some=("instrumentTypes", "sampleStackTraces"), brackets=b"{"),),
    ),
    Format(
        "instruments",
        (".txt",),
        (
            Use(
                "call tree of Instruments",
                "Edit > Deep Copy, pasted into a file",
                _FLAME,
                _PROFILERS,
            ),
        ),
        (
            matches(
                rb"(?:[^\n]*\bWeight\t[^\n]*Self Weight\t|Running Time\t|Bytes Used\t)"
                rb"[^\n]*Symbol Name",
                "has the columns Weight, Self Weight and Symbol Names, or Bytes Used",
                _KEYS,
                having=b"\tSymbol Name",
                within=HEAD_BYTES,
            ),
        ),
    ),
    Format(
        "callgrind",
        (".out",),
        (Use("callgrind", "`valgrind --tool=callgrind`", _STATS, _PROFILERS),),
        (
            matches(
                rb"# callgrind format|(?:version|creator|pid|cmd|part|desc|positions): ?[^\n]*\n"
                rb"(?:[a-z]+:[^\n]*\n|\s*\n|#[^\n]*\n){0,40}events:",
                "has the header of callgrind, with events:",
                _KEYS,
                having=b"events:",
            ),
        ),
    ),
    Format(
        "art",
        (".trace",),
        (
            Use(
                "Android method trace",
                "`Debug.startMethodTracing`, `am profile start`",
                f"{_CHART}, {_STATS}",
                _PROFILERS,
            ),
        ),
        (begins(b"*version\n"), Sign(_MAGIC, "begins with SLOW and a version", _art)),
    ),
    Format(
        "simpleperf",
        (".trace",),
        (
            Use(
                "simpleperf",
                "`simpleperf report-sample --protobuf --show-callchain`",
                _VIEW_AND_FLAME,
                _PROFILERS,
            ),
        ),
        (begins(b"SIMPLEPERF"),),
    ),
    Format(
        "go-trace",
        (".trace", ".out"),
        (
            Use(
                "execution trace of Go 1.11 to 1.21",
                "`go test -trace FILE`, `/debug/pprof/trace`, `runtime/trace`",
                f"{_VIEW}, `meantime statemap FILE -o goroutines.svg`",
                _PROFILERS,
            ),
        ),
        (Sign(_MAGIC, "begins with go 1.NN trace, up to 1.21", _go_trace),),
        "go_trace",
    ),
    Format(
        "recording",
        (".mtr", ".mtrz"),
        (
            Use(
                "a Python program",
                "asyncio, trio, thread pools, threads",
                "`meantime record -- python app.py`",
                "[tutorial](tutorials/find-what-blocks-your-event-loop.md)",
            ),
        ),
        (begins(b"mtrpack"),),
        "packed",
    ),
    Format(
        "jsonl",
        (".jsonl", ".ndjson"),
        (
            Use(
                "JSON lines of events",
                "any tracer, your logs",
                "`meantime statemap FILE --provider states.toml -o map.svg`",
                "[format](reference/events.md), [tutorial](tutorials/derive-states-from-events.md)",
            ),
            Use(
                "a log of begins and ends",
                "structlog, python-json-logger, logstash, zap, pino, Docker",
                "`meantime view FILE --pair BEGIN:END --pair-by ID`",
                "[how](how-to/draw-a-table-or-a-log.md)",
            ),
        ),
        (looks("has lines of JSON objects", _GENERAL, _lines),),
        takes_columns=True,
        example=b'{"time_ns": 1, "name": "start"}\n{"time_ns": 2, "name": "stop"}\n',
        rows={"Events": 2},
    ),
    Format(
        "log",
        (".log",),
        (
            Use(
                "text of a log",
                "Python's `logging` and what writes a date and a level at the beginning of each"
                " line",
                f"{_VIEW}, `meantime FILE` suggests pairs",
                "[how](how-to/draw-a-table-or-a-log.md#text-of-a-log)",
            ),
            Use(
                "text of a system's log",
                "rsyslog, syslog-ng, `journalctl`, Apache's error log",
                f"{_VIEW}, `meantime FILE` suggests pairs",
                "[how](how-to/draw-a-table-or-a-log.md#text-of-a-log)",
            ),
        ),
        (
            looks(
                "has lines with a date and a level, or a host and a program",
                _FORM,
                lambda head: re.match(_LOG_LINE, head.data) is not None,
            ),
        ),
        takes_columns=True,
        example=b"2026-03-02 08:00:00,123 INFO started\n"
        b"2026-03-02 08:00:00,250 - a.b - ERROR - failed\n"
        b'Traceback (most recent call last):\n  File "x.py", line 3, in f\nValueError\n'
        b"[2026-03-02T08:00:01Z] [MainThread] WARNING:app:late\nINFO 2026/03/02 08:00:02 [x] y\n"
        b"2026-03-02T08:00:03.5+00:00 host sshd[12]: opened\n"
        b"[Mon Mar 02 08:00:04 2026] [core:notice] [pid 7] started\n",
        rows={"Events": 6},
        large=lambda rows: b"2026-03-02 08:00:00,123 INFO a\n" * rows,
    ),
    Format(
        "table",
        (".csv", ".tsv", ".psv", ".parquet", ".arrow", ".sqlite", ".duckdb"),
        (
            Use(
                "a table with any columns",
                "a spreadsheet, a database, a script: CSV, TSV, Parquet, Arrow, SQLite, DuckDB",
                "`meantime statemap FILE -o map.svg`",
                _TABLES,
            ),
            Use(
                "jobs of Slurm",
                "`sacct -P -o JobID,JobName,State,Start,End,NodeList`",
                "`meantime statemap FILE -o nodes.svg`",
                _BUILDS,
            ),
        ),
        (
            begins(b"PAR1", b"ARROW1", strength=_FORM),
            begins(b"\xff\xff\xff\xff", what="ff ff ff ff, as streams of Arrow", strength=_FORM),
            begins(_SQLITE, strength=_FORM),
            Sign(_FORM, "is a database of DuckDB", _database),
            looks("has a first line with the name of a time", _GENERAL, _header),
            looks("is an array of JSON objects", _GENERAL, _array),
        ),
        takes_columns=True,
        example=b"start_ns,end_ns,path,value\n0,10,disk0,busy\n",
        rows={"StateChanges": 2},
        unbounded="rows are in any order, and those of a path may not overlap",
    ),
    Format(
        "ninja",
        (".ninja_log",),
        (Use("`.ninja_log`", "ninja", _VIEW, _BUILDS),),
        (begins(b"# ninja log v"),),
        has_spans=True,
        example=b"# ninja log v5\n1\t5\t0\ta.o\t1f\n",
        rows={"Spans": 1},
        unbounded="commands are in order of their ends, and lanes need that of their starts",
    ),
    Format(
        "junit",
        (".xml",),
        (Use("JUnit XML", "`pytest --junitxml=FILE` and most test runners", _VIEW, _BUILDS),),
        (
            Sign(
                _KEYS,
                "is XML with <testsuite",
                lambda head: head.bracket == b"<" and b"<testsuite" in head.text,
            ),
        ),
        has_spans=True,
        example=b'<testsuite name="a" timestamp="2026-01-01T00:00:00"><testcase name="b"'
        b' time="1"/></testsuite>',
        rows={"Spans": 1},
        unbounded="a case takes more memory in its file than in its columns",
    ),
    Format(
        "github-actions",
        (".json",),
        (
            Use(
                "jobs of GitHub Actions",
                "`gh api repos/OWNER/NAME/actions/runs/ID/jobs`, `workflow_job` webhooks",
                _VIEW,
                _BUILDS,
            ),
        ),
        (keys("started_at", "completed_at", some=("workflow_job", "steps")),),
        "github_jobs",
        has_spans=True,
    ),
    Format(
        "access-log",
        (".log",),
        (
            Use(
                "an access log of a web server",
                "nginx, Apache, Caddy, Gunicorn and others, in the common or combined format;"
                " with `$request_time`, requests have lengths",
                f"{_VIEW}, {_STATS}",
                "[below](#requests)",
            ),
        ),
        (
            matches(
                rb'[^\n"]{3,300}?\[[^\]\n]{11,40}\] "(?:[^"\\\n]|\\.){0,4000}" '
                rb"(?:\d{3}|-) (?:\d+|-)",
                "has lines of requests in the common log format",
                Strength.KEYS,
                having=b'] "',
            ),
        ),
        "access_log",
        takes_columns=True,
        has_spans=True,
        example=(
            b'10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET /a/17 HTTP/1.1" 200 26 "-" "-"'
            b" 0.250\n"
            b'10.0.0.1 - - [10/Oct/2026:13:55:36 +0200] "GET /a/18 HTTP/1.1" 500 - "-" "-" 0.500\n'
        ),
        rows={"Spans": 2, "Points": 1},
        large=lambda rows: b"".join(
            b'10.0.0.%d - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 1 0.%03d\n'
            % (n % 250, n % 1000)
            for n in range(rows)
        ),
    ),
    Format(
        "haproxy-log",
        (".log",),
        (
            Use(
                "a log of HAProxy",
                "`option httplog` and `option tcplog`, also behind what syslog adds",
                f"{_VIEW}, {_STATS}",
                "[below](#requests)",
            ),
        ),
        (
            matches(
                rb"[^\n]{0,200}?" + _HAPROXY_LINE,
                "has lines of HAProxy's requests or connections",
                Strength.KEYS,
                having=b"] ",
            ),
        ),
        "haproxy_log",
        has_spans=True,
        example=(
            b"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317"
            b" [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ----"
            b' 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"\n'
            b"10.0.1.2:33318 [06/Feb/2026:12:14:15.000] http-in static/<NOSRV> 5/-1/-1/-1/5 503 212"
            b' - - SC-- 0/0/0/0/0 0/0 "GET /a/17 HTTP/1.1"\n'
            b"10.0.1.2:33313 [06/Feb/2026:12:12:51.443] fnt bck/srv1 0/7/5007 212 -- 0/0/0/0/3"
            b" 0/0\n"
        ),
        rows={"Spans": 9, "Points": 1},
        unbounded="requests to a server are in lanes, which need all of them in order",
    ),
    Format(
        "postgres-log",
        (".log", ".csv", ".json"),
        (
            Use(
                "a log of PostgreSQL",
                "`log_min_duration_statement`, `log_lock_waits`, `log_checkpoints`,"
                " `log_autovacuum_min_duration`; text, `csvlog` and `jsonlog`",
                f"{_VIEW}, {_STATS}",
                "[below](#requests)",
            ),
        ),
        (
            looks("has messages of PostgreSQL", _KEYS, _postgres_log),
            keys("timestamp", "pid", "error_severity", "message"),
        ),
        "postgres_log",
        takes_columns=True,
        has_spans=True,
        example=(
            b"2026-01-02 03:04:05.250 UTC [7] a@b LOG:  duration: 250.000 ms  statement: select a\n"
            b"2026-01-02 03:04:05.251 UTC [7] a@b ERROR:  no such table\n"
        ),
        rows={"Spans": 1, "Points": 1},
        unbounded="a message takes more memory in its file than in its columns",
    ),
    Format(
        "importtime",
        (".txt", ".log"),
        (
            Use(
                "times of Python's imports",
                "`python -X importtime PROGRAM 2> imports.txt`",
                f"`meantime flame --chart FILE -o imports.html`, {_STATS}",
            ),
        ),
        (
            matches(
                rb"(?m)^import time:\s+(?:\d+ \||self \[us\] \|)",
                "has lines of -X importtime",
                having=b"import time:",
                anywhere=True,
                within=HEAD_BYTES,
            ),
        ),
        has_spans=True,
        example=(
            b"import time: self [us] | cumulative | imported package\n"
            b"import time:       178 |        178 |   _io\n"
            b"import time:       346 |        524 | io\n"
        ),
        rows={"Spans": 2},
        unbounded="a module takes more memory in its file than in its columns",
    ),
    Format(
        "logfmt",
        (".log",),
        (
            Use(
                "a log of `key=value` lines (logfmt)",
                "Go's slog and logrus, Grafana's tools, Heroku",
                _VIEW,
                "[how](how-to/draw-a-table-or-a-log.md)",
            ),
        ),
        (looks("has lines of key=value", _GENERAL, _logfmt),),
        takes_columns=True,
        example=(
            b'time=2026-01-02T03:04:05.250Z level=info msg="request done" path=/a\n'
            b"time=2026-01-02T03:04:06Z level=warn msg=late attempts=3\n"
        ),
        rows={"Events": 2},
        damaged=(
            b"time=2026-01-02T03:04:05.250Z level=info msg=done\n"
            b"time=yesterday level=info msg=done\n"
        ),
        large=lambda rows: b"".join(
            b"time=2026-01-02T03:04:05.%06dZ level=info msg=done\n" % (n % 10**6)
            for n in range(rows)
        ),
    ),
    Format(
        "har",
        (".har",),
        (
            Use(
                "an HTTP archive (HAR)",
                "*Save all as HAR* in the network panel of a browser, Playwright, k6, Charles,"
                " mitmproxy",
                f"{_VIEW}, {_STATS}",
                "[below](#requests)",
            ),
        ),
        (
            matches(
                rb"\s*\{\s*\"log\"\s*:\s*\{(?=.*\"entries\"\s*:\s*\[)",
                "is JSON with the keys log and entries",
                having=b'"entries"',
                within=HEAD_BYTES,
            ),
        ),
        has_spans=True,
        example=(
            b'{"log": {"version": "1.2", "creator": {"name": "a", "version": "1"}, "entries": ['
            b'{"startedDateTime": "2026-01-02T03:04:05.678Z", "time": 683.5,'
            b' "request": {"method": "GET", "url": "https://example.org/a"},'
            b' "response": {"status": 200}, "timings": {"blocked": 1.5, "dns": -1, "connect": 50,'
            b' "ssl": 30, "send": 1, "wait": 510, "receive": 121}}]}}'
        ),
        rows={"Spans": 7},
        damaged=(
            b'{"log": {"entries": [{"startedDateTime": 5}, {"startedDateTime": "2026-01-02T03:04Z",'
            b' "time": 1, "request": {"url": "https://example.org/"}}]}}'
        ),
        unbounded="the file is one JSON value",
    ),
    Format(
        "dask",
        (".json",),
        (
            Use(
                "a task stream of dask",
                "`json.dump(client.get_task_stream(), file)`",
                _VIEW,
                _BUILDS,
            ),
        ),
        (keys("startstops", "worker"),),
        "dask_tasks",
        has_spans=True,
    ),
    Format(
        "picture",
        (".svg", ".html"),
        (
            Use(
                "a picture that holds its data",
                "`meantime statemap`, `meantime heatmap`, `meantime flame`, the original statemap,"
                " `flamegraph.pl`, inferno",
                f"{_STATS}, `meantime view FILE`",
                "[below](#pictures)",
            ),
        ),
        (
            Sign(
                _MAGIC,
                "is a page of meantime, with its data",
                lambda head: b'<metadata data-block="head">' in head.data,
            ),
            matches(
                rb"<!--\s*Flame graph stack visualization|class=.func_g|[ ]onmouseover=.s\('",
                "is a flame graph of flamegraph.pl or inferno",
                having=b"<svg",
                anywhere=True,
                within=HEAD_BYTES,
            ),
            matches(
                rb"<svg.*?var globals = \{.{0,2000}?\"stripHeight\"",
                "is a statemap of the original program",
                having=b"stripHeight",
                anywhere=True,
                within=HEAD_BYTES,
            ),
        ),
        example=b"<svg><!-- Flame graph stack visualization. --><g><title>all (3 samples, 100%)"
        b'</title><rect x="10.0" y="37" width="90.0"/></g><g><title>f&lt;a&gt; (3 samples, 100%)'
        b'</title><rect x="10.0" y="21" width="90.0"/></g></svg>',
        rows={"Samples": 1},
        unbounded="a picture is one value",
    ),
    Format(
        "history",
        (".mth",),
        (Use("a history", "`meantime build`, `HistoryBuilder`", "every command"),),
        is_directory=True,
    ),
)
