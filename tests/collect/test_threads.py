"""Threads and pools: what they wait for, and what they run."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from multiprocessing.pool import ThreadPool
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio

import meantime
from meantime.collect import _recorder
from meantime.kernels.record_kinds import KINDS
from meantime.readers.recording import merge

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from reading import Recorded


def _spin(duration_ns: int) -> None:
    """Compute until the calling thread has used this much of the processor."""
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < duration_ns:
        pass


def test_threads_that_compute_wait_for_each_other(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", threads=True):
        threads = [
            threading.Thread(target=_spin, args=(60_000_000,), name=name) for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recorded = read(tmp_path / "run.mtr")
    waited = {
        path[1].split(" ")[0]: sum(
            after[0] - before[0] for before, after in pairwise(changes) if before[1] == "gil-wait"
        )
        for path, changes in recorded.changes.items()
        if path[0] == "Threads"
    }
    # each computes for 60 ms, and only one at a time
    assert waited["a"] + waited["b"] > 40_000_000


def test_a_thread_that_has_ended_has_no_state(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", threads=True):
        with ThreadPoolExecutor(1, "pool") as pool:
            worker = pool.submit(threading.get_native_id).result()
        # a thread can be joined a moment before it ends
        while Path(f"/proc/self/task/{worker}").exists():
            time.sleep(0.001)
        _spin(5_000_000)
        # a record after that
        time.sleep(0.001)

    recorded = read(tmp_path / "run.mtr")
    ended = [rows for path, rows in recorded.changes.items() if path[1].startswith("pool")]
    # as a worker of the pool, and as a thread
    assert len(ended) == 2
    for rows in ended:
        (stopped_ns, stopped, _), (end_ns, nothing, _) = rows[-2:]
        assert (stopped, nothing) == ("stopped", None)
        assert end_ns == stopped_ns + 1
        assert recorded.trace.bounds
        assert end_ns < recorded.trace.bounds[1] - 4_000_000


def test_a_wait_for_a_lock_lasts_until_its_release(tmp_path: Path) -> None:
    lock, wanted = threading.Lock(), threading.Event()

    def want() -> None:
        wanted.set()
        with lock:
            pass

    with meantime.record(tmp_path / "run.mtr", threads=True):
        lock.acquire()
        thread = threading.Thread(target=want, name="wanting")
        thread.start()
        wanted.wait()
        time.sleep(0.3)
        lock.release()
        thread.join()

    (changes,) = [
        changes
        for path, changes in read(tmp_path / "run.mtr").changes.items()
        if path[0] == "Threads" and path[1].startswith("wanting")
    ]
    held = max(
        after[0] - before[0] for before, after in pairwise(changes) if before[1] == "lock-wait"
    )
    assert held > 100_000_000


@pytest.mark.parametrize(
    ("options", "recorded"),
    [
        ({}, True),
        ({"trace": "none", "threads": True}, True),
        ({"trace": "tasks"}, False),
        ({"policy": "ring"}, False),
    ],
)
def test_threads_are_recorded_with_workers_or_on_request(
    tmp_path: Path,
    options: dict[str, Any],
    recorded: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    with meantime.record(tmp_path / "run.mtr", **options):
        thread = threading.Thread(target=_spin, args=(1_000_000,))
        thread.start()
        thread.join()

    groups = {path[0] for path in read(tmp_path / "run.mtr").changes}
    assert ("Threads" in groups) == recorded


def _times(recorded: Recorded, group: str, name: str) -> Counter[str]:
    """Return the milliseconds in each state of the thread whose name begins so."""
    (changes,) = [
        changes
        for path, changes in recorded.changes.items()
        if path[0] == group and path[1].startswith(name)
    ]
    total: Counter[str] = Counter()
    for (start_ns, state, _), (end_ns, _, _) in pairwise(changes):
        if state is not None:
            total[state] += end_ns - start_ns
    return Counter({state: time_ns // 1_000_000 for state, time_ns in total.items()})


def test_what_a_thread_waits_for_is_its_state(tmp_path: Path) -> None:
    work: queue.Queue[int] = queue.Queue()
    left, right = socket.socketpair()
    polled, poller = socket.socketpair()
    polling = select.poll()
    polling.register(polled, select.POLLIN)
    reading, writing = os.pipe()
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    waits: dict[str, Callable[[], object]] = {
        "sleeping": lambda: time.sleep(0.3),
        "lock-wait": work.get,
        "io-wait": lambda: right.recv(1),
        "polling": lambda: select.select([polled], [], []),
        "polling-of-an-object": polling.poll,
        "child-wait": child.wait,
        "io-wait-of-a-pipe": lambda: os.read(reading, 1),
    }

    with meantime.record(tmp_path / "run.mtr"):
        threads = [threading.Thread(target=wait, name=name) for name, wait in waits.items()]
        for thread in threads:
            thread.start()
        # longer than a busy machine takes to start them
        time.sleep(0.3)
        work.put(1)
        left.send(b"x")
        poller.send(b"x")
        os.write(writing, b"x")
        child.stdin.write(b"\n")
        child.stdin.close()
        for thread in threads:
            thread.join()

    for end in (left, right, polled, poller):
        end.close()
    os.close(reading)
    os.close(writing)
    recorded = read(tmp_path / "run.mtr")
    for name in waits:
        state = name.partition("-of-")[0]
        assert _times(recorded, "Threads", f"{name} ").most_common(1)[0][0] == state
    assert _times(recorded, "Threads", "MainThread")["sleeping"] >= 200


@pytest.mark.in_child_process
def test_quick_reads_leave_no_records(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        thread = threading.Thread(target=lambda: [Path(__file__).read_bytes() for _ in range(200)])
        thread.start()
        thread.join()

    (states,) = read(tmp_path / "run.mtr").states("Threads", "Thread-")
    # each opens the file, and reads it twice; a busy machine may interrupt some of them
    assert states.count("io-wait") < 200


def test_the_lanes_of_a_thread_agree(tmp_path: Path) -> None:
    async def main() -> None:
        spinning = threading.Thread(target=_spin, args=(20_000_000,))
        spinning.start()
        await asyncio.sleep(0.005)
        _spin(20_000_000)
        await asyncio.to_thread(time.sleep, 0.1)
        spinning.join()
        await asyncio.sleep(0)
        _spin(5_000_000)
        # as if the thread had waited for a processor, and nothing else, in this step
        _recorder.emit(KINDS["CPU_WAIT"], 2_000_000)

    with meantime.record(tmp_path / "run.mtr", threads=True):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    loop, thread = (
        {time_ns: state for time_ns, state, _ in changes}
        for group in ("Loops", "Threads")
        for path, changes in recorded.changes.items()
        if path[0] == group and path[1].startswith("MainThread")
    )
    loop_state = thread_state = None
    both = set()
    for time_ns in sorted(loop.keys() | thread.keys()):
        loop_state = loop.get(time_ns, loop_state)
        thread_state = thread.get(time_ns, thread_state)
        # the thread's lane begins with its first wait, and goes on after the loop's
        if thread_state is not None and loop_state not in {None, "stopped"}:
            both.add((loop_state, thread_state))
    assert {("parked", "parked"), ("running", "running"), ("cpu-wait", "cpu-wait")} <= both
    assert all(ours == theirs for ours, theirs in both)
    # it sleeps until a time that is set before it has given the GIL away
    slept = _times(recorded, "Workers", "asyncio_0")
    assert slept["sleeping"] + slept.get("gil-handoff", 0) >= 50


def _reasons(recorded: Recorded) -> dict[str, list[str]]:
    """Return the waits of each coroutine, by its name."""
    return {
        path[1].split(" ")[0].rsplit(".", 1)[-1]: [
            state for _, state, _ in changes if state is not None and state.startswith("waiting")
        ]
        for path, changes in recorded.changes.items()
        if path[0] == "Tasks"
    }


def _counts(recording: Path) -> dict[tuple[str, ...], list[int]]:
    """Return the values of each pool's counters."""
    with meantime.open(recording) as history:
        return {
            tuple(history.attributes.path(quark)[3:]): [
                int(each.value) for each in history.intervals(quark) if each.value is not None
            ]
            for lane in history.lanes
            if lane.declaration.label == "Pools"
            for quark in lane.quarks.tolist()
        }


def test_an_item_is_queued_until_a_thread_begins_it(tmp_path: Path) -> None:
    async def direct(executor: ThreadPoolExecutor) -> None:
        await asyncio.get_running_loop().run_in_executor(executor, time.sleep, 0.1)

    async def main() -> None:
        with ThreadPoolExecutor(1, "few") as executor:
            await direct(executor)
            await asyncio.gather(*(direct(executor) for _ in range(3)))

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    waits = [
        [state for _, state, _ in changes if state is not None and state.startswith("waiting")]
        for path, changes in recorded.changes.items()
        if path[1].startswith("test_an_item_is_queued_until_a_thread_begins_it.<locals>.direct")
    ]
    assert waits[1:] == [["waiting:pool", "waiting:thread"]] * 2
    counts = _counts(tmp_path / "run.mtr")
    assert max(counts["few (1 threads)", "queued"]) >= 2
    assert max(counts["few (1 threads)", "running"]) == 1
    assert {values[-1] for values in counts.values()} == {0}


def test_a_step_in_which_its_thread_sleeps_blocks_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        await asyncio.to_thread(int)
        waiting = asyncio.create_task(asyncio.sleep(0.01))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 - it is to block
        await waiting

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    history = meantime.open(tmp_path / "run.mtr")
    assert dict(history.anomalies) == {}
    found, *_ = meantime.findings(history)
    assert "main (test_threads.py:" in found.sentence
    assert "blocked the event loop for" in found.sentence
    (loop,) = history.quarks("Loops/*").tolist()
    # a busy machine may keep the thread waiting for memory or the disk, too
    slept = [each for each in history.intervals([loop]) if each.value == "sleeping"]
    assert max(each.end_ns - each.start_ns for each in slept) >= 400_000_000


def test_a_loop_that_waits_for_a_processor_before_it_parks_has_no_empty_states(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        await asyncio.to_thread(int)
        # as if the loop, between two steps, had waited for a processor until it looks for events
        emit = _recorder.emit
        asyncio.get_running_loop().call_soon(lambda: emit(KINDS["CPU_WAIT"], 2_000_000))
        await asyncio.sleep(0.001)

    with meantime.record(tmp_path / "run.mtr", threads=True):
        asyncio.run(main())

    assert dict(meantime.open(tmp_path / "run.mtr").anomalies) == {}


def test_pools_of_every_library_have_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trio._core._thread_cache, "IDLE_TIMEOUT", 0.01)
    before = {*threading.enumerate()}

    async def of_trio() -> None:
        await trio.to_thread.run_sync(time.sleep, 0)

    async def of_anyio() -> None:
        await anyio.to_thread.run_sync(time.sleep, 0)

    with meantime.record(tmp_path / "run.mtr"):
        with ThreadPool(2) as pool:
            assert pool.map(abs, [-1, -2], chunksize=1) == [1, 2]
            with pytest.raises(ZeroDivisionError) as error:
                pool.apply(divmod, (1, 0))
        trio.run(of_trio)
        asyncio.run(of_anyio())

    until_s = time.monotonic() + 30
    while {*threading.enumerate()} - before and time.monotonic() < until_s:
        # a thread that is left would be in the recordings of other tests
        time.sleep(0.005)
    # the recorder is in no traceback
    files = {Path(frame.path).name for frame in error.traceback}
    assert files == {Path(__file__).name, "pool.py"}
    recorded = read(tmp_path / "run.mtr")
    functions = {
        fields["function"]
        for path, changes in recorded.changes.items()
        for _, state, fields in changes
        if path[0] == "Workers" and state == "running"
    }
    assert functions == {"abs", "divmod", "sleep"}
    counts = _counts(tmp_path / "run.mtr")
    assert {name for name, _ in counts} >= {"ThreadPool", "trio", "anyio"}
    assert {values[-1] for values in counts.values()} == {0}


def test_an_item_that_is_cancelled_is_queued_no_longer(tmp_path: Path) -> None:
    begin = threading.Event()

    with meantime.record(tmp_path / "run.mtr"):
        executor = ThreadPoolExecutor(1, "one")
        executor.submit(begin.wait)
        executor.submit(time.sleep, 0)
        executor.shutdown(wait=False, cancel_futures=True)
        begin.set()
        executor.shutdown()

    assert _counts(tmp_path / "run.mtr")["one (1 threads)", "queued"][-1] == 0


def test_what_a_future_stands_for_is_the_reason_of_a_wait(tmp_path: Path) -> None:
    async def shielded() -> None:
        await asyncio.shield(asyncio.create_task(asyncio.sleep(0.001)))

    async def with_limit(lock: asyncio.Lock) -> None:
        await asyncio.wait_for(lock.acquire(), 10)

    async def of_future() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.001, future.set_result, None)
        await future

    async def main() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        asyncio.get_running_loop().call_later(0.001, lock.release)
        async with asyncio.TaskGroup() as group:
            for coroutine in (shielded(), with_limit(lock), of_future()):
                group.create_task(coroutine)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    reasons = _reasons(read(tmp_path / "run.mtr"))
    assert reasons["shielded"] == ["waiting:tasks"]
    assert reasons["with_limit"] == ["waiting:lock"]
    assert reasons["of_future"] == ["waiting:future"]


def test_a_socket_of_uvloop_is_the_reason_of_a_wait(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def receive(end: socket.socket) -> None:
        await asyncio.get_running_loop().sock_recv(end, 1)

    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            right.setblocking(False)
            receiving = asyncio.create_task(receive(right))
            await asyncio.sleep(0.001)
            left.send(b"x")
            await receiving

    with meantime.record(tmp_path / "run.mtr"):
        uvloop.run(main())

    assert _reasons(read(tmp_path / "run.mtr"))["receive"] == ["waiting:io-read"]


@pytest.mark.in_child_process
def test_after_a_recording_no_thread_is_watched(tmp_path: Path) -> None:
    for name in ("first.mtr", "second.mtr"):
        with meantime.record(tmp_path / name, threads=True):
            pass
        thread = threading.Thread(target=_spin, args=(10_000_000,))
        thread.start()
        thread.join()

    (path,) = read(tmp_path / "second.mtr").changes
    assert path[1].startswith("MainThread")


def test_the_main_thread_has_its_name_although_it_started_earlier(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.mtr"
    code = (
        "import meantime, os, sys; meantime.start(sys.argv[1], threads=True)\n"
        "import _thread; lock = _thread.allocate_lock(); lock.acquire(); lock.acquire(timeout=0.01)"
    )

    subprocess.run([sys.executable, "-S", "-c", _without_site(code), str(path)], check=True)

    (thread,) = [name for name in read(path).changes if name[0] == "Threads"]
    assert thread[1].startswith("MainThread ")


def _without_site(code: str) -> str:
    return f"import sys; sys.path[:] = {sys.path!r}\n{code}"


def test_a_name_that_is_recorded_after_a_wait_for_the_gil_is_the_name_of_its_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "BLOCK_RECORDS", 3)
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_text(KINDS["THREAD"], 77, "")
        for _ in range(3):
            _recorder.emit(KINDS["GIL_WAIT"])
            _recorder.emit(KINDS["RESUMED"])
        _recorder.emit_text(KINDS["THREAD"], 77, "late")

    history = meantime.open(tmp_path / "run.mtr")
    assert history.names[history.quark("Threads", "thread 77")] == "late 77"


def test_threads_of_another_interpreter_do_no_harm(tmp_path: Path) -> None:
    # once there is one, the interpreter cannot tell any more whether a thread holds the GIL
    code = """
        import sys, meantime
        meantime.start(sys.argv[1])
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import threading, time
        number = interpreters.create()
        for _ in range(5):
            threads = [threading.Thread(target=sum, args=(range(100000),)) for _ in range(8)]
            for thread in threads:
                thread.start()
            interpreters.run_string(number, "import time; time.sleep(0.001)")
            for thread in threads:
                thread.join()
        interpreters.destroy(number)
        print("ended")
    """

    printed = subprocess.run(
        [sys.executable, "-c", dedent(code), str(tmp_path / "run.mtr")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert printed.stdout == "ended\n"
    assert read(tmp_path / "run.mtr").trace.anomalies["records_lost"] == 0


def test_a_recording_can_begin_while_a_loop_polls_beside_another_interpreter(
    tmp_path: Path,
) -> None:
    # the poll, in which a thread does not hold the GIL, ends with the thread's first record
    code = """
        import asyncio, sys, threading, time, meantime
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        number = interpreters.create()
        may_end = threading.Event()

        async def poll():
            while not may_end.is_set():
                await asyncio.sleep(0.02)

        thread = threading.Thread(target=asyncio.run, args=(poll(),))
        thread.start()
        for number in range(20):
            with meantime.record(f"{sys.argv[1]}/{number}.mtr"):
                time.sleep(0.03)
        may_end.set()
        thread.join()
        print("ended")
    """

    done = subprocess.run(
        [sys.executable, "-c", dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "ended\n")
