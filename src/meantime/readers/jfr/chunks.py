"""Chunks of a Java flight recording: their metadata, constant pools and events.

A chunk describes its types itself. Nothing is known of them beforehand but how integers, strings
and these descriptions are written. Integers are LEB128 with at most 9 bytes, the last of 8 bits, or
big-endian; an event has its size and the number of its type first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from meantime.errors import InputError
from meantime.kernels.varints import integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HEADER_BYTES", "MAGIC", "MALFORMED", "Chunk", "Header", "Type"]

MAGIC = b"FLR\0"
_HEADER = struct.Struct(">4sHHqqqqqqqI")
HEADER_BYTES = _HEADER.size
# What reading of damaged bytes raises.
MALFORMED = (ValueError, IndexError, KeyError, TypeError, struct.error, RecursionError)

_METADATA, _CHECKPOINT = 0, 1
_DEEPEST = 12
# How many values one of a type may have, with those of the types in it.
_MOST_VALUES = 4096
_FIXED = {
    "boolean": ">?", "byte": ">b", "float": ">f", "double": ">d", "char": ">H", "short": ">h",
    "int": ">i", "long": ">q",
}  # fmt: skip
# As they are if integers are compressed.
_NEVER_COMPRESSED = {"boolean", "byte", "float", "double"}
_STRING = "java.lang.String"

Read: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"


class Header(NamedTuple):
    """The header of a chunk, without what is found by reading it."""

    major: int
    minor: int
    size: int
    start_ns: int
    duration_ns: int
    start_ticks: int
    ticks_per_second: int
    is_compressed: bool

    @classmethod
    def of(cls, data: bytes) -> Header:
        """Read a header.

        Raises:
            ValueError: If it is none.
        """
        if len(data) < HEADER_BYTES:
            raise ValueError("it is cut")
        magic, major, minor, size, _, _, start, duration, ticks, frequency, features = (
            _HEADER.unpack_from(data)
        )
        if magic != MAGIC:
            raise ValueError("it is not that of a chunk")
        return cls(major, minor, size, start, duration, ticks, frequency, bool(features & 1))


@dataclass(slots=True)
class Field:
    """A field of a type: its name, the number of its type, and how it is written."""

    name: str
    type: int
    is_pooled: bool
    is_array: bool


@dataclass(slots=True)
class Type:
    """A type: its name, its fields, and how its values are read."""

    number: int
    name: str
    fields: list[Field] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)


class Chunk:
    """A chunk that is in memory.

    Attributes:
        header: Its header.
        types: Its types by number.
        is_cut: Whether it ends inside an event.
        events: Where the events of each type begin.
    """

    def __init__(self, name: str, data: bytes, header: Header, offset: int) -> None:
        self._name = name
        self._data = data
        self._offset = offset
        self.header = header
        self.types: dict[int, Type] = {}
        self.events: dict[int, list[int]] = {}
        self._readers: dict[int, Read] = {}
        self._pools: dict[int, dict[int, Any]] = {}
        self.is_cut = False
        self.bad_pools = 0
        self._strings = -1
        self._integer = _compressed if header.is_compressed else _long
        self._walk()
        for at in self.events.pop(_METADATA, []):
            try:
                self._describe(at)
            except MALFORMED as error:
                raise self.damaged(at, error) from None
        for at in self.events.pop(_CHECKPOINT, []):
            try:
                self._checkpoint(at)
            except MALFORMED as error:
                if not self.is_cut:
                    raise self.damaged(at, error) from None
                self.bad_pools += 1

    def damaged(self, at: int, error: Exception) -> InputError:
        """Return the error for bytes that cannot be read."""
        reason = str(error) if isinstance(error, ValueError) else "it ends too early"
        return InputError(
            self._name,
            f"this event of a Java flight recording is damaged ({reason}); --lenient leaves it out",
            offset=self._offset + at,
        )

    def _walk(self) -> None:
        """Find all events by their sizes."""
        data, at, integer, events = self._data, HEADER_BYTES, self._integer, self.events
        end = len(data)
        while at < end:
            try:
                size, behind = integer(data, at)
                number, _ = integer(data, behind)
            except MALFORMED:
                self.is_cut = True
                return
            # zeros are what a crash leaves behind the last event
            if size <= behind - at or size > end - at:
                self.is_cut = True
                return
            found = events.get(number)
            if found is None:
                found = events[number] = []
            found.append(at)
            at += size

    def _event(self, at: int) -> int:
        """Return where the contents of an event begin."""
        _, at = self._integer(self._data, at)
        _, at = self._integer(self._data, at)
        return at

    # Metadata

    def _describe(self, at: int) -> None:
        """Read a description of types."""
        data, integer = self._data, self._integer
        at = self._event(at)
        for _ in range(3):  # the time, the duration, the number of the description
            _, at = integer(data, at)
        count, at = integer(data, at)
        self._check_count(count, at)
        texts = []
        for _ in range(count):
            text, at = self._text(data, at)
            texts.append(text if isinstance(text, str) else "")
        classes: list[tuple[dict[str, str], list[tuple[str, dict[str, str]]]]] = []
        self._element(at, texts, classes, 0)
        for attributes, children in classes:
            number = int(attributes["id"])
            type_ = Type(number, attributes.get("name", ""))
            for name, own in children:
                if name == "field":
                    type_.index[own["name"]] = len(type_.fields)
                    type_.fields.append(
                        Field(
                            own["name"],
                            int(own["class"]),
                            own.get("constantPool") == "true",
                            int(own.get("dimension", "0")) > 0,
                        )
                    )
            self.types[number] = type_
            if type_.name == _STRING:
                self._strings = number
        self._readers.clear()

    def _element(
        self,
        at: int,
        texts: list[str],
        classes: list[tuple[dict[str, str], list[tuple[str, dict[str, str]]]]],
        depth: int,
    ) -> tuple[str, dict[str, str], int]:
        """Read an element and those in it; add the classes among them."""
        data, integer = self._data, self._integer
        if depth > _DEEPEST:
            raise ValueError("its descriptions are nested too deep")
        name, at = integer(data, at)
        count, at = integer(data, at)
        self._check_count(count, at)
        attributes = {}
        for _ in range(count):
            key, at = integer(data, at)
            value, at = integer(data, at)
            attributes[texts[key]] = texts[value]
        count, at = integer(data, at)
        self._check_count(count, at)
        children = []
        for _ in range(count):
            child, own, at = self._element(at, texts, classes, depth + 1)
            children.append((child, own))
        if texts[name] == "class":
            classes.append((attributes, children))
        return texts[name], attributes, at

    def _check_count(self, count: int, at: int) -> None:
        # what is counted takes a byte each at least
        if not 0 <= count <= len(self._data) - at:
            raise ValueError("a count is larger than what follows")

    # Values

    def _reader(self, number: int, path: tuple[int, ...] = ()) -> Read:
        """Return how the values of a type are read."""
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = self._made(number, path)
        return reader

    def _made(self, number: int, path: tuple[int, ...]) -> Read:
        type_ = self.types[number]
        if type_.name in _FIXED:
            if self.header.is_compressed and type_.name not in _NEVER_COMPRESSED:
                return _compressed
            return _fixed(struct.Struct(_FIXED[type_.name]))
        if type_.name == _STRING:
            return self._text
        if number in path or len(path) > _DEEPEST:
            raise ValueError("a type contains itself")
        if self._values(number) > _MOST_VALUES:
            raise ValueError("a type has too many values")
        below = (*path, number)
        readers = [
            self._array(self._one(each, below)) if each.is_array else self._one(each, below)
            for each in type_.fields
        ]
        if all(reader is _compressed for reader in readers):
            return _Integers(len(readers))

        def read(data: bytes, at: int) -> tuple[Any, int]:
            values = []
            for reader in readers:
                value, at = reader(data, at)
                values.append(value)
            return values, at

        return read

    def _values(self, number: int, depth: int = 0) -> int:
        """Return how many values one of a type has, up to those that are too many."""
        if depth > _DEEPEST:
            return _MOST_VALUES + 1
        count = 1
        for each in self.types[number].fields:
            count += 1 if each.is_pooled else self._values(each.type, depth + 1)
            if count > _MOST_VALUES:
                break
        return count

    def _one(self, of: Field, path: tuple[int, ...]) -> Read:
        return self._integer if of.is_pooled else self._reader(of.type, path)

    def _array(self, one: Read) -> Read:
        integer = self._integer
        if isinstance(one, _Integers) and one.width:
            width = one.width

            def read_integers(data: bytes, at: int) -> tuple[Any, int]:
                count, at = integer(data, at)
                found, at = integers(data, at, count * width)
                return [found[row : row + width] for row in range(0, len(found), width)], at

            return read_integers

        def read(data: bytes, at: int) -> tuple[Any, int]:
            count, at = integer(data, at)
            if not 0 <= count <= len(data) - at:
                raise ValueError("a count is larger than what follows")
            values = []
            first = at
            for _ in range(count):
                value, at = one(data, at)
                if at == first:
                    # any number of them would fit
                    raise ValueError("an array has values without bytes")
                values.append(value)
            return values, at

        return read

    def _text(self, data: bytes, at: int) -> tuple[Any, int]:
        """Read a string; one of the pool of strings is returned as its number."""
        how = data[at]
        at += 1
        if how in {0, 1}:
            return (None if how == 0 else ""), at
        count, at = self._integer(data, at)
        if how == 2:
            return count, at
        if not 0 <= count <= len(data) - at or how > 5:
            raise ValueError("a string is longer than what follows")
        if how == 4:
            letters = []
            for _ in range(count):
                letter, at = self._integer(data, at)
                letters.append(chr(letter & 0xFFFF))
            return "".join(letters).encode("utf-16", "surrogatepass").decode(
                "utf-16", "replace"
            ), at
        encoding = "utf-8" if how == 3 else "latin-1"
        return data[at : at + count].decode(encoding, "replace"), at + count

    # Constants

    def _checkpoint(self, at: int) -> None:
        """Add the constants of a checkpoint to the pools."""
        data, integer = self._data, self._integer
        at = self._event(at)
        for _ in range(3):  # the time, the duration, where the checkpoint before is
            _, at = integer(data, at)
        at += 1  # what kind of checkpoint it is
        pools, at = integer(data, at)
        self._check_count(pools, at)
        for _ in range(pools):
            number, at = integer(data, at)
            count, at = integer(data, at)
            self._check_count(count, at)
            pool = self._pools.setdefault(number, {})
            reader = self._reader(number) if count else None
            for _ in range(count):
                assert reader is not None
                key, at = integer(data, at)
                pool[key], at = reader(data, at)

    def constant(self, number: int, key: int) -> Any:
        """Return a constant, the list of its fields; None if there is none."""
        pool = self._pools.get(number)
        return None if pool is None else pool.get(key)

    def text(self, value: Any) -> str:
        """Return a string that may be in the pool of strings."""
        if isinstance(value, int):
            value = self.constant(self._strings, value)
        return value if isinstance(value, str) else ""

    # Events

    def rows(self, number: int) -> Iterator[tuple[int, list[Any] | None]]:
        """Yield where each event of a type begins, and its fields; None for what cannot be read."""
        reader = self._reader(number)
        data = self._data
        for at in self.events[number]:
            try:
                values, _ = reader(data, self._event(at))
            except MALFORMED:
                yield at, None
            else:
                yield at, values

    def time_ns(self, ticks: int) -> int:
        """Return the time since 1970 of a time in ticks."""
        since = ticks - self.header.start_ticks
        return self.header.start_ns + since * 1_000_000_000 // self.header.ticks_per_second

    def length_ns(self, ticks: int) -> int:
        """Return a duration."""
        return ticks * 1_000_000_000 // self.header.ticks_per_second


def _compressed(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of up to 9 bytes."""
    value = data[at]
    if value < 128:
        return value, at + 1
    value &= 127
    shift = 7
    while shift < 56:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
        shift += 7
    value |= data[at + 1] << 56
    return (value - (1 << 64) if value >> 63 else value), at + 2


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of 8 bytes."""
    if at + 8 > len(data):
        raise ValueError("it is cut")
    return int.from_bytes(data[at : at + 8], "big", signed=True), at + 8


class _Integers:
    """Reads the values of a type that has nothing but integers."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, data: bytes, at: int) -> tuple[Any, int]:
        return integers(data, at, self.width)


def _fixed(form: struct.Struct) -> Read:
    size = form.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return form.unpack_from(data, at)[0], at + size

    return read
