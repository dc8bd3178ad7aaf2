"""Results as tables for other tools: the Arrow C stream protocol, pandas and polars.

pyarrow makes the tables from the columns without copying numbers; strings stay coded.
"""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from meantime.errors import MissingExtraError
from meantime.model.columns import Coded, Mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s

__all__ = ["Column", "ColumnBatches", "Paths", "Tabular", "need"]

Column: TypeAlias = "npt.NDArray[Any] | Coded | Mixed"  # a masked array has nulls

_STR, _INT, _FLOAT = 1, 2, 3
# A dictionary with many more strings than rows is reduced to the strings that the rows use.
_STRINGS_PER_ROW = 4


# By name of a column of attributes, the name of the column with their paths.
_PATHS = {"quark": "path", "thread": "path", "from_quark": "from_path", "to_quark": "to_path"}
_SHOWN_ROWS = 10
_NS = "_ns"
# Columns of nanoseconds that are times, not durations.
_TIMES = frozenset({"start_ns", "end_ns", "time_ns", "from_ns", "to_ns", "origin_ns"})


class Paths(Protocol):
    """A tree of attributes, as far as tables need it."""

    def text(self, quark: int) -> str:
        """Return the text form of an attribute's path."""


class Tabular:
    """A result that other tools can read as a table.

    `pyarrow.table(result)`, `polars.DataFrame(result)` and DuckDB read it by the Arrow C stream
    protocol. Strings are dictionaries. Values of one type are one column; for mixed types, the
    column NAME has the strings, and NAME_int and NAME_float have the numbers. Next to a column of
    attributes is one of their paths, as text. A notebook shows the first rows.

    Attributes:
        attributes: The attribute tree, for the paths; None adds no paths.
    """

    __slots__ = ()

    attributes: Paths | None = None

    def columns(self) -> dict[str, Column]:
        """Return the columns by name; all have the same number of rows."""
        raise NotImplementedError

    def with_paths(self) -> dict[str, Column]:
        """Return the columns, with one of paths next to each column of attributes."""
        columns = self.columns()
        if self.attributes is None:
            return columns
        found: dict[str, Column] = {}
        for name, column in columns.items():
            found[name] = column
            if name in _PATHS:
                assert isinstance(column, np.ndarray)
                used, codes = np.unique(column, return_inverse=True)
                texts = [self.attributes.text(quark) for quark in used.tolist()]
                found[_PATHS[name]] = Coded(codes.astype(np.int32), texts)
        return found

    def _reader(self) -> Any:
        return _reader(iter([self.with_paths()]), frozenset(), whole=True)

    def _repr_html_(self) -> str:
        return _html(self.with_paths())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, timedelta: bool = False) -> Any:
        """Return a `pyarrow.Table`.

        Args:
            timedelta: Make durations of the type that the library has for them, under their names
                without `_ns`: `duration` for `duration_ns`. Times stay integers.

        Raises:
            MissingExtraError: If pyarrow is not installed.
        """
        table = self._reader().read_all()
        return _with_durations(table) if timedelta else table

    def to_pandas(self, *, timedelta: bool = False) -> Any:
        """Return a `pandas.DataFrame`; strings are categories.

        Args:
            timedelta: Make durations `timedelta64`; see `to_arrow`.

        Raises:
            MissingExtraError: If pyarrow or pandas is not installed.
        """
        need("pandas", "to_pandas")
        return self.to_arrow(timedelta=timedelta).to_pandas()

    def to_polars(self, *, timedelta: bool = False) -> Any:
        """Return a `polars.DataFrame`; strings are categories.

        Args:
            timedelta: Make durations `Duration`; see `to_arrow`.

        Raises:
            MissingExtraError: If pyarrow or polars is not installed.
        """
        return need("polars", "to_polars").from_arrow(self.to_arrow(timedelta=timedelta))


def _with_durations(table: Any) -> Any:
    """Return an Arrow table whose durations have that type, without the unit in their names."""
    pyarrow = need("pyarrow", "a table for other tools", "arrow")
    kind = pyarrow.duration("ns")
    for index, field in enumerate(table.schema):
        is_number = pyarrow.types.is_integer(field.type) or pyarrow.types.is_floating(field.type)
        if not field.name.endswith(_NS) or field.name in _TIMES or not is_number:
            continue
        # means are floats
        whole = pyarrow.compute.round(table.column(index)).cast(pyarrow.int64())
        table = table.set_column(index, field.name.removesuffix(_NS), whole.cast(kind))
    return table


def _html(columns: dict[str, Column]) -> str:
    """Return the first rows as an HTML table, and how many rows there are."""
    from html import escape  # noqa: PLC0415 - 1 ms, for notebooks only

    rows = min((len(column) for column in columns.values()), default=0)
    lines = [[f"<th>{escape(name)}</th>" for name in columns]]
    for row in range(min(rows, _SHOWN_ROWS)):
        cells = [column[row] for column in columns.values()]
        lines.append(
            [
                "<td></td>"
                if cell is None or cell is np.ma.masked
                else f"<td>{escape(str(cell))}</td>"
                for cell in cells
            ]
        )
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    return f"<table>{body}</table><p>{rows:,} rows</p>"


class ColumnBatches(Tabular):
    """A table in batches, which are computed again for each use.

    Args:
        batches: Returns the batches: at least one, all with the same columns.
        kinds: The types of mixed values in all batches, as in `Mixed.kinds`; if it is empty, those
            of the first batch.
    """

    __slots__ = ("_batches", "_mixed_kinds")

    def __init__(
        self, batches: Callable[[], Iterator[dict[str, Column]]], kinds: Iterable[int] = ()
    ) -> None:
        self._batches = batches
        self._mixed_kinds = frozenset(kinds) - {0}

    def __iter__(self) -> Iterator[dict[str, Column]]:
        return self._batches()

    def columns(self) -> dict[str, Column]:
        """Return the columns of all batches, joined."""
        parts = list(self)
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}

    def _reader(self) -> Any:
        return _reader(self._batches(), self._mixed_kinds, whole=False)

    def arrow_batches(self) -> Any:
        """Return a `pyarrow.RecordBatchReader`.

        Raises:
            MissingExtraError: If pyarrow is not installed.
        """
        return self._reader()


def need(module: str, what: str, extra: str | None = None) -> Any:
    """Import an optional dependency.

    Raises:
        MissingExtraError: If it is not installed; the message names the package to install.
    """
    try:
        return import_module(module)
    except ImportError:
        install = f"'meantime[{extra}]'" if extra else module
        raise MissingExtraError(
            f"{what} needs {module}, which is not installed: pip install {install}"
        ) from None


def _reader(batches: Iterator[dict[str, Column]], kinds: frozenset[int], *, whole: bool) -> Any:
    first = next(batches)
    arrow = _Arrow(kinds or _kinds(first), whole=whole)
    head = arrow.batch(first)
    return arrow.pyarrow.RecordBatchReader.from_batches(
        head.schema, chain([head], map(arrow.batch, batches))
    )


class _Arrow:
    """Makes record batches of columns.

    Args:
        kinds: The types that mixed values can have.
        whole: Whether there is only one batch: its dictionaries have only the strings it uses.
            Several batches share their dictionaries, as Arrow's file format requires.
    """

    def __init__(self, kinds: frozenset[int], *, whole: bool) -> None:
        self.pyarrow = need("pyarrow", "a table for other tools", "arrow")
        self._kinds = kinds
        self._whole = whole
        self._dictionaries: dict[int, tuple[Sequence[str], Any]] = {}

    def batch(self, columns: dict[str, Column]) -> Any:
        arrays: dict[str, Any] = {}
        for name, column in columns.items():
            if isinstance(column, Mixed):
                arrays.update(self._mixed(name, column))
            elif isinstance(column, Coded):
                arrays[name] = self._coded(column.codes, column.names)
            else:
                arrays[name] = self.pyarrow.array(column)
        return self.pyarrow.RecordBatch.from_pydict(arrays)

    def _mixed(self, name: str, column: Mixed) -> dict[str, Any]:
        if len(self._kinds) == 1:
            return {name: self._of_kind(next(iter(self._kinds)), column)}
        return {
            name: self._of_kind(_STR, column),
            f"{name}_int": self._of_kind(_INT, column),
            f"{name}_float": self._of_kind(_FLOAT, column),
        }

    def _of_kind(self, kind: int, column: Mixed) -> Any:
        other = column.kinds != kind
        if kind == _STR:
            codes = np.where(other, -1, column.words).astype(np.int32)
            return self._coded(codes, column.names)
        words = column.words if kind == _INT else column.words.view(np.float64)
        return self.pyarrow.array(words, mask=other)

    def _coded(self, codes: Int32s, names: Sequence[str]) -> Any:
        pyarrow = self.pyarrow
        if self._whole and len(names) > _STRINGS_PER_ROW * len(codes):
            codes, names = _used(codes, names)
        known = self._dictionaries.get(id(names))
        if known is None:
            known = names, pyarrow.array(list(names), pyarrow.string())
            self._dictionaries[id(names)] = known
        mask = codes < 0
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=mask), known[1])


def _used(codes: Int32s, names: Sequence[str]) -> tuple[Int32s, list[str]]:
    used, ranks = np.unique(codes, return_inverse=True)
    missing = int(np.count_nonzero(used < 0))
    kept = [names[code] for code in used[missing:].tolist()]
    return ranks.astype(np.int32) - np.int32(missing), kept


def _kinds(columns: dict[str, Column]) -> frozenset[int]:
    found: set[int] = set()
    for column in columns.values():
        if isinstance(column, Mixed):
            found.update(np.flatnonzero(np.bincount(column.kinds)).tolist())
    return frozenset(found) - {0} or frozenset({_STR})


def _joined(parts: Sequence[Any]) -> Column:
    first = parts[0]
    if isinstance(first, Coded):
        return Coded(np.concatenate([part.codes for part in parts]), first.names)
    if isinstance(first, Mixed):
        kinds = np.concatenate([part.kinds for part in parts])
        return Mixed(kinds, np.concatenate([part.words for part in parts]), first.names)
    return np.concatenate(parts)
