"""The statements in docs/how-to/ask-with-sql.md run, and return what Python does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import meantime

if TYPE_CHECKING:
    from meantime.query.sql import Database

pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
pytest.importorskip("pyarrow", reason="the extra [sql] is not installed")

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = (ROOT / "docs" / "how-to" / "ask-with-sql.md").read_text().split("\nFile: `")[1:]
# By the file of its section and its question.
STATEMENTS = {
    (section.partition("`")[0], question): statement
    for section in SECTIONS
    for question, statement in re.findall(r"(?ms)^(\S[^\n]*\?)\n\n```sql\n(.*?)^```$", section)
}


@pytest.fixture(scope="module")
def databases() -> dict[str, Database]:
    return {file: meantime.database(meantime.open(ROOT / file)) for file, _ in STATEMENTS}


def test_each_block_is_a_statement_with_a_question() -> None:
    assert len(STATEMENTS) == "".join(SECTIONS).count("```sql")


@pytest.mark.parametrize(("file", "question"), STATEMENTS)
def test_the_statements_of_the_page_return_rows(
    file: str, question: str, databases: dict[str, Database]
) -> None:
    found = databases[file].sql(STATEMENTS[file, question]).to_arrow()

    assert found.num_rows > 0
    assert not {str(each) for each in found.schema.types} & {"decimal128(38, 0)"}


def rows(databases: dict[str, Database], question: str) -> list[tuple[Any, ...]]:
    [(file, statement)] = [
        (file, statement) for (file, asked), statement in STATEMENTS.items() if asked == question
    ]
    return [tuple(row.values()) for row in databases[file].sql(statement).to_arrow().to_pylist()]


def test_statements_about_states_say_what_python_does(databases: dict[str, Database]) -> None:
    history = meantime.open(ROOT / "examples" / "postgres.statemap.gz")
    names, sums = history.shares("*").named_sums()
    totals = dict(zip(names, (np.asarray(sums).ravel() / 1e6).tolist(), strict=True))
    statistics = meantime.stats(history)
    waits = [each for each in history.intervals("*", clip=True) if each.value == "disk wait"]

    found = dict(rows(databases, "How long was everything in each state?"))
    assert found == pytest.approx({name: totals[name] for name in found})
    steps = rows(databases, "How did the time in a state develop, in ten steps?")
    assert sum(ms for *_, ms in steps) == pytest.approx(totals["disk wait"])
    assert rows(databases, "How long are waits: the median, and the longest of a hundred?") == [
        (each.key, each.count, each.median_ns, each.p99_ns, each.max_ns)
        for each in sorted(statistics.rows, key=lambda row: -row.total_ns)
    ]
    longest = rows(databases, "Which ten waits were the longest?")
    lengths = sorted((each.end_ns - each.start_ns for each in waits), reverse=True)
    assert [row[-1] for row in longest] == lengths[:10]
    counted = rows(databases, "How many waits began in each millisecond?")
    assert sum(count for _, count in counted) == len(waits)
    at = rows(databases, "What was each process doing at one time?")
    assert [row[1:] for row in at] == [
        (each.value, each.start_ns, each.end_ns) for each in history.at(5_000_000)
    ]
    narrow = rows(databases, "What happened in one process in a short range?")
    assert narrow == [
        (each.start_ns, each.end_ns, each.value)
        for each in history.intervals("19152", 5_000_000, 10_000_000)
    ]


def test_statements_about_spans_say_what_python_does(databases: dict[str, Database]) -> None:
    history = meantime.open(ROOT / "examples" / "training.json.gz")
    spans, statistics = history.spans(), meantime.stats(history, "name")
    names, row = spans.name.to_list(), spans.row_of(14815)

    top = rows(databases, "Which functions took the time?")
    assert [each[3] for each in top] == sorted(statistics.self_ns.tolist(), reverse=True)[:20]
    above, parent = [], -1 if row is None else int(spans.parent[row])
    while parent >= 0:
        above.append(names[parent])
        parent = int(spans.parent[parent])
    assert [name for _, name, _ in rows(databases, "What is a span inside of?")] == above
    calls = rows(databases, "What calls a function?")
    callers = [
        None if at < 0 else names[at]
        for at, name in zip(spans.parent.tolist(), names, strict=True)
        if name == "aten::add_"
    ]
    assert {caller: count for caller, count, _ in calls} == {
        caller: callers.count(caller) for caller in callers
    }
    inside = [
        at
        for at in range(len(spans))
        if names[at] == "aten::copy_" and "aten::clone" in _names_above(spans, names, at)
    ]
    lengths = sorted((int(spans.end_ns[at] - spans.start_ns[at]) for at in inside), reverse=True)
    found = rows(databases, "Which spans of one name are inside spans of another?")
    assert [length for _, length in found] == lengths[:10]


def _names_above(spans: Any, names: list[str | None], row: int) -> list[str | None]:
    found, parent = [], int(spans.parent[row])
    while parent >= 0:
        found.append(names[parent])
        parent = int(spans.parent[parent])
    return found
