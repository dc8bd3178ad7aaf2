from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

import meantime
from meantime.errors import InputError
from meantime.query.sampled_states import with_sampled_states

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


@pytest.mark.parametrize(
    "header",
    ["Date,Time,name", "date,time,name", "name2,Time,Date,name", "Event Date,Event Time,name"],
)
def test_a_date_and_a_time_in_two_columns_are_one_time(tmp_path: Path, header: str) -> None:
    names = header.split(",")
    row = {"date": "2017-05-16", "time": "00:00:04.500", "name": "a", "name2": "-"}
    lines = [header]
    for time in ("00:00:04.500", "00:00:00.008"):
        cells = row | {"time": time}
        lines.append(",".join(cells[each.lower().removeprefix("event ")] for each in names))
    (path := tmp_path / "x.csv").write_text("\n".join(lines))
    given = "time=Event Date+Event Time" if "Event Date" in header else None

    history = meantime.open(path, columns=given)

    begin_ns = 1_494_892_800 * 10**9
    assert history.samples().time_ns.tolist() == [begin_ns + 8_000_000, begin_ns + 4_500_000_000]
    assert history.clock.kind == "realtime"


def test_starts_and_ends_may_be_in_two_columns_each(tmp_path: Path) -> None:
    text = (
        "Start Date,Start Time,End Date,End Time,Node,Job\n"
        "2026-03-02,23:59:59,2026-03-03,00:00:01,n1,a\n2026/03/03,00:00:01,2026/03/03,00:00:02,n1,b\n"
    )
    history = read(tmp_path, text)

    begin_ns = 1_772_495_999 * 10**9
    assert states(history) == [
        ("n1", begin_ns, begin_ns + 2 * 10**9, "a"),
        ("n1", begin_ns + 2 * 10**9, begin_ns + 3 * 10**9, "b"),
    ]


def test_a_date_and_a_time_that_are_none_are_named_with_their_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 2: its Date\+Time is not a time"):
        read(tmp_path, "Date,Time,name\n2026-03-02,08:00,a\n2026-03-02,noon,b\n")


@pytest.mark.parametrize("suffix", ["csv", "json", "sqlite", "parquet"])
def test_numbers_of_events_are_counters(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"time": 1_700_000_000, "name": "a", "users": 10, "rate": 1.5, "row": 7, "kind": "x"},
        {"time": 1_700_000_002, "name": "a", "users": 12, "rate": 2.25, "row": 7, "kind": "y"},
        {"time": 1_700_000_001, "name": "b", "users": None, "rate": 3.0, "row": 7, "kind": "y"},
    ]
    path = tmp_path / f"x.{suffix}"
    write_rows(path, rows)

    history = meantime.open(path, columns="time=time:s,name=name")

    assert len(history.samples()) == 3
    found = {
        "/".join(history.attributes.path(quark)[-2:]): [
            (row.start_ns // 10**9 - 1_700_000_000, row.value)
            for row in history.intervals([quark], *history.bounds)
            if row.value is not None
        ]
        for lane in history.lanes
        if lane.declaration.kind == "counter"
        for quark in lane.quarks
    }
    assert found == {
        "a/users": [(0, 10), (2, 12)], "a/rate": [(0, 1.5), (2, 2.25)], "b/rate": [(1, 3.0)],
    }  # fmt: skip
    assert history.metadata.facts["columns not read"] == "row, kind"


def test_many_columns_that_are_not_read_fit_into_a_line(tmp_path: Path) -> None:
    others = [f"another column {number}" for number in range(9)]
    history = read(tmp_path, f"time_ns,name,{','.join(others)}\n1,a{',x' * 9}\n")

    listed = history.metadata.facts["columns not read"]
    assert listed == "another column 0, another column 1, another column 2 and 6 more"


def test_a_value_that_is_no_number_among_counters_is_counted(tmp_path: Path) -> None:
    rows = "".join(f"{second},a,{second}\n" for second in range(60))
    history = read(tmp_path, f"time_s,name,users\n{rows}60,a,many\n")

    assert dict(history.anomalies) == {"bad_counter": 1}


def test_a_guessed_entity_of_events_is_not_read_and_said_to_be(tmp_path: Path) -> None:
    (path := tmp_path / "x.csv").write_text("ts,host,msg,level\n1700000000,a,up,INFO\n")
    said: list[str] = []
    history = meantime.open(path, columns="time=ts,name=msg", notify=said.append)

    assert history.facts["columns not read"] == "host, level"
    assert history.samples().name.to_list() == ["up"]
    with pytest.raises(InputError, match="entity does not apply to events") as raised:
        meantime.open(path, columns="time=ts,name=msg,entity=host")
    [command] = re.findall(r"as in --columns (\S+)", str(raised.value))
    assert states(meantime.open(path, columns=command)) == [
        ("a", 17 * 10**17, 17 * 10**17 + 1, "up")
    ]


@pytest.mark.parametrize("column", ["message", "msg", "Content"])
def test_what_somebody_wrote_is_not_a_state(tmp_path: Path, column: str) -> None:
    rows = "2026-07-01 09:00:00,w1,INFO,started\n2026-07-01 09:10:00,w1,INFO,done\n"
    (path := tmp_path / "x.csv").write_text(f"time,thread,level,{column}\n{rows}")

    history = meantime.open(path)

    assert history.facts["columns"] == f"time=time,name={column}"
    assert not len(history.lanes)
    assert set(history.samples().name.to_list()) == {"done", "started"}
    # whoever names the entity has said that it is one
    assert len(meantime.open(path, columns="entity=thread").lanes) == 1


def test_events_of_a_table_are_never_the_state_on_cpu(tmp_path: Path) -> None:
    history = read(tmp_path, "time,name\n1700000000,a\n1700000001,a\n1700000002,b\n")

    assert with_sampled_states(history) is history


def write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows in the format of the suffix."""
    match path.suffix:
        case ".csv":
            lines = [",".join(rows[0])]
            lines += [
                ",".join("" if each is None else str(each) for each in row.values()) for row in rows
            ]
            path.write_text("\n".join(lines) + "\n")
        case ".json":
            path.write_text(json.dumps(rows))
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                database.execute(
                    "CREATE TABLE t (time INT, name TEXT, users INT, rate REAL, row INT, kind TEXT)"
                )
                database.executemany(
                    "INSERT INTO t VALUES (?,?,?,?,?,?)", [[*row.values()] for row in rows]
                )
                database.commit()
        case ".parquet":
            pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
            parquet.write_table(pa.Table.from_pylist(rows), path)


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


def test_overlaps_of_rounding_make_no_lanes(tmp_path: Path) -> None:
    edges = list(accumulate(np.random.default_rng(5).uniform(2, 9, 200).tolist()))
    rows = [(start, end - start, "a") for start, end in pairwise(edges)]
    # one that rounding explains, and the same beside one that it does not
    rows += [(0, 2.001, "b"), (2, 3, "b"), (0, 2.001, "c"), (2, 3, "c"), (4, 1, "c")]
    lines = [
        f"{start:.3f},{length:.3f},{name},{'xy'[number % 2]}\n"
        for number, (start, length, name) in enumerate(rows)
    ]

    history = read(tmp_path, "start_ms,duration_ms,worker,state\n" + "".join(lines))
    found = states(history)

    assert {path for path, *_ in found} == {"a", "b", "c/lane 1", "c/lane 2"}
    own = [(begin, end) for path, begin, end, _ in found if path == "a"]
    assert [begin for begin, _ in own] == [round(time * 1000) * 1000 for time in edges[:-1]]
    assert all(0 <= after - end <= 1000 for (_, end), (after, _) in pairwise(own))
    ends = {(path, begin): end for path, begin, end, _ in found}
    assert (ends["b", 0], ends["c/lane 1", 0]) == (2_000_000, 2_001_000)
    rounded = [round(end, 3) for end in edges]
    lasting = [round(start, 3) + round(end - start, 3) for start, end in pairwise(edges)]
    past = [round((end - next_) * 1000) for end, next_ in zip(lasting, rounded[1:], strict=True)]
    assert history.anomalies["rounded_overlap"] == past[:-1].count(1) + 1 > 20


def test_a_task_that_nothing_runs_has_the_states(tmp_path: Path) -> None:
    rows = [(0, 5, "build", "running", "a"), (5, 9, "build", "done", "b")]
    table = "start_ns,end_ns,task,state\n" + "".join(
        f"{start},{end},{task},{state}\n" for start, end, task, state, _ in rows
    )
    with_worker = "start_ns,end_ns,task,state,worker\n" + "".join(
        ",".join(map(str, row)) + "\n" for row in rows
    )

    assert states(read(tmp_path, table)) == [
        ("build", 0, 5, "running"),
        ("build", 5, 9, "done"),
    ]
    assert states(read(tmp_path, with_worker)) == [("a", 0, 5, "build"), ("b", 5, 9, "build")]


def test_a_column_may_have_two_roles(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("Start,End,Job\n1,5,x\n7,9,x\n2,8,y\n")
    columns = {"start": "Start:s", "end": "End", "entity": "Job", "state": "Job"}

    assert states(meantime.open(path, columns=columns)) == [
        ("x", 10**9, 5 * 10**9, "x"),
        ("x", 7 * 10**9, 9 * 10**9, "x"),
        ("y", 2 * 10**9, 8 * 10**9, "y"),
    ]
    columns["end"] = "Start:s"
    with pytest.raises(InputError, match=r"nothing in it can be shown .*: 3 zero_length_state"):
        meantime.open(path, columns=columns)


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


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("late,5,a", "its end_s is not a time"),
        ("99999999999999999999,5,a", "its end_s is not a time"),
        ("100,soon,a", "its duration_s is not a length of time"),
        ("100,-5,a", "its duration_s is negative"),
    ],
)
def test_what_is_wrong_with_ends_and_durations_is_said_of_its_column(
    tmp_path: Path, row: str, wrong: str
) -> None:
    path = tmp_path / "ends.csv"
    path.write_text(f"end_s,duration_s,state\n100,5,a\n{row}\n,5,a\n")

    with pytest.raises(InputError, match=f"row 2: {wrong}"):
        meantime.open(path)
    history = meantime.open(path, lenient=True)
    times = [second * 10**9 for second in (94, 95, 99)]
    assert history.sample(history.quarks("all"), times).rows() == [[None, "a", "a"]]
    assert dict(history.anomalies) == {"bad_record": 1, "interval_without_start": 1}


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.jsonl"])
def test_a_row_is_used_or_counted_and_not_both(tmp_path: Path, name: str) -> None:
    rows: list[dict[str, object]] = [
        {"start_ms": 1, "end_ms": 2, "host": "a", "job": "x"},
        {"start_ms": None, "end_ms": 3, "host": "a", "job": "x"},
        {"start_ms": "soon", "end_ms": 4, "host": "a", "job": "x"},
        {"start_ms": 9, "end_ms": 5, "host": "a", "job": "x"},
        {"start_ms": 5, "end_ms": None, "host": "a", "job": "x"},
    ]
    write_rows(path := tmp_path / name, rows)

    history = meantime.open(path, lenient=True)

    assert history.metadata.records == 2
    assert dict(history.anomalies) == {
        "bad_record": 2,
        "interval_without_start": 1,
        "interval_without_end": 1,
    }


# the last one is read by the module `csv`
@pytest.mark.parametrize("quoted", ["", '"a, b"', '"a ""b"""'])
def test_rows_with_too_few_or_too_many_fields_are_counted(quoted: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    # a separator behind the last field loses nothing
    rows = ["2026-01-01,a", "2026-01-02", "2026-01-03,b,c,d", "2026-01-04,e,"]
    path.write_text("\n".join(["time,name", *rows, f"2026-01-05,{quoted}"]) + "\n")

    assert dict(meantime.open(path).anomalies) == {"short_row": 1, "long_row": 1}


def test_intervals_that_are_in_a_table_twice_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = ("0,10,a,x", "10,20,a,y", "0,10,a,x", "10,20,a,y", "5,9,b,x", "20,30,a,x")
    path.write_text("\n".join(("start_ns,end_ns,path,value", *rows)) + "\n")

    assert dict(meantime.open(path).anomalies) == {"repeated_row": 2, "line_went_back": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # FlameGraph's trace2heatmap: a time at which something ended, and how long it took
        (
            "TIMEus DELTAus\n1000000 500\n1002000 700\n",
            {"active": [(999_500_000, 1_000_000_000), (1_001_300_000, 1_002_000_000)]},
        ),
        # tools of bcc and perf-tools
        (
            "TIME(s)     COMM   PID    T LAT(ms)\n0.000900    a      7      W 0.74\n",
            {"active": [(160_000, 900_000)]},
        ),
        (
            "STARTs   ENDs     COMM  PID TYPE LATms\n1.000010 1.000020 a     7   W    0.01\n",
            {"W": [(1_000_010_000, 1_000_020_000)]},
        ),
        (
            "TIME(s)  PID  COMM  RX_KB MS\n0.5      7    a     3     0.25\n",
            {"active": [(499_750_000, 500_000_000)]},
        ),
        # Instruments: lengths since the beginning
        (
            "Start Time,Duration,Thread,Name\n00:00.123.456,5.20 ms,main,a\n00:01.000,1 µs,main,b\n",  # noqa: E501 - a line of a file
            {"a": [(123_456_000, 128_656_000)], "b": [(1_000_000_000, 1_000_001_000)]},
        ),
        (
            "start,duration,thread,name\n0ms,351ms,t,a\n1.5s,80us,t,b\n",
            {"a": [(0, 351_000_000)], "b": [(1_500_000_000, 1_500_080_000)]},
        ),
    ],
)
def test_units_in_names_and_behind_numbers(
    text: str, expected: dict[str, list[tuple[int, int]]], tmp_path: Path
) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(text, "utf-8")
    history = meantime.open(path)

    found: dict[str, list[tuple[int, int]]] = {}
    for each in history.intervals("**", *history.bounds, states_only=True):
        found.setdefault(str(each.value), []).append((each.start_ns, each.end_ns))
    assert found == expected


@pytest.mark.parametrize(
    "text", ["Time to start the job and end it\nnot now\n", "start end task\none two three\n"]
)
def test_words_of_a_sentence_are_not_columns(text: str, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="unknown format"):
        meantime.open(path)


@pytest.mark.parametrize(
    ("length", "expected"),
    # whole milliseconds beside seconds: only in seconds rows follow one another
    [("0.2", "s"), ("200", "ms"), ("200000", "us"), ("0.001", "ms")],
)
def test_rows_that_follow_one_another_show_the_unit(
    length: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{1_700_000_000_000 + 210 * row},{length},t,a" for row in range(50)]
    path.write_text("\n".join(["timestamp,elapsed,thread,label", *rows, ""]))

    assert f"duration=elapsed:{expected}" in meantime.open(path).facts["columns"]
