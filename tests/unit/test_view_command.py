"""`meantime view`: serving until it is interrupted, and files that change meanwhile."""

from __future__ import annotations

import gc
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from meantime.cli import cli
from meantime.readers.statemap import reader
from meantime.server import run
from meantime.server import session as sessions
from meantime.server.session import Session
from meantime.server.view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STATES = "examples/postgres.statemap.gz"


def test_two_servers_at_once_until_they_are_interrupted(root: Path) -> None:
    command = [sys.executable, "-m", "meantime", "view", STATES, "--no-open"]
    with ExitStack() as stack:
        addresses = []
        servers = []
        port = "0"
        for _ in range(2):
            server = stack.enter_context(
                subprocess.Popen(
                    [*command, "--port", port],
                    cwd=root,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(server.kill)
            servers.append(server)
            assert server.stdout is not None
            addresses.append(server.stdout.readline().split()[0])
            # the second is asked for the port of the first
            port = str(urlsplit(addresses[0]).port)
        assert addresses[0] != addresses[1]
        for server, address in zip(servers, addresses, strict=True):
            assert _session(address)["files"][0]["name"] == "postgres.statemap.gz"
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=120)
            assert (server.returncode, errors) == (0, "")


def _session(address: str) -> dict[str, Any]:
    """Return the session that is served at an address, as a browser reads it."""
    plain, _, token = address.partition("?token=")
    with pytest.raises(HTTPError, match="403") as refused:
        urlopen(f"{plain}session.json")  # noqa: S310 - the command's own server
    refused.value.close()
    with urlopen(address) as reply:  # noqa: S310 - as above
        cookie = reply.headers["set-cookie"].partition(";")[0]
    assert cookie == f"meantime-{urlsplit(plain).port}={token}"
    with urlopen(Request(f"{plain}session.json", headers={"cookie": cookie})) as reply:  # noqa: S310 - as above
        found: dict[str, Any] = json.load(reply)
    return found


def test_the_token_is_in_no_arguments_of_a_program(root: Path, tmp_path: Path) -> None:
    browser, found = tmp_path / "browser", tmp_path / "found.json"
    # It opens the page that it was given and then what that leads to, as browsers do, and ends the
    # server, which answers by then.
    browser.write_text(
        f"""#!{sys.executable}
import json, os, pathlib, re, signal, sys, urllib.parse, urllib.request
try:
    path = pathlib.Path(urllib.parse.urlsplit(sys.argv[1]).path)
    page = path.read_text()
    address = re.search('url=([^"]*)', page)[1]
    status = urllib.request.urlopen(address).status
    mode = path.stat().st_mode & 0o777
    server = pathlib.Path("/proc", str(os.getppid()), "cmdline").read_text()
    with open({str(found)!r}, "w") as file:
        json.dump([address, status, mode, [*sys.argv, server], str(path)], file)
finally:
    os.kill(os.getppid(), signal.SIGINT)
"""
    )
    browser.chmod(0o700)
    server = subprocess.run(
        [sys.executable, "-m", "meantime", "view", STATES, "--port", "0"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)},
    )

    printed = server.stdout.split()[0]
    address, status, mode, arguments, path = json.loads(found.read_text())
    token = printed.partition("?token=")[2]
    assert (address, status, mode) == (printed, 200, 0o600)
    assert len(token) >= 32
    assert token not in " ".join(arguments)
    assert not Path(path).exists()


def test_each_start_has_another_token(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Server:
        def run(self, sockets: list[Any]) -> None:
            assert sockets

    monkeypatch.setattr(run, "_server", lambda *_: _Server())
    seen: list[str] = []
    for _ in range(2):
        view(STATES).serve(port=0, browser=False, notify=seen.append)

    assert len({each.partition("token=")[2] for each in seen}) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "--max-size", "5M"], "--max-size applies to a page in a file"),
        (["x", "-o", "page.svg"], "must end in .html"),
        (["x", "-o", "page.html", "--follow"], "--follow does not apply to a page in a file"),
        (["x", "-o", "page.html", "--max-size", "big"], "'big' is not a size"),
        (["x", "--offset", "y=1s"], "write FILE=TIME with one of the files"),
        (["x", "--offset", "x=1s", "--offset", "x=2s"], "given more than once"),
        (["x", "-j", "2"], "-j does not apply to files of their own; add --hosts"),
        (["x", "--hosts", "--follow"], "--follow does not apply to hosts"),
        (["--demo", "--hosts"], "--hosts does not apply to the demo"),
        (["x", "--port", "70000"], "70000 is not in the range"),
        (["nothing.json", "--no-open"], "nothing.json: there is no such file"),
    ],
)
def test_a_wrong_command_line(words: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["view", *words])

    assert message in f"{result.output}{result.exception}"


@pytest.fixture
def following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Callable[[Callable[[dict[str, Any]], bool]], dict[str, Any]]]]:
    """Return a file that is followed, and what waits until it looks as expected."""
    monkeypatch.setattr(sessions, "_LOOK_S", 0.02)
    path = tmp_path / "events.json"
    path.write_text(_events(1))
    session = Session([str(path)], follow=True)
    session.start()

    def wait(is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until_s = time.monotonic() + 120
        while time.monotonic() < until_s:
            (file,) = session.document()["files"]
            if is_there(file):
                return dict(file)
            time.sleep(0.01)
        raise AssertionError(session.document()["files"])

    wait(lambda file: file["status"] == "following")
    yield path, wait
    session.stop()
    session.wait(600)


def _events(count: int) -> str:
    spans = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5, "name": "f"} for n in range(count)
    ]
    return json.dumps(spans)


def test_what_is_added_to_a_file_is_shown(following: Any) -> None:
    path, wait = following
    before = wait(lambda file: file["counts"]["spans"] == 1)

    # in one step: a file that is empty for a moment was cut
    with path.open("r+b") as file:
        file.write(_events(3).encode())

    after = wait(lambda file: file["counts"]["spans"] == 3)
    assert after["version"] > before["version"]
    assert after["error"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("[]"), "was cut"),
        (lambda path: path.unlink(), "was deleted"),
        (
            lambda path: (
                path.with_name("new").write_text(_events(5)) and path.with_name("new").rename(path)
            ),
            "was replaced",
        ),
    ],
    ids=["cut", "deleted", "replaced"],
)
def test_what_was_read_stays_if_a_file_is_lost(
    following: Any, change: Callable[[Path], object], message: str
) -> None:
    path, wait = following

    change(path)

    after = wait(lambda file: file["error"] is not None)
    assert message in after["error"]
    assert after["counts"]["spans"] == 1


def test_a_session_that_is_closed_while_it_reads_leaves_no_thread(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    before = {*threading.enumerate()}
    session = Session([str(pipe)])
    session.start()
    # the reader closes the pipe, maybe before all is written
    with suppress(BrokenPipeError), pipe.open("w") as file:
        file.write('{"time_ns": 1, "name": "x"}\n')
        file.flush()
        assert session.document()["files"][0]["status"] == "reading"
        session.stop()
        file.write('{"time_ns": 2, "name": "x"}\n' * 100_000)

    assert session.wait(600)
    assert {*threading.enumerate()} <= before


def test_what_has_been_read_is_shown_while_the_rest_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_SNAPSHOT_S", 0.0)
    monkeypatch.setattr(sessions, "_SNAPSHOT_SHARE", 100.0)
    monkeypatch.setattr(reader, "BATCH_ROWS", 1 << 12)
    trace = tmp_path / "pg.statemap"
    trace.write_bytes(gzip.decompress((root / STATES).read_bytes()))
    session = Session([str(trace)])
    seen = []
    show = sessions.OpenFile._show

    def note(self: sessions.OpenFile, history: Any) -> None:
        show(self, history)
        seen.append((history.built, session.document()["files"][0]))

    monkeypatch.setattr(sessions.OpenFile, "_show", note)
    session.start()
    assert session.wait(600)

    growing = [file for built, file in seen if not built]
    assert growing
    assert all(0 < file["read_bytes"] <= file["total_bytes"] for file in growing)
    ends_ns = [file["end_ns"] for _, file in seen]
    assert ends_ns == sorted(ends_ns)
    assert seen[-1][0]


def test_a_server_looks_for_unused_objects_more_often_than_a_command() -> None:
    before = gc.get_threshold()
    gc.set_threshold(200_000, 10, 10)
    seen: list[int] = []

    def notify(_: str) -> None:
        seen.append(gc.get_threshold()[0])
        raise KeyboardInterrupt

    try:
        view(STATES).serve(port=0, browser=False, notify=notify)
        after = gc.get_threshold()
    finally:
        gc.set_threshold(*before)
    assert seen[0] <= 5_000
    assert after == (200_000, 10, 10)


CLIENTS, ROUNDS, REQUESTS = 6, 4, 60
MOST_GROWTH_BYTES = 8_000_000


def test_the_memory_of_a_server_settles_under_load(root: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("the memory of another process is not known here")
    command = [sys.executable, "-m", "meantime", "view", "--no-open", "--port", "0"]
    with subprocess.Popen(
        [*command, str(root / "examples" / "postgres.statemap.gz")],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            load = _Load(address)
            used = []
            for _ in range(ROUNDS):
                with ThreadPoolExecutor(CLIENTS) as clients:
                    answers = [*clients.map(load.run, range(CLIENTS))]
                assert {status for part in answers for status in part} == {200}
                pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
                used.append(pages * os.sysconf("SC_PAGE_SIZE"))
        finally:
            server.kill()

    # after the first round, in which modules are imported and caches filled
    assert used[-1] - used[1] < MOST_GROWTH_BYTES
    assert used[-1] < 300_000_000


class _Load:
    """Valid requests, as a page that is moved sends them."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        assert url.port is not None
        self._port = url.port
        self._headers = {"cookie": f"meantime-{url.port}={address.partition('token=')[2]}"}
        file: dict[str, Any] = {}
        with closing(HTTPConnection("127.0.0.1", self._port)) as connection:
            while file.get("status") != "ready":
                [file] = json.loads(self._get(connection, "/session.json")[1])["files"]
            self._layout, self._end_ns = file["layout"], int(file["end_ns"])
            lanes = json.loads(self._get(connection, f"/lanes/0/{self._layout}")[1])
        blocks = zip(lanes["kind"], lanes["block"], strict=True)
        self._blocks = sorted({each for each in blocks if each[1] >= 0})

    def _get(self, connection: HTTPConnection, path: str) -> tuple[int, bytes]:
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def run(self, seed: int) -> list[int]:
        """Send requests, and return the statuses of the answers."""
        random = Random(seed)  # noqa: S311 - it has to be repeatable
        found = []
        with closing(HTTPConnection("127.0.0.1", self._port)) as connection:
            for _ in range(REQUESTS):
                kind, block = random.choice(self._blocks)
                level = random.randrange(8, 30)
                index = random.randrange((self._end_ns >> level + 9) + 1)
                tile = f"/tile/0/{self._layout}/{kind}/{block}/{level}/{index}"
                others = ["/session.json", f"/lanes/0/{self._layout}"]
                found.append(self._get(connection, random.choice([tile, tile, *others]))[0])
        return found
