"""A recorded program does what it does unrecorded, and nothing stays behind."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import contextvars
import gc
import sys
import threading
import warnings
from asyncio.tasks import _PyTask  # type: ignore[attr-defined] # private: tasks written in Python
from pathlib import Path
from typing import Any

import pytest

import meantime

sys.path.insert(0, str(Path(__file__).parent))
from behaviours import BEHAVIOURS

uvloop: Any
try:
    import uvloop
except ImportError:
    uvloop = None

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def _python_task_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # a loop whose default is a task written in Python, as on interpreters without the C one
    original = loop.set_task_factory

    def factory(loop: Any, coro: Any, **options: Any) -> Any:
        return _PyTask(coro, loop=loop, **options)

    loop.set_task_factory(factory)
    loop.set_task_factory = lambda given: original(given or factory)  # type: ignore[method-assign,assignment] # for the tests that set one
    return loop


LOOPS = {
    "asyncio": asyncio.new_event_loop,
    "python-tasks": _python_task_loop,
    "uvloop": uvloop.new_event_loop if uvloop else None,
}


def _run(behaviour: Any, loop_factory: Any) -> object:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(behaviour())


def _use_python_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let asyncio see tasks written in Python: up to 3.13, all are in the same sets."""
    for name in ("current_task", "all_tasks"):
        written_in_python = getattr(asyncio.tasks, f"_py_{name}", None)
        if written_in_python is not None:
            monkeypatch.setattr(asyncio.tasks, name, written_in_python)
            monkeypatch.setattr(asyncio, name, written_in_python)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_recorded_behaves_as_unrecorded(
    behaviour: Any, loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = LOOPS[loop]
    if loop == "python-tasks":
        _use_python_tasks(monkeypatch)
    if factory is None:
        pytest.skip("uvloop is not installed")
    if loop == "uvloop" and behaviour.__name__ == "eager_tasks":
        pytest.skip("uvloop passes eager factories an argument that they do not know")
    expected = _run(behaviour, factory)

    with meantime.record(tmp_path / "run.mtr"):
        seen = _run(behaviour, factory)

    assert seen == expected


def test_nothing_stays_installed_after_stop(tmp_path: Path) -> None:
    loop_class: Any = asyncio.BaseEventLoop
    item: Any = concurrent.futures.thread._WorkItem
    places = [(loop_class, "create_task"), (loop_class, "run_forever"), (item, "run")]
    if uvloop:
        places += [(uvloop.Loop, "create_task"), (uvloop.Loop, "run_forever")]
    before = [vars(owner).get(name) for owner, name in places]
    finders = list(sys.meta_path)
    threads = threading.active_count()

    async def main() -> Any:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    with meantime.record(tmp_path / "run.mtr"), asyncio.Runner() as runner:
        loop = runner.run(main())
        inside = [vars(owner).get(name) for owner, name in places]

    assert all(mine is not theirs for mine, theirs in zip(inside[:3], before[:3], strict=True))
    assert [vars(owner).get(name) for owner, name in places] == before
    assert sys.meta_path == finders
    assert threading.active_count() == threads
    assert "call_soon" not in vars(loop)


def test_a_recording_begun_inside_a_loop_is_ended_inside_it(tmp_path: Path) -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        async with meantime.record(tmp_path / "run.mtr"):
            await asyncio.create_task(asyncio.sleep(0))
            inside = "call_soon" in vars(loop)
        return inside and "call_soon" not in vars(loop)

    assert asyncio.run(main())


def test_a_loop_that_the_program_hooks_itself_keeps_its_hook(tmp_path: Path) -> None:
    calls = []

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        original = loop.call_soon

        def call_soon(*args: Any, **options: Any) -> Any:
            calls.append(args[0])
            return original(*args, **options)

        loop.call_soon = call_soon
        await asyncio.sleep(0)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    assert calls


def test_a_coroutine_never_awaited_is_warned_of(tmp_path: Path) -> None:
    async def never() -> None:
        pass

    def leave_one() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loop = asyncio.new_event_loop()
            task: Any = loop.create_task(never())
            task._log_destroy_pending = False
            loop.close()
            del task, loop
            gc.collect()
        return [str(warning.message) for warning in caught]

    expected = leave_one()

    with meantime.record(tmp_path / "run.mtr"):
        seen = leave_one()

    assert any("never awaited" in message for message in expected)
    assert seen == expected


def test_system_exit_goes_through(tmp_path: Path) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        await asyncio.create_task(leave())

    with meantime.record(tmp_path / "run.mtr"), pytest.raises(SystemExit) as raised:
        asyncio.run(main())

    assert raised.value.code == 3


def test_a_task_that_outlives_its_recording_continues(tmp_path: Path) -> None:
    async def main() -> int:
        async def count() -> int:
            for _ in range(5):
                await asyncio.sleep(0)
            return 5

        async with meantime.record(tmp_path / "first.mtr"):
            task = asyncio.create_task(count())
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with meantime.record(tmp_path / "second.mtr"):
            return await task

    assert asyncio.run(main()) == 5


def test_a_recording_within_a_recording_is_the_outer_one(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "outer.mtr"):
        with meantime.record(tmp_path / "inner.mtr"):
            asyncio.run(asyncio.sleep(0))
        still = hasattr(asyncio.BaseEventLoop.create_task, "__wrapped__")

    assert still
    assert not (tmp_path / "inner.mtr").exists()


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(meantime.MeantimeError, match="at least 1 MB"):
        meantime.start(tmp_path / "run.mtr", max_bytes=1000)
    with pytest.raises(meantime.MeantimeError, match="at least 1ms"):
        meantime.start(tmp_path / "run.mtr", blocked_ns=1)
    with pytest.raises(meantime.MeantimeError, match="not tasks, workers"):
        meantime.start(tmp_path / "run.mtr", trace="everything")  # type: ignore[arg-type] # the mistake under test
    assert not (tmp_path / "run.mtr").exists()


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        pass

    with pytest.raises(meantime.MeantimeError, match="exists already"):
        meantime.start(tmp_path / "run.mtr")


def test_what_only_looks_like_a_handle_can_be_run(tmp_path: Path) -> None:
    class Likeness:
        _cancelled = False

        def __init__(self) -> None:
            self._context = contextvars.copy_context()
            self._callback: Any = ran.append
            self._args = (1,)

        def _run(self) -> None:
            asyncio.Handle._run(self)  # type: ignore[arg-type] # as some libraries do

    ran: list[int] = []

    async def main() -> None:
        asyncio.get_running_loop()._ready.append(Likeness())  # type: ignore[attr-defined] # as above
        await asyncio.sleep(0.001)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())
    assert ran == [1]
