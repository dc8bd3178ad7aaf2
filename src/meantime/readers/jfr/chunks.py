"""Chunks of a Java flight recording: their metadata, constant pools and events.

A chunk describes its types itself. Nothing is known of them beforehand but how integers, strings
and these descriptions are written. Integers are LEB128 with at most 9 bytes, the last of 8 bits, or
big-endian; an event has its size and the number of its type first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import InputError
from meantime.kernels.jfr import (
    PROBLEMS,
    Op,
    classes_at,
    columns,
    constants,
    different_texts,
    elements,
    text_of,
    walk,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.readers.memory_limit import MemoryLimit

__all__ = [
    "HEADER_BYTES",
    "INTEGERS",
    "MAGIC",
    "MALFORMED",
    "Chunk",
    "Description",
    "Field",
    "Header",
    "Pool",
    "Type",
]

MAGIC = b"FLR\0"
_HEADER = struct.Struct(">4sHHqqqqqqqI")
HEADER_BYTES = _HEADER.size
# What reading of damaged bytes raises.
MALFORMED = (ValueError, IndexError, KeyError, TypeError, struct.error, RecursionError)

_METADATA, _CHECKPOINT = 0, 1
_DEEPEST = 12
# How many values one of a type may have, with those of the types in it.
_MOST_VALUES = 4096
# What a constant takes with its key and the name that it may become, and each value in it.
_CONSTANT_BYTES, _VALUE_BYTES = 100, 8
_NONE = np.empty(0, np.int64)
_FIXED = {
    "boolean": Op.BOOLEAN, "byte": Op.BYTE, "float": Op.FLOAT, "double": Op.DOUBLE,
    "char": Op.CHAR, "short": Op.SHORT, "int": Op.INT, "long": Op.LONG,
}  # fmt: skip
# As they are if integers are compressed.
_NEVER_COMPRESSED = {"boolean", "byte", "float", "double"}
# Whose columns have the values themselves.
INTEGERS = frozenset({Op.INTEGER, Op.BOOLEAN, Op.BYTE, Op.SHORT, Op.CHAR, Op.INT, Op.LONG})
_STRING = "java.lang.String"

# An operation, and for an array how many of those that follow are its elements'; see `kernels.jfr`.
_Ops: TypeAlias = "list[tuple[int, int]]"


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
    """A type: its name, and its fields."""

    number: int
    name: str
    fields: list[Field] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)


class _Program(NamedTuple):
    """How the values of a type are read: by field, what its column has, and the operations."""

    kinds: tuple[int, ...]
    ops: Int32s


class Description:
    """Types by number, and how their values are read, as far as that was needed."""

    def __init__(self, types: dict[int, Type]) -> None:
        self.types = types
        self.ops: dict[int, _Ops] = {}
        self.programs: dict[int, _Program] = {}


class Pool:
    """The constants of a type.

    Attributes:
        kinds: By field, what its column has: an `Op`.
        keys: int64, ascending.
        values: int64 by field and constant.
    """

    def __init__(self, kinds: tuple[int, ...], keys: Int64s, values: Int64s) -> None:
        self.kinds = kinds
        self.keys = keys
        self.values = values
        # by key, if these are small: the constant
        self._row_of: Int64s | None = None

    def rows(self, keys: Int64s) -> Int64s:
        """Return which constant each key is of; -1 if there is none."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        if self.keys[0] >= 0 and self.keys[-1] < 4 * len(self.keys):
            if self._row_of is None:
                # with one more for all other keys
                self._row_of = np.full(int(self.keys[-1]) + 2, -1, np.int64)
                self._row_of[self.keys] = np.arange(len(self.keys))
            last = len(self._row_of) - 1
            return self._row_of[np.where((keys >= 0) & (keys < last), keys, last)]
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1)


class Chunk:
    """A chunk that is in memory.

    Attributes:
        header: Its header.
        is_cut: Whether it ends inside an event.
        events: Where the events of each type begin, by its number.
    """

    def __init__(
        self,
        name: str,
        data: bytes,
        header: Header,
        offset: int,
        described: dict[bytes, Description],
        *,
        limit: MemoryLimit,
    ) -> None:
        self._name = name
        self._limit = limit
        self._data = data
        self._offset = offset
        self.header = header
        self._description = Description({})
        self.events: dict[int, Int64s] = {}
        self._found: dict[int, list[tuple[Int64s, Int64s]]] = {}
        self._pools: dict[int, Pool] = {}
        self.bad_pools: int = 0
        self._strings = -1
        self._integer = _compressed if header.is_compressed else _long
        self.is_cut: bool
        numbers, offsets, self.is_cut = walk(data, HEADER_BYTES, header.is_compressed)
        self._group(numbers, offsets)
        for at in self.events.pop(_METADATA, _NONE).tolist():
            try:
                self._describe(at, described)
            except MALFORMED as error:
                raise self.damaged(at, error) from None
        for at in self.events.pop(_CHECKPOINT, _NONE).tolist():
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

    def _group(self, numbers: Int64s, offsets: Int64s) -> None:
        """Note the events by their types, in order of their first ones."""
        different, first, of = np.unique(numbers, return_index=True, return_inverse=True)
        order = np.argsort(of, kind="stable")
        ends = np.cumsum(np.bincount(of, minlength=len(different)))
        for each in np.argsort(first).tolist():
            begin = int(ends[each - 1]) if each else 0
            self.events[int(different[each])] = offsets[order[begin : int(ends[each])]]

    def _event(self, at: int) -> tuple[int, int]:
        """Return where the contents of an event begin, and where it ends."""
        size, behind = self._integer(self._data, at)
        _, behind = self._integer(self._data, behind)
        return behind, at + size

    # Metadata

    @property
    def types(self) -> dict[int, Type]:
        """Its types by number."""
        return self._description.types

    def _describe(self, at: int, described: dict[bytes, Description]) -> None:
        """Read a description of types; those of other chunks are often the same."""
        data, integer = self._data, self._integer
        at, end = self._event(at)
        for _ in range(3):  # the time, the duration, the number of the description
            _, at = integer(data, at)
        content = bytes([self.header.is_compressed]) + data[at:end]
        found = described.get(content)
        if found is None:
            found = described[content] = Description(self._types(at))
        for number, type_ in found.types.items():
            if type_.name == _STRING:
                self._strings = number
        self._description = Description(self.types | found.types) if self.types else found

    def _types(self, at: int) -> dict[int, Type]:
        types = {}
        for attributes, children in classes_at(self._data, at, self.header.is_compressed):
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
            types[number] = type_
        return types

    def _check_count(self, count: int, at: int) -> None:
        # what is counted takes a byte each at least
        if not 0 <= count <= len(self._data) - at:
            raise ValueError("a count is larger than what follows")

    # Values

    def _compiled(self, number: int, path: tuple[int, ...] = ()) -> _Ops:
        """Return the operations that read the values of a type."""
        ops = self._description.ops.get(number)
        if ops is None:
            ops = self._description.ops[number] = self._made(number, path)
        return ops

    def _made(self, number: int, path: tuple[int, ...]) -> _Ops:
        type_ = self.types[number]
        if type_.name in _FIXED:
            if self.header.is_compressed and type_.name not in _NEVER_COMPRESSED:
                return [(Op.INTEGER, 0)]
            return [(_FIXED[type_.name], 0)]
        if type_.name == _STRING:
            return [(Op.TEXT, 0)]
        if number in path or len(path) > _DEEPEST:
            raise ValueError("a type contains itself")
        if self._values(number) > _MOST_VALUES:
            raise ValueError("a type has too many values")
        below = (*path, number)
        return [op for each in type_.fields for op in self._of_field(each, below)]

    def _of_field(self, of: Field, path: tuple[int, ...]) -> _Ops:
        ops = [(int(Op.INTEGER), 0)] if of.is_pooled else self._compiled(of.type, path)
        return [(Op.ARRAY, len(ops)), *ops] if of.is_array else ops

    def _is_one(self, of: Field) -> bool:
        return of.is_pooled or self.types[of.type].name in {*_FIXED, _STRING}

    def _program(self, number: int) -> _Program:
        """Return how the fields of a type become columns; a type without fields is one itself."""
        program = self._description.programs.get(number)
        if program is not None:
            return program
        whole = self._compiled(number)
        fields = self.types[number].fields
        is_plain = not fields and len(whole) == 1
        parts = [whole] if is_plain else [self._of_field(each, (number,)) for each in fields]
        if not all(parts):
            # any number of them would fit
            raise ValueError("a field has values without bytes")
        of_parts = [True] if is_plain else [each.is_array or self._is_one(each) for each in fields]
        kinds: list[int] = []
        rows: list[tuple[int, int, int]] = []
        for index, (part, is_one) in enumerate(zip(parts, of_parts, strict=True)):
            if is_one:
                rows += [(op, -1 if at else index, length) for at, (op, length) in enumerate(part)]
                kinds.append(part[0][0])
            else:
                # what has fields itself is found where it begins
                rows.append((Op.MARK, index, 0))
                rows += [(op, -1, length) for op, length in part]
                kinds.append(int(Op.MARK))
        ops = np.array(rows, np.int32).reshape(-1, 3)
        program = self._description.programs[number] = _Program(tuple(kinds), ops)
        return program

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

    # Constants

    def _checkpoint(self, at: int) -> None:
        """Add the constants of a checkpoint to those found."""
        data, integer = self._data, self._integer
        at, end = self._event(at)
        for _ in range(3):  # the time, the duration, where the checkpoint before is
            _, at = integer(data, at)
        at += 1  # what kind of checkpoint it is
        pools, at = integer(data, at)
        self._check_count(pools, at)
        for _ in range(pools):
            number, at = integer(data, at)
            count, at = integer(data, at)
            self._check_count(count, at)
            if not count:
                continue
            ops = self._program(number).ops.copy()
            ops[:, 1] = -1
            if at > end:
                raise IndexError(at)
            keys, offsets, at, problem = constants(
                data, at, end, count, ops, self.header.is_compressed
            )
            self._found.setdefault(number, []).append((keys, offsets))
            if problem:
                raise ValueError(PROBLEMS[problem])

    def pool(self, number: int) -> Pool:
        """Return the constants of a type; of several with one key the last counts."""
        pool = self._pools.get(number)
        if pool is not None:
            return pool
        found = self._found.pop(number, [])
        if not found:
            pool = Pool((), _NONE, _NONE.reshape(0, 0))
        else:
            keys = np.concatenate([each[0] for each in found])[::-1]
            offsets = np.concatenate([each[1] for each in found])[::-1]
            keys, last = np.unique(keys, return_index=True)
            program = self._program(number)
            self._limit.check(
                f"a chunk of it has {len(keys):,} constants of {self.types[number].name}",
                len(keys) * (_CONSTANT_BYTES + _VALUE_BYTES * len(program.kinds)),
            )
            values, _ = self._columns(np.ascontiguousarray(offsets[last]), program, of_events=False)
            pool = Pool(program.kinds, keys, values)
        self._pools[number] = pool
        return pool

    def _columns(
        self, offsets: Int64s, program: _Program, *, of_events: bool
    ) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        is_compressed = self.header.is_compressed
        return columns(
            self._data, offsets, program.ops, len(program.kinds), is_compressed, of_events
        )

    def text(self, value: Any) -> str:
        """Return a string that may be in the pool of strings."""
        if isinstance(value, int):
            pool = self.pool(self._strings)
            [row] = pool.rows(np.array([value], np.int64)).tolist()
            value = None
            if row >= 0 and pool.kinds == (Op.TEXT,):
                at = int(pool.values[0, row])
                value, _ = text_of(self._data, at, self.header.is_compressed)
        return value if isinstance(value, str) else ""

    def texts(self, offsets: Int64s) -> tuple[Int32s, list[str | None]]:
        """Return the strings at offsets: an index by offset, and the different ones."""
        found, codes = different_texts(self._data, offsets, self.header.is_compressed)
        return codes, [self.text(each) if isinstance(each, int) else each for each in found]

    def elements(self, of: Field, offsets: Int64s, name: str) -> tuple[Int64s, Int64s | None]:
        """Return how many elements arrays have, and the integers in a field of these.

        Args:
            of: The field that has the arrays.
            offsets: Where each array begins.
            name: What the field of the elements is called.

        Returns:
            int64 each; None instead of the integers if the field has something else.
        """
        ops = [(op, -1, size) for op, size in self._of_field(of, ())[1:]]
        index = self.types[of.type].index.get(name) if not of.is_pooled else None
        if index is None:
            return np.zeros(len(offsets), np.int64), None
        program = self._program(of.type)
        kind = program.kinds[index]
        rows = [(op, 0 if into == index else -1, size) for op, into, size in program.ops.tolist()]
        ops = rows if kind in INTEGERS else ops
        found = elements(
            self._data, offsets, np.array(ops, np.int32).reshape(-1, 3), self.header.is_compressed
        )
        return found[0], found[1] if kind in INTEGERS else None

    # Events

    def problem(self, number: int) -> Exception | None:
        """Return why the events of a type cannot be read; None if they can."""
        try:
            self._program(number)
        except MALFORMED as error:
            return error
        return None

    def rows(self, number: int, first: int, end: int) -> tuple[Pool, npt.NDArray[np.uint8]]:
        """Return some events of a type: `keys` has their offsets, `values` their fields.

        The second value is 0 for each that could be read, else an index of `PROBLEMS`.
        """
        offsets, program = self.events[number][first:end], self._program(number)
        values, problems = self._columns(offsets, program, of_events=True)
        return Pool(program.kinds, offsets, values), problems

    def nested(self, number: int, offsets: Int64s) -> Pool:
        """Return values of a type that begin at offsets; what cannot be read is 0."""
        program = self._program(number)
        values, _ = self._columns(offsets, program, of_events=False)
        return Pool(program.kinds, offsets, values)


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
