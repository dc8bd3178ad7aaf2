"""Rows of a table of spans by name and category, and sums of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.activity_paths import stretches
from meantime.model.columns import distinct
from meantime.query.explain.lanes import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Coded, Int64s

__all__ = [
    "NO_RANGES",
    "by_name",
    "categories_of",
    "covered_ns",
    "duration_of",
    "matching_rows",
    "rows_in",
    "rows_named",
    "total_of",
    "union_of",
]

NO_RANGES = (np.empty(0, np.int64), np.empty(0, np.int64))


def categories_of(spans: SpanTable) -> set[str]:
    """Return the categories that spans have."""
    codes = distinct(spans.category.codes)
    return {spans.category.names[code] for code in codes[codes >= 0].tolist()}


def rows_named(spans: SpanTable, *names: str) -> Int64s:
    """Return the rows of spans with one of these names."""
    return matching_rows(spans.name, names.__contains__)


def rows_in(spans: SpanTable, *categories: str) -> Int64s:
    """Return the rows of spans with one of these categories."""
    return matching_rows(spans.category, categories.__contains__)


def matching_rows(column: Coded, is_wanted: Callable[[str], object]) -> Int64s:
    """Return the rows of a column whose text is wanted; each text is looked at once."""
    used = distinct(column.codes[column.codes >= 0]).tolist()
    codes = [code for code in used if is_wanted(column.names[code])]
    return np.flatnonzero(np.isin(column.codes, codes))


def duration_of(spans: SpanTable, row: int) -> int:
    """Return how long one span took, in ns."""
    return int(spans.end_ns[row] - spans.start_ns[row])


def total_of(spans: SpanTable, rows: Int64s) -> int:
    """Return the sum of the durations of spans, in ns."""
    return int((spans.end_ns[rows] - spans.start_ns[rows]).sum())


def union_of(spans: SpanTable, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return where at least one of these spans is open: begins and ends, in order."""
    return stretches(*in_order(spans.start_ns[rows], spans.end_ns[rows]), 1)


def covered_ns(ranges: tuple[Int64s, Int64s]) -> int:
    """Return the length of ranges that do not overlap, in ns."""
    return int((ranges[1] - ranges[0]).sum())


def by_name(
    names: Coded, amounts: Int64s, rows: npt.NDArray[np.int64] | None = None
) -> list[tuple[str, int]]:
    """Return the sum of amounts by name, most first; equal ones in order of name."""
    codes = names.codes if rows is None else names.codes[rows]
    values = amounts if rows is None else amounts[rows]
    total = np.zeros(len(names.names) + 1, np.int64)
    np.add.at(total, codes, values)
    texts: Sequence[str] = names.names
    found = [(texts[code], int(total[code])) for code in np.flatnonzero(total[:-1]).tolist()]
    return sorted(found, key=lambda each: (-each[1], each[0]))
