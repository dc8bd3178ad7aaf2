"""The event tables of an unfinished history on disk: sealed blocks, and logs of what waits for one.

    events/TABLE-NNNNNN.rows    the block of this number, never changed
    events/TABLE-NNNNNN.log     the rows after the first NNNNNN blocks, as they came
    events/stacks-000000.log    the stacks of samples; `frames-000000.log` has their functions

Blocks and the parts of logs have the same layout: a header, the columns, and the texts of their
arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from weakref import WeakSet

import numpy as np

from meantime.errors import InputError
from meantime.files import folder_inside, open_inside
from meantime.history.argument_texts import joined_texts
from meantime.history.directory.container import (
    HEADER_BYTES,
    ContainerFile,
    Section,
    aligned,
    identity_of,
    offsets_of,
    pack_header,
    size_of,
    views,
)
from meantime.history.directory.manifest import items_in
from meantime.history.event_rows import LAYOUTS, Layout, joined_columns, limits_of
from meantime.history.events import EventStore
from meantime.history.numbers import AFTER_ALL, fits
from meantime.kernels.checksum import crc32
from meantime.kernels.gather import join_parts
from meantime.kernels.span_search import TimeIndex
from meantime.model.stacks import StackTable
from meantime.model.trace import ArgumentText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.event_rows import Columns, MemoryBlock
    from meantime.history.segment import Limits
    from meantime.model.columns import Int32s, Int64s

__all__ = ["EventFiles", "StoredBlock", "load_events", "open_files"]

FOLDER = "events"
_MAGIC = b"MTROW\0\0\1"
# Magic, rows, the earliest and the latest time, where the last row begins, the bytes of texts, the
# checksums of columns and texts; at the end that of all these.
_HEADER = Struct("<8sqqqqqIII")
_STACKS = Layout("stacks", dict.fromkeys(("parent", "frame"), np.dtype(np.int32)), "", "")
_FRAMES = Layout(
    "frames",
    {"offset": np.dtype(np.int64), "length": np.dtype(np.int32)},
    "",
    "",
)
# How much of the texts of rows is put into their order at once.
_TEXT_BYTES = 1 << 22
# How many blocks a reader keeps open, so that it can read them when they were removed.
_MOST_OPEN = 128
_LAYOUTS = {**LAYOUTS, "stacks": _STACKS, "frames": _FRAMES}
# By column, the least number there may be, and what it is a number of.
_CODES = {
    "thread": (0, "quarks"),
    "quark": (0, "quarks"),
    "from_quark": (0, "quarks"),
    "to_quark": (0, "quarks"),
    "name": (-1, "strings"),
    "category": (-1, "strings"),
    "event": (0, "strings"),
    "stack": (-1, ""),
    "cpu": (-1, ""),
}


def _sections(layout: Layout, rows: int) -> list[Section]:
    return [Section(name, dtype, rows) for name, dtype in layout.columns.items()]


def _write(file: BinaryIO, layout: Layout, columns: Columns, text: ArgumentText) -> None:
    """Write a block, or a part of a log, at the position of a file; texts are in order of the rows.

    Nothing in it depends on how the rows came to be there, so that a resumed build writes the same.
    """
    begin = file.tell()
    file.write(bytes(HEADER_BYTES))
    rows = len(next(iter(columns.values())))
    limits = limits_of(layout, columns) if layout.begin else (0, 0, 0)
    texts: Iterator[npt.NDArray[np.uint8]] = iter(())
    if layout.has_texts:
        texts = _texts_in_order(text, columns["offset"], columns["length"])
        length = columns["length"]
        begins = np.cumsum(length, dtype=np.int64) - length
        columns = {**columns, "offset": np.where(length > 0, begins, 0)}
    checksum = 0
    for name, dtype in layout.columns.items():
        data = np.ascontiguousarray(columns[name], dtype).data.cast("B")
        padding = bytes(aligned(len(data)) - len(data))
        checksum = crc32(padding, crc32(data, checksum))
        file.write(data)
        file.write(padding)
    size, text_checksum = 0, 0
    for part in texts:
        size += len(part)
        text_checksum = crc32(part.data, text_checksum)
        file.write(part.data)
    file.write(bytes(aligned(size) - size))
    end = file.tell()
    file.seek(begin)
    file.write(pack_header(_HEADER, _MAGIC, rows, *limits, size, checksum, text_checksum))
    file.seek(end)


def _texts_in_order(
    text: ArgumentText, offset: Int64s, length: Int32s
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the texts of rows in the order of the rows, some at a time."""
    rows = np.flatnonzero(length)
    ends = np.cumsum(length[rows], dtype=np.int64)
    first = 0
    while first < len(rows):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _TEXT_BYTES, side="right")))
        lengths = length[rows[first:last]]
        begins, parts = joined_texts(text, offset[rows[first:last]], lengths)
        if (begins[1:] >= begins[:-1]).all():
            yield from parts
        else:
            yield join_parts(np.concatenate([*parts]), begins, lengths)
        first = last


class _Head(NamedTuple):
    """The header of a block, or of a part of a log."""

    rows: int
    low_ns: int
    high_ns: int
    last_ns: int
    text_bytes: int
    checksum: int
    text_checksum: int

    def size_bytes(self, layout: Layout) -> int:
        """Return the bytes of the header and of all behind it."""
        return self.text_offset(layout) + aligned(self.text_bytes)

    def text_offset(self, layout: Layout) -> int:
        """Return where the texts begin."""
        return HEADER_BYTES + size_of(_sections(layout, self.rows))


def _head_of(data: bytes) -> _Head | None:
    """Return a header; None if it is damaged."""
    packed = data[: _HEADER.size]
    if len(packed) < _HEADER.size or not packed.startswith(_MAGIC):
        return None
    if crc32(packed[:-4]) != int.from_bytes(packed[-4:], "little"):
        return None
    head = _Head(*_HEADER.unpack(packed)[1:-1])
    return head if head.rows > 0 and head.text_bytes >= 0 else None


class StoredBlock:
    """A sealed block in a file, read and checked when it is first used; see `Block`.

    Attributes:
        path: The file.
        identity: A value that changes when the file is replaced.
        limits: What its codes refer to; None does not check what this process wrote.

    Raises:
        InputError: If it is missing or cut, or its header is damaged; and when it is used, if its
            content is damaged or invalid.
    """

    def __init__(self, path: Path, layout: Layout, first: int) -> None:
        self.path = path
        self.layout = layout
        self.limits: Limits | None = None
        self._first = first
        self._held: ContainerFile | None = None
        file = ContainerFile(path)
        self.identity: tuple[int, int, int] = file.identity
        head = _head_of(file.read(0, HEADER_BYTES).tobytes())
        if head is None:
            raise file.error("the header is damaged", 0)
        if file.size_bytes != head.size_bytes(layout):
            wrong = f"is {file.size_bytes} bytes long, not {head.size_bytes(layout)}"
            raise file.error(wrong, min(file.size_bytes, head.size_bytes(layout)))
        self._head = head
        self.rows: int = head.rows
        self.last_ns: int = head.last_ns
        self.low_ns: int = head.low_ns
        self.high_ns: int = head.high_ns
        self.text: ArgumentText | None = (
            ArgumentText(_BlockText(self._file, head.text_offset(layout), head))
            if layout.has_texts
            else None
        )
        self._offsets = offsets_of(_sections(layout, head.rows))
        self._columns: Columns | None = None
        self._index: TimeIndex | None = None

    def hold(self) -> None:
        """Keep the file open, so that it can be read once it was removed."""
        self._held = self._file()

    def _file(self) -> ContainerFile:
        """Return the file; not all can be open, since there may be thousands."""
        if self._held is not None:
            return self._held
        file = ContainerFile(self.path)
        if file.identity != self.identity:
            raise file.error("was replaced")
        return file

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column; all are read with the first."""
        if self._columns is None:
            sections = _sections(self.layout, self.rows)
            file = self._file()
            data = file.read(HEADER_BYTES, size_of(sections))
            if crc32(data.data) != self._head.checksum:
                raise file.error("the rows are damaged", HEADER_BYTES)
            columns = views(data, sections)
            if self.limits is not None:
                fault = _fault(self.layout, columns, self._head, self.limits, self._first)
                if fault is not None:
                    raise file.error(f"is invalid: {fault}", HEADER_BYTES)
            self._columns = columns
        return self._columns[name]

    def part(self, name: str, first: int, last: int) -> npt.NDArray[Any]:
        """Return some rows of a column, which alone are read unless all were."""
        if self._columns is not None or self.limits is not None:
            return self.column(name)[first:last]
        dtype = self.layout.columns[name]
        found = np.empty(last - first, dtype)
        offset = HEADER_BYTES + self._offsets[name] + first * dtype.itemsize
        self._file().read_into(found.view(np.uint8), offset)
        return found

    def index(self) -> TimeIndex:
        """Return what finds the rows of a range."""
        if self._index is None:
            begin, end = self.layout.begin, self.layout.end
            self._index = TimeIndex(self.column(begin), self.column(end))
        return self._index

    def check(self) -> None:
        """Read and check all of it."""
        self.column(self.layout.begin)
        if self.text is not None:
            self.text.read(0, 1)


class _BlockText:
    """The texts of a block, which are read when some of them are used."""

    def __init__(self, file: Callable[[], ContainerFile], offset: int, head: _Head) -> None:
        self._file = file
        self._offset = offset
        self._head = head
        self._bytes: memoryview | None = None

    def __len__(self) -> int:
        return self._head.text_bytes

    def __getitem__(self, part: slice) -> memoryview:
        if self._bytes is None:
            file = self._file()
            data = file.read(self._offset, self._head.text_bytes)
            if crc32(data.data) != self._head.text_checksum:
                raise file.error("the texts are damaged", self._offset)
            self._bytes = data.data
        return self._bytes[part]


def _fault(layout: Layout, columns: Columns, head: _Head, limits: Limits, first: int) -> str | None:
    """Return what is wrong with rows of which the first has a number; None if nothing is."""
    return (
        _fault_of_times(layout, columns, head)
        or _fault_of_codes(layout, columns, limits)
        or _fault_of_arguments(columns, head.text_bytes)
        or _fault_of_numbers(columns, first)
    )


def _fault_of_times(layout: Layout, columns: Columns, head: _Head) -> str | None:
    begin_ns, end_ns = columns[layout.begin], columns[layout.end]
    low_ns, high_ns, last_ns = limits_of(layout, columns)
    if not (fits(begin_ns) and fits(end_ns)) or high_ns - low_ns >= AFTER_ALL:
        return "a time does not fit"
    if (low_ns, high_ns, last_ns) != (head.low_ns, head.high_ns, head.last_ns):
        return "its times are not those in its header"
    backwards = layout.table == "spans" and (end_ns < begin_ns).any()
    return "a span ends before it starts" if backwards else None


def _fault_of_codes(layout: Layout, columns: Columns, limits: Limits) -> str | None:
    sizes = {"quarks": len(limits.kinds), "strings": limits.strings, "": 2**31}
    for name, (least, of) in _CODES.items():
        if name in columns:
            low, high = int(columns[name].min()), int(columns[name].max())
            # only the thread of a sample can be without a name
            if low < (0 if name == "name" and layout.table != "samples" else least):
                return f"{name}: {low} is a code of nothing"
            if high >= sizes[of]:
                return f"{name}: {high} is not one of {sizes[of]:,}"
    return None


def _fault_of_arguments(columns: Columns, text_bytes: int) -> str | None:
    if "offset" not in columns:
        return None
    offset, length = columns["offset"], columns["length"]
    inside = (
        0 <= int(offset.min()) <= int(offset.max()) <= text_bytes
        and int(length.min()) >= 0
        and int((offset + length).max()) <= text_bytes
    )
    return None if inside else "arguments are not in its texts"


def _fault_of_numbers(columns: Columns, first: int) -> str | None:
    if "number" not in columns:
        return None
    number = columns["number"].astype(np.int64) - first
    seen = np.zeros(len(number), np.bool_)
    if int(number.min()) < 0 or int(number.max()) >= len(number):
        return "the number of a span is not one of these"
    seen[number] = True
    return None if seen.all() else "two spans have one number"


def _path(folder: Path, table: str, number: int, kind: str) -> Path:
    return folder / f"{table}-{number:06d}.{kind}"


@dataclass(slots=True)
class _Sink:
    """Stores the blocks of a table; see `BlockSink`."""

    files: EventFiles
    table: str

    def keep(self, block: MemoryBlock, number: int, text: ArgumentText) -> StoredBlock:
        """Store the block of this number, and return the one to be used instead."""
        return self.files.keep(self.table, block, number, text)


@dataclass(slots=True)
class EventFiles:
    """Writes the event tables of a history that is being built.

    Attributes:
        folder: The directory.
        store: The tables.
        replacing: Opens a file that gets its name once it was written.
        sizes: By table, how many blocks its log comes after, and how much of the log counts.
        counts: How many stacks and frames are in their logs.
    """

    folder: Path
    store: EventStore
    replacing: Callable[[Path], AbstractContextManager[BinaryIO]]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _written: WeakSet[StoredBlock] = field(default_factory=WeakSet)

    def keep_all(self) -> None:
        """Store blocks from now on."""
        for table, rows in self.store.tables.items():
            rows.sink = _Sink(self, table)

    def keep(self, table: str, block: MemoryBlock, number: int, text: ArgumentText) -> StoredBlock:
        """Write the block of this number, and return it."""
        folder_inside(self.folder)
        path = _path(self.folder, table, number, "rows")
        with self.replacing(path) as file:
            _write(file, block.layout, block.columns, text)
        blocks = self.store.tables[table].blocks
        stored = StoredBlock(path, block.layout, sum(each.rows for each in blocks))
        self._written.add(stored)
        return stored

    def log(self) -> dict[str, list[int]]:
        """Append the rows that are not on disk to the logs; return what a log entry has of them."""
        for table, rows in self.store.tables.items():
            blocks, size = self.sizes.get(table, (0, 0))
            if len(rows.blocks) != blocks:
                blocks, size = len(rows.blocks), 0
            new = rows.unlogged()
            if new or rows.rows:
                columns = joined_columns(rows.layout, new) if new else None
                size = self._append(table, blocks, size, columns, rows.text)
                self.sizes[table] = (blocks, size)
        stacks = self.store.stacks
        known, frames = self.counts.get("stacks", 0), self.counts.get("frames", 0)
        if len(stacks) > known or len(stacks.frames) > frames:
            texts = [frame.encode("utf-8", "surrogatepass") for frame in stacks.frames[frames:]]
            lengths = np.array([len(text) for text in texts], np.int32)
            offsets = np.cumsum(lengths, dtype=np.int64) - lengths
            text = ArgumentText(b"".join(texts))
            for table, columns in (
                ("frames", {"offset": offsets, "length": lengths}),
                ("stacks", {"parent": stacks.parent[known:], "frame": stacks.frame[known:]}),
            ):
                size = self.sizes.get(table, (0, 0))[1]
                self.sizes[table] = (0, self._append(table, 0, size, columns, text))
            self.counts = {"stacks": len(stacks), "frames": len(stacks.frames)}
        return {table: list(size) for table, size in self.sizes.items()}

    def _append(
        self, table: str, blocks: int, size: int, columns: Columns | None, text: ArgumentText
    ) -> int:
        if columns is None or not len(next(iter(columns.values()))):
            return size
        folder_inside(self.folder)
        log = _path(self.folder, table, blocks, "log")
        with open_inside(log, "r+b" if size else "wb") as file:
            # behind what counts there may be what was written when a build was killed
            file.truncate(size)
            file.seek(size)
            _write(file, _LAYOUTS[table], columns, text)
            return file.tell()

    def remove_old_logs(self) -> None:
        """Remove logs whose rows are in blocks; call once an entry says so."""
        for table, (blocks, _) in self.sizes.items():
            if blocks:
                _path(self.folder, table, blocks - 1, "log").unlink(missing_ok=True)

    def logs(self) -> list[Path]:
        """Return the logs that count."""
        return [
            path
            for table, (blocks, _) in self.sizes.items()
            if (path := _path(self.folder, table, blocks, "log")).exists()
        ]

    def remove(self) -> None:
        """Remove all files; the tables of earlier moments can still read theirs."""
        for rows in self.store.tables.values():
            rows.blocks = []
        for block in self._written:
            block.hold()
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink()
            self.folder.rmdir()


def open_files(
    path: Path, store: EventStore, replacing: Callable[[Path], AbstractContextManager[BinaryIO]]
) -> EventFiles:
    """Return the writer of the event tables of the history in a directory."""
    return EventFiles(path / FOLDER, store, replacing)


def load_events(
    path: Path, record: dict[str, Any], limits: Limits, opened: Mapping[Path, StoredBlock]
) -> EventStore:
    """Return the event tables of an unfinished history, as an entry of its log describes them.

    Args:
        path: The directory of the history.
        record: By table, how many blocks it has, and how much of the log behind them counts.
        limits: What codes refer to.
        opened: By path, blocks that were opened earlier.

    Raises:
        InputError: If a file is missing, cut or damaged.
        ValueError: If the record is invalid.
    """
    store = EventStore()
    found: dict[str, list[tuple[Columns, bytes]]] = {}
    for table in record:
        if table not in _LAYOUTS:
            raise ValueError(f"{table!r} is not an event table")
        blocks, size = items_in(record, table, int)
        if min(blocks, size) < 0:
            raise ValueError(f"{table} has {blocks} blocks and {size} bytes")
        layout, folder = _LAYOUTS[table], path / FOLDER
        stored: list[StoredBlock] = []
        rows = 0
        for number in range(blocks):
            block_path = _path(folder, table, number, "rows")
            block = opened.get(block_path)
            if block is None or block.identity != identity_of(block_path.stat()):
                block = StoredBlock(block_path, layout, rows)
                if number < _MOST_OPEN:
                    block.hold()
            block.limits = limits
            rows += block.rows
            stored.append(block)
        parts = list(_parts(_path(folder, table, blocks, "log"), layout, size, limits, rows))
        if table not in LAYOUTS:
            found[table] = parts
            continue
        growing = store.tables[table]
        for columns, text in parts:
            if layout.has_texts:
                columns["offset"] = columns["offset"] + growing.text.add(text)
        store.restore(table, stored, [columns for columns, _ in parts])
    store.stacks = _stacks(path, found)
    return store


def _parts(
    path: Path, layout: Layout, size: int, limits: Limits, rows: int
) -> Iterator[tuple[Columns, bytes]]:
    """Yield the columns and texts of the parts of a log, up to a size."""
    if not size:
        return
    file = ContainerFile(path)
    offset = 0
    while offset < size:
        head = _head_of(file.read(offset, HEADER_BYTES).tobytes())
        if head is None or offset + head.size_bytes(layout) > size:
            raise file.error("is damaged", offset)
        sections = _sections(layout, head.rows)
        data = file.read(offset + HEADER_BYTES, size_of(sections))
        text = file.read(offset + head.text_offset(layout), head.text_bytes)
        if crc32(data.data) != head.checksum or crc32(text.data) != head.text_checksum:
            raise file.error("is damaged", offset)
        columns = views(data, sections)
        if layout.begin:
            fault = _fault(layout, columns, head, limits, rows)
            if fault is not None:
                raise file.error(f"is invalid: {fault}", offset)
        yield columns, text.tobytes()
        rows += head.rows
        offset += head.size_bytes(layout)


def _stacks(path: Path, found: dict[str, list[tuple[Columns, bytes]]]) -> StackTable:
    """Return the stacks in the parts of their logs."""
    frames: list[str] = []
    for columns, text in found.get("frames", ()):
        begins, ends = columns["offset"], columns["offset"] + columns["length"]
        if len(begins) and (int(begins.min()) < 0 or int(ends.max()) > len(text)):
            raise InputError(str(path / FOLDER), "is invalid: a frame is not in its text")
        frames += [
            text[begin:end].decode("utf-8", "replace")
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
    rows = joined_columns(_STACKS, [columns for columns, _ in found.get("stacks", ())])
    parent, frame = rows["parent"], rows["frame"]
    if len(parent) and (
        int(parent.min()) < -1
        or (parent >= np.arange(len(parent))).any()
        or not 0 <= int(frame.min()) <= int(frame.max()) < len(frames)
    ):
        raise InputError(str(path / FOLDER), "is invalid: a stack comes before its caller")
    return StackTable(parent, frame, frames)
