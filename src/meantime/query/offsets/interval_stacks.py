"""How long each stack of intervals lasted in each cell: of spans, or of states and entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import calls
from meantime.kernels.nest import innermost_segments
from meantime.model.columns import Interner
from meantime.model.stacks import StackTable
from meantime.query.offsets.cells import CellsBuilder
from meantime.query.offsets.stack_cells import StackCells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.offsets.fold import Fold
    from meantime.query.ranges import Range

__all__ = ["IntervalStacks", "Segments", "segments_of"]

# The most cells of all stacks together: 200 MB while they are added up.
_MOST_CELLS = 2**22


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
    """Adds up intervals with a name and a stack in the cells of a fold."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._builder = CellsBuilder(fold)
        # a code for each pair of a name and a stack, and at most how many cells it is in
        self._pairs: list[tuple[int, int]] = []
        self._code = Interner(self._pairs).code
        self._most_cells: list[int] = []

    def add(self, start_ns: Int64s, end_ns: Int64s, name: Int64s, stack: Int32s) -> None:
        """Add intervals, unless they are in too many cells."""
        kept = end_ns > start_ns
        start_ns, end_ns = start_ns[kept], end_ns[kept]
        if not len(start_ns) or self._is_cut:
            return
        pairs, at = np.unique(name[kept] << 32 | stack[kept], return_inverse=True)
        codes = np.array([self._code((pair >> 32, pair & 0xFFFFFFFF)) for pair in pairs.tolist()])
        self._most_cells += [0] * (len(self._pairs) - len(self._most_cells))
        # an interval is in at most two cells more than fit into it
        cells = (end_ns - start_ns) // max(1, int(self._fold.widths_ns().min())) + 2
        extent = self._fold.number(int(end_ns.max())) - self._fold.number(int(start_ns.min())) + 1
        counts = np.bincount(at, weights=cells.astype(np.float64))
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            self._most_cells[code] += int(min(count, extent))
        if not self._is_cut:
            self._builder.add_intervals(start_ns, end_ns, keys=codes[at])

    @property
    def _is_cut(self) -> bool:
        return sum(self._most_cells) > _MOST_CELLS

    def cells(self, names: Sequence[str], stacks: StackTable) -> StackCells | None:
        """Return how long each stack of each name lasted in each cell; None if there are too many.

        Args:
            names: The names.
            stacks: The stacks.
        """
        if self._is_cut:
            return None
        parts = [
            (
                cells.number,
                np.full(len(cells.number), name, np.int64),
                np.full(len(cells.number), stack, np.int32),
                cells.value,
            )
            for code, cells in self._builder.build().items()
            for name, stack in (self._pairs[code],)
        ]
        return StackCells.summed(parts, names, stacks)
