"""A process that is not recorded is looked into from outside, and runs on as before."""

from __future__ import annotations

import ctypes
import dis
import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import cli
from meantime.inspection import inspect_process, memory, objects
from meantime.inspection.layout import Layout
from meantime.inspection.memory import ProcessMemory, TornReadError
from meantime.inspection.objects import Objects
from meantime.inspection.symbols import symbol_addresses

sys.path.insert(0, str(Path(__file__).parent))
from reading import SETUID, is_capable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.inspection import InspectedProcess

WAITING = """
import asyncio, functools, threading, time, sys

async def asleep():
    await asyncio.sleep(1000)
async def locked(lock):
    async with lock:
        pass
async def queued(queue):
    await queue.get()
async def for_task(task):
    await task
async def gathers():
    await asyncio.gather(asleep(), asleep())
async def generates():
    await asyncio.sleep(1000)
    yield 1
async def iterates():
    async for _ in generates():
        pass
async def with_children():
    async with asyncio.TaskGroup() as group:
        group.create_task(asleep(), name="a child")
async def in_thread():
    await asyncio.to_thread(time.sleep, 1000)

def beside():
    time.sleep(1000)  # the line of the thread

async def main():
    lock = asyncio.Lock()
    await lock.acquire()
    inner = asyncio.create_task(asleep(), name="the inner \\N{SNOWMAN}")
    waits = [locked(lock), queued(asyncio.Queue()), for_task(inner), gathers(), iterates(),
             with_children(), in_thread(), asyncio.Event().wait()]
    tasks = [asyncio.create_task(each) for each in waits]
    asyncio.get_running_loop().call_later(0.1, functools.partial(print, "ready", flush=True))
    await asyncio.Event().wait()

threading.Thread(target=beside, name="beside", daemon=True).start()
asyncio.run(main())
"""
STUCK = """
import asyncio, re, sys

async def stuck():
    await asyncio.sleep(0)
    print("ready", flush=True)
    while True:
        pass  # a line of the step

async def other():
    await asyncio.sleep(0.001)

async def main():
    await asyncio.gather(stuck(), other(), other())

asyncio.run(main())
"""


@contextmanager
def running(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until it is ready, and end it."""
    command = [*(words or (sys.executable,)), "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def tasks_of(found: InspectedProcess) -> dict[str, Any]:
    """Return the tasks by the names of their functions."""
    return {task.frames[0].function: task for task in found.tasks}


def test_every_task_says_what_it_waits_for() -> None:
    with running(WAITING) as process:
        found = meantime.inspect_process(process.pid)

    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.command[-2:] == ("-c", WAITING)
    assert found.unreadable == 0
    tasks = tasks_of(found)
    assert {name: (task.state, task.reason) for name, task in tasks.items()} == {
        "asleep": ("waiting", "sleep"),
        "locked": ("waiting", "lock"),
        "queued": ("waiting", "queue"),
        "for_task": ("waiting", "tasks"),
        "gathers": ("waiting", "tasks"),
        "iterates": ("waiting", "sleep"),
        "with_children": ("waiting", "children"),
        "in_thread": ("waiting", "thread"),
        "Event.wait": ("waiting", "event"),
        "main": ("waiting", "event"),
    }
    assert tasks["for_task"].awaits == "the inner \N{SNOWMAN}"
    names = {task.name for task in found.tasks}
    assert {"a child", "the inner \N{SNOWMAN}"} <= names
    assert any(name.startswith("Task-") for name in names)
    assert [frame.function for frame in tasks["iterates"].frames[:2]] == ["iterates", "generates"]
    lines = WAITING.splitlines()
    assert lines[tasks["locked"].frames[0].line - 1] == "    async with lock:"
    assert {task.tid for task in found.tasks} == {process.pid}


def test_every_thread_has_its_name_and_its_stack() -> None:
    with running(WAITING) as process:
        found = inspect_process(process.pid)

    threads = {thread.name: thread for thread in found.threads}
    assert threads.keys() == {"MainThread", "beside", "asyncio_0"}
    assert threads["MainThread"].tid == process.pid
    beside = threads["beside"]
    assert (beside.state, beside.is_changing) == ("waiting", False)
    assert beside.frames[0].function == "beside"
    assert "the line of the thread" in WAITING.splitlines()[beside.frames[0].line - 1]
    assert threads["MainThread"].frames[-1].function == "<module>"


def test_a_step_that_never_ends_is_shown_with_its_line() -> None:
    with running(STUCK) as process:
        source = "print"
        # it may not have returned from printing
        while source.startswith("print"):
            found = inspect_process(process.pid)
            (thread,) = found.threads
            if thread.has_gil and thread.frames:
                source = STUCK.splitlines()[thread.frames[0].line - 1].strip()

    tasks = tasks_of(found)
    assert tasks["stuck"].state == "running"
    assert thread.frames[0].function == "stuck"
    assert source in {"while True:", "pass  # a line of the step"}
    # their time has come, but the loop cannot see it
    assert tasks["other"].state in {"waiting", "spawned", "runnable"}


def test_tasks_written_in_python_and_those_of_uvloop_are_shown() -> None:
    pytest.importorskip("uvloop")
    code = (
        "import asyncio, uvloop\n"
        "from asyncio.tasks import _PyTask\n"
        "async def one(): await asyncio.Event().wait()\n"
        "async def two(): await asyncio.sleep(1000)\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    tasks = [_PyTask(one(), loop=loop, name='written'), asyncio.create_task(two())]\n"
        "    loop.call_later(0.1, lambda: print('ready', flush=True))\n"
        "    await asyncio.Event().wait()\n"
        "with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner: runner.run(main())\n"
    )
    with running(code) as process:
        tasks = tasks_of(inspect_process(process.pid))

    assert (tasks["one"].name, tasks["one"].reason) == ("written", "event")
    assert tasks["two"].reason == "sleep"


def test_a_process_that_is_recorded_is_shown_as_well(tmp_path: Path) -> None:
    code = f"import meantime; meantime.start({str(tmp_path / 'run.mtr')!r})\n{WAITING}"
    with running(code) as process:
        tasks = tasks_of(inspect_process(process.pid))

    assert tasks["locked"].reason == "lock"


BUSY = """
import asyncio, sys, threading
async def leaf(n):
    await asyncio.sleep(0)
    return n
async def main():
    print("ready", flush=True)
    total, turns = 0, 0
    while not done or turns < 200:
        total += sum(await asyncio.gather(*(leaf(n) for n in range(20))))
        turns += 1
    return total // turns
def wait():
    global done
    sys.stdin.read()
    done = True
done = False
threading.Thread(target=wait).start()
print(asyncio.run(main()))
sys.exit(7)
"""


def test_a_process_that_changes_is_read_again_and_runs_on_unharmed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", BUSY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    try:
        found = [inspect_process(process.pid) for _ in range(30)]
    finally:
        output, errors = process.communicate("", timeout=600)

    assert (output, errors, process.returncode) == ("190\n", "", 7)
    functions = {task.frames[0].function for each in found for task in each.tasks if task.frames}
    # a leaf may be inside what `sleep(0)` awaits
    assert functions <= {"main", "leaf", "__sleep0"}
    # most of what is read fits together, though nothing waits for that
    steady = [thread for each in found for thread in each.threads if not thread.is_changing]
    assert len(steady) >= 30
    for thread in steady:
        assert thread.frames[-1].function in {"<module>", "Thread._bootstrap"}


def test_the_command_prints_the_threads_and_tasks_of_a_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(WAITING) as process:
        cli.main(["top", str(process.pid), "--once"], standalone_mode=False)
        text = capsys.readouterr().out
        cli.main(["top", str(process.pid), "--json"], standalone_mode=False)
        document = json.loads(capsys.readouterr().out)

    assert text.startswith(f"process {process.pid}: ")
    assert "thread beside " in text
    assert "task the inner \N{SNOWMAN}" in text
    assert "    beside (<string>:" in text
    assert {task["reason"] for task in document["tasks"]} >= {"lock", "queue", "sleep"}
    assert document["threads"][0]["frames"][-1]["function"] == "<module>"


def refusal(pid: int) -> str:
    with pytest.raises(meantime.MeantimeError) as error:
        inspect_process(pid)
    return str(error.value)


def test_what_cannot_be_looked_into_is_said() -> None:
    assert "there is no process" in refusal(2**22 + 1)
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        try:
            assert "is not a program of CPython" in refusal(process.pid)
        finally:
            process.kill()
    older = next(
        (found for name in ("python3.10", "python3.9") if (found := shutil.which(name))), None
    )
    if older is None or subprocess.run([older, "-c", ""], check=False).returncode:
        return
    code = "import time; print('ready', flush=True); time.sleep(100)"
    # a shim of pyenv executes the interpreter
    with running(code, older) as process:
        assert "runs a Python before 3.11: this cannot" in refusal(process.pid)


@pytest.mark.skipif(not is_capable(SETUID), reason="needs the right to become another user")
@pytest.mark.in_child_process  # it forks, and other tests may have left threads
def test_the_process_of_another_user_is_refused_with_what_to_do() -> None:
    with running("import time; print('ready', flush=True); time.sleep(100)") as process:
        child = os.fork()
        if not child:
            status = 1
            with suppress(BaseException):
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                status = (
                    0
                    if "it belongs to user 0; run this as that user" in refusal(process.pid)
                    else 2
                )
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("scope", "user", "said"),
    [
        ("1", 1000, "(kernel.yama.ptrace_scope is 1); run this with sudo, or as root"),
        ("3", 0, "until the next boot"),
        ("0", 0, "start that with --cap-add SYS_PTRACE"),
        ("0", 1000, "for a program with other rights; run this with sudo"),
    ],
)
def test_what_the_kernel_refuses_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, user: int, said: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(memory, "_YAMA", tmp_path / "scope")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(memory, "_owner_of", lambda _: user)
    assert said in memory.why_unreadable(os.getpid())


def test_lines_are_those_of_the_interpreter() -> None:
    codes = [
        function.__code__
        for module in (dis, json, random, shutil, subprocess, sys.modules[__name__])
        for function in vars(module).values()
        if hasattr(function, "__code__")
    ]
    assert len(codes) > 100
    for code in codes:
        for unit, (line, *_) in enumerate(code.co_positions()):
            expected = code.co_firstlineno if line is None else line
            assert objects._line_at(code.co_linetable, code.co_firstlineno, unit) == expected


def test_symbols_are_where_the_linker_put_them() -> None:
    with ProcessMemory(os.getpid()) as own:
        expected = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        found = [
            symbol_addresses(own, mapping.start, ["_PyRuntime", "not_there"])
            for mapping in own.mappings()
            if not mapping.offset and "python" in mapping.path.rpartition("/")[2]
        ]
    assert {"_PyRuntime": expected} in found


class Garbage(ProcessMemory):
    """Memory in which anything may be anywhere."""

    def __init__(self, seed: int) -> None:
        self.pid = 1
        self._random = random.Random(seed)  # noqa: S311 - to repeat what fails

    def __exit__(self, *_: object) -> None:
        return

    def read(self, address: int, size: int) -> bytes:
        """Return bytes that make sense now and then."""
        if not 0 < address < 1 << 63 or not 0 <= size < 1 << 24 or self._random.random() < 0.02:
            raise TornReadError
        if self._random.random() < 0.3:
            kind = self._random.choice([b"dict\0", b"str\0", b"set\0", b"code\0", b"coroutine\0"])
            return (kind * size)[:size]
        if self._random.random() < 0.5:
            return b"".join(
                self._random.randrange(64).to_bytes(8, "little") for _ in range(size // 8 + 1)
            )[:size]
        return self._random.randbytes(size)


@pytest.mark.parametrize("minor", range(11, 16))
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_in_memory_ends_in_an_answer_or_an_error(minor: int, seed: int) -> None:
    garbage = Garbage(seed)
    layout = Layout.__new__(Layout)
    with suppress(TornReadError, meantime.MeantimeError):
        layout.__init__(garbage, 3 << 24 | minor << 16, 4096)  # type: ignore[misc] # it fails after its offsets are set
    found = Objects(garbage, layout)
    for look in (
        found.text,
        found.frame_line,
        found.stack_top,
        found.weakly_referred,
        found.members,
        found.integer,
        found.modules,
        lambda at: found.attribute(at, "data"),
        lambda at: list(found.items(at)),
        lambda at: symbol_addresses(garbage, at, ["Py_Version"]),
    ):
        for address in range(4096, 4096 * 20, 4096):
            with suppress(TornReadError):
                look(address)


def test_a_process_that_ends_meanwhile_is_an_error_and_nothing_else() -> None:
    for _ in range(5):
        with running("print('ready', flush=True)") as process:
            until_s = time.monotonic() + 5
            while time.monotonic() < until_s:
                try:
                    inspect_process(process.pid)
                except meantime.MeantimeError:
                    break
            process.wait(timeout=600)
