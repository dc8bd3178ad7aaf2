"""The nearest interval with a value or tag, and counts, compared with a search of all intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.history import HistoryBuilder, searching

if TYPE_CHECKING:
    from meantime.columns import Value
    from meantime.history.history import History
    from meantime.history.results import Interval

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
        return interval.value is not None
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - only NaN differs from itself
        return isinstance(interval.value, float) and interval.value != interval.value
    return bool(interval.value == value)


@pytest.mark.parametrize("rows", [(2**10, 2**19), (1, 1)])
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
    intervals = [*history.intervals(chosen)] if chosen else []
    found = [each for each in intervals if matches(each, value, tag)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_FIRST_ROWS", rows[0])
        patch.setattr(searching, "_MOST_ROWS", rows[1])
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
        patch.setattr(searching, "_MOST_ROWS", 4)
        ask = history.preceding if backwards else history.following
        found = ask(quarks, 2**62 - 1 if backwards else 0, value="off")

    assert found is not None
    assert (found.quark, found.value) == (quarks[4], "off")
