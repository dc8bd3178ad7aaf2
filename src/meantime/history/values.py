"""Values as words: a string's code, an integer, or the bits of a double; and back."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import StateTypeError
from meantime.kernels.tail import FLOAT, INT, STR, UNTYPED
from meantime.model.attributes import unicode_of
from meantime.model.columns import add_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, Value

__all__ = ["KIND_NAMES", "Strings", "value_of", "word_of", "words_of"]

KIND_NAMES = {UNTYPED: "no value yet", STR: "str", INT: "int", FLOAT: "float"}

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_WORD = Struct("<q")
_FLOAT = Struct("<d")
# All NaNs are equal, so they are one.
_NAN_WORD = _WORD.unpack(_FLOAT.pack(float("nan")))[0]


class Strings:
    """The strings of a history, coded in order of first appearance.

    Attributes:
        names: By code, the string.
        known: By string, the code.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = list(names)
        self.known: dict[str, int] = {name: code for code, name in enumerate(self.names)}

    def code(self, name: str) -> int:
        """Return a string's code, a new one if there is none."""
        code = self.known.get(name)
        if code is None:
            text = unicode_of(name)
            code = self.known.setdefault(text, len(self.names))
            self.known[name] = code
            if code == len(self.names):
                self.names.append(text)
        return code

    def codes(self, names: Sequence[str]) -> Int32s:
        """Return the code of each of these strings."""
        listed = list(names)
        try:
            "".join(listed).encode()
        except UnicodeEncodeError:
            # some have surrogates, which `code` replaces
            return np.fromiter(map(self.code, listed), np.int32, len(listed))
        return add_codes(self.known, self.names, listed)

    def recall(self, names: Iterable[str]) -> None:
        """Add the next strings of a history on disk, in order of their codes.

        Raises:
            ValueError: If one exists already.
        """
        for name in names:
            if name in self.known:
                raise ValueError(f"a string is defined twice: {name!r}")
            self.known[name] = len(self.names)
            self.names.append(unicode_of(name))


def word_of(value: Value, strings: Strings) -> tuple[int, int, int]:
    """Return a value's word, whether it is null, and its kind.

    Raises:
        StateTypeError: If it is not a value, or an integer beyond 64 bits.
    """
    if type(value) is str:
        code = strings.known.get(value)
        return strings.code(value) if code is None else code, 0, STR
    if value is None:
        return 0, 1, UNTYPED
    if type(value) is int and _LEAST <= value <= _GREATEST:
        return value, 0, INT
    if isinstance(value, str):
        return strings.code(str(value)), 0, STR
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise StateTypeError(
            f"{value!r} is a {type(value).__name__}: a value is None, an int, a float or a str"
        )
    if isinstance(value, float | np.floating):
        # Equal numbers are one value: adding 0.0 turns -0.0 into 0.0 and changes nothing else.
        word = _WORD.unpack(_FLOAT.pack(value + 0.0))[0]
        return word if value == value else _NAN_WORD, 0, FLOAT  # noqa: PLR0124 - only NaN differs from itself
    if not _LEAST <= value <= _GREATEST:
        raise StateTypeError(f"{value} does not fit into 64 bits")
    return int(value), 0, INT


def words_of(
    values: Sequence[Value] | npt.NDArray[Any], strings: Strings
) -> tuple[Int64s, npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """Return the columns of what `word_of` returns for each value."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "if":
        if values.dtype.kind == "i":
            words, kind = np.ascontiguousarray(values, np.int64), INT
        else:
            doubles = values.astype(np.float64) + 0.0
            words, kind = doubles.view(np.int64), FLOAT
            words[np.isnan(doubles)] = _NAN_WORD
        return words, np.zeros(len(values), np.uint32), np.full(len(values), kind, np.uint8)
    coded = [word_of(value, strings) for value in values]
    word, null, kinds = zip(*coded, strict=True)
    return np.array(word, np.int64), np.array(null, np.uint32), np.array(kinds, np.uint8)


def value_of(word: int, kind: int, names: Sequence[str]) -> Value:
    """Return the value that is not null of a word."""
    if kind == STR:
        return names[word]
    if kind == INT:
        return word
    number: float = _FLOAT.unpack(_WORD.pack(word))[0]
    return number
