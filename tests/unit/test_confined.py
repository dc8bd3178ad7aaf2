"""Statements of someone else: the same answers, and no more memory, time, files or network."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import UsageError
from meantime.query import confined
from meantime.query.confined import Confined
from meantime.query.sql import answer
from meantime.testing import history_from_picture

if TYPE_CHECKING:
    from meantime.history.history import History

pytest.importorskip("duckdb", reason="the extra [sql] is not installed")
pytest.importorskip("pyarrow", reason="the extra [sql] is not installed")

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux refuses this")


@pytest.fixture(scope="module")
def history() -> History:
    return history_from_picture("cpu0  aab.\ncpu1  .aba")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    confined._end_prepared()  # which has other limits
    monkeypatch.setattr(confined, "MOST_BYTES", 300_000_000)


def asked(history: History, statement: str, most_s: float | None = None) -> object:
    with Confined(statement, most_s=most_s).answer(history) as rows:
        return rows.arrow_batches().read_all()


@pytest.mark.parametrize(
    "statement",
    [
        "select path, value, start_ns from intervals join attributes using (quark) order by all",
        "select a.value, count(*) from intervals a, intervals b group by all order by all",
        "select * from attributes order by quark",
        "select 1 x where false",
        "select * from range(200000) t(x)",
        "select null a, 1.5 b, [1, 2] c, {'x': 'y'} d, date '2026-01-01' e",
    ],
)
def test_answers_are_those_of_this_process(history: History, statement: str) -> None:
    with answer(history, statement) as rows:
        here = rows.arrow_batches().read_all()

    assert asked(history, statement) == here


@pytest.mark.parametrize(
    "statement",
    [
        "select repeat('a', 2000000000)",
        "select length(repeat('a', 400000000) || repeat('a', 400000000))",
        "select list(range) from range(1000000000)",
    ],
)
def test_more_memory_is_refused_and_not_taken(history: History, statement: str) -> None:
    with pytest.raises(UsageError, match="needs more than 300 MB of memory"):
        asked(history, statement)


def test_time_ends_also_where_the_library_looks_at_no_interrupt(history: History) -> None:
    doubled = "".join(
        f", t{n + 1} as (select * from t{n} a, t{n} b)"  # noqa: S608 - of numbers
        for n in range(59)
    )

    with pytest.raises(UsageError, match="takes more than 1 s"):
        asked(history, f"with t0 as (select 1){doubled} from t59", most_s=1)  # noqa: S608 - as above


@pytest.mark.parametrize(
    "statement",
    [
        "from '{path}'",
        "select * from read_text('{path}')",
        "copy (select 1) to '{path}.new'",
        "attach '{path}.db'",
        "set memory_limit = '100GB'",
        "install httpfs",
        "select 1; select 2",
        "selec",
    ],
)
def test_files_settings_and_several_statements_are_refused(
    history: History, tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")

    with pytest.raises(UsageError) as refused:
        asked(history, statement.format(path=path))
    assert "memory" not in str(refused.value)
    assert [*tmp_path.iterdir()] == [path]


def test_an_answer_of_few_rows_is_small(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "_MOST_ANSWER", 1000)
    statement = Confined("select repeat('x', 2000)", most_rows=1, most_cell=2000)

    with pytest.raises(UsageError, match="has more than 1 kB"), statement.answer(history):
        pass


@LINUX
def test_a_library_starts_no_thread_before_it_is_confined() -> None:
    child = confined._Child()
    try:
        child._control.recv(1)  # it is ready
        status = Path(f"/proc/{child._process.pid}/task").glob("*/status")
        modes = {
            line for each in status for line in each.read_text().splitlines() if "Seccomp:" in line
        }
    finally:
        child.end()
    assert modes == {"Seccomp:\t2"}


TRY = """
import socket, os, sys
from meantime.confinement import confine
confine()
import graphlib  # a module that is imported late
for work in (
    lambda: open("/etc/hostname"), lambda: open({path!r}, "w"), lambda: os.listdir("/"),
    lambda: socket.socket(), lambda: os.kill(os.getppid(), 0), lambda: os.execv("/bin/true", ["x"]),
):
    try:
        work()
    except PermissionError:
        print("refused")
    else:
        print("allowed")
"""


@LINUX
def test_the_system_refuses_files_networks_and_other_programs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRY.format(path=str(tmp_path / "x"))],
        capture_output=True,
        text=True,
        check=True,
    )

    found = done.stdout.split()
    if found[0] == "allowed":
        pytest.skip("this kernel has no Landlock")
    assert found == ["refused"] * 6


def test_a_statement_is_stopped_by_another_thread(history: History) -> None:
    statement = Confined("select sum(a.range * b.range) from range(1000000) a, range(1000000) b")
    timer = threading.Timer(0.3, statement.stop)
    timer.start()

    with pytest.raises(UsageError, match="was stopped"), statement.answer(history):
        pass
    timer.join()


def held() -> set[object]:
    """Return the threads of this process, and its descriptors with what they are of."""
    files = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the list itself
            files.add((path, path.readlink()))
    return {*threading.enumerate(), *files}


@LINUX
def test_nothing_is_left_of_a_statement(history: History) -> None:
    asked(history, "select 1")
    before = held()

    for statement in ("select * from intervals", "selec", "select * from intervals limit 1"):
        try:
            asked(history, statement)
        except UsageError:
            continue

    until_s = time.monotonic() + 10
    # what earlier tests left may end meanwhile
    while held() - before and time.monotonic() < until_s:
        time.sleep(0.01)
    assert held() - before == set()


def test_a_process_that_was_prepared_answers_one_statement(history: History) -> None:
    confined.prepare()
    confined.prepare()
    assert len(confined._prepared) == 1

    asked(history, "select 1")

    assert not confined._prepared


def test_the_command_runs_statements_of_others(tmp_path: Path) -> None:
    path = tmp_path / "a.mth"
    meantime.build(
        Path(__file__).parents[2] / "examples" / "postgres.statemap.gz", path=path
    ).close()
    counted = "select count(*) n from intervals"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "meantime", "sql", str(path), *words],
            capture_output=True,
            text=True,
            check=False,
        )

    free, bound = (run(counted, "--json", *options) for options in ([], ["--confined"]))

    assert (bound.returncode, bound.stdout) == (0, free.stdout)
    refused = run(f"copy (select 1) to '{tmp_path}/x.csv'", "--confined")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert [*tmp_path.glob("*.csv")] == []
