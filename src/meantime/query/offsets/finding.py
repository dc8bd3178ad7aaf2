"""What a finding is, and how findings are put in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Finding", "clearest", "named_list"]

# Gaps and bursts beyond these are only counted.
_MOST_ALIKE = 8
_LISTED = 3


@struct
class Finding:
    """A finding in a map.

    Attributes:
        kind: `period`, `stripe`, `gap`, `burst`, `filler` (what ran in a gap), or `apart`: far from
            all others, where rows are not offsets.
        name: The name that it is about, the first of several; empty for all together.
        sentence: The finding in words.
        names: All names that it is about.
        period_ns: The period, if the kind is `period`, or of bursts at equal distances.
        span_ns: Start and end: of a stripe, or of a period that is a column's, within each column;
            of a gap or a burst in time, of the first of several.
        other: The name whose gaps `name` fills.
        score: How clear it is; comparable within a kind.
        rows: The first and the last row, of what is apart.
        stops: Whether the names stop periodically, instead of running so.
    """

    kind: Literal["period", "stripe", "gap", "burst", "filler", "apart"]
    name: str
    sentence: str
    names: tuple[str, ...] = ()
    period_ns: int | None = None
    span_ns: tuple[int, int] | None = None
    other: str | None = None
    score: float = 0.0
    rows: tuple[int, int] | None = None
    stops: bool = False


def named_list(names: Sequence[str]) -> str:
    """Return names as a list in words.

    >>> named_list(["a"]), named_list(["a", "b", "c"]), named_list(["a", "b", "c", "d", "e"])
    ('a', 'a, b and c', 'a, b and 3 more')
    """
    if len(names) == 1:
        return names[0]
    if len(names) <= _LISTED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[: _LISTED - 1])} and {len(names) - _LISTED + 1} more"


def clearest(findings: list[Finding], noun: str) -> list[Finding]:
    """Return the clearest findings of a kind, and one that counts the others."""
    findings.sort(key=lambda each: -each.score)
    more = len(findings) - _MOST_ALIKE
    if more > 0:
        text = f"{more:,} more {noun}{'s' if more > 1 else ''}"
        return [*findings[:_MOST_ALIKE], Finding(findings[0].kind, "", text, score=-1.0)]
    return findings
