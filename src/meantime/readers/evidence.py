"""What the beginning of an input says about its format: signs, and how strongly each speaks.

A sign is a test of the first bytes, and sometimes of the file's name. Most are complete: a magic,
or keys that only one format has together. Others are only a condition, after which the reader
looks for itself, so that no other reader is imported.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from meantime.readers.decompress import SUFFIXES
from meantime.readers.source import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Head", "Sign", "Strength", "begins", "keys", "looks", "matches", "named"]

_BINARY_BYTES = 4096
# How far most expressions look.
_ENOUGH_BYTES = 4096
_KEY = re.compile(rb'"([A-Za-z_$@][\w.@-]{0,40})"[ \t\r\n]*:')
# An object or an array with something in it; the name of a thread may begin with a bracket, too.
_JSON = re.compile(rb'(?:\{[ \t\r\n]*"|\[[ \t\r\n]*[\[{"])')


class Strength(IntEnum):
    """How strongly a sign speaks for a format: only the strongest signs of an input count."""

    HINT = 1
    """Only the name of the file speaks for it, or nothing against it."""
    GENERAL = 2
    """Any table, or any log."""
    FORM = 3
    """Its lines or messages have the form of the format."""
    KEYS = 4
    """It has keys, columns or tables that only the format has together."""
    MAGIC = 5
    """It has what no other format has."""


class Head:
    """The beginning of an input: its first 64 kB, and facts about them.

    Attributes:
        data: The bytes, decompressed.
        name: The name of the input.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name

    @cached_property
    def text(self) -> bytes:
        """The bytes without blanks before them."""
        return self.data.lstrip()

    @cached_property
    def bracket(self) -> bytes:
        """The bracket with which JSON or XML begins; empty for anything else."""
        return first if (first := self.text[:1]) in {b"{", b"[", b"<"} else b""

    @cached_property
    def is_json(self) -> bool:
        """Whether it begins like JSON."""
        return self.bracket in {b"{", b"["}

    @cached_property
    def is_surely_json(self) -> bool:
        """Whether it begins as no line of text does: with brackets and a quotation mark."""
        return _JSON.match(self.text) is not None

    @cached_property
    def is_binary(self) -> bool:
        """Whether there are zeros in it, which text does not contain."""
        return b"\0" in self.data[:_BINARY_BYTES]

    @property
    def is_cut(self) -> bool:
        """Whether the input may go on behind it."""
        return len(self.data) >= HEAD_BYTES

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """The keys of all objects of JSON in it; none if it is not JSON."""
        return frozenset(_KEY.findall(self.data) if self.is_json else ())

    def is_named(self, *ends: str) -> bool:
        """Return whether the name ends so, apart from that of a compression."""
        name = self.name.lower()
        for end in SUFFIXES:
            name = name.removesuffix(end)
        return name.endswith(ends)


class Sign(NamedTuple):
    """Something in the beginning of an input that speaks for a format.

    Attributes:
        strength: How strongly.
        what: What is seen, as the rest of a sentence: "begins with FLR".
        is_seen: Tests a beginning.
        asks: Whether the test is only a condition, and the reader's `recognises` decides.
    """

    strength: Strength
    what: str
    is_seen: Callable[[Head], bool]
    asks: bool = False


def begins(*magics: bytes, what: str = "", strength: Strength = Strength.MAGIC) -> Sign:
    """Return the sign of an input that begins with one of these bytes."""
    shown = what or " or ".join(each.decode("ascii").strip("\0\n") for each in magics)
    return Sign(strength, f"begins with {shown}", lambda head: head.data.startswith(magics))


def keys(
    *every: str,
    some: tuple[str, ...] = (),
    none: frozenset[bytes] = frozenset(),
    brackets: bytes = b"{[",
    strength: Strength = Strength.KEYS,
) -> Sign:
    """Return the sign of JSON near whose beginning are all of these keys, and one of `some`.

    None of `none` is among them: these are keys of what is like it.
    """
    needed = frozenset(key.encode() for key in every)
    one_of = frozenset(key.encode() for key in some)

    def is_seen(head: Head) -> bool:
        return (
            head.bracket in brackets
            and needed <= head.keys
            and (not one_of or not one_of.isdisjoint(head.keys))
            and none.isdisjoint(head.keys)
        )

    shown = ", ".join(every)
    if some:
        shown += " and " * bool(every) + f"one of {', '.join(some)}"
    many = len(every) + bool(some) > 1
    return Sign(strength, f"is JSON with the key{'s' * many} {shown}", is_seen)


def matches(
    pattern: bytes,
    what: str,
    strength: Strength = Strength.MAGIC,
    *,
    having: bytes = b"",
    anywhere: bool = False,
    within: int = _ENOUGH_BYTES,
) -> Sign:
    """Return the sign of an input that matches an expression, which is compiled when it is needed.

    Args:
        pattern: The expression; `.` matches a line feed too.
        what: What is seen.
        strength: How strongly it speaks.
        having: Bytes without which it cannot match.
        anywhere: Whether it may match behind the first byte.
        within: Only in so many bytes.
    """

    def is_seen(head: Head) -> bool:
        part = head.data[:within]
        find = re.search if anywhere else re.match
        return having in part and find(pattern, part, re.DOTALL) is not None

    return Sign(strength, what, is_seen)


def looks(what: str, strength: Strength, may_be: Callable[[Head], bool]) -> Sign:
    """Return a sign that the reader looks for itself, in inputs that meet a condition."""
    return Sign(strength, what, may_be, asks=True)


def named(*ends: str, may_be: Callable[[Head], bool]) -> Sign:
    """Return the sign of an input whose name ends so, and which meets a condition."""
    return Sign(
        Strength.HINT,
        f"is called {' or '.join(ends)}",
        lambda head: head.is_named(*ends) and may_be(head),
    )
