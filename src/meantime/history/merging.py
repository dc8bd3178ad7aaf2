"""From blocks of rows to one table, some rows at a time, so that memory does not depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.event_rows import sorted_rows
from meantime.kernels import gather, nest
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.history.event_rows import Block, Columns
    from meantime.model.columns import Int32s, Int64s

__all__ = ["SpanMerge", "merged_rows"]

# How many rows are merged at once, and how many of each block are looked at for that.
_MERGED_ROWS = 2**18
_WINDOW_ROWS = 2**14
_LATER = np.iinfo(np.int64).max

# A block, and which of its rows.
Piece = tuple["Block", int, int]


def _key_of(block: Block) -> str:
    return block.layout.begin


class _Cursor:
    """The next rows of a piece."""

    def __init__(self, piece: Piece) -> None:
        self.block, self.next, self.last = piece
        self._keys: Int64s = np.empty(0, np.int64)

    def key(self) -> int:
        """Return the time of the next row."""
        return int(self.keys(1)[0])

    def keys(self, rows: int) -> Int64s:
        """Return the times of the next rows, if there are as many."""
        rows = min(rows, self.last - self.next)
        if len(self._keys) < rows:
            self._keys = self.block.part(_key_of(self.block), self.next, self.next + rows)
        return self._keys

    def take(self, rows: int) -> Piece:
        """Return the next rows, and go on behind them."""
        self.next += rows
        self._keys = self._keys[rows:]
        return self.block, self.next - rows, self.next


def _rounds(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield parts of all pieces, each in order of time, so that none begins before one ends.

    All rows of one time are in the same round, in the order of the pieces.
    """
    cursors = [_Cursor(piece) for piece in pieces if piece[1] < piece[2]]
    window = _WINDOW_ROWS
    while cursors:
        next_ns = np.array([cursor.key() for cursor in cursors])
        until_ns = _LATER
        reached: list[int] = []
        for index in np.argsort(next_ns, kind="stable").tolist():
            if next_ns[index] >= until_ns:
                break
            cursor = cursors[index]
            keys = cursor.keys(window)
            reached.append(index)
            if cursor.next + len(keys) < cursor.last:
                until_ns = min(until_ns, int(keys[-1]))
        found = []
        for index in sorted(reached):
            cursor = cursors[index]
            keys = cursor.keys(window)
            rows = len(keys) if until_ns == _LATER else int(np.searchsorted(keys, until_ns))
            if rows:
                found.append(cursor.take(rows))
        if found:
            yield found
            window = _WINDOW_ROWS
        else:
            window *= 2  # more rows than that begin at one time
        cursors = [cursor for cursor in cursors if cursor.next < cursor.last]


def _columns(pieces: Sequence[Piece], bases: dict[int, int]) -> Columns:
    """Return the rows of these pieces; `bases` has where the text of each block begins."""
    layout = pieces[0][0].layout
    columns = {
        name: _joined([block.part(name, first, last) for block, first, last in pieces])
        for name in layout.columns
        if name != "offset"
    }
    if layout.has_texts:
        columns["offset"] = _joined(
            [block.part("offset", first, last) + bases[id(block)] for block, first, last in pieces]
        )
    return columns


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def merged_rows(blocks: Sequence[Block], bases: dict[int, int]) -> Iterator[Columns]:
    """Yield the rows of all blocks in order of time, those of one time as they came.

    Args:
        blocks: The blocks, not of spans.
        bases: By the id of a block, where its text begins in the text of all.
    """
    for pieces in _rounds([(block, 0, block.rows) for block in blocks]):
        yield sorted_rows(pieces[0][0].layout, _columns(pieces, bases))


class SpanMerge:
    """The table of the spans of all blocks.

    Args:
        blocks: The blocks, in the order in which they came.
        bases: By the id of a block, where its text begins in the text of all.
        rank: Returns the rank of each of some threads among them.

    Attributes:
        threads: The threads in the order of the table.
        offsets: Where the rows of each begin.
        moved: By thread, how many spans had to leave the lane of their parent; counted by `parts`.
    """

    def __init__(
        self, blocks: Sequence[Block], bases: dict[int, int], rank: Callable[[Int32s], Int32s]
    ) -> None:
        self._blocks = blocks
        self._bases = bases
        quarks, where, firsts, lasts = [], [], [], []
        for index, block in enumerate(blocks):
            thread = block.part("thread", 0, block.rows)
            first = np.append(0, np.flatnonzero(thread[1:] != thread[:-1]) + 1)
            quarks.append(thread[first])
            where.append(np.full(len(first), index, np.int32))
            firsts.append(first)
            lasts.append(np.append(first[1:], block.rows))
        quark = np.concatenate([np.empty(0, np.int32), *quarks])
        threads = gather.seen(quark)
        self._rank = rank(threads)
        self._quarks = threads
        self.threads: Int32s = np.empty_like(threads)
        self.threads[self._rank] = threads
        ranks = self._rank[np.searchsorted(threads, quark)]
        order = np.argsort(ranks, kind="stable")
        self._ranks = ranks[order]
        self._where = np.concatenate([np.empty(0, np.int32), *where])[order]
        self._first = np.concatenate([np.empty(0, np.int64), *firsts])[order]
        self._last = np.concatenate([np.empty(0, np.int64), *lasts])[order]
        rows = np.zeros(len(threads), np.int64)
        np.add.at(rows, self._ranks, self._last - self._first)
        self.offsets: Int64s = np.append(0, np.cumsum(rows))
        self.moved: Int64s = np.zeros(len(threads), np.int64)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def parts(self) -> Iterator[Columns]:
        """Yield the columns of the table, some rows at a time, with depth, lane and parent."""
        first = 0
        while first < len(self.threads):
            most = self.offsets[first] + _MERGED_ROWS
            last = max(first + 1, int(np.searchsorted(self.offsets, most, side="right")) - 1)
            pieces = slice(*np.searchsorted(self._ranks, [first, last]).tolist())
            if last == first + 1 and self.offsets[last] > most:
                yield from self._long_thread(first, pieces)
            else:
                yield self._threads_whole(first, last, pieces)
            first = last

    def _threads_whole(self, first: int, last: int, pieces: slice) -> Columns:
        """Return the spans of threads with few spans."""
        parts = []
        where, begins, ends = self._where[pieces], self._first[pieces], self._last[pieces]
        for index in distinct(where).tolist():
            block = self._blocks[index]
            ours = where == index
            begin, end = int(begins[ours].min()), int(ends[ours].max())
            columns = _columns([(block, begin, end)], self._bases)
            if int((ends[ours] - begins[ours]).sum()) < end - begin:
                inside = np.zeros(end - begin + 1, np.int8)
                np.add.at(inside, begins[ours] - begin, 1)
                np.add.at(inside, ends[ours] - begin, -1)
                of_these = np.cumsum(inside)[:-1] > 0
                columns = {name: column[of_these] for name, column in columns.items()}
            parts.append(columns)
        columns = {name: _joined([part[name] for part in parts]) for name in parts[0]}
        thread = self._rank[np.searchsorted(self._quarks, columns.pop("thread"))] - first
        ranks = np.arange(last - first, dtype=np.int32)
        rows, offsets = nest.order(
            columns["start_ns"],
            columns["end_ns"],
            thread.astype(np.int32),
            columns["flags"],
            ranks,
        )
        columns = _taken(columns, rows)
        columns["depth"], columns["lane"], columns["parent"] = nest.nest(
            columns["start_ns"],
            columns["end_ns"],
            columns.pop("level"),
            columns["flags"],
            offsets,
        )
        lane, parent = columns["lane"], columns["parent"]
        if lane.any():
            moved = np.flatnonzero((lane != 0) & ((parent < 0) | (lane[parent] != lane)))
            where = np.searchsorted(offsets, moved, side="right") - 1
            np.add.at(self.moved, where + first, 1)
        parent[parent >= 0] += np.int32(self.offsets[first])
        return columns

    def _long_thread(self, thread: int, pieces: slice) -> Iterator[Columns]:
        """Yield the spans of a thread with many spans."""
        nesting = nest.Nesting()
        row = int(self.offsets[thread])
        # the spans that later ones may be in
        kept: Columns = {"row": np.empty(0, np.int32)}
        for part in _rounds(
            [
                (self._blocks[index], first, last)
                for index, first, last in zip(
                    self._where[pieces].tolist(),
                    self._first[pieces].tolist(),
                    self._last[pieces].tolist(),
                    strict=True,
                )
            ]
        ):
            columns = _columns(part, self._bases)
            del columns["thread"]
            count = len(columns["start_ns"])
            one = np.zeros(count, np.int32)
            rows, _ = nest.order(
                columns["start_ns"], columns["end_ns"], one, columns["flags"], one[:1]
            )
            columns = _taken(columns, rows)
            for name in ("depth", "lane", "parent"):
                columns[name] = np.zeros(count, np.int32)
            columns["row"] = np.arange(row, row + count, dtype=np.int32)
            before = len(kept["row"])
            known = columns
            if before:
                known = {name: np.concatenate([kept[name], columns[name]]) for name in kept}
            nesting.extend(
                before,
                known["start_ns"],
                known["end_ns"],
                known["level"],
                known["flags"],
                known["depth"],
                known["lane"],
                known["parent"],
            )
            lane, parent = known["lane"], known["parent"]
            if lane.any():
                moved = (lane != 0) & ((parent < 0) | (lane[parent] != lane))
                self.moved[thread] += np.count_nonzero(moved[before:])
            above = np.append(known["row"], np.int32(-1))[parent[before:]]
            lasting = nesting.keep(parent)
            index = np.full(len(parent) + 1, -1, np.int32)
            index[lasting] = np.arange(len(lasting))
            kept = {name: known[name][lasting] for name in _NESTED}
            kept["parent"] = index[kept["parent"]]
            found = {name: known[name][before:] for name in ("depth", "lane")}
            for name in ("level", "row"):
                del columns[name]
            yield {**columns, **found, "parent": above}
            row += count


_NESTED = ("start_ns", "end_ns", "level", "flags", "depth", "lane", "parent", "row")


def _taken(columns: Columns, rows: Int32s) -> Columns:
    if gather.is_counting(rows):
        return columns
    return {name: column[rows] for name, column in columns.items()}
