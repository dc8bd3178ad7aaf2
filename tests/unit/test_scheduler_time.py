"""All time of CPUs is accounted for: each line proves that the thread it names ran there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.cli import main
from meantime.query.critical_path import critical_path
from meantime.query.statistics import state_statistics

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History


def line(name: str, tid: int, cpu: int, us: int, event: str) -> str:
    return f"  {name}-{tid} [{cpu:03}] d... 0.{us:06}: {event}\n"


def switch(
    us: int, cpu: int, leaving: tuple[str, int], letter: str, coming: tuple[str, int]
) -> str:
    fields = (
        f"sched_switch: prev_comm={leaving[0]} prev_pid={leaving[1]} prev_prio=120"
        f" prev_state={letter} ==> next_comm={coming[0]} next_pid={coming[1]} next_prio=120"
    )
    return line(*leaving, cpu, us, fields)


def waking(us: int, cpu: int, waker: tuple[str, int], tid: int, event: str = "waking") -> str:
    return line(*waker, cpu, us, f"sched_{event}: comm=t pid={tid} prio=120 target_cpu=000")


def read(tmp_path: Path, text: str, head: str = "# tracer: nop\n#\n") -> History:
    path = tmp_path / "a.ftrace"
    path.write_text(head + text)
    return meantime.open(path)


def states(history: History, *path: str) -> list[tuple[int, int, object]]:
    """Return the states of a thread or CPU, with times in microseconds."""
    return [
        (max(each.start_ns, history.bounds[0]) // 1000, each.end_ns // 1000, each.value)
        for each in history.intervals(history.quark(*path, "Status"), *history.bounds)
        if each.value is not None
    ]


IDLE, WEB, COMPUTE = ("<idle>", 0), ("web", 10), ("compute", 77)


def pinned() -> str:
    """A thread keeps CPU 1 to itself, which interrupts show, while CPU 0 switches."""
    lines = [switch(100, 1, IDLE, "R", COMPUTE)]
    for each in range(10_000, 600_000, 10_000):
        lines += [
            line(*COMPUTE, 1, each, "irq_handler_entry: irq=20 name=timer"),
            line(*COMPUTE, 1, each + 5, "irq_handler_exit: irq=20 ret=handled"),
            switch(each + 300, 0, *((IDLE, "R", WEB) if each // 10_000 % 2 else (WEB, "S", IDLE))),
        ]
    return "".join(lines)


def test_a_thread_that_keeps_its_cpu_runs_until_the_last_line_that_names_it(tmp_path: Path) -> None:
    history = read(tmp_path, pinned())

    assert states(history, "Threads", "77") == [
        (100, 590_005, "running"), (590_005, 590_300, "unknown"),
    ]  # fmt: skip
    totals = {
        (row.entity, row.key): row.total_ns
        for row in state_statistics(history, by="entity").rows
        if row.entity == "CPUs/1/Status"
    }
    assert totals == {
        ("CPUs/1/Status", "user"): 589_905_000 - 59 * 5_000,
        ("CPUs/1/Status", "irq"): 59 * 5_000,
        ("CPUs/1/Status", "unknown"): 295_001,
    }
    # a share of 0.05 % is no anomaly; CPU 0 has no line before 10.3 ms
    assert history.facts["unknown time"] == "1.7% of CPU 0"


def test_the_text_of_whole_buffers_says_what_ran_until_its_end(tmp_path: Path) -> None:
    for head in ("cpus=2\n", "# entries-in-buffer/entries-written: 178/178   #P:2\n"):
        history = read(tmp_path, pinned(), head)

        assert states(history, "Threads", "77") == [(100, 590_300, "running")]
        assert "unknown" not in [state for *_, state in states(history, "CPUs", "0")]
        assert history.anomalies["unknown_time"] == 0


def test_a_buffer_that_was_overwritten_begins_with_what_is_unknown(tmp_path: Path) -> None:
    head = "# entries-in-buffer/entries-written: 178/900   #P:2\n"
    history = read(tmp_path, pinned(), head)

    assert states(history, "CPUs", "0")[0] == (100, 10_300, "unknown")


def test_all_units_of_time_of_two_cpus_are_known(tmp_path: Path) -> None:
    """The processes and times of a published fixture for analyses of CPU usage."""
    one, two, three, four = (("p", each) for each in range(1, 5))
    text = (
        switch(1, 0, one, "R", two)
        + switch(2, 1, three, "R", four)
        + switch(5, 1, four, "R", three)
        + switch(10, 1, three, "R", four)
        + switch(15, 1, four, "R", one)
        + switch(20, 1, one, "R", four)
        + switch(20, 0, two, "R", three)
        + switch(25, 0, three, "R", two)
    )
    history = read(tmp_path, text, "cpus=2\n")

    running = {
        str(row.entity): row.total_ns // 1000
        for row in state_statistics(history, by="entity").rows
        if row.key == "running" and str(row.entity).startswith("Threads")
    }
    assert running == {
        "Threads/1/Status": 5,
        "Threads/2/Status": 19,
        "Threads/3/Status": 11,
        "Threads/4/Status": 13,
    }
    assert sum(running.values()) == 48


def test_a_thread_that_only_wakes_others_runs(tmp_path: Path) -> None:
    text = switch(100, 0, IDLE, "R", ("t", 5)) + "".join(
        waking(each, 0, ("t", 5), 6) for each in range(200, 10_000, 500)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "5") == [(100, 9_700, "running")]


def test_what_ran_before_the_first_switch_is_known_from_the_first_line(tmp_path: Path) -> None:
    text = (
        switch(100, 1, IDLE, "R", WEB)
        + line(*COMPUTE, 0, 200, "x: y=1")
        + line(*COMPUTE, 0, 300, "x: y=1")
        + switch(400, 0, COMPUTE, "S", IDLE)
        + line(*IDLE, 0, 500, "x: y=1")
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "77")[0] == (200, 400, "running")
    assert states(history, "CPUs", "0") == [
        (100, 200, "unknown"), (200, 400, "user"), (400, 500, "idle"),
    ]  # fmt: skip
    running = history.state(history.quark("Threads", "77", "Status"), 300_000)
    assert running.tag is not None
    # no switch says with which priority it came
    assert history.tags[running.tag] == {"cpu": 0, "name": "compute"}


def test_a_thread_that_was_brought_by_a_lost_switch_runs_where_lines_name_it(
    tmp_path: Path,
) -> None:
    text = (
        switch(100, 0, IDLE, "R", WEB)
        + line(*WEB, 0, 150, "x: y=1")
        + line(*COMPUTE, 0, 300, "x: y=1")
        + line(*COMPUTE, 0, 400, "x: y=1")
        + switch(600, 0, WEB, "S", IDLE)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "10") == [
        (100, 150, "running"), (150, 600, "unknown"), (600, 600, "sleeping"),
    ]  # fmt: skip
    assert states(history, "Threads", "77") == [(300, 400, "running"), (400, 600, "unknown")]
    assert history.anomalies["lost_switch"] == 2
    assert [tuple(each) for each in history.lost] == [(150_000, 300_000), (400_000, 600_000)]


def test_lines_of_a_switch_that_is_being_made_prove_nothing(tmp_path: Path) -> None:
    text = (
        switch(100, 0, IDLE, "R", WEB)
        + switch(200, 0, WEB, "S", COMPUTE)
        + line(*WEB, 0, 201, "x: y=1")
        + line(*COMPUTE, 0, 210, "x: y=1")
        + switch(300, 0, COMPUTE, "S", IDLE)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "77")[0] == (200, 300, "running")
    assert history.anomalies["lost_switch"] == 0


def test_samples_without_switches_say_nothing_of_the_time_between_them(tmp_path: Path) -> None:
    text = "".join(line(*WEB, 0, each, "x: y=1") for each in (100, 200, 300))
    history = read(tmp_path, text)

    assert history.quarks("CPUs/*/Status").tolist() == []
    assert history.quarks("Threads/*/Status").tolist() == []


def test_a_thread_woken_before_it_leaves_waits_for_a_cpu(tmp_path: Path) -> None:
    text = (
        switch(100, 0, IDLE, "R", ("t", 5))
        + switch(100, 1, IDLE, "R", WEB)
        + waking(110, 1, WEB, 5)
        + switch(112, 0, ("t", 5), "S", IDLE)
        + switch(120, 0, IDLE, "R", ("t", 5))
        + switch(130, 0, ("t", 5), "S", IDLE)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "5")[:3] == [
        (100, 112, "running"), (112, 120, "runnable"), (120, 130, "running"),
    ]  # fmt: skip
    ready = history.state(history.quark("Threads", "5", "Status"), 115_000)
    assert ready.tag is not None
    assert history.tags[ready.tag]["waker"] == "web (10)"
    assert history.flows().from_ns.tolist() == [110_000]


@pytest.mark.parametrize(
    "between",
    [
        # it was put on a queue while it ran, so it did not sleep
        waking(111, 1, WEB, 5, "wakeup"),
        # or goes on and sleeps later, from which another wake-up follows
        "",
    ],
)
def test_a_wake_up_of_a_thread_that_goes_on_running_is_not_for_its_next_sleep(
    tmp_path: Path, between: str
) -> None:
    text = (
        switch(100, 0, IDLE, "R", ("t", 5))
        + switch(100, 1, IDLE, "R", WEB)
        + waking(110, 1, WEB, 5)
        + between
        + switch(200, 0, ("t", 5), "S", IDLE)
        + waking(250, 1, WEB, 5)
        + switch(260, 0, IDLE, "R", ("t", 5))
        + switch(300, 0, ("t", 5), "S", IDLE)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "5")[:4] == [
        (100, 200, "running"), (200, 250, "sleeping"), (250, 260, "runnable"),
        (260, 300, "running"),
    ]  # fmt: skip
    assert history.flows().from_ns.tolist() == [250_000]


def test_unknown_time_is_in_tables_and_in_critical_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        switch(0, 0, IDLE, "R", WEB)
        + line(*WEB, 0, 400, "x: y=1")
        + switch(600, 0, COMPUTE, "S", WEB)
        + switch(1000, 0, WEB, "S", IDLE)
    )
    history = read(tmp_path, text)

    path = critical_path(history, "10", end=1_000_000)
    assert [(row.state, row.total_ns) for row in path.shares()] == [
        ("running", 800_000),
        ("unknown", 200_000),
    ]
    with pytest.raises(SystemExit, match="0"):
        main(["stats", str(tmp_path / "a.ftrace"), "--by", "entity"])
    assert "CPUs/0/Status  unknown  200us  20.00%" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["info", str(tmp_path / "a.ftrace")])
    found = capsys.readouterr()
    assert "20.0% of CPU 0" in found.out
    assert "unknown_time" in found.out


def test_a_process_id_that_is_used_again_is_another_thread(tmp_path: Path) -> None:
    first, parent, new, second = ("first", 77), ("w", 6), ("w", 77), ("second", 77)
    text = (
        switch(100, 0, IDLE, "R", first)
        + switch(160, 0, first, "X", IDLE)
        + line(*parent, 1, 410, "sched_wakeup_new: comm=w pid=77 prio=120 target_cpu=000")
        + switch(500, 0, IDLE, "R", new)
        + line(*second, 0, 520, "x: y=1")
        + switch(600, 0, second, "X", IDLE)
        + switch(700, 0, IDLE, "R", ("third", 77))
        + switch(800, 0, ("third", 77), "S", IDLE)
    )
    history = read(tmp_path, text)

    assert states(history, "Threads", "77") == [(100, 160, "running")]
    assert states(history, "Threads", "77#2") == [(410, 500, "runnable"), (500, 600, "running")]
    assert states(history, "Threads", "77#3")[0] == (700, 800, "running")
    names = [
        history.names[history.quark("Threads", each, "Status")] for each in ("77", "77#2", "77#3")
    ]
    assert names == ["first", "w", "third"]
    on_cpu = history.intervals(history.quark("CPUs", "0", "Thread"), *history.bounds)
    assert {"first (77)", "w (77)", "third (77)"} <= set(on_cpu.value.to_list())


def test_marks_of_an_id_that_is_used_again_are_of_each_thread(tmp_path: Path) -> None:
    """What the second thread with an id writes to `trace_marker` is not what the first one did."""

    def marked(us: int, name: str, text: str) -> str:
        return line(name, 77, 0, us, f"tracing_mark_write: {text}")

    history = read(
        tmp_path,
        switch(100, 0, ("swapper/0", 0), "R", ("first", 77))
        + marked(110, "first", "B|77|old") + marked(120, "first", "E|77")
        + switch(150, 0, ("first", 77), "X", ("swapper/0", 0))
        + switch(200, 0, ("swapper/0", 0), "R", ("second", 77))
        + marked(210, "second", "B|77|new") + marked(230, "second", "E|77")
        + switch(250, 0, ("second", 77), "S", ("swapper/0", 0)),
    )  # fmt: skip

    spans = history.spans()
    whose = [history.attributes.path(spans.thread_at(row))[-1] for row in range(len(spans))]
    assert dict(zip(spans.name.to_list(), whose, strict=True)) == {"old": "77", "new": "77#2"}
