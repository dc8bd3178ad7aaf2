"""What the slow activities of a kind spent more time on than the usual ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.durations import nearest_rank
from meantime.query.explain.lanes import TimeClass

if TYPE_CHECKING:
    from meantime.model.columns import Int64s
    from meantime.query.explain.lanes import Meanings

__all__ = ["FEWEST", "Comparison", "Difference", "compare_slow"]

# Of fewer activities nothing is usual.
FEWEST = 8
_TIMES = 1.5
_SAID = 0.1


class Difference(NamedTuple):
    """What slow activities spent more time on, each on average; less is negative.

    Attributes:
        kind: The class of the time.
        label: As in `Meaning`.
        mean_ns: How much more.
    """

    kind: TimeClass
    label: str
    mean_ns: float

    def as_json(self) -> dict[str, Any]:
        """Return its fields as values that JSON can represent."""
        return {"class": self.kind.text, "label": self.label, "mean_ns": self.mean_ns}


class Comparison(NamedTuple):
    """The slow activities of a kind beside the usual ones.

    Attributes:
        slow: int64, which activities are slow, the slowest first.
        usual: int64, which are usual: from the first to the third quartile.
        median_ns: The median duration of all.
        mean_ns: How much longer the slow ones took on average.
        differences: What that was spent on, most first; they add up to `mean_ns`.
    """

    slow: Int64s
    usual: Int64s
    median_ns: int
    mean_ns: float
    differences: tuple[Difference, ...]

    @property
    def said(self) -> tuple[Difference, ...]:
        """The differences that are a tenth of the whole or more."""
        return tuple(each for each in self.differences if each.mean_ns >= _SAID * self.mean_ns)


def compare_slow(
    duration_ns: Int64s, activity: Int64s, meanings: Meanings, part_ns: Int64s
) -> Comparison | None:
    """Return what slow activities of a kind spent more time on than usual; None if none is slow.

    Slow are those above the 95th percentile, and more than 1.5 times as long as the median.

    Args:
        duration_ns: By activity, how long it took.
        activity: By part of their paths, the activity.
        meanings: By part, its class and label.
        part_ns: By part, its length.
    """
    number = len(duration_ns)
    if number < FEWEST:
        return None
    ranked = np.sort(duration_ns)
    median_ns = int(ranked[nearest_rank(number, 50)])
    low, high, limit = (int(ranked[nearest_rank(number, each)]) for each in (25, 75, 95))
    # the slowest of few is above their 95th percentile, too
    is_slow = (duration_ns >= limit) & (duration_ns > _TIMES * median_ns) & (duration_ns > high)
    slow = np.flatnonzero(is_slow)
    slow = slow[np.argsort(-duration_ns[slow], kind="stable")]
    usual = np.flatnonzero((duration_ns >= low) & (duration_ns <= high))
    if not len(slow):
        return None
    names = meanings.label.names
    keys = meanings.kind.astype(np.int64) * (len(names) + 1) + meanings.label.codes + 1
    totals = []
    for chosen in (slow, usual):
        which = np.zeros(number, np.bool_)
        which[chosen] = True
        total = np.zeros(len(TimeClass) * (len(names) + 1), np.int64)
        rows = which[activity]
        np.add.at(total, keys[rows], part_ns[rows])
        totals.append(total / len(chosen))
    more = totals[0] - totals[1]
    found = [
        Difference(
            TimeClass(key // (len(names) + 1)),
            names[key % (len(names) + 1) - 1] if key % (len(names) + 1) else "",
            float(more[key]),
        )
        for key in np.flatnonzero(totals[0] + totals[1]).tolist()
    ]
    found.sort(key=lambda each: -each.mean_ns)
    mean_ns = float(duration_ns[slow].mean() - duration_ns[usual].mean())
    return Comparison(slow, usual, median_ns, mean_ns, tuple(found))
