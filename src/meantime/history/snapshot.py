"""An unchanging moment of a history, and the queries over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import NotKeptError, QuarkError, TimeRangeError
from meantime.history.numbers import quark_of, quarks_of, time_of, times_of
from meantime.history.results import Interval, Intervals, Sample
from meantime.history.source import Question, cut_groups
from meantime.history.values import value_of
from meantime.kernels.search import IntervalRows
from meantime.kernels.tail import STR
from meantime.model.anomalies import Anomalies
from meantime.model.columns import Coded, Mixed
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.damage import DamageLog
    from meantime.history.directory.answers import Answers
    from meantime.history.source import Source, StateSource
    from meantime.history.tables import Tables
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s, Int64s, Values
    from meantime.model.metadata import TraceMetadata

__all__ = ["Present", "Snapshot"]


@struct
class Present:
    """What the states of attributes at a time are found in.

    Attributes:
        segments: The intervals.
        attributes: The attribute tree.
        strings: By code, the string.
        kinds: By quark, the type of its values.
        built: Whether this is the finished history.
        known_from_ns: By quark, since when its states are kept; None where all are.
    """

    segments: StateSource
    attributes: Attributes
    strings: Sequence[str]
    kinds: npt.NDArray[np.uint8]
    built: bool
    known_from_ns: Int64s | None

    def state(self, quark: int, time_ns: int) -> Interval:
        """Return the interval of an attribute that contains a time."""
        if type(quark) is not int:
            quark = quark_of(quark)
        if type(time_ns) is not int:
            time_ns = time_of(time_ns)
        self.check_quark(quark)
        self.check_time(time_ns)
        if self.known_from_ns is not None:
            self.check_known(np.array([quark]), time_ns)
        start_ns, end_ns, word, meta = self.segments.point(quark, time_ns)
        tag = (meta >> 1) - 1
        return Interval(
            quark,
            start_ns,
            end_ns,
            None if meta & 1 else value_of(word, int(self.kinds[quark]), self.strings),
            None if tag < 0 else tag,
            not self.built and end_ns == self.segments.end_ns,
        )

    def at(self, quarks: Int32s, time_ns: int) -> Intervals:
        """Return the interval of each attribute that contains a time."""
        time_ns = time_of(time_ns)
        self.check_time(time_ns)
        self.check_known(quarks, time_ns)
        return self._containing(quarks, np.full(len(quarks), time_ns), (time_ns, time_ns + 1))

    def states(self, quarks: Sequence[int] | Int32s, times_ns: Sequence[int] | Int64s) -> Intervals:
        """Return the interval of each row's attribute that contains the row's time."""
        times = times_of(times_ns)
        asked = self.checked_quarks(quarks)
        if len(asked) != len(times):
            raise ValueError(
                f"there are {len(asked):,} attributes and {len(times):,} times: each attribute has"
                " one time"
            )
        if not len(times):
            return self._containing(asked, times, (self.segments.start_ns, self.segments.start_ns))
        earliest_ns, latest_ns = int(times.min()), int(times.max())
        self.check_time(earliest_ns)
        self.check_time(latest_ns)
        self.check_known(asked, times)
        return self._containing(asked, times, (earliest_ns, latest_ns + 1))

    def _containing(self, quarks: Int32s, times_ns: Int64s, range_ns: tuple[int, int]) -> Intervals:
        start_ns, end_ns, word, meta = self.segments.at(quarks, times_ns)
        return Intervals(
            quarks,
            start_ns,
            end_ns,
            self.column(quarks, word, (meta & 1) != 0, text=self.is_text(quarks)),
            (meta >> 1).astype(np.int32) - 1,
            range_ns,
            self.ongoing_end_ns(),
        )

    def checked_quarks(self, quarks: Sequence[int] | Int32s) -> Int32s:
        """Return quarks as int32; raise `QuarkError` unless all are those of attributes."""
        asked = quarks_of(quarks)
        if len(asked):
            self.check_quark(int(asked.min()))
            self.check_quark(int(asked.max()))
        return asked.astype(np.int32)

    def check_quark(self, quark: int) -> None:
        """Raise `QuarkError` unless the attribute exists."""
        if not 0 <= quark < len(self.kinds):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has {len(self.kinds):,}"
            )

    def check_time(self, time_ns: int) -> None:
        """Raise `TimeRangeError` unless a time is in the history."""
        if not self.segments.start_ns <= time_ns < self.segments.end_ns:
            raise TimeRangeError(
                f"{time_ns} ns is outside the history, which begins at"
                f" {self.segments.start_ns} ns and ends before {self.segments.end_ns} ns"
            )

    def check_known(self, quarks: Int32s | Int64s, time_ns: int | Int64s) -> None:
        """Raise `NotKeptError` if the state of one of these attributes at a time is not kept."""
        if self.known_from_ns is None:
            return
        unknown = np.flatnonzero(self.known_from_ns[quarks] > time_ns)
        if len(unknown):
            quark = int(quarks[unknown[0]])
            from_ns, asked_ns = int(self.known_from_ns[quark]), time_ns
            if isinstance(asked_ns, np.ndarray):
                asked_ns = int(asked_ns[unknown[0]])
            raise NotKeptError(
                f"{self.attributes.text(quark)}: states before {from_ns} ns are not kept,"
                f" but {asked_ns} ns is requested:"
                " a history made with keep='ongoing' has only the present"
            )

    def ongoing_end_ns(self) -> int | None:
        """Return the provisional end of intervals without an end; None once all have one."""
        return None if self.built else self.segments.end_ns

    def is_text(self, quarks: Int32s) -> bool:
        """Return whether all of these attributes have strings, or nothing."""
        return not len(quarks) or int(self.kinds[quarks].max()) <= STR

    def column(
        self, quarks: Int32s, words: Int64s, null: npt.NDArray[np.bool_], *, text: bool
    ) -> Values:
        """Return words as values."""
        if text:
            return Coded(np.where(null, -1, words).astype(np.int32), self.strings)
        kinds = np.where(null, np.uint8(0), self.kinds[quarks])
        return Mixed(kinds, np.where(null, 0, words), self.strings)


@struct
class Snapshot(Present):
    """A moment of a history; it does not change.

    Attributes:
        segments: The intervals.
        tags: By tag, its fields.
        tables: The event tables.
        metadata: The metadata of the trace.
        kept: What opens it again, and the path where it is kept; None in memory.
        damage: What of it was found damaged; None of one that is not kept, and of one that is not
            finished unless it is opened without its damage.
        derive: Returns the snapshot with the attributes derived from spans; None if they follow
            from its own tables.
        answers: What earlier questions to a finished history left beside it; None in memory.
    """

    segments: Source
    tags: Sequence[dict[str, Any]]
    tables: Tables
    metadata: TraceMetadata
    kept: tuple[Callable[[Path], Any], Path] | None = None
    damage: DamageLog | None = None
    derive: Callable[[], Snapshot] | None = None
    answers: Answers | None = None

    def known_metadata(self) -> TraceMetadata:
        """Return the metadata, with what was found damaged so far."""
        found = self.damage.found if self.damage is not None else []
        if not found:
            return self.metadata
        anomalies = Anomalies()
        anomalies.update(self.metadata.anomalies)
        for each in found:
            anomalies.add(each.anomaly)
        segments = [each for each in found if each.anomaly == "segment_damaged"]
        lost = sorted([*self.metadata.lost, *((each.start_ns, each.end_ns) for each in segments)])
        return replace(self.metadata, lost=lost, anomalies=anomalies)

    def sample(self, quarks: Sequence[int] | Int32s, times_ns: Sequence[int] | Int64s) -> Sample:
        """Return the value of each attribute at each time."""
        times = times_of(times_ns)
        asked = self.checked_quarks(quarks)
        if len(times):
            self.check_time(int(times.min()))
            self.check_time(int(times.max()))
            self.check_known(asked, int(times.min()))
        if (times[1:] >= times[:-1]).all():
            word, null = self.segments.sample(asked, times)
        else:
            order = np.argsort(times, kind="stable")
            word, null = self.segments.sample(asked, times[order])
            for column in (word, null):
                rows = column.reshape(len(asked), len(times))
                rows[:, order] = rows.copy()
        # each pass over all cells takes as long as finding them, so there are few
        if self.is_text(asked):
            codes = word.astype(np.int32)
            codes -= null  # the code of null is -1
            return Sample(asked, times, Coded(codes, self.strings))
        null ^= 1
        cells = null.reshape(len(asked), len(times))
        np.multiply(cells, self.kinds[asked][:, None], out=cells)
        return Sample(asked, times, Mixed(null, word, self.strings))

    def window_ns(self) -> tuple[int, int]:
        """Return the range of queries by default: what the trace covers, or all if unknown.

        Attributes have no state before it, which may be since 1970, or since a machine was booted.
        """
        whole_ns = self.segments.start_ns, self.segments.end_ns
        start_ns, end_ns = self.metadata.bounds or whole_ns
        start_ns, end_ns = max(start_ns, whole_ns[0]), min(end_ns, whole_ns[1])
        return (start_ns, end_ns) if start_ns < end_ns else whole_ns

    def query(
        self, quarks: Sequence[int] | Int32s, start_ns: int | None, end_ns: int | None
    ) -> tuple[Int32s, tuple[int, int]]:
        """Return the attributes and the range of a query, checked and clipped to the history.

        What is not given is that of `window_ns`, unless the range would be outside of it then. Of
        a range that is outside of the history, there are no attributes.

        Raises:
            TimeRangeError: If the range is empty.
        """
        asked = self.checked_quarks(quarks)
        start_ns, end_ns = self._range(start_ns, end_ns)
        low, high = max(start_ns, self.segments.start_ns), min(end_ns, self.segments.end_ns)
        if low >= high:
            return asked[:0], (start_ns, end_ns)
        self.check_known(asked, low)
        return asked, (low, high)

    def _range(self, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
        begin_ns, finish_ns = self.window_ns()
        low = None if start_ns is None else time_of(start_ns)
        high = None if end_ns is None else time_of(end_ns)
        if low is not None and high is not None:
            if high <= low:
                raise TimeRangeError(f"the range from {low} ns to {high} ns is empty")
            return low, high
        if low is not None:
            return low, finish_ns if low < finish_ns else max(self.segments.end_ns, low + 1)
        if high is not None:
            return begin_ns if begin_ns < high else min(self.segments.start_ns, high - 1), high
        return begin_ns, finish_ns

    def question(
        self, quarks: Int32s, range_ns: tuple[int, int], resolution_ns: int = 0
    ) -> Question:
        """Return the question about attributes in a range, both checked."""
        return Question(quarks, quarks, self.kinds[quarks], *range_ns, resolution_ns)

    def groups(
        self, quarks: Int32s, range_ns: tuple[int, int], rows: int
    ) -> Iterator[tuple[int, int, Int64s | None]]:
        """Yield ranges of attributes whose intervals pass `rows` only if it is one, and counts."""
        counts = self.segments.count(self.question(quarks, range_ns))
        for first, last in cut_groups(counts, rows):
            yield first, last, counts[first:last]

    def gather(
        self,
        quarks: Int32s,
        range_ns: tuple[int, int],
        *,
        resolution_ns: int | None = None,
        counts: Int64s | None = None,
    ) -> Intervals:
        """Return the intervals of these attributes that overlap a range."""
        if resolution_ns is not None and time_of(resolution_ns) <= 0:
            raise TimeRangeError(f"the resolution is {resolution_ns} ns: it must be above 0")
        question = self.question(quarks, range_ns, resolution_ns or 0)
        if counts is None:
            counts = self.segments.count(question)
        if resolution_ns is not None:
            # each contains one of these instants, or the last one
            instants = (range_ns[1] - range_ns[0] - 1) // resolution_ns + 2
            counts = np.minimum(counts, min(instants, np.iinfo(np.int64).max))
        text = int(question.kinds.max(initial=0)) <= STR
        rows = IntervalRows(int(counts.sum()), text=text)
        self.segments.gather(question, rows)
        value: Values
        if text:
            value, tag = Coded(rows.code, self.strings), rows.tag
        else:
            meta = rows.meta
            value = self.column(rows.quark, rows.word, (meta & 1) != 0, text=False)
            tag = (meta >> 1).astype(np.int32) - 1
        return Intervals(
            rows.quark,
            rows.start_ns,
            rows.end_ns,
            value,
            tag,
            range_ns,
            self.ongoing_end_ns(),
        )
