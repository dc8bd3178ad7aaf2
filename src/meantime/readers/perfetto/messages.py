"""The messages of a Perfetto trace that Python reads, field by field.

Encoding: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Field", "fields", "integers", "plausible", "signed", "text_of", "varint"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10
# The wire types of fields that are near the beginning of a trace. Messages of other formats begin
# with the same byte, and have other types.
_PACKET: Final = {
    **dict.fromkeys((3, 8, 10, 13, 41, 42, 58, 79, 87, 98), VARINT),
    **dict.fromkeys((1, 2, 4, 5, 6, 7, 9, 11, 12, 36, 50, 59, 60), BYTES),
}
_INNER: Final = {
    # a bundle of ftrace, a process tree, clocks
    1: {1: VARINT, 2: BYTES, 3: VARINT, 4: BYTES, **dict.fromkeys((5, 6, 7, 9, 10), VARINT)},
    2: {1: BYTES, 2: BYTES, 3: VARINT},
    6: {1: BYTES, 2: VARINT},
}
_PROCESS: Final = {1: VARINT, 2: VARINT, 3: BYTES, **dict.fromkeys((5, 7, 8, 9), VARINT)}
_LAST_PACKET_FIELD = 1000
_ENOUGH_PACKETS = 24

Field = tuple[int, int, int, "bytes | memoryview"]


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raises:
        ValueError: If it does not end.
    """
    value = shift = 0
    for position in range(at, min(at + _MOST_VARINT_BYTES, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position + 1
        shift += 7
    raise ValueError("a number does not end")


def fields(data: bytes | memoryview) -> Iterator[Field]:
    """Yield the fields of a message: number, wire type, integer value, and bytes.

    Raises:
        ValueError: If it is malformed.
    """
    at, size = 0, len(data)
    while at < size:
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        value, content = 0, data[:0]
        if number == 0:
            raise ValueError("a field has the number 0")
        if wire == VARINT:
            value, at = varint(data, at)
        elif wire in {FIXED64, BYTES, FIXED32}:
            length = 8 if wire == FIXED64 else 4
            if wire == BYTES:
                length, at = varint(data, at)
            content = data[at : at + length]
            at += length
            if at > size:
                raise ValueError(f"it ends inside field {number}")
            if wire != BYTES:
                value = int.from_bytes(content, "little")
        else:
            raise ValueError(f"field {number} has the unknown wire type {wire}")
        yield number, wire, value, content


def integers(field: Field) -> Iterator[int]:
    """Yield the numbers of a repeated field, which may be packed."""
    _, wire, value, content = field
    if wire != BYTES:
        yield value
        return
    at = 0
    while at < len(content):
        value, at = varint(content, at)
        yield value


def signed(value: int) -> int:
    """Return a number of 64 bits in two's complement.

    >>> signed(2**64 - 5), signed(7)
    (-5, 7)
    """
    return value - 2**64 if value >= 2**63 else value


def text_of(data: bytes | memoryview) -> str:
    """Return text that may not be UTF-8."""
    return bytes(data).decode("utf-8", "replace")


def plausible(head: bytes) -> bool:
    """Return whether all fields of the first packets have the types that those of a trace have."""
    at = found = packets = 0
    while at < len(head) and packets < _ENOUGH_PACKETS:
        if head[at] != 0x0A:
            return False
        try:
            length, begin = varint(head, at + 1)
        except ValueError:
            break
        packet = head[begin : begin + length]
        is_cut = begin + length > len(head)
        known = _fits(packet, _PACKET, is_cut=is_cut)
        if known is None:
            return False
        found += known
        packets += 1
        at = begin + length
    return found > 0


def _fits(packet: bytes, known: dict[int, int], *, is_cut: bool) -> int | None:
    """Return how many fields are those of a packet; None if one cannot be."""
    found = 0
    try:
        for number, wire, _, content in fields(packet):
            expected = known.get(number)
            if (expected is None and number > _LAST_PACKET_FIELD) or wire != (
                BYTES if expected is None else expected
            ):
                return None
            if number in _INNER and not _has(content, _INNER[number], is_tree=number == 2):
                return None
            found += 1
    except ValueError:
        return found if is_cut else None
    return found


def _has(message: bytes | memoryview, known: dict[int, int], *, is_tree: bool) -> bool:
    """Return whether a message has no field of another wire type than its own."""
    try:
        for number, wire, _, content in fields(message):
            if known.get(number, wire) != wire:
                return False
            if is_tree and number == 1 and not _has(content, _PROCESS, is_tree=False):
                return False
    except ValueError:
        return False
    return True
