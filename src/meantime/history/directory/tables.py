"""The file of the event tables: columns side by side, described in the manifest."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.history.directory.container import aligned
from meantime.history.event_summary import overlaps_of, thread_ranks
from meantime.history.events import texts_of
from meantime.history.merging import SpanMerge, merged_rows
from meantime.kernels.checksum import crc32
from meantime.kernels.gather import is_counting

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.event_rows import GrowingRows
    from meantime.history.events import EventStore
    from meantime.history.tables import Tables
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable
    from meantime.model.trace import ArgumentText

__all__ = ["COLUMN_TYPES", "TABLE_COLUMNS", "Description", "merge_tables", "write_tables"]

Description = list[list[Any]]

_INT32, _INT64 = (np.dtype(np.int32),), (np.dtype(np.int64),)
_BYTES = (np.dtype(np.uint8),)
# Lanes are stored in as few bytes as the highest needs.
_LANE = tuple(np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.int32))
COLUMN_TYPES: dict[str, tuple[np.dtype[Any], ...]] = {
    "points.time_ns": _INT64,
    "points.quark": _INT32,
    "points.name": _INT32,
    "points.arguments_offset": _INT64,
    "points.arguments_length": _INT32,
    "points.text": _BYTES,
    "flows.from_ns": _INT64,
    "flows.from_quark": _INT32,
    "flows.to_ns": _INT64,
    "flows.to_quark": _INT32,
    "flows.name": _INT32,
    "spans.threads": _INT32,
    "spans.offsets": _INT64,
    "spans.start_ns": _INT64,
    "spans.end_ns": _INT64,
    "spans.name": _INT32,
    "spans.category": _INT32,
    "spans.depth": _INT32,
    "spans.lane": _LANE,
    "spans.parent": _INT32,
    "spans.flags": _BYTES,
    "spans.number": _INT32,
    "spans.arguments_offset": _INT64,
    "spans.arguments_length": _INT32,
    "spans.text": _BYTES,
    "samples.time_ns": _INT64,
    "samples.thread": _INT32,
    "samples.stack": _INT32,
    "samples.weight": _INT64,
    "samples.event": _INT32,
    "samples.name": _INT32,
    "samples.cpu": _INT32,
    "stacks.parent": _INT32,
    "stacks.frame": _INT32,
    "stacks.frames": _BYTES,
}
_SPAN_COLUMNS = (
    "start_ns",
    "end_ns",
    "name",
    "category",
    "depth",
    "lane",
    "parent",
    "flags",
    "number",
)
_TEXT_BYTES = 1 << 22
# The columns of each table that have as many rows as its first.
TABLE_COLUMNS = {
    table: [
        name
        for name in COLUMN_TYPES
        if name.startswith(f"{table}.") and name.partition(".")[2] not in others
    ]
    for table, others in {
        "points": {"text"},
        "flows": set(),
        "spans": {"threads", "offsets", "text", "number"},
        "samples": set(),
        "stacks": {"frames"},
    }.items()
}


def write_tables(file: BinaryIO, tables: Tables) -> Description:
    """Write all columns; return a description of each: name, type, rows, offset, checksum.

    Columns are written from where they are in memory, and arguments in the order of their source, a
    part at a time.
    """
    writer = _Writer(file)
    points, flows, spans, samples = tables.points, tables.flows, tables.spans, tables.samples
    writer.columns(
        "points",
        time_ns=points.time_ns,
        quark=points.quark,
        name=points.name.codes,
        arguments_length=points.arguments_length,
    )
    writer.texts("points", points.text, points.arguments_offset, points.arguments_length)
    writer.columns(
        "flows",
        from_ns=flows.from_ns,
        from_quark=flows.from_quark,
        to_ns=flows.to_ns,
        to_quark=flows.to_quark,
        name=flows.name.codes,
    )
    writer.columns(
        "spans",
        threads=spans.threads,
        offsets=spans.offsets if len(spans) else spans.offsets[:0],
        start_ns=spans.start_ns,
        end_ns=spans.end_ns,
        name=spans.name.codes,
        category=spans.category.codes,
        depth=spans.depth,
        lane=spans.lane,
        parent=spans.parent,
        flags=spans.flags,
        number=_unless_counting(spans.rows),
        arguments_length=spans.arguments_length,
    )
    writer.texts("spans", spans.text, spans.arguments_offset, spans.arguments_length)
    writer.columns(
        "samples",
        time_ns=samples.time_ns,
        thread=samples.thread,
        stack=samples.stack,
        weight=samples.weight,
        event=samples.event.codes,
        name=samples.name.codes,
        cpu=samples.cpu,
    )
    if len(samples):
        writer.columns("stacks", **_stack_columns(samples.stacks))
    return writer.described


def _stack_columns(stacks: StackTable) -> dict[str, npt.NDArray[Any]]:
    frames = json.dumps(list(stacks.frames)).encode()
    return {
        "parent": stacks.parent,
        "frame": stacks.frame,
        "frames": np.frombuffer(frames, np.uint8),
    }


def _unless_counting(numbers: Int32s) -> Int32s:
    """Return the numbers of spans, or none if they are those of their rows."""
    return numbers[:0] if is_counting(numbers) else numbers


def merge_tables(
    file: BinaryIO, store: EventStore, catalogue: Catalogue
) -> tuple[Description, int]:
    """Write all columns of tables whose rows are in blocks, a part at a time.

    Returns:
        A description as that of `write_tables`, and how many spans overlap others.
    """
    writer = _PartsWriter(file)
    overlapping = 0
    # spans are the last, since it becomes known last how wide their last column is
    for table in ("points", "flows", "samples", "spans"):
        rows = store.tables[table]
        if not rows.blocks:
            continue
        bases = _merge_texts(writer, rows)
        if table == "spans":
            merge = SpanMerge(rows.blocks, bases, partial(thread_ranks, catalogue))
            overlapping = _merge_spans(writer, merge, catalogue)
        else:
            _merge_rows(writer, rows, bases)
        if table == "samples":
            for name, column in _stack_columns(store.stacks).items():
                writer.begin(f"stacks.{name}", column.dtype, len(column))
                writer.write(f"stacks.{name}", column)
    return writer.finish(), overlapping


def _merge_texts(writer: _PartsWriter, rows: GrowingRows) -> dict[int, int]:
    """Write the texts of all blocks; return by the id of a block where its text begins in them."""
    bases, texts = texts_of(rows.blocks)
    if rows.layout.has_texts:
        name = f"{rows.layout.table}.text"
        writer.begin(name, np.dtype(np.uint8), sum(size for size, _ in texts))
        for size, read in texts:
            for first in range(0, size, _TEXT_BYTES):
                text = read(first, min(_TEXT_BYTES, size - first))
                writer.write(name, np.frombuffer(text, np.uint8))
    return bases


def _merge_rows(writer: _PartsWriter, rows: GrowingRows, bases: dict[int, int]) -> None:
    """Write the rows of a table, other than spans, in order of time."""
    renamed = {"offset": "arguments_offset", "length": "arguments_length"}
    names = {name: f"{rows.layout.table}.{renamed.get(name, name)}" for name in rows.layout.columns}
    for name, dtype in rows.layout.columns.items():
        writer.begin(names[name], dtype, rows.rows)
    for part in merged_rows(rows.blocks, bases):
        for name, column in part.items():
            writer.write(names[name], column)


def _merge_spans(writer: _PartsWriter, merge: SpanMerge, catalogue: Catalogue) -> int:
    for name, column in (("threads", merge.threads), ("offsets", merge.offsets)):
        writer.begin(f"spans.{name}", column.dtype, len(column))
        writer.write(f"spans.{name}", column)
    columns = {name: f"spans.{name}" for name in _SPAN_COLUMNS}
    columns |= {"offset": "spans.arguments_offset", "length": "spans.arguments_length"}
    for column_name in columns.values():
        if column_name != "spans.lane":
            writer.begin(column_name, COLUMN_TYPES[column_name][0], len(merge))
    writer.begin("spans.lane", _LANE[0], len(merge))
    for part in merge.parts():
        for name, column in part.items():
            if name == "lane" and len(column):
                writer.widen("spans.lane", np.min_scalar_type(int(column.max())))
            writer.write(columns[name], column)
    return overlaps_of(catalogue.attributes, merge.threads, merge.moved)


class _Writer:
    """Writes columns one after another.

    Attributes:
        described: A description of each column that has rows.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.described: Description = []
        self._file = file
        self._offset = 0

    def columns(self, table: str, **columns: npt.NDArray[Any]) -> None:
        """Write columns of a table."""
        for name, column in columns.items():
            self._column(f"{table}.{name}", column.dtype, [np.ascontiguousarray(column)])

    def texts(self, table: str, text: ArgumentText, offset: Int64s, length: Int32s) -> None:
        """Write the arguments of a table, and where those of each row begin."""
        begins, parts = joined_texts(text, offset, length)
        self.columns(table, arguments_offset=begins)
        self._column(f"{table}.text", np.dtype(np.uint8), parts)

    def _column(self, name: str, dtype: np.dtype[Any], parts: Iterable[npt.NDArray[Any]]) -> None:
        rows, checksum = 0, 0
        for part in parts:
            if len(part):
                data = part.data.cast("B")
                self._file.write(data)
                checksum = crc32(data, checksum)
                rows += len(part)
        if rows:
            self.described.append([name, dtype.str, rows, self._offset, checksum])
            size_bytes = rows * dtype.itemsize
            self._file.write(bytes(aligned(size_bytes) - size_bytes))
            self._offset += aligned(size_bytes)


class _Column:
    """A column that is written a part at a time."""

    def __init__(self, dtype: np.dtype[Any], rows: int, offset: int) -> None:
        self.dtype = dtype
        self.rows = rows
        self.offset = offset
        self.written = 0
        self.checksum = 0


class _PartsWriter:
    """Writes columns whose lengths are known, all of them a part at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._columns: dict[str, _Column] = {}
        self._end = 0

    def begin(self, name: str, dtype: np.dtype[Any], rows: int) -> None:
        """Make room for a column."""
        if rows:
            self._columns[name] = _Column(dtype, rows, self._end)
            self._end += aligned(rows * dtype.itemsize)

    def write(self, name: str, part: npt.NDArray[Any]) -> None:
        """Write the next rows of a column."""
        if not len(part):
            return
        column = self._columns[name]
        data = np.ascontiguousarray(part, column.dtype).data.cast("B")
        self._file.seek(column.offset + column.written * column.dtype.itemsize)
        self._file.write(data)
        column.written += len(part)
        column.checksum = crc32(data, column.checksum)

    def widen(self, name: str, dtype: np.dtype[Any]) -> None:
        """Make the items of the last column as wide as this type, if they are not."""
        column = self._columns[name]
        if dtype.itemsize <= column.dtype.itemsize:
            return
        self._file.seek(column.offset)
        written = np.frombuffer(
            self._file.read(column.written * column.dtype.itemsize), column.dtype
        )
        self._end += aligned(column.rows * dtype.itemsize)
        self._end -= aligned(column.rows * column.dtype.itemsize)
        column.dtype, column.written, column.checksum = dtype, 0, 0
        self.write(name, written)

    def finish(self) -> Description:
        """Return a description of each column."""
        self._file.truncate(self._end)
        described: Description = []
        for name, column in self._columns.items():
            assert column.written == column.rows, name
            described.append([name, column.dtype.str, column.rows, column.offset, column.checksum])
        return described
