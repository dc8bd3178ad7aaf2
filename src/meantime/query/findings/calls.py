"""Calls that took much longer than other calls of the same name.

A call is an outlier by `outliers.Usual` of the durations of its name: of all threads, and of its
own thread if that made enough such calls. What an outlier lost is the time beyond the median. If a
call inside it is an outlier too, that one has lost its part of it: the time of the outer one is
reduced by it, and with less than half of it left the outer one is explained and not reported. So
the innermost call that is slow is named, and no time counts twice.

Calls whose names say that they wait for work, such as `epoll_wait` and `sleep`, take as long as
there is nothing to do: they explain the calls around them, and are not reported.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import MeantimeError
from meantime.model.columns import distinct
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.findings.outliers import FEWEST, Usual
from meantime.query.ranges import ranges_of
from meantime.query.sentences import FILE, times
from meantime.query.threads import thread_of, thread_title
from meantime.query.waiting_calls import is_waiting_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.scope import Scope

__all__ = ["slow_calls"]

_MOST_RANGES = 100
# The slowest calls, which are examined, and how many spans around each of them are.
_MOST_CALLS = 20_000
_MOST_LEVELS = 200
# Of how many names, each on one thread, the durations are compared.
_MOST_GROUPS = 500
_ARGUMENT_LENGTH = 60
_MOST_ARGUMENTS = 10_000
# Arguments that say which of many calls it was.
_TELLING = ("detail", "path", "url", "query", "sql", "file", "name")


def slow_calls(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each name with calls that took much longer than the others."""
    spans = scope.history.spans(start_ns=scope.start_ns, end_ns=scope.end_ns)
    if not len(spans):
        return
    from meantime.query.durations import span_statistics  # noqa: PLC0415 - many traces have no spans

    try:
        statistics = span_statistics(
            scope.history, "name", start_ns=scope.start_ns, end_ns=scope.end_ns, whole=True
        )
    except MeantimeError:
        # times so wrong that durations cannot be added up
        return
    usual: dict[str, Usual] = {}
    limit: dict[str, float] = {}
    for key, of_calls in zip(statistics.keys, statistics.each(Usual), strict=True):
        beyond_ns = of_calls.limit_ns()
        if key is not None and of_calls.max_ns > beyond_ns:
            usual[key], limit[key] = of_calls, beyond_ns
    if not limit:
        return
    rows, lost_ns = _outliers(spans, usual, limit)
    unlike = _unlike_on_thread(spans, rows)
    rows, lost_ns = rows[unlike], lost_ns[unlike]
    names = spans.name.codes[rows]
    for code in distinct(names).tolist():
        of_name = np.flatnonzero(names == code)
        if int(lost_ns[of_name].sum()) < scope.least_ns:
            continue
        key = spans.name.names[code]
        if is_waiting_call(key):
            continue
        slowest = of_name[np.argsort(-lost_ns[of_name], kind="stable")]
        yield _finding(scope, spans, rows[slowest], int(lost_ns[of_name].sum()), usual[key])


def _outliers(
    spans: SpanTable, usual: dict[str, Usual], limit: dict[str, float]
) -> tuple[Int64s, Int64s]:
    """Return the rows of outliers, and the time that each of them lost itself."""
    names = spans.name.names
    limits = np.array([limit.get(name, np.inf) for name in names] + [np.inf])
    medians = np.array([usual[name].median_ns if name in usual else 0 for name in names] + [0])
    duration_ns = spans.end_ns - spans.start_ns
    rows = np.flatnonzero(duration_ns > limits[spans.name.codes]).astype(np.int64)
    excess_ns = duration_ns[rows] - medians[spans.name.codes[rows]]
    if len(rows) > _MOST_CALLS:
        kept = np.sort(np.argpartition(-excess_ns, _MOST_CALLS)[:_MOST_CALLS])
        rows, excess_ns = rows[kept], excess_ns[kept]
    own_ns = excess_ns.copy()
    index_of = np.full(len(spans) + 1, -1, np.int32)
    index_of[rows] = np.arange(len(rows))
    parent = spans.parent
    inner, above = np.arange(len(rows)), parent[rows].astype(np.int64)
    for _ in range(_MOST_LEVELS):
        inner, above = inner[above >= 0], above[above >= 0]
        if not len(inner):
            break
        outer = index_of[above]
        is_met = outer >= 0
        np.subtract.at(own_ns, outer[is_met], excess_ns[inner[is_met]])
        inner, above = inner[~is_met], parent[above[~is_met]].astype(np.int64)
    unexplained = own_ns * 2 >= excess_ns
    return rows[unexplained], own_ns[unexplained]


def _unlike_on_thread(spans: SpanTable, rows: Int64s) -> npt.NDArray[np.bool_]:
    """Return which outliers are outliers on their own thread too, if it made enough such calls.

    Threads may do work of different size under one name, so that the durations of all of them are
    no longer log-normal.
    """
    unlike = np.ones(len(rows), np.bool_)
    thread = np.searchsorted(spans.offsets, rows, side="right") - 1
    names = spans.name.codes
    groups, group = np.unique(np.stack([thread, names[rows]], axis=1), axis=0, return_inverse=True)
    if len(groups) > _MOST_GROUPS:
        return unlike
    for number, (index, code) in enumerate(groups.tolist()):
        low, high = spans.offsets[index : index + 2].tolist()
        calls = low + np.flatnonzero(names[low:high] == code)
        if len(calls) >= FEWEST:
            own = group.reshape(-1) == number
            limit_ns = Usual.of(spans.end_ns[calls] - spans.start_ns[calls]).limit_ns()
            unlike[own] = spans.end_ns[rows[own]] - spans.start_ns[rows[own]] > limit_ns
    return unlike


def _finding(scope: Scope, spans: SpanTable, rows: Int64s, lost_ns: int, usual: Usual) -> Finding:
    shown = rows[:_MOST_RANGES]
    first = int(rows[0])
    name = spans.name[first] or ""
    quark = spans.thread_at(first)
    worst = (int(spans.start_ns[first]), int(spans.end_ns[first]))
    text = f"{name}{_argument(spans, first)} took {rounded_ns(worst[1] - worst[0])}"
    if len(scope.history.spans().threads) > 1:
        text += f" on {thread_title(thread_of(scope.history, quark))}"
    text += f"; usually {rounded_ns(usual.median_ns)}"
    if len(rows) > 1:
        text += f"; {times(len(rows))} of {usual.count:,} much longer than usual"
    else:
        text += f" ({usual.count:,} calls)"
    threads = dict.fromkeys(spans.thread_at(row) for row in shown.tolist())
    return Finding(
        "slow",
        text,
        lost_ns,
        ranges_of(spans.start_ns[shown], spans.end_ns[shown]),
        len(rows),
        tuple(scope.path(thread) for thread in threads),
        tuple(spans.rows[shown].tolist()),
        ("stats", FILE, "--longest", name, *scope.options()),
    )


def _argument(spans: SpanTable, row: int) -> str:
    """Return what says which of many calls it was, in brackets; empty if nothing does."""
    if not 0 < spans.arguments_length[row] <= _MOST_ARGUMENTS:
        return ""
    try:
        fields = json.loads(spans.arguments(row) or "")
    except (ValueError, MeantimeError, RecursionError):
        return ""
    if not isinstance(fields, dict):
        return ""
    found = next(
        (fields[key] for key in _TELLING if isinstance(fields.get(key), str) and fields[key]), ""
    )
    text = " ".join(found.split())
    if len(text) > _ARGUMENT_LENGTH:
        text = f"{text[: _ARGUMENT_LENGTH // 2]}…{text[-_ARGUMENT_LENGTH // 2 + 1 :]}"
    return f" ({text})" if text else ""
