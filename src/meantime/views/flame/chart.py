"""The columns of a flame chart: boxes in rows, in which they never overlap."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from meantime.structs import struct
from meantime.views.flame.arguments import BoxArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s

__all__ = ["Chart", "ChartPanel", "Counter", "Flows"]


@struct
class ChartPanel:
    """A lane of a chart: boxes [first, last), in `rows` rows.

    Attributes:
        title: What the panel is called.
        process: The title of the process that it is of; empty without one.
        kind: `spans` of a thread, `async` operations, `instants`, or `samples` of a thread.
        first: Its first box.
        last: The box after its last one.
        rows: How many rows it has.
        quarks: The threads or operations whose spans are in it.
    """

    title: str
    process: str
    kind: str
    first: int
    last: int
    rows: int
    quarks: tuple[int, ...] = ()


@struct
class Counter:
    """A number over time.

    Attributes:
        title: The counter and its series.
        process: The title of its process; empty without one.
        time: int64, when it got each value, from the left edge.
        value: float64, NaN where it has none.
    """

    title: str
    process: str
    time: Int64s
    value: npt.NDArray[np.float64]


@struct
class Flows:
    """Arrows from one panel at one time to another, in order of where they begin.

    Attributes:
        from_time: int64, from the left edge.
        from_panel: int64, index of the panel.
        to_time: int64.
        to_panel: int64.
        name: int32, index into `names`.
        names: What flows.
    """

    from_time: Int64s
    from_panel: Int64s
    to_time: Int64s
    to_panel: Int64s
    name: Int32s
    names: Sequence[str]


@struct
class Chart:
    """Boxes by panel, row and time.

    Attributes:
        title: The title of the picture.
        origin_ns: The time of the left edge.
        begin_ns: The time from which printed times count: the beginning of the trace.
        width: The width of the whole, in nanoseconds.
        start: int64, the distance of each box from the left edge.
        length: int64, its width.
        own: int64, the part of its width that no box below it covers.
        row: int32, its row, counted from the top of its panel.
        parent: int32, the box that it is inside; -1 without one.
        frame: int32, index into `frames`.
        frames: The names.
        arguments: The arguments of the boxes.
        count: int64, how many spans or samples a box represents; None if each is one span.
        merged_ns: Spans shorter than this are merged if they are too many; 0 if none is.
        panels: From top to bottom.
        counters: Numbers over time.
        flows: Arrows between panels; None without any.
        source: The path of the trace, for commands.
        label: The argument whose value is part of a box's label; None for none.
    """

    title: str
    origin_ns: int
    begin_ns: int
    width: int
    start: Int64s
    length: Int64s
    own: Int64s
    row: Int32s
    parent: Int32s
    frame: Int32s
    frames: Sequence[str]
    panels: tuple[ChartPanel, ...]
    arguments: BoxArguments = field(default_factory=BoxArguments)
    count: Int64s | None = None
    merged_ns: int = 0
    counters: tuple[Counter, ...] = ()
    flows: Flows | None = None
    source: str = "FILE"
    label: str | None = None

    def __len__(self) -> int:
        return len(self.start)

    def represented(self, *kinds: str) -> int:
        """Return how many spans, instants or samples the boxes of panels of these kinds are.

        A sample is in a box of each of its frames, of which the outermost counts.
        """
        parts = [slice(panel.first, panel.last) for panel in self.panels if panel.kind in kinds]
        if self.count is None:
            return sum(part.stop - part.start for part in parts)
        if "samples" in kinds:
            return sum(int(self.count[part][self.row[part] == 0].sum()) for part in parts)
        return sum(int(self.count[part].sum()) for part in parts)

    @property
    def row_start(self) -> Int64s:
        """The first box of each row of all panels, and the end of the last row."""
        bases = np.cumsum([0, *(panel.rows for panel in self.panels)])
        counts = np.zeros(int(bases[-1]), np.int64)
        for panel, base in zip(self.panels, bases.tolist(), strict=False):
            rows = np.bincount(self.row[panel.first : panel.last], minlength=panel.rows)
            counts[base : base + panel.rows] = rows
        return np.concatenate([[0], np.cumsum(counts)])
