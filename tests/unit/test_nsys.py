"""Reading databases of Nsight Systems."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from corpus import FORMATS

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (files,) = FORMATS["nsys"].samples()
    path = tmp_path / "small.sqlite"
    path.write_bytes(files["small.sqlite"])
    return path


def totals(history: History) -> dict[str, tuple[int, int]]:
    """Return how many spans each category has, and how long they are."""
    spans = history.spans()
    counts, lengths = Counter[str](), Counter[str]()
    for row, length in enumerate((spans.end_ns - spans.start_ns).tolist()):
        counts[str(spans.category[row])] += 1
        lengths[str(spans.category[row])] += length
    return {category: (counts[category], lengths[category]) for category in counts}


def flows(history: History) -> list[tuple[str, int, str, int]]:
    found = history.flows()
    return [
        (
            "/".join(history.attributes.path(int(found.from_quark[row]))),
            int(found.from_ns[row]),
            "/".join(history.attributes.path(int(found.to_quark[row]))),
            int(found.to_ns[row]),
        )
        for row in range(len(found))
    ]


@pytest.mark.parametrize(
    ("name", "expected", "launches"),
    [
        # computed with sqlite3 alone
        ("healthy_1pct", {"kernel": (400, 400_000_000), "CUDA API": (400, 1_000_000)}, 400),
        (
            "mock",
            {
                "kernel": (2, 4129),
                "memcpy": (1, 1632),
                "CUDA API": (9, 40_737_950),
                "synchronization": (1, 13656),
                "profiler overhead": (31, 30_713_468 + 338_875_790),
            },
            3,
        ),
    ],
)
def test_totals_agree_with_those_of_sqlite(
    samples: Path, name: str, expected: dict[str, tuple[int, int]], launches: int
) -> None:
    history = meantime.open(samples / "nsys" / f"{name}.sqlite.zst")
    assert totals(history) == expected
    assert len(flows(history)) == launches


def test_everything_is_where_it_belongs(small: Path) -> None:
    history = meantime.open(small)
    thread, stream = "Processes/7/Threads/8", "GPUs/0/Streams/7"
    spans = history.spans()
    found = {
        (
            "/".join(history.attributes.path(int(spans.thread[row]))),
            str(spans.name[row]),
            int(spans.start_ns[row]),
            int(spans.end_ns[row]),
            int(spans.depth[row]),
        )
        for row in range(len(spans))
    }
    assert found == {
        (thread, "step", 5, 50, 0),
        (thread, "cudaLaunchKernel", 10, 20, 1),
        (thread, "cudaLaunchKernel", 30, 35, 1),
        (stream, "gemm", 15, 40, 0),
        (stream, "gemm", 50, 60, 0),
        (stream, "memcpy Host-to-Device", 38, 45, 0),
        ("Processes/7/Async/NVTX/mine", "main", 7, 60, 0),
    }
    assert flows(history) == [(thread, 10, stream, 15), (thread, 30, stream, 38)]
    states = history.intervals([history.quark(*stream.split("/"), "Status")], *history.bounds)
    assert [(each.start_ns, each.end_ns, each.value) for each in states if each.value] == [
        (15, 40, "kernel"),
        (40, 45, "memcpy"),
        (45, 50, "idle"),
        (50, 60, "kernel"),
    ]
    sample = history.samples()
    assert sample.weight.tolist() == [5]
    assert sample.stacks.frames_of(int(sample.stack[0])) == ["main", "string 9"]
    assert history.points().name.to_list() == ["mark"]


def test_values_of_any_type_are_checked(small: Path) -> None:
    with sqlite3.connect(small) as connection:
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'soon' WHERE start = 10")
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1e300, shortName = 'x'")
        connection.execute("UPDATE SCHED_EVENTS SET start = 9000000000000000000")
        connection.execute("UPDATE NVTX_EVENTS SET globalTid = NULL")
    connection.close()
    assert dict(meantime.open(small).anomalies) == {
        "flow_without_begin": 2,
        "time_out_of_range": 3,
        "unfinished_span": 1,
    }


def test_a_database_without_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE NVTX_EVENTS (start, end)")
    connection.close()
    with pytest.raises(InputError, match="has no events"):
        meantime.open(path)


def test_a_report_is_named_with_the_command_that_exports_it(tmp_path: Path) -> None:
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(b"\x93\x12 unknown")
    with pytest.raises(InputError, match="nsys export -t sqlite"):
        meantime.open(path)


def test_command_lines_are_copied_only_if_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE NVTX_EVENTS (start, end, globalTid, eventType, text)")
        connection.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 16777217, 59, 'f')")
        connection.execute("CREATE TABLE META_DATA_CAPTURE (name, value)")
        rows = [("PROCESS_0:ARGUMENT_0", "--key=secret"), ("PROCESS_0:PID", "7")]
        connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", rows)
        connection.commit()

    public, private = meantime.open(path), meantime.open(path, include="env")

    assert dict(public.anomalies) == {"private_field": 1}
    assert "secret" not in str(public.facts)
    assert private.facts["PROCESS_0:ARGUMENT_0"] == "--key=secret"
