"""The fields of protobuf messages, for formats that are written in it."""

from __future__ import annotations

import struct

__all__ = ["double", "fixed64", "message", "number", "varint"]

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DOUBLE, _UINT64 = struct.Struct("<d"), struct.Struct("<Q")
_BYTE = [bytes([value]) for value in range(128)]


def message(field: int, content: bytes) -> bytes:
    """Return a field that is a message or a text."""
    size = len(content)
    if field < 16 and size < 128:
        return _BYTE[field << 3 | _BYTES] + _BYTE[size] + content
    return varint(field << 3 | _BYTES) + varint(size) + content


def number(field: int, value: int) -> bytes:
    """Return a field that is an integer of 64 bits; negative ones are its complement."""
    return varint(field << 3 | _VARINT) + varint(value % 2**64)


def double(field: int, value: float) -> bytes:
    """Return a field that is a double."""
    return varint(field << 3 | _FIXED64) + _DOUBLE.pack(value)


def fixed64(field: int, value: int) -> bytes:
    """Return a field that is an integer of 8 bytes."""
    return varint(field << 3 | _FIXED64) + _UINT64.pack(value)


def varint(value: int) -> bytes:
    r"""Return an integer as it is encoded.

    >>> varint(300)
    b'\xac\x02'
    """
    if value < 128:
        return _BYTE[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
