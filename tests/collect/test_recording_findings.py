"""What stands out in recordings of programs with planted faults."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.readers.recording.locations import CodeLocation

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.query.findings import Finding

MS = 10**6

BLOCKS = """\
import asyncio, time

def render():
    time.sleep(0.5)

async def report():
    for _ in range(2):
        await asyncio.sleep(0.1)
        render()

def tick():
    time.sleep(0.4)

async def request():
    for _ in range(8):
        await asyncio.sleep(0.05)

async def main():
    asyncio.get_running_loop().call_later(0.02, tick)
    await asyncio.gather(report(), *(request() for _ in range(5)))

asyncio.run(main())
"""

REQUESTS = """\
import asyncio
from meantime.collect.asgi import RequestTags

async def query(seconds):
    await asyncio.sleep(seconds)

async def app(scope, receive, send):
    await query(3 if scope["path"] in ("/cart/24", "/cart/30") else 0.02)

async def request(number):
    path = f"/cart/{number}"
    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    await RequestTags(app)(scope, None, None)

async def main():
    tasks = []
    for number in range(80):
        tasks.append(asyncio.create_task(request(number)))
        await asyncio.sleep(0.025)
    await asyncio.gather(*tasks)

asyncio.run(main())
"""

QUEUES = """\
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(2)
BOTH_BUSY = threading.Barrier(3)
MAY_END = threading.Event()

async def save(lock):
    async with lock:
        await asyncio.sleep(0.01)

def store():
    if not MAY_END.is_set():
        BOTH_BUSY.wait()
        MAY_END.wait()

def begin():
    BOTH_BUSY.wait()
    MAY_END.set()

async def upload():
    await asyncio.get_running_loop().run_in_executor(POOL, store)

async def main():
    asyncio.get_running_loop().call_later(0.05, begin)
    lock = asyncio.Lock()
    await asyncio.gather(*(save(lock) for _ in range(20)), *(upload() for _ in range(20)))

asyncio.run(main())
"""

STEADY = """\
import asyncio

async def handle(number):
    await asyncio.sleep(0.002 + number % 5 * 0.001)
    sum(range(2000))

async def main():
    tasks = []
    for number in range(80):
        tasks.append(asyncio.create_task(handle(number)))
        await asyncio.sleep(0.004)
    await asyncio.gather(*tasks)

asyncio.run(main())
"""


def findings_of(folder: Path, program: str, *options: str) -> list[Finding]:
    (folder / "app.py").write_text(program)
    command = [sys.executable, "-m", "meantime", "record", "-o", "run.mtr", *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, "app.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found = [each for each in meantime.findings(meantime.open(folder / "run.mtr")) if each.lost_ns]
    # what the recorder prints at the end is the same
    lines = done.stderr.splitlines()
    begin = lines.index("what stands out:") + 1 if found else len(lines)
    assert lines[begin : begin + 3][: len(found)] == [f"  {each.sentence}" for each in found[:3]]
    return found


@pytest.mark.parametrize("options", [(), ("--samples", "199")])
def test_what_blocked_the_loop_comes_first(tmp_path: Path, options: tuple[str, ...]) -> None:
    first, second, *_ = findings_of(tmp_path, BLOCKS, *options)

    assert (first.kind, second.kind) == ("block", "block")
    assert (first.count, second.count) == (2, 1)
    assert first.lost_ns >= 1000 * MS
    assert second.lost_ns >= 400 * MS
    # with or without samples: the line that ran when the step had become long
    assert first.sentence.startswith(
        "render (app.py:4), called by report (app.py:9), blocked the event loop for "
    )
    assert second.sentence.startswith("tick (app.py:12) blocked the event loop for ")
    assert "5 tasks were waiting" in first.sentence
    assert first.rows[0].startswith("Loops/MainThread")
    assert first.rows[1].startswith("Tasks/report")


def test_slow_requests_are_named_by_method_and_path(tmp_path: Path) -> None:
    # A busy machine lets the loop wait for a processor, which may be a finding, too. It also delays
    # usual requests, but few by one wait, since they come one after the other.
    first = next(each for each in findings_of(tmp_path, REQUESTS) if each.kind == "slow")

    assert first.sentence.startswith("GET /cart/* took ")
    assert "of it waiting:sleep at query (app.py:5)" in first.sentence
    assert first.sentence.endswith(" of 80 much longer than usual")
    assert first.count >= 2
    assert first.lost_ns >= 5000 * MS


def test_a_lock_and_a_pool_that_many_wait_for_are_found(tmp_path: Path) -> None:
    found = [each for each in findings_of(tmp_path, QUEUES) if each.kind == "contention"]

    sentences = sorted(each.sentence for each in found)
    assert len(sentences) == 2
    assert sentences[0].startswith("19 tasks waited for a lock at save (app.py:9) ")
    assert "up to 19 at once" in sentences[0]
    assert sentences[1].startswith("work for the 2 threads of ThreadPoolExecutor-0 waited for ")
    assert "up to 18 at once" in sentences[1]


HELD = """\
import asyncio, re, threading, time

def hold():
    re.match(r"(a+)+$", "a" * 23 + "b")

def hog():
    for _ in range(4):
        time.sleep(0.05)
        hold()

async def main():
    thread = threading.Thread(target=hog, name="hog")
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_the_line_of_another_thread_that_has_the_gil_is_named(tmp_path: Path) -> None:
    first, *_ = findings_of(tmp_path, HELD, "--blocked", "20ms")

    # A call computes for longer than `WATCHED_NS`, so it is a block even where it waits for a
    # processor for most of its time. A busy machine can keep the thread that takes stacks from
    # doing so, but not each time.
    assert first.kind == "block"
    assert first.sentence.startswith("hold (app.py:4)")
    assert ", which had the GIL in hog " in first.sentence


IN_TURN = """\
import asyncio, time

def prepare():
    time.sleep(0.03)

def render():
    time.sleep(0.6)

async def main():
    await asyncio.sleep(0)
    prepare()
    render()

asyncio.run(main())
"""


def test_a_long_step_has_the_line_that_took_most_of_it(tmp_path: Path) -> None:
    first, *_ = findings_of(tmp_path, IN_TURN, "--blocked", "10ms")

    assert first.kind == "block"
    assert first.sentence.startswith("render (app.py:7), called by main (app.py:12), blocked ")


POOL_OF_THREADS = """\
import threading, time
from concurrent.futures import ThreadPoolExecutor

both_busy = threading.Barrier(3)
may_end = threading.Event()

def hold():
    both_busy.wait()
    may_end.wait()

with ThreadPoolExecutor(2) as pool:
    for _ in range(2):
        pool.submit(hold)
    both_busy.wait()
    for _ in range(6):
        pool.submit(int)
    time.sleep(0.06)
    may_end.set()
"""


def test_a_full_pool_of_a_program_without_tasks_is_found(tmp_path: Path) -> None:
    (found,) = findings_of(tmp_path, POOL_OF_THREADS)

    assert found.kind == "contention"
    assert found.sentence.startswith("work for the 2 threads of ThreadPoolExecutor-0 waited for ")
    assert found.end_ns - found.start_ns >= 60 * MS
    assert found.count == 6


def test_nothing_stands_out_in_a_steady_program(tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        kinds = {each.kind for each in findings_of(folder, STEADY) if each.lost_ns >= 50 * MS}
        # a machine that stops the program for a moment is not its fault, and does so seldom
        if not kinds:
            break

    assert not kinds


ALONE = """\
import asyncio, time

def render():
    time.sleep(0.2)

async def main():
    for _ in range(4):
        await asyncio.sleep(0.05)
        render()
    asyncio.get_running_loop().call_later(0.05, render)
    await asyncio.sleep(0.2)

asyncio.run(main())
"""


def test_each_block_counts_though_no_task_waited(tmp_path: Path) -> None:
    found = [each for each in findings_of(tmp_path, ALONE) if each.kind == "block"]

    assert found[0].sentence.startswith("render (app.py:4), called by main (app.py:9), blocked ")
    # a busy machine can keep the thread that takes stacks from doing so, or for too long: then the
    # callback has the first line of its function
    assert {each.sentence.partition(" (")[0] for each in found} == {"render"}
    assert 4 <= sum(each.count for each in found) <= 5


def test_an_import_is_what_it_executes() -> None:
    packages = "/usr/lib/python3.11/site-packages"
    frames = [
        *("542", "_init_module_attrs", "<frozen importlib._bootstrap>"),
        *("1", "<module>", f"{packages}/heavy/__init__.py"),
        *("9", "load", f"{packages}/web/routing.py"),
    ]
    own = ["12", "handle", "/srv/app.py"]

    assert CodeLocation.parse_stack("\0".join(frames)).code == "<module> (__init__.py:1)"
    assert CodeLocation.parse_stack("\0".join(frames + own)).code == "handle (app.py:12)"


def test_a_stack_names_own_code_what_it_called_and_what_called_it() -> None:
    packages = "/usr/lib/python3.11/site-packages"
    sleep = ["258", "JSONEncoder.iterencode", "/usr/lib/python3.11/json/encoder.py"]
    comprehension = ["7", "render.<locals>.<listcomp>.<locals>.<genexpr>", "/srv/app.py"]
    imports = ["241", "_call_with_frames_removed", "<frozen importlib._bootstrap>"]
    outer = ["20", "handle", "/srv/app.py"]
    between = ["9", "route", f"{packages}/web/routing.py"]

    def parsed(*frames: list[str]) -> CodeLocation:
        return CodeLocation.parse_stack("\0".join(word for frame in frames for word in frame))

    # before Python 3.12, a comprehension is a function
    found = parsed(sleep, imports, comprehension, outer)
    assert (found.code, found.caller) == ("render (app.py:7)", "handle (app.py:20)")
    assert found.calls == "JSONEncoder.iterencode (encoder.py:258)"
    # what a library calls in between chose where to go on
    assert parsed(sleep, comprehension, between, outer).caller == ""
    # a recursion calls itself
    assert parsed(outer, outer).caller == ""
    # an installed program is like a library
    installed = ["31", "serve", f"{packages}/service/api.py"]
    assert parsed(sleep, installed, between).code == "serve (api.py:31)"


def write_library(folder: Path, code: str) -> None:
    library = folder / "lib" / "site-packages" / "library.py"
    library.parent.mkdir(parents=True)
    library.write_text(code)


DEEP = """\
import asyncio, sys
sys.path.insert(0, "lib/site-packages")
import library

async def main():
    await asyncio.sleep(0.01)
    library.descend(60)

asyncio.run(main())
"""


def test_own_code_is_named_below_however_many_calls_of_a_library(tmp_path: Path) -> None:
    write_library(
        tmp_path,
        "import time\n"
        "def descend_with_a_name_that_is_as_long_as_those_of_some_libraries(more):\n"
        "    time.sleep(0.2) if not more else descend(more - 1)\n"
        "descend = descend_with_a_name_that_is_as_long_as_those_of_some_libraries\n",
    )
    (found,) = [each for each in findings_of(tmp_path, DEEP) if each.kind == "block"]

    assert found.sentence.startswith("main (app.py:7), in descend_with_a_name")


CLASS = """\
import asyncio, sys, time
sys.path.insert(0, "lib/site-packages")
import library

def connect(seconds):
    return library.Client(seconds)

async def main():
    for _ in range(100):
        connect(0)
    await asyncio.sleep(0.01)
    connect(0.2)

asyncio.run(main())
"""


@pytest.mark.parametrize("options", [(), ("--samples", "199")])
def test_own_code_that_calls_a_class_is_named(tmp_path: Path, options: tuple[str, ...]) -> None:
    write_library(
        tmp_path,
        "import time\n"
        "class Client:\n"
        "    def __init__(self, seconds):\n"
        "        time.sleep(seconds)\n",
    )
    # from Python 3.12 on, a frame of the interpreter's own is between the call and the method
    (found,) = [each for each in findings_of(tmp_path, CLASS, *options) if each.kind == "block"]

    assert found.sentence.startswith("connect (app.py:6), in Client.__init__ (library.py:4), ")
    frames = meantime.open(tmp_path / "run.mtr").samples().stacks.frames
    assert not [frame for frame in frames if frame.startswith("__init__ (")]
