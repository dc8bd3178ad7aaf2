"""Attributes derived from spans: `Stack/<depth>` below each thread, answered from their table.

The first lane of a thread is `Stack/<depth>`, those of spans that partly overlap are
`Lane/<lane>/Stack/<depth>`; async operations have `<depth>` and `Lane/<lane>/<depth>`. Nothing is
stored twice: the rows are sorted by attribute when one of them is first queried.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import PROCESSES, STACK, STACK_PATTERN, THREADS
from meantime.attributes import ANY, ROOT
from meantime.history.segment_source import cut_groups, nearer
from meantime.kernels.span_search import StackIntervals, extents
from meantime.kernels.tail import STR, UNTYPED
from meantime.structs import struct
from meantime.trace import LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.attributes import Attributes
    from meantime.columns import Int32s, Int64s
    from meantime.history.extremes import Extremes
    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.segment_source import Measured, SegmentSource
    from meantime.history.snapshot import Snapshot
    from meantime.history.spans import SpanTable
    from meantime.kernels.shares import Tally

__all__ = ["SpanAttributes", "are_in_threads", "with_span_attributes"]

_LOW = 0xFFFFFFFF
# Few enough that the allocator reuses the memory of one group for the next.
_GROUP_ROWS = 2**16
_LANE = LaneDeclaration(STACK_PATTERN, kind="stack", entity_kind="Depth", label="Threads")


def with_span_attributes(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of a finished history with its spans as attributes too."""
    if snapshot.derive is not None:
        return snapshot.derive()
    spans, metadata = snapshot.tables.spans, snapshot.metadata
    if not len(spans):
        return snapshot
    attributes = snapshot.attributes.copy()
    stacks = _Stacks.of(spans, attributes)
    attributes.freeze()
    kinds = np.full(len(attributes), UNTYPED, np.uint8)
    kinds[: len(snapshot.kinds)] = snapshot.kinds
    kinds[stacks.lasting] = STR
    if stacks.of_threads:
        metadata = replace(metadata, lanes=[_LANE, *metadata.lanes])
    return replace(
        snapshot,
        segments=SpanAttributes(snapshot.segments, stacks, spans),
        attributes=attributes,
        kinds=kinds,
        metadata=metadata,
    )


def are_in_threads(attributes: Attributes, quarks: Int32s) -> npt.NDArray[np.bool_]:
    """Return `attribute_paths.is_in_thread` of the path of each attribute."""
    third = quarks
    while True:
        above = attributes.parents(third)
        top = attributes.parents(above)
        deep = attributes.parents(top) != ROOT
        if not deep.any():
            break
        third = np.where(deep, above, third)
    processes = attributes.find(PROCESSES)
    if processes is None:
        return np.ones(len(quarks), np.bool_)
    threads = attributes.quarks((PROCESSES, ANY, THREADS))
    found: npt.NDArray[np.bool_] = (top != processes) | (third == quarks)
    return found | np.isin(third, threads)


@struct
class _Stacks:
    """The depths of all lanes, numbered.

    Attributes:
        zero: Per thread of the table, the number of depth 0 of its lane 0.
        elsewhere: The rows of the table that are in other lanes.
        number_elsewhere: The number of the depth that each of those is in.
        count: How many depths there are.
        stored: How many attributes are not derived: the quarks of derived ones begin there.
        number: By attribute from `stored` on, its number; -1 for those that only contain others.
        lasting: The quarks of the depths that ever have a state.
        of_threads: Whether any are of a thread.
    """

    zero: Int64s
    elsewhere: Int64s
    number_elsewhere: Int64s
    count: int
    stored: int
    number: Int32s
    lasting: Int32s
    of_threads: bool

    @classmethod
    def of(cls, spans: SpanTable, attributes: Attributes) -> _Stacks:
        """Add the attributes derived from a table, and number them."""
        stored = len(attributes)
        elsewhere = np.flatnonzero(spans.lane)
        depths, deepest = extents(
            spans.offsets, elsewhere, spans.depth, spans.start_ns, spans.end_ns
        )
        zero = np.cumsum(depths, dtype=np.int64) - depths
        lasting = np.arange(int(depths.sum())) - np.repeat(zero, depths) < np.repeat(
            deepest, depths
        )
        in_thread = are_in_threads(attributes, spans.threads)
        quarks = attributes.add_numbered(
            spans.threads, depths.astype(np.int64), name=STACK, below=in_thread
        )
        other_quarks, other_lasting, other = _add_other_lanes(spans, elsewhere, attributes)
        quark_of = np.concatenate([quarks, other_quarks])
        lasting = np.concatenate([lasting, other_lasting])
        # A trace can define states of an attribute at the path of a depth: those are kept, and the
        # depth is not derived.
        ours = quark_of >= stored
        number = np.full(len(attributes) - stored, -1, np.int32)
        number[quark_of[ours] - stored] = np.flatnonzero(ours)
        return cls(
            zero=zero,
            elsewhere=elsewhere,
            number_elsewhere=other + int(depths.sum()),
            count=len(quark_of),
            stored=stored,
            number=number,
            lasting=quark_of[ours & lasting],
            of_threads=bool(in_thread.any()),
        )


def _add_other_lanes(
    spans: SpanTable, rows: Int64s, attributes: Attributes
) -> tuple[Int32s, npt.NDArray[np.bool_], Int64s]:
    """Add the depths of other lanes than 0 that have spans.

    Returns:
        Their quarks, whether each ever has a state, and the index among them of each row's.
    """
    # Two non-negative int32 as one int64, so that `unique` sorts one column.
    thread = np.searchsorted(spans.offsets, rows, side="right") - 1
    lanes, lane_of = np.unique(thread << 32 | spans.lane[rows], return_inverse=True)
    depths, depth_of = np.unique(lane_of << 32 | spans.depth[rows], return_inverse=True)
    above = spans.threads[lanes >> 32]
    quarks = attributes.add_lanes(
        above,
        lanes & _LOW,
        are_in_threads(attributes, above),
        depths >> 32,
        depths & _LOW,
        name=STACK,
    )
    lasting = np.zeros(len(depths), np.bool_)
    lasting[depth_of[spans.end_ns[rows] > spans.start_ns[rows]]] = True
    return quarks, lasting, depth_of


class SpanAttributes:
    """Segments, and after their attributes those derived from spans."""

    def __init__(self, stored: SegmentSource, stacks: _Stacks, spans: SpanTable) -> None:
        self._stored = stored
        self._stacks = stacks
        self._spans = spans
        self._made: StackIntervals | None = None

    @property
    def start_ns(self) -> int:
        """The first time of the history."""
        return self._stored.start_ns

    @property
    def end_ns(self) -> int:
        """The first time after it."""
        return self._stored.end_ns

    @property
    def size_bytes(self) -> int:
        """The memory of the segments and of the sorted table."""
        return self._stored.size_bytes + (self._made.size_bytes if self._made else 0)

    def _intervals(self) -> StackIntervals:
        # Built at the first use: many histories with spans are never queried by depth, and sorting
        # takes time and memory.
        if self._made is None:
            stacks, spans = self._stacks, self._spans
            self._made = StackIntervals(
                spans.offsets,
                stacks.zero,
                stacks.elsewhere,
                stacks.number_elsewhere,
                spans.depth,
                spans.start_ns,
                spans.end_ns,
                spans.name.codes,
                stacks.count,
                self.start_ns,
                self.end_ns,
            )
        return self._made

    def _numbers(self, quarks: Int32s) -> Int32s:
        return self._stacks.number[quarks - self._stacks.stored]

    def point(self, quark: int, time_ns: int) -> tuple[int, int, int, int]:
        """Return start, end, word and meta of the interval that contains a time."""
        if quark < self._stacks.stored:
            return self._stored.point(quark, time_ns)
        start, end, word = (np.empty(1, np.int64) for _ in range(3))
        meta = np.empty(1, np.uint32)
        asked = self._numbers(np.array([quark], np.int32))
        self._intervals().at(asked, np.array([time_ns]), start, end, word, meta)
        return int(start[0]), int(end[0]), int(word[0]), int(meta[0])

    def at(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        times_ns: Int64s,
        start: Int64s,
        end: Int64s,
        word: Int64s,
        meta: npt.NDArray[np.uint32],
    ) -> None:
        """Write the interval of each row's attribute that contains the row's time."""
        # Rows are independent here, so two calls suffice; elsewhere results are in the order of the
        # attributes, and each run of one source is a call.
        for ours in (False, True):
            rows = np.flatnonzero((quarks >= self._stacks.stored) == ours)
            if not len(rows):
                continue
            columns: list[npt.NDArray[Any]] = [start, end, word, meta]
            found: list[Any] = [column[rows] for column in columns]
            if ours:
                self._intervals().at(self._numbers(quarks[rows]), times_ns[rows], *found)
            else:
                self._stored.at(quarks[rows], times_ns[rows], *found)
            for column, part in zip(columns, found, strict=True):
                column[rows] = part

    def sample(
        self, quarks: Int32s, times_ns: Int64s, word: Int64s, null: npt.NDArray[np.uint8]
    ) -> None:
        """Write the value of each attribute at each time, attribute after attribute."""
        times = len(times_ns)
        for first, last, ours in self._runs(quarks):
            part = slice(first * times, last * times)
            if ours:
                asked = self._numbers(quarks[first:last])
                self._intervals().sample(asked, times_ns, word[part], null[part])
            else:
                self._stored.sample(quarks[first:last], times_ns, word[part], null[part])

    def load(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """Read what answers about a range depend on."""
        self._stored.load(quarks[quarks < self._stacks.stored], start_ns, end_ns)

    def count(self, quarks: Int32s, start_ns: int, end_ns: int, counts: Int64s) -> None:
        """Write an upper bound of how many intervals of each attribute overlap a range."""
        for first, last, ours in self._runs(quarks):
            part = counts[first:last]
            if ours:
                self._intervals().count(self._numbers(quarks[first:last]), start_ns, end_ns, part)
            else:
                self._stored.count(quarks[first:last], start_ns, end_ns, part)

    def gather(  # noqa: PLR0917 - as the segments' own
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
    ) -> int:
        """Write the intervals that overlap a range, quark by quark; return how many."""
        columns = (out_quark, out_start, out_end, out_code, out_word, out_meta, out_tag)
        rows = 0
        for first, last, ours in self._runs(quarks):
            asked = quarks[first:last]
            rest: list[Any] = [None if column is None else column[rows:] for column in columns]
            if ours:
                rows += self._intervals().gather(
                    self._numbers(asked), asked, start_ns, end_ns, resolution_ns, *rest
                )
            else:
                rows += self._stored.gather(asked, start_ns, end_ns, resolution_ns, *rest)
        return rows

    def count_matching(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        counts: Int64s,
    ) -> None:
        """Write how many intervals of each attribute overlap a range and are criteria."""
        for first, last, ours in self._runs(quarks):
            run = quarks[first:last]
            if ours:
                found = np.zeros(last - first, np.int64)
                for index, _, _, code in self._of_spans(run, start_ns, end_ns):
                    rows = index[criteria.matches(code)]
                    found += np.bincount(rows, minlength=last - first)
                counts[first:last] = found
            else:
                self._stored.count_matching(
                    run, kinds[first:last], start_ns, end_ns, criteria, counts[first:last]
                )

    def nearest_matching(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
        criteria: IntervalFilter,
        backwards: bool,  # noqa: FBT001 - as the segments' own
    ) -> tuple[int, int] | None:
        """Return the first matching interval that begins in a range, or the last."""
        nearest = None
        for first, last, ours in self._runs(quarks):
            run, found = quarks[first:last], None
            if ours:
                for index, begin, _, code in self._of_spans(run, start_ns, end_ns):
                    rows = np.flatnonzero(criteria.matches(code) & (begin >= start_ns))
                    if len(rows):
                        best = rows[begin[rows].argmax() if backwards else begin[rows].argmin()]
                        row = int(index[best]), int(begin[best])
                        found = nearer(found, row, backwards=backwards)
            else:
                found = self._stored.nearest_matching(
                    run, kinds[first:last], start_ns, end_ns, criteria, backwards
                )
            if found is not None:
                nearest = nearer(nearest, (first + found[0], found[1]), backwards=backwards)
        return nearest

    def bounds(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        start_ns: int,
        end_ns: int,
        low: Int64s,
        high: Int64s,
        changes: Int64s,
    ) -> None:
        """Write limits of the integers of each attribute, and of how often it changes."""
        for first, last, ours in self._runs(quarks):
            part = slice(first, last)
            if ours:
                # Those derived from spans have strings.
                self._intervals().count(
                    self._numbers(quarks[part]), start_ns, end_ns, changes[part]
                )
                low[part], high[part] = 0, -1
            else:
                self._stored.bounds(
                    quarks[part], start_ns, end_ns, low[part], high[part], changes[part]
                )

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """Return the least and the greatest integer of each attribute; depths have none."""
        return self._stored.integers(kinds)

    def expect_rows(self, rows: int, quarks: Int32s) -> None:
        """Prepare the segments for a tally of attributes that would read so many rows."""
        self._stored.expect_rows(rows, quarks)

    def for_times(
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        edges_ns: Int64s,
    ) -> SegmentSource:
        """Return what the segments do of their attributes."""
        if int(quarks.max(initial=0)) >= self._stacks.stored:
            return self
        return self._stored.for_times(quarks, kinds, edges_ns)

    def tally(
        self,
        tally: Tally,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
    ) -> None:
        """Add how long each value of attributes of these types lasted in a range."""
        for first, last, ours in self._runs(quarks):
            run = quarks[first:last]
            if ours:
                for index, start, end, code in self._of_spans(run, start_ns, end_ns):
                    tally.take_intervals(self.start_ns, index, start, end, code)
            else:
                self._stored.tally(tally, run, kinds[first:last], start_ns, end_ns)

    def _of_spans(
        self, quarks: Int32s, start_ns: int, end_ns: int
    ) -> Iterator[tuple[Int32s, Int64s, Int64s, Int32s]]:
        """Yield columns of intervals that overlap a range: attribute's index, times, code of name.

        Those of an attribute are in one batch.
        """
        intervals, numbers = self._intervals(), self._numbers(quarks)
        indices = np.arange(len(quarks), dtype=np.int32)
        counts = np.empty(len(quarks), np.int64)
        intervals.count(numbers, start_ns, end_ns, counts)
        for first, last in cut_groups(counts, _GROUP_ROWS):
            room = int(counts[first:last].sum())
            index, code = (np.empty(room, np.int32) for _ in range(2))
            start, end = (np.empty(room, np.int64) for _ in range(2))
            rows = intervals.gather(
                numbers[first:last],
                indices[first:last],
                start_ns,
                end_ns,
                0,
                index,
                start,
                end,
                code,
                None,
                None,
                None,
            )
            yield index[:rows], start[:rows], end[:rows], code[:rows]

    def measure_bins(  # noqa: PLR0917 - as the segments' own
        self,
        quarks: Int32s,
        kinds: npt.NDArray[np.uint8],
        edges_ns: Int64s,
        least: npt.NDArray[np.float64],
        greatest: npt.NDArray[np.float64],
        mean: npt.NDArray[np.float64],
    ) -> None:
        """Write extremes and means in each bin: attributes derived from spans have no numbers."""
        for first, last, ours in self._runs(quarks):
            if not ours:
                part = slice(first, last)
                self._stored.measure_bins(
                    quarks[part], kinds[part], edges_ns, least[part], greatest[part], mean[part]
                )

    def measure(self, quark: int, kind: int, start_ns: int, end_ns: int) -> Measured:
        """Return what the segments measure: attributes derived from spans have no numbers."""
        return self._stored.measure(quark, kind, start_ns, end_ns)

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> SpanAttributes:
        """Return the same intervals in a longer range; outside of spans there is no state."""
        stored = self._stored.within(start_ns, end_ns, kinds[: self._stacks.stored])
        return SpanAttributes(stored, self._stacks, self._spans)

    def _runs(self, quarks: Int32s) -> list[tuple[int, int, bool]]:
        """Return the runs of attributes from one source: first, end, whether of spans."""
        if not len(quarks):
            return []
        ours = quarks >= self._stacks.stored
        edges = [0, *(np.flatnonzero(ours[1:] != ours[:-1]) + 1).tolist(), len(quarks)]
        return [(first, last, bool(ours[first])) for first, last in pairwise(edges)]
