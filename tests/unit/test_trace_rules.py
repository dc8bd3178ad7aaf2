"""`meantime assert` and `meantime.check_rules`: rules that a trace has to keep."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.query.parts import part_of
from meantime.query.rules import parse_rule, read_rules
from meantime.query.rules.changes import check_change
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History
    from meantime.query.rules import Verdict

STATES = history_from_picture(
    """
    w1  aabbbbba..
    w2  abbaaaaaaa
    x   cccccccccc
    """
)
SPANS = history_from_spans(
    {"main": [("request", 0, 10), ("query", 2, 5), ("response", 9, 10), ("request", 20, 60)]}
)


def verdict(history: History, rule: str) -> Verdict:
    (found,) = meantime.check_rules(history, [rule])
    return found


@pytest.mark.parametrize(
    ("history", "rule", "holds", "measured"),
    [
        (STATES, 'no w* in "b" for over 5 ns', True, "the longest is 5ns"),
        (STATES, 'no w* in "b" for over 4 ns', False, "the longest is 5ns"),
        (STATES, 'no w* in "b"', False, "the longest is 5ns"),
        (STATES, 'no w* in "z"', True, "there is none"),
        (STATES, 'no "w*" in "b" for  over 5ns', True, "the longest is 5ns"),
        (STATES, 'longest of "b" below 6 ns', True, "it is 5ns"),
        (STATES, 'longest of "b" below 5 ns', False, "it is 5ns"),
        (STATES, 'longest of "b" on w2 below 3 ns', True, "it is 2ns"),
        (STATES, 'total of "b" above 6 ns', True, "it is 7ns"),
        (STATES, 'count of "b" below 3', True, "it is 2"),
        (STATES, 'rate of "b" below 3', False, "it is 2e+08"),
        (STATES, 'share of w* in "b" below 38 %', False, "it is 39 %"),
        (STATES, 'share of w* in "b" below 40 %', True, "it is 39 %"),
        (STATES, 'share of w* in "b" above 38.5%', True, "it is 39 %"),
        (STATES, 'at most 2 of w* in "a" at once', True, "at most 2 at once"),
        (STATES, 'at most 1 of w* in "a" at once', False, "at most 2 at once"),
        (STATES, 'at most 1 of * in "c" at once', True, "at most 1 at once"),
        (STATES, 'never "b" after "a" on w*', False, "`b` after `a`: 2"),
        (STATES, 'never "b" after "c" on *', True, "`b` after `c`: 0"),
        (STATES, 'within 2 ns of "a" "b" on w*', False, "the longest is 2ns"),
        (SPANS, 'p99 of "request" below 41 ns', True, "it is 40ns"),
        (SPANS, 'mean of "request" below 25 ns', False, "it is 25ns"),
        (SPANS, 'self of "request" below 47 ns', True, "it is 46ns"),
        (SPANS, 'within 9 ns of "request" "response"', False, "the longest is 9ns"),
        (SPANS, 'within 9 ns of "query" "response"', True, "the longest is 7ns"),
    ],
)
def test_rules_hold_or_do_not(history: History, rule: str, holds: bool, measured: str) -> None:  # noqa: FBT001 - a parameter of the test
    found = verdict(history, rule)

    assert (found.holds, found.measured) == (holds, measured)
    assert bool(found.breaches) != holds


def test_lanes_are_found_by_parts_of_names() -> None:
    history = history_from_picture("Threads/7  ab\nThreads/8  aa")
    history.names[history.quark("Threads", "7")] = "db-1"

    assert not verdict(history, 'no Threads/db-* in "b"').holds
    assert verdict(history, 'no Threads/8* in "b"').holds
    with pytest.raises(meantime.MeantimeError, match="no lane is 'Threads/web-\\*'"):
        verdict(history, 'no Threads/web-* in "b"')


def test_what_may_come_after_the_end_of_the_trace_is_not_late() -> None:
    found = verdict(SPANS, 'within 50 ns of "request" "response"')

    assert found.holds
    assert found.measured == "the longest is 9ns; 1 were open when the trace ended"


def test_breaches_name_the_lane_and_the_time_the_worst_first() -> None:
    found = verdict(STATES, 'no w* in "b"')

    assert [breach[:3] for breach in found.breaches] == [("w1", 2, 7), ("w2", 1, 3)]
    assert found.breaches[0].sentence == "w1: `b` for 5ns, from 2ns"
    many = history_from_picture("\n".join(f"w{row}  ab" for row in range(9)))
    found = verdict(many, 'no w* in "b"')
    assert (len(found.breaches), found.more) == (3, 6)


def test_a_state_whose_tags_differ_is_one() -> None:
    builder = meantime.HistoryBuilder()
    builder.lanes("Loops/*")
    loop = builder.quark("Loops", "main")
    for time_ns in (0, 10, 20):
        builder.modify(time_ns, loop, "blocked", builder.tag({"time": time_ns}))
    builder.modify(30, loop, "parked")
    found = verdict(builder.close(40), 'no Loops/* in "blocked" for over 29 ns')

    assert not found.holds
    assert found.measured == "the longest is 30ns"


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ('no v* in "b"', "matches nothing"),
        ('p99 of "z" below 1 ns', "no state, span or event is called 'z'"),
        ('no * in "requst"', "called 'requst'; there is 'request'"),
        ('p99 of "request" below 5', "5 has no unit; write a time such as 5 ms"),
        ('p99 of "request" below much', "'much'"),
        ('count of "request" below many', "'many' is not a number"),
        ('p42 of "request" below 5 ns', "is not a rule; write one like these"),
        ("no request", "is not a rule"),
        ('p99 of "request" no more than 10 % up', "is about two traces: give it to meantime diff"),
    ],
)
def test_rules_that_cannot_be_checked(rule: str, error: str) -> None:
    with pytest.raises(meantime.MeantimeError) as caught:
        meantime.check_rules(SPANS, [rule])
    assert error in str(caught.value)


def test_rules_have_titles_and_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("""[rules]\n"requests are fast" = 'p99 of "request" below 50 ns'\n""")
    (found,) = meantime.check_rules(SPANS, read_rules(path))

    assert (found.rule.title, found.holds) == ("requests are fast", True)
    assert meantime.check_rules(SPANS, {"fast": 'p99 of "request" below 50 ns'})[0].holds


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "there are no rules"),
        ("[rules]\na = 1", "a title and a sentence in quotes"),
        ("[rules]\na = 'no'", "'no' is not a rule"),
        ("[rule]\na = 'no'", "has 'rule'; all rules are in the table [rules]"),
        ("[rules", "is not TOML"),
    ],
)
def test_files_of_rules_that_are_wrong(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(meantime.MeantimeError) as caught:
        read_rules(path)
    assert str(caught.value).startswith(str(path))
    assert error in str(caught.value)


def runs(*lengths: int) -> list[Any]:
    histories = (history_from_spans({"main": [("request", 0, length)]}) for length in lengths)
    return [part_of(history, None, None) for history in histories]


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ('p99 of "request" no more than 10 % up', False),
        ('p99 of "request" no more than 60 % up', True),
        ('p99 of "request" no more than 10 % down', True),
        ('total of "request" no more than 40 % up', False),
    ],
)
def test_rules_about_a_change(rule: str, holds: bool) -> None:  # noqa: FBT001 - a parameter of the test
    before, after = runs(100, 101, 99, 100, 102), runs(150, 149, 152, 150, 151)

    assert check_change(before, after, parse_rule(rule)).holds == holds
    # what is as different between runs as between sides is no change
    assert check_change(runs(100, 250, 90, 260), runs(110, 255, 95, 280), parse_rule(rule)).holds


def test_rules_about_a_change_need_runs_and_a_name() -> None:
    rule = parse_rule('p99 of "request" no more than 10 % up')
    with pytest.raises(meantime.MeantimeError, match="at least 4 runs a side"):
        check_change(runs(1), runs(2), rule)
    with pytest.raises(meantime.MeantimeError, match="matches nothing"):
        check_change(runs(1), runs(2), parse_rule('p99 of "z" no more than 10 % up'))
    with pytest.raises(meantime.MeantimeError, match="give it to meantime assert"):
        check_change(runs(1), runs(2), parse_rule('p99 of "request" below 10 ns'))


def status(*words: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    return int(stopped.value.code or 0)


FUTEX, OTHER = 'longest of "futex" below 1 s', 'no * in "disk wait" for over 1 ms'


def test_the_command_says_what_breaks_rules(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(root / "examples" / "postgres.statemap.gz")
    assert status("assert", trace, "--rule", FUTEX) == 0
    assert capsys.readouterr().out == f"holds   {FUTEX}: the longest is 2.455ms\n".replace(
        "the longest", "it"
    )

    rules, report = tmp_path / "rules.toml", tmp_path / "rules.xml"
    rules.write_text(f"[rules]\n'no <long> waits' = '{OTHER}'\n")
    words = ("assert", trace, str(rules), "--rule", FUTEX, "--junit", str(report))
    assert status(*words) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("holds ")
    assert lines[1:3] == ["BROKEN  no <long> waits: the longest is 1.062ms", f"        {OTHER}"]
    assert lines[3] == "        19151: `disk wait` for 1.062ms, from 812.551598ms"
    assert lines[4].startswith(f"          meantime statemap {trace} --from 812.")

    suite = ET.fromstring(report.read_text())  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert failure.get("message") == f"{OTHER}: the longest is 1.062ms"

    assert status(*words, "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert [each["holds"] for each in document["rules"]] == [True, False]
    assert document["rules"][1]["breaches"][0]["path"] == "19151"
    assert len(document["rules"][1]["commands"]) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["TRACE"], "name a file of rules"),
        (["rules.toml"], "name the trace"),
        (["TRACE", "--rule", "no"], "is not a rule"),
    ],
)
def test_command_lines_that_are_wrong(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    trace = str(root / "examples" / "postgres.statemap.gz")
    assert status("assert", *(trace if word == "TRACE" else word for word in words)) == 2
    assert error in capsys.readouterr().err


def test_the_module_of_the_command_has_another_name() -> None:
    assert import_module("meantime.cli.assert_rules").command.name == "assert"


def recording() -> History:
    """Return a loop that is busy for 50 ms, 40 of which its thread waits for a CPU, and for 30."""
    builder = meantime.HistoryBuilder()
    loop, task = builder.quark("Loops", "MainThread"), builder.quark("Tasks", "work", "1")
    for time_ms, state in [
        (0, "parked"),
        (10, "running"),
        (15, "cpu-wait"),
        (55, "running"),
        (60, "parked"),
        (70, "running"),
        (100, "parked"),
    ]:
        builder.modify(time_ms * MS, loop, state)
    for time_ms, state in [(10, "running"), (60, "waiting"), (70, "running"), (100, "waiting")]:
        builder.modify(time_ms * MS, task, state)
    builder.lanes("Loops/*", entity_kind="Loop")
    builder.lanes("Tasks/*/*", entity_kind="Task")
    return builder.close(110 * MS)


MS = 10**6
LATE = "the longest is 30ms"
WAITED = ", without 40ms in which its thread waited for a CPU"


@pytest.mark.parametrize(
    ("rule", "measured", "breaches"),
    [
        ('no Loops/* in "blocked" for over 20 ms', LATE, 1),
        ('no Loops/* in "blocked" for over 40 ms', f"the longest is 10ms{WAITED}", 0),
        ('no Loops/* in "blocked" for over 20 ms of wall time', "the longest is 50ms", 2),
        ('no Loops/* in "blocked"', "the longest is 50ms", 2),
        ('no Tasks/** in "running" for over 20 ms', LATE, 1),
        ('no Tasks/** in "running" for over 9 ms', LATE, 2),
        ('no Tasks/** in "running" for over 20 ms of wall time', "the longest is 50ms", 2),
        ('no Loops/* in "cpu-wait" for over 20 ms', "the longest is 40ms", 1),
    ],
)
def test_time_in_which_a_thread_waited_for_a_cpu_is_not_its_own(
    rule: str, measured: str, breaches: int
) -> None:
    (found,) = meantime.check_rules(recording(), [rule])

    assert (found.measured, len(found.breaches), found.holds) == (measured, breaches, not breaches)


@pytest.mark.parametrize(
    ("rule", "range_ms", "measured"),
    [
        ('no Tasks/** in "running" for over 60 ms', (80, 110), "the longest is 20ms"),
        ('count of "running" below 2', (80, 110), "it is 2"),
        ('share of Loops/* in "running" below 99 %', (60, 80), "it is 50 %"),
        ('longest of "cpu-wait" below 1 s', (20, 30), "it is 10ms"),
    ],
)
def test_rules_about_a_range(rule: str, range_ms: tuple[int, int], measured: str) -> None:
    start, end = (each * MS for each in range_ms)
    (found,) = meantime.check_rules(recording(), [rule], start=start, end=end)
    assert found.measured == measured

    spans = history_from_spans({"main": [("a", 0, 40), ("a", 50, 60)]})
    (found,) = meantime.check_rules(spans, ['total of "a" below 1 s'], start=30, end=55)
    assert found.measured == "it is 15ns"
