"""Tables: CSV, or Parquet with the extra `arrow`, of events or of intervals.

Events have the columns `time_ns`, `name` and perhaps `weight`; intervals `start_ns`, `end_ns`,
`path` and `value`. The first line of a CSV file names the columns, in any order; other columns are
ignored. An event is a sample without a stack, an interval a state of the attribute at its path.
Intervals of one path may not overlap; between them there is no state.
"""

from __future__ import annotations

import csv
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attributes import parse_pattern
from meantime.columns import Interner
from meantime.errors import InputError, MissingExtraError, UsageError
from meantime.readers.contract import lazy_trace
from meantime.trace import LaneDeclaration, Samples, StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "table"

_EVENTS = ("time_ns", "name")
_INTERVALS = ("start_ns", "end_ns", "path", "value")
_COLUMNS = {*_EVENTS, *_INTERVALS, "weight"}
_PARQUET = b"PAR1"
_LIMIT = 2**63 - 1
# Values that a Parquet file may have: this many, or this many for each of its bytes.
_VALUES_FREELY = 1 << 20
_MOST_VALUES_PER_BYTE = 300
_NOT_A_TIME = "not an integer of nanoseconds that fits into 64 bits"


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file is Parquet, or its first line names the columns of a table."""
    del name
    if head.startswith(_PARQUET):
        return True
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace")
    columns = _names(first)
    return set(_EVENTS) <= set(columns) or set(_INTERVALS) <= set(columns)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its single batch reads the whole table.

    Raises:
        InputError: From the batches, if a row has no time or ends before it starts, unless
            `lenient`, if intervals of one path overlap, or if a column occurs twice.
        MissingExtraError: If it is Parquet and pyarrow is not installed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    yield from _Reading(trace, options).batches(source)


class _Reading:
    """Reads one table into a trace."""

    def __init__(self, trace: Trace, options: ReadOptions) -> None:
        self._trace = trace
        self._options = options
        self._lenient = options.lenient
        self._until_ns = _LIMIT if options.until_ns is None else options.until_ns
        self._keep = options.keep
        self._values = Interner(trace.values)
        self._paths = Interner(trace.paths)

    def batches(self, source: Source) -> Iterator[Batch]:
        """Yield the table's single batch."""
        with source:
            data = source.whole()
        self._options.report_progress(source.read_bytes, source.stored_bytes or 0)
        self._trace.anomalies.add("truncated", int(source.truncated))
        head = bytes(data[:4])
        name = source.name
        columns = _parquet(data, name) if head == _PARQUET else _csv(data, name)
        self._trace.records = len(next(iter(columns.values()), ()))
        if set(_INTERVALS) <= set(columns):
            yield self._states(columns)
        elif set(_EVENTS) <= set(columns):
            yield self._samples(columns)
        else:
            raise InputError(
                source.name,
                "a table needs the columns time_ns and name, or start_ns, end_ns, path and value",
            )

    def _samples(self, columns: dict[str, Sequence[str]]) -> Samples:
        times, no_time = _times(columns["time_ns"])
        weights = columns.get("weight")
        weight, no_weight = _integers(["1"] * len(times) if weights is None else weights)
        rows = self._good(
            (no_time, f"its time_ns is {_NOT_A_TIME}"),
            (no_weight, "its weight is not an integer that fits into 64 bits"),
        )
        names = columns["name"]
        rows = [
            row
            for row in rows
            if times[row] <= self._until_ns and (self._keep is None or self._keep(names[row]))
        ]
        name = self._values.codes(names[row] for row in rows)
        thread = self._paths.codes((names[row],) for row in rows)
        if rows:
            kept = times[rows]
            self._trace.bounds = (int(kept.min()), int(kept.max()) + 1)
        return Samples(
            time_ns=times[rows],
            thread=thread,
            stack=np.full(len(rows), -1, np.int32),
            weight=weight[rows],
            event=np.full(len(rows), self._values.code("event"), np.int32),
            name=name,
        )

    def _states(self, columns: dict[str, Sequence[str]]) -> StateChanges:
        starts, no_start = _times(columns["start_ns"])
        ends, no_end = _times(columns["end_ns"])
        rows = self._good(
            (no_start, f"its start_ns is {_NOT_A_TIME}"),
            (no_end, f"its end_ns is {_NOT_A_TIME}"),
            (ends < starts, "its end_ns is before its start_ns"),
        )
        paths, values = columns["path"], columns["value"]
        by_path: dict[int, list[tuple[int, int, int]]] = {}
        for row in rows:
            text = paths[row]
            # a history cannot contain intervals of length 0
            if starts[row] == ends[row]:
                self._trace.anomalies.add("zero_length_state")
            elif starts[row] <= self._until_ns and (self._keep is None or self._keep(text)):
                code = self._paths.code(self._parsed(text, row))
                interval = (int(starts[row]), int(ends[row]), self._values.code(values[row]))
                by_path.setdefault(code, []).append(interval)
        changes: list[tuple[int, int, int]] = []
        for code, intervals in by_path.items():
            intervals.sort(key=lambda interval: interval[:2])
            for number, (start_ns, end_ns, value) in enumerate(intervals):
                after = intervals[number + 1][0] if number + 1 < len(intervals) else None
                if after is not None and after < end_ns:
                    raise InputError(
                        self._trace.source,
                        f"intervals of {'/'.join(self._trace.paths[code])!r} overlap at {after} ns",
                    )
                changes.append((start_ns, code, value))
                # the next interval replaces the end of one that it touches
                if after != end_ns:
                    changes.append((end_ns, code, -1))
        changes.sort(key=lambda change: change[0])
        if changes:
            self._trace.bounds = (changes[0][0], max(change[0] for change in changes))
        self._trace.lanes.append(LaneDeclaration("**"))
        table = np.array(changes, np.int64).reshape(-1, 3)
        return StateChanges(
            time_ns=table[:, 0].copy(),
            entity=table[:, 1].astype(np.int32),
            state=table[:, 2].astype(np.int32),
            tag=np.full(len(table), -1, np.int32),
        )

    def _good(self, *faults: tuple[npt.NDArray[np.bool_], str]) -> list[int]:
        """Return the rows without faults; each fault is a mask of rows and its reason.

        Raises:
            InputError: If a row has a fault, unless reading is lenient.
        """
        bad = np.logical_or.reduce([rows for rows, _ in faults])
        wrong = np.flatnonzero(bad)
        if len(wrong) and not self._lenient:
            row = int(wrong[0])
            reason = next(reason for rows, reason in faults if rows[row])
            raise InputError(self._trace.source, f"row {row + 1}: {reason}")
        self._trace.anomalies.add("bad_record", len(wrong))
        return np.flatnonzero(~bad).tolist()

    def _parsed(self, text: str, row: int) -> tuple[str, ...]:
        try:
            elements = parse_pattern(text)
        except UsageError as error:
            raise InputError(self._trace.source, f"row {row + 1}: {error}") from None
        if not elements or not all(isinstance(element, str) for element in elements):
            raise InputError(self._trace.source, f"row {row + 1}: {text!r} is not a path")
        return tuple(str(element) for element in elements)


def _names(line: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([line.strip()]), [])]
    except csv.Error:  # not CSV: carriage returns inside a line, or a huge field
        return []


def _integers(texts: Sequence[str]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Parse a column of integers; return it with 0 in the rows that are none, and these rows."""
    bad = np.zeros(len(texts), np.bool_)
    # the whole column at once; value by value only to find those that are not integers
    try:
        return np.array(texts, np.int64), bad
    except (ValueError, OverflowError):
        numbers = np.zeros(len(texts), np.int64)
    for row, text in enumerate(texts):
        try:
            numbers[row] = int(text)
        except (ValueError, OverflowError):
            bad[row] = True
    return numbers, bad


def _times(texts: Sequence[str]) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Parse a column of times; return it and the rows whose time a history cannot contain."""
    times, bad = _integers(texts)
    bad |= (times == -_LIMIT - 1) | (times >= _LIMIT - 1)
    return times, bad


def _wanted(names: Sequence[str], source: str) -> dict[str, int]:
    """Return the indices of the columns that are read.

    Raises:
        InputError: If one occurs twice.
    """
    wanted = {name: at for at, name in enumerate(names) if name in _COLUMNS}
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(source, f"the column {name} occurs twice")
    return wanted


def _csv(data: memoryview, name: str) -> dict[str, Sequence[str]]:
    """Return the columns of a CSV text by name; fields missing at the end of a row are empty."""
    # utf-8-sig removes the byte order mark that Excel writes
    text = str(data, "utf-8-sig", "backslashreplace")
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        wanted = _wanted([each.strip() for each in next(rows, [])], name)
        columns: dict[str, list[str]] = {name: [] for name in wanted}
        for row in rows:
            if not row:
                continue
            for column, at in wanted.items():
                columns[column].append(row[at] if at < len(row) else "")
    except csv.Error as error:
        raise InputError(name, f"malformed CSV ({error})", line=rows.line_num) from None
    return dict(columns)


def _parquet(data: memoryview, name: str) -> dict[str, Sequence[str]]:
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError(
            "Parquet needs pyarrow: python -m pip install 'meantime[arrow]'"
        ) from None
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        wanted = list(_wanted(file.schema_arrow.names, name))
        for each in wanted:
            if pa.types.is_nested(file.schema_arrow.field(each).type):
                raise InputError(name, f"the column {each} cannot be read (its values are nested)")
        _check_rows(file.metadata, len(wanted), len(data), name)
        # Texts that repeat are few in the file, and stay few in memory.
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=wanted)
        table = file.read(columns=wanted)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(name, f"malformed Parquet ({error})") from None
    columns: dict[str, Sequence[str]] = {}
    for each in wanted:
        try:
            columns[each] = [text for chunk in table.column(each).chunks for text in _texts(chunk)]
        except (pa.ArrowException, ValueError, OverflowError, IndexError) as error:
            raise InputError(name, f"the column {each} cannot be read ({error})") from None
    return columns


def _check_rows(metadata: Any, columns: int, size_bytes: int, name: str) -> None:
    """Check the numbers by which pyarrow allocates memory without checking them.

    Raises:
        InputError: If they contradict each other, or are far too large for the file.
    """
    # Not the metadata of columns: reading those that are damaged would end the process.
    counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    rows = sum(counts)
    if rows != metadata.num_rows or min(counts, default=0) < 0:
        raise InputError(
            name, f"malformed Parquet ({metadata.num_rows:,} rows, but {rows:,} in its groups)"
        )
    if rows * columns > max(_VALUES_FREELY, _MOST_VALUES_PER_BYTE * size_bytes):
        raise InputError(
            name, f"malformed Parquet ({rows:,} rows cannot be in {size_bytes:,} bytes)"
        )


def _texts(chunk: Any) -> list[str]:
    dictionary = getattr(chunk, "dictionary", None)
    if dictionary is None:
        return [str(value) for value in chunk.to_pylist()]
    texts = [str(value) for value in dictionary.to_pylist()]
    return [str(None) if code is None else texts[code] for code in chunk.indices.to_pylist()]
