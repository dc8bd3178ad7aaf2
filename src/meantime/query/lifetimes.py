"""When entities existed: from their first state to the end of their last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.results import Intervals
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Lifetimes", "has_state", "intervals_between", "lifetimes"]

# A batch of this many intervals stays in the processor's caches.
_BATCH_ROWS = 1 << 17


class Lifetimes(NamedTuple):
    """When attributes existed, by position among those asked for; `start == end` if never.

    Attributes:
        start_ns: When the first state began.
        end_ns: When the last state ended.
    """

    start_ns: Int64s
    end_ns: Int64s

    def within(self, start_ns: int, end_ns: int) -> Lifetimes:
        """Return the part of each in a range."""
        start = np.clip(self.start_ns, start_ns, end_ns)
        return Lifetimes(start, np.maximum(start, np.clip(self.end_ns, start_ns, end_ns)))

    @property
    def lasted_ns(self) -> npt.NDArray[np.uint64]:
        """How long they existed, which may be up to 2^64 ns."""
        return (self.end_ns - self.start_ns).view(np.uint64)


def has_state(batch: Intervals) -> npt.NDArray[np.bool_]:
    """Return which intervals have a state."""
    value = batch.value
    return value.codes >= 0 if isinstance(value, Coded) else value.kinds > 0


def intervals_between(
    history: History, quarks: Int32s, start_ns: int, end_ns: int
) -> Iterator[Intervals]:
    """Yield the intervals of attributes that overlap a range, which may be partly outside."""
    start_ns, end_ns = max(start_ns, history.start_ns), min(end_ns, history.end_ns)
    if start_ns < end_ns and len(quarks):
        yield from history.interval_batches(quarks, start_ns, end_ns, rows=_BATCH_ROWS)


def lifetimes(history: History, quarks: Int32s) -> Lifetimes:
    """Return when attributes existed, over the whole history.

    >>> from meantime.testing import history_from_picture
    >>> found = lifetimes(history_from_picture("a  .xy.x."), np.array([0], np.int32))
    >>> found.start_ns.tolist(), found.end_ns.tolist()
    ([1], [5])
    """
    start_ns, end_ns = np.zeros(len(quarks), np.int64), np.zeros(len(quarks), np.int64)
    if history.start_ns == history.end_ns:
        return Lifetimes(start_ns, end_ns)
    rows = np.arange(len(quarks))
    times_ns = np.full(len(quarks), history.start_ns)
    # only the ends are looked at; intervals without state follow each other if their tags differ
    while len(rows):
        found = history.states(quarks[rows], times_ns)
        is_found = has_state(found)
        start_ns[rows[is_found]] = found.start_ns[is_found]
        later = ~is_found & (found.end_ns < history.end_ns)
        rows, times_ns = rows[later], found.end_ns[later]
    rows = np.arange(len(quarks))
    times_ns = np.full(len(quarks), history.end_ns - 1)
    while len(rows):
        found = history.states(quarks[rows], times_ns)
        is_found = has_state(found)
        end_ns[rows[is_found]] = found.end_ns[is_found]
        earlier = ~is_found & (found.start_ns > history.start_ns)
        rows, times_ns = rows[earlier], found.start_ns[earlier] - 1
    return Lifetimes(start_ns, end_ns)
