"""Columns of many lanes: the page has all of them, whatever their form on the way."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history import HistoryBuilder
from meantime.model.columns import Coded
from meantime.server import lanes
from meantime.server.lane_columns import packed_columns
from meantime.server.lanes import LaneTree
from meantime.testing import history_from_spans

if TYPE_CHECKING:
    import pytest

    from meantime.history import History


def repeated(runs: list[Any]) -> list[Any]:
    return [value for value, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]


def unpacked(column: Any) -> Any:
    """Return a column as the format is described."""
    if not isinstance(column, dict):
        return column
    if "runs" in column:
        return repeated(column["runs"])
    if "steps" in column:
        return list(accumulate([column["first"], *repeated(column["steps"])]))
    parts = zip(unpacked(column["folder"]), unpacked(column["name"]), strict=True)
    return [name if name is None else folder + name for folder, name in parts]


def of_cpus(count: int) -> History:
    builder = HistoryBuilder()
    quarks = [builder.quark("CPUs", str(number)) for number in range(count)]
    times = np.zeros(len(quarks), np.int64)
    running = Coded(np.zeros(len(quarks), np.int32), ["running"])
    builder.modify_many(times, np.array(quarks, np.int32), running)
    builder.modify(9, quarks[0], None)
    return builder.close()


def test_packed_columns_have_all_values() -> None:
    threads = {f"pool-{number}": [("work", number, number + 2)] for number in range(1_500)}
    columns = LaneTree.of(history_from_spans(threads)).columns()
    packed = packed_columns(columns)

    assert {name for name, column in packed.items() if isinstance(column, dict)} >= {
        "parent",
        "kind",
        "block",
        "quark",
        "handle",
        "pattern",
    }
    assert {name: unpacked(column) for name, column in packed.items()} == columns


def test_large_groups_have_groups_of_a_thousand() -> None:
    history = of_cpus(2_500)
    tree = LaneTree.of(history)
    groups = [number for number, lane in enumerate(tree.lanes) if lane.kind == "group"]

    assert [(tree.lanes[group].name, tree.lanes[group].entities) for group in groups[1:]] == [
        ("0 … 999", 1_000),
        ("1000 … 1999", 1_000),
        ("2000 … 2499", 500),
    ]
    assert [len(tree.below([group])) for group in groups] == [2_500, 1_000, 1_000, 500]
    assert tree.quarks(groups[:1]).tolist() == sorted(history.quarks("CPUs/*").tolist())


def test_names_in_parts_of_large_groups_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_MOST_NAMED", 2_000)
    tree = LaneTree.of(of_cpus(2_500))
    complete, table = tree.columns(), tree.columns(every_name=False)
    words = ("name", "detail", "handle")
    known = [parent not in tree.parts for parent in complete["parent"]]

    assert known.count(True) == 4
    for name, column in complete.items():
        expected = column
        if name in words:
            pairs = zip(column, known, strict=True)
            expected = [value if is_known else None for value, is_known in pairs]
        assert table[name] == expected
    assert {name: unpacked(column) for name, column in packed_columns(table).items()} == table
    for members in tree.parts.values():
        part = slice(members.start, members.stop)
        assert tree.names(members) == {word: complete[word][part] for word in words}
    (at_path,) = tree.at_paths(["CPUs/1234", "CPUs/none", "*", "", "a//b"])
    assert complete["handle"][at_path] == "CPUs/1234"
    assert tree.names(tree.containing("999"))["name"] == ["999", "1999"]
    assert tree.names(tree.containing("cpus/49"))["name"] == ["49"]


def test_a_packed_lane_has_how_long_its_entities_lived() -> None:
    builder = HistoryBuilder(start_ns=0)
    builder.lanes("Tasks/*/*", label="Tasks", short_lived=True)
    begins = {f"{task}": (10 * task, 10 * task + task) for task in range(1, 21)}
    # one that began before the history, and one that never ended
    ends = {**begins, "early": (0, 5), "late": (250, None)}
    for name, (begin_ns, end_ns) in sorted(ends.items(), key=lambda item: item[1][0]):
        builder.modify(begin_ns, builder.quark("Tasks", "work", name), "running")
        if end_ns is not None:
            builder.modify(end_ns, builder.quark("Tasks", "work", name), None)
    columns = LaneTree.of(builder.close(end_ns=300)).columns()

    assert columns["kind"] == ["group", "packed"]
    assert (columns["median_ns"], columns["p99_ns"]) == ([None, "10"], [None, "20"])
