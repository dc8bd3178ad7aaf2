"""Addresses of symbols in another process, from the tables that its dynamic linker uses.

They are read from memory, so that it makes no difference whether the files are still there, or are
those of a container.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from meantime.inspection.memory import TornReadError

if TYPE_CHECKING:
    from meantime.inspection.memory import ProcessMemory

__all__ = ["symbol_addresses"]

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, the lowest byte first
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _LOAD = 2, 1
_TABLE_HASH, _TABLE_STRINGS, _TABLE_SYMBOLS, _TABLE_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_POSITION_DEPENDENT = 2
_MOST_PROGRAM_HEADERS, _MOST_DYNAMIC, _MOST_SYMBOLS = 64, 256, 1 << 20


def symbol_addresses(memory: ProcessMemory, start: int, names: list[str]) -> dict[str, int]:
    """Return the addresses of symbols that a program or library exports; those that it has.

    Args:
        memory: The process.
        start: Where the file begins in memory.
        names: The symbols.

    Raises:
        TornReadError: If it is not a file of 64-bit code, or damaged.
    """
    base, tables = _tables(memory, start)
    if _TABLE_SYMBOLS not in tables or _TABLE_STRINGS not in tables:
        return {}
    # glibc stores addresses here, musl keeps what is in the file
    symbols, strings = (
        tables[kind] + (base if tables[kind] < base else 0)
        for kind in (_TABLE_SYMBOLS, _TABLE_STRINGS)
    )
    found = {}
    for name in names:
        for index in _candidates(memory, tables, base, name):
            at, _, _, section, value, _ = _SYMBOL.unpack(
                memory.read(symbols + _SYMBOL.size * index, _SYMBOL.size)
            )
            if section and memory.string(strings + at) == name:
                found[name] = base + value
                break
    return found


def _tables(memory: ProcessMemory, start: int) -> tuple[int, dict[int, int]]:
    """Return what is added to addresses in the file, and the tables of its dynamic section."""
    header = memory.read(start, _HEADER.size)
    if not header.startswith(_MAGIC):
        raise TornReadError
    kind, _, _, _, offset, _, _, _, size, count, *_ = _HEADER.unpack(header)
    if size != _PROGRAM.size or not 0 < count <= _MOST_PROGRAM_HEADERS:
        raise TornReadError
    headers = [
        _PROGRAM.unpack(memory.read(start + offset + size * index, size)) for index in range(count)
    ]
    loaded = [address for kind_, _, at, address, *_ in headers if kind_ == _LOAD and at == 0]
    base = 0 if kind == _POSITION_DEPENDENT else start - (loaded[0] if loaded else 0)
    tables: dict[int, int] = {}
    for kind_, _, _, address, *_ in headers:
        if kind_ != _DYNAMIC:
            continue
        for index in range(_MOST_DYNAMIC):
            tag, value = memory.words(base + address + 16 * index, 2)
            if tag == 0:
                break
            tables[tag] = value
    return base, tables


def _candidates(memory: ProcessMemory, tables: dict[int, int], base: int, name: str) -> list[int]:
    """Return the indexes of symbols that may have a name, by the hash table of the file."""
    if _TABLE_GNU_HASH in tables:
        address = tables[_TABLE_GNU_HASH]
        return _by_gnu_hash(memory, address + (base if address < base else 0), name)
    if _TABLE_HASH in tables:
        address = tables[_TABLE_HASH]
        _, count = struct.unpack("<2I", memory.read(address + (base if address < base else 0), 8))
        return list(range(min(count, _MOST_SYMBOLS)))
    return []


def _by_gnu_hash(memory: ProcessMemory, address: int, name: str) -> list[int]:
    buckets, first, filters, _ = struct.unpack("<4I", memory.read(address, 16))
    if not buckets:
        return []
    wanted = 5381
    for byte in name.encode():
        wanted = (wanted * 33 + byte) & 0xFFFFFFFF
    bucket_at = address + 16 + 8 * filters
    chains_at = bucket_at + 4 * buckets
    index = memory.signed(bucket_at + 4 * (wanted % buckets), 4)
    found: list[int] = []
    while first <= index < _MOST_SYMBOLS:
        hashed = memory.signed(chains_at + 4 * (index - first), 4) & 0xFFFFFFFF
        if hashed | 1 == wanted | 1:
            found.append(index)
        if hashed & 1:
            break
        index += 1
    return found
