from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from meantime.cli import cli, main
from meantime.errors import (
    AttributeNotFound,
    InputError,
    MeantimeError,
    OutputError,
    UsageError,
)
from meantime.history import HistoryBuilder
from meantime.history.directory.open import open_history
from meantime.testing import picture

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def meantime(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=True)


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.mth"
    with HistoryBuilder(path) as builder:
        disk, load_ = builder.quark("disks", "0"), builder.quark("load")
        tag = builder.tag({"pid": 7})
        for time_ns, value in ((0, "idle"), (2, "busy"), (6, "idle")):
            builder.modify(time_ns, disk, value, tag if value == "busy" else None)
        builder.modify(3, load_, 0.5)
    return path


def test_a_history_answers_on_the_command_line(path: Path) -> None:
    at = lines(meantime("query", path, "at", "4", "--json"))
    state = lines(meantime("query", path, "state", "load", "1ns", "--json"))
    intervals = lines(meantime("query", path, "intervals", "disks/*", "--to", "3", "--json"))
    shares = lines(meantime("query", path, "shares", "disks/0", "--bins", "2", "--json"))
    tree = lines(meantime("query", path, "tree", "disks/**", "--json"))

    assert [(row["path"], row["value"]) for row in at] == [
        ("disks", None),
        ("disks/0", "busy"),
        ("load", 0.5),
    ]
    assert at[1]["tag"] == {"pid": 7}
    assert (state[0]["value"], state[0]["end_ns"]) == (None, 3)
    assert [row["value"] for row in intervals] == ["idle", "busy"]
    assert [(row["bin"], row["value"], row["ns"]) for row in shares] == [
        (0, "idle", 2),
        (0, "busy", 2),
        (1, "idle", 1),
        (1, "busy", 2),
    ]
    assert [row["path"] for row in tree] == ["disks", "disks/0"]
    assert "disks/0" in meantime("query", path, "tree").stdout


def test_states_with_a_value_are_found_and_counted(path: Path) -> None:
    after = lines(meantime("query", path, "next", "disks/*", "0", "--value", "busy", "--json"))
    number = lines(meantime("query", path, "next", "**", "0", "--value", "0.5", "--json"))
    before = lines(meantime("query", path, "previous", "disks/0", "3", "--json"))
    none = meantime("query", path, "previous", "disks/0", "0", "--csv")
    counts = lines(meantime("query", path, "count", "**", "--value", "idle", "--json"))

    assert [(row["path"], row["start_ns"]) for row in after] == [("disks/0", 2)]
    assert [(row["path"], row["start_ns"]) for row in number] == [("load", 3)]
    assert [row["value"] for row in before] == ["busy"]
    assert none.stdout == "path,start_ns,end_ns,value,tag\n"
    assert {row["path"]: row["count"] for row in counts} == {"disks": 0, "disks/0": 2, "load": 0}


def test_a_handle_is_accepted_in_place_of_what_it_names(path: Path) -> None:
    (state,) = lines(meantime("query", path, "disks/0@abs:4", "--json"))
    below = lines(meantime("query", path, "at", "disks@4ns", "--json"))
    (same,) = lines(meantime("query", path, "state", "disks/0@4", "--json"))
    (after,) = lines(meantime("query", path, "next", "disks/0@4", "--json"))
    everything = lines(meantime("query", path, "@abs:4", "--json"))

    assert (state["start_ns"], state["end_ns"], state["value"]) == (2, 6, "busy")
    assert same == state
    assert (after["start_ns"], after["value"]) == (6, "idle")
    assert [row["path"] for row in below] == ["disks", "disks/0"]
    assert everything == lines(meantime("query", path, "at", "4", "--json"))
    nothing = meantime("query", path, "disk/0@4").exception
    assert isinstance(nothing, AttributeNotFound)
    assert "disk/0/**" not in str(nothing)
    for wrong in (["disks/0@"], ["disks/0@4", "5"], ["span x"], ["@4s"], ["disks/0@99s"]):
        assert isinstance(meantime("query", path, *wrong).exception, MeantimeError), wrong
    assert meantime("query", path, "disks/0").exit_code == 2


def test_statistics_and_sql_accept_handles_and_lanes(tmp_path: Path) -> None:
    states, spans = tmp_path / "x.statemap", tmp_path / "x.json"
    states.write_text(
        '{"start": [0, 0], "states": {"a": {"value": 0}, "b": {"value": 1}}}\n'
        '{"time": "0", "entity": "d0", "state": 0} {"time": "4", "entity": "d0", "state": 1}\n'
        '{"time": "0", "entity": "d1", "state": 1} {"time": "9", "entity": "d0", "state": 0}\n'
    )
    spans.write_text(
        '[{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 0, "dur": 9},'
        ' {"ph": "X", "pid": 1, "tid": 1, "name": "b", "ts": 1, "dur": 2},'
        ' {"ph": "X", "pid": 1, "tid": 2, "name": "c", "ts": 0, "dur": 8}]'
    )

    def rows(*words: object) -> list[tuple[object, ...]]:
        (found,) = lines(meantime("stats", *words, "--json"))
        return [(row["key"], row["total_ns"]) for row in found["rows"]]  # type: ignore[attr-defined]  # of object

    assert rows(states, "d0@abs:5") == [("b", 5)]
    assert rows(states, "--lane", "d1", "--to", "6") == [("b", 6)]
    assert rows(states, "--lane", "*", "--to", "4") == [("a", 4), ("b", 4)]
    assert rows(spans, "span 1") == [("b", 2000), ("a", 2000)]
    assert rows(spans, "Processes/1/Threads/1@2us") == [("b", 2000), ("a", 2000)]
    assert rows(spans, "--lane", "Processes/1/Threads/2") == [("c", 8000)]
    assert rows(spans, "--lane", "Processes/1", "--filter", "2") == [("c", 8000)]
    for wrong in (
        *(["d0@99s"], ["@abs:5"], ["d2@abs:5"], ["span 0"], ["d0@5", "--from", "2"]),
        *(
            ["--lane", "d2"],
            ["--lane", "d0", "--against", "0..2"],
            ["--lane", "d0", "--by", "name"],
        ),
    ):
        assert isinstance(meantime("stats", states, *wrong).exception, MeantimeError), wrong
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    joined = "select name, h.span, h.end_ns from spans join handle h using (span)"
    assert lines(meantime("sql", spans, joined, "--handle", "span 1", "--json")) == [
        {"name": "b", "span": 1, "end_ns": 3000}
    ]
    at = "select value, h.time_ns, h.span from intervals i, handle h where h.quark = i.quark and"
    at += " i.start_ns = h.start_ns"
    assert lines(meantime("sql", states, at, "--handle", "d0@abs:5", "--json")) == [
        {"value": "b", "time_ns": 5, "span": None}
    ]


def test_a_span_has_the_same_number_in_every_command(tmp_path: Path) -> None:
    trace, history = tmp_path / "x.json", tmp_path / "x.mth"
    trace.write_text(
        '[{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 0, "dur": 9},'
        ' {"ph": "X", "pid": 1, "tid": 2, "name": "b", "ts": 1, "dur": 8},'
        ' {"ph": "X", "pid": 1, "tid": 2, "name": "c", "ts": 2, "dur": 1, "args": {"n": 1}},'
        ' {"ph": "i", "pid": 1, "tid": 2, "name": "mark", "ts": 4},'
        ' {"ph": "s", "id": 1, "pid": 1, "tid": 1, "name": "f", "ts": 5},'
        ' {"ph": "f", "id": 1, "pid": 1, "tid": 2, "name": "f", "ts": 6}]'
    )
    assert meantime("build", trace, "-o", history).exit_code == 0

    for source in (trace, history):
        dumped = lines(meantime("dump", source, "--kind", "spans", "--from", "2us", "--to", "3us"))
        longest = meantime("stats", source, "--longest", "c", "--from", "2us", "--json")
        (span,) = lines(meantime("query", source, "span", "2", "--json"))
        assert lines(meantime("query", source, "span 2", "--json")) == [span]
        (around,) = lines(meantime("query", source, "span", "1", "--json"))

        assert [(row["span"], row["name"]) for row in dumped] == [(0, "a"), (1, "b"), (2, "c")]
        assert json.loads(longest.stdout)["rows"][0]["span"] == 2
        assert (span["name"], span["parent"], span["arguments"]) == ("c", 1, '{"n": 1}')
        assert (around["self_ns"], around["parent"], around["arguments"]) == (7000, None, None)
        assert isinstance(meantime("query", source, "span", "3").exception, UsageError)
        assert isinstance(meantime("query", source, "span", "x").exception, UsageError)
        points = lines(meantime("query", source, "points", "--from", "4us", "--json"))
        assert [(row["time_ns"], row["name"]) for row in points] == [(4000, "mark")]
        flows = lines(meantime("query", source, "flows", "**/2", "--to", "6us", "--json"))
        assert [(row["from_ns"], row["to_ns"]) for row in flows] == [(5000, 6000)]
        assert lines(meantime("query", source, "flows", "--to", "5us", "--json")) == []


def test_a_wrong_number_of_words_is_a_wrong_command_line(path: Path) -> None:
    assert isinstance(meantime("query", path, "at").exception, UsageError)
    assert isinstance(meantime("query", path, "state", "load").exception, UsageError)


def test_an_answer_is_written_in_the_requested_form(path: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra [arrow] is not installed")
    question = ("query", path, "intervals", "**", "--from", "2ns")
    arrow, parquet = tmp_path / "x.arrow", tmp_path / "x.parquet"

    csv = meantime(*question, "--csv").stdout.splitlines()
    assert meantime(*question, "--arrow", arrow).exit_code == 0
    assert meantime(*question, "--parquet", parquet).exit_code == 0

    assert csv[0] == "path,start_ns,end_ns,value,tag"
    assert csv[2:] == [
        'disks/0,2,6,busy,"{""pid"": 7}"',
        "disks/0,6,7,idle,",
        "load,0,3,,",
        "load,3,7,0.5,",
    ]
    table = pyarrow.ipc.open_file(arrow).read_all()
    assert table.to_pydict() == import_module("pyarrow.parquet").read_table(parquet).to_pydict()
    assert table["path"].to_pylist() == [line.split(",")[0] for line in csv[1:]]
    assert table["value_float"].to_pylist()[-1] == 0.5


def test_a_long_table_has_every_row_aligned(tmp_path: Path) -> None:
    path = tmp_path / "x.mth"
    with HistoryBuilder(path) as builder:
        for number in range(3000):
            builder.quark("disks", str(number))

    table = meantime("query", path, "tree", "--limit", "0").stdout.splitlines()

    assert table[:4] == ["tree", "", "  quark  path", "  " + "-" * 17]
    assert table[4:6] == ["      0  disks", "      1  disks/0"]
    assert len(table) == 4 + 3001 + 1


def test_a_number_that_is_not_finite_is_text_in_json(tmp_path: Path) -> None:
    path = tmp_path / "x.mth"
    with HistoryBuilder(path) as builder:
        load_ = builder.quark("load")
        builder.modify_many([0, 1, 2], [load_] * 3, [float("nan"), float("-inf"), 0.5])

    rows = lines(meantime("query", path, "intervals", "load", "--json"))

    assert [row["value"] for row in rows] == ["nan", "-inf", 0.5]


def test_forms_exclude_each_other(path: Path) -> None:
    assert isinstance(meantime("query", path, "tree", "--csv", "--json").exception, UsageError)


def test_a_pattern_that_means_nothing_is_an_error_and_one_state_is_of_one(path: Path) -> None:
    nothing = meantime("query", path, "intervals", "disk/0").exception
    several = meantime("query", path, "state", "**", "1").exception

    assert isinstance(nothing, AttributeNotFound)
    assert "'disks'" in str(nothing)
    assert isinstance(several, UsageError)


def test_sql_queries_the_tables_of_a_history(path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    totals = (
        "select value, sum(end_ns - start_ns) ns from intervals join attributes using (quark)"
        " where path = 'disks/0' group by value order by value"
    )
    twice = "select count(*) from intervals a join intervals b using (quark, start_ns)"
    tags = "select value from tags join intervals i using (tag) where i.value = 'busy'"

    assert lines(meantime("sql", path, totals, "--json")) == [
        {"value": "busy", "ns": 4},
        {"value": "idle", "ns": 3},
    ]
    assert meantime("sql", path, twice, "--csv").stdout.splitlines()[1] == "6"
    assert meantime("sql", path, tags.replace("select value", "select tags.value")).exit_code == 0
    assert meantime("sql", path, "select * from states", "--csv").stdout.startswith("pattern,state")


def test_a_process_that_ran_sql_ends_silently(path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
    command = [sys.executable, "-m", "meantime", "sql", str(path), "select 7 n", "--csv"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("n\n7\n", "")


@pytest.mark.parametrize("statement", ["selec", "select * from nothing", "", "select error('x')"])
def test_a_statement_that_sql_refuses_is_a_wrong_command_line(path: Path, statement: str) -> None:
    pytest.importorskip("duckdb", reason="the extra [sql] is not installed")

    assert isinstance(meantime("sql", path, statement).exception, UsageError)


def test_a_trace_becomes_a_history_that_other_commands_take(root: Path, tmp_path: Path) -> None:
    trace, path = root / "examples" / "postgres.statemap.gz", tmp_path / "pg.mth"

    assert meantime("build", trace, "-o", path).exit_code == 0

    stats = [json.loads(meantime("stats", source, "--json").stdout) for source in (trace, path)]
    assert stats[0]["rows"] == stats[1]["rows"]
    assert "intact" in meantime("check", path).stdout
    assert isinstance(meantime("build", trace, "-o", path).exception, OutputError)


def test_a_build_needs_a_name_for_what_it_makes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["build", str(root / "examples" / "postgres.statemap.gz")])

    assert left.value.code == 2
    assert capsys.readouterr().err == (
        "meantime build: Missing option '-o' / '--output'; see meantime build --help\n"
    )


def test_an_unfinished_build_is_repeated_with_a_message(root: Path, tmp_path: Path) -> None:
    trace, path = root / "examples" / "postgres.statemap.gz", tmp_path / "pg.mth"
    HistoryBuilder(path).flush()

    again = meantime("build", trace, "-o", path)

    assert again.exit_code == 0
    assert "rebuilding" in again.stderr


def test_damage_is_named_and_the_rest_is_saved(path: Path, tmp_path: Path) -> None:
    answered = picture(open_history(path))
    segment = path / "segments" / "000000.seg"
    segment.write_bytes(segment.read_bytes()[:-9] + b"\xff" * 9)

    checked = meantime("check", path)
    saved = meantime("check", path, "--salvage", tmp_path / "saved.mth")

    assert isinstance(checked.exception, InputError)
    assert "000000.seg" in str(checked.exception)
    assert "000000.seg" in saved.output
    assert open_history(tmp_path / "saved.mth").attributes.find("disks", "0") is not None
    whole = meantime("check", tmp_path / "saved.mth", "--salvage", tmp_path / "again.mth")
    assert "everything" in whole.stdout
    assert answered


def test_a_whole_history_is_saved_as_it_is(path: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.mth"

    assert meantime("check", path, "--salvage", copied).exit_code == 0

    one, other = open_history(path), open_history(copied)
    assert list(one.intervals(range(3))) == list(other.intervals(range(3)))
    assert list(one.tags) == list(other.tags)


def test_an_unfinished_history_is_checked_and_saved_with_its_logs(tmp_path: Path) -> None:
    path = tmp_path / "x.mth"
    builder = HistoryBuilder(path)
    builder.modify(1, builder.quark("a"), "x")
    builder.modify(3, builder.quark("a"), "y")
    builder.flush()

    assert "2 changes" in meantime("check", path).stdout
    assert meantime("check", path, "--salvage", tmp_path / "y.mth").exit_code == 0
    assert picture(open_history(tmp_path / "y.mth")).split() == ["a", ".xxy"]


def test_a_history_does_not_pretend_to_know_its_file(path: Path) -> None:
    changes = meantime("dump", path)

    assert isinstance(changes.exception, InputError)
    assert "--kind intervals" in str(changes.exception)
    assert "busy" in meantime("dump", path, "--kind", "intervals").stdout
