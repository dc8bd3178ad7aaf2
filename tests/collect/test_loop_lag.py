"""What a blocked loop does to others: who is late, by how much, what ran, and whose time it was."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect import _recorder
from meantime.query.groups import group_statistics
from meantime.readers.recording.live import LiveActivity
from meantime.readers.recording.whole import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

sys.path.insert(0, str(Path(__file__).parent))

from reading import read

# in a process in which a test before has left threads of uvloop
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

MS = 10**6


def _run_asyncio(main: Callable[[], Any]) -> None:
    asyncio.run(main())


def _run_uvloop(main: Callable[[], Any]) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _time_in(path: Path, state: str, group: str = "Tasks") -> int:
    return read(path).times(group)[state]


def _activity(path: Path) -> LiveActivity:
    live = LiveActivity(path)
    live.update()
    live.finish()
    return live


def inner() -> None:
    time.sleep(0.2)  # the line that blocks


BLOCKING_LINE = inner.__code__.co_firstlineno + 1


@pytest.mark.parametrize("run", [_run_asyncio, _run_uvloop])
def test_sleeping_tasks_are_runnable_from_when_they_are_due(
    tmp_path: Path, run: Callable[[Any], None]
) -> None:
    async def sleep() -> None:
        for _ in range(5):
            await asyncio.sleep(0.01)

    async def block() -> None:
        await asyncio.sleep(0.02)
        inner()

    async def main() -> None:
        await asyncio.gather(block(), *(sleep() for _ in range(10)))

    with meantime.record(tmp_path / "run.mtr"):
        run(main)

    # each of ten was due within 10 ms of the begin of the block
    assert _time_in(tmp_path / "run.mtr", "runnable") > 1800 * MS
    (name, lag), *_ = _activity(tmp_path / "run.mtr").lags
    assert name.startswith("MainThread")
    assert lag.turns.max_ns >= 200 * MS
    # a loop that counts milliseconds may end a timer before it is due
    assert 10 <= lag.late.count <= 51


def test_a_task_of_trio_is_runnable_from_when_it_is_due(tmp_path: Path) -> None:
    trio = pytest.importorskip("trio")

    async def sleep() -> None:
        for _ in range(3):
            await trio.sleep(0.01)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(sleep)
            await trio.sleep(0.015)
            inner()

    with meantime.record(tmp_path / "run.mtr"):
        trio.run(main)

    assert _time_in(tmp_path / "run.mtr", "runnable") > 900 * MS
    assert meantime.open(tmp_path / "run.mtr").metadata.facts["runtime"] == "trio"


def test_a_loop_that_is_idle_makes_no_task_late(tmp_path: Path) -> None:
    async def sleep() -> None:
        for _ in range(30):
            await asyncio.sleep(0.005)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(sleep())

    recorded = read(tmp_path / "run.mtr").changes
    states = {state for changes in recorded.values() for _, state, _ in changes}
    assert "possibly-runnable" not in states
    # timers end up to a millisecond late, while the loop has nothing else to do; what the machine
    # has to do makes some of them later
    late_ns = [
        after[0] - before[0]
        for path, changes in recorded.items()
        if path[0] == "Tasks"
        for before, after in pairwise(changes)
        if before[1] == "runnable"
    ]
    assert len(late_ns) == 30
    assert min(late_ns) < 5 * MS / 2


@pytest.mark.parametrize("run", [_run_asyncio, _run_uvloop])
def test_data_may_have_arrived_while_the_loop_was_blocked(
    tmp_path: Path, run: Callable[[Any], None]
) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        reading = asyncio.create_task(reader.readline())
        await asyncio.sleep(0.01)
        theirs.sendall(b"now\n")
        inner()
        assert await reading == b"now\n"
        writer.close()
        theirs.close()

    for number in range(6):
        path = tmp_path / f"{number}.mtr"
        with meantime.record(path):
            run(main)
        recorded = read(path).changes
        changes = {
            path[1].split(" ")[0].rpartition(".")[2]: changes for path, changes in recorded.items()
        }
        main_changes, reading_changes = changes["main"], changes["readline"]
        # a poll in which a busy machine runs others does not show that there were data before
        if any(state == "possibly-runnable" for _, state, _ in reading_changes):
            break
    blocked_at = [state for _, state, _ in main_changes].index("waiting:tasks") - 1
    began_ns, ended_ns = main_changes[blocked_at][0], main_changes[blocked_at + 1][0]
    parked_ns = [
        time_ns
        for time_ns, state, _ in changes["MainThread"]
        if state == "parked" and time_ns < began_ns
    ]
    # from the last poll before the step that blocked to the first after it, whenever these were
    ((possible_ns, until_ns),) = [
        (before[0], after[0])
        for before, after in pairwise(reading_changes)
        if before[1] == "possibly-runnable"
    ]
    assert max(parked_ns, default=0) <= possible_ns <= began_ns
    assert until_ns >= ended_ns
    assert until_ns - possible_ns > 190 * MS


@pytest.mark.parametrize("run", [_run_asyncio, _run_uvloop])
def test_a_long_step_has_the_line_that_was_executed(
    tmp_path: Path, run: Callable[[Any], None]
) -> None:
    async def main() -> None:
        late = asyncio.create_task(asyncio.sleep(0.01))
        await asyncio.sleep(0)
        inner()
        await late

    for number in range(5):
        path = tmp_path / f"{number}.mtr"
        with meantime.record(path):
            run(main)
        live = _activity(path)
        longest = live.longest
        # a busy machine may stop another step for longer, or what takes the stack until the end
        if longest is not None and longest.code == f"inner (test_loop_lag.py:{BLOCKING_LINE})":
            break

    assert longest is not None
    assert longest.code == f"inner (test_loop_lag.py:{BLOCKING_LINE})"
    assert live.lags[0][1].late.max_ns >= 150 * MS
    assert longest.where().startswith(f"{longest.code}, in ")
    reading = Reading(path, block_ns=100 * MS)
    list(reading.trace.batches)
    # the machine may stop another step for as long
    assert longest.code in [block.code for block in reading.blocks]


def test_a_step_that_is_over_before_the_limit_has_its_line(tmp_path: Path) -> None:
    async def main() -> None:
        inner()

    # on a busy machine a stack that was only read at the limit would come too late
    for number in range(5):
        with meantime.record(tmp_path / f"{number}.mtr", blocked_ns=240 * MS):
            asyncio.run(main())
        longest = _activity(tmp_path / f"{number}.mtr").longest
        if longest is not None and longest.code:
            break

    assert longest is not None
    assert longest.code == f"inner (test_loop_lag.py:{BLOCKING_LINE})"


def test_a_long_step_without_a_limit_has_its_task(tmp_path: Path) -> None:
    async def main() -> None:
        inner()

    with meantime.record(tmp_path / "run.mtr", blocked_ns=0):
        asyncio.run(main())

    longest = _activity(tmp_path / "run.mtr").longest
    assert longest is not None
    assert longest.code == ""
    assert "main" in longest.where()


def test_a_callback_has_its_function(tmp_path: Path) -> None:
    def late() -> None:
        time.sleep(0.3)  # longer than a busy machine delays other steps

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.005, late)
        await asyncio.sleep(0.06)

    with meantime.record(tmp_path / "run.mtr", blocked_ns=0):
        asyncio.run(main())

    longest = _activity(tmp_path / "run.mtr").longest
    assert longest is not None
    assert longest.task is None
    assert longest.where().endswith(f"late (test_loop_lag.py:{late.__code__.co_firstlineno})")
    assert longest.duration_ns >= 300 * MS
    with meantime.open(tmp_path / "run.mtr") as history:
        rows = [
            *group_statistics(history, by="function").rows,
            *group_statistics(history, by="site").rows,
        ]
        found = [(row.key, row.count) for row in rows if row.kind == "Callbacks"]
        # a busy machine may make one of the loop's own callbacks long enough to be listed
        assert {(late.__qualname__, 1), (longest.where(), 1)} <= set(found)


def test_handles_are_not_kept_alive_and_raise_as_before(tmp_path: Path) -> None:
    class Thing:
        pass

    def fail(thing: Thing) -> None:
        raise ValueError(thing)

    problems: list[Any] = []
    freed = []

    async def main() -> None:
        thing = Thing()
        freed.append(weakref.ref(thing))
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context["exception"]))
        loop.call_soon(fail, thing)
        del thing
        await asyncio.sleep(0.01)
        problems.append([frame.name for frame in traceback.extract_tb(problems[0].__traceback__)])

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    assert isinstance(problems[0], ValueError)
    # the same frames as without a recorder
    assert problems[1] == ["_run", "fail"]
    problems.clear()
    gc.collect()
    assert freed[0]() is None
    assert type(vars(asyncio.Handle)["_run"]).__name__ == "function"


needs_schedstat = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="kernel without it"
)


@contextmanager
def one_processor_for_three() -> Iterator[None]:
    """Let this thread share a processor with two other programs."""
    before = os.sched_getaffinity(0)
    cpu = min(before)
    begun, begins = os.pipe()
    others = [os.fork() for _ in range(2)]
    if 0 in others:
        os.sched_setaffinity(0, {cpu})
        os.write(begins, b"x")
        end = time.monotonic() + 20
        while time.monotonic() < end and os.getppid() != 1:
            pass
        os._exit(0)
    try:
        # on a busy machine they may begin late
        for _ in others:
            os.read(begun, 1)
        os.sched_setaffinity(0, {cpu})
        time.sleep(0.05)
        yield
    finally:
        os.close(begun)
        os.close(begins)
        os.sched_setaffinity(0, before)
        for other in others:
            os.kill(other, 9)
            os.waitpid(other, 0)


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def wait_for_the_processor(nanoseconds: int) -> int:
    """Run until the kernel says that this thread waited so long; return how long it did."""
    file = Path("/proc/thread-self/schedstat")
    before_ns = int(file.read_text().split()[1])
    waited_ns = 0
    while waited_ns < nanoseconds:
        spin(0.01)
        waited_ns = int(file.read_text().split()[1]) - before_ns
    return waited_ns


@needs_schedstat
@pytest.mark.in_child_process  # other threads would wait for the GIL
def test_time_in_which_others_had_the_processor_is_not_the_steps_own(tmp_path: Path) -> None:
    async def main() -> int:
        return wait_for_the_processor(60 * MS)

    with one_processor_for_three(), meantime.record(tmp_path / "run.mtr"):
        in_the_step_ns = asyncio.run(main())

    longest = _activity(tmp_path / "run.mtr").longest
    assert longest is not None
    assert longest.waited_ns >= in_the_step_ns
    assert longest.own_ns == longest.duration_ns - longest.waited_ns
    # other threads of this process may have received the GIL meanwhile, which takes a processor
    states = ("cpu-wait", "gil-wait", "gil-handoff")
    waited_ns = sum(_time_in(tmp_path / "run.mtr", state, "Loops") for state in states)
    assert waited_ns >= longest.waited_ns


@needs_schedstat
@pytest.mark.in_child_process
def test_what_a_thread_waited_for_a_processor_is_known_when_it_sleeps(tmp_path: Path) -> None:
    async def main() -> None:
        work()
        spin(0.01)

    def work() -> None:
        wait_for_the_processor(40 * MS)
        # longer than any in which memory is fetched
        time.sleep(0.2)

    with one_processor_for_three(), meantime.record(tmp_path / "run.mtr"):
        # waits of threads are recorded from the first thread on
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        asyncio.run(main())

    history = meantime.open(tmp_path / "run.mtr")
    paths = history.attributes.path
    workers = [each for each in history.quarks("Threads/*").tolist() if "worker" in paths(each)[1]]
    for quark in [*history.quarks("Loops/*").tolist(), *workers]:
        states = [(s.value, s.end_ns - s.start_ns) for s in history.iterate(quark, 0)]
        asleep = states.index(max(each for each in states if each[0] == "sleeping"))
        # not after that, where nothing but the little that follows can be
        waited_ns = sum(ns for state, ns in states[:asleep] if state == "cpu-wait")
        assert waited_ns > 30 * MS
    assert len(workers) == 1


@needs_schedstat
@pytest.mark.in_child_process
def test_a_stack_is_taken_when_the_steps_own_time_reaches_half_of_the_limit(
    tmp_path: Path,
) -> None:
    async def main() -> int:
        begin_ns, own_begin_ns = time.monotonic_ns(), time.thread_time_ns()
        until_ns = 0
        while (own_ns := time.thread_time_ns() - own_begin_ns) < 60 * MS:
            if own_ns < 20 * MS:
                until_ns = time.monotonic_ns() - begin_ns
        return until_ns

    # That of a shorter step is taken now and then, so the last one counts. Where the watcher waits
    # for a processor, too, it may read what is no longer true.
    early = []
    for attempt in range(4):
        path = tmp_path / f"run{attempt}.mtr"
        with one_processor_for_three(), meantime.record(path):
            until_ns = asyncio.run(main())
        longest = _activity(path).longest
        assert longest is not None
        if longest.code_ns < longest.begin_ns + until_ns:
            early.append((longest, until_ns))

    assert len(early) <= 1, early


def test_a_callback_begins_before_what_it_does(tmp_path: Path) -> None:
    def callbacks() -> Iterator[Callable[[], None]]:
        for number in range(20):
            # each has a location of its own, which takes long to define
            name = f"callback_{number}"
            code = f"def {name}():\n began.append(now())\n sleep(0.001)"
            scope: dict[str, Any] = {"began": began, "now": time.monotonic_ns, "sleep": time.sleep}
            exec(code, scope)  # noqa: S102 - a function of its own
            yield scope[name]

    began: list[int] = []

    async def main() -> None:
        for callback in callbacks():
            asyncio.get_running_loop().call_soon(callback)
            await asyncio.sleep(0.005)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    origin_ns = Reading(tmp_path / "run.mtr").origin_ns
    history = meantime.open(tmp_path / "run.mtr")
    starts = sorted(
        each.start_ns
        for quark in history.quarks("Callbacks/*/*").tolist()
        for each in history.iterate(quark, 0)
        if each.value and history.attributes.path(quark)[1].startswith("callback_")
    )
    assert len(starts) == 20
    assert all(start <= at - origin_ns for start, at in zip(starts, began, strict=True))


FORKING = """\
import asyncio, os, sys, time
import meantime

def count():
    return len(os.listdir("/proc/self/task"))

def block():
    time.sleep(0.5)

async def main():
    print(count())
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(count())
    await asyncio.sleep(0.001)
    print(count())
    # so that the step that blocks does nothing else
    await asyncio.sleep(0)
    block()

with meantime.record(sys.argv[1]):
    asyncio.run(main())
"""


def test_no_thread_is_left_when_the_program_forks(tmp_path: Path) -> None:
    # a program of its own, in which no other test has left a thread
    program = tmp_path / "forking.py"
    program.write_text(FORKING)

    done = subprocess.run(
        [sys.executable, program, tmp_path / "run.mtr"], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["2", "1", "2"]
    reading = Reading(tmp_path / "run.mtr", block_ns=500 * MS)
    list(reading.trace.batches)
    # to fork may take as long
    assert "block (forking.py:8)" in [block.code for block in reading.blocks]


def test_the_kernel_counts_no_thread_of_the_recorder_where_the_program_forks(
    tmp_path: Path,
) -> None:
    code = """
import asyncio, os, sys
import meantime

async def main():
    counts = []
    for _ in range(60):
        # the watcher is there again
        await asyncio.sleep(0.001)
        child = os.fork()
        if child == 0:
            os._exit(0)
        counts.append(len(os.listdir("/proc/self/task")))
        os.waitpid(child, 0)
    print(max(counts))

with meantime.record(sys.argv[1]):
    asyncio.run(main())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run.mtr")]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"1\n"


def test_times_of_the_counter_are_those_of_the_clock(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        pairs = []
        for _ in range(60):
            before_ns = time.monotonic_ns()
            _recorder.emit(_recorder.KINDS["SUBMIT"], 1, 0)
            pairs.append((before_ns, time.monotonic_ns()))
            time.sleep(0.001)
    words = b"".join(path.read_bytes()[64:] for path in tmp_path.glob("run.mtr/*.ev"))
    times = [
        (int.from_bytes(words[at : at + 8], "little") >> 8) + _recorder.base_ns()
        for at in range(0, len(words), 16)
        if words[at] == _recorder.KINDS["SUBMIT"]
    ]
    assert len(times) == 60
    assert times == sorted(times)
    assert all(
        first - 2000 <= time_ns <= last + 2000
        for time_ns, (first, last) in zip(times, pairs, strict=True)
    )


def test_a_loop_of_another_thread_is_watched(tmp_path: Path) -> None:
    async def main() -> None:
        inner()

    with meantime.record(tmp_path / "run.mtr"):
        thread = threading.Thread(target=lambda: asyncio.run(main()), name="other")
        thread.start()
        thread.join()

    longest = _activity(tmp_path / "run.mtr").longest
    assert longest is not None
    assert longest.loop is not None
    assert longest.loop[1].startswith("other ")
    assert longest.code == f"inner (test_loop_lag.py:{BLOCKING_LINE})"


def test_a_wait_for_the_gil_has_the_thread_that_had_it(tmp_path: Path) -> None:
    def compute() -> None:
        # one operation of the interpreter, in which it cannot pass the GIL on
        number = 3 ** (1 << 18)
        while not ended.is_set():
            assert number * number

    async def main() -> None:
        for _ in range(10):
            await asyncio.sleep(0.002)
        ended.set()

    ended = threading.Event()

    thread = threading.Thread(target=compute, name="computes")
    with meantime.record(tmp_path / "run.mtr", threads=True):
        thread.start()
        asyncio.run(main())
        thread.join()

    reading = Reading(tmp_path / "run.mtr", block_ns=5 * MS)
    list(reading.trace.batches)
    # a busy machine may make it wait longer for a processor
    blocks = [block for block in reading.blocks if block.gil_ns > MS]
    assert blocks
    assert all(block.gil_holder.startswith("computes ") for block in blocks)
    assert "waiting for the GIL, which computes " in blocks[0].waits()
