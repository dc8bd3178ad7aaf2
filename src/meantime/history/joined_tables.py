"""The event tables of several histories as those of one: rows are translated when they are used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.history.event_rows import JoinedText
from meantime.history.results import Flows, Points
from meantime.history.samples import SampleTable
from meantime.history.spans import SpanTable
from meantime.model.columns import Coded, Interner
from meantime.model.stacks import StackTable
from meantime.model.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.tables import Tables
    from meantime.history.values import Strings
    from meantime.model.columns import Int32s, Int64s

__all__ = ["JoinedTables", "TablesOfPart"]

_INT64 = np.iinfo(np.int64)


class TablesOfPart(NamedTuple):
    """The event tables of one of several histories.

    Attributes:
        tables: The tables.
        offset_ns: What to add to their times.
        quark_of: By quark in them, that in the whole.
        code_of: By code of a string, that in the whole.
        strings: The strings by code.
    """

    tables: Tables
    offset_ns: int
    quark_of: Int32s
    code_of: Int32s
    strings: Sequence[str]

    def codes(self, column: Coded, known: Strings) -> Int32s:
        """Return the codes that a column has in the whole, whose strings are known."""
        own = column.names is self.strings
        return _looked_up(self.code_of if own else known.codes([*column.names]), column.codes)

    def own(self, time_ns: int | None) -> int | None:
        """Return a time of the whole as one of these tables."""
        return None if time_ns is None else time_ns - self.offset_ns


def _looked_up(code_of: Int32s, codes: npt.NDArray[Any]) -> Int32s:
    """Return codes of the whole; -1 stays."""
    found: Int32s = np.append(code_of, np.int32(-1))[codes]
    return found


def _joined(columns: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(columns) if columns else np.empty(0, dtype)


class JoinedTables:
    """The tables of all parts; see `Tables`.

    Args:
        parts: The tables of each.
        order: The parts in the order in which their threads are sorted.
        part_of: By quark, its part plus one.
        own_of: By quark, the quark in that part.
        strings: The strings of the whole; names that only tables have are added.
        range_ns: Only rows in this range are needed.
    """

    def __init__(
        self,
        parts: Sequence[TablesOfPart],
        *,
        order: Sequence[int],
        part_of: Int32s,
        own_of: Int32s,
        strings: Strings,
        range_ns: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self._parts = parts
        self._order = order
        self._part_of, self._own_of = part_of, own_of
        self._strings = strings
        self._range_ns = range_ns
        self._stack_table: _Stacks | None = None

    def within(self, start_ns: int | None, end_ns: int | None) -> JoinedTables:
        """Return tables that have at least the rows in [start_ns, end_ns)."""
        if start_ns is None and end_ns is None:
            return self
        parts = [
            part._replace(tables=part.tables.within(part.own(start_ns), part.own(end_ns)))
            for part in self._parts
        ]
        tables = JoinedTables(
            parts,
            order=self._order,
            part_of=self._part_of,
            own_of=self._own_of,
            strings=self._strings,
            range_ns=(start_ns, end_ns),
        )
        tables._stack_table = self._stacks()
        return tables

    def _window(self, part: TablesOfPart) -> tuple[int | None, int | None]:
        start_ns, end_ns = self._range_ns
        return part.own(start_ns), part.own(end_ns)

    @cached_property
    def points(self) -> Points:
        """The instants."""
        found = []
        for part in self._parts:
            start_ns, end_ns = self._window(part)
            found.append((part, part.tables.points.select(start_ns=start_ns, end_ns=end_ns)))
        text, begins = _texts([points.text for _, points in found])
        time_ns = _joined([each.time_ns + part.offset_ns for part, each in found], np.int64)
        quark = _joined([part.quark_of[each.quark] for part, each in found], np.int32)
        name = _joined([part.codes(each.name, self._strings) for part, each in found], np.int32)
        offset = _joined(
            [each.arguments_offset + begin for (_, each), begin in zip(found, begins, strict=True)],
            np.int64,
        )
        length = _joined([each.arguments_length for _, each in found], np.int32)
        rows = _in_order(time_ns)
        return Points(
            time_ns[rows],
            quark[rows],
            Coded(name[rows], self._strings.names),
            offset[rows],
            length[rows],
            text,
        )

    @cached_property
    def flows(self) -> Flows:
        """The arrows."""
        found = []
        for part in self._parts:
            start_ns, end_ns = self._window(part)
            found.append((part, part.tables.flows.select(start_ns=start_ns, end_ns=end_ns)))
        from_ns = _joined([each.from_ns + part.offset_ns for part, each in found], np.int64)
        rows = _in_order(from_ns)
        from_quark = _joined([part.quark_of[each.from_quark] for part, each in found], np.int32)
        to_ns = _joined([each.to_ns + part.offset_ns for part, each in found], np.int64)
        to_quark = _joined([part.quark_of[each.to_quark] for part, each in found], np.int32)
        name = _joined([part.codes(each.name, self._strings) for part, each in found], np.int32)
        return Flows(
            from_ns[rows],
            from_quark[rows],
            to_ns[rows],
            to_quark[rows],
            Coded(name[rows], self._strings.names),
        )

    @cached_property
    def samples(self) -> SampleTable:
        """The samples, and all their stacks."""
        found = []
        for part in self._parts:
            start_ns, end_ns = self._window(part)
            found.append((part, part.tables.samples.select(start_ns=start_ns, end_ns=end_ns)))
        stacks = self._stacks()
        time_ns = _joined([each.time_ns + part.offset_ns for part, each in found], np.int64)
        rows = _in_order(time_ns)
        thread = [part.quark_of[each.thread] for part, each in found]
        stack = [
            _looked_up(row_of, each.stack)
            for row_of, (_, each) in zip(stacks.row_of, found, strict=True)
        ]
        event = [part.codes(each.event, self._strings) for part, each in found]
        name = [part.codes(each.name, self._strings) for part, each in found]
        return SampleTable(
            time_ns=time_ns[rows],
            thread=_joined(thread, np.int32)[rows],
            stack=_joined(stack, np.int32)[rows],
            weight=_joined([each.weight for _, each in found], np.int64)[rows],
            event=Coded(_joined(event, np.int32)[rows], self._strings.names),
            name=Coded(_joined(name, np.int32)[rows], self._strings.names),
            cpu=_joined([each.cpu for _, each in found], np.int32)[rows],
            stacks=stacks.table,
        )

    def _stacks(self) -> _Stacks:
        if self._stack_table is None:
            self._stack_table = _Stacks([part.tables.samples.stacks for part in self._parts])
        return self._stack_table

    @cached_property
    def spans(self) -> SpanTable:
        """The spans."""
        bases, tables, base = [0] * len(self._parts), [], 0
        for index, part in enumerate(self._parts):
            bases[index] = base
            base += len(part.tables.spans)
        for index in self._order:
            part = self._parts[index]
            tables.append(_SpansOfPart(index, part, bases[index], part.tables.spans))
        return JoinedSpans(tables, self._part_of, self._own_of, self._strings)


def _in_order(time_ns: Int64s) -> slice | Int64s:
    """Return the rows in order of time, those of one time as they are."""
    if (time_ns[1:] >= time_ns[:-1]).all():
        return slice(None)
    return np.argsort(time_ns, kind="stable")


def _texts(texts: Sequence[ArgumentText]) -> tuple[ArgumentText, list[int]]:
    """Return several texts as one, and where each begins in it."""
    begins, end = [], 0
    for text in texts:
        begins.append(end)
        end += text.size_bytes
    return ArgumentText(JoinedText([(text.size_bytes, text.read) for text in texts])), begins


class _Stacks:
    """The stacks of several tables in one, in which equal stacks are one row.

    Attributes:
        table: The table.
        row_of: By table and row in it, the row in the whole.
    """

    def __init__(self, tables: Sequence[StackTable]) -> None:
        frames: list[str] = []
        code = Interner(frames)
        self.row_of = [np.full(len(table), -1, np.int32) for table in tables]
        # a caller's row is before those of its stacks, so each level follows from the one before
        frame = [code.codes([*table.frames])[table.frame] for table in tables]
        waiting = [np.arange(len(table)) for table in tables]
        parents, added, count = [np.empty(0, np.int32)], [np.empty(0, np.int32)], 0
        while any(map(len, waiting)):
            keys = []
            for index, table in enumerate(tables):
                above = table.parent[waiting[index]]
                found = _looked_up(self.row_of[index], above)
                ready = (above < 0) | (found >= 0)
                rows, waiting[index] = waiting[index][ready], waiting[index][~ready]
                keys.append((rows, found[ready].astype(np.int64) << 32 | frame[index][rows]))
            different, row = np.unique(
                np.concatenate([key for _, key in keys]), return_inverse=True
            )
            row = row.reshape(-1).astype(np.int32) + np.int32(count)
            first = 0
            for index, (rows, _) in enumerate(keys):
                self.row_of[index][rows] = row[first : first + len(rows)]
                first += len(rows)
            parents.append((different >> 32).astype(np.int32))
            added.append((different & 0xFFFFFFFF).astype(np.int32))
            count += len(different)
        self.table = StackTable(np.concatenate(parents), np.concatenate(added), frames)


class _SpansOfPart(NamedTuple):
    """Spans of a part.

    Attributes:
        number: Which part.
        part: The part.
        first: What to add to the numbers of its spans.
        table: The spans.
    """

    number: int
    part: TablesOfPart
    first: int
    table: SpanTable


class JoinedSpans(SpanTable):
    """The spans of all parts, one part after another; a selection asks each part for its own."""

    def __init__(
        self,
        tables: Sequence[_SpansOfPart],
        part_of: Int32s,
        own_of: Int32s,
        strings: Strings,
    ) -> None:
        """Make a table of those of parts; see `JoinedTables`."""
        self._tables = tables
        self._part_of, self._own_of = part_of, own_of
        self._known = strings
        self._strings = (strings.names, strings.names)
        self.text: ArgumentText
        self.text, self._begins = _texts([each.table.text for each in tables])

    def __len__(self) -> int:
        return sum(len(each.table) for each in self._tables)

    @cached_property
    def threads(self) -> Int32s:
        """int32, the quarks of the threads that have spans, in the order of the table."""
        return _joined([each.part.quark_of[each.table.threads] for each in self._tables], np.int32)

    @cached_property
    def offsets(self) -> Int64s:
        """int64, threads + 1: thread i has rows [offsets[i], offsets[i + 1])."""
        counts = [np.diff(each.table.offsets) for each in self._tables]
        return np.append(0, np.cumsum(_joined(counts, np.int64))).astype(np.int64)

    @cached_property
    def rows(self) -> Int32s:
        """int32, the number of each span; see `SpanTable.rows`."""
        found = [each.table.rows + np.int32(each.first) for each in self._tables]
        return _joined(found, np.int32)

    def _column(self, name: str) -> npt.NDArray[Any]:
        if name in {"start_ns", "end_ns"}:
            found = [getattr(each.table, name) + each.part.offset_ns for each in self._tables]
        elif name in {"name", "category"}:
            found = [
                each.part.codes(getattr(each.table, name), self._known) for each in self._tables
            ]
        elif name == "parent":
            found, base = [], 0
            for each in self._tables:
                parent = each.table.parent
                found.append(np.where(parent < 0, parent, parent + np.int32(base)))
                base += len(each.table)
        elif name == "arguments_offset":
            found = [
                each.table.arguments_offset + begin
                for each, begin in zip(self._tables, self._begins, strict=True)
            ]
        else:
            found = [getattr(each.table, name) for each in self._tables]
        dtype = np.int64 if name in {"start_ns", "end_ns", "arguments_offset"} else np.int32
        return _joined(found, np.uint8 if name in {"flags", "lane"} else dtype)

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
        wanted = None if quarks is None else np.asarray(quarks, np.int32)
        if wanted is not None:
            # attributes that are derived from spans have none
            wanted = wanted[(wanted >= 0) & (wanted < len(self._part_of))]
        found = []
        for each in self._tables:
            own = None
            if wanted is not None:
                own = self._own_of[wanted[self._part_of[wanted] == each.number + 1]]
                if not len(own):
                    continue
            low_ns, high_ns = each.part.own(start_ns), each.part.own(end_ns)
            selected = each.table.select(own, start_ns=low_ns, end_ns=high_ns)
            if len(selected):
                found.append(each._replace(table=selected))
        return JoinedSpans(found, self._part_of, self._own_of, self._known)

    def clipped(self, start_ns: int, end_ns: int) -> SpanTable:
        """Return the same spans with their times cut to [start_ns, end_ns)."""
        # what is selected of these must have the times that were cut
        whole = SpanTable(
            places=lambda: (self.threads, self.offsets),
            column=self._whole_column,
            strings=self._strings,
            text=self.text,
            rows=lambda: self.rows,
        )
        return whole.clipped(start_ns, end_ns)

    def _whole_column(self, name: str) -> npt.NDArray[Any]:
        whole = getattr(self, name)
        column: npt.NDArray[Any] = whole.codes if isinstance(whole, Coded) else whole
        return column
