"""perf.data: what is read of the files themselves, against the text that perf prints of them."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from perf_files import PerfFile

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.model.events import Events
from meantime.readers import open_trace, perf_data
from meantime.readers.perf_data import symbols
from meantime.readers.tracing_data import tracepoint_of

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.history import History

_ADDRESS = 0x1010


def read(folder: Path, data: bytes) -> History:
    path = folder / "perf.data"
    path.write_bytes(data)
    return build(open_trace(path))


def rows(history: History) -> list[tuple[Any, ...]]:
    samples, metadata = history.samples(), history.metadata
    assert metadata.format
    stacks = samples.stacks
    return [
        (
            int(samples.time_ns[row]),
            history.attributes.path(int(samples.thread[row])),
            samples.name[row],
            samples.event[row],
            int(samples.weight[row]),
            int(samples.cpu[row]),
            tuple(stacks.frames_of(int(samples.stack[row]))),
        )
        for row in range(len(samples))
    ]


def changes(history: History) -> list[tuple[Any, ...]]:
    return [
        (history.attributes.path(each.quark), each.start_ns, each.end_ns, each.value)
        for each in history.intervals(history.quarks("*"))
    ]


def test_a_file_is_read_as_the_text_that_perf_prints_of_it(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # on the machine that was recorded, functions have names
    monkeypatch.setattr(perf_data, "functions_of_kernel", lambda *_: None)
    monkeypatch.setattr(perf_data, "functions_of_elf", lambda *_: None)
    text = tmp_path / "perf.txt"
    text.write_bytes(
        gzip.decompress((samples / "perf" / "threads.perf-script.txt.gz").read_bytes())
    )

    data = build(open_trace(samples / "perf" / "threads.perf.data.gz"))

    printed = build(open_trace(text))
    assert rows(data) == rows(printed)
    assert changes(data) == changes(printed)
    assert data.metadata.clock.utc_at_origin_ns is not None
    assert dict(data.metadata.anomalies) == {**printed.metadata.anomalies, "private_field": 1}


def test_events_of_a_file_have_the_fields_that_perf_prints(samples: Path, tmp_path: Path) -> None:
    text = tmp_path / "perf.txt"
    text.write_bytes(
        gzip.decompress((samples / "perf" / "threads.perf-script.txt.gz").read_bytes())
    )

    data, printed = (
        [
            (each.time_ns, each.name, each.cpu, each.pid, each.tid, dict(each.fields))
            for batch in open_trace(path, events=True).batches
            if isinstance(batch, Events)
            for each in batch
        ]
        for path in (samples / "perf" / "threads.perf.data.gz", text)
    )

    assert len(data) == 289
    assert data == printed


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_file_recorded_here_is_read_as_perf_prints_it(tmp_path: Path) -> None:
    words = [
        "perf",
        "record",
        "-e",
        "cpu-clock",
        "-c",
        "20000",
        "-g",
        "-o",
        "here.data",
        "--",
        "true",
    ]
    if subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("perf may not record here")
    fields = "comm,pid,tid,time,period,event,ip,dso"
    words = ["perf", "script", "-i", "here.data", "--ns", "-F", fields]
    text = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True).stdout
    (tmp_path / "perf.txt").write_bytes(text)

    data = rows(build(open_trace(tmp_path / "here.data")))

    printed = rows(build(open_trace(tmp_path / "perf.txt")))
    assert [each[:5] for each in data] == [each[:5] for each in printed]
    assert [len(each[6]) for each in data] == [len(each[6]) for each in printed]


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_are_put_in_order_across_rounds(tmp_path: Path, order: str) -> None:
    file = PerfFile(order)
    file.event(1, 0, name="cpu-clock")
    for base in (0, 100, 200):
        for time in (30, 20, 10):
            file.sample(0, base + time, 7, 7)
        file.round()
    file.name(7, 7, "later", time=215)

    found = rows(read(tmp_path, file.built()))

    assert [each[0] for each in found] == [10, 20, 30, 110, 120, 130, 210, 220, 230]
    assert [each[2] for each in found] == [":7"] * 7 + ["later"] * 2


def test_a_process_has_the_code_that_was_mapped_then(tmp_path: Path) -> None:
    file = PerfFile()
    file.event(1, 0)
    file.map(7, 0x1000, 0x3000, "/bin/app", time=1)
    file.fork(8, 7, time=2)
    file.map(7, 0x2000, 0x1000, "/lib/b.so", time=4)
    for time in (3, 5):
        for pid in (7, 8):
            for ip in (0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x4000):
                file.sample(0, time, pid, pid, ip=ip)

    found = rows(read(tmp_path, file.built()))

    app, other, nothing = ("[app]",), ("[b.so]",), ("[unknown]",)
    stacks = [each[6] for each in found]
    assert stacks[:10] == [app, app, app, app, nothing] * 2
    assert stacks[10:] == [app, other, other, app, nothing, app, app, app, app, nothing]


def test_a_thread_with_the_id_of_one_that_exited_is_another_one(tmp_path: Path) -> None:
    file = PerfFile()
    file.event(1, 0)
    file.fork(8, 7, time=1)
    file.sample(0, 2, 8, 8)
    file.record(4, file.pack("IIIIQ", 8, 7, 8, 7, 3) + file.identified(8, 8, 3))
    file.sample(0, 4, 8, 8)
    file.fork(8, 7, time=5)
    file.sample(0, 6, 8, 8)

    found = [each[1][-1] for each in rows(read(tmp_path, file.built()))]

    assert found == ["8", "8", "8#2"]


def test_fields_of_any_tracepoint_are_read_by_its_format(tmp_path: Path) -> None:
    from corpus import FORMATS  # noqa: PLC0415 - reads many samples

    for files in FORMATS["perf-data"].samples():
        for name, data in files.items():
            path = tmp_path / name
            path.write_bytes(data)

            batches = open_trace(path, events=True).batches

            events = [each for batch in batches if isinstance(batch, Events) for each in batch]
            assert [(each.name, dict(each.fields)) for each in events] == [
                (
                    "sched:sched_switch",
                    {
                        "prev_comm": "app",
                        "prev_pid": 7,
                        "prev_prio": 120,
                        "prev_state": "S",
                        "next_comm": "swapper/0",
                        "next_pid": 0,
                        "next_prio": 120,
                    },
                ),
                (
                    "odd:odd",
                    {
                        "small": 1,
                        "less": -1,
                        "at": "0xffffffffffffffff",
                        "name": "any",
                        "list": "{0x0,0x0}",
                        "other": "no",
                    },
                ),
            ], name


def test_a_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = PerfFile()
    file.event(1, 0)
    for time in range(1, 9):
        file.sample(0, time, 7, 7)
    whole = file.built()

    history = read(tmp_path, whole[: len(whole) - 100])

    assert len(history.samples()) == 6
    assert history.metadata.anomalies["truncated"] == 1


def test_a_damaged_record_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = PerfFile()
    file.event(1, 0)
    file.record(3, b"short")

    with pytest.raises(InputError, match=r"byte 256: a record is too short for its fields"):
        read(tmp_path, file.built())


@pytest.mark.parametrize(
    ("sample_type", "reason"), [(2, "record with `perf record -T`"), (2 | 4, "has no samples")]
)
def test_a_file_without_times_or_samples_is_refused(
    tmp_path: Path, sample_type: int, reason: str
) -> None:
    file = PerfFile(sample_type=sample_type)
    file.event(1, 0)

    with pytest.raises(InputError, match=reason):
        read(tmp_path, file.built())


def test_functions_are_of_a_file_with_the_recorded_build_id_alone() -> None:
    path = os.path.realpath(f"/proc/{os.getpid()}/exe")
    descriptor = os.open(path, os.O_RDONLY)
    build_id = symbols._Elf(descriptor).build_id()
    status = os.fstat(descriptor)
    os.close(descriptor)
    inode = os.major(status.st_dev), os.minor(status.st_dev), status.st_ino
    if not build_id:
        pytest.skip("this Python has no build id")

    found = symbols.functions_of_elf(path, build_id, (0, 0, 0))
    by_inode = symbols.functions_of_elf(path, b"", inode)

    assert found is not None
    assert by_inode is not None
    assert found.names == by_inode.names
    assert (found.start[1:] >= found.end[:-1]).all()
    assert (found.at(found.start) == np.arange(len(found.start))).all()
    assert symbols.functions_of_elf(path, b"\0" * 20, inode) is None
    assert symbols.functions_of_elf(path, b"", (0, 0, 0)) is None
    assert symbols.functions_of_elf(path, b"", (1, 2, 3)) is None
    assert symbols.functions_of_elf("/dev/zero", build_id, inode) is None
    assert symbols.functions_of_elf("/nowhere\0", build_id, inode) is None


def test_compiled_functions_are_those_of_the_list_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = b"1010 20 py::main\nbad line\n1030 8 La/A;::outer->Lb/B;::inner\n"
    monkeypatch.setattr(symbols, "_LISTS", str(tmp_path))
    (tmp_path / "perf-7.map").write_bytes(listed)
    file = PerfFile()
    file.event(1, 0)
    file.map(7, 0x1000, 0x1000, "//anon")
    for time, ip in enumerate((0x100F, 0x1010, 0x102F, 0x1030, 0x1038), 1):
        file.sample(0, time, 7, 7, ip=ip)
    unknown = ("[perf-7.map]",)

    file.described()
    assert {each[6] for each in rows(read(tmp_path, file.built()))} == {unknown}

    file.features[3] = file._string(socket.gethostname())
    assert [each[6] for each in rows(read(tmp_path, file.built()))] == [
        unknown,
        ("py::main",),
        ("py::main",),
        ("La/A;::outer", "Lb/B;::inner"),
        unknown,
    ]
    (tmp_path / "perf-7.map").rename(tmp_path / "other.map")
    (tmp_path / "perf-7.map").symlink_to(tmp_path / "other.map")
    assert {each[6] for each in rows(read(tmp_path, file.built()))} == {unknown}


def test_a_format_without_a_name_or_with_strange_fields_is_left_out() -> None:
    assert tracepoint_of("x", b"ID: 7\n") is None
    text = "name: x\nID: 7\n\tfield:struct a b;\toffset:8;\tsize:24;\tsigned:0;\n"

    found = tracepoint_of("x", text.encode())

    assert found is not None
    assert found.fields == []
