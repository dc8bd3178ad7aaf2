"""trace.dat: what is read of the files themselves, against what trace-cmd prints of them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from trace_files import PRINT, TraceFile

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.model.events import Events
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History


def read(folder: Path, data: bytes) -> History:
    path = folder / "trace.dat"
    path.write_bytes(data)
    return build(open_trace(path))


def rows(history: History) -> list[tuple[Any, ...]]:
    found = history.samples()
    return [
        (
            int(found.time_ns[row]),
            history.attributes.path(int(found.thread[row])),
            found.name[row],
            found.event[row],
            int(found.cpu[row]),
        )
        for row in range(len(found))
    ]


def changes(history: History) -> list[tuple[Any, ...]]:
    return [
        (history.attributes.path(each.quark), each.start_ns, each.end_ns, each.value)
        for each in history.intervals(history.quarks("*"))
    ]


@pytest.mark.parametrize("version", [6, 7])
def test_a_file_is_read_as_the_text_that_trace_cmd_prints_of_it(
    samples: Path, tmp_path: Path, version: int
) -> None:
    text = tmp_path / "report.txt"
    text.write_bytes(gzip.decompress((samples / "ftrace" / "trace-dat.report.txt.gz").read_bytes()))

    data = build(open_trace(samples / "ftrace" / f"version-{version}.trace.dat.gz"))

    printed = build(open_trace(text))
    assert rows(data) == rows(printed)
    assert changes(data) == changes(printed)
    assert dict(data.metadata.anomalies) == dict(printed.metadata.anomalies)
    assert data.metadata.clock.kind == "monotonic"
    assert data.metadata.facts["system"].startswith("Linux vm 6.18")


def test_events_have_the_fields_of_their_formats(samples: Path) -> None:
    fields: dict[str, dict[str, Any]] = {}
    for batch in open_trace(samples / "ftrace" / "version-6.trace.dat.gz", events=True).batches:
        if isinstance(batch, Events):
            for each in batch:
                fields.setdefault(each.name, dict(each.fields))

    assert fields["sched_process_fork"] == {
        "parent_comm": "bash",
        "parent_pid": 25836,
        "child_comm": "bash",
        "child_pid": 25840,
    }
    assert fields["sched_switch"]["prev_state"] == "R"
    assert fields["softirq_entry"] == {"vec": "9 [action=RCU]"}


def test_times_are_those_of_all_forms_of_the_ring(tmp_path: Path) -> None:
    file = TraceFile()
    for time in (5, 5 + (1 << 26), 1 << 40, (1 << 40) + 7):
        file.event(0, time, PRINT, bytes(8) + b"x\0")
    # an absolute time, and padding
    file.raw(0, file.pack("II", 5 << 5 | 31, 1 << 14) + file.pack("III", 3 << 5 | 29, 8, 0))
    file.raw(0, file.pack("I", 2 << 5 | 4) + file.pack("HBBi", PRINT, 0, 0, 7) + b"\0" * 8)

    found = [each[0] for each in rows(read(tmp_path, file.version_6()))]

    assert found == [5, 5 + (1 << 26), 1 << 40, (1 << 40) + 7, (1 << 41) + 5 + 3 + 2]


def test_events_of_all_cpus_are_in_order(tmp_path: Path) -> None:
    file = TraceFile()
    for time in range(0, 3_000, 3):
        file.event(0, time + 1, PRINT, bytes(8) + b"x\0")
        file.event(1, time + 2, PRINT, bytes(8) + b"x\0", 8)
        file.event(1, time + 3, PRINT, bytes(8) + b"x\0", 8)

    history = read(tmp_path, file.version_7("zlib"))

    assert [each[0] for each in rows(history)] == [*range(1, 3_001)]
    assert {each[1:3] for each in rows(history)} == {
        (("Threads", "7"), "app"),
        (("Threads", "8"), "other"),
    }


def test_what_a_buffer_lost_is_unknown(tmp_path: Path) -> None:
    file = TraceFile()
    file.switch(0, 1_000, (0, "swapper/0"), (7, "app"))
    file.end_page(0)
    file.switch(0, 9_000, (0, "swapper/0"), (7, "app"))
    file.end_page(0, 1 << 31)
    file.event(0, 9_500, PRINT, bytes(8) + b"x\0")

    history = read(tmp_path, file.version_6())

    assert history.metadata.anomalies["lost_events"] == 1
    assert (1_000, 9_000) in history.metadata.lost


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([(4, b"local [x86-tsc]\0")], "trace-cmd record -C mono"),
        ([(1, b"no number\0")], "the descriptions of events are damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, options: list[tuple[int, bytes]], reason: str
) -> None:
    file = TraceFile()
    file.options = options
    file.event(0, 1, PRINT, bytes(8) + b"x\0")

    with pytest.raises(InputError, match=reason):
        read(tmp_path, file.version_6())


def test_dates_and_offsets_are_those_of_the_file(tmp_path: Path) -> None:
    file = TraceFile()
    file.options = [(1, b"0x10\0"), (7, b"100\0")]
    file.event(0, 1, PRINT, bytes(8) + b"x\0")

    history = read(tmp_path, file.version_6())

    assert rows(history)[0][0] == 101
    assert history.metadata.clock.utc_at_origin_ns == 16_000


def test_a_chunk_that_expands_to_another_size_is_an_error(tmp_path: Path) -> None:
    file = TraceFile()
    file.event(0, 1, PRINT, bytes(8) + b"x\0")
    data = file.version_7("zlib")
    place = data.rindex(file.pack("I", 256) + b"\x78")

    with pytest.raises(InputError, match="are said to expand to 134,217,728"):
        read(tmp_path, data[:place] + file.pack("I", 1 << 27) + data[place + 4 :])
