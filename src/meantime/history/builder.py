"""Building a history: its operations, in order of time for each attribute."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from meantime.errors import (
    HistoryClosedError,
    HistoryError,
    QuarkError,
    UsageError,
)
from meantime.history import structures
from meantime.history.adding import flow_columns, point_columns, sample_columns, span_columns
from meantime.history.catalogue import Catalogue
from meantime.history.contents import Contents
from meantime.history.finishing import finish
from meantime.history.history import History
from meantime.history.journal import Journal
from meantime.history.lanes import lane_of
from meantime.history.numbers import checked_time, times_of
from meantime.history.values import Strings, word_of, words_of
from meantime.kernels.tail import DONE, Direct
from meantime.model.clocks import Clock
from meantime.model.columns import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    import numpy.typing as npt

    from meantime.history.adding import Names
    from meantime.history.directory.write import DirectoryWriter
    from meantime.history.event_rows import Columns
    from meantime.history.lanes import StateLike
    from meantime.history.snapshot import Present, Snapshot
    from meantime.history.store import Store
    from meantime.history.tables import Tables
    from meantime.model.anomalies import Anomalies
    from meantime.model.attributes import Attributes, Pattern
    from meantime.model.columns import Int32s, Int64s, Value
    from meantime.model.metadata import TraceMetadata
    from meantime.model.trace import LaneKind

__all__ = ["HistoryBuilder"]

_INT64 = np.iinfo(np.int64)


class HistoryBuilder:
    """Builds a `History` from changes.

    A change sets the value of an attribute from a time on. The changes of one attribute must come
    in order of time; across attributes any order is accepted. An attribute has no state (None)
    until its first change. Its type is that of its first value.

    >>> builder = HistoryBuilder()
    >>> disk = builder.quark("disk0")
    >>> builder.modify(0, disk, "idle")
    >>> builder.modify(5, disk, "writing")
    >>> builder.close(8).state(disk, 6)
    Interval(quark=0, start_ns=5, end_ns=8, value='writing', tag=None, ongoing=False)

    Args:
        path: The directory to store it in, `NAME.mth`, in a folder that exists; None for a history
            in memory.
        start_ns: Where the history and its `bounds` begin, if no change is earlier; by default the
            history begins at 0, and its bounds at the first change.
        origin_ns: UTC of the history's time 0, in nanoseconds since 1970, if known.
        reorder_ns: How late the changes of an attribute may come; they are delayed by that long.
        keep: `"ongoing"` keeps only the current state of each attribute: earlier states cannot be
            queried, and no events, spans and samples are kept.
        clock: The clock that its times are of.
        resume: Resume the unfinished history in the directory, if there is one.

    Raises:
        OutputError: If the directory exists, cannot be written, or has another builder. Once a
            write has failed, every operation raises that error; the history can be resumed from
            what was written before (`resume=True`).
        InputError: If the history to be resumed is damaged.

    Attributes:
        contents: The history so far.
        journal: Scheduled changes, and the operations that a resumed build skips.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        start_ns: int | None = None,
        origin_ns: int | None = None,
        reorder_ns: int = 0,
        keep: Literal["everything", "ongoing"] = "everything",
        clock: Clock | None = None,
        resume: bool = False,
    ) -> None:
        if keep not in ("everything", "ongoing"):
            raise UsageError(
                f"keep is {keep!r}: choose 'everything' or 'ongoing'; checkpoints need an input"
                " that can be read again, see meantime.build"
            )
        if keep == "ongoing" and path is not None:
            raise UsageError(f"{path}: keep='ongoing' stores nothing: leave out the path")
        clock = clock or Clock()
        if origin_ns is not None:
            clock = replace(clock, utc_at_origin_ns=origin_ns)
        self.contents: Contents = Contents(
            Catalogue(start_ns or 0, clock), reorder_ns=reorder_ns, forget=keep == "ongoing"
        )
        self.contents.catalogue.begins_at_start = start_ns is not None
        self.journal: Journal = Journal(self._apply)
        self._keep = keep
        self._changes = 0
        # The store has arrays for quarks below this.
        self._reserved = 0
        self._snapshot: tuple[tuple[int, int, TraceMetadata], int, Snapshot] | None = None
        self._closed: Snapshot | None = None
        self._history: History | None = None
        self._directory: DirectoryWriter | None = None
        # `increment` and `modify` use it for each change, so it is not looked up in the journal.
        self._scheduled = self.journal.scheduled
        if path is not None:
            from meantime.history.directory.resume import open_writer  # noqa: PLC0415 - 5 ms, not for a history in memory

            self._directory = open_writer(
                Path(path), self.contents, self.journal, resume=resume, reorder_ns=reorder_ns
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._closed is not None:
            return
        if error is None:
            self.close()
        else:
            self.leave()

    @property
    def attributes(self) -> Attributes:
        """The attribute tree so far."""
        return self.contents.attributes

    @property
    def anomalies(self) -> Anomalies:
        """The count of oddities, to be added to; see `History.anomalies`."""
        return self.contents.catalogue.anomalies

    @property
    def position(self) -> Any:
        """Your position in the input: any JSON value, stored with the changes before it.

        After `resume=True` it is the position that was set before the last stored change. Repeat
        all operations that followed it: those that were stored are skipped; meanwhile `pop` returns
        None, and `ongoing` the last stored value. Setting the same position again first changes
        nothing. If no position was ever set, continue with new changes.
        """
        return self.journal.position

    @position.setter
    def position(self, position: Any) -> None:
        self._stop_direct()
        self.journal.position = position

    def quark(self, *path: str, parent: int | None = None) -> int:
        """Return the quark of a path, creating what is missing of it.

        Raises:
            HistoryClosedError: If something is missing of it, and the history was closed.
            QuarkError: If the path is empty, or the parent does not exist.
        """
        return self.contents.catalogue.attributes.add(path, parent)

    def modify(self, time_ns: int, quark: int, value: Value, tag: int | None = None) -> None:
        """Set the value of an attribute from `time_ns` on.

        Setting the value and tag that it already has changes nothing. A change at the time when its
        current state began replaces that state.

        Raises:
            QuarkError: If the attribute does not exist.
            StateTypeError: If the value is not of the attribute's type.
            TimeOrderError: If the time is before the attribute's last change.
            TimeRangeError: If the time does not fit.
        """
        # `direct` takes most changes, two million a second; the rest of this is for all others.
        contents = self.contents
        direct = contents.direct
        if (
            direct is not None
            and tag is None
            and not self._scheduled
            and direct.put(time_ns, quark, value)
        ):
            self._changes += 1
            return
        journal = self.journal
        if not journal.nested:
            if self._directory is not None and not self._begin():
                return
            if journal.scheduled and (failure := journal.apply_before(time_ns)) is not None:
                journal.raise_after(failure, lambda: self.modify(time_ns, quark, value, tag))
        word, null, kind = word_of(value, contents.catalogue.strings)
        time_ns = checked_time(time_ns)
        meta = null if tag is None else contents.checked_tag(tag) + 1 << 1 | null
        if self._closed is not None or quark >= self._reserved:
            self._open_store()
            self._reserved = len(contents.attributes)
        self._changes += 1
        try:
            contents.store.put_one(time_ns, quark, word, meta, kind)
        except OverflowError:
            contents.checked_quark(quark)
            raise
        self._allow_direct()

    def modify_many(
        self,
        times_ns: Sequence[int] | Int64s,
        quarks: Sequence[int] | Int32s,
        values: Coded | Sequence[Value] | Int64s | npt.NDArray[np.float64],
        tags: Sequence[int] | Int32s | None = None,
    ) -> None:
        """Call `modify` for each row, much faster.

        Args:
            times_ns: When; in order for each attribute.
            quarks: Which attribute.
            values: A column of strings, an array of int64 or float64, or any sequence of values.
            tags: A tag per row, -1 for none.

        Raises:
            HistoryError: As `modify` does; the rows before the invalid one were put.
        """
        contents = self.contents
        times = times_of(times_ns)
        where = contents.quark_column(quarks)
        tag = None if tags is None else np.ascontiguousarray(tags, np.int32)
        columns = (times, where, values) if tag is None else (times, where, values, tag)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                "the columns differ in length: " + ", ".join(str(len(column)) for column in columns)
            )
        if not len(times):
            return
        known = len(contents.catalogue.tags)
        if tag is not None and (int(tag.min()) < -1 or int(tag.max()) >= known):
            raise QuarkError(f"a tag is not one of the {known:,} defined")
        strings = contents.catalogue.strings
        if isinstance(values, Coded):
            self.put_codes(times, where, values.codes, strings.codes(values.names), tag)
            return
        if not self._begin():
            return
        word, null, kind = words_of(values, strings)
        meta = null if tag is None else (tag + 1).astype(np.uint32) << np.uint32(1) | null
        for rows in self.journal.runs(times):
            self._open_store().put_words(
                times[rows], where[rows], word[rows], meta[rows], kind[rows]
            )
        self.journal.raise_failure()

    def put_codes(
        self,
        times_ns: Int64s,
        quarks: Int32s,
        codes: Int32s,
        code_of: Int32s,
        tags: Int32s | None,
    ) -> None:
        """Call `modify` for each row of strings; `code_of` translates codes to this history's.

        For readers, whose strings are coded: `contents.catalogue.strings` has the codes.
        """
        if not self._begin():
            return
        for rows in self.journal.runs(times_ns):
            tag = None if tags is None else tags[rows]
            self._open_store().put_codes(times_ns[rows], quarks[rows], codes[rows], code_of, tag)
        self.journal.raise_failure()

    def update_ongoing(self, quark: int, value: Value) -> None:
        """Replace the current value of an attribute from the time it was set; its tag stays.

        Raises:
            QuarkError: If the attribute does not exist.
            StateTypeError: If the value is not of the attribute's type.
        """
        if not self._begin():
            return
        contents = self.contents
        if contents.store.sealer.watcher is not None:
            raise HistoryError(
                "update_ongoing cannot be used with keep='checkpoints': it would change states"
                " before the checkpoints"
            )
        word, null, kind = word_of(value, contents.catalogue.strings)
        quark = contents.checked_quark(quark)
        self._open_store().amend(quark, word, null, kind, contents.catalogue.start_ns)

    def push(self, time_ns: int, quark: int, value: Value) -> None:
        """Push a value on an attribute's stack: its depth goes up, and child DEPTH gets the value.

        >>> builder = HistoryBuilder()
        >>> stack = builder.quark("stack")
        >>> builder.push(1, stack, "main")
        >>> builder.push(2, stack, "read")
        >>> builder.pop(3, stack), builder.ongoing(stack)
        ('read', 1)

        Raises:
            HistoryError: If the stack is 100,000 deep.
            StateTypeError: If the attribute's value is not a depth.
        """
        if self._begin():
            self.journal.operate("push", time_ns, quark, value)

    def pop(self, time_ns: int, quark: int) -> Value:
        """Pop the top value off an attribute's stack and return it; None if it is empty.

        Raises:
            StateTypeError: If the attribute's value is not a depth.
        """
        if not self._begin():
            return None
        return self.journal.operate("pop", time_ns, quark, None)

    def increment(self, time_ns: int, quark: int, amount: float = 1) -> None:
        """Add to an attribute's number; no state counts as 0.

        Raises:
            StateTypeError: If the attribute's value is not a number of the amount's type.
        """
        direct = self.contents.direct
        if (
            direct is not None
            and not self._scheduled
            and not self.journal.failures
            and direct.add(time_ns, quark, amount)
        ):
            self._changes += 1
            return
        if self._begin():
            self.journal.operate("increment", time_ns, quark, amount)
            self._allow_direct()

    def remove(self, time_ns: int, quark: int) -> None:
        """Remove the state of an attribute and all below it from `time_ns` on."""
        if self._begin():
            self.journal.operate("remove", time_ns, quark, None)

    def later(
        self,
        time_ns: int,
        quark: int,
        value: Value = None,
        *,
        action: Literal["modify", "push", "pop", "increment", "remove"] = "modify",
    ) -> None:
        """Schedule an action before the first change at or after `time_ns`, or for the end.

        Actions of one time are carried out in the order in which they were scheduled. In a provider
        they precede the next event at or after `time_ns`. An action that fails stops no other; the
        operation that it precedes raises its error after all were carried out.

        Raises:
            QuarkError: If the attribute does not exist.
            StateTypeError: If the value is not of the attribute's type, as far as that is known.
            TimeOrderError: If the time is before the attribute's last change.
            TimeRangeError: If the time does not fit.
            ValueError: If the action does not exist.
        """
        if action not in structures.ACTIONS:
            actions = ", ".join(structures.ACTIONS)
            raise ValueError(f"unknown action {action!r}; choose one of {actions}")
        self.contents.checked_quark(quark)
        time_ns = checked_time(time_ns)
        if self._begin():
            structures.check_action(self, action, time_ns, quark, value)
            self.journal.schedule(time_ns, quark, value, action)

    def check_change(self, time_ns: int, quark: int, value: Value) -> None:
        """Raise what `modify` would raise now, as far as that is known, and change nothing.

        Raises:
            StateTypeError: If the value is not of the attribute's type.
            TimeOrderError: If the time is before the attribute's last change.
        """
        _, _, kind = word_of(value, Strings())
        status = self._open_store().status_of(time_ns, quark, kind)
        if status != DONE:
            self.contents.refuse(status, time_ns, quark, kind)

    def advance(self, time_ns: int) -> None:
        """Carry out the actions scheduled up to this time, in order of time.

        Changes do so themselves; in a provider, events do.
        """
        self._stop_direct()
        self.journal.begin_event(time_ns)

    def ongoing(self, quark: int) -> Value:
        """Return the current value of an attribute.

        Raises:
            QuarkError: If the attribute does not exist.
        """
        contents = self.contents
        if self._closed is not None or not 0 <= quark < self._reserved:
            self._open_store()
            self._reserved = len(contents.attributes)
            contents.checked_quark(quark)
        return contents.store.ongoing(quark, contents.catalogue.strings.names)

    def ongoing_start(self, quark: int) -> int:
        """Return since when an attribute has its current value.

        Raises:
            QuarkError: If the attribute does not exist.
        """
        store = self._open_store()
        start_ns = store.last_change_ns(self.contents.checked_quark(quark))
        return store.start_ns(self.contents.catalogue.start_ns) if start_ns is None else start_ns

    def end_states(self, ends: Sequence[tuple[int, int]]) -> None:
        """End the state of attributes at a time each, as one operation; for readers."""
        if not self._begin():
            return
        self.journal.nested = True
        for quark, time_ns in ends:
            # A state that began at that time has no length in the trace, but it is the last one.
            if self.ongoing_start(quark) < time_ns:
                self.modify(time_ns, quark, None)
        self.journal.nested = False

    def add_spans(
        self,
        threads: Sequence[int] | Int32s,
        names: Names,
        starts_ns: Sequence[int] | Int64s,
        ends_ns: Sequence[int] | Int64s,
        *,
        categories: Names | None = None,
        arguments: Sequence[str | None] | None = None,
    ) -> None:
        """Add spans that have ended: calls, tasks, slices.

        They may come in any order, and are nested by their times. Each gets the next number, by
        which it is known from then on: `SpanTable.rows`.

        >>> builder = HistoryBuilder()
        >>> main = builder.quark("Processes", "1", "Threads", "1")
        >>> builder.add_spans([main, main], ["read", "work"], [2, 0], [5, 10])
        >>> builder.history.spans().name.to_list(), builder.history.spans().rows.tolist()
        (['work', 'read'], [1, 0])

        Args:
            threads: The attribute of the thread of each.
            names: What ran.
            starts_ns: When it began.
            ends_ns: When it ended.
            categories: Its category; None for none.
            arguments: Further fields, mostly JSON; None for none.

        Raises:
            HistoryError: If an attribute does not exist, or a time does not fit.
            ValueError: If the columns differ in length, or a span ends before it starts.
        """
        self._add(
            "spans",
            lambda contents: span_columns(
                contents, threads, names, starts_ns, ends_ns, categories, arguments
            ),
        )

    def add_samples(
        self,
        threads: Sequence[int] | Int32s,
        stacks: Sequence[Sequence[str]],
        times_ns: Sequence[int] | Int64s,
        *,
        weights: Sequence[int] | Int64s | None = None,
        event: str = "samples",
    ) -> None:
        """Add samples of stacks, each the names of its functions, the outermost first.

        `weights` has what each represents, by default 1, and `event` what was counted. Raises as
        `add_spans` does.
        """
        self._add(
            "samples",
            lambda contents: sample_columns(contents, threads, stacks, times_ns, weights, event),
        )

    def add_points(
        self,
        quarks: Sequence[int] | Int32s,
        names: Names,
        times_ns: Sequence[int] | Int64s,
        *,
        arguments: Sequence[str | None] | None = None,
    ) -> None:
        """Add instants on attributes; raises as `add_spans` does."""
        self._add(
            "points",
            lambda contents: point_columns(contents, quarks, names, times_ns, arguments),
        )

    def add_flows(
        self,
        from_quarks: Sequence[int] | Int32s,
        from_ns: Sequence[int] | Int64s,
        to_quarks: Sequence[int] | Int32s,
        to_ns: Sequence[int] | Int64s,
        names: Names,
    ) -> None:
        """Add arrows from attributes at a time to others; raises as `add_spans` does."""
        self._add(
            "flows",
            lambda contents: flow_columns(contents, from_quarks, from_ns, to_quarks, to_ns, names),
        )

    def _add(self, table: str, columns: Callable[[Contents], Columns]) -> None:
        with self.adding() as new:
            if new and self.keeps_events:
                self.contents.events.add(table, columns(self.contents))

    def tag(self, fields: Mapping[str, Any], key: Any = None) -> int:
        """Return the tag of a set of named fields; equal keys always return the same tag.

        Equal fields without a key are one tag. They are stored as JSON: names are strings, and
        tuples become lists.
        """
        return self.contents.catalogue.tag(fields, key)

    def define_tag(self, tag: int, fields: Mapping[str, Any]) -> None:
        """Set the fields of a tag, for all its uses; it need not have been returned by `tag`."""
        self.contents.catalogue.define_tag(tag, fields)

    def lanes(
        self,
        pattern: Pattern,
        *,
        kind: LaneKind = "state",
        entity_kind: str | None = None,
        label: str | None = None,
        states: Iterable[StateLike] = (),
        unit: str | None = None,
        short_lived: bool = False,
    ) -> None:
        """Declare that the attributes of a pattern can be drawn; see `LaneDeclaration`.

        The states, in order, are names, `meantime.model.trace.State` objects, or mappings such as
        `{"name": "busy", "color": "#dd2222"}`.

        Raises:
            UsageError: If an argument is invalid.
        """
        lane = lane_of(pattern, kind, entity_kind, label, states, unit, short_lived)
        catalogue = self.contents.catalogue
        lanes = catalogue.metadata.lanes
        # A resumed build declares its lanes again.
        if lane not in lanes:
            catalogue.metadata = replace(catalogue.metadata, lanes=[*lanes, lane])

    @property
    def history(self) -> History:
        """The history so far, which can be queried while it grows: each query sees all changes.

        It ends just after the latest change; intervals without an end are marked `ongoing`. Changes
        delayed by `reorder_ns` are not in it yet.
        """
        if self._history is None:
            self._history = History(self.snapshot, self.present)
        return self._history

    def flush(self) -> None:
        """Flush and fsync all changes so far; other processes that read the history see them.

        In a provider this happens at the next event.
        """
        self._open_store()
        self._stop_direct()
        if self._directory is not None and self.journal.transactional:
            # A build cannot be resumed in the middle of an event.
            self._directory.log_at_next_event()
        elif self._directory is not None:
            self._directory.sync(self.contents.store.sealer)

    def leave(self) -> None:
        """Flush if that is possible, and stop without closing: another builder may resume."""
        if self._directory is None:
            return
        try:
            if self._directory.failure is None:
                self.flush()
        finally:
            self._directory.leave()

    def close(self, end_ns: int | None = None, *, tables: Tables | None = None) -> History:
        """Return the finished history.

        It ends at `end_ns`, or just after the last change if that is later: no state is lost.

        Raises:
            HistoryClosedError: If it was closed before.
        """
        self._open_store()
        self._stop_direct()
        self.journal.apply_scheduled(_INT64.max)
        self.journal.raise_failure()
        self._open_store()
        self._closed = finish(self.contents, self._directory, end_ns, tables)
        self.contents.attributes.freeze()
        self.contents.store.sealer.sink = None
        self.contents.direct = None
        self.journal.close()
        return self.history

    def snapshot(self) -> Snapshot:
        """Return the current state of the history, from which `history` answers."""
        if self._closed is not None:
            return self._closed
        if self._directory is not None:
            self._directory.check()
        catalogue = self.contents.catalogue
        key = (self._changes, len(catalogue.attributes), catalogue.metadata)
        events = self.contents.events.version
        if self._snapshot is None or self._snapshot[0] != key:
            self._snapshot = (key, events, self.contents.snapshot())
        elif self._snapshot[1] != events:
            self._snapshot = (key, events, self.contents.with_events(self._snapshot[2]))
        return self._snapshot[2]

    def present(self) -> Present:
        """Return what the current states are found in, valid until the next operation."""
        if self._closed is not None:
            return self._closed
        if self._directory is not None:
            self._directory.check()
        return self.contents.present() or self.snapshot()

    @property
    def keeps_events(self) -> bool:
        """Whether events, spans and samples are kept."""
        return self._keep == "everything"

    @property
    def on_disk(self) -> bool:
        """Whether it is stored in a directory."""
        return self._directory is not None

    def begin_transactions(self, position: Callable[[], Any]) -> None:
        """Keep the changes between two events together from now on, on disk or not at all.

        Args:
            position: Returns the `position` to be saved; called between two events.
        """
        self._stop_direct()
        self.journal.begin_transactions(position)
        # Made again: segments are sealed between events from now on, not between operations.
        self.contents.direct = None
        self.contents.store.sealer.whole_steps = True

    def direct(self) -> Direct | None:
        """Return a way around `modify` and `ongoing` for the events of one batch.

        For compiled providers, which call `modify` for what it refuses. None if changes are
        reordered.
        """
        self._open_store()
        return self.contents.direct

    def begin_event(self, time_ns: int) -> None:
        """End the transaction of the event before, and apply what is scheduled until this one."""
        if self._directory is not None:
            self._directory.tick(self.contents.store.sealer)
        self.advance(time_ns)

    @contextmanager
    def adding(self) -> Iterator[bool]:
        """Add to the event tables of `contents` as one operation.

        Yields:
            Whether to add: False if it took effect before a build was killed.

        Raises:
            HistoryClosedError: If the history was closed.
        """
        if self._closed is not None:
            raise HistoryClosedError("this history was closed: it accepts no more events")
        new = self._begin()
        yield new
        if new and self._directory is not None and not self.journal.transactional:
            self._directory.seal_events(self.contents.store.sealer)

    def _apply(self, action: str, time_ns: int, quark: int, value: Value) -> Value:
        return structures.ACTIONS[action](self, time_ns, quark, value)

    def _allow_direct(self) -> None:
        """Let `direct` count changes on disk until `_begin` may have to do more than that."""
        direct, directory, journal = self.contents.direct, self._directory, self.journal
        if (
            direct is not None
            and directory is not None
            and not journal.transactional
            and journal.only_counts
        ):
            direct.allow(directory.quiet_ns)

    def _stop_direct(self) -> None:
        """Take over the operations that `direct` counted; it puts no more until it is allowed."""
        direct = self.contents.direct
        if direct is not None and self._directory is not None:
            self.journal.count_operations(direct.stop())

    def _begin(self) -> bool:
        """Count an operation; False if it took effect before a build was killed."""
        directory, journal = self._directory, self.journal
        if directory is None:
            return True
        directory.check()
        if journal.transactional:
            return True
        self._stop_direct()
        if journal.skip_operation():
            return False
        # The log has the operations before this one.
        directory.tick(self.contents.store.sealer)
        journal.count_operations(1)
        return True

    def _open_store(self) -> Store:
        if self._closed is not None:
            raise HistoryClosedError("this history was closed: it accepts no more changes")
        if self._directory is not None:
            self._directory.check()
        self._changes += 1
        contents = self.contents
        store = contents.store
        store.reserve(len(contents.attributes))
        if contents.direct is None and not store.reorders:
            strings, sealer = contents.catalogue.strings, store.sealer
            counts = self._directory is not None and not self.journal.transactional
            most_rows = sealer.full_rows - 1 if counts else _INT64.max
            contents.direct = Direct(
                sealer.tail, strings.known, strings.names, most_rows, counts=counts
            )
        return store
