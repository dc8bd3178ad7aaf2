"""What is counted of traces with spans, samples, states or events, alone and together."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.views.export import export

if TYPE_CHECKING:
    from pathlib import Path

# A thread with a span, a system call that is also a state, and samples of what ran.
EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 10, "name": "task"},
]
SAMPLES = [{"cpu": 0, "tid": 1, "ts": at, "name": "cpu", "sf": 2, "weight": 1} for at in (4, 6)]
FRAMES = {"1": {"name": "main"}, "2": {"name": "work", "parent": "1"}}
STRACE = (
    "7 1700000000.000000 read(3, 0x1, 9) = 9 <0.000010>\n"
    "7 1700000000.000020 mmap(0, 9) = 0 <0.000010>\n"
    "7 1700000000.000040 +++ exited with 0 +++\n"
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    with pytest.raises(SystemExit):
        main([*arguments])
    return capsys.readouterr()


@pytest.fixture
def both(tmp_path: Path) -> str:
    document = {"traceEvents": EVENTS, "stackFrames": FRAMES, "samples": SAMPLES}
    (tmp_path / "x.json").write_text(json.dumps(document))
    return str(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("option", "name"), [("", "task"), ("--spans", "task"), ("--samples", "work")]
)
def test_tables_and_graphs_count_spans_or_samples(
    capsys: pytest.CaptureFixture[str], both: str, option: str, name: str
) -> None:
    options = [option] if option else []
    told, said = run(capsys, "stats", both, "--json", *options)
    drawn, asked = run(capsys, "flame", both, "--json", *options)

    assert json.loads(told)["rows"][0]["key"] == name
    assert any(row["name"] == name for row in json.loads(drawn)["rows"])
    others = "--spans counts 1 span" if name == "work" else "--samples counts 2 samples"
    assert others in said
    assert f"meantime flame {both} {others.split(maxsplit=1)[0]} -o flame.svg" in asked


@pytest.mark.parametrize(
    ("option", "lines"), [("--spans", "task 10000\n"), ("--samples", "main;work 2\n")]
)
def test_folded_stacks_are_of_spans_or_samples(
    capsys: pytest.CaptureFixture[str], both: str, tmp_path: Path, option: str, lines: str
) -> None:
    _, said = run(capsys, "convert", both, str(tmp_path / "x.folded"), option)

    assert (tmp_path / "x.folded").read_text() == lines
    assert ("2 samples" if option == "--spans" else "1 spans") in said


def test_a_format_that_adds_up_has_spans_and_no_states(tmp_path: Path) -> None:
    (tmp_path / "x.strace").write_text(STRACE)
    history = meantime.open(tmp_path / "x.strace")
    lost = Counter[str]()

    folded = b"".join(export(history, "folded", lost))
    states = b"".join(export(history, "folded", Counter(), "states"))

    calls_ns = int((history.spans().end_ns - history.spans().start_ns).sum())
    assert sum(int(line.split()[-1]) for line in folded.splitlines()) == calls_ns
    assert lost["states"] > 0
    assert states != folded


def test_what_a_profiler_s_own_tool_shows_comes_first(samples: Path) -> None:
    history = meantime.open(next(samples.glob("jfr/*.jfr*")))
    assert history.metadata.samples_first


def test_events_are_counted_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("time,name\n1700000000,a\n1700000001,b\n1700000004,a\n")
    table, _ = run(capsys, "stats", str(tmp_path / "x.csv"), "--json")
    points = [{"ph": "i", "pid": 1, "tid": 1, "ts": at, "name": "tick"} for at in (0, 500_000)]
    (tmp_path / "x.json").write_text(json.dumps(points))
    ticks, _ = run(capsys, "stats", str(tmp_path / "x.json"), "--json")

    assert [(row["key"], row["count"]) for row in json.loads(table)["rows"]] == [("a", 2), ("b", 1)]
    [row] = json.loads(ticks)["rows"]
    assert (row["key"], row["count"], round(row["per_second"])) == ("tick", 2, 4)


def test_what_is_not_there_is_said_without_a_contradiction(
    capsys: pytest.CaptureFixture[str], both: str, tmp_path: Path
) -> None:
    (tmp_path / "x.json").write_text(json.dumps(EVENTS))
    only = str(tmp_path / "x.json")
    assert run(capsys, "stats", only, "--samples")[1] == "meantime: the trace has no samples\n"
    assert (
        "there are no samples, only spans" in run(capsys, "flame", only, "--samples", "--json")[1]
    )
    asked = run(capsys, "flame", both, "--samples", "--whole", "--json")[1]
    assert "whole applies to spans; leave out samples" in asked
