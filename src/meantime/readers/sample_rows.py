"""Collects samples row by row into one batch."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import Interner
from meantime.model.trace import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s

__all__ = ["SampleRows", "times_of"]

# Half of the range, so that the sum of two times still fits into 64 bits.
_LIMIT = 2**62
_NS_PER_US = 1000


def times_of(start_us: int, deltas_us: Sequence[int]) -> Int64s:
    """Return times in nanoseconds from a start and the microseconds between them.

    >>> times_of(5, [1, 2]).tolist()
    [6000, 8000]

    Raises:
        ValueError: If they do not fit into 64 bits.
    """
    if abs(start_us) + sum(map(abs, deltas_us)) > _LIMIT // _NS_PER_US:
        raise ValueError(start_us)
    return (np.cumsum(np.array(deltas_us, np.int64)) + start_us) * _NS_PER_US


class SampleRows:
    """The samples collected so far; falsy while there are none.

    Args:
        values: The trace's values, to which the names of events are added.
    """

    def __init__(self, values: list[str]) -> None:
        self._values = values
        self._rows: list[tuple[int, int, int, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    @cached_property
    def _events(self) -> Interner[str]:
        # made for the first sample, as there may be a million values
        return Interner(self._values)

    def add(self, thread: int, time_ns: int, stack: int, weight: int, event: str) -> None:
        """Add one sample.

        Raises:
            ValueError: If its time or weight does not fit into 64 bits.
        """
        if max(abs(time_ns), abs(weight)) > _LIMIT:
            raise ValueError(time_ns)
        self._rows.append((time_ns, thread, stack, weight, self._events.code(event)))

    def add_run(self, thread: int, time_ns: Int64s, stack: Sequence[int]) -> None:
        """Add a thread's samples of wall time, each weighted by the time until the next one."""
        # V8 writes samples out of order, with negative deltas between them
        in_time = np.argsort(time_ns, kind="stable")
        times = time_ns[in_time]
        weight = np.diff(times, append=times[-1:])
        event = self._events.code("wall")
        for i, row in enumerate(in_time):
            self._rows.append((int(times[i]), thread, stack[row], int(weight[i]), event))

    def batch(self) -> Samples:
        """Return all samples in order of time."""
        columns = np.array(self._rows, np.int64).reshape(-1, 5)
        columns = columns[np.argsort(columns[:, 0], kind="stable")]
        return Samples(
            time_ns=columns[:, 0].copy(),
            thread=columns[:, 1].astype(np.int32),
            stack=columns[:, 2].astype(np.int32),
            weight=columns[:, 3].copy(),
            event=columns[:, 4].astype(np.int32),
        )
