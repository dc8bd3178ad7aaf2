"""The statistical test that decides which durations are out of the ordinary.

Durations of one kind of work are close to log-normal, so their logarithms are compared with a
normal distribution. Its centre is the median, and its deviation follows from the ninth decile: both
are robust, since up to a tenth of the durations may be outliers without a change of the limit. The
limit is the duration that the longest of all would exceed with probability `CHANCE`: a Bonferroni
correction, so that the number of durations does not matter. Where the durations of several kinds of
work are mixed, the tail is heavier than the ninth decile shows. So the 99th percentile counts too,
unless it is beyond the limit without it: then more than one in a hundred are outliers.

For exponential durations, whose tail is lighter than that of a log-normal distribution with the
same median and decile, the limit is far beyond the longest; `tests/unit/test_findings.py` generates
constant, uniform, exponential, normal and log-normal ones.
"""

from __future__ import annotations

from functools import lru_cache
from math import erfc, exp, log, pi, sqrt

from meantime.model.durations import Durations

__all__ = ["CHANCE", "FEWEST", "MUCH", "Usual"]

# Below this many durations, quantiles say little; it is also the least number for a p99 in a page.
FEWEST = 20
# How probable it is that steady durations exceed the limit.
CHANCE = 1e-4
# Less than this many times the median is not reported, however improbable.
MUCH = 3.0
# The ninth decile and the 99th percentile of the standard normal distribution, and from how many
# durations on the latter is known.
_P90, _P99, _MANY = 1.2815515655446004, 2.3263478740408408, 200
# e to this power is beyond all times.
_MOST_EXPONENT = 90.0
# Times are rounded, and quantiles of few durations vary: their logarithms deviate at least by this.
_LEAST_DEVIATION = 0.1


class Usual(Durations[int, float]):
    """What is usual for a kind of work: figures of its durations."""

    __slots__ = ()

    def limit_ns(self, among: int | None = None) -> float:
        """Return the duration beyond which one is an outlier; infinite if they are too few.

        >>> few, many = (Usual.computed(n, 0, 0, 0, (100, 110, 120)) for n in (10, 1000))
        >>> few.limit_ns(), many.limit_ns()
        (inf, 300.0)
        >>> others = [Usual.computed(1000, 0, 0, 0, (100, 200, p99_ns)) for p99_ns in (400, 9999)]
        >>> [round(each.limit_ns()) for each in others]
        [2696, 1989]

        Args:
            among: How many there are, if these are only some of them.
        """
        number = self.count if among is None else among
        if number < FEWEST:
            return float("inf")
        limit_ns = self._limit_ns(_deviation(self.median_ns, self.p90_ns, _P90), number)
        if number >= _MANY and self.p99_ns < limit_ns:
            deviation = _deviation(self.median_ns, self.p99_ns, _P99)
            limit_ns = max(limit_ns, self._limit_ns(deviation, number))
        return limit_ns

    def _limit_ns(self, deviation: float, number: int) -> float:
        # a quantile of few durations is uncertain: about its standard error is added
        deviation *= 1 + 2 / number**0.5
        exponent = deviation * _normal_quantile(CHANCE / number)
        return max(self.median_ns, 1) * max(MUCH, exp(min(exponent, _MOST_EXPONENT)))


@lru_cache(maxsize=1024)
def _normal_quantile(chance: float) -> float:
    """Return what a standard normal number exceeds with this chance, which is below 0.1.

    `statistics.NormalDist` has it too, but takes longer to import than most traces to search.

    >>> round(_normal_quantile(0.025), 6), round(_normal_quantile(1e-9), 6)
    (1.959964, 5.997807)
    """
    found = sqrt(-2 * log(chance))
    # Newton's method for the logarithm of the chance, which is nearly quadratic
    for _ in range(8):
        tail = erfc(found / sqrt(2)) / 2
        density = exp(-found * found / 2) / sqrt(2 * pi)
        found += (log(tail) - log(chance)) * tail / density
    return found


def _deviation(median_ns: int, quantile_ns: int, normal: float) -> float:
    """Return the deviation of a log-normal distribution with these quantiles."""
    return max(log(max(quantile_ns, 1) / max(median_ns, 1)) / normal, _LEAST_DEVIATION)
