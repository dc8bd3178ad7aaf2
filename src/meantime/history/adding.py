"""Rows that a program adds to the event tables of a history: their columns, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.errors import TimeRangeError
from meantime.history.numbers import OUTSIDE, fits, quarks_of, times_of
from meantime.model.columns import Coded
from meantime.model.trace import Arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.contents import Contents
    from meantime.history.event_rows import Columns
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Names", "flow_columns", "point_columns", "sample_columns", "span_columns"]

# The names of rows: strings, or a column of them.
Names: TypeAlias = "Sequence[str | None] | Coded"


def span_columns(  # noqa: PLR0917 - the arguments of the public method, in its order
    contents: Contents,
    threads: Sequence[int] | Int32s,
    names: Names,
    starts_ns: Sequence[int] | Int64s,
    ends_ns: Sequence[int] | Int64s,
    categories: Names | None,
    arguments: Sequence[str | None] | None,
) -> Columns:
    """Return the columns of spans.

    Raises:
        HistoryError: If an attribute does not exist, or a time does not fit.
        ValueError: If the columns differ in length, or a span ends before it starts.
    """
    start_ns, end_ns = _times(starts_ns), _times(ends_ns)
    rows = len(start_ns)
    columns: Columns = {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "thread": _quarks(contents, threads),
        "name": _codes(contents, names),
        "category": _none(rows) if categories is None else _codes(contents, categories, null=True),
        "level": np.zeros(rows, np.int32),
        "flags": np.zeros(rows, np.uint8),
    }
    columns |= _arguments(contents, "spans", rows, arguments)
    _check_lengths(columns)
    if (end_ns < start_ns).any():
        row = int(np.argmax(end_ns < start_ns))
        raise ValueError(
            f"span {row} ends at {end_ns[row]} ns, before it starts at {start_ns[row]} ns"
        )
    return columns


def sample_columns(  # noqa: PLR0917 - the arguments of the public method, in its order
    contents: Contents,
    threads: Sequence[int] | Int32s,
    stacks: Sequence[Sequence[str]],
    times_ns: Sequence[int] | Int64s,
    weights: Sequence[int] | Int64s | None,
    event: str,
) -> Columns:
    """Return the columns of samples; raises as `span_columns` does."""
    time_ns = _times(times_ns)
    rows = len(time_ns)
    code = contents.catalogue.strings.codes([event])
    columns: Columns = {
        "time_ns": time_ns,
        "weight": np.ones(rows, np.int64) if weights is None else times_of(weights),
        "thread": _quarks(contents, threads),
        "stack": contents.events.push_stacks(stacks),
        "event": np.repeat(code, rows),
        "name": _none(rows),
        "cpu": _none(rows),
    }
    _check_lengths(columns)
    return columns


def point_columns(
    contents: Contents,
    quarks: Sequence[int] | Int32s,
    names: Names,
    times_ns: Sequence[int] | Int64s,
    arguments: Sequence[str | None] | None,
) -> Columns:
    """Return the columns of points; raises as `span_columns` does."""
    time_ns = _times(times_ns)
    columns: Columns = {
        "time_ns": time_ns,
        "quark": _quarks(contents, quarks),
        "name": _codes(contents, names),
    }
    columns |= _arguments(contents, "points", len(time_ns), arguments)
    _check_lengths(columns)
    return columns


def flow_columns(  # noqa: PLR0917 - the arguments of the public method, in its order
    contents: Contents,
    from_quarks: Sequence[int] | Int32s,
    from_ns: Sequence[int] | Int64s,
    to_quarks: Sequence[int] | Int32s,
    to_ns: Sequence[int] | Int64s,
    names: Names,
) -> Columns:
    """Return the columns of flows; raises as `span_columns` does."""
    columns: Columns = {
        "from_ns": _times(from_ns),
        "from_quark": _quarks(contents, from_quarks),
        "to_ns": _times(to_ns),
        "to_quark": _quarks(contents, to_quarks),
        "name": _codes(contents, names),
    }
    _check_lengths(columns)
    return columns


def _times(times_ns: Sequence[int] | Int64s) -> Int64s:
    # a copy: the rows are kept, and the caller may change his array
    times = times_of(times_ns).astype(np.int64)
    if not fits(times):
        raise TimeRangeError(f"a time does not fit: {OUTSIDE}")
    return times


def _quarks(contents: Contents, quarks: Sequence[int] | Int32s) -> Int32s:
    asked = quarks_of(quarks)
    if len(asked):
        contents.checked_quark(int(asked.min()))
        contents.checked_quark(int(asked.max()))
    return asked.astype(np.int32)


def _codes(contents: Contents, names: Names, *, null: bool = False) -> Int32s:
    column = names if isinstance(names, Coded) else Coded.of(list(names))
    if not null and len(column.codes) and int(column.codes.min()) < 0:
        raise ValueError("a name is None: only categories may be")
    codes = contents.catalogue.strings.codes(column.names)
    return np.append(codes, np.int32(-1))[column.codes]


def _none(rows: int) -> Int32s:
    return np.full(rows, -1, np.int32)


def _arguments(
    contents: Contents, table: str, rows: int, arguments: Sequence[str | None] | None
) -> Columns:
    found = Arguments(np.zeros(rows, np.int64), np.zeros(rows, np.int32))
    if arguments is not None:
        texts = [(text or "").encode("utf-8", "surrogatepass") for text in arguments]
        length = np.array([len(text) for text in texts], np.int32)
        begin = contents.events.tables[table].text.add(b"".join(texts))
        found = Arguments(begin + np.cumsum(length, dtype=np.int64) - length, length)
    return {"offset": found.offset, "length": found.length}


def _check_lengths(columns: Columns) -> None:
    """Raise `ValueError` unless all columns have one length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise ValueError(f"the columns differ in length: {found}")
