"""Loops and tasks that are there when a recording begins, and what is left when it ends."""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect import _recorder, session

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from reading import Recorded


def _uvloop() -> asyncio.AbstractEventLoop:
    uvloop = pytest.importorskip("uvloop")
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, _uvloop])


def _states(recorded: Recorded, function: str) -> list[list[str | None]]:
    return [
        [state for _, state, _ in changes]
        for path, changes in recorded.changes.items()
        if path[0] == "Tasks" and path[1].split(" ")[0].rsplit(".", 1)[-1] == function
    ]


class _Elsewhere:
    """A loop that runs in another thread."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="elsewhere", daemon=True)
        self._thread.start()
        self.run(asyncio.sleep(0))

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others)


@LOOPS
def test_tasks_that_are_there_are_in_the_state_they_are_in(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        event, queue = asyncio.Event(), asyncio.Queue[int]()

        async def waits() -> None:
            await event.wait()

        async def woken() -> None:
            await queue.get()

        async def new() -> None:
            pass

        async def yields() -> None:
            await asyncio.sleep(0)

        tasks = [asyncio.create_task(each()) for each in (waits, woken, yields)]
        await asyncio.sleep(0)
        queue.put_nowait(1)
        tasks.append(asyncio.create_task(new()))
        async with meantime.record(tmp_path / "run.mtr"):
            event.set()
            await asyncio.gather(*tasks)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())

    recorded = read(tmp_path / "run.mtr")
    ending = ["running", "completed", None]
    assert _states(recorded, "waits") == [["waiting:event", "runnable", *ending]]
    assert _states(recorded, "woken") == [["waiting:queue", "runnable", *ending]]
    assert _states(recorded, "yields") == [["runnable", *ending]]
    assert _states(recorded, "new") == [["spawned", *ending]]
    # who wakes and spawns is known of the one that runs already, too
    assert _states(recorded, "main") == [["running", "waiting:tasks", "runnable", "running", None]]
    assert any(
        name == "wake" and "main" in left[1] and "waits" in right[1]
        for name, left, right in recorded.flows
    )


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_task_whose_only_step_had_begun_has_its_end(tmp_path: Path, end: str) -> None:
    async def begins() -> None:
        meantime.start(tmp_path / "run.mtr")
        if end == "failed":
            raise KeyError
        if end == "cancelled":
            raise asyncio.CancelledError

    async def main() -> None:
        task = asyncio.create_task(begins())
        await asyncio.wait([task])
        meantime.stop()

    asyncio.run(main())

    assert _states(read(tmp_path / "run.mtr"), "begins") == [["running", end, None]]


@LOOPS
def test_a_loop_of_another_thread_is_taken_over(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    elsewhere = _Elsewhere(new_loop)

    numbers: asyncio.Queue[int] = asyncio.Queue()
    taking: list[asyncio.Task[None]] = []

    async def take() -> None:
        while True:
            await numbers.get()

    async def spawn() -> None:
        taking.append(asyncio.create_task(take()))
        await asyncio.sleep(0)

    async def put() -> None:
        numbers.put_nowait(1)
        # each lets all that are ready run a step
        for _ in range(3):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)

    elsewhere.run(spawn())
    with meantime.record(tmp_path / "run.mtr"):
        elsewhere.run(put())
    hooked = "call_soon" in getattr(elsewhere.loop, "__dict__", {})
    elsewhere.close()

    recorded = read(tmp_path / "run.mtr")
    (states,) = _states(recorded, "take")
    loops = {path[1].split(" ")[0] for path in recorded.changes if path[0] == "Loops"}
    assert states[:4] == ["waiting:queue", "runnable", "running", "waiting:queue"]
    assert loops == {"elsewhere"}
    assert {"running", "parked"} <= set(recorded.times("Loops"))
    assert not hooked


def test_a_loop_of_another_thread_that_has_no_tasks_is_taken_over(tmp_path: Path) -> None:
    elsewhere = _Elsewhere(asyncio.new_event_loop)

    with meantime.record(tmp_path / "run.mtr"):
        elsewhere.run(asyncio.sleep(0.001))
    elsewhere.loop.call_soon_threadsafe(elsewhere.loop.stop)
    elsewhere._thread.join()
    elsewhere.loop.close()

    recorded = read(tmp_path / "run.mtr")
    assert {"running", "parked"} <= set(recorded.times("Loops"))


def test_parked_is_as_long_as_a_uvloop_sleeps(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"), asyncio.Runner(loop_factory=_uvloop) as runner:
        runner.run(asyncio.sleep(0.2))

    recorded = read(tmp_path / "run.mtr")
    ((path, _),) = [item for item in recorded.changes.items() if item[0][0] == "Loops"]
    assert path[1].startswith("MainThread")
    assert recorded.times("Loops")["parked"] > 25_000_000


@pytest.mark.parametrize("selector", [selectors.SelectSelector, selectors.PollSelector])
def test_a_loop_with_another_selector_is_parked_too(
    tmp_path: Path, selector: type[selectors.BaseSelector]
) -> None:
    loop = asyncio.SelectorEventLoop(selector())
    with meantime.record(tmp_path / "run.mtr"):
        loop.run_until_complete(asyncio.sleep(0.2))
    loop.close()

    assert read(tmp_path / "run.mtr").times("Loops")["parked"] > 25_000_000


def test_an_epoll_of_a_thread_without_a_loop_is_not_a_loops(tmp_path: Path) -> None:
    def poll() -> None:
        with select.epoll() as epoll:
            epoll.poll(0.001)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(asyncio.to_thread(poll))

    loops = {
        path[1].split(" ")[0] for path in read(tmp_path / "run.mtr").changes if path[0] == "Loops"
    }
    assert loops == {"MainThread"}


def test_a_uvloop_without_workers_is_not_watched(tmp_path: Path) -> None:
    with (
        meantime.record(tmp_path / "run.mtr", trace="tasks"),
        asyncio.Runner(loop_factory=_uvloop) as runner,
    ):
        runner.run(asyncio.sleep(0.001))

    assert {path[0] for path in read(tmp_path / "run.mtr").changes} == {"Tasks"}


def _slots() -> list[int]:
    """The entries of uvloop's and the interpreter's tables: where their calls go."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    values: list[int] = []
    for line in maps:
        if any(name in line for name in ("uvloop/loop", "libpython", "/select.")) and (
            " rw-p" in line or " r--p" in line
        ):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            with Path("/proc/self/mem").open("rb") as memory:
                memory.seek(begin)
                values += memoryview(memory.read(end - begin)).cast("Q").tolist()
    return values


def _recorder_range() -> tuple[int, int]:
    ranges = [
        tuple(int(part, 16) for part in line.split()[0].split("-"))
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "_recorder" in line and " r-xp" in line
    ]
    return ranges[0]  # type: ignore[return-value] # two numbers


def test_after_a_recording_nothing_calls_the_recorder(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")

    async def work() -> None:
        await asyncio.sleep(0.001)

    def into_the_recorder() -> int:
        begin, end = _recorder_range()
        return sum(begin <= value < end for value in _slots())

    with meantime.record(tmp_path / "run.mtr", threads=True):
        asyncio.run(work())
        during = into_the_recorder()

    assert during > 0
    assert into_the_recorder() == 0


def test_after_a_recording_tasks_have_their_own_coroutines(tmp_path: Path) -> None:
    async def main() -> list[bool]:
        before = asyncio.create_task(asyncio.sleep(0.001))
        meantime.start(tmp_path / "run.mtr")
        tasks = [before, asyncio.create_task(asyncio.sleep(0.001))]
        await asyncio.sleep(0)
        assert types.CoroutineType not in {type(_recorder.coroutine_of(task)) for task in tasks}
        meantime.stop()
        tasks.append(asyncio.create_task(asyncio.sleep(0.001)))
        await asyncio.gather(*tasks)
        return [type(_recorder.coroutine_of(task)) is types.CoroutineType for task in tasks]

    assert asyncio.run(main()) == [True] * 3


def test_a_task_continues_from_one_recording_to_the_next(tmp_path: Path) -> None:
    async def long(event: asyncio.Event) -> None:
        await event.wait()

    async def main() -> None:
        event = asyncio.Event()
        task = asyncio.create_task(long(event), name="long one")
        for name in ("a", "b"):
            async with meantime.record(tmp_path / name):
                await asyncio.sleep(0)
        event.set()
        await task

    asyncio.run(main())

    for name in ("a", "b"):
        recorded = read(tmp_path / name)
        assert "long one" in recorded.trace.names.values()
        (states,) = _states(recorded, "long")
        assert states[0] == {"a": "spawned", "b": "waiting:event"}[name]


def test_what_others_register_as_tasks_is_left_alone(tmp_path: Path) -> None:
    class Odd:
        """Has no more of a task than asyncio itself asks it for."""

        _loop = None

        def done(self) -> bool:
            return False

    odd: Any = Odd()
    asyncio._register_task(odd)

    try:
        with meantime.record(tmp_path / "run.mtr"):
            asyncio.run(asyncio.sleep(0))
    finally:
        asyncio._unregister_task(odd)
    assert len(_states(read(tmp_path / "run.mtr"), "sleep")) == 1


def test_a_trio_that_runs_is_taken_over(tmp_path: Path) -> None:
    trio = pytest.importorskip("trio")

    async def waits(event: Any) -> None:
        await event.wait()

    async def main() -> list[type]:
        event = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits, event)
            await trio.sleep(0.05)
            with meantime.record(tmp_path / "run.mtr"):
                event.set()
                await trio.sleep(0.05)
            return [type(task.coro) for task in nursery.child_tasks]

    assert trio.run(main) == []
    recorded = read(tmp_path / "run.mtr")
    assert _states(recorded, "waits") == [
        ["waiting:event", "runnable", "running", "completed", None]
    ]
    assert _states(recorded, "main")[0][:3] == ["running", "waiting:sleep", "runnable"]


async def _suspend(until: asyncio.Event) -> None:
    await until.wait()


async def _another(until: asyncio.Event) -> None:
    await until.wait()


def test_an_interpreter_whose_structures_are_elsewhere_is_recognised() -> None:
    """As in a release candidate, whose frames may have other members."""
    event = asyncio.Event()
    created = _suspend(event)
    try:
        assert _recorder.unexpected_in(created, _suspend, event, "created") is None
        for function, argument, state, unexpected in (
            (_suspend, event, "suspended", "states of coroutines"),
            (_suspend, event, "ended", "states of coroutines"),
            (_suspend, asyncio.Event(), "created", "variables in frames"),
            (_another, event, "created", "coroutines"),
        ):
            found = _recorder.unexpected_in(created, function, argument, state)
            assert found == unexpected
        elsewhere = types.FunctionType(_another.__code__, globals())
        elsewhere.__qualname__ = _suspend.__qualname__
        assert _recorder.unexpected_in(created, elsewhere, event, "created") == "code in frames"
    finally:
        created.close()


def test_nothing_is_recorded_in_such_an_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a function that returns the coroutine of another one
    monkeypatch.setattr(session, "_suspended", lambda until: _suspend(until))  # noqa: PLW0108 - it is another
    with pytest.raises(meantime.MeantimeError) as error:
        meantime.start(tmp_path / "run.mtr")

    assert "are not where the recorder expects them" in str(error.value)
    assert _recorder.COMPILED_FOR in str(error.value)
    assert not (tmp_path / "run.mtr").exists()
