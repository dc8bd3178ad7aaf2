"""What is known of a history at some moment, and the queries over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.anomalies import Anomalies
from meantime.clocks import Clock
from meantime.columns import Coded, Mixed
from meantime.errors import NotKeptError, QuarkError, TimeRangeError
from meantime.history.results import Interval, Intervals, Sample
from meantime.history.values import value_of
from meantime.kernels.tail import FLOAT, INT, STR, UNTYPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.attributes import Attributes
    from meantime.columns import Int32s, Int64s, Values
    from meantime.history.catalogue import Catalogue
    from meantime.history.derived import Stacked
    from meantime.history.pyramid import Pyramids
    from meantime.history.results import Flows, Points
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.history.tables import Tables
    from meantime.kernels.search import Segments
    from meantime.trace import LaneDeclaration

__all__ = ["Facts", "Present"]


_SMALL_INT = 255


@dataclass(slots=True)
class Facts:
    """What is known of a history beside its intervals; see the attributes of `History`."""

    attributes: Attributes
    strings: Sequence[str]
    kinds: npt.NDArray[np.uint8]
    points: Points
    flows: Flows
    spans: SpanTable
    samples: SampleTable
    tags: Sequence[dict[str, Any]] = ()
    declarations: Sequence[LaneDeclaration] = ()
    clock: Clock = field(default_factory=Clock)
    bounds: tuple[int, int] | None = None
    title: str | None = None
    descriptions: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    sort_keys: dict[int, int] = field(default_factory=dict)
    trace_facts: dict[str, str] = field(default_factory=dict)
    lost: Sequence[tuple[int, int]] = ()
    anomalies: Anomalies = field(default_factory=Anomalies)
    provenance: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, catalogue: Catalogue, kinds: npt.NDArray[np.uint8], tables: Tables, replaced: int
    ) -> Facts:
        """Return what a catalogue and the event tables say now."""
        anomalies = Anomalies()
        anomalies.update(catalogue.anomalies)
        for name, count in catalogue.found.items():
            anomalies.add(name, count)
        anomalies.add("zero_length_state", replaced)
        return cls(
            attributes=catalogue.attributes,
            strings=catalogue.strings.names,
            kinds=kinds,
            points=tables.points,
            flows=tables.flows,
            spans=tables.spans,
            samples=tables.samples,
            tags=catalogue.tags,
            declarations=catalogue.declarations,
            clock=catalogue.clock,
            bounds=catalogue.bounds,
            title=catalogue.title,
            descriptions=catalogue.descriptions,
            names=catalogue.names,
            sort_keys=catalogue.sort_keys,
            trace_facts=catalogue.facts,
            lost=catalogue.lost,
            anomalies=anomalies,
            provenance=catalogue.provenance,
        )


@dataclass(frozen=True, slots=True)
class Present:
    """A moment of a history; it does not change.

    Attributes:
        segments: The intervals.
        facts: All else.
        built: Whether this is the finished history.
        verify: Checks what is on disk of a range before it is used; None where nothing is.
        known_from_ns: By quark, since when its states are kept; None where all are.
        pyramids: What makes questions about much time faster; None while it is being built.
    """

    segments: Segments | Stacked
    facts: Facts
    built: bool
    verify: Callable[[int, int], None] | None = None
    known_from_ns: Int64s | None = None
    pyramids: Pyramids | None = None

    def state(self, quark: int, time_ns: int) -> Interval:
        """Return the interval of an attribute that holds a time."""
        self.check_quark(quark)
        time_ns = index(time_ns)
        self.check_time(time_ns)
        if self.known_from_ns is not None:
            self.check_known(np.array([quark]), time_ns)
        if self.verify:
            self.verify(time_ns, time_ns + 1)
        start_ns, end_ns, word, meta = self.segments.point(quark, time_ns)
        tag = (meta >> 1) - 1
        return Interval(
            quark,
            start_ns,
            end_ns,
            None if meta & 1 else value_of(word, int(self.facts.kinds[quark]), self.facts.strings),
            None if tag < 0 else tag,
            not self.built and end_ns == self.segments.end_ns,
        )

    def at(self, quarks: Int32s, time_ns: int) -> Intervals:
        """Return the interval of each attribute that holds a time."""
        self.check_time(time_ns)
        self.check_known(quarks, time_ns)
        return self._holding(quarks, np.full(len(quarks), time_ns), (time_ns, time_ns + 1))

    def states(self, quarks: Sequence[int] | Int32s, times_ns: Sequence[int] | Int64s) -> Intervals:
        """Return of each row's attribute the interval that holds the row's time."""
        times = np.ascontiguousarray(times_ns, np.int64)
        asked = self._checked_quarks(quarks)
        if len(asked) != len(times):
            raise ValueError(
                f"there are {len(asked):,} attributes and {len(times):,} times: each attribute has"
                " one time"
            )
        if not len(times):
            return self._holding(asked, times, (self.segments.start_ns, self.segments.start_ns))
        earliest_ns, latest_ns = int(times.min()), int(times.max())
        self.check_time(earliest_ns)
        self.check_time(latest_ns)
        self.check_known(asked, times)
        return self._holding(asked, times, (earliest_ns, latest_ns + 1))

    def _holding(self, quarks: Int32s, times_ns: Int64s, range_ns: tuple[int, int]) -> Intervals:
        if self.verify:
            self.verify(*range_ns)
        start_ns, end_ns, word = (np.empty(len(quarks), np.int64) for _ in range(3))
        meta = np.empty(len(quarks), np.uint32)
        self.segments.at(quarks, times_ns, start_ns, end_ns, word, meta)
        return Intervals(
            quarks,
            start_ns,
            end_ns,
            self.column(quarks, word, (meta & 1) != 0, text=self.is_text(quarks)),
            (meta >> 1).astype(np.int32) - 1,
            range_ns,
            self.ongoing_end_ns(),
        )

    def _checked_quarks(self, quarks: Sequence[int] | Int32s) -> Int32s:
        asked = np.asarray(quarks, np.int64)
        if len(asked):
            self.check_quark(int(asked.min()))
            self.check_quark(int(asked.max()))
        return asked.astype(np.int32)

    def _times(self, times_ns: Sequence[int] | Int64s) -> Int64s:
        try:
            return np.asarray(times_ns, np.int64)
        except OverflowError:
            for time_ns in times_ns:
                self.check_time(int(time_ns))
            raise

    def check_quark(self, quark: int) -> None:
        """Raise `QuarkError` unless there is such an attribute."""
        if not 0 <= quark < len(self.facts.kinds):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has"
                f" {len(self.facts.kinds):,}"
            )

    def check_time(self, time_ns: int) -> None:
        """Raise `TimeRangeError` unless the history holds a time."""
        if not self.segments.start_ns <= time_ns < self.segments.end_ns:
            raise TimeRangeError(
                f"{time_ns} ns is outside the history,"
                f" [{self.segments.start_ns}, {self.segments.end_ns})"
            )

    def check_known(self, quarks: Int32s | Int64s, time_ns: int | Int64s) -> None:
        """Raise `NotKeptError` if the state of one of these attributes is not kept of a time."""
        if self.known_from_ns is None:
            return
        unknown = np.flatnonzero(self.known_from_ns[quarks] > time_ns)
        if len(unknown):
            quark = int(quarks[unknown[0]])
            from_ns, asked_ns = int(self.known_from_ns[quark]), time_ns
            if isinstance(asked_ns, np.ndarray):
                asked_ns = int(asked_ns[unknown[0]])
            raise NotKeptError(
                f"{self.facts.attributes.text(quark)}: what was before {from_ns} ns is not kept,"
                f" and {asked_ns} ns is asked for:"
                " a history made with keep='ongoing' has only the present"
            )

    def sample(self, quarks: Sequence[int] | Int32s, times_ns: Sequence[int] | Int64s) -> Sample:
        """Return the value of each attribute at each time."""
        times = self._times(times_ns)
        asked = self._checked_quarks(quarks)
        if len(times):
            self.check_time(int(times.min()))
            self.check_time(int(times.max()))
            self.check_known(asked, int(times.min()))
            if self.verify:
                self.verify(int(times.min()), int(times.max()) + 1)
        word = np.empty(len(asked) * len(times), np.int64)
        meta = np.empty(len(word), np.uint32)
        if (times[1:] >= times[:-1]).all():
            self.segments.sample(asked, times, word, meta)
        else:
            order = np.argsort(times, kind="stable")
            self.segments.sample(asked, times[order], word, meta)
            for column in (word, meta):
                rows = column.reshape(len(asked), len(times))
                rows[:, order] = rows.copy()
        text = self.is_text(asked)
        where = asked if text else np.repeat(asked, len(times))
        return Sample(asked, times, self.column(where, word, (meta & 1) != 0, text=text))

    def undeclared(self, declared: Sequence[Int32s]) -> tuple[Int32s, Int32s, Int32s]:
        """Return the attributes not declared that hold strings, small integers, other numbers."""
        kinds = self.facts.kinds.copy()
        for quarks in declared:
            kinds[quarks] = UNTYPED
        small = np.zeros(len(kinds), np.bool_)
        for quark in np.flatnonzero(kinds == INT).tolist():
            low, high = self.extremes(quark)
            small[quark] = 0 <= low <= high <= _SMALL_INT
        large = (kinds == FLOAT) | ((kinds == INT) & ~small)
        strings, small_ints, numbers = (
            np.flatnonzero(which).astype(np.int32) for which in (kinds == STR, small, large)
        )
        return strings, small_ints, numbers

    def extremes(self, quark: int) -> tuple[int, int]:
        """Return the least and the greatest value of an attribute of integers."""
        whole = (self.segments.start_ns, self.segments.end_ns)
        values = self.gather(np.array([quark], np.int32), whole).value
        assert isinstance(values, Mixed)
        words = values.words[values.kinds == INT]
        return int(words.min(initial=0)), int(words.max(initial=0))

    def query(
        self, quarks: Sequence[int] | Int32s, start_ns: int | None, end_ns: int | None
    ) -> tuple[Int32s, tuple[int, int]]:
        """Return the attributes and the range that a query means, checked and clipped."""
        start_ns = self.segments.start_ns if start_ns is None else start_ns
        end_ns = self.segments.end_ns if end_ns is None else end_ns
        self.check_time(start_ns)
        if end_ns <= start_ns:
            raise TimeRangeError(f"the range [{start_ns}, {end_ns}) is empty")
        if self.verify:
            self.verify(start_ns, end_ns)
        asked = self._checked_quarks(quarks)
        self.check_known(asked, start_ns)
        return asked, (start_ns, min(end_ns, self.segments.end_ns))

    def groups(
        self, quarks: Int32s, range_ns: tuple[int, int], rows: int, *, extra: int = 0
    ) -> Iterator[tuple[int, int, Int64s | None]]:
        """Cut the quarks where their intervals, and `extra` for each, pass `rows`."""
        counts = np.empty(len(quarks), np.int64)
        self.segments.count(quarks, *range_ns, counts)
        ends = np.cumsum(counts + extra)
        first = 0
        while first < len(quarks):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + rows, side="right")))
            yield first, last, counts[first:last]
            first = last

    def gather(
        self,
        quarks: Int32s,
        range_ns: tuple[int, int],
        *,
        resolution_ns: int | None = None,
        counts: Int64s | None = None,
    ) -> Intervals:
        """Return the intervals of these attributes that meet a range."""
        if resolution_ns is not None and resolution_ns <= 0:
            raise TimeRangeError(f"a resolution of {resolution_ns} ns: it must be above 0")
        if counts is None:
            counts = np.empty(len(quarks), np.int64)
            self.segments.count(quarks, *range_ns, counts)
        room = int(counts.sum())
        quark, tag = np.empty(room, np.int32), np.empty(room, np.int32)
        start_ns, end_ns = np.empty(room, np.int64), np.empty(room, np.int64)
        text = self.is_text(quarks)
        code = np.empty(room, np.int32) if text else None
        word = None if text else np.empty(room, np.int64)
        meta = None if text else np.empty(room, np.uint32)
        rows = self.segments.gather(
            quarks, *range_ns, resolution_ns or 0, quark, start_ns, end_ns, code, word, meta, tag
        )
        value: Values
        if code is not None:
            value = Coded(code[:rows], self.facts.strings)
        else:
            assert word is not None
            assert meta is not None
            null = (meta[:rows] & 1) != 0
            value = self.column(quark[:rows], word[:rows], null, text=False)
            tag = (meta >> 1).astype(np.int32) - 1
        return Intervals(
            quark[:rows],
            start_ns[:rows],
            end_ns[:rows],
            value,
            tag[:rows],
            range_ns,
            self.ongoing_end_ns(),
        )

    def ongoing_end_ns(self) -> int | None:
        """Return where the intervals that have no end yet end; None once all have one."""
        return None if self.built else self.segments.end_ns

    def is_text(self, quarks: Int32s) -> bool:
        """Whether all of these attributes hold strings, or nothing."""
        return not len(quarks) or int(self.facts.kinds[quarks].max()) <= STR

    def column(
        self, quarks: Int32s, words: Int64s, null: npt.NDArray[np.bool_], *, text: bool
    ) -> Values:
        """Return words as values."""
        if text:
            return Coded(np.where(null, -1, words).astype(np.int32), self.facts.strings)
        kinds = np.where(null, np.uint8(0), self.facts.kinds[quarks])
        return Mixed(kinds, np.where(null, 0, words), self.facts.strings)
