from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
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


def test_columns_may_be_in_any_order_and_among_others(tmp_path: Path) -> None:
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


def test_a_column_may_have_two_roles(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("Start,End,Job\n1,5,x\n7,9,x\n2,8,y\n")
    columns = {"start": "Start", "end": "End", "entity": "Job", "state": "Job"}

    assert states(meantime.open(path, columns=columns)) == [
        ("x", 10**9, 5 * 10**9, "x"),
        ("x", 7 * 10**9, 9 * 10**9, "x"),
        ("y", 2 * 10**9, 8 * 10**9, "y"),
    ]
    columns["end"] = "Start"
    assert meantime.open(path, columns=columns).anomalies["zero_length_state"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_ns,name\n1,a\n1.5,b\n", "row 2: its time_ns is not an integer of nanoseconds"),
        ("time_ns,name\n99999999999999999999,a\n", "row 1: its time_ns is not an integer"),
        ("time_ns,name\n1,a\nnan,b\n", "row 2: its time_ns is not an integer"),
        ("time_ns,name\n1,a\ninf,b\n", "row 2: its time_ns is not an integer"),
        (f"time_ns,name\n1,a\n{'9' * 5000},b\n", "row 2: its time_ns is not an integer"),
        ("time_ns,name\n1,a\n1\0,b\n", "row 2: its time_ns is not an integer"),
        ("time_ns,name\n1,a\n,b\n", "row 2: its time_ns is not an integer"),
        (f"time_ns,name\n1,a\n{2**63 - 1},b\n", "row 2: its time_ns is not an integer"),
        (f"time_ns,name\n1,a\n{2**63 - 2},b\n", "row 2: its time_ns is not an integer"),
        (f"time_ns,name\n1,a\n{-(2**63)},b\n", "row 2: its time_ns is not an integer"),
        ("time_ns,name,weight\n1,a,1\n2,b,x\n", "row 2: its weight is not an integer"),
        (f"time_ns,name,weight\n1,a,{2**63}\n", "row 1: its weight is not an integer"),
        (
            "start_ns,end_ns,path,value\n-9223372036854775808,0,a,x\n-9223372036854775808,5,b,y\n",
            "row 1: its start_ns is not an integer of nanoseconds that fits into 64 bits",
        ),
        (
            "start_ns,end_ns,path,value\n0,9223372036854775807,a,x\n",
            "row 1: its end_ns is not an integer of nanoseconds that fits into 64 bits",
        ),
        ("start_ns,end_ns,path,value\n5,4,a,b\n", "row 1: its end_ns is before its start_ns"),
        ("time_ns,name,time_ns\n1,a,2\n", "the column time_ns occurs twice"),
        ("time_ns,name," + "x" * 140_000 + "\n1,a\n", r"table\.csv:1: malformed CSV"),
        ("start_ns,end_ns,path,value\n0,5,a/*,b\n", "row 1: 'a/\\*' is not a path"),
    ],
)
def test_bad_rows_are_rejected_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_bad_rows_are_counted_if_that_is_wanted(tmp_path: Path) -> None:
    history = read(tmp_path, "time_ns,name\n1,a\n1.5,b\n3\n", lenient=True)

    assert len(history.samples()) == 2
    assert history.anomalies["bad_record"] == 1


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    parquet = import_module("pyarrow.parquet")
    path = tmp_path / "events.parquet"
    table = pa.table({"time_ns": [30, 10], "name": ["b", "a"], "weight": [5, 2]})
    parquet.write_table(table, path)

    samples = meantime.open(path).samples()

    assert samples.time_ns.tolist() == [10, 30]
    assert samples.weight.tolist() == [2, 5]
    (tmp_path / "broken.parquet").write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="malformed Parquet"):
        meantime.open(tmp_path / "broken.parquet")


@pytest.mark.parametrize("time_ns", [2**63 - 3, -(2**63) + 1])
def test_the_latest_and_earliest_times_are_read(tmp_path: Path, time_ns: int) -> None:
    samples = read(tmp_path, f"time_ns,name\n{time_ns},a\n").samples()

    assert samples.time_ns.tolist() == [time_ns]


def test_a_table_with_many_columns_is_read(tmp_path: Path) -> None:
    names = ",".join(f"c{number}" for number in range(9_000))
    text = f"time_ns,name,{names}\n1,a{',0' * 9_000}\n2,b\n"

    assert read(tmp_path, text).samples().time_ns.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"time_ns": [1, 2.5], "name": ["a", "b"]}, "row 1: its time_ns is not an integer"),
        ({"time_ns": [1, None], "name": ["a", "b"]}, "row 2: its time_ns is not an integer"),
        ({"time_ns": [1, 2**64 - 1], "name": ["a", "b"]}, "row 2: its time_ns is not an integer"),
        ({"time_ns": [1, -(2**63)], "name": ["a", "b"]}, "row 2: its time_ns is not an integer"),
        (
            {"time_ns": [[1], [2]], "name": ["a", "b"]},
            "time_ns cannot be read .its values are nest",
        ),
        ({"time_ns": [True, 2**63 > 0], "name": ["a", "b"]}, "row 1: its time_ns is not an"),
        (
            {"time_ns": [1], "other": ["a"]},
            "time_ns is a time, but no column is known to be a name",
        ),
    ],
)
def test_parquet_of_other_types_is_refused(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    table = {
        name: pa.array(values, pa.uint64()) if 2**64 - 1 in values else pa.array(values)
        for name, values in columns.items()
    }
    path = tmp_path / "x.parquet"
    import_module("pyarrow.parquet").write_table(pa.table(table), path)

    with pytest.raises(InputError, match=message):
        meantime.open(path)


def test_text_that_is_not_utf_8_in_parquet_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    path = tmp_path / "x.parquet"
    names = pa.array([b"a", b"\xff"]).view(pa.string())
    import_module("pyarrow.parquet").write_table(pa.table({"time_ns": [1, 2], "name": names}), path)

    with pytest.raises(InputError, match="the column name cannot be read"):
        meantime.open(path)


def test_bytes_that_are_no_table_are_of_no_known_format(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"\xc2\x1f\xfc\xc1 a\r,b\x00\n\r\r")

    with pytest.raises(InputError, match="unknown format"):
        meantime.open(path)


def test_a_field_without_an_end_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table\.csv:2: malformed CSV"):
        read(tmp_path, 'time_ns,name\n1,"' + "x" * 200_000)


def test_a_long_text_in_each_row_of_parquet_is_in_memory_once(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    rows = 200_000
    names = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * 100_000])
    path = tmp_path / "x.parquet"
    table = pa.table({"time_ns": pa.array(range(rows)), "name": names})
    import_module("pyarrow.parquet").write_table(table, path)

    assert len(meantime.open(path).samples()) == rows  # 20 GB if each were a copy


def test_more_rows_than_the_bytes_of_parquet_can_have_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    path = tmp_path / "x.parquet"
    table = pa.table({"time_ns": [7] * 100_000, "name": ["a"] * 100_000})
    import_module("pyarrow.parquet").write_table(table, path)
    monkeypatch.setattr("meantime.readers.table.arrow._VALUES_FREELY", 0)
    monkeypatch.setattr("meantime.readers.table.arrow._MOST_VALUES_PER_BYTE", 1)

    with pytest.raises(InputError, match="100,000 rows cannot be in"):
        meantime.open(path)


def test_pages_of_a_database_that_refer_to_each_other_end(tmp_path: Path) -> None:
    path, page = tmp_path / "runs.db", 512
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA page_size = {page}")
        database.execute("CREATE TABLE runs (start_ns, end_ns, path, value)")
        rows = [(row, row + 1, "a", "b") for row in range(1500)]
        database.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", rows)
        database.commit()
    data = bytearray(path.read_bytes())
    assert data[page] == 5
    root = data[page : 2 * page]
    cells = [12 + 2 * cell for cell in range(int.from_bytes(root[3:5], "big"))]
    children = [int.from_bytes(root[at : at + 2], "big") for at in cells] + [8]
    leaf = bytes(root[children[0] : children[0] + 4])
    pages = [2, *range(10, 18)]
    for number, below in zip(
        pages, [*(each.to_bytes(4, "big") for each in pages[1:]), leaf], strict=True
    ):
        for at in children:
            root[at : at + 4] = below
        data[(number - 1) * page : number * page] = root
    path.write_bytes(data)
    packed = tmp_path / "runs.db.gz"
    packed.write_bytes(gzip.compress(data))

    with pytest.raises(InputError, match="malformed"):
        meantime.open(path)
    # only SQLite reads what is in memory
    with pytest.raises(InputError, match="it has more rows than fit into it"):
        meantime.open(packed)
