"""Damage to bytes: deterministic, given a random generator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Mutation = Callable[[bytes, Random, "Words"], bytes]

__all__ = ["Words", "mutated"]

_INT_EDGES = (-(2**63), 2**63 - 1, 2**63, 2**64, 2**62, 2**31, 2**31 - 1, 2**32, -1, 0, 1, 255)
_NUMBER_TEXTS = (
    *(b"%d" % edge for edge in _INT_EDGES),
    b"9223372036854775806",
    b"-9223372036854775807",
    b"18446744073709551615",
    b"1e400",
    b"-1e400",
    b"1e308",
    b"1e-400",
    b"1E+999999999",
    b"1e18",
    b"0.0000000001",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"-0",
    b"00",
    b"0x7fffffffffffffff",
    b"9" * 5000,
    b"0." + b"9" * 5000,
)
_JSON_VALUES = (
    *(b"null", b"true", b"false", b"{}", b"[]", b'""', b'"x"', b"[[]]", b'{"a":1}', b"[1,2]"),
    *(b'"\\ud800"', b'"\\u0000"', b'"NaN"', b"1.5", b'"1"', b'"a/b/*"'),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_JSON_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
_BRACKETS = re.compile(rb"[\[{]")
_LARGEST = 1 << 20


class Words:
    """What a format's inputs are made of.

    Args:
        tokens: Pieces that mean something in the format.
        others: Other inputs of the format, to be spliced with.
        text: Whether numbers are digits; otherwise they are little-endian bytes.
    """

    def __init__(
        self, tokens: Sequence[bytes] = (), others: Sequence[bytes] = (), *, text: bool = False
    ) -> None:
        self.tokens = tokens
        self.others = others
        self.text = text


def mutated(data: bytes, random: Random, words: Words) -> bytes:
    """Return the bytes with one to a few kinds of damage, mostly one."""
    kinds = _ANY + (_TEXT if words.text else _BINARY)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        data = random.choice(kinds)(data, random, words)[:_LARGEST]
    return data


def _chunk(data: bytes, random: Random) -> tuple[int, int]:
    """Return the range of a chunk, mostly a small one."""
    begin = random.randrange(len(data) + 1)
    longest = random.choice((1, 4, 16, 64, 512, len(data)))
    return begin, min(len(data), begin + random.randint(0, max(longest, 1)))


def _cut(data: bytes, random: Random, words: Words) -> bytes:
    del words
    return data[: random.randrange(len(data) + 1)]


def _cut_front(data: bytes, random: Random, words: Words) -> bytes:
    del words
    return data[random.randrange(len(data) + 1) :]


def _flip_bits(data: bytes, random: Random, words: Words) -> bytes:
    del words
    flipped = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8)) if data else 0):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _set_bytes(data: bytes, random: Random, words: Words) -> bytes:
    del words
    begin, end = _chunk(data, random)
    return (
        data[:begin] + random.choice((b"\0", b"\xff", b"\x80", b" ")) * (end - begin) + data[end:]
    )


def _splice(data: bytes, random: Random, words: Words) -> bytes:
    other = random.choice(words.others) if words.others else data
    if random.random() < 0.5:
        return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]
    begin, end = _chunk(other, random)
    place = random.randrange(len(data) + 1)
    return data[:place] + other[begin:end] + data[place:]


def _repeat(data: bytes, random: Random, words: Words) -> bytes:
    del words
    begin, end = _chunk(data, random)
    times = random.choice((1, 1, 2, 10, 300))
    return data[:end] + data[begin:end] * times + data[end:]


def _delete(data: bytes, random: Random, words: Words) -> bytes:
    del words
    begin, end = _chunk(data, random)
    return data[:begin] + data[end:]


def _insert_token(data: bytes, random: Random, words: Words) -> bytes:
    begin, end = _chunk(data, random)
    if random.random() < 0.5:
        end = begin
    token = random.choice(words.tokens or (b"\0",)) * random.choice((1, 1, 1, 2, 30, 1000))
    return data[:begin] + token + data[end:]


def _lines(data: bytes, random: Random, words: Words) -> bytes:
    """Delete, repeat or exchange lines."""
    del words
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines[one] *= random.choice((2, 3, 200))
    elif kind == 2:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        lines.insert(one, lines[two])
    return b"".join(lines)


def _replace(data: bytes, random: Random, pattern: re.Pattern[bytes], by: bytes) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + by + data[match.end() :]


def _replace_number(data: bytes, random: Random, words: Words) -> bytes:
    del words
    for _ in range(random.choice((1, 1, 2, 4))):
        data = _replace(data, random, _NUMBER, random.choice(_NUMBER_TEXTS))
    return data


def _same_number(data: bytes, random: Random, words: Words) -> bytes:
    """Put one extreme in the place of every occurrence of a number: times and ids must agree."""
    del words
    found = _NUMBER.findall(data)
    if not found:
        return data
    number, by = random.choice(found), random.choice(_NUMBER_TEXTS[:-2])
    return re.sub(rb"(?<![\d.])" + re.escape(number) + rb"(?![\d.])", by, data)


def _replace_json(data: bytes, random: Random, words: Words) -> bytes:
    del words
    values = random.choice((_JSON_VALUES, _NUMBER_TEXTS))
    return _replace(data, random, _JSON_SCALAR, random.choice(values))


def _nest(data: bytes, random: Random, words: Words) -> bytes:
    """Open something many times."""
    del words
    depth = random.choice((50, 1000, 5000, 100_000))
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b'"', b"")))
    inside = b"1" if random.random() < 0.5 else b""
    nested = opening * depth + inside + closing * (depth if random.random() < 0.7 else 0)
    pattern = random.choice((_JSON_SCALAR, _BRACKETS))
    return _replace(data, random, pattern, nested)


def _set_integer(data: bytes, random: Random, words: Words) -> bytes:
    """Write an extreme, or one more or less than there was, of 1 to 8 bytes."""
    del words
    size = random.choice((1, 2, 4, 4, 8, 8))
    if len(data) < size:
        return data
    place = random.randrange(len(data) - size + 1)
    if random.random() < 0.7:
        place -= place % size
    before = int.from_bytes(data[place : place + size], "little")
    bits = 8 * size
    value = random.choice(
        (
            *_INT_EDGES,
            *(1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 1, 1 << (bits - 8)),
            *(before + 1, before - 1, before * 2, before + 64, -before),
            random.getrandbits(bits),
        )
    )
    return data[:place] + (value % (1 << bits)).to_bytes(size, "little") + data[place + size :]


_ANY: tuple[Mutation, ...] = (
    *(_cut, _cut_front, _flip_bits, _flip_bits, _set_bytes, _splice, _repeat, _delete),
    *(_insert_token, _insert_token),
)
_TEXT: tuple[Mutation, ...] = (
    *(_lines, _lines, _replace_number, _replace_number, _replace_number, _same_number),
    *(_same_number, _replace_json, _replace_json, _nest),
)
_BINARY: tuple[Mutation, ...] = (_set_integer,) * 8
