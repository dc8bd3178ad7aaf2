"""Tables of intervals, events or changes of state, with any columns.

Read are CSV and the like, Parquet and Arrow files (with the extra `arrow`), and tables in SQLite
and DuckDB databases. Which column is a time, an entity or a state is given by a `ColumnMapping`, or
guessed from their names. A table with the columns `start_ns`, `end_ns`, `path` and `value`, or
`time_ns`, `name` and perhaps `weight`, is meantime's own: its times are whole nanoseconds.

All of them become the same rows: `guess` finds the columns whose roles are not given, and `times`
what their texts mean. Plain tables of SQLite databases are read by the kernel `sqlite_rows` from
the pages of the file, since SQLite's module makes an object of each value; unusual ones are left
to SQLite (`sqlite_pages`). Logs have the same roles (`log_fields`), and `log_pairs` makes spans of
begins and ends, a batch at a time: only spans that are open between two batches are objects.
Formats that are a table in other words, such as ninja's logs, JUnit's XML and jobs of GitHub, make
`span_rows`.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.kernels.csv_rows import TimeKind
from meantime.kernels.scan_statemap import count_lines
from meantime.model.trace import Trace
from meantime.readers.contract import lazy_trace
from meantime.readers.decompress import SUFFIXES
from meantime.readers.memory_limit import MemoryLimit
from meantime.readers.table import slurm
from meantime.readers.table.choosing import Chooser
from meantime.readers.table.delimited import BLANKS, header_of, read_delimited
from meantime.readers.table.guess import guess
from meantime.readers.table.rows import batches_of
from meantime.readers.table.times import MISSING, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.column_mapping import ColumnMapping
    from meantime.model.trace import Batch
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.readers.table.delimited import Header
    from meantime.readers.table.rows import Part

__all__ = ["FORMAT", "batches_of_records", "read", "recognises", "trace_of"]

FORMAT = "table"

_SQLITE = b"SQLite format 3\0"
_PARQUET = b"PAR1"
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
_DUCKDB = slice(8, 12), b"DUCK"
_SUFFIXES = (".csv", ".tsv", ".psv")
# What a row takes at least: its times, what they are, and the numbers of its texts.
_ROW_BYTES = 64


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input is a table: a file of tables, or text whose first line names columns.

    A text called `.csv` is one whatever its columns are, and an error says what they lack.
    """
    if _binary(head) is not None:
        return True
    text = head.lstrip()
    if text.startswith((b"{", b"[", b"<")):
        return _is_array(text)
    header = header_of(head)
    if len(header.names) < 2 or any("\0" in each for each in header.names):
        return False
    lower = name.lower()
    for suffix in SUFFIXES:
        lower = lower.removesuffix(suffix)
    if lower.endswith(_SUFFIXES):
        return True
    guessed = guess(header.names)
    if header.delimiter == BLANKS:
        return guessed.mapping is not None and _is_aligned(head, header, guessed.mapping)
    return guessed.mapping is not None or slurm.recognises(header.names)


def _is_aligned(head: bytes, header: Header, mapping: ColumnMapping) -> bool:
    """Return whether the second line has a time where the first, which blanks divide, says so."""
    fields = head[header.end :].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if len(fields) < len(header.names):
        return False
    times = [
        name for role in ("time", "start", "end") for name in mapping.columns.get(role, ()) if name
    ]
    at = [header.names.index(name) for name in times if name in header.names]
    return bool(at) and all(parse(fields[each])[1] not in {MISSING, TimeKind.ODD} for each in at)


def _is_array(text: bytes) -> bool:
    """Return whether a text is an array that begins with an object."""
    if not re.match(rb"\[\s*\{", text):
        return False
    decoder = json.JSONDecoder(strict=False)
    try:
        first, _ = decoder.raw_decode(text[1:].lstrip().decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return bool(first)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch reads the whole table.

    Raises:
        InputError: From the batches, if the columns cannot be guessed, a row has no time or ends
            before it starts, unless `lenient`, or if a column occurs twice.
        MissingExtraError: If it is Parquet, Arrow or DuckDB and the package is not installed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def trace_of(table: Any, columns: ColumnMapping | None, options: ReadOptions) -> Trace:
    """Return the trace in a table of pandas, polars, pyarrow or DuckDB.

    Args:
        table: What has the Arrow C stream protocol.
        columns: Which column is what; None to guess.
        options: How it is read.

    Raises:
        MissingExtraError: If pyarrow is not installed.
    """
    trace = Trace(type(table).__name__, FORMAT, iter(()))

    def batches() -> Iterator[Batch]:
        arrow = import_module("meantime.readers.table.arrow")
        chooser = Chooser(trace, columns)
        yield from _rows(arrow.stream_parts(table, trace.source, chooser), chooser, trace, options)

    trace.batches = batches()
    return trace


def _binary(head: bytes) -> str | None:
    """Return the module that reads a file of tables; None for text."""
    if head.startswith(_SQLITE):
        return "sqlite"
    if head.startswith((_PARQUET, *_ARROW)):
        return "arrow"
    if head[_DUCKDB[0]] == _DUCKDB[1]:
        return "duckdb"
    return None


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    if options.columns is not None and options.columns.pairs:
        raise InputError(source.name, "pairs of events are in logs of JSON lines; this is a table")
    chooser = Chooser(trace, options.columns)
    yield from _rows(_parts(source, trace, options, chooser), chooser, trace, options)


def batches_of_records(
    source: Source, trace: Trace, options: ReadOptions, needs: str = ""
) -> Iterator[Batch]:
    """Yield what is in lines of JSON objects, each a row of a table.

    Args:
        source: The input.
        trace: What the rows are read into.
        options: How they are read.
        needs: The field without which an object is not a row, and is counted.

    Raises:
        InputError: If a line is not an object, unless `lenient`, or the columns cannot be chosen.
    """
    source.is_text = True
    chooser = Chooser(trace, options.columns)
    records = import_module("meantime.readers.table.records")
    yield from _rows(
        records.record_parts(source, trace, options, chooser, needs), chooser, trace, options
    )


def _rows(
    parts: Iterator[Part], chooser: Chooser, trace: Trace, options: ReadOptions
) -> Iterator[Batch]:
    # the columns are chosen before the first part is there
    first = next(parts)

    def all_parts(first: list[Part]) -> Iterator[Part]:
        # not kept here, as it may be the whole table
        yield chooser.joined(first.pop())
        yield from map(chooser.joined, parts)

    pending = [first]
    del first
    yield from batches_of(all_parts(pending), chooser.mapping, chooser.counters, trace, options)


def _parts(source: Source, trace: Trace, options: ReadOptions, chooser: Chooser) -> Iterator[Part]:
    head = source.head()
    module = _binary(head)
    if module in {"sqlite", "duckdb"}:
        databases = import_module("meantime.readers.table.databases")
        if module == "sqlite":
            yield from databases.sqlite_parts(source, options, chooser, trace.anomalies)
        else:
            yield from databases.duckdb_parts(source, options, chooser)
        return
    is_slurm = (
        options.columns is None and module is None and slurm.recognises(header_of(head).names)
    )
    source.is_text = module is None
    is_array = module is None and not is_slurm and head.lstrip().startswith(b"[")
    # a row of two bytes becomes two times, what they are, and codes
    source.makes_objects = module is None
    with source:
        data = source.whole()
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    trace.anomalies.add("truncated", int(source.truncated))
    if module == "arrow":
        arrow = import_module("meantime.readers.table.arrow")
        yield from arrow.file_parts(data, source.name, chooser)
    elif is_slurm:
        yield slurm.part_of(data, trace, chooser)
    elif is_array:
        records = import_module("meantime.readers.table.records")
        yield from records.array_parts(data, source, options, chooser)
    else:
        rows = count_lines(data, 0, len(data)) if len(data) else 0
        limit = MemoryLimit(source.name, source.most_memory)
        limit.check(f"it has {rows:,} rows", _ROW_BYTES * rows)
        yield read_delimited(data, source.name, chooser, trace.anomalies)
