"""How long each value lasted in each part of a range: the query and its result."""

from __future__ import annotations

from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import TimeRangeError
from meantime.history.results import listed, shown
from meantime.kernels.gather import add_cells, seen
from meantime.kernels.shares import Tally, bin_edges
from meantime.kernels.tail import INT, STR
from meantime.model.attributes import format_path
from meantime.model.columns import Coded, Mixed, named
from meantime.model.tabular import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.history.grouped_shares import GroupedShares
    from meantime.history.snapshot import Snapshot
    from meantime.history.source import Question
    from meantime.model.attributes import Attributes, Path
    from meantime.model.columns import Int32s, Int64s, Value, Values
    from meantime.model.tabular import Column

__all__ = ["Shares", "Slots", "grouped_in_range", "shares"]

# Each cell has as few bytes as possible: a query spends most of its time on pages of new memory.
_SLOTS_OF_A_BYTE = 2**8
_NS_OF_4_BYTES = 2**32
_LONGEST_NS = 2**63 - 1
_ROWS_AHEAD = 65
# Integers of an attribute that are further apart are listed, and not numbered from the least.
_MOST_SLOTS = 2**20
# Room for more rows than this is provided only where intervals have been counted: memory that is
# not used costs nothing, but some systems do not promise it.
_UNCOUNTED_ROWS = 2**22
_DENSE_ROWS = 16
_SHORT = 16


class Shares(Tabular):
    """How long each value lasted in each bin, and how often it changed there.

    Bin i is [edges_ns[i], edges_ns[i + 1]); the times of an attribute in a bin sum to its width,
    since no state counts as None. Rows are in the order of the requested attributes, then of bins,
    then of values: None first, strings in the order in which the history first had them, numbers
    from the least. Columns are made when they are first used.
    """

    def __init__(  # noqa: PLR0917 - columns
        self,
        quarks: Int32s,
        edges_ns: Int64s,
        cells: tuple[Int32s, Int32s],
        rows: tuple[npt.NDArray[Any], npt.NDArray[Any]],
        values: _Values,
        paths: Attributes,
    ) -> None:
        """`cells` are the rows and changes per cell; `rows` the slot and the time of each row."""
        self.edges_ns = edges_ns
        self._quarks = quarks
        self._cell_rows, self._cell_changes = cells
        self._slot, self._ns = rows
        self._values = values
        self._paths = paths

    @property
    def rows_of(self) -> Int64s:
        """By requested attribute, the number of rows."""
        rows: Int64s = self._cell_rows.sum(axis=1, dtype=np.int64)
        return rows

    @cached_property
    def quark(self) -> Int32s:
        """Int32, one row per attribute, bin and value that lasted in it."""
        return np.repeat(self._quarks, self.rows_of)

    @cached_property
    def bin(self) -> Int32s:
        """Int32."""
        bins = np.arange(len(self.edges_ns) - 1, dtype=np.int32)
        return np.repeat(np.tile(bins, len(self._quarks)), self._cell_rows.ravel())

    @cached_property
    def value(self) -> Values:
        """`Coded` if all requested attributes have strings or nothing, otherwise `Mixed`."""
        return self._values.column(self._slot, self.rows_of)

    @cached_property
    def ns(self) -> Int64s:
        """Int64, above 0."""
        return self._ns.astype(np.int64)

    @cached_property
    def _changed(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        lanes, bins = np.nonzero(self._cell_changes)
        return lanes, bins

    @cached_property
    def changes_quark(self) -> Int32s:
        """Int32, one row per attribute and bin with a change in it."""
        return self._quarks[self._changed[0]]

    @cached_property
    def changes_bin(self) -> Int32s:
        """Int32."""
        return self._changed[1].astype(np.int32)

    @cached_property
    def changes(self) -> Int64s:
        """Int64, how many states began in that bin."""
        return self._cell_changes[self._changed].astype(np.int64)

    @cached_property
    def dominant(self) -> Shares:
        """Of each attribute and bin the row with the longest time.

        If several are the longest, the first of them that is not None. `History.dominant` finds
        them alone, faster.
        """
        counts = self._cell_rows.ravel()
        ends = np.cumsum(counts)
        begins = (ends - counts)[counts > 0]
        if not len(begins):
            return self
        longest = np.maximum.reduceat(self._ns, begins)
        most = self._ns == np.repeat(longest, counts[counts > 0])
        # Null is the first row of its cell, but is chosen only if no other value lasted as long.
        rows = np.flatnonzero(most)
        cell = np.repeat(np.arange(len(begins)), counts[counts > 0])[rows]
        by_choice = np.lexsort((rows, self._slot[rows] == 0, cell))
        first = np.unique(cell[by_choice], return_index=True)[1]
        chosen = rows[by_choice[first]]
        return Shares(
            self._quarks,
            self.edges_ns,
            ((self._cell_rows > 0).astype(np.int32), self._cell_changes),
            (self._slot[chosen], self._ns[chosen]),
            self._values,
            self._paths,
        )

    def grouped(self, key: Callable[[Path], str | None] = format_path) -> GroupedShares:
        r"""Return the shares of groups of attributes, all attributes of a group together.

        Shares of several histories can be added once they are grouped: quarks and codes of values
        differ from one to another, names do not.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.\ndisk1  bbbb")
        >>> history.shares([0, 1]).grouped(lambda path: path[0][:-1]).cell("disk", 0)
        {'b': 5, 'a': 2, None: 1}

        Args:
            key: Returns the name of the group for the path of an attribute, or None to leave the
                attribute out. The default is the path as text, so each is a group.
        """
        from meantime.history.grouped_shares import grouped_shares  # noqa: PLC0415 - for sums only

        paths = [self._paths.path(quark) for quark in self._quarks.tolist()]
        return grouped_shares(self, [key(path) for path in paths])

    def named_sums(self) -> tuple[list[str], Int64s]:
        """Return the names of states, and how long all attributes together had each.

        Returns:
            The names: numbers as text. And by name and bin the time, int64: below 2^63 as long as
            the width of a bin times the number of attributes is.
        """
        codes, names = self._slot, self._values.strings
        if int(self._values.kinds.max(initial=0)) > STR:
            value = named(self.value)
            codes, names = value.codes + 1, value.names
        used = np.arange(min(len(names) + 1, _SLOTS_OF_A_BYTE), dtype=np.int32)
        if codes.dtype != np.uint8:
            # of many names, few may be in the range
            used = seen(codes)
            place = np.zeros(len(names) + 1, np.int32)
            place[used] = np.arange(len(used), dtype=np.int32)
            codes = place[codes]
        sums = np.zeros((len(used), len(self.edges_ns) - 1), np.int64)
        add_cells(codes, self._ns, self._cell_rows, sums)
        rows = np.flatnonzero((used > 0) & sums.any(axis=1))
        return [names[code - 1] for code in used[rows].tolist()], sums[rows]

    def __add__(self, other: Shares) -> GroupedShares:
        """Return the sum of both by path and value: those of the same attributes of two hosts.

        Raises:
            UsageError: If their bins differ.
        """
        return self.grouped() + other.grouped()

    def columns(self) -> dict[str, Column]:
        """Return quark, bin, value and ns."""
        return {"quark": self.quark, "bin": self.bin, "value": self.value, "ns": self.ns}

    def __len__(self) -> int:
        return len(self._slot)

    def cell(self, quark: int, part: int) -> dict[Value, int]:
        """Return the time per value of one attribute in one bin; the longest first."""
        rows = np.flatnonzero((self.quark == quark) & (self.bin == part))
        rows = rows[np.lexsort((rows, self._slot[rows] == 0, -self.ns[rows]))]
        return {self.value[row]: int(self.ns[row]) for row in rows.tolist()}

    def __repr__(self) -> str:
        lines = [
            f"  {self.quark[row]}: bin {self.bin[row]} {self.value[row]!r} {self.ns[row]} ns"
            for row in shown(len(self))
        ]
        bins = len(self.edges_ns) - 1
        return listed(f"Shares: {len(self):,} in {bins:,} bins", lines, len(self))


class _Values(NamedTuple):
    """What the slots of attributes mean: 0 is null, any other is one above what follows.

    Attributes:
        kinds: By attribute, the type of its values.
        low: By attribute, the integer of the first slot.
        listed: By attribute, whether slots are instead those of `words`.
        words: The words of listed numbers.
        strings: The strings of a history, by code.
    """

    kinds: npt.NDArray[np.uint8]
    low: Int64s
    listed: npt.NDArray[np.bool_]
    words: Int64s
    strings: Sequence[str]

    def column(self, slots: npt.NDArray[Any], rows: Int64s) -> Values:
        """Return the values of slots, of which each attribute has so many rows."""
        index = slots.astype(np.int32) - 1
        if int(self.kinds.max(initial=0)) <= STR:
            return Coded(index, self.strings)
        lane = np.repeat(np.arange(len(rows)), rows)
        null, listed = index < 0, self.listed[lane]
        words = self.low[lane] + index
        words[listed] = np.append(self.words, 0)[index[listed]]
        words[null] = 0
        return Mixed(np.where(null, np.uint8(0), self.kinds[lane]), words, self.strings)


class Slots(NamedTuple):
    """How the values of attributes are numbered from their least: see `Tally`.

    Attributes:
        low: By attribute, the word of the first slot.
        counts: By attribute, how many slots there are; 0 if its values are listed instead.
        changes: By attribute, how often it changes at most in the range.
    """

    low: Int64s
    counts: Int32s
    changes: Int64s

    @classmethod
    def of(cls, snapshot: Snapshot, question: Question) -> Slots:
        """Return the slots of attributes for a question, for which all is loaded then."""
        # In place of a damaged segment there may be more changes than it has.
        snapshot.segments.load(question)
        low, high, changes = snapshot.segments.bounds(question)
        kinds = question.kinds
        integers = kinds == INT
        some = integers & (low <= high)
        low[~some] = 0
        # The distance of 64-bit integers needs 64 bits without a sign.
        apart = np.where(some, high.view(np.uint64) - low.view(np.uint64), np.uint64(0))
        count = np.where(kinds <= STR, len(snapshot.strings) + 1, 0)
        count[integers] = 1
        count[some] = np.minimum(apart[some], np.uint64(_MOST_SLOTS)).astype(np.int64) + 2
        count[some & (apart >= _MOST_SLOTS)] = 0
        return cls(low, count.astype(np.int32), changes)

    def rows(self, bins: int) -> int:
        """Return how many rows the cells have at most."""
        # A cell has one row for the state at its start, and one per change, but no value twice.
        changed = bins + self.changes
        valued = np.where(self.counts > 0, self.counts.astype(np.int64) * bins, changed)
        return int(np.minimum(changed, valued).sum())


def _is_short(snapshot: Snapshot, range_ns: tuple[int, int]) -> bool:
    """Return whether a range is so short that counting its intervals pays, in smaller arrays."""
    whole_ns = snapshot.segments.end_ns - snapshot.segments.start_ns
    return (range_ns[1] - range_ns[0]) * _SHORT < whole_ns


def shares(
    snapshot: Snapshot,
    quarks: Int32s,
    range_ns: tuple[int, int],
    bins: int,
    *,
    longest: bool,
    edges_ns: Int64s | None = None,
) -> Shares:
    """Return the time per value and bin of attributes; with `longest` only of the longest value.

    Bins divide the range evenly, or have the given edges from its start to its end.
    """
    bins = index(bins)
    if bins < 1:
        raise ValueError(f"bins is {bins}: at least one is needed")
    widest_ns = -(-(range_ns[1] - range_ns[0]) // bins)
    if edges_ns is not None:
        widest_ns = int(np.diff(edges_ns).max())
    if widest_ns > _LONGEST_NS:
        raise TimeRangeError(
            f"bins of {widest_ns} ns are too wide: times of 2^63 ns and more cannot be summed up;"
            " ask for more bins or a shorter range"
        )
    edges_ns = bin_edges(*range_ns, bins) if edges_ns is None else edges_ns
    question = snapshot.question(quarks, range_ns)
    slots = Slots.of(snapshot, question)
    cells = len(quarks) * bins
    rows = cells if longest else slots.rows(bins)
    if rows > max(_UNCOUNTED_ROWS, _DENSE_ROWS * cells) or (
        rows > cells and _is_short(snapshot, range_ns)
    ):
        rows = slots._replace(changes=snapshot.segments.count(question)).rows(bins)
    byte = (
        0 < int(slots.counts.min(initial=1)) <= int(slots.counts.max(initial=1)) <= _SLOTS_OF_A_BYTE
    )
    # The kernel writes rows before it decides whether to count them.
    rows += _ROWS_AHEAD
    slot: npt.NDArray[Any] = np.empty(rows, np.uint8 if byte else np.int32)
    short = widest_ns < _NS_OF_4_BYTES
    ns: npt.NDArray[Any] = np.empty(rows, np.uint32 if short else np.int64)
    cell_rows, cell_changes = (np.empty((len(quarks), bins), np.int32) for _ in range(2))
    tally = Tally(edges_ns, slots.low, slots.counts, longest, slot, ns, cell_rows, cell_changes)
    snapshot.segments.tally(question, tally)
    return Shares(
        quarks,
        edges_ns,
        (cell_rows, cell_changes),
        (slot[: tally.rows], ns[: tally.rows]),
        _Values(question.kinds, slots.low, slots.counts == 0, tally.words, snapshot.strings),
        snapshot.attributes,
    )


def grouped_in_range(
    snapshot: Snapshot,
    quarks: Int32s,
    range_ns: tuple[int, int],
    bins: int,
    key: Callable[[Path], str | None],
) -> GroupedShares:
    """Return the shares of groups in a range that may be partly or entirely outside."""
    from meantime.history.grouped_shares import grouped_shares, without_state  # noqa: PLC0415 - for sums only

    start_ns, end_ns = range_ns
    if end_ns <= start_ns:
        raise TimeRangeError(f"the range from {start_ns} ns to {end_ns} ns is empty")
    if index(bins) < 1:
        raise ValueError(f"bins is {bins}: at least one is needed")
    names = [key(snapshot.attributes.path(quark)) for quark in quarks.tolist()]
    low = max(start_ns, snapshot.segments.start_ns)
    high = min(end_ns, snapshot.segments.end_ns)
    if low >= high:
        return without_state(names, start_ns, end_ns, bins)
    snapshot.check_known(quarks, low)
    edges_ns = bin_edges(start_ns, end_ns, bins)
    first = int(np.searchsorted(edges_ns, low, side="right")) - 1
    last = int(np.searchsorted(edges_ns, high))
    inner_ns = np.concatenate([[low], edges_ns[first + 1 : last], [high]])
    found = shares(
        snapshot, quarks, (low, high), len(inner_ns) - 1, longest=False, edges_ns=inner_ns
    )
    return grouped_shares(found, names).extended(edges_ns)
