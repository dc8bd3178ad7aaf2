"""Logs of PostgreSQL: what took how long, in its three forms, and what is private of it."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

S, MS, US = 10**9, 10**6, 10**3
# 03:04:05 on 2 January 2026
BEGIN_NS = 1_767_323_045 * S
PREFIX = "2026-01-02 03:04:05"


def opened(tmp_path: Path, *lines: str, name: str = "a.log", **options: Any) -> meantime.History:
    (path := tmp_path / name).write_text("\n".join(lines) + "\n")
    return meantime.open(path, **options)


def spans(history: meantime.History) -> list[tuple[str, int, int]]:
    """Return each span's name, and its begin and end in nanoseconds from 03:04:05."""
    table = history.spans()
    names = [table.name.names[code] for code in table.name.codes.tolist()]
    times = (table.start_ns - BEGIN_NS).tolist(), (table.end_ns - BEGIN_NS).tolist()
    return list(zip(names, *times, strict=True))


def points(history: meantime.History) -> list[str]:
    table = history.points()
    return [table.name.names[code] for code in table.name.codes.tolist()]


@pytest.mark.parametrize(
    "prefix",
    [
        f"{PREFIX}.250 UTC [7] ",
        f"{PREFIX}.250 UTC [7-1] ",
        f"{PREFIX}.250 UTC [7]: [3-1] user=a,db=b,app=c,client=127.0.0.1 ",
        f"{PREFIX}.250 UTC:10.0.0.1(5432):a@b:[7]:",
        f"[7] {PREFIX}.250 GMT a@b ",
        f"{PREFIX},250 UTC [7] ",
        "2026-01-02 05:04:05.250 CEST [7] ",
        "2026-01-02 06:04:05.250 +03 [7] ",
    ],
)
def test_a_statement_ends_when_it_is_logged(tmp_path: Path, prefix: str) -> None:
    history = opened(tmp_path, f"{prefix}LOG:  duration: 100.125 ms  statement: select 1")

    assert spans(history) == [("select ?", 149_875 * US, 250 * MS)]
    assert [history.attributes.path(quark) for quark in history.spans().threads] == [
        ("Processes", "postgres", "Threads", "7")
    ]


@pytest.mark.parametrize(
    ("message", "name", "length_ns"),
    [
        ("duration: 2.000 ms  parse a: select $1", "parse select $1", 2 * MS),
        ("duration: 2.000 ms  bind <unnamed>: select $1", "bind select $1", 2 * MS),
        ("duration: 2.000 ms  execute <unnamed>: select $1", "select $1", 2 * MS),
        ("duration: 2.000 ms", "statement", 2 * MS),
        (
            "duration: 2.000 ms  plan:\n\tQuery Text: select 'a'\n\tSeq Scan on b",
            "select ?",
            2 * MS,
        ),
        (
            "process 7 acquired ShareLock on transaction 735 after 40.223 ms",
            "waiting for ShareLock on transaction ?",
            40_223 * US,
        ),
        (
            "checkpoint complete: wrote 3 buffers; sync=0.006 s, total=0.086 s; sync files=2",
            "checkpoint",
            86 * MS,
        ),
        (
            'automatic vacuum of table "a.b.c": index scans: 0\n\tCPU: user: 0 s, elapsed: 0.02 s',
            "autovacuum a.b.c",
            20 * MS,
        ),
        (
            'automatic analyze of table "a.b.c" system usage: CPU: user: 0.0 s, elapsed: 0.03 s',
            "autoanalyze a.b.c",
            30 * MS,
        ),
        (
            "disconnection: session time: 0:01:00.199 user=a database=b host=c",
            "session",
            60_199 * MS,
        ),
    ],
)
def test_messages_with_a_length_are_spans(
    tmp_path: Path, message: str, name: str, length_ns: int
) -> None:
    history = opened(
        tmp_path, f"{PREFIX}.250 UTC [7] LOG:  {message}", f"{PREFIX}.250 UTC [8] LOG:  x"
    )

    assert spans(history) == [(name, 250 * MS - length_ns, 250 * MS)]
    assert points(history) == ["x"]


def test_a_length_that_is_logged_by_itself_is_of_the_statement_before_it(tmp_path: Path) -> None:
    history = opened(
        tmp_path,
        f"{PREFIX}.240 UTC [7] LOG:  statement: select 1",
        f"{PREFIX}.241 UTC [8] LOG:  statement: select a",
        f"{PREFIX}.250 UTC [7] LOG:  duration: 9.000 ms",
        f"{PREFIX}.250 UTC [8] LOG:  duration: 8.500 ms",
    )

    assert [(name, end - start) for name, start, end in spans(history)] == [
        ("select ?", 9 * MS),
        ("select a", 8_500 * US),
    ]


def test_statements_of_one_millisecond_follow_each_other(tmp_path: Path) -> None:
    line = f"{PREFIX}.250 UTC [7] LOG:  duration: 0.300 ms  statement: select {{}}"
    history = opened(tmp_path, *[line.format(name) for name in "abcde"])

    assert spans(history) == [
        ("select a", 249_700 * US, 250_000 * US),
        # more than fits into the millisecond is left as it is logged
        ("select e", 249_700 * US, 250_000 * US),
        ("select b", 250_000 * US, 250_300 * US),
        ("select c", 250_300 * US, 250_600 * US),
        ("select d", 250_600 * US, 250_900 * US),
    ]


def test_a_wait_that_does_not_end_is_a_point(tmp_path: Path) -> None:
    waits = "LOG:  process 7 still waiting for ShareLock on transaction 5 after 1000.1 ms"
    history = opened(
        tmp_path,
        f"{PREFIX}.250 UTC [7] {waits}",
        f"{PREFIX}.250 UTC [7] DETAIL:  Process holding the lock: 5. Wait queue: 7.",
    )

    assert points(history) == ["waiting for ShareLock on transaction ?"]


def test_what_statements_contain_is_private(tmp_path: Path) -> None:
    lines = [
        f"{PREFIX}.250 UTC [7] a@b ERROR:  duplicate key value: (mail)=('x@y.z')",
        f"{PREFIX}.250 UTC [7] a@b DETAIL:  Key (mail)=(x@y.z)",
        f"{PREFIX}.250 UTC [7] a@b STATEMENT:  insert into c",
        "\tvalues ('x@y.z')",
    ]
    kept, whole = (opened(tmp_path, *lines, include=what) for what in ((), "env"))

    assert points(kept) == ["ERROR: duplicate key value: (mail)=(?)"]
    assert json.loads(kept.points().arguments(0) or "") == {"user": "a@b"}
    assert kept.anomalies["private_field"] == 3
    assert json.loads(whole.points().arguments(0) or "") == {
        "user": "a@b",
        "message": "duplicate key value: (mail)=('x@y.z')",
        "detail": "Key (mail)=(x@y.z)",
        "statement": "insert into c\n\tvalues ('x@y.z')",
    }


def test_an_abbreviation_of_a_zone_is_not_believed_in_silence(tmp_path: Path) -> None:
    line = "2026-01-02 03:04:05.000 CST [7] LOG:  duration: 1.000 ms  statement: select a"

    history = opened(tmp_path, line)
    assert history.facts["times"] == "CST in the log, read as UTC"
    assert spans(history)[0][2] == 0

    history = opened(tmp_path, line.replace(" CST", ""))
    assert history.facts["times"] == "dates without a zone, read as UTC"

    history = opened(tmp_path, line, columns="zone=Asia/Shanghai")
    assert history.facts["times"] == "CST in the log, read as Asia/Shanghai"
    assert spans(history)[0][2] == -8 * 3600 * S

    with pytest.raises(InputError, match="the columns may only name the zone"):
        opened(tmp_path, line, columns="time=a")


@pytest.mark.parametrize("form", ["log", "csv", "json"])
def test_the_recorded_log_is_the_same_in_each_form(root: Path, form: str) -> None:
    folder = root / "tests" / "samples" / "requests"
    text = gzip.decompress((folder / "postgres.json.gz").read_bytes()).decode()
    messages = [json.loads(line)["message"] for line in text.splitlines()]
    lengths = [re.match(r"duration: ([\d.]+) ms", message) for message in messages]
    took_ns = [int(Decimal(match[1]) * MS) for match in lengths if match]

    history = meantime.open(folder / f"postgres.{form}.gz")

    table = history.spans()
    names = [table.category.names[code] for code in table.category.codes.tolist()]
    found = dict(zip(range(len(names)), (table.end_ns - table.start_ns).tolist(), strict=True))
    others = {"session", "lock", "checkpoint", "autovacuum"}
    assert sorted(found[row] for row, name in enumerate(names) if name not in others) == sorted(
        took_ns
    )
    # a wait for a lock is logged when it has lasted long, and when it ends
    waits = sum("still waiting" in message for message in messages)
    assert len(table) + len(history.points()) + waits == len(messages)
    # a process does one thing at a time, in its session; a wait for a lock is in a statement
    assert int(table.depth.max()) == 2
    assert history.anomalies["overlapping_span"] == 0
    assert history.anomalies["unknown_line"] == 0


def test_lines_that_are_no_messages_are_counted_or_refused(tmp_path: Path) -> None:
    good = f"{PREFIX}.250 UTC [7] LOG:  a"
    assert opened(tmp_path, "an error", good, "\tgoes on").anomalies["unknown_line"] == 1

    line = '{"timestamp": "2026-01-02 03:04:05.250 UTC", "pid": 7, "error_severity": "LOG", '
    lines = [line + '"message": "a"}', line + '"message": 5}']
    with pytest.raises(InputError, match=":2: a line has no timestamp, pid, error_severity"):
        opened(tmp_path, *lines, name="a.json")
    assert opened(tmp_path, *lines, name="a.json", lenient=True).anomalies["bad_record"] == 1
