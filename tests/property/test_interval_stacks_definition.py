"""What a cell holds of spans and states, against the same question about the time of that cell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meantime
from meantime.errors import UsageError
from meantime.kernels import nest
from meantime.kernels.nest import innermost_segments
from meantime.query.offsets import Choice, Fold
from meantime.query.offsets.gather import offset_map
from meantime.query.statistics import state_statistics
from meantime.query.trees import call_tree
from meantime.testing import history_from_picture, history_from_spans

if TYPE_CHECKING:
    from meantime.history import History
    from meantime.query.offsets import OffsetMap

SPANS = st.dictionaries(
    st.sampled_from(["main", "pool"]),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 90), st.integers(0, 60)).map(
            lambda span: (span[0], span[1], span[1] + span[2])
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
)
PICTURES = st.lists(st.text("ab.c", min_size=1, max_size=60), min_size=1, max_size=4)
FOLDS = st.integers(1, 40).flatmap(
    lambda period: st.tuples(st.just(period), st.integers(1, period), st.integers(-20, 20))
)


def mapped(history: History, fold: tuple[int, int, int], **choice: object) -> OffsetMap:
    period, rows, origin = fold
    chosen = Choice(stacks=True, by="thread", **choice)  # type: ignore[arg-type] # of the test
    return offset_map(history, Fold(origin, period, rows), chosen, source="x")


def held(found: OffsetMap, number: int) -> Counter[str]:
    assert found.stacks is not None
    of = Counter[str]()
    for cell, stack, value in zip(
        *(
            column.tolist()
            for column in (found.stacks.number, found.stacks.stack, found.stacks.value)
        ),
        strict=True,
    ):
        if cell == number:
            of[";".join(found.stacks.stacks.frames_of(stack))] += value
    return of


def edges(found: OffsetMap, number: int) -> tuple[int, int]:
    start, end = (divmod(each, found.fold.rows) for each in (number, number + 1))
    return found.fold.edge_ns(*start), found.fold.edge_ns(*end)


@given(SPANS, FOLDS)
def test_spans_of_each_cell_are_the_flame_graph_of_its_time(
    spans: dict[str, list[tuple[str, int, int]]], fold: tuple[int, int, int]
) -> None:
    history = history_from_spans(spans)
    found = mapped(history, fold)
    assert found.stacks is not None
    checked = 0

    for number in np.unique(found.stacks.number).tolist():
        start_ns, end_ns = edges(found, number)
        tree, _ = call_tree(history, start_ns=max(0, start_ns), end_ns=end_ns)
        expected = Counter[str]()
        for row in np.flatnonzero(tree.own).tolist():
            expected[";".join(tree.stacks.frames_of(row))] += int(tree.own[row])
        assert held(found, number) == expected
        checked += sum(expected.values())
    tree, _ = call_tree(history)
    assert checked == int(tree.own.sum()) == int(found.stacks.value.sum())


@given(PICTURES, FOLDS)
def test_states_of_each_cell_are_the_statistics_of_its_time(
    rows: list[str], fold: tuple[int, int, int]
) -> None:
    history = history_from_picture("\n".join(f"cpu{at} {row}" for at, row in enumerate(rows)))
    found = mapped(history, fold)
    assert found.stacks is not None

    for number in np.unique(found.stacks.number).tolist():
        start_ns, end_ns = edges(found, number)
        statistics = state_statistics(
            history, by="entity", start_ns=max(0, start_ns), end_ns=min(end_ns, history.end_ns)
        )
        assert held(found, number) == {
            f"{row.key};{row.entity}": row.total_ns for row in statistics.rows
        }
    whole = state_statistics(history)
    assert found.stacks.value.sum() == sum(row.total_ns for row in whole.rows)


@given(SPANS)
def test_segments_add_up_to_the_time_in_which_a_span_is_the_innermost(
    spans: dict[str, list[tuple[str, int, int]]],
) -> None:
    table = history_from_spans(spans).spans()

    span, start_ns, end_ns = innermost_segments(table.start_ns, table.end_ns, table.offsets)

    lengths = np.zeros(len(table), np.int64)
    np.add.at(lengths, span, end_ns - start_ns)
    expected = nest.innermost_time(table.start_ns, table.end_ns, table.offsets)
    assert lengths.tolist() == expected.tolist()
    assert (end_ns > start_ns).all()


def test_offsets_are_checked_before_they_are_used() -> None:
    times = np.arange(3)
    for offsets in ([0, 4], [0, 2, 1], [-1, 3]):
        with pytest.raises(ValueError, match="not ascending"):
            innermost_segments(times, times + 1, np.array(offsets))
    with pytest.raises(ValueError, match="an end for each start"):
        innermost_segments(times, times[:2], np.array([0, 3]))


def test_a_window_clips_what_cells_hold() -> None:
    history = history_from_spans({"main": [("a", 0, 10), ("b", 2, 8)]})

    found = mapped(history, (5, 1, 0), window=(3, 9))

    assert [held(found, number) for number in (0, 1)] == [{"a;b": 2}, {"a;b": 3, "a": 1}]


def test_a_filter_and_an_event_limit_what_cells_hold() -> None:
    spans = {"main": [("a", 0, 10)], "pool": [("b", 0, 4)]}
    history = history_from_spans(spans)

    found = mapped(history, (5, 1, 0), filter="pool")

    assert held(found, 0) == {"b": 4}
    assert mapped(history, (5, 1, 0), event="a").stacks is None


def test_too_many_parts_are_left_out_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_from_spans({"main": [("a", 0, 1000)]})
    monkeypatch.setattr("meantime.query.offsets.interval_stacks._MOST_CELLS", 99)

    view = meantime.heatmap(history, period=10, rows=10)

    assert view.data.stacks is None
    assert view.data.sources[0].is_cut
    assert b"too many parts" in b"".join(view.render("html"))
    with pytest.raises(UsageError, match="have no weight"):
        meantime.heatmap(history, value="weight")
