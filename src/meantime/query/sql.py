"""A history as tables for SQL queries, through DuckDB.

A statement reads of a table only the columns that it uses, and of states, spans and samples only
those that its filters of attributes, times, names and values can select: see `pushed_tables`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from meantime.errors import HistoryError, UsageError
from meantime.model.tabular import Tabular, need
from meantime.query.sql_schema import TABLES, columns_of, macros

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from meantime.history import History
    from meantime.model.tabular import Column
    from meantime.query.handles import Handle
    from meantime.query.sql_tables import HistoryTables

    Parameters = Sequence[Any] | Mapping[str, Any] | None

__all__ = ["Answer", "Database", "SqlTable", "answer", "database", "sql"]

_ROWS = 2**16


class Answer:
    """The rows a statement returned, as columns in batches; to be read once."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._pyarrow = need("pyarrow", "SQL", "sql")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = _distinct(self._reader.schema.names)
        none = self._pyarrow.RecordBatch.from_pylist([], self._reader.schema)
        for batch in chain([none], self._reader):
            yield dict(zip(names, batch.columns, strict=True))

    def arrow_batches(self) -> Any:
        """Return a `pyarrow.RecordBatchReader`."""
        return self._reader


class SqlTable(Tabular):
    """The rows that a statement returned.

    Sums of integers are int64; only if one does not fit, they are float64.
    """

    __slots__ = ("_table",)

    def __init__(self, table: Any) -> None:
        self._table = table

    def columns(self) -> dict[str, Column]:
        """Return the columns by name, as NumPy arrays."""
        names = _distinct(self._table.column_names)
        return {
            name: column.to_numpy() for name, column in zip(names, self._table.columns, strict=True)
        }

    def _reader(self) -> Any:
        return self._table.to_reader()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"SqlTable: {len(self):,} rows of {', '.join(self._table.column_names)}"


def sql(history: History, statement: str, parameters: Parameters = None) -> SqlTable:
    """Return the rows of an SQL statement, run by DuckDB from the extra `[sql]`.

    The tables are those of the [reference](../reference/sql.md). For several statements, for views
    and for other tables, `database` is faster and can do more.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("disk0  aab.")
    >>> sql(history, "select value from intervals where end_ns <= ?", [3]).columns()["value"]
    array(['a', 'b'], dtype=object)

    Args:
        history: The history.
        statement: The statement.
        parameters: The values of its `?`, or by name those of `$name`.

    Raises:
        MissingExtraError: If DuckDB or pyarrow is not installed.
        UsageError: If DuckDB rejects the statement, or it returns no rows.
    """
    with database(history) as opened:
        return opened.sql(statement, parameters)


def database(history: History, saved: str | os.PathLike[str] | None = None) -> Database:
    """Return a database of DuckDB in memory whose tables are those of a history.

    The tables are those of the [reference](../reference/sql.md), read when a statement needs them.
    Views, macros and tables can be created in it.

    >>> from meantime.testing import history_from_picture
    >>> with database(history_from_picture("disk0  aab.")) as db:
    ...     db.execute("create view states_only as from intervals where value is not null")
    ...     db.sql("select sum(duration_ns) ns from states_only").columns()["ns"].tolist()
    [3]

    Args:
        history: The history; of a growing one, the tables are as it is now.
        saved: A file that `Database.save` has written: its views, macros and tables are there.

    Raises:
        MissingExtraError: If DuckDB or pyarrow is not installed.
        UsageError: If the file is not one, or something in it has the name of a table here.
    """
    return Database(history, saved)


class Database:
    """A database of DuckDB whose tables are those of a history; made by `database`.

    Attributes:
        connection: The `duckdb.DuckDBPyConnection`, for all that DuckDB offers.
    """

    def __init__(
        self,
        history: History,
        saved: str | os.PathLike[str] | None = None,
        *,
        handle: Handle | None = None,
    ) -> None:
        self._duckdb = need("duckdb", "SQL", "sql")
        self._read: list[HistoryTables] = []
        self.connection = self._duckdb.connect()
        try:
            if saved is not None:
                self._restore(Path(saved))
            self._register(history, handle)
            self.connection.execute(macros())
        except BaseException:
            self.connection.close()
            raise

    def sql(self, statement: str, parameters: Parameters = None) -> SqlTable:
        """Return the rows of a statement.

        Args:
            statement: The statement.
            parameters: The values of its `?`, or by name those of `$name`.

        Raises:
            UsageError: If DuckDB rejects the statement, or it returns no rows.
        """
        with self.answer(statement, parameters) as rows:
            return SqlTable(_plain(rows.arrow_batches().read_all()))

    def execute(self, statement: str, parameters: Parameters = None) -> None:
        """Run statements that return no rows, as those that create views.

        Raises:
            UsageError: If DuckDB rejects one.
        """
        with self._errors():
            self.connection.execute(statement, parameters)

    @contextmanager
    def answer(self, statement: str, parameters: Parameters = None) -> Iterator[Answer]:
        """Yield what a statement returns in batches; see `sql`."""
        with self._errors():
            relation = self.connection.sql(statement, params=parameters)
            if relation is None:
                raise UsageError("the statement returns no rows; use a select")
            yield Answer(relation.to_arrow_reader(_ROWS))

    def add(self, name: str, table: History | Any) -> None:
        """Add the tables of another history, as `NAME.intervals`, or one table, as `NAME`.

        >>> from meantime.testing import history_from_picture
        >>> with database(history_from_picture("disk0  aab.")) as db:
        ...     db.add("other", history_from_picture("disk0  abb."))
        ...     db.sql("select count(*) n from intervals join other.intervals using (start_ns)"
        ...     ).columns()["n"].tolist()
        [2]

        Args:
            name: The name.
            table: A history, a data frame of pandas or polars, an Arrow table, or another result of
                meantime.

        Raises:
            UsageError: If there is something of this name, or the table is none that DuckDB reads.
        """
        from meantime.history import History  # noqa: PLC0415 - for this check alone

        with self._errors():
            if not isinstance(table, History):
                if name in self._tables(""):
                    raise UsageError(f"there is a table {name}; choose another name")
                self.connection.register(name, table)
                return
            self.connection.execute(f"attach ':memory:' as {_quoted(name)}")
            self._register(table, None, name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the views, macros and tables that were created to a file, without the history.

        `database(history, path)` has them again, also with another history. A file that is there is
        replaced.

        Raises:
            HistoryError: If the file cannot be written.
        """
        target = Path(path)
        written = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with self._errors():
                self.connection.execute(f"attach '{_escaped(written)}' as meantime_saved")
                try:
                    self.connection.execute("copy from database memory to meantime_saved")
                finally:
                    self.connection.execute("detach meantime_saved")
            written.replace(target)
        except (UsageError, OSError) as error:
            written.unlink(missing_ok=True)
            raise HistoryError(f"{target}: cannot be written: {error}") from None

    def close(self) -> None:
        """Free what it has; statements fail afterwards."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Database of a history>"

    def _restore(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"{path}: there is no such file; write it with Database.save")
        with self._errors(f"{path}: "):
            self.connection.execute(f"attach '{_escaped(path)}' as meantime_saved (read_only)")
            self.connection.execute("copy from database meantime_saved to memory")
            self.connection.execute("detach meantime_saved")
        clash = sorted({*self._tables("memory")} & {*TABLES})
        if clash:
            raise UsageError(f"{path}: it has a table {clash[0]}, as every history")

    def _register(self, history: History, handle: Handle | None, within: str = "") -> None:
        # pyarrow, which these need, may not be there
        need("pyarrow", "SQL", "sql")
        from meantime.query.pushed_tables import PushedTable, schema_of  # noqa: PLC0415 - as above
        from meantime.query.sql_tables import HistoryTables  # noqa: PLC0415 - as above

        made = HistoryTables(history, handle)
        self._read.append(made)
        for name in made.names:
            table = PushedTable(schema_of(columns_of(name)), partial(made.read, name))
            if not within:
                self.connection.register(name, table)
                continue
            beside = f"{within}.{name}"
            self.connection.register(beside, table)
            self.connection.execute(
                f"create view {_quoted(within)}.{name} as from temp.{_quoted(beside)}"
            )

    @contextmanager
    def _errors(self, place: str = "") -> Iterator[None]:
        """Raise errors of DuckDB as those of a wrong statement, and those of tables as they are."""
        pyarrow = need("pyarrow", "SQL", "sql")
        try:
            yield
        except (self._duckdb.Error, pyarrow.ArrowException) as error:
            for tables in self._read:
                if (failure := tables.failure) is not None:
                    tables.failure = None
                    raise failure from None
            raise UsageError(f"{place}SQL: {' '.join(str(error).split())}") from None

    def _tables(self, database: str) -> list[str]:
        """Return the names of tables and views, of one database or of all."""
        rows = self.connection.execute(
            "select table_name from information_schema.tables where ? in ('', table_catalog)",
            [database],
        ).fetchall()
        return [name for (name,) in rows]


@contextmanager
def answer(
    history: History,
    statement: str,
    *,
    handle: Handle | None = None,
) -> Iterator[Answer]:
    """Yield what an SQL statement over the tables of a history returns.

    It can do what this process can; `meantime.query.confined` is for statements of others.

    Args:
        history: The history.
        statement: The statement.
        handle: What the table `handle` has as its only row; None leaves the table out.

    Raises:
        MissingExtraError: If DuckDB or pyarrow is not installed.
        UsageError: If DuckDB rejects the statement, or it returns nothing.
    """
    with Database(history, handle=handle) as opened, opened.answer(statement) as rows:
        yield rows


def _plain(table: Any) -> Any:
    """Return a table with sums of integers, which DuckDB has in 128 bits, as numbers of 64."""
    pyarrow = need("pyarrow", "SQL", "sql")
    for index, field in enumerate(table.schema):
        if not pyarrow.types.is_decimal(field.type):
            continue
        column = table.column(index)
        try:
            column = column.cast(pyarrow.int64() if field.type.scale == 0 else pyarrow.float64())
        except pyarrow.ArrowInvalid:
            column = column.cast(pyarrow.float64())
        table = table.set_column(index, field.name, column)
    return table


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


def _distinct(names: Sequence[str]) -> list[str]:
    """Return unique names: the columns of a join may have equal ones."""
    distinct: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct[candidate] = None
    return list(distinct)
