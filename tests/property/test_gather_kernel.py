"""Rows put into order by counting, the stable order of a sort, and keys that are numbered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.gather import in_rows, numbered


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), max_size=30))
def test_rows_are_in_order_and_each_as_before(rows: list[int]) -> None:
    found = in_rows(np.array(rows, np.int32), 5)

    assert found.tolist() == sorted(range(len(rows)), key=rows.__getitem__)


@pytest.mark.parametrize("row", [-1, 5])
def test_a_row_that_does_not_exist_is_refused(row: int) -> None:
    with pytest.raises(IndexError):
        in_rows(np.array([0, row], np.int32), 5)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), max_size=30))
def test_keys_are_numbered_as_they_appear(keys: list[int]) -> None:
    number, first = numbered(np.array(keys, np.int64), 5)

    different = list(dict.fromkeys(keys))
    assert number.tolist() == [different.index(key) for key in keys]
    assert first.tolist() == [keys.index(key) for key in different]


@pytest.mark.parametrize("key", [-1, 5])
def test_a_key_outside_of_the_bound_is_refused(key: int) -> None:
    with pytest.raises(IndexError):
        numbered(np.array([0, key], np.int64), 5)
