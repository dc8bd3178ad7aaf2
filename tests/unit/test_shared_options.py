"""Options that mean the same in every command: --strict, --filter, --provider, --title, --json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

# The last line is cut off, which is an anomaly.
STATES = """
{"start": [1, 5], "title": "disks", "states": {"idle": {"value": 0}, "busy": {"value": 1}}}
{"time": "0", "entity": "sd1", "state": 0}
{"time": "0", "entity": "sd10", "state": 1}
{"time": "30", "entity": "sd1", "state": 1}
{"time": "60", "entity": "sd1", "state": 0}
{"time": "60", "entity": "sd10", "state": 0}
{"time": "80", "entity": "sd10", "state": 1}
{"time": "100", "entity": "sd10", "state": 0}
"""
CUT = '{"time": "100", "entity": "sd1", "sta'
SPANS = [
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
    {"ph": "X", "name": "f", "pid": 1, "tid": 1, "ts": 0, "dur": 4},
    {"ph": "X", "name": "f", "pid": 1, "tid": 2, "ts": 2, "dur": 6},
    {"ph": "X", "name": "g", "pid": 1, "tid": 2, "ts": 3, "dur": 1},
]
SAMPLES = """\
one 1 [000] 1.000000: cycles:
\t1 f (x)

two 2 [000] 1.100000: cycles:
\t1 g (x)
\t2 f (x)

one 1 [000] 1.250000: cycles:
\t1 f (x)

"""
EVENTS = "".join(
    json.dumps({"time_ns": time_ns, "name": name, "disk": disk}) + "\n"
    for time_ns, name, disk in (
        (0, "go", "a"),
        (10, "go", "b"),
        (20, "stop", "a"),
        (40, "stop", "b"),
    )
)
PROVIDER = """\
[[on]]
event = "go"
change = [{ path = "Disks/{disk}", set = "busy" }]

[[on]]
event = "stop"
change = [{ path = "Disks/{disk}", set = "idle" }]
"""


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "states").write_text(STATES)
    (folder / "cut").write_text(STATES + CUT)
    (folder / "calls.json").write_text(json.dumps(SPANS))
    (folder / "perf.txt").write_text(SAMPLES)
    (folder / "events").write_text(EVENTS)
    (folder / "states.toml").write_text(PROVIDER)
    return folder


def run(
    capsys: pytest.CaptureFixture[str], folder: Path, command: str, status: int = 0
) -> tuple[str, str]:
    kinds = {path.name for path in folder.iterdir()}
    words = [
        str(folder / word) if word in kinds else word.replace("OUT", str(folder.parent / "out"))
        for word in command.split()
    ]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    out, err = capsys.readouterr()
    assert stopped.value.code == status, err
    return out, err


STRICT = [
    "info FILE",
    "findings FILE",
    "stats FILE",
    "dump FILE",
    "dump FILE --kind intervals",
    "query FILE tree",
    "sql FILE select",
    "build FILE -o OUT.mth",
    "convert FILE OUT.statemap",
    "convert FILE OUT.mth",
    "statemap FILE -o OUT.svg",
    "heatmap FILE --period 10 -o OUT.svg",
]


@pytest.mark.parametrize("command", STRICT)
def test_strict_fails_for_any_anomaly_and_leaves_no_output(
    capsys: pytest.CaptureFixture[str], inputs: Path, command: str
) -> None:
    out, err = run(capsys, inputs, command.replace("FILE", "cut") + " --strict", 1)

    assert out == ""
    assert "with --strict: 1 truncated: " in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in inputs.parent.iterdir() if path.name != "cache"] == ["in"]


@pytest.mark.parametrize("command", [each for each in STRICT if "select" not in each])
def test_strict_changes_nothing_without_an_anomaly(
    capsys: pytest.CaptureFixture[str], inputs: Path, command: str
) -> None:
    plain = command.replace("FILE", "states")
    first, _ = run(capsys, inputs, plain)
    second, _ = run(capsys, inputs, plain.replace("OUT", "OUT2") + " --strict")

    assert second == first.replace(str(inputs.parent / "out"), str(inputs.parent / "out2"))


def test_strict_build_keeps_the_history_that_it_would_have_replaced(
    capsys: pytest.CaptureFixture[str], inputs: Path
) -> None:
    run(capsys, inputs, "build states -o OUT.mth")
    run(capsys, inputs, "build cut -o OUT.mth --force --strict", 1)

    kept = meantime.open(inputs.parent / "out.mth")

    assert not kept.anomalies
    assert kept.title == "disks"


def test_strict_in_the_library(inputs: Path) -> None:
    cut = inputs / "cut"

    for function in (meantime.open, meantime.statemap, meantime.heatmap):
        with pytest.raises(InputError, match="with --strict: 1 truncated"):
            function(cut, strict=True)
    with pytest.raises(InputError, match="with --strict: 1 truncated"):
        meantime.statemap(meantime.open(cut), strict=True)
    with pytest.raises(UsageError, match="mutually exclusive"):
        meantime.flame(inputs / "calls.json", strict=True, lenient=True)


def cells(capsys: pytest.CaptureFixture[str], inputs: Path, command: str) -> Any:
    run(capsys, inputs, command)
    return json.loads((inputs.parent / "out.json").read_text())


def test_filter_of_a_heat_map(capsys: pytest.CaptureFixture[str], inputs: Path) -> None:
    states = cells(capsys, inputs, "heatmap states --period 10 --rows 1 --filter sd1 -o OUT.json")
    of_two = cells(
        capsys, inputs, "heatmap calls.json --period 1us --rows 1 --filter 2 -o OUT.json"
    )
    of_main = cells(
        capsys, inputs, "heatmap calls.json --period 1us --rows 1 -f ^main$ -o OUT.json"
    )
    sampled = cells(capsys, inputs, "heatmap perf.txt --period 10ms --rows 1 -f one -o OUT.json")

    # sd1 alone, not sd10: all its time is in a state
    assert states["cells"] == [[column, 0, 10] for column in range(10)]
    assert of_two["cells"] == [[column, 0, 1000] for column in range(2, 8)]
    assert of_main["cells"] == [[column, 0, 1000] for column in range(4)]
    assert sampled["cells"] == [[0, 0, 1], [25, 0, 1]]
    assert list(sampled["by"]) == ["one"]


def test_filter_of_a_heat_map_of_several_inputs(inputs: Path) -> None:
    both = [inputs / "perf.txt", inputs / "perf.txt"]

    found = meantime.heatmap(both, filter="two", assume_aligned=True, names=["a", "b"])

    assert found.data.total.value.tolist() == [2]


def test_filter_of_dump(capsys: pytest.CaptureFixture[str], inputs: Path) -> None:
    def dumped(command: str) -> list[Any]:
        return [json.loads(line) for line in run(capsys, inputs, command)[0].splitlines()]

    assert {line["path"] for line in dumped("dump states --kind intervals -f sd1")} == {"sd1"}
    assert [line["tid"] for line in dumped("dump calls.json --kind spans -f main")] == [1]
    assert [line["tid"] for line in dumped("dump calls.json --kind spans -f 1/2")] == [2, 2]
    assert [line["tid"] for line in dumped("dump perf.txt --kind samples -f two")] == [2]
    stacks = dumped("dump calls.json --kind intervals -f main")
    assert {line["path"].split("/")[3] for line in stacks} == {"1"}


def test_provider_of_a_heat_map(capsys: pytest.CaptureFixture[str], inputs: Path) -> None:
    command = "heatmap events --provider states.toml --period 10 --rows 1 -o OUT.json --by name"

    found = cells(capsys, inputs, command + " --state busy")
    every = cells(capsys, inputs, command)

    assert {name: sum(cell[2] for cell in each) for name, each in found["by"].items()} == {
        "Disks/a": 20,
        "Disks/b": 30,
    }
    assert sum(cell[2] for cell in every["cells"]) > 50
    history = meantime.open(inputs / "events", provider=inputs / "states.toml")
    with pytest.raises(UsageError, match="provider applies to the path of a trace"):
        meantime.heatmap(history, provider=inputs / "states.toml")


def test_a_flame_graph_of_a_provider_needs_spans_or_samples(
    capsys: pytest.CaptureFixture[str], inputs: Path
) -> None:
    _, err = run(capsys, inputs, "flame events --provider states.toml -o OUT.svg", 1)

    assert "there are no spans and no samples to draw" in err


@pytest.mark.parametrize(
    "command",
    ["statemap states", "flame calls.json", "flame calls.json --chart", "heatmap calls.json"],
)
def test_title_of_a_picture(capsys: pytest.CaptureFixture[str], inputs: Path, command: str) -> None:
    run(capsys, inputs, f"{command} --title A<b -o OUT.svg")

    assert "<title>A&lt;b</title>" in (inputs.parent / "out.svg").read_text()


def test_json_of_a_flame_graph_is_the_call_tree(
    capsys: pytest.CaptureFixture[str], inputs: Path
) -> None:
    out, _ = run(capsys, inputs, "flame calls.json --json --title T --from 1us")

    assert json.loads(out) == {
        "title": "T",
        "selected": ["1us to 8us"],
        "unit": "ns",
        "rows": [
            {"depth": 0, "name": "f", "count": 2, "total_ns": 9000, "self_ns": 8000},
            {"depth": 1, "name": "g", "count": 1, "total_ns": 1000, "self_ns": 1000},
        ],
    }
    tree, _ = run(capsys, inputs, "stats calls.json --tree --json --from 1us")
    assert json.loads(tree)["rows"] == json.loads(out)["rows"]


def test_json_of_a_comparison(capsys: pytest.CaptureFixture[str], inputs: Path) -> None:
    out, _ = run(capsys, inputs, "flame calls.json --json --to 2us --against 2us..8us -o OUT.svg")

    side = {"count": 2, "total_ns": 8000, "self_ns": 7000}
    assert json.loads(out)["rows"] == [
        {
            "depth": 0,
            "name": "f",
            "before": side,
            "after": {"count": 1, "total_ns": 2000, "self_ns": 2000},
        },
        {
            "depth": 1,
            "name": "g",
            "before": {"count": 1, "total_ns": 1000, "self_ns": 1000},
            "after": {"count": 0, "total_ns": 0, "self_ns": 0},
        },
    ]
    assert (inputs.parent / "out.svg").exists()


@pytest.mark.parametrize("by", ["state", "entity"])
def test_states_are_compared(capsys: pytest.CaptureFixture[str], inputs: Path, by: str) -> None:
    out, _ = run(capsys, inputs, f"stats states --by {by} --from 40 --against 0..40 --json")
    found = json.loads(out)

    sides = [
        json.loads(run(capsys, inputs, f"stats states --by {by} {part} --json")[0])
        for part in ("--to 40", "--from 40")
    ]
    assert found["against_range_ns"] == [0, 40] == sides[0]["range_ns"]
    assert found["range_ns"] == [40, 100] == sides[1]["range_ns"]
    names = ("kind", "key", "entity") if by == "entity" else ("kind", "key")
    for side, name in zip(sides, ("before", "after"), strict=True):
        rows = [
            {each: row[each] for each in names} | row[name] for row in found["rows"] if row[name]
        ]
        key = [tuple(row[each] for each in names) for row in side["rows"]]
        assert sorted(map(str, rows)) == sorted(
            str({each: row[each] for each in (*names, *list(row))}) for row in side["rows"]
        ), key
    changes = [abs(row["share_change"]) for row in found["rows"]]
    assert changes == sorted(changes, reverse=True)


def test_states_of_two_traces_are_compared(
    capsys: pytest.CaptureFixture[str], inputs: Path
) -> None:
    (inputs / "other").write_text(STATES.replace('"busy"', '"full"'))

    out, err = run(capsys, inputs, f"stats states --against {inputs / 'other'} --json")

    rows = {row["key"]: row for row in json.loads(out)["rows"]}
    assert err == ""
    assert rows["busy"]["before"] is None
    assert rows["full"]["after"] is None
    assert rows["full"]["total_change_ns"] == -rows["busy"]["total_change_ns"] != 0
    assert rows["idle"]["share_change"] == 0


def test_a_comparison_of_states_is_readable(
    capsys: pytest.CaptureFixture[str], inputs: Path
) -> None:
    out, _ = run(capsys, inputs, "stats states --from 40 --against 0..40")

    busy = next(line.split() for line in out.splitlines() if line.split()[:1] == ["busy"])
    # 10 + 40 of 2 x 40 ns before, 20 + 20 + 20 of 2 x 60 after
    assert busy == ["busy", "2", "3", "50ns", "60ns", "10ns", "62.50%", "50.00%", "-12.50%"]
