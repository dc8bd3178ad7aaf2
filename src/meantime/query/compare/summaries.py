"""What comparing a trace needs, in place of the trace: what each grouping measures of it.

Durations are a sketch, whose cells are at most 2^-7 of a duration wide: quantiles are within 0.4 %
of a duration of that rank. Counts, sums, the shortest and the longest are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meantime.errors import MeantimeError, OutputError, UsageError
from meantime.files import ANYBODY, write_whole
from meantime.query.compare.grouping import default_by, groupings
from meantime.query.counting import what_counts
from meantime.query.ranges import clipped
from meantime.query.sentences import counted

if TYPE_CHECKING:
    import os

    from meantime.query.compare.grouping import By, Entity, Grouping
    from meantime.query.counting import Counted
    from meantime.query.durations import SpanStatistics
    from meantime.query.explain.budget import Budget
    from meantime.query.parts import Part
    from meantime.query.stacks import CallTree
    from meantime.query.statistics import StateStatistics

    # What groupings measure: statistics, a call tree or a budget with its unit, or conclusions.
    Measure = (
        StateStatistics
        | SpanStatistics
        | tuple[CallTree | Budget, str]
        | dict[str, tuple[float, float]]
    )

__all__ = ["SKETCH_ERROR", "Summary", "summary_of"]

# How far a quantile is from a duration of its rank, as a part of it.
SKETCH_ERROR = 2**-8
# What has more groups, cells of durations or stacks than this is left out.
MOST_GROUPS = 1 << 17
MOST_CELLS = 1 << 21
MOST_STACKS = 1 << 19


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What comparing a trace needs, in place of the trace.

    Attributes:
        title: What the trace is called.
        start_ns: Where it begins.
        end_ns: Where it ends.
        lost_ns: How much of it was not recorded.
        by: What rows of a comparison are of by default.
        of: Whether spans or samples count by default.
        measures: What groupings measure, by their `measure`.
        entities: The entities in the keys of these, in order of appearance.
        left_out: What is too large, by `measure`, with the reason.
        mode: Who may read a file of it: who may read the trace.
    """

    title: str
    start_ns: int
    end_ns: int
    lost_ns: int
    by: By
    of: Counted
    measures: dict[str, Measure]
    entities: dict[str, list[Entity]]
    left_out: dict[str, str]
    mode: int = ANYBODY

    def measured(self, rows_of: Grouping) -> Any:
        """Return what a grouping measures.

        Raises:
            UsageError: If that was left out, as it is too large.
        """
        if rows_of.measure in self.measures:
            return self.measures[rows_of.measure]
        reason = self.left_out.get(rows_of.measure, "it was written without")
        raise UsageError(
            f"the summary of {self.title} has no figures by {rows_of.measure}: {reason}; compare"
            " the trace itself"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which `compare` and `check_rules` take in place of the trace.

        Raises:
            OutputError: If it cannot be written.
        """
        from meantime.query.compare.summary_file import encoded  # noqa: PLC0415 - it reads these

        try:
            write_whole(Path(path), [encoded(self)], self.mode)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<Summary of {self.title!r}: {counted(len(self.measures), 'measure')}>"


def summary_of(part: Part, title: str = "", mode: int = ANYBODY) -> Summary:
    """Return what comparing a history needs.

    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> summary_of(part_of(history_from_picture("disk0  aab"), None, None))
    <Summary of 'history': 14 measures>

    Args:
        part: All of a history.
        title: What it is called; by default as the history.
        mode: Who may read a file of it.
    """
    history = part.history
    measures: dict[str, Measure] = {}
    entities: dict[str, list[Entity]] = {}
    left_out: dict[str, str] = {}
    found: dict[str, Grouping] = {}
    for of in ("spans", "samples"):
        for make in groupings(of, keep="sketch").values():
            rows_of = make()
            found.setdefault(rows_of.measure, rows_of)
    for name, rows_of in found.items():
        try:
            measure = rows_of.measured(part)
        except MeantimeError as error:
            left_out[name] = str(error)
            continue
        if (reason := _too_large(measure)) is not None:
            left_out[name] = reason
            continue
        measures[name] = measure
        own = rows_of.entities(part)
        if own is not None:
            entities[name] = own
    return Summary(
        title or history.title or "history",
        part.start_ns,
        part.end_ns,
        sum(end - start for start, end in clipped(history.lost, part.start_ns, part.end_ns)),
        default_by(history),
        what_counts(history),
        measures,
        entities,
        left_out,
        mode,
    )


def _too_large(measure: Measure) -> str | None:
    """Return why a summary does not have this; None if it has."""
    if isinstance(measure, tuple):
        tree = measure[0]
        if hasattr(tree, "stacks") and len(tree) > MOST_STACKS:
            return f"{len(tree):,} stacks are too many"
        return None
    if isinstance(measure, dict):
        return None
    durations = measure.durations
    assert durations is not None
    if len(durations.keys) > MOST_GROUPS:
        return f"{len(durations.keys):,} groups are too many"
    if len(durations.rows) > MOST_CELLS:
        return f"durations that are in {len(durations.rows):,} cells are too many"
    return None
