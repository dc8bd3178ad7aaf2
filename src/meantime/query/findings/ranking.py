"""Which findings are kept, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.findings.finding import KINDS
from meantime.query.ranges import clipped, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.query.findings.finding import Finding
    from meantime.query.ranges import Range

__all__ = ["in_order", "ranked"]

# From which part explained by more specific findings on a finding is left out.
_EXPLAINED = 0.7


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings by time lost, without those that a more specific one explains.

    A finding is explained if others of a more specific kind cover as much of its ranges as the time
    that it lost. Lost ranges and anomalies of the input come last.

    >>> from meantime.query.findings import Finding
    >>> block = Finding("block", "a", 90, ((10, 100),), 1)
    >>> slow = Finding("slow", "b", 95, ((5, 105),), 1)
    >>> ranked([slow, block]) == [block]
    True
    """
    kept: list[Finding] = []
    for kind in (kind for kind, facts in KINDS.items() if facts.is_specific):
        cause = union(span for finding in kept for span in finding.ranges)
        kept += [
            finding
            for finding in findings
            if finding.kind == kind and not _is_explained(finding, cause)
        ]
    rest = [finding for finding in findings if not KINDS[finding.kind].is_specific]
    return in_order([*kept, *rest])


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, most time lost first, then those with a cause, and what limits them last."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, bool, float]:
    facts = KINDS[finding.kind]
    return facts.group, bool(finding.cause), -finding.lost_ns / facts.divisor


def _is_explained(finding: Finding, cause: tuple[Range, ...]) -> bool:
    covered_ns = sum(end - start for span in finding.ranges for start, end in clipped(cause, *span))
    needed_ns = finding.lost_ns
    if finding.kind == "contention":
        # its waits overlap each other, so all of them have to be known
        if finding.count > len(finding.ranges):
            return False
        needed_ns = sum(end - start for start, end in finding.ranges)
    return covered_ns >= max(1, _EXPLAINED * needed_ns)
