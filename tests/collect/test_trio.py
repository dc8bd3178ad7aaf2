"""Tasks of trio, and of anyio on both of its backends, are recorded like asyncio's."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import meantime

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

trio = pytest.importorskip("trio")
anyio = pytest.importorskip("anyio")


async def _everything() -> list[Any]:
    lock, event = trio.Lock(), trio.Event()
    send, receive = trio.open_memory_channel(0)
    seen: list[Any] = []

    async def hold() -> None:
        async with lock:
            await event.wait()
            await send.send(1)

    async def want_lock() -> None:
        async with lock:
            seen.append("locked")

    async def fail() -> None:
        await trio.sleep(0)
        raise KeyError("x")

    async def forever() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        await trio.sleep(0.05)
        nursery.start_soon(want_lock)
        await trio.sleep(0.05)
        event.set()
        seen.append(await receive.receive())
        seen.append(await trio.to_thread.run_sync(len, "abc"))
    with trio.move_on_after(0.001) as scope:
        await forever()
    seen.append(scope.cancelled_caught)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forever)
            nursery.start_soon(fail)
    except BaseExceptionGroup as group:
        error = group.exceptions[0]
        seen += [repr(error), [frame.name for frame in traceback.extract_tb(error.__traceback__)]]
    task = trio.lowlevel.current_task()
    return [*seen, task.name, task.coro.__name__]


def test_trio_recorded_behaves_as_unrecorded(tmp_path: Path) -> None:
    expected = trio.run(_everything)

    with meantime.record(tmp_path / "run.mtr"):
        seen = trio.run(_everything)

    assert seen == expected
    assert not hasattr(trio._core._run.Runner.reschedule, "__wrapped__")


def test_trio_tasks_have_reasons_sites_and_ends(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        trio.run(_everything)

    recorded = read(tmp_path / "run.mtr")
    waits = set(recorded.times("Tasks"))
    ends = {changes[-2][1] for path, changes in recorded.changes.items() if path[0] == "Tasks"}
    sites = {path[1] for path in recorded.changes}
    assert {
        "waiting:sleep",
        "waiting:lock",
        "waiting:event",
        "waiting:children",
        "waiting:thread",
    } <= waits
    assert {"completed", "failed", "cancelled"} <= ends
    assert any(site.startswith("_everything.<locals>.hold (test_trio.py:") for site in sites)
    assert any(name == "wake" for name, _, _ in recorded.flows)
    assert {"running", "parked"} <= set(recorded.times("Loops"))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio_is_recorded_on_both_backends(tmp_path: Path, backend: str) -> None:
    async def child() -> None:
        await anyio.sleep(0.001)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)

    with meantime.record(tmp_path / "run.mtr"):
        anyio.run(main, backend=backend)

    recorded = read(tmp_path / "run.mtr")
    waits = [
        (path[1], state)
        for path, changes in recorded.changes.items()
        for _, state, tag in changes
        if str(tag.get("function", "")).endswith(".child")
    ]
    ((site, state),) = waits
    assert "(test_trio.py:" in site
    assert state == "waiting:sleep"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_who_waits_for_a_memory_stream_of_anyio_waits_for_a_queue(
    tmp_path: Path, backend: str
) -> None:
    async def main() -> None:
        send, receive = anyio.create_memory_object_stream[int](0)

        async def child() -> None:
            await receive.receive()

        async with send, receive, anyio.create_task_group() as group:
            group.start_soon(child)
            await anyio.wait_all_tasks_blocked()
            await send.send(1)

    with meantime.record(tmp_path / "run.mtr"):
        anyio.run(main, backend=backend)

    waits = [
        state
        for changes in read(tmp_path / "run.mtr").changes.values()
        for _, state, tag in changes
        if str(tag.get("function", "")).endswith(".child")
    ]
    assert "waiting:queue" in waits
    assert "waiting:event" not in waits
