"""The search for everything that stands out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.findings.activities import slow_activities
from meantime.query.findings.blocks import blocking_steps
from meantime.query.findings.calls import slow_calls
from meantime.query.findings.care import caveats
from meantime.query.findings.entities import unlike_entities
from meantime.query.findings.queues import contention, full_pools
from meantime.query.findings.ranking import ranked
from meantime.query.findings.rhythm import stops
from meantime.query.findings.scope import Scope
from meantime.query.findings.waits import long_states
from meantime.query.parts import range_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.history.history import History
    from meantime.query.findings.finding import Finding
    from meantime.units import Time

__all__ = ["findings"]

_LONGEST_NS = 2**62
_DETECTORS = (
    blocking_steps,
    slow_activities,
    slow_calls,
    long_states,
    contention,
    full_pools,
    stops,
    unlike_entities,
    caveats,
)


def findings(
    history: History,
    *,
    limit: int | None = None,
    start: Time | None = None,
    end: Time | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Finding]:
    """Return what stands out in a history, most time lost first.

    An empty list means that nothing does: each kind of finding has a statistical test that steady
    behaviour does not pass. What is found twice is reported once, by its cause. Anomalies of the
    input, which lose no time but limit what can be said, come last.

    >>> from meantime.testing import history_from_spans
    >>> calls = [("query", 100 * i, 100 * i + 9 + i % 3) for i in range(99)]
    >>> history = history_from_spans({"main": [*calls, ("query", 9900, 10_900)]})
    >>> [each.sentence for each in findings(history)]
    ['query took 1 us; usually 10 ns (100 calls)']

    Args:
        history: The history. One that is still growing is searched as it is now.
        limit: Return at most this many.
        start: Where the range to search begins, in nanoseconds or as text; by default all of it.
        end: Where it ends.
        progress: Called now and then with the share that is done; what it raises ends the search.

    Raises:
        TimeRangeError: If nothing of the history is in the range.
        UsageError: If a text is not a time.
    """
    history = history.snapshot()
    range_ns = range_of(history, start, end)
    if range_ns[0] >= range_ns[1]:
        return []
    if range_ns[1] - range_ns[0] > _LONGEST_NS:
        # such times are wrong: nothing about durations is true
        return list(caveats(Scope(history, range_ns)))[:limit]
    scope = Scope(history, range_ns)
    found: list[Finding] = []
    for number, detect in enumerate(_DETECTORS):
        if progress is not None:
            progress(number / len(_DETECTORS))
        found += detect(scope)
    return ranked(found)[:limit]
