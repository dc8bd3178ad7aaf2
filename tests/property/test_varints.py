"""Varints: what a page decodes is what was encoded."""

from __future__ import annotations

import numpy as np
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
