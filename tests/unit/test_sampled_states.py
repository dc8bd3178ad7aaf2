"""States that only samples show: exactly as far as each sample reaches, and nothing in between."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.cli import main
from meantime.history.ingest import build
from meantime.model.attribute_paths import thread_path
from meantime.model.columns import Interner
from meantime.model.stacks import StackTableBuilder
from meantime.model.trace import Samples, Trace
from meantime.model.units import format_ns
from meantime.query.sampled_states import has_sampled_states, with_sampled_states
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from meantime.history.history import History

Row = tuple[int, str, str, int]


def sampled(rows: Sequence[Row], event: str) -> History:
    """Return the history of rows of time, thread, leaf and weight, in order of time."""
    rows = sorted(rows, key=lambda row: row[0])
    stacks, threads = StackTableBuilder(), Interner(paths := list[str]())
    batch = Samples(
        time_ns=np.array([row[0] for row in rows], np.int64),
        thread=threads.codes(row[1] for row in rows),
        stack=np.array([stacks.add(["main", row[2]]) for row in rows], np.int32),
        weight=np.array([row[3] for row in rows], np.int64),
        event=np.zeros(len(rows), np.int32),
    )
    trace = Trace("samples", "list", iter([batch]))
    trace.paths.extend(thread_path(thread) for thread in paths)
    trace.values = [event]
    trace.stacks = stacks.build()
    return build(trace)


def states(history: History, thread: str) -> list[tuple[int, int, object]]:
    found = with_sampled_states(history).intervals(f"Threads/{thread}")
    return [(row.start_ns, row.end_ns, row.value) for row in found if row.value is not None]


def test_a_clock_of_cpu_time_is_bridged_by_half_an_interval() -> None:
    # the weights of perf's clock are its interval: 100; 150 later is late, 151 is not
    history = sampled([(time, "7", "f", 100) for time in (0, 100, 250, 401, 420)], "cpu-clock")

    assert states(history, "7") == [(0, 350, "on-cpu"), (401, 520, "on-cpu")]


def test_a_profiler_of_wall_time_may_miss_three_samples() -> None:
    # the last has no weight: the others are distances, whose median is the interval
    times = [0, 10, 20, 30, 70, 80, 90, 131, 140]
    rows = [(time, "7", "f", after - time) for time, after in pairwise(times)]
    history = sampled([*rows, (140, "7", "f", 0)], "wall")

    assert states(history, "7") == [(0, 100, "on-cpu"), (131, 150, "on-cpu")]


def test_given_durations_are_exact() -> None:
    rows = [(0, "7", "f", 5), (5, "7", "(idle)", 1000), (1005, "7", "g", 7), (2000, "7", "f", 3)]

    assert states(sampled(rows, "wall"), "7") == [
        (0, 5, "on-cpu"),
        (5, 1005, "idle"),
        (1005, 1012, "on-cpu"),
        (2000, 2003, "on-cpu"),
    ]


def test_the_idle_task_is_idle() -> None:
    rows = [(time, thread, "do_idle", 10) for time in range(0, 40, 10) for thread in ("0", "5")]
    rows[4] = (20, "0", "tasklet_action", 10)
    history = sampled(rows, "cpu-clock:ppp")

    assert states(history, "0") == [(0, 20, "idle"), (20, 30, "on-cpu"), (30, 40, "idle")]
    assert states(history, "5") == [(0, 40, "on-cpu")]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 300), st.sampled_from(["a", "b"]), st.sampled_from(["f", "(idle)"])
        ),
        min_size=1,
        max_size=40,
        unique_by=lambda row: row[:2],
    ),
    st.integers(2, 40),
)
def test_each_moment_is_as_its_definition_says(
    rows: list[tuple[int, str, str]], interval: int
) -> None:
    rows.sort()
    history = sampled([(time, thread, leaf, interval) for time, thread, leaf in rows], "task-clock")
    expected: dict[tuple[str, int], str] = {}
    for thread in "ab":
        own = [(time, leaf) for time, each, leaf in rows if each == thread]
        for index, (time, leaf) in enumerate(own):
            after = own[index + 1][0] if index + 1 < len(own) else time + interval
            is_reached = after - time <= interval + interval // 2
            for moment in range(time, after if is_reached else time + interval):
                expected[thread, moment] = "idle" if leaf == "(idle)" else "on-cpu"

    found = {
        (thread, moment): value
        for thread in {row[1] for row in rows}
        for start, end, value in states(history, thread)
        for moment in range(start, end)
    }

    assert found == expected


@pytest.mark.parametrize("event", ["sched:sched_switch", "page-faults", "on-cpu", "off-cpu"])
def test_samples_that_no_clock_triggered_show_no_state(event: str) -> None:
    history = sampled([(time, "7", "f", 1) for time in (0, 10, 20)], event)

    assert not has_sampled_states(history)
    assert with_sampled_states(history) is history


def test_a_single_sample_has_no_interval() -> None:
    history = sampled([(5, "7", "f", 1)], "cycles")

    assert with_sampled_states(history) is history


def test_a_history_with_states_or_spans_is_unchanged() -> None:
    for history in (history_from_picture("a  ab"), history_from_spans({"t": [("f", 0, 9)]})):
        assert with_sampled_states(history) is history


PROFILE = {
    "nodes": [
        {"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2, 3]},
        {"id": 2, "callFrame": {"functionName": "work"}},
        {"id": 3, "callFrame": {"functionName": "(idle)"}},
    ],
    "startTime": 0,
    "endTime": 9000,
    "samples": [2, 2, 3, 3, 2, 2],
    "timeDeltas": [0, 1000, 1000, 1000, 1000, 40000],
}


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "x.cpuprofile"
    path.write_text(json.dumps(PROFILE))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    out, err = capsys.readouterr()
    assert stopped.value.code == 0, err
    return out


def test_commands_draw_and_count_what_samples_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, profile: str
) -> None:
    target = tmp_path / "out.json"

    run(capsys, "statemap", profile, "-o", str(target))
    rows = json.loads(run(capsys, "stats", profile, "--by", "state", "--json"))["rows"]
    [panel] = json.loads(target.read_text())["maps"]

    totals: dict[str, Any] = {row["key"]: row["total_ns"] for row in rows}
    assert totals == {"on-cpu": 4_000_000, "idle": 2_000_000}
    assert [state["name"] for state in panel["states"]] == ["on-cpu", "idle"]
    drawn: dict[str, int] = {}
    for row in panel["rows"]:
        for rectangle in row["rects"]:
            for state, spent in rectangle["states"].items():
                drawn[state] = drawn.get(state, 0) + spent
    assert drawn == totals
    assert [len(row["rects"]) for row in panel["rows"]] == [4]
    view = meantime.statemap(profile)
    assert repr(view) == f"<Statemap: 1 rows, 4 rectangles, {format_ns(44_000_000 + 1_000_000)}>"


def test_the_first_command_offers_it(capsys: pytest.CaptureFixture[str], profile: str) -> None:
    out = run(capsys, profile)

    assert f"meantime statemap {profile} -o x.svg" in out
    assert "draw when each thread was on a CPU" in out
