"""What to read with care: ranges without data, and anomalies of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.anomalies import CATALOGUE
from meantime.query.findings.finding import FILE, Finding, several, text_of_ns
from meantime.query.offsets.ranges import clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.findings.scope import Scope

__all__ = ["caveats", "lost_ranges"]

_MOST_RANGES = 100


def lost_ranges(scope: Scope) -> Iterator[Finding]:
    """Yield a finding if the tracer lost events in the range."""
    lost = sorted(
        clipped(scope.history.lost, scope.start_ns, scope.end_ns),
        key=lambda span: span[0] - span[1],
    )
    if lost:
        total_ns = sum(end - start for start, end in lost)
        where = f"in {several(len(lost), 'range')}, " if len(lost) > 1 else "for "
        yield Finding(
            "lost",
            f"data are missing {where}{text_of_ns(total_ns)}{' in all' if len(lost) > 1 else ''};"
            " what happened there is unknown",
            0,
            tuple(lost[:_MOST_RANGES]),
            len(lost),
            arguments=("info", FILE),
        )


def caveats(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for each anomaly of the input."""
    anomalies = scope.history.anomalies
    for name in anomalies:
        yield Finding(
            "care",
            f"{name} ({anomalies[name]:,}): {CATALOGUE[name]}",
            0,
            ((scope.start_ns, scope.end_ns),),
            anomalies[name],
            arguments=("info", FILE),
        )
