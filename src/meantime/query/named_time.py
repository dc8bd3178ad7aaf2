"""How much of each of some bins is covered: by ranges, or by the states of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from meantime.model.columns import named
from meantime.query.lifetimes import intervals_between

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s

    Float64s: TypeAlias = npt.NDArray[np.float64]

__all__ = ["covered_ns", "state_ns"]


def state_ns(history: History, quarks: Int32s, name: str, edges_ns: Int64s) -> Float64s:
    """Return by bin how long attributes had a state, added up; nothing outside the history.

    >>> from meantime.testing import history_from_picture
    >>> history = history_from_picture("disk0  aab.")
    >>> state_ns(history, np.array([0], np.int32), "a", np.array([-2, 1, 4, 7])).tolist()
    [1.0, 1.0, 0.0]

    Args:
        history: The history.
        quarks: The attributes.
        name: The state; numbers are named as text.
        edges_ns: Where bins begin, and where the last one ends; ascending.
    """
    found = np.zeros(len(edges_ns) - 1)
    first_ns, last_ns = int(edges_ns[0]), int(edges_ns[-1])
    for batch in intervals_between(history, quarks, first_ns, last_ns):
        column = named(batch.value)
        codes = [code for code, each in enumerate(column.names) if str(each) == name]
        chosen = np.isin(column.codes, codes)
        end_ns = np.minimum(batch.end_ns[chosen], history.end_ns)
        found += covered_ns(batch.start_ns[chosen], end_ns, edges_ns)
    return found


def covered_ns(start_ns: Int64s, end_ns: Int64s, edges_ns: Int64s) -> Float64s:
    """Return by bin how much of it ranges cover, added up.

    >>> covered_ns(np.array([1, 2]), np.array([4, 12]), np.array([0, 3, 6])).tolist()
    [3.0, 4.0]

    Args:
        start_ns: Where the ranges begin.
        end_ns: Where each ends, at or after that.
        edges_ns: As of `state_ns`.
    """
    since = _since(start_ns, edges_ns) - _since(end_ns, edges_ns)
    covered: Float64s = np.diff(since)
    return covered


def _since(times_ns: Int64s, edges_ns: Int64s) -> Float64s:
    """Return by edge how long before it the times are, added up; those after it count 0."""
    edges = edges_ns - edges_ns[0]
    # beyond an end, where exactly makes no difference between edges
    ordered = np.sort(np.clip(times_ns - edges_ns[0], 0, edges[-1]))
    before = np.searchsorted(ordered, edges)
    sums = np.concatenate([[0.0], np.cumsum(ordered, dtype=np.float64)])
    since: Float64s = before * edges.astype(np.float64) - sums[before]
    return since
