"""Which findings are kept, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.query.ranges import clipped, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meantime.query.findings.finding import Finding, Kind, Range

__all__ = ["in_order", "ranked"]

# From what names its cause to what only shows its effects.
_SPECIFIC: tuple[Kind, ...] = ("block", "slow", "wait", "contention", "stop")
# They lose no time, but limit what the others can say.
_CARE = {"lost": 1, "care": 2}
# A queue that lasts, or an entity of its own kind, may be how a program works: it ranks below
# events unless it takes this many times as long.
_LASTING: dict[Kind, int] = {"contention": 50, "unlike": 50}
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
    for kind in _SPECIFIC:
        cause = union(span for finding in kept for span in finding.ranges)
        kept += [
            finding
            for finding in findings
            if finding.kind == kind and not _is_explained(finding, cause)
        ]
    rest = [finding for finding in findings if finding.kind not in _SPECIFIC]
    return in_order([*kept, *rest])


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, most time lost first, and what limits them last."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, float]:
    return _CARE.get(finding.kind, 0), -finding.lost_ns / _LASTING.get(finding.kind, 1)


def _is_explained(finding: Finding, cause: tuple[Range, ...]) -> bool:
    covered_ns = sum(end - start for span in finding.ranges for start, end in clipped(cause, *span))
    needed_ns = finding.lost_ns
    if finding.kind == "contention":
        # its waits overlap each other, so all of them have to be known
        if finding.count > len(finding.ranges):
            return False
        needed_ns = sum(end - start for start, end in finding.ranges)
    return covered_ns >= max(1, _EXPLAINED * needed_ns)
