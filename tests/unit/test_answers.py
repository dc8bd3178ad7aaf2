"""Answers are bounded in rows and bytes, and say what they leave out."""

from __future__ import annotations

import json
from typing import Any

import pytest

import meantime
from meantime.cli import main
from meantime.errors import UsageError

STATES, SPANS, SCHED = (
    "examples/postgres.statemap.gz",
    "examples/training.json.gz",
    "examples/sched.perf.gz",
)
# Commands that list rows, and how many rows the first list has in all.
LISTING = [
    (["info", SPANS], None),
    (["explain", SCHED], None),
    (["findings", SPANS], None),
    (["stats", SPANS], 701),
    (["stats", SPANS, "--longest", "aten::mm"], 160),
    (["stats", STATES, "--by", "entity"], 42),
    (["flame", SPANS], None),
    (["why", SCHED, "--thread", "pgbench"], None),
    (["assert", STATES, "--rule", 'count of "futex" above 0'], None),
]


def run(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    out, err = capsys.readouterr()
    assert stopped.value.code == status, err
    return out if status == 0 else err


@pytest.mark.parametrize(("words", "rows"), LISTING, ids=str)
def test_an_answer_is_bounded_and_counts_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str], words: list[str], rows: int | None
) -> None:
    whole = json.loads(run(capsys, *words, "--json", "--limit", "0"))
    text = run(capsys, *words, "--json", "--limit", "2")
    found = json.loads(text)

    assert "more" not in whole
    if rows is not None:
        assert len(whole["rows"]) == rows
    for name, value in whole.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and name != "next":
            assert len(found[name]) == min(2, len(value))
            assert found.get("left_out", {}).get(name, 0) == max(0, len(value) - 2)
    usual = run(capsys, *words, "--json")
    assert len(usual) <= 64_001
    assert all(len(each) <= 50 for each in json.loads(usual).values() if isinstance(each, list))


@pytest.mark.parametrize("size", [300, 2_000, 20_000])
def test_a_size_is_kept(capsys: pytest.CaptureFixture[str], size: int) -> None:
    text = run(capsys, "stats", SPANS, "--tree", "--json", "--limit", f"{size / 1000}kB")

    assert size / 4 < len(text) <= size + 1
    assert json.loads(text)["left_out"]["rows"] > 0


def test_the_library_cuts_a_document_as_the_command_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(run(capsys, "explain", SCHED, "--json", "--limit", "1"))
    del found["next"]

    document = meantime.explain(meantime.open(SCHED)).as_json(SCHED)

    assert json.loads(json.dumps(meantime.bounded(document, 1))) == found
    assert meantime.bounded(document, 0) is document


def test_lines_end_with_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    every = run(
        capsys, "query", STATES, "intervals", "19149", "--json", "--limit", "0"
    ).splitlines()
    some = run(capsys, "query", STATES, "intervals", "19149", "--json").splitlines()
    few = run(capsys, "query", STATES, "intervals", "19149", "--limit", "3")
    csv = run(capsys, "query", STATES, "intervals", "19149", "--csv").splitlines()

    assert some[:50] == every[:50]
    left_out = len(every) - 50
    assert [json.loads(line) for line in some[50:]] == [
        {"more": f"{left_out:,} more rows: --limit 0", "left_out": {"rows": left_out}}
    ]
    assert f"{len(every) - 3:,} more: --limit 0" in few
    assert len(csv) == len(every) + 1


def test_what_to_ask_next_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    import shlex  # noqa: PLC0415 - for this test alone

    asked, waiting = set(), [f"meantime info {SPANS} --json", f"meantime info {STATES} --json"]
    while waiting:
        command = waiting.pop()
        if command in asked:
            continue
        asked.add(command)
        program, *words = shlex.split(command)
        assert program == "meantime"
        text = run(capsys, *words)
        if words[0] != "query" and text.startswith("{"):
            waiting += [each["command"] for each in json.loads(text).get("next", [])]

    assert {each.split()[1] for each in asked} >= {"info", "explain", "findings", "stats", "query"}
    assert any("'span " in each for each in asked)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["stats", STATES, "--limit", "-1"], "--limit '-1' is neither a number of rows nor a size"),
        (["stats", STATES, "--limit", "many"], "write 20, 100kB, or 0 for all"),
        (["stats", STATES, "--limit", "1kB"], "--limit with a size applies to --json"),
        (["query", STATES, "tree", "--limit", "1", "--limit", "2"], "given more than once"),
        (["dump", STATES, "--limit", "1kB"], "--limit with a size applies to --json"),
    ],
)
def test_a_limit_that_is_wrong_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    assert error in run(capsys, *words, status=2)


def test_dump_prints_everything_unless_it_is_limited(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("dump", STATES, "--kind", "intervals")

    assert len(run(capsys, *words).splitlines()) > 50_000
    assert len(run(capsys, *words, "--limit", "7").splitlines()) == 7


def nested(depth: int) -> Any:
    found: Any = "end"
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "document",
    [
        {"rows": [{"name": "x" * 1_000_000}] * 3},
        {"names": {f"{'n' * 10_000}{index}": index for index in range(200)}},
        {"rows": [{"deep": nested(500)}]},
        {"numbers": list(range(1_000_000))},
        {"rows": [{"ranges": [[index, index + 1] for index in range(10_000)]}] * 100},
    ],
)
def test_a_hostile_document_fits(document: dict[str, Any]) -> None:
    found = meantime.bounded(document)

    assert len(json.dumps(found)) <= 64_000
    assert found["left_out"]
    assert found["more"].endswith(": --limit 0")


def test_a_limit_in_python_is_checked() -> None:
    with pytest.raises(UsageError, match="neither a number of rows nor a size"):
        meantime.bounded({}, "x")
    assert meantime.bounded({"a": 1}) == {"a": 1}
