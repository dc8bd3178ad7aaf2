"""The durations of groups, kept so that those of several histories add up.

The sums do not depend on the order of the histories, or on which were added first: durations are
sorted, or counted in cells that are the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.query.state_durations import PERCENTS, bucket_edges, nearest_rank

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s

__all__ = ["DurationSums", "DurationsBuilder", "Keep", "check_sum"]

Keep: TypeAlias = Literal["exact", "sketch"]

# A power of two is divided into 2 to the power of this cells.
_BITS = 7
# The next power of two above the number of cells.
_CELLS_BITS = 13
# So many counted cells wait until they are added up.
_WAITING_ROWS = 1 << 20

_Key = TypeVar("_Key", bound="Hashable")


@dataclass(frozen=True, slots=True, eq=False)
class DurationSums(Generic[_Key]):
    """The durations of groups: all of them in order, or how many are in which cell.

    Attributes:
        keys: The groups; each has at least one duration.
        offsets: int64: group i has the rows [offsets[i], offsets[i + 1]).
        rows: int64, durations in ascending order; with `counts` the numbers of cells, ascending.
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
        lows, shifts = bucket_edges(_BITS)
        edges = self.offsets.tolist()
        for key, begin, end in zip(self.keys, edges, edges[1:], strict=False):
            if self.counts is None:
                ranks = [begin + nearest_rank(end - begin, each) for each in PERCENTS]
                found[key] = self.rows[ranks].tolist()
                continue
            ends = np.cumsum(self.counts[begin:end])
            ranks = [nearest_rank(int(ends[-1]), each) for each in PERCENTS]
            cells = self.rows[begin + np.searchsorted(ends, ranks, side="right")]
            found[key] = (lows[cells] + ((np.int64(1) << shifts[cells]) - 1 >> 1)).tolist()
        return found

    def renamed(self, keys: Sequence[_Key]) -> DurationSums[_Key]:
        """Return the same durations for groups with other keys."""
        return DurationSums(list(keys), self.offsets, self.rows, self.counts)

    @classmethod
    def added(cls, parts: Sequence[DurationSums[_Key]]) -> DurationSums[_Key]:
        """Return the durations of all parts, by key.

        Raises:
            UsageError: If some are a sketch and others are not.
        """
        if len({part.keep for part in parts}) > 1:
            raise UsageError("a sketch of durations and exact durations cannot be added")
        pieces: dict[_Key, list[tuple[DurationSums[_Key], slice]]] = {}
        for part in parts:
            edges = part.offsets.tolist()
            for key, begin, end in zip(part.keys, edges, edges[1:], strict=False):
                pieces.setdefault(key, []).append((part, slice(begin, end)))
        keys = sorted(pieces, key=repr)
        rows, counts = [], []
        for key in keys:
            group = np.concatenate([part.rows[piece] for part, piece in pieces[key]])
            if parts[0].counts is not None:
                number = np.concatenate(
                    [part.counts[piece] for part, piece in pieces[key] if part.counts is not None]
                )
                group, number = _cells_added(group, number)
                counts.append(number)
            elif len(pieces[key]) > 1:
                group.sort()
            rows.append(group)
        none = np.empty(0, np.int64)
        is_sketch = bool(parts) and parts[0].counts is not None
        return cls(
            keys,
            np.concatenate([[0], np.cumsum([len(each) for each in rows], dtype=np.int64)]),
            np.concatenate([none, *rows]),
            np.concatenate([none, *counts]) if is_sketch else None,
        )


@dataclass(slots=True)
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
        # NumPy sorts 16-bit integers by counting
        narrow = group.astype(np.uint16) if len(keys) < 1 << 16 else group
        durations = durations[np.argsort(narrow, kind="stable")]
        ends = np.cumsum(np.bincount(group, minlength=len(keys)))
        begin = 0
        for end in ends.tolist():
            durations[begin:end].sort()
            begin = end
        return _of_groups(keys, ends, durations, None)


def _of_groups(
    keys: Sequence[_Key], ends: npt.NDArray[np.intp], rows: Int64s, counts: Int64s | None
) -> DurationSums[_Key]:
    """Return the sums of those groups that have rows."""
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    used = np.flatnonzero(np.diff(offsets))
    kept = [keys[group] for group in used.tolist()]
    return DurationSums(kept, np.concatenate([[0], offsets[used + 1]]), rows, counts)


def _cells(durations_ns: Int64s) -> Int64s:
    """Return the cell of each duration, as `bucket_edges` numbers them."""
    bits = np.frexp(durations_ns.astype(np.float64))[1].astype(np.int64)
    # a double may have been rounded up to the next power of two
    bits -= (bits > 0) & (durations_ns >> np.maximum(bits - 1, 0) == 0)
    shift = np.maximum(bits - 1 - _BITS, 0)
    wide = bits > _BITS
    cells: Int64s = np.where(wide, (shift << _BITS) + (durations_ns >> shift), durations_ns)
    return cells


def _cells_added(cells: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return cells in ascending order, each once, and how many durations are in each."""
    if not len(cells):
        return cells, counts
    order = np.argsort(cells, kind="stable")
    cells, counts = cells[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
    return cells[first], np.add.reduceat(counts, first)


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
