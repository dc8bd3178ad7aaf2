"""Habits of the whole command line: files as commands, completion, suggestions, --force, --json."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from meantime.cli import COMMANDS, main
from meantime.errors import InputError
from meantime.readers.recognition import recognise
from meantime.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRACE = "start_ns,end_ns,path,value\n0,5,a,on\n5,9,a,off\n0,9,b,on\n"


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[object, str, str]]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(TRACE)

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        return stopped.value.code, *capsys.readouterr()

    return run


def test_a_file_is_summarised_with_the_commands_to_use_next(
    run: Callable[..., tuple[object, str, str]],
) -> None:
    status, out, err = run("x.csv")

    assert (status, err) == (0, "")
    assert out.startswith(run("info", "x.csv")[1])
    commands = [line.split() for line in out.splitlines() if line.startswith("    meantime ")]
    assert [words[1] for words in commands] == ["statemap", "stats", "stats"]
    for words in commands:
        assert run(*words[1:])[0] == 0


def test_each_example_suggests_three_commands_at_most_that_exist(
    root: Path, run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    for name in ("jobs.perf.gz", "postgres.statemap.gz", "files.jsonl"):
        (tmp_path / name).symlink_to(root / "examples" / name)
        _, out, _ = run(name)
        words = [line.split()[1] for line in out.splitlines() if line.startswith("    meantime ")]

        assert 1 <= len(words) <= 3
        assert set(words) <= COMMANDS.keys()


def test_begins_and_ends_of_a_log_are_suggested_as_pairs(
    run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    names = ("job started", "job finished", "job failed", "tick", "start", "end of file")
    lines = [json.dumps({"time_ns": at, "name": name}) for at, name in enumerate(names)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    _, out, _ = run("log.jsonl")
    expected = "view log.jsonl --pair 'job started:job finished,job failed' --pair-by FIELD"
    assert expected in out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["stat"], "'stat' is neither a command nor a file; did you mean stats?"),
        (["nowhere.json"], "'nowhere.json' is neither a command nor a file;"),
        (["stats", "x.csv", "--fron", "1"], "Unrecognized option: 'fron'; did you mean --from?"),
        (["stats", "x.csv", "--start", "1"], "Unrecognized option: 'start'; did you mean --from?"),
        (["stats", "x.csv", "--thread", "1"], "did you mean --filter?"),
        (["stats", "x.csv", "--quux", "1"], "Unrecognized option: 'quux'; see meantime stats"),
        (["check", "x.csv", "--version"], "Unrecognized option: 'version'; see meantime check"),
    ],
)
def test_a_mistake_is_answered_with_what_was_meant(
    arguments: list[str], hint: str, run: Callable[..., tuple[object, str, str]]
) -> None:
    status, out, err = run(*arguments)

    assert (status, out) == (2, "")
    assert hint in err
    assert err.endswith("--help\n")
    assert err.count("\n") == 1


def test_an_interrupt_exits_with_130(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    process = subprocess.Popen(
        [sys.executable, "-m", "meantime", "info", str(tmp_path / "never")], stderr=subprocess.PIPE
    )
    with (tmp_path / "never").open("w"):  # the command has begun to read
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)

    assert (process.returncode, err.strip()) == (130, b"meantime: interrupted")


INTERRUPTED = """
import os, signal, sys
import meantime.__main__ as process

class Found:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Found())
sys.argv = ["meantime", "formats"]
process.main()
"""


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("meantime.cli", (-signal.SIGINT, b"")),
        ("click", (-signal.SIGINT, b"")),
        ("meantime.cli.formats", (130, b"meantime: interrupted")),
    ],
)
def test_an_interrupt_while_modules_are_imported_prints_no_traceback(
    name: str, ended: tuple[int, bytes]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(name=name)], capture_output=True, check=False
    )

    assert (done.returncode, done.stderr.strip()) == ended


BEFORE = """
import sys
sys.path.append({folder!r})
known = set(sys.modules)
import meantime.__main__
print(*(set(sys.modules) - known - set(sys.builtin_module_names)))
"""


def test_until_an_interrupt_ends_the_process_nothing_is_imported(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BEFORE.format(folder=str(root / "src"))],
        capture_output=True,
        text=True,
        check=True,
    )

    # an import of Python's own `signal` takes 4 ms
    assert set(done.stdout.split()) == {"__future__", "meantime", "meantime.__main__"}


CAUSED = """
import os, signal, sys
import meantime.__main__ as process
from meantime.cli import formats

class Described:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

def described(**options):
    class Last:
        described = Described()

formats.command.callback = described
sys.argv = ["meantime", "formats"]
process.main()
"""


def test_an_interrupt_while_a_class_is_made_is_one() -> None:
    # a RuntimeError until Python 3.12
    command = [sys.executable, "-c", CAUSED]
    done = subprocess.run(command, capture_output=True, check=False)

    assert (done.returncode, done.stderr.strip()) == (130, b"meantime: interrupted")


IGNORED = """
import os, signal, sys, time
import meantime.__main__ as process
from meantime.cli import formats

class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

def wait():
    Last()
    time.sleep(3600)

formats.command.callback = lambda **options: wait()
sys.argv = ["meantime", "formats"]
process.main()
"""


def test_an_interrupt_that_python_ignores_is_repeated() -> None:
    # at once, whatever the command waits for
    command = [sys.executable, "-c", IGNORED]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)

    assert (done.returncode, done.stderr.strip()) == (130, b"meantime: interrupted")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_completes_by_asking_meantime(
    shell: str, run: Callable[..., tuple[object, str, str]]
) -> None:
    status, out, _ = run("completion", shell)

    assert (status, "_MEANTIME_COMPLETE" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("meantime st", ["plain,statemap", "plain,stats", "file,st"]),
        ("meantime stats --fi", ["plain,--filter"]),
        ("meantime stats x", ["file,x"]),
        ("meantime statemap x -o y", ["file,y"]),
        ("meantime stats --by n", ["plain,name"]),
    ],
)
def test_commands_options_values_and_file_names_are_completed(words: str, found: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "meantime"],
        env=os.environ
        | {
            "_MEANTIME_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == found


def test_a_history_is_replaced_only_with_force(
    run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    assert run("build", "x.csv", "-o", "x.mth")[0] == 0
    status, _, err = run("build", "x.csv", "-o", "x.mth")
    assert (status, err) == (
        1,
        "meantime: x.mth: already exists; choose another name, or use --force\n",
    )

    (tmp_path / "x.csv").write_text(TRACE + "0,9,c,on\n")
    status, out, _ = run("build", "x.csv", "-o", "x.mth", "--force", "--json")

    assert status == 0
    assert json.loads(out)["attributes"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.mth"]


def test_a_history_that_cannot_be_replaced_stays(
    run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    run("build", "x.csv", "-o", "x.mth")
    (tmp_path / "bad.csv").write_text(TRACE + "9,0,c,on\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")

    assert run("build", "bad.csv", "-o", "x.mth", "--force")[0] == 1
    assert run("build", "x.mth", "-o", "x.mth", "--force")[0] == 1
    assert run("build", "x.csv", "-o", "mine", "--force")[0] == 1
    assert run("convert", "x.csv", "mine", "--to-format", "history", "--force")[0] == 1
    assert run("check", "x.mth")[1].startswith("x.mth: intact")
    assert (tmp_path / "mine" / "letter").read_text() == "dear"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "mine", "x.csv", "x.mth"]


def test_results_are_json_on_request(run: Callable[..., tuple[object, str, str]]) -> None:
    run("build", "x.csv", "-o", "x.mth")

    assert json.loads(run("check", "x.mth", "--json")[1])["intact"] is True
    assert json.loads(run("check", "x.mth", "--salvage", "y.mth", "--json")[1])["missing"] == []
    assert json.loads(run("convert", "x.csv", "x.spall", "--json")[1]) == {
        "lost": {
            "states, which became spans": 3,
            "ids that are not 32-bit numbers, written as names": 3,
        }
    }
    assert json.loads(run("heatmap", "x.csv", "--period", "3ns", "--find", "--json")[1]) == {
        "findings": []
    }


def test_the_height_of_a_row_may_be_h_as_in_the_original(
    run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    for name, option in (("a", "-h"), ("b", "-H"), ("c", "--stateHeight")):
        assert run("statemap", "x.csv", option, "30", "-o", f"{name}.svg")[0] == 0

    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "c.svg").read_text()
    assert run("statemap", "-h")[1].startswith("Usage: meantime statemap")


def test_a_filter_selects_entities_and_threads_alike(
    run: Callable[..., tuple[object, str, str]], tmp_path: Path
) -> None:
    events = [
        {"ph": "X", "pid": 1, "tid": tid, "ts": 0, "dur": 5, "name": f"f{tid}"} for tid in (1, 12)
    ]
    (tmp_path / "x.json").write_text(json.dumps(events))

    def keys(*arguments: str) -> list[str]:
        return [row["key"] for row in json.loads(run(*arguments, "--json")[1])["rows"]]

    assert keys("stats", "x.csv", "--filter", "a") == ["on", "off"]
    assert keys("stats", "x.csv", "--filter", "[b-z]") == ["on"]
    assert keys("stats", "x.json", "--filter", "1") == ["f1"]
    assert keys("stats", "x.json", "--filter", "^1.") == ["f1", "f12"]
    assert keys("stats", "x.json", "--filter", "12$") == ["f12"]


def test_a_range_is_printed_by_dump(run: Callable[..., tuple[object, str, str]]) -> None:
    rows = run("dump", "x.csv", "--kind", "intervals", "--from", "6ns", "--to", "7ns")[1]

    assert [json.loads(row)["value"] for row in rows.splitlines()] == ["off", "on"]


@pytest.mark.parametrize(
    ("head", "called", "advised"),
    [
        (b"go 1.22 trace\0\0\0", "an execution trace of Go 1.22 or later", "jsontrace"),
        (b"  *A0   67729.291769 secs A0 => cc1:18\n", "a report of perf sched", "perf script >"),
        (b"memray\0\x0b\0", "a recording of memray", "memray stats NAME"),
        (
            bytes.fromhex("04224d18 4040 c0 da0a0000 f100") + b"memray\0\x0b\0",
            "a recording of memray",
            "memray flamegraph NAME",
        ),
        (b"\x04\x22\x4d\x18\x40\x40\xc0\0\0", "compressed with lz4", "lz4 -d NAME"),
        (
            b'{"version": "1", "profile": {"frames": [{"function": "f"}]',
            "a profile of Sentry",
            "io",
        ),
        (b'{\n "resourceMetrics": [', "OpenTelemetry metrics", "CSV"),
        (b'{"trace_id": "0x1"}\n', "the output of OpenTelemetry's console exporter", "OTLP"),
        (b'{"traceId": "AA==", "refType": 0', "Jaeger's model in protobuf's JSON", "download"),
        (b'\x1e{\n"type": "preamble"', "a part of a CTF trace", "directory"),
        (b'<?xml version="1.0"?>\n<trace-query-result>', "an export of xctrace", "Deep Copy"),
        (b"     0.020 ( 0.013 ms): pgbench/9 recvfrom(", "the output of perf trace", "perf script"),
        (b'{"projectId": "a", "traceId": "b", "spans": [{"startTime"', "a trace of Google", "OTLP"),
        (b"<?xml version", "XML or a web page", "the trace itself"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_what_to_do(
    head: bytes,
    called: str,
    advised: str,
    tmp_path: Path,
    run: Callable[..., tuple[object, str, str]],
) -> None:
    (tmp_path / "NAME").write_bytes(head)

    status, out, err = run("info", "NAME")

    assert (status, out) == (1, "")
    assert err.startswith(f"meantime: NAME: this is {called}")
    assert advised in err


@pytest.mark.parametrize(
    ("head", "format_"),
    [
        (b'\n {"traceEvents": [', "chrome"),
        (b'{"otherData": {"id": "traceID"}, "traceEvents": [', "chrome"),
        # zipkin's keys, behind Chrome's
        (b'[{"ph": "X", "args": {"traceId": 1, "id": 2}', "chrome"),
        (b"a 7 1.000000: 1 x: \n\n", "perf"),
    ],
)
def test_what_is_read_is_not_taken_for_another_format(head: bytes, format_: str) -> None:
    assert format_ == recognise(Source("x", io.BytesIO(head))).reader.FORMAT


def test_a_large_text_is_not_searched_for_long() -> None:
    began = time.process_time()

    for text in (
        b"# \n" * 30_000, b"\n" * 60_000, b"{" + b'"traceID"' * 5000, b"[" * 60_000,
        b'{"log": {' * 7000, b'"' * 60_000, b'{"ph"' * 12_000, b"[{," * 20_000,
        b'{"libs": [{' * 5000, b"a-1 " * 16_000, b"a-1 memray\0;\x10[" * 4000,
    ):  # fmt: skip
        with contextlib.suppress(InputError):
            recognise(Source("x", io.BytesIO(text)))

    # the square of its length would be minutes
    assert time.process_time() - began < 20
