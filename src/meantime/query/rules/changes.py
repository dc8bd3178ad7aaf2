"""Whether rules about a change hold from some runs to others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.errors import MeantimeError, UsageError
from meantime.query.compare import Summary, compared
from meantime.query.compare.certainty import LEVEL
from meantime.query.rules.checking import rule_lanes
from meantime.query.rules.figures import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.compare.runs import Run
    from meantime.query.rules.grammar import Rule

__all__ = ["check_change"]


def check_change(before: Sequence[Run], after: Sequence[Run], rule: Rule) -> Verdict:
    """Return whether a rule about a change holds.

    It is broken if the change is beyond its limit, and certain.

    Raises:
        MeantimeError: If nothing has the name in the rule.
        UsageError: If the rule is about one trace, or there are too few runs, or it is about lanes
            and a run is a summary.
    """
    if rule.change is None:
        raise UsageError(f"{rule.text!r} is about one trace: give it to meantime assert")
    sides = [[_of_lanes(run, rule) for run in side] for side in (before, after)]
    has_spans = any(map(_has_spans, (*before, *after)))
    is_state = rule.kind == "share" or not has_spans
    try:
        found = compared(
            *sides,
            by="state" if is_state else "name",
            of="spans",
            figure=rule.figure or "share",
            pattern=f"^{re.escape(rule.name)}$",
        )
    except MeantimeError as error:
        raise MeantimeError(f"the rule {rule.text!r} matches nothing: {error}") from None
    row = found.rows[0]
    if not found.is_certain:
        raise UsageError(f"{rule.text!r} needs at least 4 runs a side")
    relative = row.relative if row.relative is not None else float("inf")
    is_beyond = relative > rule.change if rule.change >= 0 else relative < rule.change
    is_certain = row.corrected is not None and row.corrected <= LEVEL
    return Verdict(rule, not (is_beyond and is_certain), found.described(row))


def _of_lanes(run: Run, rule: Rule) -> Run:
    """Return the part of a run that a rule is about."""
    if rule.lanes is None:
        return run
    if isinstance(run, Summary):
        raise UsageError(f"{rule.text!r} is about lanes: it needs the trace, not its summary")
    return run._replace(threads=rule_lanes(run.history, rule))


def _has_spans(run: Run) -> bool:
    if isinstance(run, Summary):
        return run.by == "name" and run.of == "spans"
    return len(run.history.spans()) > 0
