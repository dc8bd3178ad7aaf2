"""A recording that is read on tells the same as one that is read at once, and each record once."""

from __future__ import annotations

import asyncio
import itertools
import resource
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.collect import _recorder
from meantime.kernels.records import count
from meantime.readers.recording import live as module
from meantime.readers.recording import streams, tails
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.live import LiveActivity
from meantime.readers.recording.tails import read_tail, whole_records

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.readers.recording.activity import Group
    from meantime.readers.recording.tails import Tail

# counts are exact, so that threads which other tests left may not be recorded
pytestmark = [pytest.mark.usefixtures("no_running_loop"), pytest.mark.in_child_process]


async def _work(live: LiveActivity | None, count: int) -> None:
    async def worker(queue: asyncio.Queue[int]) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
            queue.put_nowait(1)

    queue: asyncio.Queue[int] = asyncio.Queue()
    for number in range(count):
        workers = [asyncio.create_task(worker(queue)) for _ in range(20)]
        await asyncio.to_thread(int)
        await asyncio.gather(*workers)
        if live is not None and number % 3 == 0:
            live.update()


def _told(live: LiveActivity) -> list[Group]:
    live.update()
    live.finish()
    return live.activity.groups()


@pytest.mark.parametrize("many", [0, 10**9], ids=["forgetful", "remembering"])
@pytest.mark.parametrize(
    "options",
    [{}, {"max_bytes": 1_000_000}, {"policy": "drop"}, {"policy": "ring", "ring_bytes": 200_000}],
    ids=["block", "limited", "drop", "ring"],
)
def test_reading_in_steps_gives_the_same_as_reading_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], many: int
) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    # the stack of a long step may be written after its end was read
    with meantime.record(tmp_path / "run.mtr", blocked_ns=0, **options):
        live = LiveActivity(tmp_path / "run.mtr")
        asyncio.run(_work(live, 90))
    at_once = LiveActivity(tmp_path / "run.mtr")

    monkeypatch.setattr(module, "_MANY", 10**9)
    told, told_at_once = _told(live), _told(at_once)
    if "ring_bytes" in options or "max_bytes" in options:
        # what goes away has been seen while it was there
        assert at_once.activity.changes < live.activity.changes
    elif at_once.lost:  # the disk was too slow for this machine: as above, of what was dropped
        assert at_once.activity.changes <= live.activity.changes
    else:
        assert told == told_at_once
        assert live.longest == at_once.longest
        assert live.lost == at_once.lost
    assert live.duration_ns == at_once.duration_ns


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    unread = module._unread

    def counting(*arguments: Any) -> Any:
        pieces, at = unread(*arguments)
        read.append(sum(len(piece) for piece in pieces))
        return pieces, at

    monkeypatch.setattr(module, "_unread", counting)
    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        _recorder.emit_many(50, 100_000)
        live.update()
        first, changes = sum(read), live.activity.changes
        read.clear()
        live.update()
        _recorder.emit_many(50, 10)
        live.update()

    assert first >= 200_000
    assert sum(read) == 20
    assert live.activity.changes == changes


def test_a_record_that_is_half_written_is_read_when_it_is_whole() -> None:
    records = np.array([7 << 8 | 1, 0, 8 << 8 | 128, 20 << 32, 1, 2, 3, 4], np.uint64)

    first, at = module._unread([records[:6]], 0, 0)
    second, end = module._unread([records], at, 0)

    assert [piece.tolist() for piece in first] == [records[:2].tolist()]
    assert [piece.tolist() for piece in second] == [records[2:].tolist()]
    assert (at, end) == (1, 4)


def _stores(records: list[int]) -> list[tuple[int, int]]:
    """Return the words, by index, that a writer stores one after the other for these records.

    Each is the number of 16-byte slots of its payload.
    """
    stores, at = [(0, 0)], 0
    for number, slots in enumerate(records, 1):
        payload = [(at + 2 + i, number * 1000 + i) for i in range(2 * slots)]
        after = at + 2 + 2 * slots
        kind = _recorder.KINDS["NAME" if slots else "WAKE"]
        stores += [*payload, (at + 1, slots * 16 << 32), (after, 0), (at, number << 8 | kind)]
        at = after
    return stores


@given(
    st.lists(st.integers(0, 2), max_size=6),
    st.lists(st.integers(0, 2), max_size=6),
    st.data(),
)
def test_a_copy_of_a_chunk_in_any_order_has_no_records_from_before_it_was_reused(
    before: list[int], after: list[int], data: st.DataObject
) -> None:
    chunk = np.zeros(40, np.uint64)
    for index, value in _stores(before):
        chunk[index] = value
    # those of before are of other times
    chunk[chunk != 0] += np.uint64(1 << 20)
    moments = [chunk.copy()]
    chunk[0] = 0
    for index, value in _stores(after):
        chunk[index] = value
        moments.append(chunk.copy())
    between = data.draw(st.integers(1, len(moments) - 1))

    def copy(first: int, last: int) -> npt.NDArray[np.uint64]:
        read_at = data.draw(st.lists(st.integers(first, last), min_size=40, max_size=40))
        return np.array([moments[at][i] for i, at in enumerate(read_at)], np.uint64)

    words = whole_records(copy(1, between), copy(between, len(moments) - 1))
    read = words[: count(words, len(words))[2]]

    assert read.tolist() == chunk[: len(read)].tolist()


def test_chunks_of_a_ring_that_are_reused_while_it_is_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="ring", ring_bytes=1 << 18):
        _recorder.emit_many(50, 30_000)
        (path,) = (tmp_path / "run.mtr").glob("*.0.tail")
        whole = read_tail(path)
        before = tails._seq_now(path)
        monkeypatch.setattr(tails, "_seq_now", lambda _: before + 2)
        part = read_tail(path)
        monkeypatch.setattr(tails, "_seq_now", lambda _: before + 9)
        nothing = read_tail(path)

    # what was overwritten before is one more piece
    assert whole is not None
    assert part is not None
    assert nothing is not None
    assert len(whole.chunks) == 1 + 4
    assert [words.tolist() for words in part.chunks[1:]] == [
        words.tolist() for words in whole.chunks[3:]
    ]
    assert len(nothing.chunks) == 1


def test_tasks_that_have_ended_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MANY", 50)
    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        for _ in range(3):
            asyncio.run(_work(None, 10))
            live.update()

    known, there = live.activity.entities
    (workers,) = [group for group in _told(live) if "worker" in group.name[1]]
    assert known <= 50 + 4 * there < 100
    assert workers.members == 600


def test_a_loop_that_is_blocked_now_is_seen(tmp_path: Path) -> None:
    async def main() -> None:
        time.sleep(0.03)  # noqa: ASYNC251 - it is to block
        live.update()

    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        asyncio.run(main())

    assert live.longest is not None
    assert live.longest.duration_ns > 25_000_000
    assert "main (test_live.py" in live.longest.where()


def test_each_loop_has_its_longest_block(tmp_path: Path) -> None:
    async def block(duration_ns: int) -> None:
        for _ in range(3):
            until_ns = time.monotonic_ns() + duration_ns
            while time.monotonic_ns() < until_ns:
                pass
            await asyncio.sleep(0)

    def run(duration_ns: int) -> None:
        asyncio.run(block(duration_ns))

    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        for name, duration_ns in (("long", 20_000_000), ("short", 2_000_000)):
            thread = threading.Thread(target=run, args=(duration_ns,), name=name)
            thread.start()
            thread.join()
            groups = _told(live)

    longest = {
        group.name[1].split(" ")[0]: group.longest_ns
        for group in groups
        if group.name[0] == "Loops"
    }
    assert longest["short"] >= 2_000_000
    assert longest["long"] >= 20_000_000


def test_callbacks_block_a_loop_too(tmp_path: Path) -> None:
    async def main() -> None:
        # longer than a busy machine delays other steps
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)
        await asyncio.sleep(0.001)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    live = LiveActivity(tmp_path / "run.mtr")
    live.update()
    assert live.longest is not None
    assert live.longest.duration_ns >= 300_000_000
    assert live.longest.where() == "sleep"


def test_a_stack_that_is_read_after_its_block_is_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def block() -> None:
        seen = None
        while seen is None or seen.code_ns < 0:
            time.sleep(0.01)  # noqa: ASYNC251 - it is to block
            now = LiveActivity(tmp_path / "run.mtr")
            now.update()
            seen = now.longest

    def without_stacks(*arguments: Any) -> Any:
        pieces, at = unread(*arguments)
        kinds = {int(word) & 255 for words in pieces for word in words[::2]}
        return ([], arguments[1]) if _recorder.KINDS["BLOCKED"] in kinds else (pieces, at)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(block())
    live, unread = LiveActivity(tmp_path / "run.mtr"), module._unread
    with monkeypatch.context() as patch:
        patch.setattr(module, "_unread", without_stacks)
        live.update()
    before = live.longest
    live.update()

    at_once = LiveActivity(tmp_path / "run.mtr")
    at_once.update()

    assert before is not None
    assert before.code_ns < 0
    assert live.longest is not None
    assert live.longest.code_ns >= 0
    assert live.longest == at_once.longest


def test_a_recording_that_ends_while_it_is_read_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meantime.start(tmp_path / "run.mtr")
    _recorder.emit_many(1, 1_000)
    listed = open_recording(tmp_path / "run.mtr")
    meantime.stop()
    monkeypatch.setattr(module, "open_recording", lambda _: listed)
    live = LiveActivity(tmp_path / "run.mtr")

    live.update()

    assert live.activity.changes == 1_000


def test_chunks_that_are_flushed_between_tail_and_segments_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, tasks = _recorder.KINDS["SPAWN"], itertools.count(1)

    def emit_chunks() -> None:
        for _ in range(3 * 4096 + 1000):
            _recorder.emit(spawn, next(tasks))

    def read_and_emit(path: Path) -> Tail | None:
        tail = read_tail(path)
        emit_chunks()
        return tail

    with meantime.record(tmp_path / "run.mtr"):
        emit_chunks()
        live = LiveActivity(tmp_path / "run.mtr")
        with monkeypatch.context() as patched:
            patched.setattr(streams, "read_tail", read_and_emit)
            live.update()
        emit_chunks()
        live.update()

    (found,) = _told(live)
    assert found.members == live.activity.changes - found.members == next(tasks) - 1
    assert not live.anomalies


def test_a_segment_that_begins_after_the_files_were_listed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = _recorder.KINDS["SPAWN"]
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit(spawn, 1)
        listed = open_recording(tmp_path / "run.mtr")
        for task in range(2, 3 * 4096):
            _recorder.emit(spawn, task)
        live = LiveActivity(tmp_path / "run.mtr")
        with monkeypatch.context() as patched:
            patched.setattr(module, "open_recording", lambda _: listed)
            live.update()
        during = live.activity.changes

    assert listed.processes[0].streams
    assert during == 3 * 4096 - 1
    assert [group.members for group in _told(live)] == [during]


def test_events_after_a_loss_are_read_though_they_take_the_slots_of_the_lost_ones(
    tmp_path: Path,
) -> None:
    spawn = _recorder.KINDS["SPAWN"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with meantime.record(tmp_path / "run.mtr", policy="drop"):
        live = LiveActivity(tmp_path / "run.mtr")
        for task in range(1, 101):
            _recorder.emit(spawn, task)
        live.update()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        try:
            for task in range(101, 6001):
                _recorder.emit(spawn, task)
            until_s = time.monotonic() + 30
            while not _lost(tmp_path / "run.mtr") and time.monotonic() < until_s:
                time.sleep(0.001)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        live.update()
        for task in range(6001, 6051):
            _recorder.emit(spawn, task)
        live.update()
    at_once = LiveActivity(tmp_path / "run.mtr")

    (tasks,), (kept,) = _told(live), _told(at_once)
    assert 4000 < at_once.lost == live.lost < 6000
    assert kept.members == 6050 - at_once.lost
    # what was lost had been seen, up to a hundred
    assert tasks.members == kept.members + 100


def _lost(path: Path) -> int:
    live = LiveActivity(path)
    live.update()
    return live.lost


def test_a_thread_whose_name_is_recorded_after_its_first_state_gets_it(tmp_path: Path) -> None:
    kinds = _recorder.KINDS

    def record_thread(name: str) -> None:
        _recorder.emit_text(kinds["THREAD"], 77, name)
        _recorder.emit(kinds["GIL_WAIT"])
        _recorder.emit(kinds["RESUMED"])
        live.update()

    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        record_thread("")
        before = live.activity.groups()
        record_thread("late")

    (unnamed,) = [group for group in before if group.name[1].endswith(" 77")]
    (named,) = [group for group in _told(live) if group.name[1].endswith(" 77")]
    assert unnamed.name == ("Threads", "thread 77")
    assert named.name == ("Threads", "late 77")
    assert named.members == unnamed.members == 1
    assert named.state_ns["gil-wait"] >= unnamed.state_ns["gil-wait"] > 0


def test_a_wait_is_not_long_because_reading_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream_words = streams.stream_words

    def read_slowly(*arguments: Any) -> Any:
        _recorder.emit(_recorder.KINDS["IO_WAIT"])
        words = stream_words(*arguments)
        time.sleep(0.01)
        return words

    with meantime.record(tmp_path / "run.mtr"):
        live = LiveActivity(tmp_path / "run.mtr")
        _recorder.emit(_recorder.KINDS["SPAWN"], 1)
        monkeypatch.setattr(module, "stream_words", read_slowly)
        live.update()
        states = [state for group in live.activity.groups() for state in group.now]

    assert states == ["spawned"]


def test_it_reports_whether_a_recording_is_live(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit(5)
        live = LiveActivity(tmp_path / "run.mtr")
        live.update()
        during = live.is_live
    live.update()

    assert (during, live.is_live) == (True, False)
