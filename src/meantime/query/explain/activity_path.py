"""The path of one activity: parts of time on the lanes that it had to wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.builder import HistoryBuilder
from meantime.model.columns import Coded, distinct
from meantime.model.tabular import Tabular
from meantime.query.explain.budget import Budget
from meantime.query.explain.lanes import Meanings, TimeClass
from meantime.query.explain.paths import paths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.tabular import Column
    from meantime.model.tabular import Paths as AttributePaths
    from meantime.query.explain.lanes import Lanes
    from meantime.query.explain.paths import Activities
    from meantime.query.ranges import Range

__all__ = ["ActivityPath", "Step", "path_of"]


class Step(NamedTuple):
    """What a path was spent on, in one class for one thing.

    Attributes:
        kind: The class of the time.
        label: As in `Meaning`.
        total_ns: How long.
        by_lane: The time of each lane that it was spent on, the longest first.
        longest: The longest part, [start_ns, end_ns).
        longest_lane: The lane of that part.
    """

    kind: TimeClass
    label: str
    total_ns: int
    by_lane: list[tuple[int, int]]
    longest: Range
    longest_lane: int


@dataclass(frozen=True, slots=True, repr=False)
class ActivityPath(Tabular):
    """The path of an activity: parts that cover it, in order of time.

    Attributes:
        title: What the activity is called.
        range_ns: [start, end).
        start_ns: int64, where each part begins; it ends where the next one begins.
        end_ns: int64.
        quark: int32, the attribute of the lane that the path is on.
        lane: What that lane is called.
        kind: int8, the `TimeClass`.
        label: What the time was spent on, or what was waited for.
        depth: int32: 0 is the activity itself, 1 what it waited for, and so on.
    """

    title: str
    range_ns: Range
    start_ns: Int64s
    end_ns: Int64s
    quark: Int32s
    lane: Coded
    kind: Coded
    label: Coded
    depth: Int32s
    attributes: AttributePaths | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.start_ns)

    def __repr__(self) -> str:
        return f"<ActivityPath of {self.title}: {len(self):,} parts in {list(self.range_ns)} ns>"

    def columns(self) -> dict[str, Column]:
        """Return start_ns, end_ns, quark, lane, class, label and depth."""
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "quark": self.quark,
            "lane": self.lane,
            "class": self.kind,
            "label": self.label,
            "depth": self.depth,
        }

    def history(self) -> History:
        """Return the path as a history, with a lane for each lane that it is on."""
        builder = HistoryBuilder(start_ns=self.range_ns[0])
        builder.lanes("*", entity_kind="Lane")
        before: int | None = None
        for start_ns, lane, kind, label in zip(
            self.start_ns.tolist(),
            self.lane.to_list(),
            self.kind.to_list(),
            self.label.to_list(),
            strict=True,
        ):
            quark = builder.quark(str(lane))
            if before not in {None, quark}:
                builder.modify(start_ns, before, None)
            builder.modify(start_ns, quark, _state(str(kind), str(label)))
            before = quark
        return builder.close(self.range_ns[1])

    def budget(self) -> Budget:
        """Return what the time was spent on; work of other lanes has their names."""
        titles = [
            f"{label or kind}, {lane}" if depth else str(label)
            for label, kind, lane, depth in zip(
                self.label.to_list(),
                self.kind.to_list(),
                self.lane.to_list(),
                self.depth.tolist(),
                strict=True,
            )
        ]
        kinds = self.kind.codes.astype(np.int8)
        return Budget.of(Meanings(kinds, Coded.of(titles)), self.end_ns - self.start_ns)

    def steps(self) -> list[Step]:
        """Return what the time was spent on by class and label, the longest time first."""
        length = self.end_ns - self.start_ns
        keys = self.kind.codes.astype(np.int64) * (len(self.label.names) + 1) + self.label.codes + 1
        found = []
        for key in distinct(keys).tolist():
            rows = np.flatnonzero(keys == key)
            total_ns = np.zeros(len(self.lane.names), np.int64)
            np.add.at(total_ns, self.lane.codes[rows], length[rows])
            lanes = np.flatnonzero(total_ns)
            order = lanes[np.argsort(-total_ns[lanes], kind="stable")].tolist()
            longest = int(rows[np.argmax(length[rows])])
            label = key % (len(self.label.names) + 1) - 1
            found.append(
                Step(
                    TimeClass(key // (len(self.label.names) + 1)),
                    self.label.names[label] if label >= 0 else "",
                    int(length[rows].sum()),
                    [(lane, int(total_ns[lane])) for lane in order],
                    (int(self.start_ns[longest]), int(self.end_ns[longest])),
                    int(self.lane.codes[longest]),
                )
            )
        return sorted(found, key=lambda step: (-step.total_ns, step[:2]))


def path_of(
    lanes: Lanes,
    titles: Sequence[str],
    activities: Activities,
    attributes: AttributePaths,
    progress: Callable[[float], None] | None = None,
) -> ActivityPath:
    """Return the path of the only one of `activities`, through lanes that are connected.

    Args:
        lanes: The lanes.
        titles: By lane, what it is called.
        activities: The activity.
        attributes: The attributes of the lanes.
        progress: Called now and then with the share that is done; what it raises ends the search.
    """
    paths = paths_of(lanes, activities, progress)
    kinds = [each.text for each in TimeClass]
    (begin_ns,), (end_ns,) = activities.begin_ns.tolist(), activities.end_ns.tolist()
    return ActivityPath(
        str(activities.name[0]),
        (begin_ns, end_ns),
        paths.start_ns,
        paths.end_ns,
        lanes.quark[paths.lane],
        Coded(paths.lane, titles),
        Coded(paths.meanings.kind.astype(np.int32), kinds),
        paths.meanings.label,
        paths.depth,
        attributes,
    )


def _state(kind: str, label: str) -> str:
    if kind in {"ready", "wait"}:
        return f"{'ready' if kind == 'ready' else 'waiting'}: {label}"
    return label if kind in {"work", "idle"} and label else kind
