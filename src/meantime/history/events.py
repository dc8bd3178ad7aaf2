"""The event tables of a history that is being built: what was added, and tables of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.event_rows import (
    LAYOUTS,
    GrowingRows,
    JoinedText,
    MemoryBlock,
    joined_columns,
    sorted_rows,
)
from meantime.history.results import Flows, Points
from meantime.history.samples import sample_table
from meantime.history.spans import GrowingSpans, span_table
from meantime.history.tables import TablesInMemory
from meantime.kernels import gather
from meantime.model.columns import Coded
from meantime.model.stacks import StackTable, StackTableBuilder
from meantime.model.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from meantime.history.event_rows import Block, Columns
    from meantime.history.samples import SampleTable
    from meantime.history.tables import Tables
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Arguments, Samples, Spans

__all__ = ["EventStore", "GrowingTables", "texts_of"]

_NO_STACKS = StackTable(np.empty(0, np.int32), np.empty(0, np.int32), [])


class EventStore:
    """The rows of all event tables; names are codes of the history's strings.

    Attributes:
        tables: By name, the rows of each table.
        stacks: The stacks that samples refer to.
        range_ns: The range that spans and samples are in; None if there are none.
        is_full: Whether enough rows wait for a block; looked at before every change.
    """

    def __init__(self) -> None:
        self.tables: dict[str, GrowingRows] = {name: GrowingRows(name) for name in LAYOUTS}
        self.stacks: StackTable = _NO_STACKS
        self._stacks: StackTableBuilder | None = None
        self.range_ns: tuple[int, int] | None = None
        self.is_full: bool = False

    @property
    def version(self) -> int:
        """A number that increases with all that is added."""
        return sum(rows.version for rows in self.tables.values())

    def set_text(self, text: ArgumentText) -> None:
        """Set what the arguments of rows that are added from now on are in."""
        for rows in self.tables.values():
            rows.text = text

    def add_spans(
        self, batch: Spans, quark_of: Int32s, code_of: Int32s, category_of: Int32s
    ) -> None:
        """Add a batch; these tables translate its codes to quarks and codes of strings."""
        columns: Columns = {
            "start_ns": batch.start_ns,
            "end_ns": batch.end_ns,
            "level": batch.level,
            "flags": batch.flags,
            "thread": gather.looked_up(quark_of, batch.thread),
            "name": gather.looked_up(code_of, batch.name),
            "category": gather.looked_up(category_of, batch.category),
            **_arguments(len(batch.start_ns), batch.arguments),
        }
        self.add("spans", columns)

    def add_samples(self, batch: Samples, quark_of: Int32s, code_of: Int32s) -> None:
        """Add a batch; these tables translate its codes to quarks and codes of strings."""
        unknown = np.full(len(batch.time_ns), -1, np.int32)
        name = unknown if batch.name is None else np.append(code_of, np.int32(-1))[batch.name]
        columns: Columns = {
            "time_ns": batch.time_ns,
            "weight": batch.weight,
            "thread": quark_of[batch.thread],
            "stack": batch.stack,
            "event": code_of[batch.event],
            "name": name,
            "cpu": unknown if batch.cpu is None else batch.cpu,
        }
        self.add("samples", columns)

    def push_stacks(self, stacks: Iterable[Iterable[str]]) -> Int32s:
        """Return the row of each of these stacks, outermost first; -1 for an empty one."""
        if self._stacks is None:
            self._stacks = StackTableBuilder.of(self.stacks)
        found = np.array([self._stacks.add(names) for names in stacks], np.int32)
        if len(found) and int(found.max()) >= len(self.stacks):
            self.stacks = self._stacks.build()
        return found

    def add_points(
        self, time_ns: Int64s, quark: Int32s, name: Int32s, arguments: Arguments | None = None
    ) -> None:
        """Add instants on attributes."""
        columns: Columns = {"time_ns": time_ns, "quark": quark, "name": name}
        self.add("points", columns | _arguments(len(time_ns), arguments))

    def add_flows(
        self, from_ns: Int64s, from_quark: Int32s, to_ns: Int64s, to_quark: Int32s, name: Int32s
    ) -> None:
        """Add arrows between attributes."""
        columns: Columns = {"from_ns": from_ns, "from_quark": from_quark, "to_ns": to_ns}
        self.add("flows", {**columns, "to_quark": to_quark, "name": name})

    def add(self, table: str, columns: Columns) -> None:
        """Add rows to a table."""
        self.tables[table].add(columns)
        self.is_full |= self.tables[table].is_full
        if table in {"spans", "samples"}:
            layout = LAYOUTS[table]
            self._reach(columns[layout.begin], columns[layout.end])

    def _reach(self, begin_ns: Int64s, end_ns: Int64s) -> None:
        if not len(begin_ns):
            return
        low_ns = int(begin_ns.min())
        high_ns = max(int(begin_ns.max()) + 1, int(end_ns.max()))
        if self.range_ns is not None:
            low_ns, high_ns = min(low_ns, self.range_ns[0]), max(high_ns, self.range_ns[1])
        self.range_ns = low_ns, high_ns

    def restore(self, table: str, blocks: Sequence[Block], waiting: Sequence[Columns]) -> None:
        """Continue from the blocks and rows of a table that another store wrote."""
        rows = self.tables[table]
        assert not rows.rows
        rows.blocks = list(blocks)
        rows.rows = sum(block.rows for block in blocks)
        if table in {"spans", "samples"}:
            for block in blocks:
                self._reach(np.array([block.low_ns, block.last_ns]), np.array([block.high_ns]))
        for columns in waiting:
            self.add(table, columns)
        rows.logged = rows.waiting

    def seal(self, *, everything: bool = False) -> None:
        """Seal blocks of the rows that wait, if there are enough, or of all."""
        for rows in self.tables.values():
            rows.seal(everything=everything)
        self.is_full = False

    def snapshot(self, strings: Sequence[str], rank: Callable[[Int32s], Int32s]) -> GrowingTables:
        """Return the tables as they are now; rows that are added later do not alter them."""
        blocks = {name: rows.now() for name, rows in self.tables.items()}
        texts = {
            name: _text_of(blocks[name], rows.text)
            for name, rows in self.tables.items()
            if rows.layout.has_texts
        }
        return GrowingTables(blocks, texts, self.stacks, strings, rank)

    def finish(self, strings: Sequence[str], rank: Callable[[Int32s], Int32s]) -> Tables:
        """Return the tables of all rows, which are in memory; they are removed from here."""
        parts, of_spans = {}, self.tables["spans"]
        are_unseen = of_spans.are_unseen
        for name, rows in self.tables.items():
            # copies of the mappings, since columns are removed from those of spans
            blocks: list[Any] = [dict(block.columns) for block in _in_memory(rows.blocks)]
            parts[name] = [*blocks, *rows.take(rows.waiting)]
            rows.blocks = []
        spans = span_table(parts.pop("spans"), strings, of_spans.text, rank, reuse=are_unseen)
        made = {
            name: sorted_rows(LAYOUTS[name], joined_columns(LAYOUTS[name], columns))
            for name, columns in parts.items()
        }
        return TablesInMemory(
            _points(made["points"], strings, self.tables["points"].text),
            _flows(made["flows"], strings),
            spans,
            sample_table(made["samples"], strings, self.stacks),
        )


def _in_memory(blocks: Sequence[Block]) -> list[MemoryBlock]:
    return [block for block in blocks if isinstance(block, MemoryBlock)]


def _arguments(rows: int, arguments: Arguments | None) -> Columns:
    if arguments is None:
        return {"offset": np.zeros(rows, np.int64), "length": np.zeros(rows, np.int32)}
    return {"offset": arguments.offset, "length": arguments.length}


def texts_of(
    blocks: Sequence[Block], text: ArgumentText | None = None
) -> tuple[dict[int, int], list[tuple[int, Callable[[int, int], bytes]]]]:
    """Return by the id of a block where its text begins in that of all, and all these texts.

    Args:
        blocks: The blocks.
        text: What the arguments of blocks in memory are in.
    """
    bases: dict[int, int] = {}
    parts: list[tuple[int, Callable[[int, int], bytes]]] = []
    size = 0
    for block in blocks:
        if block.text is not None:
            bases[id(block)] = size
            parts.append((block.text.source_bytes, block.text.read))
            size += block.text.source_bytes
    for block in blocks:
        if block.text is None:
            bases[id(block)] = size
    if text is not None:
        parts.append((2**62, text.read))
    return bases, parts


def _text_of(blocks: Sequence[Block], text: ArgumentText) -> tuple[dict[int, int], ArgumentText]:
    if all(block.text is None for block in blocks):
        return dict.fromkeys(map(id, blocks), 0), text
    bases, parts = texts_of(blocks, text)
    return bases, ArgumentText(JoinedText(parts))


class GrowingTables:
    """The event tables of one moment of a growing history; each is made when it is first used."""

    def __init__(
        self,
        blocks: dict[str, tuple[Block, ...]],
        texts: dict[str, tuple[dict[int, int], ArgumentText]],
        stacks: StackTable,
        strings: Sequence[str],
        rank: Callable[[Int32s], Int32s],
    ) -> None:
        self._blocks = blocks
        self._texts = texts
        self._stacks = stacks
        self._strings = strings
        self._rank = rank

    def within(self, start_ns: int | None, end_ns: int | None) -> GrowingTables:
        """Return tables that have at least the rows in [start_ns, end_ns)."""
        blocks = {
            name: tuple(
                block
                for block in blocks
                if (start_ns is None or block.high_ns >= start_ns)
                and (end_ns is None or block.low_ns < end_ns)
            )
            for name, blocks in self._blocks.items()
            if name != "spans"
        }
        blocks["spans"] = self._blocks["spans"]
        return GrowingTables(blocks, self._texts, self._stacks, self._strings, self._rank)

    @cached_property
    def spans(self) -> GrowingSpans:
        """The spans."""
        bases, text = self._texts["spans"]
        blocks = [(block, bases[id(block)]) for block in self._blocks["spans"]]
        return GrowingSpans(blocks, self._strings, text, self._rank)

    @cached_property
    def samples(self) -> SampleTable:
        """The samples."""
        return sample_table(self._columns("samples"), self._strings, self._stacks)

    @cached_property
    def points(self) -> Points:
        """The instants."""
        return _points(self._columns("points"), self._strings, self._texts["points"][1])

    @cached_property
    def flows(self) -> Flows:
        """The arrows."""
        return _flows(self._columns("flows"), self._strings)

    def _columns(self, table: str) -> Columns:
        layout = LAYOUTS[table]
        parts = []
        for block in self._blocks[table]:
            columns = {name: block.column(name) for name in layout.columns}
            base = self._texts[table][0][id(block)] if layout.has_texts else 0
            parts.append({**columns, "offset": columns["offset"] + base} if base else columns)
        return sorted_rows(layout, joined_columns(layout, parts))


def _points(columns: Columns, strings: Sequence[str], text: ArgumentText) -> Points:
    return Points(
        columns["time_ns"],
        columns["quark"],
        Coded(columns["name"], strings),
        columns["offset"],
        columns["length"],
        text,
    )


def _flows(columns: Columns, strings: Sequence[str]) -> Flows:
    return Flows(
        columns["from_ns"],
        columns["from_quark"],
        columns["to_ns"],
        columns["to_quark"],
        Coded(columns["name"], strings),
    )
