"""Filters of intervals by value, by tag, or by both."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.values import KIND_NAMES, Strings, word_of
from meantime.kernels.interval_filter import ANY, EQUAL, NEVER, NONE, SOME
from meantime.kernels.tail import FLOAT, INT, STR

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, Value

__all__ = ["IntervalFilter", "interval_filter"]

_LAST_TAG = np.iinfo(np.int32).max


class IntervalFilter(NamedTuple):
    """The value and the tag that intervals must have to match.

    Attributes:
        modes: By type of values: NEVER for no interval, SOME for any value, NONE for no state,
            EQUAL for one value, ANY for a value or no state.
        words: By type of values, the word of that value.
        tag: The tag; -1 for any, and for none.
    """

    modes: npt.NDArray[np.uint8]
    words: Int64s
    tag: int

    def translated(self, codes: Int32s | None, tags: Int32s | None) -> IntervalFilter:
        """Return the same for a history with codes and tags of its own.

        Args:
            codes: By its own code of a string, the one here; None if they are the same.
            tags: By its own tag plus one, the one here plus one; None if they are the same.
        """
        modes, words, tag = self.modes.copy(), self.words.copy(), self.tag
        if codes is not None and modes[STR] == EQUAL:
            own = np.flatnonzero(codes == words[STR])
            modes[STR], words[STR] = (EQUAL, own[0]) if len(own) else (NEVER, 0)
        if tags is not None and tag >= 0:
            own = np.flatnonzero(tags == tag + 1)
            if len(own):
                tag = int(own[0]) - 1
            else:
                modes[:] = NEVER
        return IntervalFilter(modes, words, tag)

    def matches(self, codes: Int32s) -> npt.NDArray[np.bool_]:
        """Return which strings without tags match; the code of null is -1."""
        mode = NEVER if self.tag >= 0 else self.modes[STR]
        if mode == SOME:
            return np.greater_equal(codes, 0)
        if mode == NEVER:
            return np.zeros(len(codes), np.bool_)
        return np.equal(codes, -1 if mode == NONE else self.words[STR])


def interval_filter(
    value: Value | EllipsisType, tag: int | None, strings: Sequence[str]
) -> IntervalFilter:
    """Return a filter: any value is Ellipsis, no state is None, and any tag is None.

    With a tag, Ellipsis includes stretches without a state, which may have a tag too.
    """
    modes, words = np.full(len(KIND_NAMES), NEVER, np.uint8), np.zeros(len(KIND_NAMES), np.int64)
    if isinstance(value, EllipsisType):
        modes[:] = SOME if tag is None else ANY
    elif value is None:
        modes[:] = NONE
    elif isinstance(value, str):
        if value in strings:
            modes[STR], words[STR] = EQUAL, strings.index(value)
    else:
        word, _, kind = word_of(value, Strings())
        modes[kind], words[kind] = EQUAL, word
        # an integer and a double are equal if their values are
        if kind == INT and int(float(word)) == word:
            modes[FLOAT], words[FLOAT] = EQUAL, word_of(float(word), Strings())[0]
        elif kind == FLOAT and float(value).is_integer() and -(2**63) <= value < 2**63:
            modes[INT], words[INT] = EQUAL, int(value)
    if tag is not None and not 0 <= tag <= _LAST_TAG:
        # no interval has it
        modes[:], tag = NEVER, None
    return IntervalFilter(modes, words, -1 if tag is None else tag)
