"""Text with a row a line: CSV, and the same with tabs, semicolons or `|` between its fields.

The kernel reads what has no quotes inside of fields and usual line ends; the module `csv` reads the
rest.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from array import array
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import InputError
from meantime.kernels.csv_rows import read_rows
from meantime.model.columns import Coded, Interner
from meantime.readers.table.times import MISSING, TimeColumn, number_kinds, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from meantime.model.anomalies import Anomalies

__all__ = ["BLANKS", "Header", "header_of", "read_delimited"]

_LONGEST_HEAD = 1 << 17
_DELIMITERS = ",\t;|"
# Between columns that blanks align, as tools print them: one or more.
BLANKS = " "
_ALIGNED = re.compile(rb"[ \t]+")
_REPLACE = "backslashreplace"
_SNIFFED_BYTES = 1 << 14
_SNIFFED_ROWS = 50
_LINE_FEED = ord("\n")
# So many fields at a time are numbers of Python.
_PART_ROWS = 1 << 14
_ENDS = {b"", b"\n", b"\r"}


# What decides which of the columns are read: see `Chooser`.
_Choose: TypeAlias = "Callable[[Sequence[str], Sequence[str], Sequence[str]], Mapping[str, bool]]"


class Header(NamedTuple):
    """The first line of a table.

    Attributes:
        names: The columns, without blanks around them.
        delimiter: What is between fields.
        end: The byte behind the line; 0 if only the module `csv` can find it.
    """

    names: list[str]
    delimiter: str
    end: int


def header_of(head: bytes) -> Header:
    """Return the header of a text from its beginning; without names if it has none."""
    end = head.find(b"\n") + 1
    line = head[: end or len(head)].decode("utf-8", _REPLACE).rstrip("\r\n")
    delimiter = max(_DELIMITERS, key=line.count)
    if delimiter not in line and BLANKS in line.strip():
        return Header(line.split(), BLANKS, end)
    try:
        # strict: a line that ends inside quotes is not the whole header
        [names] = csv.reader([line], delimiter=delimiter, quoting=_quoting(delimiter), strict=True)
    except (csv.Error, ValueError):
        return Header([], delimiter, 0)
    is_usual = end and "\r" not in line
    return Header([each.strip() for each in names], delimiter, end if is_usual else 0)


def _as_tab(found: re.Match[bytes]) -> bytes:
    text, (start, end) = found.string, found.span()
    is_inside = start > 0 and text[start - 1] != _LINE_FEED and text[end : end + 1] not in _ENDS
    return b"\t" if is_inside else b""


def read_delimited(
    data: memoryview, name: str, choose: _Choose, anomalies: Anomalies
) -> dict[str, TimeColumn | Coded]:
    """Return the chosen columns by name; fields missing at the end of a row are empty.

    Args:
        data: The text.
        name: What the input is called.
        anomalies: Where rows with fewer or more fields than columns are counted.
        choose: Returns for the names of all columns, those of times and those of numbers which are
            wanted, and whether each is a time or a number.

    Raises:
        InputError: If it is not a table, or a wanted column occurs twice.
    """
    header = header_of(bytes(data[:_LONGEST_HEAD]))
    if header.delimiter == BLANKS:
        # columns that blanks align: a tab is in no field, since no line has fields without blanks
        data = memoryview(_ALIGNED.sub(_as_tab, bytes(data)))
        header = header_of(bytes(data[:_LONGEST_HEAD]))
    if not header.end or not header.names:
        return _odd(data, name, header.delimiter, choose, anomalies)
    wanted = choose(header.names, (), _numbers(data, header))
    check_once(header.names, wanted, name)
    index = {each: header.names.index(each) for each in wanted}
    ordered = sorted(index, key=lambda each: index[each])
    fields = [(index[each], not wanted[each]) for each in ordered]
    read = read_rows(data, header.end, fields, header.delimiter, len(header.names))
    if read is None:
        return _odd(data, name, header.delimiter, choose, anomalies)
    short_rows, long_rows, found = read
    anomalies.add("short_row", short_rows)
    anomalies.add("long_row", long_rows)
    columns: dict[str, TimeColumn | Coded] = {}
    for each, (values, *rest) in zip(ordered, found, strict=True):
        if not wanted[each]:
            texts = [str(text, "utf-8", _REPLACE) for text in rest[0]]
            columns[each] = Coded(values, texts)
            continue
        kinds, others = rest
        for part in range(0, len(others), _PART_ROWS):
            for row, a, b in others[part : part + _PART_ROWS].tolist():
                values[row], kinds[row] = parse(str(data[a:b], "utf-8", _REPLACE))
        columns[each] = TimeColumn(values, kinds)
    return columns


def _numbers(data: memoryview, header: Header) -> list[str]:
    """Return the columns that have only numbers in the first rows."""
    text = str(data[header.end : header.end + _SNIFFED_BYTES], "utf-8", _REPLACE)
    lines = text.splitlines()
    # the last one may be cut
    lines = lines[: -1 if header.end + _SNIFFED_BYTES < len(data) else None][:_SNIFFED_ROWS]
    try:
        rows = [*csv.reader(lines, delimiter=header.delimiter, quoting=_quoting(header.delimiter))]
    except csv.Error:
        return []
    kinds = {int(kind) for kind in number_kinds()}
    kinds_or_missing = {*kinds, MISSING}
    found = []
    for at, name in enumerate(header.names):
        of = (int(parse(row[at])[1]) for row in rows if at < len(row))
        # the first text decides
        known = [kind in kinds for kind in itertools.takewhile(kinds_or_missing.__contains__, of)]
        if any(known) and len(known) == sum(at < len(row) for row in rows):
            found.append(name)
    return found


def check_once(names: Sequence[str], wanted: Mapping[str, bool], source: str) -> None:
    """Check that the wanted columns exist once.

    Raises:
        InputError: If not.
    """
    for each in wanted:
        if names.count(each) != 1:
            problem = "occurs twice" if each in names else f"is missing; it has {', '.join(names)}"
            raise InputError(source, f"the column {each} {problem}")


def _quoting(delimiter: str) -> Literal[0, 3]:
    # what writes `|` between fields writes no quotes around them
    return csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL


def _odd(
    data: memoryview,
    name: str,
    delimiter: str,
    choose: _Choose,
    anomalies: Anomalies,
) -> dict[str, TimeColumn | Coded]:
    """Return the columns of any text, as the module `csv` reads it."""
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8", _REPLACE, newline="")
    rows = csv.reader(text, delimiter=delimiter, quoting=_quoting(delimiter))
    try:
        names = [each.strip() for each in next(rows, [])]
        wanted = choose(names, (), ())
        check_once(names, wanted, name)
        columns = {each: (_Times if wanted[each] else _Texts)() for each in wanted}
        puts = [(names.index(each), column.put) for each, column in columns.items()]
        for row in rows:
            if not row:
                continue
            anomalies.add("short_row", int(len(row) < len(names)))
            anomalies.add("long_row", int(any(row[len(names) :])))
            for at, put in puts:
                put(row[at] if at < len(row) else "")
    except csv.Error as error:
        raise InputError(name, f"malformed CSV ({error})", line=rows.line_num) from None
    return {each: column.column() for each, column in columns.items()}


class _Times:
    """A column of times that grows."""

    def __init__(self) -> None:
        self._values, self._kinds = array("q"), bytearray()

    def put(self, text: str) -> None:
        value, kind = parse(text)
        self._values.append(value)
        self._kinds.append(kind)

    def column(self) -> TimeColumn:
        return TimeColumn(np.array(self._values, np.int64), np.array(self._kinds, np.uint8))


class _Texts:
    """A column of texts that grows."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._known = Interner(self._names)
        self._codes = array("i")

    def put(self, text: str) -> None:
        self._codes.append(self._known.code(text))

    def column(self) -> Coded:
        return Coded(np.array(self._codes, np.int32), self._names)
