"""OpenTelemetry's messages in protobuf, decoded into what their JSON would be.

Encoding: https://protobuf.dev/programming-guides/encoding; the numbers of the fields are those of
trace.proto, common.proto, resource.proto and logs.proto.
"""

from __future__ import annotations

import struct
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["decode"]

_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
_DOUBLE = struct.Struct("<d")
_DEEPEST = 40
_MOST_VARINT_BYTES = 10


class _Field(NamedTuple):
    """A field of a message: its name in JSON, its type, and whether there may be several."""

    name: str
    kind: str
    repeated: bool = False


_Message: TypeAlias = "dict[int, _Field]"

_ATTRIBUTES = _Field("attributes", "KeyValue", repeated=True)
_MESSAGES: Final[dict[str, _Message]] = {
    "Export": {
        1: _Field("resourceSpans", "ResourceSpans", repeated=True),
    },
    "ResourceSpans": {
        1: _Field("resource", "Resource"),
        2: _Field("scopeSpans", "ScopeSpans", repeated=True),
        1000: _Field("instrumentationLibrarySpans", "ScopeSpans", repeated=True),
    },
    "Resource": {1: _ATTRIBUTES},
    "ScopeSpans": {
        1: _Field("scope", "Scope"),
        2: _Field("spans", "Span", repeated=True),
    },
    "Scope": {1: _Field("name", "text")},
    "Span": {
        1: _Field("traceId", "id"),
        2: _Field("spanId", "id"),
        4: _Field("parentSpanId", "id"),
        5: _Field("name", "text"),
        6: _Field("kind", "int"),
        7: _Field("startTimeUnixNano", "int"),
        8: _Field("endTimeUnixNano", "int"),
        9: _ATTRIBUTES,
        10: _Field("droppedAttributesCount", "int"),
        11: _Field("events", "Event", repeated=True),
        12: _Field("droppedEventsCount", "int"),
        13: _Field("links", "Link", repeated=True),
        14: _Field("droppedLinksCount", "int"),
        15: _Field("status", "Status"),
    },
    "Event": {
        1: _Field("timeUnixNano", "int"),
        2: _Field("name", "text"),
        3: _ATTRIBUTES,
        4: _Field("droppedAttributesCount", "int"),
    },
    "Link": {1: _Field("traceId", "id"), 2: _Field("spanId", "id")},
    "Status": {2: _Field("message", "text"), 3: _Field("code", "int")},
    "KeyValue": {1: _Field("key", "text"), 2: _Field("value", "AnyValue")},
    "AnyValue": {
        1: _Field("stringValue", "text"),
        2: _Field("boolValue", "bool"),
        3: _Field("intValue", "int"),
        4: _Field("doubleValue", "double"),
        5: _Field("arrayValue", "ArrayValue"),
        6: _Field("kvlistValue", "KeyValueList"),
        7: _Field("bytesValue", "id"),
    },
    "ArrayValue": {1: _Field("values", "AnyValue", repeated=True)},
    "KeyValueList": {1: _Field("values", "KeyValue", repeated=True)},
}


def decode(data: memoryview, message: str = "Export", depth: int = 0) -> dict[str, Any]:
    """Return a message, such as an export request, or what a file exporter writes.

    Args:
        data: Its bytes.
        message: Its type.
        depth: How many messages it is in.

    Raises:
        ValueError: If it is not one, or ends inside a field.
    """
    if depth > _DEEPEST:
        raise ValueError("messages are nested too deeply")
    fields = _MESSAGES[message]
    found: dict[str, Any] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value, at = _content(data, at, number, wire)
        field = fields.get(number)
        if field is None:
            continue
        if (wire == _BYTES) == (field.kind in _NUMBERS):
            raise ValueError(f"field {number} of a {message} has another type")
        converter = _CONVERTERS.get(field.kind)
        converted = converter(value) if converter else decode(value, field.kind, depth + 1)
        if field.repeated:
            found.setdefault(field.name, []).append(converted)
        else:
            found[field.name] = converted
    return found


def _content(data: memoryview, at: int, number: int, wire: int) -> tuple[Any, int]:
    """Return what a field contains, and the position after it."""
    if number == 0:
        raise ValueError("a field has the number 0")
    if wire == _VARINT:
        return _varint(data, at)
    if wire == _BYTES:
        length, at = _varint(data, at)
    elif wire in _FIXED:
        length = _FIXED[wire]
    else:
        raise ValueError(f"field {number} has the unknown wire type {wire}")
    if at + length > len(data):
        raise ValueError(f"it ends inside field {number}")
    return data[at : at + length], at + length


def _integer(value: Any) -> int:
    if isinstance(value, int):
        # int64 is a varint of its two's complement
        return value - 2**64 if value >= 2**63 else value
    return int.from_bytes(value, "little")


def _double(value: Any) -> float | str:
    if isinstance(value, int) or len(value) != _DOUBLE.size:
        raise ValueError("a floating-point number has another size")
    number = float(_DOUBLE.unpack(value)[0])
    # JSON has neither NaN nor infinity: it would be these texts
    return number if isfinite(number) else str(number)


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def _id(value: Any) -> str:
    return bytes(value).hex()


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": _text,
    "id": _id,
    "bool": bool,
    "double": _double,
    "int": _integer,
}
_NUMBERS = {"bool", "double", "int"}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = shift = 0
    for position in range(at, min(at + _MOST_VARINT_BYTES, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position + 1
        shift += 7
    raise ValueError(f"a number at byte {at} does not end")
