"""Comparisons and the cells of their heat maps, against definitions and what scipy computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meantime
from meantime.model.units import bin_edge
from meantime.query.compare.certainty import adjusted, changes
from meantime.query.compare.folds import folds
from meantime.query.compare.runs import compared
from meantime.query.parts import part_of
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.query.compare import ComparedRow, Comparison
    from meantime.query.compared_by import By

# Runs before, runs after, and the p-value of `scipy.stats.permutation_test` (scipy 1.17.1) of the
# difference of means: independent, two-sided, n_resamples=inf.
SCIPY = [
    ([120.4, 74.4, 104.2], [94.3, 95.5, 97.8, 79.8], 0.457142857143),
    ([97.7, 91.3, 133.2, 102.3], [126.5, 127.2, 123.3, 119.4], 0.142857142857),
    ([96.1, 104.8, 97.6, 109.6, 98.0], [108.2, 123.5, 113.5, 102.9, 106.2], 0.063492063492),
    ([105.4, 119.4, 97.3, 97.6, 110.0], [131.1, 137.1, 148.8, 145.8, 140.9], 0.007936507937),
    ([106.7, 71.7, 110.2, 90.4, 83.3, 102.8], [82.0, 70.6, 64.2, 75.3], 0.038095238095),
    (
        [99.5, 114.1, 107.5, 101.9, 111.1, 97.9],
        [102.7, 117.8, 117.8, 109.9, 104.2, 114.3],
        0.160173160173,
    ),
]
# The same p-values by `scipy.stats.false_discovery_control(method="bh")`.
SCIPY_CORRECTED = [
    *(0.457142857143, 0.192207792208, 0.126984126984),
    *(0.047619047622, 0.114285714285, 0.192207792208),
]


@pytest.mark.parametrize(("before", "after", "expected"), SCIPY)
def test_probabilities_are_those_of_scipy(
    before: list[float], after: list[float], expected: float
) -> None:
    assert changes(np.array([before]), np.array([after])).probability[0] == pytest.approx(expected)


def test_corrected_probabilities_are_those_of_scipy() -> None:
    found = adjusted(np.array([expected for *_, expected in SCIPY]))

    assert found.tolist() == pytest.approx(SCIPY_CORRECTED)


@st.composite
def of_states(draw: st.DrawFn) -> History:
    rows = draw(st.lists(st.text("ab.", min_size=6, max_size=6), min_size=1, max_size=3))
    return history_from_picture(
        "\n".join(f"disk{number}  {row}a" for number, row in enumerate(rows))
    )


@st.composite
def of_spans(draw: st.DrawFn) -> History:
    spans, time = [("outer", 0, 60)], 0
    for name, length in draw(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=6)
    ):
        spans.append((name, time, time + length))
        time += length
    return history_from_spans({"main": spans, "worker-1": spans[:1]})


def check(before: list[History], after: list[History], by: By) -> None:
    there, back = (
        meantime.compare(before, after, by=by),
        meantime.compare(after, before, by=by),
    )

    for whole in there.wholes:
        own = [row for row in there.rows if row.key[: len(whole.key)] == whole.key]
        assert sum(row.change or 0 for row in own) == pytest.approx(whole.change)
        for runs in ("runs_before", "runs_after"):
            sums = np.sum([getattr(row, runs) for row in own], axis=0)
            assert sums.tolist() == pytest.approx(list(getattr(whole, runs)))
    opposite = rows_of(back)
    assert opposite.keys() == rows_of(there).keys()
    for key, row in rows_of(there).items():
        other = opposite[key]
        assert other.change == pytest.approx(-(row.change or 0))
        assert (other.before, other.after) == (row.after, row.before)
        assert (other.runs_before, other.runs_after) == (row.runs_after, row.runs_before)
        assert (other.probability, other.corrected) == (row.probability, row.corrected)


def rows_of(found: Comparison) -> dict[tuple[str, ...], ComparedRow]:
    return {row.key: row for row in found.rows}


@settings(max_examples=25)
@given(
    st.lists(of_states(), min_size=1, max_size=5),
    st.lists(of_states(), min_size=1, max_size=5),
    st.sampled_from(["state", "entity"]),
)
def test_of_states_rows_add_up_and_exchanged_sides_are_opposite(
    before: list[History], after: list[History], by: By
) -> None:
    check(before, after, by)


@settings(max_examples=25)
@given(
    st.lists(of_spans(), min_size=1, max_size=5),
    st.lists(of_spans(), min_size=1, max_size=5),
    st.sampled_from(["name", "thread", "lane", "stack"]),
)
def test_of_spans_rows_add_up_and_exchanged_sides_are_opposite(
    before: list[History], after: list[History], by: By
) -> None:
    check(before, after, by)


@settings(max_examples=25)
@given(
    st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=3),
    st.lists(st.text("ab", min_size=1, max_size=9), min_size=1, max_size=3),
    st.integers(1, 6),
)
def test_cells_of_a_heat_map_are_the_means_of_each_nanosecond(
    before: list[str], after: list[str], period: int
) -> None:
    sides = [
        [part_of(history_from_picture(f"disk0  {row}"), None, None) for row in side]
        for side in (before, after)
    ]
    found = compared(sides[0], sides[1])
    drawn = folds(sides[0], sides[1], found, period)

    assert drawn is not None
    columns, rows = drawn.before.shape
    assert columns * period >= max(map(len, [*before, *after]))
    for side, means in zip((before, after), (drawn.before, drawn.after), strict=True):
        for cell in range(columns * rows):
            low, high = (
                bin_edge(0, columns * period, columns * rows, each) for each in (cell, cell + 1)
            )
            there = [row[low:high] for row in side if row[low:high]]
            mean = means[divmod(cell, rows)]
            if not there:
                assert np.isnan(mean)
            else:
                inside = sum(map(len, there))
                expected = sum(part.count(drawn.row) for part in there) / inside
                assert mean == pytest.approx(expected)
