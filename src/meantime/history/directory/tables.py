"""The file of the event tables: columns side by side, described in the manifest."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.history.directory.container import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.tables import Tables
    from meantime.trace import ArgumentText

__all__ = ["COLUMN_TYPES", "TABLE_COLUMNS", "Description", "write_tables"]

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
        "spans": {"threads", "offsets", "text"},
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
        frames = json.dumps(list(samples.stacks.frames)).encode()
        writer.columns(
            "stacks",
            parent=samples.stacks.parent,
            frame=samples.stacks.frame,
            frames=np.frombuffer(frames, np.uint8),
        )
    return writer.described


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
                checksum = zlib.crc32(data, checksum)
                rows += len(part)
        if rows:
            self.described.append([name, dtype.str, rows, self._offset, checksum])
            size_bytes = rows * dtype.itemsize
            self._file.write(bytes(aligned(size_bytes) - size_bytes))
            self._offset += aligned(size_bytes)
