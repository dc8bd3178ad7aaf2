"""A column that grows, with and without memory for zeros, is what was appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.kernels.memory import GrowingColumn

if TYPE_CHECKING:
    import numpy.typing as npt

_PARTS = st.lists(
    st.tuples(st.integers(0, 3000), st.lists(st.integers(0, 2), max_size=3)), max_size=8
)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@settings(max_examples=60)
@given(parts=_PARTS, more=_PARTS)
def test_a_column_is_what_was_appended(
    dtype: type, parts: list[tuple[int, list[int]]], more: list[tuple[int, list[int]]]
) -> None:
    column = GrowingColumn(dtype)
    for each in (parts, more):  # again after it was taken
        arrays: list[npt.NDArray[Any]] = [
            np.array([0] * zeros + rows, dtype) for zeros, rows in each
        ]
        for array in arrays:
            column.append(array)

        taken = column.take()

        assert taken.dtype == dtype
        assert taken.tolist() == np.concatenate([np.empty(0, dtype), *arrays]).tolist()
        taken += 1  # it can be written
