"""The functions of addresses, from the files of code that this machine has.

A trace names its files by path, so whoever made it could name any file of the reader. A file is
read only if it is a regular file that has the recorded build id, or on the host that was recorded
the recorded inode: then it is the same file, and its names disclose nothing. The kernel's list of
its own functions counts only if the kernel that runs has the recorded build id, or on that host the
recorded release, and one of its functions is at the recorded address, as it is in one boot only.
Lists of functions that a program compiled count only if they are of this user and of this host.
Wherever that is not so, an address is named by its file alone, as perf does.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int64s

__all__ = ["Functions", "functions_of_elf", "functions_of_kernel", "functions_of_map"]

_MOST_ELF_BYTES: Final = 1 << 31
_MOST_TABLE_BYTES: Final = 1 << 29
_MOST_LIST_BYTES: Final = 1 << 28
_MOST_HEADERS: Final = 1 << 14
_MOST_NOTE_BYTES: Final = 1 << 16
_DEBUG = Path("/usr/lib/debug/.build-id")
_LISTS = "/tmp"  # noqa: S108 - this is where runtimes write them
_NOTES, _KALLSYMS = Path("/sys/kernel/notes"), Path("/proc/kallsyms")
_BUILD_ID_NOTE = 3
_LOAD, _NOTE = 1, 4
_SYMTAB, _DYNSYM = 2, 11
_FUNCTION, _UNTYPED, _INDIRECT = 2, 0, 10
_WEAK, _GLOBAL, _LABEL = 2, 1, 99
# From this number on they stand for something other than sections.
_RESERVED = 0xFF00
_KERNEL_END = 1 << 12
_TEXT_OF_KERNEL = set("tTwW")


class Functions(NamedTuple):
    """Functions in order of their addresses, which do not overlap.

    Attributes:
        start: uint64, where each begins.
        end: uint64, where it ends.
        names: Their names.
    """

    start: npt.NDArray[np.uint64]
    end: npt.NDArray[np.uint64]
    names: list[bytes]

    def at(self, address: npt.NDArray[np.uint64]) -> Int64s:
        """Return the index of the function at each address; -1 is none."""
        row = np.searchsorted(self.start, address, side="right") - 1
        inside = (row >= 0) & (address < self.end[row]) if len(self.start) else row > 0
        return np.where(inside, row, -1)


class _Elf:
    """An ELF file: its segments and sections, as far as they can be read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        head = self.part(0, 64)
        if head[:4] != b"\x7fELF" or head[4] not in {1, 2} or head[5] not in {1, 2}:
            raise ValueError
        self.wide = head[4] == 2
        self.order = "<" if head[5] == 1 else ">"
        at = 32 if self.wide else 28
        self._program, self._section = (
            int(np.frombuffer(head, f"{self.order}u{self._word}", 1, at + each * self._word)[0])
            for each in range(2)
        )
        at = 54 if self.wide else 42
        sizes = np.frombuffer(head, f"{self.order}u2", 4, at).tolist()
        self._program_bytes, self._programs, self._section_bytes, self._sections = sizes

    @property
    def _word(self) -> int:
        return 8 if self.wide else 4

    def part(self, offset: int, size: int) -> bytes:
        """Return bytes of the file.

        Raises:
            ValueError: If it is too short.
        """
        if size < 0 or offset < 0 or size > _MOST_TABLE_BYTES or offset + size > self.size:
            raise ValueError
        data = os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise ValueError
        return data

    def _table(
        self, place: int, count: int, each: int, fields: list[tuple[str, str, int]]
    ) -> list[tuple[int, ...]]:
        kind = np.dtype(
            {
                "names": [name for name, _, _ in fields],
                "formats": [self.order + form for _, form, _ in fields],
                "offsets": [offset for _, _, offset in fields],
                "itemsize": each,
            }
        )
        if count > _MOST_HEADERS:
            raise ValueError
        return [tuple(row) for row in np.frombuffer(self.part(place, count * each), kind).tolist()]

    def segments(self) -> list[tuple[int, ...]]:
        """Return the kind, offset, address and size in the file of each segment."""
        fields = [("kind", "u4", 0), ("offset", "u8", 8), ("address", "u8", 16), ("size", "u8", 32)]
        if not self.wide:
            fields = [
                ("kind", "u4", 0),
                ("offset", "u4", 4),
                ("address", "u4", 8),
                ("size", "u4", 16),
            ]
        if self._program_bytes < (56 if self.wide else 32):
            return []
        return self._table(self._program, self._programs, self._program_bytes, fields)

    def sections(self) -> list[tuple[int, ...]]:
        """Return the kind, address, offset, size and linked section of each section."""
        fields = [
            *(("kind", "u4", 4), ("address", "u8", 16), ("offset", "u8", 24)),
            *(("size", "u8", 32), ("link", "u4", 40)),
        ]
        if not self.wide:
            fields = [
                *(("kind", "u4", 4), ("address", "u4", 12), ("offset", "u4", 16)),
                *(("size", "u4", 20), ("link", "u4", 24)),
            ]
        if self._section_bytes < (64 if self.wide else 40):
            return []
        return self._table(self._section, self._sections, self._section_bytes, fields)

    def build_id(self) -> bytes:
        """Return its build id; nothing if it has none."""
        for kind, offset, _, size in self.segments():
            if kind != _NOTE or size > _MOST_NOTE_BYTES:
                continue
            if found := _build_id_of(self.part(offset, size), self.order):
                return found
        return b""

    def functions(self, segments: list[tuple[int, ...]]) -> Functions | None:
        """Return the functions by their place in the file that has these segments."""
        sections = self.sections()
        for wanted in (_SYMTAB, _DYNSYM):
            for kind, _, offset, size, link in sections:
                if kind == wanted and link < len(sections) and size:
                    names = self.part(sections[link][2], sections[link][3])
                    return self._symbols(self.part(offset, size), names, segments)
        return None

    def _symbols(self, table: bytes, names: bytes, segments: list[tuple[int, ...]]) -> Functions:
        layout = [
            ("name", "u4", 0),
            ("info", "u1", 4),
            ("place", "u2", 6),
            ("value", "u8", 8),
            ("size", "u8", 16),
        ]
        each = 24
        if not self.wide:
            each = 16
            layout = [
                ("name", "u4", 0),
                ("info", "u1", 12),
                ("place", "u2", 14),
                ("value", "u4", 4),
                ("size", "u4", 8),
            ]
        kind = np.dtype(
            {
                "names": [name for name, _, _ in layout],
                "formats": [self.order + form for _, form, _ in layout],
                "offsets": [offset for _, _, offset in layout],
                "itemsize": each,
            }
        )
        rows = np.frombuffer(table, kind, len(table) // each)
        own = rows["info"] & 15
        kept = np.flatnonzero(
            np.isin(own, [_UNTYPED, _FUNCTION, _INDIRECT])
            & (rows["place"] != 0)
            & (rows["place"] < _RESERVED)
            & (rows["name"] != 0)
            & (rows["name"] < len(names))
        )
        rows = rows[kept]
        address = rows["value"].astype(np.uint64)
        start = np.zeros(len(rows), np.uint64)
        placed = np.zeros(len(rows), np.bool_)
        for segment, offset, begin, size in segments:
            if segment != _LOAD:
                continue
            inside = (address >= begin) & (address - np.uint64(begin) < size)
            start[inside] = address[inside] - np.uint64(begin) + np.uint64(offset)
            placed |= inside
        rows, start, kept = rows[placed], start[placed], kept[placed]
        return _chosen(
            start,
            rows["size"].astype(np.uint64),
            # a function is preferred to a label
            np.where(own[kept] == _UNTYPED, _LABEL, rows["info"] >> 4),
            rows["name"].astype(np.int64),
            names,
        )


def _chosen(
    start: npt.NDArray[np.uint64],
    size: npt.NDArray[np.uint64],
    binding: npt.NDArray[np.uint8],
    place: Int64s,
    names: bytes,
) -> Functions:
    """Return functions of which one stands for each address: that which perf prefers."""
    ends = np.flatnonzero(np.frombuffer(names, np.uint8) == 0)
    behind = np.searchsorted(ends, place)
    stop = np.append(ends, len(names))[behind]
    characters = np.append(np.frombuffer(names, np.uint8), np.zeros(8, np.uint8))
    underscores = np.zeros(len(place), np.int64)
    leading = np.ones(len(place), np.bool_)
    for step in range(4):
        leading &= characters[np.minimum(place + step, len(characters) - 1)] == ord("_")
        underscores += leading
    # with a size, no label, not weak, global, few underscores, a long name
    order = np.lexsort(
        (
            *(place - stop, underscores, binding != _GLOBAL, binding == _WEAK),
            *(binding == _LABEL, size == 0, start),
        )
    )
    start, size = start[order], size[order]
    first = np.append(True, start[1:] != start[:-1]) if len(start) else np.zeros(0, np.bool_)
    start, size, order = start[first], size[first], order[first]
    follows = np.append(start[1:], start[-1:] + np.uint64(_KERNEL_END))
    # one without a size lasts until the next one, and none is longer
    end = np.where(size == 0, follows, np.minimum(start + size, follows))
    chosen = [
        names[begin:after]
        for begin, after in zip(place[order].tolist(), stop[order].tolist(), strict=True)
    ]
    return Functions(start, end, chosen)


def _build_id_of(notes: bytes, order: str) -> bytes:
    """Return the build id among notes; nothing if there is none."""
    at = 0
    while at + 12 <= len(notes):
        name_bytes, size, kind = np.frombuffer(notes, f"{order}u4", 3, at).tolist()
        name = at + 12
        content = name + (name_bytes + 3 & ~3)
        if kind == _BUILD_ID_NOTE and notes[name : name + name_bytes] == b"GNU\0":
            return notes[content : content + size]
        at = content + (size + 3 & ~3)
    return b""


def _opened(path: Path, most: int) -> int | None:
    """Return a descriptor of a regular file that is not larger than that; None if it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return descriptor
    os.close(descriptor)
    return None


def _has_inode(descriptor: int, inode: tuple[int, int, int]) -> bool:
    status = os.fstat(descriptor)
    return (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino) == inode


def functions_of_elf(path: str, build_id: bytes, inode: tuple[int, int, int]) -> Functions | None:
    """Return the functions of a file by their place in it; None if it is not the one recorded.

    Args:
        path: Its path when it was recorded.
        build_id: Its build id; nothing if that was not recorded.
        inode: Else the major and minor number of its device and its inode; 0 is unknown.
    """
    if not (build_id or inode[2]) or (descriptor := _opened(Path(path), _MOST_ELF_BYTES)) is None:
        return None
    try:
        elf = _Elf(descriptor)
        own = elf.build_id()
        if own[: len(build_id)] != build_id or not (build_id or _has_inode(descriptor, inode)):
            return None
        segments = elf.segments()
        number = own.hex()
        debug = _opened(_DEBUG / number[:2] / f"{number[2:]}.debug", _MOST_ELF_BYTES)
        if debug is not None:
            try:
                if (found := _Elf(debug).functions(segments)) is not None:
                    return found
            except (OSError, ValueError):
                pass
            finally:
                os.close(debug)
        return elf.functions(segments)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def functions_of_kernel(
    build_id: bytes, release: str | None, symbol: bytes, address: int
) -> Functions | None:
    """Return the functions of the kernel that runs, if it is the one recorded, in the same boot.

    Where addresses are hidden from this user there are none.

    Args:
        build_id: The build id that was recorded; nothing if it was not.
        release: Else the release of the kernel that was recorded on this host.
        symbol: A function of the kernel, the address of which is another one after each boot.
        address: The address that was recorded.
    """
    try:
        if build_id:
            is_same = _build_id_of(_NOTES.read_bytes(), "<")[: len(build_id)] == build_id
        else:
            is_same = release == os.uname().release
        if not is_same:
            return None
        text = _KALLSYMS.read_bytes()
    except OSError:
        return None
    lines = [line.split(None, 3) for line in text.splitlines()]
    rows = [
        (int(line[0], 16), 0, line[2])
        for line in lines
        if len(line) > 2 and line[1].decode("latin-1") in _TEXT_OF_KERNEL
    ]
    return _listed(rows) if (address, 0, symbol) in rows else None


def functions_of_map(pid: int) -> Functions | None:
    """Return the functions that a process wrote to `/tmp/perf-PID.map`; None if it is not ours."""
    path = Path(_LISTS, f"perf-{pid}.map")
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        status = os.fstat(descriptor)
        if (
            not stat.S_ISREG(status.st_mode)
            or status.st_uid != os.geteuid()
            or status.st_size > _MOST_LIST_BYTES
        ):
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            text = file.read(_MOST_LIST_BYTES)
    except (OSError, AttributeError):
        return None
    finally:
        if descriptor is not None:
            os.close(descriptor)
    rows = re.findall(rb"^([0-9a-f]{1,16}) +([0-9a-f]{1,16}) +([^\n]{1,4000})$", text, re.MULTILINE)
    return _listed([(int(begin, 16), int(size, 16), name) for begin, size, name in rows])


def _listed(rows: list[tuple[int, int, bytes]]) -> Functions | None:
    rows = [row for row in rows if 0 < row[0] < 1 << 64 and row[0] + row[1] < 1 << 64]
    if not rows:
        return None
    start = np.array([row[0] for row in rows], np.uint64)
    size = np.array([row[1] for row in rows], np.uint64)
    length = np.array([len(row[2]) + 1 for row in rows], np.int64)
    names = b"".join(row[2] + b"\0" for row in rows)
    binding = np.full(len(rows), _GLOBAL, np.uint8)
    return _chosen(start, size, binding, np.cumsum(length) - length, names)
