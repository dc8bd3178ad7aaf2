"""Critical paths against a definition by recursion, on traces that a random scheduler writes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from meantime import critical_path
from meantime.history import HistoryBuilder

if TYPE_CHECKING:
    from meantime.history import History

END = 120
WAITS = {"sleeping", "blocked"}


class Trace(NamedTuple):
    history: History
    states: dict[str, list[str | None]]  # by thread, its state in each nanosecond
    wakes: dict[tuple[str, int], str]  # by thread and time, who woke it
    users: dict[int, list[str]]  # by CPU, what ran on it in each nanosecond


def schedule(
    chance: random.Random, now: dict[str, str], on: dict[int, str | None], cpu_of: dict[str, int]
) -> list[tuple[str, str]]:
    """Let threads wake others, wait, be preempted and run; return who woke whom."""
    wakes = []
    for cpu, thread in on.items():
        if thread is None or chance.random() < 0.5:
            continue
        waiting = [each for each in now if now[each] in WAITS]
        if waiting and chance.random() < 0.7:
            woken = chance.choice(waiting)
            now[woken] = "runnable"
            cpu_of[woken] = cpu
            wakes.append((thread, woken))
        elif chance.random() < 0.6:
            now[thread] = chance.choice(["sleeping", "blocked", "preempted"])
            on[cpu] = None
    if all(state in WAITS for state in now.values()):
        # an interrupt: nobody is known to have woken this one
        now[chance.choice(list(now))] = "runnable"
    for cpu, thread in on.items():
        ready = [each for each in now if now[each] in {"runnable", "preempted"}]
        if thread is None and ready and chance.random() < 0.7:
            on[cpu] = came = chance.choice(ready)
            now[came] = "running"
            cpu_of[came] = cpu
    return wakes


def scheduled(seed: int) -> Trace:
    """Return what a scheduler of two CPUs and four threads did."""
    chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
    threads = ["1", "2", "3", "4"]
    states: dict[str, list[str | None]] = {each: [] for each in threads}
    users: dict[int, list[str]] = {0: [], 1: []}
    wakes: dict[tuple[str, int], str] = {}
    builder = HistoryBuilder()
    quark = {each: builder.quark("Threads", each, "Status") for each in threads}
    lanes = {cpu: builder.quark("CPUs", str(cpu), "Thread") for cpu in users}
    now: dict[str, str] = dict.fromkeys(threads, "runnable")
    on: dict[int, str | None] = {0: None, 1: None}
    cpu_of = {each: int(each) % 2 for each in threads}
    flows: list[tuple[int, str, str]] = []
    for time_ns in range(END):
        for waker, woken in schedule(chance, now, on, cpu_of):
            wakes[woken, time_ns] = waker
            flows.append((time_ns, waker, woken))
        for each in threads:
            state: str | None = None if chance.random() < 0.005 else now[each]
            states[each].append(state)
            has_cpu = state in {"running", "runnable"}
            tag = builder.tag({"cpu": cpu_of[each]}) if has_cpu else None
            builder.modify(time_ns, quark[each], state, tag)
        for cpu, thread in on.items():
            users[cpu].append("idle" if thread is None else thread)
            builder.modify(time_ns, lanes[cpu], users[cpu][-1])
    times = [time_ns for time_ns, _, _ in flows]
    builder.add_flows(
        [quark[waker] for _, waker, _ in flows],
        times,
        [quark[woken] for _, _, woken in flows],
        times,
        ["wakes"] * len(flows),
    )
    return Trace(builder.close(END), states, wakes, users)


def expected(
    trace: Trace, thread: str, start: int, end: int, waiting: tuple[str, ...] = ()
) -> list[tuple[str, str, int]]:
    """Return thread, state and depth for each nanosecond of [start, end), by recursion."""
    states = trace.states[thread]
    found: list[tuple[str, str, int]] = []
    time_ns = start
    while time_ns < end:
        last = time_ns
        while last < end and states[last] == states[time_ns]:
            last += 1
        state = states[time_ns]
        is_ended = last == END or states[last - 1] != states[last]
        waker = trace.wakes.get((thread, last)) if state in WAITS and is_ended else None
        if waker is not None and waker not in waiting and waker != thread:
            found += expected(trace, waker, time_ns, last, (*waiting, thread))
        else:
            found += [(thread, state or "unknown", len(waiting))] * (last - time_ns)
        time_ns = last
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_critical_path_is_what_its_definition_says(seed: int) -> None:
    trace = scheduled(seed)
    chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
    for thread in "1", "2":
        start = chance.randrange(END - 1)
        end = chance.randrange(start + 1, END + 1)
        path = critical_path(trace.history, thread, start=start, end=end)
        assert path.range_ns == (start, end)
        assert path.start_ns[0] == start
        assert path.end_ns[-1] == end
        assert (path.start_ns[1:] == path.end_ns[:-1]).all()
        # a wait that lasts beyond the end is followed to what ended it
        later = end
        state = trace.states[thread][end - 1]
        while state in WAITS and later < END and trace.states[thread][later] == state:
            later += 1
        whole = expected(trace, thread, start, later)
        drawn = [
            (path.titles[owner], state, depth)
            for begin, finish, owner, state, depth in zip(
                path.start_ns.tolist(),
                path.end_ns.tolist(),
                path.thread.tolist(),
                path.state.to_list(),
                path.depth.tolist(),
                strict=True,
            )
            for _ in range(finish - begin)
        ]
        assert drawn == whole[: end - start]
        assert sum(row.total_ns for row in path.shares()) == end - start
        assert path.history().bounds == (start, end)


def test_a_thread_that_is_ready_waits_for_what_uses_its_cpu() -> None:
    seen = set()
    for seed in range(20):
        trace = scheduled(seed)
        path = critical_path(trace.history, "1", start=0, end=END)
        for begin, finish, state, because in zip(
            path.start_ns.tolist(),
            path.end_ns.tolist(),
            path.state.to_list(),
            path.because.to_list(),
            strict=True,
        ):
            if state not in {"runnable", "preempted"}:
                continue
            who = (because or "").removeprefix("CPU used by ").removeprefix("CPU ")
            seen.add(who)
            if who != "use unknown":
                used = [
                    {users[time_ns] for users in trace.users.values()}
                    for time_ns in range(begin, finish)
                ]
                assert all(who in each for each in used)
    assert {"idle", "2", "3"} <= seen
