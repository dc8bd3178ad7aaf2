from __future__ import annotations

import numpy as np
import pytest

from meantime.errors import TimeRangeError, UsageError
from meantime.query.offsets import CellsBuilder, Fold, OffsetMap, Source

S = 10**9
SECONDS = Fold(origin_ns=0, period_ns=S, rows=50)


def ns(*seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([round(second * S) for second in seconds], np.int64)


def cells(builder: CellsBuilder) -> dict[tuple[int, int], int]:
    (found,) = builder.build().values()
    columns, rows = np.divmod(found.number, builder.fold.rows)
    keys = zip(columns.tolist(), rows.tolist(), strict=True)
    return dict(zip(keys, found.value.tolist(), strict=True))


def mapped(fold: Fold, *sources: Source, names: bool = False) -> OffsetMap:
    builder = CellsBuilder(fold)
    builder.add_times(ns(0.5))
    return OffsetMap.of(builder, "count", names=["a"] if names else None, sources=sources)


def test_a_time_on_an_edge_is_in_the_row_that_begins_there() -> None:
    assert SECONDS.cell(10_020_000_000) == (10, 1)
    assert SECONDS.cell(10_019_999_999) == (10, 0)
    assert SECONDS.cell(-1) == (-1, 49)


def test_rows_that_do_not_divide_the_period_differ_by_a_nanosecond() -> None:
    fold = Fold(0, S, 3)

    assert [fold.edge_ns(0, row) for row in range(4)] == [0, 333_333_334, 666_666_667, S]
    assert fold.cell(333_333_333) == (0, 0)
    assert fold.cell(333_333_334) == (0, 1)


def test_a_run_of_three_seconds_continues_at_the_bottom_of_the_next_columns() -> None:
    builder = CellsBuilder(Fold(0, S, 2))
    builder.add_intervals(ns(0.75), ns(3.25))

    assert cells(builder) == {
        (0, 1): 250_000_000,
        (1, 0): 500_000_000,
        (1, 1): 500_000_000,
        (2, 0): 500_000_000,
        (2, 1): 500_000_000,
        (3, 0): 250_000_000,
    }


def test_an_interval_that_ends_on_an_edge_adds_nothing_to_the_next_cell() -> None:
    builder = CellsBuilder(SECONDS)
    builder.add_intervals(ns(0.98), ns(1))

    assert cells(builder) == {(0, 49): 20_000_000}


def test_an_empty_interval_adds_no_time() -> None:
    builder = CellsBuilder(SECONDS)
    builder.add_intervals(ns(0.5), ns(0.5))

    assert builder.build() == {}


def test_an_interval_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(TimeRangeError, match=r"interval \[2, 1\) ends before it starts"):
        CellsBuilder(SECONDS).add_intervals(np.array([0, 2]), np.array([1, 1]))


def test_one_stray_time_costs_one_cell() -> None:
    builder = CellsBuilder(SECONDS)
    builder.add_times(np.array([5, 6, 10**17]))

    assert cells(builder) == {(0, 0): 2, (10**8, 0): 1}


def test_times_two_centuries_apart_are_refused() -> None:
    with pytest.raises(TimeRangeError, match="too far apart"):
        CellsBuilder(SECONDS).add_times(np.array([0, 2**62 + S]))


def test_more_overlap_than_fits_64_bits_is_rejected() -> None:
    builder = CellsBuilder(Fold(0, 2**60, 1))
    builder.add_intervals(np.zeros(9, np.int64), np.full(9, 2**61))

    with pytest.raises(TimeRangeError, match="more intervals overlap"):
        builder.build()


@pytest.mark.parametrize(
    ("period_ns", "rows"), [(0, 1), (-1, 1), (100, 0), (100, 101), (2**62, 1), (S, 2**20 + 1)]
)
def test_a_fold_without_whole_cells_is_refused(period_ns: int, rows: int) -> None:
    with pytest.raises(UsageError):
        Fold(0, period_ns, rows)


def test_maps_of_different_cells_do_not_add() -> None:
    with pytest.raises(UsageError, match="different cells"):
        mapped(SECONDS) + mapped(Fold(5, S, 50))
    with pytest.raises(UsageError, match="different cells"):
        mapped(SECONDS) + mapped(Fold(0, S, 49))


def test_a_map_by_name_does_not_add_to_one_without_names() -> None:
    with pytest.raises(UsageError, match="grouped by name"):
        mapped(SECONDS) + mapped(SECONDS, names=True)


def test_fine_bins_that_straddle_an_edge_are_not_refolded() -> None:
    with pytest.raises(UsageError, match="whole cells"):
        mapped(Fold(0, 1_000_000, 1)).refold(Fold(0, S, 49))


def test_bins_of_a_nanosecond_refold_to_any_rows() -> None:
    assert mapped(Fold(0, 1, 1)).refold(Fold(7, S, 49)).total.number.tolist() == [24]


def test_a_missing_source_is_seen_in_the_columns_it_misses() -> None:
    both = mapped(
        SECONDS, Source("a", ((0, 3 * S),)), Source("b", ((0, S), (2 * S + 5, 2 * S + 6)))
    )

    assert [both.reporting(column) for column in range(4)] == [2, 1, 2, 0]


def test_recorded_columns_are_those_with_a_recorded_part() -> None:
    both = mapped(SECONDS, Source("a", ((5, S), (3 * S, 4 * S))), Source("b", ((S, S + 1),)))

    assert both.recorded_columns() == [(0, 1), (3, 3)]
    assert both.columns == (0, 3)
