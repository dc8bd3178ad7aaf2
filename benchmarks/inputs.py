"""What reading the inputs costs that people have: one function a format.

python benchmarks/inputs.py [NAME...]

Without names all are measured. Inputs are made in a temporary directory.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from measure import best_cpu_s, header

import meantime
from meantime.model.column_mapping import mapping_of
from meantime.model.input_path import InputPath
from meantime.readers import open_trace
from meantime.readers.source import open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

ROWS = 2_000_000
_DAY_ROWS = 86_400_000
_SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "samples"


def _date(millisecond: int) -> str:
    day, millisecond = divmod(millisecond, _DAY_ROWS)
    second, thousandth = divmod(millisecond, 1000)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"2024-01-{1 + day:02}T{hour:02}:{minute:02}:{second:02}.{thousandth:03}Z"


def _intervals() -> Iterator[tuple[str, str, str, str]]:
    """Yield intervals of 1,000 nodes, those of a node one after the other."""
    for row in range(ROWS):
        yield _date(row), _date(row + 900), f"node{row % 1000}", f"job{row % 17}"


def _cost(kind: str, path: str | os.PathLike[str], rows: int = ROWS) -> None:
    def read() -> None:
        for _ in open_trace(path).batches:
            pass

    took_s = best_cpu_s(read, times=3)
    megabytes = Path(path).stat().st_size / 1e6
    print(
        f"{kind}: {rows:,} rows, {megabytes:.0f} MB in {took_s:.2f} s:"
        f" {rows / took_s / 1e6:.2f} M rows/s, {megabytes / took_s:.0f} MB/s"
    )


def csv(folder: Path) -> None:
    """Measure CSV with dates, and with whole nanoseconds."""
    path = folder / "dates.csv"
    with path.open("w") as file:
        file.write("Start,End,Node,Job\n")
        file.writelines(",".join(row) + "\n" for row in _intervals())
    _cost("CSV with dates", path)
    path = folder / "ns.csv"
    with path.open("w") as file:
        file.write("start_ns,end_ns,path,value\n")
        file.writelines(f"{n},{n + 900},node{n % 1000},job{n % 17}\n" for n in range(ROWS))
    _cost("CSV with nanoseconds", path)


def overlapping(folder: Path) -> None:
    """Measure CSV of which each entity has ten lanes."""
    path = folder / "lanes.csv"
    with path.open("w") as file:
        file.write("start_ms,end_ms,node,job\n")
        file.writelines(f"{n},{n + 9500},node{n % 1000},job{n % 17}\n" for n in range(ROWS))
    _cost("CSV with ten lanes", path)


def parquet(folder: Path) -> None:
    """Measure Parquet with timestamps."""
    pa = import_module("pyarrow")
    path = folder / "rows.parquet"
    times = pa.array(range(ROWS), pa.int64())
    table = pa.table(
        {
            "start": times.cast(pa.timestamp("ms", "UTC")),
            "end": pa.array(range(900, ROWS + 900), pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "node": pa.array([f"node{n % 1000}" for n in range(ROWS)]),
            "job": pa.array([f"job{n % 17}" for n in range(ROWS)]),
        }
    )
    import_module("pyarrow.parquet").write_table(table, path)
    _cost("Parquet", path)


def sqlite(folder: Path) -> None:
    """Measure an SQLite table with dates as text, and what SQLite itself takes to deliver it."""
    path = folder / "rows.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE runs (start TEXT, end TEXT, node TEXT, job TEXT)")
        database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", _intervals())
        database.commit()
    _cost("SQLite with dates", path)

    def deliver() -> None:
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT * FROM runs")
            while rows.fetchmany(1 << 16):
                pass

    took_s = best_cpu_s(deliver, times=3)
    print(f"SQLite alone: {ROWS / took_s / 1e6:.2f} M rows/s")


def log(folder: Path) -> None:
    """Measure a log of JSON lines in meantime's own form, that of structlog, and its pairs."""
    rows = ROWS // 2
    path = folder / "own.jsonl"
    with path.open("w") as file:
        for row in range(rows):
            event = "job_started" if row % 2 == 0 else "job_finished"
            members = {"time_ns": row * 10**6, "name": event, "job_id": row // 2, "worker": row % 8}
            file.write(json.dumps(members) + "\n")
    _cost("log with time_ns", path, rows)
    path = folder / "structlog.jsonl"
    with path.open("w") as file:
        for row in range(rows):
            event = "job_started" if row % 2 == 0 else "job_finished"
            members = {
                "timestamp": _date(row),
                "event": event,
                "job_id": row // 2,
                "worker": row % 8,
            }
            file.write(json.dumps(members) + "\n")
    _cost("log with dates", path, rows)
    mapping = mapping_of("entity=worker", ["job_started:job_finished"], ["job_id"])
    assert mapping is not None
    _cost("log with dates, as pairs", InputPath(str(path), mapping), rows)


def _number(value: int) -> bytes:
    """Return a number of protobuf."""
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def _field(number: int, *parts: int | bytes) -> bytes:
    """Return a field of a message of protobuf: a number, or the parts of a message."""
    if len(parts) == 1 and isinstance(parts[0], int):
        return _number(number << 3) + _number(parts[0])
    content = b"".join(part for part in parts if isinstance(part, bytes))
    return _number(number << 3 | 2) + _number(len(content)) + content


def pprof(folder: Path) -> None:
    """Measure pprof: samples of 2,000 stacks of 30 functions, with labels."""
    samples, functions, stacks, depth = 400_000, 3000, 2000, 30
    random = Random(7)  # noqa: S311 - the same input every time
    chosen = [
        b"".join(
            _number(1 + (random.randrange(functions) if at < 8 else at)) for at in range(depth)
        )
        for _ in range(stacks)
    ]
    label = [_field(3, _field(1, 1) + _field(2, 2 + each)) for each in range(4)]
    texts = ["", "cpu", "a", "b", "c", "d", *(f"package.function{n}" for n in range(functions))]
    path = folder / "cpu.pb"
    with path.open("wb") as file:
        file.write(_field(1, _field(1, 1) + _field(2, 2)))
        for row in range(samples):
            stack = _field(1, chosen[row * 7 % stacks]) + _field(2, _number(100))
            file.write(_field(2, stack + label[row % 4]))
        for each in range(functions):
            file.write(_field(4, _field(1, each + 1) + _field(4, _field(1, each + 1))))
            file.write(_field(5, _field(1, each + 1) + _field(2, each + 6)))
        for text in texts:
            file.write(_field(6, text.encode()))
    _cost("pprof", path, samples)


def _otlp_json(spans: int) -> Iterator[str]:
    """Yield lines as the collector's file exporter writes them: 8 services, traces of 10 spans."""
    random = Random(7)  # noqa: S311 - the same input every time
    ids: list[list[str]] = []
    for line in range(spans // 500):
        if line % 8 == 0:
            ids = [[f"{random.getrandbits(64):016x}" for _ in range(11)] for _ in range(400)]
        found = []
        for number in range(500):
            trace = ids[(line % 8 * 500 + number) // 10]
            at = number % 10
            start = 1_700_000_000_000_000_000 + line * 10**7 + number * 20_000
            end = start + (10 - at) * 20_000 - 1
            attributes = [
                {"key": "http.request.method", "value": {"stringValue": "GET"}},
                {"key": "url.path", "value": {"stringValue": f"/items/{number % 97}"}},
                {"key": "http.response.status_code", "value": {"intValue": "200"}},
            ]
            span: dict[str, Any] = {
                "traceId": trace[0] + trace[10],
                "spanId": trace[at],
                "parentSpanId": trace[at - 1] if at else "",
                "name": f"GET /items/{number % 40}",
                "kind": 2 if at % 2 else 3,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(end),
                "attributes": attributes,
                "status": {},
                "flags": 256,
            }
            if number % 7 == 0:
                event = {"timeUnixNano": str(start), "name": "retry", "attributes": attributes[2:]}
                span["events"] = [event]
            found.append(span)
        service = [{"key": "service.name", "value": {"stringValue": f"service-{line % 8}"}}]
        scopes = [{"scope": {"name": "instrumentation.http"}, "spans": found}]
        group = {"resource": {"attributes": service}, "scopeSpans": scopes}
        yield json.dumps({"resourceSpans": [group]}, separators=(",", ":")) + "\n"


def _otlp_message(line: str) -> bytes:
    """Return the same in protobuf, as its delimited form is."""

    def fixed(number: int, digits: str) -> bytes:
        return _number(number << 3 | 1) + int(digits).to_bytes(8, "little")

    def attribute(number: int, each: dict[str, Any]) -> bytes:
        value = each["value"]
        text = value.get("stringValue")
        content = _field(3, int(value["intValue"])) if text is None else _field(1, text.encode())
        return _field(number, _field(1, each["key"].encode()), _field(2, content))

    spans = b""
    group = json.loads(line)["resourceSpans"][0]
    for span in group["scopeSpans"][0]["spans"]:
        parts = [
            *(
                _field(number, bytes.fromhex(span[name]))
                for number, name in ((1, "traceId"), (2, "spanId"), (4, "parentSpanId"))
            ),
            _field(5, span["name"].encode()),
            _field(6, span["kind"]),
            fixed(7, span["startTimeUnixNano"]),
            fixed(8, span["endTimeUnixNano"]),
            *(attribute(9, each) for each in span["attributes"]),
        ]
        parts += [
            _field(
                11,
                fixed(1, event["timeUnixNano"]),
                _field(2, event["name"].encode()),
                *(attribute(3, each) for each in event["attributes"]),
            )
            for event in span.get("events", ())
        ]
        spans += _field(2, *parts)
    resource = _field(1, *(attribute(1, each) for each in group["resource"]["attributes"]))
    scope = _field(1, _field(1, b"instrumentation.http"))
    message = _field(1, resource, _field(2, scope, spans))
    return len(message).to_bytes(4, "big") + message


def otlp(folder: Path) -> None:
    """Measure OpenTelemetry as lines of JSON and as delimited protobuf; asked: 300 and 500 MB/s."""
    spans = 200_000
    text, binary = folder / "spans.jsonl", folder / "spans.bin"
    with text.open("w") as lines, binary.open("wb") as messages:
        for line in _otlp_json(spans):
            lines.write(line)
            messages.write(_otlp_message(line))
    _cost("OpenTelemetry JSON", text, spans)
    _cost("OpenTelemetry protobuf", binary, spans)


def firefox(folder: Path) -> None:
    """Measure a processed profile of Firefox with one thread."""
    samples, stacks = 400_000, 20_000
    thread = {
        "name": "GeckoMain",
        "pid": "1",
        "tid": 1,
        "samples": {
            "length": samples,
            "stack": [row * 7 % stacks for row in range(samples)],
            "time": [row + 0.125 for row in range(samples)],
        },
        "stackTable": {
            "length": stacks,
            "prefix": [None if row % 20 == 0 else row - 1 for row in range(stacks)],
            "frame": [row % 500 for row in range(stacks)],
        },
        "frameTable": {
            "length": 500,
            "func": [*range(500)],
            "category": [n % 2 for n in range(500)],
        },
        "funcTable": {"length": 500, "name": [*range(500)]},
        "stringArray": [f"function{n}" for n in range(500)],
    }
    categories = [{"name": "Other"}, {"name": "JavaScript"}]
    meta = {"interval": 1, "startTime": 0, "stackwalk": 1, "categories": categories}
    path = folder / "profile.json"
    path.write_text(json.dumps({"meta": meta, "threads": [thread]}))
    _cost("Firefox profile", path, samples)


def _perfetto_trace(spans: int) -> bytes:
    """Return a trace as the SDK writes it: interned names, times from the packet before."""
    own = _field(10, 7)
    clock = _field(1, _field(1, 64), _field(2, 0), _field(3, 1), _field(4, 1))
    boot = _field(1, _field(1, 6), _field(2, 10**12))
    names = [_field(2, _field(1, n), _field(2, b"function_%d" % n)) for n in range(1, 101)]
    interned = [_field(1, _field(1, 1), _field(2, b"category")), *names]
    interned.append(_field(3, _field(1, 1), _field(2, b"request")))
    thread = _field(4, _field(1, 1), _field(2, 1), _field(5, b"main"))
    counter = _field(1, 2), _field(2, b"counter"), _field(8)
    now = (own, _field(58, 6), _field(8, 10**12))
    # a packet for each, as trace_processor reads only the clocks of one that has more
    head = b"".join(
        [
            _field(
                1,
                own,
                _field(13, 1),
                _field(59, _field(58, 64), _field(11, _field(11, 1))),
                _field(12, *interned),
            ),
            _field(1, *now, _field(6, clock, boot)),
            _field(1, *now, _field(60, _field(1, 1), thread)),
            _field(1, *now, _field(60, *counter)),
        ]
    )
    block = b""
    for number in range(1000):
        argument = _field(4, _field(1, 1), _field(4, number % 250)) if number % 4 == 0 else b""
        begin = (_field(9, 1), _field(3, 1), _field(10, number % 100 + 1))
        value = (_field(31, 2), _field(12, 10**6 + number))
        for event in (_field(11, *begin, argument, *value), _field(11, _field(9, 2))):
            time = _field(8, 300 + number % 50)
            block += _field(1, time, own, _field(13, 2), event)
    return head + block * (spans // 1000)


def perfetto(folder: Path) -> None:
    """Print what track events cost."""
    path = folder / "events.pftrace"
    path.write_bytes(_perfetto_trace(1_000_000))

    _cost("Perfetto track events", path, 2_000_000)


# A third of the lines is half of a call.
_CALLS = """
{0} {1}.{2:06} read(3, "0123456789abcdef0123456789abcdef"..., 8192) = 8192 <0.000012>
{0} {1}.{2:06} openat(AT_FDCWD, "/srv/app/encodings/utf_8.py", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000007>
{0} {1}.{2:06} futex(0x7ff6af88a000, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, FUTEX_BITSET_MATCH_ANY <unfinished ...>
{0} {1}.{2:06} <... futex resumed>) = 0 <0.000003>
{0} {1}.{2:06} newfstatat(3, "", {{st_mode=S_IFREG|0644, st_size=39279, ...}}, AT_EMPTY_PATH) = 0 <0.000002>
{0} {1}.{2:06} close(3)        = 0 <0.000002>
""".strip().splitlines(keepends=True)  # noqa: E501 - lines of a trace
_CALLS[-1] += "\n"


def strace(folder: Path) -> None:
    """Print what text of strace costs; asked are 1 M lines/s."""
    path = folder / "trace.txt"
    with path.open("w") as file:
        for first in range(0, ROWS // 2, 6000):
            lines = []
            for line in range(first, first + 6000):
                at_us = line * 5
                lines.append(
                    _CALLS[line % 6].format(
                        1000 + line // 6 % 8, 1_700_000_000 + at_us // 10**6, at_us % 10**6
                    )
                )
            file.writelines(lines)
    took_s = best_cpu_s(lambda: meantime.open(path), times=3)
    records = meantime.open(path).metadata.records
    print(
        f"strace, {records:,} lines, {path.stat().st_size / 1e6:.0f} MB: {took_s:.2f} s,"
        f" {records / took_s / 1e6:.2f} M lines/s (asked: 1)"
    )


def nsys(folder: Path) -> None:
    """Print what an export of Nsight Systems costs, beside SQLite that delivers the same rows."""
    path = folder / "report.sqlite"
    device = "deviceId, contextId, streamId, correlationId, globalPid"
    tables = {
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"start, end, {device}, shortName",
        "NVTX_EVENTS": "start, end, eventType, globalTid, textId",
    }
    pid, tid = 7 << 24, 7 << 24 | 8
    with sqlite3.connect(path) as connection:
        for table, columns in tables.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
        names = [(number, f"name {number}") for number in range(100)]
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        rows = range(ROWS // 4)
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
            ((n * 1000, n * 1000 + 300, tid, n + 1, n % 7) for n in rows),
        )
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, ?, ?)",
            ((n * 1000 + 400, n * 1000 + 1200, n + 1, pid, n % 90) for n in rows),
        )
        connection.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)",
            ((n * 1000 - 50, n * 1000 + 350, tid, n % 100) for n in rows),
        )
    connection.close()

    def deliver() -> None:
        with sqlite3.connect(path) as connection:
            for table in tables:
                cursor = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - own names
                while cursor.fetchmany(1 << 15):
                    pass
        connection.close()

    alone_s = best_cpu_s(deliver, times=3)
    took_s = best_cpu_s(lambda: meantime.open(path), times=3)
    records = meantime.open(path).metadata.records
    print(
        f"nsys, {records:,} rows: {took_s:.2f} s, {records / took_s / 1e6:.2f} M rows/s;"
        f" SQLite delivers them in {alone_s:.2f} s, {records / alone_s / 1e6:.2f} M rows/s"
    )


def _sample(kind: str, name: str, times: int, folder: Path) -> None:
    """Print what one of the samples costs, repeated where the format allows that."""
    with open_source(_SAMPLES / name) as source:
        data = bytes(source.whole())
    path = folder / "sample"
    path.write_bytes(data * times)

    def read() -> int:
        trace = open_trace(path)
        for _ in trace.batches:
            pass
        return trace.records

    records, took_s = read(), best_cpu_s(read, times=3)
    print(
        f"{kind}: {records:,} records, {len(data) * times / 1e6:.1f} MB in {took_s:.2f} s:"
        f" {records / took_s / 1e6:.3f} M records/s, {len(data) * times / took_s / 1e6:.1f} MB/s"
    )


def jfr(folder: Path) -> None:
    """Print what a flight recording of 20 chunks costs, whose constants are most of its bytes."""
    _sample("JFR", "jfr/kafka-cpu.jfr.gz", 20, folder)


def go(folder: Path) -> None:
    """Print what an execution trace of Go costs."""
    _sample("execution trace of Go", "profiles/server.go119.trace", 1, folder)


FORMATS = {
    each.__name__: each
    for each in (
        csv, overlapping, parquet, sqlite, log, otlp, pprof, firefox, perfetto, strace, nsys,
        jfr, go,
    )
}  # fmt: skip


def main() -> None:
    """Measure the formats that are named."""
    print(header("inputs"))
    for name in sys.argv[1:] or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            FORMATS[name](Path(folder))


if __name__ == "__main__":
    main()
