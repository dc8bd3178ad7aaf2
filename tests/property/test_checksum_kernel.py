"""The checksum of files is that of zlib, whatever the length, the alignment and the beginning."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meantime.kernels.checksum import crc32

_BYTES = np.random.default_rng(1).integers(0, 256, 2**14, np.uint8)


@given(
    st.integers(0, len(_BYTES)),
    st.integers(0, len(_BYTES)),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
@example(0, 1024, 0, False)
@example(1, 1024 + 1 + 63, 2**32 - 1, True)
def test_is_that_of_zlib(first: int, last: int, value: int, is_zero: bool) -> None:  # noqa: FBT001 - drawn
    data = _BYTES[first:last] * np.uint8(not is_zero)
    assert crc32(data.data, value) == zlib.crc32(data.data, value)


def test_continues() -> None:
    whole = crc32(_BYTES.data)
    assert crc32(_BYTES[5_000:].data, crc32(_BYTES[:5_000].tobytes())) == whole
    assert crc32(_BYTES.view(np.int64).data) == whole == zlib.crc32(_BYTES.data)


def test_refuses_what_is_not_contiguous() -> None:
    with pytest.raises(BufferError):
        crc32(_BYTES[::2].data)
