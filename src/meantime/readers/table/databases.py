"""Tables in SQLite and DuckDB databases, read without writing anything beside them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError, MissingExtraError
from meantime.kernels.csv_rows import TimeKind
from meantime.model.columns import Coded, Interner
from meantime.readers.sqlite_access import (
    TOO_MANY_ROWS,
    guard,
    most_rows,
    quoted,
    read_only_uri,
    reason,
)
from meantime.readers.sqlite_pages import As, PageRows
from meantime.readers.table.times import MISSING, TimeColumn, put_values, times_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from meantime.model.anomalies import Anomalies
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.readers.table.choosing import Chooser
    from meantime.readers.table.rows import Part

__all__ = ["duckdb_parts", "sqlite_parts"]

_BATCH_ROWS = 1 << 16
# A few rows at a time are still in the processor's cache when their columns are made.
_FETCHED_ROWS = 1 << 10
_MOST_LISTED = 12
# By which SQLite decides that a column has numbers, and the types of DuckDB that are.
_NUMBER = re.compile("(?i:int|real|floa|doub)")
_NUMBERS = {
    *(f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")),
    "INTEGER", "UINTEGER", "FLOAT", "DOUBLE",
}  # fmt: skip
# The bytes of the header that say how it is written.
_MODE = slice(18, 20)


def sqlite_parts(
    source: Source, options: ReadOptions, choose: Chooser, anomalies: Anomalies
) -> Iterator[Part]:
    """Yield the rows of a table of an SQLite database.

    Raises:
        InputError: If it is damaged or in use, or which table or columns are wanted is not known.
    """
    try:
        connection, size = _sqlite(source)
        with closing(connection) as database:
            guard(database, size, anomalies)
            tables = {
                name: {
                    column[1]: column[2]
                    for column in database.execute(f"PRAGMA table_info({quoted(name)})")
                }
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_schema WHERE type = 'table'"
                    " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%'"
                ).fetchall()
            }
            table = _table(source.name, {name: [*each] for name, each in tables.items()}, choose)
            numbers = [
                name for name, kind in tables[table].items() if _NUMBER.search(kind) is not None
            ]
            wanted = choose([*tables[table]], (), numbers)
            listed = ", ".join(map(quoted, wanted))
            left = most_rows(size)
            path = None if source.is_compressed else source.path
            ways = {name: As.TIMES if is_time else As.TEXTS for name, is_time in wanted.items()}
            pages = PageRows(database, path, table, ways)
            for count, found in pages.parts(_BATCH_ROWS):
                left -= count
                yield {
                    name: _column(each) if ways[name] == As.TEXTS else _times(each)
                    for name, each in zip(wanted, found, strict=True)
                }
            if pages.rest is not None:
                query = f"SELECT {listed} FROM {quoted(table)}{pages.rest}"  # noqa: S608 - names are quoted
                for part in _parts(database.execute(query), wanted):
                    left -= _rows_of(part)
                    if left < 0:
                        raise sqlite3.DatabaseError(TOO_MANY_ROWS)
                    yield part
    except (sqlite3.Error, OverflowError, UnicodeError, MemoryError) as error:
        raise InputError(
            source.name, f"the SQLite database cannot be read ({reason(error)})"
        ) from None
    options.report_progress(source.stored_bytes or source.read_bytes, source.stored_bytes or 0)


def _sqlite(source: Source) -> tuple[sqlite3.Connection, int]:
    """Return a connection that neither writes nor locks anything, and the size of the database."""
    if source.path is None or source.is_compressed:
        with source:
            data = bytearray(source.whole())
        # what is in memory cannot have the mode of a write-ahead log
        data[_MODE] = b"\1\1"
        database = sqlite3.connect(":memory:")
        database.deserialize(bytes(data))
        return database, len(data)
    source.close()
    for suffix in ("-wal", "-journal"):
        beside = Path(source.path + suffix)
        if beside.is_file() and beside.stat().st_size:
            raise InputError(
                source.name,
                f"another program is writing to it, or was killed while it did ({beside.name} has"
                " rows that are not in it): close that program, or copy it with"
                " `sqlite3 FILE '.backup COPY'`",
            )
    connection = sqlite3.connect(read_only_uri(source.path), uri=True)
    return connection, Path(source.path).stat().st_size


def duckdb_parts(source: Source, options: ReadOptions, choose: Chooser) -> Iterator[Part]:
    """Yield the rows of a table of a DuckDB database.

    Raises:
        InputError: If it is damaged or in use, or which table or columns are wanted is not known.
        MissingExtraError: If DuckDB is not installed.
    """
    source.close()
    if source.path is None or source.is_compressed:
        raise InputError(
            source.name, "a DuckDB database is read from a file that is not compressed"
        )
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise MissingExtraError(
            "a DuckDB database needs duckdb: python -m pip install duckdb"
        ) from None
    try:
        safe = {"enable_external_access": "false", "autoload_known_extensions": "false"}
        with closing(duckdb.connect(source.path, read_only=True, config=safe)) as database:
            tables: dict[str, list[str]] = {}
            types: dict[tuple[str, str], str] = {}
            for table, column, kind in database.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns()"
                " WHERE NOT internal AND schema_name = 'main' AND table_name IN"
                " (SELECT table_name FROM duckdb_tables()) ORDER BY table_oid, column_index"
            ).fetchall():
                tables.setdefault(table, []).append(column)
                types[table, column] = kind
            table = _table(source.name, tables, choose)
            instants = [
                each for each in tables[table] if types[table, each].startswith("TIMESTAMP")
            ]
            numbers = [each for each in tables[table] if types[table, each] in _NUMBERS]
            wanted = choose(tables[table], instants, numbers)
            kinds = [types[table, each] for each in wanted]
            listed = ", ".join(map(_duckdb_column, wanted, kinds, wanted.values()))
            rows = database.execute(f"SELECT {listed} FROM {quoted(table)}")  # noqa: S608 - names are quoted
            dated = {each: kind for each, kind in zip(wanted, kinds, strict=True) if wanted[each]}
            for part in _parts(rows, wanted):
                yield {name: _dated(column, dated.get(name, "")) for name, column in part.items()}
    except duckdb.Error as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(source.name, f"the DuckDB database cannot be read ({reason})") from None
    options.report_progress(source.stored_bytes or 0, source.stored_bytes or 0)


def _duckdb_column(name: str, kind: str, is_time: bool) -> str:  # noqa: FBT001 - of a column's own two forms
    if is_time and (kind.startswith("TIMESTAMP") or kind == "DATE"):
        return f"epoch_ns({quoted(name)})"
    if kind.endswith("INT") or kind in {"INTEGER", "DOUBLE", "FLOAT", "VARCHAR"}:
        return quoted(name)
    return f"CAST({quoted(name)} AS VARCHAR)"


def _dated(column: TimeColumn | Coded, kind: str) -> TimeColumn | Coded:
    """Return a column whose numbers are the nanoseconds of dates, if its type says so."""
    if isinstance(column, Coded) or not (kind.startswith("TIMESTAMP") or kind == "DATE"):
        return column
    of = TimeKind.ZONED if "TIME ZONE" in kind else TimeKind.NAIVE
    kinds = np.where(column.kinds == MISSING, MISSING, of).astype(np.uint8)
    return TimeColumn(column.values, kinds)


def _table(source: str, tables: Mapping[str, Sequence[str]], choose: Chooser) -> str:
    """Return the table that is asked for, or the only one whose columns can be guessed.

    Raises:
        InputError: If there is none, or several.
    """
    listed = ", ".join(list(tables)[:_MOST_LISTED]) or "none"
    if choose.table:
        if choose.table not in tables:
            raise InputError(source, f"there is no table {choose.table!r}; it has: {listed}")
        return choose.table
    if len(tables) == 1:
        return next(iter(tables))
    fitting = [
        name
        for name, columns in tables.items()
        if choose.has_all(columns) and choose.guess(columns).mapping is not None
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(
            source,
            f"several tables have times: {', '.join(fitting[:_MOST_LISTED])}; choose one with"
            f" --columns table={fitting[0]}",
        )
    raise InputError(
        source,
        f"no table has columns that are known to be times; its tables are: {listed}. Name the table"
        " and its columns with --columns table=NAME,start=NAME,end=NAME,entity=NAME,state=NAME",
    )


def _parts(rows: Any, wanted: Mapping[str, bool]) -> Iterator[Part]:
    """Yield the rows of a cursor in batches; the first may be empty."""
    while True:
        columns: list[list[Any]] = [[] for _ in wanted]
        count = 0
        while count < _BATCH_ROWS and (batch := rows.fetchmany(_FETCHED_ROWS)):
            count += len(batch)
            for column, values in zip(columns, zip(*batch, strict=True), strict=True):
                column.extend(values)
        yield {
            name: times_of(values) if is_time else _coded(values)
            for (name, is_time), values in zip(wanted.items(), columns, strict=True)
        }
        if count < _BATCH_ROWS:
            return


def _rows_of(part: Part) -> int:
    column = next(iter(part.values()))
    return len(column.codes if isinstance(column, Coded) else column.values)


def _times(found: tuple[Any, ...]) -> TimeColumn:
    """Return a column of times as `PageRows` finds them."""
    values, kinds, odd = found
    column = TimeColumn(values, kinds)
    texts = ((row, each.decode() if isinstance(each, bytes) else each) for row, each in odd)
    put_values(column, texts)
    return column


def _column(found: tuple[Any, ...]) -> Coded:
    """Return a column of texts as `PageRows` finds them."""
    codes, texts, odd = found
    names = [text.decode() for text in texts]
    known = Interner(names)
    for row, value in odd:
        codes[row] = known.code(str(_text(value)))
    return Coded(codes, names)


def _coded(values: list[Any]) -> Coded:
    """Return a column of values as texts."""
    types = {*map(type, values)} - {type(None)}
    # equal values of other types, such as 0.0 and -0.0, may have different texts
    if len(types) > 1 or not types <= {str, int}:
        return Coded.of([_text(value) for value in values])
    names: list[Any] = []
    codes = Interner(names).codes(values)
    if None in names:
        missing = names.index(None)
        del names[missing]
        codes = np.where(codes == missing, -1, codes - (codes > missing)).astype(np.int32)
    return Coded(codes, [str(name) for name in names])


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
