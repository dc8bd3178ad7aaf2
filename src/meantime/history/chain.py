"""The sealed segments of a history that is being built, and the states at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.extremes import Extremes
from meantime.history.sealed import SealedSegments
from meantime.history.segment import Carry, ScratchBuffer, seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.segment import Segment
    from meantime.kernels.tail import Tail

__all__ = ["SegmentChain"]

_INT64 = np.iinfo(np.int64)
# A full segment costs about 24 bytes a quark; at most one in this many changes pays for that.
_CHANGES_PER_FULL_RUN = 16


class SegmentChain:
    """Segments in order of time, to which the next one is added.

    Args:
        segments: The segments so far.
        quarks: How many attributes there are.
        extremes: Those of the integers in these segments.

    Attributes:
        segments: The segments so far.
        carry: The state of each attribute at their end.
        extremes: The least and the greatest integer of each attribute so far.
    """

    def __init__(
        self,
        segments: Sequence[Segment] = (),
        quarks: int = 0,
        extremes: Extremes | None = None,
    ) -> None:
        # A copy: the sealer appends to it, and the argument can be a loaded history's list.
        self.segments: list[Segment] = list(segments)
        self.carry: Carry = _carry_after(self.segments, quarks)
        self.extremes: Extremes = Extremes() if extremes is None else extremes
        self._scratch = ScratchBuffer()
        fulls = [index for index, segment in enumerate(segments) if segment.head.full]
        since_full = self.segments[fulls[-1] if fulls else 0 :]
        self._changes_since_full = sum(segment.head.changes for segment in since_full)

    def copy(self) -> SegmentChain:
        """Return a chain that does not change with this one."""
        chain = SegmentChain()
        chain.segments, chain.carry = list(self.segments), self.carry.copy()
        chain.extremes = self.extremes.copy()
        chain._changes_since_full = self._changes_since_full
        return chain

    def seal(self, tail: Tail, rows: int, *, reuse: bool) -> Segment:
        """Return the segment of the first changes of a tail, which are ordered by time per quark.

        The caller adds it to `segments`. With `reuse` the next segment overwrites its memory.
        """
        # Searches go back to the nearest run of a quark, which is at the latest that of a full
        # segment. So there must be some, but not so many that their index outweighs the changes.
        self.carry.reserve(tail.quarks)
        changed = int(np.count_nonzero(self.carry.start_ns != _INT64.min))
        full = not self.segments or self._changes_since_full > _CHANGES_PER_FULL_RUN * changed
        scratch = self._scratch if reuse else None
        segment = seal(tail, rows, self.carry, self.extremes, full=full, scratch=scratch)
        self._changes_since_full = rows if full else self._changes_since_full + rows
        return segment


def _carry_after(segments: list[Segment], quarks: int) -> Carry:
    """Return the state of each quark after all these segments."""
    carry = Carry.empty()
    carry.reserve(quarks)
    if segments:
        last_ns = segments[-1].head.last_ns
        whole = SealedSegments(segments, _INT64.min, last_ns + 1)
        found = whole.at(np.arange(quarks, dtype=np.int32), np.full(quarks, last_ns))
        carry.start_ns, _, carry.word, carry.meta = found
    return carry
