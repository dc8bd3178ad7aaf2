"""Python objects in another process."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from meantime.inspection.memory import TornReadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meantime.inspection.layout import Layout
    from meantime.inspection.memory import ProcessMemory

__all__ = ["CodeLine", "Objects"]

_MAX_TEXT, _MAX_LINES = 1000, 1 << 20
_MAX_ENTRIES = 1 << 20
_MANAGED_DICT, _INLINE_VALUES = 1 << 4, 1 << 2
_GENERAL_KEYS, _SPLIT_KEYS = 0, 2
_TAG, _TAGGED_INTEGER = 3, 3  # of what a frame refers to, since 3.14
# kinds of entries in a table of lines, by Objects/locations.md of CPython
_ONE_LINE_FORMS, _NO_COLUMNS, _LONG, _NO_LOCATION = range(10, 13), 13, 14, 15


class CodeLine(NamedTuple):
    """A line of a function.

    Attributes:
        function: Its qualified name.
        file: The path of its file, as the code has it.
        line: The number of the line.
    """

    function: str
    file: str
    line: int

    @property
    def text(self) -> str:
        """The function and the line, as `read (app.py:12)`."""
        return f"{self.function} ({self.file.rpartition('/')[2]}:{self.line})"


class _Code(NamedTuple):
    function: str
    file: str
    first_line: int
    lines: bytes
    variables: int


class Objects:
    """Reads objects of a process by their addresses.

    All methods raise TornReadError if there is no such object at an address.

    Args:
        memory: The process.
        layout: Where the members of its structures are.
    """

    def __init__(self, memory: ProcessMemory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout
        # of types and code, which nearly always live as long as this does
        self._type_names: dict[int, str] = {}
        self._codes: dict[int, _Code] = {}

    def type_name(self, address: int) -> str:
        """Return the name of an object's type, with its module if it is compiled."""
        kind = self._memory.word(address + 8)
        if kind not in self._type_names:
            name = self._memory.string(self._memory.word(kind + self._layout["type_name"]))
            if not name.isprintable():
                raise TornReadError
            self._type_names[kind] = name
        return self._type_names[kind]

    def text(self, address: int) -> str:
        """Return the first 1,000 characters of a string."""
        if self.type_name(address) != "str":
            raise TornReadError
        length, _, state = struct.unpack("<qqI", self._memory.read(address + 16, 20))
        size, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}.get(size)
        if length < 0 or not is_compact or encoding is None:
            raise TornReadError
        begin = address + self._layout["text_size" if is_ascii else "compact_text_size"]
        data = self._memory.read(begin, min(length, _MAX_TEXT) * size)
        return data.decode(encoding, "replace")

    def items(self, address: int) -> Iterator[tuple[int, int]]:
        """Yield the addresses of the keys and values of a dictionary."""
        if self.type_name(address) != "dict":
            raise TornReadError
        keys, values = self._memory.words(address + 32, 2)
        yield from self._entries(keys, values)

    def _entries(self, keys: int, values: int) -> Iterator[tuple[int, int]]:
        """Yield those of a table of keys, whose values may be apart."""
        _, index_bytes, kind = self._memory.read(keys + 8, 3)
        count = self._memory.word(keys + 24)
        if count > _MAX_ENTRIES or index_bytes > 32:
            raise TornReadError
        begin = keys + 32 + (1 << index_bytes)
        width = 3 if kind == _GENERAL_KEYS else 2
        entries = self._memory.words(begin, width * count)
        apart = self._memory.words(values, count) if values and kind == _SPLIT_KEYS else ()
        for index in range(count):
            key = entries[width * index + width - 2]
            value = apart[index] if apart else entries[width * index + width - 1]
            if key and value:
                yield key, value

    def entry(self, address: int, name: str) -> int:
        """Return the address of a dictionary's value by its name; 0 if it has none."""
        return self._named(self.items(address), name)

    def integer(self, address: int) -> int:
        """Return a positive integer below 2^64."""
        if self.type_name(address) != "int":
            raise TornReadError
        tag = self._memory.word(address + 16)
        digits = tag if self._layout.minor == 11 else tag >> 3
        if digits > 3:
            raise TornReadError
        words = struct.unpack(f"<{digits}I", self._memory.read(address + 24, 4 * digits))
        return sum(digit << 30 * index for index, digit in enumerate(words))

    def _named(self, items: Iterable[tuple[int, int]], name: str) -> int:
        for key, value in items:
            if self.type_name(key) == "str" and self.text(key) == name:
                return value
        return 0

    def attribute(self, address: int, name: str) -> int:
        """Return the address of an attribute of an instance of a Python class; 0 if it has none."""
        return self._named(self._attributes(address), name)

    def _attributes(self, address: int) -> Iterator[tuple[int, int]]:
        kind = self._memory.word(address + 8)
        flags = self._memory.word(kind + self._layout["type_flags"])
        if not flags & _MANAGED_DICT:
            raise TornReadError
        keys = self._memory.word(kind + self._layout["type_keys"])
        # before the object: up to 3.11 the values, then the dictionary; in 3.12 either, and the
        # first is odd; since 3.13 the values are behind the object
        apart, dictionary = self._memory.words(address - 32, 2)
        values = 0
        if self._layout.minor == 11:
            values = apart
        elif self._layout.minor == 12:
            if dictionary & 1:
                values, dictionary = dictionary + 1, 0
        elif not dictionary and flags & _INLINE_VALUES:
            values = address + self._memory.word(kind + self._layout["type_size"]) + 8
        if values:
            yield from self._entries(keys, values)
        elif dictionary:
            own_keys, own_values = self._memory.words(dictionary + 32, 2)
            # of a dictionary that shares them with the object, since 3.13 after a header
            header = 8 if own_values and self._layout.minor >= 13 else 0
            yield from self._entries(own_keys, own_values + header if own_values else 0)

    def weakly_referred(self, address: int) -> list[int]:
        """Return the objects of a `WeakSet` that still exist."""
        return [
            referred
            for reference in self.members(self.attribute(address, "data"))
            # of the type's own object, None stands for one that is gone
            if self.type_name(referred := self._memory.word(reference + 16)) != "NoneType"
        ]

    def members(self, address: int) -> list[int]:
        """Return the addresses of the objects in a set."""
        if not address or self.type_name(address) != "set":
            raise TornReadError
        mask, table = self._memory.words(address + 32, 2)
        if mask >= _MAX_ENTRIES:
            raise TornReadError
        entries = self._memory.words(table, 2 * (mask + 1))
        # a key that was removed has the hash -1
        removed = (1 << 64) - 1
        return [
            key
            for key, hashed in zip(entries[::2], entries[1::2], strict=True)
            if key and hashed != removed
        ]

    def modules(self, interpreter: int) -> dict[str, int]:
        """Return the dictionaries of an interpreter's modules, by name."""
        table = self._memory.word(interpreter + self._layout["interpreter_modules"])
        found = {}
        for key, value in self.items(table):
            if self.type_name(key) == "str" and self.type_name(value) == "module":
                found[self.text(key)] = self._memory.word(value + 16)
        return found

    def frame_line(self, frame: int) -> CodeLine | None:
        """Return the line that a frame executes; None if it is one of the interpreter itself."""
        address = self.frame_code(frame)
        code = self._code(address)
        if code.file == code.function:
            # it calls a class's __init__ (3.12 and later)
            return None
        instruction = self._memory.word(frame + self._layout["frame_instruction"])
        unit = (instruction - address - self._layout["code_instructions"]) // 2
        return CodeLine(code.function, code.file, _line_at(code.lines, code.first_line, unit))

    def frame_code(self, frame: int) -> int:
        """Return the address of a frame's code."""
        return self._memory.word(frame + self._layout["frame_code"]) & ~_TAG

    def stack_top(self, frame: int) -> int:
        """Return the object on top of a suspended frame's stack; 0 if the stack is empty."""
        bottom = frame + self._layout["frame_variables"]
        variables = self._code(self.frame_code(frame)).variables
        top_at = frame + self._layout["frame_stack_top"]
        if self._layout.minor >= 14:
            depth = (self._memory.word(top_at) - bottom) // 8
        else:
            depth = self._memory.signed(top_at, 4)
        if not variables <= depth <= _MAX_ENTRIES:
            raise TornReadError
        # since 3.15, what is awaited has an index or nothing above it
        for index in range(depth - 1, max(variables, depth - 2) - 1, -1):
            found = self._memory.word(bottom + 8 * index)
            if found & _TAG != _TAGGED_INTEGER and found & ~_TAG:
                return found & ~_TAG
        return 0

    def _code(self, address: int) -> _Code:
        if address not in self._codes:
            if self.type_name(address) != "code":
                raise TornReadError
            member = {
                name: self._memory.word(address + self._layout[f"code_{name}"])
                for name in ("name", "file", "lines")
            }
            size = self._memory.word(member["lines"] + 16)
            if self.type_name(member["lines"]) != "bytes" or size > _MAX_LINES:
                raise TornReadError
            self._codes[address] = _Code(
                self.text(member["name"]),
                self.text(member["file"]),
                self._memory.signed(address + self._layout["code_first_line"], 4),
                self._memory.read(member["lines"] + 32, size),
                self._memory.signed(address + self._layout["code_variables"], 4),
            )
        return self._codes[address]


def _line_at(table: bytes, first: int, unit: int) -> int:
    """Return the line of an instruction; the first line of the function if it has none.

    Args:
        table: The code's table of lines.
        first: Its first line.
        unit: The index of the instruction, in units of two bytes.
    """
    at, reached, line = 0, 0, first
    while at < len(table):
        kind, length = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        if kind in _ONE_LINE_FORMS:
            line += kind - _ONE_LINE_FORMS.start
        elif kind in {_NO_COLUMNS, _LONG}:
            line += _signed(table, at)
        reached += length
        if reached > unit:
            return first if kind == _NO_LOCATION else line
        # the first byte of each entry has its highest bit set
        while at < len(table) and not table[at] & 128:
            at += 1
    return first


def _signed(table: bytes, at: int) -> int:
    """Return the signed number of 6-bit groups that begins there."""
    value = shift = 0
    while at < len(table):
        value |= (table[at] & 63) << shift
        shift += 6
        if not table[at] & 64:
            break
        at += 1
    return -(value >> 1) if value & 1 else value >> 1
