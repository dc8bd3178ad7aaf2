"""The project's own readers and histories keep to the contracts that others are tested by."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from corpus import FORMATS
from perf_files import PerfFile
from trace_files import PRINT, TraceFile

from meantime.history import HistoryBuilder
from meantime.history.ingest import build
from meantime.model.trace import rows_of
from meantime.readers import (
    art,
    callgrind,
    chrome,
    cpuprofile,
    dask_tasks,
    firefox,
    github_jobs,
    go_trace,
    heapprofile,
    instruments,
    jaeger,
    jfr,
    jsonl,
    junit,
    ninja,
    nsys,
    open_trace,
    otlp,
    packed,
    perf_data,
    perfetto,
    pprof,
    readers,
    safari,
    simpleperf,
    spall,
    speedscope,
    stackprof,
    statemap,
    strace,
    table,
    trace_dat,
    zipkin,
)
from meantime.readers.contract import ReadOptions
from meantime.readers.evidence import Head
from meantime.readers.formats import FORMATS as DECLARED
from meantime.readers.source import HEAD_BYTES, Source
from meantime.testing.contracts import (
    OTHER_FORMATS,
    HistoryContract,
    ReaderContract,
    Sample,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from meantime.history.history import History
    from meantime.model.columns import Value
    from meantime.readers.contract import Reader
    from meantime.readers.evidence import Sign
    from meantime.readers.formats import Format


def sample(
    format_: str, name: str, rows: Mapping[str, int], anomalies: Mapping[str, int] | None = None
) -> Sample:
    """Return one of the inputs that are fuzzed too."""
    (data,) = [files[name] for files in FORMATS[format_].samples() if name in files]
    return Sample(name, data, rows, anomalies or {})


class TestSpeedscope(ReaderContract):
    reader = speedscope
    unbounded = "the file is one JSON value, and each of its profiles one batch"
    samples = (
        sample("speedscope", "both.json", {"Spans": 2, "Samples": 3}),
        sample("speedscope", "evented.json", {"Spans": 2}),
    )
    damaged = b'{"shared": {"frames": []}, "profiles": [{"type": "other"}]}'


class TestCpuProfile(ReaderContract):
    reader = cpuprofile
    unbounded = "the file is one JSON value"
    samples = (
        sample("cpuprofile", "children.cpuprofile", {"Samples": 4}),
        sample("cpuprofile", "parents.cpuprofile", {"Samples": 4}),
    )


class TestOtlp(ReaderContract):
    reader = otlp
    unbounded = "a parent may come after its children, on any line"
    samples = (
        sample(
            "otlp",
            "lines.jsonl",
            {"Spans": 2, "Points": 3, "Flows": 1, "Counters": 2, "StateChanges": 2},
            {"fields_dropped": 2, "private_field": 2, "record_skipped": 1},
        ),
        sample(
            "otlp",
            "messages.bin",
            {"Spans": 2, "Points": 4, "Flows": 2, "Counters": 2, "StateChanges": 2},
            {"repeated_span_id": 1},
        ),
    )
    damaged = b'{"resourceSpans": []}\n{"resourceSpans": [7]}\n'


class TestPerfetto(ReaderContract):
    reader = perfetto
    samples = (
        sample("perfetto", "packed.pftrace", {"Spans": 2}),
        sample(
            "perfetto",
            "tables-tests-test_flow_direction_corrected_by_timestamp.pftrace",
            {"Spans": 2, "Flows": 1},
        ),
        sample(
            "perfetto",
            "parser-profiling-tests-test_perf_sample_timebase_count.pftrace",
            {"Samples": 2},
        ),
        sample(
            "perfetto",
            "stdlib-slices-tests_stack-test_slice_stack_id_computed.pftrace",
            {"Spans": 2},
        ),
    )
    damaged = b"\x0a\x02\x50\x07\x0a\x03\x5a\x05\x48"

    def large(self, rows: int) -> bytes:
        return b"\x0a\x08\x40\x01\x50\x01\x5a\x02\x48\x03" * rows


class TestJaeger(ReaderContract):
    reader = jaeger
    unbounded = TestOtlp.unbounded
    samples = (
        sample(
            "jaeger",
            "overlapping-children.jaeger.json",
            {"Spans": 4, "Flows": 3, "Counters": 8, "StateChanges": 8},
        ),
    )
    damaged = b'[{"traceID": "1", "spanID": "2", "duration": "x"}]'


class TestZipkin(ReaderContract):
    reader = zipkin
    unbounded = TestOtlp.unbounded
    samples = (
        sample(
            "zipkin",
            "skew.zipkin.json",
            {"Spans": 4, "Counters": 4, "StateChanges": 4},
            {"child_before_parent": 1},
        ),
    )
    damaged = b'[{"traceId": "1", "id": "2", "duration": "x"}]'


class TestJfr(ReaderContract):
    reader = jfr
    unbounded = "a part has a fixed number of rows, and a recording of a million is long to write"
    samples = (
        sample(
            "jfr",
            "one.jfr",
            {"Spans": 2, "Points": 1, "Flows": 1, "StateChanges": 2, "Samples": 1, "Counters": 1},
            {"private_field": 1},
        ),
    )


class TestNsys(ReaderContract):
    reader = nsys
    unbounded = "a part has a fixed number of rows, and a database of a million takes long to write"
    samples = (
        sample(
            "nsys",
            "small.sqlite",
            {"Spans": 7, "Points": 1, "Flows": 2, "StateChanges": 7, "Samples": 1},
            {"flow_without_begin": 1, "unfinished_span": 1},
        ),
    )


class TestPprof(ReaderContract):
    reader = pprof
    samples = (sample("pprof", "small.pb", {"Samples": 5}, {"negative_weight": 1}),)
    unbounded = "a profile is one message, whose strings may be at its end"


class TestFirefox(ReaderContract):
    reader = firefox
    unbounded = "the file is one JSON value"
    samples = (
        sample(
            "firefox",
            "columns.json",
            {"Samples": 8, "StateChanges": 7, "Spans": 5, "Points": 2, "Counters": 2, "Flows": 1},
            {"private_field": 1, "record_skipped": 1},
        ),
        sample("firefox", "rows.json", {"Samples": 4, "StateChanges": 6, "Spans": 4, "Points": 2}),
    )
    damaged = b'{"meta": {"stackwalk": 1}, "threads": [7]}'


class TestSpall(ReaderContract):
    reader = spall
    unbounded = "begins are open until their ends, which may be anywhere"
    samples = (
        sample("spall", "v0.spall", {"Spans": 3}),
        sample("spall", "v1.spall", {"Spans": 2}),
        sample("spall", "v3.spall", {"Spans": 3}),
    )


class TestStrace(ReaderContract):
    reader = strace
    samples = (
        sample(
            "strace",
            "calls.txt",
            {"Spans": 6, "StateChanges": 13, "Points": 4, "Flows": 3},
            {"private_field": 2},
        ),
    )

    def large(self, rows: int) -> bytes:
        return b"".join(b"7 %d.5 close(3) = 0 <0.1>\n" % n for n in range(rows))


class TestStackprof(ReaderContract):
    reader = stackprof
    unbounded = "the file is one JSON value"
    samples = (sample("stackprof", "cpu.json", {"Samples": 5}),)


class TestSafari(ReaderContract):
    reader = safari
    unbounded = "the file is one JSON value"
    samples = (sample("safari", "one.json", {"Samples": 1, "Spans": 1}, {"record_skipped": 1}),)
    damaged = (
        b'{"recording": {"instrumentTypes": [], "sampleStackTraces": [{"timestamp": 1,'
        b' "stackFrames": [{"name": "f"}]}], "sampleDurations": [0.1], "records": [{}]}}'
    )


class TestHeapprofile(ReaderContract):
    reader = heapprofile
    unbounded = "the file is one JSON value"
    samples = (sample("heapprofile", "two.heapprofile", {"Samples": 2}),)


class TestInstruments(ReaderContract):
    reader = instruments
    unbounded = "the whole file is parsed before its stacks are numbered"
    samples = (sample("instruments", "cycles.txt", {"Samples": 2}),)
    damaged = b"Weight\tSelf Weight\tSymbol Names\n1 s\t1 s\tf\n1 s\tx\tg\n2 s\t2 s\th\n"


class TestCallgrind(ReaderContract):
    reader = callgrind
    unbounded = "the cost of a function may be anywhere in the file"
    samples = (sample("callgrind", "callgrind.out", {"Samples": 3}),)
    damaged = b"# callgrind format\nevents: Ir\nfn=f\n1 20\n+1 x\n2 5\n"


class TestArt(ReaderContract):
    reader = art
    unbounded = "begins are open until their ends, which may be anywhere"
    samples = (
        sample("art", "dual.trace", {"Spans": 3}, {"end_of_another_name": 1}),
        sample("art", "first.trace", {"Spans": 3}, {"end_of_another_name": 1}),
    )


class TestGoTrace(ReaderContract):
    reader = go_trace
    unbounded = "the frequency of the clock is at the end"
    samples = (
        sample(
            "go-trace",
            "small.trace",
            {"StateChanges": 7, "Spans": 2, "Points": 2, "Flows": 1, "Counters": 2, "Samples": 1},
        ),
    )


class TestSimpleperf(ReaderContract):
    reader = simpleperf
    unbounded = "files and threads are described behind the samples"
    samples = (
        sample("simpleperf", "two.trace", {"Samples": 2, "StateChanges": 2}, {"lost_events": 3}),
    )


def _damaged_perf_data() -> bytes:
    file = PerfFile()
    file.event(1, 0)
    file.sample(0, 1_000, 7, 7)
    file.record(3, b"short")
    file.sample(0, 2_000, 7, 7)
    return file.built()


class TestPerfData(ReaderContract):
    reader = perf_data
    samples = tuple(
        sample(
            "perf-data",
            f"{name}.data",
            {"Samples": 4, "StateChanges": 10},
            {"lost_events": 3, "lost_switch": 1, "private_field": 1, "unknown_time": 1},
        )
        for name in ("little", "big", "little-pipe", "big-pipe", "little-packed", "big-packed")
    )

    damaged = _damaged_perf_data()

    def large(self, rows: int) -> bytes:
        file = PerfFile(sample_type=2 | 4)
        file.event(1, 0)
        file.sample(0, 1_000, 7, 7)
        file.records *= rows
        return file.built()


class TestTraceDat(ReaderContract):
    reader = trace_dat
    samples = tuple(
        sample(
            "trace-dat",
            f"{order}-{form}.dat",
            {"Samples": 8, "StateChanges": 12, "Spans": 2},
            {"lost_events": 1, "overwritten_events": 2, "unknown_time": 1},
        )
        for order in ("little", "big")
        for form in ("6", "instance", "none", "zstd", "zlib")
    )

    def large(self, rows: int) -> bytes:
        file = TraceFile()
        for _ in range(16):
            file.event(0, 1_000, PRINT, bytes(4))
        file.end_page(0)
        file.cpus[0] *= rows // len(file.cpus[0]) // 8
        return file.version_6()


class TestStatemap(ReaderContract):
    reader = statemap
    samples = (
        sample(
            "statemap",
            "short.statemap",
            {"StateChanges": 9, "Points": 1},
            {"event_after_end": 1, "state_after_end": 1},
        ),
    )
    damaged = (
        b'{"start": [0, 0], "states": {"on": {"value": 0}}}\n'
        b'{"time": "1", "entity": "a", "state": 0}\n{"time": "2", "entity": "a", "state": 7}\n'
    )

    def large(self, rows: int) -> bytes:
        changes = (b'{"time":"%d","entity":"a","state":%d}\n' % (i, i % 2) for i in range(rows))
        return b'{"start":[0,0],"states":{"a":{"value":0},"b":{"value":1}}}\n' + b"".join(changes)


_JOBS = {"interval_without_end": 1, "interval_without_start": 1}
_SACCT = {"step_of_job": 1, "interval_without_end": 5, "zero_length_state": 5}
_SACCT |= {"interval_without_start": 1}


class TestTable(ReaderContract):
    reader = table
    unbounded = "rows are in any order, and those of a path may not overlap"
    samples = (
        sample("csv", "table0.csv", {"StateChanges": 7}),
        sample("csv", "table1.csv", {"Samples": 4}),
        sample("parquet", "table0.parquet", {"StateChanges": 5}),
        sample("csv", "jobs.csv", {"StateChanges": 6}, _JOBS),
        sample("csv", "steps.tsv", {"StateChanges": 4}),
        sample("csv", "sacct.psv", {"StateChanges": 0}, _SACCT),
        sample("csv", "changes.csv", {"StateChanges": 3}),
        sample("sqlite", "runs.db", {"StateChanges": 18}),
    )
    damaged = b"start_ns,end_ns,path,value\n0,5,a,x\nfive,9,a,y\n"


class TestJsonLines(ReaderContract):
    reader = jsonl
    samples = (
        sample("jsonl", "few.jsonl", {"Events": 12}),
        # of several threads, one of which wrote its line 1.5 ms late
        sample("builds", "structlog.jsonl", {"Events": 200}, {"line_went_back": 1}),
    )
    damaged = b'{"time_ns": 1, "name": "start"}\n{"time_ns": 2}\n'

    def large(self, rows: int) -> bytes:
        return b'{"time_ns": 1, "name": "a"}\n' * rows


class TestNinja(ReaderContract):
    reader = ninja
    unbounded = "commands are in order of their ends, and lanes need that of their starts"
    samples = (sample("builds", "zlib.ninja_log", {"Spans": 50}),)
    damaged = b"# ninja log v5\n1\t5\t0\ta.o\t1f\n9\t5\t0\tb.o\t1f\n"


class TestJunit(ReaderContract):
    reader = junit
    unbounded = "a case takes more memory in its file than in its columns"
    samples = (sample("builds", "pytest-serial.xml", {"Spans": 24, "Points": 3}),)
    damaged = b'<testsuite name="a"><testcase name="b" time="1"/></testsuit>'


class TestGithubJobs(ReaderContract):
    reader = github_jobs
    unbounded = "the file is JSON values, each read as a whole"
    samples = (
        sample(
            "builds",
            "in_progress.with-queued-steps.json",
            {"Spans": 5},
            {"span_without_end": 2, "span_without_start": 6},
        ),
        sample(
            "builds",
            "completed.failure.with-organization.json",
            {"Spans": 14, "Points": 1},
        ),
    )
    damaged = b'{"jobs": [{"name": 5, "steps": [], "started_at": null, "completed_at": null}]}'


class TestDaskTasks(ReaderContract):
    reader = dask_tasks
    unbounded = "the file is one JSON value"
    samples = (sample("builds", "task-stream.json", {"Spans": 123, "Points": 1}),)
    damaged = b'[{"worker": "w", "thread": 1, "key": "a-1", "startstops": [{}]}]'


class TestChrome(ReaderContract):
    reader = chrome
    samples = (
        sample(
            "chrome",
            "phases.json",
            {"Spans": 3, "Counters": 2, "Flows": 1, "Points": 4, "StateChanges": 3},
        ),
        sample("chrome", "profile.json", {"Samples": 3}),
    )
    damaged = b'[{"ph": "X", "name": "a", "ts": 1, "dur": 2}, {"ph": }]'

    def large(self, rows: int) -> bytes:
        return b"[" + b'{"ph":"X","ts":1,"dur":1},' * rows + b"]"


class TestPacked(ReaderContract):
    reader = packed
    unbounded = "streams are merged by time, as far as the slowest one was read"
    samples = (
        sample(
            "mtrz",
            "0.mtrz",
            {"StateChanges": 26, "Flows": 2, "Samples": 6},
            {
                "file_damaged": 3,
                "records_lost": 3,
                "records_rotated": 4,
                "samples_skipped": 1,
                "samples_torn": 1,
            },
        ),
    )


class TestHistoryOfATrace(HistoryContract):
    def build(self, path: Path | None) -> History:
        (data,) = FORMATS["statemap"].samples()[0].values()
        source = Source("a.statemap", io.BytesIO(data))
        return build(statemap.read(source, ReadOptions()), path)


class TestHistoryOfNumbersAndStrings(HistoryContract):
    def build(self, path: Path | None) -> History:
        changes: list[tuple[int, str, Value]] = [
            (0, "a", "x"),
            (1, "c", 0.5),
            (2, "b", 1),
            (4, "c", float("nan")),
            (5, "a", None),
            (5, "b", -(2**63)),
            (6, "b", 2**63 - 1),
            (8, "c", -1.0),
            (9, "a", "y"),
        ]
        builder = HistoryBuilder(path)
        for time_ns, name, value in changes:
            builder.modify(time_ns, builder.quark(name), value)
        return builder.close(20)


OF_FILES = [each for each in DECLARED if not each.is_directory]


def _declared(format_: Format, reader: Reader) -> type[ReaderContract]:
    """Return the contract of a format whose declaration has all that it is tested with."""
    assert format_.example, f"{format_.format} has no example, and no contract in this module"
    facts: dict[str, Any] = {
        "reader": reader,
        "samples": (Sample(f"example{format_.names[0]}", format_.example, format_.rows),),
        "damaged": format_.damaged or None,
        "unbounded": format_.unbounded or None,
    }
    if (large := format_.large) is not None:
        facts["large"] = lambda _, rows: large(rows)
    return type(f"Test{format_.format.title()}", (ReaderContract,), facts)


WRITTEN = {
    each.reader.FORMAT
    for each in list(globals().values())
    if isinstance(each, type) and issubclass(each, ReaderContract) and each is not ReaderContract
}
for declared, reader in zip(OF_FILES, readers(), strict=True):
    if declared.format not in WRITTEN:
        contract = _declared(declared, reader)
        globals()[contract.__name__] = contract


def test_a_reader_has_the_name_that_is_declared() -> None:
    assert [each.FORMAT for each in readers()] == [each.format for each in OF_FILES]


@pytest.mark.parametrize("declared", OF_FILES, ids=lambda each: each.format)
def test_the_example_of_a_declaration_is_one(declared: Format, tmp_path: Path) -> None:
    """It is recognised as its format, and has the declared rows."""
    if not declared.example:
        return
    path = tmp_path / "trace"
    path.write_bytes(declared.example)
    trace = open_trace(path)
    rows = Counter[str]()
    for batch in trace.batches:
        rows[type(batch).__name__] += rows_of(batch)
    assert (trace.format, dict(rows)) == (declared.format, dict(declared.rows))


def test_what_a_reader_recognises_meets_the_condition_of_a_sign() -> None:
    """A reader is asked only where a sign says that it may recognise an input."""
    heads = {(name, data) for name, data in OTHER_FORMATS.items()}
    for each in FORMATS.values():
        for files in each.samples():
            heads |= {(name, data[:HEAD_BYTES]) for name, data in files.items()}
    heads |= {(".".join(["x", *name.split(".")[2:]]), data) for name, data in heads}
    asked: dict[str, tuple[tuple[Sign, ...], Any]] = {
        each.format: (each.signs, reader)
        for each, reader in zip(OF_FILES, readers(), strict=True)
        if any(sign.asks for sign in each.signs)
    }
    found = Counter[str]()
    for name, data in heads:
        cut = (data[:size] for size in (0, 1, 4, 30, 100, len(data) // 2))
        led = (start + data for start in (b"\xef\xbb\xbf", b"\n", b" \r\n\t", b"# x\n", b"[", b"{"))
        for content in (data, data.rstrip(), data.replace(b"\n", b"\r\n"), *cut, *led):
            head = Head(content, name)
            for format_, (signs, reader) in asked.items():
                if reader.recognises(content, name):
                    assert any(sign.is_seen(head) for sign in signs), (format_, name, content[:100])
                    found[format_] += 1
    assert found.keys() == asked.keys()
