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


@given(st.binary(max_size=12), st.lists(st.tuples(st.integers(-1, 13), st.integers(-1, 13))))
def test_ranges_of_equal_bytes_are_one(data: bytes, found: list[tuple[int, int]]) -> None:
    array = np.frombuffer(data, np.uint8)
    ranges = np.array(found, np.int64).reshape(-1, 2)
    wrong = [low for low, high in found if not 0 <= low <= high <= len(data)]
    if wrong:
        with pytest.raises(ValueError, match=str(wrong[0])):
            varints.different(array, ranges)
        return

    first, code = varints.different(array, ranges)
    texts = [data[low:high] for low, high in found]
    known = list(dict.fromkeys(texts))
    assert first.tolist() == [texts.index(text) for text in known]
    assert code.tolist() == [known.index(text) for text in texts]
