"""The states that follow from records of switches agree with a plain definition of them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import linux_records
from meantime.providers.sched import scheduling_of, state_name

NAMES = {"R": "runnable", "S": "sleeping", "D": "blocked", "+": "preempted", "?": "?", "X": None}


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
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3)

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
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3)

    last = {(row[0], row[1]): state_name(row[2]) for row in found.threads.tolist()}
    for switch in switches:
        # a switch from a thread to itself leaves it running, or it is unknown
        if switch.leaving and switch.coming != switch.leaving:
            is_unknown = comes_unseen(switches, switch.leaving, switch.time_ns)
            expected = None if is_unknown else NAMES[switch.letter]
            assert last[switch.time_ns, switch.leaving] == expected


@given(SWITCHES)
def test_a_cpu_has_the_state_of_its_thread_unless_that_is_unknown(switches: list[Switch]) -> None:
    found = scheduling_of(records_of(switches), np.arange(4), ["a"], 3)
    expected, lost = running(switches)

    for time_ns, cpu, state, thread, _, _ in found.cpus.tolist():
        known = (thread, cpu) in {(each[0], each[1]) for each in expected if each[2] == time_ns}
        if state < 0:
            assert not known
        elif thread:
            assert known
            assert state == 1
        else:
            assert state == 0
            assert time_ns not in {each[0] for each in lost}
