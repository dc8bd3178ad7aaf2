"""Text of logs: what Python's `logging` writes comes back."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.cli import main
from meantime.errors import InputError, MeantimeError
from meantime.model.column_mapping import mapping_of
from meantime.model.input_path import input_path
from meantime.readers import open_trace, recognise
from meantime.readers.source import open_source

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {
    "%(asctime)s %(levelname)s %(message)s": {"level"},
    "%(asctime)s - %(name)s - %(levelname)s - %(message)s": {"level", "logger"},
    "%(asctime)s %(name)s %(levelname)s %(message)s": {"level", "logger"},
    "%(asctime)s:%(levelname)s:%(name)s:%(message)s": {"level", "logger"},
    "%(asctime)s [%(levelname)s] %(message)s": {"level"},
    "%(asctime)s | %(levelname)-8s | %(message)s": {"level"},
    "[%(asctime)s] %(levelname)s in %(name)s: %(message)s": {"level", "logger"},
    "%(levelname)s %(asctime)s [%(name)s] %(message)s": {"level", "logger"},
    "%(asctime)s [%(threadName)s] %(levelname)s %(message)s": {"level", "context"},
}
MESSAGES = ["job_started", "slow query: select 1", "wrote 3 files - done", "failed\nbadly"]


def written(path: Path, format_: str) -> list[logging.LogRecord]:
    """Write records as `logging` does, a second and a millisecond apart, and return them."""
    records = []
    for number, message in enumerate(MESSAGES):
        record = logging.LogRecord("app.jobs", logging.WARNING, "x.py", 1, message, None, None)
        record.created = 1_770_000_000 + number
        record.msecs = number
        records.append(record)
    formatter = logging.Formatter(format_)
    path.write_text("".join(f"{formatter.format(record)}\n" for record in records))
    return records


def events(path: Path) -> list[dict[str, Any]]:
    trace = open_trace(path)
    return [
        {"time_ns": event.time_ns, "name": event.name, **event.fields}
        | {name: event[name] for name in ("pid", "tid") if event.get(name) is not None}
        for batch in trace.batches
        for event in batch  # type: ignore[union-attr] # events
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_what_logging_writes_is_read(
    tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    records = written(path := tmp_path / "x", format_)

    found = events(path)

    assert [event["name"] for event in found] == [
        record.getMessage().split("\n")[0] for record in records
    ]
    assert found[3]["following"] == "badly"
    for event, record in zip(found, records, strict=True):
        assert event["level"] == "WARNING"
        assert event["time_ns"] % 10**9 == record.msecs * 10**6
        assert event.keys() - {"time_ns", "name", "following"} == FORMATS[format_]
        assert event.get("logger", "app.jobs") == "app.jobs"


def test_lines_before_the_first_record_are_counted(tmp_path: Path) -> None:
    (path := tmp_path / "x.log").write_text(
        "2026-03-02 08:00:00,000 INFO a\n2026-03-02 08:00:01,000 INFO b\n"
    )
    assert not meantime.open(path).anomalies
    path.write_text("starting\n\n" + path.read_text())

    history = meantime.open(path, format="log")

    assert dict(history.anomalies) == {"unknown_line": 1}
    assert history.metadata.records == 2


def test_begins_and_ends_of_a_log_are_spans(tmp_path: Path) -> None:
    (path := tmp_path / "x.log").write_text(
        "2026-03-02 08:00:00,000 INFO w1: start\n"
        "2026-03-02 08:00:00,500 INFO - app - start\n"
        "2026-03-02 08:00:02,000 INFO - app - stop\n"
    )

    spans = meantime.open(path, columns={"pair": "start:stop", "by": "logger"}).spans()

    assert (spans.end_ns - spans.start_ns).tolist() == [1_500_000_000]


def test_a_late_record_is_named_by_its_line(tmp_path: Path) -> None:
    lines = ["2026-03-02 08:00:01,000 INFO a\n  more\n"] * 70_000
    (path := tmp_path / "x.log").write_text("".join(lines) + "2026-03-02 08:00:00,000 INFO b\n")

    with pytest.raises(InputError) as caught:
        meantime.open(path)

    assert caught.value.line == 140_001


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02 08:00:00,5,3\n2026-03-02 08:00:01,6,4\n",
        "date,time,level\n2026-03-02,08:00:00,INFO\n",
        "2026-03-02 08:00:00.123 CET [30291] something else\n",
        "INFO: no date here\n",
    ],
)
def test_other_lines_with_dates_are_no_logs(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "x").write_text(text)
    with open_source(path) as source:
        try:
            format_ = recognise(source).reader.FORMAT
        except InputError:
            format_ = "none"
    assert format_ != "log"


def test_info_counts_the_events_of_a_log_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.log"
    path.write_text("2026-03-02 08:00:00,1 INFO began\n2026-03-02 08:00:01,1 INFO ended\n" * 2)

    with pytest.raises(SystemExit, match="0"):
        main(["info", str(path), "--json"])

    assert json.loads(capsys.readouterr().out)["event_names"] == {"began": 2, "ended": 2}


MS = 10**6
LINES = """booted
<3> 2026-03-02 08:00:05.250 w0 did parse in 0.200 s
<3> 2026-03-02 08:00:05.500 w1 did write in 0.350 s

<3> 2026-03-02 08:00:06.000 w0 did parse in 0.1 s
"""
PATTERN = r"> (?P<end>\S+ \S+) (?P<worker>\w+) did (?P<name>\w+) in (?P<duration>[\d.]+) s"


def test_groups_of_a_pattern_are_columns(tmp_path: Path) -> None:
    (path := tmp_path / "work.log").write_text(LINES)
    columns = {"pattern": PATTERN, "end": "end", "duration": "duration:s", "entity": "worker"}

    history = meantime.open(path, columns={**columns, "state": "name"})

    begin_ns = 1_772_438_405 * 10**9
    found = [
        (history.attributes.path(each.quark)[0], each.value, each.start_ns - begin_ns)
        for quark in history.quarks("*")
        for each in history.intervals([quark])
        if each.value is not None
    ]
    assert found == [("w0", "parse", 50 * MS), ("w0", "parse", 900 * MS), ("w1", "write", 150 * MS)]
    assert history.anomalies["unknown_line"] == 1


def test_groups_of_a_pattern_are_fields_of_events(tmp_path: Path) -> None:
    (path := tmp_path / "access.txt").write_text(
        "[10/Oct/2000:13:55:36 -0700] a 007 1.5\n[10/Oct/2000:13:55:37 -0700] b 8 x\n"
    )
    pattern = r"\[(?P<time>[^]]+)\] (?P<name>\w) (?P<size>\d+) (?P<part>\S+)"

    trace = open_trace(input_path(path, mapping_of(pattern=pattern)))

    assert [
        (event.time_ns, event.name, event.fields)
        for batch in trace.batches
        for event in batch  # type: ignore[union-attr] # events
    ] == [
        (971_211_336 * 10**9, "a", {"size": "007", "part": 1.5}),
        (971_211_337 * 10**9, "b", {"size": 8, "part": "x"}),
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "is not a regular expression: missing \\)"),
        ("a", "names no fields"),
        ("z(?P<time>.)", "the pattern matches no line; the first one is 'booted'"),
        ("(?P<what>.+)", "no field is known to be a time"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(
    tmp_path: Path, pattern: str, message: str
) -> None:
    (path := tmp_path / "work.log").write_text(LINES)

    with pytest.raises(MeantimeError, match=message):
        meantime.open(path, columns={"pattern": pattern})


def test_a_pattern_is_of_text_and_not_in_a_file_beside_it(tmp_path: Path) -> None:
    (path := tmp_path / "work.log").write_text(LINES)
    with pytest.raises(InputError, match=r"a pattern is of lines of text \(log\), not of table"):
        meantime.open(path, format="table", columns={"pattern": PATTERN})

    (tmp_path / "work.log.columns.toml").write_text("pattern = '(?P<time>a+)+b'")
    with pytest.raises(InputError, match="a pattern is given as --pattern, not in a file beside"):
        meantime.open(path)


def test_the_cache_knows_a_history_by_its_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "work.log").write_text(LINES)
    for group, count in (("parse", 2), ("write", 1)):
        pattern = rf"(?P<time>2026\S+ \S+) .*(?P<name>{group})"
        with pytest.raises(SystemExit):
            main(["stats", str(path), "--pattern", pattern, "--json"])
        assert json.loads(capsys.readouterr().out)["rows"][0]["count"] == count


SYSTEM = """\
<13>Nov 30 14:44:42 web-1 sshd[123]: Accepted publickey
Nov 30 14:44:43.5 web-1 kernel: INFO: task blocked
Dec  1 00:00:01 web-1 CRON[9]: (root) CMD (run)
  continued
Feb 28 23:59:59 web-1 systemd[1]: Started x.service.
"""


def test_logs_of_systems_have_hosts_programs_and_the_year_of_the_file(tmp_path: Path) -> None:
    (path := tmp_path / "syslog").write_text(SYSTEM)
    os.utime(path, (1_772_400_000,) * 2)  # 2026-03-01

    found = events(path)

    sender = {"host": "web-1", "program": "sshd", "pid": 123}
    begin_ns = 1_764_513_882 * 10**9  # 2025-11-30 14:44:42
    assert found[0] == {"time_ns": begin_ns, "name": "Accepted publickey", **sender}
    assert found[1]["time_ns"] == begin_ns + 1_500_000_000
    assert (found[1]["program"], found[1]["name"]) == ("kernel", "INFO: task blocked")
    assert found[2]["following"] == "  continued"
    assert found[3]["time_ns"] == 1_772_323_199 * 10**9  # 2026-02-28 23:59:59
    facts = meantime.open(path).facts
    assert facts["year"].startswith("2025 at the beginning, as dates have none")


def test_a_line_with_a_date_of_another_form_is_an_event_of_its_own(tmp_path: Path) -> None:
    (path := tmp_path / "syslog").write_text(
        "Jun 19 04:09:10 combo sshd[9]: ready\n"
        "Jun 19 04:09:11 combo syslogd 1.4.1: restart.\n"
        "  continued\n"
        "Jun 19 04:09:12 --- last message repeated 1 time ---\n"
    )
    found = events(path)

    assert [each["name"] for each in found] == [
        "ready",
        "combo syslogd 1.4.1: restart.",
        "--- last message repeated 1 time ---",
    ]
    assert found[1]["following"] == "  continued"
    assert found[2]["time_ns"] - found[0]["time_ns"] == 2 * 10**9


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            "2026-03-02T08:00:00.25+01:00 web1 app.service/x[7]: ready",
            {"host": "web1", "program": "app.service/x", "pid": 7, "name": "ready"},
        ),
        (
            "[Mon Mar 02 07:00:00.250000 2026] [core:notice] [pid 7:tid 9] caught SIGTERM",
            {"level": "NOTICE", "logger": "core", "pid": 7, "tid": 9, "name": "caught SIGTERM"},
        ),
        (
            "2026-03-02T07:00:00.25Z INFO app: ready",
            {"level": "INFO", "name": "app: ready"},
        ),
    ],
)
def test_dates_with_a_year_need_no_file(
    tmp_path: Path, line: str, fields: dict[str, object]
) -> None:
    (path := tmp_path / "x").write_text(f"{line}\n")

    (found,) = events(path)

    assert found == {"time_ns": 1_772_434_800_250_000_000, **fields}
    assert "year" not in meantime.open(path).facts
