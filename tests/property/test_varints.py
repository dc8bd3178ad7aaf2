"""Varints: what a page decodes is what was encoded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.kernels import varints


def decoded(encoded: bytes) -> list[int]:
    values, value, shift = [], 0, 0
    for byte in encoded:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_varints_keep_every_number(values: list[int]) -> None:
    encoded = varints.encoded(np.array(values, np.int64))

    assert decoded(encoded) == values
    assert varints.decoded(np.frombuffer(encoded, np.uint8), len(values)).tolist() == values
    assert len(encoded) == sum(max(1, -(-value.bit_length() // 7)) for value in values)


@given(st.lists(st.integers(0, 300)), st.integers(0, 1), st.integers(0, 1), st.integers(-1, 1))
def test_running_sums_are_those_of_checked_numbers(
    values: list[int], least: int, step: int, more: int
) -> None:
    data = np.frombuffer(varints.encoded(np.array(values, np.int64)), np.uint8)
    if more or min(values, default=1) < least:
        with pytest.raises(ValueError, match="number"):
            varints.running(data, len(values) + (more or 0), least, step)
        return

    sums = np.cumsum(np.array(values, np.int64) + step) - step
    assert varints.running(data, len(values), least, step).tolist() == sums.tolist()
