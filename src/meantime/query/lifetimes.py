"""When entities existed: from their first state to the end of their last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.history import History
    from meantime.history.results import Intervals

__all__ = ["Lifetimes", "has_state", "intervals_between", "lifetimes", "lifetimes_of"]

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
    batches = intervals_between(history, quarks, history.start_ns, history.end_ns)
    return lifetimes_of(batches, quarks, len(history.attributes))


def lifetimes_of(batches: Iterable[Intervals], quarks: Int32s, attributes: int) -> Lifetimes:
    """Return when attributes existed as far as these intervals show; each attribute once."""
    first = np.full(attributes, np.iinfo(np.int64).max)
    last = np.full(attributes, np.iinfo(np.int64).min)
    for batch in batches:
        rows = np.flatnonzero(has_state(batch))
        quark = batch.quark[rows]
        # The intervals of an attribute are together, in order of time.
        begins = np.flatnonzero(np.diff(quark, prepend=-1))
        ends = np.append(begins[1:], len(rows)) - 1
        held = quark[begins]
        first[held] = np.minimum(first[held], batch.start_ns[rows[begins]])
        last[held] = np.maximum(last[held], batch.end_ns[rows[ends[: len(begins)]]])
    start_ns, end_ns = first[quarks], last[quarks]
    never = end_ns < start_ns
    start_ns[never] = end_ns[never] = 0
    return Lifetimes(start_ns, end_ns)
