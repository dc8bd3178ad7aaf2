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
from typing import TYPE_CHECKING

from measure import best_cpu_s, header

from meantime.column_mapping import MappedPath, mapping_of
from meantime.readers import open_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

ROWS = 2_000_000
_DAY_ROWS = 86_400_000


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
    _cost("log with dates, as pairs", MappedPath(str(path), mapping), rows)


def _number(value: int) -> bytes:
    """Return a number of protobuf, of up to 14 bits."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def _field(number: int, content: int | bytes) -> bytes:
    """Return a field of a message of protobuf."""
    if isinstance(content, int):
        return _number(number << 3) + _number(content)
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


FORMATS = {each.__name__: each for each in (csv, overlapping, parquet, sqlite, log, pprof, firefox)}


def main() -> None:
    """Measure the formats that are named."""
    print(header("inputs"))
    for name in sys.argv[1:] or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            FORMATS[name](Path(folder))


if __name__ == "__main__":
    main()
