"""Histories of which a file is damaged: what is left of them, and what is reported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError
from meantime.history import HistoryBuilder
from meantime.history.history import moment
from meantime.history.ingest import ingest
from meantime.history.store import Store
from meantime.model.columns import Coded
from meantime.readers import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meantime.history import History

CHANGES = 400
# 100 changes are a segment: of each attribute every 2 ns, and one that hardly changes.
SEGMENT = 2


def write(path: Path) -> Path:
    with HistoryBuilder(path) as builder:
        disks = [builder.quark("disk0"), builder.quark("disk1")]
        rare = builder.quark("rare")
        builder.modify(0, rare, "first")
        for time_ns in range(1, CHANGES):
            builder.modify(time_ns, disks[time_ns % 2], "abc"[time_ns % 3])
            if time_ns == CHANGES // 2 + 30:
                builder.modify(time_ns, rare, "second")
    return path


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-40] ^= 0xFF
    file.write_bytes(data)


def flipped_index(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[130] ^= 0xFF
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:200])


def removed(file: Path) -> None:
    file.unlink()


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(Store.__init__, "__defaults__", (100,))
    return write(tmp_path / "whole.mth"), write(tmp_path / "damaged.mth")


def segment_of(path: Path, number: int) -> Path:
    return sorted((path / "segments").glob("*.seg"))[number]


def values(history: History, quark: int) -> list[object]:
    found = history.intervals([quark])
    by_ns: list[object] = [None] * (history.end_ns - history.start_ns)
    for start_ns, end_ns, value in zip(
        found.start_ns.tolist(), found.end_ns.tolist(), found.value.to_list(), strict=True
    ):
        by_ns[start_ns:end_ns] = [value] * (end_ns - start_ns)
    return by_ns


@pytest.mark.parametrize("damage", [flipped, flipped_index, cut, removed])
@pytest.mark.parametrize("number", [0, SEGMENT, -1])
def test_all_but_a_damaged_segment_is_as_before(
    paths: tuple[Path, Path], damage: Callable[[Path], None], number: int
) -> None:
    whole, path = paths
    before = meantime.open(whole)
    file = segment_of(path, number)
    damage(file)

    history = meantime.open(path, lenient=True)

    for quark in range(len(before.attributes)):
        expected, found = values(before, quark), values(history, quark)
        ((start_ns, end_ns),) = history.lost
        inside = slice(start_ns, end_ns)
        assert 0 < end_ns - start_ns <= 110
        assert found[:start_ns] == expected[:start_ns]
        assert found[end_ns:] == expected[end_ns:]
        # what is in it is known, or no state
        assert all(a in {None, b} for a, b in zip(found[inside], expected[inside], strict=True))
        shares = history.shares([quark], bins=7)
        assert int(shares.ns.sum()) == history.end_ns - history.start_ns
        for time_ns in (history.start_ns, start_ns, end_ns - 1, history.end_ns - 1):
            assert history.state(quark, time_ns).value == found[time_ns - history.start_ns]
    assert history.damage[0].file == str(file)
    assert history.anomalies["segment_damaged"] == 1


@pytest.mark.parametrize("kind", [str, int])
@pytest.mark.parametrize("resolution_ns", [None, 3])
def test_intervals_that_were_counted_before_a_segment_was_cut_are_counted_again(
    kind: type, resolution_ns: int | None
) -> None:
    builder = HistoryBuilder()
    quarks = np.array([builder.quark("a"), builder.quark("b")], np.int32)
    for time_ns in range(20):
        builder.modify(time_ns, int(quarks[time_ns % 2]), kind(time_ns))
    snapshot = moment(builder.close(20), derived=True)

    few = np.array([3, 2], np.int64)
    found = snapshot.gather(quarks, (0, 20), resolution_ns=resolution_ns, counts=few)

    assert [*found] == [*snapshot.gather(quarks, (0, 20), resolution_ns=resolution_ns)]


def test_what_is_known_of_a_segment_has_room_though_it_has_more_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed once in it has no state first, and then the state that the next one says."""
    attributes, rows, names = 400, 2_000, [f"s{number}" for number in range(200)]
    monkeypatch.setattr(Store.__init__, "__defaults__", (rows,))
    path = tmp_path / "damaged.mth"
    builder = HistoryBuilder(path)
    builder.attributes.add_many(map(str, range(attributes)))
    # The first one has each value in each bin, and so no fewer rows for all its changes.
    quark = np.concatenate([np.arange(1, attributes), np.zeros(rows - attributes + 1)])
    for number in range(8):
        code = np.concatenate(
            [np.full(attributes - 1, 3 * number), np.arange(rows - attributes + 1) % len(names)]
        )
        first_ns = 5 + number * rows
        builder.modify_many(
            np.arange(first_ns, first_ns + rows),
            quark.astype(np.int32),
            Coded(code.astype(np.int32), names),
        )
    builder.close(5 + 8 * rows)
    flipped(segment_of(path, 3))

    history = meantime.open(path, lenient=True)
    shares = history.shares("*", history.start_ns, bins=8)

    assert history.anomalies["segment_damaged"] == 1
    assert int(shares.ns.sum()) == attributes * (history.end_ns - history.start_ns)


def test_the_next_segment_has_what_is_known_of_a_damaged_one(paths: tuple[Path, Path]) -> None:
    path = paths[1]
    flipped_index(segment_of(path, SEGMENT))

    history = meantime.open(path, lenient=True)
    rare = history.quark("rare")

    found = values(history, rare)
    ((start_ns, end_ns),) = history.lost
    assert found[start_ns - 1] == "first"
    assert found[start_ns] is None
    assert found[CHANGES // 2 + 29 : CHANGES // 2 + 31] == [None, "second"]
    assert found[end_ns] == "second"
    # it has no change in this one
    path = paths[0]
    removed(segment_of(path, SEGMENT - 1))
    history = meantime.open(path, lenient=True)
    assert values(history, rare) == ["first"] * (CHANGES // 2 + 30) + ["second"] * (
        CHANGES // 2 - 30
    )


@pytest.mark.parametrize("damage", [flipped, flipped_index])
def test_only_queries_about_a_damaged_segment_raise(
    paths: tuple[Path, Path], damage: Callable[[Path], None]
) -> None:
    whole, path = paths
    damage(segment_of(path, SEGMENT))
    before, history = meantime.open(whole), meantime.open(path)
    disk = history.quark("disk1")

    for start_ns, end_ns in ((0, 150), (320, CHANGES)):
        expected = before.shares([disk], start_ns, end_ns)
        found = history.shares([disk], start_ns, end_ns)
        assert np.array_equal(found.ns, expected.ns)
        assert found.value.to_list() == expected.value.to_list()
        assert history.state(disk, start_ns + 5).value == before.state(disk, start_ns + 5).value
    for ask in (
        lambda: history.shares([disk]),
        lambda: history.state(disk, 250),
        lambda: history.at(250),
        lambda: history.intervals([disk], 150, 250),
        lambda: history.sample([disk], [10, 250]),
    ):
        with pytest.raises(InputError, match=segment_of(path, SEGMENT).name):
            ask()
    assert history.sample([disk], [10, 390]).rows() == before.sample([disk], [10, 390]).rows()


@pytest.mark.parametrize("damage", [flipped, cut, removed])
def test_commands_answer_from_the_rest_and_report_what_is_damaged(
    paths: tuple[Path, Path],
    damage: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, path = paths
    file = segment_of(path, SEGMENT)
    damage(file)

    for command in (
        ["stats", str(path)],
        ["findings", str(path)],
        ["query", str(path), "shares", "disk0"],
        ["heatmap", str(path), "--find", "--period", "100"],
    ):
        with pytest.raises(SystemExit) as left:
            main([*command, "--json"])
        assert left.value.code in {None, 0}
        assert file.name in caplog.text
        assert json.loads(capsys.readouterr().out.splitlines()[0])
        caplog.clear()
    with pytest.raises(SystemExit) as left:
        main(["stats", "--strict", str(path)])
    assert left.value.code == 1


def test_spans_that_are_damaged_are_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (100,))
    trace = tmp_path / "trace.json"
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": each % 2,
            "ts": each,
            "dur": 1,
            "name": "step",
            "args": {"n": each},
        }
        for each in range(50)
    ]
    events += [
        {"ph": "C", "pid": 1, "ts": each, "name": "size", "args": {"a": each}} for each in range(9)
    ]
    trace.write_text(json.dumps(events))
    path = tmp_path / "spans.mth"
    with meantime.HistoryBuilder(path) as builder:
        ingest(builder, open_trace(trace))
    columns = {
        name: offset
        for line in (path / "manifest").read_bytes().splitlines()
        if b'"closed"' in line
        for name, _, _, offset, _ in json.loads(line[line.index(b"{") : line.rindex(b"}") + 1])[
            "closed"
        ]["tables"]
    }
    whole = (path / "tables").read_bytes()

    def damaged(column: str) -> History:
        data = bytearray(whole)
        data[columns[column]] ^= 0xFF
        (path / "tables").write_bytes(data)
        return meantime.open(path, lenient=True)

    history = damaged("spans.start_ns")
    assert len(history.spans()) == 0
    assert history.anomalies["table_damaged"] == 1
    assert not history.lost
    assert len(history.intervals(history.quarks("**"))) > 9
    history = damaged("spans.text")
    assert history.spans().name.to_list() == ["step"] * 50
    assert history.spans().arguments(3) == ""
    assert history.damage[0].anomaly == "table_damaged"
    history = damaged("spans.category")
    assert history.spans().category.to_list() == [None] * 50
    with pytest.raises(InputError, match=r"spans\.category"):
        meantime.open(path).spans().category.to_list()
    history = damaged("spans.flags")
    assert not history.spans().unfinished.any()
    assert history.damage[0].anomaly == "table_damaged"
    history = damaged("spans.number")
    assert history.spans().rows.tolist() == list(range(50))
    assert history.damage[0].anomaly == "table_damaged"
    with pytest.raises(InputError, match=r"spans\.number"):
        meantime.open(path).spans().rows.tolist()
