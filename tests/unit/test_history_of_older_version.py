"""Histories that were written in older versions of the format, with the answers of that time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import HistoryError
from meantime.history import HistoryBuilder
from meantime.history.directory.check import check, save

if TYPE_CHECKING:
    from meantime.history import History

SAMPLES = Path(__file__).parent.parent / "samples" / "history"
TRUTH = json.loads((SAMPLES / "truth.json").read_text())


def answers(history: History) -> dict[str, Any]:
    rows = [
        [
            each.quark,
            each.start_ns,
            each.end_ns,
            repr(each.value) if isinstance(each.value, float) else each.value,
            each.tag,
        ]
        for each in history.intervals(
            range(len(history.attributes)), history.start_ns, history.end_ns
        )
    ]
    return {
        "paths": [list(history.attributes.path(quark)) for quark in history.attributes],
        "intervals": rows,
        "tags": list(history.tags),
        "lanes": [
            [lane.declaration.pattern, lane.declaration.kind, lane.quarks.tolist()]
            for lane in history.lanes
        ],
        "anomalies": dict(history.anomalies),
        "bounds": list(history.bounds),
    }


@pytest.mark.parametrize("name", ["version-1.mth", "unfinished-1.mth"])
def test_a_history_of_version_1_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    shutil.copytree(SAMPLES / name, path)
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}

    assert answers(meantime.open(path)) == TRUTH[name]
    check(path)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == files


@pytest.mark.parametrize("name", ["version-1.mth", "unfinished-1.mth"])
def test_a_history_of_version_1_is_salvaged_into_this_one(name: str, tmp_path: Path) -> None:
    assert save(SAMPLES / name, tmp_path / "saved.mth") == []
    saved = answers(meantime.open(tmp_path / "saved.mth"))

    assert saved["intervals"] == TRUTH[name]["intervals"]
    assert saved["lanes"] == TRUTH[name]["lanes"]
    assert saved["paths"] == TRUTH[name]["paths"]
    assert saved["tags"] == TRUTH[name]["tags"]


@pytest.mark.parametrize("name", ["spans-1.mth", "spans-2.mth"])
def test_spans_of_older_versions_are_the_same(name: str) -> None:
    history = meantime.open(SAMPLES / name)
    spans, points = history.spans(), history.points()
    columns = (
        [history.attributes.text(quark) for quark in spans.thread.tolist()],
        spans.name.to_list(),
        spans.start_ns.tolist(),
        spans.end_ns.tolist(),
    )

    assert [list(row) for row in zip(*columns, strict=True)] == TRUTH["spans-1.mth"]["spans"]
    # a span has the number that it had: that of its row
    assert spans.rows.tolist() == list(range(len(spans)))
    rows = zip(points.name.to_list(), points.time_ns.tolist(), strict=True)
    assert [list(row) for row in rows] == TRUTH["spans-1.mth"]["points"]


def test_an_unfinished_history_of_version_2_is_read_and_not_resumed(tmp_path: Path) -> None:
    path = shutil.copytree(SAMPLES / "unfinished-2.mth", tmp_path / "x.mth")
    check(path)
    history = meantime.open(path)

    assert history.intervals("load").value.to_list() == [None, *range(20)]
    assert (history.state("CPUs/0", 15).value, history.built) == ("idle", False)
    assert len(history.spans()) == 0
    with pytest.raises(HistoryError, match="version 2 of the format, and would continue in 3"):
        HistoryBuilder(path, resume=True)
    assert save(path, tmp_path / "saved.mth") == []
    assert meantime.open(tmp_path / "saved.mth").maximum("load", 0, 190) == 18
