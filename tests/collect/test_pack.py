"""A packed recording says what its directory says, to every command."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.collect import _recorder
from meantime.kernels import records
from meantime.model.trace import StateChanges
from meantime.readers import open_trace, recording
from meantime.readers.recording import packing
from meantime.readers.recording.layout import PACKED_MAGIC
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.packing import open_packed, pack
from meantime.readers.recording.pieces import taken

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.model.trace import Trace

WAIT = 5


def everything(trace: Trace) -> list[Any]:
    """Return all that a trace says, in values that can be compared."""
    batches = [
        (
            type(batch).__name__,
            [
                value.tolist() if isinstance(value, np.ndarray) else value
                for value in (getattr(batch, field.name) for field in fields(batch))
            ],
        )
        for batch in trace.batches
        if is_dataclass(batch)
    ]
    stacks = trace.stacks
    return [
        batches,
        [*trace.paths],
        trace.values,
        trace.tags,
        trace.names,
        trace.lost,
        trace.bounds,
        trace.clock,
        trace.title,
        trace.facts,
        trace.records,
        dict(trace.anomalies),
        None if stacks is None else [stacks.frames_of(row) for row in range(len(stacks))],
    ]


def status(*words: str) -> object:
    with pytest.raises(SystemExit) as left:
        main(words)
    return left.value.code


def packed(path: Path) -> Path:
    target = path.with_suffix(".mtrz")
    target.write_bytes(b"".join(pack(path)))
    return target


async def busy() -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(asyncio.sleep(0.0001 * (number % 3)), name=f"task {number}")
        await asyncio.to_thread(sum, range(100_000))


def record_all(path: Path) -> None:
    with meantime.record(path, samples=500, threads=True):
        asyncio.run(busy())
        until_ns = time.thread_time_ns() + 30_000_000
        while time.thread_time_ns() < until_ns:
            pass


def record_with_losses(path: Path) -> None:
    with meantime.record(path, policy="ring", ring_bytes=200_000):
        asyncio.run(busy())
        _recorder.emit_many(WAIT, 30_000)
        _recorder.dump()
        asyncio.run(busy())


def record_rotating(path: Path) -> None:
    with meantime.record(path, max_bytes=1_000_000):
        asyncio.run(busy())
        _recorder.emit_many(WAIT, 200_000)
        asyncio.run(busy())


def record_killed(path: Path) -> None:
    code = (
        "import asyncio, meantime, os, sys\n"
        "async def main():\n"
        "    await asyncio.gather(*(asyncio.sleep(0) for _ in range(2_000)))\n"
        "    os.kill(os.getpid(), 9)\n"
        "meantime.start(sys.argv[1])\n"
        "if not (child := os.fork()): asyncio.run(main())\n"
        "os.waitpid(child, 0)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)


@pytest.mark.parametrize("record", [record_all, record_with_losses, record_rotating, record_killed])
def test_it_gives_the_same_as_the_directory(tmp_path: Path, record: Any) -> None:
    record(tmp_path / "run.mtr")

    file = packed(tmp_path / "run.mtr")

    as_recorded = everything(recording.read(tmp_path / "run.mtr"))
    assert everything(open_trace(file)) == as_recorded
    assert sum(len(batch[1][0]) for batch in as_recorded[0]) > 100
    whole = sum(entry.stat().st_size for entry in (tmp_path / "run.mtr").iterdir())
    assert file.stat().st_size < whole / 2


@pytest.mark.in_child_process
def test_a_record_that_was_cut_off_is_counted_as_before(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(1, 100)
        _recorder.emit_text(128, 1, "a name of some length, to be cut")
    (segment,) = (tmp_path / "run.mtr").glob("*.ev")
    segment.write_bytes(segment.read_bytes()[:-16])

    trace = open_trace(packed(tmp_path / "run.mtr"))

    assert everything(trace) == everything(recording.read(tmp_path / "run.mtr"))
    assert trace.anomalies["truncated"] == 1


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60).filter(lambda words: len(words) % 2 == 0))
def test_any_words_come_back(words: list[int]) -> None:
    before = np.array(words, np.uint64)
    blocks = list(packing._blocks([before], 0))

    data = memoryview(b"".join(block for block, _ in blocks))
    directory = packing._Directory({}, data)
    pieces = directory._pieces([entry for _, entry in blocks])
    after = [taken(piece)[0] for piece in pieces]

    # of a record that is cut off, and so the last that can be read, the beginning
    whole = records.count(before, len(words))[2]
    assert [word for block in after for word in block.tolist()] == words[: whole + 2]


def test_every_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_all(tmp_path / "run.mtr")

    assert status("pack", str(tmp_path / "run.mtr")) == 0
    said = capsys.readouterr().err
    file = str(tmp_path / "run.mtrz")
    results = {}
    for name in ("run.mtr", "run.mtrz"):
        assert status("stats", str(tmp_path / name), "--json") == 0
        results[name] = json.loads(capsys.readouterr().out)
        del results[name]["next"]  # names the file
    assert said.startswith(f"{file}: ")
    assert results["run.mtr"] == results["run.mtrz"]
    for words in (
        ["info", file],
        ["statemap", file, "-o", str(tmp_path / "out.svg")],
        ["heatmap", file],
        ["flame", file, "-o", str(tmp_path / "out.txt")],
        ["build", file, "-o", str(tmp_path / "out.mth")],
        ["convert", file, str(tmp_path / "out.statemap"), "--only", "tasks"],
    ):
        assert status(*words) == 0, words


def test_json_tells_what_was_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run.mtr"
    record_all(folder)

    assert status("pack", str(folder), "--json", "--strict") == 0

    found = json.loads(capsys.readouterr().out)
    described = open_recording(folder)
    assert found["output"] == str(tmp_path / "run.mtrz")
    assert found["bytes"] == (tmp_path / "run.mtrz").stat().st_size
    assert found["unpacked_bytes"] == sum(each.stat().st_size for each in folder.iterdir())
    assert found["processes"] == len(described.processes) == 1
    assert found["streams"] == sum(len(each.streams) for each in described.processes)
    assert found["words"] > 0
    assert found["anomalies"] == {}
    assert status("pack", str(folder), "--json", "-o", "-") == 2


def test_strict_packs_no_damaged_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run.mtr"
    record_all(folder)
    (folder / "recording.json").write_text("{")

    assert status("pack", str(folder), "--strict") == 1

    assert "with --strict: 1 description_damaged" in capsys.readouterr().err
    assert not (tmp_path / "run.mtrz").exists()


@pytest.mark.parametrize("kept", [8, 20, 0.5, -1])
def test_a_cut_one_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: float
) -> None:
    record_all(tmp_path / "run.mtr")
    data = packed(tmp_path / "run.mtr").read_bytes()
    (tmp_path / "cut.mtrz").write_bytes(data[: int(kept * len(data)) if kept == 0.5 else int(kept)])

    assert status("info", str(tmp_path / "cut.mtrz")) == 1
    assert "cut.mtrz: " in capsys.readouterr().err


def test_one_with_a_damaged_directory_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_all(tmp_path / "run.mtr")
    data = bytearray(packed(tmp_path / "run.mtr").read_bytes())
    offset, _, _ = packing._TRAILER.unpack(data[-packing._TRAILER.size :])
    data[offset + 20] ^= 0x55
    (tmp_path / "bad.mtrz").write_bytes(data)

    assert status("info", str(tmp_path / "bad.mtrz")) == 1
    assert "bad.mtrz: is a packed recording whose directory is damaged" in capsys.readouterr().err


def test_a_block_that_is_damaged_is_left_out_and_counted(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(1, packing._BLOCK_RECORDS + 1000)
    data = bytearray(packed(tmp_path / "run.mtr").read_bytes())
    # the facts come first, then the stream's first block, which is nearly all there is
    data[len(data) // 2] ^= 0x55
    (tmp_path / "bad.mtrz").write_bytes(data)

    trace = open_trace(tmp_path / "bad.mtrz")
    rows = sum(len(batch.time_ns) for batch in trace.batches if isinstance(batch, StateChanges))

    assert rows > 0
    assert dict(trace.anomalies) == {
        "file_damaged": 1,
        "records_missing": packing._BLOCK_RECORDS,  # which are slots
    }


@pytest.mark.parametrize(
    "claim",
    [
        b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00",
        b"not a frame",
    ],
    ids=["huge", "other"],
)
def test_a_directory_that_claims_too_much_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], claim: bytes
) -> None:
    trailer = packing._TRAILER.pack(8, len(claim), PACKED_MAGIC)
    (tmp_path / "bad.mtrz").write_bytes(PACKED_MAGIC + claim + trailer)

    assert status("info", str(tmp_path / "bad.mtrz")) == 1
    assert "whose directory is damaged" in capsys.readouterr().err


def test_only_a_recording_can_be_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")

    statuses = [status("pack", str(tmp_path / name)) for name in ("empty", "file")]

    assert statuses == [1, 2]
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert {entry.name for entry in tmp_path.iterdir()} == {"empty", "file"}


def test_a_packed_one_can_be_opened_where_a_directory_is(tmp_path: Path) -> None:
    record_all(tmp_path / "run.mtr")
    file = packed(tmp_path / "run.mtr")

    again = open_packed("run", memoryview(file.read_bytes()), file)

    known = open_recording(tmp_path / "run.mtr")
    assert again.description == known.description
    assert [(each.pid, sorted(each.streams)) for each in again.processes] == [
        (each.pid, sorted(each.streams)) for each in known.processes
    ]
