"""How far one clock is from another over time, between the bounds that messages give.

If messages between two hosts exclude every offset, the clocks drift. A line is fitted between the
bounds that messages give, in whole numbers: of the lines that no message contradicts, the one in
the middle. A part with a drift becomes a `RetimedHistory`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from meantime.model.clocks import MOST_DRIFT_PPT, ClockShift

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Bound", "ClockLine", "clock_line"]

# A time of a clock, and what may be added to it there at most, or has to be at least.
Bound: TypeAlias = tuple[int, int]

_PPT = 10**12
_MOST = Fraction(MOST_DRIFT_PPT, _PPT)


class ClockLine(NamedTuple):
    """A line between bounds.

    Attributes:
        shift: The line in the middle of those that are possible.
        error_ns: How far another one that is possible is from it, from the first bound to the last.
        drifts_ppt: The least and the greatest drift that is possible.
    """

    shift: ClockShift
    error_ns: int
    drifts_ppt: tuple[int, int]


def clock_line(most: Iterable[Bound], least: Iterable[Bound]) -> ClockLine | None:
    """Return the line that is at no bound's time above what is possible, or below.

    It does not drift if that is possible. Otherwise its drift is in the middle of those that are;
    if bounds limit it on one side only, the smallest.

    >>> clock_line([(0, 10), (10**9, 1010)], [(0, 0), (10**9, 1000)]).shift
    ClockShift(offset_ns=5, drift_ppt=1000000, at_ns=0)
    >>> clock_line([(0, 10), (10**9, 10)], [(0, 0), (10**9, 0)]).shift.drift_ppt
    0

    Args:
        most: What may be added at most.
        least: What has to be added at least.

    Returns:
        None if there is no such line, or one of the two has no bounds.
    """
    above, below = _hull(most, sign=1), _hull(least, sign=-1)
    drifts = _possible(above, below)
    if drifts is None:
        return None
    drift = Fraction(round(_chosen(*drifts) * _PPT), _PPT)
    at_ns = min(above[0][0], below[0][0])
    low_ns, high_ns = _offsets(above, below, drift, at_ns)
    shift = ClockShift(floor((low_ns + high_ns) / 2), int(drift * _PPT), at_ns)
    length_ns = max(above[-1][0], below[-1][0]) - at_ns
    error = Fraction(0)
    for each in {*drifts, *_slopes(above, *drifts), *_slopes(below, *drifts)}:
        for offset in _offsets(above, below, each, at_ns):
            off = offset - shift.offset_ns
            error = max(error, abs(off), abs(off + (each - drift) * length_ns))
    low, high = drifts
    return ClockLine(shift, ceil(error), (ceil(low * _PPT), floor(high * _PPT)))


def _possible(above: Sequence[Bound], below: Sequence[Bound]) -> tuple[Fraction, Fraction] | None:
    """Return the least and the greatest drift of a line between bounds; None if there is none."""
    if not above or not below:
        return None
    low, high = -_MOST, _MOST
    for most_at, most_ns in above:
        for least_at, least_ns in below:
            if most_at == least_at:
                if most_ns < least_ns:
                    return None
                continue
            slope = Fraction(most_ns - least_ns, most_at - least_at)
            if most_at > least_at:
                high = min(high, slope)
            else:
                low = max(low, slope)
    return (low, high) if low <= high else None


def _chosen(low: Fraction, high: Fraction) -> Fraction:
    """Return the drift of the line, of those that are possible."""
    if low <= 0 <= high:
        return Fraction(0)
    if _MOST in {-low, high}:
        return high if high < 0 else low
    return (low + high) / 2


def _hull(bounds: Iterable[Bound], *, sign: int) -> list[Bound]:
    """Return the bounds that no line between two others makes needless, in order of time.

    Args:
        bounds: The bounds.
        sign: 1 if the least of them count, -1 if the greatest do.
    """
    found: list[Bound] = []
    for time_ns, bound_ns in sorted((time_ns, sign * bound_ns) for time_ns, bound_ns in bounds):
        if found and found[-1][0] == time_ns:
            continue
        while len(found) > 1 and _turns(found[-2], found[-1], (time_ns, bound_ns)):
            found.pop()
        found.append((time_ns, bound_ns))
    return [(time_ns, sign * bound_ns) for time_ns, bound_ns in found]


def _turns(first: Bound, middle: Bound, last: Bound) -> bool:
    """Return whether the middle one is not below the line of the other two."""
    return (middle[1] - first[1]) * (last[0] - first[0]) >= (last[1] - first[1]) * (
        middle[0] - first[0]
    )


def _slopes(hull: Sequence[Bound], low: Fraction, high: Fraction) -> list[Fraction]:
    """Return the drifts between adjacent bounds that are possible."""
    slopes = (
        Fraction(after[1] - before[1], after[0] - before[0]) for before, after in pairwise(hull)
    )
    return [each for each in slopes if low < each < high]


def _offsets(
    above: Sequence[Bound], below: Sequence[Bound], drift: Fraction, at_ns: int
) -> tuple[Fraction, Fraction]:
    """Return what has to be added at a time at least, and at most, if that is the drift."""
    return (
        max(bound_ns - drift * (time_ns - at_ns) for time_ns, bound_ns in below),
        min(bound_ns - drift * (time_ns - at_ns) for time_ns, bound_ns in above),
    )
