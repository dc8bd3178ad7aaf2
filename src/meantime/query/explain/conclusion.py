"""What a trace says about what limited it: conclusions, and what they rest on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.query.explain.lanes import TimeClass
from meantime.query.sentences import FILE, percent, plural

if TYPE_CHECKING:
    from meantime.query.explain.activity_path import ActivityPath
    from meantime.query.explain.budget import Budget, BudgetRow
    from meantime.query.explain.resources import Resource
    from meantime.query.ranges import Range

__all__ = ["Certainty", "Conclusion", "Evidence", "Explanation"]

Certainty: TypeAlias = Literal["measured", "inferred", "bound"]
_CERTAIN: tuple[Certainty, ...] = ("measured", "bound", "inferred")
MOST_SENTENCES = 5


class Evidence(NamedTuple):
    """Where to see what a conclusion says.

    Attributes:
        handle: A span or `LANE@TIME`, which other commands take; empty if it is about no place.
        arguments: The arguments of a command of meantime that shows it, with `FILE` for the trace.
    """

    handle: str = ""
    arguments: tuple[str, ...] = ()

    def command(self, file: str) -> str:
        """Return the command line that shows it, for a shell; empty if there is none."""
        words = [file if word == FILE else word for word in self.arguments]
        return shlex.join(["meantime", *words]) if words else ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One thing that a trace says about what took its time.

    Attributes:
        id: What it is about, the same in all traces and versions: `cpu.full`, `gpu.idle`.
        sentence: The conclusion in words, with its figures.
        value_ns: The time that it is about; None if it is about no time.
        share: That time as a share, 0 to 1, of the time that it is part of; None if there is none.
        bound_ns: How much shorter the range or the activities could be at most without it; None if
            that is not known.
        certainty: Whether it was measured, inferred from what was measured, or is a bound.
        evidence: Where to see it.
        ranges: Where it is, [start_ns, end_ns), the worst first.
        rows: The paths of the lanes that it is about, the first one the most.
        parts: Further figures by name.
        is_notable: Whether it passed the threshold to be said. Other conclusions are only measured,
            so that rules can ask for them.
    """

    id: str
    sentence: str
    value_ns: int | None = None
    share: float | None = None
    bound_ns: int | None = None
    certainty: Certainty = "measured"
    evidence: tuple[Evidence, ...] = ()
    ranges: tuple[Range, ...] = ()
    rows: tuple[str, ...] = ()
    parts: dict[str, Any] = field(default_factory=dict)
    is_notable: bool = True

    def as_json(self, file: str) -> dict[str, Any]:
        """Return its fields as values that JSON can represent.

        Args:
            file: The name of the trace in commands.
        """
        return {
            "id": self.id,
            "sentence": self.sentence,
            "value_ns": self.value_ns,
            "share": self.share,
            "bound_ns": self.bound_ns,
            "certainty": self.certainty,
            "evidence": [
                {"handle": each.handle, "command": each.command(file)} for each in self.evidence
            ],
            "ranges": [list(each) for each in self.ranges],
            "rows": list(self.rows),
            "parts": self.parts,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the time of a trace, or of its activities, went, and what limited it.

    Attributes:
        family: Which kind of trace this is: `scheduler`, `states`.
        kind: What the activities are called: `thread`, `step`, `GET /order`.
        activities: How many there are.
        range_ns: The range [start, end) of the trace that was looked at.
        measures: All that was measured, also what is not worth a sentence, by importance.
        budget: What the time was spent on; its rows add up.
        unit: What the budget counts: `ns`, or the unit of the weights of samples.
        resources: The resources that the trace has.
        missing: What the trace cannot answer, a sentence each.
        path: The path of the activity, if one was asked for.
        comparable: The names of the calls that take about as long each time unless something is
            wrong; None if all do.
    """

    family: str
    kind: str
    activities: int
    range_ns: Range
    measures: tuple[Conclusion, ...]
    budget: Budget
    resources: tuple[Resource, ...] = ()
    missing: tuple[str, ...] = ()
    path: ActivityPath | None = None
    unit: str = "ns"
    comparable: frozenset[str] | None = None

    @property
    def conclusions(self) -> tuple[Conclusion, ...]:
        """What is worth a sentence, the most important first: at most five."""
        return tuple(each for each in self.measures if each.is_notable)[:MOST_SENTENCES]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The conclusions in words; one sentence if there is none."""
        found = tuple(each.sentence for each in self.conclusions)
        return found or (self.no_conclusion,)

    @property
    def no_conclusion(self) -> str:
        """What to say where nothing limited the trace."""
        if not self.budget.rows:
            return "The trace has no time whose use is known."
        row = self.budget.rows[0]
        free = [each for each in self.resources if each.verdict == "not full"]
        text = "Nothing limited it"
        if free and len(free) == len(self.resources):
            text = "No resource was full"
            if len(free) == 1:
                (only,) = free
                many = only.is_declared and only.capacity > 1
                text = f"The {plural(only.name) if many else only.name} {'were' if many else 'was'}"
                text += " not full"
        return f"{text}: {percent(row.share)} of the time was {_phrase(row)}."

    def as_json(self, file: str) -> dict[str, Any]:
        """Return the explanation as values that JSON can represent.

        Args:
            file: The name of the trace in commands.
        """
        unknown_ns = sum(row.total_ns for row in self.budget.rows if row.kind.text == "unknown")
        return {
            "version": 1,
            "family": self.family,
            "range_ns": list(self.range_ns),
            "kind": self.kind,
            "activities": self.activities,
            "conclusions": [each.as_json(file) for each in self.conclusions],
            "measures": {
                each.id: {
                    "value_ns": each.value_ns,
                    "share": each.share,
                    "notable": bool(each.is_notable),
                }
                # of one id the most important is the first
                for each in reversed(self.measures)
            },
            "unit": self.unit,
            "budget_total": self.budget.total_ns,
            "budget": self.budget.as_json(),
            "resources": [each.as_json() for each in self.resources],
            "unknown_ns": unknown_ns,
            "missing": list(self.missing),
            "path": None if self.path is None else _rows(self.path),
        }


def _rows(path: ActivityPath) -> list[dict[str, Any]]:
    """Return the parts of a path as values that JSON can represent."""
    columns = {
        name: column.tolist() if isinstance(column, np.ndarray) else column.to_list()
        for name, column in path.columns().items()
        if name != "quark"
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _phrase(row: BudgetRow) -> str:
    """Return what time was spent on, after `was`."""
    label = row.label or "something that was not recorded"
    match row.kind:
        case TimeClass.READY:
            return f"waiting for {label} while ready"
        case TimeClass.WAIT:
            return f"waiting for {label}"
        case TimeClass.IDLE:
            return label if label == "idle" else f"idle ({label})"
        case TimeClass.UNKNOWN:
            return "not recorded"
        case TimeClass.HAND_OFF:
            return "handed over"
        case _:
            return f"work ({label})"


def importance(conclusion: Conclusion) -> tuple[float, int]:
    """Return the rank of a conclusion: what could save most first, then what is most certain."""
    time_ns = conclusion.bound_ns if conclusion.bound_ns is not None else conclusion.value_ns or 0
    return -time_ns, _CERTAIN.index(conclusion.certainty)
