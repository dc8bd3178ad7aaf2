"""Statistics that a history on disk keeps beside its segments."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

import meantime
from meantime.errors import InputError
from meantime.history import HistoryBuilder
from meantime.history.directory.answers import FOLDER
from meantime.history.directory.check import check
from meantime.model.columns import Coded
from meantime.query import durations, statistics

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.query.statistics import StateStatistics

    By = Literal["state", "entity"]

NAMES = ["idle", "busy", "waiting"]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_EXACT_ROWS", 0)


def built(path: Path, seed: int = 1, *, short_lived: bool = False) -> None:
    random = np.random.default_rng(seed)
    builder = HistoryBuilder(path)
    quarks = [builder.quark("rows", str(number)) for number in range(3)]
    time_ns = np.cumsum(random.integers(1, 10_000, 9_000))
    quark = random.choice(quarks, len(time_ns)).astype(np.int32)
    builder.modify_many(
        time_ns, quark, Coded(random.integers(-1, 3, len(time_ns)).astype(np.int32), NAMES)
    )
    builder.lanes("rows/*", short_lived=short_lived)
    builder.close()


def files(path: Path) -> list[Path]:
    return sorted((path / FOLDER).glob("*")) if (path / FOLDER).exists() else []


def reading_nothing(path: Path, by: By) -> StateStatistics:
    """Return the statistics of a history whose segments cannot be read."""
    history = meantime.open(path)
    for segment in (path / "segments").iterdir():
        data = bytearray(segment.read_bytes())
        data[-100] ^= 1
        segment.write_bytes(data)
    return meantime.stats(history, by)


@pytest.mark.parametrize("by", ["state", "entity"])
@pytest.mark.parametrize("short_lived", [False, True])
def test_the_second_question_reads_no_segment(tmp_path: Path, by: By, *, short_lived: bool) -> None:
    path = tmp_path / "h.mth"
    built(path, short_lived=short_lived)
    first = meantime.stats(meantime.open(path), by)
    assert first.is_sketch
    assert len(files(path)) == 1
    assert meantime.stats(meantime.open(path), by) == first
    assert reading_nothing(path, by) == first


def test_exact_statistics_and_those_of_a_part_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "h.mth"
    built(path)
    history = meantime.open(path)
    exact = meantime.stats(history, exact=True)
    middle_ns = history.end_ns // 2
    part = meantime.stats(history, start_ns=middle_ns)
    assert not files(path)
    estimated = meantime.stats(history)
    again = meantime.open(path)
    assert meantime.stats(again, exact=True) == exact
    assert meantime.stats(again, start_ns=middle_ns) == part
    assert [row.total_ns for row in meantime.stats(again).rows] == [
        row.total_ns for row in exact.rows
    ]
    assert meantime.stats(again) == estimated


def test_who_reads_the_history_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "h.mth"
    built(path)
    (path / "manifest").chmod(0o640)
    meantime.stats(meantime.open(path))
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(path)] == [0o640]


def test_those_of_another_history_are_not_used(tmp_path: Path) -> None:
    here, there = tmp_path / "here.mth", tmp_path / "there.mth"
    built(here)
    built(there, seed=2)
    expected = meantime.stats(meantime.open(there))
    kept = files(there)[0]
    meantime.stats(meantime.open(here))
    kept.write_bytes(files(here)[0].read_bytes())
    assert meantime.stats(meantime.open(there)) == expected


@pytest.mark.parametrize("at", [3, 40, 200, -70])
def test_damage_is_reported_and_counted_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    path = tmp_path / "h.mth"
    built(path)
    expected = meantime.stats(meantime.open(path))
    (file,) = files(path)
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="answers do without it"):
        check(path)
    assert meantime.stats(meantime.open(path)) == expected
    assert str(file) in caplog.text


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.mth"
    built(path)
    (path / FOLDER).write_text("in the way")
    assert meantime.stats(meantime.open(path)) == meantime.stats(meantime.open(path))


def test_an_invalid_answer_is_counted_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "h.mth"
    built(path)
    history = meantime.open(path)
    expected = meantime.stats(history, "entity")
    answers = history._now().answers
    assert answers is not None
    question = files(path)[0]
    asked = question.read_bytes().split(b'"question": "')[1].split(b'"')[0].decode()
    good = answers.find(asked)
    assert good is not None
    wrong = {
        "figures": good["figures"][:-1],
        "bucket": good["bucket"] + 10_000,
        "state": -good["state"],
        "count": good["count"] * 0,
        "rows": good["rows"] + 1_000,
        "names": good["names"][1:],
        "existed": good["existed"] * 0,
        "pairs": good["pairs"] + 3,
        "times": good["times"][1:],
        "bits": good["bits"] + 60,
    }
    for name, array in wrong.items():
        caplog.clear()
        answers.keep(asked, {**good, name: array.astype(good[name].dtype)})
        assert meantime.stats(meantime.open(path), "entity") == expected, name
        assert "cannot be used" in caplog.text, name


@pytest.mark.parametrize("by", ["name", "category", "thread"])
def test_statistics_of_spans_are_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: Literal["name", "category", "thread"]
) -> None:
    monkeypatch.setattr(durations, "_KEPT_SPANS", 10)
    path = tmp_path / "h.mth"
    random = np.random.default_rng(1)
    builder = HistoryBuilder(path)
    threads = [builder.quark("Processes", "1", "Threads", str(tid)) for tid in range(3)]
    start_ns = random.integers(0, 10_000, 500)
    builder.add_spans(
        [threads[row % 3] for row in range(500)],
        [f"f{row % 7}" for row in range(500)],
        start_ns,
        start_ns + random.integers(1, 900, 500),
    )
    builder.close()
    first = meantime.stats(meantime.open(path), by)
    (kept,) = files(path)
    # none of these is counted again
    with monkeypatch.context() as patch:
        patch.setattr(durations, "_span_statistics", None)
        again = meantime.stats(meantime.open(path), by)
    assert again.keys == first.keys
    for name in (*durations._COLUMNS, "mean_ns"):
        assert getattr(again, name).tolist() == getattr(first, name).tolist(), name
    # those of a part are, and so are those that cannot be read
    part = meantime.stats(meantime.open(path), by, start_ns=5_000)
    assert part.count.sum() < first.count.sum()
    kept.write_bytes(kept.read_bytes()[:-8])
    assert meantime.stats(meantime.open(path), by).total_ns.tolist() == first.total_ns.tolist()
