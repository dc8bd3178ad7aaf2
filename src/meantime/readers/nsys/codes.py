"""What rows of an export become: names, threads and spans, with the codes of a trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import thread_path
from meantime.model.columns import Interner, ranked
from meantime.model.trace import Arguments, Spans
from meantime.readers.nsys.database import LAST_NS, MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.attributes import Path as AttributePath
    from meantime.model.attributes import PathTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Trace
    from meantime.readers.nsys.database import Tables

__all__ = ["Codes", "combinations", "launch_key"]

_VERSION = re.compile(r"_v\d+\Z")


class Codes:
    """The tables of a trace, and what is in them already.

    Attributes:
        trace: The trace.
        tables: The database.
        paths: The codes of its paths.
        values: The codes of its names.
        threads: By the number that an export gives a thread, the code of its path.
    """

    def __init__(self, trace: Trace, tables: Tables) -> None:
        self.trace = trace
        self.tables = tables
        self.paths: PathTable = trace.paths
        self.values: Interner[str] = Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._strings: dict[int, int] = {}
        self.threads: dict[int, int] = {}

    def string(self, id_: int) -> int:
        """Return the code of a string's value."""
        code = self._strings.get(id_, -1)
        if code < 0:
            found = None
            if {"id", "value"} <= self.tables.columns.get("StringIds", set()):
                found = self.tables.connection.execute(
                    "SELECT value FROM StringIds WHERE id = ?", (id_,)
                ).fetchone()
            text = f"string {id_}" if found is None else str(found[0])
            code = self._strings[id_] = self.values.code(_VERSION.sub("", text))
        return code

    def names(self, ids: Int64s) -> Int32s:
        """Return the codes of strings by their ids."""
        distinct, which = _distinct(ids)
        codes = [
            self.values.code("unnamed") if id_ == MISSING else self.string(id_)
            for id_ in distinct.tolist()
        ]
        return np.array(codes, np.int32)[which]

    def thread_codes(self, global_tids: Int64s, below: str = "") -> Int32s:
        """Return the codes of threads, or of an attribute below each."""
        distinct, which = _distinct(global_tids)
        codes = []
        for each in distinct.tolist():
            code = self.threads.get(each, -1)
            if code < 0:
                code = self.threads[each] = self.paths.code(_path_of(each))
            if below:
                code = self.paths.code((*self.trace.paths[code], below))
                self.trace.names[code] = below.lower()
            codes.append(code)
        return np.array(codes, np.int32)[which]

    def spans(  # noqa: PLR0917 - columns of one table, in its order
        self,
        start: Int64s,
        end: Int64s,
        entity: Int32s,
        name: Int32s,
        category: str,
        arguments: Arguments | None = None,
    ) -> Spans:
        """Return spans; those that end before they start are empty, and counted."""
        backwards = end < start
        self.trace.anomalies.add("negative_duration", int(backwards.sum()))
        end = np.where(backwards, start, end)
        if len(end):
            self.tables.last_ns = max(self.tables.last_ns, int(end.max()))
        rows = len(start)
        return Spans(
            start_ns=start,
            end_ns=end,
            thread=entity,
            name=name,
            category=np.full(rows, self._categories.code(category), np.int32),
            level=np.zeros(rows, np.int32),
            flags=np.zeros(rows, np.uint8),
            arguments=arguments,
        )

    def arguments(self, columns: Sequence[Int64s], form: str) -> Arguments:
        """Return arguments of rows: each combination of values is one text."""
        first, which = combinations(columns)
        offsets, lengths = [], []
        for values in zip(*(column[first].tolist() for column in columns), strict=True):
            text = (form % values).encode()
            offsets.append(self.trace.text.add(text))
            lengths.append(len(text))
        return Arguments(np.array(offsets, np.int64)[which], np.array(lengths, np.int32)[which])

    def kinds(self, kinds: Int64s, called: str, names: Sequence[str]) -> Int32s:
        """Return the codes of names that have the number of a kind."""
        distinct, which = _distinct(kinds)
        codes = [
            self.values.code(
                f"{called} {names[kind]}".strip() if 0 <= kind < len(names) else called
            )
            for kind in distinct.tolist()
        ]
        return np.array(codes, np.int32)[which]


def _distinct(column: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values of a column, and the index of each row's."""
    if len(column) and (column == column[0]).all():
        return column[:1], np.zeros(len(column), np.int64)
    if len(column) and int(column.min()) > -LAST_NS and int(column.max()) < LAST_NS:
        return ranked(column)
    different, which = np.unique(column, return_inverse=True)
    return different, which.reshape(-1)


def combinations(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Return a row of each combination of values, and the index of each row's combination."""
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, own = _distinct(column)
        # fewer than 2**15 of each, as a part has no more rows
        which = _distinct(which * len(values) + own)[1]
    first = np.zeros(int(which.max()) + 1, np.int64)
    first[which] = np.arange(len(which))
    return first, which


def _path_of(global_tid: int) -> AttributePath:
    """Return the path of a thread: 24 bits of its process, and 24 of itself."""
    if global_tid == MISSING:
        return thread_path("unknown")
    # an event of a process as a whole has no thread
    return thread_path(global_tid & 0xFFFFFF or "process", global_tid >> 24 & 0xFFFFFF)


def launch_key(process: Int64s, correlation: Int64s) -> Int64s:
    """Return what launches are found by: a process and an id, 0 for no id."""
    # a process that is not recorded is 0
    own = np.where(process == MISSING >> 24, 0, process & 0xFFFFFF)
    own = np.where(process == MISSING, 0, own)
    usable = (correlation > 0) & (correlation < 2**32)
    key: Int64s = np.where(usable, own << 32 | correlation & 0xFFFFFFFF, 0)
    return key
