"""Building a history: changes go in, in any order across attributes; segments come out."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from meantime.anomalies import Anomalies
from meantime.attributes import ROOT, Attributes, format_pattern
from meantime.clocks import Clock
from meantime.columns import Coded
from meantime.errors import (
    HistoryClosedError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
)
from meantime.history import structures
from meantime.history.events import EventTables
from meantime.history.history import History
from meantime.history.present import Facts, Present
from meantime.history.samples import SampleCollector
from meantime.history.spans import SpanCollector
from meantime.history.store import Store
from meantime.history.values import KIND_NAMES, Strings, word_of, words_of
from meantime.kernels.tail import BACKWARDS, NO_QUARK
from meantime.trace import LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from meantime.attributes import Pattern
    from meantime.columns import Int32s, Int64s, Value
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.trace import LaneKind, State

__all__ = ["HistoryBuilder"]

_INT64 = np.iinfo(np.int64)
_FIRST = {"Threads"}


class HistoryBuilder:
    """Takes changes and makes a `History` of them.

    A change says that from a time on an attribute has a value. The changes of one attribute must
    come in order of time; across attributes any order will do. An attribute has no state (None)
    until its first change. Its type is that of its first value.

    >>> builder = HistoryBuilder()
    >>> disk = builder.quark("disk0")
    >>> builder.modify(0, disk, "idle")
    >>> builder.modify(5, disk, "writing")
    >>> builder.close(8).state(disk, 6)
    Interval(quark=0, start_ns=5, end_ns=8, value='writing', tag=None, ongoing=False)

    Args:
        start_ns: Where the history begins, if no change is earlier.
        reorder_ns: How late the changes of an attribute may come; they are held back that long.
        clock: Which clock its times count.
    """

    def __init__(
        self, *, start_ns: int = 0, reorder_ns: int = 0, clock: Clock | None = None
    ) -> None:
        self.attributes = Attributes()
        self.title: str | None = None
        self.bounds: tuple[int, int] | None = None
        self.clock = clock or Clock()
        self.descriptions: dict[int, str] = {}
        self.anomalies = Anomalies()
        self.names: dict[int, str] = {}
        self.sort_keys: dict[int, int] = {}
        self.facts: dict[str, str] = {}
        self.lost: list[tuple[int, int]] = []
        self.events = EventTables()
        self.spans = SpanCollector()
        self.samples = SampleCollector()
        self._start_ns = start_ns
        self._store = Store(self._refuse, reorder_ns=reorder_ns)
        self._strings = Strings()
        self._tags: list[dict[str, Any]] = []
        self._tag_keys: dict[object, int] = {}
        self._declarations: list[LaneDeclaration] = []
        self._later: list[tuple[int, int, int, Value, str]] = []
        self._later_serial = count()
        self._changes = 0
        self._seen: tuple[tuple[int, int], Present] | None = None
        self._closed: Present | None = None
        self._history: History | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None and self._closed is None:
            self.close()

    def quark(self, *path: str, parent: int = ROOT) -> int:
        """Return the quark of a path, creating what is missing of it.

        Raises:
            QuarkError: If the path is empty, or there is no such parent.
        """
        return self.attributes.add(path, parent)

    def modify(self, time_ns: int, quark: int, value: Value, tag: int | None = None) -> None:
        """Say that from `time_ns` on, an attribute has a value.

        The value and tag that it has already change nothing. A change at the time when its present
        state began replaces that state.

        Raises:
            QuarkError: If there is no such attribute.
            StateTypeError: If the value is not of the attribute's type.
            TimeOrderError: If the time is before the attribute's last change.
            TimeRangeError: If the time does not fit.
        """
        if self._later and self._later[0][0] <= time_ns:
            self._apply_later(time_ns)
        word, null, kind = word_of(value, self._strings)
        if not _INT64.min < time_ns < _INT64.max:
            raise TimeRangeError(f"{time_ns} ns does not fit a history")
        meta = (0 if tag is None else self._checked_tag(tag) + 1) << 1 | null
        self._open_store().put_one(time_ns, quark, word, meta, kind)

    def modify_many(
        self,
        times_ns: Sequence[int] | Int64s,
        quarks: Sequence[int] | Int32s,
        values: Coded | Sequence[Value] | Int64s | npt.NDArray[np.float64],
        tags: Sequence[int] | Int32s | None = None,
    ) -> None:
        """Do as `modify` for each row, much faster.

        Args:
            times_ns: When; in order for each attribute.
            quarks: Which attribute.
            values: A column of strings, an array of int64 or float64, or any sequence of values.
            tags: A tag per row, -1 for none.

        Raises:
            HistoryError: As `modify` does; the rows before the one at fault were taken.
        """
        times = np.ascontiguousarray(times_ns, np.int64)
        where = np.ascontiguousarray(quarks, np.int32)
        tag = None if tags is None else np.ascontiguousarray(tags, np.int32)
        columns = (times, where, values) if tag is None else (times, where, values, tag)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                "the columns differ in length: " + ", ".join(str(len(column)) for column in columns)
            )
        if not len(times):
            return
        if int(times.min()) == _INT64.min or int(times.max()) == _INT64.max:
            raise TimeRangeError("a time does not fit a history")
        if tag is not None and (int(tag.min()) < -1 or int(tag.max()) >= len(self._tags)):
            raise QuarkError(f"a tag is not one of the {len(self._tags):,} defined")
        if isinstance(values, Coded):
            self.put_codes(times, where, values.codes, self.codes(values.names), tag)
            return
        word, null, kind = words_of(values, self._strings)
        meta = null if tag is None else (tag + 1).astype(np.uint32) << np.uint32(1) | null
        for rows in self._between_later(times):
            self._open_store().put_words(
                times[rows], where[rows], word[rows], meta[rows], kind[rows]
            )

    def codes(self, names: Sequence[str]) -> Int32s:
        """Return this history's codes of strings, for `put_codes`."""
        return self._strings.codes(names)

    def put_codes(
        self,
        times_ns: Int64s,
        quarks: Int32s,
        codes: Int32s,
        code_of: Int32s,
        tags: Int32s | None,
    ) -> None:
        """Do as `modify_many` for strings whose codes, translated by `code_of`, are known."""
        for rows in self._between_later(times_ns):
            tag = None if tags is None else tags[rows]
            self._open_store().put_codes(times_ns[rows], quarks[rows], codes[rows], code_of, tag)

    def update_ongoing(self, quark: int, value: Value) -> None:
        """Replace the value that an attribute has now, from when it took it; its tag stays.

        Raises:
            QuarkError: If there is no such attribute.
            StateTypeError: If the value is not of the attribute's type.
        """
        word, null, kind = word_of(value, self._strings)
        self._open_store().amend(quark, word, null, kind, self._start_ns)

    def push(self, time_ns: int, quark: int, value: Value) -> None:
        """Put a value on an attribute's stack: its depth goes up, child DEPTH takes the value.

        >>> builder = HistoryBuilder()
        >>> stack = builder.quark("stack")
        >>> builder.push(1, stack, "main")
        >>> builder.push(2, stack, "read")
        >>> builder.pop(3, stack), builder.ongoing(stack)
        ('read', 1)

        Raises:
            HistoryError: If the stack is 100,000 deep.
            StateTypeError: If the attribute holds something else than a depth.
        """
        self._apply_later(time_ns)
        structures.push(self, time_ns, quark, value)

    def pop(self, time_ns: int, quark: int) -> Value:
        """Take the top value off an attribute's stack and return it; None if there is none.

        Raises:
            StateTypeError: If the attribute holds something else than a depth.
        """
        self._apply_later(time_ns)
        return structures.pop(self, time_ns, quark)

    def increment(self, time_ns: int, quark: int, amount: float = 1) -> None:
        """Add to an attribute's number; no state counts as 0.

        Raises:
            StateTypeError: If the attribute does not hold a number of the amount's type.
        """
        self._apply_later(time_ns)
        before = self.ongoing(quark)
        if isinstance(before, str):
            raise StateTypeError(f"{self.attributes.text(quark)} holds {before!r}: not a number")
        self.modify(time_ns, quark, amount if before is None else before + amount)

    def remove(self, time_ns: int, quark: int) -> None:
        """Say that an attribute and all below it have no state from `time_ns` on."""
        self._apply_later(time_ns)
        structures.remove(self, time_ns, quark)

    def later(
        self,
        time_ns: int,
        quark: int,
        value: Value = None,
        *,
        action: Literal["modify", "push", "pop"] = "modify",
    ) -> None:
        """Do something once a change at or after `time_ns` comes, before it; or at the end.

        Those of one time are done in the order in which they were asked for.
        """
        heappush(self._later, (time_ns, next(self._later_serial), quark, value, action))

    def ongoing(self, quark: int) -> Value:
        """Return the value that an attribute has now.

        Raises:
            QuarkError: If there is no such attribute.
        """
        store = self._open_store()
        return store.ongoing(self._checked_quark(quark), self._strings.names)

    def ongoing_start(self, quark: int) -> int:
        """Return when an attribute took the value that it has now.

        Raises:
            QuarkError: If there is no such attribute.
        """
        store = self._open_store()
        start_ns = store.last_change_ns(self._checked_quark(quark))
        return store.start_ns(self._start_ns) if start_ns is None else start_ns

    def _apply_later(self, time_ns: int) -> None:
        """Do what was put off until this time, in order of time."""
        due = []
        while self._later and self._later[0][0] <= time_ns:
            due.append(heappop(self._later))
        for when_ns, _, quark, value, action in due:
            if action == "push":
                structures.push(self, when_ns, quark, value)
            elif action == "pop":
                structures.pop(self, when_ns, quark)
            else:
                self.modify(when_ns, quark, value)

    def _between_later(self, times_ns: Int64s) -> Iterator[slice]:
        """Yield runs of rows, and do in between what was put off until the next one's time."""
        first = 0
        while self._later:
            due = np.flatnonzero(times_ns[first:] >= self._later[0][0])
            if not len(due):
                break
            row = first + int(due[0])
            if row > first:
                yield slice(first, row)
            self._apply_later(int(times_ns[row]))
            first = row
        yield slice(first, None)

    def tag(self, fields: Mapping[str, Any], key: object = None) -> int:
        """Return the tag that stands for a set of named fields; a key gives one tag always.

        Equal fields without a key are one tag.
        """
        key = ("fields", repr(sorted(fields.items()))) if key is None else ("key", key)
        tag = self._tag_keys.setdefault(key, len(self._tags))
        if tag == len(self._tags):
            self._tags.append(dict(fields))
        return tag

    def define_tag(self, tag: int, fields: Mapping[str, Any]) -> None:
        """Say what a tag stands for, for all its uses; a new one may be defined ahead."""
        while tag >= len(self._tags):
            self._tags.append({})
        self._tags[tag] = dict(fields)

    def lanes(
        self,
        pattern: Pattern,
        *,
        kind: LaneKind = "state",
        entity_kind: str | None = None,
        label: str | None = None,
        states: Sequence[State] = (),
        unit: str | None = None,
    ) -> None:
        """Declare that the attributes of a pattern can be drawn; see `LaneDeclaration`."""
        text = pattern if isinstance(pattern, str) else format_pattern(pattern)
        self._declarations.append(
            LaneDeclaration(text, kind, entity_kind, label, tuple(states), unit)
        )

    @property
    def history(self) -> History:
        """What is known so far, to be asked while it grows: each question sees all changes.

        It ends just after the latest change; the intervals that go on are marked `ongoing`.
        """
        if self._history is None:
            self._history = History(self.attributes, self._present)
        return self._history

    def close(self, end_ns: int | None = None) -> History:
        """Return the finished history.

        It ends at `end_ns`, or just after the last change if that is later: no state is lost.

        Raises:
            HistoryClosedError: If it was closed before.
        """
        self._apply_later(_INT64.max)
        store = self._open_store()
        spans = self.spans.table(self._strings.names, self._rank)
        samples = self.samples.table(self._strings.names)
        self.anomalies.add("overlapping_span", self._overlapping(spans))
        if self.bounds is None:
            self.bounds = _range(spans, samples)
        start_ns = self._start_ns
        if self.bounds is not None:
            start_ns = min(start_ns, self.bounds[0])
            end_ns = max(self.bounds[1], self.bounds[1] if end_ns is None else end_ns)
        segments = store.finish(start_ns, end_ns)
        self._closed = Present(segments, self._facts(spans, samples), built=True)
        return self.history

    def _rank(self, quarks: Int32s) -> Int32s:
        """Return the places of threads: by process, each as the trace sorts them, then by id."""
        keys = [self._place_of(quark) for quark in quarks.tolist()]
        places = np.empty(len(keys), np.int32)
        places[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return places

    def _place_of(self, quark: int) -> list[tuple[int, bool, int, str]]:
        place = []
        while quark != ROOT:
            name = self.attributes.name(quark)
            number = int(name) if name.removeprefix("-").isdecimal() else 0
            place.append((self.sort_keys.get(quark, 0), name not in _FIRST, number, name))
            quark = self.attributes.parent(quark)
        return place[::-1]

    def _overlapping(self, spans: SpanTable) -> int:
        """Return how many spans of threads stand in lanes of their own; operations may overlap."""
        rows = np.flatnonzero(spans.lane)
        threads = np.searchsorted(spans.offsets, rows, side="right") - 1
        return sum(
            count
            for thread, count in zip(
                *(part.tolist() for part in np.unique(threads, return_counts=True)), strict=True
            )
            if "Async" not in self.attributes.path(int(spans.threads[thread]))
        )

    def _present(self) -> Present:
        if self._closed is not None:
            return self._closed
        key = (self._changes, len(self.attributes))
        if self._seen is None or self._seen[0] != key:
            store = self._store.copy()
            store.reserve(len(self.attributes))
            segments = store.finish(self._start_ns, None)
            self._seen = (
                key,
                Present(
                    segments,
                    self._facts(
                        SpanCollector().table(self._strings.names, self._rank),
                        SampleCollector().table(self._strings.names),
                    ),
                    built=False,
                ),
            )
        return self._seen[1]

    def _facts(self, spans: SpanTable, samples: SampleTable) -> Facts:
        anomalies = Anomalies()
        anomalies.update(self.anomalies)
        anomalies.add("zero_length_state", self._store.replaced)
        points, flows = self.events.tables(self._strings.names)
        return Facts(
            strings=self._strings.names,
            kinds=self._store.kinds(len(self.attributes)),
            points=points,
            flows=flows,
            spans=spans,
            samples=samples,
            names=self.names,
            sort_keys=self.sort_keys,
            trace_facts=self.facts,
            lost=self.lost,
            tags=self._tags,
            declarations=self._declarations,
            clock=self.clock,
            bounds=self.bounds,
            title=self.title,
            descriptions=self.descriptions,
            anomalies=anomalies,
        )

    def _open_store(self) -> Store:
        if self._closed is not None:
            raise HistoryClosedError("this history was closed: it takes no more changes")
        self._changes += 1
        self._store.reserve(len(self.attributes))
        return self._store

    def _checked_quark(self, quark: int) -> int:
        if not 0 <= quark < len(self.attributes):
            raise QuarkError(
                f"{quark} is not the quark of an attribute: this history has"
                f" {len(self.attributes):,}"
            )
        return quark

    def _checked_tag(self, tag: int) -> int:
        if not 0 <= tag < len(self._tags):
            raise QuarkError(f"{tag} is not a tag: {len(self._tags):,} are defined")
        return tag

    def _refuse(self, status: int, time_ns: int, quark: int, kind: int) -> None:
        """Raise what is wrong with a change."""
        if status == NO_QUARK:
            self._checked_quark(quark)
        name = self.attributes.text(quark)
        if status == BACKWARDS:
            raise TimeOrderError(
                f"{name}: a change at {time_ns} ns comes after one at"
                f" {self._store.last_change_ns(quark)} ns; give the changes of an attribute in"
                " order of time, or say with reorder_ns how late they may be"
            )
        has = KIND_NAMES[self._store.kind(quark)]
        raise StateTypeError(f"{name} holds {has}: it cannot be set to {KIND_NAMES[kind]}")


def _range(spans: SpanTable, samples: SampleTable) -> tuple[int, int] | None:
    """Return the range that spans and samples are in; None if there are none."""
    starts, ends = [], []
    if len(spans):
        starts.append(int(spans.start_ns.min()))
        ends += [int(spans.end_ns.max()), int(spans.start_ns.max()) + 1]
    if len(samples):
        starts.append(int(samples.time_ns[0]))
        ends.append(int(samples.time_ns[-1]) + 1)
    return (min(starts), max(ends)) if starts else None
