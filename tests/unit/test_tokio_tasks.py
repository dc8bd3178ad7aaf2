"""Statemaps of tokio's tasks: where tasks were created, long polls, and waits for a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

import meantime
from meantime.cli import cli
from meantime.query.explain import explain
from meantime.query.explain.lanes import TimeClass

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

MS = 10**6
SPAWNED, RUNNING, WAITING, COMPLETED = range(4)


def _statemap(folder: Path, tasks: dict[str, list[list[tuple[float, int]]]]) -> Path:
    """Write a statemap of tasks by where they were created; times are in ms."""
    states = ["spawned", "running", "waiting", "completed"]
    head = {
        "start": [1700000000, 0],
        "title": "Tokio Task Execution",
        "entityKind": "Task",
        "states": {name: {"value": value} for value, name in enumerate(states)},
    }
    lines: list[dict[str, object]] = []
    number = 0
    for site in tasks:
        file = site.partition(":")[0]
        lines.append({"state": SPAWNED, "tag": site, "file": file, "location": site})
    for site, changes in tasks.items():
        for each in changes:
            number += 1
            for time_ms, state in each:
                line = {"time": str(round(time_ms * MS)), "entity": f"task-{number}"}
                tag = {"tag": site} if state == SPAWNED else {}
                lines.append({**line, "state": state, **tag})
    lines.sort(key=lambda line: int(str(line.get("time", -1))))
    path = folder / "tasks.statemap"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [head, *lines]))
    return path


def _polls(
    begin_ms: float, poll_ms: float, count: int, pause_ms: float = 20
) -> list[tuple[float, int]]:
    changes = [(begin_ms, SPAWNED)]
    at_ms = begin_ms + 0.01
    for _ in range(count):
        changes += [(at_ms, RUNNING), (at_ms + poll_ms, WAITING)]
        at_ms += poll_ms + pause_ms
    return [*changes, (at_ms, RUNNING), (at_ms + 0.01, COMPLETED)]


def _blocked(folder: Path) -> Path:
    waits = [[(125.0, SPAWNED), (180.0, RUNNING), (180.1, COMPLETED)] for _ in range(30)]
    return _statemap(
        folder,
        {
            "src/main.rs:5:9": [_polls(100, 90, 3)],
            "src/main.rs:8:9": [_polls(0, 0.002, 20) for _ in range(4)],
            "src/main.rs:9:9": waits,
        },
    )


def _sentences(history: History) -> list[str]:
    return [each.sentence for each in meantime.findings(history) if each.kind == "block"]


def test_a_long_poll_is_named_by_where_its_task_was_created(tmp_path: Path) -> None:
    (sentence,) = _sentences(meantime.open(_blocked(tmp_path)))

    assert sentence == (
        "a task of src/main.rs:5:9 ran for up to 90 ms without reaching an await, 3 times (270 ms"
        " in all); up to 30 tasks waited for a worker meanwhile, 1.65 s in all"
    )


def test_spawned_tasks_wait_for_a_worker(tmp_path: Path) -> None:
    found = explain(meantime.open(_blocked(tmp_path)))

    assert found.sentences[0].startswith("a task of src/main.rs:5:9 ran for up to 90 ms")
    times = {(row.kind, row.label): row.total_ns for row in found.budget.rows}
    assert times[TimeClass.READY, "worker"] == (30 * 55 + 5 * 0.01) * MS
    assert times[TimeClass.WORK, "running"] < 300 * MS
    (worker,) = found.resources
    assert worker.name == "worker"


def test_a_poll_has_its_worker_where_only_that_ran_throughout(tmp_path: Path) -> None:
    states = {name: {"value": value} for value, name in enumerate(["running", "parked"])}
    head = {"start": [1700000000, 0], "entityKind": "Worker", "states": states}
    changes = [(0, 0, 1), (0, 1, 0), (99, 0, 0), (150, 1, 1), (205, 1, 0), (420, 0, 1)]
    lines = [
        {"time": str(ms * MS), "entity": f"worker-{number}", "state": state}
        for ms, number, state in changes
    ]
    path = tmp_path / "workers.statemap"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [head, *lines]))
    done = CliRunner().invoke(cli, ["findings", str(_blocked(tmp_path)), str(path), "--json"])
    found = json.loads(done.stdout)["findings"][0]

    # polls begin at 100, 210 and 320 ms; the other worker was parked in the first
    assert found["sentence"].endswith("; worker-0 alone ran throughout 1 of them")
    assert found["rows"][-1] == "Hosts/workers/worker-0"


def test_short_polls_are_no_finding(tmp_path: Path) -> None:
    steady = {"src/main.rs:8:9": [_polls(n, 0.002, 40) for n in range(20)]}
    # one poll in a hundred was kept from its processor for 12 ms
    steady["src/main.rs:9:9"] = [_polls(n, 12 if n == 7 else 0.01, 1) for n in range(100)]

    assert _sentences(meantime.open(_statemap(tmp_path, steady))) == []


def test_tasks_are_grouped_by_where_they_were_created(tmp_path: Path) -> None:
    path = _blocked(tmp_path)
    done = CliRunner().invoke(cli, ["stats", str(path), "--by", "site", "--json"])
    rows = {row["key"]: row["count"] for row in json.loads(done.stdout)["rows"]}

    assert rows == {"src/main.rs:5:9": 1, "src/main.rs:8:9": 4, "src/main.rs:9:9": 30}


def test_tasks_that_leak_are_named_by_where_they_were_created(tmp_path: Path) -> None:
    left = [[(n, SPAWNED), (n + 0.1, RUNNING), (n + 0.2, WAITING)] for n in range(0, 400, 10)]
    rest = [_polls(n, 0.01, 1) for n in range(0, 400, 10)]
    path = _statemap(tmp_path, {"src/main.rs:3:5": left, "src/main.rs:4:5": rest})
    (found,) = [each for each in meantime.findings(meantime.open(path)) if each.kind == "tasks"]

    assert found.sentence.startswith(
        "40 tasks of src/main.rs:3:5 were alive at the end, of 40 that were created"
    )
