from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import MissingExtraError
from meantime.history import HistoryBuilder
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from meantime.history import History

pyarrow = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")


@pytest.fixture
def mixed() -> History:
    """Return a history of strings, integers beyond 2^53 and doubles."""
    builder = HistoryBuilder()
    text, whole, real = (builder.quark(name) for name in ("text", "whole", "real"))
    builder.modify(0, text, "on", builder.tag({"pid": 7}))
    builder.modify(1, whole, 2**53 + 1)
    builder.modify(2, real, 0.5)
    return builder.close(4)


def test_strings_are_a_dictionary_and_missing_tags_are_null() -> None:
    history = history_from_picture("disk0  aa.b")

    table = history.intervals([0]).to_arrow()

    assert pyarrow.types.is_dictionary(table.schema.field("value").type)
    assert table.to_pydict() == {
        "quark": [0, 0, 0],
        "path": ["disk0", "disk0", "disk0"],
        "start_ns": [0, 2, 3],
        "end_ns": [2, 3, 4],
        "duration_ns": [2, 1, 1],
        "value": ["a", None, "b"],
        "tag": [None, None, None],
    }


def test_durations_are_of_their_own_type_on_request() -> None:
    history = history_from_picture("disk0  aa.b")
    table = history.intervals([0]).to_arrow(timedelta=True)
    assert table["duration"].cast(pyarrow.int64()).to_pylist() == [2, 1, 1]
    assert table["start_ns"].to_pylist() == [0, 2, 3]
    frame = meantime.stats(history).to_arrow(timedelta=True)
    assert {"total", "mean"} < {*frame.column_names}
    assert frame.schema.field("mean").type == pyarrow.duration("ns")


def test_durations_of_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    history = history_from_picture("disk0  aa.b")
    frame = history.intervals([0]).to_pandas(timedelta=True)
    assert frame.duration.tolist() == [pandas.Timedelta(each, "ns") for each in (2, 1, 1)]


def test_values_of_one_type_are_one_column_and_integers_stay_exact(mixed: History) -> None:
    whole = mixed.intervals([mixed.quark("whole")]).to_arrow()
    real = mixed.sample([mixed.quark("real")], [1, 3]).to_arrow()

    assert whole["value"].to_pylist() == [None, 2**53 + 1]
    assert real["value"].to_pylist() == [None, 0.5]


def test_values_of_several_types_are_a_column_each(mixed: History) -> None:
    table = mixed.intervals([0, 1, 2], 3, 4).to_arrow()

    assert table["value"].to_pylist() == ["on", None, None]
    assert table["value_int"].to_pylist() == [None, 2**53 + 1, None]
    assert table["value_float"].to_pylist() == [None, None, 0.5]
    assert table["tag"].to_pylist() == [0, None, None]


@pytest.mark.parametrize("quarks", [[0], [1], [0, 1, 2], [2, 0], []])
def test_batches_have_the_columns_of_the_whole(mixed: History, quarks: list[int]) -> None:
    whole = mixed.intervals(quarks).to_arrow()
    batches = mixed.interval_batches(quarks, rows=1)

    assert batches.to_arrow().to_pydict() == whole.to_pydict()
    assert pyarrow.table(batches).to_pydict() == whole.to_pydict()  # each time anew
    assert list(batches.columns()) == [
        *("quark", "start_ns", "end_ns", "duration_ns", "value", "tag"),
    ]


def test_every_table_of_a_history_speaks_arrow(mixed: History) -> None:
    spans = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}).spans()

    assert pyarrow.table(spans)["self_ns"].to_pylist() == [7, 3]
    assert pyarrow.table(spans)["parent"].to_pylist() == [None, 0]
    shares = pyarrow.table(mixed.shares([0], bins=2))
    assert shares.to_pydict() == {
        "quark": [0, 0],
        "bin": [0, 1],
        "value": ["on", "on"],
        "ns": [2, 2],
    }
    for table in (mixed.samples(), mixed.points(), mixed.flows()):
        assert pyarrow.table(table).num_rows == 0


def test_pandas_and_polars_take_results(mixed: History) -> None:
    intervals = mixed.intervals([0])

    for name, taken in (("pandas", intervals.to_pandas), ("polars", intervals.to_polars)):
        try:
            __import__(name)
        except ImportError:
            with pytest.raises(MissingExtraError, match=f"pip install {name}"):
                taken()
        else:
            assert list(taken()["value"]) == ["on"]


def test_without_pyarrow_the_message_names_what_to_install(
    mixed: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'meantime\[arrow\]'"):
        mixed.intervals([0]).to_arrow()
