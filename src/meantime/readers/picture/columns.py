"""Columns of the pages of meantime."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.varints import decoded

if TYPE_CHECKING:
    from meantime.model.columns import Int64s

__all__ = ["inflated", "varints"]

# Columns are differences, which compress well; more than this is a zip bomb.
_MOST_EXPANDED = 300


def inflated(block: bytes) -> bytes:
    """Return a block without its compression.

    Raises:
        ValueError: If it is not compressed so, or expands too much.
    """
    most = 1 << 16 | len(block) * _MOST_EXPANDED
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(block, most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflate.eof:
        raise ValueError("a column that is cut, or expands too much")
    return found


def varints(data: bytes) -> Int64s:
    """Return the numbers of a column, each in LEB128."""
    bytes_ = np.frombuffer(data, np.uint8)
    return decoded(bytes_, int(np.count_nonzero(bytes_ < 128))).view(np.int64)
