"""Files of a history that are cut or overwritten while it is open end no process and no promise."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime import system_calls
from meantime.errors import InputError
from meantime.history import HistoryBuilder
from meantime.history.directory import container
from meantime.history.directory.open import open_history
from meantime.history.directory.tail_log import damage_in
from meantime.history.sealed import SealedSegments

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history import History
    from meantime.history.results import Intervals

CHANGES, ROWS = 60_000, 20_000
SEGMENTS = ["segments/000000.seg", "segments/000001.seg", "segments/000002.seg"]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a history of three segments with pyramids."""
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (ROWS,))
    path = tmp_path / "x.mth"
    build(path)
    return path


def build(path: Path) -> History:
    with HistoryBuilder(path) as builder:
        quarks = np.array([builder.quark("a"), builder.quark("b")], np.int32)
        times_ns = np.arange(CHANGES)
        builder.modify_many(times_ns, quarks[times_ns % 2], times_ns % 7)
    return builder.history


@pytest.fixture
def in_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meantime.history.directory.segments.MOST_IN_MEMORY", 0)


def cut(file: Path) -> None:
    os.truncate(file, 200)


def zeroed(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(200)
        opened.write(bytes(file.stat().st_size - 200))


def rows(intervals: Intervals) -> list[tuple[object, ...]]:
    return [tuple(interval) for interval in intervals]


def answers(history: History) -> object:
    return (
        rows(history.intervals("*", 1))[:5],
        history.shares("*", bins=7).ns.tolist(),
        history.average("a", 3, CHANGES - 3),
        history.sample("*", [5, CHANGES - 9]).rows(),
        rows(history.states([0, 1], [5, CHANGES - 9])),
        rows(history.at(CHANGES // 2)),
        history.state("a", 7),
    )


@pytest.mark.parametrize("damage", [cut, zeroed])
def test_what_was_read_before_a_file_was_damaged_is_answered_as_before(
    path: Path, damage: Callable[[Path], None]
) -> None:
    history = open_history(path)
    before = answers(history)

    for file in [*(path / "segments").iterdir(), *(path / "pyramid").iterdir()]:
        damage(file)

    assert answers(history) == before


@pytest.mark.parametrize(
    ("damage", "reason"), [(cut, "byte 200: is cut; "), (zeroed, "the rows are damaged; ")]
)
def test_a_file_that_is_damaged_before_it_is_read_is_an_error(
    path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    history = open_history(path)
    assert history.state("a", 0).value == 0

    damage(path / SEGMENTS[2])

    with pytest.raises(InputError, match=rf"000002\.seg: .*{reason}`meantime check --salvage`"):
        history.shares("*")
    assert history.state("a", 2).value == 2


def test_the_history_of_a_builder_reads_its_files_the_same_way(tmp_path: Path) -> None:
    history = build(tmp_path / "x.mth")
    before = answers(history)

    for file in (tmp_path / "x.mth/segments").iterdir():
        cut(file)

    assert answers(history) == before


@pytest.mark.usefixtures("in_file")
def test_a_history_larger_than_memory_answers_as_one_in_memory(path: Path) -> None:
    history = open_history(path)

    assert answers(history) == answers(build(path.with_name("y.mth")))
    assert all(segment.loaded for segment in sealed(history).segments)


@pytest.mark.usefixtures("in_file")
@pytest.mark.parametrize("damage", [cut, zeroed])
def test_what_was_read_of_a_large_history_stays_when_its_files_are_damaged(
    path: Path, damage: Callable[[Path], None]
) -> None:
    history = open_history(path)
    before = answers(history)

    for file in [*(path / "segments").iterdir(), *(path / "pyramid").iterdir()]:
        damage(file)

    assert answers(history) == before


@pytest.mark.usefixtures("in_file")
def test_a_large_history_that_is_damaged_before_it_is_read_is_an_error(path: Path) -> None:
    history = open_history(path)

    cut(path / SEGMENTS[2])

    with pytest.raises(InputError, match=r"000002\.seg: byte 200: is cut; `meantime check"):
        history.shares("*")
    assert history.state("a", 2).value == 2


@pytest.mark.usefixtures("in_file")
def test_a_full_disk_names_the_directory_that_is_full(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(system_calls, "write_at", full)
    history = open_history(path)

    with pytest.raises(InputError, match=rf"\.seg: .*{tmp_path}: No space left.* set TMPDIR"):
        history.shares("*")


def test_columns_of_tables_are_read_once_when_they_are_used(tmp_path: Path) -> None:
    trace, path = tmp_path / "x.json", tmp_path / "x.mth"
    trace.write_text('[{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 0, "dur": 10}]')
    meantime.build(trace, path=path)
    history = open_history(path)
    assert history.spans().end_ns.tolist() == [10_000]

    os.truncate(path / "tables", 0)

    assert history.spans().end_ns.tolist() == [10_000]
    with pytest.raises(InputError, match=r"tables: byte 0: is cut"):
        _ = history.spans().name


def test_tables_that_were_replaced_are_still_read(tmp_path: Path) -> None:
    trace, path = tmp_path / "x.json", tmp_path / "x.mth"
    trace.write_text('[{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 0, "dur": 10}]')
    meantime.build(trace, path=path)
    history = open_history(path)

    (path / "tables").unlink()

    assert history.spans().name.to_list() == ["a"]


def test_only_the_rows_that_an_answer_depends_on_are_read(path: Path) -> None:
    history = open_history(path)
    assert [segment.loaded for segment in sealed(history).segments] == [False] * 3

    history.state("a", 2)

    assert [segment.loaded for segment in sealed(history).segments] == [True, False, False]


def test_threads_read_rows_once(path: Path) -> None:
    history = open_history(path)
    expected = answers(open_history(path))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(answers(history))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 4


def test_a_growing_history_opens_each_segment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meantime.history.store.Store.__init__.__defaults__", (4,))
    builder = HistoryBuilder(tmp_path / "x.mth")
    quark = builder.quark("a")
    for time_ns in range(30):
        builder.modify(time_ns, quark, time_ns)
    builder.flush()
    history = open_history(tmp_path / "x.mth")
    assert history.state(quark, 3).value == 3
    before = sealed(history).segments[0]

    for time_ns in range(30, 60):
        builder.modify(time_ns, quark, time_ns)
    builder.flush()

    assert history.state(quark, 55).value == 55
    assert sealed(history).segments[0] is before


def test_a_relative_path_is_that_of_when_a_history_was_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(open_history(path))
    monkeypatch.setattr(container, "_MOST_OPEN", 1)
    monkeypatch.chdir(tmp_path)
    history = open_history(path.name)

    monkeypatch.chdir("/")

    assert answers(history) == expected


@pytest.mark.usefixtures("in_file")
def test_rows_in_a_file_need_one_descriptor_and_cannot_be_written_to(path: Path) -> None:
    before = descriptors()
    history = open_history(path)
    answers(history)

    added = [name for name in descriptors() if name not in before and str(path) not in name]

    assert len(added) == 1
    assert added[0].endswith("(deleted)")
    with pytest.raises(ValueError, match="read-only"):
        sealed(history).segments[0].rows[0] = 1


def descriptors() -> list[str]:
    """Return what the open descriptors of this process refer to."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(str(descriptor.readlink()))
    return found


def test_a_log_of_headers_without_blocks_is_read_in_linear_time(tmp_path: Path) -> None:
    log, header = tmp_path / "tail.log", struct.Struct("<4sIII")
    # each claims a million bytes: to check all would take hours
    log.write_bytes(header.pack(b"MTLG", 10**6, 0, 0) * 2**20)

    assert damage_in(log, 0) == 0


def sealed(history: History) -> SealedSegments:
    segments = history._now().segments
    assert isinstance(segments, SealedSegments)
    return segments
