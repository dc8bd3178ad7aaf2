"""The metadata of CTF 1.8: the text that describes the streams, contexts and events of a trace."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import NoReturn

__all__ = [
    "ArrayType",
    "Clock",
    "EnumType",
    "EventClass",
    "FloatType",
    "IntegerType",
    "Metadata",
    "StreamClass",
    "StringType",
    "StructType",
    "Type",
    "UnsupportedError",
    "VariantType",
    "parse",
    "text_of_metadata",
]

MAX_ALIGN = 1 << 16
_MOST_DEPTH = 24
_MOST_ENUMERATORS = 1 << 16
_PACKET = "BBBBB"  # compression, encryption, checksum, major and minor version
_MAGIC = 0x75D11D57
_HEADER_BYTES = 37

# A whole integer type is one token, since most fields have one and few differ.
_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<integer>integer\s*\{[^{}\"/]*\})"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|0[bB][01]+|\d+[uUlL]*)"
    r"|(?P<word>[A-Za-z_$][\w$]*)"
    r"|(?P<sign>\.\.\.|:=|[{}\[\]();=,.:<>*+-])",
    re.DOTALL | re.ASCII,
)
_SETTING = re.compile(r"\s*(\w+)\s*=\s*([\w.-]+)\s*;", re.ASCII)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BASES = {
    **dict.fromkeys(("decimal", "dec", "d", "i", "u", "10"), 10),
    **dict.fromkeys(("hexadecimal", "hex", "x", "X", "p", "16"), 16),
    **dict.fromkeys(("octal", "oct", "o", "8"), 8),
    **dict.fromkeys(("binary", "b", "2"), 2),
}
_ORDERS = {"le": False, "be": True, "network": True, "native": None}
_BLOCKS = {"trace", "env", "clock", "stream", "event", "callsite"}
_TRUE, _FALSE = {"true", "TRUE", "1"}, {"false", "FALSE", "0"}
_IS_TEXT = {
    "none": False,
    "UTF8": True,
    "utf8": True,
    "UTF-8": True,
    "ASCII": True,
    "ascii": True,
}


class UnsupportedError(Exception):
    """The metadata has a form that is not read here."""


@dataclass(frozen=True, slots=True)
class IntegerType:
    """An integer. `is_big` is None for the byte order of the trace; `align` is in bits."""

    size: int
    align: int
    is_signed: bool = False
    is_big: bool | None = None
    base: int = 10
    is_text: bool = False
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class FloatType:
    """A number of IEEE 754 with 32 or 64 bits."""

    size: int
    align: int
    is_big: bool | None = None


@dataclass(frozen=True, slots=True)
class StringType:
    """Bytes up to a zero."""


@dataclass(frozen=True, slots=True, eq=False)
class EnumType:
    """Names of the numbers in ranges that include both ends, in the order of the text."""

    container: IntegerType
    ranges: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType:
    """As many elements as a number says, or the field that a path leads to."""

    element: Type
    length: int | tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StructType:
    """Fields one after the other; `align` is the least alignment."""

    fields: tuple[tuple[str, Type], ...]
    align: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class VariantType:
    """The option that has the name of an enumeration's value."""

    options: tuple[tuple[str, Type], ...]
    tag: tuple[str, ...] | None = None


Type = IntegerType | FloatType | StringType | EnumType | ArrayType | StructType | VariantType
_Value = int | str


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock: its cycles per second, and where it begins."""

    frequency: int
    offset_s: int
    offset: int


@dataclass(slots=True)
class StreamClass:
    """What the packets and events of a stream have in common."""

    id: int
    types: dict[str, Type] = field(default_factory=dict)


@dataclass(slots=True)
class EventClass:
    """An event: its name, its context and its fields."""

    name: str
    id: int
    stream_id: int
    types: dict[str, Type] = field(default_factory=dict)


@dataclass(slots=True)
class Metadata:
    """What the metadata of one trace say."""

    is_big: bool = False
    packet_header: Type | None = None
    clocks: dict[str, Clock] = field(default_factory=dict)
    streams: dict[int, StreamClass] = field(default_factory=dict)
    events: list[EventClass] = field(default_factory=list)


def text_of_metadata(data: bytes) -> str:
    """Return the text of metadata, which may be in packets.

    Raises:
        UnsupportedError: If a packet is damaged, compressed or encrypted.
    """
    if len(data) >= 4 and _MAGIC in struct.unpack("<I", data[:4]) + struct.unpack(">I", data[:4]):
        order = "<" if struct.unpack("<I", data[:4])[0] == _MAGIC else ">"
        data = b"".join(_contents(data, order))
    return data.decode("utf-8", "surrogateescape")


def _contents(data: bytes, order: str) -> list[bytes]:
    found = []
    layout = struct.Struct(f"{order}I16xIII{_PACKET}")
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER_BYTES:
            message = f"the metadata end in the middle of a packet, at byte {at:,}"
            raise UnsupportedError(message)
        magic, _, content, size, *kinds, major, minor = layout.unpack_from(data, at)
        if magic != _MAGIC or content % 8 or size % 8 or not 8 * _HEADER_BYTES <= content <= size:
            message = f"the packet at byte {at:,} of the metadata is damaged"
            raise UnsupportedError(message)
        if any(kinds) or (major, minor) != (1, 8):
            message = "the metadata are compressed, encrypted, or not of CTF 1.8"
            raise UnsupportedError(message)
        if at + content // 8 > len(data):
            message = f"the metadata end in the middle of a packet, at byte {at:,}"
            raise UnsupportedError(message)
        found.append(data[at + _HEADER_BYTES : at + content // 8])
        at += size // 8
    return found


def parse(text: str) -> Metadata:
    """Return what a text of CTF 1.8 says.

    Raises:
        UnsupportedError: If it has a form that is not read; the message names the line.
    """
    return _Parser(text).metadata()


class _Parser:
    """Reads declarations one after the other; names are those of the scope and the ones around."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._kinds: list[str] = []
        self._starts: list[int] = []
        self._at = 0
        self._depth = 0
        self._scopes: list[dict[tuple[str, str], Type]] = [{}]
        self._integers: dict[str, IntegerType] = {}
        self._found = Metadata()
        self._tokenize()

    def _tokenize(self) -> None:
        end = 0
        for match in _TOKEN.finditer(self._text):
            if match.start() != end:
                break
            end = match.end()
            if kind := match.lastgroup:
                self._tokens.append(match[0])
                self._kinds.append(kind)
                self._starts.append(match.start())
        # two, as a token after the current one is looked at
        self._tokens += ["", ""]
        self._kinds += ["end", "end"]
        self._starts += [end, end]
        if end != len(self._text):
            self._at = len(self._tokens) - 1
            self._fail(f"unknown character {self._text[end]!r}")

    def metadata(self) -> Metadata:
        """Return all that is declared."""
        while self._kinds[self._at] != "end":
            word = self._tokens[self._at]
            if self._tokens[self._at + 1] == "{" and word in _BLOCKS:
                self._at += 1
                self._block(word)
                self._expect(";")
            elif not self._declaration():
                self._fail(f"{word[:40]!r} is not a declaration")
        return self._found

    def _fail(self, reason: str) -> NoReturn:
        line = 1 + self._text.count("\n", 0, self._starts[self._at])
        message = f"line {line} of the metadata: {reason}"
        raise UnsupportedError(message)

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, token: str) -> bool:
        if self._tokens[self._at] != token or self._kinds[self._at] == "string":
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._fail(f"{self._tokens[self._at][:40]!r} instead of {token!r}")

    def _word(self) -> str:
        if self._kinds[self._at] != "word":
            self._fail(f"{self._tokens[self._at][:40]!r} instead of a name")
        return self._next()

    def _number(self) -> int:
        sign = -1 if self._accept("-") else 1
        if self._kinds[self._at] != "number":
            self._fail(f"{self._tokens[self._at][:40]!r} instead of a number")
        number = _number_of(self._next())
        if number is None or number >= 1 << 64:
            self._at -= 1
            self._fail("the number is too large")
        return sign * number

    def _path(self) -> tuple[str, ...]:
        words = [self._word()]
        while self._accept("."):
            words.append(self._word())
        return tuple(words)

    def _block(self, kind: str) -> None:
        settings, types = self._settings()
        found = self._found
        if kind == "trace":
            found.is_big = self._order(settings.get("byte_order", "le")) or False
            found.packet_header = types.get("packet.header")
        elif kind == "clock":
            name = str(settings.get("name", ""))
            frequency = self._integer(settings, "freq", 1_000_000_000)
            offset_s, offset = (self._integer(settings, key, 0) for key in ("offset_s", "offset"))
            if not 1 <= frequency <= 10**10 or offset < 0 or abs(offset_s) >= 1 << 40:
                self._fail("the clock has an unusual frequency or offset")
            found.clocks[name] = Clock(
                frequency, offset_s + offset // frequency, offset % frequency
            )
        elif kind == "stream":
            id_ = self._integer(settings, "id", 0)
            if id_ in found.streams:
                self._fail(f"the stream {id_} is declared twice")
            found.streams[id_] = StreamClass(id_, types)
        elif kind == "event":
            id_, stream = (self._integer(settings, key, 0) for key in ("id", "stream_id"))
            found.events.append(EventClass(str(settings.get("name", "")), id_, stream, types))

    def _settings(self) -> tuple[dict[str, _Value], dict[str, Type]]:
        """Read a block's statements up to its end; return its values and its types."""
        settings: dict[str, _Value] = {}
        types: dict[str, Type] = {}
        self._expect("{")
        self._scopes.append({})
        while not self._accept("}"):
            if self._declaration():
                continue
            name = ".".join(self._path())
            if name in settings or name in types:
                self._fail(f"{name!r} is given twice")
            if self._accept(":="):
                types[name] = self._type()
            else:
                self._expect("=")
                settings[name] = self._value()
            self._expect(";")
        self._scopes.pop()
        return settings, types

    def _value(self) -> _Value:
        kind = self._kinds[self._at]
        if kind == "string":
            return _ESCAPE.sub(r"\1", self._next()[1:-1])
        is_number = kind == "number" and self._tokens[self._at + 1] == ";"
        if is_number or self._tokens[self._at] == "-":
            return self._number()
        words = []
        while self._tokens[self._at] not in {";", "{", "}", ""}:
            words.append(self._next())
        return "".join(words)

    def _integer(self, settings: dict[str, _Value], name: str, missing: int) -> int:
        value = settings.get(name, missing)
        if not isinstance(value, int):
            self._fail(f"{name!r} is not a number")
        return value

    def _order(self, value: _Value) -> bool | None:
        if value not in _ORDERS:
            self._fail(f"unknown byte order {str(value)[:40]!r}")
        return _ORDERS[str(value)]

    def _declaration(self) -> bool:
        """Read a declaration of a type, if one is next; return whether it was."""
        word, after = self._tokens[self._at], self._tokens[self._at + 1]
        if word == "typealias" and after not in {"=", ":=", "."}:
            self._at += 1
            found = self._type()
            self._expect(":=")
            words = [self._word()]
            while self._kinds[self._at] == "word":
                words.append(self._next())
            self._declare("", " ".join(words), found)
        elif word == "typedef" and after not in {"=", ":=", "."}:
            self._at += 1
            base = self._type()
            name, found = self._declarator(base)
            self._declare("", name, found)
        elif word in {"struct", "variant", "enum"} and after not in {"=", ":=", "."}:
            self._type()
        else:
            return False
        self._expect(";")
        return True

    def _declare(self, kind: str, name: str, found: Type) -> None:
        if (kind, name) in self._scopes[-1]:
            self._fail(f"{name[:40]!r} is declared twice")
        self._scopes[-1][kind, name] = found

    def _find(self, kind: str, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if (kind, name) in scope:
                return scope[kind, name]
        return None

    def _known(self, kind: str, name: str) -> Type:
        found = self._find(kind, name)
        if found is None:
            self._fail(f"unknown type {f'{kind} {name}'.strip()[:40]!r}")
        return found

    def _declarator(self, element: Type) -> tuple[str, Type]:
        """Read a name and its lengths in brackets; return it and its type."""
        name = self._word()
        lengths: list[int | tuple[str, ...]] = []
        while self._accept("["):
            if self._kinds[self._at] == "number":
                lengths.append(self._number())
            else:
                lengths.append(self._path())
            self._expect("]")
            if len(lengths) > _MOST_DEPTH:
                self._fail("an array has too many dimensions")
        for length in reversed(lengths):
            element = ArrayType(element, length)
        return name, element

    def _type(self) -> Type:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._fail("types are nested too deeply")
        kind, word = self._kinds[self._at], self._next()
        if kind == "integer":
            found: Type = self._integer_type(word)
        elif kind != "word":
            self._at -= 1
            self._fail(f"{word[:40]!r} instead of a type")
        elif word == "floating_point":
            found = self._float_type()
        elif word == "string":
            if self._tokens[self._at] == "{":
                self._settings()
            found = StringType()
        elif word == "struct":
            found = self._struct_type()
        elif word == "variant":
            found = self._variant_type()
        elif word == "enum":
            found = self._enum_type()
        else:
            found = self._alias(word)
        self._depth -= 1
        return found

    def _alias(self, word: str) -> Type:
        """Return the type of the longest name that the words from here on are."""
        if word == "const":
            word = self._word()
        while self._kinds[self._at] == "word":
            longer = f"{word} {self._tokens[self._at]}"
            if self._find("", word) is not None and self._find("", longer) is None:
                break
            word = longer
            self._at += 1
        return self._known("", word)

    def _integer_type(self, text: str) -> IntegerType:
        found = self._integers.get(text)
        if found is None:
            body = text[text.index("{") + 1 : -1]
            settings: dict[str, _Value] = {}
            at = 0
            while at < len(body) and (match := _SETTING.match(body, at)):
                number = _number_of(match[2])
                settings[match[1]] = match[2] if number is None else number
                at = match.end()
            if body[at:].strip():
                self._fail(f"{body[at:].strip()[:40]!r} in an integer")
            found = self._integers[text] = self._integer_of(settings)
        return found

    def _integer_of(self, settings: dict[str, _Value]) -> IntegerType:
        unknown = settings.keys() - {
            "size", "align", "signed", "byte_order", "base", "encoding", "map",
        }  # fmt: skip
        if unknown:
            self._fail(f"an integer has {min(unknown)[:40]!r}")
        size = self._integer(settings, "size", 0)
        if not 1 <= size <= 64:
            self._fail("an integer has not 1 to 64 bits")
        signed, base = str(settings.get("signed", "false")), str(settings.get("base", "10"))
        encoding = str(settings.get("encoding", "none"))
        if signed not in _TRUE | _FALSE or base not in _BASES or encoding not in _IS_TEXT:
            self._fail("an integer has an unknown sign, base or encoding")
        clock = None
        if (map_ := str(settings.get("map", ""))) != "":
            if not map_.startswith("clock.") or not map_.endswith(".value"):
                self._fail(f"an integer is mapped to {map_[:40]!r}")
            clock = map_.removeprefix("clock.").removesuffix(".value")
        return IntegerType(
            size,
            self._align(settings, size),
            is_signed=signed in _TRUE,
            is_big=self._order(settings.get("byte_order", "native")),
            base=_BASES[base],
            is_text=_IS_TEXT[encoding],
            clock=clock,
        )

    def _align(self, settings: dict[str, _Value], size: int) -> int:
        return self._checked_align(self._integer(settings, "align", 1 if size % 8 else 8))

    def _checked_align(self, align: int) -> int:
        if not 1 <= align <= MAX_ALIGN or align & (align - 1):
            self._fail("an alignment is not a power of two, or too large")
        return align

    def _float_type(self) -> FloatType:
        settings, _ = self._settings()
        exponent, mantissa = (self._integer(settings, key, 0) for key in ("exp_dig", "mant_dig"))
        if (exponent, mantissa) not in {(8, 24), (11, 53)}:
            self._fail("a floating-point number has neither 32 nor 64 bits")
        size = exponent + mantissa
        order = self._order(settings.get("byte_order", "native"))
        return FloatType(size, self._align(settings, size), order)

    def _members(self) -> tuple[tuple[str, Type], ...]:
        """Read the fields of a struct or variant, after its brace."""
        fields: dict[str, Type] = {}
        self._scopes.append({})
        while not self._accept("}"):
            if self._tokens[self._at] in {"typealias", "typedef"}:
                self._declaration()
                continue
            base = self._type()
            while not self._accept(";"):
                name, found = self._declarator(base)
                if name in fields:
                    self._fail(f"{name[:40]!r} is declared twice")
                fields[name] = found
                if self._tokens[self._at] != ";":
                    self._expect(",")
        self._scopes.pop()
        return tuple(fields.items())

    def _struct_type(self) -> StructType:
        name = self._name_before("{")
        if self._accept("{"):
            found = StructType(self._members())
            if self._accept("align"):
                self._expect("(")
                found = StructType(found.fields, self._checked_align(self._number()))
                self._expect(")")
            if name:
                self._declare("struct", name, found)
            return found
        known = self._known("struct", name)
        assert isinstance(known, StructType)
        return known

    def _variant_type(self) -> VariantType:
        name = self._name_before("{", "<")
        tag = None
        if self._accept("<"):
            tag = self._path()
            self._expect(">")
        if self._accept("{"):
            found = VariantType(self._members(), tag)
            if name:
                self._declare("variant", name, found)
            return found
        known = self._known("variant", name)
        assert isinstance(known, VariantType)
        return known if tag is None else VariantType(known.options, tag)

    def _enum_type(self) -> EnumType:
        name = self._name_before("{", ":")
        container: Type | None = None
        if self._accept(":"):
            container = self._type()
        if self._accept("{"):
            if container is None:
                container = self._known("", "int")
            if isinstance(container, EnumType):
                container = container.container
            if not isinstance(container, IntegerType):
                self._fail("the container of an enumeration is not an integer")
            found = EnumType(container, self._enumerators())
            if name:
                self._declare("enum", name, found)
            return found
        known = self._known("enum", name)
        assert isinstance(known, EnumType)
        return known

    def _name_before(self, *signs: str) -> str:
        """Return the name of a type; empty if one of these signs follows at once."""
        return "" if self._tokens[self._at] in signs else self._word()

    def _enumerators(self) -> tuple[tuple[int, int, str], ...]:
        ranges: list[tuple[int, int, str]] = []
        following = 0
        while not self._accept("}"):
            if self._kinds[self._at] == "string":
                label = _ESCAPE.sub(r"\1", self._next()[1:-1])
            else:
                label = self._word()
            low = high = following
            if self._accept("="):
                low = high = self._number()
                if self._accept("..."):
                    high = self._number()
            if high < low:
                self._fail("a range of an enumeration ends before it begins")
            ranges.append((low, high, label))
            following = high + 1
            if self._tokens[self._at] != "}":
                self._expect(",")
            if len(ranges) > _MOST_ENUMERATORS:
                self._fail("an enumeration has too many names")
        return tuple(ranges)


def _number_of(text: str) -> int | None:
    """Return the number that a text is; None if it is none."""
    digits = text.rstrip("uUlL") if text[:1].isdigit() else ""
    try:
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return int(digits, 8)
        return int(digits, 0)
    except ValueError:
        return None
