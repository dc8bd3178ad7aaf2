"""Changes that came too late for the segment they belong to: set aside, then cut into pieces.

A piece is the changes of one segment: a range of time with at most so many. The pieces are found
without sorting: changes are counted in bins of the range, and partitioned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.changes import Changes
from meantime.history.sealed import search_all
from meantime.kernels import seal as kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.segment import Segment
    from meantime.kernels.tail import Tail
    from meantime.model.columns import Int64s

__all__ = ["LateChanges", "grouped", "pieces", "with_late"]

# Late changes in memory, of 24 bytes each, before they go to a file: 64 MB.
SPILL_ROWS = 2**26 // 24
# Few enough that the number of a bin fits into uint16.
_BINS = 2**12


class LateChanges:
    """The changes that came late, in memory up to a size and in files beyond it.

    Attributes:
        parts: The changes, in order of arrival.
        logged: How many parts the log has.
    """

    def __init__(self) -> None:
        self.parts: list[Changes] = []
        self.logged: int = 0
        self._spilled = 0

    def collect(self, tail: Tail) -> None:
        """Move what a tail has set aside here."""
        # Copied, since the tail reuses its columns.
        if tail.late_rows:
            columns = (tail.late_time_ns, tail.late_quark, tail.late_word, tail.late_meta)
            self.parts.append(Changes(*columns).part(0, tail.late_rows).copy())
            tail.late_rows = 0

    def since_logged(self) -> Changes:
        """Return the changes that the log lacks, which it then has."""
        new = self.parts[self.logged :]
        self.logged = len(self.parts)
        return Changes.joined([Changes.room(0), *new])

    def spill(self, folder: Path) -> None:
        """Move changes to a file if there are many in memory."""
        in_memory = self.parts[self._spilled :]
        if sum(len(part.time_ns) for part in in_memory) >= SPILL_ROWS:
            self.parts[self._spilled :] = [spilled(Changes.joined(in_memory), folder)]
            self._spilled = self.logged = len(self.parts)

    def take(self) -> list[Changes]:
        """Return all parts, which are then no longer here."""
        parts, self.parts = self.parts, []
        self.logged = self._spilled = 0
        return parts


def with_late(
    segments: Sequence[Segment],
    tail: Tail,
    late: list[Changes],
    earliest_ns: int,
    folder: Path | None,
) -> Iterator[tuple[list[Changes], int, int]]:
    """Yield the changes of each segment, then of the tail, with the late ones that belong there.

    Each comes with its range [from_ns, to_ns); the first begins at `earliest_ns` if the segment
    does not begin before that. The list of late changes is emptied.
    """
    # This only indexes the segments; each is loaded when its turn comes.
    searched = search_all(segments)
    edges_ns = [segment.head.base_ns for segment in segments[1:]] + [tail.boundary_ns]
    partitions = []
    while late:
        # Popped and deleted, so that a part's memory or file is freed before the next is read.
        part = late.pop(0)
        group = np.searchsorted(edges_ns, part.time_ns, side="right").astype(np.uint16)
        partitions.append(partition(part, group, len(edges_ns) + 1, folder))
        del part
    first_ns = min([earliest_ns, *(segment.head.base_ns for segment in segments[:1])])
    edges_ns = [first_ns, *edges_ns, tail.latest_ns + 1]
    for index, segment in enumerate(segments):
        segment.load()
        sealed = Changes.room(segment.head.changes)
        searched.unseal(index, *sealed)
        parts = [sealed, *(part[index] for part in partitions)]
        yield parts, edges_ns[index], edges_ns[index + 1]
    waiting = Changes(tail.time_ns, tail.quark, tail.word, tail.meta).part(0, tail.rows)
    yield [waiting, *(part[-1] for part in partitions)], edges_ns[-2], edges_ns[-1]


def spilled(changes: Changes, folder: Path) -> Changes:
    """Return the same columns in a file that has no name, so that nothing of it is left behind.

    Raises:
        OSError: If it cannot be written.
    """
    import tempfile  # noqa: PLC0415 - 3 ms, for many late changes only

    rows = len(changes.time_ns)
    # Mapping is safe here, unlike for a history's own files: nothing else can cut one without a
    # name. The maps outlive the descriptor.
    with tempfile.TemporaryFile(dir=folder) as file:
        for column in changes:
            column.tofile(file)
        file.flush()
        offset = 0
        kept: list[Any] = []
        for column in changes:
            kept.append(np.memmap(file, column.dtype, "r", offset, (rows,)))
            offset += column.nbytes
        time_ns, quark, word, meta = kept
        return Changes(time_ns, quark, word, meta)


def partition(
    part: Changes, group: npt.NDArray[np.uint16], groups: int, folder: Path | None
) -> list[Changes]:
    """Return the changes of each group in order of arrival; in a file if `part` is in one."""
    order = np.argsort(group, kind="stable")
    sorted_part = part.taken(order)
    if folder is not None and isinstance(part.time_ns, np.memmap):
        sorted_part = spilled(sorted_part, folder)
    ends = np.cumsum(np.bincount(group, minlength=groups)).tolist()
    return [
        sorted_part.part(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)
    ]


def pieces(
    parts: Sequence[Changes], from_ns: int, to_ns: int, most: int, folder: Path | None
) -> Iterator[list[Changes]]:
    """Cut changes of [from_ns, to_ns) between instants, so that few pieces exceed `most`.

    Yields:
        The parts of each piece, in order of time; more than `most` only if all are of one instant.
    """
    if sum(len(part.time_ns) for part in parts) <= most or to_ns - from_ns <= 1:
        yield list(parts)
        return
    # Bins are a power of two wide, so the bin of a time is one shift. A group that is still too
    # large is a single bin, so the range of each recursion is far shorter, and it ends.
    shift = max(0, (to_ns - from_ns).bit_length() - (_BINS.bit_length() - 1))
    bins = [_bins(part.time_ns, from_ns, shift) for part in parts]
    counts = np.zeros(_BINS + 1, np.int64)
    for bin_ in bins:
        counts += np.bincount(bin_, minlength=_BINS + 1)
    starts = _starts(counts.tolist(), most)
    group_of = np.searchsorted(starts, np.arange(_BINS + 1), side="right") - 1
    partitions = [
        partition(part, group_of[bin_].astype(np.uint16), len(starts), folder)
        for part, bin_ in zip(parts, bins, strict=True)
    ]
    del bins
    edges_ns = [from_ns + (start << shift) for start in starts] + [to_ns]
    for index in range(len(starts)):
        piece = [part[index] for part in partitions]
        yield from pieces(piece, edges_ns[index], edges_ns[index + 1], most, folder)


def _bins(time_ns: Int64s, from_ns: int, shift: int) -> npt.NDArray[np.uint16]:
    # The difference of two times needs 64 bits without a sign.
    since = time_ns.view(np.uint64) - np.uint64(from_ns % 2**64)
    return (since >> np.uint64(shift)).astype(np.uint16)


def _starts(counts: Sequence[int], most: int) -> list[int]:
    """Return where groups of neighbours begin, none with more than `most` unless it is one bin.

    A bin that has more is a group of its own, so that it is cut again.
    """
    starts, rows = [0], 0
    for index, count in enumerate(counts):
        if index and rows + count > most and (rows or count > most):
            starts.append(index)
            rows = 0
        rows += count
    return starts


def grouped(parts: Sequence[Changes], quarks: int) -> Changes:
    """Return the changes quark by quark, those of one in order of time, then of arrival."""
    joined = Changes.joined(parts)
    order = np.empty(len(joined.time_ns), np.int32)
    kernel.by_quark(joined.time_ns, joined.quark, np.zeros(quarks + 1, np.int32), order)
    return joined.taken(order)
