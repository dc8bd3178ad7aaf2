"""Rows put into order by counting, the stable order of a sort, and keys that are numbered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.gather import add_times, in_rows, meant, numbered, numbered_rows


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


_MEANT = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 9)), max_size=30)


@settings(max_examples=40)
@given(_MEANT)
def test_times_are_added_by_what_they_mean(rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in rows], np.int32)
    ns = np.array([each for _, each in rows], np.int64)

    kind, label = meant(
        codes, np.array([2, 0, 1, 0, 1], np.int8), np.array([-1, 4, 3, 2, 1], np.int32)
    )

    assert kind.tolist() == [[2, 0, 1, 0, 1][code + 1] for code, _ in rows]
    assert label.tolist() == [[-1, 4, 3, 2, 1][code + 1] for code, _ in rows]
    sums, expected = np.zeros((3, 6), np.int64), np.zeros((3, 6), np.int64)
    add_times(kind, label, ns, sums)
    for each, code, length in zip(kind.tolist(), label.tolist(), ns.tolist(), strict=True):
        expected[each, code + 1] += length
    assert sums.tolist() == expected.tolist()


@pytest.mark.parametrize(("kind", "code"), [(-1, 0), (3, 0), (0, -2), (0, 2)])
def test_a_time_of_what_does_not_exist_is_refused(kind: int, code: int) -> None:
    columns = np.array([kind], np.int8), np.array([code], np.int32), np.array([5], np.int64)
    with pytest.raises(IndexError):
        add_times(*columns, np.zeros((3, 3), np.int64))


@pytest.mark.parametrize("code", [-2, 2])
def test_a_code_without_a_meaning_is_refused(code: int) -> None:
    with pytest.raises(IndexError):
        meant(np.array([code], np.int32), np.zeros(3, np.int8), np.zeros(3, np.int32))
