"""Tables and logs with columns of any names."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.errors import InputError, UsageError
from meantime.kernels.csv_rows import TimeKind, read_rows
from meantime.model.column_mapping import mapping_of
from meantime.readers.table.times import parse

if TYPE_CHECKING:
    from meantime.history import History

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "builds"
NOON_NS = 1_704_110_400_000_000_000  # 2024-01-01T12:00:00Z
JOBS = (
    "Begin,Until,Machine,Work,State\n"
    "2024-01-01T12:00:00,2024-01-01T12:10:00,n1,fit,OK\n"
    "2024-01-01T12:05:00,2024-01-01T12:20:00,n1,test,OK\n"
    "2024-01-01T12:00:00,,n2,fit,RUNNING\n"
)


def states(history: History) -> list[tuple[str, int, int, object]]:
    quarks = next(lane.quarks for lane in history.lanes)
    return [
        (history.attributes.text(row.quark), row.start_ns, row.end_ns, row.value)
        for row in history.intervals(quarks, *history.bounds)
        if row.value is not None
    ]


def read(tmp_path: Path, text: str, name: str = "jobs.csv", **options: Any) -> History:
    path = tmp_path / name
    path.write_text(text)
    return meantime.open(path, **options)


def minutes(start: float, end: float) -> tuple[int, int]:
    return NOON_NS + int(start * 60e9), NOON_NS + int(end * 60e9)


def test_columns_are_guessed_and_overlapping_intervals_are_in_lanes(tmp_path: Path) -> None:
    said: list[str] = []
    history = read(tmp_path, JOBS, columns={"state": "Work"}, notify=said.append)

    assert states(history) == [
        ("n1/lane 1", *minutes(0, 10), "fit"),
        ("n1/lane 2", *minutes(5, 20), "test"),
        ("n2", *minutes(0, 20), "fit"),
    ]
    assert dict(history.anomalies) == {"interval_without_end": 1}
    assert history.facts["times"] == "dates without a zone, read as UTC"
    assert said[0].endswith("--columns start=Begin,end=Until,entity=Machine,state=Work")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("start_s,duration,host,job\n10,5,a,x\n20.5,0.5,a,y\n", [(10, 15), (20.5, 21)]),
        ("start_ms,end_ms,host,job\n1,2,a,x\n3,4,a,y\n", [(0.001, 0.002), (0.003, 0.004)]),
        ("start_s,end,host,job\n0,1,a,x\n-5,-4,a,y\n", [(-5, -4), (0, 1)]),
        (
            "start,end,host,job\n1704110400000,1704110400500,a,x\n",
            [(1704110400, 1704110400.5)],
        ),
        (
            "start_utc,end_utc,host,job\n1704110400000000,1704110400500000,a,x\n",
            [(1704110400, 1704110400.5)],
        ),
        (
            "start;elapsed;host;job\n2024-01-01T14:00:00+02:00;1-00:00:01;a;x\n",
            [(1704110400, 1704110400 + 86401)],
        ),
        (
            'start,end,host,job\n"2024-01-01 12:00:00,250",2024-01-01T12:00:01Z,a,x\n',
            [(1704110400.25, 1704110401)],
        ),
    ],
)
def test_times_of_any_form(tmp_path: Path, text: str, seconds: list[tuple[float, float]]) -> None:
    found = [(start, end) for _, start, end, _ in states(read(tmp_path, text))]

    assert found == [(round(a * 1000) * 10**6, round(b * 1000) * 10**6) for a, b in seconds]


def test_a_zone_is_that_of_dates_without_one(tmp_path: Path) -> None:
    text = "start,end,host,job\n2024-07-01T12:00,2024-07-01T13:00Z,a,x\n"
    [(_, start, end, _)] = states(read(tmp_path, text, columns="zone=Europe/Oslo"))

    assert end - start == 3 * 3600 * 10**9


def test_changes_of_state_last_until_the_next_one(tmp_path: Path) -> None:
    text = "time_s,host,state\n1,a,up\n2,b,up\n5,a,down\n7,b,\n9,a,up\n"
    found = [(name, a // 10**9, b // 10**9, v) for name, a, b, v in states(read(tmp_path, text))]

    assert found[:3] == [("a", 1, 5, "up"), ("a", 5, 9, "down"), ("a", 9, 9, "up")]
    assert found[3][:3] == ("b", 2, 7)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (
            "start,host,job\n1,a,x\n",
            None,
            "start is the start of intervals, but no column is known",
        ),
        ("a,b,c\n1,2,3\n", None, r"no column is known to be a time \(the columns are a, b, c\)"),
        ("start,begin,end,host\n1,1,2,a\n", None, "each of the columns start, begin may be the st"),
        ("start,end,host,node\n1,2,a,b\n", None, "choose one with --columns entity=host"),
        ("start,end,host\n1,2,a\n", "state=Job", "there is no column 'Job'; the columns are start"),
        ("start,start,end,host\n1,1,2,a\n", None, "the column start occurs twice"),
        ("start_s,end_s,host\n5,2,a\n", None, "row 1: its end_s is before its start_s"),
        ("start_s,end,host\nsoon,2,a\n", None, "row 1: its start_s is not a time between 1678 and"),
        ("start_s,duration,host\n1,-2,a\n", None, "row 1: its duration is negative"),
        ("start_s,end,host\n1e300,2,a\n", None, "row 1: its start_s is not a time"),
        ("start,end,host\n1,2,a\n", {"pair": "a:b"}, "pairs of events are in logs of JSON lines"),
        ("time,level\n1,2\n", None, "time is a time, but no column is known to be a name"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path: Path, text: str, columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, columns=columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("start", "is not ROLE=COLUMN"),
        ("begin=x", "unknown role 'begin'"),
        ("start=a,start=b", "start is given more than once"),
        ("zone=Mars/Olympus", "unknown time zone"),
        ("", "name no column"),
        ({"pair": "a"}, "is not BEGIN:END"),
        ({"by": "a"}, "by applies to pairs"),
        ({"start": 5}, "it must be a name"),
    ],
)
def test_what_is_wrong_with_a_mapping(columns: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mapping_of(columns)


def test_a_mapping_has_escaped_commas_and_units() -> None:
    mapping = mapping_of(r"start=a\,b:ms,end=c,entity=x,entity=y")

    assert mapping is not None
    assert (mapping.columns["start"], mapping.units["start"]) == (("a,b",), "ms")
    assert mapping.columns["entity"] == ("x", "y")
    assert mapping_of(mapping.text) == mapping


@pytest.mark.parametrize(
    ("pairs", "by"),
    [
        (["a:b"], []),
        ([r"a:b,c\,d", "e:f"], [r"x,y\,z"]),
        (["a:b", "e:f"], ["x", "y"]),
    ],
)
def test_pairs_are_options_of_commands(pairs: list[str], by: list[str]) -> None:
    mapping = mapping_of("time=t", pairs, by)
    assert mapping is not None
    words = mapping.options

    def given(option: str) -> list[str]:
        return [words[at + 1] for at, word in enumerate(words) if word == option]

    assert given("--columns") == ["time=t"]
    assert mapping_of("time=t", given("--pair"), given("--pair-by")) == mapping


def test_the_mapping_beside_a_file_is_used(tmp_path: Path) -> None:
    (tmp_path / "x.csv.columns.toml").write_text(
        'start = "t0:s"\nend = "t1"\nentity = ["site", "box"]\nstate = "what"\n'
    )
    history = read(tmp_path, "t0,t1,site,box,what\n1,2,oslo,a,on\n1,2,rome,a,off\n", "x.csv")

    assert [row[0] for row in states(history)] == ["oslo/a", "rome/a"]
    (tmp_path / "x.csv.columns.toml").write_text("start = 5\n")
    with pytest.raises(InputError, match=r"x\.csv\.columns\.toml: columns: start is 5"):
        meantime.open(tmp_path / "x.csv")


def test_columns_apply_to_tables_and_logs_only(tmp_path: Path) -> None:
    chrome = tmp_path / "a.json"
    chrome.write_text('{"traceEvents": [\n{"ph": "X", "ts": 1, "dur": 2, "name": "a"}]}')

    with pytest.raises(InputError, match="columns and pairs apply to tables and to logs"):
        meantime.open(chrome, columns="start=ts")
    meantime.build(chrome, path=tmp_path / "a.mth")
    with pytest.raises(InputError, match="this is a finished history; columns apply to"):
        meantime.open(tmp_path / "a.mth", columns="start=ts")
    with pytest.raises(UsageError, match="cannot open int: give a path, or a table"):
        meantime.open(5)


def test_commands_take_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    for command in (
        ["stats"],
        ["dump", "--kind", "changes"],
        ["heatmap", "-o", f"{tmp_path}/a.svg"],
    ):
        with pytest.raises(SystemExit) as exit_:
            main([*command, str(path), "--columns", "state=Work"])
        out, err = capsys.readouterr()
        assert exit_.value.code == 0, err
        assert command[0] == "heatmap" or "fit" in out
    with pytest.raises(SystemExit) as exit_:
        main(["view", str(path), "--columns", "state=Nope", "-o", f"{tmp_path}/v.html"])
    assert exit_.value.code == 1
    assert "there is no column 'Nope'" in capsys.readouterr().err


def test_pairs_of_a_log_are_spans_of_its_workers(tmp_path: Path) -> None:
    lines: list[tuple[str, int, dict[str, Any]]] = [
        ("begin", 1, {"job": "1", "worker": 7}),
        ("step", 2, {"job": "1", "worker": 7, "part": "load"}),
        ("done", 3, {"job": "1", "part": "load"}),
        ("begin", 4, {"job": "2", "worker": 7}),
        ("step", 5, {"job": "2", "worker": 7, "part": "store"}),
        ("failed", 6, {"job": "2"}),
        ("ended", 8, {"job": "1"}),
        ("ended", 9, {"job": "3"}),
        ("begin", 9, {"job": "4", "worker": 8}),
    ]
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(json.dumps({"ts": t + 0.5, "event": e} | f) + "\n" for e, t, f in lines)
    )
    pairs = {"pair": ["begin:ended,failed", "step:done"], "by": ["job", "job,part"]}
    history = meantime.open(
        path, columns=pairs | {"time": "ts:s", "entity": "worker", "name": "part"}
    )

    spans = history.spans()
    found = [
        (name, start / 1e9, end / 1e9)
        for name, start, end in zip(
            spans.name.to_list(), spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True
        )
    ]
    assert sorted(found) == [
        ("begin", 1.5, 8.5),
        ("begin", 4.5, 6.5),
        ("begin", 9.5, 9.5),
        ("load", 2.5, 3.5),
        ("store", 5.5, 6.5),
    ]
    assert history.anomalies["begin_without_end"] == 2
    assert history.anomalies["end_without_begin"] == 1
    with pytest.raises(InputError, match="no event is called 'start'; the log has begin, done"):
        meantime.open(path, columns={"time": "ts:s", "pair": "start:ended"})


@pytest.mark.parametrize(
    ("members", "time_ns"),
    [
        ({"timestamp": "2024-01-01T12:00:00.5Z", "event": "a"}, NOON_NS + 5 * 10**8),
        ({"asctime": "2024-01-01 12:00:00,500", "message": "a"}, NOON_NS + 5 * 10**8),
        (
            {"created": 1704110400.5, "asctime": "2024-01-01 12:00:00", "message": "a"},
            NOON_NS + 5 * 10**8,
        ),
        ({"@timestamp": "2024-01-01T13:00:00.5+0100", "message": "a"}, NOON_NS + 5 * 10**8),
        ({"time": "2024-01-01T12:00:00.500000001Z", "log": "a"}, NOON_NS + 5 * 10**8 + 1),
        ({"time": 1704110400500, "msg": "a", "name": "logger"}, NOON_NS + 5 * 10**8),
        ({"ts": 1704110400.5, "msg": "a"}, NOON_NS + 5 * 10**8),
        ({"ts": 7, "name": "a"}, 7),
    ],
)
def test_fields_of_logs(tmp_path: Path, members: dict[str, Any], time_ns: int) -> None:
    history = read(tmp_path, json.dumps(members) + "\n", "log")

    assert history.metadata.format == "jsonl"
    assert history.bounds == (time_ns, time_ns + 1)


def test_lines_with_a_start_and_an_end_are_a_table(tmp_path: Path) -> None:
    text = (
        '{"start_s": 1, "end": 2.5, "worker": "w", "task": "x"}\n{"start_s": null, "worker": 3}\n'
    )
    history = read(tmp_path, text, "x.jsonl")

    assert states(history) == [("w", 10**9, 25 * 10**8, "x")]
    assert history.anomalies["interval_without_start"] == 1


def test_a_database_is_read_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE runs (id, started_at TEXT, ended_at, host, job)")
        database.execute("CREATE TABLE notes (a, b)")
        database.execute(
            "INSERT INTO runs VALUES (1, '2024-01-01 12:00:00', 1704110401.5, 'h', NULL)"
        )
        database.commit()
        with pytest.raises(InputError, match="another program is writing to it"):
            meantime.open(path)
    before = sorted(tmp_path.iterdir())
    history = meantime.open(path)

    assert states(history) == [("h", NOON_NS, NOON_NS + 1_500_000_000, "(none)")]
    assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(InputError, match="there is no table 'x'; it has: runs, notes"):
        meantime.open(path, columns="table=x")
    packed = tmp_path / "runs.db.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert states(meantime.open(packed)) == states(history)


def test_tables_of_other_libraries(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    timestamps = pa.array([NOON_NS, None], pa.timestamp("ns"))
    table = pa.table(
        {
            "start": timestamps,
            "end": pa.array([1704110401, 1704110402], pa.timestamp("s", "UTC")),
            "host": pa.array(["a", "b"]).dictionary_encode(),
            "job": [None, "x"],
        }
    )
    expected = [("a", NOON_NS, NOON_NS + 10**9, "None")]
    import_module("pyarrow.feather").write_feather(table, tmp_path / "x.arrow", "uncompressed")

    for source in (table, tmp_path / "x.arrow"):
        history = meantime.open(source)
        assert states(history) == expected
        assert history.anomalies["interval_without_start"] == 1
    with pytest.raises(InputError, match="no column is known to be a time"):
        meantime.open(table.select(["host"]))


def test_slurm_draws_the_nodes_of_jobs_without_their_steps(tmp_path: Path) -> None:
    text = (
        "JobID|JobName|State|Start|End|NodeList\n"
        "7|fit|COMPLETED|2024-01-01T12:00:00|2024-01-01T12:05:00|n[08-10]\n"
        "7.batch|batch|COMPLETED|2024-01-01T12:00:00|2024-01-01T12:05:00|n08\n"
        "8|wait|PENDING|Unknown|Unknown|None assigned\n"
        "9|late|RUNNING|2024-01-01T12:04:00|Unknown|n11\n"
    )
    history = read(tmp_path, text, "sacct.txt")

    assert states(history) == [
        *((f"n{node}", *minutes(0, 5), "fit") for node in ("08", "09", "10")),
        ("n11", *minutes(4, 5), "late"),
    ]
    assert history.anomalies["step_of_job"] == 1


def test_the_commands_of_builds_have_lanes(tmp_path: Path) -> None:
    history = meantime.open(SAMPLES / "zlib.ninja_log")
    spans = history.spans()
    own = {history.attributes.path(quark)[1] for quark in spans.thread.tolist()}

    assert own == {"build 1", "build 2"}
    # ninja -j2; 4 rows of outputs of one command each are one span
    assert len(spans) == 50
    assert len(set(spans.thread.tolist())) <= 5
    path = tmp_path / "log"
    path.write_bytes(b"# ninja log v4\n")
    with pytest.raises(InputError, match="not one of 5, 6 and 7"):
        meantime.open(path)


def test_results_of_tests_have_their_lengths_and_outcomes() -> None:
    history = meantime.open(SAMPLES / "pytest-serial.xml")
    spans = history.spans()

    assert int((spans.end_ns - spans.start_ns).sum()) == 376_000_000
    assert "they follow each other" in history.facts["layout"]


def test_document_types_of_xml_are_not_read(tmp_path: Path) -> None:
    text = '<!DOCTYPE a [<!ENTITY x "y">]><testsuite><testcase name="&x;"/></testsuite>'
    with pytest.raises(InputError, match="the XML has a document type"):
        read(tmp_path, text, "x.xml")


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        st.datetimes().map(str),
        st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat()),
        st.integers().map(str),
        st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
        st.text("0123456789-:. TZ+,", max_size=24),
    ),
    st.sampled_from([":07", ":07.25Z", ":59,123456789123", ":60Z", ":5", ":07.Z", ":07+01:00"]),
)
def test_the_kernel_reads_times_as_python_does(text: str, seconds: str) -> None:
    # the second is often in the minute of the first, and the third in that of the second
    texts = [text, text[:16] + seconds, text[:16] + ":08.5Z"]
    lines = "".join(f'"{each}"\n' for each in texts)
    found = read_rows(memoryview(lines.encode()), 0, [(0, False)], ",", 1)
    assert found is not None
    _, _, [(values, kinds, _)] = found
    for row, each in enumerate(texts):
        if kinds[row] != TimeKind.ODD:
            assert (int(values[row]), int(kinds[row])) == parse(each)


def seconds_of(history: History) -> list[float]:
    return [round((end - start) / 10**9, 9) for _, start, end, _ in states(history)]


DATES = [f"2024-01-01T12:00:{second:02}.5Z" for second in range(4)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # the unit of the start, guessed or in its name
        (
            "start,elapsed,thread,job\n1551783627191,351,a,x\n1551783627543,192,a,y\n",
            [0.351, 0.192],
        ),
        ("start_us,took,host,job\n5,3,a,x\n9,2,a,y\n", [0.000003, 0.000002]),
        ("end_ms,duration,host,job\n500,400,a,x\n", [0.4]),
        # requests of a service run at the same time
        ("start_ms,duration,service,job\n0,90,a,x\n1,90,a,y\n2,90,a,z\n", [0.09] * 3),
        # the unit of the start would make a thread do several things at a time
        (
            "time,elapsed,thread,job\n"
            + "".join(f"{1700000000 + n}.5,{900 + n},a,x{n}\n" for n in range(4)),
            [0.9, 0.901, 0.902, 0.903],
        ),
        # Perfetto's, which count from the start of the system
        ("ts,dur,utid,cpu,state\n261187017446933,24219,1,0,R\n", [0.000024219]),
        ("ts,dur,cpu,state\n5000000000000,24219,0,R\n", [0.000024219]),
        # dates say nothing, rows do
        ("start,elapsed,host,job\n" + "".join(f"{t},700,a,x\n" for t in DATES), [0.7] * 4),
        ("start,elapsed,host,job\n" + "".join(f"{t},0.7,a,x\n" for t in DATES), [0.7] * 4),
        ("end,elapsed,host,job\n" + "".join(f"{t},700,a,x\n" for t in DATES), [0.7] * 4),
        ("start,elapsed_ms,host,job\n" + "".join(f"{t},1,a,x\n" for t in DATES), [0.001] * 4),
    ],
)
def test_durations_are_in_a_unit_that_something_says(
    tmp_path: Path, text: str, seconds: list[float]
) -> None:
    assert seconds_of(read(tmp_path, text)) == seconds


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("start,elapsed,host,job\n2024-01-01T12:00:00Z,90,a,x\n", "no entity has two rows"),
        (
            "start,elapsed,host,job\n2024-01-01T12:00:00Z,90,a,x\n2024-01-02T12:00:00Z,90,a,x\n",
            "in s the rows fill hardly any of the time",
        ),
        (
            "start,elapsed,service,job\n"
            + "".join(f"{1700000000 + n},9{n},a,x{n}\n" for n in range(4)),
            "in s most rows of an entity overlap, in ms none",
        ),
    ],
)
def test_durations_of_an_unknown_unit_are_not_guessed(
    tmp_path: Path, rows: str, reason: str
) -> None:
    with pytest.raises(InputError, match=f"the unit of elapsed is not known .{reason}") as raised:
        read(tmp_path, rows)
    [command] = re.findall(r"as in --columns (\S+)", str(raised.value))
    assert ",duration=elapsed:ms," in command

    assert seconds_of(read(tmp_path, rows, columns=command))[0] <= 0.09


def test_the_unit_of_times_and_durations_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    (path := tmp_path / "t.csv").write_text("start,elapsed,thread,job\n1551783627191,351,a,x\n")
    history = meantime.open(path, notify=said.append)
    assert history.facts["times"] == "numbers of ms"
    assert history.facts["durations"].startswith("numbers of ms (the unit of the times")
    assert said[0].endswith("--columns start=start:ms,duration=elapsed:ms,entity=thread,state=job")


@pytest.mark.parametrize(
    ("text", "unit", "reason"),
    [
        # another time of the row
        ("start_ms,end,host,job\n10,20,a,x\n", "ms", "as start_ms"),
        ("start,end_us,host,job\n10,20,a,x\n", "us", "as end_us"),
        # the duration
        ("start,elapsed_ms,thread,job\n0,9,a,x\n9,4,a,y\n13,9,a,y\n", "ms", "the unit of the dur"),
        ("end,elapsed_us,host,job\n9,9,a,x\n", "us", "the unit of the durations"),
        (
            "start,elapsed_ms,thread,job\n0,351,a,x\n0.351,192,a,y\n0.543,80,a,z\n",
            "s",
            "in ms the rows of an entity overlap",
        ),
        (
            "start,elapsed,worker,job\n" + "".join(f"{700 * n},700ms,a,x\n" for n in range(4)),
            "ms",
            "the smallest in which rows of an entity do not overlap",
        ),
        # a few numbers that mean that there is no time
        (
            "start,end,host,job\n"
            + "".join(f"{1700000000 + n},{1700000001 + n},a,x\n" for n in range(4))
            + "1700000004,253402300799,a,x\n",
            "s",
            "",
        ),
    ],
)
def test_times_that_are_no_dates_are_in_a_unit_that_something_says(
    tmp_path: Path, text: str, unit: str, reason: str
) -> None:
    texts = read(tmp_path, text, lenient=True).facts["times"].split("; ")

    said = f"numbers of {unit} ({reason}" if reason else f"numbers of {unit}"
    assert any(each.startswith(said) for each in texts)


SMALL = [
    ("x.csv", "start,end,host,job\n10,20,a,x\n", "start and end", "start=start:ms,end=end:ms,"),
    ("x.csv", "start,took,host,job\n10,20,a,x\n", "start", "start=start:ms,duration=took,"),
    ("x.csv", "time,host,state\n0,a,up\n1,a,down\n", "time", "time=time:ms,"),
    ("x.csv", "time,name\n5e9,a\n", "time", "time=time:ms,name=name"),
    ("x.json", '[{"start": 1, "end": 2, "name": "x"}]', "start and end", "start=start:ms,end=end"),
    ("x.jsonl", '{"start": 1, "end": 2, "name": "x"}\n', "start and end", "start=start:ms,end=end"),
    ("x.jsonl", '{"t": 170.147, "msg": "a"}\n{"t": 171, "msg": "b"}\n', "t", "time=t:ms,name=msg"),
    ("x.jsonl", '{"t": 0, "msg": "a"}\n', "t", "time=t:ms,name=msg"),
    # the rows overlap in the unit of the durations, and a service does several things at a time
    (
        "x.csv",
        "start,elapsed_ms,service,job\n" + "".join(f"{n},999,a,x\n" for n in range(4)),
        "start",
        "start=start:ms,",
    ),
]


@pytest.mark.parametrize(("name", "text", "column", "copied"), SMALL)
def test_times_of_an_unknown_unit_are_not_guessed(
    tmp_path: Path, name: str, text: str, column: str, copied: str
) -> None:
    with pytest.raises(InputError, match=f"the unit of {column} is not known") as raised:
        read(tmp_path, text, name)
    [command] = re.findall(r"as in --columns (\S+)", str(raised.value))
    assert command.startswith(copied)

    first_ns, _ = read(tmp_path, text, name, columns=command).bounds
    numbers = [float(each) for each in re.findall(r"(?<=[\n:,( ])[0-9][0-9.e]*", text)]
    assert first_ns in {round(number * 10**6) for number in numbers}


@pytest.mark.parametrize("row", ["100,5,a", "100,,a", "100,-5,a", "100,x,a"])
def test_a_table_of_ends_and_durations(tmp_path: Path, row: str) -> None:
    text = f"end_s,duration,state\n{row}\n200,5,b\n"
    history = read(tmp_path, text, lenient=True)
    assert states(history)[-1][1:] == (195 * 10**9, 200 * 10**9, "b")


NESTED = [
    {"metric": "http", "data": {"time": f"2026-03-02T08:00:0{second}Z", "value": second}}
    for second in (1, 2)
]


def test_fields_of_objects_in_a_line_have_names_with_dots(tmp_path: Path) -> None:
    (path := tmp_path / "k6.json").write_text("".join(json.dumps(line) + "\n" for line in NESTED))

    history = meantime.open(path, columns="time=data.time,name=metric")
    assert history.points().name.to_list() == ["http", "http"]
    listed = "metric, data.time, data.value: name them, as in --columns"
    with pytest.raises(InputError, match=f"the first line has {listed}"):
        meantime.open(path)


def test_an_array_of_objects_is_a_table(tmp_path: Path) -> None:
    rows = [
        {"thread": "a", "name": "x", "at": {"start": 1, "end": 2}},
        {"thread": "a", "name": "y", "at": {"start": 2, "end": 5}},
    ]
    (path := tmp_path / "rows.json").write_text(json.dumps(rows))
    columns = "start=at.start:s,end=at.end:s,entity=thread,state=name"
    found = states(meantime.open(path, columns=columns))
    assert [row[1:] for row in found] == [
        (10**9, 2 * 10**9, "x"),
        (2 * 10**9, 5 * 10**9, "y"),
    ]

    (path := tmp_path / "flat.json").write_text(
        json.dumps([{"start_s": 1, "end_s": 2, "name": "x"}])
    )
    assert [row[1:] for row in states(meantime.open(path))] == [(10**9, 2 * 10**9, "x")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"log": {"version": "1.2", "creator": {}}}', "JSON with the keys log.version"),
        ('{"a": {"b": 1}, "runtime": 2}', "JSON with the keys a.b, runtime: `meantime formats`"),
        ('[{"method": "m", "params": {"timestamp": 1}}]', "the columns are method, params.timest"),
        ('[{"start_s": 1, "end_s": 2, "name": "x"}, 3]', "row 2 is another value than an object"),
    ],
)
def test_json_that_is_not_a_trace_is_refused_with_what_it_has(
    tmp_path: Path, text: str, message: str
) -> None:
    (path := tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=message):
        meantime.open(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.json", '{"metric": "m", "data": {"time": "2026-01-01T00:00:00Z", "value": 1}}\n' * 2),
        ("x.log", '{"textPayload": "a b", "timestamp": "2026-01-01T00:00:00Z"}\n' * 2),
        ("x.log", '{"kind": "E", "verb": "get", "sent at": "2026-01-01T00:00:00Z"}\n' * 2),
        ("x.json", '[{"method": "m", "params": {"timestamp": 1767225600.6}}, {"method": "n"}]'),
        ("x.csv", "stage_ts,sent\n1767225600,a\n"),
    ],
)
def test_the_columns_that_a_refusal_suggests_work_as_printed(
    tmp_path: Path, name: str, text: str
) -> None:
    (path := tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        meantime.open(path)

    suggested = shlex.split(str(caught.value).partition("as in --columns ")[2])[0]

    history = meantime.open(path, columns=suggested.removesuffix(","), lenient=True)
    assert history.metadata.records >= 1


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"[Sun Dec 04] worker.init() ok\nmore\n", "the line '[Sun Dec 04] worker.init() ok'"),
        (b"x" * 100, f"the text '{'x' * 60}'"),
        (b"\x01\x02\xff\xfe\x00abcd", "the bytes 01 02 ff fe 00 61 62 63"),
    ],
)
def test_an_unknown_format_is_refused_with_how_it_begins(
    tmp_path: Path, content: bytes, shown: str
) -> None:
    (path := tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError) as caught:
        meantime.open(path)
    assert f"unknown format, which begins with {shown}: `meantime formats`" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "stacks"),
    [
        ("a;b 1\n 3\n", [["a", "b"], []]),
        ("\ufeffa;b 1\n", [["a", "b"]]),
        ("# austin: 3.3.0\n# mode: wall\nP1;T2;f 5\n", [["f"]]),
    ],
)
def test_folded_stacks_of_every_tool(tmp_path: Path, text: str, stacks: list[list[str]]) -> None:
    (path := tmp_path / "x.txt").write_text(text)
    samples = meantime.open(path).samples()
    found = [samples.stacks.frames_of(row) if row >= 0 else [] for row in samples.stack.tolist()]
    assert found == stacks
