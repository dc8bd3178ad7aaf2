"""The smallest source of intervals: the two methods that a `MadeSource` needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.history import History
from meantime.history.made_source import MadeSource
from meantime.history.sealed import SealedSegments
from meantime.history.segment import segment_of_changes
from meantime.kernels.search import IntervalRows

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int32s

# When a state begins, its attribute, its word and its meta.
Row = tuple[int, int, int, int]
NULL = 1


class ListedSource(MadeSource):
    """States in a list, in order of time."""

    def __init__(
        self, rows: list[Row], kinds: npt.NDArray[np.uint8], range_ns: tuple[int, int]
    ) -> None:
        self.start_ns, self.end_ns = range_ns
        self.rows, self.kinds = rows, kinds

    def made(self, quarks: Int32s, start_ns: int, end_ns: int) -> SealedSegments:  # noqa: ARG002 - of any range
        """Return a segment of the states of these attributes."""
        asked = set(quarks.tolist())
        rows = [row for row in self.rows if row[1] in asked] or [(self.start_ns, 0, 0, NULL)]
        time_ns, quark, word, meta = zip(*rows, strict=True)
        segment = segment_of_changes(
            self.kinds,
            np.array(time_ns),
            np.array(quark, np.int32),
            np.array(word),
            np.array(meta, np.uint32),
        )
        return SealedSegments([segment], self.start_ns, self.end_ns)

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> ListedSource:
        """Return the same states in a longer range."""
        last = {row[1]: row[3] for row in self.rows}
        ended = [(self.end_ns, quark, 0, NULL) for quark, meta in last.items() if meta != NULL]
        rows = self.rows + (ended if end_ns > self.end_ns else [])
        return ListedSource(rows, kinds, (start_ns, end_ns))


def listed(history: History) -> History:
    """Return the same history, with its states in a list."""
    then = history.snapshot()._now()
    quarks, range_ns = (
        np.arange(len(then.kinds), dtype=np.int32),
        (history.start_ns, history.end_ns),
    )
    rows = IntervalRows(0, text=False)
    then.segments.gather(then.question(quarks, range_ns), rows)
    columns = rows.start_ns, rows.quark, rows.word, rows.meta
    states = sorted(zip(*(column.tolist() for column in columns), strict=True))
    source = ListedSource(
        [row for row in states if row[::3] != (history.start_ns, NULL)], then.kinds, range_ns
    )
    return History(lambda: replace(then, segments=source))
