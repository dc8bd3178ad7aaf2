"""One map: the rectangles of its rows in the window, few enough, and the events on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meantime.columns import Coded, named
from meantime.kernels import rectangles as kernel
from meantime.views.statemap.data import Clipped
from meantime.views.statemap.merging import merge
from meantime.views.statemap.pile import Pile, part, room

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history import Intervals
    from meantime.kernels.rectangles import Columns, Visible
    from meantime.views.statemap.subject import Subject
    from meantime.views.statemap.window import Window

__all__ = ["Drawing", "draw"]

# As many intervals at a time as stay in the processor's caches.
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Drawing:
    """The rectangles of a map, its rows in natural order, without their colours.

    Attributes:
        columns: The rectangles.
        intervals: How many intervals they stand for.
        clipped: What is not there.
    """

    columns: Columns
    intervals: int
    clipped: Clipped

    @property
    def coalesced(self) -> int:
        """How many of the rectangles stand for more than one interval."""
        return int(np.count_nonzero(self.columns.marks & kernel.MERGED))

    def total_ns(self, subject: Subject, state: str) -> Int64s:
        """Return the time in a state, by row."""
        columns = self.columns
        total = np.zeros(len(subject.names), np.int64)
        held = columns.state_index == subject.table.index(state)
        row = np.repeat(columns.row, np.diff(columns.state_offsets))
        np.add.at(total, row[held], columns.state_ns[held])
        return total

    def order(self, subject: Subject, state: str | None) -> Int64s:
        """Return the rows as they are drawn: by name, or those with most time in a state first."""
        if state is None:
            return np.arange(len(subject.names))
        return np.argsort(-self.total_ns(subject, state), kind="stable")


def draw(subject: Subject, window: Window, *, coalesce: int, ignore_tags: bool) -> Drawing:
    """Return what a subject shows in a window, at most `coalesce` rectangles of it."""
    history, rows = subject.history, len(subject.names)
    tags = 0 if ignore_tags else len(history.tags)
    pile = Pile((window.start_ns, window.end_ns), wanted=coalesce, tags=tags)
    row_of_quark = np.full(len(history.attributes), -1, np.int32)
    row_of_quark[subject.quarks] = np.arange(rows, dtype=np.int32)
    place = room(0)
    for batch, _ in _between(subject, window.start_ns, window.end_ns):
        if len(batch) > len(place.row):
            place = room(len(batch))
        pile.add(
            _clip(batch, subject, window, row_of_quark, place, tagged=tags > 0),
            states=len(subject.table.states),
            done_ratio=(int(row_of_quark[batch.quark[-1]]) + 1) / rows,
        )
    appearance = np.empty(rows, np.int32)
    appearance[np.argsort(subject.quarks)] = np.arange(rows, dtype=np.int32)
    merge(pile, coalesce, appearance=appearance)
    return Drawing(pile.cut(), pile.intervals, _clipped(subject, window))


def _clip(
    batch: Intervals,
    subject: Subject,
    window: Window,
    row_of_quark: Int32s,
    place: Visible,
    *,
    tagged: bool,
) -> Visible:
    """Return what can be seen of intervals, as a view of `place`."""
    column = named(batch.value)
    while True:
        count = kernel.clip(
            batch.quark,
            batch.start_ns,
            batch.end_ns,
            column.codes,
            batch.tag,
            row_of_quark,
            subject.table.of_code(column.names),
            tagged,
            window.start_ns,
            window.cut_ns,
            window.last_ns,
            place,
        )
        if count >= 0:
            return part(place, 0, count)
        subject.table.add(column)


def _clipped(subject: Subject, window: Window) -> Clipped:
    """Return how many intervals lie before and after the window, and what was filtered out."""
    history = subject.history
    before = sum(
        int(np.count_nonzero(batch.end_ns[has_state] <= window.start_ns))
        for batch, has_state in _between(subject, history.start_ns, window.start_ns)
    )
    # The last change ends the data: what it begins has no length, unless the trace goes on.
    after = 0
    if window.end_ns < history.end_ns - 1:
        after = sum(
            int(np.count_nonzero(batch.start_ns[has_state] >= window.end_ns))
            for batch, has_state in _between(subject, window.end_ns, history.end_ns)
        )
    return Clipped(before, after, len(subject.filtered))


def _between(
    subject: Subject, start_ns: int, end_ns: int
) -> Iterator[tuple[Intervals, npt.NDArray[np.bool_]]]:
    """Yield the intervals that meet a range, and which of them have a state."""
    history = subject.history
    start_ns, end_ns = max(start_ns, history.start_ns), min(end_ns, history.end_ns)
    if start_ns < end_ns and len(subject.names):
        batches = history.interval_batches(subject.quarks, start_ns, end_ns, rows=_BATCH_ROWS)
        for batch in batches:
            value = batch.value
            yield batch, value.codes >= 0 if isinstance(value, Coded) else value.kinds > 0
