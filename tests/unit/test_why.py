"""`meantime why` and `stats --by thread`: what threads waited for, and how they got the CPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.query.scheduling import thread_scheduling

if TYPE_CHECKING:
    from pathlib import Path


def _switch(at: str, cpu: int, leaving: str, state: str, coming: str) -> str:
    (name, tid), (next_name, next_tid) = (each.rsplit("-", 1) for each in (leaving, coming))
    return (
        f" {leaving} [00{cpu}] {at}: sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120"
        f" prev_state={state} ==> next_comm={next_name} next_pid={next_tid} next_prio=120\n"
    )


def _wake(at: str, cpu: int, waker: str, woken: str) -> str:
    name, tid = woken.rsplit("-", 1)
    return (
        f" {waker} [00{cpu}] {at}: sched_wakeup: comm={name} pid={tid} prio=120"
        f" target_cpu=00{cpu}\n"
    )


# the app asks the database, which waits for the disk, and then for a batch job that has its CPU
TEXT = (
    _switch("1.000000", 0, "swapper-0", "R", "app-10")
    + _wake("1.001000", 0, "app-10", "db-20")
    + _switch("1.002000", 0, "app-10", "S", "db-20")
    + _switch("1.005000", 0, "db-20", "D", "batch-30")
    + " batch-30 [000] d.h. 1.010000: irq_handler_entry: irq=24 name=nvme0q1\n"
    + " batch-30 [000] d.h. 1.010000: sched_wakeup: comm=db pid=20 prio=120 target_cpu=000\n"
    + " batch-30 [000] d.h. 1.010100: irq_handler_exit: irq=24 ret=handled\n"
    + _switch("1.014000", 0, "batch-30", "R", "db-20")
    + _wake("1.016000", 0, "db-20", "app-10")
    + _switch("1.017000", 0, "db-20", "S", "app-10")
    + _switch("1.020000", 0, "app-10", "S", "batch-30")
    + _switch("1.021000", 0, "batch-30", "R", "swapper-0")
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.txt"
    path.write_text("# tracer: nop\n" + TEXT)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert not stopped.value.code, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code in {1, 2}
    return capsys.readouterr().err


def test_a_path_leads_to_what_a_request_waited_for(trace: Path) -> None:
    path = meantime.critical_path(meantime.open(trace), "app")
    parts = [
        (
            part["thread"],
            part["state"],
            part["because"],
            (part["end_ns"] - part["start_ns"]) // 1000,
        )
        for part in path.as_json()["path"]
    ]
    assert parts == [
        ("app (10)", "running", "", 2000),
        ("db (20)", "running", "", 3000),
        ("db (20)", "blocked", "interrupt nvme0q1", 5000),
        ("db (20)", "runnable", "CPU used by batch (30)", 4000),
        ("db (20)", "running", "", 2000),
        ("app (10)", "runnable", "CPU used by db (20)", 1000),
        ("app (10)", "running", "", 3000),
        ("app (10)", "sleeping", "still waits", 1000),
    ]
    assert path.to_arrow().num_rows == len(path)


def test_the_command_prints_shares_and_the_longest_parts(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run(capsys, "why", str(trace), "--thread", "10", "--to", "20ms", "-n", "2")
    assert "Why app (10) took 20ms from 0s to 20ms" in text
    assert "db (20)   blocked  25.0%" in text
    assert "more: --limit 0, 10ms in all" in text
    document = json.loads(run(capsys, "why", str(trace), "--thread", "app", "--json"))
    assert sum(row["total_ns"] for row in document["shares"]) == 21_000_001  # a switch lasts 1 ns
    drawn = tmp_path / "path.svg"
    run(capsys, "why", str(trace), "--thread", "^db", "-o", str(drawn))
    assert b"Critical path of db (20)" in drawn.read_bytes()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--thread", "nobody"), "no thread has the id or the name 'nobody'"),
        (("--thread", "a"), "'a' is 2 threads: app (10), batch (30); give an id"),
        (("--thread", "app", "-o", "path.png"), "-o 'path.png' does not end in .svg"),
        (("--thread", "app", "--json", "-o", "-"), "-o does not apply to --json"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    words: tuple[str, ...], error: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error in refused(capsys, "why", str(trace), *words)


def test_a_trace_without_a_scheduler_says_so(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = str(root / "examples" / "postgres.statemap.gz")
    assert "there are no states of threads" in refused(capsys, "why", example, "--thread", "1")


def test_statistics_by_thread_are_of_the_scheduler(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(run(capsys, "stats", str(trace), "--by", "thread", "--json"))
    rows = {row["thread"]: row for row in document["scheduling"]}
    assert rows["db (20)"] == {
        "thread": "db (20)",
        "run_ns": 6_000_000,
        "wait_ns": 1_000_000 + 4_000_000,
        "wakeups": 2,
        "mean_latency_ns": 2_500_000,
        "median_latency_ns": 1_000_000,
        "p90_latency_ns": 4_000_000,
        "p99_latency_ns": 4_000_000,
        "min_latency_ns": 1_000_000,
        "max_latency_ns": 4_000_000,
        "migrations": 0,
        "involuntary": 0,
        "switches": 2,
    }
    assert rows["batch (30)"]["involuntary"] == 2
    table = run(capsys, "stats", str(trace), "--by", "thread", "-f", "app")
    assert "How threads got the CPU" in table
    assert "batch" not in table
    assert "--whole applies to spans" in refused(
        capsys, "stats", str(trace), "--by", "thread", "--whole", "--lane", "Threads/10/Status"
    )


def test_a_range_counts_what_happened_in_it(trace: Path) -> None:
    history = meantime.open(trace)
    ms = 1_000_000
    found = thread_scheduling(history, start_ns=1_004 * ms, end_ns=1_015 * ms)
    rows = {row.thread: row for row in found.rows}
    assert found.range_ns == (1_004 * ms, 1_015 * ms)
    assert (rows["db (20)"].run_ns, rows["db (20)"].latency.count) == (2 * ms, 1)
    assert rows["app (10)"].run_ns == 0
