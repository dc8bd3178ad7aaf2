"""The ASGI middleware tells which request a task served."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect.asgi import RequestTags
from meantime.collect.labels import labelled
from meantime.readers.recording.live import LiveActivity

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from reading import Recorded


async def _app(scope: Any, receive: Any, send: Any) -> None:
    async def ask() -> None:
        await asyncio.sleep(0)

    message = await receive()
    asked = asyncio.create_task(ask())
    # not made in the request's context: nobody's
    nobodys = asyncio.create_task(ask(), context=contextvars.Context())
    await asyncio.gather(asked, nobodys)
    if scope["path"] == "/fail":
        raise KeyError(message["type"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def _serve(app: Any, path: str, sent: list[Any], *headers: tuple[bytes, bytes]) -> None:
    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": list(headers)}
    await app(scope, receive, send)
    await asyncio.sleep(0)


def _tags(recorded: Recorded, function: str) -> list[list[tuple[str | None, dict[str, object]]]]:
    wanted = ("request", "method", "path")
    return [
        [
            (state, {name: fields[name] for name in wanted if name in fields})
            for _, state, fields in changes
        ]
        for path, changes in recorded.changes.items()
        if path[0] == "Tasks" and path[1].split(" ")[0].rsplit(".", 1)[-1] == function
    ]


def test_the_tasks_of_a_request_are_tagged_with_it(tmp_path: Path) -> None:
    app = RequestTags(_app)

    async def main() -> None:
        serving = [_serve(app, path, []) for path in ("/a", "/b")]
        await asyncio.gather(*map(asyncio.create_task, serving))

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    recorded = read(tmp_path / "run.mtr")
    first = {"request": "1", "method": "GET", "path": "/a"}
    second = {"request": "2", "method": "GET", "path": "/b"}
    spawned = [
        ("spawned", first),
        ("running", first),
        ("runnable", first),
        ("running", first),
        ("completed", first),
        (None, {}),
    ]
    asked = _tags(recorded, "ask")
    assert asked[0] == spawned
    assert asked[2] == [(state, second if fields else fields) for state, fields in spawned]
    assert [fields for _, fields in asked[1] + asked[3] if fields] == []


def test_the_task_that_serves_is_tagged_while_it_does(tmp_path: Path) -> None:
    app = RequestTags(_app)

    async def main() -> None:
        await asyncio.create_task(_serve(app, "/a", []))

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    (changes,) = _tags(read(tmp_path / "run.mtr"), "_serve")
    tagged = {"request": "1", "method": "GET", "path": "/a"}
    assert changes == [
        ("spawned", {}),
        ("running", {}),
        ("running", tagged),
        ("waiting:tasks", tagged),
        ("runnable", tagged),
        ("running", tagged),
        ("running", {}),
        ("runnable", {}),
        ("running", {}),
        ("completed", {}),
        (None, {}),
    ]


def test_a_request_names_itself_by_its_header(tmp_path: Path) -> None:
    async def main() -> None:
        app = RequestTags(_app, header="X-Trace")
        await asyncio.create_task(_serve(app, "/a", [], (b"x-trace", b"abc")))

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())

    (changes, _) = _tags(read(tmp_path / "run.mtr"), "ask")
    assert changes[0][1]["request"] == "abc"


@pytest.mark.parametrize("path", ["/a", "/fail"])
@pytest.mark.parametrize("recorded", [False, True])
def test_an_application_does_the_same_with_it(
    tmp_path: Path,
    path: str,
    recorded: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    def run(app: Any) -> tuple[list[Any], str]:
        sent: list[Any] = []
        try:
            asyncio.run(_serve(app, path, sent))
        except KeyError as error:
            return sent, repr(error)
        return sent, ""

    expected = run(_app)

    if recorded:
        with meantime.record(tmp_path / "run.mtr"):
            seen = run(RequestTags(_app))
    else:
        seen = run(RequestTags(_app))

    assert seen == expected


def test_a_label_is_repeated_after_a_rotation(tmp_path: Path) -> None:
    from meantime.collect import _recorder  # noqa: PLC0415 - only this test writes records itself

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        async def long() -> None:
            for _ in range(4):
                _recorder.emit_many(50, 100_000)
                await asyncio.sleep(0)

        await asyncio.create_task(long())

    with meantime.record(tmp_path / "run.mtr", max_bytes=1_000_000):
        asyncio.run(_serve(RequestTags(app), "/a", []))

    (changes,) = _tags(read(tmp_path / "run.mtr"), "long")
    assert changes[-2][1] == {"request": "1", "method": "GET", "path": "/a"}


def test_the_time_of_groups_counts_a_run_once_whatever_its_tags(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(_serve(RequestTags(_app), "/a", []))

    live = LiveActivity(tmp_path / "run.mtr")
    live.update()
    (group,) = [group for group in live.activity.groups() if "_serve" in group.name[1]]
    times = read(tmp_path / "run.mtr").changes
    (changes,) = [changes for path, changes in times.items() if "_serve" in path[1]]
    runs = []
    for at, (time_ns, state, _) in enumerate(changes):
        if state == "running" and changes[at - 1][1] != "running":
            end_ns = next(later for later, other, _ in changes[at:] if other != "running")
            runs.append(end_ns - time_ns)
    assert group.longest_ns == max(runs)


def test_records_of_one_moment_stay_in_order_where_a_chunk_ends(tmp_path: Path) -> None:
    async def nothing() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        with labelled({"request": "1"}):
            for _ in range(6000):
                await asyncio.create_task(nothing())

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(main())
    assert read(tmp_path / "run.mtr").trace.anomalies["time_backwards"] == 0
