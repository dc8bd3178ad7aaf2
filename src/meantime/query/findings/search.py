"""The search for everything that stands out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.history.host_parts import host_parts
from meantime.model.attributes import format_path
from meantime.query.explain import explain_briefly
from meantime.query.findings.activities import slow_activities
from meantime.query.findings.calls import slow_calls
from meantime.query.findings.care import caveats
from meantime.query.findings.causes import caused
from meantime.query.findings.entities import unlike_entities
from meantime.query.findings.limits import LIMITS, WORKER_LIMITS
from meantime.query.findings.polls import with_workers
from meantime.query.findings.ranking import in_order, ranked
from meantime.query.findings.rhythm import stops
from meantime.query.findings.waits import long_states
from meantime.query.parts import extent_of, range_of
from meantime.query.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from meantime.history.history import History
    from meantime.history.host_parts import HostPart
    from meantime.model.units import Time
    from meantime.query.explain import Explanation
    from meantime.query.findings.finding import Finding
    from meantime.query.ranges import Range

__all__ = ["findings"]

_LONGEST_NS = 2**62
_DETECTORS = (
    *dict.fromkeys(limit.detect for limit in (*WORKER_LIMITS, *LIMITS)),
    slow_activities,
    slow_calls,
    long_states,
    stops,
    unlike_entities,
    caveats,
)
# Of a joined history, what compares entities is asked of all hosts, and what is wrong is counted.
_OF_ALL_HOSTS = (unlike_entities, caveats)
_OF_A_HOST = tuple(each for each in _DETECTORS if each not in _OF_ALL_HOSTS)


def findings(
    history: History,
    *,
    limit: int | None = None,
    start: Time | None = None,
    end: Time | None = None,
    explanation: Explanation | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Finding]:
    """Return what stands out in a history, most time lost first.

    An empty list means that nothing does: each kind of finding has a statistical test that steady
    behaviour does not pass. What is found twice is reported once, by its cause. What is small
    beside what limited the trace is left out, and what that explains comes after the rest.
    Anomalies of the input, which lose no time but limit what can be said, come last. Of a joined
    history, each host is searched, hosts are compared, and entities with those of all hosts.

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
        explanation: What limited the range, from `explain`; by default it is looked for, unless
            the trace is so large that this takes long.
        progress: Called now and then with the share that is done; what it raises ends the search.

    Raises:
        TimeRangeError: If the range is empty.
        UsageError: If a text is not a time.
    """
    history = history.snapshot()
    range_ns = range_of(history, start, end)
    if range_ns[0] >= range_ns[1] or extent_of(history).misses(*range_ns):
        return []
    if range_ns[1] - range_ns[0] > _LONGEST_NS:
        # such times are wrong: nothing about durations is true
        return list(caveats(Scope(history, range_ns)))[:limit]
    scope = Scope(history, range_ns)
    if hosts := host_parts(history):
        found = _of_hosts(history, hosts, range_ns, progress)
    else:
        found = ranked(_detected(scope, _DETECTORS, progress))
    if explanation is None:
        explanation = explain_briefly(history, range_ns)
    if explanation is not None:
        found = in_order(caused(found, scope, explanation))
    return found[:limit]


def _detected(
    scope: Scope,
    detectors: Sequence[Callable[[Scope], Iterable[Finding]]],
    progress: Callable[[float], None] | None = None,
) -> list[Finding]:
    found: list[Finding] = []
    for number, detect in enumerate(detectors):
        if progress is not None:
            progress(number / len(detectors))
        found += detect(scope)
    return found


def _of_hosts(
    history: History,
    hosts: Sequence[HostPart],
    range_ns: Range,
    progress: Callable[[float], None] | None,
) -> list[Finding]:
    """Return what stands out on each host, and which hosts and entities are unlike the others."""
    from meantime.query.findings.hosts import unlike_hosts  # noqa: PLC0415 - few traces are joined

    scope = Scope(history, range_ns)
    unlike = list(unlike_hosts(scope))
    whole = {row for each in unlike for row in each.rows}
    found = [
        *unlike,
        # that its entities are unlike those of other hosts is said of the host
        *(
            each
            for each in _detected(scope, _OF_ALL_HOSTS)
            if not each.rows or not whole >= {*each.rows}
        ),
    ]
    extent = extent_of(history)
    for number, host in enumerate(hosts):
        if progress is not None:
            progress(number / len(hosts))
        still = host._replace(history=host.history.snapshot())
        if (own_ns := still.within(*range_ns)) is not None:
            scope = Scope(still.history, own_ns, (extent, host.offset_ns))
            found += [_moved(each, host) for each in ranked(_detected(scope, _OF_A_HOST))]
    return in_order(with_workers(found, Scope(history, range_ns)))


def _moved(finding: Finding, host: HostPart) -> Finding:
    """Return a finding of a host as one of the history that joins it."""
    above, offset_ns = format_path(host.above), host.offset_ns
    return replace(
        finding,
        sentence=f"{host.name}: {finding.sentence}",
        ranges=tuple((start + offset_ns, end + offset_ns) for start, end in finding.ranges),
        rows=tuple(f"{above}/{row}" for row in finding.rows),
        spans=tuple(number + host.first_span for number in finding.spans),
    )
