"""Metadata of CTF as a program for the kernel `ctf_packets`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels import ctf_packets as kernel
from meantime.readers.ctf.tsdl import (
    ArrayType,
    EnumType,
    FloatType,
    IntegerType,
    StringType,
    StructType,
    UnsupportedError,
    VariantType,
)

if TYPE_CHECKING:
    from meantime.model.columns import Int64s
    from meantime.readers.ctf.tsdl import Clock, Metadata, StreamClass, Type

__all__ = ["Program", "TraceProgram"]

_KEPT = {b"cpu_id", b"vtid", b"tid", b"perf_tid", b"procname", b"_procname"}
_HEADER = {
    "magic": kernel.MAGIC,
    "stream_id": kernel.STREAM_ID,
    "stream_instance_id": kernel.INSTANCE,
}
_CONTEXT = {
    "packet_size": kernel.PACKET_BITS,
    "content_size": kernel.CONTENT_BITS,
    "timestamp_begin": kernel.BEGIN_TIME,
    "timestamp_end": kernel.END_TIME,
    "events_discarded": kernel.DISCARDED,
    "packet_seq_num": kernel.SEQUENCE_NUMBER,
}
_EVENT = {"id": kernel.EVENT_ID}
_SCOPES = {
    ("trace", "packet", "header"): "packet.header",
    ("stream", "packet", "context"): "packet.context",
    ("stream", "event", "header"): "event.header",
    ("stream", "event", "context"): "event.context",
    ("event", "context"): "context",
    ("event", "fields"): "fields",
}
_MOST_DEPTH = 48
_MOST_NODES = 100_000
_MOST_REGISTERS = 1 << 16
_MOST_COMPARED = 1 << 20
_MOST_OVERLAPS = 200
_MOST_NAME = 255
_NO_NODE = -1
# columns of a node
_FLAGS, _REGISTER, _MEANING = 3, 9, 11
_SIGN = 1 << 63
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class TraceProgram:
    """What of a program is of one trace: its classes of streams.

    Attributes:
        first: Its first class of streams.
        headers: For each of its classes the node of a packet's header; -1 if there is none.
    """

    first: int
    headers: tuple[int, ...]


@dataclass(slots=True)
class _Node:
    """What is special about a node; sizes are in bits."""

    kind: int
    align: int = 1
    bits: int = 1
    flags: int = 0
    base: int = 10
    value: int = 0
    ranges: tuple[int, int] = (0, 0)


class Program:
    """The nodes, ranges, classes of streams and events of several traces."""

    def __init__(self) -> None:
        self._registers = 0
        self._compared = 0
        self._nodes: list[list[int]] = []
        self._ranges: list[list[int]] = []
        self._classes: list[list[int]] = []
        self._events: list[list[int]] = []
        self._names = bytearray()
        self._name_of: dict[bytes, tuple[int, int]] = {}
        self._enums: dict[EnumType, tuple[int, int]] = {}
        # by node: its type, and the nodes of a struct's fields
        self._types: dict[int, Type] = {}
        self._fields: dict[int, dict[str, int]] = {}
        self._aligns: dict[Type, int] = {}
        self._is_big = False
        self._clock_name = ""
        # what is being added: its scope, and the structs that it is in
        self._roots: dict[str, int] = {}
        self._scope = ""
        self._scopes: list[dict[str, int]] = []

    def arrays(self) -> tuple[Int64s, Int64s, Int64s, Int64s, bytes, int]:
        """Return the first arguments of `CtfPackets`."""
        nodes, ranges, classes, events = (
            np.array(
                [each - (1 << 64) if each >= _SIGN else each for row in rows for each in row],
                np.int64,
            )
            for rows in (self._nodes, self._ranges, self._classes, self._events)
        )
        return nodes, ranges, classes, events, bytes(self._names), self._registers

    def add(self, metadata: Metadata) -> TraceProgram:
        """Add a trace.

        Raises:
            UnsupportedError: If the kernel cannot decode it.
        """
        self._is_big = metadata.is_big
        first = len(self._classes)
        headers = []
        for stream in metadata.streams.values():
            events = [each for each in metadata.events if each.stream_id == stream.id]
            ids = [each.id for each in events]
            if len(set(ids)) < len(ids):
                message = f"two events of the stream {stream.id} have one number"
                raise UnsupportedError(message)
            clock_name, clock = _clock_of(metadata, stream)
            self._clock_name = clock_name
            self._roots = {}
            # each class has nodes of its own, so that their registers are, too
            headers.append(self._root("packet.header", metadata.packet_header, _HEADER))
            context = self._root("packet.context", stream.types.get("packet.context"), _CONTEXT)
            event_header = self._root("event.header", stream.types.get("event.header"), _EVENT)
            event_context = self._root("event.context", stream.types.get("event.context"), {})
            if event_header == _NO_NODE:
                message = f"the events of the stream {stream.id} have no header"
                raise UnsupportedError(message)
            begin = len(self._events)
            for event in sorted(events, key=lambda each: each.id):
                for scope in ("context", "fields"):
                    self._roots.pop(scope, None)
                own = self._root("context", event.types.get("context"), {})
                payload = self._root("fields", event.types.get("fields"), {})
                self._events.append([event.id, own, payload, *self._name(_event_name(event.name))])
            self._classes.append(
                [stream.id, context, event_header, event_context, begin, len(self._events) - begin,
                 clock.frequency, clock.offset_s, clock.offset]
            )  # fmt: skip
        if not headers:
            message = "the metadata have no stream"
            raise UnsupportedError(message)
        return TraceProgram(first, tuple(headers))

    def _root(self, scope: str, type_: Type | None, meanings: dict[str, int]) -> int:
        """Add the struct of a scope; return its node, or -1 if there is none."""
        if type_ is None:
            return _NO_NODE
        if not isinstance(type_, StructType):
            message = f"{scope} is not a struct"
            raise UnsupportedError(message)
        row = self._reserved(1)
        self._roots[scope], self._scope, self._scopes = row, scope, []
        self._fill(row, "", type_, 0)
        for name, meaning in meanings.items():
            # the number of an event may be within a variant
            depth = _MOST_DEPTH if scope == "event.header" else 0
            for each in self._called(row, name, depth):
                self._nodes[each][_MEANING] = meaning
        if scope == "event.header":
            self._set_times(row)
        elif scope != "fields":
            self._set_context(row)
        return row

    def _set_context(self, row: int) -> None:
        """Keep what names the CPU and the thread of an event."""
        for name, each in self._fields[row].items():
            if _field_name(name) in _KEPT:
                self._nodes[each][_FLAGS] |= kernel.IS_KEPT
        # these are times of the clock, but not the first event's
        for name in ("timestamp_begin", "timestamp_end"):
            for each in self._called(row, name, 0):
                self._nodes[each][_FLAGS] &= ~kernel.IS_CLOCK

    def _set_times(self, row: int) -> None:
        """Have the times in an event's header set the clock, if they are not mapped to it."""
        stamps = self._called(row, "timestamp", _MOST_DEPTH)
        if not stamps:
            message = "events have no time"
            raise UnsupportedError(message)
        if not any(self._nodes[each][_FLAGS] & kernel.IS_CLOCK for each in stamps):
            for each in stamps:
                self._nodes[each][_FLAGS] |= kernel.IS_CLOCK

    def _called(self, row: int, name: str, depth: int) -> list[int]:
        """Return the integers of a name in a node, and so many levels below."""
        found = []
        for each, child in self._fields[row].items():
            if each == name and isinstance(self._types[child], IntegerType | EnumType):
                found.append(child)
            if depth:
                found += self._called(child, name, depth - 1)
        return found

    def _reserved(self, count: int) -> int:
        first = len(self._nodes)
        self._nodes.extend([] for _ in range(count))
        if len(self._nodes) > _MOST_NODES:
            message = "the metadata describe too many fields"
            raise UnsupportedError(message)
        return first

    def _name(self, name: bytes) -> tuple[int, int]:
        found = self._name_of.get(name)
        if found is None:
            if len(name) > _MOST_NAME:
                message = "a name is too long"
                raise UnsupportedError(message)
            found = self._name_of[name] = (len(self._names), len(name))
            self._names += name
        return found

    def _fill(self, row: int, name: str, type_: Type, depth: int) -> None:
        """Set the node of a type, and add those below."""
        if depth > _MOST_DEPTH:
            message = "types are nested too deeply"
            raise UnsupportedError(message)
        node, children = self._node(type_)
        first = self._reserved(len(children))
        self._types[row] = type_
        self._nodes[row] = [
            node.kind, node.align, node.bits, node.flags, node.base, *self._name(_field_name(name)),
            first, len(children), -1, node.value, kernel.NOTHING, *node.ranges,
        ]  # fmt: skip
        fields = self._fields[row] = {}
        is_scope = isinstance(type_, StructType)
        if is_scope:
            self._scopes.append(fields)
        for each, (child, child_type) in enumerate(children):
            self._fill(first + each, child, child_type, depth + 1)
            fields[child] = first + each
        if is_scope:
            self._scopes.pop()

    def _node(self, type_: Type) -> tuple[_Node, list[tuple[str, Type]]]:
        """Return what is special about a type's node, and the types below."""
        children: list[tuple[str, Type]] = []
        match type_:
            case IntegerType():
                node = self._number(type_, kernel.INTEGER)
            case EnumType():
                node = self._number(type_.container, kernel.ENUM)
                node.ranges = self._labels(type_)
            case FloatType():
                flags = kernel.IS_BIG if self._is_big_order(type_.is_big) else 0
                node = _Node(kernel.FLOAT, type_.align, type_.size, flags)
            case StringType():
                node = _Node(kernel.STRING, 8)
            case StructType():
                node, children = _Node(kernel.STRUCT, self._align_of(type_, 0)), list(type_.fields)
            case ArrayType():
                node, children = self._array(type_)
            case VariantType():
                node, children = self._variant(type_), list(type_.options)
        return node, children

    def _align_of(self, type_: Type, depth: int) -> int:
        found = self._aligns.get(type_)
        if found is None:
            if depth > _MOST_DEPTH:
                message = "types are nested too deeply"
                raise UnsupportedError(message)
            found = 1
            if isinstance(type_, IntegerType | FloatType | StructType):
                found = type_.align
            elif isinstance(type_, StringType):
                found = 8
            # what a variant is aligned as depends on its option
            if not isinstance(type_, VariantType):
                found = max([found, *(self._align_of(each, depth + 1) for each in _below(type_))])
            self._aligns[type_] = found
        return found

    def _number(self, number: IntegerType, kind: int) -> _Node:
        if number.clock not in {None, self._clock_name}:
            message = "a stream has two clocks"
            raise UnsupportedError(message)
        flags = (
            (kernel.IS_SIGNED if number.is_signed else 0)
            | (kernel.IS_BIG if self._is_big_order(number.is_big) else 0)
            | (kernel.IS_CLOCK if number.clock is not None else 0)
        )
        return _Node(kind, number.align, number.size, flags, number.base)

    def _array(self, type_: ArrayType) -> tuple[_Node, list[tuple[str, Type]]]:
        is_text = _is_text(type_.element)
        if isinstance(type_.length, int):
            kind, value = kernel.TEXT if is_text else kernel.ARRAY, type_.length
        else:
            kind = kernel.TEXT_SEQUENCE if is_text else kernel.SEQUENCE
            value = self._register(type_.length)
        node = _Node(kind, self._align_of(type_.element, 0), value=value)
        return node, [] if is_text else [("", type_.element)]

    def _variant(self, type_: VariantType) -> _Node:
        if type_.tag is None:
            message = "a variant has no tag"
            raise UnsupportedError(message)
        tag = self._found(type_.tag)
        tag_type = self._types[tag]
        if not isinstance(tag_type, EnumType):
            message = "the tag of a variant is not an enumeration"
            raise UnsupportedError(message)
        flags = kernel.IS_SIGNED if tag_type.container.is_signed else 0
        ranges = self._options(tag_type, [option for option, _ in type_.options])
        value = self._register_of(tag)
        return _Node(kernel.VARIANT, flags=flags, value=value, ranges=ranges)

    def _is_big_order(self, is_big: bool | None) -> bool:  # noqa: FBT001 - one of three values
        return self._is_big if is_big is None else is_big

    def _register(self, path: tuple[str, ...]) -> int:
        """Return the register of the length that a path leads to."""
        row = self._found(path)
        type_ = self._types[row]
        if isinstance(type_, EnumType):
            type_ = type_.container
        if not isinstance(type_, IntegerType) or type_.is_signed:
            message = f"the length {'.'.join(path)[:80]} is not an unsigned integer"
            raise UnsupportedError(message)
        return self._register_of(row)

    def _register_of(self, row: int) -> int:
        node = self._nodes[row]
        if node[_REGISTER] < 0:
            node[_REGISTER] = self._registers
            self._registers += 1
            if self._registers > _MOST_REGISTERS:
                message = "the metadata have too many lengths and tags"
                raise UnsupportedError(message)
        return node[_REGISTER]

    def _found(self, path: tuple[str, ...]) -> int:
        """Return the node that a path leads to: in the scopes from inside out, then in the others.

        Raises:
            UnsupportedError: If it leads nowhere.
        """
        for prefix, scope in _SCOPES.items():
            if path[: len(prefix)] == prefix and scope in self._roots:
                rows = self._fields[self._roots[scope]]
                if (found := self._field(rows, path[len(prefix) :])) is not None:
                    return found
        outer = [self._fields[row] for scope, row in self._roots.items() if scope != self._scope]
        for rows in (*reversed(self._scopes), *reversed(outer)):
            if path[0] in rows and (found := self._field(rows, path)) is not None:
                return found
        message = f"the field {'.'.join(path)[:80]} is not declared before its use"
        raise UnsupportedError(message)

    def _field(self, rows: dict[str, int], path: tuple[str, ...]) -> int | None:
        found = None
        for name in path:
            found = rows.get(name)
            if found is None:
                return None
            is_struct = isinstance(self._types.get(found), StructType)
            rows = self._fields[found] if is_struct else {}
        return found

    def _labels(self, type_: EnumType) -> tuple[int, int]:
        """Add the ranges of an enumeration's values; return the first one and their number."""
        found = self._enums.get(type_)
        if found is None:
            first = len(self._ranges)
            for low, high, names in _disjoint(type_):
                text = ",".join(_quoted(label) for label in names).encode(
                    "utf-8", "surrogateescape"
                )
                self._ranges.append([low & _MASK, high & _MASK, *self._name(text)])
            found = self._enums[type_] = (first, len(self._ranges) - first)
        return found

    def _options(self, tag: EnumType, options: list[str]) -> tuple[int, int]:
        """Add the ranges of a tag's values that have an option."""
        # an underscore in front keeps a name from being a keyword, on either side
        index = {option.removeprefix("_"): each for each, option in enumerate(options)}
        index |= {option: each for each, option in enumerate(options)}
        # a large enumeration may be the tag of many variants
        self._compared += len(tag.ranges)
        if self._compared > _MOST_COMPARED:
            message = "the metadata have too many variants"
            raise UnsupportedError(message)
        first = len(self._ranges)
        for low, high, names in _disjoint(tag):
            known = (index.get(name, index.get(name.removeprefix("_"))) for name in names)
            chosen = next((each for each in known if each is not None), None)
            if chosen is not None:
                self._ranges.append([low & _MASK, high & _MASK, chosen, 0])
        return first, len(self._ranges) - first


def _clock_of(metadata: Metadata, stream: StreamClass) -> tuple[str, Clock]:
    """Return the clock of a stream, and its name: the mapped one, or the only one."""
    names = set().union(*(_clocks_in(type_) for type_ in stream.types.values()))
    if not names and len(metadata.clocks) == 1:
        names = set(metadata.clocks)
    if len(names) != 1 or not names <= metadata.clocks.keys():
        message = f"the stream {stream.id} has no clock, or several"
        raise UnsupportedError(message)
    (name,) = names
    return name, metadata.clocks[name]


def _clocks_in(type_: Type) -> set[str]:
    # types that others share are looked at once
    found, waiting, known = set(), [type_], {type_}
    while waiting:
        each = waiting.pop()
        if isinstance(each, IntegerType) and each.clock is not None:
            found.add(each.clock)
        below = set(_below(each)) - known
        known |= below
        waiting += below
    return found


def _below(type_: Type) -> list[Type]:
    """Return the types that a type consists of."""
    match type_:
        case EnumType():
            return [type_.container]
        case ArrayType():
            return [type_.element]
        case StructType():
            return [each for _, each in type_.fields]
        case VariantType():
            return [each for _, each in type_.options]
    return []


def _is_text(type_: Type) -> bool:
    return (
        isinstance(type_, IntegerType)
        and type_.is_text
        and type_.size == 8
        and type_.align % 8 == 0
    )


def _disjoint(type_: EnumType) -> list[tuple[int, int, list[str]]]:
    """Return ascending ranges of values that do not overlap, each with its names.

    Raises:
        UnsupportedError: If a value does not fit the container, or too many ranges overlap.
    """
    ranges = sorted(type_.ranges, key=lambda each: each[:2])
    least = -(1 << 63) if type_.container.is_signed else 0
    most = (1 << 63 if type_.container.is_signed else 1 << 64) - 1
    if ranges and (ranges[0][0] < least or max(high for _, high, _ in ranges) > most):
        message = "a value of an enumeration does not fit its container"
        raise UnsupportedError(message)
    if all(one[1] < other[0] for one, other in pairwise(ranges)):
        return [(low, high, [label]) for low, high, label in ranges]
    if len(ranges) > _MOST_OVERLAPS:
        message = "too many ranges of an enumeration overlap"
        raise UnsupportedError(message)
    bounds = sorted({low for low, _, _ in ranges} | {high + 1 for _, high, _ in ranges})
    found = []
    for low, end in pairwise(bounds):
        names = [label for first, last, label in type_.ranges if first <= low <= last]
        if names:
            found.append((low, end - 1, names))
    return found


def _field_name(name: str) -> bytes:
    """Return a field's name without the underscore that keeps it from being a keyword."""
    return name.removeprefix("_").encode("utf-8", "surrogateescape")


def _event_name(name: str) -> bytes:
    """Return an event's name as one word: what follows the last blank."""
    words = "".join(c if c.isprintable() else " " for c in name).split()
    return (words[-1] if words else "<unknown>").encode("utf-8", "surrogateescape")


def _quoted(label: str) -> str:
    """Return a label as babeltrace2 prints it, without blanks."""
    text = "".join(c for c in label if c.isprintable() and c != " ")
    return '"' + "".join(f"\\{c}" if c in "\\\"'?" else c for c in text) + '"'
