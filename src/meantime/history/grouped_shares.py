"""Shares of groups of attributes, by value: those of several histories add up."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from meantime.errors import TimeRangeError, UsageError
from meantime.history.results import listed, shown
from meantime.kernels.shares import bin_edges
from meantime.kernels.tail import FLOAT, INT, STR
from meantime.model.columns import Coded, Mixed, ranked
from meantime.model.tabular import Tabular
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s, Value, Values
    from meantime.model.tabular import Column

    # A type as `Mixed` has it, and a string, an integer, or the bits of a float; (0, 0) is None.
    _Typed: TypeAlias = tuple[int, str | int]

__all__ = ["GroupedShares", "added_shares", "grouped_shares", "without_state"]

_ORDER = {0: 0, INT: 1, FLOAT: 2, STR: 3}
_MOST = 2**63 - 1


@struct
class GroupedShares(Tabular):
    """How long the attributes of each group had each value in each bin, all together.

    The times of a group in a bin sum to the bin's width times `attributes`, since no state counts
    as None. Rows are in order of the groups' names, then of bins, then of values: None, integers,
    floats, then strings. Two with the same edges are added by `+`, by the groups' names.

    Attributes:
        edges_ns: Bin i is [edges_ns[i], edges_ns[i + 1]).
        groups: The names of the groups, in order.
        attributes_of: int64, how many attributes are in each group.
        group: int32, one row per group, bin and value that lasted in it: the number of the group.
        bin: int32.
        value_code: int32, the index of the value in `values`.
        values: The different values, in order.
        ns: int64, above 0.
    """

    edges_ns: Int64s
    groups: list[str]
    attributes_of: Int64s
    group: Int32s
    bin: Int32s
    value_code: Int32s
    values: list[_Typed]
    ns: Int64s

    @property
    def value(self) -> Values:
        """`Coded` if all values are strings or None, otherwise `Mixed`."""
        return _column(self.values, self.value_code)

    def columns(self) -> dict[str, Column]:
        """Return group, bin, value and ns."""
        group = Coded(self.group, self.groups)
        return {"group": group, "bin": self.bin, "value": self.value, "ns": self.ns}

    def __len__(self) -> int:
        return len(self.ns)

    def cell(self, group: str, part: int) -> dict[Value, int]:
        """Return the time per value of one group in one bin; the longest first.

        Numbers that are equal are one value, such as 1 and 1.0.
        """
        rows = np.flatnonzero((self.group == self.groups.index(group)) & (self.bin == part))
        value = self.value
        times: dict[Value, int] = {}
        for row in rows.tolist():
            times[value[row]] = times.get(value[row], 0) + int(self.ns[row])
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    def __add__(self, other: GroupedShares) -> GroupedShares:
        """Return the sum of both: see `added_shares`."""
        return added_shares([self, other])

    def moved(self, offset_ns: int) -> GroupedShares:
        """Return the same shares with this added to all times."""
        return replace(self, edges_ns=self.edges_ns + offset_ns)

    def extended(self, edges_ns: Int64s) -> GroupedShares:
        """Return these shares with edges of a longer range, with no state in the rest of it.

        All edges of these shares but the first and the last are among the others.
        """
        first = int(np.searchsorted(edges_ns, self.edges_ns[0], side="right")) - 1
        wanted, had = np.diff(edges_ns), np.zeros(len(edges_ns) - 1, np.int64)
        had[first : first + len(self.edges_ns) - 1] = np.diff(self.edges_ns)
        missing = np.flatnonzero(wanted - had)
        groups = np.repeat(np.arange(len(self.groups)), len(missing))
        bins = np.tile(missing, len(self.groups))
        nothing_ns = (wanted - had)[bins] * self.attributes_of[groups]
        return _summed(
            edges_ns,
            (self.groups, self.attributes_of),
            [(0, 0), *self.values],
            [
                (self.group, self.bin + first, self.value_code + 1, self.ns),
                (groups, bins, np.zeros_like(bins), nothing_ns),
            ],
        )

    def with_state(self, state: str, ns: Int64s) -> GroupedShares:
        """Return these shares with time without a state counted as time in a state.

        >>> from meantime.testing import history_from_picture
        >>> shares = history_from_picture("disk0  aab.").shares("*", bins=2).grouped()
        >>> shares.with_state("idle", np.array([[0, 1]])).cell("disk0", 1)
        {'b': 1, 'idle': 1}

        Args:
            state: The state.
            ns: int64 of shape (groups, bins), how long; at most the time without a state.
        """
        is_none = np.array([kind == 0 for kind, _ in self.values], np.bool_)[self.value_code]
        left_ns = self.ns - np.where(is_none, ns[self.group, self.bin], 0)
        kept = left_ns > 0
        group, part = np.nonzero(ns)
        return _summed(
            self.edges_ns,
            (self.groups, self.attributes_of),
            [*self.values, (STR, state)],
            [
                (self.group[kept], self.bin[kept], self.value_code[kept], left_ns[kept]),
                (group, part, np.full(len(group), len(self.values)), ns[group, part]),
            ],
        )

    def __repr__(self) -> str:
        group, value = Coded(self.group, self.groups), self.value
        lines = [
            f"  {group[row]}: bin {self.bin[row]} {value[row]!r} {self.ns[row]} ns"
            for row in shown(len(self))
        ]
        bins = len(self.edges_ns) - 1
        return listed(
            f"Shares of {len(self.groups):,} groups: {len(self):,} in {bins:,} bins",
            lines,
            len(self),
        )


class SharesOfAttributes(Protocol):
    """What `Shares` has, of which those of groups are sums; rows are attribute by attribute."""

    edges_ns: Int64s

    @property
    def rows_of(self) -> Int64s:
        """By attribute, the number of rows."""
        ...

    @property
    def bin(self) -> Int32s:
        """By row, its bin."""
        ...

    @property
    def value(self) -> Values:
        """By row, its value."""
        ...

    @property
    def ns(self) -> Int64s:
        """By row, its time."""
        ...


def grouped_shares(shares: SharesOfAttributes, names: Sequence[str | None]) -> GroupedShares:
    """Return shares of groups of attributes.

    Args:
        shares: The shares of attributes.
        names: The name of each attribute's group; None leaves it out.
    """
    groups = sorted({name for name in names if name is not None})
    number = {name: index for index, name in enumerate(groups)}
    of_attribute = np.array([-1 if name is None else number[name] for name in names], np.int64)
    used = of_attribute >= 0
    counts = np.bincount(of_attribute[used], minlength=len(groups))
    _check_width(shares.edges_ns, int(counts.sum()))
    group = np.repeat(of_attribute, shares.rows_of)
    kept = slice(None) if used.all() else group >= 0
    values, code = _typed(shares.value)
    rows = (group[kept], shares.bin[kept], code[kept], shares.ns[kept])
    return _summed(shares.edges_ns, (groups, counts.astype(np.int64)), values, [rows])


def without_state(
    groups: Iterable[str | None], start_ns: int, end_ns: int, bins: int
) -> GroupedShares:
    """Return the shares of attributes that have no state, with the group of each."""
    size_of = Counter(name for name in groups if name is not None)
    different = sorted(size_of)
    counts = np.array([size_of[name] for name in different], np.int64)
    edges_ns = bin_edges(start_ns, end_ns, bins)
    _check_width(edges_ns, size_of.total())
    group = np.repeat(np.arange(len(different)), bins)
    part = np.tile(np.arange(bins), len(different))
    ns = np.diff(edges_ns)[part] * counts[group]
    rows = (group, part, np.zeros_like(part), ns)
    return _summed(edges_ns, (different, counts), [(0, 0)], [rows])


def added_shares(parts: Sequence[GroupedShares]) -> GroupedShares:
    """Return the sum of shares with the same edges, by the names of groups, and by value.

    The order of the parts makes no difference, and parts may be sums.

    >>> from meantime.testing import history_from_picture
    >>> hosts = [history_from_picture(line) for line in ("cpu0  aab.", "cpu0  bbbb")]
    >>> added_shares([host.shares([0], bins=2).grouped() for host in hosts]).cell("cpu0", 1)
    {'b': 3, None: 1}

    Raises:
        TimeRangeError: If a bin is so wide that times of all attributes may exceed 64 bits.
        UsageError: If there is none, or edges differ.
    """
    if not parts:
        raise UsageError("there are no shares to add")
    edges_ns = parts[0].edges_ns
    for part in parts:
        if not np.array_equal(part.edges_ns, edges_ns):
            raise UsageError("shares of different bins cannot be added; ask for the same range")
    groups = sorted({name for part in parts for name in part.groups})
    values = sorted({value for part in parts for value in part.values}, key=_value_order)
    number = {name: index for index, name in enumerate(groups)}
    code_of = {value: code for code, value in enumerate(values)}
    counts = np.zeros(len(groups), np.int64)
    rows = []
    for part in parts:
        group = np.array([number[name] for name in part.groups], np.int64)
        code = np.array([code_of[value] for value in part.values], np.int64)
        counts[group] += part.attributes_of
        rows.append((group[part.group], part.bin, code[part.value_code], part.ns))
    _check_width(edges_ns, int(counts.sum()))
    return _summed(edges_ns, (groups, counts), values, rows)


def _check_width(edges_ns: Int64s, attributes: int) -> None:
    """Check that the times of all attributes in a bin fit 64 bits.

    Raises:
        TimeRangeError: If they may not.
    """
    widest_ns = int(np.diff(edges_ns).max(initial=0))
    if widest_ns * attributes > _MOST:
        raise TimeRangeError(
            f"bins of {widest_ns} ns are too wide for the times of {attributes:,} attributes;"
            " ask for more bins or a shorter range"
        )


def _summed(
    edges_ns: Int64s,
    members: tuple[list[str], Int64s],
    values: Sequence[_Typed],
    rows: Sequence[tuple[npt.NDArray[np.integer], ...]],
) -> GroupedShares:
    """Return rows added up and in order; each has a group, a bin, a value's code and a time.

    `members` are the groups and the number of attributes in each.
    """
    groups, attributes_of = members
    ordered = sorted(set(values), key=_value_order)
    rank = {value: code for code, value in enumerate(ordered)}
    rank_of = np.array([rank[value] for value in values], np.int64)
    bins = len(edges_ns) - 1
    group, part, code, ns = (
        np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*rows, strict=True)
    )
    many = max(len(ordered), 1)
    # below 2^63: `_MOST` limits how many cells there are memory for
    keys = (group * bins + part) * many + rank_of[code]
    cells = len(groups) * bins * many
    if cells <= 4 * len(keys):
        sums = np.zeros(cells, np.int64)
        np.add.at(sums, keys, ns)
        keys = np.flatnonzero(sums)
        ns = sums[keys]
    else:
        order = np.argsort(keys, kind="stable")
        keys, ns = keys[order], ns[order]
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))[: len(keys)]
        keys, ns = keys[first], np.add.reduceat(ns, first) if len(first) else ns
    cell, code = np.divmod(keys, many)
    used, code = np.unique(code, return_inverse=True)
    return GroupedShares(
        edges_ns,
        groups,
        attributes_of,
        (cell // bins).astype(np.int32),
        (cell % bins).astype(np.int32),
        code.astype(np.int32),
        [ordered[each] for each in used.tolist()],
        ns,
    )


def _value_order(value: _Typed) -> tuple[int, float, str | int]:
    kind, word = value
    number = 0.0
    if kind == FLOAT:
        number = float(np.int64(word).view(np.float64))
        number = math.inf if math.isnan(number) else number
    return _ORDER[kind], number, word


def _typed(column: Values) -> tuple[list[_Typed], npt.NDArray[np.integer]]:
    """Return the different values of a column, and by row the index of its value."""
    if isinstance(column, Coded):
        # -1 is None
        used = np.flatnonzero(np.bincount(column.codes + 1, minlength=1)) - 1
        place = np.zeros(len(column.names) + 1, np.int64)
        place[used] = np.arange(len(used))
        values: list[_Typed] = [
            (0, 0) if code < 0 else (STR, column.names[code]) for code in used.tolist()
        ]
        return values, place[column.codes]
    values, codes = [], np.zeros(len(column), np.int64)
    for kind in np.flatnonzero(np.bincount(column.kinds, minlength=1)).tolist():
        rows = np.flatnonzero(column.kinds == kind)
        words, code = ranked(column.words[rows])
        codes[rows] = len(values) + code
        values += [(kind, column.names[word] if kind == STR else word) for word in words.tolist()]
    return values, codes


def _column(values: Sequence[_Typed], code: Int32s) -> Values:
    kinds = np.array([kind for kind, _ in values], np.uint8)
    names = [word for kind, word in values if isinstance(word, str)]
    strings = iter(range(len(names)))
    words = np.array([next(strings) if kind == STR else word for kind, word in values], np.int64)
    if int(kinds.max(initial=0)) <= STR:
        return Coded(np.where(kinds == 0, -1, words)[code].astype(np.int32), names)
    return Mixed(kinds[code], words[code], names)
