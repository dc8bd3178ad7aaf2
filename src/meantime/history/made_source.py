"""A source of intervals that makes another one for the range of a question, and asks that."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.sealed import SealedSegments
from meantime.history.source import Source

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.extremes import Extremes
    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.source import Bounds, Measured, Question, States
    from meantime.kernels.search import IntervalRows
    from meantime.kernels.shares import Tally
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = ["MadeSource"]


class MadeSource(Source):
    """Answers each question from what `made` returns; what can be answered faster is overridden."""

    @abstractmethod
    def made(self, quarks: Int32s, start_ns: int, end_ns: int) -> Source:
        """Return a source with the states of these attributes in [start_ns, end_ns), at least."""

    def _made(self, question: Question) -> Source:
        return self.made(question.quarks, question.start_ns, question.end_ns)

    def _made_at(self, quarks: Int32s, times_ns: Int64s) -> Source:
        if not len(times_ns):
            return SealedSegments((), self.start_ns, self.end_ns)
        return self.made(quarks, int(times_ns.min()), int(times_ns.max()) + 1)

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """See `Source.point`."""
        made = self.made(np.array([quark], np.int32), time_ns, time_ns + 1)
        return made.point(quark, time_ns)

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `Source.at`."""
        return self._made_at(quarks, times_ns).at(quarks, times_ns)

    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """See `Source.sample`."""
        return self._made_at(quarks, times_ns).sample(quarks, times_ns)

    def load(self, question: Question) -> None:
        """See `Source.load`."""
        self._made(question).load(question)

    def count(self, question: Question) -> Int64s:
        """See `Source.count`."""
        return self._made(question).count(question)

    def gather(self, question: Question, rows: IntervalRows) -> None:
        """See `Source.gather`."""
        self._made(question).gather(question, rows)

    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """See `Source.matching`."""
        return self._made(question).matching(question, criteria)

    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """See `Source.nearest`."""
        return self._made(question).nearest(question, criteria, backwards=backwards)

    def bounds(self, question: Question) -> Bounds:
        """See `Source.bounds`."""
        return self._made(question).bounds(question)

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `Source.integers`."""
        quarks = np.arange(len(kinds), dtype=np.int32)
        return self.made(quarks, self.start_ns, self.end_ns).integers(kinds)

    def tally(self, question: Question, tally: Tally) -> None:
        """See `Source.tally`."""
        self._made(question).tally(question, tally)

    def lengths(self, question: Question, lengths: StateLengths) -> None:
        """See `Source.lengths`."""
        self._made(question).lengths(question, lengths)

    def measure(self, question: Question) -> Measured:
        """See `Source.measure`."""
        return self._made(question).measure(question)

    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """See `Source.measure_bins`."""
        return self._made(question).measure_bins(question, edges_ns)
