"""A growing history answers about states at once as it would once its changes are sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.history import HistoryBuilder
from meantime.history.live import LiveStates
from meantime.history.store import Store
from meantime.testing.strategies import changes

if TYPE_CHECKING:
    from meantime.testing.strategies import Change

QUARKS = 4


@given(
    script=changes(quarks=QUARKS, tags=0),
    segment_changes=st.sampled_from([1, 2, 3, 8, 1000]),
    step=st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_states_of_now_are_those_of_a_snapshot(
    script: list[Change], segment_changes: int, step: int
) -> None:
    builder = HistoryBuilder(start_ns=-5)
    builder.contents.store = Store(builder.contents.refuse, segment_changes)
    for quark in range(QUARKS):
        builder.quark(str(quark))
    history = builder.history
    for number, (time_ns, quark, value, tag) in enumerate(script):
        builder.modify(time_ns, quark, value, tag)
        if number % step:
            continue
        snapshot = history.snapshot()

        assert (history.start_ns, history.end_ns) == (snapshot.start_ns, snapshot.end_ns)
        edges = {change.time_ns for change in script[: number + 1]} | {snapshot.start_ns}
        times = [
            each
            for each in sorted({edge + by for edge in edges for by in (-1, 0)})
            if snapshot.start_ns <= each < snapshot.end_ns
        ]
        asked = [quark] * len(times)
        assert repr([*history.states(asked, times)]) == repr([*snapshot.states(asked, times)])
        if time_ns in times:
            assert repr(history.state(quark, time_ns)) == repr(snapshot.state(quark, time_ns))
        for each in times[-2:]:
            assert repr([*history.at(each)]) == repr([*snapshot.at(each)])


def test_a_snapshot_stays_and_the_present_is_not_sealed() -> None:
    builder = HistoryBuilder()
    quark = builder.quark("disk")
    builder.modify(0, quark, "idle")
    history = builder.history
    then = history.snapshot()
    builder.modify(10, quark, "busy")
    builder.modify(20, builder.quark("other"), 3)

    assert isinstance(builder.present().segments, LiveStates)
    assert [then.state(quark, 0).value, then.end_ns, len(then.intervals([quark]))] == ["idle", 1, 1]
    assert [history.state("disk", time_ns).value for time_ns in (9, 10, 20)] == [
        "idle",
        "busy",
        "busy",
    ]
    assert history.states([quark, 1], np.array([9, 20])).end_ns.tolist() == [10, 21]
    built = builder.close()
    assert built.snapshot() is built
    assert then.intervals([quark]).end_ns.tolist() == [1]
