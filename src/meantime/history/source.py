"""Questions about intervals, and what answers them: one protocol for all that they come from.

What is asked is a `Question`: attributes, the types of their values, what the answer calls them, a
range and a resolution. An answer is a column or `IntervalRows`, columns that grow and that kernels
take as one argument. A source loads or computes what its answer depends on, so a query needs no
branch for any of them, and cannot be answered from unchecked rows. There are six kinds of
question, and the kernels have one loop for each:

- `at`: the interval of each row's attribute that contains the row's time; `point` and `sample` for
  one row, and for all attributes at all times.
- `gather`: the intervals that overlap the range.
- `count`: at most how many those are; `matching` and `nearest` count and find the ones with a
  value or tag.
- `tally`: how long each value lasted in each bin.
- `lengths`: how long each state lasted, one by one; they are counted, and not written.
- `measure`: the least and the greatest number and the integral; `measure_bins` for each bin.

`SealedSegments` answers them from the rows of segments, and the source of `span_attributes` from
the table of spans. The others are made of these: `Shifted` gives a source the clock, the codes of
strings and the tags of a whole; `Partitioned` asks the source that an attribute belongs to;
`MadeSource` makes a source for the range of a question, as that of a history of checkpoints, whose
segments are built again.

A new kind of source is a `MadeSource` with two methods: `made` returns segments of the states in a
range, often by `segment_of_changes`, and `within` the same source in a longer range. It then
answers everything, and can be a host of a joined history. It overrides what it can answer faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from meantime.kernels.search import IntervalRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.extremes import Extremes
    from meantime.history.interval_filter import IntervalFilter
    from meantime.kernels.shares import Tally
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = [
    "Bounds",
    "Measured",
    "Question",
    "Source",
    "StateSource",
    "States",
    "cut_groups",
    "nearer",
]

# So many intervals, whose durations are counted, stay in the processor's caches.
_LENGTHS_ROWS = 1 << 16
# Intervals as columns: start, end, word and meta.
States: TypeAlias = "tuple[Int64s, Int64s, Int64s, npt.NDArray[np.uint32]]"
# By attribute, the least and the greatest integer that it may have, the greatest below the least if
# it has none, and how often it changes at most.
Bounds: TypeAlias = "tuple[Int64s, Int64s, Int64s]"
# Whether there are numbers, the words of the least and the greatest, the two parts of the integral,
# the sum of its parts without their signs, and how many rows were read.
Measured: TypeAlias = "tuple[bool, int, int, tuple[int, int], float, int]"


class Question(NamedTuple):
    """Which intervals are asked about: those that overlap [start_ns, end_ns).

    Attributes:
        quarks: The attributes, as the source that is asked numbers them.
        labels: What the answer calls each of them.
        kinds: The type of the values of each.
        start_ns: Where the range begins.
        end_ns: Where it ends.
        resolution_ns: Above 0, only the intervals that contain the start plus a multiple of it, or
            the last instant, are gathered.
    """

    quarks: Int32s
    labels: Int32s
    kinds: npt.NDArray[np.uint8]
    start_ns: int
    end_ns: int
    resolution_ns: int = 0

    def part(self, rows: slice | Int64s, quarks: Int32s) -> Question:
        """Return the question about these rows, whose attributes the source has as `quarks`."""
        return Question(quarks, self.labels[rows], self.kinds[rows], *self[3:])

    def moved(self, ns: int) -> Question:
        """Return the same question about a range that begins and ends that much later."""
        start_ns, end_ns = self.start_ns + ns, self.end_ns + ns
        return Question(*self[:3], start_ns, end_ns, self.resolution_ns)

    def within(self, start_ns: int, end_ns: int) -> Question:
        """Return the same question about another range."""
        return Question(*self[:3], start_ns, end_ns, self.resolution_ns)


class StateSource(ABC):
    """Answers what state attributes are in at a time.

    Attributes:
        start_ns: Where the history begins.
        end_ns: Where it ends.
    """

    start_ns: int
    end_ns: int

    @abstractmethod
    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """Return the interval of each row's attribute that contains the row's time."""

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""
        start, end, word, meta = self.at(np.array([quark], np.int32), np.array([time_ns]))
        return int(start[0]), int(end[0]), int(word[0]), int(meta[0])


class Source(StateSource):
    """Answers questions about intervals.

    Each method reads or makes what its answer depends on; times and ranges lie in the history.
    """

    @property
    def size_bytes(self) -> int:
        """How much memory it takes."""
        return 0

    @abstractmethod
    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """Return the value of each attribute at each time, attribute after attribute.

        Times ascend.

        Returns:
            The word, which is 0 for null, and whether it is null.
        """

    def load(self, question: Question) -> None:
        """Read what answers depend on, and replace what is damaged.

        Every query does; one that makes room for its answer does it before that.
        """

    @abstractmethod
    def count(self, question: Question) -> Int64s:
        """Return an upper bound of how many intervals of each attribute overlap the range."""

    @abstractmethod
    def gather(self, question: Question, rows: IntervalRows) -> None:
        """Add the intervals that overlap the range, attribute after attribute."""

    @abstractmethod
    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """Return how many intervals of each attribute overlap the range and match."""

    @abstractmethod
    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """Return the first matching interval that begins in the range, or the last.

        Returns:
            The index of the attribute, the first of those that begin at one time, and the time;
            None if no interval matches.
        """

    @abstractmethod
    def bounds(self, question: Question) -> Bounds:
        """Return limits of the integers of each attribute, and of how often it changes."""

    def estimate(self, question: Question) -> int:
        """Return about how many intervals begin in the range, without reading any."""
        # the changes may be those of the whole history
        *_, changes = self.bounds(question)
        part = (question.end_ns - question.start_ns) / (self.end_ns - self.start_ns)
        return int(int(changes.sum()) * part)

    @abstractmethod
    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """Return the least and the greatest integer of attributes of these types, by quark."""

    def for_times(self, question: Question, edges_ns: Int64s) -> Source:  # noqa: ARG002 - of any
        """Return a source with the same times of states in bins with these edges.

        It may be faster, and has fewer changes in them.
        """
        return self

    @abstractmethod
    def tally(self, question: Question, tally: Tally) -> None:
        """Add how long each value lasted."""

    def lengths(self, question: Question, lengths: StateLengths) -> None:
        """Add how long each state of attributes with strings lasted in the range."""
        counts = self.count(question)
        for first, last in cut_groups(counts, _LENGTHS_ROWS):
            rows = IntervalRows(int(counts[first:last].sum()), text=True)
            self.gather(question.part(slice(first, last), question.quarks[first:last]), rows)
            lengths.take_rows(rows, question.start_ns, question.end_ns)

    @abstractmethod
    def measure(self, question: Question) -> Measured:
        """Return the extremes and the integral of the numbers of the only attribute."""

    @abstractmethod
    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """Return the least and the greatest number and the mean, by attribute and bin.

        They are NaN where there is no number.
        """

    @abstractmethod
    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> Source:
        """Return the same intervals in a longer range, without any state before and after.

        `kinds` has by quark the type of its values.
        """


def cut_groups(counts: Int64s, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of attributes whose intervals together are at most `rows`, one at least.

    >>> list(cut_groups(np.array([2, 2, 5, 1]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + rows, side="right")))
        yield first, last
        first = last


def nearer(
    nearest: tuple[int, int] | None, found: tuple[int, int], *, backwards: bool
) -> tuple[int, int]:
    """Return the earlier of two attributes and times, or the later; the first if they are equal."""
    if nearest is None:
        return found
    return found if (found[1] > nearest[1] if backwards else found[1] < nearest[1]) else nearest
