"""A ring keeps the newest records, writes them out when told to, and says what it passed over."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.collect import _recorder
from meantime.model.anomalies import Anomalies
from meantime.readers.recording.listing import open_recording
from meantime.readers.recording.merge import Records, merged
from meantime.readers.recording.streams import stream_words

sys.path.insert(0, str(Path(__file__).parent))
from reading import read

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

SPAWN, WAIT, WAKE = 1, 5, 11


def _events(path: Path, kind: int) -> list[int]:
    found: list[int] = []
    for process in open_recording(path).processes:
        for stream in process.streams.values():
            for item in merged([(stream_words(stream, Anomalies()).pieces, 0)]):
                assert isinstance(item, Records)
                found += item.ident[item.kind == kind].tolist()
    return found


def _run_script(text: str, path: Path) -> subprocess.CompletedProcess[str]:
    prelude = "import os, sys, signal, meantime\nfrom meantime.collect import _recorder\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + text, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def _wait_for_segment(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not any(file.stat().st_size > 100 for file in path.glob("*.ev")):
        assert time.monotonic() < deadline


def test_a_signal_writes_it_out(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="ring"):
        _recorder.emit_many(WAIT, 100)
        signal.raise_signal(signal.SIGUSR2)
        _wait_for_segment(tmp_path / "run.mtr")

    assert _events(tmp_path / "run.mtr", WAIT) == list(range(100))
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_a_signal_that_the_program_uses_is_left_to_it(tmp_path: Path) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: came.append(number))
    try:
        with meantime.record(tmp_path / "run.mtr", policy="ring"):
            signal.raise_signal(signal.SIGUSR2)
        signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)

    assert came == [signal.SIGUSR2] * 2


def test_after_the_recording_the_signal_does_what_it_did(tmp_path: Path) -> None:
    done = _run_script(
        "meantime.start(sys.argv[1], policy='ring')\nmeantime.stop()\n"
        "os.kill(os.getpid(), signal.SIGUSR2)\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == -signal.SIGUSR2


def test_a_forked_process_dumps_its_own_ring_on_a_signal(tmp_path: Path) -> None:
    done = _run_script(
        "import glob, time\n"
        "meantime.start(sys.argv[1], policy='ring')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    _recorder.emit_many(5, 100)\n"
        "    os.kill(os.getpid(), signal.SIGUSR2)\n"
        "    own = f'{sys.argv[1]}/{os.getpid()}.*.ev'\n"
        "    while not any(os.path.getsize(file) > 1600 for file in glob.glob(own)): pass\n"
        "    os._exit(0)\n"
        "sys.exit(os.waitpid(child, 0)[1])\n",
        tmp_path / "run.mtr",
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_that_ends_a_thread_writes_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with meantime.record(tmp_path / "run.mtr", policy="ring"):
        _recorder.emit_many(WAIT, 100)
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        assert len(_events(tmp_path / "run.mtr", WAIT)) == 100
        assert list((tmp_path / "run.mtr").glob("*.ev"))


def test_an_exception_that_nobody_awaits_writes_it_out(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        loop.call_soon(lambda: 1 / 0)
        assert not list((tmp_path / "run.mtr").glob("*.ev"))
        await asyncio.sleep(0.001)
        assert list((tmp_path / "run.mtr").glob("*.ev"))

    with meantime.record(tmp_path / "run.mtr", policy="ring"):
        asyncio.run(main())


def test_an_exception_that_ends_the_program_writes_it_out(tmp_path: Path) -> None:
    done = _run_script(
        "import glob\n"
        "def tell(*_): print(len(glob.glob(sys.argv[1] + '/*.ev')))\n"
        "sys.excepthook = tell\n"
        "meantime.start(sys.argv[1], policy='ring')\n"
        "_recorder.emit_many(5, 100)\n"
        "1 / 0\n",
        tmp_path / "run.mtr",
    )

    assert done.stdout == "1\n", done.stderr


def _on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@pytest.mark.parametrize("run", [asyncio.run, _on_uvloop])
def test_a_callback_that_blocks_the_loop_writes_it_out(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    def block() -> None:
        time.sleep(0.6)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(block)
        await asyncio.sleep(0)
        assert not list((tmp_path / "run.mtr").glob("*.ev"))
        await asyncio.sleep(0.001)
        assert list((tmp_path / "run.mtr").glob("*.ev"))

    with meantime.record(tmp_path / "run.mtr", policy="ring", blocked_ns=500_000_000):
        run(main())


def test_only_the_last_of_it_is_written_and_the_rest_is_counted(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="ring", ring_ns=1):
        _recorder.emit_many(WAIT, 30_000)

    events = _events(tmp_path / "run.mtr", WAIT)
    assert 0 < len(events) < 9_000
    assert events == list(range(30_000 - len(events), 30_000))
    assert read(tmp_path / "run.mtr").trace.anomalies["records_lost"] == 30_000 - len(events)


def test_a_killed_program_leaves_what_it_passed_over_counted(tmp_path: Path) -> None:
    _run_script(
        "meantime.start(sys.argv[1], policy='ring', ring_bytes=200_000)\n"
        f"_recorder.emit_many({SPAWN}, 10)\n_recorder.dump()\n"
        f"_recorder.emit_many({WAIT}, 100_000)\nos.kill(os.getpid(), 9)\n",
        tmp_path / "run.mtr",
    )

    recorded = read(tmp_path / "run.mtr")
    events = _events(tmp_path / "run.mtr", WAIT)
    assert _events(tmp_path / "run.mtr", SPAWN) == list(range(10))
    assert recorded.trace.anomalies["records_lost"] == 100_000 - len(events)
    assert {states[1] for states in recorded.states("Tasks")} == {"lost"}


def test_what_a_full_disk_does_not_take_is_counted(tmp_path: Path) -> None:
    done = _run_script(
        "import resource\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "meantime.start(sys.argv[1], policy='ring', ring_bytes=1_000_000)\n"
        f"_recorder.emit_many({WAIT}, 40_000)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))\n"
        "meantime.stop()\nprint('went on')\n",
        tmp_path / "run.mtr",
    )

    lost = read(tmp_path / "run.mtr").trace.anomalies["records_lost"]
    events = _events(tmp_path / "run.mtr", WAIT)
    assert done.stdout == "went on\n", done.stderr
    assert 0 < len(events) < 40_000
    assert len(events) + lost == 40_000


def test_it_can_be_written_out_while_it_turns(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", policy="ring", ring_bytes=200_000):
        for _ in range(20):
            signal.raise_signal(signal.SIGUSR2)
            _recorder.emit_many(WAIT, 30_000)

    lost = read(tmp_path / "run.mtr").trace.anomalies["records_lost"]
    assert len(_events(tmp_path / "run.mtr", WAIT)) + lost == 600_000
    assert read(tmp_path / "run.mtr").trace.anomalies["time_backwards"] == 0


def test_a_ring_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(meantime.MeantimeError, match="policy ring only"):
        meantime.start(tmp_path / "run.mtr", ring_ns=1)
    with pytest.raises(meantime.MeantimeError, match="holds at most"):
        meantime.start(tmp_path / "run.mtr", policy="ring", ring_bytes=100_000_000)
