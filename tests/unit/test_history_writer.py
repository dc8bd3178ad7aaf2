"""The one who writes a history: failures, other writers, forks, and what comes after closing."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from meantime.errors import HistoryClosedError, HistoryError, OutputError
from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.mth"


FULL = (
    r"x\.mth/[^ ]*: No space left on device; the unfinished history in [^ ]*/x\.mth keeps what was"
    r" written before; a resumed build continues from there$"
)


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let every write fail from now on, until what is returned is called."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch = pytest.MonkeyPatch()
    patch.setattr("os.fsync", full)
    monkeypatch.setattr("meantime.history.directory.write._LOG_EVERY_S", 3600.0)
    return patch.undo


def feed(builder: HistoryBuilder, first: int, last: int) -> None:
    quark = builder.quark("a")
    for time_ns in range(first, last):
        builder.modify(time_ns, quark, time_ns)


def test_after_a_failed_write_every_operation_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (8,))
    builder = HistoryBuilder(path)
    feed(builder, 0, 5)
    builder.flush()
    free = fill_disk(monkeypatch)
    with pytest.raises(OutputError, match=FULL) as first:
        feed(builder, 5, 100)
    free()

    for operation in (
        lambda: builder.modify(200, 0, 1),
        lambda: builder.modify_many([200], [0], [1]),
        lambda: builder.update_ongoing(0, 1),
        lambda: builder.later(200, 0, 1),
        lambda: builder.remove(200, 0),
        lambda: builder.history.at(1),
        builder.flush,
        builder.close,
        builder.close,
    ):
        with pytest.raises(OutputError, match=FULL) as again:
            operation()
        assert again.value is first.value
    assert not open_history(path).built
    builder.leave()

    resumed = HistoryBuilder(path, resume=True)
    kept = resumed.ongoing(0)
    assert isinstance(kept, int)
    assert kept >= 4
    feed(resumed, kept + 1, 100)
    values = [interval.value for interval in resumed.close(100).intervals([0])]
    assert values == list(range(100))


def test_a_block_that_fails_to_write_raises_that_and_can_be_built_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (8,))

    def fails() -> None:
        with HistoryBuilder(path) as builder:
            feed(builder, 0, 3)
            builder.flush()
            free = fill_disk(monkeypatch)
            try:
                feed(builder, 3, 100)
            finally:
                free()

    with pytest.raises(OutputError, match=FULL):
        fails()
    with HistoryBuilder(path, resume=True) as builder:
        assert builder.ongoing(0) == 2


_LIMITED = """
import resource, signal, sys
from meantime.errors import OutputError
from meantime.history import HistoryBuilder

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
builder = HistoryBuilder(sys.argv[1])
quark = builder.quark("a")
builder.modify_many(range(100_000), [quark] * 100_000, list(range(100_000)))
builder.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
told = []
try:
    for first in range(100_000, 2_000_000, 100_000):
        times = range(first, first + 100_000)
        builder.modify_many(times, [quark] * 100_000, list(times))
except OutputError as error:
    told.append(str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    builder.close()
except OutputError as error:
    told.append(str(error))
assert len(told) == 2 and told[0] == told[1] and "File too large" in told[0], told
"""


def test_a_file_that_may_not_grow_loses_nothing_in_silence(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _LIMITED, str(path)], check=True)

    history = open_history(path)

    assert not history.built
    assert history.end_ns >= 100_000
    lengths = history.intervals([0]).end_ns - history.intervals([0]).start_ns
    assert set(lengths.tolist()) == {1}


def test_an_interrupted_write_is_a_failed_one(path: Path) -> None:
    builder = HistoryBuilder(path)
    feed(builder, 0, 5)

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch().context() as patch:
        patch.setattr("os.fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            builder.flush()

    with pytest.raises(HistoryError, match=r"x\.mth: writing it was interrupted$"):
        builder.close()


def test_a_directory_that_cannot_be_created_has_nothing_to_resume() -> None:
    with pytest.raises(OutputError, match=r"^/proc/x\.mth: No such file or directory$"):
        HistoryBuilder("/proc/x.mth")


def test_a_second_builder_is_refused_while_the_first_lives(path: Path) -> None:
    first = HistoryBuilder(path)
    feed(first, 0, 5)
    first.flush()
    refused = rf"x\.mth: process {os.getpid()} is building it: wait until it is done, or stop it$"

    with pytest.raises(OutputError, match=refused):
        HistoryBuilder(path, resume=True)
    command = [sys.executable, "-c", _RESUME, str(path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.stdout.strip().endswith(
        f"x.mth: process {os.getpid()} is building it: wait until it is done, or stop it"
    )
    assert open_history(path).end_ns == 5

    first.close()
    assert not (path / "lock").exists()
    with pytest.raises(HistoryClosedError):
        HistoryBuilder(path, resume=True)
    assert not (path / "lock").exists()


_RESUME = """
import sys
from meantime.errors import OutputError
from meantime.history import HistoryBuilder

try:
    HistoryBuilder(sys.argv[1], resume=True)
except OutputError as error:
    print(error)
"""

_KILLED = """
import os, signal, sys
from meantime.history import HistoryBuilder

builder = HistoryBuilder(sys.argv[1])
builder.modify(1, builder.quark("a"), "x")
builder.flush()
if len(sys.argv) > 2:
    reading, writing = os.pipe()
    if os.fork() == 0:  # a child that outlives it holds nothing
        os.write(writing, b"x")
        signal.pause()
    os.read(reading, 1)
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_builder_leaves_no_lock(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False, capture_output=True)
    assert (path / "lock").exists()

    with HistoryBuilder(path, resume=True) as builder:
        assert builder.ongoing(0) == "x"

    assert not (path / "lock").exists()


def test_a_child_of_a_killed_builder_has_no_lock(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(path), "fork"],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(600)
        with HistoryBuilder(path, resume=True) as builder:
            assert builder.ongoing(0) == "x"
    finally:
        os.killpg(process.pid, signal.SIGKILL)


def test_a_forked_child_neither_writes_nor_lets_go(path: Path) -> None:
    builder = HistoryBuilder(path)
    feed(builder, 0, 5)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            builder.close()
        except HistoryError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)

    with os.fdopen(reading) as told:
        assert told.read() == (
            f"{path}: this process was forked from the one that builds it, which continues"
        )
    with pytest.raises(OutputError, match="is building it"):
        HistoryBuilder(path, resume=True)
    assert builder.close().end_ns == 5


def test_a_builder_that_is_forgotten_does_not_keep_others_out(path: Path) -> None:
    feed(HistoryBuilder(path), 0, 5)

    with HistoryBuilder(path, resume=True) as builder:
        builder.modify(9, builder.quark("a"), 1)


def test_a_lock_that_was_left_is_taken(path: Path) -> None:
    path.mkdir()
    (path / "lock").write_text("1\n")

    with HistoryBuilder(path) as builder:
        feed(builder, 0, 5)

    assert open_history(path).end_ns == 5


@pytest.mark.parametrize("kept", [True, False])
def test_what_was_closed_takes_no_more_attributes(path: Path, kept: bool) -> None:  # noqa: FBT001 - a parameter of the test
    builder = HistoryBuilder(path if kept else None)
    feed(builder, 0, 5)
    history = builder.close()

    with pytest.raises(HistoryClosedError, match="this history was closed: 'late' cannot be added"):
        builder.quark("late")
    with pytest.raises(HistoryClosedError, match="'a/late' cannot be added"):
        history.attributes.add(("a", "late"))
    assert builder.quark("a") == 0
    assert len(history.attributes) == 1
    assert len(history.at(1)) == 1
