"""`meantime.stats`: the statistics of states or of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from meantime.query.durations import span_statistics
from meantime.query.statistics import state_statistics
from meantime.query.threads import thread_quarks

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.model.units import Time
    from meantime.query.durations import SpanStatistics
    from meantime.query.statistics import StateStatistics

__all__ = ["stats"]


@overload
def stats(
    history: History,
    by: Literal["state", "entity"] = "state",
    *,
    start_ns: Time | None = None,
    end_ns: Time | None = None,
    exact: bool = False,
) -> StateStatistics: ...
@overload
def stats(
    history: History,
    by: Literal["name", "category", "thread"],
    *,
    start_ns: Time | None = None,
    end_ns: Time | None = None,
    exact: bool = False,
) -> SpanStatistics: ...
def stats(
    history: History,
    by: Literal["state", "entity", "name", "category", "thread"] = "state",
    *,
    start_ns: Time | None = None,
    end_ns: Time | None = None,
    exact: bool = False,
) -> StateStatistics | SpanStatistics:
    """Return how long states lasted, or spans if by `name`, `category` or `thread`.

    >>> from meantime.testing import history_from_picture
    >>> stats(history_from_picture("disk0  aab.")).columns()["total_ns"].tolist()
    [2, 1]

    Args:
        history: The history.
        by: What a row is of: a `state` or a state of an `entity`, or spans of a `name`, a
            `category` or a `thread`.
        start_ns: The beginning of the range, as `History.time` takes it.
        end_ns: The end of the range.
        exact: Whether quantiles are exact in any case. Otherwise those of a lane with more than
            2^22 intervals are within 0.4 % of a duration of that rank, and `is_sketch` of the
            result is True. All other figures are exact, and so are the quantiles of spans.

    Raises:
        TimeRangeError: If the range is empty or starts outside the history.
    """
    start_ns, end_ns = (None if time is None else history.time(time) for time in (start_ns, end_ns))
    if by == "state" or by == "entity":  # noqa: PLR1714 - mypy narrows by ==
        return state_statistics(history, by=by, start_ns=start_ns, end_ns=end_ns, exact=exact)
    threads = thread_quarks(history)
    return span_statistics(history, by, quarks=threads, start_ns=start_ns, end_ns=end_ns)
