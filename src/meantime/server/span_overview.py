"""Spans of a block of lanes added up in narrow bins, from which tiles of wider bins are made.

A tile of everything would read every span. The sums of narrow bins add up to those of wider ones
exactly, and so do the longest spans. Only spans that are at least a narrow bin long are looked at
again: in a row there are at most as many as narrow bins.

A block of more than 100,000 spans is added up in narrow bins once, 16 spans to a cell: wider tiles
are sums of these, which are exact too, and of the spans that are longer than a narrow bin. For the
first block of stacks that is done as soon as a file has been read, while the browser still loads
the page; for others when their first wide tile is requested.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from meantime.kernels.gather import rows_with, take
from meantime.kernels.pixel_columns import span_cells
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Cells", "Outermost", "SpanOverview"]

_T = TypeVar("_T", np.int32, np.int64)

# Reading fewer spans takes a millisecond.
_FEWEST_SPANS = 1 << 17
_SPANS_OF_A_CELL = 16


class Cells(NamedTuple):
    """Sums of spans that are shorter than a bin.

    Attributes:
        number: The row times the number of bins plus the bin, in order.
        covered_ns: How long spans cover it.
        begun: How many begin in it.
        longest: The index of the longest of them.
    """

    number: Int64s
    covered_ns: Int64s
    begun: Int32s
    longest: Int32s


def _chosen(table: SpanTable, threads: Int32s) -> Int32s | None:
    """Return the indices of the spans of threads; None if these are all."""
    found = table.select(threads)
    return None if found is table else found.rows


def _taken(column: npt.NDArray[_T], rows: Int32s) -> npt.NDArray[_T]:
    """Return column[rows]."""
    out = np.empty(len(rows), column.dtype)
    take(column, rows, out)
    return out


@struct
class SpanOverview:
    """Spans in narrow bins.

    Attributes:
        level: The width of its bins is 2 to the power of this, in ns.
        first: The number of the first bin, counted from time 0.
        bins: How many bins there are.
        cells: The sums of spans shorter than a bin.
        length_ns: By cell, the length of the longest.
        wide: The spans that are at least a bin long, by index.
        start_ns: When each of those begins.
        end_ns: When it ends.
        row: Its row in the block.
    """

    level: int
    first: int
    bins: int
    cells: Cells
    length_ns: Int64s
    wide: Int32s
    start_ns: Int64s
    end_ns: Int64s
    row: Int32s

    @classmethod
    def of(
        cls,
        table: SpanTable,
        row: Int32s,
        *,
        threads: Int32s,
        rows: int,
        range_ns: tuple[int, int],
    ) -> SpanOverview | None:
        """Return the overview of a block in a history; None if it has few spans.

        Args:
            table: All spans, numbered by index.
            row: By span, its row in its block.
            threads: The threads in the block.
            rows: How many rows the block has.
            range_ns: Where the history begins and ends.
        """
        start_ns, end_ns = range_ns
        chosen = _chosen(table, threads)
        count = len(table) if chosen is None else len(chosen)
        if count < _FEWEST_SPANS:
            return None
        level = 0
        while rows * ((end_ns >> level) - (start_ns >> level) + 1) * _SPANS_OF_A_CELL > count:
            level += 1
            if start_ns >> level == end_ns >> level:
                return None
        first = start_ns >> level
        bins = (end_ns >> level) - first + 1
        wide, number, covered_ns, begun, longest = span_cells(
            table.start_ns,
            table.end_ns,
            row,
            None,
            chosen,
            first << level,
            level,
            bins,
            rows,
        )
        cells = Cells(number, covered_ns, begun, longest)
        return cls(
            level,
            first,
            bins,
            cells,
            table.end_ns[cells.longest] - table.start_ns[cells.longest],
            wide,
            table.start_ns[wide],
            table.end_ns[wide],
            row[wide],
        )

    def tile(self, start_ns: int, level: int, bins: int, rows: int) -> tuple[Int32s, Cells]:
        """Return the spans that are at least a bin of a tile long, and the sums of the others.

        Args:
            start_ns: Where the tile begins, at a multiple of its width.
            level: The width of its bins, at least that of these.
            bins: How many bins it has.
            rows: How many rows the block has.
        """
        number, length_ns, narrow = self._narrow(start_ns >> self.level, level, bins, rows)
        among, *columns = span_cells(
            self.start_ns,
            self.end_ns,
            self.row,
            None,
            None,
            start_ns,
            level,
            bins,
            rows,
        )
        more = Cells._make(columns)
        more_ns = self.end_ns[more.longest] - self.start_ns[more.longest]
        covered_ns, begun = np.zeros(rows * bins, np.int64), np.zeros(rows * bins, np.int32)
        longest_ns, longest = np.full(rows * bins, -1), np.zeros(rows * bins, np.int32)
        covered_ns[number], begun[number] = narrow.covered_ns, narrow.begun
        longest_ns[number], longest[number] = length_ns, narrow.longest
        covered_ns[more.number] += more.covered_ns
        begun[more.number] += more.begun
        longer = more_ns > longest_ns[more.number]
        longest[more.number[longer]] = self.wide[more.longest[longer]]
        longest_ns[more.number[longer]] = more_ns[longer]
        cell = np.flatnonzero(longest_ns >= 0)
        return self.wide[among], Cells(cell, covered_ns[cell], begun[cell], longest[cell])

    def _narrow(self, first: int, level: int, bins: int, rows: int) -> tuple[Int64s, Int64s, Cells]:
        """Return the cells of a tile that these cells are in, and the sums and lengths in each."""
        shift = level - self.level
        low = min(max(first - self.first, 0), self.bins)
        high = min(max(first + (bins << shift) - self.first, 0), self.bins)
        cells = self.cells
        row_begin = np.arange(rows, dtype=np.int64) * self.bins
        begin = np.searchsorted(cells.number, row_begin + low)
        end = np.searchsorted(cells.number, row_begin + high)
        counts = end - begin
        chosen = np.arange(int(counts.sum())) + np.repeat(
            begin - (np.cumsum(counts) - counts), counts
        )
        row = np.repeat(np.arange(rows, dtype=np.int64), counts)
        bin_ = cells.number[chosen] - row * self.bins
        number = row * bins + ((bin_ + (self.first - first)) >> shift)
        if not len(number):
            return number, number, Cells(number, number, cells.begun[:0], cells.longest[:0])
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        length_ns = self.length_ns[chosen]
        most_ns = np.maximum.reduceat(length_ns, starts)
        sizes = np.diff(starts, append=len(number))
        # the first of the longest in each cell
        longest = np.flatnonzero(length_ns == np.repeat(most_ns, sizes))
        longest = longest[np.searchsorted(longest, starts)]
        return (
            number[starts],
            most_ns,
            Cells(
                number[starts],
                np.add.reduceat(cells.covered_ns[chosen], starts),
                np.add.reduceat(cells.begun[chosen], starts),
                cells.longest[chosen[longest]],
            ),
        )


@struct
class Outermost:
    """The outermost spans of a block, which summarise it: by row, and there in order of time.

    Attributes:
        row: The row of each in the block.
        start_ns: When it begins.
        end_ns: When it ends.
        name: The code of its name.
        offsets: Where the spans of each row begin, and the last ones end.
    """

    row: Int32s
    start_ns: Int64s
    end_ns: Int64s
    name: Int32s
    offsets: Int64s

    @classmethod
    def of(
        cls,
        table: SpanTable,
        row: Int32s,
        *,
        threads: Int32s,
        row_offsets: Sequence[int],
        nested: bool,
    ) -> Outermost:
        """Return the outermost spans of a block; all if they are not nested.

        Args:
            table: All spans, numbered by index.
            row: By span, its row in its block.
            threads: The threads in the block.
            row_offsets: The first row of each lane, and how many rows there are.
            nested: Whether only the first row of each lane has outermost spans.
        """
        rows = row_offsets[-1]
        among = _chosen(table, threads)
        if nested:
            own = row
            if among is not None:
                own = _taken(row, among)
            is_first = np.zeros(rows, np.uint8)
            is_first[row_offsets[:-1]] = True
            chosen = rows_with(own, is_first)
            if among is not None:
                chosen = among[chosen]
        else:
            chosen = table.rows if among is None else among
        row, start_ns = _taken(row, chosen), _taken(table.start_ns, chosen)
        backwards = (row[1:] == row[:-1]) & (start_ns[1:] < start_ns[:-1])
        if (row[1:] < row[:-1]).any() or backwards.any():
            order = np.lexsort((start_ns, row))
            chosen, row, start_ns = chosen[order], row[order], start_ns[order]
        offsets = np.searchsorted(row, np.arange(rows + 1)).astype(np.int64)
        end_ns, name = _taken(table.end_ns, chosen), _taken(table.name.codes, chosen)
        return cls(row, start_ns, end_ns, name, offsets)

    def within(self, start_ns: int, end_ns: int) -> slice | Int64s:
        """Return which of the spans are in a range, and perhaps some next to it."""
        starts, ends = self.start_ns, self.end_ns
        if not len(starts) or (start_ns <= int(starts.min()) and int(ends.max()) <= end_ns):
            return slice(None)
        parts = []
        edges = self.offsets.tolist()
        for first, last in pairwise(edges):
            if first < last:
                low = first + int(np.searchsorted(ends[first:last], start_ns))
                high = first + int(np.searchsorted(starts[first:last], end_ns))
                parts.append(np.arange(low, high))
        return np.concatenate(parts)
