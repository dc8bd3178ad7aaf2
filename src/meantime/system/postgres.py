"""Finds a PostgreSQL server, and where its processes say what they wait for."""

from __future__ import annotations

import json
import struct
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from meantime.errors import MeantimeError, UsageError

__all__ = ["Server", "class_name", "event_names", "find_server", "symbol_value"]

_PROC = Path("/proc")
_NAMES = {"postgres", "postmaster"}
_SYMBOL = b"my_wait_event_info"
# The classes of events by the upper byte of their numbers.
_CLASSES = {
    1: "LWLock",
    3: "Lock",
    4: "BufferPin",
    5: "Activity",
    6: "Client",
    7: "Extension",
    8: "IPC",
    9: "Timeout",
    10: "IO",
    11: "InjectionPoint",
}
_SECTION_DYNSYM = 11
_LARGEST_TABLE = 64 << 20


class Server(NamedTuple):
    """A PostgreSQL server that runs.

    Attributes:
        pid: Its first process, the parent of the others.
        address: Where the pointer to a process's wait event is, in each of its processes.
        version: Its major version, such as `15`; empty if it is not known.
    """

    pid: int
    address: int
    version: str


def find_server(pid: int | None) -> Server:
    """Return the server with a first process, or the only one that runs.

    Raises:
        MeantimeError: If there is none, or its events cannot be found.
        UsageError: If there are several and none was chosen, or the process is of another program.
    """
    found = {each: _parent(each) for each in _processes() if _name(each) in _NAMES}
    first = sorted(each for each, parent in found.items() if parent not in found)
    if pid is None:
        if not first:
            raise MeantimeError("no PostgreSQL server runs here: no process is called postgres")
        if len(first) > 1:
            raise UsageError(
                f"{len(first)} PostgreSQL servers run here: choose one with --pid"
                f" {' or '.join(map(str, first))}"
            )
        pid = first[0]
    elif pid not in found:
        raise UsageError(f"process {pid} is not of a PostgreSQL server")
    elif pid not in first:
        raise UsageError(f"process {pid} is not the first of its server: use --pid {found[pid]}")
    return Server(pid, _address(pid), _version(pid))


def event_names(version: str) -> dict[int, str]:
    """Return the names of events, `CLASS:EVENT`, by number; empty for an unknown version."""
    tables = json.loads(files("meantime.system").joinpath("postgres_events.json").read_text())
    return {
        (int(code) << 24) + number: f"{_CLASSES[int(code)]}:{name}"
        for code, names in tables.get(version, {}).items()
        for number, name in enumerate(names)
        if name is not None
    }


def class_name(number: int) -> str:
    """Return what an event is called whose name is not known.

    >>> class_name((10 << 24) + 70), class_name(0)
    ('IO:70', 'none')
    """
    called = _CLASSES.get(number >> 24)
    return "none" if not number else f"{called or number >> 24}:{number & 0xFFFFFF}"


def symbol_value(program: Path, symbol: bytes) -> tuple[int, bool] | None:
    """Return the address of a symbol in a 64-bit program, and whether it is relative to its base.

    None if the program does not export it.

    Raises:
        ValueError: If it is not such a program.
    """
    with program.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:5] != b"\x7fELF\x02":
            raise ValueError("it is not a 64-bit program")
        order = "<" if head[5] == 1 else ">"
        kind = struct.unpack_from(order + "H", head, 16)[0]
        (sections_at,) = struct.unpack_from(order + "Q", head, 40)
        size, count = struct.unpack_from(order + "HH", head, 58)
        if size != 64:
            raise ValueError("its section headers are damaged")
        file.seek(sections_at)
        rows = file.read(size * count)
        sections = [
            struct.unpack_from(order + "IIQQQQIIQQ", rows, at)
            for at in range(0, len(rows) - size + 1, size)
        ]

        def content(section: tuple[int, ...]) -> bytes:
            if section[5] > _LARGEST_TABLE:
                raise ValueError("its symbol table is too large")
            file.seek(section[4])
            return file.read(section[5])

        for section in sections:
            if section[1] != _SECTION_DYNSYM or section[6] >= len(sections):
                continue
            names = content(sections[section[6]])
            symbols = content(section)
            for at in range(0, len(symbols) - 23, 24):
                name, _, _, index, value, _ = struct.unpack_from(order + "IBBHQQ", symbols, at)
                if index and names[name : name + len(symbol) + 1] == symbol + b"\0":
                    return value, kind == 3
    return None


def _address(pid: int) -> int:
    program = _PROC / str(pid) / "exe"
    try:
        found = symbol_value(program, _SYMBOL)
        maps = (_PROC / str(pid) / "maps").read_text()
        inode = program.stat().st_ino
    except (OSError, ValueError, OverflowError) as error:
        raise MeantimeError(f"the program of process {pid} cannot be read: {error}") from error
    if found is None:
        raise MeantimeError(
            f"the program of process {pid} has no symbol {_SYMBOL.decode()}: PostgreSQL 14 or later"
            " is needed"
        )
    value, is_relative = found
    # START-END MODE OFFSET DEVICE INODE PATH
    rows = [line.split(maxsplit=5) for line in maps.splitlines()]
    bases = [int(row[0].split("-")[0], 16) for row in rows if int(row[4]) == inode]
    if not bases:
        raise MeantimeError(
            f"the program of process {pid} is not mapped: it may have been replaced"
        )
    return value + (min(bases) if is_relative else 0)


def _version(pid: int) -> str:
    try:
        # the working directory of a server is its data directory
        return (_PROC / str(pid) / "cwd" / "PG_VERSION").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _processes() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[1])
