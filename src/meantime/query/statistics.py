"""How long states lasted: totals, shares, quantiles, and which state followed which."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from meantime.attributes import entity_name
from meantime.columns import Coded, exact_sum, named
from meantime.errors import MeantimeError
from meantime.query.filtering import matching
from meantime.tabular import Tabular

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s, Values
    from meantime.history.history import History
    from meantime.history.results import Intervals
    from meantime.tabular import Column

__all__ = ["StateStatistics", "StatisticsRow", "state_quarks", "state_statistics"]

_QUANTILES = ("median_ns", "p90_ns", "p99_ns")


@dataclass(frozen=True, slots=True)
class StatisticsRow:
    """The durations of one state, of all entities or of one.

    Attributes:
        key: The state.
        entity: The name of the entity, from `entity_name`; None for all of them.
        count: How many intervals.
        total_ns: Their time in all.
        share: `total_ns` over the range times the number of entities in the row.
        mean_ns: `total_ns / count`.
        median_ns: The ceil(n / 2)-th shortest.
        p90_ns: The ceil(0.9 n)-th shortest.
        p99_ns: The ceil(0.99 n)-th shortest.
        min_ns: The shortest.
        max_ns: The longest.
    """

    key: str
    entity: str | None
    count: int
    total_ns: int
    share: float
    mean_ns: float
    median_ns: int
    p90_ns: int
    p99_ns: int
    min_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class StateStatistics(Tabular):
    """Statistics over a range; as a table, its rows.

    Attributes:
        by: Whether there is a row per state, or per entity and state.
        range_ns: [start, end): what the intervals were clipped to.
        rows: Most time first.
        transitions: (from, to, how often), most often first.
    """

    by: Literal["state", "entity"]
    range_ns: tuple[int, int]
    rows: list[StatisticsRow]
    transitions: list[tuple[str, str, int]]

    def columns(self) -> dict[str, Column]:
        """Return a column for each field of a row, without `entity` where the rows have none."""
        columns: dict[str, Column] = {}
        if self.by == "entity":
            columns["entity"] = Coded.of([row.entity for row in self.rows])
        columns["state"] = Coded.of([row.key for row in self.rows])
        for name in ("count", "total_ns", "share", "mean_ns", *_QUANTILES, "min_ns", "max_ns"):
            dtype = np.float64 if name in {"share", "mean_ns"} else np.int64
            columns[name] = np.array([getattr(row, name) for row in self.rows], dtype)
        return columns


def state_quarks(history: History) -> Int32s:
    """Return the attributes of state lanes, each once, in order of quark."""
    quarks = [lane.quarks for lane in history.lanes if lane.declaration.kind == "state"]
    return np.unique(np.concatenate([np.empty(0, np.int32), *quarks]))


def state_statistics(
    history: History,
    *,
    by: Literal["state", "entity"] = "state",
    pattern: str | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> StateStatistics:
    """Return how long the states of the history's state lanes lasted.

    Intervals are clipped to the range, which is the history's bounds if not given. A change of the
    tag alone starts a new interval, so a state may follow itself. Time without a state is in no
    row.

    >>> from meantime.testing import history_from_picture
    >>> statistics = state_statistics(history_from_picture("disk0  aabba."))
    >>> [(row.key, row.count, row.total_ns, row.share) for row in statistics.rows]
    [('a', 2, 3, 0.5), ('b', 1, 2, 0.3333333333333333)]
    >>> statistics.transitions
    [('a', 'b', 1), ('b', 'a', 1)]

    Args:
        history: The history.
        by: Add up by state, or by state and entity.
        pattern: Only entities with this name, or whose name contains a match of this regular
            expression.
        start_ns: Where the range begins.
        end_ns: Where it ends.

    Raises:
        MeantimeError: If the pattern matches no entity.
        TimeRangeError: If the range is empty or starts outside the history.
    """
    quarks = state_quarks(history)
    if pattern is not None:
        quarks = _matching(history, quarks, pattern)
    begin_ns, finish_ns = history.bounds
    asked = (begin_ns if start_ns is None else start_ns, finish_ns if end_ns is None else end_ns)
    groups: list[Int64s] = []
    lengths: list[Int64s] = []
    pairs: Counter[tuple[int, int]] = Counter()
    table: dict[str, int] = {}
    range_ns = asked
    if asked[0] < asked[1] or start_ns is not None or end_ns is not None:
        for batch in history.interval_batches(quarks, *asked):
            codes = _codes(batch.value, table)
            range_ns = batch.range_ns
            group, length = _clipped(batch, codes, by)
            groups.append(group)
            lengths.append(length)
            pairs.update(_pairs(batch, codes))
    names = list(table)
    entities = len(quarks) if by == "state" else 1
    rows = [
        _row(
            names[int(key) & 0xFFFFFFFF],
            None if by == "state" else entity_name(history.attributes.path(int(key) >> 32)),
            part,
            (range_ns[1] - range_ns[0]) * entities,
        )
        for key, part in _grouped(groups, lengths)
    ]
    rows.sort(key=lambda row: (-row.total_ns, row.entity or "", row.key))
    transitions = [(names[a], names[b], n) for (a, b), n in pairs.items()]
    transitions.sort(key=lambda row: (-row[2], row[0], row[1]))
    return StateStatistics(by, range_ns, rows, transitions)


def _matching(history: History, quarks: Int32s, pattern: str) -> Int32s:
    names = [entity_name(history.attributes.path(quark)) for quark in quarks.tolist()]
    is_meant = matching(pattern, names)
    chosen = quarks[[bool(is_meant(name)) for name in names]]
    if not len(chosen):
        raise MeantimeError(f"the filter {pattern!r} matches no entity")
    return chosen


def _codes(value: Values, table: dict[str, int]) -> Int64s:
    """Return the indices of the states of a batch in a table, to which new ones are added."""
    column = named(value)
    code_of = np.full(len(column.names) + 1, -1, np.int64)
    for code in np.unique(column.codes[column.codes >= 0]).tolist():
        code_of[code] = table.setdefault(column.names[code], len(table))
    return code_of[column.codes]


def _clipped(
    batch: Intervals, codes: Int64s, by: Literal["state", "entity"]
) -> tuple[Int64s, Int64s]:
    """Return a group key and the clipped length of each interval with a state."""
    kept = codes >= 0
    key = codes[kept]
    if by == "entity":
        key |= batch.quark[kept].astype(np.int64) << 32
    start_ns, end_ns = batch.range_ns
    length = np.minimum(batch.end_ns[kept], end_ns) - np.maximum(batch.start_ns[kept], start_ns)
    return key, length


def _pairs(batch: Intervals, codes: Int64s) -> dict[tuple[int, int], int]:
    """Count the transitions between codes. A batch contains all intervals of its quarks."""
    # both codes packed into one integer: `np.unique` sorts these much faster than pairs
    before, after = codes[:-1], codes[1:]
    follows = (batch.quark[:-1] == batch.quark[1:]) & (before >= 0) & (after >= 0)
    packed, counts = np.unique(before[follows] << 32 | after[follows], return_counts=True)
    return {
        (int(pair) >> 32, int(pair) & 0xFFFFFFFF): int(count)
        for pair, count in zip(packed, counts, strict=True)
    }


def _grouped(groups: list[Int64s], lengths: list[Int64s]) -> list[tuple[int, Int64s]]:
    if not groups:
        return []
    key = np.concatenate(groups)
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    parts = np.split(np.concatenate(lengths)[order], first[1:])
    return list(zip(keys.tolist(), parts, strict=False))


def _row(key: str, entity: str | None, lengths: Int64s, whole_ns: int) -> StatisticsRow:
    count = len(lengths)
    ranks = [_rank(count, percent) for percent in (50, 90, 99)]
    # only the ranks that are needed are in sorted order: linear time
    ordered = np.partition(lengths, sorted({0, *ranks, count - 1}))
    total_ns = exact_sum(lengths)
    median_ns, p90_ns, p99_ns = (int(ordered[rank]) for rank in ranks)
    return StatisticsRow(
        key,
        entity,
        count,
        total_ns,
        total_ns / whole_ns,
        total_ns / count,
        median_ns,
        p90_ns,
        p99_ns,
        int(ordered[0]),
        int(ordered[count - 1]),
    )


def _rank(count: int, percent: int) -> int:
    """Return the rank of the nearest-rank quantile: the ceil(q n)-th smallest, from 0."""
    return max(0, -(-count * percent // 100) - 1)
