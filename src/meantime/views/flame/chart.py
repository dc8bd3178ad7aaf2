"""The columns of a flame chart: boxes in rows, in which they never overlap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from meantime.views.flame.arguments import SpanArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s

__all__ = ["Chart", "ChartPanel"]


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """A lane of a chart: boxes [first, last), in `rows` rows.

    Attributes:
        title: What the panel is called.
        process: The title of the process that it is of; empty without one.
        kind: `spans` of a thread, `async` operations, or `samples`.
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


@dataclass(frozen=True, slots=True)
class Chart:
    """Boxes by panel, row and time.

    Attributes:
        title: The title of the picture.
        origin_ns: The time of the left edge since the beginning of the trace.
        width: The width of the whole, in nanoseconds.
        start: int64, the distance of each box from the left edge.
        length: int64, its width.
        own: int64, the part of its width that no box below it covers.
        row: int32, its row, counted from the top of its panel.
        parent: int32, the box that it is inside; -1 without one.
        frame: int32, index into `frames`.
        frames: The names.
        arguments: The arguments of the boxes.
        count: int64, how many spans a box represents; None if each is one.
        merged_ns: Spans shorter than this are merged if they are too many; 0 if none is.
        panels: From top to bottom.
        source: The path of the trace, for commands.
        label: The argument whose value is part of a box's label; None for none.
    """

    title: str
    origin_ns: int
    width: int
    start: Int64s
    length: Int64s
    own: Int64s
    row: Int32s
    parent: Int32s
    frame: Int32s
    frames: Sequence[str]
    panels: tuple[ChartPanel, ...]
    arguments: SpanArguments = field(default_factory=SpanArguments)
    count: Int64s | None = None
    merged_ns: int = 0
    source: str = "FILE"
    label: str | None = None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def spans(self) -> int:
        """How many spans the boxes represent."""
        return len(self) if self.count is None else int(self.count.sum())

    @property
    def row_start(self) -> Int64s:
        """The first box of each row of all panels, and the end of the last row."""
        bases = np.cumsum([0, *(panel.rows for panel in self.panels)])
        counts = np.zeros(int(bases[-1]), np.int64)
        for panel, base in zip(self.panels, bases.tolist(), strict=False):
            rows = np.bincount(self.row[panel.first : panel.last], minlength=panel.rows)
            counts[base : base + panel.rows] = rows
        return np.concatenate([[0], np.cumsum(counts)])
