"""The part of a history that a query covers: a range of time, and some of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.extent import Extent
from meantime.query.threads import choose_threads

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.model.units import Time

__all__ = ["Part", "extent_of", "given_range", "nothing_in", "part_of", "range_of"]


class Part(NamedTuple):
    """A range of a history, and the selected threads; None selects all."""

    history: History
    start_ns: int
    end_ns: int
    threads: Int32s | None


def part_of(
    history: History,
    start: Time | None,
    end: Time | None,
    pattern: str | None = None,
    threads: Int32s | None = None,
) -> Part:
    """Return the part of a history that two times and a filter of threads select.

    Args:
        history: The history.
        start: Where the part begins; None is the begin of the history.
        end: Where it ends; None is the end of the history.
        pattern: Only threads that this filter matches.
        threads: Only these threads.

    Raises:
        TimeRangeError: If the range is empty.
        MeantimeError: If the filter matches no thread.
        UsageError: If it is not a regular expression.
    """
    chosen = threads
    if pattern is not None:
        chosen = choose_threads(history, pattern)
        if threads is not None:
            chosen = np.intersect1d(chosen, threads)
    return Part(history, *range_of(history, start, end), chosen)


def extent_of(history: History) -> Extent:
    """Return the range of a history, in which texts become times."""
    return Extent(*history.bounds, history.clock)


def given_range(
    history: History, start: Time | None, end: Time | None
) -> tuple[int | None, int | None]:
    """Return the range between two times; a missing one is None.

    Raises:
        TimeRangeError: As `range_of` does.
    """
    start_ns, end_ns = range_of(history, start, end)
    return None if start is None else start_ns, None if end is None else end_ns


def range_of(history: History, start: Time | None, end: Time | None) -> tuple[int, int]:
    """Return the range between two times; a missing one is the history's own bound.

    A range that extends beyond the history is clipped to it. One that is outside stays as it is:
    there is nothing in it.

    Raises:
        TimeRangeError: If the range is empty.
    """
    start_ns, end_ns = extent_of(history).part(start, end)
    clipped = max(start_ns, history.start_ns), min(end_ns, max(start_ns, history.end_ns))
    return clipped if clipped[0] < clipped[1] else (start_ns, end_ns)


def nothing_in(history: History, start: Time | None, end: Time | None) -> str | None:
    """Return the sentence about a range that is outside of a history; None about any other.

    Raises:
        TimeRangeError: If the range is empty.
    """
    extent = extent_of(history)
    start_ns, end_ns = extent.part(start, end)
    asked = None if start is None else start_ns, None if end is None else end_ns
    return str(extent.nothing(*asked)) if extent.misses(*asked) else None
