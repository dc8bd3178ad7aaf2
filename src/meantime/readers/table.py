"""Tables: CSV, or Parquet with the extra `arrow`, of events or of intervals.

Events have the columns `time_ns`, `name` and perhaps `weight`; intervals `start_ns`, `end_ns`,
`path` and `value`. The first line of a CSV file names the columns, in any order; others are passed
over. An event is a sample without a stack, an interval a state of the attribute at its path; those
of one path may not overlap, and between them there is no state.
"""

from __future__ import annotations

import csv
import io
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from meantime.attributes import parse_pattern
from meantime.errors import InputError, MissingExtraError, UsageError
from meantime.readers.contract import lazy_trace
from meantime.trace import LaneDeclaration, Samples, StateChanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.columns import Int64s
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "table"

_EVENTS = ("time_ns", "name")
_INTERVALS = ("start_ns", "end_ns", "path", "value")
_PARQUET = b"PAR1"
_LIMIT = 2**63 - 1


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file is Parquet, or its first line names the columns of a table."""
    del name
    if head.startswith(_PARQUET):
        return True
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace")
    columns = _names(first)
    return set(_EVENTS) <= set(columns) or set(_INTERVALS) <= set(columns)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return what a table tells; it is read when its batches are asked for.

    Raises:
        InputError: If a row has no time or ends before it starts, unless `lenient`, or if
            intervals of one path overlap.
        MissingExtraError: If it is Parquet and pyarrow is not installed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    yield from _Reading(trace, options).batches(source)


class _Reading:
    """The codes that a table's texts have in the trace."""

    def __init__(self, trace: Trace, options: ReadOptions) -> None:
        self._trace = trace
        self._options = options
        self._lenient = options.lenient
        self._until_ns = _LIMIT if options.until_ns is None else options.until_ns
        self._keep = options.keep
        self._values: dict[str, int] = {}
        self._paths: dict[str, int] = {}

    def batches(self, source: Source) -> Iterator[Batch]:
        """Yield the table's one batch."""
        with source:
            data = source.whole()
        self._options.tell(source.read_bytes, source.stored_bytes or 0)
        self._trace.anomalies.add("truncated", int(source.truncated))
        head = bytes(data[:4])
        name = source.name
        columns = _parquet(bytes(data), name) if head == _PARQUET else _csv(bytes(data), name)
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
        times, bad = self._integers(columns["time_ns"])
        weights = columns.get("weight")
        weight, no_weight = self._integers(["1"] * len(times) if weights is None else weights)
        rows = self._good(bad | no_weight)
        names = columns["name"]
        rows = [
            row
            for row in rows
            if times[row] <= self._until_ns and (self._keep is None or self._keep(names[row]))
        ]
        name = np.array([self._value(names[row]) for row in rows], np.int32)
        thread = np.array([self._path(names[row], (names[row],)) for row in rows], np.int32)
        if rows:
            kept = times[rows]
            self._trace.bounds = (int(kept.min()), int(kept.max()) + 1)
        return Samples(
            time_ns=times[rows],
            thread=thread,
            stack=np.full(len(rows), -1, np.int32),
            weight=weight[rows],
            event=np.full(len(rows), self._value("event"), np.int32),
            name=name,
        )

    def _states(self, columns: dict[str, Sequence[str]]) -> StateChanges:
        starts, bad = self._integers(columns["start_ns"])
        ends, no_end = self._integers(columns["end_ns"])
        rows = self._good(bad | no_end | (ends < starts))
        paths, values = columns["path"], columns["value"]
        by_path: dict[int, list[tuple[int, int, int]]] = {}
        for row in rows:
            text = paths[row]
            if starts[row] == ends[row]:
                self._trace.anomalies.add("zero_length_state")
            elif starts[row] <= self._until_ns and (self._keep is None or self._keep(text)):
                code = self._path(text, self._parsed(text, row))
                interval = (int(starts[row]), int(ends[row]), self._value(values[row]))
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

    def _integers(
        self, texts: Sequence[str]
    ) -> tuple[Int64s, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Return a column of integers, and which of its rows are none."""
        try:
            numbers = np.array(texts, np.int64)
        except (ValueError, OverflowError):
            numbers = np.zeros(len(texts), np.int64)
            bad = np.zeros(len(texts), np.bool_)
            for row, text in enumerate(texts):
                try:
                    numbers[row] = int(text)
                except (ValueError, OverflowError):
                    bad[row] = True
            return numbers, bad
        return numbers, np.zeros(len(texts), np.bool_)

    def _good(self, bad: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
        """Return the rows that are good.

        Raises:
            InputError: If one is not, unless they are to be counted.
        """
        wrong = np.flatnonzero(bad)
        if len(wrong) and not self._lenient:
            raise InputError(
                self._trace.source,
                f"row {int(wrong[0]) + 1}: its times are no integers of nanoseconds, or its end is "
                "before its start",
            )
        self._trace.anomalies.add("bad_record", len(wrong))
        return [int(row) for row in np.flatnonzero(~bad)]

    def _parsed(self, text: str, row: int) -> tuple[str, ...]:
        try:
            elements = parse_pattern(text)
        except UsageError as error:
            raise InputError(self._trace.source, f"row {row + 1}: {error}") from None
        if not elements or not all(isinstance(element, str) for element in elements):
            raise InputError(self._trace.source, f"row {row + 1}: {text!r} is not a path")
        return tuple(str(element) for element in elements)

    def _value(self, text: str) -> int:
        if text not in self._values:
            self._values[text] = len(self._trace.values)
            self._trace.values.append(text)
        return self._values[text]

    def _path(self, text: str, path: tuple[str, ...]) -> int:
        if text not in self._paths:
            self._paths[text] = len(self._trace.paths)
            self._trace.paths.append(path)
        return self._paths[text]


def _names(line: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([line.strip()]), [])]
    except csv.Error:  # it is no CSV: carriage returns among its bytes, or an endless field
        return []


def _csv(data: bytes, name: str) -> dict[str, Sequence[str]]:
    """Return the columns of a CSV text by name; a row that is too short has empty fields."""
    text = data.decode("utf-8-sig", "backslashreplace")
    rows = csv.reader(io.StringIO(text, newline=""))
    names = [name.strip() for name in next(rows, [])]
    wanted = {
        name: at for at, name in enumerate(names) if name in {*_EVENTS, *_INTERVALS, "weight"}
    }
    columns: dict[str, list[str]] = {name: [] for name in wanted}
    try:
        for row in rows:
            if not row:
                continue
            for column, at in wanted.items():
                columns[column].append(row[at] if at < len(row) else "")
    except csv.Error as error:
        raise InputError(
            name, f"it is not CSV that can be read ({error})", line=rows.line_num
        ) from None
    return dict(columns)


def _parquet(data: bytes, name: str) -> dict[str, Sequence[str]]:
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError(
            "Parquet needs pyarrow: python -m pip install 'meantime[arrow]'"
        ) from None
    try:
        table = parquet.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(name, f"it is not a Parquet file that can be read ({error})") from None
    wanted = [each for each in table.column_names if each in {*_EVENTS, *_INTERVALS, "weight"}]
    return {each: [str(value) for value in table.column(each).to_pylist()] for each in wanted}
