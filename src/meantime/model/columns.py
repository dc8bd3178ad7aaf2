"""Coded and mixed columns of values, the interner that codes them, and aliases of array types."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Generic, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

__all__ = [
    "Coded",
    "Int32s",
    "Int64s",
    "Interner",
    "Mixed",
    "TextTable",
    "Value",
    "Values",
    "add_codes",
    "distinct",
    "exact_sum",
    "first_rows",
    "named",
    "part_of",
    "ranked",
]

Int32s: TypeAlias = "npt.NDArray[np.int32]"
Int64s: TypeAlias = "npt.NDArray[np.int64]"
Value: TypeAlias = "int | float | str | None"


_T = TypeVar("_T", bound=Hashable)
_SMALL_SPAN = 1 << 16


class _Codes(dict[_T, int]):
    """Values to codes; a look-up adds what is missing, so the known ones need no Python code."""

    __slots__ = ("_hashed", "_names")

    def __init__(self, names: list[_T]) -> None:
        self._names = names
        # how many of the names are known here
        self._hashed = 0
        self._hash_all()

    def _hash_all(self) -> None:
        first = self._hashed
        self._hashed = len(self._names)
        if first < self._hashed:
            # of equal names the first keeps its code
            deque(map(self.setdefault, self._names[first:], count(first)), 0)

    def __missing__(self, value: _T) -> int:
        names = self._names
        if self._hashed < len(names):
            self._hash_all()
            return self[value]
        self[value] = code = len(names)
        names.append(value)
        self._hashed += 1
        return code

    def add_all(self, values: list[_T]) -> Int32s:
        """Return the codes of values, adding those that are missing."""
        self._hash_all()
        codes = add_codes(self, self._names, values)
        self._hashed = len(self._names)
        return codes


def add_codes(known: dict[_T, int], names: list[_T], values: list[_T]) -> Int32s:
    """Return the codes of values, adding those that are missing, faster than one by one.

    Args:
        known: The codes by value.
        names: The values by code.
        values: The values, of which some may be equal.

    >>> known, names = {"idle": 0}, ["idle"]
    >>> add_codes(known, names, ["busy", "idle", "busy", "off"]).tolist(), names
    ([1, 0, 1, 2], ['idle', 'busy', 'off'])
    """
    first = len(names)
    # a new value gets the code that it has if all are new and different: one hash each
    codes = np.fromiter(map(known.setdefault, values, count(first)), np.int32, len(values))
    is_new = codes == np.arange(first, first + len(values))
    if is_new.all():
        names += values
        return codes
    new = [values[row] for row in np.flatnonzero(is_new).tolist()]
    known.update(zip(new, count(first)))
    names += new
    code_of = first - 1 + np.cumsum(is_new, dtype=np.int32)
    rows = np.flatnonzero(codes >= first)
    codes[rows] = code_of[codes[rows] - first]
    return codes


class Interner(Generic[_T]):
    """Codes for values in a table, to which new values are appended.

    Args:
        names: The table, for example `Trace.values` or `Trace.paths`. Values that are already in
            it keep their codes.

    >>> table = ["idle"]
    >>> states = Interner(table)
    >>> states.code("busy"), states.code("idle"), states.code("busy"), table
    (1, 0, 1, ['idle', 'busy'])
    >>> states.codes(["off", "busy", "off", "on"]).tolist(), table
    ([2, 1, 2, 3], ['idle', 'busy', 'off', 'on'])
    """

    __slots__ = ("_codes",)

    def __init__(self, names: list[_T]) -> None:
        self._codes = _Codes(names)

    def code(self, value: _T) -> int:
        """Return a value's code, assigning a new one if necessary."""
        return self._codes[value]

    def codes(self, values: Iterable[_T]) -> Int32s:
        """Return the codes of many values, in a third of the time of a call for each."""
        if isinstance(values, list):
            return self._codes.add_all(values)
        return np.fromiter(map(self._codes.__getitem__, values), np.int32)


class Coded:
    """A column of strings: a code per row and the strings by code; -1 is None.

    >>> column = Coded.of(["on", None, "off", "on"])
    >>> column.codes.tolist(), column.names
    ([0, -1, 1, 0], ['on', 'off'])
    >>> column[2], len(column)
    ('off', 4)
    """

    __slots__ = ("codes", "names")

    def __init__(self, codes: Int32s, names: Sequence[str]) -> None:
        self.codes: Int32s = codes
        self.names: Sequence[str] = names

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Coded:
        """Return the column of these values, coded in order of first appearance."""
        names: list[str] = []
        code = Interner(names).code
        codes = [-1 if value is None else code(value) for value in values]
        return cls(np.array(codes, np.int32), names)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: SupportsIndex) -> str | None:
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]

    def to_list(self) -> list[str | None]:
        """Return the values as Python objects."""
        return [self[row] for row in range(len(self))]

    def __repr__(self) -> str:
        return f"Coded({len(self.codes):,} rows of {len(self.names):,} strings)"


class TextTable(Sequence[str]):
    """Strings by code, as UTF-8 in one text: a million of them need no Python objects.

    >>> texts = TextTable(["on", "off"])
    >>> texts.extend(["idle"])
    >>> texts[2], len(texts)
    ('idle', 3)
    """

    __slots__ = ("_offsets", "_text")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._text = bytearray()
        self._offsets = array("q", [0])
        self.extend(texts)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        codes = range(len(self))[index]
        if isinstance(codes, range):
            return [self[code] for code in codes]
        return self._text[self._offsets[codes] : self._offsets[codes + 1]].decode()

    def copy(self) -> TextTable:
        """Return the same strings, to which others can be appended."""
        other = TextTable()
        other._text, other._offsets = self._text[:], self._offsets[:]
        return other

    def extend(self, texts: Iterable[str]) -> None:
        """Append strings."""
        encoded = [text.encode() for text in texts]
        self.add(b"".join(encoded), np.cumsum([*map(len, encoded)], dtype=np.int64))

    def add(self, text: bytes, ends: Int64s) -> None:
        """Append strings that are joined, as UTF-8, each with its end there."""
        self._offsets.frombytes((ends + len(self._text)).tobytes())
        self._text += text

    def columns(self) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """Return all strings joined, and where each begins and the last one ends.

        Nothing can be appended as long as one of these is in use.
        """
        return np.frombuffer(self._text, np.uint8), np.frombuffer(self._offsets, np.int64)

    def lengths(self) -> Int64s:
        """Return how many bytes each string has.

        >>> TextTable(["on", ""]).lengths().tolist()
        [2, 0]
        """
        return np.diff(self.columns()[1])

    def beginning_with(self, character: str) -> npt.NDArray[np.bool_]:
        """Return which strings begin with a character of ASCII.

        >>> TextTable(["{1}", "", "{"]).beginning_with("{").tolist()
        [True, False, True]
        """
        text, offsets = self.columns()
        is_there = np.append(text == ord(character), False)[offsets[:-1]]
        return is_there & (np.diff(offsets) > 0)

    def __repr__(self) -> str:
        return f"TextTable({len(self):,})"


class Mixed:
    """A column of values of several types: numbers and strings.

    Attributes:
        kinds: The type of each row: 0 None, 1 str, 2 int, 3 float.
        words: A string's code, an int, or the bits of a float; 0 for None.
        names: The strings by code.

    >>> column = Mixed(np.array([0, 2], np.uint8), np.array([0, 7]), [])
    >>> column.to_list()
    [None, 7]
    """

    __slots__ = ("kinds", "names", "words")

    def __init__(self, kinds: npt.NDArray[np.uint8], words: Int64s, names: Sequence[str]) -> None:
        self.kinds: npt.NDArray[np.uint8] = kinds
        self.words: Int64s = words
        self.names: Sequence[str] = names

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: SupportsIndex) -> Value:
        kind = int(self.kinds[row])
        if kind == 0:
            return None
        if kind == 1:
            return self.names[int(self.words[row])]
        word = self.words[row]
        return int(word) if kind == 2 else float(word.view(np.float64))

    @classmethod
    def of_strings(cls, column: Coded) -> Mixed:
        """Convert a column of strings to a mixed column.

        >>> Mixed.of_strings(Coded.of(["on", None])).to_list()
        ['on', None]
        """
        some = column.codes >= 0
        return cls(
            some.astype(np.uint8), np.where(some, column.codes, 0).astype(np.int64), column.names
        )

    def to_list(self) -> list[Value]:
        """Return the values as Python objects."""
        return [self[row] for row in range(len(self))]

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the numbers as doubles: NaN for other values, ints rounded to nearest."""
        numbers = np.where(self.kinds == 2, self.words.astype(np.float64), np.nan)
        floats = self.kinds == 3
        numbers[floats] = self.words[floats].view(np.float64)
        return numbers

    def __repr__(self) -> str:
        return f"Mixed({len(self):,} rows)"


Values: TypeAlias = "Coded | Mixed"


def part_of(value: Values, rows: slice | npt.NDArray[np.intp]) -> Values:
    """Return some rows of a column of values.

    >>> part_of(Coded.of(["a", "b", "a"]), slice(1, 3)).to_list()
    ['b', 'a']
    """
    if isinstance(value, Coded):
        return Coded(value.codes[rows], value.names)
    return Mixed(value.kinds[rows], value.words[rows], value.names)


def named(value: Values) -> Coded:
    """Return values as names: numbers as text.

    >>> named(Mixed(np.array([2, 0, 2], np.uint8), np.array([7, 0, 7]), [])).to_list()
    ['7', None, '7']
    """
    if isinstance(value, Coded):
        return value
    pairs = np.stack([value.kinds.astype(np.int64), value.words], axis=1)
    _, first, code = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    names = [str(value[row]) for row in first.tolist()]
    codes = np.where(value.kinds == 0, -1, code.reshape(-1)).astype(np.int32)
    return Coded(codes, names)


_ScalarT = TypeVar("_ScalarT", bound="np.generic")


def distinct(column: npt.NDArray[_ScalarT]) -> npt.NDArray[_ScalarT]:
    """Return the different values of a column in ascending order.

    It is `np.unique` of numbers without masked arrays, whose import takes 12 ms, and without its
    table of hashes, which takes ten times as long as sorting a million different numbers.

    >>> distinct(np.array([3, 1, 3], np.int32)).tolist()
    [1, 3]
    """
    ordered = np.sort(column)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def first_rows(column: Int32s | Int64s, numbers: npt.ArrayLike) -> Int64s:
    """Return the first row of each number, or where it would be, in a column in ascending order.

    If the numbers had another type, `np.searchsorted` would convert the whole column to it.

    >>> first_rows(np.array([3, 3, 5], np.int32), [3, 4, 6]).tolist()
    [0, 2, 3]
    """
    return np.searchsorted(column, np.asarray(numbers, column.dtype))


def ranked(column: Int32s | Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values of a column in ascending order, and the index of each row's.

    Values that are close together, such as ids, are not sorted: a tenth of the time.

    >>> different, index = ranked(np.array([30, -1, 30]))
    >>> different.tolist(), index.tolist()
    ([-1, 30], [1, 0, 1])
    """
    low = int(column.min()) if len(column) else 0
    span = int(column.max()) - low + 1 if len(column) else 0
    if span > 4 * len(column) + _SMALL_SPAN:
        different, index = np.unique(column, return_inverse=True)
        return different.astype(np.int64), index.astype(np.int64)
    place = column - low
    occurs = np.zeros(span, np.bool_)
    occurs[place] = True
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[place]


def exact_sum(column: npt.NDArray[np.int64 | np.uint64]) -> int:
    """Return the sum of a column exactly, even if it exceeds 64 bits.

    >>> exact_sum(np.array([2**62, 2**62, -1]))
    9223372036854775807
    """
    # neither half can overflow with fewer than 2**31 rows
    return (int((column >> 32).sum()) << 32) + int((column & 0xFFFFFFFF).sum())
