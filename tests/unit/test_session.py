"""`meantime serve` and `--session`: what a session answers, and what cannot go wrong in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meantime.session import EXIT, STDERR, STDOUT, SessionError, ask, frame, socket_path

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="sessions need fork")
STATES, SPANS = "examples/postgres.statemap.gz", "examples/training.json.gz"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # not `tmp_path`: the path of a socket has at most 107 characters
    folder = Path(f"/tmp/meantime-test-{os.getpid()}-{time.monotonic_ns()}")  # noqa: S108 - see above
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("MEANTIME_SESSION", raising=False)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def serving(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "meantime", "serve", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "ask with --session" in line, line
        yield process
    finally:
        process.terminate()
        process.communicate()


def run(*words: str, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "meantime", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_answers_are_those_of_the_command(runtime: Path) -> None:
    questions: list[tuple[str, ...]] = [
        ("info", SPANS, "--json"),
        ("stats", STATES, "--by", "entity"),
        ("stats", SPANS, "--longest", "aten::mm", "--json"),
        ("query", SPANS, "span 42", "--json"),
        ("query", STATES, "at", "0.2s"),
        ("findings", SPANS, "--json"),
        ("explain", STATES, "--json"),
        ("dump", STATES, "--kind", "intervals", "--limit", "9"),
        ("assert", STATES, "--rule", 'count of "futex" above 0'),
        ("sql", STATES, "select value, count(*) n from intervals group by value order by n"),
        ("sql", SPANS, "select name, caller from spans, callers('aten::mm') limit 3", "--json"),
        ("sql", SPANS, "select span from handle", "--handle", "span 42", "--json"),
        ("diff", STATES, "--ranges", "0s..0.1s,0.1s..0.2s", "--json"),
        ("diff", STATES, STATES, "--json"),
        ("flame", SPANS, "--json"),
    ]
    with serving(STATES, SPANS):
        state = (runtime / "meantime" / "default.sock").stat()
        assert state.st_mode & 0o777 == 0o600
        assert (runtime / "meantime").stat().st_mode & 0o777 == 0o700
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda words: run(*words, "--session"), questions))
        missing = run("stats", SPANS, "--longest", "nothing", "--session", status=1)
    assert found == [run(*words) for words in questions]
    assert missing == run("stats", SPANS, "--longest", "nothing", status=1)
    assert not list((runtime / "meantime").iterdir())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("statemap", STATES, "-o", "x.svg"), "a session does not answer statemap: it draws"),
        (("hosts", STATES), "it reads its files in processes of their own; leave out --session"),
        (("top", "5"), "a session does not answer top: it shows a program that runs"),
        (("flame", STATES, "-o", "x.svg"), "a session writes no file"),
        (("diff", STATES, SPANS), "is not open in this session, which has postgres.statemap.gz"),
        (("stats", SPANS), "is not open in this session, which has postgres.statemap.gz"),
        (("query", STATES, "tree", "--parquet", "x"), "a session writes no file"),
        (("stats", STATES, "--lenient"), "--lenient does not apply to a session"),
        (("stats", STATES, "--format", "statemap"), "--format does not apply to a session"),
        (("stats", STATES, "--nothing"), "Unrecognized option: 'nothing'"),
    ],
)
@pytest.mark.usefixtures("runtime")
def test_what_a_session_does_not_answer(words: tuple[str, ...], error: str) -> None:
    with serving(STATES):
        out, err = run(*words, "--session", status=2)

    assert (out, len(err.splitlines())) == ("", 1)
    assert error in err


@pytest.mark.usefixtures("runtime")
def test_a_file_that_changes_or_goes_is_reported(tmp_path: Path) -> None:
    copy = tmp_path / "states.gz"
    shutil.copy(STATES, copy)
    with serving(str(copy)):
        same = run("stats", str(copy), "--session")
        os.utime(copy, (1, 1))
        changed = run("stats", str(copy), "--session")
        copy.unlink()
        gone = run("stats", str(copy), "--session")

    assert same[1] == ""
    assert "has changed since the session opened it" in changed[1]
    assert "no longer exists" in gone[1]
    assert same[0] == changed[0] == gone[0]


@pytest.mark.usefixtures("runtime")
def test_everything_is_more_than_an_answer_may_have(tmp_path: Path) -> None:
    path = tmp_path / "many.statemap"
    head = '{"start": [0, 0], "title": "t", "states": {"a": {"value": 0}, "b": {"value": 1}}}\n'
    line = '{"time": "%d", "entity": "%s", "state": %d}\n'
    lines = (line % (index, "e" * 100, index % 2) for index in range(150_000))
    path.write_text(head + "".join(lines))
    with serving(str(path)):
        _, err = run("dump", str(path), "--kind", "intervals", "--session", status=1)
        out, _ = run("stats", str(path), "--json", "--session")

    assert "the answer has more than 16 MB: use --limit" in err
    assert json.loads(out)["rows"]


@pytest.mark.usefixtures("runtime")
def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    statement = "select count(*) from range(1000000000) a, range(1000000) b where a.range > b.range"
    with serving(STATES, "--timeout", "2s"):
        begin = time.monotonic()
        _, err = run("sql", STATES, statement, "--session", status=1)
        took_s = time.monotonic() - begin
        out, _ = run("query", STATES, "tree", "--session")
    del tmp_path

    assert "this takes more than 2s" in err
    assert took_s < 20
    assert "19149" in out


@pytest.mark.usefixtures("runtime")
def test_statements_can_neither_read_nor_write_files(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    if sys.platform != "linux":
        pytest.skip("files are confined by Landlock")
    secret = tmp_path / "secret"
    secret.write_text("x")
    with serving(STATES):
        statements = f"from read_text('{secret}')", f"copy (select 1) to '{tmp_path}/new'"
        read, written = (run("sql", STATES, each, "--session", status=2) for each in statements)

    assert "Permission denied" in read[1]
    assert written[0] == ""
    assert not (tmp_path / "new").exists()


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(runtime: Path) -> None:
    path = runtime / "meantime" / "default.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert "no session is open" in run("stats", STATES, "--session", status=1)[1]
    with serving(STATES) as first:
        _, err = run("serve", SPANS, status=1)
        assert "a session is open already" in err
        assert run("query", STATES, "tree", "--session")[1] == ""
        first.kill()
        first.wait()
        assert "no session is open" in run("stats", STATES, "--session", status=1)[1]
        with serving(STATES):
            assert run("query", STATES, "tree", "--session")[1] == ""


def test_a_folder_that_others_can_use_is_refused(runtime: Path) -> None:
    (runtime / "meantime").mkdir(mode=0o777)
    (runtime / "meantime").chmod(0o777)

    for words in (("stats", STATES, "--session"), ("serve", STATES)):
        assert "is not a folder that you alone can use" in run(*words, status=1)[1]


@pytest.mark.usefixtures("runtime")
def test_what_a_client_sends_does_not_end_the_session() -> None:
    with serving(STATES):
        for content in (b"", b"\xff" * 100, b"\0" * 2_000_000, b"/\0stats\0" + b"x" * 5000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(socket_path())
                try:
                    client.sendall(content)
                except BrokenPipeError:
                    continue
        # one that sends nothing holds a process for a while, and no other client
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(socket_path())
            assert "19149" in run("query", STATES, "tree", "--session")[0]


@pytest.mark.parametrize("answer", [b"", frame(STDOUT, b"half"), frame(STDOUT, b"half")[:-2]])
def test_an_answer_that_ends_early_is_an_error(runtime: Path, answer: bytes) -> None:
    (runtime / "meantime").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as threads:
        listener.bind(socket_path())
        listener.listen()

        def serve_once() -> None:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(1000):
                    pass
                connection.sendall(answer)

        served = threads.submit(serve_once)
        with pytest.raises(SessionError, match="ended before it answered"):
            ask(socket_path(), ["stats"])
        served.result()


def test_a_whole_answer_has_both_outputs_and_the_status(runtime: Path) -> None:
    (runtime / "meantime").mkdir(mode=0o700)
    parts = frame(STDOUT, b"a" * 200_000) + frame(STDERR, b"b") + frame(EXIT, b"3")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as threads:
        listener.bind(socket_path())
        listener.listen()

        def serve_once() -> list[str]:
            connection, _ = listener.accept()
            with connection:
                content = b""
                while block := connection.recv(1000):
                    content += block
                connection.sendall(parts)
            return content.decode().split("\0")

        served = threads.submit(serve_once)
        assert ask(socket_path(), ["stats", "x y"]) == (3, b"a" * 200_000, b"b")
        assert served.result() == [str(Path.cwd()), "stats", "x y"]


def test_the_shell_side_imports_nothing_that_takes_time(runtime: Path) -> None:
    del runtime
    code = "import sys; before = {*sys.modules}; import meantime.session; "
    code += "print(*{*sys.modules} - before)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )

    assert {*done.stdout.split()} <= {"__future__", "meantime", "meantime.session", "_socket"}


@pytest.mark.usefixtures("runtime")
def test_tools_of_mcp_answer_as_commands_do() -> None:
    pytest.importorskip("mcp")
    process = subprocess.Popen(
        [sys.executable, "-m", "meantime", "serve", "--mcp", SPANS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    numbers = iter(range(100))

    def call(method: str, **params: Any) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        number = next(numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        while (answer := json.loads(process.stdout.readline())).get("id") != number:
            pass
        found: dict[str, Any] = answer["result"]
        return found

    about = {"name": "test", "version": "1"}
    begun = call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
    process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    tools = {each["name"] for each in call("tools/list")["tools"]}
    asked = {"file": SPANS, "question": ["span 42"]}
    found = call("tools/call", name="query", arguments=asked)
    refused = call("tools/call", name="info", arguments={"file": "/etc/passwd"})
    option = call("tools/call", name="info", arguments={"file": "--help"})
    process.stdin.close()

    assert process.wait(600) == 0
    process.stdout.close()
    assert "What limited it" in begun["instructions"]
    assert tools == {"info", "explain", "findings", "stats", "query", "why", "sql"}
    assert found["content"][0]["text"] == run("query", SPANS, "span 42", "--json")[0]
    assert refused["isError"]
    assert "is not open in this session" in refused["content"][0]["text"]
    assert "it begins with -" in option["content"][0]["text"]


@pytest.mark.usefixtures("runtime")
def test_a_session_ends_with_ctrl_c() -> None:
    with serving(STATES) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
