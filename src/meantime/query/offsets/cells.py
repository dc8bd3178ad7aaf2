"""Counts times and intervals, in any order and number of batches, in the cells of a map."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import TimeRangeError
from meantime.kernels import heat
from meantime.query.offsets.fold import edges_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.model.columns import Int64s
    from meantime.query.offsets.fold import Fold

__all__ = ["Cells", "CellsBuilder", "merge_cells"]

_SLICE = 2**17
# 146 years: the difference of two times, doubled, still fits into 64 bits.
_FARTHEST_NS = 2**62
# Keys with fewer rows in a slice share one hash table: a window for each would cost more.
_MANY = 512


class Cells(NamedTuple):
    """Cells that are not zero, in order of their numbers.

    Attributes:
        number: column * rows + row, ascending.
        value: Its value; never 0.
    """

    number: Int64s
    value: Int64s


def merge_cells(parts: Sequence[Cells | None]) -> Cells:
    """Return the sum of all parts, cell by cell."""
    some = [part for part in parts if part is not None and len(part.number)]
    if len(some) == 1:
        return some[0]
    first = min((int(part.number[0]) for part in some), default=0)
    span = max((int(part.number[-1]) for part in some), default=0) - first + 1
    # adding to a dense array is faster than sorting, unless it is mostly empty
    if span <= 2 * sum(len(part.number) for part in some):
        totals = np.zeros(span, np.int64)
        for part in some:
            totals[part.number - first] += part.value
        busy = np.flatnonzero(totals)
        return Cells(busy + first, totals[busy])
    numbers = np.concatenate([np.zeros(0, np.int64), *[part.number for part in some]])
    values = np.concatenate([np.zeros(0, np.int64), *[part.value for part in some]])
    return Cells(*_merged(np.zeros(len(numbers), np.int64), numbers, values)[1:])


class CellsBuilder:
    """Counts times and intervals in the cells of a fold, for each key or in total.

    A time far from all others needs memory for its own cell only. Values are exact integers.
    Intervals are half-open, and each adds to every cell it touches the nanoseconds it has in it.

    >>> from meantime.query.offsets import Fold
    >>> cells = CellsBuilder(Fold(origin_ns=0, period_ns=10, rows=2))
    >>> cells.add_intervals(np.array([3]), np.array([21]))
    >>> for number, value in zip(*cells.build()[0], strict=True):
    ...     print(divmod(int(number), 2), int(value))
    (0, 0) 2
    (0, 1) 5
    (1, 0) 5
    (1, 1) 5
    (2, 0) 1
    """

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._edges = edges_ns(fold.period_ns, fold.rows)
        self._counts = defaultdict[int, _Window](partial(_Window, fold, heat.count, ()))
        self._covers = defaultdict[int, _Window](partial(_Window, fold, heat.cover, (2,)))
        self._tally = _Tally()
        self._changes = _Tally()

    def add_times(
        self, time_ns: Int64s, *, keys: Int64s | None = None, weights: Int64s | None = None
    ) -> None:
        """Add to the cell of each time its weight, which is 1 without `weights`.

        Args:
            time_ns: The times.
            keys: For each time its key, from 0; without keys, all have key 0.
            weights: For each time, what it adds.

        Raises:
            TimeRangeError: If times are more than 146 years apart.
        """
        for part in _slices(len(time_ns)):
            times = np.ascontiguousarray(time_ns[part], np.int64)
            if weights is not None:
                each = np.zeros(len(times), np.int64) if keys is None else keys[part]
                self._tally.add(self._numbers(times, times)[0], each, weights[part])
                continue
            for key, group in _groups(len(times), None if keys is None else keys[part]):
                rest = times[group]
                if isinstance(key, int):
                    rest = rest[self._counts[key].add(rest) :]
                if len(rest):
                    one = np.ones(len(rest), np.int64)
                    self._tally.add(self._numbers(rest, rest)[0], key * one, one)

    @property
    def taken(self) -> int:
        """How many cells of all keys have a weight."""
        return self._tally.taken

    def add_cells(self, number: Int64s, keys: Int64s, value: Int64s) -> None:
        """Add a value to each of these cells, for its key."""
        for part in _slices(len(number)):
            self._tally.add(np.ascontiguousarray(number[part], np.int64), keys[part], value[part])

    def add_intervals(
        self, start_ns: Int64s, end_ns: Int64s, *, keys: Int64s | None = None
    ) -> None:
        """Add to each cell the ns that each interval [start, end) spends in it.

        Raises:
            TimeRangeError: If an interval ends before it starts, or times are more than 146 years
                apart.
        """
        for part in _slices(len(start_ns)):
            starts = np.ascontiguousarray(start_ns[part], np.int64)
            ends = np.ascontiguousarray(end_ns[part], np.int64)
            for key, group in _groups(len(starts), None if keys is None else keys[part]):
                begin, end = starts[group], ends[group]
                if isinstance(key, int):
                    done = self._covers[key].add(begin, end)
                    begin, end = begin[done:], end[done:]
                if len(begin):
                    self._add_changes(begin, end, key)

    def _add_changes(self, starts: Int64s, ends: Int64s, key: Int64s | int) -> None:
        """Add the changes by which intervals differ from cell to cell.

        As in a difference array, an interval has a fixed cost, however many cells it covers: it
        counts with the full width of each cell from the one after its start to that of its end.
        Entry 2 * key has the change of how many intervals do, from the cell before. Entry
        2 * key + 1 adds what a start leaves of its cell, and subtracts what an end leaves of its.
        """
        if (starts > ends).any():
            row = int(np.flatnonzero(starts > ends)[0])
            raise TimeRangeError(f"interval [{starts[row]}, {ends[row]}) ends before it starts")
        one = np.ones(len(starts), np.int64)
        numbers, left = self._numbers(np.stack((starts, ends)).ravel(), ends)
        first, last = np.split(numbers, 2)
        first_left, last_left = np.split(left, 2)
        self._changes.add(first, 2 * key * one + 1, first_left)
        self._changes.add(first + 1, 2 * key * one, one)
        self._changes.add(last, 2 * key * one + 1, -last_left)
        self._changes.add(last + 1, 2 * key * one, -one)

    def build(self) -> dict[int, Cells]:
        """Return the cells of each key that has any."""
        found: dict[int, list[Cells]] = {}
        for entries in (self._tally.entries(), self._covered()):
            keys, numbers, values = _merged(*entries)
            firsts = np.flatnonzero(_differs(keys))
            ends = np.append(firsts[1:], len(keys))[: len(firsts)]
            for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
                cells = Cells(numbers[first:end], values[first:end])
                found.setdefault(int(keys[first]), []).append(cells)
        for windows in (self._counts, self._covers):
            for key, window in windows.items():
                found.setdefault(key, []).append(window.totals())
        merged = ((key, merge_cells(found[key])) for key in sorted(found))
        return {key: cells for key, cells in merged if len(cells.number)}

    def _covered(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the running sums of the changes, as key, cell and ns."""
        kinds, numbers, amounts = self._changes.entries()
        order = np.lexsort((numbers, kinds >> 1))
        kinds, numbers, amounts = kinds[order], numbers[order], amounts[order]
        is_whole = kinds & 1 == 0
        keys, whole = kinds >> 1, np.cumsum(np.where(is_whole, amounts, 0))
        firsts = np.flatnonzero(_differs(keys, numbers))
        lasts = np.append(firsts[1:], len(keys))[: len(firsts)] - 1
        keys, numbers, whole = keys[firsts], numbers[firsts], whole[lasts]
        partial = np.add.reduceat(np.where(is_whole, 0, amounts), firsts) if len(firsts) else whole
        # Every interval begins and ends, so `whole` is back at 0 where the next key begins.
        run = np.where(whole > 0, np.diff(numbers, append=numbers[-1:] + 1), 1)
        widths = self.fold.widths_ns()
        _check(whole, widths)
        at = np.repeat(np.arange(len(run)), run)
        step = np.arange(len(at)) - np.repeat(np.cumsum(run) - run, run)
        cells = numbers[at] + step
        values = whole[at] * widths[cells % self.fold.rows]
        values[step == 0] += partial
        return keys[at], cells, values

    def _numbers(self, times: Int64s, latest: Int64s) -> tuple[Int64s, Int64s]:
        """Return the cell of each time, and the time left in that cell."""
        low_ns, high_ns = heat.bounds(times)[0], heat.bounds(latest)[1]
        first = self.fold.column(low_ns)
        base_ns = self.fold.edge_ns(first)
        if high_ns - base_ns >= _FARTHEST_NS or base_ns < -(2**63):
            raise TimeRangeError(
                f"times {low_ns} and {high_ns} are too far apart to fold: at most 146 years"
            )
        numbers, left = heat.cells(times, base_ns, self.fold.period_ns, self._edges)
        numbers += first * self.fold.rows
        return numbers, left


class _Window:
    """A dense array of the cells from one column to another, as long as that is not wasteful."""

    def __init__(self, fold: Fold, kernel: Callable[..., int], columns: tuple[int, ...]) -> None:
        self._fold = fold
        self._kernel = kernel
        self._edges = edges_ns(fold.period_ns, fold.rows)
        self._first = 0
        self._added = 0
        self._cells = np.zeros((0, *columns), np.int64)

    def add(self, *columns: Int64s) -> int:
        """Add times, or starts and ends; return how many: it stops at one that is too far away.

        The first column contains the earliest time, the last column the latest.
        """
        done, length = 0, len(columns[0])
        while done < length:
            rest = [column[done:] for column in columns]
            if len(self._cells):
                base_ns = self._fold.edge_ns(self._first)
                added = self._kernel(*rest, base_ns, self._fold.period_ns, self._edges, self._cells)
                done += added
                self._added += added
                rest = [column[added:] for column in rest]
            if done < length and not self._reach(rest):
                break
        return done

    def _reach(self, columns: list[Int64s]) -> bool:
        """Extend the array to these times, unless it contains them or would be mostly empty."""
        rows, held = self._fold.rows, len(self._cells) // self._fold.rows
        first = self._fold.column(heat.bounds(columns[0])[0])
        # A column more than the last, as an interval's end also changes the cell after it.
        end = self._fold.column(heat.bounds(columns[-1])[1]) + 2
        if held:
            if first >= self._first and end <= self._first + held:
                return False
            first, end = min(first, self._first), max(end, self._first + held)
        # A fixed minimum, and 8 cells for each time: memory stays proportional to the input.
        affordable = (2**13 + 8 * (self._added + len(columns[0]))) // rows
        if end - first > affordable or self._fold.edge_ns(first) < -(2**63):
            return False
        # doubled if affordable, so that growing copies each cell only a few times on average
        length = min(max(end - first, 2 * held), affordable)
        grown = np.zeros((length * rows, *self._cells.shape[1:]), np.int64)
        at = (self._first - first) * rows
        if held:
            grown[at : at + len(self._cells)] = self._cells
        self._first, self._cells = first, grown
        return True

    def totals(self) -> Cells:
        """Return the cells that are not zero."""
        totals = self._cells
        if totals.ndim == 2:
            _check(np.cumsum(totals[:, 0]), self._fold.widths_ns())
            totals = np.empty(len(self._cells), np.int64)
            heat.settle(self._cells, self._edges, totals)
        busy = np.flatnonzero(totals)
        return Cells(busy + self._first * self._fold.rows, totals[busy])


class _Tally:
    """A hash table of totals per key and cell, at most half full."""

    def __init__(self) -> None:
        self.taken = 0
        self._slots = self._free(2**10)

    @staticmethod
    def _free(slots: int) -> tuple[Int64s, Int64s, Int64s]:
        return np.full(slots, -1, np.int64), np.empty(slots, np.int64), np.zeros(slots, np.int64)

    def add(self, numbers: Int64s, keys: Int64s, amounts: Int64s) -> None:
        if 2 * (self.taken + len(numbers)) > len(self._slots[0]):
            kept = self.entries()
            needed = 4 * (self.taken + len(numbers))
            self._slots = self._free(1 << needed.bit_length())
            heat.tally(kept[1], kept[0], kept[2], *self._slots)
        keys = np.ascontiguousarray(keys, np.int64)
        amounts = np.ascontiguousarray(amounts, np.int64)
        self.taken += heat.tally(numbers, keys, amounts, *self._slots)

    def entries(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return key, cell and total of every used slot, in no particular order."""
        taken = np.flatnonzero(self._slots[0] >= 0)
        keys, numbers, totals = self._slots
        return keys[taken], numbers[taken], totals[taken]


def _slices(length: int) -> Iterator[slice]:
    for start in range(0, length, _SLICE):
        yield slice(start, start + _SLICE)


def _groups(
    length: int, keys: Int64s | None
) -> Iterator[tuple[int, slice | Int64s] | tuple[Int64s, Int64s]]:
    """Split rows into those of each key that has many, and the others together with their keys."""
    if keys is None:
        yield 0, slice(length)
        return
    # NumPy sorts 16 bits by radix, ten times as fast as 64.
    small = int(keys.max(initial=0)) < 2**16
    order = np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")
    firsts = np.flatnonzero(_differs(keys[order]))
    counts = np.diff(firsts, append=length)
    for first, count in zip(firsts[counts >= _MANY], counts[counts >= _MANY], strict=True):
        yield int(keys[order[first]]), order[first : first + count]
    few = order[np.repeat(counts < _MANY, counts)]
    if len(few):
        yield keys[few], few


def _differs(*columns: Int64s) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return, for each row of sorted columns, whether it differs from the row before."""
    differs = np.ones(len(columns[0]), np.bool_)
    if len(differs):
        differs[1:] = False
        for column in columns:
            differs[1:] |= column[1:] != column[:-1]
    return differs


def _merged(keys: Int64s, numbers: Int64s, values: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the rows by key and cell, those of one cell added up, without those that are zero."""
    order = np.lexsort((numbers, keys))
    keys, numbers, values = keys[order], numbers[order], values[order]
    firsts = np.flatnonzero(_differs(keys, numbers))
    totals = np.add.reduceat(values, firsts) if len(firsts) else values
    busy = totals != 0
    return keys[firsts][busy], numbers[firsts][busy], totals[busy]


def _check(whole: Int64s, widths_ns: Int64s) -> None:
    if len(whole) and int(whole.max()) * int(widths_ns.max()) >= 2**62:
        raise TimeRangeError(
            "more intervals overlap in a cell than 64 bits of nanoseconds can count; choose a "
            "shorter period or more rows"
        )
