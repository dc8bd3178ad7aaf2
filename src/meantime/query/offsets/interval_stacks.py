"""How long each stack of intervals lasted in each cell: of spans, or of states and entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import calls
from meantime.kernels.innermost import innermost_segments
from meantime.query.offsets.fold import edges_ns
from meantime.query.offsets.stack_cells import StackCells
from meantime.stacks import StackTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s
    from meantime.history.spans import SpanTable
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.ranges import Range

__all__ = ["IntervalStacks", "Segments", "segments_of"]

# The most parts of intervals in cells: 200 MB while they are added up.
_MOST_PARTS = 2**22


class Segments(NamedTuple):
    """The moments in which each span was the innermost one of its thread.

    Attributes:
        start_ns: Where each segment begins.
        end_ns: Where it ends.
        stack: Its stack, a row of `stacks`.
        root: The row of the outermost span of that stack.
        stacks: The stacks.
    """

    start_ns: Int64s
    end_ns: Int64s
    stack: Int32s
    root: Int32s
    stacks: StackTable


def segments_of(spans: SpanTable, window: Range) -> Segments:
    """Return when each span was the latest begun open one of its thread, within a range.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]})
    >>> found = segments_of(history.spans(), (1, 9))
    >>> stacks = [found.stacks.frames_of(stack) for stack in found.stack.tolist()]
    >>> [*zip(found.start_ns.tolist(), found.end_ns.tolist(), stacks)]
    [(1, 2, ['a']), (2, 5, ['a', 'b']), (5, 9, ['a'])]
    """
    starts, ends = (np.clip(times, *window) for times in (spans.start_ns, spans.end_ns))
    span, start_ns, end_ns = innermost_segments(starts, ends, spans.offsets)
    stack, parent, frame = calls.stacks(spans.parent, spans.name.codes)
    table = StackTable(parent, frame, spans.name.names)
    return Segments(start_ns, end_ns, stack[span], _roots(spans)[span], table)


def _roots(spans: SpanTable) -> Int32s:
    """Return the row of the outermost span around each one."""
    root = np.where(spans.parent < 0, np.arange(len(spans), dtype=np.int32), spans.parent)
    # each step doubles how many callers are passed
    while ((further := root[root]) != root).any():
        root = further
    return root


class IntervalStacks:
    """Collects intervals with a name and a stack, and cuts them into the cells of a fold."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._parts: list[tuple[Int64s, Int64s, Int32s, Int64s]] = []
        self._count = 0

    def add(self, start_ns: Int64s, end_ns: Int64s, name: Int64s, stack: Int32s) -> None:
        """Add intervals, unless there are already too many."""
        kept = end_ns > start_ns
        start_ns, end_ns, name, stack = start_ns[kept], end_ns[kept], name[kept], stack[kept]
        fold = self._fold
        first, last = self._numbers(start_ns), self._numbers(end_ns - 1)
        counts = last - first + 1
        self._count += int(counts.sum())
        if self._count > _MOST_PARTS:
            self._parts.clear()
            return
        interval = np.repeat(np.arange(len(counts)), counts)
        before = np.cumsum(counts) - counts
        number = first[interval] + np.arange(len(interval)) - before[interval]
        column, row = np.divmod(number, fold.rows)
        edges = edges_ns(fold.period_ns, fold.rows)
        column_ns = fold.origin_ns + column * fold.period_ns
        ns = np.minimum(column_ns + edges[row + 1], end_ns[interval])
        ns -= np.maximum(column_ns + edges[row], start_ns[interval])
        self._parts.append((number, name[interval], stack[interval], ns))

    def _numbers(self, time_ns: Int64s) -> Int64s:
        fold = self._fold
        column, offset_ns = np.divmod(time_ns - fold.origin_ns, fold.period_ns)
        edges = edges_ns(fold.period_ns, fold.rows)
        found: Int64s = column * fold.rows + np.searchsorted(edges, offset_ns, side="right") - 1
        return found

    def cells(self, names: Sequence[str], stacks: StackTable) -> StackCells | None:
        """Return how long each stack of each name lasted in each cell; None if there are too many.

        Args:
            names: The names.
            stacks: The stacks.
        """
        if self._count > _MOST_PARTS:
            return None
        return StackCells.summed(self._parts, names, stacks)
