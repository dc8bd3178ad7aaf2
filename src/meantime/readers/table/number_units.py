"""The unit of numbers that are durations or times, if neither an option nor a name has it.

A duration has the unit of the time that it is added to, and a time that is too small to be a date
has that of its duration. If the other is a date, or if rows of one entity would overlap, the rows
decide: with a wrong unit they are a thousand times too long, and nearly all overlap, or fill nearly
nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from meantime.model.column_mapping import UNITS_NS
from meantime.readers.table.times import date_unit, number_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.readers.table.times import Resolved, TimeColumn

__all__ = ["Unit", "date_or_uptime", "duration_unit", "has_numbers", "start_unit"]

# Rows that are looked at.
_ENOUGH: Final = 1 << 16
# From this share of rows on, a unit overlaps: not even entities that do several things at a time.
_MOST_OVERLAP: Final = 0.5
_HARDLY_ANY: Final = 0.02
# Of the time of an entity, what its rows fill at least if their unit is right.
_FILLED: Final = 0.05
# What they fill at least if it shows that they follow one another.
_FOLLOWING: Final = 0.5
_UNITS: Final = ("s", "ms", "us", "ns")
_NO_DATES: Final = "the numbers are not dates between 1990 and 2100"
_UPTIME: Final = "the numbers may be dates in us, or in ns the time since a machine was started"
# What columns are called whose times are dates, and whose are not.
_DATED: Final = re.compile(r"epoch|unix|utc|date|wall|real|created|logged|posix", re.IGNORECASE)
_SINCE_BOOT: Final = re.compile(r"mono|boot|uptime|steady", re.IGNORECASE)


class Unit(NamedTuple):
    """A unit, and why it is this one.

    Attributes:
        unit: `ns`, `us`, `ms` or `s`; None if nothing decides.
        reason: What it rests on, or what is not known.
        possible: The units that it may be if nothing decides; the first one is the likeliest.
    """

    unit: str | None
    reason: str
    possible: tuple[str, ...] = ("ms", "s", "us", "ns")

    @property
    def choices(self) -> str:
        """The units that it may be, in words."""
        return "us or ns" if self.is_either else "s, ms, us or ns"

    @property
    def is_either(self) -> bool:
        """Whether it may be one of two."""
        return self.unit is None and len(self.possible) == 2


class _Fit(NamedTuple):
    """How rows of entities follow one another with a unit.

    Attributes:
        overlapping: The share of rows that last until after the next one of their entity starts.
        filled: The length of rows, as a share of the time from each to the next.
    """

    overlapping: float
    filled: float


def has_numbers(column: TimeColumn) -> bool:
    """Return whether a column has a number, which needs a unit."""
    return bool(np.isin(column.kinds, [*number_kinds()]).any())


def date_or_uptime(columns: Sequence[TimeColumn], names: Sequence[str]) -> Unit:
    """Return the unit in which numbers are dates, if they are dates and not the time since a boot.

    The time since a machine was started 7 to 47 days ago, in nanoseconds, is a date in
    microseconds. Then names decide.

    >>> from meantime.readers.table.times import times_of
    >>> date_or_uptime([times_of([1_700_000_000_123])], ["time"]).unit
    'ms'
    >>> date_or_uptime([times_of([1_036_800_000_000_000])], ["time"]).possible
    ('us', 'ns')
    >>> date_or_uptime([times_of([1_036_800_000_000_000])], ["unix_time"]).unit
    'us'

    Args:
        columns: Times, as they are written.
        names: The names of their columns.
    """
    unit = date_unit(columns)
    if unit is None:
        return Unit(None, _NO_DATES)
    if unit != "ns" and (named := next(filter(_SINCE_BOOT.search, names), None)) is not None:
        return Unit(None, f"by its name, {named} does not count from a date")
    if unit == "us" and not any(map(_DATED.search, names)):
        return Unit(None, _UPTIME, ("us", "ns"))
    return Unit(unit, "")


def duration_unit(
    durations: TimeColumn,
    known: Resolved,
    entity: Int32s,
    known_unit: str | None,
    *,
    is_end: bool = False,
    is_sequential: bool = False,
) -> Unit:
    """Return the unit of durations.

    Args:
        durations: The durations, as they are written.
        known: The times that they are added to, or subtracted from.
        entity: The entity of each row.
        known_unit: The unit of these times; None if they are dates.
        is_end: Whether these times are ends.
        is_sequential: Whether an entity does one thing at a time, as a thread does.
    """
    rows, number = _numbers(durations, ~(known.bad | known.missing))
    found = _neighbours(number, known.time_ns[rows], entity[rows], is_end=is_end)
    if found is None:
        fits = None
    else:
        lengths, gap_ns, grain_ns = found
        fits = {unit: _fit(lengths * ns, gap_ns, grain_ns) for unit, ns in UNITS_NS.items()}
    if known_unit is not None:
        same = Unit(known_unit, "the unit of the times that they are added to")
        return _beside(same, fits, _largest, is_sequential=is_sequential)
    if fits is None:
        return Unit(None, "no entity has two rows that would show it")
    largest = _largest(fits)
    if largest is None:
        return Unit(None, "rows of an entity overlap in any unit")
    if fits[largest].filled >= _FILLED or (is_sequential and largest != "s"):
        return Unit(largest, "the largest in which rows of an entity do not overlap")
    return Unit(None, f"in {largest} the rows fill hardly any of the time")


def start_unit(
    times: TimeColumn,
    lasted: Resolved,
    entity: Int32s,
    lasted_unit: str | None,
    *,
    is_end: bool = False,
    is_sequential: bool = False,
    undecided: Unit | None = None,
) -> Unit:
    """Return the unit of times that are too small to be dates, or may be something else.

    Args:
        times: The times, as they are written.
        lasted: The durations that are added to them, or subtracted.
        entity: The entity of each row.
        lasted_unit: The unit of these durations; None if they are texts, such as `1.5s`.
        is_end: Whether the times are ends.
        is_sequential: Whether an entity does one thing at a time, as a thread does.
        undecided: What is known of times that may be dates or not.
    """
    rows, number = _numbers(times, ~(lasted.bad | lasted.missing))
    found = _neighbours(lasted.time_ns[rows], number, entity[rows], is_end=is_end)
    fits = None
    if found is not None:
        lasted_ns, gaps, grain = found
        fits = {unit: _fit(lasted_ns, gaps * ns, grain * ns) for unit, ns in UNITS_NS.items()}
    if undecided is not None:
        return _of_two(undecided, fits)
    if lasted_unit is not None:
        same = Unit(lasted_unit, "the unit of the durations")
        return _beside(same, fits, _smallest, is_sequential=is_sequential)
    if fits is None:
        return Unit(None, "no entity has two rows that would show it")
    smallest = _smallest(fits)
    if smallest is None:
        return Unit(None, "rows of an entity overlap in any unit")
    if fits[smallest].filled >= _FILLED or (is_sequential and smallest != "ns"):
        return Unit(smallest, "the smallest in which rows of an entity do not overlap")
    return Unit(None, f"in {smallest} the rows fill hardly any of the time")


def _of_two(undecided: Unit, fits: dict[str, _Fit] | None) -> Unit:
    """Return the unit of times, of two that are possible, that their durations allow."""
    large, small = undecided.possible
    if fits is None or fits[large].overlapping > _HARDLY_ANY:
        return undecided
    if fits[small].overlapping > _MOST_OVERLAP:
        return Unit(large, f"in {small} the rows of an entity overlap")
    if fits[large].filled < _FILLED <= fits[small].filled:
        return Unit(small, f"in {large} the rows fill hardly any of the time")
    return undecided


def _beside(
    same: Unit,
    fits: dict[str, _Fit] | None,
    choose: Callable[[dict[str, _Fit]], str | None],
    *,
    is_sequential: bool,
) -> Unit:
    """Return the unit of numbers beside others with a known one: the same, unless rows overlap."""
    assert same.unit is not None
    other = None
    if fits is not None and fits[same.unit].overlapping > _MOST_OVERLAP:
        other = choose(fits)
    if other is None:
        return _following(same, fits, choose)
    if is_sequential:
        return Unit(other, f"in {same.unit} the rows of an entity overlap")
    return Unit(None, f"in {same.unit} most rows of an entity overlap, in {other} none")


def _following(
    same: Unit, fits: dict[str, _Fit] | None, choose: Callable[[dict[str, _Fit]], str | None]
) -> Unit:
    """Return the unit in which rows of an entity follow one another, if they do so in another one.

    Lengths that fill most of the distances, and exceed none, do not do so by chance.
    """
    other = None if fits is None else choose(fits)
    if other is None or fits is None or same.unit is None or other == same.unit:
        return same
    if fits[same.unit].filled < _FILLED and _FOLLOWING <= fits[other].filled <= 1:
        return Unit(other, "in which rows of an entity follow one another")
    return same


def _largest(fits: dict[str, _Fit]) -> str | None:
    """Return the largest unit of durations with which rows of an entity do not overlap."""
    return next((unit for unit in _UNITS if fits[unit].overlapping <= _HARDLY_ANY), None)


def _smallest(fits: dict[str, _Fit]) -> str | None:
    """Return the smallest unit of times with which rows of an entity do not overlap."""
    return next((unit for unit in _UNITS[::-1] if fits[unit].overlapping <= _HARDLY_ANY), None)


def _numbers(
    column: TimeColumn, is_known: npt.NDArray[np.bool_]
) -> tuple[Int64s, npt.NDArray[np.float64]]:
    """Return the first rows that have a number and whose other time is known, and the numbers."""
    part = slice(_ENOUGH)
    kinds = column.kinds[part]
    scale = np.full(len(kinds), -1, np.int64)
    for kind, digits in number_kinds().items():
        scale[kinds == kind] = digits
    rows = np.flatnonzero((scale >= 0) & is_known[part])
    return rows, column.values[rows] / 10.0 ** scale[rows]


def _neighbours(
    lengths: npt.NDArray[Any], times: npt.NDArray[Any], entity: Int32s, *, is_end: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float] | None:
    """Return the lengths of rows and the distances to the next ones of their entities.

    With them, what times are rounded to. None if no entity has two rows at different times.
    """
    order = np.lexsort((times, entity))
    lengths, times, entity = lengths[order], times[order], entity[order]
    pairs = np.flatnonzero(entity[1:] == entity[:-1])
    # the row whose length the distance to its neighbour bounds: of ends, the later one
    lengths = lengths[pairs + int(is_end)].astype(np.float64)
    gaps = (times[pairs + 1] - times[pairs]).astype(np.float64)
    if not len(pairs) or not gaps.any():
        return None
    return lengths, gaps, _grain(times)


def _fit(
    lasted_ns: npt.NDArray[np.float64], gap_ns: npt.NDArray[np.float64], grain_ns: float
) -> _Fit:
    return _Fit(
        float(np.mean(lasted_ns > gap_ns * 1.02 + grain_ns)),
        float(lasted_ns.sum() / gap_ns.sum()),
    )


def _grain(times: npt.NDArray[Any]) -> float:
    """Return the largest step of which all times are multiples: what they may be rounded to."""
    steps = (10**9, 10**6, 10**3) if times.dtype == np.int64 else (10**6, 10**3, 1)
    return next((step for step in steps if not (times % step).any()), 0)
