"""The durations of groups, kept so that those of several histories add up.

The figures of a sum do not depend on the order of the histories, or on which were added first: all
durations are kept, or they are counted in cells that are the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.model.columns import ranked
from meantime.model.durations import PERCENTS, nearest_rank, values_at
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "BITS",
    "SKETCH_ERROR",
    "DurationSums",
    "DurationsBuilder",
    "Keep",
    "bit_lengths",
    "bucket_count",
    "bucket_edges",
    "check_sum",
]

Keep: TypeAlias = Literal["exact", "sketch"]

# A power of two is divided into 2 to the power of this cells: the durations of one
# are within 1 % of each other.
BITS = 7
# How far the middle of a cell is from any duration in it, as a part of that, at most.
SKETCH_ERROR = 0.5 ** (BITS + 1)
# The next power of two above the number of cells.
_CELLS_BITS = 13
# A stored cell has at most so many: those of all its cells are then a number of 64 bits.
_MOST_COUNT = 1 << 41
# So many counted cells wait until they are added up.
_WAITING_ROWS = 1 << 20

_Key = TypeVar("_Key", bound="Hashable")


@struct
class DurationSums(Generic[_Key]):
    """The durations of groups: all of them, or how many are in which cell.

    Attributes:
        keys: The groups; each has at least one duration.
        offsets: int64: group i has the rows [offsets[i], offsets[i + 1]).
        rows: int64, durations, in no particular order; with `counts` the cells, ascending.
        counts: int64, how many durations are in each cell; None if all durations are kept. A cell
            is at most 2^-7 of its durations wide.
    """

    keys: list[_Key]
    offsets: Int64s
    rows: Int64s
    counts: Int64s | None = None

    @property
    def keep(self) -> Keep:
        """Whether quantiles are exact, or from a sketch: within 2^-8 of a duration of that rank."""
        return "exact" if self.counts is None else "sketch"

    def quantiles(self) -> dict[_Key, list[int]]:
        """Return the quantiles of each group by `PERCENTS`: nearest rank, or the cell's middle."""
        found = {}
        lows, shifts = bucket_edges(BITS)
        for key, (begin, end) in zip(self.keys, pairwise(self.offsets.tolist()), strict=True):
            if self.counts is None:
                ranks = [nearest_rank(end - begin, each) for each in PERCENTS]
                found[key] = values_at(self.rows[begin:end], ranks)
                continue
            ends = np.cumsum(self.counts[begin:end])
            ranks = [nearest_rank(int(ends[-1]), each) for each in PERCENTS]
            cells = self.rows[begin + np.searchsorted(ends, ranks, side="right")]
            found[key] = (lows[cells] + ((np.int64(1) << shifts[cells]) - 1 >> 1)).tolist()
        return found

    def of_group(self, at: int, key: _Key) -> DurationSums[_Key]:
        """Return the durations of one group, by its number, with another key."""
        rows = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        counts = None if self.counts is None else self.counts[rows]
        offsets = np.array([0, rows.stop - rows.start], np.int64)
        return DurationSums([key], offsets, self.rows[rows], counts)

    def renamed(self, keys: Sequence[_Key]) -> DurationSums[_Key]:
        """Return the same durations for groups with other keys."""
        return DurationSums(list(keys), self.offsets, self.rows, self.counts)

    @classmethod
    def of_cells(
        cls, keys: list[_Key], sizes: Int64s, cells: Int64s, counts: Int64s
    ) -> DurationSums[_Key]:
        """Return a sketch that was stored.

        Args:
            keys: The groups.
            sizes: How many cells each has.
            cells: The cells, group by group.
            counts: How many durations are in each.

        Raises:
            ValueError: If it is none.
        """
        offsets = _offsets(sizes.tolist())
        are_groups = len(set(keys)) == len(keys) == len(sizes) and sizes.min(initial=1) > 0
        if not are_groups or int(offsets[-1]) != len(cells) or len(cells) != len(counts):
            raise ValueError("the groups of durations are damaged")
        is_first = np.zeros(len(cells), np.bool_)
        is_first[offsets[:-1]] = True
        ascend = (np.diff(cells, prepend=-1) > 0) | is_first
        in_range = cells.min(initial=0) >= 0 and cells.max(initial=0) < len(bucket_edges(BITS)[0])
        if not (ascend.all() and in_range and counts.min(initial=1) > 0):
            raise ValueError("a sketch of durations is damaged")
        if counts.max(initial=0) > _MOST_COUNT:
            raise ValueError("a sketch has too many durations")
        return cls(keys, offsets, cells, counts)

    @classmethod
    def added(cls, parts: Sequence[DurationSums[_Key]]) -> DurationSums[_Key]:
        """Return the durations of all parts, by key.

        Raises:
            UsageError: If some are a sketch and others are not.
        """
        if len({part.keep for part in parts}) > 1:
            raise UsageError("a sketch of durations and exact durations cannot be added")
        if len(parts) == 1 and parts[0].keys == sorted(parts[0].keys, key=repr):
            return parts[0]
        pieces: dict[_Key, list[tuple[DurationSums[_Key], slice]]] = {}
        for part in parts:
            for key, rows in zip(part.keys, pairwise(part.offsets.tolist()), strict=True):
                pieces.setdefault(key, []).append((part, slice(*rows)))
        keys = sorted(pieces, key=repr)
        if not parts or parts[0].counts is None:
            runs = [part.rows[piece] for key in keys for part, piece in pieces[key]]
            sizes = [sum(piece.stop - piece.start for _, piece in pieces[key]) for key in keys]
            return cls(keys, _offsets(sizes), np.concatenate([np.empty(0, np.int64), *runs]))
        groups = [
            _cells_added(
                np.concatenate([part.rows[piece] for part, piece in pieces[key]]),
                np.concatenate(
                    [part.counts[piece] for part, piece in pieces[key] if part.counts is not None]
                ),
            )
            for key in keys
        ]
        none = np.empty(0, np.int64)
        return cls(
            keys,
            _offsets([len(cells) for cells, _ in groups]),
            np.concatenate([none, *(cells for cells, _ in groups)]),
            np.concatenate([none, *(counts for _, counts in groups)]),
        )


@dataclass(slots=True, eq=False, repr=False)
class DurationsBuilder:
    """Gathers the durations of numbered groups.

    Args:
        keep: Whether to keep all durations, or a sketch.
    """

    keep: Keep
    _groups: list[Int32s] = field(init=False, default_factory=list)
    _durations: list[Int64s] = field(init=False, default_factory=list)
    _cells: list[tuple[Int64s, Int64s]] = field(init=False, default_factory=list)
    _waiting: int = field(init=False, default=0)

    def add(self, groups: Int32s, durations_ns: Int64s) -> None:
        """Add durations of these groups."""
        if self.keep == "exact":
            self._groups.append(groups)
            self._durations.append(durations_ns)
            return
        packed = groups.astype(np.int64) << _CELLS_BITS | _cells(durations_ns)
        self._cells.append(_cells_added(packed, np.ones(len(packed), np.int64)))
        self._waiting += len(self._cells[-1][0])
        if self._waiting > _WAITING_ROWS:
            self._cells, self._waiting = [self._counted()], 0

    def _counted(self) -> tuple[Int64s, Int64s]:
        none = np.empty(0, np.int64)
        columns = zip(*self._cells, strict=True) if self._cells else ((none,), (none,))
        packed, counts = (np.concatenate(column) for column in columns)
        return _cells_added(packed, counts)

    def build(self, keys: Sequence[_Key]) -> DurationSums[_Key]:
        """Return the durations; `keys` are the keys of the groups by their numbers."""
        if self.keep == "sketch":
            packed, counts = self._counted()
            groups, rows = packed >> _CELLS_BITS, packed & ((1 << _CELLS_BITS) - 1)
            ends = np.searchsorted(groups, np.arange(len(keys)), side="right")
            return _of_groups(keys, ends, rows, counts)
        group = np.concatenate([np.empty(0, np.int32), *self._groups])
        durations = np.concatenate([np.empty(0, np.int64), *self._durations])
        # NumPy sorts integers of one and two bytes by counting
        narrow = group
        if len(keys) <= 1 << 16:
            narrow = group.astype(np.uint8 if len(keys) <= 1 << 8 else np.uint16)
        durations = durations[np.argsort(narrow, kind="stable")]
        ends = np.cumsum(np.bincount(group, minlength=len(keys)))
        return _of_groups(keys, ends, durations, None)


def bucket_count(bits: int) -> int:
    """Return how many buckets there are if each power of two has 2^bits of them."""
    return (64 - bits) << bits


@cache
def bucket_edges(bits: int) -> tuple[Int64s, Int64s]:
    """Return where each bucket begins, and which power of two its length is."""
    number = np.arange(bucket_count(bits), dtype=np.int64)
    shift = np.maximum((number >> bits) - 1, 0)
    into = number & ((1 << bits) - 1)
    return np.where(number >> bits, (into + (1 << bits)) << shift, number), shift


def _offsets(sizes: Sequence[int]) -> Int64s:
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))])


def _of_groups(
    keys: Sequence[_Key], ends: npt.NDArray[np.intp], rows: Int64s, counts: Int64s | None
) -> DurationSums[_Key]:
    """Return the sums of those groups that have rows."""
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    used = np.flatnonzero(np.diff(offsets))
    kept = [keys[group] for group in used.tolist()]
    return DurationSums(kept, np.concatenate([[0], offsets[used + 1]]), rows, counts)


def bit_lengths(numbers: Int64s) -> Int64s:
    """Return how many bits each number has, none of which is below 0.

    >>> bit_lengths(np.array([0, 1, 2, 2**62 - 1])).tolist()
    [0, 1, 2, 62]
    """
    bits = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    # a double may have been rounded up to the next power of two
    bits -= (bits > 0) & (numbers >> np.maximum(bits - 1, 0) == 0)
    return bits


def _cells(durations_ns: Int64s) -> Int64s:
    """Return the cell of each duration, as `bucket_edges` numbers them."""
    bits = bit_lengths(durations_ns)
    shift = np.maximum(bits - 1 - BITS, 0)
    wide = bits > BITS
    cells: Int64s = np.where(wide, (shift << BITS) + (durations_ns >> shift), durations_ns)
    return cells


def _cells_added(cells: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return cells in ascending order, each once, and how many durations are in each."""
    different, index = ranked(cells)
    sums = np.zeros(len(different), np.int64)
    np.add.at(sums, index, counts)
    return different, sums


def check_sum(columns: Iterable[Int64s], what: str) -> None:
    """Check that columns of int64 can be added, whichever of their rows are.

    Raises:
        MeantimeError: If a sum may exceed 64 bits; `what` is in the message.
    """
    ends = [(int(column.max(initial=0)), -int(column.min(initial=0))) for column in columns]
    if sum(max(each) for each in ends) > np.iinfo(np.int64).max:
        raise MeantimeError(
            f"{what} add up to more than 2^63; a time or a weight is probably wrong"
        )
