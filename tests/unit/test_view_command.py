"""`meantime view`: serving until it is interrupted, and files that change meanwhile."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from meantime.cli import cli
from meantime.readers.statemap import reader
from meantime.server import session as sessions
from meantime.server.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
            port = addresses[0].rstrip("/").rpartition(":")[2]
        assert addresses[0] != addresses[1]
        for server, address in zip(servers, addresses, strict=True):
            with urlopen(f"{address}session.json") as reply:  # noqa: S310 - its own server
                assert json.load(reply)["files"][0]["name"] == "postgres.statemap.gz"
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=120)
            assert (server.returncode, errors) == (0, "")


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
    session.wait(60)


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

    assert session.wait(60)
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
    assert session.wait(60)

    growing = [file for built, file in seen if not built]
    assert growing
    assert all(0 < file["read_bytes"] <= file["total_bytes"] for file in growing)
    ends_ns = [file["end_ns"] for _, file in seen]
    assert ends_ns == sorted(ends_ns)
    assert seen[-1][0]
