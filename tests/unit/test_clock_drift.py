"""Clocks that drift: the line between the bounds of messages, and histories with other times."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime import Clock, HistoryBuilder
from meantime.errors import InputError
from meantime.history.retimed import RetimedHistory
from meantime.model.clocks import MOST_DRIFT_PPT, ClockShift
from meantime.query.aligning import Clocked, Message, align_all
from meantime.query.clock_lines import clock_line
from meantime.view_functions.joining import write_join

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history import History

MS = 10**6
S = 10**9
PPT = 10**12

drifts = st.integers(-MOST_DRIFT_PPT, MOST_DRIFT_PPT)
times = st.integers(-(2**61), 2**61)


@given(st.integers(-(2**60), 2**60), drifts, times, st.lists(times, max_size=9))
def test_times_are_converted_exactly_and_back(
    offset_ns: int, drift_ppt: int, at_ns: int, some_ns: list[int]
) -> None:
    shift = ClockShift(offset_ns, drift_ppt, at_ns // 8)
    converted = shift.of_all(np.array(some_ns, np.int64)).tolist()
    assert converted == [shift.of(each) for each in some_ns]
    for each in some_ns:
        exact = each + offset_ns + Fraction((each - at_ns // 8) * drift_ppt, PPT)
        assert 0 <= exact - shift.of(each) < 1
        first_ns = shift.first_at(each)
        assert shift.of(first_ns - 1) < each <= shift.of(first_ns)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-9, 9)), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 50), st.integers(-9, 9)), min_size=1, max_size=9),
)
def test_a_line_is_found_if_there_is_one(
    most: list[tuple[int, int]], least: list[tuple[int, int]]
) -> None:
    unit = 10**6
    most = [(at * S, bound * unit) for at, bound in most]
    least = [(at * S, bound * unit) for at, bound in least]
    # each pair of bounds allows a range of drifts, and a line is one that all of them allow
    low, high = Fraction(-1, 1000), Fraction(1, 1000)
    is_possible = True
    for above_at, above in most:
        for below_at, below in least:
            if above_at == below_at:
                is_possible &= above >= below
            elif above_at > below_at:
                high = min(high, Fraction(above - below, above_at - below_at))
            else:
                low = max(low, Fraction(below - above, below_at - above_at))
    line = clock_line(most, least)
    assert (line is not None) == (is_possible and low <= high)
    if line is None:
        return
    shift = line.shift
    assert (shift.drift_ppt == 0) == (low <= 0 <= high)
    for at_ns, bound in most:
        assert shift.of(at_ns) - at_ns <= bound + 1
    for at_ns, bound in least:
        assert shift.of(at_ns) - at_ns >= bound - 1


def _packets(drift_ppt: int, *, seed: int = 1, length_ns: int = 20 * S) -> list[Message]:
    """Return messages between a clock and another one, which is 80 ms behind and drifts."""
    random = Random(seed)  # noqa: S311 - of test data
    found = []
    shift = ClockShift(80 * MS, drift_ppt, 0)
    for _ in range(400):
        at_ns = random.randrange(length_ns)
        took_ns = 50_000 + int(random.expovariate(1 / 100_000))
        if random.random() < 0.5:
            found.append(Message(1, at_ns, 0, shift.of(at_ns) + took_ns))
        else:
            found.append(Message(0, shift.of(at_ns) - took_ns, 1, at_ns))
    return found


_UTC = [Clocked(Clock("realtime", utc_at_origin_ns=0), 0)] * 2


@pytest.mark.parametrize("drift_ppt", [60 * 10**6, -60 * 10**6])
def test_drifting_clocks_are_aligned_everywhere(drift_ppt: int) -> None:
    messages = _packets(drift_ppt)
    found = align_all(_UTC, messages=messages)[1]
    assert found.how == "messages"
    assert found.contradicted_ns > 79 * MS
    assert found.drift_ppt == pytest.approx(drift_ppt, rel=0.1)
    assert found.error_ns is not None
    right = ClockShift(80 * MS, drift_ppt, 0)
    for at_ns in range(S, 19 * S, S):
        assert abs(found.shift.of(at_ns) - right.of(at_ns)) <= min(found.error_ns, 100_000)
    # no message arrives before it was sent
    for sender, sent_ns, receiver, received_ns in messages:
        to, back = (ClockShift(0) if index == 0 else found.shift for index in (receiver, sender))
        assert to.of(received_ns) >= back.of(sent_ns) - 1


def test_a_drift_that_nothing_proves_is_none() -> None:
    # 46 packets of a file copy, in 120 ms: Trace Compass extrapolates a slope of 0.99994 from such
    messages = _packets(60 * 10**6, length_ns=120 * MS)
    found = align_all(_UTC, messages=messages)[1]
    assert (found.drift_ppt, found.how) == (0, "messages")
    assert abs(found.offset_ns - 80 * MS) < 100_000


def test_a_step_of_a_clock_is_no_drift() -> None:
    messages = [Message(0, at, 1, at - 80 * MS) for at in range(0, S, 100 * MS)]
    messages += [Message(1, at - 80 * MS, 0, at + MS) for at in range(0, S, 100 * MS)]
    messages += [Message(0, at, 1, at) for at in range(S, 2 * S, 100 * MS)]
    messages += [Message(1, at, 0, at + MS) for at in range(S, 2 * S, 100 * MS)]
    found = align_all(_UTC, messages=messages)[1]
    assert (found.drift_ppt, found.contradicted_ns) == (0, 80 * MS)


def test_a_host_may_follow_from_one_that_drifts_itself() -> None:
    first = _packets(60 * 10**6)
    # the clock of the third is unknown, and only the second one exchanged messages with it
    second = [
        Message(1 + sender, sent_ns, 1 + receiver, received_ns)
        for sender, sent_ns, receiver, received_ns in _packets(-30 * 10**6, seed=2)
    ]
    inputs = [*_UTC, Clocked(Clock(), 0)]
    found = align_all(inputs, messages=[*first, *second])
    assert [each.drift_ppt for each in found[1:]] == [
        pytest.approx(60 * 10**6, abs=10**7),
        pytest.approx(30 * 10**6, abs=2 * 10**7),
    ]
    assert found[2].offset_ns == pytest.approx(160 * MS, abs=400_000)


def _history(seed: int, *, dense: bool) -> History:
    random = Random(seed)  # noqa: S311 - of test data
    builder = HistoryBuilder(clock=Clock("realtime", utc_at_origin_ns=0))
    quarks = [builder.quark("t", str(each)) for each in range(4)]
    thread = builder.quark("Threads", "7")
    at_ns = 100
    for _ in range(300):
        at_ns += random.choice([1, 1, 2, 3] if dense else [10**6, 7 * 10**6, 10**8])
        builder.modify(at_ns, random.choice(quarks), random.choice(["a", "b", None]))
        if random.random() < 0.2:
            builder.add_spans([thread], ["work"], [at_ns], [at_ns + random.randrange(5)])
    return builder.close(at_ns + 10)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("drift_ppt", [MOST_DRIFT_PPT, -MOST_DRIFT_PPT, 60 * 10**6, -1])
def test_a_converted_history_answers_as_its_intervals_say(
    monkeypatch: pytest.MonkeyPatch, drift_ppt: int, *, dense: bool
) -> None:
    monkeypatch.setattr("meantime.history.retimed._MOST_ROWS", 40)
    history = _history(drift_ppt % 97, dense=dense)
    shift = ClockShift(-50, drift_ppt, 1000)
    found = RetimedHistory(history, shift, Clock())
    assert (found.start_ns, found.end_ns) == (
        shift.of(history.start_ns),
        shift.of(history.end_ns - 1) + 1,
    )
    for quark in range(4):
        expected = HistoryBuilder(start_ns=found.start_ns)
        attribute = expected.quark("x")
        for each in history.intervals([quark + 1], history.start_ns, history.end_ns):
            if each.start_ns > history.start_ns:
                expected.modify(shift.of(each.start_ns), attribute, each.value)
        one = expected.close(found.end_ns)
        rows = [
            (each.start_ns, each.end_ns, each.value)
            for each in one.intervals([attribute], one.start_ns, one.end_ns)
        ]
        assert [
            (each.start_ns, each.end_ns, each.value)
            for each in found.intervals([quark + 1], found.start_ns, found.end_ns)
        ] == rows
        shares, right = (
            found.shares([quark + 1], found.start_ns, bins=7),
            one.shares([attribute], one.start_ns, bins=7),
        )
        for bin_ in range(7):
            assert shares.cell(quark + 1, bin_) == right.cell(attribute, bin_)
    spans, own = found.spans(), history.spans()
    assert spans.start_ns.tolist() == [shift.of(each) for each in own.start_ns.tolist()]
    assert spans.end_ns.tolist() == [shift.of(each) for each in own.end_ns.tolist()]
    low, high = found.start_ns + 100, found.start_ns + 200
    inside = [
        (start, end)
        for start, end in zip(spans.start_ns.tolist(), spans.end_ns.tolist(), strict=True)
        if start < high and (end > low or start == end == low)
    ]
    selected = found.spans(start_ns=low, end_ns=high)
    assert [*zip(selected.start_ns.tolist(), selected.end_ns.tolist(), strict=True)] == inside


def _hosts(folder: Path) -> list[Path]:
    paths = []
    for name in ("a", "b"):
        builder = HistoryBuilder(folder / f"{name}.mth", clock=Clock("realtime", None, None, 0))
        state = builder.quark("cpu")
        for at_ns in range(0, 20 * S, S):
            builder.modify(at_ns, state, "busy" if at_ns // S % 2 else "idle")
        builder.close(20 * S)
        paths.append(folder / f"{name}.mth")
    return paths


def test_a_joined_history_has_the_times_that_messages_allow(tmp_path: Path) -> None:
    paths = _hosts(tmp_path)
    joined = meantime.join(paths, messages=_packets(60 * 10**6))
    fact = joined.facts["aligned by messages"]
    assert fact.startswith("b (its clock loses 6")
    assert "us each second, within " in fact
    assert "messages contradict its clock by 8" in fact
    assert joined.anomalies["clock_contradicted"] == 1
    starts = [each.start_ns for each in joined.intervals("Hosts/b/cpu") if each.value is not None]
    for index, start_ns in enumerate(starts):
        right_ns = index * S + 80 * MS + index * 60_000
        assert abs(start_ns - right_ns) < 150_000
    again = pickle.loads(pickle.dumps(joined))  # noqa: S301 - it was just made
    assert [each.start_ns for each in again.intervals("Hosts/b/cpu") if each.value is not None] == (
        starts
    )


def test_a_file_keeps_the_drift(tmp_path: Path) -> None:
    path = tmp_path / "both.mtj"
    hosts, _ = write_join(path, _hosts(tmp_path))
    content = json.loads(path.read_text())
    assert content["version"] == 1
    content["version"] = 2
    content["hosts"][1] |= {"drift_ppt": 100 * 10**6, "drift_at_ns": 0}
    path.write_text(json.dumps(content))
    joined = meantime.open(path)
    starts = [each.start_ns for each in joined.intervals("Hosts/b/cpu") if each.value is not None]
    assert starts == [index * S + index * 100_000 for index in range(20)]
    content["hosts"][1]["drift_ppt"] = 2 * MOST_DRIFT_PPT
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="2000000000 is not a drift of a clock"):
        meantime.open(path)
    assert [host.drift_ppt for host in hosts] == [0, 0]
