"""How sure a change from some runs to others is: permutation tests over runs.

Runs are what is independent, never the intervals within one. If both sides were the same, any way
to divide all runs into two sides of these sizes would be as likely as the one that was given. The
probability of a change is the share of divisions that give one at least as large (Fisher; twice the
smaller tail, as `scipy.stats.permutation_test` has it), and its interval has the sizes that the
same divisions do not rule out.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Float64s: TypeAlias = npt.NDArray[np.float64]
    Bools: TypeAlias = npt.NDArray[np.bool_]

__all__ = ["LEVEL", "Changes", "adjusted", "changes", "divisions", "most_rows"]

# A change is certain if its probability, corrected for the number of rows, is at most this.
LEVEL = 0.05
# All divisions of the runs are looked at if there are at most this many, otherwise this many.
_MOST_DIVISIONS = 10_000
_SEED = 20260101
# Sums of the same numbers in another order differ by less than this, as a part of them.
_ROUNDING = 1e-12


class Changes(NamedTuple):
    """By row, the change of its mean over runs, and how sure it is.

    Attributes:
        size: The mean of the runs after, less that of those before.
        low: The lower end of the interval for the size, at 95 %; -inf if the runs are too few.
        high: Its upper end; inf if the runs are too few.
        probability: How likely a change of this size or more is if nothing changed.
    """

    size: Float64s
    low: Float64s
    high: Float64s
    probability: Float64s


def divisions(before: int, after: int) -> Bools:
    """Return ways to divide runs into two sides of these sizes: which are after, by way and run.

    The first is the given one: the last `after` runs. There are all ways, up to 10,000, or else as
    many random ones.

    >>> divisions(1, 2).astype(int).tolist()
    [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    number = before + after
    every = comb(number, after)
    if every <= _MOST_DIVISIONS:
        found = np.ones((every, number), np.bool_)
        chosen = np.array([*combinations(range(number), before)], np.intp).reshape(every, before)
        np.put_along_axis(found, chosen, values=False, axis=1)
        return found
    generator = np.random.default_rng(_SEED)
    given = np.arange(number) >= before
    found = np.tile(given, (_MOST_DIVISIONS, 1))
    found[1:] = generator.permuted(found[1:], axis=1)
    return found


def most_rows(before: int, after: int) -> int:
    """Return how many rows this many runs can distinguish: 0 if not even one.

    The least probability that the divisions of the runs can give is 2 over their number. Corrected
    for more rows than this, even a row that changed in every run would not be certain.

    >>> most_rows(3, 3), most_rows(4, 4), most_rows(5, 5), most_rows(10, 10)
    (0, 1, 6, 250)
    """
    return int(LEVEL * min(comb(before + after, after), _MOST_DIVISIONS) / 2 + _ROUNDING)


def changes(before: Float64s, after: Float64s) -> Changes:
    """Return by row how its mean changed, with intervals and probabilities.

    >>> found = changes(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[11.0, 12.0, 13.0, 14.0]]))
    >>> found.size.tolist(), found.probability.round(4).tolist()
    ([10.0], [0.0286])

    Args:
        before: By row and run, the figure of each run before; at least one.
        after: The same of the runs after.
    """
    runs = before.shape[1], after.shape[1]
    values = np.concatenate([before, after], axis=1)
    size = after.mean(axis=1) - before.mean(axis=1)
    ways = divisions(*runs)
    # all less their middle, so that as few digits as possible are lost
    values = values - values.mean(axis=1, keepdims=True)
    weights = np.where(ways, 1 / runs[1], -1 / runs[0])
    of_way = values @ weights.T
    given = of_way[:, :1]
    slack = _ROUNDING * np.abs(values).max(axis=1, initial=0, keepdims=True)
    tails = (of_way >= given - slack).sum(axis=1), (of_way <= given + slack).sum(axis=1)
    probability = np.minimum(1.0, 2 * np.minimum(*tails) / len(ways))
    left_out = int(LEVEL / 2 * len(ways) + _ROUNDING) - 1
    if left_out < 0:
        infinite = np.full(len(size), np.inf)
        return Changes(size, -infinite, infinite, probability)
    # Were all runs after larger by a size, then less that size they would be like those before. As
    # sizes grow, a way to divide them gives as large a change as the given one from this size on.
    moved = ways[:, runs[0] :].sum(axis=1)
    slope = moved / runs[1] - (runs[1] - moved) / runs[0]
    others = slope < 1 - _ROUNDING
    sizes = (given - of_way[:, others]) / (1 - slope[others])
    ends = left_out, sizes.shape[1] - 1 - left_out
    sizes.partition(ends, axis=1)
    return Changes(size, sizes[:, ends[0]], sizes[:, ends[1]], probability)


def adjusted(probability: Float64s) -> Float64s:
    """Return probabilities corrected for their number (Benjamini and Hochberg, 1995).

    Of the rows whose corrected probability is at most 5 %, on average 5 % or fewer are none.

    >>> adjusted(np.array([0.01, 0.02, 0.5])).round(3).tolist()
    [0.03, 0.03, 0.5]
    """
    number = len(probability)
    order = np.argsort(probability, kind="stable")
    scaled = probability[order] * number / np.arange(1, number + 1)
    found = np.empty(number)
    found[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return found
