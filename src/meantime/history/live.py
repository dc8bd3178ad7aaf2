"""The present of a history that is being built: its states are found without sealing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.source import StateSource

if TYPE_CHECKING:
    from meantime.history.sealed import SealedSegments
    from meantime.history.source import States
    from meantime.kernels.tail import Tail
    from meantime.model.columns import Int32s, Int64s

__all__ = ["LiveStates"]


class LiveStates(StateSource):
    """Finds states in the changes that wait for a segment, and before these in the segments.

    It is valid until the next change: it copies nothing, so it takes microseconds to make one.

    Args:
        tail: The changes that wait, none of them late.
        sealed: The segments so far, of a history from the least to the greatest time.
        start_ns: Where the history begins.
        end_ns: Where it ends now.
    """

    def __init__(self, tail: Tail, sealed: SealedSegments, start_ns: int, end_ns: int) -> None:
        self.start_ns: int = start_ns
        self.end_ns: int = end_ns
        self._tail = tail
        self._sealed = sealed

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """See `StateSource.point`."""
        start_ns, end_ns, word, meta = self._tail.find(quark, time_ns)
        if start_ns is None:
            start_ns, sealed_end_ns, word, meta = self._sealed.point(quark, time_ns)
            start_ns, end_ns = max(start_ns, self.start_ns), min(sealed_end_ns, end_ns)
        return start_ns, min(end_ns, self.end_ns), word, meta

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `StateSource.at`."""
        start, end, word = (np.empty(len(quarks), np.int64) for _ in range(3))
        meta, found = np.empty(len(quarks), np.uint32), np.empty(len(quarks), np.uint8)
        self._tail.find_all(quarks, times_ns, start, end, word, meta, found)
        rows = np.flatnonzero(found == 0)
        if len(rows):
            since, until, word[rows], meta[rows] = self._sealed.at(quarks[rows], times_ns[rows])
            start[rows] = np.maximum(since, self.start_ns)
            end[rows] = np.minimum(until, end[rows])
        np.minimum(end, self.end_ns, out=end)
        return start, end, word, meta
