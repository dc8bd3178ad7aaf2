"""Attributes as callers name them, and tables that carry their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import AttributeNotFound, UsageError
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime import History


@pytest.fixture
def history() -> History:
    builder = meantime.HistoryBuilder()
    for number, path in enumerate((("Threads", "14"), ("Threads", "16"), ("/dev/vda",), ("n",))):
        quark = builder.quark(*path)
        builder.modify(0, quark, number)
        builder.modify(4, quark, number + 10)
    return builder.close(8)


def test_queries_take_paths_and_patterns_and_sequences_of_them(history: History) -> None:
    sixteen = history.quark("Threads", "16")
    for given in ("Threads/16", ("Threads", "16"), [sixteen], ["Threads/16"], sixteen):
        assert history.intervals(given).value.to_list() == [1, 11]
    assert history.intervals("Threads/*", 0, 4).value.to_list() == [0, 1]
    assert history.intervals(["n", ("Threads", "14")], 0, 4).value.to_list() == [3, 0]
    assert history.intervals(["Threads", meantime.ANY], 0, 4).value.to_list() == [0, 1]
    assert history.sample("Threads/*", [0, 5]).rows() == [[0, 10], [1, 11]]
    assert history.states(["Threads/16", "n"], [0, 5]).value.to_list() == [1, 13]
    assert history.shares("n").cell(history.quark("n"), 0) == {3: 4, 13: 4}
    assert history.dominant("n", bins=2).value.to_list() == [3, 13]
    assert [len(part) for part in history.interval_batches("Threads/*")] == [4]
    assert len(history.intervals("Threads/*/*")) == 0
    with pytest.raises(AttributeNotFound, match=r"^no attribute matches 'Thread/\*': instead of"):
        history.intervals("Thread/*")


def test_queries_of_one_attribute_take_its_path(history: History) -> None:
    sixteen = history.quark("Threads/16")

    assert sixteen == history.quark("Threads", "16") == history.find(("Threads", "16"))
    assert history.quark(sixteen) == history.find(sixteen) == sixteen
    assert history.find("Threads/15") is None
    assert history.quark("16", parent=history.quark("Threads")) == sixteen
    assert history.state("Threads/16", 5).value == 11
    assert history.state(sixteen, 5).value == 11
    assert history.state("/dev/vda", 0).value == 2
    assert [each.value for each in history.iterate("n", 0)] == [3, 13]
    assert history.maximum("n", 0, 8) == 13
    assert history.minimum(("n",), 0, 8) == 3
    assert history.average("n", 0, 8) == 8.0


def test_errors_name_the_nearest_attributes(history: History) -> None:
    nearest = r"no attribute 'Threads/15': in 'Threads' the nearest names are '1[46]', '1[46]'"
    queries: list[Callable[[], object]] = [
        lambda: history.state("Threads/15", 0),
        lambda: history.intervals("Threads/15"),
        lambda: history.quark("Threads/15"),
        lambda: history.sample(["n", "Threads/15"], [0]),
    ]
    for query in queries:
        with pytest.raises(AttributeNotFound, match=nearest):
            query()
    with pytest.raises(UsageError, match=r"^'Threads/\*' matches 2 attributes"):
        history.state("Threads/*", 0)
    with pytest.raises(UsageError, match="has an empty name"):
        history.intervals("Threads//15")


def test_a_slice_of_intervals_is_intervals(history: History) -> None:
    intervals = history.intervals("Threads/*")

    assert repr(intervals[1:3]) == "Intervals: 2 in [0, 8)\n  1: [4, 8) 10\n  2: [0, 4) 1"
    assert intervals[1:3][0] == intervals[1]
    assert intervals[1:3].ongoing.tolist() == [False, False]


def test_tables_for_other_tools_have_paths(history: History) -> None:
    pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    paths = ["Threads/14", "Threads/14", "Threads/16", "Threads/16"]
    table = history.intervals("Threads/*").to_arrow()

    columns = ["quark", "path", "start_ns", "end_ns", "duration_ns", "value", "tag"]
    assert table.column_names == columns
    assert table["path"].to_pylist() == paths
    assert str(table.schema.field("path").type).startswith("dictionary<values=string")
    assert history.interval_batches("Threads/*", rows=1).to_arrow()["path"].to_pylist() == paths
    assert history.sample("n", [0, 1]).to_arrow()["path"].to_pylist() == ["n", "n"]
    spans = history_from_spans({"main": [("f", 0, 9)]}).spans()
    assert spans.to_arrow()["path"].to_pylist() == ["Processes/1/Threads/main"]


def test_a_notebook_shows_the_first_rows_of_a_table(history: History) -> None:
    assert history.intervals("n")._repr_html_() == (
        "<table><tr><th>quark</th><th>path</th><th>start_ns</th><th>end_ns</th>"
        "<th>duration_ns</th><th>value</th><th>tag</th></tr>"
        "<tr><td>4</td><td>n</td><td>0</td><td>4</td><td>4</td><td>3</td><td></td></tr>"
        "<tr><td>4</td><td>n</td><td>4</td><td>8</td><td>4</td><td>13</td><td></td></tr></table>"
        "<p>2 rows</p>"
    )


def test_statistics_and_sql_are_methods(history: History) -> None:
    pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    spans = history_from_spans({"main": [("f", 0, 9), ("g", 2, 5)]})

    by_entity = meantime.stats(
        history_from_picture("a  xxy\nb  yyy"), "entity", start_ns=1
    ).to_arrow()
    by_name = meantime.stats(spans, "name").to_arrow()
    rows = meantime.sql(
        history, "select path, value from intervals join attributes using (quark) order by 2"
    )

    assert by_entity.select(["entity", "state", "count", "total_ns"]).to_pylist() == [
        {"entity": "b", "state": "y", "count": 1, "total_ns": 2},
        {"entity": "a", "state": "x", "count": 1, "total_ns": 1},
        {"entity": "a", "state": "y", "count": 1, "total_ns": 1},
    ]
    assert by_name.select(["key", "self_ns"]).to_pylist() == [
        {"key": "f", "self_ns": 6},
        {"key": "g", "self_ns": 3},
    ]
    assert rows.to_arrow().to_pylist()[0] == {"path": "Threads/14", "value": "0"}
    assert repr(rows) == "SqlTable: 9 rows of path, value"
    with pytest.raises(UsageError, match=r"^SQL: "):
        meantime.sql(history, "select nothing")
