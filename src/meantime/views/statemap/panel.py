"""One map: the rectangles of its rows in the window, few enough, and the events on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import Coded, named
from meantime.kernels import rectangles as kernel
from meantime.views.statemap.data import Clipped
from meantime.views.statemap.merging import merge
from meantime.views.statemap.rectangle_buffer import RectangleBuffer, empty_columns, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history import Intervals
    from meantime.kernels.rectangles import Columns, Visible
    from meantime.views.statemap.options import Budget
    from meantime.views.statemap.panel_source import PanelSource
    from meantime.views.statemap.window import Window

__all__ = ["Drawing", "draw"]

# A batch of this many intervals stays in the processor's caches.
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Drawing:
    """The rectangles of a map, its rows in natural order, without their colours.

    Attributes:
        columns: The rectangles.
        intervals: How many intervals they represent.
        clipped: What is not shown.
    """

    columns: Columns
    intervals: int
    clipped: Clipped

    @property
    def coalesced(self) -> int:
        """How many of the rectangles represent more than one interval."""
        return int(np.count_nonzero(self.columns.marks & kernel.MERGED))

    def total_ns(self, source: PanelSource, state: str) -> Int64s:
        """Return the time in a state, by row."""
        columns = self.columns
        total = np.zeros(len(source.names), np.int64)
        if state not in source.table:
            return total
        held = columns.state_index == source.table.index(state)
        row = np.repeat(columns.row, np.diff(columns.state_offsets))
        np.add.at(total, row[held], columns.state_ns[held])
        return total

    def order(self, source: PanelSource, state: str | None) -> Int64s:
        """Return the rows in the order of drawing: by name, or most time in a state first."""
        if state is None:
            return np.arange(len(source.names))
        return np.argsort(-self.total_ns(source, state), kind="stable")


def draw(source: PanelSource, window: Window, *, budget: Budget, ignore_tags: bool) -> Drawing:
    """Return the drawing of a source in a window, with as many rectangles as the budget allows."""
    history, rows = source.history, len(source.names)
    tags = 0 if ignore_tags else len(history.tags)
    buffer = RectangleBuffer((window.start_ns, window.end_ns), budget=budget, tags=tags)
    row_of_quark = np.full(len(history.attributes), -1, np.int32)
    row_of_quark[source.quarks] = np.arange(rows, dtype=np.int32)
    columns = empty_columns(0)
    for batch, _ in _between(source, window.start_ns, window.end_ns):
        if len(batch) > len(columns.row):
            columns = empty_columns(len(batch))
        buffer.add(
            _clip(batch, source, window, row_of_quark, columns, tagged=tags > 0),
            states=len(source.table.states),
            # batches are in order of rows
            done_ratio=(int(row_of_quark[batch.quark[-1]]) + 1) / rows,
        )
    # quarks are numbered in the order in which their attributes were created
    appearance = np.empty(rows, np.int32)
    appearance[np.argsort(source.quarks)] = np.arange(rows, dtype=np.int32)
    if buffer.is_merged or buffer.count > budget.lossless:
        merge(buffer, budget.merged, appearance=appearance)
    return Drawing(buffer.cut(), buffer.intervals, _clipped(source, window))


def _clip(
    batch: Intervals,
    source: PanelSource,
    window: Window,
    row_of_quark: Int32s,
    columns: Visible,
    *,
    tagged: bool,
) -> Visible:
    """Return the visible parts of intervals, as a view of `columns`."""
    column = named(batch.value)
    while True:
        count = kernel.clip(
            batch.quark,
            batch.start_ns,
            batch.end_ns,
            column.codes,
            batch.tag,
            row_of_quark,
            source.table.of_code(column.names),
            tagged,
            window.start_ns,
            window.cut_ns,
            window.last_ns,
            columns,
        )
        # a negative count means that a state is not in the table yet
        if count >= 0:
            return part(columns, 0, count)
        source.table.add(column)


def _clipped(source: PanelSource, window: Window) -> Clipped:
    """Return how many intervals lie before and after the window, and what was filtered out."""
    history = source.history
    before = sum(
        int(np.count_nonzero(batch.end_ns[has_state] <= window.start_ns))
        for batch, has_state in _between(source, history.start_ns, window.start_ns)
    )
    # The last change ends the data: what it begins is empty, unless the trace continues.
    after = 0
    if window.end_ns < history.end_ns - 1:
        after = sum(
            int(np.count_nonzero(batch.start_ns[has_state] >= window.end_ns))
            for batch, has_state in _between(source, window.end_ns, history.end_ns)
        )
    return Clipped(before, after, len(source.filtered))


def _between(
    source: PanelSource, start_ns: int, end_ns: int
) -> Iterator[tuple[Intervals, npt.NDArray[np.bool_]]]:
    """Yield the intervals that overlap a range, and which of them have a state."""
    history = source.history
    start_ns, end_ns = max(start_ns, history.start_ns), min(end_ns, history.end_ns)
    if start_ns < end_ns and len(source.names):
        batches = history.interval_batches(source.quarks, start_ns, end_ns, rows=_BATCH_ROWS)
        for batch in batches:
            value = batch.value
            yield batch, value.codes >= 0 if isinstance(value, Coded) else value.kinds > 0
