"""What a recording says is what happened, whatever became of the program."""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect import _recorder
from meantime.model.anomalies import Anomalies
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.merge import Records, merged
from meantime.readers.recording.streams import stream_words

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SPAWN, WAIT, WAKE, FLUSH = 1, 5, 11, 50

# counts are exact, so that threads which other tests left may not be recorded
pytestmark = pytest.mark.in_child_process


def _run_script(text: str, path: Path) -> subprocess.CompletedProcess[str]:
    prelude = "import os, sys, signal, meantime\nfrom meantime.collect import _recorder\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + text, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def _all_events(path: Path, kind: int) -> list[int]:
    found: list[int] = []
    for process in open_recording(path).processes:
        for stream in process.streams.values():
            words = stream_words(stream, Anomalies())
            for item in merged([(words.pieces, 0)]):
                assert isinstance(item, Records)
                found += item.ident[item.kind == kind].tolist()
    return found


def test_every_wait_has_its_reason(tmp_path: Path) -> None:
    async def main() -> None:
        lock, event, queue = asyncio.Lock(), asyncio.Event(), asyncio.Queue[int]()
        semaphore, condition = asyncio.Semaphore(0), asyncio.Condition()
        unfinished = asyncio.Queue[int]()
        future = asyncio.get_running_loop().create_future()

        async def wait_lock() -> None:
            async with lock:
                pass

        async def wait_condition() -> None:
            async with condition:
                await condition.wait()

        async def wait_task() -> None:
            await asyncio.create_task(asyncio.sleep(0.001))

        async def wait_gathered() -> None:
            await asyncio.gather(asyncio.sleep(0.001), asyncio.sleep(0.001))

        async def wait_future() -> None:
            await future

        async def wait_thread() -> None:
            await asyncio.to_thread(time.sleep, 0.1)

        async def wait_children() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0.001))

        await lock.acquire()
        unfinished.put_nowait(1)
        async with asyncio.TaskGroup() as group:
            for coroutine in (
                wait_lock(),
                wait_condition(),
                wait_task(),
                wait_gathered(),
                wait_future(),
                wait_thread(),
                wait_children(),
                event.wait(),
                queue.get(),
                unfinished.join(),
                semaphore.acquire(),
            ):
                group.create_task(coroutine)
            await asyncio.sleep(0.002)
            lock.release()
            event.set()
            queue.put_nowait(1)
            unfinished.task_done()
            semaphore.release()
            future.set_result(None)
            async with condition:
                condition.notify()

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    reasons = {
        path[1].split(" ")[0].rsplit(".", 1)[-1]: state
        for path, changes in recorded.changes.items()
        for _, state, _ in changes
        if state is not None and state.startswith("waiting")
    }
    assert {name: state for name, state in reasons.items() if name.startswith("wait_")} == {
        "wait_lock": "waiting:lock",
        "wait_condition": "waiting:condition",
        "wait_task": "waiting:tasks",
        "wait_gathered": "waiting:tasks",
        "wait_future": "waiting:future",
        "wait_thread": "waiting:thread",
        "wait_children": "waiting:children",
    }
    assert reasons["wait"] == "waiting:event"
    assert reasons["get"] == "waiting:queue"
    assert reasons["join"] == "waiting:queue"
    assert reasons["acquire"] == "waiting:semaphore"
    assert reasons["main"] == "waiting:children"


def test_streams_wait_to_read_and_to_write(tmp_path: Path) -> None:
    async def main() -> None:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.01)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(20_000_000))
        await writer.drain()
        writer.write_eof()
        await reader.read()
        writer.close()
        server.close()

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    assert {"waiting:io-read", "waiting:io-write"} <= set(recorded.times("Tasks"))
    # what a loop's callback spawns is not put down to the line that runs the loop
    assert any(".take (streams.py:" in path[1] for path in recorded.changes)


def test_the_ends_of_tasks_are_distinguished(tmp_path: Path) -> None:
    async def main() -> None:
        async def complete() -> None:
            await asyncio.sleep(0)

        async def fail() -> None:
            raise ValueError

        async def clean_up() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(0.001)

        tasks = [asyncio.create_task(each()) for each in (complete, fail, clean_up)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    ends = {
        path[1].split(" ")[0].rsplit(".", 1)[-1]: [state for _, state, _ in changes]
        for path, changes in recorded.changes.items()
        if path[0] == "Tasks"
    }
    assert ends["complete"] == [
        "spawned",
        "running",
        # sleep(0) only lets others run
        "runnable",
        "running",
        "completed",
        None,
    ]
    assert ends["fail"] == ["spawned", "running", "failed", None]
    assert ends["clean_up"] == [
        "spawned",
        "running",
        "waiting:sleep",
        "runnable",
        "running",
        "cancelling",
        "runnable",
        "running",
        "cancelled",
        None,
    ]


def test_a_task_names_its_site_its_wait_and_who_woke_it(tmp_path: Path) -> None:
    async def main() -> None:
        event = asyncio.Event()

        async def sleeper() -> None:
            await event.wait()

        async def waker() -> None:
            event.set()

        sleeping = asyncio.create_task(sleeper(), name="sleeping beauty")
        await asyncio.create_task(waker())
        await sleeping

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    trace = recorded.trace
    (entity,) = [entity for entity, name in trace.names.items() if name == "sleeping beauty"]
    path = trace.paths[entity]
    woken_by = [left for name, left, right in recorded.flows if name == "wake" and right == path]
    spawned_by = [left for name, left, right in recorded.flows if name == "spawn" and right == path]
    wait = next(tag for _, state, tag in recorded.changes[path] if state == "waiting:event")
    assert path[1].startswith("test_a_task_names_its_site")
    assert "sleeper (test_recording.py:" in path[1]
    assert ["waker" in left[1] for left in woken_by] == [True]
    assert ["main" in left[1] for left in spawned_by] == [True]
    assert str(wait["function"]).endswith("sleeper")


def test_a_task_is_woken_by_the_end_of_the_task_that_it_awaits(tmp_path: Path) -> None:
    async def main() -> None:
        async def shared() -> None:
            await asyncio.sleep(0.01)

        async def waits(task: asyncio.Task[None]) -> None:
            await task

        async def ends_later() -> None:
            await may_end.wait()

        may_end = asyncio.Event()
        later = asyncio.create_task(ends_later())
        await asyncio.gather(waits(asyncio.create_task(shared())), asyncio.sleep(0))
        await asyncio.wait([later], timeout=0.001)
        may_end.set()
        await later

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    wakes = [
        tuple(path[1].partition(" ")[0].rpartition(".")[2] for path in (left, right))
        for name, left, right in read(tmp_path / "run.mtr").flows
        if name == "wake"
    ]
    # a time limit wakes, too, and is no task
    assert wakes == [
        ("shared", "waits"),
        ("waits", "main"),
        ("main", "ends_later"),
        ("ends_later", "main"),
    ]


def test_a_task_has_the_name_of_the_function_that_was_written(tmp_path: Path) -> None:
    def retried(function: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        @functools.wraps(function)
        async def wrapper() -> None:
            await function()

        return wrapper

    @retried
    @retried
    async def decorated() -> None:
        await asyncio.sleep(0)

    async def called() -> None:
        await asyncio.sleep(0)

    async def renamed() -> None:
        await asyncio.sleep(0)

    class Job:
        @retried
        async def run(self: Any = None) -> None:
            await asyncio.sleep(0)

    renamed.__qualname__ = "load"

    async def main() -> None:
        tasks = [decorated(), asyncio.wait_for(called(), 60), renamed(), Job.run()]
        await asyncio.gather(*map(asyncio.create_task, tasks))
        if importlib.util.find_spec("anyio") is not None:
            anyio = importlib.import_module("anyio")
            async with anyio.create_task_group() as group:
                group.start_soon(called)

    # of uvloop, a coroutine that is in no list of arguments
    is_there = importlib.util.find_spec("uvloop") is not None
    run = importlib.import_module("uvloop").run if is_there else asyncio.run
    with meantime.record(tmp_path / "run.mtr"):
        run(main())

    recorded = read(tmp_path / "run.mtr")
    here = f"{test_a_task_has_the_name_of_the_function_that_was_written.__name__}.<locals>."
    names = {
        path[1].rpartition(" (")[0].removeprefix(here)
        for path in recorded.changes
        if path[0] == "Tasks" and "test_recording.py" in path[1]
    }
    assert names >= {"main", "decorated", "called", "load", "Job.run"}
    assert not any("wrapper" in name or "_run_coro" in name for name in names)


def test_tasks_that_are_created_by_their_type_are_recorded_once(tmp_path: Path) -> None:
    async def step() -> int:
        await asyncio.sleep(0.001)
        return 7

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.Task(step(), loop=loop, name="by type"), loop.create_task(step())]
        with pytest.raises(TypeError):
            asyncio.Task(7, loop=loop)  # type: ignore[arg-type] # what is wrong stays wrong
        assert await asyncio.gather(*tasks) == [7, 7]

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())
    asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    found = [rows for path, rows in recorded.changes.items() if ".step (" in path[1]]
    assert "by type" in recorded.trace.names.values()
    assert len(found) == 2
    for rows in found:
        assert [state for _, state, _ in rows][:3] == ["spawned", "running", "waiting:sleep"]
        assert [state for _, state, _ in rows][-2:] == ["completed", None]


def test_pool_items_lead_from_task_to_worker_and_back(tmp_path: Path) -> None:
    def work() -> int:
        # until the task waits for its result: since 3.14, it need not if there is one already
        while "WAIT" not in waits:
            time.sleep(0.001)
        return threading.get_native_id()

    waits: list[str] = []

    async def main() -> int:
        asyncio.get_running_loop().call_soon(waits.append, "WAIT")
        return await asyncio.to_thread(work)

    with meantime.record(tmp_path / "run.mtr"):
        worker = asyncio.run(main())
        # a thread can be joined a moment before it ends
        while Path(f"/proc/self/task/{worker}").exists():
            time.sleep(0.001)

    recorded = read(tmp_path / "run.mtr")
    ways = {(name, left[0], right[0]) for name, left, right in recorded.flows}
    assert {("submit", "Tasks", "Workers"), ("result", "Workers", "Tasks")} <= ways
    (states,) = recorded.states("Workers", "asyncio_0")
    # it may also wait for the interpreter while it runs the item
    assert [state for state in states if state not in ("gil-wait", None)][-2:] == [
        *("idle", "stopped"),
    ]
    assert states[0] == "running"


def test_a_blocked_loop_shows_in_what_was_runnable(tmp_path: Path) -> None:
    async def main() -> None:
        async def tick() -> None:
            await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        deadline = time.monotonic() + 0.03
        while time.monotonic() < deadline:
            pass
        await ticking

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    times = read(tmp_path / "run.mtr").times("Tasks")
    assert times["running"] >= 30_000_000


@pytest.mark.parametrize("trace", ["tasks", "workers", "both", "none"])
def test_only_the_requested_kinds_are_recorded(tmp_path: Path, trace: str) -> None:
    with meantime.record(tmp_path / "run.mtr", trace=trace):  # type: ignore[arg-type] # one of them, by parametrize
        asyncio.run(asyncio.sleep(0.001))

    groups = {path[0] for path in read(tmp_path / "run.mtr").changes}
    # on a busy machine a callback may take long enough for a row
    assert (
        groups - {"Callbacks"}
        == {
            "tasks": {"Tasks"},
            "workers": {"Loops"},
            "both": {"Tasks", "Loops"},
            "none": set(),
        }[trace]
    )


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os._exit(3)", 3),
    ],
)
@pytest.mark.parametrize("count", [100, 4094, 4095, 30_007])
def test_no_event_is_lost_when_the_program_dies(
    tmp_path: Path, end: str, status: int, count: int
) -> None:
    done = _run_script(
        f"meantime.start(sys.argv[1])\n_recorder.emit_many({WAIT}, {count})\n{end}\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == status, done.stderr
    assert _all_events(tmp_path / "run.mtr", WAIT) == list(range(count))


@pytest.mark.parametrize("policy", ["block", "drop"])
def test_a_full_disk_loses_counted_records_and_not_the_program(tmp_path: Path, policy: str) -> None:
    done = _run_script(
        "import resource\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"meantime.start(sys.argv[1], policy={policy!r})\n"
        "_recorder.emit_many(5, 10)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))\n"
        "_recorder.emit_many(5, 200_000)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "meantime.stop()\nprint('went on')\n",
        tmp_path / "run.mtr",
    )

    trace = read(tmp_path / "run.mtr").trace
    events = len(_all_events(tmp_path / "run.mtr", WAIT))
    assert done.stdout == "went on\n", done.stderr
    assert trace.anomalies["records_lost"] > 0
    assert events + trace.anomalies["records_lost"] == 200_010


def test_a_loop_whose_disk_was_full_for_a_while_can_be_looked_at(tmp_path: Path) -> None:
    done = _run_script(
        "import asyncio, resource\n"
        "async def main():\n"
        "    await asyncio.sleep(0)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))\n"
        "    for _ in range(20):\n"
        "        _recorder.emit_many(5, 10_000)\n"
        "        await asyncio.sleep(0)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "meantime.start(sys.argv[1])\n"
        "asyncio.run(main())\n"
        "meantime.stop()\n",
        tmp_path / "run.mtr",
    )

    told = subprocess.run(
        [sys.executable, "-m", "meantime", "info", str(tmp_path / "run.mtr")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert told.returncode == 0, told.stderr
    assert "records_lost" in told.stdout


def test_dropping_counts_what_it_drops(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="drop"):
        _recorder.emit_many(WAIT, 200_000)

    lost = read(tmp_path / "run.mtr").trace.anomalies["records_lost"]
    assert len(_all_events(tmp_path / "run.mtr", WAIT)) + lost == 200_000


def test_a_recording_with_a_limit_keeps_the_newest(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", max_bytes=1_000_000):
        _recorder.emit_many(WAKE, 400_000)

    size = sum(entry.stat().st_size for entry in (tmp_path / "run.mtr").glob("*.ev"))
    events = _all_events(tmp_path / "run.mtr", WAKE)
    gone = read(tmp_path / "run.mtr").trace.anomalies["records_rotated"]
    assert 500_000 < size <= 1_100_000
    assert events == list(range(400_000 - len(events), 400_000))
    assert gone >= 400_000 - len(events)


def test_a_task_repeats_its_identity_after_its_beginning_was_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async def long() -> None:
            for _ in range(4):
                _recorder.emit_many(FLUSH, 100_000)
                await asyncio.sleep(0)

        await asyncio.create_task(long(), name="long one")

    with meantime.record(tmp_path / "run.mtr", max_bytes=1_000_000):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    names = {recorded.trace.paths[entity][1] for entity in recorded.trace.names}
    assert ["long (test_recording.py" in name for name in names] == [True]


def test_the_time_of_writing_is_not_counted_for_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        _recorder.emit_many(WAKE, 100_000)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    (process,) = open_recording(tmp_path / "run.mtr").processes
    (item,) = merged([(stream_words(process.streams[0], Anomalies()).pieces, 0)])
    assert isinstance(item, Records)
    written_ns = item.ident[item.kind == FLUSH].astype(int)
    assert len(written_ns) == 24
    assert recorded.times("Loops")["collector-stall"] == written_ns.sum()
    (states,) = recorded.states("Loops")
    # on a busy machine it waits for a processor and for memory too
    waits = {"cpu-wait", "sleeping"}
    states = [state for state, _ in groupby(state for state in states if state not in waits)]
    assert states[:4] == ["running", "collector-stall", "running", "collector-stall"]


def test_what_went_is_a_gap_from_the_beginning_on(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(4):
            _recorder.emit_many(FLUSH, 50_000)
            await asyncio.sleep(0)

    with meantime.record(tmp_path / "run.mtr", max_bytes=1_000_000):
        asyncio.run(main())

    history = meantime.open(tmp_path / "run.mtr")
    (loop,) = history.quarks("Loops/*")
    states = history.intervals([loop])
    first = next(states[row] for row in range(len(states)) if states[row].value is not None)
    gone = sorted(history.lost)
    # what went follows one another, and a loop is in no state until the first that is left
    assert history.bounds[0] == 0
    assert (states[0].start_ns, states[0].value) == (0, None)
    assert len(gone) > 1
    assert gone[0][0] >= 0
    assert all(before[1] <= after[0] for before, after in pairwise(gone))
    assert gone[-1][1] <= first.start_ns


def test_a_ring_is_dumped_on_request_and_counts_what_it_overwrote(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="ring", ring_bytes=200_000):
        _recorder.emit_many(WAIT, 100_000)
        _recorder.dump()
        _recorder.emit_many(WAKE, 100_000)

    waits = _all_events(tmp_path / "run.mtr", WAIT)
    wakes = _all_events(tmp_path / "run.mtr", WAKE)
    lost = read(tmp_path / "run.mtr").trace.anomalies["records_lost"]
    assert waits == list(range(100_000 - len(waits), 100_000))
    assert wakes == list(range(100_000 - len(wakes), 100_000))
    assert len(waits) + len(wakes) + lost == 200_000


def test_a_ring_of_a_killed_program_is_read_from_its_tail(tmp_path: Path) -> None:
    _run_script(
        "meantime.start(sys.argv[1], policy='ring', ring_bytes=200_000)\n"
        f"_recorder.emit_many({WAIT}, 100_000)\nos.kill(os.getpid(), 9)\n",
        tmp_path / "run.mtr",
    )

    events = _all_events(tmp_path / "run.mtr", WAIT)
    assert len(events) > 8_000
    assert events == list(range(100_000 - len(events), 100_000))


def test_a_loop_blocked_too_long_writes_the_ring_out(tmp_path: Path) -> None:
    async def block() -> None:
        time.sleep(0.6)  # noqa: ASYNC251 - it is to block
        assert not list((tmp_path / "run.mtr").glob("*.ev"))
        await asyncio.sleep(0)
        assert list((tmp_path / "run.mtr").glob("*.ev"))

    with meantime.record(tmp_path / "run.mtr", policy="ring", blocked_ns=500_000_000):
        asyncio.run(block())


def test_a_fork_writes_its_own_files(tmp_path: Path) -> None:
    done = _run_script(
        "meantime.start(sys.argv[1])\n_recorder.emit_many(5, 100)\n"
        "child = os.fork()\n"
        "_recorder.emit_many(11, 5_000)\n"
        "if not child: os._exit(0)\n"
        "os.waitpid(child, 0)\nmeantime.stop()\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    assert len(_all_events(tmp_path / "run.mtr", WAIT)) == 100
    assert sorted(_all_events(tmp_path / "run.mtr", WAKE)) == sorted([*range(5_000)] * 2)


def test_a_forked_child_has_the_locations_of_its_parent(tmp_path: Path) -> None:
    done = _run_script(
        "import asyncio\n"
        "async def work(): await asyncio.sleep(0)\n"
        "meantime.start(sys.argv[1])\n"
        "asyncio.run(work())\n"
        "child = os.fork()\n"
        "asyncio.run(work())\n"
        "if not child: os._exit(0)\n"
        "os.waitpid(child, 0)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    tasks = [path for path in read(tmp_path / "run.mtr").changes if path[1].startswith("work")]
    assert len(tasks) == 3
    assert all("unknown" not in path[1] for path in tasks)


def test_threads_that_come_and_go_share_their_files(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        for number in range(1_000):
            thread = threading.Thread(target=_recorder.emit, args=(WAIT, number))
            thread.start()
            thread.join()

    assert sorted(_all_events(tmp_path / "run.mtr", WAIT)) == list(range(1_000))
    # the main thread's, and those of threads that had not quite ended when the next began
    assert len(list((tmp_path / "run.mtr").glob("*.ev"))) <= 5


def test_a_recording_is_readable_while_it_grows(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(WAIT, 10_000)
        before = len(_all_events(tmp_path / "run.mtr", WAIT))
        _recorder.emit_many(WAIT, 10)
        after = len(_all_events(tmp_path / "run.mtr", WAIT))

    assert (before, after) == (10_000, 10_010)


def test_a_thread_that_starts_after_the_end_is_not_reported(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", duration_ns=1):
        thread = threading.Thread(target=_recorder.emit, args=(WAIT, 1))
        thread.start()
        thread.join()

    assert not list((tmp_path / "run.mtr").glob("*.ev"))


def test_a_recording_for_a_time_ends_by_itself(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", duration_ns=1):
        _recorder.emit_many(WAIT, 100)

    assert _all_events(tmp_path / "run.mtr", WAIT) == []


@pytest.mark.parametrize(
    ("what", "anomalies"),
    [
        ("recording.json", {"description_damaged": 1}),
        # its last record, that the recording has ended, is not there either
        ("facts", {"file_damaged": 1, "truncated": 1}),
        # whose stream it is, and what was emitted
        ("ev", {"file_damaged": 1, "records_missing": 102}),
    ],
)
def test_a_damaged_file_is_counted_and_the_rest_is_read(
    tmp_path: Path, what: str, anomalies: dict[str, int]
) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(WAIT, 100)
    (damaged,) = list((tmp_path / "run.mtr").glob(f"*{what}"))
    damaged.write_bytes(b"x" * 100)

    assert dict(read(tmp_path / "run.mtr").trace.anomalies) == anomalies


def test_a_file_cut_in_a_record_gives_what_is_before(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        _recorder.emit_many(SPAWN, 100)
        _recorder.emit_text(128, 1, "a name of some length, to be cut")
    (segment,) = (tmp_path / "run.mtr").glob("*.ev")
    os.truncate(segment, segment.stat().st_size - 20)

    recorded = read(tmp_path / "run.mtr")

    assert len(recorded.changes) == 100
    assert recorded.trace.anomalies["truncated"] == 1
