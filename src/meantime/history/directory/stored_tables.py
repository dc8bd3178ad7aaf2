"""Event tables on disk: each column is read and checked when it is first used."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.history.directory.container import ALIGNMENT, ContainerFile, aligned
from meantime.history.directory.tables import COLUMN_TYPES, TABLE_COLUMNS
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL, fits
from meantime.history.results import Flows, Points
from meantime.history.samples import SampleTable
from meantime.history.spans import SpanTable
from meantime.kernels import seal
from meantime.kernels.checksum import crc32
from meantime.model.columns import Coded
from meantime.model.stacks import StackTable
from meantime.model.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.directory.tables import Description
    from meantime.model.columns import Int32s, Int64s

    Found = Callable[[InputError], None]

__all__ = ["StoredTables"]

# Small enough to be in the second-level cache when the checksum is computed.
_BLOCK_BYTES = 1 << 18
# By column, what spans have that are without it, since it is damaged.
_OPTIONAL = {
    "category": (-1, np.int32),
    "arguments_offset": (0, np.int64),
    "arguments_length": (0, np.int32),
    "flags": (0, np.uint8),
}
_STRUCTURE = ("start_ns", "end_ns", "depth", "lane", "parent")


class StoredTables:
    """The event tables in a file, of a history with these names.

    Args:
        path: The file.
        described: Its columns, from the manifest.
        catalogue: The names of the history.
        found: Receives the error where categories, arguments, flags or numbers of spans are
            damaged, which they are then without; None raises it.

    Raises:
        InputError: If the file is missing or cut, or its description is invalid; and when a table
            is used, if its columns are damaged or invalid.
    """

    def __init__(
        self,
        path: Path,
        described: Description,
        catalogue: Catalogue,
        found: Found | None = None,
    ) -> None:
        self._columns = _Columns(path, described)
        self._found = found
        self._quarks = len(catalogue.attributes)
        self._strings = catalogue.strings.names

    def check(self) -> None:
        """Read and check every column."""
        for table in ("points", "flows", "samples", "spans"):
            getattr(self, table)
        for column in ("rows", "start_ns", "name", "category", "flags", "arguments_offset"):
            getattr(self.spans, column)
        for table in ("points", "spans"):
            self._text(table).check()

    @cached_property
    def points(self) -> Points:
        """The instants."""
        columns = self._columns
        offset, length = columns.arguments("points")
        return Points(
            columns.times("points.time_ns"),
            columns.codes("points.quark", 0, self._quarks),
            Coded(columns.codes("points.name", 0, len(self._strings)), self._strings),
            offset,
            length,
            ArgumentText(self._text("points")),
        )

    @cached_property
    def flows(self) -> Flows:
        """The arrows."""
        columns = self._columns
        return Flows(
            columns.times("flows.from_ns"),
            columns.codes("flows.from_quark", 0, self._quarks),
            columns.times("flows.to_ns", ordered=False),
            columns.codes("flows.to_quark", 0, self._quarks),
            Coded(columns.codes("flows.name", 0, len(self._strings)), self._strings),
        )

    @cached_property
    def samples(self) -> SampleTable:
        """The samples, and all their stacks."""
        columns, strings = self._columns, self._strings
        stacks = self._stacks()
        return SampleTable(
            time_ns=columns.times("samples.time_ns"),
            thread=columns.codes("samples.thread", 0, self._quarks),
            stack=columns.codes("samples.stack", -1, len(stacks)),
            weight=columns.get("samples.weight"),
            event=Coded(columns.codes("samples.event", 0, len(strings)), strings),
            name=Coded(columns.codes("samples.name", -1, len(strings)), strings),
            cpu=columns.codes("samples.cpu", -1, 2**31),
            stacks=stacks,
        )

    def _stacks(self) -> StackTable:
        columns = self._columns
        try:
            frames = json.loads(columns.get("stacks.frames").tobytes() or b"[]")
        except (ValueError, RecursionError) as error:
            raise columns.wrong(f"stacks.frames: {error}") from None
        if not isinstance(frames, list) or not all(type(frame) is str for frame in frames):
            raise columns.wrong("stacks.frames: is not a list of names")
        parent = columns.get("stacks.parent")
        if len(parent) and (int(parent.min()) < -1 or (parent >= np.arange(len(parent))).any()):
            raise columns.wrong("stacks.parent: a stack comes before its caller")
        return StackTable(parent, columns.codes("stacks.frame", 0, len(frames)), frames)

    @cached_property
    def spans(self) -> SpanTable:
        """The spans; only their threads are read at once."""
        columns = self._columns
        threads = columns.codes("spans.threads", 0, self._quarks)
        offsets = columns.get("spans.offsets")
        if (
            len(offsets) != len(threads) + 1
            or offsets[0] != 0
            or offsets[-1] != columns.rows("spans.start_ns")
            or not (offsets[1:] > offsets[:-1]).all()
            # Not `np.unique`, which loads `numpy.ma` first, for 10 ms.
            or not np.diff(np.sort(threads)).all()
        ):
            raise columns.wrong("spans.offsets: do not part the spans by thread")
        return SpanTable(
            places=lambda: (threads, offsets),
            column=_SpanColumns(columns, len(self._strings), self._found).get,
            strings=(self._strings, self._strings),
            text=ArgumentText(self._text("spans")),
            rows=self._numbers if columns.has("spans.number") else None,
        )

    def _numbers(self) -> Int32s:
        """Return the numbers of spans; those of their rows if they are damaged."""
        try:
            return self._columns.numbers()
        except InputError as error:
            if self._found is None:
                raise
            self._found(error)
        return np.arange(self._columns.rows("spans.start_ns"), dtype=np.int32)

    def within(self, start_ns: int | None, end_ns: int | None) -> StoredTables:
        """Return these tables."""
        del start_ns, end_ns
        return self

    def _text(self, table: str) -> _Text:
        return _Text(self._columns, f"{table}.text", self._found)


class _SpanColumns:
    """The columns of spans; as part of `StoredTables` they would be in a cycle with its table."""

    def __init__(self, columns: _Columns, strings: int, found: Found | None) -> None:
        self._columns = columns
        self._strings = strings
        self._found = found

    def get(self, name: str) -> npt.NDArray[Any]:
        """Return a column, or the codes of one."""
        if name in _STRUCTURE:
            return self._structure[name]
        try:
            return self._other(name)
        except InputError as error:
            if self._found is None or name not in _OPTIONAL:
                raise
            self._found(error)
        return np.full(self._columns.rows("spans.start_ns"), *_OPTIONAL[name])

    def _other(self, name: str) -> npt.NDArray[Any]:
        if name.startswith("arguments"):
            return self._columns.arguments("spans")[name == "arguments_length"]
        if name == "flags":
            return self._columns.get("spans.flags")
        # a span can be without a category, but not without a name
        least = -1 if name == "category" else 0
        return self._columns.codes(f"spans.{name}", least, self._strings)

    @cached_property
    def _structure(self) -> dict[str, npt.NDArray[Any]]:
        """The times of spans and how they are nested, which are valid only together."""
        columns = self._columns
        found = {name: columns.get(f"spans.{name}") for name in _STRUCTURE}
        start_ns, end_ns = found["start_ns"], found["end_ns"]
        offsets = columns.get("spans.offsets")
        row = seal.nested(
            offsets,
            start_ns,
            end_ns,
            found["depth"],
            found["lane"],
            found["parent"],
        )
        if row >= 0:
            raise columns.wrong(f"spans.parent: span {row} is not where the others leave room")
        if len(start_ns):
            # the first span of a thread begins first, and no span ends before it begins
            first_ns, last_ns = int(start_ns[offsets[:-1]].min()), int(end_ns.max())
            if first_ns <= BEFORE_ALL or last_ns >= AFTER_ALL:
                raise columns.wrong("spans.start_ns: times do not fit")
            if last_ns - first_ns >= AFTER_ALL:
                raise columns.wrong("spans.end_ns: durations do not fit into 64 bits")
        return found


class _Text:
    """A column of bytes that is read when some of them are used."""

    def __init__(self, columns: _Columns, name: str, found: Found | None) -> None:
        self._columns = columns
        self._name = name
        self._found = found
        self._length = columns.rows(name)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> memoryview:
        return self._bytes[part]

    @cached_property
    def _bytes(self) -> memoryview:
        try:
            return self._columns.get(self._name).data
        except InputError as error:
            if self._found is None:
                raise
            self._found(error)
        return memoryview(b"")

    def check(self) -> None:
        """Read it."""
        self._columns.get(self._name)


class _Columns:
    """The columns of a file by name; one that is not there is empty."""

    def __init__(self, path: Path, described: Description) -> None:
        self._path = path
        self._described: dict[str, tuple[np.dtype[Any], int, int, int]] = {}
        self._file: ContainerFile | None = None
        self._read: dict[str, npt.NDArray[Any]] = {}
        if not described:
            return
        whole = 0
        for name, kind, rows, offset, checksum in described:
            if kind not in {dtype.str for dtype in COLUMN_TYPES.get(name, ())}:
                raise InputError(str(path), f"the column {name} is of the type {kind}")
            dtype = np.dtype(kind)
            if offset % ALIGNMENT:
                raise InputError(str(path), f"the column {name} is misplaced", offset=offset)
            self._described[name] = (dtype, rows, offset, checksum)
            whole = max(whole, offset + aligned(rows * dtype.itemsize))
        self._file = ContainerFile(path)
        if self._file.size_bytes != whole:
            wrong = f"is {self._file.size_bytes} bytes long and should be {whole}"
            raise self._file.error(wrong, min(self._file.size_bytes, whole))
        for table, names in TABLE_COLUMNS.items():
            if len({self.rows(name) for name in names}) != 1:
                raise self.wrong(f"{table}: columns of one table differ in length")

    def has(self, name: str) -> bool:
        """Return whether there is a column."""
        return name in self._described

    def numbers(self) -> Int32s:
        """Return the number of each span, of which each is that of one span."""
        number: Int32s = self.get("spans.number")
        if len(number) != self.rows("spans.start_ns") or not seal.each_once(number):
            raise self.wrong("spans.number: is not each number once")
        return number

    def rows(self, name: str) -> int:
        """Return how many rows a column has, of which nothing is read."""
        if name in self._described:
            return self._described[name][1]
        if name == "spans.offsets":
            return 1
        # histories of earlier versions lack them
        later = name in {"points.arguments_offset", "points.arguments_length"}
        return self.rows("points.time_ns") if later else 0

    def get(self, name: str) -> npt.NDArray[Any]:
        """Return a column; zeros where it is missing.

        Raises:
            InputError: If it is cut or damaged.
        """
        if name not in self._described:
            return np.zeros(self.rows(name), COLUMN_TYPES[name][0])
        column = self._read.get(name)
        if column is None:
            dtype, rows, offset, checksum = self._described[name]
            assert self._file is not None
            data = np.empty(rows * dtype.itemsize, np.uint8)
            found = 0
            for first in range(0, len(data), _BLOCK_BYTES):
                block = data[first : first + _BLOCK_BYTES]
                self._file.read_into(block, offset + first)
                found = crc32(block.data, found)
            if found != checksum:
                raise InputError(
                    str(self._path), f"the column {name} is cut or damaged", offset=offset
                )
            column = self._read[name] = data.view(dtype)
        return column

    def codes(self, name: str, least: int, count: int) -> npt.NDArray[Any]:
        """Return a column of numbers from `least` to `count` - 1."""
        column = self.get(name)
        if len(column) and not least <= int(column.min()) <= int(column.max()) < count:
            raise self.wrong(f"{name}: a number is not one of {count:,}")
        return column

    def times(self, name: str, *, ordered: bool = True) -> Int64s:
        """Return a column of times."""
        times_ns: Int64s = self.get(name)
        if (ordered and not (times_ns[1:] >= times_ns[:-1]).all()) or not fits(times_ns):
            raise self.wrong(f"{name}: times are not in order, or do not fit")
        return times_ns

    def arguments(self, table: str) -> tuple[Int64s, npt.NDArray[np.int32]]:
        """Return where the arguments of a table begin in their text, and their lengths."""
        offset = self.get(f"{table}.arguments_offset")
        length = self.get(f"{table}.arguments_length")
        size = self.rows(f"{table}.text")
        if len(offset) and (
            not 0 <= int(offset.min()) <= int(offset.max()) <= size
            or int(length.min()) < 0
            or int((offset + length).max()) > size
        ):
            raise self.wrong(f"{table}.arguments_offset: arguments are not in the text")
        return offset, length

    def wrong(self, what: str) -> InputError:
        """Return an error about the content."""
        return InputError(str(self._path), f"is invalid: {what}")
