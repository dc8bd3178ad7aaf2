"""What stands out in generated traces: planted faults come first, and steady traces have none."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

import meantime
from meantime import HistoryBuilder
from meantime.cli import main
from meantime.errors import TimeRangeError
from meantime.history.ingest import build
from meantime.model.attribute_paths import thread_path
from meantime.model.trace import Counters, Flows, Spans, StateChanges, Trace
from meantime.providers.tasks import lane_of
from meantime.query import scope
from meantime.query.findings import Finding
from meantime.query.findings.finding import KINDS, Kind
from meantime.query.findings.outliers import Usual
from meantime.query.findings.ranking import ranked
from meantime.testing import history_from_samples, history_from_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.history import History

    Numbers = npt.NDArray[Any]

MS = 10**6
S = 10**9
Random = np.random.Generator

STEADY: dict[str, Callable[[Random, int], Numbers]] = {
    "periodic": lambda _, count: np.ones(count),
    "poisson": lambda random, count: random.exponential(1, count),
    "jittered": lambda random, count: random.uniform(0.7, 1.3, count),
    "log-normal": lambda random, count: random.lognormal(0, 0.7, count),
}


def spans_of(threads: Sequence[tuple[Numbers, Numbers, Numbers]], names: list[str]) -> History:
    """Return the history of threads, each with the starts, durations and names of its spans."""
    start_ns, duration_ns, name = (
        np.concatenate(column).astype(np.int64) for column in zip(*threads, strict=True)
    )
    thread = np.repeat(np.arange(len(threads)), [len(each[0]) for each in threads])
    batch = Spans(
        start_ns=start_ns,
        end_ns=start_ns + duration_ns,
        thread=thread.astype(np.int32),
        name=name.astype(np.int32),
        category=np.full(len(name), -1, np.int32),
        level=np.zeros(len(name), np.int32),
        flags=np.zeros(len(name), np.uint8),
    )
    trace = Trace("spans", "arrays", iter([batch]))
    trace.paths.extend(thread_path(number, 1) for number in range(len(threads)))
    trace.values = names
    return build(trace)


def steady_spans(random: Random, kind: str) -> tuple[History, int | None]:
    names = int(random.integers(1, 12))
    mean = 10 ** random.uniform(4, 6, names)
    threads = []
    for _ in range(random.integers(1, 6)):
        count = int(random.integers(30, 1500))
        name = random.integers(0, names, count)
        duration = STEADY[kind](random, count) * mean[name]
        pause = STEADY[kind](random, count) * mean.mean()
        start = np.cumsum(duration + pause) - duration
        # each call makes another one
        starts = np.concatenate([start, start + 0.1 * duration])
        inner = 0.4 * duration * random.uniform(0.5, 1, count)
        durations = np.concatenate([duration, inner])
        threads.append((starts, durations, np.concatenate([name, name + names])))
    return spans_of(threads, [f"f{number}" for number in range(2 * names)]), None


def steady_states(random: Random, kind: str) -> tuple[History, int | None]:
    builder = HistoryBuilder()
    states = ["running", "waiting", "disk wait", "blocked"][: random.integers(2, 5)]
    mean = 10 ** random.uniform(4, 6.5, len(states))
    changes: list[tuple[int, int, int]] = []
    ends = []
    for number in range(random.integers(1, 16)):
        quark = builder.quark(f"disk{number}")
        count = int(random.integers(30, 500))
        state = np.arange(count) % len(states)
        lengths = (STEADY[kind](random, count) * mean[state]).astype(np.int64) + 1
        times = np.cumsum(lengths) - lengths
        changes += zip(times.tolist(), [quark] * count, state.tolist(), strict=True)
        ends.append(int(times[-1]))
    changes.sort()
    times_ns, quarks, codes = map(list, zip(*changes, strict=True))
    builder.modify_many(times_ns, quarks, [states[code] for code in codes])
    # after this, the first of them has changed for the last time
    return builder.close(max(ends) + 1), min(ends)


def steady_samples(random: Random, kind: str) -> tuple[History, int | None]:
    mean = 10 ** random.uniform(6, 7.3)
    rows = []
    for number in range(random.integers(1, 6)):
        count = int(random.integers(100, 1000))
        times = np.cumsum(STEADY[kind](random, count) * mean).astype(np.int64)
        functions = random.integers(0, 9, count)
        rows += [
            (time, f"t{number}", ["main", f"f{function}"], 1)
            for time, function in zip(times.tolist(), functions.tolist(), strict=True)
        ]
    return history_from_samples(sorted(rows)), None


@pytest.mark.parametrize("kind", STEADY)
def test_nothing_stands_out_in_a_steady_trace(kind: str) -> None:
    found = {
        (make.__name__, seed): [each.sentence for each in meantime.findings(history, end=end_ns)]
        for seed in range(9)
        for make in (steady_spans, steady_states, steady_samples)
        for history, end_ns in [make(np.random.default_rng(seed), kind)]
    }

    assert len(found) == 27
    assert not {case: sentences for case, sentences in found.items() if sentences}


@pytest.mark.parametrize("kind", STEADY)
def test_the_limit_is_beyond_steady_durations_and_below_planted_ones(kind: str) -> None:
    random = np.random.default_rng(7)
    for count in (20, 100, 10_000):
        durations = (STEADY[kind](random, count) * 10**6).astype(np.int64)
        assert durations.max() < Usual.of(durations).limit_ns()

    steady = (STEADY[kind](random, 1000) * 10**6).astype(np.int64)
    # up to a tenth of them do not move the limit beyond themselves
    for planted in (1, 20, 90):
        mixed = np.concatenate([steady, np.full(planted, 10**9)])
        assert Usual.of(mixed).limit_ns() < 10**9


def test_every_kind_is_declared_and_documented(root: Path) -> None:
    document = (root / "docs/how-to/find-what-stands-out.md").read_text("utf-8")
    reference = (root / "docs/reference/json.md").read_text("utf-8")
    listed = re.search(r'\{"kind": ("block".*?"care"),', reference)
    assert listed is not None

    assert {*KINDS} == {*get_args(Kind)}
    assert {*KINDS} == {*re.findall(r"^\| `(\w+)` \|", document, re.MULTILINE)}
    assert {*KINDS} == {*re.findall(r'"(\w+)"', listed[1])}


def test_too_few_durations_have_no_limit() -> None:
    assert Usual.of(np.array([1] * 18 + [10**9])).limit_ns() == float("inf")
    assert Usual.of(np.array([1] * 19 + [10**9])).limit_ns() < 10**9


def calls(count: int, slow: dict[int, int]) -> list[tuple[str, int, int]]:
    """Return calls of `serve` once a millisecond, each with a `query`; some queries are slow."""
    rows = []
    now = 0
    for number in range(count):
        extra = slow.get(number, 0)
        rows.append(("serve", now, now + 400_000 + number % 7 * 1000 + extra))
        rows.append(("query", now + 50_000, now + 250_000 + number % 5 * 1000 + extra))
        now += MS + extra
    return rows


def test_a_slow_call_is_named_by_the_innermost_call_that_was_slow() -> None:
    history = history_from_spans({"main": calls(300, {40: 90 * MS, 200: 30 * MS})})

    (found,) = meantime.findings(history)

    assert found.kind == "slow"
    assert found.sentence == (
        "query took 90.2 ms; usually 202 us; twice of 300 much longer than usual"
    )
    # the lengths of the two queries, without what is usual
    assert found.lost_ns == 120 * MS + (40 % 5 + 200 % 5) * 1000 - 2 * 2000
    assert (found.start_ns, found.end_ns) == (40 * MS + 50_000, 130 * MS + 250_000)
    assert history.spans().name[found.spans[0]] == "query"
    assert found.rows == ("Processes/1/Threads/main",)
    assert found.command("x.json") == "meantime stats x.json --longest query"


def test_an_outer_call_is_slow_if_what_it_calls_is_not() -> None:
    rows = calls(300, {})
    rows = [
        (name, start, end + 80 * MS if (name, start) == ("serve", 299 * MS) else end)
        for name, start, end in rows
    ]

    (found,) = meantime.findings(history_from_spans({"main": rows}))

    assert found.sentence.startswith("serve took 80.4 ms; usually 403 us (300 calls)")


def test_a_call_that_waits_for_work_explains_the_calls_around_it() -> None:
    rows = [
        (name.replace("query", "epoll_wait"), start, end)
        for name, start, end in calls(300, {40: 90 * MS})
    ]

    assert meantime.findings(history_from_spans({"main": rows})) == []


def test_a_thread_whose_calls_are_always_longer_is_not_slow() -> None:
    small = [("load", 2 * MS * turn, 2 * MS * turn + MS + turn % 9) for turn in range(2000)]
    large = [("load", 40 * MS * turn, 40 * MS * turn + 20 * MS + turn % 9) for turn in range(60)]
    slow = ("load", 4 * S, 4 * S + 300 * MS)

    assert meantime.findings(history_from_spans({"a": small, "b": large})) == []
    (found,) = meantime.findings(history_from_spans({"a": [*small, slow], "b": large}))
    assert found.sentence.startswith("load took 300 ms on 1 / a; usually 1 ms")


def test_an_entity_whose_states_are_always_longer_does_not_wait_too_long() -> None:
    builder = HistoryBuilder()
    for number, length in enumerate([MS] * 20 + [20 * MS]):
        quark = builder.quark(f"disk{number}")
        for turn in range(2 * S // (2 * length)):
            builder.modify(2 * turn * length, quark, "queue wait")
            builder.modify((2 * turn + 1) * length, quark, "transfer")

    assert [each.kind for each in meantime.findings(builder.close(2 * S))] == []


def disks(busy: int = 0) -> tuple[HistoryBuilder, dict[str, int]]:
    """Return disks that alternate between a wait of 1 and work of 3 ms for two seconds.

    Args:
        busy: The number of disks that do so the other way round.
    """
    builder = HistoryBuilder()
    quarks = {f"disk{number}": builder.quark(f"disk{number}") for number in range(20)}
    for turn in range(500):
        for number, quark in enumerate(quarks.values()):
            wait_ns = 3 * MS if number < busy else MS
            builder.modify(turn * 4 * MS, quark, "queue wait")
            builder.modify(turn * 4 * MS + wait_ns, quark, "transfer")
    return builder, quarks


def test_a_state_that_lasts_too_long_is_found_with_few_and_with_many_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder, quarks = disks()
    builder.modify(2 * S, quarks["disk3"], "queue wait")
    builder.modify(2 * S + 400 * MS, quarks["disk3"], "transfer")
    history = builder.close(3 * S)
    found = meantime.findings(history, end=2_500 * MS)
    monkeypatch.setattr(scope, "_MOST_INTERVALS", 100)
    found_in_many = meantime.findings(history, end=2_500 * MS)

    waits = [each for each in found if each.rows[:1] == ("disk3",)]
    assert waits[0].kind == "wait"
    assert waits[0].ranges[0] == (2 * S, 2 * S + 400 * MS)
    assert "disk3 was in state 'queue wait' for 400 ms; usually 1 ms" in waits[0].sentence
    in_many = [each for each in found_in_many if each.rows[:1] == ("disk3",)]
    assert in_many[0].ranges[0] == waits[0].ranges[0]


def test_an_entity_unlike_the_others_is_found_and_a_second_group_is_not() -> None:
    for busy, expected in ((0, 0), (1, 1), (8, 0)):
        builder, _ = disks(busy)

        found = meantime.findings(builder.close(2 * S))

        assert [each.kind for each in found] == ["unlike"] * expected
        if expected:
            assert found[0].rows == ("disk0",)
            assert "disk0 was in state" in found[0].sentence
            assert "the other 19 about 25%" in found[0].sentence


def test_a_stop_of_everything_is_found() -> None:
    rows = [
        (10 * MS * turn + number, f"t{number}", ["main", "work"], 1)
        for turn in range(2000)
        for number in range(3)
        if not 800 <= turn < 860
    ]

    found = meantime.findings(history_from_samples(rows))

    assert [each.kind for each in found] == ["stop"]
    assert abs(found[0].lost_ns - 600 * MS) < 20 * MS
    assert abs(found[0].start_ns - 8 * S) < 10 * MS


def test_periodic_work_is_found_among_other_work() -> None:
    rows = [
        (10 * MS * turn + number, name, ["main", name], 1)
        for turn in range(6000)
        for number, name in enumerate(["steady", "tick"])
        if name == "steady" or turn % 100 < 8
    ]

    found = meantime.findings(history_from_samples(rows))

    assert [each.kind for each in found] == ["repeat"]
    assert "/tick runs every 1s, for up to " in found[0].sentence


def test_a_finding_that_a_more_specific_one_explains_is_left_out() -> None:
    block = Finding("block", "a", 90, ((10, 100),), 1)
    slow = Finding("slow", "b", 95, ((5, 105),), 1)
    apart = Finding("slow", "c", 95, ((200, 295),), 1)
    care = Finding("care", "d", 0, ((0, 300),), 1)

    assert ranked([care, slow, apart, block]) == [apart, block, care]


def test_a_queue_that_lasts_ranks_below_an_event_of_a_fiftieth_of_its_time() -> None:
    queue = Finding("contention", "a", 1000, ((0, 1000),), 1)
    event, small = (Finding("stop", "b", ns, ((2000, 2000 + ns),), 1) for ns in (30, 10))

    assert ranked([small, queue, event]) == [event, queue, small]


def test_the_range_and_the_limit_select() -> None:
    history = history_from_spans({"main": calls(300, {40: 90 * MS})})

    assert meantime.findings(history, limit=0) == []
    assert meantime.findings(history, start="200ms") == []
    assert len(meantime.findings(history, end="200ms")) == 1
    assert meantime.findings(history, start="1h") == []
    with pytest.raises(TimeRangeError):
        meantime.findings(history, start="2h", end="1h")


def test_a_history_of_absurd_length_is_searched_without_an_overflow() -> None:
    rows = [("a", start, start + 5) for start in range(-(2**61), 2**61, 2**53)]
    history = history_from_spans({"main": [*rows, ("b", 0, 2**61), ("a", 2**61, 2**61 + 2**60)]})

    assert meantime.findings(history) == []


def test_a_history_without_anything_has_no_findings() -> None:
    assert meantime.findings(HistoryBuilder().close(0)) == []


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    events = [
        {
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "name": name,
            "ts": start / 1000,
            "dur": (end - start) / 1000,
        }
        for name, start, end in calls(300, {40: 90 * MS, 200: 30 * MS})
    ]
    path = tmp_path / "calls.json"
    path.write_text(json.dumps({"traceEvents": [*events, {"ph": "?"}]}))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    captured = capsys.readouterr()
    assert not stopped.value.code, captured.err
    return captured.out


def test_a_program_that_nearly_always_runs_and_stops_every_8_s_stops_every_8_s() -> None:
    at_ms = [at for at in range(0, 120_000, 10) if (at + 3000) % 8000 >= 500]
    spans = [("work", at, at + 10) for at in at_ms]
    by_spans = history_from_spans({"main": [(n, a * 10**6, b * 10**6) for n, a, b in spans]})

    found = [each for each in meantime.findings(by_spans) if each.kind == "repeat"]

    assert [each.sentence for each in found] == [
        "everything stops every 8s, for up to 492 ms; 6% of the time"
    ]


def test_the_command_prints_what_the_library_finds(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    expected = meantime.findings(meantime.open(trace))

    document = json.loads(run(capsys, "findings", str(trace), "--json"))

    assert document["total"] == len(document["findings"]) == len(expected) == 2
    first, last = document["findings"]
    assert {name: first[name] for name in expected[0].as_json()} == expected[0].as_json()
    assert (first["kind"], last["kind"]) == ("slow", "care")
    # the handle and the command are accepted by the commands
    (row,) = run(capsys, "query", str(trace), first["handle"], "--json").splitlines()
    assert json.loads(row)["start_ns"] == first["start_ns"]
    assert first["command"] == f"meantime stats {trace} --longest query"
    assert "90.2" in run(capsys, *first["command"].split()[1:])

    table = run(capsys, "findings", str(trace), "-n", "1")
    assert expected[0].sentence in table
    assert "1 more: --limit 0" in table
    assert "unknown_phase" not in table
    part = run(capsys, "findings", str(trace), "--from", "200ms", "--to", "205ms")
    assert part.startswith("Of 2.01 ms in spans of 1 thread, most is the own time of query 50 %")
    assert "nothing stands out" in part


def test_the_findings_of_several_files_are_those_of_the_history_that_joins_them(
    capsys: pytest.CaptureFixture[str],
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    other = trace.with_name("other.json")
    other.write_bytes(trace.read_bytes())

    table = run(capsys, "findings", str(trace), str(other))

    joining, *shown = [line for line in table.splitlines() if line.startswith("  meantime ")]
    for command in (joining, shown[0]):
        run(capsys, *command.split()[1:])
    joined = json.loads(run(capsys, "findings", "joined.mtj", "--json"))
    at_once = json.loads(run(capsys, "findings", str(trace), str(other), "--json"))
    assert joined == at_once
    assert joined["total"] > 2


def test_the_summary_has_the_first_findings(
    capsys: pytest.CaptureFixture[str], trace: Path
) -> None:
    lines = run(capsys, "info", str(trace)).splitlines()
    (first,) = (row for row, line in enumerate(lines) if line.startswith("findings"))

    assert "  Of 241 ms in spans of 1 thread, most is the own time of query" in lines[first]
    assert "  query took 90.2 ms; usually 202 us" in lines[first + 1]


def test_tasks_whose_paths_name_no_kind_are_compared_with_none(root: Path) -> None:
    history = meantime.open(root / "tests" / "samples" / "statemap" / "tokio-tasks.statemap")

    assert meantime.findings(history) == []


def test_steady_behaviour_is_reported_as_such(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "calm.json"
    path.write_text(json.dumps([{"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 0, "dur": 1}]))

    assert run(capsys, "findings", str(path)) == (
        "Nothing limited it: 100 % of the time was work (a).\n\nnothing stands out\n"
    )
    assert json.loads(run(capsys, "findings", str(path), "--json"))["findings"] == []


def _recorded(*rows: tuple[int, int, int, int], length_ms: int = 1000) -> History:
    """Return a recording of a loop, two tasks, two threads, and two callbacks.

    Each row is a time in ms, an entity, a state and a tag.
    """
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Loops", "MainThread 7"), ("Tasks", "outer", "1"), ("Tasks", "inner", "2")]
    trace.paths += [("Threads", "MainThread 7"), ("Threads", "hog 8")]
    trace.paths += [("Callbacks", "slow", "1"), ("Callbacks", "other", "2")]
    trace.values += ["running", "parked", "waiting:sleep", "cpu-wait", "gil-wait", "sleeping"]
    trace.values += ["gil-handoff", "lock-wait"]
    trace.tags += [
        {"function": "slow", "stack": "slow (a.py:3)"},
        {"function": "outer", "location": "a.py:9"},
        {"function": "slow", "stack": "slow (a.py:4), loads (decoder.py:1)"},
        {"function": "other", "stack": "other (a.py:7)"},
        {"function": "select", "stack": "select (selectors.py:1)", "holder": "hold (a.py:5)"},
        {
            "function": "slow",
            "stack": "slow (a.py:3), dumps (encoder.py:7)",
            "caller": "one (a.py:1)",
        },
        {"function": "slow", "stack": "slow (a.py:3)", "caller": "two (a.py:2)"},
        {"function": "<module>", "stack": "<module> (a.py:1)"},
    ]
    trace.lanes += [lane_of(kind) for kind in ("Loops", "Tasks", "Threads", "Callbacks")]
    time_ns, *columns = np.array(rows, np.int64).T
    entity, state, tag = (column.astype(np.int32) for column in columns)
    trace.batches = iter([StateChanges(time_ns * MS, entity, state, tag)])
    trace.bounds = (0, length_ms * MS)
    return meantime.build(trace)


def test_a_block_in_the_first_step_of_an_eager_task_is_that_of_the_task() -> None:
    history = _recorded(
        *((0, 0, 0, -1), (70, 0, 1, -1), (900, 0, -1, -1)),
        *((1, 1, 0, -1), (62, 1, -1, -1)),
        *((2, 2, 0, -1), (62, 2, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.ranges == ((2 * MS, 62 * MS),)
    assert block.sentence.startswith("inner ")


@pytest.mark.parametrize(
    # the third has no stack, which the recorder would have taken had it taken long by itself
    ("own_ms", "tag", "found"),
    [(60, 0, ["slow (a.py:3)"]), (20, 0, []), (60, -1, [])],
)
def test_a_block_on_a_busy_machine_counts_if_its_own_time_is_long(
    own_ms: int, tag: int, found: list[str]
) -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, tag), (100 + own_ms, 0, 3, tag), (400, 0, 1, -1)),
        *((900, 0, -1, -1), (0, 1, 2, 1), (100, 1, 0, -1), (400, 1, 2, 1), (900, 1, -1, -1)),
    )

    blocks = [each.sentence for each in meantime.findings(history) if each.kind == "block"]
    assert [sentence.partition(" blocked ")[0] for sentence in blocks] == found


def _waits_of_a_pool(name: str, queued: int, running: int = 2) -> list[str]:
    """Return the findings on a pool whose counter of queued items has a value for 100 ms."""
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Workers", "other_0 8")]
    trace.paths += [("Processes", "7", "Counters", name, each) for each in ("queued", "running")]
    trace.values += ["running"]
    trace.lanes += [lane_of("Workers")]
    ends_ns, none = np.array([0, 900], np.int64) * MS, np.full(2, -1, np.int32)
    states = StateChanges(ends_ns, np.zeros(2, np.int32), np.array([0, -1], np.int32), none)
    times_ns, counter = np.array([0, 0, 100, 500], np.int64) * MS, np.array([1, 2, 1, 2], np.int32)
    values = np.array([queued, running, 0, 0], np.int64)
    trace.batches = iter([states, Counters(times_ns, counter, values)])
    trace.bounds = (0, 900 * MS)
    found = meantime.findings(meantime.build(trace))
    return [each.sentence for each in found if each.kind == "contention"]


def test_items_of_a_pool_are_those_that_its_counters_can_have() -> None:
    (found,) = _waits_of_a_pool("pool (2 threads)", 3)
    assert found.startswith("work for the 2 threads of pool waited for a free one, 100 ms ")
    # a number that is too long for a count is a part of the name
    assert _waits_of_a_pool(f"pool ({'9' * 5000} threads)", 3) == []
    # one of the threads was free, or could have been started: it was the machine that took long
    assert _waits_of_a_pool("pool (2 threads)", 3, running=1) == []
    assert _waits_of_a_pool("pool (2 threads)", 2**62) == []
    assert _waits_of_a_pool("pool (2 threads)", -5) == []


def test_work_that_an_idle_thread_begins_late_did_not_wait_for_a_free_one() -> None:
    def found(busy_ms: int) -> list[str]:
        trace = Trace("run.mtr", "recording", iter(()))
        trace.paths += [("Workers", "pool_0 8"), ("Tasks", "ask", "1")]
        trace.values += ["running", "idle", "submit"]
        trace.lanes += [lane_of("Workers"), lane_of("Tasks")]
        # it has work until then, and begins with two more items at 100 and 200 ms
        times_ms = [0, busy_ms, 100, 150, 200, 250, 900]
        states = [0, 1, 0, 1, 0, 1, -1]
        worker, none = np.zeros(7, np.int32), np.full(7, -1, np.int32)
        changes = StateChanges(
            np.array(times_ms, np.int64) * MS, worker, np.array(states, np.int32), none
        )
        tasks, submitted = np.ones(2, np.int32), np.full(2, 2, np.int32)
        from_ns, to_ns = (np.array(each, np.int64) * MS for each in ([10, 10], [100, 200]))
        flows = Flows(tasks, from_ns, worker[:2], to_ns, submitted)
        trace.batches = iter([changes, flows])
        trace.bounds = (0, 900 * MS)
        findings = meantime.findings(meantime.build(trace))
        return [each.sentence for each in findings if each.kind == "contention"]

    (sentence,) = found(90)
    assert sentence.startswith("work for the 1 thread of pool waited for a free one")
    assert found(20) == []


def test_a_block_that_waits_for_the_gil_names_the_thread_that_had_it() -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, -1), (101, 0, 4, -1), (300, 0, 1, -1), (900, 0, -1, -1)),
        *((0, 1, 2, 1), (100, 1, 0, -1), (300, 1, 2, 1), (900, 1, -1, -1)),
        *((0, 3, 1, -1), (100, 3, 4, -1), (300, 3, 1, -1), (900, 3, -1, -1)),
        *((50, 4, 0, -1), (300, 4, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith("waiting for the GIL, which hog 8 had, blocked the event loop")


def test_a_block_that_waits_for_the_gil_names_the_code_that_had_it() -> None:
    # the second has no stack
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 4, 4), (300, 0, 1, -1), (400, 0, 4, -1), (460, 0, 1, -1)),
        *((900, 0, -1, -1), (0, 1, 2, 1), (300, 1, 0, -1), (301, 1, 2, 1), (460, 1, 0, -1)),
        *((461, 1, 2, 1), (900, 1, -1, -1), (0, 3, 1, -1), (100, 3, 4, -1), (300, 3, 1, -1)),
        *((400, 3, 4, -1), (460, 3, 1, -1), (900, 3, -1, -1), (50, 4, 0, -1), (900, 4, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith(
        "hold (a.py:5), which had the GIL in hog 8, blocked the event loop for up to 200 ms, twice"
    )


def test_blocks_between_the_same_waits_are_of_the_code_that_was_seen_in_one() -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, 0), (160, 0, 1, -1), (300, 0, 0, -1), (365, 0, 1, -1)),
        *((900, 0, -1, -1), (0, 1, 2, 1), (100, 1, 0, -1), (160, 1, 2, 1), (300, 1, 0, -1)),
        *((365, 1, 2, 1), (900, 1, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith("slow (a.py:3) blocked the event loop for up to 65 ms, twice")


def _busy_twice(first: tuple[int, int], second: tuple[int, int]) -> History:
    """Return a loop that is busy for 60 ms twice, each with these states and tags."""
    rows = [(0, 0, 1, -1), (900, 0, -1, -1), (0, 1, 2, 1), (900, 1, -1, -1)]
    for begin_ms, (state, tag) in ((100, first), (300, second)):
        rows += [(begin_ms, 0, state, tag), (begin_ms + 60, 0, 1, -1)]
        rows += [(begin_ms, 1, 0, -1), (begin_ms + 60, 1, 2, 1)]
    return _recorded(*sorted(rows, key=lambda row: row[0]))


def test_blocks_at_several_lines_of_a_function_that_computes_are_one() -> None:
    history = _busy_twice((0, 0), (0, 2))

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith(
        "slow (a.py:3, also line 4) blocked the event loop for up to 60 ms,"
    )
    assert (block.count, block.lost_ns) == (2, 120 * MS)


def test_lines_of_a_function_that_wait_are_apart() -> None:
    history = _busy_twice((5, 0), (5, 2))

    blocks = [each.sentence for each in meantime.findings(history) if each.kind == "block"]
    names = [sentence.partition(" blocked ")[0] for sentence in blocks]
    assert sorted(names) == ["slow (a.py:3)", "slow (a.py:4), in loads (decoder.py:1),"]


def test_a_block_is_named_by_its_stack_however_often_its_thread_waits() -> None:
    polls = [(ms, 0, 5 if ms % 2 else 0, 0) for ms in range(101, 200)]
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, 0), *polls, (200, 0, 1, -1), (900, 0, -1, -1)),
        *((0, 1, 2, 1), (100, 1, 0, -1), (200, 1, 2, 1), (900, 1, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith("slow (a.py:3) blocked the event loop for 100 ms")


def test_a_short_callback_without_a_name_says_how_to_get_it() -> None:
    rows = []
    for begin in range(0, 900, 20):
        end = begin + (15 if begin in {200, 400, 600, 800} else 0)
        rows += [(begin, 0, 0, -1), (end + 1, 0, 1, -1)]
        rows += [(end, 1, 0, 1), (end + 1, 1, 2, 1)]

    (block,) = [each for each in meantime.findings(_recorded(*rows)) if each.kind == "block"]
    assert block.sentence.startswith("a callback blocked the event loop for up to 15 ms, 4 times")
    assert block.sentence.endswith("; `meantime record --blocked 10ms` shows the line")


def test_callbacks_that_the_loop_runs_one_after_another_are_blocks_of_their_own() -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, 0), (160, 0, 0, 3), (230, 0, 1, -1), (900, 0, -1, -1)),
        *((0, 1, 2, 1), (230, 1, 0, 1), (231, 1, 2, 1), (900, 1, -1, -1)),
        *((100, 5, 0, -1), (160, 5, -1, -1), (160, 6, 0, -1), (230, 6, -1, -1)),
    )

    blocks = [each for each in meantime.findings(history) if each.kind == "block"]
    assert [each.sentence.partition(";")[0] for each in blocks] == [
        "other (a.py:7) blocked the event loop for 70 ms",
        "slow (a.py:3) blocked the event loop for 60 ms",
    ]


def test_workers_that_run_the_same_code_are_one_finding() -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [
        ("Loops", f"{pid} worker {n} of 2, MainThread {pid}") for n, pid in ((1, 7), (2, 8))
    ]
    trace.values += ["running", "parked"]
    trace.tags += [{"function": "slow", "stack": f"{name} (a.py:3)"} for name in ("slow", "other")]
    trace.lanes += [lane_of("Loops")]
    rows = [(0, 0, 1, -1), (0, 1, 1, -1), (100, 0, 0, 0), (160, 0, 1, -1), (300, 1, 0, 0)]
    rows += [(370, 1, 1, -1), (500, 1, 0, 1), (560, 1, 1, -1), (900, 0, -1, -1), (900, 1, -1, -1)]
    time_ns, *columns = np.array(rows, np.int64).T
    entity, state, tag = (column.astype(np.int32) for column in columns)
    trace.batches = iter([StateChanges(time_ns * MS, entity, state, tag)])
    trace.bounds = (0, S)

    first, second = meantime.findings(meantime.build(trace))
    assert (
        first.sentence
        == "slow (a.py:3) blocked 2 event loops for up to 70 ms, twice (130 ms in all)"
    )
    assert len(first.rows) == 2
    assert second.sentence.startswith(
        "other (a.py:3) blocked the event loop of worker 2 of 2 in process 8"
    )


@pytest.mark.parametrize("begin_ms", [0, 100])
def test_what_a_server_imports_before_it_serves_is_not_a_block(begin_ms: int) -> None:
    # the loop is parked before, if there is time for that
    rows = [(0, 0, 1, -1), (0, 1, 2, 1), (begin_ms, 0, 0, 7), (begin_ms, 1, 0, -1)]
    rows += [(400, 0, 1, -1), (400, 1, 2, 1), (900, 0, -1, -1), (900, 1, -1, -1)]
    history = _recorded(*(rows if begin_ms else rows[2:]))

    blocks = [each.sentence for each in meantime.findings(history) if each.kind == "block"]
    assert len(blocks) == (begin_ms > 0)


def test_a_task_is_not_slow_because_other_programs_had_the_processor() -> None:
    def found(state: int, length_ms: int) -> list[str]:
        tasks = [("Tasks", "work", f"{number}") for number in range(30)]
        trace = Trace("run.mtr", "recording", iter(()))
        trace.paths += [("Loops", "MainThread 7"), *tasks]
        trace.values += ["running", "parked", "waiting:sleep", "cpu-wait"]
        trace.lanes += [lane_of(kind) for kind in ("Loops", "Tasks")]
        rows = [(0, 0, 1), (500, 0, state), (500 + length_ms - 1, 0, 1), (1000, 0, -1)]
        for number in range(1, 31):
            begin, length = (500, length_ms) if number == 1 else (10 * number, 2)
            rows += [(begin, number, 2), (begin + length, number, -1)]
        time_ns, *columns = np.array(sorted(rows), np.int64).T
        entity, states = (column.astype(np.int32) for column in columns)
        none = np.full(len(entity), -1, np.int32)
        trace.batches = iter([StateChanges(time_ns * MS, entity, states, none)])
        trace.bounds = (0, S)
        history = meantime.build(trace)
        return [each.sentence for each in meantime.findings(history) if each.kind == "slow"]

    (sentence,) = found(1, 200)
    assert sentence.startswith(
        "a task of work took 200 ms, 200 ms of it waiting:sleep; usually 2 ms"
    )
    assert found(3, 200) == []
    # as long as a step of another task may take
    assert found(1, 11) == []


RUNNING, GIL_WAIT, HANDOFF, LOCK_WAIT, CPU_WAIT = 0, 4, 6, 7, 3


@pytest.mark.parametrize(
    ("waits", "other", "found"),
    [
        # it is the other thread that takes long, and it runs
        (GIL_WAIT, RUNNING, ["slow (a.py:3)"]),
        (LOCK_WAIT, RUNNING, ["slow (a.py:3)"]),
        # it has the GIL or the lock, and waits for a processor as this one would
        (GIL_WAIT, CPU_WAIT, []),
        (LOCK_WAIT, CPU_WAIT, []),
        # nobody has the GIL
        (GIL_WAIT, LOCK_WAIT, []),
        (HANDOFF, RUNNING, []),
    ],
)
def test_a_step_that_waits_for_a_thread_waits_for_a_processor_if_that_does(
    waits: int, other: int, found: list[str]
) -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, 0), (110, 0, waits, 0), (280, 0, 0, 0), (290, 0, 1, -1)),
        *((900, 0, -1, -1), (0, 1, 2, 1), (100, 1, 0, -1), (290, 1, 2, 1), (900, 1, -1, -1)),
        *((0, 3, 1, -1), (100, 3, 0, -1), (110, 3, waits, -1), (290, 3, 1, -1), (900, 3, -1, -1)),
        *((50, 4, 0, -1), (105, 4, other, -1), (285, 4, 0, -1), (900, 4, -1, -1)),
    )

    blocks = [each.sentence for each in meantime.findings(history) if each.kind == "block"]
    names = [sentence.partition(" blocked ")[0] for sentence in blocks]
    if waits == GIL_WAIT and found:
        found = ["waiting for the GIL, which hog 8 had,"]
    assert names == found


def test_a_block_names_what_called_the_function_directly() -> None:
    history = _busy_twice((5, 5), (5, 6))

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    # the longest comes first, and what one of them had called is that of the longest
    assert block.sentence.startswith(
        "slow (a.py:3), in dumps (encoder.py:7), called by one (a.py:1) and two (a.py:2), blocked"
    )


def test_what_one_line_had_called_is_not_said_of_another() -> None:
    history = _busy_twice((0, 5), (0, 2))

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith("slow (a.py:3, also line 4), called by one (a.py:1), blocked")


def test_a_block_of_which_the_stack_was_taken_counts_if_it_happened_once() -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, 0), (161, 0, 1, -1), (9000, 0, -1, -1)),
        *((0, 1, 2, 1), (100, 1, 0, -1), (161, 1, 2, 1), (9000, 1, -1, -1)),
        length_ms=9000,
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence == "slow (a.py:3) blocked the event loop for 61 ms"


def test_a_short_step_of_which_nothing_is_known_is_chance() -> None:
    rows = [(0, 0, 1, -1), (0, 1, 2, 1), (900, 0, -1, -1), (900, 1, -1, -1)]
    for begin_ms in range(10, 800, 20):
        end_ms = begin_ms + (18 if begin_ms == 410 else 1)
        rows += [(begin_ms, 0, 0, -1), (end_ms + (begin_ms == 410), 0, 1, -1)]
        rows += [(begin_ms, 1, 0, -1), (end_ms, 1, 2, 1)]
    rows += [(0, 2, 2, 1), (428, 2, 0, -1), (429, 2, 2, 1), (900, 2, -1, -1)]

    history = _recorded(*sorted(rows, key=lambda row: row[0]))
    assert [each for each in meantime.findings(history) if each.kind == "block"] == []


def test_a_block_has_its_code_if_that_was_seen_in_a_part_of_it() -> None:
    history = _recorded(
        *((0, 0, 1, -1), (100, 0, 0, -1), (140, 0, 5, -1), (180, 0, 0, 0)),
        *((200, 0, 1, -1), (900, 0, -1, -1)),
        *((0, 1, 2, 1), (100, 1, 0, -1), (200, 1, 2, 1), (900, 1, -1, -1)),
    )

    (block,) = [each for each in meantime.findings(history) if each.kind == "block"]
    assert block.sentence.startswith("slow (a.py:3) blocked the event loop for 100 ms")


@pytest.mark.parametrize("state", ["lock-wait", "io-wait", "child-wait", "gil-handoff"])
def test_a_thread_that_waits_longer_than_usual_may_have_nothing_to_do(state: str) -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Threads", "worker 8")]
    trace.values += ["running", state]
    trace.lanes += [lane_of("Threads")]
    times = [0]
    for turn in range(100):
        times += [times[-1] + 5 * MS, times[-1] + (400 * MS if turn == 50 else 6 * MS)]
    states = np.tile(np.array([0, 1], np.int32), 101)[: len(times)]
    none = np.full(len(times), -1, np.int32)
    changes = StateChanges(np.array(times, np.int64), np.zeros(len(times), np.int32), states, none)
    trace.batches = iter([changes])
    trace.bounds = (0, times[-1])
    assert meantime.findings(meantime.build(trace)) == []


@pytest.mark.parametrize(
    ("waits", "name"), [("waiting:sleep", "work (a.py:4)"), ("waiting:thread", "serve")]
)
def test_a_block_of_a_request_is_not_of_a_function_that_a_thread_runs(
    waits: str, name: str
) -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Loops", "MainThread 7"), ("Tasks", "serve", "1"), ("Tasks", "other", "2")]
    trace.paths += [("Requests", "GET /work", f"{number}") for number in range(8)]
    trace.values += ["running", "parked", waits]
    trace.tags += [{"status": 200, "function": "work", "location": "a.py:4"}]
    trace.lanes += [lane_of(kind) for kind in ("Loops", "Tasks", "Requests")]
    rows = [(0, 0, 1, -1), (0, 1, 2, -1), (0, 2, 2, -1)]
    for number in range(8):
        begin = 110 * number + 30
        rows += [(begin, 0, 0, -1), (begin + 61, 0, 1, -1)]
        rows += [(begin, 1, 0, -1), (begin + 60, 1, 2, -1)]
        # another task waits for its end
        rows += [(begin + 60, 2, 0, -1), (begin + 61, 2, 2, -1)]
        request = 3 + number
        rows += [(begin - 20, request, 2, 0), (begin, request, 0, 0), (begin + 60, request, -1, -1)]
    rows += [(1000, entity, -1, -1) for entity in range(3)]
    time_ns, *columns = np.array(sorted(rows, key=lambda row: row[0]), np.int64).T
    entity, state, tag = (column.astype(np.int32) for column in columns)
    trace.batches = iter([StateChanges(time_ns * MS, entity, state, tag)])
    trace.bounds = (0, S)

    (block,) = [each for each in meantime.findings(meantime.build(trace)) if each.kind == "block"]
    assert block.sentence.startswith(
        f"{name}, serving GET /work, blocked the event loop for up to 60 ms"
    )


@pytest.mark.parametrize(("hog", "found"), [(0, 1), (3, 0)])
def test_a_loop_that_often_waits_for_the_gil_is_found(hog: int, found: int) -> None:
    turns = [
        change
        for begin in range(0, 880, 20)
        for change in ((begin, 0, 4, -1), (begin + 5, 0, 0, -1), (begin + 6, 0, 1, -1))
    ]
    history = _recorded(*turns, (0, 4, hog, -1), (900, 0, -1, -1), (900, 4, -1, -1))

    sentences = [each.sentence for each in meantime.findings(history) if each.kind == "contention"]
    sentence = (
        "the event loop waited 220 ms for the GIL while other threads ran, and ran for 44 ms;"
        " the longest of 44 waits took 5 ms; hog 8 had it most"
    )
    assert sentences == [sentence] * found


def _waits_of_tasks(
    state: str, function: str, idle_s: int, *, others_wake: bool = False, end: str = "completed"
) -> list[str]:
    """Return what is said of four tasks that wait and hold in turn for 2 s, before an idle time.

    Each wakes the next, or another task wakes all of them.
    """
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Tasks", "ask (a.py:3)", f"{number}") for number in range(1, 5)]
    trace.paths += [("Tasks", "idle (a.py:9)", "5")]
    trace.values += ["running", state, "waiting:sleep", "wake", end]
    trace.tags += [{"function": "ask", "location": "a.py:2", "in": function}]
    trace.lanes += [lane_of("Tasks")]
    rows = [(0, 4, 2, -1), (2000 + idle_s * 1000, 4, -1, -1)]
    for begin in range(0, 2000, 40):
        for task in range(4):
            held = begin + 10 * task
            rows += [(held, task, 2, -1), (held + 10, task, 1, 0)]
    for task in range(4):
        rows += [(2050, task, 4, -1), (2060, task, -1, -1)]
    time_ns, *columns = np.array(sorted(rows, key=lambda row: row[0]), np.int64).T
    entity, value, tag = (column.astype(np.int32) for column in columns)
    woken = np.arange(1, 200, dtype=np.int32)
    by = np.full(199, 4, np.int32) if others_wake else (woken - 1) % 4
    at_ns = woken.astype(np.int64) * 10 * MS
    flows = Flows(by, at_ns, woken % 4, at_ns, np.full(199, 3, np.int32))
    trace.batches = iter([StateChanges(time_ns * MS, entity, value, tag), flows])
    trace.bounds = (0, (2 + idle_s) * S + S)
    found = meantime.findings(meantime.build(trace))
    return [each.sentence for each in found if each.kind == "contention"]


@pytest.mark.parametrize("idle_s", [0, 100, 3600])
@pytest.mark.parametrize(
    ("state", "function", "what"),
    [
        ("waiting:semaphore", "Semaphore.acquire", "a semaphore"),
        ("waiting:queue", "Queue.put", "room in a queue"),
        ("waiting:queue", "Queue.get", "an item of a queue that others bring back"),
    ],
)
def test_a_queue_is_found_however_long_the_program_was_idle(
    state: str, function: str, what: str, idle_s: int
) -> None:
    (sentence,) = _waits_of_tasks(state, function, idle_s)

    assert sentence.startswith(f"4 tasks waited for {what} at ask (a.py:2) 7")


def test_tasks_that_wait_for_something_to_do_are_no_queue() -> None:
    assert not _waits_of_tasks("waiting:queue", "Queue.get", 0, others_wake=True)
    assert not _waits_of_tasks("waiting:queue", "Queue.get", 0, end="cancelled")


@pytest.mark.parametrize(
    ("step_ns", "line", "found"), [(4000, 0, 1), (200_000, 0, 0), (4000, -1, 0)]
)
def test_a_task_that_only_looks_whether_it_can_go_on_is_found(
    step_ns: int, line: int, found: int
) -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Tasks", "wait (a.py:7)", "1")]
    trace.values += ["running", "runnable"]
    trace.tags += [{"function": "wait", "location": "a.py:4"}]
    trace.lanes += [lane_of("Tasks")]
    number = 5000
    steps_ns = np.arange(number, dtype=np.int64) * (step_ns + 1000)
    time_ns = np.stack([steps_ns, steps_ns + step_ns], axis=1).ravel()
    state = np.tile(np.array([0, 1], np.int32), number)
    tag = np.where(state == 1, np.int32(line), np.int32(-1)).astype(np.int32)
    changes = StateChanges(time_ns, np.zeros(2 * number, np.int32), state, tag)
    trace.batches = iter([changes])
    trace.bounds = (0, int(time_ns[-1]) + 1000)

    sentences = [each.sentence for each in meantime.findings(meantime.build(trace))]
    sentence = (
        "a task of wait (a.py:7) looked 5,000 times at wait (a.py:4) whether it could go on, and"
        " kept the event loop busy for 25 ms"
    )
    assert sentences == [sentence] * found


@pytest.mark.parametrize(("other", "found"), [("running", 1), ("cpu-wait", 0)])
def test_a_thread_waits_for_the_gil_of_one_that_runs(other: str, found: int) -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.paths += [("Threads", "7 worker 8"), ("Threads", "7 hog 9")]
    trace.values += ["running", "gil-wait", other]
    trace.lanes += [lane_of("Threads")]
    rows = [(0, 1, 0), (900, 0, -1), (900, 1, -1)]
    for begin in range(0, 600, 20):
        rows += [(begin, 0, 1), (begin + (15 if begin == 300 else 1), 0, 0)]
    rows += [(298, 1, 2), (319, 1, 0)]
    time_ns, *columns = np.array(sorted(rows, key=lambda row: row[0]), np.int64).T
    entity, state = (column.astype(np.int32) for column in columns)
    trace.batches = iter(
        [StateChanges(time_ns * MS, entity, state, np.full(len(state), -1, np.int32))]
    )
    trace.bounds = (0, S)

    sentences = [each.sentence for each in meantime.findings(meantime.build(trace))]
    assert len(sentences) == found
    assert all(
        each.startswith("worker 8 in process 7 was in state 'gil-wait' for 15 ms")
        for each in sentences
    )
