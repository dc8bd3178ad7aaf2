"""Parquet and Arrow files, and tables of other libraries, read with pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError, MissingExtraError
from meantime.kernels.csv_rows import TimeKind
from meantime.model.columns import Coded, Interner
from meantime.readers.table.times import DURATION, MISSING, TimeColumn, joined, times_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.readers.table.choosing import Chooser
    from meantime.readers.table.rows import Part

__all__ = ["file_parts", "stream_parts"]

_PARQUET = b"PAR1"
_ARROW_FILE = b"ARROW1"
_LIMIT = 2**63 - 1
# Values that a Parquet file may have: this many, or this many for each of its bytes.
_VALUES_FREELY = 1 << 20
_MOST_VALUES_PER_BYTE = 300
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NS = 86400 * 10**9


def _pyarrow(what: str) -> Any:
    try:
        return import_module("pyarrow")
    except ImportError:
        raise MissingExtraError(
            f"{what} needs pyarrow: python -m pip install 'meantime[arrow]'"
        ) from None


def file_parts(data: memoryview, name: str, choose: Chooser) -> Iterator[Part]:
    """Yield the rows of a Parquet or Arrow file.

    Raises:
        InputError: If it is malformed, or its columns cannot be chosen.
        MissingExtraError: If pyarrow is not installed.
    """
    if bytes(data[:4]) == _PARQUET:
        yield from _parquet(data, name, choose)
        return
    pa = _pyarrow("an Arrow file")
    ipc = import_module("pyarrow.ipc")
    try:
        buffer = pa.BufferReader(data)
        if bytes(data[: len(_ARROW_FILE)]) == _ARROW_FILE:
            file = ipc.open_file(buffer)
            schema = file.schema
            batches = (file.get_batch(index) for index in range(file.num_record_batches))
        else:
            file = ipc.open_stream(buffer)
            schema = file.schema
            batches = iter(file)
        wanted = _chosen(pa, schema, name, choose)
        yield _empty(wanted)
        for batch in batches:
            # values of a damaged file may point anywhere
            batch.validate(full=True)
            yield {
                each: _column(pa, batch.column(each), name, each, wanted[each]) for each in wanted
            }
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(name, f"malformed Arrow file ({_first_line(error)})") from None


def stream_parts(table: Any, name: str, choose: Chooser) -> Iterator[Part]:
    """Yield the rows of what has the Arrow C stream protocol.

    Raises:
        InputError: If its columns cannot be chosen.
        MissingExtraError: If pyarrow is not installed.
    """
    pa = _pyarrow("a table of another library")
    reader = pa.RecordBatchReader.from_stream(table)
    wanted = _chosen(pa, reader.schema, name, choose)
    yield _empty(wanted)
    for batch in reader:
        yield {each: _column(pa, batch.column(each), name, each, wanted[each]) for each in wanted}


def _chosen(pa: Any, schema: Any, name: str, choose: Chooser) -> dict[str, bool]:
    types = pa.types
    fields = [schema.field(index) for index in range(len(schema))]
    instants = [each.name for each in fields if types.is_timestamp(each.type)]
    numbers = [
        each.name for each in fields if types.is_integer(each.type) or types.is_floating(each.type)
    ]
    wanted = choose([each.name for each in fields], instants, numbers)
    for each in wanted:
        if types.is_nested(schema.field(each).type):
            raise InputError(name, f"the column {each} cannot be read (its values are nested)")
    return wanted


def _empty(wanted: dict[str, bool]) -> Part:
    no_times = TimeColumn(np.empty(0, np.int64), np.empty(0, np.uint8))
    return {
        each: no_times if is_time else Coded(np.empty(0, np.int32), [])
        for each, is_time in wanted.items()
    }


def _parquet(data: memoryview, name: str, choose: Chooser) -> Iterator[Part]:
    pa = _pyarrow("Parquet")
    parquet = import_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        wanted = _chosen(pa, file.schema_arrow, name, choose)
        _check_rows(file.metadata, len(wanted), len(data), name)
        # Texts that repeat are few in the file, and stay few in memory.
        texts = [each for each, is_time in wanted.items() if not is_time]
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        groups = file.num_row_groups
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(name, f"malformed Parquet ({_first_line(error)})") from None
    yield _empty(wanted)
    for group in range(groups):
        part: Part = {}
        for each, is_time in wanted.items():
            # one at a time: a column and what is made of it take twice its bytes
            try:
                column = file.read_row_group(group, columns=[each], use_threads=False).column(0)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise InputError(name, f"malformed Parquet ({_first_line(error)})") from None
            part[each] = _column(pa, column, name, each, is_time)
            del column
            pa.default_memory_pool().release_unused()
        if len({_rows_of(column) for column in part.values()}) > 1:
            raise InputError(name, "malformed Parquet (its columns have different numbers of rows)")
        yield part


def _rows_of(column: TimeColumn | Coded) -> int:
    return len(column.codes if isinstance(column, Coded) else column.values)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _column(pa: Any, column: Any, name: str, called: str, is_time: bool) -> TimeColumn | Coded:  # noqa: FBT001 - of a column's own two forms
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    try:
        if is_time:
            return joined([_times(pa, chunk) for chunk in chunks] or [times_of(())])
        return _texts(pa, chunks)
    except (pa.ArrowException, ValueError, OverflowError, IndexError, TypeError) as error:
        raise InputError(
            name, f"the column {called} cannot be read ({_first_line(error)})"
        ) from None


def _times(pa: Any, chunk: Any) -> TimeColumn:
    kind, types = chunk.type, pa.types
    if types.is_integer(kind):
        return _of_integers(*_numbers(chunk, str(kind)), TimeKind.INTEGER)
    if types.is_float64(kind) or types.is_float32(kind):
        values, missing = _numbers(chunk, "float64" if types.is_float64(kind) else "float32")
        return _of_floats(values.astype(np.float64), missing)
    if types.is_date(kind):
        values, missing = _numbers(chunk, "int32" if types.is_date32(kind) else "int64")
        unit_ns = _DAY_NS if types.is_date32(kind) else 10**6
        return _scaled(values.astype(np.int64), missing, unit_ns, TimeKind.NAIVE)
    if types.is_timestamp(kind) or types.is_duration(kind):
        values, missing = _numbers(chunk, "int64")
        # pandas' missing time
        missing |= values == -_LIMIT - 1
        of: int = DURATION
        if types.is_timestamp(kind):
            of = TimeKind.NAIVE if kind.tz is None else TimeKind.ZONED
        return _scaled(values, missing, _UNITS_NS[kind.unit], of)
    return times_of(
        value if value is None or isinstance(value, str) else _time_text(value)
        for value in chunk.to_pylist()
    )


def _time_text(value: Any) -> str:
    # months, days and nanoseconds, of DuckDB's intervals
    if isinstance(value, tuple) and len(value) == 3 and not value[0]:
        return f"{value[1]}d {value[2]}ns"
    return str(value)


def _of_integers(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_], kind: int) -> TimeColumn:
    # a column of uint64 may have more than fits
    if not missing.any() and values.max(initial=0) <= _LIMIT:
        return TimeColumn(values.astype(np.int64), np.full(len(values), kind, np.uint8))
    outside = values > _LIMIT
    kinds = np.where(missing, MISSING, np.where(outside, TimeKind.ODD, kind)).astype(np.uint8)
    return TimeColumn(np.where(missing | outside, 0, values).astype(np.int64), kinds)


def _scaled(
    values: npt.NDArray[Any], missing: npt.NDArray[np.bool_], unit_ns: int, kind: int
) -> TimeColumn:
    most = _LIMIT // unit_ns
    if len(values) and not missing.any() and -most <= values.min() <= values.max() <= most:
        return TimeColumn(values * unit_ns, np.full(len(values), kind, np.uint8))
    outside = (values < -most) | (values > most)
    kinds = np.where(missing, MISSING, np.where(outside, TimeKind.ODD, kind)).astype(np.uint8)
    return TimeColumn(np.where(missing | outside, 0, values) * unit_ns, kinds)


def _of_floats(values: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_]) -> TimeColumn:
    missing = missing | np.isnan(values)
    found = np.zeros(len(values), np.int64)
    kinds = np.where(missing, MISSING, TimeKind.ODD).astype(np.uint8)
    size = np.abs(values)
    for kind, scale, low, high in (
        (TimeKind.DECIMAL_9, 9, -1.0, 9e9),
        (TimeKind.DECIMAL_6, 6, 9e9, 9e12),
        (TimeKind.DECIMAL_3, 3, 9e12, 9e15),
        (TimeKind.INTEGER, 0, 9e15, 9e18),
    ):
        rows = np.flatnonzero((size >= low) & (size < high))
        whole = np.floor(values[rows])
        fraction = np.rint((values[rows] - whole) * 10**scale).astype(np.int64)
        found[rows] = whole.astype(np.int64) * 10**scale + fraction
        kinds[rows] = kind
    return TimeColumn(found, kinds)


def _numbers(array: Any, kind: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the numbers of an Arrow array, and which rows have none.

    `Array.to_numpy` would import pandas, if it is installed.
    """
    validity, values = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    missing = np.zeros(len(array), np.bool_)
    if not len(array):
        return np.empty(0, kind), missing
    if array.null_count and validity is not None:
        bits = np.frombuffer(validity, np.uint8)
        missing = np.unpackbits(bits, count=rows.stop, bitorder="little")[rows] == 0
    return np.frombuffer(values, kind, rows.stop)[rows], missing


def _texts(pa: Any, chunks: list[Any]) -> Coded:
    names: list[str] = []
    known = Interner(names)
    parts = [np.empty(0, np.int32)]
    for chunk in chunks:
        coded = chunk
        if not pa.types.is_dictionary(chunk.type):
            if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
                parts.append(known.codes([str(value) for value in chunk.to_pylist()]))
                continue
            coded = chunk.dictionary_encode()
        at, missing = _numbers(coded.indices, str(coded.indices.type))
        texts = [str(value) for value in coded.dictionary.to_pylist()]
        if missing.any():
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
