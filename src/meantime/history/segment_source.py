"""What a snapshot is queried from: one protocol for all that intervals come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.extremes import Extremes
    from meantime.history.interval_filter import IntervalFilter
    from meantime.kernels.shares import Tally

__all__ = ["Measured", "SegmentSource", "StateSource", "cut_groups", "nearer"]

# Whether there are numbers, the words of the least and the greatest, the two parts of the integral,
# the sum of its parts without their signs, and how many rows were read.
Measured = tuple[bool, int, int, tuple[int, int], float, int]


class StateSource(Protocol):
    """Answers what state attributes are in at a time."""

    @property
    def start_ns(self) -> int:
        """Where the history begins."""

    @property
    def end_ns(self) -> int:
        """Where it ends."""

    def point(self, quark: int, time_ns: int, /) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""

    def at(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
        /,
    ) -> None:
        """Write the interval of each row's attribute that contains the row's time."""


class SegmentSource(StateSource, Protocol):
    """Answers queries about intervals.

    Each method reads or makes what its answer depends on; times and ranges lie in the history.
    """

    @property
    def size_bytes(self) -> int:
        """How much memory it takes."""

    def sample(
        self, quarks: Int32s, times_ns: Int64s, word: Int64s, null: npt.NDArray[np.uint8], /
    ) -> None:
        """Write the value of each attribute at each time, attribute after attribute.

        A value that is null has the word 0.
        """

    def load(self, quarks: Int32s, start_ns: int, end_ns: int, /) -> None:
        """Read what answers about a range depend on, and replace what is damaged.

        Every query does; one that makes room for its answer does it before that.
        """

    def count(self, quarks: Int32s, start_ns: int, end_ns: int, counts: Int64s, /) -> None:
        """Write an upper bound of how many intervals of each attribute overlap a range."""

    def gather(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        resolution_ns: int,
        out_quark: Int32s,
        out_start: Int64s,
        out_end: Int64s,
        out_code: Int32s | None,
        out_word: Int64s | None,
        out_meta: npt.NDArray[np.uint32] | None,
        out_tag: Int32s | None,
        /,
    ) -> int:
        """Write the intervals that overlap a range, quark by quark; return how many.

        Raises:
            BufferError: If there are more than there is room for.
        """

    def count_matching(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        counts: Int64s,
        /,
    ) -> None:
        """Write how many intervals of each attribute overlap a range and are criteria.

        `kinds` has the types of the attributes' values.
        """

    def nearest_matching(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        backwards: bool,  # noqa: FBT001 - as the kernel's
        /,
    ) -> tuple[int, int] | None:
        """Return the first matching interval that begins in a range, or the last.

        Returns:
            The index of the attribute, the first of those that begin at one time, and the time;
            None if no interval matches.
        """

    def bounds(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        low: Int64s,
        high: Int64s,
        changes: Int64s,
        /,
    ) -> None:
        """Write limits of the integers of each attribute, and of how often it changes in a range.

        No integer is outside [low, high], and an attribute without any has a high below its low.
        """

    def integers(self, kinds: npt.NDArray[np.uint8], /) -> Extremes:
        """Return the least and the greatest integer of attributes of these types, by quark."""

    def expect_rows(self, rows: int, quarks: Int32s, /) -> None:
        """Prepare for a tally of attributes that would read so many rows, unless sums have them."""

    def for_times(
        self, quarks: Int32s, kinds: npt.NDArray[np.uint8], edges_ns: Int64s, /
    ) -> SegmentSource:
        """Return a source with the same times of states in bins with these edges.

        It may be faster, and has fewer changes in them.
        """

    def tally(
        self,
        tally: Tally,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        /,
    ) -> None:
        """Add how long each value of attributes of these types lasted in a range."""

    def measure_bins(  # noqa: PLR0917 - as the kernel's
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        edges_ns: Int64s,
        least: npt.NDArray[np.float64],
        greatest: npt.NDArray[np.float64],
        mean: npt.NDArray[np.float64],
        /,
    ) -> None:
        """Write extremes and means of the numbers of attributes in each bin, where they have some.

        The three are by attribute and bin; what has no number stays as it is.
        """

    def measure(self, quark: int, kind: int, start_ns: int, end_ns: int, /) -> Measured:
        """Return the extremes and the integral of the numbers of an attribute in a range."""

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8], /) -> SegmentSource:
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
