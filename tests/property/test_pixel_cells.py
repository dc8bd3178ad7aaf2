"""What short spans and states add up to in the cells of a tile, against plain definitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.pixel_columns import span_cells, state_cells

Span = tuple[int, int, int, int]
BINS, ROWS, STATES = 4, 3, 5


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    """Return spans: start, end, row and name."""
    size = st.integers(0, 40)
    rows, names = st.integers(0, ROWS - 1), st.integers(0, 3)
    drawn = draw(st.lists(st.tuples(st.integers(-30, 60), size, rows, names), max_size=20))
    return [(start, start + length, row, name) for start, length, row, name in drawn]


def columns(rows: list[Span], kinds: str) -> list[np.ndarray[Any, Any]]:
    """Return the columns of rows."""
    table = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [np.array(column, kind) for column, kind in zip(table, kinds, strict=True)]


def overlap(start: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(start, low))


@settings(max_examples=60)
@given(spans(), st.integers(0, 3), st.integers(-3, 3), st.integers(-(2**62), 2**62))
def test_spans_are_long_or_in_cells(
    drawn: list[Span], level: int, index: int, moved_ns: int
) -> None:
    width = 1 << level
    tile = index * BINS * width
    end_of_tile = tile + BINS * width
    start, end, row, name = columns(drawn, "qqii")
    chosen = np.arange(len(drawn), dtype=np.int32)

    wide, cell, covered, begun, longest = span_cells(
        start + moved_ns,
        end + moved_ns,
        row,
        name,
        chosen,
        tile + moved_ns,
        level,
        BINS,
        ROWS,
    )

    inside = [
        (number, *span)
        for number, span in enumerate(drawn)
        if span[0] < end_of_tile and (span[1] > tile or span[0] >= tile)
    ]
    assert wide.tolist() == [each[0] for each in inside if each[2] - each[1] >= width]
    expected_ns: Counter[int] = Counter()
    expected_begun: Counter[int] = Counter()
    longest_ns: dict[int, int] = {}
    touched = set()
    for _, a, b, at, _ in inside:
        if b - a >= width:
            continue
        for bin_ in range(BINS):
            low = tile + bin_ * width
            number = at * BINS + bin_
            begins = low <= a < low + width
            if begins or overlap(a, b, low, low + width):
                touched.add(number)
                expected_ns[number] += overlap(a, b, low, low + width)
                expected_begun[number] += begins
                longest_ns[number] = max(longest_ns.get(number, -1), b - a)
    assert cell.tolist() == sorted(touched)
    for number, ns, count, which in zip(
        cell.tolist(), covered.tolist(), begun.tolist(), longest.tolist(), strict=True
    ):
        assert (ns, count) == (expected_ns[number], expected_begun[number])
        names = {n for _, a, b, at, n in inside if b - a == longest_ns[number]}
        assert which in names
    # nothing is lost: what is covered is what the spans cover
    whole = sum(overlap(a, b, tile, end_of_tile) for _, a, b, _, _ in inside)
    long = [drawn[each] for each in wide.tolist()]
    clipped = sum(overlap(a, b, tile, end_of_tile) for a, b, _, _ in long)
    assert int(covered.sum()) + clipped == whole


@st.composite
def intervals(draw: st.DrawFn) -> list[Span]:
    """Return intervals of rows, which do not overlap within a row."""
    found = []
    for row in range(ROWS):
        time = draw(st.integers(-20, 10))
        for gap, length, state in draw(
            st.lists(
                st.tuples(st.integers(0, 5), st.integers(1, 12), st.integers(-1, STATES - 1)),
                max_size=8,
            )
        ):
            found.append((row, time + gap, time + gap + length, state))
            time += gap + length
    return found


@settings(max_examples=60)
@given(intervals(), st.integers(0, 3), st.integers(-2, 2))
def test_states_divide_the_cells_of_rows(drawn: list[Span], level: int, index: int) -> None:
    width = 1 << level
    tile = index * BINS * width
    row, start, end, code = columns(drawn, "iqqi")

    cell, shares, codes = state_cells(row, start, end, code, tile, level, BINS, STATES)

    expected: dict[int, Counter[int]] = {}
    for at, a, b, state in drawn:
        for bin_ in range(BINS):
            low = tile + bin_ * width
            ns = overlap(a, b, low, low + width)
            if ns and state >= 0:
                expected.setdefault(at * BINS + bin_, Counter())[state] += ns
    assert cell.tolist() == sorted(expected)
    for number, parts, states in zip(cell.tolist(), shares.tolist(), codes.tolist(), strict=True):
        times = sorted(expected[number].items(), key=lambda each: (-each[1], each[0]))
        left = width - sum(ns for _, ns in times)
        rest = sum(ns for _, ns in times[3:])

        def share(ns: int) -> int:
            return max(1, ns * 255 // width) if ns else 0

        top = [*(share(ns) for _, ns in times[:3]), 0, 0, 0][:3]
        assert parts == [share(left), *top, share(rest)]
        assert states == [*(state for state, _ in times[:3]), 0, 0, 0][:3]
