"""Logs of JSON lines that programs write: their fields are known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import meantime
from meantime.readers import open_trace

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6
# 1 January 2026
BEGIN_NS = 1_767_225_600 * 10**9
DAY = "2026-01-01T00:00:00"
AUDIT = {
    "kind": "Event",
    "auditID": "a",
    "stage": "ResponseComplete",
    "verb": "list",
    "user": {"username": "admin"},
    "requestReceivedTimestamp": f"{DAY}.100000Z",
    "stageTimestamp": f"{DAY}.150000Z",
}
K6 = [
    {"type": "Metric", "metric": "http_reqs", "data": {"name": "http_reqs", "type": "counter"}},
    {
        "type": "Point",
        "metric": "http_reqs",
        "data": {"time": f"{DAY}.1Z", "value": 1, "tags": None},
    },
    {"type": "Point", "metric": "vus", "data": {"time": f"{DAY}.2Z", "value": 2.5}},
]
TASK = {
    "Event": "SparkListenerTaskEnd",
    "Task Type": "ResultTask",
    "Task Info": {
        "Host": "a",
        "Executor ID": "1",
        "Launch Time": BEGIN_NS // MS + 10,
        "Finish Time": BEGIN_NS // MS + 40,
    },
}


def opened(tmp_path: Path, *lines: Any) -> meantime.History:
    (path := tmp_path / "a.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return meantime.open(path)


def states(history: meantime.History) -> list[tuple[tuple[str, ...], Any, int, int]]:
    return [
        (
            history.attributes.path(each.quark),
            each.value,
            (each.start_ns - BEGIN_NS) // MS,
            (each.end_ns - BEGIN_NS) // MS,
        )
        for quark in history.quarks("**")
        for each in history.intervals([quark])
        if each.value is not None
    ]


def test_an_audit_log_of_kubernetes_has_requests_by_user(tmp_path: Path) -> None:
    history = opened(tmp_path, AUDIT, {**AUDIT, "verb": "get", "user": {"username": "b"}})

    assert states(history) == [(("admin",), "list", 100, 150), (("b",), "get", 100, 150)]
    assert history.facts["log"] == "an audit log of Kubernetes"


def test_a_role_whose_field_is_missing_does_not_count(tmp_path: Path) -> None:
    line = {key: value for key, value in AUDIT.items() if key != "user"}

    later = {**line, "requestReceivedTimestamp": f"{DAY}.2Z", "stageTimestamp": f"{DAY}.25Z"}

    found = states(opened(tmp_path, line, later))

    assert [row[1:] for row in found] == [("list", 100, 150), ("list", 200, 250)]


def test_points_of_k6_are_counters(tmp_path: Path) -> None:
    history = opened(tmp_path, *K6)

    assert history.anomalies["record_skipped"] == 1
    assert history.samples().time_ns.tolist() == [BEGIN_NS + 100 * MS, BEGIN_NS + 200 * MS]
    assert sorted(row[1] for row in states(history)) == [1, 2.5]


def test_tasks_of_spark_are_states_of_their_executor(tmp_path: Path) -> None:
    history = opened(tmp_path, {"Event": "SparkListenerLogStart", "Spark Version": "3.5"}, TASK)

    assert states(history) == [(("a", "1"), "ResultTask", 10, 40)]
    assert history.anomalies["record_skipped"] == 1


@pytest.mark.parametrize(
    "line",
    [
        {"logName": "a", "timestamp": f"{DAY}.5Z", "textPayload": "x", "severity": "INFO"},
        {"logName": "a", "timestamp": f"{DAY}.5Z", "jsonPayload": {"message": "x"}},
        {"__REALTIME_TIMESTAMP": str(BEGIN_NS // 1000 + 500_000), "MESSAGE": "x", "_PID": "1"},
    ],
)
def test_messages_of_logs_are_events(tmp_path: Path, line: dict[str, Any]) -> None:
    (path := tmp_path / "a.json").write_text(f"{json.dumps(line)}\n" * 2)

    trace = open_trace(path)

    events = [event for batch in trace.batches for event in batch]  # type: ignore[union-attr] # events
    assert [(event.time_ns - BEGIN_NS, event.name) for event in events] == [(500 * MS, "x")] * 2


def test_columns_that_are_given_count_instead(tmp_path: Path) -> None:
    (path := tmp_path / "a.json").write_text(f"{json.dumps(AUDIT)}\n" * 2)

    history = meantime.open(path, columns="time=stageTimestamp,name=stage")

    assert "log" not in history.facts
