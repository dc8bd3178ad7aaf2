"""Rows put into order by counting, the stable order of a sort, and keys that are numbered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.gather import in_rows, numbered, numbered_rows


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), max_size=30))
def test_rows_are_in_order_and_each_as_before(rows: list[int]) -> None:
    found = in_rows(np.array(rows, np.int32), 5)

    assert found.tolist() == sorted(range(len(rows)), key=rows.__getitem__)


@pytest.mark.parametrize("row", [-1, 5])
def test_a_row_that_does_not_exist_is_refused(row: int) -> None:
    with pytest.raises(IndexError):
        in_rows(np.array([0, row], np.int32), 5)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 4) | st.sampled_from([64, 2**40, 2**62 - 1]), max_size=30),
    st.sampled_from([2**62, 2**63 - 1]),
)
def test_keys_are_numbered_as_they_appear(keys: list[int], most: int) -> None:
    bound = 5 if max(keys, default=0) < 5 else most  # a table of few, and hashes of many
    number, first = numbered(np.array(keys, np.int64), bound)

    different = list(dict.fromkeys(keys))
    assert number.tolist() == [different.index(key) for key in keys]
    assert first.tolist() == [keys.index(key) for key in different]


@pytest.mark.parametrize("key", [-1, 5])
def test_a_key_outside_of_the_bound_is_refused(key: int) -> None:
    with pytest.raises(IndexError):
        numbered(np.array([0, key], np.int64), 5)


_CODES = st.integers(-1, 3) | st.sampled_from([2**20, 2**31 - 1])


@settings(max_examples=60)
@given(st.lists(st.tuples(_CODES, _CODES, _CODES, _CODES), max_size=30))
def test_rows_are_numbered_as_they_appear(rows: list[tuple[int, int, int, int]]) -> None:
    columns = np.array(rows, np.int32).reshape(-1, 4)

    number, first = numbered_rows(*(np.ascontiguousarray(column) for column in columns.T))

    different = list(dict.fromkeys(rows))
    assert number.tolist() == [different.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in different]


@pytest.mark.parametrize("columns", [([0, -2],), ([0, 1], [0]), ([0], [0, 1])])
def test_rows_of_other_codes_or_sizes_are_refused(columns: tuple[list[int], ...]) -> None:
    with pytest.raises(IndexError):
        numbered_rows(*(np.array(column, np.int32) for column in columns))
