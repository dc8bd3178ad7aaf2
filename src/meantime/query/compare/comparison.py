"""What changed from some runs to others, by row, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.model.columns import Coded
from meantime.model.durations import FIGURES
from meantime.model.tabular import Tabular
from meantime.model.units import format_ns
from meantime.query.compare.certainty import LEVEL, most_rows
from meantime.query.compared_by import BELOW
from meantime.query.sentences import counted, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.tabular import Column
    from meantime.query.compare.grouping import Key
    from meantime.query.compared_by import By
    from meantime.query.counting import Counted

__all__ = ["ComparedRow", "Comparison", "Interval"]

# How many rows a sentence names.
_MOST_NAMED = 3
# A part of a change is named if it is at least this part of it.
_LEAST_PART = 0.1
# A whole is called by a span that takes at least this part of it.
_OUTERMOST = 0.95


class Interval(NamedTuple):
    """The sizes of a change that the runs do not rule out, at 95 %, as parts of what was before."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One row on both sides.

    Figures that add up (`count`, times in all, `rate`) are means over the runs of a side; means,
    quantiles and the longest are of the durations of all its runs.

    Attributes:
        key: What it is, as `Comparison.names` says.
        before: Its figures before, by name; None if it does not occur there.
        after: Its figures after; None if it does not occur there.
        runs_before: The compared figure of each run before.
        runs_after: The same of the runs after.
        change: How much the compared figure changed, from the mean of runs to the mean of runs;
            None if a run has none.
        relative: The change as a part of what was before; None if there was nothing.
        interval: How large the change may be; None if the runs are too few to say.
        probability: How likely it is if nothing changed; None if it was not tested.
        corrected: The same, corrected for the number of rows that were tested.
        part: The change of its time as a part of the whole before; parts add up to the change of
            the whole. None if rows do not add up.
        is_noticeable: Whether the change is certain, and as large as what is to be noticed.
    """

    key: Key
    before: dict[str, float] | None
    after: dict[str, float] | None
    runs_before: tuple[float, ...]
    runs_after: tuple[float, ...]
    change: float | None
    relative: float | None
    interval: Interval | None = None
    probability: float | None = None
    corrected: float | None = None
    part: float | None = None
    is_noticeable: bool = False

    @property
    def stack(self) -> tuple[str, str]:
        """The innermost function of a row by stack, and what called it, the nearest first."""
        *callers, function = self.key[0].split(";")
        return function, BELOW.join(reversed(callers))

    @property
    def sides(self) -> tuple[dict[str, float] | None, dict[str, float] | None]:
        """The figures of both sides, those before first."""
        return self.before, self.after

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return its fields as values that JSON can represent."""
        return {
            **dict(zip(names, self.key, strict=True)),
            "before": _plain(self.before),
            "after": _plain(self.after),
            "runs_before": [_number(each) for each in self.runs_before],
            "runs_after": [_number(each) for each in self.runs_after],
            "change": None if self.change is None else _number(self.change),
            "relative": self.relative,
            "interval": None if self.interval is None else list(self.interval),
            "probability": self.probability,
            "corrected": self.corrected,
            "part": self.part,
            "noticeable": self.is_noticeable,
        }


@dataclass(frozen=True, slots=True)
class Comparison(Tabular):
    """What changed from the runs before to those after; as a table, its rows.

    Attributes:
        by: What rows are of.
        of: Whether names are those of spans or of samples.
        names: What the parts of their keys are.
        figure: Which figure was compared, by its name in JSON.
        unit: What times are in: `ns`, or the unit of the weights of samples.
        runs: How many runs each side has.
        noticeable: The smallest change that counts, as a part of what was before.
        length: How long the runs took, in ns, as a row; None of what was not compared yet.
        wholes: What the rows of each kind add up to; empty if they do not add up.
        rows: What explains most of the change of the whole first.
        tested: How many rows were tested: those that differ most between all runs.
        notes: What limits the comparison, a sentence each.
    """

    by: By
    of: Counted
    names: tuple[str, ...]
    figure: str
    unit: str
    runs: tuple[int, int]
    noticeable: float
    length: ComparedRow | None = None
    wholes: tuple[ComparedRow, ...] = ()
    rows: tuple[ComparedRow, ...] = ()
    tested: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether the sides have enough runs to distinguish a change from noise."""
        return most_rows(*self.runs) > 0

    @property
    def changed(self) -> tuple[ComparedRow, ...]:
        """What changed noticeably: the wholes, the length, and rows."""
        lengths = () if self.length is None else (self.length,)
        return tuple(row for row in (*self.wholes, *lengths, *self.rows) if row.is_noticeable)

    @property
    def is_worse(self) -> bool:
        """Whether something noticeably takes more than before; what is idle does not count."""
        return any((row.change or 0) > 0 and "idle" not in row.key for row in self.changed)

    def columns(self) -> dict[str, Column]:
        """Return the names, the compared figure of both sides, and how it changed."""
        columns: dict[str, Column] = {
            name: Coded.of([row.key[at] for row in self.rows]) for at, name in enumerate(self.names)
        }
        for at, name in enumerate(("before", "after")):
            columns[name] = _column([self.values(row)[at] for row in self.rows])
        for name in ("change", "relative", "probability", "corrected", "part"):
            columns[name] = _column([getattr(row, name) for row in self.rows])
        for at, name in enumerate(Interval._fields):
            columns[name] = _column([row.interval and row.interval[at] for row in self.rows])
        columns["noticeable"] = np.array([row.is_noticeable for row in self.rows], np.bool_)
        return columns

    @property
    def sentences(self) -> tuple[str, ...]:
        """What changed, in words, the most important first."""
        return (*self._changes(), *self.notes)

    def _changes(self) -> list[str]:
        if not self.rows:
            return ["There is nothing to compare."]
        least = f"{100 * self.noticeable:.3g} %"
        if self.is_certain:
            chosen = self.changed
            nothing = (
                f"No noticeable difference: nothing changed by {least} or more with certainty"
                f" ({self._counted()})."
            )
        else:
            chosen = tuple(row for row in (*self.wholes, *self.rows) if self._is_large(row))
            nothing = f"Nothing differs by {least} or more."
        if not chosen:
            return [nothing]
        whole = next((row for row in self.wholes if row in chosen), None)
        explained = "" if whole is None else self._explained(whole)
        found = []
        if whole is not None:
            found.append(f"{self._changed(whole, self._called(whole))}{explained}.")
        elif self.length is not None and self.length in chosen:
            found.append(f"{self._changed(self.length, 'A run')}.")
        shown = [row for row in self.rows if row in chosen]
        if shown and not explained:
            named = [self.described(row) for row in shown[:_MOST_NAMED]]
            more = len(shown) - len(named)
            text = "; ".join(named) + (f"; and {more:,} more." if more else ".")
            found.append(text[0].upper() + text[1:])
        return found

    def _is_large(self, row: ComparedRow) -> bool:
        return bool(row.change) and (row.relative is None or abs(row.relative) >= self.noticeable)

    def _called(self, whole: ComparedRow) -> str:
        if whole.key:
            return f"The time in states of {whole.key[0]}"
        if (outer := self._outermost(whole)) is not None:
            return self._name(outer)
        if self.of == "samples" and self.by == "name":
            return "What was sampled"
        return {"budget": "The time", "state": "The time in states"}.get(
            self.by, "The time in spans"
        )

    def _outermost(self, whole: ComparedRow) -> ComparedRow | None:
        """Return the row of the span that all others are in, if there is one."""
        if self.by != "name":
            return None
        for row in self.rows:
            pairs = zip(row.sides, self.values(whole), strict=True)
            if all(
                side and all_ns and side.get("covered_ns", 0) >= _OUTERMOST * all_ns
                for side, all_ns in pairs
            ):
                return row
        return None

    def _name(self, row: ComparedRow) -> str:
        """Return the name of a row in a sentence; that of its kind only where it is needed."""
        if self.by == "stack":
            function, callers = row.stack
            caller = callers.partition(BELOW)[0]
            below = f" called by `{caller}`" if caller else ""
            return f"`{function}`{below}"
        has_kind = self.names[0] == "kind" and len(self.wholes) < 2
        # what is idle is called so twice
        return f"`{' '.join(dict.fromkeys(filter(None, row.key[1 if has_kind else 0 :])))}`"

    def _counted(self) -> str:
        before, after = self.runs
        return f"{counted(after, 'run')} each" if before == after else f"{before} and {after} runs"

    def described(self, row: ComparedRow) -> str:
        """Return how much a row changed, in words."""
        return self._changed(row, self._name(row))

    def _changed(self, row: ComparedRow, name: str) -> str:
        """Return how much a row changed, in words."""
        if row.before is None or row.after is None:
            points = "" if row.part is None else f" ({_signed(row.part)} points)"
            return f"{name} is {'new' if row.before is None else 'gone'}{points}"
        is_more = (row.change or 0) > 0
        size = "" if row.relative is None else _percent(abs(row.relative))
        if row is self.length or (name.startswith("`") and row in self.wholes):
            text = f"{name} takes {size} {'more' if is_more else 'less'} time"
        elif row in self.wholes:
            text = f"{name} {'grew' if is_more else 'fell'} by {size}"
        elif row.relative is None:
            return f"the {self.title} of {name} was 0 before"
        elif self.figure in {"total_ns", "self_ns"}:
            text = f"{name} takes {size} {'more' if is_more else 'less'} time"
        else:
            text = f"the {self.title} of {name} is {size} {'higher' if is_more else 'lower'}"
        if row.interval is None:
            return text
        low, high = row.interval
        if low < 0 < high:
            between = f"{_signed(low)} to {_signed(high)} %"
        else:
            between = " to ".join(map(_points, sorted((low, high), key=abs))) + " %"
        return f"{text} ({between}, {self._counted()})"

    def _explained(self, whole: ComparedRow) -> str:
        """Return which rows are most of the change of a whole."""
        if not whole.part:
            return ""
        rows = [
            row
            for row in self.rows
            if row.part is not None
            and row.part / whole.part >= _LEAST_PART
            and row.key[: len(whole.key)] == whole.key
        ][:_MOST_NAMED]
        parts = [f"{_points(row.part or 0)} are {self._name(row)}" for row in rows]
        if not parts:
            return ""
        if abs(sum(row.part or 0 for row in rows)) > abs(whole.part) * 1.05:
            # others changed the other way
            parts = [f"{_signed(row.part or 0)} points are {self._name(row)}" for row in rows]
            return f": {listed(parts)}"
        first, *others = parts
        first = first.replace(" are ", f" of the {_points(whole.part)} are ", 1)
        return f": {listed([first, *others])}"

    @property
    def title(self) -> str:
        """The title of the compared figure."""
        return FIGURES[self.figure].title if self.figure in FIGURES else self.figure

    def values(self, row: ComparedRow) -> tuple[float | None, float | None]:
        """Return the compared figure of a row before and after; None where it has none."""
        found = [float("nan") if side is None else side[self.figure] for side in row.sides]
        before, after = (None if np.isnan(value) else value for value in found)
        return before, after

    def text(self, value: float) -> str:
        """Return a value of the compared figure as text."""
        return figure_text(self.figure, self.unit, value)

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can represent."""
        return {
            "version": 1,
            "by": self.by,
            "of": self.of,
            "figure": self.figure,
            "unit": self.unit,
            "runs": list(self.runs),
            "noticeable": self.noticeable,
            "level": LEVEL,
            "tested": self.tested,
            "sentences": list(self.sentences),
            "length": None if self.length is None else self.length.as_json(()),
            "wholes": [
                row.as_json(self.names[:1] if self.names[0] == "kind" else ())
                for row in self.wholes
            ],
            "rows": [row.as_json(self.names) for row in self.rows],
        }


def figure_text(figure: str, unit: str, value: float) -> str:
    """Return a value of a figure as text."""
    form = FIGURES[figure].form if figure in FIGURES else "count"
    if form == "time" and unit == "ns":
        return format_ns(round(value))
    if form == "share":
        return f"{value:.2%}"
    return f"{value:,.6g}"


def _percent(share: float) -> str:
    return f"{_points(share)} %"


def _points(part: float) -> str:
    points = abs(100 * part)
    return f"{points:,.0f}" if points >= 9.5 else f"{points:.2g}"


def _signed(part: float) -> str:
    return f"{'-' if part < 0 else '+'}{_points(part)}"


def _number(value: float) -> float | None:
    if not np.isfinite(value):
        return None
    return int(value) if float(value).is_integer() else float(value)


def _plain(figures: dict[str, float] | None) -> dict[str, float | None] | None:
    if figures is None:
        return None
    return {name: _number(value) for name, value in figures.items()}


def _column(values: Sequence[float | None]) -> Column:
    numbers = np.array([0.0 if each is None else each for each in values], np.float64)
    missing = np.array([each is None or not np.isfinite(each) for each in values], np.bool_)
    return np.ma.array(np.where(missing, 0.0, numbers), mask=missing)
