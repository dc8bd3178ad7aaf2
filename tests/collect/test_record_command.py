"""`meantime record` runs a command as it would run by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import meantime

sys.path.insert(0, str(Path(__file__).parent))
from reading import SYS_ADMIN, is_capable, read

WORK = "import asyncio; asyncio.run(asyncio.sleep(0.001)); "
TELL = (
    "import sys, os; print(sys.argv, sys.path[0], __name__, sys.flags, 'sitecustomize' in sys.path)"
)
WORKS = (sys.executable, "-c", WORK)


def _meantime(
    *words: str, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "meantime", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **(env or {})},
    )


def _processes(path: Path) -> int:
    return len(list(path.glob("*.facts")))


def _record(
    tmp_path: Path, *words: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return _meantime("record", "-q", "-o", "run.mtr", *options, "--", *words, cwd=tmp_path)


@pytest.fixture(autouse=True)
def _same_meantime(monkeypatch: pytest.MonkeyPatch) -> None:
    # the commands run elsewhere, with the package that the tests run with
    monkeypatch.setenv("PYTHONPATH", str(Path(meantime.__file__).parents[1]))


@pytest.mark.parametrize(
    "arguments",
    [("app.py", "a", "-b"), ("-m", "app", "a"), ("-c", TELL, "a"), ("-W", "error", "app.py")],
    ids=["script", "module", "code", "flags"],
)
def test_a_command_sees_what_it_would_see(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(TELL)
    command = (sys.executable, *arguments)
    expected = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    recorded = _record(tmp_path, *command)

    assert recorded.stdout == expected.stdout
    assert recorded.stderr == ""
    assert _processes(tmp_path / "run.mtr") == 1


@pytest.mark.parametrize("status", [0, 3])
def test_its_exit_status_is_ours(tmp_path: Path, status: int) -> None:
    done = _record(tmp_path, sys.executable, "-c", f"raise SystemExit({status})")

    assert done.returncode == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_that_ends_it_ends_us(tmp_path: Path, number: signal.Signals) -> None:
    code = f"import os; os.kill(os.getpid(), {int(number)})"

    done = _record(tmp_path, sys.executable, "-c", code)

    assert done.returncode == -number


def test_a_signal_to_us_reaches_it(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "signal.pause()\n"
    )

    done = _record(tmp_path, sys.executable, "-c", code)

    assert done.returncode == 9


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess, sys; subprocess.run([sys.executable, '-c', WORK], check=True)",
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', WORK])",
        "import os; p = os.fork(); exec(WORK); p and os.waitpid(p, 0)",
        "import multiprocessing as m; m.get_context('spawn').Pool(1).map(abs, [1])",
    ],
    ids=["subprocess", "exec", "fork", "spawn"],
)
def test_what_it_starts_is_recorded_too(tmp_path: Path, code: str) -> None:
    (tmp_path / "app.py").write_text(
        f"WORK = {WORK!r}\nif __name__ == '__main__':\n    {code.replace('; ', chr(10) + '    ')}\n"
    )

    done = _record(tmp_path, sys.executable, "app.py")

    assert done.returncode == 0, done.stderr
    assert _processes(tmp_path / "run.mtr") >= 2


def test_child_processes_are_not_recorded_on_request(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "assert 'MEANTIME_RECORDING' not in os.environ\n"
        "subprocess.run([sys.executable, '-c', 'pass'], check=True)\n"
    )

    done = _record(tmp_path, sys.executable, "-c", code, options=("--no-follow",))

    assert done.returncode == 0, done.stderr
    assert _processes(tmp_path / "run.mtr") == 1


def test_the_users_own_sitecustomize_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys; sys.users_own = True\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}{os.pathsep}{os.environ['PYTHONPATH']}")

    done = _record(
        tmp_path,
        sys.executable,
        "-c",
        "import sys, sitecustomize; print(sys.users_own, sitecustomize.__file__)",
    )

    assert done.stdout.strip() == f"True {tmp_path / 'site' / 'sitecustomize.py'}"


def test_the_summary_shows_where_the_time_went(tmp_path: Path) -> None:
    done = _meantime(
        "record",
        "-o",
        "run.mtr",
        "--",
        sys.executable,
        "-c",
        WORK + "print('done')",
        cwd=tmp_path,
    )

    assert done.stdout == "done\n"
    assert "meantime statemap run.mtr" in done.stderr
    assert "tasks: " in done.stderr
    assert "waiting:sleep" in done.stderr
    assert "longest step: " in done.stderr


def test_the_summary_names_the_longest_step_and_its_lines(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import asyncio, time\n"
        "async def main():\n"
        "    await asyncio.sleep(0)\n"
        "    time.sleep(0.03)\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(main())\n"
    )

    done = _meantime("record", "-o", "run.mtr", "--", sys.executable, "app.py", cwd=tmp_path)

    lines = done.stderr.splitlines()
    assert lines[1].startswith("  1 event loop: sleeping ")
    # where the machine makes it 50 ms long, its stack is taken, and it may stand out
    longest = r"in main \(app.py:6\), between app.py:3 and app.py:5|in main \(app.py:4\)"
    assert re.search(rf"{longest}|main \(app.py:[46]\) blocked the event loop", done.stderr)
    assert lines[-3:] == [
        "see meantime findings run.mtr",
        "    meantime statemap run.mtr -o run.svg",
        "    meantime stats run.mtr --by state",
    ]


def test_the_summary_of_an_empty_recording_reports_that(tmp_path: Path) -> None:
    done = _meantime(
        *("record", "-o", "run.mtr", "--trace", "none", "--", sys.executable, "-c", WORK),
        cwd=tmp_path,
    )

    assert done.stderr == ("meantime: run.mtr: no asyncio or trio activity was recorded\n")


def test_a_recording_that_was_damaged_leaves_the_commands_status(tmp_path: Path) -> None:
    code = (
        "import glob; path = glob.glob('run.mtr/*.facts')[0]; open(path, 'r+').write('x' * 64); "
        "raise SystemExit(7)"
    )

    done = _meantime("record", "-o", "run.mtr", "--", sys.executable, "-c", code, cwd=tmp_path)

    assert done.returncode == 7
    assert done.stderr == (
        "meantime: run.mtr: the recording cannot be read\n"
        "  1 file_damaged: damaged files of the recording, or parts of them, were skipped; "
        "copy the recording again if another copy is intact\n"
    )


def test_a_command_without_python_is_reported(tmp_path: Path) -> None:
    done = _meantime("record", "-o", "run.mtr", "--", "true", cwd=tmp_path)

    assert done.returncode == 0
    assert "nothing was recorded" in done.stderr


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_isolated_python_is_reported(tmp_path: Path, options: tuple[str, ...]) -> None:
    record = ("record", *options, "-o", "r.mtr", "--")
    done = _meantime(*record, sys.executable, "-I", "-c", "", cwd=tmp_path)

    assert "-I, -E or -S" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_is_recorded_is_described_without_what_does_not_occur(tmp_path: Path) -> None:
    done = _record(tmp_path, sys.executable, "-c", WORK)
    assert done.stderr == ""

    text = _meantime("info", "run.mtr", cwd=tmp_path).stdout
    assert "Tasks: time in states; " in text
    assert " 0ns " not in text
    document = json.loads(_meantime("info", "run.mtr", "--json", cwd=tmp_path).stdout)
    assert {"name": "lock-wait", "total_ns": 0}.items() <= next(
        state for state in document["states"] if state["name"] == "lock-wait"
    ).items()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("record", "-o", "run.mtr", "--", "no-such-command"), "no-such-command: No such file"),
        (("record", "--max-size", "many", "--", "true"), "'many' is not a size"),
        (("record", "--max-size", "1k", "--", "true"), "at least 1 MB"),
        (("record", "--blocked", "10us", "--", "true"), "at least 1ms"),
        (("record", "--for", "-1s", "--", "true"), "is not a duration"),
        (("top", "nowhere.mtr"), "not a recording"),
        (("top", "--every", "0s", "."), "is not positive"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = _meantime(*words, cwd=tmp_path)

    assert done.returncode != 0
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_recording_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "run.mtr").mkdir()

    done = _record(tmp_path, "true")

    assert (done.returncode, "exists already" in done.stderr) == (1, True)


def test_a_recording_stays_if_what_would_replace_it_cannot_run(tmp_path: Path) -> None:
    _record(tmp_path, sys.executable, "-c", WORK)

    refused = _record(tmp_path, "no-such-command", options=("--force",))

    assert refused.returncode == 127
    assert "run.mtr is unchanged" in refused.stderr
    assert _processes(tmp_path / "run.mtr") == 1
    assert _record(tmp_path, sys.executable, "-c", WORK, options=("--force",)).returncode == 0


def test_a_recording_that_a_link_names_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    _meantime("record", "-o", "named.mtr", "--", "true", cwd=tmp_path)
    (tmp_path / "run.mtr").symlink_to("named.mtr")

    done = _meantime("record", "-q", "--force", "-o", "run.mtr", "--", *WORKS, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run.mtr").readlink() == Path("named.mtr")
    assert _processes(tmp_path / "run.mtr") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"run.mtr", "named.mtr"}


@pytest.mark.parametrize("path", [".", "../run.mtr"])
def test_the_recording_in_which_a_command_runs_is_not_replaced(tmp_path: Path, path: str) -> None:
    _meantime("record", "-o", "run.mtr", "--", "true", cwd=tmp_path)

    done = _meantime("record", "--force", "-o", path, "--", "true", cwd=tmp_path / "run.mtr")

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the command runs in it" in done.stderr
    assert (tmp_path / "run.mtr" / "recording.json").exists()


def test_top_shows_groups_and_what_they_wait_for(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, time\n"
        "async def sleeper(): await asyncio.sleep(10)\n"
        "async def main():\n"
        "    tasks = [asyncio.create_task(sleeper()) for _ in range(3)]\n"
        "    asyncio.get_running_loop().call_soon(time.sleep, 0.05)\n"
        "    await asyncio.sleep(0.001)\n"
        "    os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    _record(tmp_path, sys.executable, "-c", code)

    shown = _meantime("top", "run.mtr", cwd=tmp_path, env={"COLUMNS": "200"})

    assert shown.stderr == ""
    (line,) = [line for line in shown.stdout.splitlines() if "sleeper" in line]
    assert line.split()[-2:] == ["sleep", "3"]
    assert "Callbacks/sleep" in shown.stdout


def test_a_recording_for_a_time_has_nothing_after_it(tmp_path: Path) -> None:
    code = WORK + "import time; time.sleep(0.3); " + WORK + "print('on')"

    done = _record(tmp_path, sys.executable, "-c", code, options=("--for", "200ms"))

    assert done.stdout == "on\n"
    trace = read(tmp_path / "run.mtr").trace
    assert trace.bounds is None or trace.bounds[1] <= 200_000_000


@pytest.mark.skipif(not is_capable(SYS_ADMIN), reason="needs the right to mount")
def test_without_proc_a_command_is_recorded_as_with_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import asyncio, time\n"
        "def check():\n"
        "    time.sleep(0.2)\n"
        "async def main():\n"
        "    for _ in range(2): await asyncio.sleep(0.001); check()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-m", "meantime", "record", "-o", "run.mtr", "--"]
    hidden = ["/usr/bin/unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    done = subprocess.run(
        [*hidden, *command, sys.executable, "app.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(meantime.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "check (app.py:3), called by main (app.py:5), blocked the event loop" in done.stderr
    # it slept, or waited for a processor
    assert "unrecorded-wait" in done.stderr
    assert "waits of threads were not recorded" not in done.stderr


@pytest.mark.parametrize(
    ("command", "status"), [("no-such-command", 127), ("./not-executable", 126), ("./folder", 126)]
)
def test_a_command_that_cannot_be_run_has_the_status_that_env_gives_it(
    tmp_path: Path, command: str, status: int
) -> None:
    (tmp_path / "not-executable").write_text("")
    (tmp_path / "folder").mkdir()
    for force in ((), ("--force",)):
        done = _meantime("record", *force, "-o", "run.mtr", "--", command, cwd=tmp_path)
        own = subprocess.run(["/usr/bin/env", command], cwd=tmp_path, check=False)
        assert (done.returncode, own.returncode) == (status, status)
        assert not (tmp_path / "run.mtr").exists()
    _meantime("record", "-o", "run.mtr", "--", "true", cwd=tmp_path)
    done = _meantime("record", "--force", "-o", "run.mtr", "--", command, cwd=tmp_path)
    assert done.returncode == status
    assert "run.mtr is unchanged" in done.stderr
