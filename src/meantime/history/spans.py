"""The table of spans: what ran on each thread from when to when, nested.

Rows are in the order (thread, start, longest first, as they came), so the spans of a thread
are adjacent and every span comes after the one that contains it. That order changes while a history
grows; what a span keeps is its number, which counts spans in the order in which they came.

What a span is inside follows from the spans that ended so far: its parent mostly comes after it.
So depth and parent change while a history grows, and the attributes `Stack/<depth>` are derived
when it is finished. Spans that began at one time have to come in the order in which they began; a
reader that delivers spans as they end keeps back the ones that began when an open span did.

A selection has the rows it consists of, and takes a column when it is used: a statistic needs five
of eleven. `parent` counts in the selection, since kernels use it as an index. A column of a table
on disk is read and checked when it is first used. The times of spans, depths, lanes and parents
are checked together: each is valid only by the others, and kernels rely on all of them.
"""

from __future__ import annotations

import copy
import operator
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from meantime.history.event_rows import LAYOUTS
from meantime.kernels import gather, nest
from meantime.kernels.span_search import TimeIndex, parents_among
from meantime.model.columns import Coded
from meantime.model.tabular import Tabular
from meantime.model.trace import SpanFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history.event_rows import Block, Columns
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column
    from meantime.model.trace import ArgumentText

__all__ = ["GrowingSpans", "SpanTable", "span_table"]

_INT64 = np.iinfo(np.int64)
# What the kernel copies; NumPy would need 8-byte indices.
_TAKEN = (np.int64, np.int32, np.uint8)


class SpanTable(Tabular):
    """Spans as columns.

    A column of a history on disk is read and checked when it is first used, and a selection takes
    the rows of a column when that column is used.

    >>> from meantime.testing import history_from_spans
    >>> table = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}).spans()
    >>> table.name.to_list(), table.depth.tolist(), table.self_ns.tolist()
    (['a', 'b'], [0, 1], [7, 3])

    Attributes:
        text: The bytes of all arguments.
    """

    def __init__(
        self,
        *,
        places: Callable[[], tuple[Int32s, Int64s]],
        column: Callable[[str], npt.NDArray[Any]],
        strings: tuple[Sequence[str], Sequence[str]],
        text: ArgumentText,
        rows: Callable[[], Int32s] | None = None,
    ) -> None:
        """Make a table whose columns are requested by name when they are first used.

        Args:
            places: Returns `threads` and `offsets`.
            column: Returns a column; those of `name` and `category` are codes.
            strings: The names and the categories by code.
            text: The bytes of all arguments.
            rows: Returns the number of each span; None counts from 0.
        """
        self._places = places
        self.text = text
        self._source = column
        self._strings = strings
        self._rows = rows

    def _column(self, name: str) -> npt.NDArray[Any]:
        return self._source(name)

    @classmethod
    def of_arrays(
        cls,
        *,
        threads: Int32s,
        offsets: Int64s,
        name: Coded,
        category: Coded,
        text: ArgumentText,
        **columns: npt.NDArray[Any],
    ) -> SpanTable:
        """Return the table of columns in memory: those that its properties describe."""
        columns |= {"name": name.codes, "category": category.codes}
        return cls(
            places=lambda: (threads, offsets),
            column=columns.__getitem__,
            strings=(name.names, category.names),
            text=text,
            rows=(lambda: columns["rows"]) if "rows" in columns else None,
        )

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def threads(self) -> Int32s:
        """int32, the quarks of the threads that have spans, in the order of the table."""
        return self._places()[0]

    @cached_property
    def offsets(self) -> Int64s:
        """int64, threads + 1: thread i has rows [offsets[i], offsets[i + 1])."""
        return self._places()[1]

    @cached_property
    def rows(self) -> Int32s:
        """int32, the number of each span: how many were added to the history before it.

        It never changes: it is the same in every selection, while the history grows, when it is
        finished, and when it is opened again.
        """
        return self._rows() if self._rows else np.arange(len(self), dtype=np.int32)

    def row_of(self, number: int) -> int | None:
        """Return the row in this table of the span with a number; None if it is not in it."""
        found = np.flatnonzero(self.rows == number)
        return int(found[0]) if len(found) else None

    @cached_property
    def start_ns(self) -> Int64s:
        """int64."""
        return self._column("start_ns")

    @cached_property
    def end_ns(self) -> Int64s:
        """int64, not before `start_ns`."""
        return self._column("end_ns")

    @cached_property
    def name(self) -> Coded:
        """What ran."""
        return Coded(self._column("name"), self._strings[0])

    @cached_property
    def category(self) -> Coded:
        """Its category; None where there is none."""
        return Coded(self._column("category"), self._strings[1])

    @cached_property
    def depth(self) -> Int32s:
        """int32, how many spans it is inside; 0 at the top."""
        return self._column("depth")

    @cached_property
    def lane(self) -> npt.NDArray[Any]:
        """Where to draw it: spans of one lane and depth never overlap.

        0 unless spans of the thread partly overlap. An integer column of any width.
        """
        return self._column("lane")

    @cached_property
    def parent(self) -> Int32s:
        """int32, the index in this table of the latest begun open span that contains it.

        It may be in another lane; -1 if there is none.
        """
        return self._column("parent")

    @cached_property
    def flags(self) -> npt.NDArray[np.uint8]:
        """uint8, `SpanFlag`."""
        return self._column("flags")

    @cached_property
    def arguments_offset(self) -> Int64s:
        """int64, where its arguments begin in `text`."""
        return self._column("arguments_offset")

    @cached_property
    def arguments_length(self) -> Int32s:
        """int32, the bytes of its arguments; 0 is none."""
        return self._column("arguments_length")

    @property
    def self_ns(self) -> Int64s:
        """The time of each span that is in none of the spans directly inside it."""
        return nest.self_time(self.start_ns, self.end_ns, self.parent)

    @property
    def thread(self) -> Int32s:
        """The quark of each span's thread."""
        return np.repeat(self.threads, np.diff(self.offsets))

    @property
    def unfinished(self) -> npt.NDArray[np.bool_]:
        """Whether each span was begun and never ended; it then ends with its thread."""
        return (self.flags & np.uint8(SpanFlag.UNFINISHED)).astype(np.bool_)

    def columns(self) -> dict[str, Column]:
        """Return the columns by name, with thread and self time, without those of arguments.

        `span` is the number of each span, and `parent` that of its parent.
        """
        parent = self.parent
        return {
            "span": self.rows,
            "thread": self.thread,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "duration_ns": self.end_ns - self.start_ns,
            "self_ns": self.self_ns,
            "name": self.name,
            "category": self.category,
            "depth": self.depth,
            "lane": self.lane,
            "parent": np.ma.masked_where(parent < 0, np.append(self.rows, np.int32(-1))[parent]),
            "unfinished": self.unfinished,
        }

    def arguments(self, row: SupportsIndex) -> str | None:
        """Return the arguments of a span as in the trace, mostly JSON."""
        return self.text.decode(int(self.arguments_offset[row]), int(self.arguments_length[row]))

    def thread_at(self, row: SupportsIndex) -> int:
        """Return the quark of the thread of the span in a row."""
        return int(
            self.threads[np.searchsorted(self.offsets, operator.index(row), side="right") - 1]
        )

    def by_index(self) -> SpanTable:
        """Return the same spans, the number of each being its index in this table.

        So `rows` of a selection are indices into the columns of this table.
        """

        def column(name: str) -> npt.NDArray[Any]:
            whole = getattr(self, name)
            found: npt.NDArray[Any] = whole.codes if isinstance(whole, Coded) else whole
            return found

        return SpanTable(
            places=lambda: (self.threads, self.offsets),
            column=column,
            strings=self._strings,
            text=self.text,
        )

    def around(self, row: int) -> tuple[SpanTable, int]:
        """Return the spans that overlap the span in a row, on its thread, and its row among them.

        The part has all that is inside the span, so its self time is that of the whole table.
        """
        start_ns, end_ns = int(self.start_ns[row]), int(self.end_ns[row])
        part = self.select(
            [self.thread_at(row)], start_ns=start_ns, end_ns=max(end_ns, start_ns + 1)
        )
        found = part.row_of(int(self.rows[row]))
        assert found is not None
        return part, found

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SpanTable:
        """Return the spans of these threads that overlap [start_ns, end_ns), in full.

        An empty span overlaps the range if its time is in it. Without quarks, of all threads.

        >>> from meantime.testing import history_from_spans
        >>> table = history_from_spans({"main": [("a", 0, 4), ("b", 4, 9), ("c", 5, 6)]}).spans()
        >>> part = table.select(start_ns=5)
        >>> part.name.to_list(), part.rows.tolist(), part.parent.tolist()
        (['b', 'c'], [1, 2], [-1, 0])
        """
        if quarks is None and start_ns is None and end_ns is None:
            return self
        chosen: slice | Int64s = slice(None)
        if quarks is not None:
            chosen = np.flatnonzero(np.isin(self.threads, np.asarray(quarks, np.int32)))
        threads = self.threads[chosen]
        first, last = self.offsets[:-1][chosen], self.offsets[1:][chosen]
        from_ns = _INT64.min if start_ns is None else max(_INT64.min, min(start_ns, _INT64.max))
        to_ns = _INT64.max if end_ns is None else max(_INT64.min, min(end_ns, _INT64.max))
        if (start_ns is None and end_ns is None) or self._times.all_overlap(from_ns, to_ns):
            return self._of_threads(threads, first, last)
        if quarks is None:
            first, last = self.offsets[:1], self.offsets[-1:]
        rows = self._times.overlapping(first, last, from_ns, to_ns)
        # in 32 bits, so that the rows are not copied to be compared
        edges = np.searchsorted(rows, self.offsets[:-1][chosen].astype(np.int32))
        edges = np.append(edges, len(rows))
        return self._taken(threads, edges, rows)

    @cached_property
    def _times(self) -> TimeIndex:
        return TimeIndex(self.start_ns, self.end_ns)

    def _of_threads(self, threads: Int32s, first: Int64s, last: Int64s) -> SpanTable:
        """Return all spans of some threads, given where their rows begin and end."""
        if len(threads) == len(self.threads):
            return self
        offsets = np.append(0, np.cumsum(last - first))
        if (first[1:] == last[:-1]).all():
            a, b = (int(first[0]), int(last[-1])) if len(first) else (0, 0)
            return self._part(threads, offsets, slice(a, b), lambda: self._shifted(a, b))
        rows = np.arange(offsets[-1], dtype=np.int32)
        rows += np.repeat(first - offsets[:-1], last - first).astype(np.int32)
        return self._taken(threads, offsets, rows)

    def _shifted(self, first: int, last: int) -> Int32s:
        """Return the parents of whole threads, whose rows are adjacent."""
        parent: Int32s = self.parent[first:last] - np.int32(first)
        return np.maximum(parent, np.int32(-1), out=parent)

    def _taken(self, threads: Int32s, offsets: Int64s, rows: Int32s) -> SpanTable:
        # A parent that ends where an empty span and the range begin is left out.
        return self._part(threads, offsets, rows, lambda: parents_among(rows, self.parent))

    def _part(
        self, threads: Int32s, offsets: Int64s, rows: slice | Int32s, parents: Callable[[], Int32s]
    ) -> SpanTable:
        def column(name: str) -> npt.NDArray[Any]:
            if name == "parent":
                return parents()
            whole = getattr(self, name)
            return _taken(whole.codes if isinstance(whole, Coded) else whole, rows)

        placed = (threads, offsets.astype(np.int64))
        return SpanTable(
            places=lambda: placed,
            column=column,
            strings=self._strings,
            text=self.text,
            rows=lambda: self._numbers(rows),
        )

    def _numbers(self, rows: slice | Int32s) -> Int32s:
        if self._rows is not None:
            return self.rows[rows]
        if isinstance(rows, slice):
            return np.arange(rows.start, rows.stop, dtype=np.int32)
        return rows

    def clipped(self, start_ns: int, end_ns: int) -> SpanTable:
        """Return the same spans with their times cut to [start_ns, end_ns)."""
        cut = copy.copy(self)
        cut.__dict__.pop("_times", None)
        cut.start_ns = np.clip(self.start_ns, start_ns, end_ns)
        cut.end_ns = np.clip(self.end_ns, start_ns, end_ns)
        return cut

    def __repr__(self) -> str:
        return f"SpanTable({len(self):,} spans on {len(self.threads):,} threads)"


def _taken(column: npt.NDArray[Any], rows: slice | Int32s) -> npt.NDArray[Any]:
    if isinstance(rows, slice) or column.dtype not in _TAKEN:
        return column[rows]
    found = np.empty(len(rows), column.dtype)
    gather.take(column, rows, found)
    return found


def span_table(
    parts: list[dict[str, npt.NDArray[Any]]],
    strings: Sequence[str],
    text: ArgumentText,
    rank: Callable[[Int32s], Int32s],
    *,
    reuse: bool = False,
) -> SpanTable:
    """Return the table of all spans in some parts, with the columns of `event_rows`.

    Columns are removed from the parts as they are joined, so that not all are in memory twice.

    Args:
        parts: The columns, in the order in which the spans came.
        strings: The names and categories by code.
        text: The bytes of all arguments.
        rank: Returns the rank of each thread among them.
        reuse: Whether nothing else refers to these columns.
    """
    columns = {
        name: _joined([part.pop(name) for part in parts], dtype)
        for name, dtype in LAYOUTS["spans"].columns.items()
    }
    quarks = columns.pop("thread")
    threads = gather.seen(quarks)
    ranks = rank(threads)
    rank_of_quark = np.zeros(int(threads.max(initial=0)) + 1, np.int32)
    rank_of_quark[threads] = ranks
    rows, offsets = nest.order(
        columns["start_ns"],
        columns["end_ns"],
        quarks,
        columns["flags"],
        rank_of_quark,
        len(threads),
    )
    del quarks
    if not gather.is_counting(rows):
        # what a column was in is where the next one goes: memory costs most when it is first used
        spare: Columns = {}
        for name, column in columns.items():
            # of no memory yet, if they were added as zeros
            if not column[0] and not column.any():
                continue
            taken = spare.pop(column.dtype.char, None)
            if taken is None:
                taken = np.empty_like(column)
            gather.take(column, rows, taken)
            columns[name] = taken
            if reuse:
                spare[column.dtype.char] = column
        del spare, column, taken
    del rows
    depth, lane, parent = nest.nest(
        columns["start_ns"],
        columns["end_ns"],
        columns.pop("level"),
        columns["flags"],
        offsets,
    )
    in_order = np.empty_like(threads)
    in_order[ranks] = threads
    return SpanTable.of_arrays(
        threads=in_order,
        offsets=offsets,
        start_ns=columns["start_ns"],
        end_ns=columns["end_ns"],
        name=Coded(columns["name"], strings),
        category=Coded(columns["category"], strings),
        depth=depth,
        lane=lane.astype(np.min_scalar_type(int(lane.max(initial=0))), copy=False),
        parent=parent,
        flags=columns["flags"],
        rows=columns["number"],
        arguments_offset=columns["offset"],
        arguments_length=columns["length"],
        text=text,
    )


def _joined(parts: list[npt.NDArray[Any]], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


class GrowingSpans(SpanTable):
    """The spans so far of a history that is being built.

    Depth, lane and parent are those among these spans: one that is still open contains none yet.
    Each selection chooses the lanes of its own spans, and reads only the blocks that overlap it.
    """

    def __init__(
        self,
        blocks: Sequence[tuple[Block, int]],
        strings: Sequence[str],
        text: ArgumentText,
        rank: Callable[[Int32s], Int32s],
    ) -> None:
        """Make a table of blocks, each given with where its text begins."""
        # the columns are those of `_all`: functions that return them would refer to this table
        self._strings = (strings, strings)
        self.text = text
        self._blocks = blocks
        self._rank = rank
        self._low_ns = np.array([block.low_ns for block, _ in blocks], np.int64)
        self._high_ns = np.array([block.high_ns for block, _ in blocks], np.int64)

    def __len__(self) -> int:
        return sum(block.rows for block, _ in self._blocks)

    @cached_property
    def threads(self) -> Int32s:
        """int32, the quarks of the threads that have spans, in the order of the table."""
        return self._all.threads

    @cached_property
    def offsets(self) -> Int64s:
        """int64, threads + 1: thread i has rows [offsets[i], offsets[i + 1])."""
        return self._all.offsets

    @cached_property
    def rows(self) -> Int32s:
        """int32, the number of each span; see `SpanTable.rows`."""
        return self._all.rows

    def _column(self, name: str) -> npt.NDArray[Any]:
        return self._all._column(name)  # noqa: SLF001 - of the same class

    @cached_property
    def _all(self) -> SpanTable:
        found = []
        for block, base in self._blocks:
            columns = {name: block.column(name) for name in block.layout.columns}
            if base:
                columns["offset"] = columns["offset"] + base
            found.append(columns)
        return span_table(found, self._strings[0], self.text, self._rank)

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SpanTable:
        """Return the spans of these threads that overlap [start_ns, end_ns), in full."""
        if quarks is None and start_ns is None and end_ns is None:
            return self
        from_ns = _INT64.min if start_ns is None else max(_INT64.min, min(start_ns, _INT64.max))
        to_ns = _INT64.max if end_ns is None else max(_INT64.min, min(end_ns, _INT64.max))
        reached = np.flatnonzero((self._low_ns < to_ns) & (self._high_ns >= from_ns))
        table = self._overlapping(reached.tolist(), quarks, from_ns, to_ns)
        if len(table) and from_ns > _INT64.min and int(table.end_ns.min()) <= from_ns:
            # what ends where the range begins may contain the empty span that does, too
            table = self._overlapping(reached.tolist(), quarks, from_ns - 1, to_ns)
            return table.select(start_ns=start_ns, end_ns=end_ns)
        return table

    def _overlapping(
        self,
        blocks: Sequence[int],
        quarks: Sequence[int] | Int32s | None,
        from_ns: int,
        to_ns: int,
    ) -> SpanTable:
        """Return the spans of these blocks and threads that overlap a range."""
        parts = []
        for index in blocks:
            block = self._blocks[index][0]
            rows = block.index().overlapping(
                _FIRST, np.array([block.rows], np.int64), from_ns, to_ns
            )
            if len(rows):
                parts.append((*self._blocks[index], rows))
        if quarks is not None:
            parts = _of_threads(parts, np.asarray(quarks, np.int32))
        return _Selection(parts, self._strings[0], self.text, self._rank).table()


def _of_threads(
    parts: list[tuple[Block, int, Int32s]], quarks: Int32s
) -> list[tuple[Block, int, Int32s]]:
    """Return those rows of some blocks that are of these threads."""
    threads = [block.column("thread")[rows] for block, _, rows in parts]
    thread = _joined(threads, np.dtype(np.int32))
    wanted = thread == quarks[0] if len(quarks) == 1 else np.isin(thread, quarks)
    found, first = [], 0
    for block, base, rows in parts:
        ours = rows[wanted[first : first + len(rows)]]
        first += len(rows)
        if len(ours):
            found.append((block, base, ours))
    return found


def _distinct(quarks: Int32s) -> tuple[Int32s, Int32s]:
    """Return the different ones in ascending order, and by row the index among these."""
    if len(quarks) <= _FEW_ROWS:
        # `np.unique` takes 20 us for any number
        threads = np.array(sorted(set(quarks.tolist())), np.int32)
        return threads, np.searchsorted(threads, quarks).astype(np.int32)
    threads, which = np.unique(quarks, return_inverse=True)
    return threads, which.astype(np.int32)


class _Selection:
    """Some rows of some blocks, as a table whose columns are made when they are first used."""

    def __init__(
        self,
        parts: Sequence[tuple[Block, int, Int32s]],
        strings: Sequence[str],
        text: ArgumentText,
        rank: Callable[[Int32s], Int32s],
    ) -> None:
        self._parts = parts
        self._strings = strings
        self._text = text
        self._rows: Int32s | None = None
        self._made: dict[str, npt.NDArray[Any]] = {}
        quarks = self._joined("thread")
        # not `gather.seen`, which takes time for every attribute before the last
        threads, which = _distinct(quarks)
        ranks = rank(threads)
        rows, self._offsets = nest.order(
            self.get("start_ns"),
            self.get("end_ns"),
            which,
            self.get("flags"),
            ranks,
        )
        self._threads = np.empty_like(threads)
        self._threads[ranks] = threads
        if not gather.is_counting(rows):
            self._made = {name: column[rows] for name, column in self._made.items()}
            self._rows = rows

    def table(self) -> SpanTable:
        """Return the table."""
        threads, offsets = self._threads, self._offsets
        return SpanTable(
            places=lambda: (threads, offsets),
            column=self.get,
            strings=(self._strings, self._strings),
            text=self._text,
            rows=lambda: self.get("number"),
        )

    def get(self, name: str) -> npt.NDArray[Any]:
        """Return a column of the table."""
        column = self._made.get(name)
        if column is None:
            if name in {"depth", "lane", "parent"}:
                self._nest()
                return self._made[name]
            stored = {"arguments_offset": "offset", "arguments_length": "length"}.get(name, name)
            column = self._joined(stored)
            if self._rows is not None:
                column = column[self._rows]
            self._made[name] = column
        return column

    def _joined(self, name: str) -> npt.NDArray[Any]:
        found = [block.column(name)[rows] for block, _, rows in self._parts]
        if name == "offset":
            found = [column + base for column, (_, base, _) in zip(found, self._parts, strict=True)]
        return _joined(found, LAYOUTS["spans"].columns[name])

    def _nest(self) -> None:
        depth, lane, parent = nest.nest(
            self.get("start_ns"),
            self.get("end_ns"),
            self.get("level"),
            self.get("flags"),
            self._offsets,
        )
        self._made |= {"depth": depth, "lane": lane, "parent": parent}


_FIRST = np.zeros(1, np.int64)
_FEW_ROWS = 500
