"""How long states last between changes within a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import MeantimeError
from meantime.kernels.state_lengths import BUCKET_BITS, BUCKET_COUNT, StateLengths
from meantime.structs import struct

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.kernels.search import Segments
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Counting", "SegmentLengths"]

# A segment with more states has no sums.
_MOST_STATES = 64
_NO_QUANTILES = np.empty((0, 2), np.int64)
_NO_TIMES = np.empty(0, np.int64)


@struct
class SegmentLengths:
    """How long states last between changes within a segment.

    Attributes:
        codes: The codes of the states.
        figures: uint64, by state the sum (the low 64 bits, then the high ones), the least and the
            greatest duration.
        state: The state of each bucket that is not empty.
        bucket: Which bucket it is.
        count: How many durations are in it.
        pairs: How often a state directly followed another.
    """

    codes: Int32s
    figures: npt.NDArray[np.uint64]
    state: Int32s
    bucket: Int32s
    count: Int64s
    pairs: Int64s

    @property
    def size_bytes(self) -> int:
        """How much memory it takes."""
        columns = self.figures, self.state, self.bucket, self.count, self.pairs
        return sum(column.nbytes for column in columns)


class _TooManyStatesError(MeantimeError):
    """A segment has too many states."""


class Counting:
    """Counts one segment after the other in the same arrays."""

    def __init__(self, strings: int) -> None:
        self._strings = strings
        self._codes: list[int] = []
        self._figures = np.empty((_MOST_STATES, 4), np.uint64)
        self._buckets = np.empty((_MOST_STATES, BUCKET_COUNT), np.int64)
        self._pairs = np.empty((_MOST_STATES, _MOST_STATES), np.int64)
        self._used = _MOST_STATES

    def _state(self, code: int) -> int:
        if len(self._codes) == _MOST_STATES:
            raise _TooManyStatesError
        self._codes.append(code)
        return len(self._codes) - 1

    def of(self, searched: Segments, index: int, quarks: Int32s) -> SegmentLengths | None:
        """Return the sums of a segment; None if there are too many states."""
        self._codes.clear()
        self._figures[:] = 0, 0, np.iinfo(np.int64).max, 0
        self._buckets[: self._used] = 0
        self._pairs[:] = 0
        lengths = StateLengths(_NO_QUANTILES)
        lengths.use(self._figures, self._buckets, self._pairs, _NO_TIMES, BUCKET_BITS)
        lengths.begin(self._strings)
        lengths.learn = self._state
        try:
            lengths.take_between(searched, index, quarks)
        except _TooManyStatesError:
            self._used = _MOST_STATES
            return None
        finally:
            # it refers to this: a cycle would keep both until the next collection
            lengths.learn = None
        self._used = states = len(self._codes)
        state, bucket = np.nonzero(self._buckets[:states])
        return SegmentLengths(
            np.array(self._codes, np.int32),
            self._figures[:states].copy(),
            state.astype(np.int32),
            bucket.astype(np.int32),
            self._buckets[state, bucket],
            self._pairs[:states, :states].copy(),
        )
