"""Arguments of many events, read in windows of their source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.gather import join_parts
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import ArgumentText

__all__ = ["joined_texts"]

# How much of the source of arguments is in memory at once, and how far apart two texts may be to be
# read together.
_WINDOW_BYTES = 1 << 22
_GAP_BYTES = 1 << 16


def joined_texts(
    text: ArgumentText, offset: Int64s, length: Int32s
) -> tuple[Int64s, Iterator[npt.NDArray[np.uint8]]]:
    """Return where the arguments of each row begin in a text of all of them, and that in parts.

    They are in the order of their source, which is read once, and a part of it at a time.
    """
    rows = np.flatnonzero(length)
    offsets = offset[rows]
    if (offsets[1:] < offsets[:-1]).any():
        order = np.argsort(offsets, kind="stable")
        rows, offsets = rows[order], offsets[order]
    lengths = length[rows]
    begins = np.zeros(len(offset), np.int64)
    begins[rows] = np.cumsum(lengths, dtype=np.int64) - lengths
    return begins, _windows(text, offsets, lengths)


def _windows(
    text: ArgumentText, offsets: Int64s, lengths: Int32s
) -> Iterator[npt.NDArray[np.uint8]]:
    ends = offsets + lengths
    far = np.flatnonzero(offsets[1:] - np.maximum.accumulate(ends)[:-1] > _GAP_BYTES) + 1
    # texts that were added are behind the source, and are read apart from it
    added, end = int(np.searchsorted(offsets, text.source_bytes)), len(offsets)
    borders = distinct(np.append(far, [added, end]))
    first = 0
    for border in borders.tolist():
        while first < border:
            start = int(offsets[first])
            last = int(np.searchsorted(offsets[first:border], start + _WINDOW_BYTES)) + first
            window = np.frombuffer(text.read(start, int(ends[first:last].max()) - start), np.uint8)
            yield join_parts(window, offsets[first:last] - start, lengths[first:last])
            first = last
