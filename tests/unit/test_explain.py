"""What limited a trace of states: sentences, budgets, resources, roles and rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import meantime
from meantime import HistoryBuilder
from meantime.cli import cli
from meantime.errors import InputError, MeantimeError
from meantime.query.explain import explain
from meantime.query.explain.budget import Budget, percentages
from meantime.query.explain.lanes import Meaning, TimeClass
from meantime.query.explain.roles import Roles, read_roles

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.query.explain import Conclusion, Explanation


def _measure(found: Explanation, name: str) -> Conclusion:
    (measure,) = [each for each in found.measures if each.id == name]
    return measure


def _states(changes: dict[str, list[tuple[int, str | None]]], end_ns: int) -> History:
    builder = HistoryBuilder()
    for name, states in changes.items():
        for time_ns, state in states:
            builder.modify(time_ns, builder.quark(name), state)
    return builder.close(end_ns)


@pytest.fixture(scope="module")
def scheduled(root: Path) -> History:
    return meantime.open(root / "examples" / "sched.perf.gz")


def test_a_machine_that_is_full_is_the_first_sentence(scheduled: History) -> None:
    found = explain(scheduled)

    assert found.family == "scheduler"
    assert found.sentences[0] == (
        "The 2 CPUs were busy all 400 ms, most with python (35 %), postgres (14 %) and statemap-bin"
        " (11 %): on average 10.7 of 57 threads were ready and waited, one of them for 51.1 ms."
    )
    full = _measure(found, "cpu.full")
    assert full.share == pytest.approx(1, abs=0.01)
    assert full.parts["ready_ns"] == pytest.approx(4.27e9, rel=0.02)
    assert full.parts["ready_mean"] == pytest.approx(10.7, rel=0.01)
    (cpu,) = found.resources
    assert (cpu.capacity, cpu.is_declared, cpu.verdict) == (2, True, "full")
    # what a full machine explains is not said again
    assert not _measure(found, "cpu.latency").is_notable


def test_who_waited_longest_for_a_cpu_and_who_used_them(scheduled: History) -> None:
    found = explain(scheduled)

    longest = _measure(found, "cpu.latency").parts["longest"]
    assert longest["name"] == "Thread<01> (8927)"
    assert longest["ns"] == pytest.approx(51.15e6, rel=0.01)
    until_ns = longest["start_ns"] + longest["ns"] - scheduled.bounds[0]
    assert until_ns == pytest.approx(115e6, rel=0.01)
    users = {each["name"]: each["ns"] for each in _measure(found, "cpu.users").parts["by"]}
    assert users["python"] == pytest.approx(276.2e6, rel=0.01)
    assert users["postgres"] == pytest.approx(110.6e6, rel=0.01)
    assert users["statemap-bin"] == pytest.approx(88.6e6, rel=0.01)


def test_the_path_of_a_thread_adds_up_to_its_range(scheduled: History) -> None:
    found = explain(scheduled, "5951")

    by_class = {row.kind: row.total_ns for row in found.budget.rows}
    assert by_class[TimeClass.WORK] == pytest.approx(130.1e6, rel=0.005)
    assert by_class[TimeClass.READY] == pytest.approx(269.9e6, rel=0.005)
    assert found.budget.total_ns == found.range_ns[1] - found.range_ns[0]
    assert found.path is not None
    assert (found.path.end_ns - found.path.start_ns).sum() == found.budget.total_ns
    assert found.sentences[0] == "For 270 ms (67 %) python (5951) was ready and waited for a CPU."


def test_a_short_cpu_is_not_taken_for_a_slow_disk(root: Path) -> None:
    found = explain(meantime.open(root / "examples" / "postgres.statemap.gz"))

    assert found.sentences[0] == (
        "Threads were ready for 1.93 s and ran for 1.15 s: the CPU was short, and at least one of"
        " them waited for it 86 % of the time; most ran 19148 (18 %), 19149 (17 %) and 19151"
        " (16 %)."
    )
    assert not _measure(found, "disk.waits").is_notable
    assert _measure(found, "disk.waits").value_ns == pytest.approx(0.208e9, rel=0.005)
    assert _measure(found, "disk.waits").parts["median_ns"] == pytest.approx(40e3, rel=0.05)
    assert _measure(found, "disk.waits").parts["somebody_waits"] == pytest.approx(0.19, abs=0.005)


def test_sessions_that_wait_for_locks_are_counted(root: Path) -> None:
    found = explain(meantime.open(root / "examples" / "lock.statemap.gz"))

    locks = _measure(found, "lock.waits")
    assert locks.is_notable
    assert locks.value_ns == pytest.approx(2.059e9, rel=0.01)
    assert locks.parts["entities"] == 4
    assert locks.parts["longest"]["ns"] == pytest.approx(260e6, rel=0.01)
    assert found.sentences[0].startswith("4 processes waited for locks for 2.06 s, 33 %")


def test_where_nothing_is_full_that_is_the_sentence() -> None:
    changes: list[tuple[int, str | None]] = [(0, "running"), (20, "idle")]
    found = explain(_states({"worker": changes}, 100))

    assert found.sentences == ("Nothing limited it: 80 % of the time was idle.",)
    assert found.conclusions == ()


def test_the_budget_has_a_row_for_what_is_not_known() -> None:
    changes: list[tuple[int, str | None]] = [(0, "running"), (20, "unknown"), (90, "running")]
    found = explain(_states({"worker": changes}, 100))

    assert [(row.kind, row.total_ns) for row in found.budget.rows] == [
        (TimeClass.UNKNOWN, 70),
        (TimeClass.WORK, 30),
    ]
    assert found.sentences == ("For 70 % of the time it was not recorded what entities did.",)


def test_the_budgets_of_two_halves_add_up(root: Path) -> None:
    history = meantime.open(root / "examples" / "postgres.statemap.gz")
    begin, end = history.bounds
    middle = (begin + end) // 2

    whole, *halves = (
        {row[:2]: row.total_ns for row in explain(history, start=first, end=last).budget.rows}
        for first, last in [(begin, end), (begin, middle), (middle, end)]
    )

    assert whole == {
        key: sum(half.get(key, 0) for half in halves) for key in {*halves[0], *halves[1]}
    }


def test_printed_shares_add_up_to_100() -> None:
    assert percentages([1, 1, 1]) == [33.4, 33.3, 33.3]
    assert sum(percentages([3, 5, 7, 11, 13, 17])) == pytest.approx(100)
    assert percentages([]) == []


def test_small_rows_are_one_but_not_the_unknown() -> None:
    rows = [(TimeClass.WORK, name, 3) for name in "abc"]
    budget = Budget.of_rows([*rows, (TimeClass.UNKNOWN, "", 1), (TimeClass.IDLE, "idle", 990)])

    assert [(row.label, row.total_ns) for row in budget.shown()] == [
        ("idle", 990),
        ("", 1),
        ("other", 9),
    ]


def test_roles_say_what_names_do_not(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(
        """
        [states]
        rendering = "work"
        "/^hold/" = "ready:slot"
        rpc = "wait:network"
        [resources.slot]
        lanes = "Slots/*"
        capacity = 2
        """,
        encoding="utf-8",
    )
    builder = HistoryBuilder()
    for time_ns, names, state in [
        (0, ("job 1",), "rendering"),
        (0, ("Slots", "1"), "job 1"),
        (0, ("job 2",), "holding"),
        (60, ("job 2",), "rpc"),
    ]:
        builder.modify(time_ns, builder.quark(*names), state)

    found = explain(builder.close(100), roles=read_roles(path))

    assert {row[:3] for row in found.budget.rows} == {
        (TimeClass.WORK, "rendering", 100),
        (TimeClass.READY, "slot", 60),
        (TimeClass.WAIT, "network", 40),
    }
    (slot,) = found.resources
    assert (slot.name, slot.capacity, slot.utilisation, slot.queue_mean) == ("slot", 2, 0.5, 0.6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("states = 1", "states is 1; write [states]"),
        ("[state]\na = 'work'", "the file has the key 'state'"),
        ("[states]\na = 'wrok'", "states.a is 'wrok'; write work, ready:RESOURCE, wait:WHAT"),
        ("[states]\n'/(/' = 'work'", "/(/ is not a regular expression"),
        ("[resources.gpu]\ncapacity = 0", "resources.gpu.lanes is None"),
        ("[resources.gpu]\nlanes = '*'\ncapacity = 0", "resources.gpu.capacity is 0"),
        ("[dependencies]\nflows = 'wakes'", "dependencies.flows is 'wakes'"),
        ("[states", "Expected ']' at the end of a table declaration"),
    ],
)
def test_a_file_of_roles_that_is_wrong_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError) as refused:
        read_roles(path)

    assert problem in str(refused.value)


def test_names_of_states_say_what_they_mean() -> None:
    meaning = Roles({}).meaning

    assert meaning("disk wait") == Meaning(TimeClass.WAIT, "disk")
    assert meaning("futex") == Meaning(TimeClass.WAIT, "lock")
    assert meaning("waiting:network") == Meaning(TimeClass.WAIT, "I/O")
    assert meaning("gil-wait") == Meaning(TimeClass.WAIT, "lock")
    assert meaning("preempted") == Meaning(TimeClass.READY, "CPU")
    assert meaning("waiting for a slot") == Meaning(TimeClass.WAIT, "a slot")
    assert meaning("main") == Meaning(TimeClass.WORK, "main")


def test_an_entity_that_is_not_there_is_an_error_with_those_that_are() -> None:
    history = _states({"first": [(0, "running")], "second": [(0, "idle")]}, 10)

    with pytest.raises(MeantimeError, match="no entity is called 'third'; there are first and"):
        explain(history, "third")


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["explain", *arguments], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, MeantimeError), result.exception
    return result.return_value, result.output


def test_the_command_prints_sentences_budget_and_resources(root: Path) -> None:
    _, output = _run(str(root / "examples" / "sched.perf.gz"))

    assert output.startswith("The 2 CPUs were busy all 400 ms")
    assert "The time of 57 threads" in output
    assert "ready    CPU" in output
    assert "--by state" in output


def test_json_has_all_that_was_measured(root: Path) -> None:
    _, output = _run(str(root / "examples" / "sched.perf.gz"), "5951", "--json")

    document = json.loads(output)
    assert document["version"] == 1
    assert sum(row["total"] for row in document["budget"]) == document["budget_total"]
    assert document["measures"]["path.ready.cpu"]["share"] == pytest.approx(0.675, abs=0.001)
    assert document["path"][0].keys() == {"start_ns", "end_ns", "lane", "class", "label", "depth"}


def test_a_rule_that_holds_is_status_3(root: Path) -> None:
    file = str(root / "examples" / "sched.perf.gz")

    status, output = _run(file, "--fail-if", "cpu.full > 0.9")
    assert (status, "cpu.full > 0.9: it is" in output) == (3, True)
    status, _ = _run(file, "--fail-if", "cpu.full > 450ms", "--fail-if", "lock.waits > 0.1")
    assert status == 0


def test_a_trace_without_durations_is_no_error(root: Path) -> None:
    found = explain(meantime.open(root / "examples" / "files.jsonl"))

    assert found.sentences == ("The trace has no time whose use is known.",)
    assert found.missing == ("how long anything took: nothing in this range has a duration.",)


def test_an_activity_that_has_no_path_is_an_error(root: Path) -> None:
    with pytest.raises(MeantimeError, match="'Frontend' cannot be explained by itself"):
        explain(meantime.open(root / "examples" / "compile.json.gz"), "Frontend")


def test_where_only_cpus_have_states_no_entity_has_a_name(root: Path) -> None:
    history = meantime.open(root / "tests" / "samples" / "statemap" / "tst.tag_basic.in")

    with pytest.raises(MeantimeError, match="no entity is called 'x'; there are none"):
        explain(history, "x")


def test_a_trace_in_which_no_time_passes_is_no_error() -> None:
    builder = HistoryBuilder()
    builder.add_points([builder.quark("Threads", "1")], ["a log line"], [0])
    found = explain(builder.close(0))
    assert (found.budget.rows, found.measures) == ((), ())


def test_no_share_of_calls_is_above_all_of_the_time(tmp_path: Path) -> None:
    # three threads that read at the same time
    lines = [f"{thread} 1700000000.000000 read(3, '', 8) = 8 <1.000000>" for thread in (7, 8, 9)]
    path = tmp_path / "calls.strace"
    path.write_text("\n".join([*lines, "7 1700000002.100000 exit_group(0) = ?"]) + "\n")
    found = explain(meantime.open(path))
    (work,) = (each for each in found.measures if each.id == "calls.work")
    assert work.value_ns == 3 * 10**9
    start_ns, end_ns = found.range_ns
    assert work.share == 10**9 / (end_ns - start_ns)
