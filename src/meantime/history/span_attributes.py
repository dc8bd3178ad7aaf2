"""Attributes derived from spans: `Stack/<depth>` below each thread, answered from their table.

The first lane of a thread is `Stack/<depth>`, those of spans that partly overlap are
`Lane/<lane>/Stack/<depth>`; async operations have `<depth>` and `Lane/<lane>/<depth>`. Nothing is
stored twice: the rows are sorted by attribute when one of them is first queried.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.extremes import Extremes
from meantime.history.source import Source, cut_groups, nearer
from meantime.kernels.search import IntervalRows
from meantime.kernels.span_search import StackIntervals, extents
from meantime.kernels.tail import STR, UNTYPED
from meantime.model.attribute_paths import PROCESSES, STACK, STACK_PATTERN, THREADS
from meantime.model.attributes import ANY, ROOT
from meantime.model.trace import LaneDeclaration
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.interval_filter import IntervalFilter
    from meantime.history.snapshot import Snapshot
    from meantime.history.source import Bounds, Measured, Question, States
    from meantime.history.spans import SpanTable
    from meantime.kernels.shares import Tally
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s, Int64s

__all__ = ["are_in_threads", "with_span_attributes"]

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
    from meantime.history.partitioned import Partitioned  # noqa: PLC0415 - for spans only

    attributes = snapshot.attributes.copy()
    stacks = _Stacks.of(spans, attributes)
    attributes.freeze()
    kinds = np.full(len(attributes), UNTYPED, np.uint8)
    kinds[: len(snapshot.kinds)] = snapshot.kinds
    kinds[stacks.lasting] = STR
    stored = snapshot.segments
    range_ns = stored.start_ns, stored.end_ns
    own_of = np.concatenate([np.arange(stacks.stored, dtype=np.int32), stacks.number])
    part_of = np.zeros(len(attributes), np.int32)
    part_of[stacks.stored :] = 1
    if stacks.of_threads:
        metadata = replace(metadata, lanes=[_LANE, *metadata.lanes])
    return replace(
        snapshot,
        segments=Partitioned([stored, _StackSource(stacks, spans, range_ns)], part_of, own_of),
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


class _StackSource(Source):
    """The depths as attributes that are called by their numbers; -1 is any without states."""

    def __init__(self, stacks: _Stacks, spans: SpanTable, range_ns: tuple[int, int]) -> None:
        self._stacks = stacks
        self._spans = spans
        self.start_ns, self.end_ns = range_ns

    @cached_property
    def _intervals(self) -> StackIntervals:
        # Built at the first use: many histories with spans are never queried by depth, and sorting
        # takes time and memory.
        stacks, spans = self._stacks, self._spans
        return StackIntervals(
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

    @property
    def size_bytes(self) -> int:
        """The memory of the sorted table."""
        return self._intervals.size_bytes if "_intervals" in self.__dict__ else 0

    def at(self, quarks: Int32s, times_ns: Int64s) -> States:
        """See `Source.at`."""
        return self._intervals.at(quarks, times_ns)

    def sample(self, quarks: Int32s, times_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        """See `Source.sample`."""
        return self._intervals.sample(quarks, times_ns)

    def count(self, question: Question) -> Int64s:
        """See `Source.count`."""
        return self._intervals.count(question)

    def gather(self, question: Question, rows: IntervalRows) -> None:
        """See `Source.gather`."""
        self._intervals.gather(question, rows)

    def _parts(self, question: Question) -> Iterator[IntervalRows]:
        """Yield the intervals that overlap a range, called by the index of their attribute.

        Those of an attribute are in one batch.
        """
        indices, counts = np.arange(len(question.quarks), dtype=np.int32), self.count(question)
        for first, last in cut_groups(counts, _GROUP_ROWS):
            rows = IntervalRows(int(counts[first:last].sum()), text=True)
            part = question.part(slice(first, last), question.quarks[first:last])
            self._intervals.gather(part._replace(labels=indices[first:last]), rows)
            yield rows

    def matching(self, question: Question, criteria: IntervalFilter) -> Int64s:
        """See `Source.matching`."""
        found = np.zeros(len(question.quarks), np.int64)
        for rows in self._parts(question):
            found += np.bincount(rows.quark[criteria.matches(rows.code)], minlength=len(found))
        return found

    def nearest(
        self, question: Question, criteria: IntervalFilter, *, backwards: bool
    ) -> tuple[int, int] | None:
        """See `Source.nearest`."""
        nearest = None
        for rows in self._parts(question):
            begin = rows.start_ns
            which = np.flatnonzero(criteria.matches(rows.code) & (begin >= question.start_ns))
            if len(which):
                best = which[begin[which].argmax() if backwards else begin[which].argmin()]
                found = int(rows.quark[best]), int(begin[best])
                nearest = nearer(nearest, found, backwards=backwards)
        return nearest

    def bounds(self, question: Question) -> Bounds:
        """See `Source.bounds`: depths have strings."""
        changes = self.count(question)
        return np.zeros_like(changes), np.full_like(changes, -1), changes

    def integers(self, kinds: npt.NDArray[np.uint8]) -> Extremes:
        """See `Source.integers`: depths have strings."""
        return Extremes().resolve(kinds)

    def tally(self, question: Question, tally: Tally) -> None:
        """See `Source.tally`."""
        for rows in self._parts(question):
            tally.take_intervals(self.start_ns, rows)

    def measure(self, question: Question) -> Measured:  # noqa: ARG002 - of any
        """See `Source.measure`: depths have strings."""
        return False, 0, 0, (0, 0), 0.0, 0

    def measure_bins(self, question: Question, edges_ns: Int64s) -> npt.NDArray[np.float64]:
        """See `Source.measure_bins`: depths have strings."""
        return np.full((3, len(question.quarks), len(edges_ns) - 1), np.nan)

    def within(self, start_ns: int, end_ns: int, kinds: npt.NDArray[np.uint8]) -> _StackSource:  # noqa: ARG002 - all have strings
        """See `Source.within`: outside of spans there is no state."""
        return _StackSource(self._stacks, self._spans, (start_ns, end_ns))
