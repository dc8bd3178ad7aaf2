"""Searching for intervals with a value or tag, and counting them.

Intervals are gathered for windows that grow, so a near one is found without reading what is behind
it, and all of an attribute is read as columns.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import Coded, distinct
from meantime.history.values import Strings, word_of
from meantime.kernels.tail import FLOAT, INT, STR

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s, Value, Values
    from meantime.history.results import Interval, Intervals
    from meantime.history.snapshot import Snapshot

__all__ = ["counts", "nearest"]

# In the first window at most about so many intervals begin, and in none many more than the last.
# More may where there are more attributes, as each has an interval in every window.
_FIRST_ROWS = 2**10
_MOST_ROWS = 2**19
_FIRST_PART = 1024


def nearest(
    snapshot: Snapshot,
    quarks: Int32s,
    time_ns: int,
    value: Value | EllipsisType,
    tag: int | None,
    *,
    backwards: bool,
) -> Interval | None:
    """Return the first matching interval that begins after a time, or the last before it."""
    snapshot.check_time(time_ns)
    segments = snapshot.segments
    matching = _Matching(snapshot, value, tag)
    # the window [low, high) has the beginnings to be searched next
    low, high = (segments.start_ns, time_ns) if backwards else (time_ns + 1, segments.end_ns)
    if low >= high or not len(quarks):
        return None
    snapshot.check_known(quarks, low)
    quarks = quarks[matching.possible(quarks, (low, high))]
    if not len(quarks):
        return None
    first_rows, most_rows = (max(rows, len(quarks)) for rows in (_FIRST_ROWS, _MOST_ROWS))
    width = max(1, (high - low) // _FIRST_PART)
    while width > 1:
        window = (high - width, high) if backwards else (low, low + width)
        if _begin_in(snapshot, quarks, window) <= first_rows:
            break
        width //= 2
    while low < high:
        window = (max(low, high - width), high) if backwards else (low, min(high, low + width))
        found = snapshot.gather(quarks, window)
        begun = found.start_ns >= window[0]
        rows = np.flatnonzero(matching.rows(found) & begun)
        if len(rows):
            start_ns = found.start_ns[rows]
            # of equal times the first attribute, whose rows come first
            best = start_ns.argmax() if backwards else start_ns.argmin()
            return found[int(rows[best])]
        low, high = (low, window[0]) if backwards else (window[1], high)
        begun_rows = np.count_nonzero(begun)
        if begun_rows <= most_rows // 2:
            width *= 2
        elif begun_rows > most_rows:
            width = max(1, width // 2)
    return None


def _begin_in(snapshot: Snapshot, quarks: Int32s, window: tuple[int, int]) -> int:
    """Return about how many intervals begin in a window."""
    counts_of = np.empty(len(quarks), np.int64)
    snapshot.segments.count(quarks, *window, counts_of)
    # each attribute has one that began before
    return int(counts_of.sum()) - len(quarks)


def counts(
    snapshot: Snapshot,
    quarks: Int32s,
    range_ns: tuple[int, int],
    value: Value | EllipsisType,
    tag: int | None,
) -> Int64s:
    """Return how many matching intervals of each attribute overlap a range."""
    matching = _Matching(snapshot, value, tag)
    total = np.zeros(len(quarks), np.int64)
    if not len(quarks):
        return total
    of_quark = np.zeros(len(snapshot.kinds), np.int64)
    different = distinct(quarks)
    different = different[matching.possible(different, range_ns)]
    for first, last, _ in snapshot.groups(different, range_ns, _MOST_ROWS):
        found = snapshot.gather(different[first:last], range_ns)
        rows = matching.rows(found)
        of_quark += np.bincount(found.quark[rows], minlength=len(of_quark))
    return of_quark[quarks]


class _Matching:
    """Whether intervals have a value and a tag."""

    def __init__(self, snapshot: Snapshot, value: Value | EllipsisType, tag: int | None) -> None:
        self._snapshot = snapshot
        self._tag = tag
        self._any = value is ...
        self._null = value is None
        # The code of a string, and the words of a number as an integer and as a double; -2 and None
        # match nothing.
        self._code = -1 if value is None else -2
        self._words: dict[int, int] = {}
        if isinstance(value, str):
            if value in snapshot.strings:
                self._code = snapshot.strings.index(value)
        elif not isinstance(value, EllipsisType) and value is not None:
            word, _, kind = word_of(value, Strings())
            self._words[kind] = word
            # an integer and a double are equal if their values are
            if kind == INT and int(float(word)) == word:
                self._words[FLOAT] = word_of(float(word), Strings())[0]
            elif kind == FLOAT and float(value).is_integer() and -(2**63) <= value < 2**63:
                self._words[INT] = int(value)

    def possible(self, quarks: Int32s, range_ns: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Return for each attribute whether it may have the value, by its type and its limits."""
        if self._any or self._null:
            return np.ones(len(quarks), np.bool_)
        kinds = self._snapshot.kinds[quarks]
        found: npt.NDArray[np.bool_] = (kinds == STR) & (self._code >= 0)
        if FLOAT in self._words:
            found |= kinds == FLOAT
        if INT in self._words and (kinds == INT).any():
            low, high, changes = np.empty((3, len(quarks)), np.int64)
            self._snapshot.segments.bounds(quarks, *range_ns, low, high, changes)
            word = self._words[INT]
            found |= (kinds == INT) & (low <= word) & (word <= high)
        return found

    def rows(self, found: Intervals) -> npt.NDArray[np.bool_]:
        """Return for each interval whether it matches."""
        matches = self._values(found.value)
        return matches if self._tag is None else matches & (found.tag == self._tag)

    def _values(self, column: Values) -> npt.NDArray[np.bool_]:
        if isinstance(column, Coded):
            return np.greater_equal(column.codes, 0) if self._any else column.codes == self._code
        if self._any:
            return np.greater(column.kinds, 0)
        if self._null:
            return np.equal(column.kinds, 0)
        matches: npt.NDArray[np.bool_] = (column.kinds == STR) & (column.words == self._code)
        for kind, word in self._words.items():
            matches |= (column.kinds == kind) & (column.words == word)
        return matches
