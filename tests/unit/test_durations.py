"""The figures of durations: what they are, and that groupings and documents have all of them."""

from __future__ import annotations

import runpy
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest

from meantime.model.durations import FIGURES, Durations, as_json, figures_of
from meantime.query.durations import SpanStatistics
from meantime.query.groups import Group
from meantime.query.services import ServiceGroup
from meantime.query.statistics import StatisticsRow

if TYPE_CHECKING:
    from pathlib import Path

ALL = {each.name for each in fields(Durations)}


def test_durations_that_are_counted_have_the_figures_of_each_one() -> None:
    lengths = np.array([7, 3, 3, 900, 3, 7], np.int64)
    different, counts = np.unique(lengths, return_counts=True)
    counted: Durations[int, float] = Durations.counted(different, counts, 900)
    assert counted == Durations.of(lengths)
    assert (counted.count, counted.total_ns, counted.median_ns, counted.min_ns) == (6, 923, 3, 3)


def test_sums_beyond_64_bits_are_exact_and_nothing_has_zeros() -> None:
    found: Durations[int, float] = Durations.of(np.array([2**62] * 3))
    assert found.total_ns == 3 * 2**62
    none: Durations[int, float] = Durations.of(np.empty(0, np.int64))
    assert {getattr(none, name) for name in ALL} == {0}


@pytest.mark.parametrize("kind", [StatisticsRow, SpanStatistics, Group, ServiceGroup])
def test_rows_of_all_groupings_have_all_figures(kind: type) -> None:
    assert {figure.key for figure in figures_of(kind)} >= ALL


def test_json_has_names_before_figures_and_states_after_them() -> None:
    group = Group.of(
        np.array([5, 9]),
        kind="Tasks",
        key="a",
        failed=0,
        total_ns=6,
        state_ns={"x": 6},
        block_ns={},
    )
    names = [*as_json(group)]
    assert names[:3] == ["kind", "key", "total_ns"]
    assert names[-2:] == ["state_ns", "block_ns"]
    assert (as_json(group)["total_ns"], as_json(group)["mean_ns"]) == (6, 7.0)


def test_the_document_lists_the_declared_figures(root: Path) -> None:
    text = (root / "docs" / "reference" / "json.md").read_text("utf-8")
    for figure in FIGURES.values():
        assert f"| `{figure.key}` | {figure.title} | {figure.sentence} |\n" in text


def test_the_page_has_the_declared_figures(root: Path) -> None:
    written = runpy.run_path(str(root / "web" / "write_figures.py"))

    assert written["TARGET"].read_text("utf-8") == written["text"]()
