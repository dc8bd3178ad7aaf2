"""A recording becomes the statemap data of tasks and workers that Tokio's recorder writes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import original_statemap as original
import pytest

import meantime
from meantime.cli import main

SAMPLES = Path(__file__).parent.parent / "samples" / "statemap"
HEADERS = {
    only: json.loads((SAMPLES / f"tokio-{only}.statemap").read_text().splitlines()[0])
    for only in ("tasks", "workers")
}

# A recording is of all loops and threads of the process, so also of those that other tests left.
pytestmark = [pytest.mark.usefixtures("no_running_loop"), pytest.mark.in_child_process]


async def complete() -> None:
    await asyncio.sleep(0.001)


async def fail() -> None:
    await asyncio.sleep(0)
    raise ValueError


async def clean_up() -> None:
    try:
        await asyncio.sleep(10)
    finally:
        await asyncio.sleep(0.001)


async def several() -> None:
    tasks = [asyncio.create_task(each()) for each in (complete, fail, clean_up)]
    await asyncio.sleep(0.001)
    tasks[2].cancel()
    await asyncio.to_thread(time.sleep, 0.002)
    await asyncio.gather(*tasks, return_exceptions=True)


def converted(folder: Path, only: str) -> list[dict[str, Any]]:
    target = folder / f"{only}.statemap"
    with pytest.raises(SystemExit) as left:
        main(["convert", str(folder / "run.mtr"), str(target), "--only", only])
    assert left.value.code == 0
    return [json.loads(line) for line in target.read_text().splitlines()]


def states_of(payloads: list[dict[str, Any]]) -> dict[str, list[str]]:
    names = {state["value"]: name for name, state in payloads[0]["states"].items()}
    found = defaultdict(list)
    for payload in payloads[1:]:
        if "entity" in payload:
            found[payload["entity"]].append(names[payload["state"]])
    return dict(found)


def existing(states: list[str]) -> list[str]:
    """Return the states in which a task or a worker exists."""
    return [state for state in states if state not in {"completed", "stopped"}]


def record_several(folder: Path) -> None:
    with meantime.record(folder / "run.mtr"):
        asyncio.run(several())


def test_tasks_are_spawned_running_waiting_and_completed(tmp_path: Path) -> None:
    record_several(tmp_path)
    payloads = converted(tmp_path, "tasks")

    states = states_of(payloads)
    assert payloads[0]["entityKind"] == "Task"
    assert payloads[0] | {"host": None, "start": None} == {
        "start": None,
        "title": "asyncio Task Execution",
        "host": None,
        "entityKind": "Task",
        "states": HEADERS["tasks"]["states"],
    }
    assert {name.partition("-")[0] for name in states} == {"task"}
    assert all(name.partition("-")[2].isdecimal() for name in states)
    # runnable and cancelling are waiting; each of the ends is completed
    cancelled = ["spawned", "running", "waiting", "running", "waiting", "running", "completed"]
    assert cancelled in states.values()
    assert {each[0] for each in states.values()} == {"spawned"}
    assert {each[-1] for each in states.values()} == {"completed"}


def test_each_state_of_a_task_has_its_spawn_location(tmp_path: Path) -> None:
    record_several(tmp_path)
    payloads = converted(tmp_path, "tasks")

    defined = {
        (each["state"], each["tag"]): each
        for each in payloads
        if "tag" in each and "entity" not in each
    }
    data = [each for each in payloads if "entity" in each]
    assert {(each["state"], each["tag"]) for each in data} == set(defined)
    assert __file__ in {each["file"] for each in defined.values()}
    locations = {each["location"] for each in defined.values()}
    assert any(location.startswith(f"{__file__}:") for location in locations)
    assert all(each["tag"] == each["location"] for each in defined.values())


def test_workers_are_running_parked_and_stopped(tmp_path: Path) -> None:
    record_several(tmp_path)
    payloads = converted(tmp_path, "workers")

    states = states_of(payloads)
    assert payloads[0]["entityKind"] == "Worker"
    assert payloads[0]["title"] == "asyncio Worker Threads"
    assert payloads[0]["states"] == HEADERS["workers"]["states"]
    assert sorted(states) == ["worker-0", "worker-1"]
    assert {state for each in states.values() for state in each} == {"running", "parked", "stopped"}


@pytest.mark.parametrize("only", ["tasks", "workers"])
def test_the_original_draws_it_and_ours_reads_it_the_same(tmp_path: Path, only: str) -> None:
    record_several(tmp_path)
    payloads = converted(tmp_path, only)

    drawn = original.ingest(payloads[1:])
    history = meantime.open(tmp_path / f"{only}.statemap")
    assert drawn.rows() == sorted(states_of(payloads), key=lambda name: int(name.split("-")[1]))
    for name, each in states_of(payloads).items():
        intervals = history.intervals(history.quarks(name), history.start_ns, history.end_ns)
        read = [intervals[row].value for row in range(len(intervals))]
        assert [value for value in read if value is not None] == existing(each)


@pytest.mark.parametrize("only", ["tasks", "workers"])
def test_a_file_of_tokios_own_recorder_is_read_and_drawn(tmp_path: Path, only: str) -> None:
    source = SAMPLES / f"tokio-{only}.statemap"

    with pytest.raises(SystemExit) as left:
        main(["statemap", str(source), "-o", str(tmp_path / "drawn.svg")])
    assert left.value.code == 0
    colors = [state["color"].lower() for state in HEADERS[only]["states"].values()]
    assert all(color in (tmp_path / "drawn.svg").read_text().lower() for color in colors)
    payloads = [json.loads(line) for line in source.read_text().splitlines()]
    history = meantime.open(source)
    for name, each in states_of(payloads).items():
        intervals = history.intervals(history.quarks(name), history.start_ns, history.end_ns)
        read = [intervals[row].value for row in range(len(intervals))]
        assert [value for value in read if value is not None] == existing(each)
        # what has ended has no state until the end of the trace
        assert (read[-1] is None) == (existing(each) != each)
    assert "completed" not in history.shares("*").value.to_list()
    ended = sum(existing(each) != each for each in states_of(payloads).values())
    assert history.facts.get("completed", history.facts.get("stopped")) == str(ended)
    assert "completed" not in {row.key for row in meantime.stats(history, "state").rows}


def test_the_title_names_trio(tmp_path: Path) -> None:
    trio = pytest.importorskip("trio")

    with meantime.record(tmp_path / "run.mtr"):
        trio.run(trio.sleep, 0.001)
    assert converted(tmp_path, "tasks")[0]["title"] == "trio Task Execution"
