"""The processes of a recording are told apart by what they are to each other."""

from __future__ import annotations

import pytest

from meantime.process_roles import described_processes, role_in
from meantime.readers.recording.facts import Facts
from meantime.readers.recording.listing import Process
from meantime.readers.recording.processes import kinship_of

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
