"""Columns of many lanes: the page has all of them, whatever their form on the way."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from meantime.columns import Coded
from meantime.history import HistoryBuilder
from meantime.server.lane_columns import packed_columns
from meantime.server.lanes import LaneTree
from meantime.testing import history_from_spans


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
    folders = unpacked(column["folder"])
    return [folder + name for folder, name in zip(folders, column["name"], strict=True)]


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
    builder = HistoryBuilder()
    quarks = [builder.quark("CPUs", str(number)) for number in range(2_500)]
    times = np.zeros(len(quarks), np.int64)
    running = Coded(np.zeros(len(quarks), np.int32), ["running"])
    builder.modify_many(times, np.array(quarks, np.int32), running)
    builder.modify(9, quarks[0], None)
    tree = LaneTree.of(builder.close())
    groups = [number for number, lane in enumerate(tree.lanes) if lane.kind == "group"]

    assert [(tree.lanes[group].name, tree.lanes[group].entities) for group in groups[1:]] == [
        ("0 … 999", 1_000),
        ("1000 … 1999", 1_000),
        ("2000 … 2499", 500),
    ]
    assert [len(tree.below([group])) for group in groups] == [2_500, 1_000, 1_000, 500]
    assert tree.quarks(groups[:1]).tolist() == sorted(quarks)
