"""Whether rules about a change hold from some runs to others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.errors import MeantimeError, UsageError
from meantime.query.compare import compared
from meantime.query.compare.certainty import LEVEL
from meantime.query.rules.checking import Verdict, rule_lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.parts import Part
    from meantime.query.rules.grammar import Rule

__all__ = ["check_change"]


def check_change(before: Sequence[Part], after: Sequence[Part], rule: Rule) -> Verdict:
    """Return whether a rule about a change holds.

    It is broken if the change is beyond its limit, and certain.

    Raises:
        MeantimeError: If nothing has the name in the rule.
        UsageError: If the rule is about one trace, or there are too few runs.
    """
    if rule.change is None:
        raise UsageError(f"{rule.text!r} is about one trace: give it to meantime assert")
    sides = [
        [
            part if rule.lanes is None else part._replace(threads=rule_lanes(part.history, rule))
            for part in side
        ]
        for side in (before, after)
    ]
    has_spans = any(len(part.history.spans()) for side in sides for part in side)
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
