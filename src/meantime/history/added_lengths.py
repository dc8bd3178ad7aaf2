"""How long states last, added up from what segments keep of earlier questions.

Durations between changes of an attribute within a segment are counted for all attributes that are
asked about together: their number, sum, least and greatest by state, how many are in each bucket of
a sketch, and which state followed which. These sums stay with the segment, in memory only, where
they take at most a 16th of its bytes. So a question about any range reads only what begins in one
segment and ends in another, and the segments that its range begins and ends in. Sums are not
stored: counting takes 2 to 3 ns a change, a fifteenth of what it takes to build a history. What
follows from those of a whole history is, once it was asked for: see `directory/answers`.
"""

from __future__ import annotations

from bisect import bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.segment_lengths import Counting

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.segment import Segment
    from meantime.history.segment_lengths import SegmentLengths
    from meantime.history.source import Question
    from meantime.kernels.search import Segments
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s

__all__ = ["add_sums"]

# A run with fewer rows is as fast to read as to go through.
_RUN_ROWS = 16
# Of fewer rows there is nothing to save.
_FEWEST_ROWS = 1 << 12
# A segment has the sums of so many sets of attributes.
_MOST_SETS = 4
# They take at most this part of its bytes, each.
_SEGMENT_BYTES = 16


def add_sums(
    segments: Sequence[Segment], searched: Segments, question: Question, lengths: StateLengths
) -> npt.NDArray[np.uint8]:
    """Add what lies between changes in segments that are wholly in the range of a question.

    Args:
        segments: The segments in order of time; those of the range are loaded.
        searched: The same, to be searched.
        question: What is asked, about attributes that have strings.
        lengths: What it is added to.

    Returns:
        By segment, whether that was added.
    """
    added = np.zeros(len(segments), np.uint8)
    end_ns = min(question.end_ns, searched.end_ns)
    bases_ns = [segment.head.base_ns for segment in segments]
    key, counted = b"", None
    # a change at the very start is the state that the range begins with
    for index in range(bisect_right(bases_ns, question.start_ns), len(segments)):
        segment = segments[index]
        head = segment.head
        if head.last_ns >= end_ns:
            break
        if head.changes < max(_FEWEST_ROWS, _RUN_ROWS * head.runs):
            continue
        key = key or blake2b(question.quarks.tobytes(), digest_size=16).digest()
        if key not in segment.lengths:
            counted = counted or Counting(lengths.strings)
            _keep(segment, key, _counted(segment, searched, index, question.quarks, counted))
        found = segment.lengths.get(key)
        if found is not None:
            lengths.add_sums(
                *(found.codes, found.figures, found.state, found.bucket, found.count, found.pairs)
            )
            added[index] = 1
    return added


def _counted(
    segment: Segment, searched: Segments, index: int, quarks: Int32s, counted: Counting
) -> SegmentLengths | None:
    """Return the sums of a segment; None if they save nothing, or take too much memory."""
    offsets = segment.sections["offsets"].astype(np.int64)
    runs = np.flatnonzero(np.isin(segment.sections["quarks"], quarks))
    rows = int((offsets[runs + 1] - offsets[runs]).sum())
    if rows < max(_FEWEST_ROWS, _RUN_ROWS * len(runs)):
        return None
    found = counted.of(searched, index, quarks)
    if found is None or found.size_bytes * _SEGMENT_BYTES > segment.head.size_bytes():
        return None
    return found


def _keep(segment: Segment, key: bytes, found: SegmentLengths | None) -> None:
    """Keep the sums of some attributes, without those that have been there for longest."""
    kept = {**segment.lengths, key: found}
    while len(kept) > _MOST_SETS:
        del kept[next(iter(kept))]
    # replaced as one: other threads may be reading them
    segment.lengths = kept
