"""Making a summary of a trace: what each grouping measures of it.

Durations are a sketch, whose cells are at most 2^-7 of a duration wide: quantiles are within 0.4 %
of a duration of that rank. Counts, sums, the shortest and the longest are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import MeantimeError
from meantime.files import ANYBODY
from meantime.query.compare.grouping import default_by, groupings
from meantime.query.compare.summary_file import MOST_CELLS, MOST_GROUPS, MOST_STACKS, Summary
from meantime.query.counting import what_counts
from meantime.query.ranges import clipped

if TYPE_CHECKING:
    from meantime.query.compare.grouping import Entity, Grouping
    from meantime.query.compare.summary_file import Measure
    from meantime.query.parts import Part

__all__ = ["summary_of"]


def summary_of(part: Part, title: str = "", mode: int = ANYBODY) -> Summary:
    """Return what comparing a history needs.

    >>> from meantime.query.parts import part_of
    >>> from meantime.testing import history_from_picture
    >>> summary_of(part_of(history_from_picture("disk0  aab"), None, None))
    <Summary of 'history': 15 measures>

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
