"""The sealed segments of a history, searched as one."""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError
from meantime.history.extremes import Extremes
from meantime.history.segment import segment_of_changes
from meantime.history.source import Source
from meantime.kernels import pyramid
from meantime.kernels.search import Segments
from meantime.kernels.tail import STR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from meantime.history.damage import DamageLog, LostSegment
    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.overview import Overview
    from meantime.history.pyramid import Pyramids
    from meantime.history.segment import Segment
    from meantime.history.source import Bounds, Measured, Question, States
    from meantime.kernels.search import IntervalRows
    from meantime.kernels.shares import Tally
    from meantime.kernels.state_lengths import StateLengths
    from meantime.model.columns import Int32s, Int64s

__all__ = ["SealedSegments", "search_all"]

# Ranges of so many segments take them from totals.
_TOTALLED_SEGMENTS = 3
# A state is looked for in up to so many adjacent segments, and so often, before all are indexed.
_NEARBY = 4
_MOST_NEARBY = 16
# From so many rows in a cell on, pyramids may be faster: `_NEAR` of kernels/shares_rows.pyx.
_ROWS_OF_A_BLOCK = 16
# Of a range with so many, the pyramids say where a value is.
_MANY_ROWS = 2**19
_INT64 = np.iinfo(np.int64)
# The meta of no state without a tag.
_NOTHING = 1


def search_all(segments: Sequence[Segment]) -> Segments:
    """Return segments to be searched; the caller loads those that are needed."""
    searched = Segments()
    for segment in segments:
        segment.add_to(searched)
    return searched


class SealedSegments(Source):
    """Answers queries from segments; each is loaded when an answer first depends on its rows.

    Args:
        segments: The segments in order of time.
        start_ns: Where the history begins.
        end_ns: Where it ends.
        damage: Receives what is found damaged, in place of which queries use what is known of it;
            None raises.

    Attributes:
        segments: The segments in order of time.
        start_ns: The first time of the history.
        end_ns: The first time after it.
        extremes: The least and the greatest integer of each attribute.
        pyramids: Makes answers about long ranges faster; None while the history is being built.
        overview: Has the sums of wide bins; None if there is none.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        start_ns: int,
        end_ns: int,
        damage: DamageLog | None = None,
    ) -> None:
        self.segments: list[Segment] = list(segments)
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.extremes: Extremes = Extremes(segments)
        self.pyramids: Pyramids | None = None
        self.overview: Overview | None = None
        self._coarse: SealedSegments | None = None
        self._bases_ns = [segment.head.base_ns for segment in segments]
        self._rows = sum(segment.head.changes for segment in segments)
        self._unloaded = {index for index, segment in enumerate(segments) if not segment.loaded}
        self._searched: Segments | None = None
        # Some adjacent segments, from the first up to the end, and how often they were others.
        self._nearby: tuple[int, int, Segments | None] = (0, 0, None)
        self._nearby_made = 0
        self._damage = damage
        self._lost: dict[int, LostSegment] = {}
        self._ending: list[Segment] | None = None
        # losing a segment, and making what is searched, may find that others are damaged
        self._lock = threading.RLock()

    def collect(self, damage: DamageLog) -> None:
        """Answer without what is found damaged from now on."""
        self._damage = damage

    @property
    def searched(self) -> Segments:
        """The segments, to be searched; the index of each is read when this is first used.

        Raises:
            InputError: If one is damaged.
        """
        searched = self._searched
        if searched is None:
            with self._lock:
                searched = self._searched
                if searched is None:
                    searched = self._search_all()
                    searched.start_ns, searched.end_ns = self.start_ns, self.end_ns
                    self._searched = searched
        return searched

    @property
    def size_bytes(self) -> int:
        """How much memory the segments take once all is read, with what was computed."""
        pyramids = self.pyramids.size_bytes if self.pyramids is not None else 0
        sums = [each for segment in self.segments for each in segment.lengths.values()]
        return (
            pyramids
            + sum(each.size_bytes for each in sums if each is not None)
            + sum(segment.head.size_bytes() for segment in self.segments)
        )

    def _search_all(self) -> Segments:
        if self._damage is not None:
            for index, segment in enumerate(self.segments):
                try:
                    segment.sections  # noqa: B018 - reads the index
                except InputError as error:
                    self.lose(index, segment, error)
        return search_all(self.segments)

    def lose(self, index: int, segment: Segment, error: InputError) -> None:
        """Do without a segment that is damaged.

        Raises:
            InputError: If damage is not to be collected.
        """
        if self._damage is None:
            raise error
        with self._lock:
            if self.segments[index] is not segment:
                return
            from meantime.history.damage import without  # noqa: PLC0415 - for damaged files only

            lost, known = without(self.segments, index, self.end_ns, error, self._damage)
            # in this order: a thread that finds it gone finds what is known instead
            self._lost[index] = lost
            self.segments[index] = known
            self._unloaded.discard(index)
            self._searched, self._nearby = None, (0, 0, None)
            if self.pyramids is not None:
                self.pyramids = self.pyramids.rebuilt()
            self._damage.add(lost.damage())

    def load(self, question: Question) -> None:
        """Load what answers depend on, and do without what is damaged.

        Raises:
            InputError: If it is damaged, unless the intact rest is to be used.
        """
        self._load(question.quarks, question.start_ns, question.end_ns)

    def _load(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        if len(quarks) and (self._unloaded or self._lost):
            self._load_around(quarks, start_ns, end_ns)
            self._refuse(quarks, start_ns, end_ns)

    def _load_around(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """Load the segments of a range, and those with the states around it of these attributes.

        Raises:
            InputError: If one is damaged, and damage is not collected.
        """
        # Those that begin in the range. The one in which it starts has the state there only if the
        # attribute changes in it or is carried, so `sources` decides about it.
        first = bisect_right(self._bases_ns, start_ns)
        begin = range(first, bisect_right(self._bases_ns, end_ns - 1))
        while True:
            needed = set(begin)
            if not self._unloaded <= needed:
                used = np.zeros(len(self.segments), np.uint8)
                self.searched.sources(quarks, start_ns, end_ns, used)
                needed.update(np.flatnonzero(used).tolist())
            # without one of them, the state may be in others
            if self._load_segments(sorted(needed)):
                break

    def _refuse(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """Raise the error of a lost segment if a state in a range is unknown without it.

        An attribute has no state from where the segment begins until it is known again.
        """
        if self._damage is None or self._damage.skips:
            return
        for lost in [*self._lost.values()]:
            hidden = lost.hidden(quarks, start_ns, end_ns)
            if not len(hidden):
                continue
            self._load_around(hidden, lost.start_ns, lost.start_ns + 1)
            _, known_ns, _, _ = self.searched.at(hidden, np.full(len(hidden), lost.start_ns))
            if (known_ns > start_ns).any():
                raise lost.error

    def _load_segments(self, indices: Iterable[int]) -> bool:
        """Load segments; return False if one was lost.

        Raises:
            InputError: If one is damaged, and damage is not collected.
        """
        whole = True
        for index in indices:
            if index not in self._unloaded:
                continue
            segment = self.segments[index]
            try:
                segment.load()
            except InputError as error:
                self.lose(index, segment, error)
                whole = False
            else:
                self._unloaded.discard(index)
        return whole

    def _load_times(self, quarks: Int32s, times_ns: Int64s) -> None:
        if not len(times_ns):
            return
        self._load_around(quarks, int(times_ns.min()), int(times_ns.max()) + 1)
        for lost in [*self._lost.values()]:
            inside = times_ns[(times_ns >= lost.start_ns) & (times_ns < lost.end_ns)]
            if len(inside):
                self._refuse(quarks, int(inside.min()), int(inside.max()) + 1)

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""
        if self._searched is None and not self._lost:
            found = self._point_nearby(quark, time_ns)
            if found is not None:
                return found
        if self._unloaded or self._lost:
            self._load(np.array([quark], np.int32), time_ns, time_ns + 1)
        return self.searched.point(quark, time_ns)

    def _point_nearby(self, quark: int, time_ns: int) -> tuple[int, int, int, int] | None:
        """Return the same from a few segments, so that the index of no other is read.

        None if the interval is in more than these, or other queries will need all of them.
        """
        here = bisect_right(self._bases_ns, time_ns) - 1
        first, end, nearby = self._nearby
        for _ in range(_NEARBY):
            if nearby is None or not first <= here < end:
                if here < 0 or self._nearby_made == _MOST_NEARBY:
                    return None
                first, end, nearby = here, here + 1, None
            if nearby is None:
                self._nearby_made += 1
                if not self._load_segments(range(first, end)):
                    return None
                nearby = search_all(self.segments[first:end])
                # No change has these times.
                nearby.start_ns, nearby.end_ns = _INT64.min, _INT64.max
                self._nearby = first, end, nearby
            start_ns, end_ns, word, meta = nearby.point(quark, time_ns)
            if start_ns == _INT64.min and first and not self.segments[first].head.full:
                first, nearby = first - 1, None
            elif end_ns == _INT64.max and end < len(self.segments):
                end, nearby = end + 1, None
            else:
                start_ns = self.start_ns if start_ns == _INT64.min else start_ns
                end_ns = self.end_ns if end_ns == _INT64.max else end_ns
                return start_ns, end_ns, word, meta
        return None

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `Source.at`."""
        if self._unloaded or self._lost:
            self._load_times(quarks, times_ns)
        return self.searched.at(quarks, times_ns)

    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """See `Source.sample`."""
        if self._unloaded or self._lost:
            self._load_times(quarks, times_ns)
        return self.searched.sample(quarks, times_ns)

    def count(self, question: Question) -> Int64s:
        """See `Source.count`."""
        self.load(question)
        return self.searched.count(question)

    def gather(self, question: Question, rows: IntervalRows) -> None:
        """See `Source.gather`."""
        self.load(question)
        self.searched.gather(question, rows)

    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """See `Source.matching`."""
        from meantime.kernels import interval_filter as kernel  # noqa: PLC0415 - for few questions

        self._expect(question, _MANY_ROWS)
        self.load(question)
        return kernel.count_matching(self.searched, question, criteria)

    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """See `Source.nearest`."""
        from meantime.kernels import interval_filter as kernel  # noqa: PLC0415 - for few questions

        self._expect(question, _MANY_ROWS)
        self.load(question)
        return kernel.nearest_matching(self.searched, question, criteria, backwards)

    def bounds(self, question: Question) -> Bounds:
        """See `Source.bounds`; they are those of the whole history, and found once."""
        return self.searched.bounds(question.quarks)

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `Source.integers`."""
        return self.extremes.resolve(kinds)

    def _expect(self, question: Question, rows: int) -> None:
        """Attach the pyramids, or count until making them pays, if more than so many are read."""
        range_ns, whole_ns = question.end_ns - question.start_ns, self.end_ns - self.start_ns
        if self.pyramids is None or self._rows * range_ns <= rows * whole_ns:
            return
        expected = self.estimate(question)
        if expected > rows:
            self.pyramids.use()
            self.pyramids.read(expected)

    def tally(self, question: Question, tally: Tally) -> None:
        """See `Source.tally`."""
        quarks, _, kinds, start_ns, end_ns, _ = question
        self.load(question)
        self._expect(question, _ROWS_OF_A_BLOCK * len(quarks) * (len(tally.edges) - 1))
        totals = None
        first = max(0, bisect_right(self._bases_ns, start_ns) - 1)
        last = bisect_right(self._bases_ns, end_ns - 1) - 1
        if self.pyramids is not None and last - first + 1 >= _TOTALLED_SEGMENTS:
            while not self._load_segments(range(first, last + 1)):
                pass
            totals = self.pyramids.totals(tally, quarks, kinds, first, last)
        tally.take_segments(self.searched, quarks, kinds, totals)

    def for_times(self, question: Question, edges_ns: Int64s) -> SealedSegments:
        """Return the overview if it has these attributes and bins, otherwise these segments."""
        overview = self.overview
        if (
            overview is None
            # what is lost is in the overview, but is reported as lost
            or self._lost
            or int(question.kinds.max(initial=0)) > STR
            or not overview.has_edges(edges_ns, self.start_ns, self.end_ns)
        ):
            return self
        try:
            with self._lock:
                if self._coarse is None:
                    self._coarse = SealedSegments(overview.segments, self.start_ns, self.end_ns)
            self._coarse.load(question.within(int(edges_ns[0]), int(edges_ns[-1])))
        except InputError as error:
            import logging  # noqa: PLC0415 - 2 ms, for damaged files only

            self.overview = None
            logging.getLogger("meantime").warning("%s", error)
            return self
        return self._coarse

    def lengths(self, question: Question, lengths: StateLengths) -> None:
        """See `Source.lengths`."""
        self.load(question)
        added = None
        if lengths.takes_sums and len(self.segments) > 1:
            from meantime.history.added_lengths import add_sums  # noqa: PLC0415 - for few questions

            added = add_sums(self.segments, self.searched, question, lengths)
        lengths.take_segments(self.searched, question, added)

    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """See `Source.measure_bins`."""
        quarks, _, kinds, *_ = question
        self.load(question)
        if self.pyramids is not None:
            self.pyramids.use()
        found = np.full((3, len(quarks), len(edges_ns) - 1), np.nan)
        read = pyramid.measure_bins(self.searched, quarks, kinds, edges_ns, *found)
        if self.pyramids is not None:
            self.pyramids.read(read)
        return found

    def measure(self, question: Question) -> Measured:
        """See `Source.measure`."""
        ((quark,), _, (kind,), *range_ns, _) = question
        self.load(question)
        if self.pyramids is not None:
            self.pyramids.use()
        measured = pyramid.measure(self.searched, quark, kind, *range_ns)
        if self.pyramids is not None:
            self.pyramids.read(measured[-1])
        return measured

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> SealedSegments:
        """Return the same segments in a longer range, and one that ends the last states.

        Raises:
            InputError: If a segment with last states is damaged.
        """
        segments = self.segments
        if end_ns > self.end_ns and segments:
            if self._ending is None:
                self._ending = self._end(kinds)
            # finding the last states may have replaced a segment that is damaged
            segments = self.segments + self._ending
        longer = SealedSegments(segments, start_ns, end_ns, self._damage)
        longer.extremes = self.extremes
        longer._lost = dict(self._lost)
        if self.pyramids is not None:
            longer.pyramids = self.pyramids.attached_to(longer, longer.segments)
        return longer

    def _end(self, kinds: npt.NDArray[np.uint8]) -> list[Segment]:
        """Return a segment in which each attribute that has a state in the end loses it, if any."""
        quarks = np.arange(len(kinds), dtype=np.int32)
        *_, meta = self.at(quarks, np.full(len(quarks), self.end_ns - 1))
        ended = quarks[meta != _NOTHING]
        if not len(ended):
            return []
        ends_ns, none = np.full(len(ended), self.end_ns), np.zeros(len(ended), np.int64)
        null = np.ones(len(ended), np.uint32)
        return [segment_of_changes(kinds, ends_ns, ended, none, null)]
