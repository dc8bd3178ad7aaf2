"""What to read with care: ranges without data, and anomalies of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.model.anomalies import CATALOGUE
from meantime.model.units import rounded_ns
from meantime.query.findings.finding import Finding
from meantime.query.ranges import clipped
from meantime.query.sentences import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.scope import Scope

__all__ = ["caveats"]

_MOST_RANGES = 100
# Anomalies that lost ranges result from, by what is missing there.
_LOSSES = {
    "records_lost": "events",
    "records_rotated": "events",
    "lost_events": "events",
    "segment_damaged": "states",
    "lost_switch": "events",
    "samples_skipped": "samples",
}


def caveats(scope: Scope) -> Iterator[Finding]:
    """Yield a finding for the ranges without data, and one for each other anomaly of the input."""
    history = scope.history
    lost = sorted(
        clipped(history.lost, scope.start_ns, scope.end_ns), key=lambda span: span[0] - span[1]
    )
    causes = [name for name in history.anomalies if name in _LOSSES]
    if lost:
        missing = " and ".join(dict.fromkeys(_LOSSES[name] for name in causes)) or "data"
        total = rounded_ns(sum(end - start for start, end in lost))
        where = f"for {total}" if len(lost) == 1 else f"in {len(lost):,} ranges, {total} in all"
        reasons = "; ".join(f"{name}: {CATALOGUE[name]}" for name in causes)
        yield Finding(
            "lost",
            f"{missing} are missing {where}{f' ({reasons})' if reasons else ''}",
            0,
            tuple(lost[:_MOST_RANGES]),
            len(lost),
            arguments=("info", FILE),
        )
    for name in history.anomalies:
        if not lost or name not in causes:
            yield Finding(
                "care",
                f"{name} ({history.anomalies[name]:,}): {CATALOGUE[name]}",
                0,
                ((scope.start_ns, scope.end_ns),),
                history.anomalies[name],
                arguments=("info", FILE),
            )
