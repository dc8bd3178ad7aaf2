"""Output of columns as rows: a table, JSON lines, CSV, Arrow or Parquet."""

from __future__ import annotations

import json
import sys
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from meantime.cli.answers import exported_rows, json_limit, table_rows
from meantime.cli.options import limit_option, once, reject
from meantime.cli.output import result_file
from meantime.cli.tables import Column, print_table
from meantime.errors import UsageError
from meantime.model.bounded import left_out_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from meantime.model.bounded import Limit
    from meantime.model.extent import Extent

__all__ = ["JSON_TEXT", "Form", "form_options", "show"]

# Columns of this name contain JSON already.
JSON_TEXT = "tag"


class Rows(Protocol):
    """Columns by name in batches, at least one; numbers are arrays, others have `to_list`."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the batches."""

    def arrow_batches(self) -> Any:
        """Return a `pyarrow.RecordBatchReader` of them."""


class Form(NamedTuple):
    """The output format of rows; at most one is set, otherwise it is a table."""

    as_json: bool
    as_csv: bool
    arrow: str | None
    parquet: str | None

    def check(self) -> Form:
        """Return itself.

        Raises:
            UsageError: If more than one form is wanted, or a limit does not apply.
        """
        names = ("--json", "--csv", "--arrow", "--parquet")
        wanted = [name for name, value in zip(names, self, strict=True) if value]
        if len(wanted) > 1:
            raise UsageError(f"{wanted[0]} and {wanted[1]} are mutually exclusive")
        if self.arrow or self.parquet:
            reject(("limit",), f"{wanted[0]}, which writes all rows")
        return self


def form_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the output format of rows."""
    for option in (
        limit_option(),
        once("--parquet", metavar="FILE", help="Write a Parquet file."),
        once("--arrow", metavar="FILE", help="Write an Arrow file."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line."),
    ):
        command = option(command)
    return command


def show(
    title: str,
    batches: Rows,
    form: Form,
    sources: Sequence[str],
    *,
    extent: Extent | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Print or write the rows in the chosen format.

    Args:
        title: The title of a table.
        batches: The rows.
        form: The format.
        sources: The files that they are of: who may read a file that is written may read these.
        extent: The range in which a table's columns `start_ns` and `end_ns` are times.
        drop: As `print_table` takes it.

    Raises:
        MissingExtraError: If Arrow or Parquet is wanted and pyarrow is not installed.
        OutputError: If a file cannot be written.
    """
    if form.arrow:
        _write_arrow(batches, form.arrow, sources)
    elif form.parquet:
        _write_parquet(batches, form.parquet, sources)
    elif form.as_json:
        _print_json(_Counted(batches), json_limit())
    elif form.as_csv:
        _print_csv(batches)
    else:
        _print_table(title, batches, extent, drop)


def _write_arrow(batches: Rows, path: str, sources: Sequence[str]) -> None:
    from meantime.model.tabular import need  # noqa: PLC0415 - NumPy is not for --help

    reader = batches.arrow_batches()
    ipc = need("pyarrow.ipc", "--arrow", "arrow")
    with result_file(path, sources) as file, ipc.new_file(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _write_parquet(batches: Rows, path: str, sources: Sequence[str]) -> None:
    from meantime.model.tabular import need  # noqa: PLC0415 - as above

    reader = batches.arrow_batches()
    parquet = need("pyarrow.parquet", "--parquet", "arrow")
    with result_file(path, sources) as file, parquet.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


class _Counted:
    """Batches of columns, whose rows are counted."""

    def __init__(self, batches: Rows) -> None:
        self._batches = iter(batches)
        self._seen = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._batches:
            self._seen += len(next(iter(batch.values()), ()))
            yield batch

    def total(self) -> int:
        """Return how many rows there are, without making those that are left."""
        for _ in self:
            pass
        return self._seen


def _print_json(batches: _Counted, most: Limit) -> None:
    """Print an object per line, and in another one how many rows are left out, if any are."""
    printed = size = 0
    for line in _json_lines(batches):
        if printed == most.rows or (most.bytes is not None and size + len(line) > most.bytes):
            break
        sys.stdout.write(line)
        printed += 1
        size += len(line)
    total = batches.total()
    if total > printed:
        counts = {"rows": total - printed}
        click.echo(json.dumps({"more": left_out_sentence(counts), "left_out": counts}))


def _json_lines(batches: Iterable[dict[str, Any]]) -> Iterator[str]:
    coded: dict[int, list[str]] = {}
    for batch in batches:
        columns = [_as_json(name, column, coded) for name, column in batch.items()]
        keys = [json.dumps(name) for name in batch]
        pattern = "{{" + ", ".join(f"{key}: {{}}" for key in keys) + "}}\n"
        yield from map(pattern.format, *columns)


def _as_json(name: str, column: Any, coded: dict[int, list[str]]) -> Iterator[str]:
    from meantime.model.columns import Coded  # noqa: PLC0415 - NumPy is not for --help

    if not isinstance(column, Coded):
        return map(_json, _values(column))
    if id(column.names) not in coded:
        texts = list(column.names) if name == JSON_TEXT else [*map(json.dumps, column.names)]
        coded[id(column.names)] = [*texts, "null"]  # code -1 is null: the last
    return map(coded[id(column.names)].__getitem__, column.codes.tolist())


def _values(column: Any) -> list[Any]:
    """Return a column as Python objects."""
    values: list[Any] = column.to_list() if hasattr(column, "to_list") else column.tolist()
    return values


def _headed(batches: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], Iterator[Sequence[Any]]]:
    """Return the columns of the first batch, and the rows of all."""
    pieces = iter(batches)
    first = next(pieces)
    every = chain([first], pieces)
    return first, (
        row for batch in every for row in zip(*map(_values, batch.values()), strict=True)
    )


def _print_csv(batches: Rows) -> None:
    import csv  # noqa: PLC0415 - only for this form

    first, rows = _headed(batches)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(first)
    writer.writerows(islice(rows, exported_rows()))


def _print_table(title: str, batches: Rows, extent: Extent | None, drop: Sequence[str]) -> None:
    counted = _Counted(batches)
    first, rows = _headed(counted)
    texts: list[Callable[[Any], str]] = [_cell] * len(first)
    columns = [Column(name, numeric=_holds_numbers(column)) for name, column in first.items()]
    for at, name in enumerate(first):
        if extent is not None and name in {"start_ns", "end_ns"}:
            texts[at], columns[at] = extent.text, Column(name[:-3], numeric=True)
    shown = islice(rows, table_rows())
    table = [[text(value) for text, value in zip(texts, row, strict=True)] for row in shown]
    print_table(title, columns, table, drop=drop, total=counted.total())


def _holds_numbers(column: Any) -> bool:
    kind = str(getattr(column, "dtype", getattr(column, "type", "")))
    return kind.startswith(("int", "uint", "float", "double", "decimal"))


def _json(value: object) -> str:
    """Return a value as JSON, which cannot represent infinity and NaN: they become strings."""
    if isinstance(value, float) and not isfinite(value):
        return f'"{value}"'
    return json.dumps(value, default=_plain)


def _plain(value: object) -> int | str:
    """Return an SQL value for JSON: whole decimals become integers, others text."""
    from decimal import Decimal  # noqa: PLC0415 - few results have one

    return int(value) if isinstance(value, Decimal) and value == int(value) else str(value)


def _cell(value: object) -> str:
    return "" if value is None else str(value)
