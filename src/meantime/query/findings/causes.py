"""What limited the whole trace, as the cause of what stands out in it.

Where a resource is full, it is the rule and not the exception that a thread waits for it: a state
or a call that lasted longer since its thread was ready for such a resource is put under that
conclusion. A conclusion about a place is the cause of what stands out at that place. What is small
beside the largest conclusion does not stand out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.host_parts import host_parts
from meantime.query.critical_path import scheduled_threads
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.roles import Roles
from meantime.query.ranges import clipped, union
from meantime.query.threads import thread_of, threads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.query.explain.conclusion import Conclusion, Explanation
    from meantime.query.findings.finding import Finding
    from meantime.query.ranges import Range
    from meantime.query.scope import Scope

__all__ = ["caused"]

# A finding matters if it lost this part of the largest conclusion, or of the range.
_OF_LARGEST, _OF_RANGE = 1 / 50, 1 / 200
# A program that did nothing for hours has these all the same, if they lost so much.
_LASTING, _ENOUGH_NS = {"block", "contention"}, 10**8
# From which part of its time on a finding is explained.
_EXPLAINED = 0.5
_MOST_PLACES = 20
_TIMED = {"slow", "wait", "stop", "contention", "block", "repeat"}
# The others name a cause themselves.
_EFFECTS = {"slow", "wait", "stop"}
_ROLES = Roles({})


def caused(findings: Sequence[Finding], scope: Scope, explanation: Explanation) -> list[Finding]:
    """Return the findings that matter beside what limited the trace, with their causes.

    Args:
        findings: What stands out.
        scope: The range that was searched.
        explanation: What limited it.
    """
    conclusions = explanation.conclusions
    largest_ns = max((each.value_ns or 0 for each in conclusions), default=0)
    least_ns = min(largest_ns * _OF_LARGEST, scope.length_ns * _OF_RANGE)
    full = {
        resource.name: each.id
        for each in conclusions
        for resource in explanation.resources
        if each.id == f"{resource.slug}.full"
    }
    # of several hosts, a number of a thread says nothing
    threads = _Threads(scope) if full and not host_parts(scope.history) else None
    kept = []
    for finding in findings:
        if finding.kind == "slow" and not _is_comparable(finding, scope, explanation):
            continue
        is_enough = finding.kind in _LASTING and finding.lost_ns >= _ENOUGH_NS
        if finding.kind in _TIMED and finding.lost_ns < least_ns and not is_enough:
            continue
        cause = ""
        if finding.kind in _EFFECTS:
            cause = _at_place(finding, conclusions, scope)
            if not cause and threads is not None:
                cause = threads.cause(finding, full)
        kept.append(replace(finding, cause=cause) if cause else finding)
    return kept


def _is_comparable(finding: Finding, scope: Scope, explanation: Explanation) -> bool:
    if explanation.comparable is None or not finding.spans:
        return True
    if not explanation.comparable:
        return False
    spans = scope.history.spans()
    row = spans.row_of(finding.spans[0])
    return row is not None and spans.name[row] in explanation.comparable


def _at_place(finding: Finding, conclusions: Sequence[Conclusion], scope: Scope) -> str:
    """Return the conclusion about a place where a finding is; empty if there is none."""
    rows = set(finding.rows)
    for each in conclusions:
        ranges = [(start, end) for start, end in each.ranges if end - start < scope.length_ns // 2]
        if not ranges or not rows & {*each.rows}:
            continue
        if _covered_ns(finding.ranges, union(ranges)) >= _EXPLAINED * _length_ns(finding.ranges):
            return each.id
    return ""


def _covered_ns(ranges: Sequence[Range], by: tuple[Range, ...]) -> int:
    return sum(end - start for span in ranges for start, end in clipped(by, *span))


def _length_ns(ranges: Sequence[Range]) -> int:
    return sum(end - start for start, end in ranges)


class _Threads:
    """The threads of a trace of the scheduler, and when they were ready."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        history = scope.history
        titles = scheduled_threads(history)
        self._quark_of = {
            str(each.tid): quark
            for quark, each in zip(titles, threads_of(history, titles), strict=True)
        }

    def cause(self, finding: Finding, full: dict[str, str]) -> str:
        """Return the conclusion about a full resource that a finding waited for; empty if none."""
        places = _places(finding, self._scope.history)
        whole_ns = sum(end - start for _, (start, end) in places)
        ready_ns = dict.fromkeys(full, 0)
        for quark, range_ns in places:
            lane = self._quark_of.get(str(thread_of(self._scope.history, quark).tid))
            if lane is None:
                return ""
            rows = self._scope.between(np.array([lane], np.int32), range_ns)
            for code, duration_ns in zip(
                rows.state.tolist(), rows.duration_ns.tolist(), strict=True
            ):
                kind, label = _ROLES.meaning(rows.names[code])
                if kind is TimeClass.READY and label in ready_ns:
                    ready_ns[label] += duration_ns
        label, most_ns = max(ready_ns.items(), key=lambda each: each[1])
        return full[label] if most_ns > _EXPLAINED * whole_ns else ""


def _places(finding: Finding, history: History) -> list[tuple[int, Range]]:
    """Return the worst places of a finding: an attribute, and when."""
    ranges = finding.ranges[:_MOST_PLACES]
    if finding.spans:
        spans = history.spans()
        rows = [spans.row_of(number) for number in finding.spans[: len(ranges)]]
        return [
            (spans.thread_at(row), each)
            for row, each in zip(rows, ranges, strict=True)
            if row is not None
        ]
    quark = history.find(finding.rows[0]) if finding.rows else None
    return [] if quark is None else [(quark, ranges[0])]
