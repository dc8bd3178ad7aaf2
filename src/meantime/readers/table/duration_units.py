"""The unit of durations that are numbers, if neither an option nor a name has it.

A duration has the unit of the time that it is added to. If that is a date, or if rows of one
entity would overlap, the rows decide: with a wrong unit they are a thousand times too long, and
nearly all overlap, or fill nearly nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.column_mapping import UNITS_NS
from meantime.readers.table.times import number_kinds

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.columns import Int32s
    from meantime.readers.table.times import Resolved, TimeColumn

__all__ = ["DurationUnit", "duration_unit", "has_numbers"]

# Rows that are looked at.
_ENOUGH: Final = 1 << 16
# From this share of rows on, a unit overlaps: not even entities that do several things at a time.
_MOST_OVERLAP: Final = 0.5
_HARDLY_ANY: Final = 0.02
# Of the time of an entity, what its rows fill at least if their unit is right.
_FILLED: Final = 0.05
_UNITS: Final = ("s", "ms", "us", "ns")


class DurationUnit(NamedTuple):
    """A unit, and why it is this one.

    Attributes:
        unit: `ns`, `us`, `ms` or `s`; None if nothing decides.
        reason: What it rests on, or what is not known.
    """

    unit: str | None
    reason: str


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


def duration_unit(
    durations: TimeColumn,
    known: Resolved,
    entity: Int32s,
    known_unit: str | None,
    *,
    is_end: bool = False,
    is_sequential: bool = False,
) -> DurationUnit:
    """Return the unit of durations.

    Args:
        durations: The durations, as they are written.
        known: The times that they are added to, or subtracted from.
        entity: The entity of each row.
        known_unit: The unit of these times; None if they are dates.
        is_end: Whether these times are ends.
        is_sequential: Whether an entity does one thing at a time, as a thread does.
    """
    fits = _fits(durations, known, entity, is_end=is_end)
    if known_unit is not None:
        return _beside_numbers(known_unit, fits, is_sequential=is_sequential)
    if fits is None:
        return DurationUnit(None, "no entity has two rows that would show it")
    largest = _largest(fits)
    if largest is None:
        return DurationUnit(None, "rows of an entity overlap in any unit")
    if fits[largest].filled >= _FILLED or (is_sequential and largest != "s"):
        return DurationUnit(largest, "the largest in which rows of an entity do not overlap")
    return DurationUnit(None, f"in {largest} the rows fill hardly any of the time")


def _beside_numbers(
    unit: str, fits: dict[str, _Fit] | None, *, is_sequential: bool
) -> DurationUnit:
    """Return the unit of durations that are added to times in a unit that their size shows."""
    smaller = None
    if fits is not None and fits[unit].overlapping > _MOST_OVERLAP:
        smaller = _largest(fits)
    if smaller is None or UNITS_NS[smaller] > UNITS_NS[unit]:
        return DurationUnit(unit, "the unit of the times that they are added to")
    if is_sequential:
        return DurationUnit(smaller, f"in {unit} the rows of an entity overlap")
    return DurationUnit(None, f"in {unit} most rows of an entity overlap, in {smaller} none")


def _largest(fits: dict[str, _Fit]) -> str | None:
    """Return the largest unit in which rows of an entity do not overlap."""
    return next((unit for unit in _UNITS if fits[unit].overlapping <= _HARDLY_ANY), None)


def _fits(
    durations: TimeColumn, known: Resolved, entity: Int32s, *, is_end: bool
) -> dict[str, _Fit] | None:
    """Return the fit of each unit; None if no entity has two rows with a number."""
    part = slice(_ENOUGH)
    kinds = durations.kinds[part]
    scale = np.full(len(kinds), -1, np.int64)
    for kind, digits in number_kinds().items():
        scale[kinds == kind] = digits
    rows = np.flatnonzero((scale >= 0) & ~(known.bad | known.missing)[part])
    numbers = durations.values[part][rows] / 10.0 ** scale[rows]
    time_ns, of = known.time_ns[part][rows], entity[part][rows]
    order = np.lexsort((time_ns, of))
    time_ns, of, numbers = time_ns[order], of[order], numbers[order]
    pairs = np.flatnonzero(of[1:] == of[:-1])
    # the row whose length the distance to its neighbour bounds: of ends, the later one
    numbers = numbers[pairs + int(is_end)]
    gap_ns = (time_ns[pairs + 1] - time_ns[pairs]).astype(np.float64)
    if not len(pairs) or not gap_ns.any():
        return None
    room_ns = gap_ns * 1.02 + _grain_ns(time_ns)
    return {
        unit: _Fit(
            float(np.mean(numbers * UNITS_NS[unit] > room_ns)),
            float(numbers.sum() * UNITS_NS[unit] / gap_ns.sum()),
        )
        for unit in _UNITS
    }


def _grain_ns(time_ns: npt.NDArray[np.int64]) -> int:
    """Return the largest unit of which all times are multiples: what they may be rounded to."""
    return next((ns for ns in (10**9, 10**6, 10**3) if not (time_ns % ns).any()), 0)
