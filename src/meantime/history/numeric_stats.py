"""The least, the greatest and the integral over time of an attribute's numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.values import value_of
from meantime.kernels.tail import INT, STR

if TYPE_CHECKING:
    from meantime.history.snapshot import Snapshot
    from meantime.model.columns import Value

__all__ = ["Integral", "integrate"]

# Sums are pairs of doubles, so what cancels out may exceed the result by this factor.
_CANCELLED = 2.0**40


class Integral(NamedTuple):
    """Extremes and integral of the numbers that an attribute had in a range.

    Attributes:
        least: The least of them; None if there is none but NaN.
        greatest: The greatest.
        total: The sum of each number times the time it lasted; None where it has to
            be added up exactly.
    """

    least: Value
    greatest: Value
    total: int | float | None


def integrate(snapshot: Snapshot, quark: int, start_ns: int, end_ns: int) -> Integral | None:
    """Return extremes and integral of an attribute; None if it has no numbers in the range.

    Raises:
        QuarkError: If the attribute does not exist.
        TimeRangeError: If the range is empty.
    """
    asked, range_ns = snapshot.query([quark], start_ns, end_ns)
    kind = int(snapshot.kinds[quark])
    if kind <= STR or not len(asked):
        return None
    question = snapshot.question(asked, range_ns)
    some, least, greatest, sums, magnitude, _ = snapshot.segments.measure(question)
    total = _integer(sums) if kind == INT else _double(sums, magnitude)
    if not some:
        return Integral(None, None, total)
    return Integral(value_of(least, kind, ()), value_of(greatest, kind, ()), total)


def _integer(halves: tuple[int, int]) -> int:
    return (halves[1] << 64) + (halves[0] & (2**64 - 1))


def _double(sums: tuple[int, int], magnitude: float) -> float | None:
    """Return a sum of doubles; None if it is not finite, or too much of it cancelled out."""
    total = float(np.array(sums, np.int64).view(np.float64).sum())
    if not (math.isfinite(total) and math.isfinite(magnitude)):
        return None
    return total if abs(total) * _CANCELLED >= magnitude else None
