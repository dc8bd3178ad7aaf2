"""A buffer of rectangles: intervals are added batch by batch, in bounded memory.

At first each interval is a rectangle of its own. When there are more than the limit, those in one
cell of a grid are merged, and the grid gets coarser while more intervals are added. Grids nest, so
the order in which that happens makes no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels import rectangles as kernel
from meantime.kernels.rectangles import Columns, Tallies, Visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.views.statemap.options import Budget

__all__ = ["RectangleBuffer", "empty_columns", "part"]

# Up to this number of rectangles is kept in addition to twice those wanted, to choose from. More
# would hardly improve the picture, and cost as much again.
_MOST_TO_SPARE = 3 << 16


def empty_columns(rows: int, *, tagged: bool) -> Visible:
    """Return uninitialised columns for this number of intervals."""
    row, state = np.empty(rows, np.int32), np.empty(rows, np.int32)
    start_ns, end_ns = np.empty(rows, np.int64), np.empty(rows, np.int64)
    tag = np.empty(rows, np.int32) if tagged else None
    return Visible(row, start_ns, end_ns, state, tag, np.empty(rows, np.uint8))


def part(visible: Visible, first: int, last: int) -> Visible:
    """Return rows [first, last) as views."""
    rows = slice(first, last)
    return Visible(
        visible.row[rows],
        visible.start[rows],
        visible.end[rows],
        visible.state[rows],
        None if visible.tag is None else visible.tag[rows],
        visible.marks[rows],
    )


def _copy(visible: Visible, into: Visible, at: int) -> None:
    """Copy intervals to the rows from `at` on."""
    source: tuple[npt.NDArray[Any] | None, ...] = visible
    target: tuple[npt.NDArray[Any] | None, ...] = into
    for values, column in zip(source, target, strict=True):
        if values is not None and column is not None:
            column[at : at + len(values)] = values


def _tag_of_first(visible: Visible) -> int:
    return -1 if visible.tag is None else int(visible.tag[0])


def _no_rectangles() -> Columns:
    row, state, tag = (np.empty(0, np.int32) for _ in range(3))
    start, end, state_ns, tag_ns = (np.empty(0, np.int64) for _ in range(4))
    state_offsets, tag_offsets = np.zeros(1, np.int64), np.zeros(1, np.int64)
    marks = np.empty(0, np.uint8)
    return Columns(row, start, end, marks, state_offsets, state, state_ns, tag_offsets, tag, tag_ns)


def _with_room(columns: Columns, used: Iterable[int], room: Iterable[int]) -> Columns:
    """Return copies with room for these numbers of rectangles, times of states and of tags."""
    arrays: tuple[npt.NDArray[Any], ...] = columns
    return Columns(*map(_larger, arrays, _lengths(*used), _lengths(*room)))


def _larger(column: npt.NDArray[Any], used: int, rows: int) -> npt.NDArray[Any]:
    # `resize` would write zeros into what is added
    larger = np.empty(rows, column.dtype)
    larger[:used] = column[:used]
    return larger


def _lengths(rectangles: int, states: int, tags: int) -> tuple[int, ...]:
    """Return the lengths of the columns for these numbers of rectangles and times."""
    return (*[rectangles] * 4, rectangles + 1, states, states, rectangles + 1, tags, tags)


class RectangleBuffer:
    """The rectangles of one panel, while its intervals are added.

    Args:
        window_ns: Start and end of the map.
        budget: The number of rectangles allowed in the end.
        tags: How many tags there are.
        joins: Whether an interval may continue the last one of the batch before.

    Attributes:
        unmerged: The rectangles while each is an interval, in `count` rows; the rest is spare
            capacity. None once they have times of their own.
        columns: The rectangles with their times, from then on, in as many rows.
        count: How many rectangles there are.
        intervals: How many intervals they represent.
        level: The grid whose cells hold one rectangle; -1 while each interval is one.
    """

    def __init__(
        self, window_ns: tuple[int, int], *, budget: Budget, tags: int, joins: bool
    ) -> None:
        self.window_ns = window_ns
        self._space = empty_columns(0, tagged=tags > 0)
        self.unmerged: Visible | None = self._space
        self.columns: Columns = _no_rectangles()
        self.count: int = 0
        self.intervals: int = 0
        self.level: int = -1
        self._joins = joins
        self._wanted = budget.merged
        self._most = max(budget.lossless, 2 * budget.merged + _MOST_TO_SPARE)
        no_states = np.zeros(1, np.int64), np.empty(1, np.int32)
        self._tallies = Tallies(
            *no_states, np.zeros(max(1, tags), np.int64), np.empty(max(1, tags), np.int32)
        )

    @property
    def is_merged(self) -> bool:
        """Whether a rectangle may represent more than one interval."""
        return self.level >= 0

    def space(self, rows: int, *, done_ratio: float) -> Visible:
        """Return columns to write the next intervals to, so that `add` need not copy them."""
        if self.unmerged is None:
            if rows > len(self._space.row):
                self._space = empty_columns(rows, tagged=self._space.tag is not None)
            return self._space
        self.unmerged = self._with_rows(self.unmerged, rows, done_ratio)
        return part(self.unmerged, self.count, self.count + rows)

    def add(self, visible: Visible, *, states: int, done_ratio: float) -> None:
        """Add intervals; `done_ratio` is the estimated part of all that were added with these."""
        if self._joins:
            visible = self._join(visible)
        more = len(visible.row)
        if states > len(self._tallies.state_ns):
            self._tallies = self._tallies._replace(
                state_ns=np.zeros(2 * states, np.int64), state_held=np.empty(2 * states, np.int32)
            )
        if self.unmerged is not None:
            self.unmerged = self._with_rows(self.unmerged, more, done_ratio)
            next_row = part(self.unmerged, self.count, self.count + 1)
            if not np.may_share_memory(visible.start[:1], next_row.start):
                _copy(visible, self.unmerged, self.count)
            self.count += more
        else:
            self._make_room(more, done_ratio)
            self.count = kernel.pack(
                visible, *self.window_ns, self.level, self._tallies, self.count, self.columns
            )
        self.intervals += more
        if self.count > self._most and self.level < kernel.LEVELS - 1:
            # Leave room for the intervals that are still to be added: too little means coarsening
            # again for each batch, too much means a coarser grid than the end needs.
            spare = min(max(1.5 * done_ratio, 1 / 8), 3 / 4)
            self._coarsen(self._wanted + int(spare * (self._most - self._wanted)))

    def _join(self, visible: Visible) -> Visible:
        """Extend the last rectangle by the first interval, if state and tag are the same."""
        last = self.count - 1
        if last < 0 or not len(visible.row):
            return visible
        if self.unmerged is not None:
            return self._continue(self.unmerged, visible)
        columns = self.columns
        if columns.marks[last] & kernel.MERGED:
            return visible
        state_at, tag_at = columns.state_offsets[last], columns.tag_offsets[last]
        tagged = bool(columns.tag_offsets[last + 1] - tag_at)
        if (
            columns.row[last] != visible.row[0]
            or columns.end[last] != visible.start[0]
            or columns.state_index[state_at] != visible.state[0]
            or (columns.tag_index[tag_at] if tagged else -1) != _tag_of_first(visible)
        ):
            return visible
        columns.end[last] = visible.end[0]
        columns.marks[last] |= visible.marks[0]
        length_ns = columns.end[last] - columns.start[last]
        columns.state_ns[state_at] = length_ns
        if tagged:
            columns.tag_ns[tag_at] = length_ns
        return part(visible, 1, len(visible.row))

    def _continue(self, unmerged: Visible, visible: Visible) -> Visible:
        last = self.count - 1
        if (
            unmerged.row[last] != visible.row[0]
            or unmerged.end[last] != visible.start[0]
            or unmerged.state[last] != visible.state[0]
            or (-1 if unmerged.tag is None else unmerged.tag[last]) != _tag_of_first(visible)
        ):
            return visible
        unmerged.end[last] = visible.end[0]
        unmerged.marks[last] |= visible.marks[0]
        return part(visible, 1, len(visible.row))

    def _with_rows(self, unmerged: Visible, more: int, done_ratio: float) -> Visible:
        """Return the columns, in more memory if there is no room for this many intervals."""
        if self.count + more <= len(unmerged.row):
            return unmerged
        room = int(self._growth(more, self.count, done_ratio) * (self.count + more))
        larger = empty_columns(room, tagged=unmerged.tag is not None)
        _copy(part(unmerged, 0, self.count), larger, 0)
        return larger

    def _growth(self, more: int, count: int, done_ratio: float) -> float:
        """Return how many times as many rows as there are then to make room for."""
        # Room that stays unused costs no memory: it is never written.
        expected = min(1.1 / done_ratio, (self._most + more) / (count + more))
        return max(1.5, expected)

    def _make_room(self, more: int, done_ratio: float) -> None:
        columns, count = self.columns, self.count
        used = count, int(columns.state_offsets[count]), int(columns.tag_offsets[count])
        room = len(columns.row), len(columns.state_ns), len(columns.tag_ns)
        if any(size + more > limit for size, limit in zip(used, room, strict=True)):
            factor = self._growth(more, count, done_ratio)
            larger = (
                limit if size + more <= limit else int(factor * (size + more))
                for size, limit in zip(used, room, strict=True)
            )
            self.columns = _with_room(columns, used, larger)

    def _coarsen(self, goal: int) -> None:
        """Merge by the finest grid that leaves at most `goal` rectangles, or one for each run."""
        pairs = np.zeros(kernel.LEVELS, np.int64)
        held = self.columns if self.unmerged is None else self.unmerged
        kernel.levels(self.count, held, *self.window_ns, pairs)
        enough = np.flatnonzero(self.count - np.cumsum(pairs) <= goal)
        self.level = int(enough[0]) if len(enough) else kernel.LEVELS - 1
        if self.unmerged is not None:
            self.add_times()
            return
        first = np.empty(self.count, np.int64)
        runs = kernel.cells(self.count, self.columns, *self.window_ns, self.level, first)
        self.gather(first[:runs])

    def add_times(self) -> None:
        """Turn intervals into rectangles with times, those in one cell into one."""
        if self.unmerged is None:
            return
        intervals, self.unmerged = part(self.unmerged, 0, self.count), None
        tags = 0 if intervals.tag is None else self.count
        self.columns = _with_room(self.columns, (0, 0, 0), (self.count, self.count, tags))
        self.count = kernel.pack(
            intervals, *self.window_ns, self.level, self._tallies, 0, self.columns
        )

    def gather(self, first: Int64s) -> None:
        """Merge the rectangles from each `first` up to the next into one."""
        self.count = kernel.gather(first, self._tallies, self.count, self.columns)

    def cut(self) -> Columns | Visible:
        """Return the columns without spare capacity; the buffer must not be used after that."""
        if self.unmerged is not None:
            return part(self.unmerged, 0, self.count)
        columns = self.columns
        states, tags = int(columns.state_offsets[self.count]), int(columns.tag_offsets[self.count])
        arrays: tuple[npt.NDArray[Any], ...] = columns
        for column, length in zip(arrays, _lengths(self.count, states, tags), strict=True):
            column.resize(length, refcheck=False)
        return columns
