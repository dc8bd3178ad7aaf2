"""Pyramids: sums over blocks of a segment's rows, so that queries need not read each row.

They make answers faster, and no answer needs one: a missing or damaged one is ignored.

Where a cell has few changes, shares are summed from the rows themselves, attribute by attribute,
in one loop that keeps its state in registers: 1.3 ns a row, 6 ns a row of the answer. The values
of an attribute are numbered from the least: a string by its code, an integer by its distance to
the least one that the attribute had, as rows have them. Numbers that are more than 2^20 apart, or
not integers, are looked up in a hash table instead, which takes five times as long.

From 16 changes in a cell on, a cell is the difference of two sums. The pyramid has the duration of
each value from the first row up to about every 64th. For the edge of a cell, the sums of the
nearer of two such rows are taken, and the rows in between, 16 on average, are added or subtracted.
So an edge costs the same at any zoom, and the answer is exact to the nanosecond.

Blocks of rows were chosen over an overview of cells of time: as many bytes divide the rows evenly
however they are distributed, a burst too, and no edge needs more than half a block. Each state is
in one block, and none is split or clipped. Running sums were chosen over a tree of cells with the
longest values of each, since they need no levels, hide no value in a remainder, and give exact
answers without descending. Numbers with many values have a tree, 64 to a cell, with the least, the
greatest and the sum.

In a range of three segments or more, the sums at an edge come from totals: how long each value had
lasted where a segment begins. With the pyramid of the one run that the edge is in, they give the
sums since the attribute's first row, so a cell costs the same whether it is within a segment or
contains a hundred. Totals are computed when an attribute is first asked for, of the segments of
the range, since the rows of others may not be there. They are in memory only, and take at most a
quarter of the bytes of the rows. An attribute with more than 64 values, or fewer than 1,024
changes, has none. Neither has a history while it is being built: each query of it would compute
them again.

Bins that begin at multiples of a power of two, as in tiles, are answered from the same sums at
these times, 32 bits each where bins are shorter than 2^32 ns. A cell is then the difference of two
adjacent entries, and no row is read but around the first and the last edge. These sums are
computed once a query covers at least an eighth of the history, for the attributes that it asks
for, and are in memory only; they serve all wider bins of a power of two, and take at most a
quarter of the bytes of the attribute's rows. Once as many other edges have been asked for as the
finest of them has, it is computed for these: an edge then takes the sums of the nearest multiple,
which needs no search, and the few rows in between.

At 50 changes in a cell, an exact answer for any other edges touches a third of the memory that the
rows take: memory decides how long that takes, not arithmetic. A page does not need it:
`state_tile` writes 8 bytes a cell from the same sums.

A pyramid belongs to one segment alone and can be computed from it at any time. On disk it is
written when the segment is sealed; in memory it is computed once queries have read as many rows as
that takes.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import ref

from meantime.errors import InputError
from meantime.history.directory.container import HEADER_BYTES, aligned
from meantime.kernels import pyramid as kernel
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from meantime.history.segment import Limits, Segment
    from meantime.kernels.shares import Tally
    from meantime.kernels.shares_totals import Totals
    from meantime.model.columns import Int32s

__all__ = ["PYRAMID_ROWS", "Arrays", "Pyramids", "build_pyramid", "pyramid_of"]

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"

# A pyramid has at most a fifth of its segment's bytes. The kernel limits each run to a sixth of its
# rows; headers and alignment come on top, and can be too much for small segments.
_SEGMENT_BYTES = 5
# Runs of at most so many rows are in none.
PYRAMID_ROWS = 64


def build_pyramid(segment: Segment, kinds: npt.NDArray[np.uint8]) -> Arrays | None:
    """Return a segment's pyramid; None if it would be too large to be worth it.

    Args:
        segment: The segment.
        kinds: By quark, the type of its values.
    """
    arrays = pyramid_of(segment, kinds)
    size_bytes = HEADER_BYTES + sum(aligned(array.nbytes) for array in arrays.values())
    return arrays if size_bytes * _SEGMENT_BYTES <= segment.head.size_bytes() else None


def pyramid_of(segment: Segment, kinds: npt.NDArray[np.uint8]) -> Arrays:
    """Return a segment's pyramid, however large it is."""
    alone = Segments(searchable=False)
    segment.load()
    segment.add_to(alone)
    return kernel.build(alone, 0, kinds, segment.head.last_ns)


class Searched(Protocol):
    """Has segments to be searched."""

    @property
    def searched(self) -> Segments:
        """The segments."""


class Pyramids:
    """The pyramids of a history's segments, which are attached once they pay.

    Args:
        sealed: What they are attached to.
        segments: Its segments.
        kinds: By quark, the type of its values.
        limits: What stored pyramids are checked with; None if none are stored.
        growing: Whether more segments follow, so that other snapshots will have these too.
    """

    def __init__(
        self,
        sealed: Searched,
        segments: Sequence[Segment],
        kinds: npt.NDArray[np.uint8],
        limits: Limits | None = None,
        *,
        growing: bool = False,
    ) -> None:
        # What it is attached to refers to this: a cycle would keep both until the next collection.
        self._sealed = ref(sealed)
        self._segments = segments
        self._kinds = kinds
        self._limits = limits
        self._are_attached = limits is None
        # of one with a row for each attribute, there is none to be made
        self._without = {
            index
            for index, segment in enumerate(segments)
            if segment.head.full or segment.head.changes > segment.head.runs
        }
        self._growing = growing
        self._totals: Totals | None = None
        self._lock = Lock()
        self._rows_read = 0
        self._attached_bytes = 0
        self._rows = sum(segment.head.changes for segment in segments)

    def rebuilt(self) -> Pyramids:
        """Return the pyramids of the same segments, of which one was replaced, not yet attached."""
        sealed = self._sealed()
        assert sealed is not None
        return self.attached_to(sealed, self._segments)

    def attached_to(self, sealed: Searched, segments: Sequence[Segment]) -> Pyramids:
        """Return the pyramids of the same segments, to be attached to another source of them."""
        return Pyramids(sealed, segments, self._kinds, self._limits, growing=self._growing)

    @property
    def _searched(self) -> Segments:
        sealed = self._sealed()
        assert sealed is not None
        return sealed.searched

    @property
    def size_bytes(self) -> int:
        """How much memory those that are attached take, with the totals so far."""
        totals = self._totals.size_bytes if self._totals is not None else 0
        return self._attached_bytes + totals

    def totals(
        self,
        tally: Tally,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        first: int,
        last: int,
    ) -> Totals | None:
        """Return how long these attributes had each value where segments begin.

        None until the pyramids are there, without which computing that reads all rows, and of a
        growing history, of which each snapshot would compute it again.

        With overviews of long ranges, if the bins of the tally begin at multiples of a power of 2.

        Args:
            tally: What needs them.
            quarks: The attributes.
            kinds: The types of their values.
            first: The first segment that is needed.
            last: The last one; all of these are loaded.
        """
        if self._growing or not self._are_attached or self._without:
            return None
        from meantime.kernels.shares_totals import Totals  # noqa: PLC0415 - for few questions

        with self._lock:
            totals = self._totals
            if totals is None or first < totals.first or totals.last < last:
                # Only of these: the rows of others may not be there.
                totals = self._totals = Totals(self._searched, first, last)
            totals.prepare(quarks, kinds, tally)
            return totals

    def use(self) -> None:
        """Attach the stored pyramids."""
        # Only once: a damaged one is reported once, and then built as if there were none.
        if self._are_attached or self._limits is None:
            return
        self._are_attached = True
        for index, segment in enumerate(self._segments):
            try:
                arrays = segment.kept_pyramid or segment.pyramid(self._limits)
            except InputError as error:
                import logging  # noqa: PLC0415 - 2 ms, for damaged files only

                logging.getLogger("meantime").warning("%s", error)
                continue
            if arrays is not None:
                self._attach(index, arrays)
                self._without.discard(index)

    def _attach(self, index: int, arrays: Arrays) -> None:
        if self._growing:
            self._segments[index].kept_pyramid = arrays
        self._searched.attach(index, **arrays)
        self._attached_bytes += sum(array.nbytes for array in arrays.values())

    def read(self, rows: int) -> None:
        """Count rows that were read and that pyramids would have saved.

        Once those are as many as building the pyramids reads, they are built.
        """
        if not self._without:
            return
        self._rows_read += rows
        if self._rows_read < self._rows:
            return
        for index in sorted(self._without):
            try:
                arrays = build_pyramid(self._segments[index], self._kinds)
            except InputError:
                # queries that need the segment report it
                continue
            if arrays is not None:
                self._attach(index, arrays)
        self._without.clear()
