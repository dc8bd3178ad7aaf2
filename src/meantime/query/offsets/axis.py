"""The axes of a map: what its rows are, and how wide its columns are.

A map is cells of columns and rows. Its columns are ranges of time, or the hours of a day; its rows
are offsets in the column, durations, shares of the column's time, entities, or days of the week.
Everything that draws, lists or adds maps knows an axis by its kind, its unit, its edges and its
labels.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from meantime.model.units import MAX_NS, NS_PER_S, format_ns
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s

__all__ = [
    "AXES",
    "WEEKDAYS",
    "Axis",
    "AxisKind",
    "Mark",
    "Spacing",
    "column_ns",
    "durations",
    "entities",
    "utilisation",
    "weekdays",
]

AxisKind: TypeAlias = Literal["offset", "duration", "utilisation", "row", "weekday"]
Spacing: TypeAlias = Literal["log", "linear"]
AXES = get_args(AxisKind)

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MINUTE_NS = 60 * NS_PER_S
_HOUR_NS, _DAY_NS = 60 * _MINUTE_NS, 1440 * _MINUTE_NS
_LONG_STEPS_NS = (
    *(count * _MINUTE_NS for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR_NS for count in (1, 2, 3, 6, 12)),
    *(count * _DAY_NS for count in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
)
# Without a width for them, a map has at most as many columns.
_MOST_COLUMNS = 240
# The rows of a power of ten that are round: preferred numbers, in hundredths.
_TENTHS = (100, 125, 160, 200, 250, 320, 400, 500, 630, 800)


class Mark(NamedTuple):
    """A tick of an axis of rows.

    Attributes:
        row: Where it stands: the lower edge of this row, or its middle if that is a half.
        label: What stands there.
    """

    row: float
    label: str


@struct
class Axis:
    """What the rows of the columns of a map are. Row 0 is drawn at the bottom.

    Attributes:
        kind: What distinguishes rows: the `offset` in the column, the `duration` of what is counted
            in a cell, the share of the column's time (`utilisation`), the entity (`row`), or the
            day of the week (`weekday`).
        unit: Of the edges: `ns`, or `share` from 0 to 1; `name` has labels instead of edges.
        edges: Row i has values in [edges[i], edges[i + 1]); the last row of shares also has 1.
        names: The source and the name of each row that has a name.
        spacing: Whether rows are as wide as those below, or wider in proportion to their values.
    """

    kind: AxisKind
    unit: Literal["ns", "share", "name"]
    edges: tuple[int | float, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    spacing: Spacing = "linear"

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.names) if self.unit == "name" else len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the rows, with their source if there are several."""
        several = len({source for source, _ in self.names}) > 1
        return tuple(f"{source} {name}" if several else name for source, name in self.names)

    def is_as(self, other: Axis) -> bool:
        """Return whether another axis has the same rows."""
        return (self.kind, self.edges, self.names) == (other.kind, other.edges, other.names)

    def row_of(self, value: Int64s) -> Int64s:
        """Return the row of each value."""
        edges = np.array(self.edges, np.int64)
        return np.minimum(np.searchsorted(edges, value, side="right") - 1, self.rows - 1)

    def words(self, first: int, end: int) -> str:
        """Return what the rows [first, end) are, in words.

        >>> durations(10).words(0, 2), utilisation(10).words(9, 10), weekdays().words(0, 7)
        ('0ns to 2ns', '90 % to 100 %', 'Monday to Sunday')
        """
        if self.unit == "name":
            labels = self.labels[first:end]
            return labels[0] if len(labels) == 1 else f"{labels[-1]} to {labels[0]}"
        return f"{self._text(self.edges[first])} to {self._text(self.edges[end])}"

    def marks(self, most: int) -> list[Mark]:
        """Return at most `most` + 1 ticks; the tick of a name is in the middle of its rows.

        >>> durations(10).fitted(0, 35).marks(3)
        [Mark(row=0, label='0ns'), Mark(row=8, label='10ns'), Mark(row=28, label='1μs')]
        """
        if self.unit == "name":
            step = -(-self.rows // max(1, most))
            labels = self.labels
            # the first name stands at the top
            places = range(self.rows - 1, -1, -step)
            return [Mark(row + 0.5, labels[row]) for row in places]
        chosen = self._powers() if self.spacing == "log" else []
        if len(chosen) < 2:
            chosen = self._round(most)
        step = -(-len(chosen) // max(1, most + 1))
        return [Mark(row, self._text(self.edges[row])) for row in chosen[::step]]

    def _powers(self) -> list[int]:
        powers = {0, *(10**power for power in range(19))}
        return [row for row, edge in enumerate(self.edges) if edge in powers]

    def _round(self, most: int) -> list[int]:
        step = next(
            step * 10**power
            for power in range(19)
            for step in (1, 2, 5)
            if step * 10**power * max(1, most) >= self.rows
        )
        return list(range(0, self.rows + 1, step))

    def _text(self, edge: float) -> str:
        if self.unit == "share":
            return f"{100 * edge:.4g} %"
        return format_ns(int(edge)).replace("us", "μs")

    def fitted(self, first: int, end: int) -> Axis:
        """Return the rows [first, end) alone."""
        return Axis(
            self.kind,
            self.unit,
            self.edges[first : end + 1],
            self.names[first:end],
            self.spacing,
        )

    def merged(self, other: Axis) -> tuple[Axis, Int64s, Int64s]:
        """Return the axis of two maps together, and its row for each row of this and the other."""
        if self.unit == "name":
            both = entities([*self.names, *other.names])
            place = {name: row for row, name in enumerate(both.names)}
            own, its = (
                np.array([place[name] for name in each.names], np.int64) for each in (self, other)
            )
            return both, own, its
        longest = self if self.rows >= other.rows else other
        if self.kind == "duration" and self.spacing == "linear":
            width = _common_width(int(self.edges[1]), int(other.edges[1]))
            longest = _linear(max(int(self.edges[-1]), int(other.edges[-1])), width)
        own, its = (
            longest.row_of(np.array(each.edges[:-1], np.int64))
            if self.unit == "ns"
            else np.arange(each.rows, dtype=np.int64)
            for each in (self, other)
        )
        return longest, own, its

    def document(self) -> dict[str, Any]:
        """Return it as JSON values: `edges`, or `labels` where rows have names."""
        listed: dict[str, Any] = {"kind": self.kind, "unit": self.unit}
        if self.unit == "name":
            return {**listed, "labels": list(self.labels)}
        return {**listed, "spacing": self.spacing, "edges": list(self.edges)}


def durations(rows: int, spacing: Spacing = "log", longest_ns: int = 0) -> Axis:
    """Return the axis of durations.

    Args:
        rows: Of logarithmic rows, how many a power of ten has; of linear ones, at most how many
            there are.
        spacing: Whether rows are logarithmic. These do not depend on what is measured.
        longest_ns: The longest duration that linear rows have.
    """
    if spacing == "linear":
        steps = (digit * 10**power for power in range(19) for digit in (1, 2, 5))
        width = next(step for step in steps if step * rows > longest_ns or step >= 10**18)
        return _linear(longest_ns + 1, width)
    hundredths: tuple[int, ...] = _TENTHS
    if rows != len(_TENTHS):
        hundredths = tuple(round(100 * 10 ** (row / rows)) for row in range(rows))
    edges = {-(-each * 10**power // 100) for power in range(19) for each in hundredths}
    kept = sorted(edge for edge in edges if edge <= MAX_NS)
    return Axis("duration", "ns", (0, *kept, MAX_NS), spacing="log")


def _linear(end_ns: int, width_ns: int) -> Axis:
    rows = max(1, -(-end_ns // width_ns))
    return Axis("duration", "ns", tuple(range(0, (rows + 1) * width_ns, width_ns)))


def _common_width(one: int, other: int) -> int:
    """Return the least of 1, 2, 5, 10, 20 ... that is a multiple of two such."""
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    found: int = next(step for step in steps if step % one == 0 and step % other == 0)
    return found


def utilisation(rows: int) -> Axis:
    """Return the axis of shares of the time."""
    return Axis("utilisation", "share", tuple(row / rows for row in range(rows + 1)))


def entities(names: Sequence[tuple[str, str]]) -> Axis:
    """Return the axis of entities, each the name of its source and its own, from the last up."""
    from meantime.model.natural_order import natural_key  # noqa: PLC0415 - few rows are names

    ordered = sorted({*names}, key=lambda each: (*map(natural_key, each), each), reverse=True)
    return Axis("row", "name", names=tuple(ordered))


def weekdays() -> Axis:
    """Return the axis of the days of a week, of which Monday is at the top."""
    return Axis("weekday", "name", names=tuple(("", day) for day in reversed(WEEKDAYS)))


def column_ns(span_ns: int) -> int:
    """Return a round width for the columns of a range of time, of which there are 100 to 240.

    >>> column_ns(60 * NS_PER_S), column_ns(86_400 * NS_PER_S), column_ns(7)
    (500000000, 600000000000, 1)
    """
    steps = [digit * 10**power for power in range(11) for digit in (1, 2, 5)]
    widths = [step for step in steps if step <= 10 * NS_PER_S]
    widths += [15 * NS_PER_S, 30 * NS_PER_S, *_LONG_STEPS_NS]
    assert all(one < other for one, other in pairwise(widths))
    return next((width for width in widths if width * _MOST_COLUMNS >= span_ns), span_ns)
