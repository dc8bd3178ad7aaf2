"""What builds a history: operations become changes, changes go to the store and the directory."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from meantime.attributes import format_pattern
from meantime.clocks import Clock
from meantime.columns import Coded
from meantime.errors import (
    HistoryClosedError,
    HistoryError,
    InputError,
    QuarkError,
    StateTypeError,
    TimeOrderError,
    TimeRangeError,
    UsageError,
)
from meantime.history import structures
from meantime.history.catalogue import Catalogue
from meantime.history.changes import TypedChanges
from meantime.history.closing import event_range, overlapping_spans, thread_places
from meantime.history.directory import DirectoryWriter
from meantime.history.events import EventTables
from meantime.history.history import History
from meantime.history.loading import VERSION, load
from meantime.history.present import Facts, Present
from meantime.history.pyramid import Pyramids
from meantime.history.samples import SampleCollector
from meantime.history.spans import SpanCollector
from meantime.history.store import Store
from meantime.history.tables import Tables, pack
from meantime.history.values import KIND_NAMES, word_of, words_of
from meantime.kernels.tail import BACKWARDS, NO_CODE, NO_QUARK
from meantime.trace import LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike

    import numpy.typing as npt

    from meantime.anomalies import Anomalies
    from meantime.attributes import Attributes, Pattern
    from meantime.columns import Int32s, Int64s, Value
    from meantime.history.changes import Changes
    from meantime.history.loading import Loaded
    from meantime.kernels.search import Segments
    from meantime.trace import LaneKind, State

__all__ = ["Engine"]

_INT32 = np.iinfo(np.int32)
_INT64 = np.iinfo(np.int64)
_BEFORE_ALL, _AFTER_ALL = int(_INT64.min), int(_INT64.max)


class Engine:
    """What works in a `HistoryBuilder`, and what readers, providers and the directory need of it.

    Attributes:
        catalogue: Names, tags and facts.
        events: The points and flows so far.
        spans: The spans so far.
        samples: The samples so far.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        start_ns: int = 0,
        origin_ns: int | None = None,
        reorder_ns: int = 0,
        keep: Literal["everything", "ongoing"] = "everything",
        clock: Clock | None = None,
        resume: bool = False,
    ) -> None:
        if keep not in ("everything", "ongoing"):
            raise UsageError(
                f"keep is {keep!r}: here it is 'everything' or 'ongoing'; for checkpoints an input"
                " must be read again, see meantime.build"
            )
        if keep == "ongoing" and path is not None:
            raise UsageError(
                f"{path}: keep='ongoing' stores nothing, so there is nothing for a path"
            )
        clock = clock or Clock()
        if origin_ns is not None:
            clock = replace(clock, utc_at_origin_ns=origin_ns)
        self.catalogue = Catalogue(start_ns, clock)
        self.events = EventTables()
        self.spans = SpanCollector()
        self.samples = SampleCollector()
        self._keep = keep
        self._watched = False
        self._store = Store(self._refuse, reorder_ns=reorder_ns, forget=keep == "ongoing")
        self._later: list[tuple[int, int, int, Value, str]] = []
        self._later_serial = count()
        self._changes = 0
        self._reserved = 0
        self._nested = False
        self._where: Callable[[], Any] | None = None
        self._event_ns = _INT64.min
        self._done = 0
        self._batch: int | None = None
        self._skip_operations = 0
        self._skip_rows = 0
        self._resumed = False
        self._seen: tuple[tuple[int, int], Present] | None = None
        self._closed: Present | None = None
        self._history: History | None = None
        self._writer: DirectoryWriter | None = None
        if path is not None:
            self._open_directory(Path(path), resume=resume, reorder_ns=reorder_ns)

    def _open_directory(self, path: Path, *, resume: bool, reorder_ns: int) -> None:
        writer = DirectoryWriter(path, self)
        if resume and (path / "manifest").exists():
            if reorder_ns:
                raise HistoryError(
                    f"{path}: changes that were held back for reorder_ns are lost: build it anew"
                )
            loaded = load(path, self)
            if loaded.closed is not None:
                raise HistoryClosedError(f"{path}: this history was closed: it takes no more")
            if loaded.version != VERSION:
                raise HistoryError(
                    f"{path}: is of version {loaded.version} of the format, and would go on in"
                    f" {VERSION}: build it anew"
                )
            if loaded.segments and not loaded.entries:
                raise InputError(
                    str(path), "the log of what came after the last segment is lost: build it anew"
                )
            self._store.keep_in(writer)
            self.restore(loaded)
            writer.resume(loaded)
        else:
            writer.create()
            self._store.keep_in(writer)
        self._writer = writer

    def take_changes(self, changes: Changes, kinds: npt.NDArray[np.uint8]) -> None:
        """Take changes of another history of the same names as they are."""
        self._store.reserve(len(self.attributes))
        self._store.put_verbatim(TypedChanges(*changes, kinds[changes.quark]))

    def restore(self, loaded: Loaded) -> None:
        """Take up where a history on disk stopped; its names and facts are known already."""
        self._store.reserve(len(self.attributes))
        self._store.resume(loaded)

    @property
    def attributes(self) -> Attributes:
        """The attribute tree so far."""
        return self.catalogue.attributes

    def drive(self, where: Callable[[], Any]) -> None:
        """Be driven from now on: what is done between two steps is kept, or lost, as one.

        Args:
            where: Returns the `position` to be kept; it is called at steps.
        """
        self._where = where
        self._store.whole_steps = True

    def step(self, time_ns: int) -> None:
        """Begin the next step, an event at a time: first comes what was put off until then."""
        if self._writer is not None:
            self._writer.tick(self._store)
        self.advance(time_ns)

    def watch(self, watcher: Callable[[Int64s, Int32s], None]) -> None:
        """Have a function called with the times and attributes of changes that are forgotten."""
        self._store.watcher = watcher
        self._watched = True

    def forget(self) -> None:
        """Forget the changes that are no one's present state now."""
        self._store.forget()

    def states(self) -> tuple[TypedChanges, int]:
        """Return the states that attributes are in now, and when the latest change was."""
        return self._store.states(), self._store.latest_ns

    def anew(self) -> Engine:
        """Return an engine in memory that has the same names, and nothing else yet."""
        engine = Engine(start_ns=self.catalogue.start_ns)
        engine.catalogue.share_names(self.catalogue)
        return engine

    def take_states(self, states: TypedChanges) -> None:
        """Begin with what `states` of another builder of the same names returned."""
        self._store.reserve(len(self.attributes))
        self._store.put_verbatim(states)

    def end_at(self, ends_ns: Int64s) -> None:
        """Say of each attribute when its present state ends; the largest integer is not yet."""
        quark = np.flatnonzero(ends_ns != _INT64.max).astype(np.int32)
        quark = quark[np.argsort(ends_ns[quark], kind="stable")]
        null, kind = np.ones(len(quark), np.uint32), np.zeros(len(quark), np.uint8)
        word = np.zeros(len(quark), np.int64)
        self._store.reserve(len(self.attributes))
        self._store.put_verbatim(TypedChanges(ends_ns[quark], quark, word, null, kind))

    def segments(self, start_ns: int, end_ns: int) -> Segments:
        """Return the intervals so far, to be searched."""
        return self._store.finish(start_ns, end_ns)

    def where(self) -> Any:
        """Return the position to be kept."""
        return self._where() if self._where is not None else self.catalogue.position

    @property
    def position(self) -> Any:
        """See `HistoryBuilder.position`."""
        return self.catalogue.position

    @position.setter
    def position(self, position: Any) -> None:
        if self._resumed and position == self.catalogue.position:
            return
        self.catalogue.position = position
        self._done = self._skip_operations = self._skip_rows = 0

    def flush(self) -> None:
        """See `HistoryBuilder.flush`."""
        self._open_store()
        if self._writer and self._where is not None:
            # half an event cannot be gone on from
            self._writer.hurry()
        elif self._writer:
            self._writer.sync(self._store)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed is not None

    def quark(self, *path: str, parent: int | None = None) -> int:
        """See `HistoryBuilder.quark`."""
        return self.attributes.add(path, parent)

    def modify(self, time_ns: int, quark: int, value: Value, tag: int | None = None) -> None:
        """See `HistoryBuilder.modify`."""
        if not self._nested:
            if self._writer is not None and not self._begin():
                return
            if self._later:
                self._do_due(time_ns)
        word, null, kind = word_of(value, self.catalogue.strings)
        if type(time_ns) is not int or not _BEFORE_ALL < time_ns < _AFTER_ALL:
            time_ns = _checked_time(time_ns)
        meta = null if tag is None else self._checked_tag(tag) + 1 << 1 | null
        # What `_open_store` does, without the calls: this runs a million times a second.
        if self._closed is not None or quark >= self._reserved:
            self._open_store()
            self._reserved = len(self.attributes)
        self._changes += 1
        try:
            self._store.put_one(time_ns, quark, word, meta, kind)
        except OverflowError:
            self._checked_quark(quark)
            raise

    def modify_many(
        self,
        times_ns: Sequence[int] | Int64s,
        quarks: Sequence[int] | Int32s,
        values: Coded | Sequence[Value] | Int64s | npt.NDArray[np.float64],
        tags: Sequence[int] | Int32s | None = None,
    ) -> None:
        """See `HistoryBuilder.modify_many`."""
        times = _whole(times_ns, "a time")
        where = self._quarks(_whole(quarks, "a quark"))
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
        if tag is not None and (int(tag.min()) < -1 or int(tag.max()) >= len(self.catalogue.tags)):
            raise QuarkError(f"a tag is not one of the {len(self.catalogue.tags):,} defined")
        if isinstance(values, Coded):
            self.put_codes(times, where, values.codes, self.codes(values.names), tag)
            return
        if not self._begin():
            return
        word, null, kind = words_of(values, self.catalogue.strings)
        meta = null if tag is None else (tag + 1).astype(np.uint32) << np.uint32(1) | null
        for rows in self._between_later(times):
            self._open_store().put_words(
                times[rows], where[rows], word[rows], meta[rows], kind[rows]
            )
        self._batch = None

    def codes(self, names: Sequence[str]) -> Int32s:
        """Return this history's codes of strings, for `put_codes`."""
        return self.catalogue.strings.codes(names)

    def put_codes(
        self,
        times_ns: Int64s,
        quarks: Int32s,
        codes: Int32s,
        code_of: Int32s,
        tags: Int32s | None,
    ) -> None:
        """Do as `modify_many` for strings whose codes, translated by `code_of`, are known."""
        if not self._begin():
            return
        for rows in self._between_later(times_ns):
            tag = None if tags is None else tags[rows]
            self._open_store().put_codes(times_ns[rows], quarks[rows], codes[rows], code_of, tag)
        self._batch = None

    def update_ongoing(self, quark: int, value: Value) -> None:
        """See `HistoryBuilder.update_ongoing`."""
        if not self._begin():
            return
        if self._watched:
            raise HistoryError(
                "keep='checkpoints' takes no update_ongoing: it would change what is before the"
                " checkpoints"
            )
        word, null, kind = word_of(value, self.catalogue.strings)
        self._open_store().amend(
            self._checked_quark(quark), word, null, kind, self.catalogue.start_ns
        )

    def push(self, time_ns: int, quark: int, value: Value) -> None:
        """See `HistoryBuilder.push`."""
        if self._begin():
            self._do_due(time_ns)
            self._whole("push", time_ns, quark, value)

    def pop(self, time_ns: int, quark: int) -> Value:
        """See `HistoryBuilder.pop`."""
        if not self._begin():
            return None
        self._do_due(time_ns)
        return self._whole("pop", time_ns, quark, None)

    def increment(self, time_ns: int, quark: int, amount: float = 1) -> None:
        """See `HistoryBuilder.increment`."""
        if self._begin():
            self._do_due(time_ns)
            self._whole("increment", time_ns, quark, amount)

    def remove(self, time_ns: int, quark: int) -> None:
        """See `HistoryBuilder.remove`."""
        if self._begin():
            self._do_due(time_ns)
            self._whole("remove", time_ns, quark, None)

    def later(
        self,
        time_ns: int,
        quark: int,
        value: Value = None,
        *,
        action: Literal["modify", "push", "pop", "increment", "remove"] = "modify",
    ) -> None:
        """See `HistoryBuilder.later`."""
        if action not in structures.ACTIONS:
            actions = ", ".join(structures.ACTIONS)
            raise ValueError(f"{action!r} is not an action: it is one of {actions}")
        self._checked_quark(quark)
        time_ns = _checked_time(time_ns)
        if self._begin():
            self.put_off(time_ns, quark, value, action)

    def advance(self, time_ns: int) -> None:
        """See `HistoryBuilder.advance`."""
        if self._where is not None:
            # at an event nothing else is due, also not before a change ahead of it
            self._event_ns = _INT64.max
        self._apply_later(time_ns)

    def open_batch(self, time_ns: int) -> None:
        """Know that changes after this time come in columns, and do before each what is due."""
        self._event_ns = time_ns

    def _do_due(self, time_ns: int) -> None:
        """Do what is due before a change."""
        if time_ns > self._event_ns:
            self._apply_later(time_ns)

    def put_off(self, time_ns: int, quark: int, value: Value, action: str) -> None:
        """Do as `later`, which is not told that it was an operation."""
        heappush(self._later, (time_ns, next(self._later_serial), quark, value, action))

    def ongoing(self, quark: int) -> Value:
        """See `HistoryBuilder.ongoing`."""
        if self._closed is not None or not 0 <= quark < self._reserved:
            self._open_store()
            self._reserved = len(self.attributes)
            self._checked_quark(quark)
        return self._store.ongoing(quark, self.catalogue.strings.names)

    def ongoing_start(self, quark: int) -> int:
        """See `HistoryBuilder.ongoing_start`."""
        store = self._open_store()
        start_ns = store.last_change_ns(self._checked_quark(quark))
        return store.start_ns(self.catalogue.start_ns) if start_ns is None else start_ns

    def end_states(self, ends: Sequence[tuple[int, int]]) -> None:
        """Say of attributes that nothing is known of them from a time on."""
        if not self._begin():
            return
        self._nested = True
        for quark, time_ns in ends:
            # a state that began then has no length in the trace, but is what was said last
            if self.ongoing_start(quark) < time_ns:
                self.modify(time_ns, quark, None)
        self._nested = False

    def _apply_later(self, time_ns: int) -> None:
        """Do what was put off until this time, in order of time."""
        due = []
        while self._later and self._later[0][0] <= time_ns:
            due.append(heappop(self._later))
        for when_ns, _, quark, value, action in due:
            self._whole(action, when_ns, quark, value)

    def _whole(self, action: str, time_ns: int, quark: int, value: Value) -> Value:
        """Do all changes of an operation, as one."""
        self._nested = True
        try:
            return structures.ACTIONS[action](self, time_ns, quark, value)
        finally:
            self._nested = False

    def _begin(self) -> bool:
        """Count an operation; False if it was done before a build was killed and is done again."""
        if self._writer is None or self._where is not None:
            return True
        self._resumed = False
        if self._skip_operations:
            self._skip_operations -= 1
            return False
        self._batch = None
        self._writer.tick(self._store)
        self._done += 1
        return True

    def done(self) -> tuple[int, int]:
        """Return how many operations since `position` are done, and rows of the next, a batch."""
        if self._batch is None:
            # Rows that will be skipped are done, though a build that goes on has not come to them.
            return self._done, self._skip_rows
        return self._done - 1, self._batch + self._store.batch_rows

    def skip(self, operations: int, rows: int) -> None:
        """Know what is done of what will be done again from `position` on."""
        self._done = self._skip_operations = operations
        self._skip_rows = rows
        self._resumed = True

    def _between_later(self, times_ns: Int64s) -> Iterator[slice]:
        """Yield runs of rows, and do in between what was put off until the next one's time."""
        first, self._skip_rows = self._skip_rows, 0
        self._batch = first
        while self._later:
            due = np.flatnonzero(
                times_ns[first:] >= max(self._later[0][0], min(self._event_ns, _INT64.max - 1) + 1)
            )
            if not len(due):
                break
            row = first + int(due[0])
            if row > first:
                yield slice(first, row)
            self._apply_later(int(times_ns[row]))
            self._batch = first = row
        yield slice(first, None)

    def tag(self, fields: Mapping[str, Any], key: Any = None) -> int:
        """See `HistoryBuilder.tag`."""
        return self.catalogue.tag(fields, key)

    def define_tag(self, tag: int, fields: Mapping[str, Any]) -> None:
        """See `HistoryBuilder.define_tag`."""
        self.catalogue.define_tag(tag, fields)

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
        """See `HistoryBuilder.lanes`."""
        text = pattern if isinstance(pattern, str) else format_pattern(pattern)
        lane = LaneDeclaration(text, kind, entity_kind, label, tuple(states), unit)
        # whoever goes on with a history may declare again what is declared
        if lane not in self.catalogue.declarations:
            self.catalogue.declarations.append(lane)

    @property
    def anomalies(self) -> Anomalies:
        """See `HistoryBuilder.anomalies`."""
        return self.catalogue.anomalies

    @property
    def history(self) -> History:
        """See `HistoryBuilder.history`."""
        if self._history is None:
            self._history = History(self.present)
        return self._history

    def close(self, end_ns: int | None = None, *, tables: Tables | None = None) -> History:
        """See `HistoryBuilder.close`."""
        self._apply_later(_INT64.max)
        store = self._open_store()
        catalogue = self.catalogue
        tables = tables or self._tables()
        spans, samples = tables.spans, tables.samples
        catalogue.found["overlapping_span"] = overlapping_spans(self.attributes, spans)
        if catalogue.bounds is None:
            catalogue.bounds = event_range(spans, samples)
        start_ns = catalogue.start_ns
        if catalogue.bounds is not None:
            start_ns = min(start_ns, catalogue.bounds[0])
            end_ns = max(catalogue.bounds[1], catalogue.bounds[1] if end_ns is None else end_ns)
        segments = store.finish(start_ns, end_ns)
        facts = Facts.of(catalogue, self.kinds(), tables, store.replaced)
        if self._writer:
            described, packed = pack(facts)
            record = {
                "start_ns": segments.start_ns,
                "end_ns": segments.end_ns,
                "replaced": store.replaced,
                "tables": described,
            }
            self._writer.close(record, packed)
        files = self._writer.files() if self._writer else []
        self._closed = Present(
            segments,
            facts,
            built=True,
            known_from_ns=self._known_from_ns(),
            pyramids=Pyramids(segments, store.segments, facts.kinds, files),
        )
        return self.history

    def _places(self, quarks: Int32s) -> Int32s:
        return thread_places(self.catalogue, quarks)

    def present(self) -> Present:
        """Return what is known now."""
        if self._closed is not None:
            return self._closed
        key = (self._changes, len(self.attributes))
        if self._seen is None or self._seen[0] != key:
            store = self._store.copy()
            store.reserve(len(self.attributes))
            segments = store.finish(self.catalogue.start_ns, None)
            names = self.catalogue.strings.names
            points, flows = self.events.tables(names)
            # Spans and samples are put in order once, when the history is closed.
            spans = SpanCollector().table(names, self._places)
            tables = Tables(points, flows, spans, SampleCollector().table(names))
            facts = Facts.of(self.catalogue, self.kinds(), tables, self._store.replaced)
            known_from_ns = self._known_from_ns()
            self._seen = (key, Present(segments, facts, built=False, known_from_ns=known_from_ns))
        return self._seen[1]

    @property
    def keeps_events(self) -> bool:
        """Whether there is a place for events, spans and samples."""
        return self._keep == "everything"

    def _known_from_ns(self) -> Int64s | None:
        return self._store.known_from_ns(len(self.attributes))

    def _tables(self) -> Tables:
        names = self.catalogue.strings.names
        points, flows = self.events.tables(names)
        spans = self.spans.table(names, self._places)
        return Tables(points, flows, spans, self.samples.table(names))

    def kinds(self) -> npt.NDArray[np.uint8]:
        """Return the type of each attribute's values, by quark."""
        self._store.reserve(len(self.attributes))
        return self._store.kinds(len(self.attributes))

    def waiting(self) -> list[tuple[int, int, Value, str]]:
        """Return what `later` was told and is not yet done, in order."""
        return [(when, quark, value, act) for when, _, quark, value, act in sorted(self._later)]

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

    def _quarks(self, quarks: Int64s) -> Int32s:
        """Return quarks as the store takes them; it refuses those that are none."""
        if len(quarks):
            for quark in (int(quarks.min()), int(quarks.max())):
                if not _INT32.min <= quark <= _INT32.max:
                    self._checked_quark(quark)
        return quarks.astype(np.int32)

    def _checked_tag(self, tag: int) -> int:
        if not 0 <= tag < len(self.catalogue.tags):
            raise QuarkError(f"{tag} is not a tag: {len(self.catalogue.tags):,} are defined")
        return tag

    def _refuse(self, status: int, time_ns: int, quark: int, kind: int) -> None:
        """Raise what is wrong with a change."""
        if status == NO_QUARK:
            self._checked_quark(quark)
        name = self.attributes.text(quark)
        if status == NO_CODE:
            raise ValueError(f"{name}: a code at {time_ns} ns stands for no string of its column")
        if status == BACKWARDS:
            raise TimeOrderError(
                f"{name}: a change at {time_ns} ns comes after one at"
                f" {self._store.last_change_ns(quark)} ns; give the changes of an attribute in"
                " order of time, or say with reorder_ns how late they may be"
            )
        has = KIND_NAMES[self._store.kind(quark)]
        raise StateTypeError(f"{name} holds {has}: it cannot be set to {KIND_NAMES[kind]}")


def _checked_time(time_ns: int) -> int:
    """Return a time as an int that fits; a float is refused."""
    whole = index(time_ns)
    if not _INT64.min < whole < _INT64.max:
        raise TimeRangeError(f"{whole} ns does not fit a history")
    return whole


def _whole(column: Sequence[int] | Int64s | Int32s, what: str) -> Int64s:
    """Return a column of integers as int64; floats are refused, for they are not exact."""
    numbers = np.asarray(column)
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise TypeError(f"{what} is an integer, and these are {numbers.dtype}")
    if numbers.dtype == np.uint64 and len(numbers) and int(numbers.max()) > _INT64.max:
        raise TimeRangeError(f"{what} is {int(numbers.max())}: it does not fit into 64 bits")
    return np.ascontiguousarray(numbers, np.int64)
