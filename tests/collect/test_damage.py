"""What is left of a damaged recording is read, what is not is counted, and neither takes memory."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.collect import _recorder
from meantime.errors import InputError
from meantime.model.anomalies import Anomalies
from meantime.readers import open_trace
from meantime.readers.recording.listing import StreamFiles
from meantime.readers.recording.live import LiveActivity
from meantime.readers.recording.merge import Records, merged
from meantime.readers.recording.packing import pack
from meantime.readers.recording.pieces import FilePiece
from meantime.readers.recording.streams import stream_words

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.usefixtures("no_running_loop"), pytest.mark.in_child_process]

SPAWN, START, WAIT, SAMPLE_STACK, PLACE = 1, 3, 5, 133, 131
EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**56 - 1, 2**56, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
PROGRAM = """
import asyncio, meantime, os, sys, time
async def work():
    for _ in range(15):
        await asyncio.sleep(0)
async def main():
    tasks = [asyncio.create_task(work(), name=f"n{n}") for n in range(5)]
    await asyncio.to_thread(time.sleep, 0.005)
    await asyncio.gather(*tasks)
if sys.argv[2] == "ring":
    meantime.start(sys.argv[1], policy="ring", ring_bytes=200_000)
else:
    meantime.start(sys.argv[1], threads=True, samples=500)
asyncio.run(main())
if not (child := os.fork()):
    asyncio.run(main())
    os._exit(0)
os.waitpid(child, 0)
asyncio.run(main())
if sys.argv[2] != "whole":
    os.kill(os.getpid(), 9)
meantime.stop()
"""


@pytest.fixture(scope="module", params=["whole", "killed", "ring"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "run.mtr"
    done = subprocess.run([sys.executable, "-c", PROGRAM, path, request.param], check=False)
    assert done.returncode == (0 if request.param == "whole" else -signal.SIGKILL)
    return path


def _numbers(path: Path) -> list[int]:
    """Return the numbers at the beginning of a file."""
    return list(struct.unpack_from("<8Q", path.read_bytes()))


def _patch(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _records(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the records of a segment or facts file begin, and their kinds."""
    at = 64
    while at + 16 <= len(data):
        first, second = struct.unpack_from("<2Q", data, at)
        yield at, first & 255
        at += 16 + (((second >> 32) + 15) // 16 * 16 if first & 255 >= 128 else 0)


def _mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    kind = chance.randrange(6)
    at = chance.randrange(len(changed))
    if kind == 0:
        del changed[at:]
    elif kind == 1:
        changed[at] ^= 1 << chance.randrange(8)
    elif kind == 2:
        at = min(at, chance.choice([at, 200])) // 8 * 8
        changed[at : at + 8] = chance.choice(EXTREMES).to_bytes(8, "little")
    elif kind == 3:
        at = at // 4 * 4
        changed[at : at + 4] = chance.choice(EXTREMES[:4]).to_bytes(4, "little")
    elif kind == 4:
        del changed[at : at + chance.randrange(1, 200)]
    else:
        other = chance.randrange(len(changed))
        changed[at:at] = changed[other : other + chance.randrange(1, 2000)]
    return bytes(changed)


def _read_in_every_way(path: Path) -> None:
    meantime.open(path)
    live = LiveActivity(path)
    live.update()
    live.finish()
    live.anomalies.lines()
    b"".join(pack(path))


# Some seeds share a child process, as to fork one takes as long as to read a recording.
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_any_damage_leaves_a_history_or_an_error(
    recorded: Path, tmp_path: Path, first: int
) -> None:
    for seed in range(first, first + 10):
        path = tmp_path / f"{seed}.mtr"
        chance = random.Random(seed)  # noqa: S311 - to be the same each time
        shutil.copytree(recorded, path)
        victim = chance.choice(sorted(path.iterdir()))
        victim.write_bytes(_mutated(victim.read_bytes(), chance))

        _read_in_every_way(path)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_any_damage_to_a_packed_one_leaves_a_history_or_an_error(
    recorded: Path, tmp_path: Path, first: int
) -> None:
    whole = b"".join(pack(recorded))
    for seed in range(first, first + 10):
        packed = tmp_path / f"{seed}.mtrz"
        chance = random.Random(seed)  # noqa: S311 - as above
        packed.write_bytes(_mutated(whole, chance))

        with suppress(InputError):
            meantime.open(packed)


def test_every_cut_of_every_file_is_read_as_far_as_it_goes(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mtr"
    shutil.copytree(recorded, path)
    for file in sorted(path.iterdir()):
        data = file.read_bytes()
        cuts = {0, 8, 60, 63, 64, 65, 80, 100, 4095, 4096, 4100, len(data) // 2, len(data) - 1}
        for cut in sorted(cut for cut in cuts if cut < len(data)):
            file.write_bytes(data[:cut])
            trace = open_trace(path)
            for _ in trace.batches:
                pass
            # of `usage`, the page is filled up with nothing; and nothing follows the last fact of
            # a process that was killed
            is_whole = cut in [at for at, _ in _records(data)] and file.suffix == ".facts"
            assert trace.anomalies or file.name == "usage" or is_whole, (file.name, cut)
        file.write_bytes(data)


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that has the segments, the tail and the facts of a process without its end."""
    path = tmp_path_factory.mktemp("abandoned") / "run.mtr"
    code = "import meantime, os, sys; from meantime.collect import _recorder\n"
    code += "meantime.start(sys.argv[1]); _recorder.emit_many(1, 9000); os._exit(0)"
    subprocess.run([sys.executable, "-c", code, path], check=True)
    return path


@pytest.mark.parametrize("what", ["*.facts", "*.ev", "*.tail"])
def test_any_clock_of_a_header_is_taken_for_what_the_others_say(
    abandoned: Path, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "run.mtr"
    shutil.copytree(abandoned, path)
    before = read(path)
    assert before.trace.bounds is not None
    (file,) = path.glob(what)
    for number in EXTREMES:
        _patch(file, 24, number.to_bytes(8, "little"))

        after = read(path)

        assert after.trace.bounds is not None
        assert after.trace.bounds[1] <= before.trace.bounds[1], number
        (anomaly,) = set(after.trace.anomalies) - {"records_missing", "undefined_location"}
        assert anomaly == ("header_damaged" if number < 2**62 else "file_damaged"), number


@pytest.mark.parametrize("number", EXTREMES)
def test_a_utc_time_that_cannot_be_is_none(tmp_path: Path, number: int) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(SPAWN, 10)
    (facts,) = (tmp_path / "run.mtr").glob("*.facts")
    _patch(facts, 56, number.to_bytes(8, "little"))

    utc_ns = read(tmp_path / "run.mtr").trace.clock.utc_at_origin_ns

    assert utc_ns == (number if number < 2**62 else None)


@pytest.mark.parametrize("recorded", ["whole"], indirect=True)
@pytest.mark.parametrize(
    ("what", "kind"), [("facts", PLACE), ("facts", SAMPLE_STACK), ("ev", START), ("ev", SPAWN)]
)
def test_a_number_costs_as_much_as_any_other(
    recorded: Path, tmp_path: Path, what: str, kind: int
) -> None:
    whole = read(recorded)
    paths = []
    for number in (2**25, 2**31 + 2**20, 2**32 - 1):
        path = tmp_path / f"{number}.mtr"
        paths.append(path)
        shutil.copytree(recorded, path)
        for file in sorted(path.glob(f"*.{what}")):
            places = [at for at, found in _records(file.read_bytes()) if found == kind]
            for at in places[:1]:
                _patch(file, at + 8, number.to_bytes(4, "little"))
    code = (
        "import resource, sys, meantime\n"
        "for path in sys.argv[1:]:\n"
        "    meantime.open(path)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, recorded, *paths], capture_output=True, text=True, check=True
    )

    for path in paths:
        damaged = read(path)
        assert len(damaged.trace.tags) == len(whole.trace.tags)
        assert abs(len(damaged.trace.paths) - len(whole.trace.paths)) <= 4
    kilobytes = [int(peak) for peak in done.stdout.split()]
    assert kilobytes[-1] - kilobytes[0] < 8_000


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("damage", [_empty, _cut, Path.unlink])
@pytest.mark.parametrize("what", ["recording.json", "*.*.json"])
def test_files_of_information_can_be_missing(
    tmp_path: Path, what: str, damage: Callable[[Path], None]
) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(asyncio.sleep(0))
    before = read(tmp_path / "run.mtr")
    (file,) = (path for path in (tmp_path / "run.mtr").glob(what))
    damage(file)

    after = read(tmp_path / "run.mtr")

    assert after.changes == before.changes
    is_gone = damage is Path.unlink and what != "recording.json"
    assert dict(after.trace.anomalies) == ({} if is_gone else {"description_damaged": 1})


@pytest.mark.parametrize(
    "content",
    [
        {"command": 7, "host": ["x"], "boot_id": 3.5},
        {"command": {"a": 1}, "host": 1, "boot_id": []},
    ],
)
def test_a_description_of_the_wrong_types_is_left_out(
    tmp_path: Path, content: dict[str, object]
) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(asyncio.sleep(0))
    description = {"format": "meantime recording", "version": 1, **content}
    (tmp_path / "run.mtr" / "recording.json").write_text(json.dumps(description))

    trace = read(tmp_path / "run.mtr").trace

    assert dict(trace.anomalies) == {"description_damaged": 3}
    assert (trace.clock.host, trace.clock.boot_id, trace.title) == (None, None, "")


def test_a_location_that_is_defined_nowhere_is_counted(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        for task in range(1, 4):
            _recorder.emit(SPAWN, task, 10**6)

    recorded = read(tmp_path / "run.mtr")

    assert dict(recorded.trace.anomalies) == {"undefined_location": 1}
    assert sorted(recorded.changes) == [("Tasks", "unknown", str(task)) for task in range(1, 4)]


def test_a_segment_that_is_gone_is_missed(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(SPAWN, 10_000)
    (segment,) = (tmp_path / "run.mtr").glob("*.ev")
    slots = (segment.stat().st_size - 64) // 16
    segment.unlink()

    assert read(tmp_path / "run.mtr").trace.anomalies["records_missing"] == slots


def test_one_of_a_later_format_is_refused(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(SPAWN, 10)
    for file in (tmp_path / "run.mtr").glob("*.*.*"):
        _patch(file, 8, (2).to_bytes(4, "little"))

    with pytest.raises(InputError, match="is of format version 2; this meantime reads 1"):
        open_trace(tmp_path / "run.mtr")


def test_tasks_that_run_inside_each_other_come_to_an_end(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit(START, 1)
        _recorder.emit(START, 2)
        _recorder.emit(SPAWN, 1)
        _recorder.emit(START, 1)
    live = LiveActivity(tmp_path / "run.mtr")
    live.update()
    live.finish()

    assert live.activity.changes > 0


def test_losses_change_a_state_once(tmp_path: Path) -> None:
    lost = struct.pack("<4Q", 1, 0, 0, 0).decode("latin-1")
    with meantime.record(tmp_path / "run.mtr"):
        for task in range(1, 101):
            _recorder.emit(SPAWN, task)
        for _ in range(1000):
            _recorder.emit_text(134, 0, lost)

    recorded = read(tmp_path / "run.mtr")

    assert recorded.trace.anomalies["records_lost"] == 1000
    assert [len(changes) for changes in recorded.changes.values()] == [3] * 100


def test_nothing_but_regular_files_is_opened(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(SPAWN, 10)
    os.mkfifo(tmp_path / "run.mtr" / "7.0.facts")
    (tmp_path / "run.mtr" / "8.0.0.tail").mkdir()

    assert len(read(tmp_path / "run.mtr").changes) == 10


def _slots(count: int) -> bytes:
    """Return records of one slot and, every thousandth, one of three, as many as fit exactly."""
    found = bytearray()
    for number in range(count):
        size = 24 if number % 1000 == 0 else 0
        found += struct.pack("<QII", number << 8 | (129 if size else 5), number, size)
        found += b"x" * (size + 15 & ~15)
    return bytes(found)


def test_a_large_segment_is_read_part_by_part(tmp_path: Path) -> None:
    segment, records = tmp_path / "1.1.0.0.ev", 300_000
    data = _slots(records)
    segment.write_bytes(bytes(64) + data)
    anomalies = Anomalies()
    piece: FilePiece | None = FilePiece(segment, 0, len(data) // 16, anomalies)

    parts = []
    while piece is not None:
        words, piece = piece.read()
        parts.append(words)

    assert len(parts) == 3
    assert max(map(len, parts)) <= 2 << 17
    assert b"".join(part.tobytes() for part in parts) == data
    whole = FilePiece(segment, 0, len(data) // 16, anomalies)
    times = [
        item.time_ns[item.order] for item in merged([([whole], 0)]) if isinstance(item, Records)
    ]
    assert np.concatenate(times).tolist() == list(range(records))
    assert not dict(anomalies)


@pytest.mark.parametrize("left", [100, 0, None])
def test_a_segment_that_is_cut_while_it_is_read_ends_there(
    left: int | None, tmp_path: Path
) -> None:
    segment = tmp_path / "1.1.0.0.ev"
    segment.write_bytes(bytes(64) + _slots(1000))
    anomalies = Anomalies()
    words = stream_words(StreamFiles(0, {0: segment}), anomalies)

    if left is None:
        segment.unlink()
    else:
        os.truncate(segment, 64 + left * 16)
    read = list(merged([(words.pieces, 0)]))

    # the first record takes three slots
    rows = [len(item.order) for item in read if isinstance(item, Records)]
    assert rows == ([left - 2] if left else [])
    assert dict(anomalies) == {"records_missing": 1002 - (left or 0)}
