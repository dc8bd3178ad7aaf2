"""The noun that all queries and views take: the intervals of all attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.anomalies import Anomalies
from meantime.clocks import Clock
from meantime.columns import Coded, Mixed
from meantime.errors import QuarkError, TimeRangeError
from meantime.history.results import Interval, Intervals, Shares
from meantime.kernels import aggregate
from meantime.kernels.tail import INT, STR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.attributes import Attributes, Pattern
    from meantime.columns import Int32s, Int64s, Value, Values
    from meantime.history.results import Flows, Points
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.kernels.search import Segments
    from meantime.trace import LaneDeclaration

__all__ = ["Facts", "History", "Lane"]

_BATCH_ROWS = 2**19
_WORD = Struct("<q")
_FLOAT = Struct("<d")


class Lane(NamedTuple):
    """A lane declaration, and the attributes of this history that it means."""

    declaration: LaneDeclaration
    quarks: Int32s


@dataclass(slots=True)
class Facts:
    """What is known of a history beside its intervals; see the attributes of `History`."""

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
    anomalies: Anomalies = field(default_factory=Anomalies)


class History:
    """The intervals of all attributes over [start_ns, end_ns), and the event tables beside them.

    Made by `meantime.open` or a `HistoryBuilder`; it does not change. Times are nanoseconds from
    its origin, ranges are half-open, and the intervals of each attribute tile the whole range:
    where there is no state, the value is None.

    Attributes:
        attributes: The attribute tree.
        tags: By tag, its fields.
        clock: Which clock the times count.
        title: What the trace calls itself, if it does.
        descriptions: By quark, what the trace says about that attribute.
        names: By quark, what the trace calls that process, thread or task.
        sort_keys: By quark, where the trace wants it among its like.
        facts: What else the trace says of itself, by the trace's own names.
        anomalies: What was odd in the input, counted.
    """

    def __init__(self, segments: Segments, attributes: Attributes, facts: Facts) -> None:
        self._segments = segments
        self._facts = facts
        self.attributes = attributes
        self.tags = facts.tags
        self.clock = facts.clock
        self.title = facts.title
        self.descriptions = facts.descriptions
        self.names = facts.names
        self.sort_keys = facts.sort_keys
        self.facts = facts.trace_facts
        self.anomalies = facts.anomalies

    @property
    def start_ns(self) -> int:
        """Where the history begins."""
        return self._segments.start_ns

    @property
    def end_ns(self) -> int:
        """Where it ends: the first time that is no longer in it."""
        return self._segments.end_ns

    @property
    def size_bytes(self) -> int:
        """How much memory the intervals take."""
        return self._segments.size_bytes

    @property
    def bounds(self) -> tuple[int, int]:
        """The window [begin_ns, finish_ns) of views and statistics; if not told, all of it."""
        return self._facts.bounds or (self.start_ns, self.end_ns)

    @property
    def lanes(self) -> list[Lane]:
        """What can be drawn: the declarations, in order, and the attributes that each means."""
        return [
            Lane(declaration, self.attributes.quarks(declaration.pattern))
            for declaration in self._facts.declarations
        ]

    def quark(self, *path: str) -> int:
        """Return the quark of a path.

        Raises:
            AttributeNotFound: If there is none; the message lists the nearest names.
        """
        return self.attributes.quark(*path)

    def find(self, *path: str) -> int | None:
        """Return the quark of a path, or None where there is none."""
        return self.attributes.find(*path)

    def quarks(self, pattern: Pattern) -> Int32s:
        """Return the attributes that a pattern means; see `Attributes.quarks`."""
        return self.attributes.quarks(pattern)

    def state(self, quark: int, time_ns: int) -> Interval:
        """Return the interval of an attribute that holds a time.

        >>> from meantime.testing import history_from_picture
        >>> history = history_from_picture("disk0  aab.")
        >>> history.state(0, 1)
        Interval(quark=0, start_ns=0, end_ns=2, value='a', tag=None, ongoing=False)

        Raises:
            QuarkError: If there is no such attribute.
            TimeRangeError: If the time lies outside the history.
        """
        self._check_quark(quark)
        self._check_time(time_ns)
        start_ns, end_ns, word, meta = self._segments.point(quark, time_ns)
        tag = (meta >> 1) - 1
        return Interval(
            quark,
            start_ns,
            end_ns,
            None if meta & 1 else self._value(quark, word),
            None if tag < 0 else tag,
        )

    def at(self, time_ns: int) -> Intervals:
        """Return the interval of every attribute that holds a time; row i is quark i.

        Raises:
            TimeRangeError: If the time lies outside the history.
        """
        self._check_time(time_ns)
        quarks = np.arange(len(self.attributes), dtype=np.int32)
        start_ns, end_ns, word = (np.empty(len(quarks), np.int64) for _ in range(3))
        meta = np.empty(len(quarks), np.uint32)
        self._segments.at(quarks, time_ns, start_ns, end_ns, word, meta)
        return Intervals(
            quarks,
            start_ns,
            end_ns,
            self._column(quarks, word, (meta & 1) != 0, text=self._is_text(quarks)),
            (meta >> 1).astype(np.int32) - 1,
            (time_ns, time_ns + 1),
        )

    def intervals(
        self,
        quarks: Sequence[int] | Int32s,
        start_ns: int | None = None,
        end_ns: int | None = None,
        resolution_ns: int | None = None,
    ) -> Intervals:
        """Return the intervals that meet [start_ns, end_ns), each whole, as it is in the history.

        Quark by quark in the order given, in order of time; with them those without state, whose
        value is None. With a resolution, only those that hold start_ns, start_ns + resolution_ns,
        and so on, or the range's last instant.

        >>> from meantime.testing import history_from_picture
        >>> history_from_picture("disk0  aab.").intervals([0], 1, 3)
        Intervals: 2 in [1, 3)
          0: [0, 2) 'a'
          0: [2, 3) 'b'

        Raises:
            QuarkError: If there is no such attribute.
            TimeRangeError: If the range is empty or starts outside the history; one that ends
                after it is clipped.
        """
        return self._gather(*self._query(quarks, start_ns, end_ns), resolution_ns=resolution_ns)

    def interval_batches(
        self,
        quarks: Sequence[int] | Int32s,
        start_ns: int | None = None,
        end_ns: int | None = None,
        resolution_ns: int | None = None,
        *,
        rows: int = _BATCH_ROWS,
    ) -> Iterator[Intervals]:
        """Return what `intervals` does, lazily, in parts of about `rows` rows.

        A part holds all intervals of its quarks: it is longer only if one quark has more. The
        arguments are checked at once.
        """
        asked, range_ns = self._query(quarks, start_ns, end_ns)
        return (
            self._gather(asked[first:last], range_ns, resolution_ns=resolution_ns, counts=counts)
            for first, last, counts in self._groups(asked, range_ns, rows)
        )

    def shares(
        self,
        quarks: Sequence[int] | Int32s,
        start_ns: int | None = None,
        end_ns: int | None = None,
        bins: int = 1,
    ) -> Shares:
        """Return how long each value lasted in each of `bins` parts of a range.

        Part i is [start + ceil(i * length / bins), start + ceil((i + 1) * length / bins)), so the
        parts tile the range; no state counts as None, so each part's times sum to its width. Only
        values that occur have a row.

        >>> from meantime.testing import history_from_picture
        >>> shares = history_from_picture("disk0  aab.").shares([0], bins=2)
        >>> shares.cell(0, 0), shares.cell(0, 1)
        ({'a': 2}, {'b': 1, None: 1})

        Raises:
            QuarkError: If there is no such attribute.
            TimeRangeError: If the range is empty or starts outside the history.
            ValueError: If there is not at least one bin.
        """
        if bins < 1:
            raise ValueError(f"bins is {bins}: there must be at least one")
        asked, range_ns = self._query(quarks, start_ns, end_ns)
        edges_ns = aggregate.bin_edges(*range_ns, bins)
        groups = list(self._groups(asked, range_ns, _BATCH_ROWS, extra=bins)) or [(0, 0, None)]
        parts = [
            self._shares(self._gather(asked[first:last], range_ns, counts=counts), edges_ns)
            for first, last, counts in groups
        ]
        quark, part, word, null, ns, changes_quark, changes_bin, changes = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        value = self._column(quark, word, null, text=self._is_text(asked))
        return Shares(quark, part, value, ns, edges_ns, changes_quark, changes_bin, changes)

    def spans(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SpanTable:
        """Return the spans of these threads that have a part in [start_ns, end_ns), whole.

        An empty span has a part in the range if its time is in it. No quarks are all threads.
        """
        return self._facts.spans.select(quarks, start_ns=start_ns, end_ns=end_ns)

    def samples(
        self,
        quarks: Sequence[int] | Int32s | None = None,
        *,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> SampleTable:
        """Return the samples of these threads in [start_ns, end_ns); no quarks are all threads."""
        return self._facts.samples.select(quarks, start_ns=start_ns, end_ns=end_ns)

    def points(self) -> Points:
        """Return the instants on attributes, in order of time."""
        return self._facts.points

    def flows(self) -> Flows:
        """Return the arrows between attributes, in order of where they begin."""
        return self._facts.flows

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        return (
            f"<History{title}: {len(self.attributes):,} attributes"
            f" over [{self.start_ns}, {self.end_ns}) ns>"
        )

    def _check_quark(self, quark: int) -> None:
        if not 0 <= quark < len(self.attributes):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has"
                f" {len(self.attributes):,}"
            )

    def _check_time(self, time_ns: int) -> None:
        if not self.start_ns <= time_ns < self.end_ns:
            raise TimeRangeError(
                f"{time_ns} ns is outside the history, [{self.start_ns}, {self.end_ns})"
            )

    def _query(
        self, quarks: Sequence[int] | Int32s, start_ns: int | None, end_ns: int | None
    ) -> tuple[Int32s, tuple[int, int]]:
        start_ns = self.start_ns if start_ns is None else start_ns
        end_ns = self.end_ns if end_ns is None else end_ns
        self._check_time(start_ns)
        if end_ns <= start_ns:
            raise TimeRangeError(f"the range [{start_ns}, {end_ns}) is empty")
        asked = np.asarray(quarks, np.int64)
        if len(asked):
            self._check_quark(int(asked.min()))
            self._check_quark(int(asked.max()))
        return asked.astype(np.int32), (start_ns, min(end_ns, self.end_ns))

    def _groups(
        self, quarks: Int32s, range_ns: tuple[int, int], rows: int, *, extra: int = 0
    ) -> Iterator[tuple[int, int, Int64s | None]]:
        """Cut the quarks where their intervals, and `extra` for each, pass `rows`."""
        counts = np.empty(len(quarks), np.int64)
        self._segments.count(quarks, *range_ns, counts)
        ends = np.cumsum(counts + extra)
        first = 0
        while first < len(quarks):
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + rows, side="right")))
            yield first, last, counts[first:last]
            first = last

    def _gather(
        self,
        quarks: Int32s,
        range_ns: tuple[int, int],
        *,
        resolution_ns: int | None = None,
        counts: Int64s | None = None,
    ) -> Intervals:
        if resolution_ns is not None and resolution_ns <= 0:
            raise TimeRangeError(f"a resolution of {resolution_ns} ns: it must be above 0")
        if counts is None:
            counts = np.empty(len(quarks), np.int64)
            self._segments.count(quarks, *range_ns, counts)
        room = int(counts.sum())
        quark, tag = np.empty(room, np.int32), np.empty(room, np.int32)
        start_ns, end_ns = np.empty(room, np.int64), np.empty(room, np.int64)
        text = self._is_text(quarks)
        code = np.empty(room, np.int32) if text else None
        word = None if text else np.empty(room, np.int64)
        meta = None if text else np.empty(room, np.uint32)
        rows = self._segments.gather(
            quarks, *range_ns, resolution_ns or 0, quark, start_ns, end_ns, code, word, meta, tag
        )
        value: Values
        if code is not None:
            value = Coded(code[:rows], self._facts.strings)
        else:
            assert word is not None
            assert meta is not None
            null = (meta[:rows] & 1) != 0
            value = self._column(quark[:rows], word[:rows], null, text=False)
            tag = (meta >> 1).astype(np.int32) - 1
        return Intervals(quark[:rows], start_ns[:rows], end_ns[:rows], value, tag[:rows], range_ns)

    def _shares(self, intervals: Intervals, edges_ns: Int64s) -> tuple[npt.NDArray[Any], ...]:
        value = intervals.value
        if isinstance(value, Coded):
            codes, words = value.codes, None
            different = len(value.names)
        else:
            words, places = np.unique(value.words, return_inverse=True)
            codes = np.where(value.kinds == 0, -1, places).astype(np.int32)
            different = len(words)
        quarks = 1 + int(np.count_nonzero(np.diff(intervals.quark)))
        room = len(intervals) + quarks * (len(edges_ns) - 1)
        quark, part, code = (np.empty(room, np.int32) for _ in range(3))
        ns = np.empty(room, np.int64)
        changes_quark, changes_bin = (np.empty(len(intervals), np.int32) for _ in range(2))
        changes = np.empty(len(intervals), np.int64)
        rows, changed = aggregate.shares(
            intervals.quark,
            intervals.start_ns,
            intervals.end_ns,
            codes,
            edges_ns,
            np.array([self.start_ns]),
            np.zeros(different + 1, np.int64),
            np.empty(different + 1, np.int32),
            quark,
            part,
            code,
            ns,
            changes_quark,
            changes_bin,
            changes,
        )
        null = code[:rows] < 0
        found = code[:rows].astype(np.int64)
        word = found if words is None else words[np.where(null, 0, found)]
        cells = (changes_quark, changes_bin, changes)
        return (
            quark[:rows].copy(),
            part[:rows].copy(),
            word,
            null,
            ns[:rows].copy(),
            *(column[:changed].copy() for column in cells),
        )

    def _is_text(self, quarks: Int32s) -> bool:
        """Whether all of these attributes hold strings, or nothing."""
        return not len(quarks) or int(self._facts.kinds[quarks].max()) <= STR

    def _column(
        self, quarks: Int32s, words: Int64s, null: npt.NDArray[np.bool_], *, text: bool
    ) -> Values:
        if text:
            return Coded(np.where(null, -1, words).astype(np.int32), self._facts.strings)
        kinds = np.where(null, np.uint8(0), self._facts.kinds[quarks])
        return Mixed(kinds, np.where(null, 0, words), self._facts.strings)

    def _value(self, quark: int, word: int) -> Value:
        kind = self._facts.kinds[quark]
        if kind == STR:
            return self._facts.strings[word]
        return word if kind == INT else _FLOAT.unpack(_WORD.pack(word))[0]
