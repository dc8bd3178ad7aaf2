"""Samples say what threads were doing, and never more than could be seen."""

from __future__ import annotations

import _thread
import asyncio
import platform
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, NamedTuple

import pytest

import meantime
from meantime.collect import _recorder
from meantime.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


HZ = 500
DATA = [(i * 7919) % 100_003 for i in range(50_000)]


class Sample(NamedTuple):
    tid: int
    event: str
    weight: int
    name: str
    frames: list[str]


def samples_of(path: Path) -> list[Sample]:
    history = meantime.open(path)
    table = history.samples()
    return [
        Sample(
            int(history.attributes.path(int(table.thread[row]))[-1]),
            str(table.event[row]),
            int(table.weight[row]),
            str(table.name[row]),
            [frame.partition(" (")[0] for frame in table.stacks.frames_of(int(table.stack[row]))],
        )
        for row in range(len(table))
    ]


def ns_by(samples: list[Sample], event: str, names: set[str]) -> Counter[str]:
    """Return the nanoseconds of an event, by the innermost of these functions."""
    found: Counter[str] = Counter()
    for sample in samples:
        for frame in reversed(sample.frames):
            if sample.event == event and frame in names:
                found[frame] += sample.weight
                break
    return found


def spin(cpu_ns: int) -> None:
    until = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < until:
        pass


def sort(cpu_ns: int) -> None:
    until = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < until:
        sorted(DATA)


def rest(count: int) -> None:
    for _ in range(count):
        threading.Event().wait(0.02)


def wait_for(path: Path, *texts: str) -> None:
    """Wait until these texts are in the recording's files: until the sampler has met them."""
    missing = {text.encode() for text in texts}
    deadline = time.monotonic() + 120
    while missing:
        assert time.monotonic() < deadline, missing
        for file in path.iterdir():
            if file.suffix in (".facts", ".tail", ".ev"):
                content = file.read_bytes()
                missing = {text for text in missing if text not in content}


def test_running_and_waiting_are_distinguished_also_inside_c(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", samples=HZ, trace="none"):
        for _ in range(4):
            spin(20_000_000)
            sort(40_000_000)
            rest(3)

    samples = samples_of(tmp_path / "run.mtr")
    on = ns_by(samples, "on-cpu", {"spin", "sort", "rest"})
    off = ns_by(samples, "off-cpu", {"spin", "sort", "rest"})
    assert on["sort"] > on["spin"] > on["rest"]
    assert on["sort"] > 80_000_000
    # how many samples a busy machine takes of a thread that waits is not certain
    assert off["rest"] > on["rest"]


def test_time_on_a_processor_is_never_more_than_was_used(tmp_path: Path) -> None:
    begin_ns = time.thread_time_ns()
    with meantime.record(tmp_path / "run.mtr", samples=HZ, trace="none"):
        spin(300_000_000)
    used_ns = time.thread_time_ns() - begin_ns

    samples = samples_of(tmp_path / "run.mtr")
    # a sample has what was used since the one before, so only the ends can be missing
    assert used_ns // 2 < ns_by(samples, "on-cpu", {"spin"})["spin"] <= used_ns


def test_a_sample_names_the_task_that_ran(tmp_path: Path) -> None:
    async def main() -> None:
        async def busy() -> None:
            for _ in range(20):
                spin(2_000_000)
                await asyncio.sleep(0)

        await asyncio.gather(busy(), busy())

    with meantime.record(tmp_path / "run.mtr", samples=HZ):
        asyncio.run(main())

    samples = samples_of(tmp_path / "run.mtr")
    names = {sample.name for sample in samples if "spin" in sample.frames}
    assert any(".busy (test_samples.py:" in name for name in names)
    assert any("Runner.run" in sample.frames for sample in samples)


def test_threads_have_their_names_also_those_that_ran_before(tmp_path: Path) -> None:
    done = threading.Event()
    before = threading.Thread(target=done.wait, name="early bird")
    before.start()
    with meantime.record(tmp_path / "run.mtr", samples=HZ, trace="none"):
        after = threading.Thread(target=done.wait, name="late riser")
        after.start()
        wait_for(tmp_path / "run.mtr", "MainThread", "early bird", "late riser")
        done.set()
        after.join()
    before.join()

    names = {sample.name for sample in samples_of(tmp_path / "run.mtr")}
    assert {"MainThread", "early bird", "late riser"} <= names


def test_a_thread_that_is_met_before_its_name_is_known_has_it_afterwards(tmp_path: Path) -> None:
    done = threading.Event()
    native_ids: list[int] = []

    def wait() -> None:
        native_ids.append(threading.get_native_id())
        done.wait()

    with meantime.record(tmp_path / "run.mtr", samples=HZ, trace="none"):
        # of a thread that is begun in this way no name is noted
        _thread.start_new_thread(wait, ())
        (tail,) = wait_for_tail(tmp_path / "run.mtr")
        while not native_ids:
            time.sleep(0.001)
        sample = struct.pack("<I", native_ids[0])
        while not any(
            tail[at] == _recorder.KINDS["SAMPLE"] and tail[at + 8 : at + 12] == sample
            for at in range(0, len(tail), 16)
        ):
            (tail,) = wait_for_tail(tmp_path / "run.mtr")
        _recorder.note_thread(native_ids[0], "found later")
        wait_for(tmp_path / "run.mtr", "found later")
        done.set()


def wait_for_tail(path: Path) -> list[bytes]:
    """Return the records in the tail of the sampler, the only stream."""
    while not (tails := list(path.glob("*.tail"))):
        time.sleep(0.001)
    return [tail.read_bytes()[4096:] for tail in tails]


def test_a_function_at_the_address_of_another_has_its_own_name(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", samples=2000, trace="none"):
        (facts,) = (tmp_path / "run.mtr").glob("*.facts")
        number = 0
        while number < 100 or facts.read_bytes().count(b"made_") < 30:
            place: dict[str, Callable[[int], None]] = {"spin": spin}
            code = f"def made_{number}_here(cpu_ns):\n    spin(cpu_ns)\n"
            exec(compile(code, f"/generated/{number}.py", "exec"), place)  # noqa: S102 - code that goes
            place[f"made_{number}_here"](400_000)
            del place
            number += 1

    history = meantime.open(tmp_path / "run.mtr")
    made = {frame for frame in history.samples().stacks.frames if frame.startswith("made_")}
    assert len(made) >= 30
    assert {
        f"made_{number}_here ({number}.py:1)" for number in (frame.split("_")[1] for frame in made)
    } == made


def test_threads_that_come_and_go_are_no_trouble(tmp_path: Path) -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            sorted(DATA[:500])

    with meantime.record(tmp_path / "run.mtr", samples=2000):
        for _ in range(100):
            threads = [threading.Thread(target=deep, args=(20,)) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    samples = samples_of(tmp_path / "run.mtr")
    assert len({sample.tid for sample in samples}) > 1
    assert max(sum(frame.endswith("deep") for frame in each.frames) for each in samples) <= 21


def test_names_of_any_characters_are_read(tmp_path: Path) -> None:
    names = {"größe", "площадь", "面积", "\N{SNAKE}"}
    done = threading.Event()
    waiting = lambda: done.wait()  # noqa: E731,PLW0108 - a function whose code gets other names
    with meantime.record(tmp_path / "run.mtr", samples=HZ, trace="none"):
        threads = []
        for name in names:
            code = waiting.__code__.replace(co_qualname=name)
            named = FunctionType(code, {}, closure=waiting.__closure__)
            threads.append(threading.Thread(target=named))
            threads[-1].start()
        wait_for(tmp_path / "run.mtr", *names)
        done.set()
        for thread in threads:
            thread.join()

    seen = {frame for sample in samples_of(tmp_path / "run.mtr") for frame in sample.frames}
    assert names <= seen


def _run_script(text: str, path: Path) -> subprocess.CompletedProcess[str]:
    prelude = (
        "import meantime, os, signal, sys, time\n"
        "def spin(cpu_ns):\n"
        "    until = time.thread_time_ns() + cpu_ns\n"
        "    while time.thread_time_ns() < until: pass\n"
    )
    return subprocess.run(
        [sys.executable, "-c", prelude + text, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os._exit(3)", 3),
    ],
)
def test_samples_outlive_the_program(tmp_path: Path, end: str, status: int) -> None:
    done = _run_script(
        f"meantime.start(sys.argv[1], samples=500)\nspin(100_000_000)\n{end}\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == status, done.stderr
    assert ns_by(samples_of(tmp_path / "run.mtr"), "on-cpu", {"spin"})["spin"] > 30_000_000


def test_the_main_thread_has_a_name_before_there_are_others(tmp_path: Path) -> None:
    done = _run_script(
        "assert 'threading' not in sys.modules\n"
        "meantime.start(sys.argv[1], samples=500)\n"
        "spin(100_000_000)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    assert {sample.name for sample in samples_of(tmp_path / "run.mtr")} == {"MainThread"}


def test_a_forked_process_is_sampled_too(tmp_path: Path) -> None:
    done = _run_script(
        "meantime.start(sys.argv[1], samples=500)\n"
        "def child(): spin(100_000_000)\n"
        "def parent(): spin(100_000_000)\n"
        "pid = os.fork()\n"
        "if pid: parent(); os.waitpid(pid, 0)\n"
        "else: child(); os._exit(0)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    on = ns_by(samples_of(tmp_path / "run.mtr"), "on-cpu", {"child", "parent"})
    assert (on["child"] > 30_000_000, on["parent"] > 30_000_000) == (True, True)


def _thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_no_thread_is_left_after_a_recording(tmp_path: Path) -> None:
    before = _thread_count()
    meantime.start(tmp_path / "run.mtr", samples=HZ)
    during = _thread_count()
    meantime.stop()

    # the kernel lists a thread for a moment after it was joined
    give_up = time.monotonic() + 30
    while _thread_count() > before and time.monotonic() < give_up:
        time.sleep(0.01)
    assert (during, _thread_count()) == (before + 1, before)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers here")
def test_they_are_taken_where_reading_another_process_is_forbidden(tmp_path: Path) -> None:
    # as containers do it: process_vm_readv fails with EPERM, all else is allowed
    done = _run_script(
        "import ctypes as c, struct\n"
        "rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 310), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]\n"
        "text = c.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))\n"
        "program = c.create_string_buffer(struct.pack('HxxxxxxQ', 4, c.addressof(text)))\n"
        "library = c.CDLL(None)\n"
        "assert library.prctl(38, 1, 0, 0, 0) == 0\n"
        "assert library.prctl(22, 2, program) == 0\n"
        "meantime.start(sys.argv[1], samples=500)\n"
        "spin(100_000_000)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    assert ns_by(samples_of(tmp_path / "run.mtr"), "on-cpu", {"spin"})["spin"] > 30_000_000


@pytest.mark.parametrize("hz", [-1, 0.5, 10_001])
def test_a_rate_that_cannot_be_is_refused(tmp_path: Path, hz: float) -> None:
    with pytest.raises(UsageError, match="samples are taken 1 to 10,000 times a second"):
        meantime.start(tmp_path / "run.mtr", samples=hz)

    assert not (tmp_path / "run.mtr").exists()


def test_what_the_sampler_missed_is_not_recorded(tmp_path: Path) -> None:
    done = _run_script(
        "import subprocess\n"
        "meantime.start(sys.argv[1], samples=500)\n"
        "spin(30_000_000)\n"
        # what stops a process stops its sampler, too
        "stop = 'kill -STOP $PPID; sleep 0.2; kill -CONT $PPID'\n"
        "subprocess.run(['sh', '-c', stop])\n"
        "spin(30_000_000)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr
    history = meantime.open(tmp_path / "run.mtr")
    longest_ns = max(end - start for start, end in history.lost)
    table = history.samples()
    start_ns, end_ns = max(history.lost, key=lambda span: span[1] - span[0])
    assert longest_ns > 150_000_000
    assert not ((table.time_ns >= start_ns) & (table.time_ns < end_ns)).any()
    assert history.anomalies["samples_skipped"] > 50
