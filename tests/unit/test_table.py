from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def read(tmp_path: Path, text: str, *, lenient: bool = False) -> History:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return meantime.open(path, lenient=lenient)


def states(history: History) -> list[tuple[str, int, int, object]]:
    quarks = next(lane.quarks for lane in history.lanes)
    return [
        (history.attributes.text(row.quark), row.start_ns, row.end_ns, row.value)
        for row in history.intervals(quarks, *history.bounds)
        if row.value is not None
    ]


def test_events_are_samples_named_and_weighed(tmp_path: Path) -> None:
    history = read(tmp_path, 'time_ns,name,weight\n30,"b, c",5\n10,a,2\n')

    samples = history.samples()
    assert samples.time_ns.tolist() == [10, 30]
    assert samples.name.to_list() == ["a", "b, c"]
    assert samples.weight.tolist() == [2, 5]
    assert history.bounds == (10, 31)


def test_columns_may_stand_in_any_order_and_among_others(tmp_path: Path) -> None:
    samples = read(tmp_path, "\ufeffhost,name,time_ns\nh,a,7\n").samples()

    assert (samples.time_ns.tolist(), samples.weight.tolist()) == ([7], [1])


def test_intervals_are_states_and_between_them_is_none(tmp_path: Path) -> None:
    text = (
        "start_ns,end_ns,path,value\n20,30,d/0,on\n0,10,d/0,on\n10,15,d/0,off\n5,9,e,x\n7,7,e,y\n"
    )
    history = read(tmp_path, text.replace("7,7,e,y\n", "9,9,e,y\n"))

    assert states(history) == [
        ("d/0", 0, 10, "on"),
        ("d/0", 10, 15, "off"),
        ("d/0", 20, 30, "on"),
        ("e", 5, 9, "x"),
    ]
    assert history.anomalies["zero_length_state"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_ns,name\n1,a\n1.5,b\n", "row 2: its times are no integers"),
        ("time_ns,name\n99999999999999999999,a\n", "row 1"),
        ("start_ns,end_ns,path,value\n5,4,a,b\n", "row 1: .* its end is before its start"),
        ("start_ns,end_ns,path,value\n0,5,a,b\n4,6,a,c\n", "intervals of 'a' overlap at 4 ns"),
        ("start_ns,end_ns,path,value\n0,5,a/*,b\n", "row 1: 'a/\\*' is not a path"),
    ],
)
def test_bad_rows_are_refused_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_bad_rows_are_counted_if_that_is_wanted(tmp_path: Path) -> None:
    history = read(tmp_path, "time_ns,name\n1,a\n1.5,b\n3\n", lenient=True)

    assert len(history.samples()) == 2
    assert history.anomalies["bad_record"] == 1


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    parquet = import_module("pyarrow.parquet")
    path = tmp_path / "events.parquet"
    table = pa.table({"time_ns": [30, 10], "name": ["b", "a"], "weight": [5, 2]})
    parquet.write_table(table, path)

    samples = meantime.open(path).samples()

    assert samples.time_ns.tolist() == [10, 30]
    assert samples.weight.tolist() == [2, 5]
    (tmp_path / "broken.parquet").write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="not a Parquet file"):
        meantime.open(tmp_path / "broken.parquet")


def test_bytes_that_are_no_table_are_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "channel0_1"
    path.write_bytes(b"\xc1\x1f\xfc\xc1 a\r,b\x00\n\r\r")

    with pytest.raises(InputError, match="the format is not known"):
        meantime.open(path)


def test_a_field_without_an_end_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table\.csv:2: it is not CSV that can be read"):
        read(tmp_path, 'time_ns,name\n1,"' + "x" * 200_000)
