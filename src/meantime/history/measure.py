"""What the numbers of an attribute in a range come to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.values import value_of
from meantime.kernels import pyramid
from meantime.kernels.search import Segments
from meantime.kernels.tail import INT, STR

if TYPE_CHECKING:
    from meantime.columns import Value
    from meantime.history.present import Present

__all__ = ["Measured", "measure"]

# Sums of doubles are kept in two, so what cancels out may be this much larger than what is left.
_CANCELLED = 2.0**40


class Measured(NamedTuple):
    """What the numbers that an attribute had in a range come to.

    Attributes:
        least: The least of them; None if there is none but NaN.
        greatest: The greatest.
        total: The sum of each number times the time it lasted; None where only adding them all
            exactly would tell.
    """

    least: Value
    greatest: Value
    total: int | float | None


def measure(present: Present, quark: int, start_ns: int, end_ns: int) -> Measured | None:
    """Return what the numbers of an attribute come to; None if it has strings, or nothing.

    Raises:
        QuarkError: If there is no such attribute.
        TimeRangeError: If the range is empty or starts outside the history.
    """
    _, range_ns = present.query([quark], start_ns, end_ns)
    kind = int(present.facts.kinds[quark])
    if kind <= STR:
        return None
    segments = present.segments
    while not isinstance(segments, Segments):
        segments = segments.stored
    if present.pyramids:
        present.pyramids.use()
    some, least, greatest, sums, magnitude, rows = pyramid.measure(segments, quark, kind, *range_ns)
    if present.pyramids:
        present.pyramids.read(rows)
    total = _integer(sums) if kind == INT else _double(sums, magnitude)
    if not some:
        return Measured(None, None, total)
    return Measured(value_of(least, kind, ()), value_of(greatest, kind, ()), total)


def _integer(halves: tuple[int, int]) -> int:
    return (halves[1] << 64) + (halves[0] & (2**64 - 1))


def _double(sums: tuple[int, int], magnitude: float) -> float | None:
    """Return a sum of doubles; None if it is not finite, or too much of it cancelled out."""
    total = float(np.array(sums, np.int64).view(np.float64).sum())
    if not (math.isfinite(total) and math.isfinite(magnitude)):
        return None
    return total if abs(total) * _CANCELLED >= magnitude else None
