"""Rectangles without times are drawn and written as those with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.testing.statemaps import panel, statemap
from meantime.views.statemap.data import UnmergedRectangles
from meantime.views.statemap.document import render as render_json
from meantime.views.statemap.svg import render

ROWS = {"disk0": "abc", "disk1": "cab"}
TAGS = ({"tag": "x"}, {"tag": "y"})
LENGTH = st.integers(1, 400)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 9), LENGTH, st.integers(0, 2), st.integers(-1, 1)
        ),
        max_size=30,
    ),
    st.booleans(),
    st.sampled_from([2, 10]),
)
def test_pages_are_the_same_with_the_times_of_each_rectangle(
    drawn: list[tuple[int, int, int, int, int]],
    tagged: bool,  # noqa: FBT001 - hypothesis passes it
    row_px: int,
) -> None:
    drawn.sort(key=lambda one: one[0])
    start, end, state, tag = [], [], [], []
    time, last = 0, 0
    for row, gap, length, of_state, of_tag in drawn:
        time = gap + (time if row == last else 0)
        start.append(time)
        time, last = time + length, row
        end.append(time)
        state.append(of_state)
        tag.append(of_tag)
    rows = [one[0] for one in drawn]
    unmerged = UnmergedRectangles(
        np.searchsorted(rows, [0, 1, 2]).astype(np.int64),
        np.array(start, np.int64),
        np.array(end, np.int64),
        np.array(state, np.int32),
        np.array(tag, np.int32) if tagged else None,
    )
    blank = panel(ROWS, end_ns=max(end, default=1), tags=TAGS)
    one, other = (
        statemap(replace(blank, rectangles=held), state_height_px=row_px)
        for held in (unmerged, unmerged.with_times())
    )

    assert render(one) == render(other)
    assert render_json(one) == render_json(other)
    shown = unmerged.with_times()
    parts = zip(shown.tag_offsets[:-1].tolist(), shown.tag_offsets[1:].tolist(), strict=True)
    assert [shown.tag_index[first:last].tolist() for first, last in parts] == [
        [index] if tagged and index >= 0 else [] for index in tag
    ]
    assert shown.state_ns.tolist() == [b - a for a, b in zip(start, end, strict=True)]
    assert shown.tag_ns.sum() == sum(
        b - a for a, b, index in zip(start, end, tag, strict=True) if tagged and index >= 0
    )
