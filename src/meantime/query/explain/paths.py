"""Paths of activities, what their time was spent on, and how short they could have been."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import Coded
from meantime.query.explain.budget import Budget
from meantime.query.explain.lanes import Meanings, TimeClass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.query.explain.lanes import Lanes

__all__ = ["Activities", "Paths", "paths_of", "shortest_ns"]

_PER_CALL = 4096
# Beyond this many parts, how short activities could be is not computed.
MOST_PARTS = 10**7


class Activities(NamedTuple):
    """Activities of a kind: a row each.

    Attributes:
        lane: int32, the lane that each ends on.
        begin_ns: int64.
        end_ns: int64, after `begin_ns`.
        name: What each is called.
    """

    lane: Int32s
    begin_ns: Int64s
    end_ns: Int64s
    name: Coded

    @property
    def duration_ns(self) -> Int64s:
        """int64."""
        return self.end_ns - self.begin_ns

    def chosen(self, rows: npt.NDArray[np.bool_] | Int64s) -> Activities:
        """Return some of the activities."""
        name = Coded(self.name.codes[rows], self.name.names)
        return Activities(self.lane[rows], self.begin_ns[rows], self.end_ns[rows], name)


class Paths:
    """The paths of activities: parts, in order of time, that cover each activity exactly.

    Attributes:
        lanes: The lanes that the paths are on.
        offsets: int64, activities + 1: activity i has the parts [offsets[i], offsets[i + 1]).
        start_ns: int64, where each part begins.
        end_ns: int64, where it ends.
        lane: int32, its lane.
        part: int64, the part of the lane; -1 where the lane has none, -2 in a hand-off.
        depth: int32: 0 is the activity's lane, 1 what it waited for, and so on.
    """

    def __init__(self, lanes: Lanes, rows: _Rows, ends_ns: Int64s) -> None:
        self.lanes = lanes
        self.offsets: Int64s
        self.start_ns: Int64s
        self.lane: Int32s
        self.part: Int64s
        self.depth: Int32s
        self.offsets, self.start_ns, self.lane, self.part, _, self.depth = rows
        self.end_ns: Int64s = np.append(self.start_ns[1:], 0)
        self.end_ns[self.offsets[1:] - 1] = ends_ns

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def duration_ns(self) -> Int64s:
        """int64, by part."""
        return self.end_ns - self.start_ns

    @cached_property
    def activity(self) -> Int64s:
        """int64, by part: the activity whose path it is on."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def meanings(self) -> Meanings:
        """The class and the label of each part; of a hand-off, the label of what was waited for."""
        lanes = self.lanes
        is_part = self.part >= 0
        kind = np.full(len(self.part), TimeClass.UNKNOWN, np.int8)
        kind[is_part] = lanes.kind[self.part[is_part]]
        kind[self.part == -2] = TimeClass.HAND_OFF
        codes = np.full(len(self.part), len(lanes.label.names), np.int32)
        codes[is_part] = lanes.label.codes[self.part[is_part]]
        return Meanings(kind, Coded(codes, [*lanes.label.names, ""]))

    def budget(self) -> Budget:
        """Return what the time of all activities was spent on."""
        return Budget.of(self.meanings, self.duration_ns)


_Rows = tuple["Int64s", "Int64s", "Int32s", "Int64s", "Int64s", "Int32s"]


def paths_of(
    lanes: Lanes, activities: Activities, progress: Callable[[float], None] | None = None
) -> Paths:
    """Return the paths of activities through lanes that are connected.

    Args:
        lanes: The lanes.
        activities: The activities.
        progress: Called now and then with the share that is done; what it raises ends the search.
    """
    lane, begin_ns, end_ns, _ = activities
    found = []
    for first in range(0, max(1, len(lane)), _PER_CALL):
        if progress is not None:
            progress(first / max(1, len(lane)))
        rows = slice(first, first + _PER_CALL)
        found.append(lanes.searched.walk(lane[rows], begin_ns[rows], end_ns[rows]))
    sizes = np.concatenate([np.diff(rows[0]) for rows in found])
    offsets = np.append(0, np.cumsum(sizes))
    columns = [np.concatenate(column) for column in zip(*(rows[1:] for rows in found), strict=True)]
    return Paths(lanes, (offsets, *columns), end_ns)  # type: ignore[arg-type] # as many columns


def shortest_ns(
    lanes: Lanes,
    activities: Activities,
    is_free: npt.NDArray[np.bool_],
    *,
    free_hand_off: bool = False,
) -> Int64s:
    """Return how long activities would take at least if some parts of lanes took no time.

    Each lane goes on as soon as what it waited for is there, so another chain of waits may then be
    what takes the time.

    Args:
        lanes: The lanes, connected.
        activities: The activities.
        is_free: By part of the lanes, whether it would take no time.
        free_hand_off: Whether hand-offs would take none.
    """
    lane, begin_ns, end_ns, _ = activities
    return lanes.searched.shortest(
        lane, begin_ns, end_ns, is_free.view(np.uint8), free_hand_off=free_hand_off
    )
