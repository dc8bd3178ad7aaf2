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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.attributes import parse_pattern
from meantime.columns import Coded, Interner
from meantime.errors import InputError, MissingExtraError, UsageError
from meantime.kernels.csv_rows import changes, read_rows
from meantime.readers.contract import lazy_trace
from meantime.trace import LaneDeclaration, Samples, StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
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
_NUMBERS = {"time_ns", "weight", "start_ns", "end_ns"}
_BOM = b"\xef\xbb\xbf"
_LONGEST_HEAD = 1 << 17
# What `changes` numbers with 32 bits.
_MOST_ROWS = 2**31 - 1
_REPLACE = "backslashreplace"
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


class _Integers(NamedTuple):
    """A column of integers, 0 in the rows that have none."""

    numbers: Int64s
    bad: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, numbers: Int64s, others: list[tuple[int, str]]) -> _Integers:
        """Return integers of which some rows have a text that may be one."""
        bad = np.zeros(len(numbers), np.bool_)
        for row, text in others:
            number = _integer(text)
            numbers[row], bad[row] = number or 0, number is None
        return cls(numbers, bad)


_Column: TypeAlias = _Integers | Coded


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
        name = source.name
        columns = _parquet(data, name) if bytes(data[:4]) == _PARQUET else _csv(data, name)
        del data
        self._trace.records = next(map(_rows_of, columns.values()), 0)
        if set(_INTERVALS) <= set(columns):
            yield self._states(columns)
        elif set(_EVENTS) <= set(columns):
            yield self._samples(columns)
        else:
            raise InputError(
                source.name,
                "a table needs the columns time_ns and name, or start_ns, end_ns, path and value",
            )

    def _samples(self, columns: dict[str, _Column]) -> Samples:
        times, no_time = _times(columns["time_ns"])
        if "weight" in columns:
            weight, no_weight = _integers(columns["weight"])
        else:
            weight, no_weight = np.ones(len(times), np.int64), np.zeros(len(times), np.bool_)
        rows = self._good(
            (no_time, f"its time_ns is {_NOT_A_TIME}"),
            (no_weight, "its weight is not an integer that fits into 64 bits"),
        )
        names = _texts(columns["name"])
        rows = self._kept(rows, times, names)
        used, _, which = _appearing(names.codes[rows], names.names)
        texts = [names.names[code] for code in used]
        name, thread = (
            codes.take(which)
            for codes in (
                self._values.codes(texts),
                self._paths.codes((text,) for text in texts),
            )
        )
        if len(rows):
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

    def _states(self, columns: dict[str, _Column]) -> StateChanges:
        starts, no_start = _times(columns["start_ns"])
        ends, no_end = _times(columns["end_ns"])
        rows = self._good(
            (no_start, f"its start_ns is {_NOT_A_TIME}"),
            (no_end, f"its end_ns is {_NOT_A_TIME}"),
            (ends < starts, "its end_ns is before its start_ns"),
        )
        # a history cannot contain intervals of length 0
        some = starts[rows] != ends[rows]
        self._trace.anomalies.add("zero_length_state", len(rows) - int(np.count_nonzero(some)))
        paths, values = _texts(columns["path"]), _texts(columns["value"])
        rows = self._kept(rows[some], starts, paths)
        used, first, which = _appearing(paths.codes[rows], paths.names)
        parsed = [
            self._parsed(paths.names[code], row)
            for code, row in zip(used, rows[first].tolist(), strict=True)
        ]
        path = self._paths.codes(parsed).take(which)
        used, _, which = _appearing(values.codes[rows], values.names)
        value = self._values.codes(values.names[code] for code in used).take(which)
        # this is where a table takes the most memory
        del columns, no_start, no_end, some, paths, values, which
        if len(rows) < len(starts):
            starts, ends = starts[rows], ends[rows]
        del rows
        batch = self._changes(starts, ends, path, value)
        if len(batch.time_ns):
            self._trace.bounds = (int(batch.time_ns[0]), int(batch.time_ns[-1]))
        self._trace.lanes.append(LaneDeclaration("**"))
        return batch

    def _changes(self, starts: Int64s, ends: Int64s, path: Int32s, value: Int32s) -> StateChanges:
        """Return the changes of intervals, in order of time.

        Raises:
            InputError: If intervals of one path overlap.
        """
        if len(starts) > _MOST_ROWS:
            raise InputError(
                self._trace.source, f"the table has more than {_MOST_ROWS:,} intervals: split it"
            )
        found = changes(starts, ends, path, value, len(self._trace.paths))
        if found == -1:
            order = np.lexsort((ends, starts, path))
            starts, ends, path, value = starts[order], ends[order], path[order], value[order]
            del order
            found = changes(starts, ends, path, value, len(self._trace.paths))
        if isinstance(found, int):
            name = "/".join(self._trace.paths[int(path[found])])
            raise InputError(
                self._trace.source, f"intervals of {name!r} overlap at {starts[found]} ns"
            )
        time_ns, entity, state = found
        tag = np.full(len(time_ns), -1, np.int32)
        return StateChanges(time_ns, entity, state, tag)

    def _good(self, *faults: tuple[npt.NDArray[np.bool_], str]) -> Int64s:
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
        return np.flatnonzero(~bad)

    def _kept(self, rows: Int64s, times: Int64s, names: Coded) -> Int64s:
        """Return the rows that are not after the last wanted time, and whose names are wanted."""
        rows = rows[times[rows] <= self._until_ns]
        if self._keep is None:
            return rows
        used, _, which = _appearing(names.codes[rows], names.names)
        kept = np.array([self._keep(names.names[code]) for code in used], np.bool_)
        return rows[kept[which]]

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


def _rows_of(column: _Column) -> int:
    return len(column.bad if isinstance(column, _Integers) else column.codes)


def _appearing(codes: Int32s, names: Sequence[str]) -> tuple[list[int], Int64s, Int32s]:
    """Return which codes occur, in order of first appearance.

    Returns:
        These codes; the first row of each; and for each row which of them it has.
    """
    rows = len(codes)
    first = np.full(len(names), rows)
    # of equal indices, the last assignment stays
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)
    used = np.argsort(first, kind="stable")[: int(np.count_nonzero(first < rows))]
    rank = np.empty(len(names), np.int32)
    rank[used] = np.arange(len(used))
    return used.tolist(), first[used], rank[codes]


def _integers(column: _Column) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return a column of integers with 0 in the rows that are none, and these rows."""
    if isinstance(column, _Integers):
        return column.numbers, column.bad
    numbers = [_integer(text) for text in column.names]
    bad = np.array([number is None for number in numbers], np.bool_)
    return (
        np.array([number or 0 for number in numbers], np.int64)[column.codes],
        bad[column.codes],
    )


def _integer(text: str) -> int | None:
    """Return a text as an integer; None if it is none, or does not fit into 64 bits."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -_LIMIT - 1 <= number <= _LIMIT else None


def _texts(column: _Column) -> Coded:
    """Return a column as texts."""
    if isinstance(column, Coded):
        return column
    used, which = np.unique(column.numbers, return_inverse=True)
    names = [*map(str, used.tolist()), str(None)]
    return Coded(np.where(column.bad, len(used), which).astype(np.int32), names)


def _times(column: _Column) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return a column of times, and the rows whose time a history cannot contain."""
    times, bad = _integers(column)
    return times, bad | (times == -_LIMIT - 1) | (times >= _LIMIT - 1)


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


def _csv(data: memoryview, name: str) -> dict[str, _Column]:
    """Return the columns of a CSV text by name; fields missing at the end of a row are empty."""
    begin = len(_BOM) if data[:3] == _BOM else 0
    end = bytes(data[begin : begin + _LONGEST_HEAD]).find(b"\n") + 1
    first = str(data[begin : begin + end], "utf-8", _REPLACE).rstrip("\r\n")
    try:
        # strict: a line that ends inside quotes is not the whole header
        [names] = csv.reader([first], strict=True)
    except (csv.Error, ValueError):
        return _odd_csv(data, name)
    if "\r" in first or not end:
        return _odd_csv(data, name)
    wanted = _wanted([each.strip() for each in names], name)
    names = sorted(wanted, key=lambda each: wanted[each])
    found = read_rows(data, begin + end, [(wanted[each], each not in _NUMBERS) for each in names])
    if found is None:
        return _odd_csv(data, name)
    return {
        each: _Integers.of(
            values, [(row, str(data[a:b], "utf-8", _REPLACE)) for row, a, b in others]
        )
        if each in _NUMBERS
        else Coded(values, [str(text, "utf-8", _REPLACE) for text in others])
        for each, (values, others) in zip(names, found, strict=True)
    }


def _odd_csv(data: memoryview, name: str) -> dict[str, _Column]:
    """Return the columns of any CSV text, as the module `csv` reads it."""
    # utf-8-sig removes the byte order mark that Excel writes
    text = str(data, "utf-8-sig", _REPLACE)
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
    return {name: Coded.of(column) for name, column in columns.items()}


def _parquet(data: memoryview, name: str) -> dict[str, _Column]:
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
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(name, f"malformed Parquet ({error})") from None
    columns: dict[str, _Column] = {}
    for each in wanted:
        # one at a time: a column and what is made of it take twice its bytes
        try:
            column = file.read(columns=[each], use_threads=False).column(0)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(name, f"malformed Parquet ({error})") from None
        try:
            chunks = column.chunks
            if pa.types.is_integer(column.type):
                columns[each] = _integer_column(chunks)
            else:
                columns[each] = _text_column(chunks)
        except (pa.ArrowException, ValueError, OverflowError, IndexError) as error:
            raise InputError(name, f"the column {each} cannot be read ({error})") from None
        del column, chunks
        pa.default_memory_pool().release_unused()
    if len({_rows_of(column) for column in columns.values()}) > 1:
        raise InputError(name, "malformed Parquet (its columns have different numbers of rows)")
    return columns


def _integer_column(chunks: list[Any]) -> _Integers:
    parts = [_numbers(chunk) for chunk in chunks]
    numbers = [np.empty(0, np.int64)]
    bad = [np.empty(0, np.bool_)]
    for part, missing in parts:
        # a column of uint64 may have more than fits
        outside = missing | (part > _LIMIT)
        numbers.append(np.where(outside, 0, part).astype(np.int64))
        bad.append(outside)
    return _Integers(np.concatenate(numbers), np.concatenate(bad))


def _numbers(array: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the numbers of an Arrow array of integers, and which rows have none.

    `Array.to_numpy` would import pandas, if it is installed.
    """
    validity, values = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    missing = np.zeros(len(array), np.bool_)
    if not len(array):
        return np.empty(0, np.int64), missing
    if array.null_count:
        bits = np.frombuffer(validity, np.uint8)
        missing = np.unpackbits(bits, count=rows.stop, bitorder="little")[rows] == 0
    return np.frombuffer(values, str(array.type), rows.stop)[rows], missing


def _text_column(chunks: list[Any]) -> Coded:
    names: list[str] = []
    known = Interner(names)
    parts = [np.empty(0, np.int32)]
    for chunk in chunks:
        dictionary = getattr(chunk, "dictionary", None)
        if dictionary is None:
            parts.append(known.codes(str(value) for value in chunk.to_pylist()))
            continue
        at, missing = _numbers(chunk.indices)
        nulls = bool(missing.any())
        texts = [str(value) for value in dictionary.to_pylist()]
        if nulls:
            at = np.where(missing, len(texts), at)
            texts.append(str(None))
        code_of = known.codes(texts)
        if len(at) and not 0 <= int(at.min()) <= int(at.max()) < len(code_of):
            raise IndexError("a value is not in its dictionary")
        parts.append(code_of[at])
    return Coded(np.concatenate(parts), names)


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
