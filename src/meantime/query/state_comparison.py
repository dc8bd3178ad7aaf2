"""How the time in states changed from one range to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from meantime.errors import UsageError
from meantime.model.columns import Coded
from meantime.model.tabular import Tabular

if TYPE_CHECKING:
    from meantime.model.tabular import Column
    from meantime.query.statistics import StateStatistics, StatisticsRow

__all__ = ["ComparedState", "StateComparison", "compared_states"]


@dataclass(frozen=True, slots=True)
class ComparedState:
    """One state, of all entities or of one, in two ranges.

    Attributes:
        kind: The kind of entity: the name of its lane.
        key: The state.
        entity: The name of the entity; None for all of them.
        before: Its durations in the range compared against; None if it does not occur there.
        after: Its durations in the range in question; None if it does not occur there.
    """

    kind: str
    key: str
    entity: str | None
    before: StatisticsRow | None
    after: StatisticsRow | None

    @property
    def total_change_ns(self) -> int:
        """How much more time there is in the state than before."""
        before_ns, after_ns = (0 if row is None else row.total_ns for row in self.sides)
        return after_ns - before_ns

    @property
    def share_change(self) -> float:
        """How much larger its share is than before."""
        before, after = (0.0 if row is None else row.share for row in self.sides)
        return after - before

    @property
    def sides(self) -> tuple[StatisticsRow | None, StatisticsRow | None]:
        """Both rows, the one compared against first."""
        return self.before, self.after


@dataclass(frozen=True, slots=True)
class StateComparison(Tabular):
    """What changed from one range to another; as a table, its rows.

    Attributes:
        by: Whether there is a row per state, or per entity and state.
        before_ns: [start, end) of the range compared against.
        after_ns: [start, end) of the range in question.
        rows: The largest change of share first.
    """

    by: Literal["state", "entity"]
    before_ns: tuple[int, int]
    after_ns: tuple[int, int]
    rows: list[ComparedState]

    def columns(self) -> dict[str, Column]:
        """Return the names, the counts, totals and shares of both sides, and their changes."""
        columns: dict[str, Column] = {"kind": Coded.of([row.kind for row in self.rows])}
        if self.by == "entity":
            columns["entity"] = Coded.of([row.entity for row in self.rows])
        columns["state"] = Coded.of([row.key for row in self.rows])
        for side in ("before", "after"):
            for name, dtype in (("count", np.int64), ("total_ns", np.int64), ("share", np.float64)):
                amounts = [getattr(getattr(row, side), name, 0) for row in self.rows]
                columns[f"{side}_{name}"] = np.array(amounts, dtype)
        columns["total_change_ns"] = np.array([row.total_change_ns for row in self.rows], np.int64)
        columns["share_change"] = np.array([row.share_change for row in self.rows], np.float64)
        return columns


def compared_states(before: StateStatistics, after: StateStatistics) -> StateComparison:
    """Return how the time in states changed.

    Shares are compared, since the ranges may differ in length and in their number of entities.

    >>> from meantime.query.statistics import state_statistics
    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("disk0  aabbbb")
    >>> compared = compared_states(
    ...     state_statistics(history, end_ns=4), state_statistics(history, start_ns=4)
    ... )
    >>> [(row.key, row.total_change_ns, row.share_change) for row in compared.rows]
    [('a', -2, -0.5), ('b', 0, 0.5)]

    Raises:
        UsageError: If one is by state and the other by entity.
    """
    if before.by != after.by:
        raise UsageError(f"cannot compare statistics by {before.by} with those by {after.by}")
    sides = [
        {(row.kind, row.key, row.entity): row for row in each.rows} for each in (before, after)
    ]
    rows = [
        ComparedState(*key, sides[0].get(key), sides[1].get(key))
        for key in {**sides[0], **sides[1]}
    ]
    rows.sort(key=lambda row: (-abs(row.share_change), row.kind, row.entity or "", row.key))
    return StateComparison(after.by, before.range_ns, after.range_ns, rows)
