"""Attributes that spans stand for: `Stack/<depth>` below each thread, answered from their table.

The first lane of a thread is `Stack/<depth>`, those of spans that partly overlap are
`Lane/<lane>/Stack/<depth>`; async operations have `<depth>` and `Lane/<lane>/<depth>`. Nothing is
stored again: an order of the rows is made when one of these attributes is first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.stacked import StackIntervals, extents
from meantime.kernels.tail import STR, UNTYPED
from meantime.trace import LaneDeclaration

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.attributes import Attributes, Path
    from meantime.columns import Int32s, Int64s
    from meantime.history.present import Present
    from meantime.history.spans import SpanTable
    from meantime.kernels.search import Segments

__all__ = ["Stacked", "with_stacks"]

_LANE = LaneDeclaration(
    "Processes/*/Threads/*/**/Stack", kind="stack", entity_kind="Depth", label="Threads"
)


def with_stacks(present: Present) -> Present:
    """Return what is known of a finished history, its spans as attributes too."""
    facts = present.facts
    if not len(facts.spans):
        return present
    attributes = facts.attributes.copy()
    stacks = _Stacks.of(facts.spans, attributes)
    kinds = np.full(len(attributes), UNTYPED, np.uint8)
    kinds[: len(facts.kinds)] = facts.kinds
    kinds[stacks.held] = STR
    return replace(
        present,
        segments=Stacked(present.segments, stacks, facts.spans),
        facts=replace(
            facts,
            attributes=attributes,
            kinds=kinds,
            declarations=[*([_LANE] if stacks.of_threads else []), *facts.declarations],
        ),
    )


def _below(path: Path, lane: int) -> Path:
    """Return where the depths of a lane stand below what the spans are of."""
    of_lane = ("Lane", str(lane)) if lane else ()
    is_thread = len(path) < 4 or path[0] != "Processes" or path[2] == "Threads"
    return (*of_lane, "Stack") if is_thread else of_lane


@dataclass(frozen=True, slots=True)
class _Stacks:
    """The depths of all lanes, numbered.

    Attributes:
        base: Per thread of the table, its first lane among all lanes.
        zero: Per lane of all, the number of its depth 0.
        count: How many there are.
        stored: How many attributes are none of these.
        number: Per attribute from `stored` on, which it is; -1 for what only holds others.
        held: The quarks of those that ever have a state.
        of_threads: Whether any are of a thread.
    """

    base: Int64s
    zero: Int64s
    count: int
    stored: int
    number: Int32s
    held: Int32s
    of_threads: bool

    @classmethod
    def of(cls, spans: SpanTable, attributes: Attributes) -> _Stacks:
        """Add the attributes that a table stands for, and number them."""
        stored = len(attributes)
        lanes = np.maximum.reduceat(spans.lane, spans.offsets[:-1]).astype(np.int64) + 1
        base = np.cumsum(lanes) - lanes
        depths, held = extents(
            spans.offsets,
            base,
            spans.lane.astype(np.int32, copy=False),
            spans.depth,
            spans.start_ns,
            spans.end_ns,
            int(lanes.sum()),
        )
        zero = np.cumsum(depths, dtype=np.int64) - depths
        quarks = []
        of_threads = False
        for thread, quark in enumerate(spans.threads.tolist()):
            path = attributes.path(quark)
            for lane in range(int(lanes[thread])):
                below = _below(path, lane)
                of_threads |= below[-1:] == ("Stack",)
                parent = attributes.add(below, quark) if below else quark
                names = map(str, range(int(depths[base[thread] + lane])))
                quarks.append(attributes.add_many(names, parent))
        quark_of = np.concatenate(quarks)
        ours = quark_of >= stored
        number = np.full(len(attributes) - stored, -1, np.int32)
        number[quark_of[ours] - stored] = np.flatnonzero(ours)
        lasting = np.arange(len(quark_of)) - np.repeat(zero, depths) < np.repeat(held, depths)
        held_quarks = quark_of[ours & lasting]
        return cls(base, zero, len(quark_of), stored, number, held_quarks, of_threads)


class Stacked:
    """Segments, and behind their attributes those that spans stand for."""

    def __init__(self, stored: Segments | Stacked, stacks: _Stacks, spans: SpanTable) -> None:
        self.stored = stored
        self._stacks = stacks
        self._spans = spans
        self._made: StackIntervals | None = None

    @property
    def start_ns(self) -> int:
        """Where the history begins."""
        return self.stored.start_ns

    @property
    def end_ns(self) -> int:
        """Where it ends."""
        return self.stored.end_ns

    @property
    def size_bytes(self) -> int:
        """How much memory the segments, and what was made of the table, take."""
        return self.stored.size_bytes + (self._made.size_bytes if self._made else 0)

    def _intervals(self) -> StackIntervals:
        if self._made is None:
            stacks, spans = self._stacks, self._spans
            self._made = StackIntervals(
                spans.offsets,
                stacks.base,
                stacks.zero,
                spans.lane.astype(np.int32, copy=False),
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
        """Return start, end, word and meta of the interval that holds a time."""
        if quark < self._stacks.stored:
            return self.stored.point(quark, time_ns)
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
        """Write the interval of each row's attribute that holds the row's time."""
        for ours in (False, True):
            rows = np.flatnonzero((quarks >= self._stacks.stored) == ours)
            if not len(rows):
                continue
            columns: list[npt.NDArray[Any]] = [start, end, word, meta]
            found: list[Any] = [column[rows] for column in columns]
            if ours:
                self._intervals().at(self._numbers(quarks[rows]), times_ns[rows], *found)
            else:
                self.stored.at(quarks[rows], times_ns[rows], *found)
            for column, part in zip(columns, found, strict=True):
                column[rows] = part

    def sample(
        self, quarks: Int32s, times_ns: Int64s, word: Int64s, meta: npt.NDArray[np.uint32]
    ) -> None:
        """Write the value of each attribute at each time, attribute after attribute."""
        times = len(times_ns)
        for first, last, ours in self.runs(quarks):
            part = slice(first * times, last * times)
            if ours:
                asked = self._numbers(quarks[first:last])
                self._intervals().sample(asked, times_ns, word[part], meta[part])
            else:
                self.stored.sample(quarks[first:last], times_ns, word[part], meta[part])

    def count(self, quarks: Int32s, start_ns: int, end_ns: int, counts: Int64s) -> None:
        """Write how many intervals of each attribute meet a range, at most."""
        for first, last, ours in self.runs(quarks):
            part = counts[first:last]
            if ours:
                self._intervals().count(self._numbers(quarks[first:last]), start_ns, end_ns, part)
            else:
                self.stored.count(quarks[first:last], start_ns, end_ns, part)

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
        """Write the intervals that meet a range, quark by quark; return how many."""
        columns = (out_quark, out_start, out_end, out_code, out_word, out_meta, out_tag)
        rows = 0
        for first, last, ours in self.runs(quarks):
            asked = quarks[first:last]
            rest: list[Any] = [None if column is None else column[rows:] for column in columns]
            if ours:
                rows += self._intervals().gather(
                    self._numbers(asked), asked, start_ns, end_ns, resolution_ns, *rest
                )
            else:
                rows += self.stored.gather(asked, start_ns, end_ns, resolution_ns, *rest)
        return rows

    def runs(self, quarks: Int32s) -> list[tuple[int, int, bool]]:
        """Return the runs of attributes that are answered alike: first, behind the last, ours."""
        if not len(quarks):
            return []
        ours = quarks >= self._stacks.stored
        edges = [0, *(np.flatnonzero(ours[1:] != ours[:-1]) + 1).tolist(), len(quarks)]
        return [(first, last, bool(ours[first])) for first, last in pairwise(edges)]
