"""A running program is recorded from outside, and runs on as before."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import attach as attach_module
from meantime.cli.attach import command
from meantime.collect import _recorder, enabling, messages, session

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator

WAITING = "import sys, meantime; meantime.enable(); print('ready', flush=True); sys.stdin.read()"
LOOPING = """
import asyncio, meantime
meantime.enable(policy="drop")
async def tick():
    while True:
        await asyncio.sleep(0.002)
async def main():
    ticking = asyncio.create_task(tick())
    print("ready", flush=True)
    await asyncio.to_thread(input)
asyncio.run(main())
print("ended")
"""


# since then, a process can be asked from outside to execute a script
before_scripts = pytest.mark.skipif(sys.version_info >= (3, 14), reason="until Python 3.13")
with_scripts = pytest.mark.skipif(sys.version_info < (3, 14), reason="since Python 3.14")

# As if the signal arrived while the module is executed.
IMPORTING = """
import importlib.machinery, sys, time, types, meantime
name = "concurrent.futures.thread"
unfinished = types.ModuleType(name)
unfinished.__spec__ = importlib.machinery.ModuleSpec(name, None)
unfinished.__spec__._initializing = True
sys.modules[name] = unfinished
meantime.enable()
print("ready", flush=True)
time.sleep(0.2)
del sys.modules[name]
sys.stdin.read()
"""


@contextmanager
def running(code: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it is ready; at the end it gets a line, and must end well."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        process.communicate("\n", timeout=600)
    assert process.returncode == 0


def attach(*words: object) -> None:
    command.main([str(word) for word in words], standalone_mode=False)


def refusal(*words: object) -> str:
    with pytest.raises(meantime.MeantimeError) as error:
        attach(*words)
    return str(error.value)


def test_a_program_in_the_middle_of_an_import_is_recorded_after_it(tmp_path: Path) -> None:
    with running(IMPORTING, tmp_path) as process:
        attach(process.pid, "--for", "10ms", "-q", "-o", tmp_path / "run.mtr")

    assert (tmp_path / "run.mtr").is_dir()


@pytest.mark.parametrize("options", [[], ["--include", "command"]])
def test_secrets_of_a_command_line_are_recorded_on_request(
    tmp_path: Path, options: list[str]
) -> None:
    code = "import sys, meantime; meantime.enable(); print('ready', flush=True); sys.stdin.read()"
    with running(code, tmp_path, "--token=hunter2") as process:
        attach(process.pid, "--for", "1ms", "-q", "-o", tmp_path / "run.mtr", *options)

    for name in ("recording.json", f"{process.pid}.0.json"):
        assert ("hunter2" in (tmp_path / "run.mtr" / name).read_text()) == bool(options)


def test_a_running_loop_is_recorded_as_often_as_asked(tmp_path: Path) -> None:
    with running(LOOPING, tmp_path) as process:
        for name in ("first.mtr", "second.mtr"):
            attach(process.pid, "--for", "200ms", "-q", "-o", tmp_path / name)
        process.send_signal(signal.SIGUSR2)
        assert process.stderr
        line = process.stderr.readline()
        process.send_signal(signal.SIGUSR2)
        assert process.stderr.readline().startswith("meantime: recorded into ")

    toggled = tmp_path / line.split()[-1]
    for path in (tmp_path / "first.mtr", tmp_path / "second.mtr", toggled):
        recorded = read(path)
        assert "waiting:sleep" in recorded.states("Tasks", "tick")[0]
        assert recorded.trace.anomalies["records_lost"] == 0


def test_a_program_that_is_enabled_has_no_thread_and_imports_little(tmp_path: Path) -> None:
    code = (
        "import sys, meantime; meantime.enable()\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "assert not {'asyncio', 'threading', 'socket', 'json', 'numpy'} & set(sys.modules)"
    )
    with running(code, tmp_path) as process:
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1
        attach(process.pid, "--for", "1ms", "-q", "-o", tmp_path / "run.mtr")


def test_a_forked_process_can_be_attached_to(tmp_path: Path) -> None:
    code = (
        "import os, sys, meantime; meantime.enable()\n"
        "reading, writing = os.pipe()\n"
        "child = os.fork()\n"
        "if not child: os.close(writing); os.read(reading, 1); os._exit(0)\n"
        "open('child', 'w').write(str(child)); print('ready', flush=True); sys.stdin.read()\n"
        "os.close(writing); os.wait()"
    )
    with running(code, tmp_path):
        child = int((tmp_path / "child").read_text())
        until_s = time.monotonic() + 30
        while not (tmp_path / "child.mtr").exists() and time.monotonic() < until_s:
            # it may not have got as far as to listen
            with suppress(meantime.MeantimeError):
                attach(child, "--for", "1ms", "-q", "-o", tmp_path / "child.mtr")

    assert (tmp_path / "child.mtr" / f"{child}.0.json").is_file()


def test_why_a_process_is_not_recorded_is_said(tmp_path: Path) -> None:
    with running(WAITING, tmp_path) as process:
        (tmp_path / "there.mtr").mkdir()
        assert "exists already" in refusal(process.pid, "-o", tmp_path / "there.mtr")
        assert "it is not being recorded" in refusal(process.pid, "--stop")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.bind("")
            ours.settimeout(30)
            ours.sendto(b"meantime 99", messages.address(process.pid))
            answer = messages.decoded(ours.recv(messages.MAX_BYTES))
            assert answer == {"error": "ValueError: this is another version of meantime"}

    assert "there is no process" in refusal(process.pid)


@before_scripts
def test_before_scripts_a_process_must_be_prepared() -> None:
    assert "start it with MEANTIME=1" in refusal(os.getpid())
    assert f"`meantime top {os.getpid()}` shows" in refusal(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "print(flush=True); input()"],
        env={**os.environ, "MEANTIME": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as without_site:
        assert without_site.stdin
        assert without_site.stdout
        without_site.stdout.readline()
        assert "one started with -S; call meantime.enable()" in refusal(without_site.pid)
        without_site.stdin.write(b"\n")


def test_a_process_that_does_not_answer_is_not_recorded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.cli.attach._ANSWERS_WITHIN_S", 0.05)
    with running(WAITING, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        assert "has not answered" in refusal(process.pid, "-o", tmp_path / "late.mtr")
        process.send_signal(signal.SIGCONT)
        monkeypatch.undo()
        until_s = time.monotonic() + 30
        while "is being recorded" in (said := refusal(process.pid, "--stop")):
            assert time.monotonic() < until_s
        assert "it is not being recorded" in said


@pytest.mark.parametrize("value", ["1", None])
def test_a_python_with_the_variable_is_enabled(
    root: Path, tmp_path: Path, value: str | None
) -> None:
    (tmp_path / "meantime_enable.pth").write_text(
        (root / "src" / "meantime_enable.pth").read_text()
    )
    code = (
        "import site, sys; site.addsitedir(sys.argv[1])\n"
        "print('meantime.collect.enabling' in sys.modules, 'meantime' in sys.modules)"
    )
    environment = {name: text for name, text in os.environ.items() if name != "MEANTIME"}
    if value is not None:
        environment["MEANTIME"] = value

    printed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert printed.stdout == ("True True\n" if value else "False False\n")
    assert printed.stderr == ""


def test_where_recording_is_impossible_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    monkeypatch.setenv("MEANTIME", "1")
    monkeypatch.delitem(sys.modules, "meantime.collect.at_start", raising=False)

    import meantime.collect.at_start  # noqa: F401,PLC0415 - what it does when imported

    assert capsys.readouterr().err == (
        "meantime: MEANTIME=1 has no effect: "
        "recording is not possible in a free-threaded Python yet\n"
    )


def test_enabling_is_for_the_main_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for this test only

    with (
        ThreadPoolExecutor() as executor,
        pytest.raises(meantime.MeantimeError, match="in the main thread"),
    ):
        executor.submit(meantime.enable).result()


def test_a_signal_that_interrupts_the_begin_of_a_recording_begins_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write = session._write_process_facts

    def interrupted(path: str, secrets: bool) -> None:  # noqa: FBT001 - as it is called
        enabling._toggle(signal.SIGUSR2, None)
        write(path, secrets)

    monkeypatch.setattr(session, "_write_process_facts", interrupted)
    with meantime.record(tmp_path / "run.mtr"):
        assert session.recording_path() == str(tmp_path / "run.mtr")
    assert capsys.readouterr().err == (
        "meantime: a recording is being begun or ended: send the signal again\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run.mtr"]


def test_a_recording_that_cannot_begin_leaves_nothing_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context:
        context.setattr(session, "_write_process_facts", full)
        with pytest.raises(meantime.MeantimeError, match="No space left"):
            meantime.start(tmp_path / "first.mtr")
    assert not _recorder.is_recording()
    with meantime.record(tmp_path / "second.mtr"):
        assert _recorder.is_recording()
    assert read(tmp_path / "second.mtr").trace.anomalies["records_lost"] == 0


def test_a_signal_that_came_too_early_is_sent_again(tmp_path: Path) -> None:
    # as if it had arrived just before the main thread began to wait
    code = (
        "import signal, sys, meantime; from meantime.collect import enabling\n"
        "answer, enabling._answer_all = enabling._answer_all, lambda *_: None\n"
        "meantime.enable()\n"
        "def ignore_first(number, frame):\n"
        "    signal.signal(number, answer)\n"
        "signal.signal(enabling._number, ignore_first)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with running(code, tmp_path) as process:
        attach(process.pid, "--for", "1ms", "-q", "-o", tmp_path / "run.mtr")

    assert (tmp_path / "run.mtr").is_dir()


UNPREPARED = """
import asyncio, signal, sys, threading
async def tick():
    while True:
        await asyncio.sleep(0.002)
async def main():
    ticking = asyncio.create_task(tick(), name="ticking")
    print("ready", flush=True)
    await asyncio.to_thread(input)
before = set(globals())
asyncio.run(main())
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
changed = {number for number, handler in handlers.items() if callable(handler)}
names = set(globals()) - before - {"before", "handlers", "changed"}
print("ended", changed == {signal.SIGINT}, names)
"""


@with_scripts
def test_a_process_that_was_not_prepared_is_recorded_as_often_as_asked(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", UNPREPARED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        for name in ("first.mtr", "second.mtr"):
            attach(process.pid, "--for", "200ms", "-q", "-o", tmp_path / name)
        there = tmp_path / "first.mtr"
        assert "exists already" in refusal(process.pid, "-o", there)
        assert "it is not being recorded" in refusal(process.pid, "--stop")
        output, errors = process.communicate("\n", timeout=600)

    assert (output, errors, process.returncode) == ("ended True set()\n", "", 0)
    for name in ("first.mtr", "second.mtr"):
        recorded = read(tmp_path / name)
        assert "waiting:sleep" in recorded.states("Tasks", "tick")[0]
        assert "ticking" in recorded.trace.names.values()
        assert recorded.trace.anomalies["records_lost"] == 0


@with_scripts
def test_a_process_whose_main_thread_waits_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach_module, "_ANSWERS_WITHIN_S", 0.5)
    folders = tmp_path / "temporary"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    # its main thread is in a call until a line comes
    code = "import sys; print('ready', flush=True); line = sys.stdin.readline(); print(line)"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        refused = refusal(process.pid, "-o", tmp_path / "run.mtr")
        assert "has not answered" in refused
        assert f"`meantime top {process.pid}` shows what it is doing" in refused
        output, errors = process.communicate("line\n", timeout=600)

    assert (output, errors, process.returncode) == ("line\n\n", "", 0)
    assert not (tmp_path / "run.mtr").exists()
    # what it executed in the end has removed itself
    assert not list(folders.iterdir())


@with_scripts
def test_a_process_that_executes_no_scripts_is_refused_with_what_to_do() -> None:
    code = "import sys; print('ready', flush=True); sys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-X", "disable-remote-debug", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        refused = refusal(process.pid)
        process.communicate("\n", timeout=600)
    assert "cannot be recorded" in refused
    assert "start it with MEANTIME=1 in its environment" in refused
