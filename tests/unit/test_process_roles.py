"""The processes of a recording are told apart by what they are to each other."""

from __future__ import annotations

import numpy as np
import pytest

import meantime
from meantime.model.process_roles import described, described_processes, fact_name, role_in
from meantime.model.trace import StateChanges, Trace
from meantime.providers.tasks import lane_of
from meantime.query.groups import group_statistics
from meantime.readers.recording.facts import Facts
from meantime.readers.recording.listing import Process
from meantime.readers.recording.processes import kinship_of
from meantime.server.lanes import LaneTree

SPAWN = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7, pipe_handle={})"


def _process(pid: int, base_ns: int, parent: int = 0, *words: str) -> Process:
    facts = {"parent_pid": parent, "argv": list(words)} if words else {}
    return Process(pid, 0, facts=facts, base_ns=base_ns)


@pytest.mark.parametrize(
    ("given", "forked_from", "roles"),
    [
        (
            [
                _process(1, 10, 0, "/usr/bin/python", "-m", "uvicorn", "--workers", "2"),
                _process(2, 20, 1, "python", "-c", "import multiprocessing.resource_tracker"),
                _process(3, 40, 1, "python", "-c", SPAWN.format(9), "--multiprocessing-fork"),
                _process(4, 30, 1, "python", "-c", SPAWN.format(14), "--multiprocessing-fork"),
            ],
            {},
            ["", "resource tracker", "worker 2 of 2", "worker 1 of 2"],
        ),
        (
            [_process(1, 10, 0, "gunicorn"), _process(2, 20), _process(3, 30)],
            {2: (1, 0), 3: (1, 0)},
            ["", "worker 1 of 2", "worker 2 of 2"],
        ),
        (
            [_process(1, 10, 0, "python", "a.py"), _process(2, 20, 1, "python", "b.py")],
            {},
            ["", ""],
        ),
        # damaged: each the parent of the other, and one of itself
        (
            [_process(1, 10, 2, "x"), _process(2, 20, 1, "y"), _process(3, 30)],
            {3: (3, 0)},
            ["", "", ""],
        ),
    ],
)
def test_workers_are_numbered_in_order_of_their_begin(
    given: list[Process], forked_from: dict[int, tuple[int, int]], roles: list[str]
) -> None:
    facts = [Facts(0, None, forked_from.get(process.pid, (0, 0))) for process in given]

    assert [each.role for each in kinship_of(given, facts)] == roles


def test_a_description_of_another_trace_is_no_role() -> None:
    assert role_in({"process 7": "python app.py"}, "7") == ""
    assert described_processes({"title": "x"}) == []


def _history() -> meantime.History:
    """Return a recording of a server with two workers, of which one has started a process."""
    trace = Trace("run.mtr", "recording", iter(()))
    for label, of in {
        "1": described("", "", "python serve.py"),
        "2": described("worker 1 of 2", "1", ""),
        "3": described("worker 2 of 2", "1", ""),
        "4": described("", "3", "python job.py: started by 9"),
        "5": described("resource tracker", "1", ""),
        "6-1": described("", "6-2", "x"),
        "6-2": described("", "6-1", "y"),
    }.items():
        trace.facts[fact_name(label)] = of
    trace.paths += [
        ("Loops", "2 worker 1 of 2, MainThread 2"),
        ("Loops", "3 worker 2 of 2, MainThread 3"),
        ("Tasks", "main (a.py:1)", "2.1"),
        ("Tasks", "main (a.py:1)", "3.1"),
        ("Tasks", "job (j.py:1)", "4.1"),
        ("Loops", "6-1 MainThread 6"),
        ("Loops", "MainThread 7"),
    ]
    trace.values.append("running")
    trace.lanes += [lane_of("Tasks"), lane_of("Loops")]
    count = len(trace.paths)
    state, none = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    entity = np.arange(count, dtype=np.int32)
    trace.batches = iter(
        [
            StateChanges(np.full(count, 0, np.int64), entity, state, none),
            StateChanges(np.full(count, 9, np.int64), entity, none, none),
        ]
    )
    trace.bounds = (0, 10)
    return meantime.build(trace)


def test_processes_are_a_tree_of_lanes() -> None:
    tree = LaneTree.of(_history())

    found = []
    for lane in tree.lanes:
        depth, above = 0, lane.parent
        while above >= 0:
            depth, above = depth + 1, tree.lanes[above].parent
        found.append((depth, lane.kind, lane.name, lane.detail))
    assert found == [
        (0, "group", "python serve.py", "1"),
        (1, "group", "worker 1 of 2", "2"),
        (2, "group", "Event loops", ""),
        (3, "state", "MainThread 2", ""),
        (2, "group", "Tasks", ""),
        (3, "packed", "main", "a.py:1"),
        (1, "group", "worker 2 of 2", "3"),
        (2, "group", "Event loops", ""),
        (3, "state", "MainThread 3", ""),
        (2, "group", "Tasks", ""),
        (3, "packed", "main", "a.py:1"),
        (2, "group", "python job.py: started by 9", "4"),
        (3, "group", "Tasks", ""),
        (4, "packed", "job", "j.py:1"),
        (0, "group", "x", "6-1"),
        (1, "group", "Event loops", ""),
        (2, "state", "MainThread 6", ""),
        (0, "group", "Event loops", ""),
        (1, "state", "MainThread 7", ""),
    ]
    # the lanes of a process are those of all groups in it
    assert [tree.lanes[lane].name for lane in tree.below([6])] == ["MainThread 3", "main", "job"]


def test_statistics_of_processes_are_of_their_loops_and_tasks() -> None:
    rows = group_statistics(_history(), by="process").rows

    assert [(row.kind, row.key, row.count, row.total_ns) for row in rows] == [
        ("Loops", "2 worker 1 of 2", 1, 9),
        ("Loops", "3 worker 2 of 2", 1, 9),
        ("Loops", "6-1", 1, 9),
        ("Tasks", "2 worker 1 of 2", 1, 9),
        ("Tasks", "3 worker 2 of 2", 1, 9),
        ("Tasks", "4", 1, 9),
    ]


def test_blocks_of_a_loop_are_found_though_it_runs_on() -> None:
    trace = Trace("run.mtr", "recording", iter(()))
    trace.facts |= {fact_name(label): described("", "", "x") for label in ("1", "2")}
    trace.paths += [("Loops", "1 MainThread 1"), ("Tasks", "work", "1.1")]
    trace.values += ["running", "waiting:sleep", "parked"]
    trace.tags += [{"function": "slow", "stack": "slow (a.py:3)"}]
    trace.lanes += [lane_of("Loops"), lane_of("Tasks")]
    rows = [(0, 0, 2, -1), (0, 1, 1, -1), (95, 0, 0, -1), (100, 1, 0, -1), (102, 0, 0, 0)]
    rows += [(200, 0, 0, -1), (200, 1, 1, -1), (205, 0, 2, -1), (400, 0, -1, -1)]
    rows += [(400, 1, -1, -1)]
    time_ms, *columns = np.array(rows, np.int64).T
    entity, state, tag = (column.astype(np.int32) for column in columns)
    trace.batches = iter([StateChanges(time_ms * 10**6, entity, state, tag)])
    trace.bounds = (0, 400 * 10**6)

    found = group_statistics(meantime.build(trace), by="process").rows

    assert [(row.kind, row.block_ns) for row in found] == [
        ("Loops", {"slow (a.py:3)": 100 * 10**6}),
        ("Tasks", {"slow (a.py:3)": 100 * 10**6}),
    ]
