"""A history as tables for SQL queries, through DuckDB.

A statement reads of a table only the columns that it uses, and of states, spans and samples only
those that its filters of attributes, times, names and values can select: see `pushed`.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from meantime.errors import HistoryError, UsageError
from meantime.model.tabular import Tabular, need
from meantime.query.sql.schema import TABLES, VERSION, columns_of, macros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from meantime.history import History
    from meantime.model.tabular import Column
    from meantime.query.handles import Handle
    from meantime.query.sql.tables import HistoryTables

    Parameters = Sequence[Any] | Mapping[str, Any] | None

__all__ = ["Answer", "Database", "SqlTable", "answer", "database", "sql"]

_ROWS = 2**16
# The table of a saved file that has the version of its schema.
_SCHEMA = "meantime_schema"
# A statement with such a word may be about any table.
_LISTS = re.compile(r"show|pragma|information_schema|duckdb_\w+", re.IGNORECASE)


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

    A statement makes those tables and functions known to DuckDB that it names: all of them take
    longer than most statements.
    """

    def __init__(
        self,
        history: History,
        saved: str | os.PathLike[str] | None = None,
        *,
        handle: Handle | None = None,
        threads: int | None = None,
    ) -> None:
        self._duckdb = need("duckdb", "SQL", "sql")
        self._read: list[HistoryTables] = []
        # By name, what makes a table or function known, and the text that it needs others for.
        self._waiting: dict[str, tuple[Callable[[], object], str]] = {}
        self._connection = self._duckdb.connect(
            config={} if threads is None else {"threads": threads}
        )
        try:
            if saved is not None:
                self._restore(Path(saved))
            self._register(history, handle)
            for name, statement in macros().items():
                self._waiting[name] = partial(self._connection.execute, statement), statement
            if saved is not None:
                self._make(list(self._waiting))
        except BaseException:
            self._connection.close()
            raise

    @property
    def connection(self) -> Any:
        """The `duckdb.DuckDBPyConnection`, for all that DuckDB offers."""
        self._make(list(self._waiting))
        return self._connection

    def _make(self, names: Iterable[str]) -> None:
        """Make tables and functions known to DuckDB, and those that they need."""
        for name in names:
            if name in self._waiting:
                make, text = self._waiting.pop(name)
                self._make(_words(text))
                make()

    def _bound(self, statement: str, parameters: Parameters) -> Any:
        """Return the relation of a statement; None if it returns no rows."""
        text = f"{statement} {parameters}"
        self._make(list(self._waiting) if _LISTS.search(text) else _words(text))
        try:
            return self._connection.sql(statement, params=parameters)
        except self._duckdb.Error:
            # a message has the nearest names
            if not self._waiting or len(self._connection.extract_statements(statement)) > 1:
                raise
            return self.connection.sql(statement, params=parameters)

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
        with self._errors(statement):
            self.connection.execute(statement, parameters)

    @contextmanager
    def answer(self, statement: str, parameters: Parameters = None) -> Iterator[Answer]:
        """Yield what a statement returns in batches; see `sql`."""
        with self._errors(statement):
            relation = self._bound(statement, parameters)
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
                if name in {*self._waiting, *self._tables("")}:
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
                connection = self.connection
                connection.execute(f"attach '{_escaped(written)}' as meantime_saved")
                try:
                    connection.execute("copy from database memory to meantime_saved")
                    connection.execute(
                        f"create table meantime_saved.{_SCHEMA} as select {VERSION} as version"
                    )
                finally:
                    connection.execute("detach meantime_saved")
            written.replace(target)
        except (UsageError, OSError) as error:
            written.unlink(missing_ok=True)
            raise HistoryError(f"{target}: cannot be written: {error}") from None

    def close(self) -> None:
        """Free what it has; statements fail afterwards."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Database of a history>"

    def _restore(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"{path}: there is no such file; write it with Database.save")
        with self._errors(place=f"{path}: "):
            execute = self._connection.execute
            execute(f"attach '{_escaped(path)}' as meantime_saved (read_only)")
            self._check_version(path)
            execute("copy from database meantime_saved to memory")
            execute("detach meantime_saved")
            execute(f"drop table {_SCHEMA}")
        clash = sorted({*self._tables("memory")} & {*TABLES})
        if clash:
            raise UsageError(f"{path}: it has a table {clash[0]}, as every history")

    def _check_version(self, path: Path) -> None:
        """Raise `UsageError` unless a file was written for the tables that there are here."""
        again = "create its views and tables again, and save them"
        try:
            [(version,)] = self._connection.execute(
                f"select version from meantime_saved.{_SCHEMA}"  # noqa: S608 - a constant
            ).fetchall()
        except (self._duckdb.Error, ValueError):
            raise UsageError(
                f"{path}: it has no version: another program wrote it, or meantime before its files"
                f" had versions; {again}"
            ) from None
        if version == VERSION:
            return
        newer = isinstance(version, int) and version > VERSION
        advice = "install a newer meantime" if newer else again
        raise UsageError(
            f"{path}: it is for the tables of version {version}, and these are of version"
            f" {VERSION}; {advice}"
        )

    def _ill_fitting(self, statement: str) -> str:
        """Return a sentence about the first view of a statement that cannot be read itself."""
        views = self._connection.execute(
            "select view_name from duckdb_views() where not internal and not temporary"
        ).fetchall()
        for (name,) in views:
            if name.casefold() not in _words(statement):
                continue
            try:
                self.connection.sql(f"from {_quoted(name)}")
            except self._duckdb.Error as error:
                return f"the view {name} does not fit the tables here, replace it: {_line(error)}"
        return ""

    def _register(self, history: History, handle: Handle | None, within: str = "") -> None:
        # pyarrow, which these need, may not be there
        need("pyarrow", "SQL", "sql")
        from meantime.query.sql.pushed import PushedTable, schema_of  # noqa: PLC0415 - as above
        from meantime.query.sql.tables import HistoryTables  # noqa: PLC0415 - as above

        made = HistoryTables(history, handle)
        self._read.append(made)

        def register(name: str, known_as: str) -> None:
            table = PushedTable(schema_of(columns_of(name)), partial(made.read, name))
            self._connection.register(known_as, table)

        for name in made.names:
            if not within:
                self._waiting[name] = partial(register, name, name), ""
                continue
            beside = f"{within}.{name}"
            register(name, beside)
            self._connection.execute(
                f"create view {_quoted(within)}.{name} as from temp.{_quoted(beside)}"
            )

    @contextmanager
    def _errors(self, statement: str = "", *, place: str = "") -> Iterator[None]:
        """Raise errors of DuckDB as those of a wrong statement, and those of tables as they are."""
        pyarrow = need("pyarrow", "SQL", "sql")
        try:
            yield
        except (self._duckdb.Error, pyarrow.ArrowException) as error:
            for tables in self._read:
                if (failure := tables.failure) is not None:
                    tables.failure = None
                    raise failure from None
            reason = self._ill_fitting(statement) if statement else ""
            raise UsageError(f"{place}SQL: {reason or _line(error)}") from None

    def _tables(self, database: str) -> list[str]:
        """Return the names of tables and views, of one database or of all."""
        rows = self._connection.execute(
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


def _words(text: str) -> set[str]:
    """Return the words of a statement, among which are the names that it uses."""
    return {word.casefold() for word in re.findall(r"\w+", text)}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


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
