"""The states that follow from records of switches agree with a plain definition of them."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plain_scheduling import Line, proven_runs

import meantime
from meantime.kernels import linux_records
from meantime.providers.sched import CPU_STATES, scheduling_of, state_name
from meantime.readers import ftrace
from meantime.readers.contract import ReadOptions
from meantime.readers.source import Source

NAMES = {
    "R": "runnable",
    "S": "sleeping",
    "D": "blocked",
    "+": "preempted",
    "?": "unknown",
    "X": None,
}
RANGE_NS = (0, 100)


class Switch(NamedTuple):
    time_ns: int
    cpu: int
    leaving: int
    letter: str
    coming: int


SWITCHES = st.lists(
    st.builds(
        Switch,
        st.integers(0, 20),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from(sorted(NAMES)),
        st.integers(0, 3),
    ),
    max_size=15,
    unique_by=lambda switch: switch.time_ns,
)


def records_of(switches: list[Switch]) -> np.ndarray:
    rows = np.zeros(len(switches), linux_records.RECORD_TYPE)
    rows["value"] = -1
    for row, switch in zip(rows, switches, strict=True):
        row["time_ns"], row["cpu"], row["kind"] = switch.time_ns, switch.cpu, linux_records.SWITCH
        row["thread"], row["other"] = switch.leaving, switch.coming
        row["number"] = ord(switch.letter)
    return rows


def running(switches: list[Switch]) -> tuple[set[tuple[int, int, int, int]], list[tuple[int, int]]]:
    """Return (thread, CPU, from, to) where two switches of a CPU agree, and what is lost."""
    found, lost = set(), []
    for cpu in sorted({switch.cpu for switch in switches}):
        own = sorted(each for each in switches if each.cpu == cpu)
        for switch, after in pairwise(own):
            # on another CPU in between: one of the switches there was not recorded
            elsewhere = any(
                switch.time_ns < each.time_ns < after.time_ns
                and each.cpu != cpu
                and switch.coming in {each.leaving, each.coming}
                for each in switches
            )
            if after.leaving != switch.coming or (switch.coming and elsewhere):
                lost.append((switch.time_ns, after.time_ns))
            elif switch.coming:
                found.add((switch.coming, cpu, switch.time_ns, after.time_ns))
    return found, lost


def comes_unseen(switches: list[Switch], thread: int, time_ns: int) -> bool:
    """Return whether a thread next leaves a CPU to which it may have come at `time_ns`, unseen."""
    later = sorted(
        each
        for each in switches
        if each.time_ns > time_ns and thread in {each.leaving, each.coming}
    )
    if not later or later[0].leaving != thread:
        return False
    before = [
        each for each in switches if each.cpu == later[0].cpu and each.time_ns < later[0].time_ns
    ]
    return not before or max(before).time_ns <= time_ns


@given(SWITCHES)
def test_threads_run_where_two_switches_agree_and_are_unknown_elsewhere(
    switches: list[Switch],
) -> None:
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3, range_ns=RANGE_NS)

    runs = set()
    for thread in range(1, 4):
        own = [row for row in found.threads.tolist() if row[1] == thread]
        assert [row[0] for row in own] == sorted(row[0] for row in own)
        for (start_ns, _, state, tag, _), (end_ns, *_) in pairwise(own):
            if state_name(state) == "running":
                runs.add((thread, int(found.tags[tag][0]), start_ns, end_ns))
        assert not own or state_name(own[-1][2]) != "running"
    expected, lost = running(switches)
    assert runs == expected
    stretches = zip(found.lost["from_ns"].tolist(), found.lost["to_ns"].tolist(), strict=True)
    assert sorted(stretches) == sorted(lost)


@given(SWITCHES)
def test_a_thread_that_leaves_is_in_the_state_of_its_letter(switches: list[Switch]) -> None:
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3, range_ns=RANGE_NS)

    last = {(row[0], row[1]): state_name(row[2]) for row in found.threads.tolist()}
    for switch in switches:
        # a switch from a thread to itself leaves it running, or it is unknown
        if switch.leaving and switch.coming != switch.leaving:
            is_unknown = comes_unseen(switches, switch.leaving, switch.time_ns)
            expected = "unknown" if is_unknown and switch.letter != "X" else NAMES[switch.letter]
            assert last[switch.time_ns, switch.leaving] == expected


@given(SWITCHES)
def test_a_cpu_has_the_state_of_its_thread_unless_that_is_unknown(switches: list[Switch]) -> None:
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3, range_ns=RANGE_NS)
    expected, lost = running(switches)

    for time_ns, cpu, state, thread, _, _ in found.cpus.tolist():
        known = (thread, cpu) in {(each[0], each[1]) for each in expected if each[2] == time_ns}
        if CPU_STATES[state] == "unknown":
            assert thread == -1
            assert not known
        elif thread:
            assert known
            assert state == 1
        else:
            assert state == 0
            assert time_ns not in {each[0] for each in lost}


@st.composite
def lines_of_cpus(draw: st.DrawFn) -> list[Line]:
    """Lines of two CPUs, each with threads of its own; what they say need not agree."""
    lines = []
    for time_ns in sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=25))):
        cpu = draw(st.integers(0, 1))
        threads = st.sampled_from([0, 2 * cpu + 1, 2 * cpu + 2])
        leaving = draw(threads)
        switch = (leaving, draw(threads)) if draw(st.booleans()) else None
        lines.append(Line(time_ns, cpu, leaving, switch))
    return lines


def text_of(lines: list[Line], *, is_whole: bool) -> bytes:
    rows = ["cpus=2"] if is_whole else ["# tracer: nop"]
    for line in lines:
        event = "x: y=1"
        if line.switch is not None:
            leaving, coming = line.switch
            event = (
                f"sched_switch: prev_comm=t prev_pid={leaving} prev_prio=1 prev_state=S"
                f" ==> next_comm=t next_pid={coming} next_prio=1"
            )
        rows.append(f"t-{line.thread} [{line.cpu:03}] 1.{line.time_ns:09}: {event}")
    return "\n".join([*rows, ""]).encode()


@given(lines=lines_of_cpus(), is_whole=st.booleans())
@settings(deadline=None)
def test_what_lines_prove_is_known_and_all_else_is_unknown(
    lines: list[Line], *, is_whole: bool
) -> None:
    assume(any(line.switch for line in lines))
    source = Source("x", BytesIO(text_of(lines, is_whole=is_whole)))
    history = meantime.build(ftrace.read(source, ReadOptions()))

    begin_ns, end_ns = history.bounds
    found = set()
    for cpu in {line.cpu for line in lines}:
        own = history.intervals(history.quark("CPUs", str(cpu), "Thread"), begin_ns, end_ns)
        status = history.intervals(history.quark("CPUs", str(cpu), "Status"), begin_ns, end_ns)
        known_ns = unknown_ns = 0
        for each in own:
            start_ns = max(each.start_ns, begin_ns)
            if each.value is not None:
                known_ns += each.end_ns - start_ns
                times = (start_ns - 10**9, each.end_ns - 10**9)
                found.add((cpu, str(each.value), *times))
        for each in status:
            # every nanosecond has a state
            assert each.value is not None or each.end_ns <= begin_ns
            unknown_ns += (each.end_ns - each.start_ns) * (each.value == "unknown")
        assert known_ns + unknown_ns == end_ns - begin_ns
    runs = proven_runs(lines, (begin_ns - 10**9, end_ns - 10**9), is_whole=is_whole)
    names = {each.thread: f"t ({each.thread})" if each.thread else "idle" for each in runs}
    assert found == {(each.cpu, names[each.thread], each.from_ns, each.to_ns) for each in runs}
