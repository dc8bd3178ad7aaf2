"""The database of an export: opened without writing to it, and read in parts.

Every table may be missing, and its columns differ from version to version, so the database is asked
for both. What is read is bounded by its size, as a damaged one may have cycles.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.model.columns import Coded
from meantime.readers.sqlite_access import TOO_MANY_ROWS, most_rows, quoted, read_only_uri
from meantime.readers.sqlite_pages import As, PageRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.model.columns import Int64s
    from meantime.model.trace import Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.memory_limit import MemoryLimit
    from meantime.readers.source import Source

__all__ = ["LAST_NS", "MISSING", "Tables", "columns_of", "connect", "stored"]

MISSING = -(2**63)
LAST_NS = 2**61
_PART_ROWS = 1 << 15
# What is made of a row: of most a span, of some an object.
_ROW_BYTES = 64
_LONGEST_VALUE = 1 << 20
_PIECE_BYTES = 1 << 20


@contextmanager
def stored(source: Source, options: ReadOptions) -> Iterator[tuple[str, int]]:
    """Yield the path of the database and its size; a temporary one if it is not a plain file."""
    if source.path is not None and source.can_repeat:
        size = source.stored_bytes or 0
        options.report_progress(0, size)
        yield source.path, size
        return
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        piece = memoryview(bytearray(_PIECE_BYTES))
        size = 0
        while count := source.readinto(piece):
            size += count
            try:
                file.write(piece[:count])
                file.flush()
            except OSError as error:
                raise InputError(
                    source.name,
                    f"it cannot be written to {tempfile.gettempdir()} ({error.strerror}):"
                    " decompress it first, or set TMPDIR to another directory",
                ) from None
            options.report_progress(source.read_bytes, 0)
        if source.truncated:
            raise InputError(source.name, "the compressed database is cut: copy it again")
        yield file.name, size


def connect(path: str) -> sqlite3.Connection:
    """Open a database, to which nothing is written."""
    # batches may be consumed by another thread than the one that opened the trace
    connection = sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    return connection


class Tables:
    """The tables of a database.

    Args:
        trace: The trace, of which records and times out of range are counted.
        connection: The database.
        path: Its file.
        size: Its bytes.
        limit: How much memory what is made of its rows may take.

    Attributes:
        connection: The database.
        columns: By table, the names of its columns.
        last_ns: The latest time so far.
    """

    def __init__(
        self,
        trace: Trace,
        connection: sqlite3.Connection,
        path: str,
        size: int,
        limit: MemoryLimit,
    ) -> None:
        self._trace = trace
        self._path = path
        self.connection = connection
        self._most_rows = most_rows(size)
        self._rows = 0
        self._limit = limit
        self.columns: dict[str, set[str]] = {
            str(name): {
                str(row[1]) for row in connection.execute(f"PRAGMA table_info({quoted(name)})")
            }
            for name, sql in connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            # not one that computes its rows
            if str(sql).upper().startswith("CREATE TABLE")
        }  # fmt: skip
        self.last_ns: int = 0

    def __contains__(self, table: str) -> bool:
        return table in self.columns

    def rows(
        self, table: str, wanted: Sequence[str], *, order: str = ""
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in parts, if it has all these columns."""
        if not set(wanted) <= self.columns.get(table, set()):
            return
        query = f"SELECT {', '.join(map(quoted, wanted))} FROM {quoted(table)}{order}"  # noqa: S608 - own names
        with closing(self.connection.cursor()) as cursor:
            cursor.arraysize = _PART_ROWS
            cursor.execute(query)
            while rows := cursor.fetchmany():
                self._count(len(rows))
                yield rows

    def _count(self, rows: int) -> None:
        self._rows += rows
        if self._rows > self._most_rows:
            raise sqlite3.DatabaseError(TOO_MANY_ROWS)
        self._limit.check(f"its tables have {self._rows:,} rows or more", _ROW_BYTES * self._rows)

    def numbers(
        self, table: str, wanted: Sequence[str], *, text: str = ""
    ) -> Iterator[tuple[list[Int64s], Coded | None]]:
        """Yield the columns of a table with a time first, as arrays, and one of texts."""
        have = self.columns.get(table, set())
        present = [column for column in wanted if column in have]
        if wanted[0] not in present:
            return
        for found, texts in self._parts(table, present, text if text in have else ""):
            missing = np.full(len(found[0]), MISSING)
            by_name = dict(zip(present, found, strict=True))
            numbers = [by_name.get(column, missing) for column in wanted]
            usual = (numbers[0] > -LAST_NS) & (numbers[0] < LAST_NS)
            if wanted[1:2] == ["end"]:
                ends = numbers[1]
                usual &= (ends == MISSING) | ((ends > -LAST_NS) & (ends < LAST_NS))
            if not usual.all():
                self._trace.anomalies.add("time_out_of_range", int((~usual).sum()))
                numbers = [column[usual] for column in numbers]
                if texts is not None:
                    texts = Coded(texts.codes[usual], texts.names)  # noqa: PLW2901 - the same column
            if len(numbers[0]):
                self._trace.records += len(numbers[0])
                self.last_ns = max(self.last_ns, int(numbers[0].max()))
                yield numbers, texts

    def _parts(
        self, table: str, columns: Sequence[str], text: str
    ) -> Iterator[tuple[list[Int64s], Coded | None]]:
        """Yield columns of integers, and one of texts if there is such a column."""
        ways = dict.fromkeys(columns, As.INTEGERS)
        if text:
            ways[text] = As.ONLY_TEXTS
        pages = PageRows(self.connection, self._path, table, ways)
        for count, found in pages.parts(_PART_ROWS):
            self._count(count)
            numbers = [values for values, *_ in found[: len(columns)]]
            coded = None
            if text:
                codes, texts, _ = found[-1]
                coded = Coded(codes, [each.decode("utf-8", "replace") for each in texts])
            yield numbers, coded
        if pages.rest is None:
            return
        for rows in self.rows(table, [*ways], order=pages.rest):
            values = [*zip(*rows, strict=True)]
            numbers = [_integers(column) for column in values[: len(columns)]]
            coded = None
            if text:
                coded = Coded.of([each if isinstance(each, str) else None for each in values[-1]])
            yield numbers, coded


def columns_of(rows: Sequence[tuple[Any, ...]], columns: int) -> list[Int64s]:
    """Return the columns of rows of integers, in which any value may be of any type."""
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * columns)
    except (TypeError, ValueError, OverflowError):
        return [_integers(column) for column in zip(*rows, strict=True)]
    return [*np.ascontiguousarray(flat.reshape(len(rows), columns).T)]


def _integers(column: Sequence[Any]) -> Int64s:
    """Return a column as integers, `MISSING` for any other value."""
    last = 2**63
    whole = [each if isinstance(each, int) and -last <= each < last else MISSING for each in column]
    return np.array(whole, np.int64)
