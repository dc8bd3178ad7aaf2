"""The formats that are read: what each is called, how it begins, and how to make one."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FORMATS", "KnownFormat"]


class KnownFormat(NamedTuple):
    """A format that is read.

    Attributes:
        format: Its reader's name for it, as `meantime info` prints it.
        called: What documents call it.
        names: The usual ends of its names; empty where any is usual.
        begins: How its content begins, or what it contains, by which it is recognised.
        made_by: The command or the program that makes one.
    """

    format: str
    called: str
    names: tuple[str, ...]
    begins: str
    made_by: str


# In the order of docs/formats.md; a test compares these with the readers and with that page.
FORMATS = (
    KnownFormat(
        "statemap", "statemap data", (".statemap",), '{"start": [, {"states":', "statemap's scripts"
    ),
    KnownFormat(
        "perf", "CPU samples", (".perf", ".txt"), "lines COMM PID [CPU] TIME: EVENT:", "perf script"
    ),
    KnownFormat("ftrace", "ftrace text", (".txt",), "# tracer:, cpus=", "trace-cmd report; atrace"),
    KnownFormat("ctf", "CTF", (), "a directory with metadata", "lttng; perf data convert --to-ctf"),
    KnownFormat("strace", "strace text", (".txt",), "call(", "strace -f -ttt -T -o FILE COMMAND"),
    KnownFormat(
        "chrome",
        "Chrome trace JSON",
        (".json",),
        '{"traceEvents":, [{"ph":',
        "Chromium, VizTracer, PyTorch, clang -ftime-trace, Bazel",
    ),
    KnownFormat(
        "perfetto",
        "Perfetto",
        (".pftrace", ".perfetto-trace"),
        "protobuf: packets",
        "Android, Chromium, Perfetto's SDK",
    ),
    KnownFormat(
        "otlp",
        "OpenTelemetry",
        (".json", ".jsonl", ".bin"),
        '{"resourceSpans":; protobuf',
        "the collector's file exporter, Grafana Tempo",
    ),
    KnownFormat("jaeger", "Jaeger", (".json",), '{"data": [{"traceID":', "Jaeger's page: download"),
    KnownFormat("zipkin", "Zipkin", (".json",), '[{"traceId":', "Zipkin's page: download"),
    KnownFormat(
        "jfr", "Java flight recording", (".jfr",), "FLR", "jcmd PID JFR.dump; async-profiler"
    ),
    KnownFormat(
        "nsys",
        "Nsight Systems",
        (".sqlite",),
        "SQLite with tables of Nsight",
        "nsys export -t sqlite report.nsys-rep",
    ),
    KnownFormat("spall", ".spall", (".spall",), "0d f0 ad 0b", "spall.h"),
    KnownFormat("cpuprofile", ".cpuprofile", (".cpuprofile",), '{"nodes":', "node --cpu-prof"),
    KnownFormat(
        "pprof",
        "pprof",
        (".pb.gz", ".pprof"),
        "protobuf: sample types",
        "go test -cpuprofile; /debug/pprof; Pyroscope",
    ),
    KnownFormat(
        "firefox",
        "Firefox profile",
        (".json", ".json.gz"),
        '{"meta":, "stackTable":',
        "profiler.firefox.com; samply record",
    ),
    KnownFormat(
        "speedscope",
        "speedscope JSON",
        (".speedscope.json",),
        '"$schema": of speedscope',
        "py-spy record -f speedscope",
    ),
    KnownFormat(
        "folded",
        "folded stacks",
        (".folded", ".collapsed"),
        "lines a;b;c WEIGHT",
        "stackcollapse-perf.pl",
    ),
    KnownFormat(
        "stackprof",
        "stackprof",
        (".json",),
        '{"mode":, "interval":, "frames":',
        "StackProf.run(raw: true), JSON.generate",
    ),
    KnownFormat(
        "heapprofile",
        "`.heapprofile`",
        (".heapprofile",),
        '{"head": {"callFrame":',
        "node --heap-prof, Chrome DevTools",
    ),
    KnownFormat(
        "safari",
        "Safari recording",
        (".json",),
        '{"recording": {"instrumentTypes":',
        "Web Inspector, Timelines: Export",
    ),
    KnownFormat(
        "instruments",
        "call tree of Instruments",
        (".txt",),
        "Weight, Self Weight, Symbol Names",
        "Edit > Deep Copy, and paste",
    ),
    KnownFormat(
        "callgrind",
        "callgrind",
        (".out",),
        "# callgrind format; events:",
        "valgrind --tool=callgrind",
    ),
    KnownFormat(
        "art",
        "Android method trace",
        (".trace",),
        "*version, SLOW",
        "Debug.startMethodTracing, am profile",
    ),
    KnownFormat(
        "simpleperf",
        "simpleperf",
        (".trace",),
        "SIMPLEPERF",
        "simpleperf report-sample --protobuf",
    ),
    KnownFormat(
        "go-trace",
        "execution trace of Go",
        (".trace", ".out"),
        "go 1.NN trace, up to 1.21",
        "go test -trace FILE; /debug/pprof/trace",
    ),
    KnownFormat(
        "recording",
        "a Python program",
        (".mtr", ".mtrz"),
        "a directory; mtrpack",
        "meantime record -- python app.py",
    ),
    KnownFormat(
        "jsonl", "JSON lines", (".jsonl", ".ndjson"), "lines {...}", "structlog; your own logs"
    ),
    KnownFormat(
        "log",
        "text of a log",
        (".log",),
        "lines with a date and a level",
        "Python's logging",
    ),
    KnownFormat(
        "table",
        "a table with any columns",
        (".csv", ".tsv", ".parquet", ".arrow", ".sqlite", ".duckdb"),
        "a header; PAR1, ARROW1",
        "a spreadsheet, a database; sacct -P",
    ),
    KnownFormat("ninja", "`.ninja_log`", (".ninja_log",), "# ninja log", "ninja"),
    KnownFormat("junit", "JUnit XML", (".xml",), "<testsuite", "pytest --junitxml=FILE"),
    KnownFormat(
        "github-actions", "GitHub Actions", (".json",), '"completed_at":', "gh api .../jobs"
    ),
    KnownFormat("dask", "dask", (".json",), '"startstops":', "client.get_task_stream()"),
    KnownFormat("history", "a history", (".mth",), "a directory", "meantime build"),
)
