"""The states of threads that follow from switches agree with a plain definition of them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meantime.providers.sched import thread_states

NAMES = {"R": "runnable", "S": "sleeping", "D": "blocked", "+": "preempted", "?": "?"}


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
)
Change = tuple[int, int, "str | None", int]


def definition(switches: list[Switch]) -> tuple[list[Change], list[tuple[int, int]]]:
    changes: list[Change] = []
    lost = []
    for cpu in sorted({switch.cpu for switch in switches}):
        own = sorted((each for each in switches if each.cpu == cpu), key=lambda each: each.time_ns)
        for switch, after in pairwise([*own, None]):
            assert switch is not None
            runs = after is not None and after.leaving == switch.coming
            if after is not None and not runs:
                lost.append((switch.time_ns, after.time_ns))
            changes.append((switch.time_ns, switch.leaving, NAMES[switch.letter], -1))
            changes.append(
                (switch.time_ns, switch.coming, "running" if runs else None, cpu if runs else -1)
            )
    changes = [change for change in changes if change[1]]  # thread 0 is the idle task
    return sorted(changes, key=lambda change: change[0]), lost


@given(SWITCHES)
def test_threads_are_in_the_states_that_switches_say(switches: list[Switch]) -> None:
    columns = [
        np.array(column, np.int64)
        for column in zip(
            *((s.time_ns, s.cpu, s.leaving, ord(s.letter), s.coming) for s in switches), strict=True
        )
    ] or [np.empty(0, np.int64)] * 5

    found = thread_states(*columns)

    rows = zip(
        *(column.tolist() for column in (found.time_ns, found.tid, found.state, found.cpu)),
        strict=True,
    )
    states = [
        (time_ns, tid, found.names[state] if state >= 0 else None, cpu)
        for time_ns, tid, state, cpu in rows
    ]
    assert (states, found.lost) == definition(switches)
