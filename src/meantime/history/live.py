"""The present of a history that is being built: its states are found without sealing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.sealed import SealedSegments
    from meantime.kernels.tail import Tail

__all__ = ["LiveStates"]


class LiveStates:
    """Finds states in the changes that wait for a segment, and before these in the segments.

    It is valid until the next change: it copies nothing, so it takes microseconds to make one.

    Args:
        tail: The changes that wait, none of them late.
        sealed: The segments so far, of a history from the least to the greatest time.
        start_ns: Where the history begins.
        end_ns: Where it ends now.
    """

    def __init__(self, tail: Tail, sealed: SealedSegments, start_ns: int, end_ns: int) -> None:
        self.start_ns, self.end_ns = start_ns, end_ns
        self._tail = tail
        self._sealed = sealed

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""
        start_ns, end_ns, word, meta = self._tail.find(quark, time_ns)
        if start_ns is None:
            start_ns, sealed_end_ns, word, meta = self._sealed.point(quark, time_ns)
            start_ns, end_ns = max(start_ns, self.start_ns), min(sealed_end_ns, end_ns)
        return start_ns, min(end_ns, self.end_ns), word, meta

    def at(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
    ) -> None:
        """Write the interval of each row's attribute that contains the row's time."""
        found = np.empty(len(quarks), np.uint8)
        self._tail.find_all(quarks, times_ns, start, end, word, meta, found)
        rows = np.flatnonzero(found == 0)
        if len(rows):
            since, until, words = (np.empty(len(rows), np.int64) for _ in range(3))
            metas = np.empty(len(rows), np.uint32)
            self._sealed.at(quarks[rows], times_ns[rows], since, until, words, metas)
            start[rows] = np.maximum(since, self.start_ns)
            end[rows] = np.minimum(until, end[rows])
            word[rows], meta[rows] = words, metas
        np.minimum(end, self.end_ns, out=end)
