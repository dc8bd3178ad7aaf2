"""A source of intervals with the clock, the codes and the tags of a whole that it is a part of."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.source import Source
from meantime.kernels.tail import STR

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.extremes import Extremes
    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.source import Bounds, Measured, Question, States
    from meantime.kernels.search import IntervalRows
    from meantime.kernels.shares import Tally
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = ["Shifted"]


class Shifted(Source):
    """The intervals of another source with other times, codes of strings and tags.

    Args:
        source: The other source.
        kinds: By quark, the type of the values.
        offset_ns: What to add to its times.
        codes: By its own code of a string, that in the whole; None if they are the same.
        tags: By its own tag plus one, that in the whole plus one; None if they are the same.
        range_ns: The range of the whole.
    """

    def __init__(
        self,
        source: Source,
        kinds: npt.NDArray[np.uint8],
        *,
        offset_ns: int,
        codes: Int32s | None,
        tags: Int32s | None,
        range_ns: tuple[int, int],
    ) -> None:
        self.start_ns: int
        self.end_ns: int
        self.start_ns, self.end_ns = range_ns
        self._own = source
        self._kinds = kinds
        self._offset_ns = offset_ns
        self._codes = codes
        self._tags = tags

    @cached_property
    def _source(self) -> Source:
        """The intervals in the range of the whole, made when they are first asked for."""
        own, offset_ns = self._own, self._offset_ns
        range_ns = self.start_ns - offset_ns, self.end_ns - offset_ns
        if range_ns == (own.start_ns, own.end_ns):
            return own
        return own.within(*range_ns, self._kinds)

    @property
    def size_bytes(self) -> int:
        """See `Source.size_bytes`."""
        return self._source.size_bytes

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> Shifted:
        """See `Source.within`."""
        return Shifted(
            self._own,
            kinds,
            offset_ns=self._offset_ns,
            codes=self._codes,
            tags=self._tags,
            range_ns=(start_ns, end_ns),
        )

    def _of_own(self, question: Question) -> Question:
        return question.moved(-self._offset_ns) if self._offset_ns else question

    def _times_of_own(self, times_ns: Int64s) -> Int64s:
        return times_ns - self._offset_ns if self._offset_ns else times_ns

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """See `Source.point`."""
        offset_ns = self._offset_ns
        start_ns, end_ns, word, meta = self._source.point(quark, time_ns - offset_ns)
        if not meta & 1 and self._codes is not None and self._kinds[quark] == STR:
            word = int(self._codes[word])
        if meta > 1 and self._tags is not None:
            meta = int(self._tags[meta >> 1]) << 1 | meta & 1
        return start_ns + offset_ns, end_ns + offset_ns, word, meta

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `Source.at`."""
        found = start, end, word, meta = self._source.at(quarks, self._times_of_own(times_ns))
        self._move(start, end)
        if self._codes is not None:
            self._translate(word, (meta & 1 == 0) & (self._kinds[quarks] == STR))
        self._translate_tags(meta)
        return found

    def _move(self, start: Int64s, end: Int64s) -> None:
        if self._offset_ns:
            start += self._offset_ns
            end += self._offset_ns

    def _translate(
        self, codes: Int32s | Int64s, some: npt.NDArray[np.bool_] | npt.NDArray[np.intp]
    ) -> None:
        """Replace some of the codes of strings."""
        if self._codes is not None:
            codes[some] = self._codes[codes[some]]

    def _translate_tags(self, meta: npt.NDArray[np.uint32]) -> None:
        if self._tags is not None:
            meta[:] = self._tags[meta >> 1].astype(np.uint32) << np.uint32(1) | meta & 1

    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """See `Source.sample`."""
        word, null = self._source.sample(quarks, self._times_of_own(times_ns))
        if self._codes is not None:
            strings = np.repeat(self._kinds[quarks] == STR, len(times_ns))
            self._translate(word, strings & (null == 0))
        return word, null

    def load(self, question: Question) -> None:
        """See `Source.load`."""
        self._source.load(self._of_own(question))

    def count(self, question: Question) -> Int64s:
        """See `Source.count`."""
        return self._source.count(self._of_own(question))

    def gather(self, question: Question, rows: IntervalRows) -> None:
        """See `Source.gather`."""
        first, own = rows.rows, self._of_own(question)
        if self._codes is None or rows.is_text:
            self._source.gather(own, rows)
            if self._codes is not None:
                code = rows.code[first:]
                self._translate(code, code >= 0)
        else:
            # an attribute is called by its index until its type is known
            own = own._replace(labels=np.arange(len(own.quarks), dtype=np.int32))
            self._source.gather(own, rows)
            index = rows.quark[first:]
            strings = question.kinds[index] == STR
            self._translate(rows.word[first:], strings & (rows.meta[first:] & 1 == 0))
            index[:] = question.labels[index]
        self._move(rows.start_ns[first:], rows.end_ns[first:])
        if rows.is_text and self._tags is not None:
            tag = rows.tag[first:]
            tag[:] = self._tags[tag + 1] - 1
        elif not rows.is_text:
            self._translate_tags(rows.meta[first:])

    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """See `Source.matching`."""
        criteria = criteria.translated(self._codes, self._tags)
        return self._source.matching(self._of_own(question), criteria)

    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """See `Source.nearest`."""
        criteria = criteria.translated(self._codes, self._tags)
        found = self._source.nearest(self._of_own(question), criteria, backwards=backwards)
        return None if found is None else (found[0], found[1] + self._offset_ns)

    def bounds(self, question: Question) -> Bounds:
        """See `Source.bounds`."""
        return self._source.bounds(self._of_own(question))

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `Source.integers`."""
        return self._own.integers(kinds)

    def tally(self, question: Question, tally: Tally) -> None:
        """See `Source.tally`."""
        edges_ns, codes = tally.edges, tally.codes
        own = codes
        if self._codes is not None:
            own = self._codes if codes is None else codes[self._codes]
        tally.turn_to(self._times_of_own(edges_ns), own)
        self._source.tally(self._of_own(question), tally)
        tally.turn_to(edges_ns, codes)

    def lengths(self, question: Question, lengths: StateLengths) -> None:
        """See `Source.lengths`."""
        codes = lengths.codes
        own = codes
        if self._codes is not None:
            own = self._codes if codes is None else codes[self._codes]
        lengths.turn_to(own)
        self._source.lengths(self._of_own(question), lengths)
        lengths.turn_to(codes)

    def measure(self, question: Question) -> Measured:
        """See `Source.measure`."""
        return self._source.measure(self._of_own(question))

    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """See `Source.measure_bins`."""
        return self._source.measure_bins(self._of_own(question), self._times_of_own(edges_ns))
