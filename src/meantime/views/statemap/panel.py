"""One map: the rectangles of its rows in the window, few enough, and the events on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import rectangles as kernel
from meantime.kernels.rectangles import Visible
from meantime.model.columns import first_rows, named
from meantime.query.lifetimes import has_state, intervals_between
from meantime.views.statemap.data import Clipped
from meantime.views.statemap.merging import merge
from meantime.views.statemap.rectangle_buffer import RectangleBuffer, part
from meantime.views.statemap.row_order import LIKENESS, in_order
from meantime.views.statemap.shared_rows import fill_gaps, remove_gaps

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history import Intervals
    from meantime.kernels.rectangles import Columns
    from meantime.model.columns import Int32s, Int64s
    from meantime.views.statemap.options import Budget
    from meantime.views.statemap.panel_source import PanelSource
    from meantime.views.statemap.window import Window

__all__ = ["Drawing", "draw"]

# A batch of this many intervals stays in the processor's caches.
_BATCH_ROWS = 1 << 17


class Drawing(NamedTuple):
    """The rectangles of a map, its rows in natural order, without their colours.

    Attributes:
        columns: The rectangles; as intervals if each is one.
        intervals: How many intervals they represent.
        clipped: What is not shown.
        existed: By row, when it existed in the window, if its rectangles do not show that.
    """

    columns: Columns | Visible
    intervals: int
    clipped: Clipped
    existed: dict[int, tuple[int, int]]

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
        if isinstance(columns, Visible):
            row, of_state, length_ns = columns.row, columns.state, columns.end - columns.start
        else:
            row = np.repeat(columns.row, np.diff(columns.state_offsets))
            of_state, length_ns = columns.state_index, columns.state_ns
        held = of_state == source.table.index(state)
        np.add.at(total, row[held], length_ns[held])
        return total

    def order(self, source: PanelSource, state: str | None, window: Window) -> Int64s:
        """Return the rows in the order of drawing: by name, likeness, or time in a state.

        Rows of one site stay together.
        """
        rows = np.arange(len(source.names))
        if state is None:
            return rows
        if state == LIKENESS and state not in source.table:
            if source.shared is not None:
                return rows
            from meantime.views.statemap.likeness import by_likeness  # noqa: PLC0415 - few ask for it

            held = in_order(self.columns, rows).with_times()
            return by_likeness(held, len(source.table.states), (window.start_ns, window.end_ns))
        total_ns = self.total_ns(source, state)
        if source.shared is not None and len(total_ns):
            site = source.shared.site
            of_site = np.zeros(int(site.max()) + 1, np.int64)
            np.add.at(of_site, site, total_ns)
            total_ns = of_site[site]
        return np.argsort(-total_ns, kind="stable")


def draw(source: PanelSource, window: Window, *, budget: Budget, ignore_tags: bool) -> Drawing:
    """Return the drawing of a source in a window, with as many rectangles as the budget allows."""
    history = source.history
    tags = 0 if ignore_tags else len(history.tags)
    is_shared = source.shared is not None
    buffer = RectangleBuffer(
        (window.start_ns, window.end_ns), budget=budget, tags=tags, joins=not is_shared
    )
    # states of two entities are never one rectangle, so each has a number of its own at first
    number_of_quark = np.full(len(history.attributes), -1, np.int32)
    number_of_quark[source.quarks] = np.arange(len(source.quarks), dtype=np.int32)
    gaps, last = 0, (-1, 0)
    for batch in intervals_between(history, source.quarks, window.start_ns, window.end_ns):
        # batches are in order of rows
        done_ratio = (int(number_of_quark[batch.quark[-1]]) + 1) / len(source.quarks)
        space = buffer.space(len(batch), done_ratio=done_ratio)
        visible = _clip(batch, source, window, number_of_quark, space, tagged=tags > 0)
        if is_shared and len(visible.row):
            visible.row[:] = source.rows[visible.row]
            bare, visible = visible, fill_gaps(visible, last)
            gaps += len(visible.row) - len(bare.row)
            last = int(bare.row[-1]), int(bare.end[-1])
        states = len(source.table.states) + is_shared
        buffer.add(visible, states=states, done_ratio=done_ratio)
    if buffer.is_merged or buffer.count - gaps > budget.lossless:
        merge(buffer, budget.merged, appearance=_appearance(source))
    found = buffer.cut()
    if is_shared:
        found = remove_gaps(found)
    clipped, before, after = _outside(source, window)
    existed = {}
    if source.existence == "row" and window.start_ns < window.end_ns:
        existed = _existed(found, window, before, after)
    return Drawing(found, buffer.intervals - gaps, clipped, existed)


def _appearance(source: PanelSource) -> Int32s:
    """Return by row the rank of its first entity in the order in which entities appeared."""
    # quarks are numbered in the order in which their attributes were created
    first = np.full(len(source.names), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, source.rows, source.quarks)
    appearance = np.empty(len(first), np.int32)
    appearance[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.int32)
    return appearance


def _clip(
    batch: Intervals,
    source: PanelSource,
    window: Window,
    number_of_quark: Int32s,
    columns: Visible,
    *,
    tagged: bool,
) -> Visible:
    """Return the visible parts of intervals, as a view of `columns`; a row is a quark's number."""
    column = named(batch.value)
    while True:
        count = kernel.clip(
            batch.quark,
            batch.start_ns,
            batch.end_ns,
            column.codes,
            batch.tag,
            number_of_quark,
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


def _outside(
    source: PanelSource, window: Window
) -> tuple[Clipped, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return what is not shown, and which rows have a state before and after the window."""
    history, rows = source.history, source.row_of_quark
    before, after = (np.zeros(len(source.names), np.bool_) for _ in range(2))
    count_before = count_after = 0
    quarks = np.concatenate([source.quarks, source.absent])
    for batch in intervals_between(history, quarks, history.start_ns, window.start_ns):
        held = has_state(batch)
        row = rows[batch.quark[held]]
        before[row[row >= 0]] = True
        count_before += int(np.count_nonzero(batch.end_ns[held] <= window.start_ns))
    # The last change ends the data: what it begins is empty, unless the trace continues.
    if window.end_ns < history.end_ns - 1:
        for batch in intervals_between(history, quarks, window.end_ns, history.end_ns):
            held = has_state(batch)
            row = rows[batch.quark[held]]
            after[row[row >= 0]] = True
            count_after += int(np.count_nonzero(batch.start_ns[held] >= window.end_ns))
    left_out = history.metadata.left_out
    if left_out:
        none = (0, 0)
        counts = [left_out.get(quark, none) for quark in quarks.tolist()]
        count_before += sum(count[0] for count in counts)
        count_after += sum(count[1] for count in counts)
    return Clipped(count_before, count_after, len(source.filtered)), before, after


def _existed(
    columns: Columns | Visible,
    window: Window,
    before: npt.NDArray[np.bool_],
    after: npt.NDArray[np.bool_],
) -> dict[int, tuple[int, int]]:
    """Return when rows existed that did so before their first rectangle or after their last."""
    edges = first_rows(columns.row, np.arange(len(before) + 1))
    first, last = edges[:-1], edges[1:] - 1
    existed = {}
    for row in np.flatnonzero(before | after).tolist():
        is_empty = first[row] > last[row]
        if is_empty and not (before[row] and after[row]):
            continue
        shown = (-1, -1) if is_empty else (columns.start[first[row]], columns.end[last[row]])
        start_ns = window.start_ns if before[row] else int(shown[0])
        end_ns = window.end_ns if after[row] else int(shown[1])
        if (start_ns, end_ns) != shown:
            existed[row] = start_ns, end_ns
    return existed
