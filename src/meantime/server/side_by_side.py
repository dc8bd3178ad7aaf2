"""Two runs on one page, each lane above its counterpart, with what changed between their sides."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.model.durations import FIGURES
from meantime.query.compare.grouping import Entity
from meantime.query.compare.matching import matched
from meantime.views.comparison.colors import LESS, LESS_DARK, MORE, MORE_DARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history import History
    from meantime.query.compare import ComparedRow, Comparison
    from meantime.server.lanes import LaneTree
    from meantime.views.comparison.view import ComparisonView, Pair

__all__ = ["SideBySide", "lane_pairs"]

# A page has so many rows of a comparison.
_MOST_ROWS = 500
# What the last part of the key of a row is, by what rows are of: only these are in lanes.
_LANES_OF = {"state": "state", "entity": "state", "name": "span", "lane": "span"}


class SideBySide(NamedTuple):
    """A comparison, and the run of each side that a page shows.

    Attributes:
        comparison: What changed.
        pair: The two runs.
        title: What is compared with what.
    """

    comparison: Comparison
    pair: Pair
    title: str

    @classmethod
    def of(cls, view: ComparisonView) -> SideBySide:
        """Return what a page of a comparison shows.

        Raises:
            MeantimeError: If a run has nothing of the name that the runs are aligned by.
            UsageError: If a run is a summary.
        """
        return cls(view.comparison, view.pair, view.title)

    @property
    def histories(self) -> tuple[History, History]:
        """The histories of both runs."""
        before, after = self.pair.parts
        return before.history, after.history

    @property
    def paths(self) -> tuple[str | None, str | None]:
        """The paths that they were read from; None if they were not."""
        before, after = (
            os.fspath(source) if isinstance(source, str | os.PathLike) else None
            for source in self.pair.sources
        )
        return before, after

    @property
    def offset_ns(self) -> int:
        """What to add to times of the run after, for both to be aligned."""
        before, after = (
            part.start_ns + lead_ns
            for part, lead_ns in zip(self.pair.parts, self.pair.leads_ns, strict=True)
        )
        return before - after

    def document(self, trees: Sequence[LaneTree | None]) -> dict[str, Any]:
        """Return the comparison as JSON values.

        Args:
            trees: The lanes of both runs, as far as these have been read.
        """
        found, before, after = self.comparison, *trees
        figures = [
            name
            for name in FIGURES
            if any(side and name in side for row in found.rows for side in row.sides)
        ]
        kind = _LANES_OF.get(found.by)
        if kind == "span" and found.of == "samples":
            kind = None
        whole = all((part.start_ns, part.end_ns) == part.history.bounds for part in self.pair.parts)
        offsets = 0, self.offset_ns
        return {
            "by": found.by,
            "names": list(found.names),
            "figure": found.figure,
            "figures": figures,
            "unit": found.unit,
            "runs": list(found.runs),
            "shown": list(self.pair.runs),
            "align": self.pair.align,
            "inputs": None if self.pair.inputs is None else [*self.pair.inputs],
            "lanes_of": kind,
            "colors": {"more": [MORE, MORE_DARK], "less": [LESS, LESS_DARK]},
            "sentences": list(found.sentences),
            "adds_up": bool(found.wholes),
            "range_ns": None
            if whole
            else [
                edge(value + offset for value, offset in zip(values, offsets, strict=True))
                for edge, values in (
                    (min, [part.start_ns for part in self.pair.parts]),
                    (max, [part.end_ns for part in self.pair.parts]),
                )
            ],
            "rows": [_row(row, figures) for row in found.rows[:_MOST_ROWS]],
            "rest": len(found.rows[_MOST_ROWS:]),
            "pairs": []
            if before is None or after is None
            else lane_pairs(before, after, self.pair.left_out),
        }


def _row(row: ComparedRow, figures: Sequence[str]) -> dict[str, Any]:
    """Return a row, of whose sides a page gets the figures as numbers: they are not times of it."""
    known = row.as_json([*map(str, range(len(row.key)))])
    sides = {
        side: None if (own := known[side]) is None else [own.get(name) for name in figures]
        for side in ("before", "after")
    }
    kept = ("runs_before", "runs_after", "change", "relative", "interval", "corrected", "part")
    return {
        "key": list(row.key),
        **sides,
        **{name: known[name] for name in kept},
        "noticeable": row.is_noticeable,
    }


def lane_pairs(
    before: LaneTree, after: LaneTree, left_out: str | None = None
) -> list[tuple[int, int]]:
    """Return the lanes that are the same one in two histories, by their numbers.

    Lanes are matched within the groups that are, by kind and name as a comparison matches entities.
    Lanes in parts of large groups, which may be a million, are not.

    Args:
        before: The lanes of a history.
        after: Those of another one.
        left_out: What is left out of all names: a regular expression.
    """
    inside = [_inside(tree) for tree in (before, after)]
    found = []
    groups = [(-1, -1)]
    while groups:
        pair = groups.pop()
        members = [own.get(group, []) for own, group in zip(inside, pair, strict=True)]
        kinds = {before.lanes[lane].kind for lane in members[0]}
        for kind in sorted(kinds & {after.lanes[lane].kind for lane in members[1]}):
            sides = [
                [
                    Entity(str(lane), tree.lanes[lane].name)
                    for lane in own
                    if tree.lanes[lane].kind == kind
                ]
                for tree, own in zip((before, after), members, strict=True)
            ]
            names = matched(sides, left_out).names
            counterpart = {name: int(lane) for lane, name in names[1].items()}
            pairs = [
                (int(lane), counterpart[name])
                for lane, name in names[0].items()
                if name in counterpart
            ]
            found += pairs
            if kind == "group":
                groups += pairs
    return sorted(found)


def _inside(tree: LaneTree) -> dict[int, list[int]]:
    """Return by group the lanes in it, -1 being outside of all; without those in large parts."""
    inside: dict[int, list[int]] = {}
    for number, lane in enumerate(tree.lanes):
        if lane.parent not in tree.parts:
            inside.setdefault(lane.parent, []).append(number)
    return inside
