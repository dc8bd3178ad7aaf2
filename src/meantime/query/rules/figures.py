"""Verdicts about rules, and those that follow from figures alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.model.durations import FIGURES
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from meantime.model.durations import Durations
    from meantime.query.rules.grammar import Rule

__all__ = ["Breach", "Verdict", "figure_verdict", "is_time"]


class Breach(NamedTuple):
    """Where a rule does not hold.

    Attributes:
        path: The lane.
        start_ns: Where it begins.
        end_ns: Where it ends.
        sentence: What is there.
    """

    path: str
    start_ns: int
    end_ns: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rule holds.

    Attributes:
        rule: The rule.
        holds: Whether it does.
        measured: What was measured, in words.
        breaches: Where it does not hold, the worst first; at most three.
        more: How many others there are.
    """

    rule: Rule
    holds: bool
    measured: str
    breaches: tuple[Breach, ...] = ()
    more: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return its fields as values that JSON can represent."""
        return {
            "title": self.rule.title,
            "rule": self.rule.text,
            "holds": self.holds,
            "measured": self.measured,
            "breaches": [each._asdict() for each in self.breaches],
            "more": self.more,
        }


def figure_verdict(
    rule: Rule, figures: Durations[int, float], own_ns: int, range_ns: int
) -> Verdict:
    """Return whether a rule about a figure holds.

    Args:
        rule: The rule.
        figures: The durations of what it is about.
        own_ns: Their time outside the spans directly inside them.
        range_ns: How long the trace is.
    """
    if rule.figure == "self_ns":
        value = float(own_ns)
    elif rule.figure == "rate":
        value = figures.count * 10**9 / max(1, range_ns)
    else:
        value = float(getattr(figures, rule.figure))
    assert rule.limit is not None
    holds = value < rule.limit if rule.is_below else value > rule.limit
    text = format_ns(round(value)) if is_time(rule) else f"{value:,.6g}"
    return Verdict(rule, holds, f"it is {text}")


def is_time(rule: Rule) -> bool:
    """Return whether the figure of a rule is a time."""
    return rule.figure in FIGURES and FIGURES[rule.figure].form == "time"
