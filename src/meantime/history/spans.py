"""The table of spans: what ran on each thread from when to when, nested.

Rows are in the order (thread, start, longest first, as they came), so the spans of a thread
are adjacent and every span comes after the one that contains it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.columns import Coded
from meantime.kernels import gather, nest
from meantime.tabular import Tabular
from meantime.trace import ArgumentText, SpanFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.tabular import Column
    from meantime.trace import Spans

__all__ = ["SpanCollector", "SpanTable"]


class SpanTable(Tabular):
    """Spans as columns.

    >>> from meantime.testing import history_from_spans
    >>> table = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]}).spans()
    >>> table.name.to_list(), table.depth.tolist(), table.self_ns.tolist()
    (['a', 'b'], [0, 1], [7, 3])

    Attributes:
        threads: int32, the quarks of the threads that have spans, in the order of the table.
        offsets: int64, threads + 1: thread i has rows [offsets[i], offsets[i + 1]).
        start_ns: int64.
        end_ns: int64, not before `start_ns`.
        name: What ran.
        category: Its category; None where there is none.
        depth: int32, how many spans it is inside; 0 at the top.
        lane: Where to draw it: spans of one lane and depth never overlap. 0 unless spans of the
            thread partly overlap.
        parent: int32, the row of the latest begun open span that contains it, in whichever
            lane; -1 if there is none.
        flags: uint8, `SpanFlag`.
        arguments_offset: int64, where its arguments begin in `text`.
        arguments_length: int32, their bytes; 0 is none.
        text: The bytes of all arguments.
    """

    def __init__(
        self,
        *,
        threads: Int32s,
        offsets: Int64s,
        start_ns: Int64s,
        end_ns: Int64s,
        name: Coded,
        category: Coded,
        depth: Int32s,
        lane: Int32s,
        parent: Int32s,
        flags: npt.NDArray[np.uint8],
        arguments_offset: Int64s,
        arguments_length: Int32s,
        text: ArgumentText,
    ) -> None:
        self.threads = threads
        self.offsets = offsets
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.name = name
        self.category = category
        self.depth = depth
        self.lane = lane
        self.parent = parent
        self.flags = flags
        self.arguments_offset = arguments_offset
        self.arguments_length = arguments_length
        self.text = text

    def __len__(self) -> int:
        return len(self.start_ns)

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
        """Return the columns by name, with thread and self time, without those of arguments."""
        return {
            "thread": self.thread,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "self_ns": self.self_ns,
            "name": self.name,
            "category": self.category,
            "depth": self.depth,
            "lane": self.lane,
            "parent": np.ma.masked_less(self.parent, 0),
            "unfinished": self.unfinished,
        }

    def arguments(self, row: int) -> str | None:
        """Return the arguments of a span as in the trace, mostly JSON."""
        return self.text.decode(int(self.arguments_offset[row]), int(self.arguments_length[row]))

    def select(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SpanTable:
        """Return the spans of these threads that overlap [start_ns, end_ns), in full.

        An empty span overlaps the range if its time is in it. Without quarks, of all threads.
        """
        if quarks is None and start_ns is None and end_ns is None:
            return self
        wanted = np.ones(len(self), np.bool_)
        if start_ns is not None:
            wanted &= (self.end_ns > start_ns) | (
                (self.start_ns == self.end_ns) & (self.start_ns >= start_ns)
            )
        if end_ns is not None:
            wanted &= self.start_ns < end_ns
        threads = np.ones(len(self.threads), np.bool_)
        if quarks is not None:
            threads = np.isin(self.threads, np.asarray(quarks, np.int32))
            wanted &= np.repeat(threads, np.diff(self.offsets))
        return self._taken(wanted, threads)

    def clipped(self, start_ns: int, end_ns: int) -> SpanTable:
        """Return the same spans with their times cut to [start_ns, end_ns)."""
        cut = copy.copy(self)
        cut.start_ns = np.clip(self.start_ns, start_ns, end_ns)
        cut.end_ns = np.clip(self.end_ns, start_ns, end_ns)
        return cut

    def _taken(self, wanted: npt.NDArray[np.bool_], threads: npt.NDArray[np.bool_]) -> SpanTable:
        # A parent that ends where an empty span and the range begin is left out.
        parent = nest.taken_parents(self.parent, wanted.view(np.uint8))
        edges = np.concatenate([[0], np.cumsum(wanted)])[self.offsets]
        return SpanTable(
            threads=self.threads[threads],
            offsets=np.concatenate([edges[:1], edges[1:][threads]]).astype(np.int64),
            start_ns=self.start_ns[wanted],
            end_ns=self.end_ns[wanted],
            name=Coded(self.name.codes[wanted], self.name.names),
            category=Coded(self.category.codes[wanted], self.category.names),
            depth=self.depth[wanted],
            lane=self.lane[wanted],
            parent=parent,
            flags=self.flags[wanted],
            arguments_offset=self.arguments_offset[wanted],
            arguments_length=self.arguments_length[wanted],
            text=self.text,
        )

    def __repr__(self) -> str:
        return f"SpanTable({len(self):,} spans on {len(self.threads):,} threads)"


class SpanCollector:
    """Collects batches of spans, and makes the table of them."""

    def __init__(self) -> None:
        self.text = ArgumentText()
        self._parts: list[dict[str, npt.NDArray[Any]]] = []

    def add(self, batch: Spans, quark_of: Int32s, code_of: Int32s, category_of: Int32s) -> None:
        """Add a batch; these tables translate its codes to quarks and codes of strings."""
        rows = len(batch.start_ns)
        arguments = batch.arguments
        self._parts.append(
            {
                "start_ns": batch.start_ns,
                "end_ns": batch.end_ns,
                "level": batch.level,
                "flags": batch.flags,
                "thread": gather.looked_up(quark_of, batch.thread),
                "name": gather.looked_up(code_of, batch.name),
                "category": gather.looked_up(category_of, batch.category),
                "offset": np.zeros(rows, np.int64) if arguments is None else arguments.offset,
                "length": np.zeros(rows, np.int32) if arguments is None else arguments.length,
            }
        )

    def table(self, strings: Sequence[str], rank: Callable[[Int32s], Int32s]) -> SpanTable:
        """Return the table; `rank` returns the rank of each thread among them.

        Parts are freed as their columns are joined, so that not all are in memory twice.
        """
        parts, self._parts = self._parts, []
        columns = {name: _joined(parts, name) for name in _COLUMNS}
        quarks = columns.pop("thread")
        threads = gather.seen(quarks)
        index = np.zeros(int(threads.max(initial=0)) + 1, np.int32)
        index[threads] = np.arange(len(threads))
        ranks = rank(threads)
        quarks = gather.looked_up(index, quarks)
        rows, offsets = nest.order(
            columns["start_ns"], columns["end_ns"], quarks, columns["flags"], ranks
        )
        del quarks
        if not gather.is_counting(rows):
            for name, column in columns.items():
                columns[name] = np.empty_like(column)
                gather.take(column, rows, columns[name])
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
        return SpanTable(
            threads=in_order,
            offsets=offsets,
            start_ns=columns["start_ns"],
            end_ns=columns["end_ns"],
            name=Coded(columns["name"], strings),
            category=Coded(columns["category"], strings),
            depth=depth,
            lane=lane.astype(np.min_scalar_type(int(lane.max(initial=0)))),
            parent=parent,
            flags=columns["flags"],
            arguments_offset=columns["offset"],
            arguments_length=columns["length"],
            text=self.text,
        )


_COLUMNS = {
    "start_ns": np.int64,
    "end_ns": np.int64,
    "level": np.int32,
    "flags": np.uint8,
    "thread": np.int32,
    "name": np.int32,
    "category": np.int32,
    "offset": np.int64,
    "length": np.int32,
}


def _joined(parts: list[dict[str, npt.NDArray[Any]]], name: str) -> npt.NDArray[Any]:
    taken = [part.pop(name) for part in parts]
    return taken[0] if len(taken) == 1 else np.concatenate([np.empty(0, _COLUMNS[name]), *taken])
