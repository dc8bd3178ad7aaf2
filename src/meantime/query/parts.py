"""The part of a history that a query covers: a range of time, and some of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import TimeRangeError
from meantime.query.threads import choose_threads
from meantime.units import since_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s
    from meantime.history.history import History
    from meantime.units import Time

__all__ = ["Part", "part_of", "range_of"]


class Part(NamedTuple):
    """A range of a history, and the selected threads; None selects all."""

    history: History
    start_ns: int
    end_ns: int
    threads: Int32s | None


def part_of(
    history: History, start: Time | None, end: Time | None, threads: Sequence[str] = ()
) -> Part:
    """Return the part of a history that two times and patterns of threads select.

    Raises:
        TimeRangeError: If the range is empty or starts outside the history.
        MeantimeError: If a pattern matches no thread.
    """
    chosen = choose_threads(history, threads) if threads else None
    return Part(history, *range_of(history, start, end), chosen)


def range_of(history: History, start: Time | None, end: Time | None) -> tuple[int, int]:
    """Return the range between two times; a missing one is the history's own bound.

    Raises:
        TimeRangeError: If the range is empty or starts outside the history; one that ends after
            the history is clipped.
    """
    start_ns, end_ns = history.bounds
    if start is not None:
        start_ns = since_origin(start, history.clock)
    if end is not None:
        end_ns = since_origin(end, history.clock)
    if start is not None and not history.start_ns <= start_ns < history.end_ns:
        raise TimeRangeError(
            f"{start_ns} ns is outside the history, [{history.start_ns}, {history.end_ns})"
        )
    # the bounds of a history without any time in it are an empty range, which is valid
    if start_ns > end_ns or (start_ns == end_ns and (start is not None or end is not None)):
        raise TimeRangeError(f"the range from {start_ns} ns to {end_ns} ns is empty")
    return start_ns, min(end_ns, max(start_ns, history.end_ns))
