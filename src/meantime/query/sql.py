"""A history as tables for SQL queries, through DuckDB.

The columns of intervals are created when DuckDB requests them, batch by batch, and it reads them
without a copy.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import UsageError
from meantime.history.samples import ALL_EVENTS
from meantime.model.columns import Coded
from meantime.model.tabular import ColumnBatches, Tabular, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.history import History
    from meantime.model.tabular import Column
    from meantime.query.handles import Handle

    TableMaker = Callable[[], Tabular]

__all__ = ["Answer", "SqlTable", "answer", "sql", "table_makers", "tables"]

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
    """The rows that a statement returned."""

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


def sql(history: History, statement: str) -> SqlTable:
    """Return the rows of an SQL statement, run by DuckDB from the extra `[sql]`.

    The tables are `intervals`, `attributes`, `tags`, `states`, `spans`, `samples`, `points` and
    `flows`.

    Raises:
        MissingExtraError: If DuckDB or pyarrow is not installed.
        UsageError: If DuckDB rejects the statement, or it returns no rows.
    """
    with answer(history, statement) as rows:
        return SqlTable(rows.arrow_batches().read_all())


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
    duckdb = need("duckdb", "SQL", "sql")
    with duckdb.connect() as connection:
        try:
            for name, make in table_makers(history, handle).items():
                connection.register(name, make())
            relation = connection.sql(statement)
            if relation is None:
                raise UsageError("the statement returns no rows; use a select")
            yield Answer(relation.to_arrow_reader(_ROWS))
        except duckdb.Error as error:
            raise UsageError(f"SQL: {' '.join(str(error).split())}") from None


def table_makers(history: History, handle: Handle | None = None) -> dict[str, TableMaker]:
    """Return what makes each table that a statement can name: in a form that DuckDB reads."""
    every = np.arange(len(history.attributes), dtype=np.int32)
    known: dict[str, TableMaker] = {
        "attributes": lambda: _attributes(history, every),
        "tags": lambda: _tags(history),
        "states": lambda: _states(history),
        "spans": lambda: _plain(history.spans()),
        "samples": lambda: _plain(history.samples(event=ALL_EVENTS)),
        "points": lambda: _plain(history.points()),
        "flows": lambda: _plain(history.flows()),
    }
    # A history in which no time passes has no range to query.
    if history.start_ns < history.end_ns:
        # before the trace there is no state, which may be for decades
        start_ns = max(history.start_ns, min(history.bounds[0], history.end_ns - 1))
        known["intervals"] = lambda: history.interval_batches(
            every, start_ns, clip=True
        ).without_paths()
    if handle is not None:
        known["handle"] = lambda: _handle(handle)
    return known


def tables(history: History) -> dict[str, Tabular]:
    """Return the tables that a statement can name, by name."""
    return {name: make() for name, make in table_makers(history).items()}


def _attributes(history: History, quarks: Any) -> Tabular:
    tree = history.attributes
    # outermost attributes have the parent -1, which becomes NULL
    parents = np.array([tree.parent(quark) for quark in quarks.tolist()], np.int32)
    return _table(
        quark=quarks,
        parent=np.ma.masked_less(parents, 0),
        name=Coded.of(tree.names(quarks.tolist())),
        path=Coded.of([tree.text(quark) for quark in quarks.tolist()]),
        has_values=history.has_values(quarks),
    )


def _tags(history: History) -> Tabular:
    rows = [
        (tag, field, value if isinstance(value, str) else json.dumps(value))
        for tag, fields in enumerate(history.tags)
        for field, value in fields.items()
    ]
    return _table(
        tag=np.array([tag for tag, _, _ in rows], np.int32),
        field=Coded.of([field for _, field, _ in rows]),
        value=Coded.of([value for _, _, value in rows]),
    )


def _states(history: History) -> Tabular:
    rows = [
        (lane.declaration, state) for lane in history.lanes for state in lane.declaration.states
    ]
    return _table(
        pattern=Coded.of([declaration.pattern for declaration, _ in rows]),
        state=Coded.of([state.name for _, state in rows]),
        number=np.array([state.value for _, state in rows], np.int64),
        color=Coded.of([state.color for _, state in rows]),
    )


def _handle(handle: Handle) -> Tabular:
    return _table(
        path=Coded.of([handle.path]),
        quark=np.array([handle.quark], np.int32),
        span=np.ma.masked_less(np.array([-1 if handle.span is None else handle.span]), 0),
        time_ns=np.array([handle.time_ns]),
        start_ns=np.array([handle.start_ns]),
        end_ns=np.array([handle.end_ns]),
    )


def _plain(table: Tabular) -> Tabular:
    """Return a table without paths: a statement joins the table `attributes`, which has them."""
    return ColumnBatches(lambda: iter([table.columns()]))


def _table(**columns: Column) -> Tabular:
    return ColumnBatches(lambda: iter([columns]))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return unique names: the columns of a join may have equal ones."""
    distinct: dict[str, None] = {}
    for name in names:
        candidate, number = name, 1
        while candidate in distinct:
            candidate, number = f"{name}_{number}", number + 1
        distinct[candidate] = None
    return list(distinct)
