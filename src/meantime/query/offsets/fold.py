"""The division of time into columns of one period, and of each column into rows.

With a period of one second it is that of Brendan Gregg's subsecond offset heat maps: one column a
second, and the offset within the second from bottom to top.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import UsageError
from meantime.query.offsets.axis import Axis
from meantime.structs import struct

if TYPE_CHECKING:
    from meantime.model.columns import Int64s
    from meantime.model.zones import Calendar

__all__ = ["Fold", "edges_ns", "of_week"]

MAX_ROWS = 2**20
MAX_PERIOD_NS = 2**61


@struct
class Fold:
    """Divides time into columns of `period_ns`, and each column into `rows` cells.

    Column c, row r is [edge_ns(c, r), edge_ns(c, r + 1)); the rows of a column tile it, also where
    their number does not divide the period. Row 0 is the earliest. Cells have one number each:
    column * rows + row.

    >>> fold = Fold(origin_ns=0, period_ns=1_000_000_000, rows=49)
    >>> fold.cell(10_020_408_163), fold.cell(10_020_408_164)
    ((10, 0), (10, 1))
    >>> fold.edge_ns(10, 1)
    10020408164

    Attributes:
        origin_ns: Where column 0 begins.
        period_ns: The width of a column.
        rows: How many cells a column has.
        calendar: What makes local times of the times of a map. The times of the fold are local
            then: a day has 24 hours of cells, of which one is empty or has two hours where the
            clock changes. None if they are those of the map.
        axis: What the rows are, if they are not offsets: all rows of a column have its times then.

    Raises:
        UsageError: If a cell would be shorter than a nanosecond, or there are too many.
    """

    origin_ns: int
    period_ns: int
    rows: int
    calendar: Calendar | None = None
    axis: Axis | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.period_ns <= MAX_PERIOD_NS:
            raise UsageError(
                f"invalid period of {self.period_ns} ns; choose one between 1 ns and 73 years"
            )
        if self.axis is not None:
            if self.rows > MAX_ROWS:
                raise UsageError(f"a map has at most {MAX_ROWS:,} rows; this has {self.rows:,}")
        elif not 1 <= self.rows <= min(MAX_ROWS, self.period_ns):
            raise UsageError(
                f"cannot split a period of {self.period_ns} ns into {self.rows} rows; choose 1 to "
                f"{MAX_ROWS:,}, and at most one per nanosecond"
            )

    @property
    def y(self) -> Axis:
        """What the rows are."""
        if self.axis is not None:
            return self.axis
        edges = edges_ns(self.period_ns, self.rows).tolist()
        return Axis("offset", "ns", tuple(edges))

    def on(self, axis: Axis) -> Fold:
        """Return these columns with other rows."""
        return Fold(self.origin_ns, self.period_ns, axis.rows, self.calendar, axis)

    def column(self, time_ns: int) -> int:
        """Return the column that a time is in."""
        return (time_ns - self.origin_ns) // self.period_ns

    def cell(self, time_ns: int) -> tuple[int, int]:
        """Return the column and the row that a time is in."""
        column, offset_ns = divmod(time_ns - self.origin_ns, self.period_ns)
        return column, offset_ns * self.rows // self.period_ns

    def numbers(self, time_ns: Int64s) -> Int64s:
        """Return the number of the cell that each time is in."""
        column, offset_ns = np.divmod(time_ns - self.origin_ns, self.period_ns)
        if self.rows == 1:
            return column
        edges = edges_ns(self.period_ns, self.rows)
        return column * self.rows + np.searchsorted(edges, offset_ns, side="right") - 1

    def number(self, time_ns: int) -> int:
        """Return the number of the cell that a time is in."""
        column, row = self.cell(time_ns)
        return column * self.rows + row

    def edge_ns(self, column: int, row: int = 0) -> int:
        """Return where a cell begins; row may be `rows`, which is where the next column begins.

        Rows that are not offsets begin with their column.
        """
        if self.axis is None:
            within_ns = -(-row * self.period_ns // self.rows)
        else:
            within_ns = self.period_ns if row == self.rows else 0
        return self.origin_ns + column * self.period_ns + within_ns

    def widths_ns(self) -> Int64s:
        """Return how long the cell of each row is."""
        return np.diff(edges_ns(self.period_ns, self.rows))

    def shift(self, other: Fold) -> int:
        """Return what to add to a column of `other` to get the same column of this fold.

        Raises:
            UsageError: If the two have different cell boundaries, or are of different time zones.
        """
        if self.calendar != other.calendar:
            raise UsageError("maps of different time zones cannot be added")
        one, another = ("offset" if each.axis is None else each.axis.kind for each in (self, other))
        if one != another:
            raise UsageError(f"a map by {one} and one by {another} cannot be added")
        columns, rest_ns = divmod(other.origin_ns - self.origin_ns, self.period_ns)
        is_same = self.axis is not None or self.rows == other.rows
        if self.period_ns != other.period_ns or not is_same or rest_ns:
            raise UsageError(
                f"maps of different cells cannot be added: {self.rows} rows of {self.period_ns} ns "
                f"from {self.origin_ns}, and {other.rows} of {other.period_ns} from "
                f"{other.origin_ns}"
            )
        return columns


def of_week(hour: Int64s) -> Int64s:
    """Return the cell, in columns of the day's hours, of each hour since a Monday began."""
    day, of_day = np.divmod(hour % 168, 24)
    # Monday is at the top
    return of_day * 7 + 6 - day


@lru_cache(maxsize=64)
def edges_ns(period_ns: int, rows: int) -> Int64s:
    """Return where each row begins in its column, and where the last one ends."""
    # Ceilings: `Fold.cell` rounds down, so an edge is the first nanosecond of its row.
    # Products beyond 64 bits need the integers of Python.
    if period_ns * rows < 2**63:
        edges: Int64s = -(-np.arange(rows + 1, dtype=np.int64) * period_ns // rows)
    else:
        edges = np.array([-(-row * period_ns // rows) for row in range(rows + 1)], np.int64)
    edges.flags.writeable = False
    return edges
