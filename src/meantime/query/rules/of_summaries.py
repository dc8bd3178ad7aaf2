"""Whether rules hold for a trace of which there is a summary: those about figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import MeantimeError, UsageError
from meantime.model.durations import Durations
from meantime.query.compare.grouping import groupings
from meantime.query.duration_sums import DurationSums
from meantime.query.rules.figures import figure_verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.compare import Summary
    from meantime.query.rules.figures import Verdict
    from meantime.query.rules.grammar import Rule

__all__ = ["check_summary"]


def check_summary(summary: Summary, rules: Sequence[Rule]) -> list[Verdict]:
    """Return for each rule whether it holds for the trace of a summary.

    Raises:
        MeantimeError: If the trace has nothing with the name in a rule.
        UsageError: If a rule needs more than figures of all lanes.
    """
    return [_verdict(summary, rule) for rule in rules]


def _verdict(summary: Summary, rule: Rule) -> Verdict:
    if rule.kind != "figure" or rule.change is not None or rule.lanes is not None:
        raise UsageError(
            f"{rule.text!r} needs the trace: a summary has figures of names on all lanes"
        )
    declared = groupings("spans", keep="sketch")
    states = summary.measured(declared["state"]())
    spans = summary.measured(declared["name"]())
    rows = [row for row in states.rows if row.key == rule.name]
    sums = [[row.count, row.total_ns, row.min_ns, row.max_ns] for row in rows]
    own_ns = 0
    if rule.name in spans.keys:
        at = spans.keys.index(rule.name)
        names = ("count", "total_ns", "min_ns", "max_ns")
        sums.append([int(getattr(spans, name)[at]) for name in names])
        own_ns = int(spans.self_ns[at])
    if not sums:
        raise MeantimeError(
            f"the rule {rule.text!r} matches nothing: no state or span of the summary is called"
            f" {rule.name!r}"
        )
    counts, totals, least, most = zip(*sums, strict=True)
    kept = [
        durations.of_group(at, rule.name)
        for durations, name_of in ((states.durations, _state), (spans.durations, str))
        for at, key in enumerate(durations.keys)
        if key is not None and name_of(key) == rule.name
    ]
    quantiles = np.clip(DurationSums.added(kept).quantiles()[rule.name], min(least), max(most))
    found: Durations[int, float] = Durations.computed(
        sum(counts), sum(totals), min(least), max(most), quantiles.tolist()
    )
    return figure_verdict(rule, found, own_ns, summary.end_ns - summary.start_ns)


def _state(key: tuple[str, str, str | None]) -> str:
    return key[1]
