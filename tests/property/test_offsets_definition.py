"""Folded times and intervals against the definition: which cell each nanosecond is in."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.query.offsets import CellsBuilder, Fold, OffsetMap, Source

if TYPE_CHECKING:
    from meantime.query.offsets import Cells

NEAR = st.integers(-3_000, 3_000)
FAR = st.sampled_from([-(10**17), 10**17, 2**60, -(2**60), 2**61 - 1])
TIMES = st.lists(NEAR | FAR, max_size=40)


@st.composite
def folds(draw: st.DrawFn) -> Fold:
    period_ns = draw(st.integers(1, 400) | st.sampled_from([10**9, 86_400 * 10**9, 2**60 + 7]))
    rows = draw(st.integers(1, min(period_ns, 120)) | st.just(min(period_ns, 49)))
    return Fold(draw(NEAR), period_ns, rows)


def cell(fold: Fold, time_ns: int) -> int:
    """The definition: exact fractions, no shortcuts."""
    column = (time_ns - fold.origin_ns) // fold.period_ns
    offset = time_ns - fold.origin_ns - column * fold.period_ns
    return column * fold.rows + int(Fraction(offset * fold.rows, fold.period_ns))


def edge(fold: Fold, number: int) -> int:
    column, row = divmod(number, fold.rows)
    return fold.edge_ns(column, row)


def overlaps(fold: Fold, start_ns: int, end_ns: int) -> Counter[int]:
    counter: Counter[int] = Counter()
    number = cell(fold, start_ns)
    while edge(fold, number) < end_ns:
        begin, finish = edge(fold, number), edge(fold, number + 1)
        counter[number] += min(finish, end_ns) - max(begin, start_ns)
        number += 1
    return +counter


def as_counter(cells: Cells | None) -> Counter[int]:
    if cells is None:
        return Counter()
    assert (np.diff(cells.number) > 0).all()
    assert cells.value.all()
    return Counter(dict(zip(cells.number.tolist(), cells.value.tolist(), strict=True)))


def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


@given(folds(), st.integers(-(2**60), 2**60))
def test_a_time_is_between_the_edges_of_its_cell(fold: Fold, time_ns: int) -> None:
    where = fold.cell(time_ns)

    assert fold.edge_ns(*where) <= time_ns < fold.edge_ns(where[0], where[1] + 1)
    assert fold.number(time_ns) == cell(fold, time_ns)


@given(folds())
def test_the_rows_of_a_column_tile_it(fold: Fold) -> None:
    edges = [fold.edge_ns(3, row) for row in range(fold.rows + 1)]

    assert all(low < high for low, high in pairwise(edges))
    assert (edges[0], edges[-1]) == (fold.edge_ns(3), fold.edge_ns(4))
    assert fold.widths_ns().tolist() == [high - low for low, high in pairwise(edges)]


@given(folds(), TIMES)
def test_every_time_counts_once_in_its_own_cell(fold: Fold, times: list[int]) -> None:
    builder = CellsBuilder(fold)
    builder.add_times(column(times))

    assert as_counter(builder.build().get(0)) == Counter(cell(fold, time) for time in times)


@given(folds(), st.lists(st.tuples(NEAR | FAR, st.integers(0, 3), st.integers(1, 10**12))))
def test_weights_add_up_by_key(fold: Fold, rows: list[tuple[int, int, int]]) -> None:
    times, keys, weights = (column([row[at] for row in rows]) for at in range(3))
    expected: dict[int, Counter[int]] = {}
    for time, key, weight in rows:
        expected.setdefault(key, Counter())[cell(fold, time)] += weight

    builder = CellsBuilder(fold)
    builder.add_times(times, keys=keys, weights=weights)

    assert {key: as_counter(cells) for key, cells in builder.build().items()} == expected


INTERVALS = st.lists(st.tuples(NEAR, st.integers(0, 900), st.integers(0, 2)), max_size=30)


@given(folds(), INTERVALS, st.sampled_from(["keyed", "whole"]))
def test_an_interval_adds_its_exact_overlap_to_every_cell(
    fold: Fold, rows: list[tuple[int, int, int]], kind: str
) -> None:
    expected: dict[int, Counter[int]] = {}
    for start, length, key in rows:
        counter = expected.setdefault(key if kind == "keyed" else 0, Counter())
        counter.update(overlaps(fold, start, start + length))
    starts = column([row[0] for row in rows])
    ends = starts + column([row[1] for row in rows])

    builder = CellsBuilder(fold)
    for half in (slice(0, 5), slice(5, None)):
        keys = column([row[2] for row in rows])[half] if kind == "keyed" else None
        builder.add_intervals(starts[half], ends[half], keys=keys)

    found = {key: as_counter(cells) for key, cells in builder.build().items()}
    assert found == {key: counter for key, counter in expected.items() if counter}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 7, 49, 50]), st.integers(1, 5))
def test_many_rows_take_the_same_way_as_few(seed: int, rows: int, keys: int) -> None:
    random = np.random.default_rng(seed)
    fold = Fold(int(random.integers(-100, 100)), 1000, rows)
    starts = random.integers(-50_000, 50_000, 3_000)
    starts[random.integers(0, 3_000, 2)] = 10**15
    lengths = random.integers(0, 2_500, 3_000)
    key = random.integers(0, keys, 3_000) ** 3
    expected: dict[int, Counter[int]] = {}
    for start, length, each in zip(starts.tolist(), lengths.tolist(), key.tolist(), strict=True):
        expected.setdefault(each, Counter()).update(overlaps(fold, start, start + length))

    builder = CellsBuilder(fold)
    builder.add_intervals(starts, starts + lengths, keys=key)
    whole = CellsBuilder(fold)
    whole.add_intervals(starts, starts + lengths)
    counted = CellsBuilder(fold)
    counted.add_times(starts, keys=key)

    assert {each: as_counter(cells) for each, cells in builder.build().items()} == expected
    assert as_counter(whole.build()[0]) == sum(expected.values(), Counter())
    assert sum(int(cells.value.sum()) for cells in counted.build().values()) == 3_000


def mapped(fold: Fold, times: list[int]) -> OffsetMap:
    builder = CellsBuilder(fold)
    builder.add_times(column(times), keys=column([time & 1 for time in times]))
    span = (min(times, default=0), max(times, default=0) + 1)
    return OffsetMap.of(builder, "count", names=["even", "odd"], sources=[Source("x", (span,))])


@given(folds(), TIMES, TIMES, st.integers(-5, 5))
def test_the_map_of_two_inputs_is_the_sum_of_their_maps(
    fold: Fold, one: list[int], other: list[int], columns: int
) -> None:
    shift_ns = columns * fold.period_ns if fold.period_ns < 2**40 else 0
    moved = Fold(fold.origin_ns + shift_ns, fold.period_ns, fold.rows)

    both = mapped(fold, one) + mapped(moved, other)

    assert as_counter(both.total) == as_counter(mapped(fold, one + other).total)
    for name in ("even", "odd"):
        together = mapped(fold, one + other).by.get(name)
        assert as_counter(both.by.get(name)) == as_counter(together)
    assert len(both.sources) == 2


@given(NEAR, TIMES, st.integers(1, 30), st.tuples(st.integers(1, 6), st.integers(1, 6)), NEAR)
def test_refolding_fine_bins_is_folding_the_times(
    origin: int, times: list[int], bin_ns: int, shape: tuple[int, int], shift: int
) -> None:
    rows, per_row = shape
    fine = mapped(Fold(origin, bin_ns, 1), times)
    fold = Fold(origin + shift * bin_ns, bin_ns * rows * per_row, rows)

    refolded = fine.refold(fold)

    assert as_counter(refolded.total) == Counter(cell(fold, time) for time in times)
    assert as_counter(refolded.by.get("odd")) == as_counter(mapped(fold, times).by.get("odd"))
