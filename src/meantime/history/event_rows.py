"""The rows of the event tables of a history that is being built, in blocks.

Rows are kept in the order in which they came, until there are enough of them for a block: then they
are sorted, and never change again.

A block has 2^17 rows, in memory or in a file. Rows that wait for a block are in a log on disk,
next to the log of the changes. So a question about a growing history searches the blocks that
overlap its range, and at most a few short blocks of what waits, each longer than the next, which
are made when something is asked. When the history is finished, the blocks are merged into the
table that `SpanTable` reads: threads with few spans together, a thread with many in rounds by
time, of which `kernels/nest.Nesting` keeps only the spans that are still open. Neither needs
memory for all rows. In memory the parts are joined column by column instead, which is faster.

A merge changes the order of rows, so a row cannot identify a span. Its number does: how many spans
were added before it. It costs four bytes a span on disk, unless numbers are rows. Numbers by place
in the finished table were rejected, because nobody knows them before the end; numbers by block and
row, because they would depend on the size of blocks.

A reader of a growing directory accepts what it has read once the log was there: what the builder
appended meanwhile is left for the next question. Reading again until nothing changed would never
end beside a builder that writes as fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from meantime.errors import HistoryError
from meantime.kernels import gather, nest
from meantime.kernels.memory import GrowingColumn
from meantime.kernels.span_search import TimeIndex
from meantime.model.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt


__all__ = [
    "BLOCK_ROWS",
    "LAYOUTS",
    "Block",
    "BlockSink",
    "Columns",
    "GrowingRows",
    "JoinedText",
    "Layout",
    "MemoryBlock",
    "joined_columns",
    "limits_of",
    "sorted_rows",
]

Columns: TypeAlias = "dict[str, npt.NDArray[Any]]"

# At 50 bytes a row, a block is as large as a segment.
BLOCK_ROWS = 2**17
_MOST_ROWS = 2**31 - 1


class Layout(NamedTuple):
    """The columns of a table, the longest items first.

    Attributes:
        table: Its name.
        columns: The type of each column.
        begin: The column that rows are ordered by.
        end: The column of where they end, as late as the other or later if it is a span's.
    """

    table: str
    columns: dict[str, np.dtype[Any]]
    begin: str
    end: str

    @property
    def has_texts(self) -> bool:
        """Whether rows have arguments: `offset` and `length`."""
        return "offset" in self.columns

    def row_bytes(self) -> int:
        """Return the bytes of a row."""
        return sum(dtype.itemsize for dtype in self.columns.values())


def _columns(int64: str, int32: str, uint8: str = "") -> dict[str, np.dtype[Any]]:
    kinds = ((np.int64, int64), (np.int32, int32), (np.uint8, uint8))
    return {name: np.dtype(kind) for kind, names in kinds for name in names.split()}


LAYOUTS = {
    "spans": Layout(
        "spans",
        _columns("start_ns end_ns offset", "number thread name category level length", "flags"),
        "start_ns",
        "end_ns",
    ),
    "samples": Layout(
        "samples",
        _columns("time_ns weight", "thread stack event name cpu"),
        "time_ns",
        "time_ns",
    ),
    "points": Layout(
        "points", _columns("time_ns offset", "quark name length"), "time_ns", "time_ns"
    ),
    "flows": Layout(
        "flows", _columns("from_ns to_ns", "from_quark to_quark name"), "from_ns", "to_ns"
    ),
}


class Block(Protocol):
    """Rows of a table that never change, in the order of their times, spans by thread before that.

    Attributes:
        layout: Their columns.
        rows: How many there are.
        low_ns: The earliest time of any.
        high_ns: The latest time of any.
        last_ns: Where the last of them begins.
        text: What their arguments are in, if that is not what those of all rows in memory are in.
    """

    layout: Layout
    rows: int
    low_ns: int
    high_ns: int
    last_ns: int
    text: ArgumentText | None

    def column(self, name: str, /) -> npt.NDArray[Any]:
        """Return a column."""

    def part(self, name: str, first: int, last: int, /) -> npt.NDArray[Any]:
        """Return some rows of a column."""

    def index(self) -> TimeIndex:
        """Return what finds the rows of a range."""


class MemoryBlock:
    """A block whose columns are in memory; see `Block`."""

    def __init__(self, layout: Layout, columns: Columns, text: ArgumentText | None = None) -> None:
        self.layout = layout
        self.columns = columns
        self.text = text
        self.rows: int = len(columns[layout.begin])
        self.low_ns: int
        self.high_ns: int
        self.last_ns: int
        self.low_ns, self.high_ns, self.last_ns = limits_of(layout, columns)
        self._index: TimeIndex | None = None

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column."""
        return self.columns[name]

    def part(self, name: str, first: int, last: int) -> npt.NDArray[Any]:
        """Return some rows of a column."""
        return self.columns[name][first:last]

    def index(self) -> TimeIndex:
        """Return what finds the rows of a range."""
        if self._index is None:
            self._index = TimeIndex(self.columns[self.layout.begin], self.columns[self.layout.end])
        return self._index


class BlockSink(Protocol):
    """Stores the blocks of a table."""

    def keep(self, block: MemoryBlock, number: int, text: ArgumentText, /) -> Block:
        """Store the block of this number, and return the one to be used instead."""


def limits_of(layout: Layout, columns: Columns) -> tuple[int, int, int]:
    """Return the earliest and the latest time of some rows, and where the last of them begins."""
    begin_ns, end_ns = columns[layout.begin], columns[layout.end]
    last_ns = int(begin_ns.max())
    return (
        min(int(begin_ns.min()), int(end_ns.min())),
        max(last_ns, int(end_ns.max())),
        last_ns,
    )


def joined_columns(layout: Layout, parts: Sequence[Columns]) -> Columns:
    """Return the columns of all parts, one after another."""
    if len(parts) == 1:
        return dict(parts[0])
    return {
        name: np.concatenate([np.empty(0, dtype), *(part[name] for part in parts)])
        for name, dtype in layout.columns.items()
    }


def sorted_rows(layout: Layout, columns: Columns) -> Columns:
    """Return the rows in the order of a block."""
    if layout.table == "spans":
        quarks = columns["thread"]
        threads = gather.seen(quarks)
        rank = np.zeros(int(threads.max(initial=0)) + 1, np.int32)
        rank[threads] = np.arange(len(threads))
        rows, _ = nest.order(
            columns["start_ns"], columns["end_ns"], quarks, columns["flags"], rank, len(threads)
        )
        if gather.is_counting(rows):
            return columns
    else:
        time_ns = columns[layout.begin]
        if not np.any(time_ns[1:] < time_ns[:-1]):
            return columns
        rows = np.argsort(time_ns, kind="stable").astype(np.int32)
    return {name: column[rows] for name, column in columns.items()}


class GrowingRows:
    """The rows of one table: blocks, and after them those that wait for one.

    Attributes:
        layout: Their columns.
        blocks: The sealed blocks, in the order in which they came.
        waiting: How many these are.
        logged: How many of these are on disk.
        rows: How many rows there are in all.
        text: What the arguments of rows in memory are in.
        version: Increases with every row.
        sink: Where blocks are stored; None keeps them in memory.
    """

    def __init__(self, table: str) -> None:
        self.layout: Layout = LAYOUTS[table]
        self.blocks: list[Block] = []
        self._parts: list[Columns] = []
        # The rows after those of the parts, while nobody looks at them: no column is joined later.
        self._growing: dict[str, GrowingColumn] | None = None
        self.waiting: int
        self.logged: int
        self.rows: int
        self.version: int
        self.waiting = self.logged = self.rows = self.version = 0
        self.text: ArgumentText = ArgumentText()
        self.sink: BlockSink | None = None
        # Blocks of the rows that wait, for queries: few, as each is longer than the next.
        self._recent: list[MemoryBlock] = []
        self._recent_rows = 0

    def add(self, columns: Columns) -> None:
        """Add rows, which get the next numbers.

        Raises:
            HistoryError: If there are too many.
        """
        rows = len(columns[self.layout.begin])
        if not rows:
            return
        if self.rows + rows > _MOST_ROWS:
            raise HistoryError(f"a history has at most {_MOST_ROWS:,} {self.layout.table}")
        if "number" in self.layout.columns:
            columns["number"] = np.arange(self.rows, self.rows + rows, dtype=np.int32)
        if self.sink is None:
            if self._growing is None:
                self._growing = {
                    name: GrowingColumn(dtype) for name, dtype in self.layout.columns.items()
                }
            for name, column in self._growing.items():
                column.append(columns[name])
        else:
            self.parts.append(columns)
        self.waiting += rows
        self.rows += rows
        self.version += 1

    @property
    def are_unseen(self) -> bool:
        """Whether nothing refers to the memory of any row, so that it can be used again."""
        return not self.blocks and not self._parts

    @property
    def parts(self) -> list[Columns]:
        """The rows in no block, in the order in which they came."""
        if self._growing is not None:
            self._parts.append({name: column.take() for name, column in self._growing.items()})
            self._growing = None
        return self._parts

    @property
    def is_full(self) -> bool:
        """Whether enough rows wait for a block."""
        return self.waiting >= BLOCK_ROWS

    def seal(self, *, everything: bool = False) -> None:
        """Seal blocks of the rows that wait, while there are enough."""
        while self.waiting >= (1 if everything else BLOCK_ROWS):
            columns = joined_columns(self.layout, self.take(BLOCK_ROWS))
            block = MemoryBlock(self.layout, sorted_rows(self.layout, columns))
            number = len(self.blocks)
            self.blocks.append(
                block if self.sink is None else self.sink.keep(block, number, self.text)
            )

    def take(self, rows: int) -> list[Columns]:
        """Remove the first rows that wait, and return them."""
        taken, left = [], rows
        while left and self.parts:
            part = self.parts[0]
            size = len(part[self.layout.begin])
            if size <= left:
                taken.append(self.parts.pop(0))
            else:
                taken.append({name: column[:left] for name, column in part.items()})
                self.parts[0] = {name: column[left:] for name, column in part.items()}
            left -= min(size, left)
        self.waiting -= rows - left
        self.logged = max(0, self.logged - rows)
        self._recent, self._recent_rows = [], 0
        return taken

    def unlogged(self) -> list[Columns]:
        """Return the rows that wait and are not on disk; from now on they count as if."""
        found, skipped = [], self.logged
        for part in self.parts:
            size = len(part[self.layout.begin])
            if skipped < size:
                found.append({name: column[skipped:] for name, column in part.items()})
            skipped = max(0, skipped - size)
        self.logged = self.waiting
        return found

    def now(self) -> tuple[Block, ...]:
        """Return all rows so far, in blocks."""
        if self.sink is None:
            self.seal()
        if self._recent_rows < self.waiting:
            new, skipped = [], self._recent_rows
            for part in self.parts:
                size = len(part[self.layout.begin])
                if skipped < size:
                    new.append({name: column[skipped:] for name, column in part.items()})
                skipped = max(0, skipped - size)
            recent = self._recent
            while recent and recent[-1].rows <= 2 * sum(len(p[self.layout.begin]) for p in new):
                new.insert(0, recent.pop().columns)
            columns = joined_columns(self.layout, new)
            recent.append(MemoryBlock(self.layout, sorted_rows(self.layout, columns)))
            self._recent_rows = self.waiting
        return (*self.blocks, *self._recent)


class JoinedText:
    """The texts of several sources as one; see `Sliceable`."""

    def __init__(self, parts: Sequence[tuple[int, Callable[[int, int], bytes]]]) -> None:
        """Join texts, each given by its length and what reads some of it."""
        sizes = np.array([0, *(size for size, _ in parts)], np.int64)
        self._begins = np.cumsum(sizes)
        self._read = [read for _, read in parts]

    def __len__(self) -> int:
        return int(self._begins[-1])

    def __getitem__(self, part: slice) -> bytes:
        index = int(np.searchsorted(self._begins, part.start, side="right")) - 1
        found, start = [], part.start
        while start < part.stop and index < len(self._read):
            begin, end = self._begins[index : index + 2].tolist()
            stop = min(part.stop, end)
            found.append(self._read[index](start - begin, stop - start))
            index, start = index + 1, stop
        return b"".join(found)
