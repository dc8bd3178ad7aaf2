"""The nearest interval with a value or tag, and counts, compared with a search of all intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.history import HistoryBuilder, sealed, searching
from meantime.history.interval_filter import interval_filter
from meantime.history.joined import JoinedPart, join_parts
from meantime.history.source import Question
from meantime.history.store import Store
from meantime.kernels.interval_filter import count_matching, nearest_matching
from meantime.kernels.pyramid import build
from meantime.kernels.search import Segments
from meantime.kernels.tail import STR
from meantime.model.clocks import Clock
from meantime.model.columns import Coded
from meantime.testing import history_from_spans

if TYPE_CHECKING:
    from pathlib import Path
    from types import EllipsisType

    from meantime.history.history import History
    from meantime.history.results import Interval
    from meantime.model.columns import Int64s, Value

VALUES: dict[str, list[Value]] = {
    "text": ["on", "off", None],
    "number": [0, 1, 2**62, None],
    "real": [0.0, 1.0, 0.5, float("nan"), None],
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(VALUES)), st.integers(0, 4), st.integers(0, 9), st.integers(-1, 2)
    ),
    max_size=60,
)
ASKED = st.sampled_from(
    [..., None, "on", "off", "never", 0, 1, 0.0, 1.0, 0.5, float("nan"), 2**62, -7]
)


def built(steps: list[tuple[str, int, int, int]]) -> History:
    builder = HistoryBuilder()
    tags = [builder.tag({"n": n}) for n in range(3)]
    quarks = {name: builder.quark(name) for name in VALUES}
    now = 0
    for name, passed, value, tag in steps:
        now += passed
        values = VALUES[name]
        builder.modify(
            now, quarks[name], values[value % len(values)], tags[tag] if tag >= 0 else None
        )
    return builder.close(now + 5)


def matches(interval: Interval, value: Any, tag: int | None) -> bool:
    """The definition: the values are equal; so are 1 and 1.0, and NaN and NaN."""
    if tag is not None and interval.tag != tag:
        return False
    if value is ...:
        # a stretch without a state may have a tag
        return interval.value is not None or tag is not None
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - only NaN differs from itself
        return isinstance(interval.value, float) and interval.value != interval.value
    return bool(interval.value == value)


@pytest.mark.parametrize("rows", [(2**10, 2**19), (1, 0)])
@given(
    steps=STEPS,
    time=st.integers(0, 100),
    value=ASKED,
    tag=st.none() | st.integers(0, 2),
    chosen=st.lists(st.integers(0, 2), max_size=4),
)
def test_the_nearest_interval_is_that_of_all(  # noqa: PLR0917 - as drawn
    rows: tuple[int, int],
    steps: list[tuple[str, int, int, int]],
    time: int,
    value: Any,
    tag: int | None,
    chosen: list[int],
) -> None:
    history = built(steps)
    time %= history.end_ns
    intervals = [*history.intervals(chosen, history.start_ns, history.end_ns)] if chosen else []
    found = [each for each in intervals if matches(each, value, tag)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FIRST_ROWS", rows[0])
        patch.setattr(sealed, "_MANY_ROWS", rows[1])
        after = history.following(chosen, time, value=value, tag=tag)
        before = history.preceding(chosen, time, value=value, tag=tag)
        counts = history.count(chosen, time, value=value, tag=tag)

    later = [each for each in found if each.start_ns > time]
    earlier = [each for each in found if each.start_ns < time]
    assert repr(after) == repr(min(later, key=lambda each: each.start_ns, default=None))
    assert repr(before) == repr(max(earlier, key=lambda each: each.start_ns, default=None))
    expected = [
        sum(matches(each, value, tag) for each in history.intervals([quark], time))
        for quark in chosen
    ]
    assert counts.tolist() == expected
    assert counts.dtype == np.int64


@settings(max_examples=60)
@given(
    steps=st.lists(STEPS, min_size=2, max_size=2),
    offsets_ns=st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    time=st.integers(0, 100),
    value=ASKED | st.sampled_from(["inner", "outer"]),
    chosen=st.permutations(range(20)),
    tag_of=st.integers(0, 9),
)
def test_what_is_found_in_joined_histories_is_in_their_intervals(  # noqa: PLR0917 - as drawn
    steps: list[list[tuple[str, int, int, int]]],
    offsets_ns: list[int],
    time: int,
    value: Any,
    chosen: list[int],
    tag_of: int,
) -> None:
    spans = history_from_spans({"main": [("outer", 2, 30), ("inner", 5, 6), ("inner", 8, 20)]})
    parts = [
        JoinedPart(name, history, offset_ns, aligned=True)
        for name, history, offset_ns in zip(
            "abc", [built(steps[0]), spans, built(steps[1])], offsets_ns, strict=True
        )
    ]
    history = join_parts(parts, clock=Clock())
    # each part has strings and tags of its own, and some attributes are depths of spans
    quarks = [quark for quark in chosen if quark < len(history.attributes)]
    every = [*history.intervals(quarks, history.start_ns, history.end_ns)]
    tags = sorted({each.tag for each in every if each.tag is not None})
    tag = tags[tag_of] if tag_of < len(tags) else None
    found = [each for each in every if matches(each, value, tag)]
    time_ns = history.start_ns + time % (history.end_ns - history.start_ns)

    after = history.following(quarks, time_ns, value=value, tag=tag)
    before = history.preceding(quarks, time_ns, value=value, tag=tag)
    counts = history.count(quarks, time_ns, value=value, tag=tag)

    later = [each for each in found if each.start_ns > time_ns]
    earlier = [each for each in found if each.start_ns < time_ns]
    assert repr(after) == repr(min(later, key=lambda each: each.start_ns, default=None))
    assert repr(before) == repr(max(earlier, key=lambda each: each.start_ns, default=None))
    assert counts.tolist() == [
        sum(each.quark == quark and each.end_ns > time_ns for each in found) for quark in quarks
    ]


@pytest.mark.parametrize("backwards", [False, True])
def test_many_attributes_do_not_make_the_search_of_a_long_range_long(backwards: bool) -> None:  # noqa: FBT001 - a parameter
    builder = HistoryBuilder()
    quarks = [builder.quark(str(number)) for number in range(9)]
    for quark in quarks:
        builder.modify(2**60, quark, "on")
    builder.modify(2**61, quarks[4], "off")
    history = builder.close(2**62)

    with pytest.MonkeyPatch.context() as patch:
        # each window has an interval of each attribute
        patch.setattr(searching, "_FIRST_ROWS", 2)
        ask = history.preceding if backwards else history.following
        found = ask(quarks, 2**62 - 1 if backwards else 0, value="off")

    assert found is not None
    assert (found.quark, found.value) == (quarks[4], "off")


NAMES = ["a", "b", "c"]


def run_of(time_ns: Int64s, codes: Int64s) -> Segments:
    """One segment with these rows of one attribute, whose codes are those of `NAMES` plus one."""
    none, nothing = np.zeros(0, np.int64), np.zeros(0, np.uint8)
    rows = np.concatenate([(time_ns << 2 | codes).astype(np.uint32), np.zeros(2, np.uint32)])
    quarks, offsets = np.zeros(1, np.int32), np.array([0, len(time_ns)], np.uint32)
    carry = none, none, np.zeros(0, np.uint32)
    payload = np.zeros(0, np.uint64)
    segments = Segments()
    segments.append(
        0,
        4,
        2,
        2,
        False,
        quarks,
        offsets,
        *carry,
        nothing,
        none,
        rows.view(np.uint8),
        payload,
        none,
    )
    segments.start_ns, segments.end_ns = 0, int(time_ns[-1]) + 3
    return segments


def check_run(segments: Segments, value: Value | EllipsisType, begins_ns: list[int]) -> None:
    asked, quarks, kinds = (
        interval_filter(value, None, NAMES),
        np.zeros(1, np.int32),
        np.array([STR], np.uint8),
    )
    question = Question(quarks, quarks, kinds, 0, segments.end_ns)
    counts = count_matching(segments, question, asked)
    first = nearest_matching(segments, question, asked, backwards=False)
    last = nearest_matching(segments, question, asked, backwards=True)

    assert counts.tolist() == [len(begins_ns)]
    assert first == ((0, begins_ns[0]) if begins_ns else None)
    assert last == ((0, begins_ns[-1]) if begins_ns else None)


def test_states_that_were_replaced_at_once_are_not_found() -> None:
    """Older versions wrote segments with such rows."""
    segments = run_of(np.array([1, 5, 5, 7, 7]), np.array([2, 2, 1, 2, 3]))

    check_run(segments, "a", [5])
    check_run(segments, "b", [1])
    check_run(segments, "c", [7])
    check_run(segments, ..., [1, 5, 7])
    check_run(segments, None, [0])


@pytest.mark.parametrize("last", [0, 3])
def test_the_last_row_of_a_run_is_found_which_is_in_no_pyramid(last: int) -> None:
    time_ns = np.arange(5, 1005)
    codes = np.resize([1, 2], 1000)
    codes[-1] = last
    segments = run_of(time_ns, codes)
    segments.attach(0, **build(segments, 0, np.array([STR], np.uint8), 1004))

    check_run(segments, "a", time_ns[codes == 1].tolist())
    check_run(segments, "c", [1004] if last else [])
    check_run(segments, ..., time_ns[codes > 0].tolist())
    check_run(segments, None, [0] if last else [0, 1004])


ROWS = 4_000


def column(random: np.random.Generator, kind: str) -> Any:
    """Values that segments keep in each of their forms, among them some that are rare."""
    small = random.integers(0, 5, ROWS)
    small[random.integers(0, ROWS, 2)] = 6
    if kind == "strings":
        return Coded((small - 1).astype(np.int32), [f"s{code}" for code in range(6)])
    if kind == "strings without null":
        return Coded(small.astype(np.int32), [f"s{code}" for code in range(7)])
    if kind == "integers":
        return small + 2**40
    if kind == "long integers":
        return small * 2**59
    if kind == "doubles of integers":
        return small * 2.0**56
    return small / 3


@pytest.mark.parametrize(
    "kind",
    [
        "strings",
        "strings without null",
        "integers",
        "long integers",
        "doubles of integers",
        "doubles",
    ],
)
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_long_runs_in_all_forms_are_searched_as_their_intervals_are(
    kind: str,
    tagged: bool,  # noqa: FBT001 - a parameter
    wide: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Store.__init__, "__defaults__", (1_000,))
    random = np.random.default_rng(len(kind))
    builder = HistoryBuilder(tmp_path / "history.mth")
    quarks = [builder.quark(str(number)) for number in range(3)]
    tags = [builder.tag({"n": n}) for n in range(3)]
    # With tags, some changes of an attribute are at one time, of which the last one counts. Runs
    # with such changes have no durations, so the pyramids do not say what is in them.
    steps_ns = random.integers(0 if tagged else 1, 3, ROWS) * (2**48 if wide else 1)
    time_ns = np.cumsum(steps_ns)
    which = np.array(quarks, np.int32)[random.choice(3, ROWS, p=[0.9, 0.09, 0.01])]
    values = column(random, kind)
    tag_of = random.choice([-1, *tags], ROWS).astype(np.int32) if tagged else None
    builder.modify_many(time_ns, which, values, tag_of)
    builder.close(int(time_ns[-1]) + 9)
    history = meantime.open(tmp_path / "history.mth")
    every = [*history.intervals("*", history.start_ns, history.end_ns)]
    different = {repr(each.value): each.value for each in every}

    for sums in (False, True):
        if sums:
            monkeypatch.setattr(sealed, "_MANY_ROWS", 0)
        for value in (..., None, "never", 2**60 + 1, 2.0**60, 0.1, *different.values()):
            for tag in (None, tags[1], -1, 2**70) if tagged else (None, 99):
                check(history, random, every, value, tag)


def check(
    history: History,
    random: np.random.Generator,
    every: list[Interval],
    value: Any,
    tag: int | None,
) -> None:
    found = [each for each in every if matches(each, value, tag)]
    start_ns, end_ns = np.sort(random.integers(history.start_ns, history.end_ns, 2)).tolist()
    for from_ns, to_ns in ((start_ns, end_ns + 1), (history.start_ns, history.end_ns)):
        met = [each for each in found if each.start_ns < to_ns and each.end_ns > from_ns]
        counts = history.count("*", from_ns, to_ns, value=value, tag=tag)
        assert counts.tolist() == [sum(each.quark == quark for each in met) for quark in range(3)]
    later = [each for each in found if each.start_ns > start_ns]
    earlier = [each for each in found if each.start_ns < start_ns]
    after = history.following("*", start_ns, value=value, tag=tag)
    before = history.preceding("*", start_ns, value=value, tag=tag)
    assert repr(after) == repr(min(later, key=lambda each: each.start_ns, default=None))
    assert repr(before) == repr(max(earlier, key=lambda each: each.start_ns, default=None))
