"""Programs that become others, lose privileges or find no room are recorded, or it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.readers.recording.live import LiveActivity

sys.path.insert(0, str(Path(__file__).parent))
from reading import SETGID, SETUID, is_capable, read

if TYPE_CHECKING:
    from reading import Recorded

WORK = """
import asyncio, os, sys
async def work():
    for _ in range(50):
        await asyncio.sleep(0)
"""
NOBODY = 65534


def _record(
    tmp_path: Path, code: str, *options: str, limit: str = ""
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "app.py").write_text(f"{WORK}#\n{code}")
    words = [sys.executable, "-m", "meantime", "record", "-o", "run.mtr", *options, "--"]
    if limit:
        words += ["sh", "-c", f'{limit}; exec "$@"', "sh"]
    return subprocess.run(
        [*words, sys.executable, "app.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(meantime.__file__).parents[1])},
    )


def _workers(recorded: Recorded) -> list[str]:
    """Return the numbers of the tasks that `WORK` defines."""
    return sorted(path[2] for path in recorded.changes if path[1].startswith("work "))


def test_a_program_that_executes_itself_again_is_two(tmp_path: Path) -> None:
    code = (
        "asyncio.run(work())\n"
        "print(os.getpid(), flush=True)\n"
        "if len(sys.argv) < 3: os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])\n"
    )

    done = _record(tmp_path, code, "-q")

    pid = done.stdout.split()[0]
    assert done.stdout == f"{pid}\n" * 3
    recorded = read(tmp_path / "run.mtr")
    lives = [f"{pid}-{number}" for number in range(3)]
    loops = [path[1] for path in recorded.changes if path[0] == "Loops"]
    assert sorted(loops) == [f"{life} MainThread {pid}" for life in lives]
    assert _workers(recorded) == [f"{life}.1" for life in lives]
    for life, live in pairwise(lives):
        ends = [changes[-1] for path, changes in recorded.changes.items() if life in path[-1]]
        begins = [changes[0] for path, changes in recorded.changes.items() if live in path[-1]]
        assert {state for _, state, _ in ends} == {None}
        assert max(time_ns for time_ns, _, _ in ends) <= min(time_ns for time_ns, _, _ in begins)
    # a history takes no change out of order
    history = meantime.open(tmp_path / "run.mtr")
    assert dict(history.anomalies) == {}
    assert len(list(history.lanes)) == 3


def test_fork_and_then_exec_is_recorded(tmp_path: Path) -> None:
    # the child's first task is its first event, and is spawned where the parent spawned none
    code = (
        "asyncio.run(work())\n"
        "if not (child := os.fork()):\n"
        "    asyncio.run(work())\n"
        "    os.execv(sys.executable, [sys.executable, '-c', open('app.py').read().split('#')[0]\n"
        "             + 'asyncio.run(work())'])\n"
        "os.waitpid(child, 0)\n"
        "asyncio.run(work())\n"
        "print(child)\n"
    )

    done = _record(tmp_path, code, "-q")

    assert done.stderr == ""
    child = done.stdout.strip()
    history = meantime.open(tmp_path / "run.mtr")
    assert dict(history.anomalies) == {}
    tasks = _workers(read(tmp_path / "run.mtr"))
    assert len(tasks) == 4
    assert f"{child}-1.1" in tasks
    assert len([task for task in tasks if task.startswith(f"{child}-0.")]) == 1


def test_a_process_that_gets_no_file_counts_what_it_loses(tmp_path: Path) -> None:
    # a stream's tail has 132 kB, and 64 are allowed
    done = _record(tmp_path, "asyncio.run(work())\nprint('ran')", limit="ulimit -f 64")

    assert done.stdout == "ran\n"
    trace = read(tmp_path / "run.mtr").trace
    lost = trace.anomalies["records_lost"]
    assert lost > 100
    ((from_ns, until_ns),) = trace.lost
    assert trace.bounds is not None
    assert 0 <= from_ns < until_ns < trace.bounds[1]
    lines = done.stderr.splitlines()
    assert lines[0] == "meantime: run.mtr: the recording cannot be read"
    assert lines[1].startswith(f"  {lost:,} records_lost: ")
    assert lines[2] == "  the first file that could not be written: File too large"
    assert len(lines) == 3
    history = meantime.open(tmp_path / "run.mtr")
    assert history.anomalies["records_lost"] == lost
    assert list(history.lost) == [(from_ns, until_ns)]


@pytest.mark.skipif(not is_capable(SETGID, SETUID), reason="has no privileges to drop")
@pytest.mark.parametrize("fork", [False, True], ids=["itself", "child"])
def test_a_process_that_drops_its_privileges_counts_what_it_loses(
    tmp_path: Path, *, fork: bool
) -> None:
    drop = f"os.setgid({NOBODY}); os.setuid({NOBODY}); asyncio.run(work()); os._exit(0)\n"
    code = drop if not fork else f"if not (child := os.fork()):\n    {drop}os.waitpid(child, 0)\n"

    done = _record(tmp_path, code)

    assert done.returncode == 0
    assert "the first file that could not be written: Permission denied" in done.stderr
    live = LiveActivity(tmp_path / "run.mtr")
    live.update()
    # each of 50 steps begins, waits and is woken
    assert live.lost >= 150
    assert read(tmp_path / "run.mtr").trace.anomalies["records_lost"] == live.lost


@pytest.mark.skipif(not is_capable(SETGID, SETUID), reason="has no privileges to drop")
def test_what_was_begun_before_privileges_are_dropped_is_recorded_on(tmp_path: Path) -> None:
    code = f"asyncio.run(work()); os.setgid({NOBODY}); os.setuid({NOBODY}); asyncio.run(work())"

    done = _record(tmp_path, code, "-q")

    assert done.stderr == ""
    assert len(_workers(read(tmp_path / "run.mtr"))) == 2


@pytest.mark.parametrize(
    "policy", [("--max-size", "1M"), ("--policy", "ring", "--ring-size", "1M")]
)
def test_a_busy_loop_is_running_although_its_beginning_is_gone(
    tmp_path: Path, policy: tuple[str, ...]
) -> None:
    # it never waits, so that nothing but its beginning says that it runs
    code = "async def main():\n    await asyncio.gather(*[work() for _ in range(900)])\n"

    _record(tmp_path, code + "asyncio.run(main())", "-q", *policy)

    recorded = read(tmp_path / "run.mtr")
    assert recorded.trace.anomalies["records_rotated"] or recorded.trace.anomalies["records_lost"]
    ((path, changes),) = [item for item in recorded.changes.items() if item[0][0] == "Loops"]
    states = [state for _, state, _ in changes]
    assert states[0] in {"running", "lost"}
    step_ns = sorted(
        time_ns
        for path, changes in recorded.changes.items()
        for time_ns, _, _ in changes
        if path[0] == "Tasks"
    )
    middle_ns = step_ns[len(step_ns) // 2]
    # counted in steps, as a slow machine may take any time to end the process
    assert min(time_ns for time_ns, state, _ in changes if state == "running") <= middle_ns, path
    assert all(time_ns > middle_ns for time_ns, state, _ in changes if state == "stopped"), path


def test_the_summary_names_the_process_that_was_not_recorded(tmp_path: Path) -> None:
    done = _record(
        tmp_path,
        "import subprocess\n"
        "changed = os.environ['MEANTIME_RECORDING'].replace('cpython-', 'other-')\n"
        "child = subprocess.Popen([sys.executable, '-c', ''],\n"
        "                         env={**os.environ, 'MEANTIME_RECORDING': changed})\n"
        "child.wait(); print(child.pid)\n"
        "asyncio.run(work())\n",
    )

    own = ".".join(map(str, sys.version_info[:2]))
    assert (
        f"  process {done.stdout.strip()} was not recorded: it is Python "
        f"{own}.{sys.version_info[2]}; meantime is installed for Python {own}"
    ) in done.stderr.splitlines()
    assert read(tmp_path / "run.mtr").trace.anomalies["process_not_recorded"] == 1


INTERPRETERS = """
import asyncio, sys, threading

def create_and_run(code):
    if sys.version_info >= (3, 14):
        from concurrent import interpreters
        interpreters.create().exec(code)
        return
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    interpreters.run_string(interpreters.create(), code)

async def main():
    code = "import time; print(7, flush=True); time.sleep(0.05)"
    for _ in range(3):
        await asyncio.to_thread(create_and_run, code)

asyncio.run(main())
"""


@pytest.mark.parametrize("variables", [{}, {"MEANTIME": "1"}])
def test_other_interpreters_are_left_alone_and_named_once(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "app.py").write_text(INTERPRETERS)
    record = [sys.executable, "-m", "meantime", "record", "-o", "run.mtr", "--"]
    done = subprocess.run(
        [*record, sys.executable, "app.py"],
        cwd=tmp_path,
        env={**os.environ, **variables, "PYTHONPATH": str(Path(meantime.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    assert done.stdout == "7\n7\n7\n"
    said = [line for line in done.stderr.splitlines() if "interpreter" in line]
    assert len(said) == 2
    recorded = read(tmp_path / "run.mtr")
    assert dict(recorded.trace.anomalies) == {"interpreters_not_recorded": 1}
    # what their threads wait for is recorded
    assert recorded.times("Workers")["sleeping"] > 120_000_000
