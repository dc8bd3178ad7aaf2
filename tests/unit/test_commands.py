"""`info`, `stats` and `dump` on one small trace, as a person or a script sees them."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main

if TYPE_CHECKING:
    from pathlib import Path

TRACE = """
{"start": [1, 5], "title": "disks & more", "host": "db1", "entityKind": "Disk",
 "states": {"idle": {"value": 0, "color": "#e0e0e0"}, "busy": {"value": 1}}}
{"time": "10", "entity": "sd/1", "state": 0}
{"time": "30", "entity": "sd/1", "state": 1, "tag": "read"}
{"time": "20", "entity": "sd2", "state": "busy"}
{"time": "25", "entity": "sd2", "event": "queued"}
{"time": "26", "entity": "sd2", "event": "kick", "target": "sd/1"}
{"state": 1, "tag": "read", "path": "</script>"}
{"entity": "spare", "description": "never used"}
{"time": "60", "entity": "sd2", "state": 0}
{"time": "60", "entity": "sd2", "sta"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "disks.statemap"
    path.write_text(TRACE)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, err = capsys.readouterr()
    assert (stopped.value.code, err) == (0, "")
    return out


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_info_prints_the_facts(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    facts = json.loads(run(capsys, "info", trace, "--json"))

    assert [each["command"].split()[1] for each in facts.pop("next")] == [
        *("explain", "findings", "stats", "stats")
    ]
    assert facts == {
        "source": trace,
        "format": "statemap",
        "recognised": "is JSON with `states`, or with an `entity` with a `state`",
        "title": "disks & more",
        "host": "db1",
        "clock": "unknown",
        "origin_ns": 1_000_000_005,
        "start_ns": 0,
        "end_ns": 60,
        "records": 8,
        "entities": 3,
        "entity_kinds": ["Disk"],
        "states": [
            {
                "kind": "Disk",
                "name": "idle",
                "value": 0,
                "color": "#e0e0e0",
                "total_ns": 20,
                "share": 20 / 90,
            },
            {
                "kind": "Disk",
                "name": "busy",
                "value": 1,
                "color": None,
                "total_ns": 70,
                "share": 70 / 90,
            },
        ],
        "tags": 1,
        "events": 2,
        "anomalies": {"truncated": 1},
    }


def test_info_is_readable(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    text = run(capsys, "info", trace)

    assert "1970-01-01T00:00:01.000000005Z" in text
    assert "3 (Disk)" in text
    assert "1 truncated: the input ends inside a record" in text
    assert "77.78%" in text


def test_stats_by_state_clip_to_the_window(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    statistics = json.loads(
        run(capsys, "stats", trace, "--json", "--from", "15ns", "--to", "@1.000000045")
    )

    assert statistics["range_ns"] == [15, 40]
    assert [(row["key"], row["count"], row["total_ns"]) for row in statistics["rows"]] == [
        ("busy", 2, 30),
        ("idle", 1, 15),
    ]
    assert "entity" not in statistics["rows"][0]
    assert statistics["transitions"] == [["idle", "busy", 1, "Disk"]]


def test_stats_by_entity_name_the_entity(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    statistics = json.loads(run(capsys, "stats", trace, "--json", "--by", "entity"))

    rows = {(row["entity"], row["key"]): row["total_ns"] for row in statistics["rows"]}
    assert rows == {("sd/1", "busy"): 30, ("sd/1", "idle"): 20, ("sd2", "busy"): 40}
    assert "sd/1" in run(capsys, "stats", trace, "--by", "entity")


def test_dump_prints_the_content_of_the_file(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    assert lines(run(capsys, "dump", trace)) == [
        {"time_ns": 10, "entity": "sd/1", "state": "idle", "tag": None},
        {"time_ns": 30, "entity": "sd/1", "state": "busy", "tag": "read"},
        {"time_ns": 20, "entity": "sd2", "state": "busy", "tag": None},
        {"time_ns": 60, "entity": "sd2", "state": "idle", "tag": None},
    ]


def test_dump_of_each_kind(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    intervals = lines(run(capsys, "dump", trace, "--kind", "intervals"))

    assert [row for row in intervals if row["path"] == "sd\\/1"] == [
        {"path": "sd\\/1", "start_ns": 0, "end_ns": 10, "value": None, "tag": None},
        {"path": "sd\\/1", "start_ns": 10, "end_ns": 30, "value": "idle", "tag": None},
        {"path": "sd\\/1", "start_ns": 30, "end_ns": 61, "value": "busy", "tag": 0},
    ]
    assert lines(run(capsys, "dump", trace, "--kind", "points")) == [
        {"time_ns": 25, "entity": "sd2", "event": "queued"}
    ]
    assert lines(run(capsys, "dump", trace, "--kind", "flows")) == [
        {"time_ns": 26, "entity": "sd2", "event": "kick", "target": "sd/1"}
    ]
    assert lines(run(capsys, "dump", trace, "--kind", "tags")) == [
        {"tag": 0, "fields": {"state": 1, "tag": "read", "path": "</script>"}}
    ]


def test_standard_input_is_read_like_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, trace: str
) -> None:
    with open(trace, "rb") as file:  # noqa: PTH123 - a descriptor, as the shell gives it
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        from_pipe = lines(run(capsys, "dump", "-"))

    assert from_pipe == lines(run(capsys, "dump", trace))


def test_an_absolute_time_needs_a_clock(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.statemap"
    path.write_text('{"states": {"a": {"value": 0}}}')

    with pytest.raises(SystemExit) as stopped:
        main(["stats", str(path)])

    assert stopped.value.code == 1
    assert "start" in capsys.readouterr().err


def test_open_gives_the_history(trace: str) -> None:
    history = meantime.open(trace)

    assert history.state(history.quark("sd/1"), 29).value == "idle"
    assert history.bounds == (0, 60)


@pytest.mark.parametrize(
    "kind",
    ["changes", "intervals", "spans", "samples", "counters", "points", "flows", "tags"],
)
def test_a_trace_without_data_has_nothing_to_dump(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "t.statemap"
    path.write_text('{"start": [0, 0], "states": {"a": {"value": 0}}}')

    assert run(capsys, "dump", str(path), "--kind", kind) == ""


def test_totals_are_exact_beyond_64_bits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, last_ns = tmp_path / "t.statemap", 2**63 - 2
    data = (
        f'{{"time": {time_ns}, "entity": "{entity}", "state": {state}}}'
        for time_ns, state in ((0, 0), (last_ns, 1))
        for entity in "xyz"
    )
    path.write_text(
        '{"start": [0, 0], "states": {"a": {"value": 0}, "b": {"value": 1}}}' + "".join(data)
    )

    row = json.loads(run(capsys, "stats", str(path), "--json"))["rows"][0]

    assert (row["key"], row["total_ns"], row["share"]) == ("a", 3 * last_ns, 1.0)


def test_small_numbers_are_states_and_are_counted_beside_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with meantime.HistoryBuilder(tmp_path / "x.mth") as builder:
        number, text = builder.quark("number"), builder.quark("text")
        builder.modify_many([0, 4], [number] * 2, [3, 1])
        builder.modify_many([0, 2, 6], [text] * 3, ["on", "off", "3"])
        builder.close(10)

    stats = json.loads(run(capsys, "stats", str(tmp_path / "x.mth"), "--json"))
    info = json.loads(run(capsys, "info", str(tmp_path / "x.mth"), "--json"))

    assert {row["key"]: row["total_ns"] for row in stats["rows"]} == {
        "1": 6, "3": 8, "off": 4, "on": 2,
    }  # fmt: skip
    assert sorted(stats["transitions"]) == [
        ["3", "1", 1, ""],
        ["off", "3", 1, ""],
        ["on", "off", 1, ""],
    ]
    assert info["entities"] == 2
    map_ = tmp_path / "x.json"
    run(capsys, "heatmap", str(tmp_path / "x.mth"), "--by", "state", "-o", str(map_))
    by = json.loads(map_.read_text())["by"]
    assert sorted(by) == ["1", "3", "off", "on"]
