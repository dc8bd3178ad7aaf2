"""Waits of threads for the GIL and for locks."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

import meantime

sys.path.insert(0, str(Path(__file__).parent))
from reading import read


def _spin(duration_ns: int) -> None:
    """Compute until the calling thread has used this much of the processor."""
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < duration_ns:
        pass


def test_threads_that_compute_wait_for_each_other(tmp_path: Path) -> None:
    with meantime.record(tmp_path / "run.mtr", threads=True):
        threads = [
            threading.Thread(target=_spin, args=(60_000_000,), name=name) for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recorded = read(tmp_path / "run.mtr")
    waited = {
        path[1].split(" ")[0]: sum(
            after[0] - before[0] for before, after in pairwise(changes) if before[1] == "gil-wait"
        )
        for path, changes in recorded.changes.items()
        if path[0] == "Threads"
    }
    # each computes for 60 ms, and only one at a time
    assert waited["a"] + waited["b"] > 40_000_000


def test_a_wait_for_a_lock_lasts_until_its_release(tmp_path: Path) -> None:
    lock, wanted = threading.Lock(), threading.Event()

    def want() -> None:
        wanted.set()
        with lock:
            pass

    with meantime.record(tmp_path / "run.mtr", threads=True):
        lock.acquire()
        thread = threading.Thread(target=want, name="wanting")
        thread.start()
        wanted.wait()
        _spin(20_000_000)
        lock.release()
        thread.join()

    (changes,) = [
        changes
        for path, changes in read(tmp_path / "run.mtr").changes.items()
        if path[0] == "Threads" and path[1].startswith("wanting")
    ]
    held = max(
        after[0] - before[0] for before, after in pairwise(changes) if before[1] == "lock-wait"
    )
    assert held > 10_000_000


@pytest.mark.parametrize("threads", [True, False])
def test_threads_are_recorded_only_on_request(tmp_path: Path, threads: bool) -> None:  # noqa: FBT001 - a parameter of the test
    with meantime.record(tmp_path / "run.mtr", threads=threads):
        thread = threading.Thread(target=_spin, args=(20_000_000,))
        thread.start()
        thread.join()

    groups = {path[0] for path in read(tmp_path / "run.mtr").changes}
    assert ("Threads" in groups) == threads


def test_after_a_recording_no_thread_is_watched(tmp_path: Path) -> None:
    for name in ("first.mtr", "second.mtr"):
        with meantime.record(tmp_path / name, threads=True):
            pass
        thread = threading.Thread(target=_spin, args=(10_000_000,))
        thread.start()
        thread.join()

    (path,) = read(tmp_path / "second.mtr").changes
    assert path[1].startswith("MainThread")


def test_the_main_thread_has_its_name_although_it_started_earlier(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.mtr"
    code = (
        "import meantime, os, sys; meantime.start(sys.argv[1], threads=True)\n"
        "import _thread; lock = _thread.allocate_lock(); lock.acquire(); lock.acquire(timeout=0.01)"
    )

    subprocess.run([sys.executable, "-S", "-c", _without_site(code), str(path)], check=True)

    (thread,) = [name for name in read(path).changes if name[0] == "Threads"]
    assert thread[1].startswith("MainThread ")


def _without_site(code: str) -> str:
    return f"import sys; sys.path[:] = {sys.path!r}\n{code}"
