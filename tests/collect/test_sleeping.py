"""A thread that sleeps inside a step is not running, whether or not its waits are recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import meantime
from meantime.cli.summary import summary

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

# each in a program of its own, since that of the tests may have other threads
STEPS = """
import asyncio, os, socket, subprocess, sys, threading, time, meantime

def slept_s():
    # how long this thread neither ran nor waited for a processor, by the kernel
    while True:
        begin = time.perf_counter()
        with open("/proc/thread-self/schedstat") as file:
            waited_ns = int(file.read().split()[1])
        end = time.perf_counter()
        # where it lost the processor in between, they are of different moments
        if end - begin < 0.001:
            return end - time.thread_time() - waited_ns / 1e9

def spin(seconds):
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        pass

def receive():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(0.15)
        try:
            receiving.recv(512)
        except TimeoutError:
            pass

def fill_a_pipe():
    receiving, sending = os.pipe()
    # a process, since a second thread would have its waits recorded
    reader = subprocess.Popen(["sh", "-c", "sleep 0.15; cat > /dev/null"], stdin=receiving)
    os.close(receiving)
    os.write(sending, b" " * 300_000)
    os.close(sending)
    reader.wait()

async def main():
    await asyncio.sleep(0)
    before_s = slept_s()
    {step}
    await asyncio.sleep(0)
    print(slept_s() - before_s)

with meantime.record({path!r}, {options}):
    asyncio.run(main())
"""


def run(path: Path, step: str, options: str = "") -> int:
    """Record a step; return how many nanoseconds its thread slept, by the kernel."""
    program = STEPS.format(step=step, path=str(path), options=options)
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE)
    return round(float(found.stdout) * 1e9)


@pytest.mark.parametrize(
    "step",
    [
        "time.sleep(0.15)",
        "receive()",
        "subprocess.run(['sleep', '0.15'])",
        "fill_a_pipe()",
        "asyncio.get_running_loop().call_soon(time.sleep, 0.15)",
        # none is long
        "for _ in range(300): time.sleep(0.0005); await asyncio.sleep(0)",
    ],
)
def test_a_program_with_one_thread_sleeps_in_its_steps(tmp_path: Path, step: str) -> None:
    # beside busy programs, a child process may have ended before its parent can wait for it
    slept_ns = run(tmp_path / "run.mtr", step)

    recorded = read(tmp_path / "run.mtr")
    loop_ns = recorded.times("Loops")
    assert loop_ns["sleeping"] > 0.8 * slept_ns > 0
    if "subprocess" not in step and "pipe" not in step:
        # it sleeps by itself, however busy the machine is
        assert loop_ns["sleeping"] > 120_000_000
    # what it waits for while a child process starts is also counted
    assert loop_ns["running"] + loop_ns["cpu-wait"] < sum(loop_ns.values()) - 0.8 * slept_ns
    assert not recorded.trace.anomalies
    assert "waits of threads" not in recorded.trace.facts


def test_a_step_that_computes_does_not_sleep(tmp_path: Path) -> None:
    run(tmp_path / "run.mtr", "spin(0.2)")

    loop_ns = read(tmp_path / "run.mtr").times("Loops")
    assert loop_ns["running"] > 190_000_000
    # where the clocks are read, a moment may be missing
    assert loop_ns["sleeping"] < 20_000_000


def test_what_a_step_slept_beside_recorded_waits_is_counted_once(tmp_path: Path) -> None:
    step = "lock = threading.Lock(); lock.acquire(); lock.acquire(timeout=0.2); spin(0.05)"
    run(tmp_path / "run.mtr", step, "threads=True")

    loop_ns = read(tmp_path / "run.mtr").times("Loops")
    assert loop_ns["lock-wait"] > 190_000_000
    assert loop_ns["running"] > 45_000_000
    assert loop_ns["sleeping"] < 20_000_000


HOG = """
import asyncio, sys, threading, time, meantime
from meantime.collect import _recorder

if {broken}:
    # as where the interpreter's waits cannot be replaced
    _recorder.watch_threads = lambda: False
# longer than other programs keep the loop's thread from a processor
sys.setswitchinterval(0.8)

def crunch():
    while not done:
        pass

async def main():
    global done
    threading.Thread(target=crunch).start()
    for _ in range(3):
        await asyncio.sleep(0.01)
    done = True

done = False
with meantime.record({path!r}, {options}):
    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("options", "broken"), [("", True), ("policy='ring'", False)], ids=["impossible", "by choice"]
)
def test_no_line_is_blamed_for_a_wait_that_is_not_recorded(
    tmp_path: Path,
    options: str,
    broken: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    path = tmp_path / "run.mtr"
    program = HOG.format(path=str(path), options=options, broken=broken)
    subprocess.run([sys.executable, "-c", dedent(program)], check=True, timeout=600)

    recorded = read(path)
    loop_ns = recorded.times("Loops")
    assert loop_ns["unrecorded-wait"] > 1_500_000_000
    assert loop_ns["gil-wait"] == 0
    assert recorded.trace.facts["waits of threads"].startswith("not recorded: ")
    assert recorded.trace.anomalies["thread_waits_missing"] == broken
    with meantime.open(path) as history:
        # beside busy programs, a step that waits for a processor is another one
        blocks = [each for each in meantime.findings(history) if each.kind == "block"]
    found = max(blocks, key=lambda each: each.lost_ns)
    assert "a wait that is not recorded, for the GIL, for a lock, or in a call" in found.sentence
    assert "selectors.py" not in found.sentence
    assert ("`meantime record --threads` shows which" in found.sentence) != broken
    said = "\n".join(summary(str(path)))
    assert said.count("waits of threads were not recorded: ") == 1
