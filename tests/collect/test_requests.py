"""Requests of web servers are entities of a recording."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import json
import logging
import sys
import time
import traceback
import weakref
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.cli.summary import summary
from meantime.collect import _recorder
from meantime.collect.asgi import RequestTags
from meantime.kernels.records import request_rows
from meantime.query.groups import BLOCKED_NS, group_statistics
from meantime.readers.recording import merge

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.usefixtures("no_running_loop")

PATHS = ["/", "/items/7", "/block", "/items/12", "/fails", "/mounted/x/orders/3", "/nowhere"]
ANSWERS = {
    "GET /": [200],
    "GET /items/{id}": [200, 200],
    "GET /block": [200],
    "GET /fails": [500],
    "GET /mounted/{tenant}/orders/{order}": [200],
    "GET not found": [404],
}


def _application() -> Any:
    applications = pytest.importorskip("starlette.applications")
    responses = pytest.importorskip("starlette.responses")
    routing = pytest.importorskip("starlette.routing")

    async def hello(_: Any) -> Any:
        return responses.PlainTextResponse("hello")

    async def item(request: Any) -> Any:
        await asyncio.sleep(0.2)
        return responses.PlainTextResponse(request.path_params["id"])

    async def block(_: Any) -> Any:
        time.sleep(0.4)  # noqa: ASYNC251 - what is to be seen
        return responses.PlainTextResponse("late")

    async def fails(_: Any) -> Any:
        raise ValueError("planted")

    return applications.Starlette(
        routes=[
            routing.Route("/", hello),
            routing.Route("/items/{id}", item),
            routing.Route("/block", block),
            routing.Route("/fails", fails),
            routing.Mount("/mounted/{tenant}", routes=[routing.Route("/orders/{order}", hello)]),
        ]
    )


async def _ask(port: int, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    await reader.read()
    writer.close()


async def _serve(app: Any, ask: Callable[[int], Awaitable[None]]) -> None:
    uvicorn = pytest.importorskip("uvicorn")
    config = uvicorn.Config(app, port=0, http="h11", log_config=None, lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    await ask(server.servers[0].sockets[0].getsockname()[1])
    await server.shutdown()


async def _all(port: int) -> None:
    await asyncio.gather(*(_ask(port, path) for path in PATHS))


def _answers(history: meantime.History) -> dict[str, list[int]]:
    found = defaultdict(list)
    for quark in history.quarks("Requests/*/*").tolist():
        intervals = history.intervals([quark])
        tags = [history.tags[tag] for tag in intervals.tag.tolist() if tag >= 0]
        (status,) = {tag["status"] for tag in tags if "status" in tag}
        found[history.attributes.path(quark)[1]].append(status)
    return dict(found)


def test_requests_of_uvicorn_have_their_route_status_and_time(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(_serve(_application(), _all))

    history = meantime.open(tmp_path / "run.mtr")
    assert _answers(history) == ANSWERS
    assert "request_without_task" not in history.anomalies
    rows = {row.key: row for row in group_statistics(history, by="request").rows}
    block = rows["GET /block"]
    assert (block.count, block.failed) == (1, 0)
    assert block.state_ns["running"] >= 400_000_000
    ((code, block_ns),) = block.block_ns.items()
    assert code.startswith("_application.<locals>.block (test_requests.py:")
    assert 400_000_000 <= block_ns <= block.state_ns["running"]
    # where the machine has much to do, steps of others may take 50 ms too
    assert not any(code in row.block_ns for key, row in rows.items() if key != "GET /block")
    assert rows["GET /fails"].failed == 1
    # a timer runs from when it is set: the rest of that step is no sleep, however long it takes
    assert rows["GET /items/{id}"].state_ns["waiting:sleep"] > 0
    assert rows["GET /items/{id}"].total_ns >= 2 * 200_000_000
    # those that came meanwhile were kept by that step, and every nanosecond is in one state
    assert sum(row.state_ns.get("blocked", 0) for row in rows.values()) >= BLOCKED_NS
    tasks = group_statistics(history, by="function", pattern="RequestResponseCycle.run_asgi").rows
    assert sum(row.total_ns for row in rows.values()) == sum(row.total_ns for row in tasks)
    sentences = [found.sentence for found in meantime.findings(history)]
    (block_sentence,) = [each for each in sentences if "serving GET /block, blocked" in each]
    assert block_sentence.startswith("_application.<locals>.block (test_requests.py:")
    functions = {row.key.split(" ")[0] for row in group_statistics(history, by="function").rows}
    assert "_application.<locals>.block" in functions


def test_the_tracebacks_of_a_server_are_as_without_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def one(port: int) -> None:
        await _ask(port, "/fails")

    def logged() -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.ERROR, "uvicorn.error"):
            asyncio.run(_serve(_application(), one))
        (error,) = [record.exc_info for record in caplog.records if record.exc_info]
        assert error is not None
        return [frame.name for frame in traceback.extract_tb(error[2])]

    plain = logged()
    with meantime.record(tmp_path / "run.mtr"):
        recorded = logged()
    assert recorded == plain


def test_nothing_of_the_server_stays_replaced(tmp_path: Path) -> None:
    cycle = pytest.importorskip("uvicorn.protocols.http.h11_impl").RequestResponseCycle
    before = dict(vars(cycle))
    with meantime.record(tmp_path / "run.mtr"):
        assert vars(cycle)["send"] is not before["send"]
    assert dict(vars(cycle)) == before


@pytest.mark.parametrize("when", ["wrapped before", "wrapped later"])
@pytest.mark.parametrize("kind", ["method", "any", "closure", "coroutine", "hidden"])
def test_requests_that_another_library_wraps_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, when: str
) -> None:
    cycle = pytest.importorskip("uvicorn.protocols.http.h11_impl").RequestResponseCycle
    original = cycle.run_asgi

    async def method(self: Any, app: Any) -> None:
        await original(self, app)

    async def any_arguments(*given: Any, **named: Any) -> None:
        await original(*given, **named)

    def closure(self: Any, app: Any) -> Any:
        async def traced() -> None:
            await original(self, app)

        return traced()

    async def awaits(coroutine: Any) -> None:
        await coroutine

    async def calls(call: Callable[[], Any]) -> None:
        await call()

    wrappers: dict[str, Any] = {
        "method": method,
        "any": any_arguments,
        "closure": closure,
        "coroutine": lambda self, app: awaits(original(self, app)),
        # found by its answer only
        "hidden": lambda self, app: calls(lambda: original(self, app)),
    }

    async def two(port: int) -> None:
        if when == "wrapped later":
            monkeypatch.setattr(cycle, "run_asgi", wrappers[kind])
        await _ask(port, "/items/7")
        await _ask(port, "/fails")

    if when == "wrapped before":
        monkeypatch.setattr(cycle, "run_asgi", wrappers[kind])
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(_serve(_application(), two))

    history = meantime.open(tmp_path / "run.mtr")
    assert _answers(history) == {"GET /items/{id}": [200], "GET /fails": [500]}
    assert "request_without_task" not in history.anomalies
    (row,) = (row for row in group_statistics(history, by="request").rows if "items" in row.key)
    assert row.state_ns["waiting:sleep"] > 0


def test_an_answer_of_a_function_that_cannot_be_described_has_its_status(tmp_path: Path) -> None:
    class Endpoint:
        def __getattr__(self, name: str) -> object:
            raise ValueError(name)

        def __hash__(self) -> int:
            raise ValueError("planted")

    async def app(scope: Any, _: Any, send: Any) -> None:
        scope["endpoint"] = Endpoint()
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/odd", "headers": []}
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(RequestTags(app)(scope, None, send))  # type: ignore[arg-type] # no body is asked for

    assert _answers(meantime.open(tmp_path / "run.mtr")) == {"GET /odd": [204]}


def test_a_decorated_endpoint_is_the_function_that_was_written(tmp_path: Path) -> None:
    def written() -> None:
        raise AssertionError

    @functools.wraps(written)
    def decorated() -> None:
        raise AssertionError

    async def app(scope: Any, _: Any, send: Any) -> None:
        scope["endpoint"] = decorated
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(RequestTags(app)(scope, None, send))  # type: ignore[arg-type] # no body is asked for

    history = meantime.open(tmp_path / "run.mtr")
    (tag,) = [tag for tag in history.tags if "status" in tag]
    assert tag["line"] == written.__code__.co_firstlineno


def test_a_server_of_an_unknown_version_is_imported_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "aiohttp"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "aiohttp"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "99.1"\n')
    (package / "web_protocol.py").write_text("class RequestHandler: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with meantime.record(tmp_path / "run.mtr"):
        module = importlib.import_module("aiohttp.web_protocol")
        asyncio.run(asyncio.sleep(0))
        for name in ("aiohttp", "aiohttp.web_protocol"):
            del sys.modules[name]

    assert isinstance(module.RequestHandler, type)
    history = meantime.open(tmp_path / "run.mtr")
    assert history.anomalies["library_not_recognised"] == 1
    (line,) = (line for line in summary(str(tmp_path / "run.mtr")) if "aiohttp" in line)
    assert line == "  requests of aiohttp 99.1 are not recorded: this version is not recognised"


def test_what_answered_requests_is_not_kept_after_the_recording(tmp_path: Path) -> None:
    endpoints = []

    async def app(scope: Any, _: Any, send: Any) -> None:
        def endpoint() -> None:
            raise NotImplementedError

        endpoints.append(weakref.ref(endpoint))
        scope["endpoint"] = endpoint
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    with meantime.record(tmp_path / "run.mtr"):
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}
        asyncio.run(RequestTags(app)(scope, None, send))  # type: ignore[arg-type] # no body is asked for
        del scope
    gc.collect()
    assert [endpoint() for endpoint in endpoints] == [None]


def test_the_middleware_records_requests_of_other_servers(tmp_path: Path) -> None:
    async def app(scope: Any, _: Any, send: Any) -> None:
        await asyncio.sleep(0.001)
        status = 500 if scope["path"] == "/fails" else 200
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    async def connection() -> None:
        # a server with one task for all requests of a connection
        for path in ("/orders/1", "/orders/2", "/fails"):
            scope: dict[str, Any] = {"type": "http", "method": "POST", "path": path, "headers": []}
            await RequestTags(app)(scope, None, send)  # type: ignore[arg-type] # no body is asked for
            await asyncio.sleep(0.001)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(connection())

    history = meantime.open(tmp_path / "run.mtr")
    assert _answers(history) == {"POST /orders/*": [200, 200], "POST /fails": [500]}
    for quark in history.quarks("Requests/*/*").tolist():
        intervals = history.intervals([quark])
        states = dict.fromkeys(intervals[row].value for row in range(1, len(intervals)))
        assert list(states)[:3] == ["running", "waiting:sleep", "runnable"]


def test_a_class_of_views_answers_by_its_method(tmp_path: Path) -> None:
    class Orders:
        async def get(self) -> None:
            raise NotImplementedError

        async def post(self) -> None:
            raise NotImplementedError

    async def app(scope: Any, _: Any, send: Any) -> None:
        scope["endpoint"] = Orders
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    scope = {"type": "http", "method": "POST", "path": "/orders", "headers": []}
    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(RequestTags(app)(scope, None, send))  # type: ignore[arg-type] # as above

    with meantime.open(tmp_path / "run.mtr") as history:
        rows = group_statistics(history, by="function").rows
    (found,) = (row.key for row in rows if row.kind == "Requests")
    line = Orders.post.__code__.co_firstlineno
    assert found == f"{Orders.post.__qualname__} (test_requests.py:{line})"


def test_the_command_prints_a_table_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(_: Any) -> None:
        await asyncio.sleep(0.001)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    path = str(tmp_path / "run.mtr")
    with meantime.record(path):
        asyncio.run(RequestTags(app)(scope, None, send))  # type: ignore[arg-type] # as above

    with pytest.raises(SystemExit) as left:
        main(["stats", path, "--by", "request"])
    assert left.value.code == 0
    assert "GET /" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["stats", path, "--by", "route", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["key"], row["count"]) == ("/", 1)
    with pytest.raises(SystemExit) as left:
        main(["stats", path, "--by", "request", "--tree"])
    assert left.value.code == 2


def test_odd_records_of_requests_are_counted_or_ignored(tmp_path: Path) -> None:
    kinds = _recorder.KINDS

    async def odd() -> None:
        task = _recorder.current()
        _recorder.emit_text(kinds["REQUEST"], 1, "")
        _recorder.emit_text(kinds["REQUEST"], 2, "999999\x001\0GET\0/")
        _recorder.emit_text(kinds["RESPONSE"], 3, "200\0/")
        _recorder.emit(kinds["REQUEST_END"], 4)
        _recorder.emit_text(kinds["REQUEST"], 5, f"{task}\x000\0GET")
        _recorder.emit_text(kinds["REQUEST"], 5, f"{task}\x000\0GET\0/again")
        _recorder.emit_text(kinds["RESPONSE"], 5, "x" * 30)
        _recorder.emit(kinds["REQUEST_END"], 5)
        _recorder.emit_text(kinds["REQUEST"], 6, f"{task}\x000\0GET\0/open")
        await asyncio.sleep(0)

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(odd())

    recorded = read(tmp_path / "run.mtr")
    requests = [path[1] for path in recorded.changes if path[0] == "Requests"]
    assert requests == ["GET ", "GET /open"]
    assert recorded.trace.anomalies["request_without_task"] == 3


def test_two_requests_of_one_task_have_the_states_of_their_own_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = _recorder.KINDS

    async def connection() -> None:
        task = _recorder.current()
        for number, path in ((1, "/first"), (2, "/second")):
            _recorder.emit_text(kinds["REQUEST"], number, f"{task}\x000\0GET\0{path}")
            await asyncio.sleep(0.001)
        for number in (1, 2):
            _recorder.emit_text(kinds["RESPONSE"], number, "200\0/streamed")
            for _ in range(5):
                await asyncio.sleep(0)
            _recorder.emit(kinds["REQUEST_END"], number)
        await asyncio.sleep(0.001)

    path = tmp_path / "run.mtr"
    with meantime.record(path):
        asyncio.run(connection())

    at_once = read(path)
    monkeypatch.setattr(merge, "BLOCK_RECORDS", 3)
    in_parts = read(path)
    keys = [("Requests", "GET /streamed", number) for number in ("1", "2")]
    first, second = (at_once.changes[key] for key in keys)
    assert [first, second] == [in_parts.changes[key] for key in keys]
    (task,) = (rows for each, rows in at_once.changes.items() if "connection" in each[1])
    for rows in (first, second):
        begin_ns, end_ns = rows[0][0], rows[-2][0]
        inside = [(max(row[0], begin_ns), row[1]) for row in task if row[0] < end_ns]
        start = max(at for at, each in enumerate(inside) if each[0] == begin_ns)
        assert [row[:2] for row in rows[:-2]] == inside[start:]
        assert [row[1] for row in rows[-2:]] == ["completed", None]
    assert first[0][0] < second[0][0] < first[-1][0] < second[-1][0]


@pytest.mark.parametrize("yields", [False, True])
def test_a_request_that_waits_for_its_own_child_task_is_in_the_states_of_that(  # noqa: C901 - an application in two middlewares
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, yields: bool
) -> None:
    async def endpoint(_: Any, __: Any, send: Any) -> None:
        # one that blocks at once does so while the request's task, which yielded, is runnable
        time.sleep(0.03 * yields)  # noqa: ASYNC251 - what is to be seen
        await asyncio.sleep(0.002)
        time.sleep(0.06)  # noqa: ASYNC251 - what is to be seen
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0.002)
        await send({"type": "http.response.body"})

    def in_a_task(inner: Any) -> Any:
        """Return an application as middleware makes it of another, which it runs in a task."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            messages: asyncio.Queue[Any] = asyncio.Queue()
            child = asyncio.create_task(inner(scope, receive, messages.put))
            if yields:
                await asyncio.sleep(0)
            for _ in range(2):
                await send(await messages.get())
            await child

        return app

    async def answered(_: Any) -> None:
        await asyncio.sleep(0)

    async def requests(app: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                path = f"/{number}"
                scope = {
                    "type": "http",
                    "method": "GET",
                    "path": path,
                    "path_params": {"n": number},
                }
                group.create_task(RequestTags(app)(scope, None, answered))  # type: ignore[arg-type] # no body is asked for

    path = tmp_path / "run.mtr"
    with meantime.record(path):
        asyncio.run(requests(in_a_task(in_a_task(endpoint))))

    at_once = read(path)
    monkeypatch.setattr(merge, "BLOCK_RECORDS", 3)
    in_parts = read(path)
    found = {
        key: [row[:2] for row in rows]
        for key, rows in at_once.changes.items()
        if key[0] == "Requests"
    }
    assert found == {key: [row[:2] for row in in_parts.changes[key]] for key in found}
    assert len(found) == 3
    for rows in found.values():
        total = Counter[str]()
        for (start_ns, state), (end_ns, _) in pairwise(rows):
            assert start_ns < end_ns
            total[str(state)] += end_ns - start_ns
        assert total["running"] >= 60_000_000 + 30_000_000 * yields
        assert total["waiting:sleep"] + total["possibly-runnable"] + total["runnable"] >= 4_000_000
        assert total["waiting:sleep"] > 0
        # only for what its child puts after that has woken it, and for the child's end
        assert total["waiting:queue"] < total["running"]
    history = meantime.open(path)
    (row,) = group_statistics(history, by="request").rows
    # beside busy programs, steps that wait for a processor block it, too
    code = max(row.block_ns, key=lambda each: row.block_ns[each])
    assert "test_a_request_that_waits_for_its_own_child_task" in code
    assert any("serving GET" in each.sentence for each in meantime.findings(history))


async def _sleep(delay_s: float) -> None:
    await asyncio.sleep(delay_s)


async def _gather() -> None:
    await asyncio.gather(_sleep(0.001), _sleep(0.01))


async def _await_task() -> None:
    await asyncio.create_task(_sleep(0.01))


async def _group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_sleep(0.001))
        group.create_task(_gather())


async def _wait_for() -> None:
    await asyncio.wait_for(_sleep(0.01), 60)


def test_a_request_that_waits_for_tasks_is_in_the_states_of_the_last_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(_: Any) -> None:
        await asyncio.sleep(0)

    async def app(scope: Any, _: Any, send: Any) -> None:
        await scope["work"]()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def requests() -> None:
        async with asyncio.TaskGroup() as group:
            for work in (_gather, _await_task, _group, _wait_for):
                scope = {"type": "http", "method": "GET", "path": f"/{work.__name__}"}
                group.create_task(RequestTags(app)({**scope, "work": work}, None, answered))  # type: ignore[arg-type] # no body is asked for

    with meantime.record(tmp_path / "run.mtr"):
        asyncio.run(requests())

    at_once = read(tmp_path / "run.mtr")
    monkeypatch.setattr(merge, "BLOCK_RECORDS", 3)
    in_parts = read(tmp_path / "run.mtr")
    found = {key: rows for key, rows in at_once.changes.items() if key[0] == "Requests"}
    assert {key[1] for key in found} == {
        "GET /_gather",
        "GET /_await_task",
        "GET /_group",
        "GET /_wait_for",
    }
    for key, rows in found.items():
        assert [row[:2] for row in rows] == [row[:2] for row in in_parts.changes[key]]
        total = Counter[str]()
        for (start_ns, state, _), (end_ns, _, _) in pairwise(rows):
            assert start_ns <= end_ns
            total[str(state)] += end_ns - start_ns
        assert total["waiting:sleep"] > 0
        assert total["waiting:tasks"] == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1, 0, 1, 9])), max_size=12
    ),
    st.lists(
        st.tuples(
            st.integers(-1, 3),
            st.integers(0, 9),
            st.booleans(),
            st.integers(-1, 12),
            st.one_of(st.integers(0, 9), st.just(2**63 - 1)),
        ),
        max_size=4,
    ),
)
@settings(max_examples=60, deadline=None)
def test_the_rows_of_requests_are_those_of_the_definition(
    changes: list[tuple[int, int, int]], requests: list[tuple[int, int, int, int, int]]
) -> None:
    ends = bytes([1, 0, 1])  # no state, and state 1
    rows, time_ns = [], dict.fromkeys(range(3), 0)
    for number, (task, after_ns, state) in enumerate(changes):
        time_ns[task] += after_ns
        rows.append((task, number, time_ns[task], state))
    rows.sort()
    columns = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    found = np.empty((4, len(requests)), np.int64)
    asked = np.array(requests, np.int64).reshape(-1, 5).T.copy()
    request_rows(columns, asked, ends, found)

    for (task, begin_ns, whole, following, end_ns), *out in zip(requests, *found, strict=True):
        own = [row for row in rows if row[0] == task]
        mine = own
        if following >= 0:
            mine = [row for row in own if row[1] >= following]
        elif not whole:
            before = [at for at, row in enumerate(own) if row[2] <= begin_ns]
            mine = own[before[-1] if before else 0 :]
        outcome = [row for row in mine[-2:] if row[3] in (-1, 1)][:1]
        if outcome and end_ns >= outcome[0][2]:
            mine, end = mine[: mine.index(outcome[0])], [outcome[0][2], outcome[0][3]]
        elif end_ns < 2**63 - 1:
            mine = mine[: mine.index(outcome[0])] if outcome else mine
            mine, end = [row for row in mine if row[2] < end_ns], [end_ns, -2]
        else:
            end = [end_ns, -3]
        assert rows[int(out[0]) : int(out[1])] == mine
        assert [int(each) for each in out[2:]] == end
