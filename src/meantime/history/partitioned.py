"""Several sources of intervals as one: each attribute belongs to one of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.extremes import Extremes
from meantime.history.source import Source, nearer
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.source import Bounds, Measured, Question, States
    from meantime.kernels.search import IntervalRows
    from meantime.kernels.shares import Tally
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Partitioned"]


class Partitioned(Source):
    """Asks the source that an attribute belongs to; all of them have the same range.

    Args:
        parts: The sources.
        part_of: By quark, which of them has it.
        own_of: By quark, its quark there; one below 0 is any without states.
    """

    def __init__(self, parts: Sequence[Source], part_of: Int32s, own_of: Int32s) -> None:
        self.start_ns: int = parts[0].start_ns
        self.end_ns: int = parts[0].end_ns
        self._parts = parts
        self._part_of = part_of
        self._own_of = own_of

    @property
    def size_bytes(self) -> int:
        """See `Source.size_bytes`."""
        return sum(part.size_bytes for part in self._parts)

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> Partitioned:
        """See `Source.within`."""
        parts = [
            part.within(start_ns, end_ns, own_kinds)
            for part, (_, _, own_kinds) in zip(
                self._parts, self._shares_of_parts(kinds), strict=True
            )
        ]
        return Partitioned(parts, self._part_of, self._own_of)

    def _shares_of_parts(
        self, kinds: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[Int64s, Int32s, npt.NDArray[np.uint8]]]:
        """Yield for each part the quarks of its attributes, those there, and by those the types."""
        part_of = self._part_of[: len(kinds)]
        order = np.argsort(part_of, kind="stable")
        edges = np.searchsorted(part_of[order], np.arange(len(self._parts) + 1)).tolist()
        for first, last in pairwise(edges):
            quarks = order[first:last]
            quarks = quarks[self._own_of[quarks] >= 0]
            own_of = self._own_of[quarks]
            own_kinds = np.zeros(int(own_of.max(initial=-1)) + 1, np.uint8)
            own_kinds[own_of] = kinds[quarks]
            yield quarks, own_of, own_kinds

    def _runs(self, quarks: Int32s) -> Iterator[tuple[slice, Source, Int32s]]:
        """Yield the runs of attributes of one part: which, the part, and their quarks in it."""
        if not len(quarks):
            return
        part_of, own = self._part_of[quarks], self._own_of[quarks]
        edges = (np.flatnonzero(part_of[1:] != part_of[:-1]) + 1).tolist()
        first = 0
        for last in [*edges, len(quarks)]:
            yield slice(first, last), self._parts[part_of[first]], own[first:last]
            first = last

    def _questions(self, question: Question) -> Iterator[tuple[slice, Source, Question]]:
        """Yield the questions to parts, in order: about which attributes, the part, what to ask."""
        for rows, part, own in self._runs(question.quarks):
            yield rows, part, question.part(rows, own)

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """See `Source.point`."""
        part: Source = self._parts[self._part_of[quark]]
        return part.point(int(self._own_of[quark]), time_ns)

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `Source.at`."""
        part_of = self._part_of[quarks]
        changed = np.count_nonzero(part_of[1:] != part_of[:-1])
        order = None
        if changed >= len(self._parts) and changed >= len(distinct(part_of)):
            # Rows are independent here, so those of a part are answered together.
            order = np.argsort(part_of, kind="stable")
            quarks, times_ns = quarks[order], times_ns[order]
        start, end, word = (np.empty(len(quarks), np.int64) for _ in range(3))
        meta = np.empty(len(quarks), np.uint32)
        for rows, part, own in self._runs(quarks):
            where = rows if order is None else order[rows]
            found = part.at(own, times_ns[rows])
            start[where], end[where], word[where], meta[where] = found
        return start, end, word, meta

    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """See `Source.sample`."""
        times = len(times_ns)
        word = np.empty(len(quarks) * times, np.int64)
        null = np.empty(len(word), np.uint8)
        for rows, part, own in self._runs(quarks):
            cells = slice(rows.start * times, rows.stop * times)
            word[cells], null[cells] = part.sample(own, times_ns)
        return word, null

    def load(self, question: Question) -> None:
        """See `Source.load`."""
        for _, part, own in self._questions(question):
            part.load(own)

    def count(self, question: Question) -> Int64s:
        """See `Source.count`."""
        counts = np.empty(len(question.quarks), np.int64)
        for rows, part, own in self._questions(question):
            counts[rows] = part.count(own)
        return counts

    def gather(self, question: Question, rows: IntervalRows) -> None:
        """See `Source.gather`."""
        for _, part, own in self._questions(question):
            part.gather(own, rows)

    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """See `Source.matching`."""
        counts = np.empty(len(question.quarks), np.int64)
        for rows, part, own in self._questions(question):
            counts[rows] = part.matching(own, criteria)
        return counts

    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """See `Source.nearest`."""
        nearest = None
        for rows, part, own in self._questions(question):
            found = part.nearest(own, criteria, backwards=backwards)
            if found is not None:
                row = rows.start + found[0], found[1]
                nearest = nearer(nearest, row, backwards=backwards)
        return nearest

    def bounds(self, question: Question) -> Bounds:
        """See `Source.bounds`."""
        low, high, changes = (np.empty(len(question.quarks), np.int64) for _ in range(3))
        for rows, part, own in self._questions(question):
            low[rows], high[rows], changes[rows] = part.bounds(own)
        return low, high, changes

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `Source.integers`."""
        found = Extremes().resolve(kinds)
        shares = self._shares_of_parts(kinds)
        for part, (quarks, own_of, own_kinds) in zip(self._parts, shares, strict=True):
            own = part.integers(own_kinds)
            found.low[quarks], found.high[quarks] = own.low[own_of], own.high[own_of]
        return found

    def for_times(self, question: Question, edges_ns: Int64s) -> Source:
        """See `Source.for_times`: if all attributes are those of one part, it is asked."""
        indices = distinct(self._part_of[question.quarks]).tolist() or [0]
        if len(indices) > 1:
            return self
        index, part = indices[0], self._parts[indices[0]]
        own = question.part(slice(None), self._own_of[question.quarks])
        faster = part.for_times(own, edges_ns)
        if faster is part:
            return self
        parts = [*self._parts[:index], faster, *self._parts[index + 1 :]]
        return Partitioned(parts, self._part_of, self._own_of)

    def tally(self, question: Question, tally: Tally) -> None:
        """See `Source.tally`."""
        for _, part, own in self._questions(question):
            part.tally(own, tally)

    def lengths(self, question: Question, lengths: StateLengths) -> None:
        """See `Source.lengths`."""
        for _, part, own in self._questions(question):
            part.lengths(own, lengths)

    def measure(self, question: Question) -> Measured:
        """See `Source.measure`."""
        ((_, part, own),) = self._questions(question)
        return part.measure(own)

    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """See `Source.measure_bins`."""
        found = np.empty((3, len(question.quarks), len(edges_ns) - 1))
        for rows, part, own in self._questions(question):
            found[:, rows] = part.measure_bins(own, edges_ns)
        return found
