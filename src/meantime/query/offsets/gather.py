"""The samples, spans, states or points of a history, counted in the cells of a fold."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.history.samples import ALL_EVENTS
from meantime.model.attribute_paths import (
    HOSTS,
    IDLE_SUFFIX,
    STATUS,
    host_and_path,
    process_id,
    process_path,
)
from meantime.model.attributes import entity_name
from meantime.model.columns import Coded, Interner, distinct, named
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.query.idle_samples import are_idle
from meantime.query.offsets.cells import CellsBuilder
from meantime.query.offsets.interval_stacks import IntervalStacks, segments_of
from meantime.query.offsets.map import OffsetMap, Source
from meantime.query.offsets.sampling_interval import sampling_interval_ns
from meantime.query.offsets.stack_cells import StackCells
from meantime.query.offsets.traits import TraitCells, TraitTable
from meantime.query.ranges import clipped, union
from meantime.query.roots import sample_names, with_roots
from meantime.query.statistics import state_quarks
from meantime.query.threads import choose_rows, on_host, thread_quarks
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.history.results import Intervals
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable
    from meantime.model.zones import Offsets
    from meantime.query.offsets.axis import AxisKind, Spacing
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.map import Kind, Value
    from meantime.query.ranges import Range

__all__ = [
    "BY",
    "VALUES",
    "Choice",
    "Gathering",
    "Rows",
    "Times",
    "grouped",
    "inside_of",
    "kind_of",
    "of_event",
    "offset_map",
    "window_of",
]

BY = ("name", "thread", "process", "cpu", "event", "host", "state", "tag:FIELD")

VALUES: dict[Kind, tuple[Value, ...]] = {
    "samples": ("count", "weight"),
    "spans": ("ns", "count", "starts", "ends"),
    "states": ("ns", "count", "starts", "ends"),
}


@struct
class Choice:
    """What of a history is mapped, and how it is grouped.

    Attributes:
        value: What a cell counts; None is samples, or the nanoseconds of spans and states.
        by: One of `BY`, or None for no names.
        event: Only samples of this event, or what a table or spans call so.
        states: Only states that one of these patterns means (`*` and `?` stand for anything);
            with them, states are mapped even if there are samples or spans.
        filter: Only the threads or entities that this filter matches, as in `choose_rows`.
        window: Only what lies in [start_ns, end_ns); None is open.
        stacks: Whether the stacks of samples and spans, or the entities of states, are kept too.
        kind: Which table is mapped; None is the first that has something.
        quarks: Only these threads or entities.
        y: What distinguishes the rows of a column.
        spacing: Whether the rows of durations are logarithmic.
        rows: How many rows there are; None is the default of their kind.
        traits: Whether what distinguishes cells is kept too.
    """

    value: Value | None = None
    by: str | None = None
    event: str | None = None
    states: tuple[str, ...] = ()
    filter: str | None = None
    window: tuple[int | None, int | None] = (None, None)
    stacks: bool = False
    kind: Kind | None = None
    quarks: tuple[int, ...] | None = None
    y: AxisKind = "offset"
    spacing: Spacing = "log"
    rows: int | None = None
    traits: bool = False

    def of(self, history: History, quarks: Int32s) -> Int32s:
        """Return those of some threads or entities that are mapped."""
        if self.filter is not None:
            quarks = choose_rows(history, quarks, self.filter)
        return quarks if self.quarks is None else quarks[np.isin(quarks, self.quarks)]


class Rows(NamedTuple):
    """Rows of one batch: intervals, or times where there are no ends, and their keys."""

    start_ns: Int64s
    end_ns: Int64s | None
    key: Int64s
    weight: Int64s | None
    entity: Int32s
    stack: Int32s | None = None
    traits: tuple[Int32s, ...] = ()


def kind_of(history: History, choice: Choice) -> Kind:
    """Return which of a history's tables is mapped: the first that has something, states last."""
    if choice.kind is not None:
        return choice.kind
    if choice.states:
        return "states"
    if len(history.samples()):
        return "samples"
    return "spans" if len(history.spans()) else "states"


def of_event(samples: SampleTable, event: str) -> npt.NDArray[np.bool_]:
    """Return which samples are of an event; in a table of events, that is what is called so."""
    chosen = _is_called(samples.event, event)
    return chosen if chosen.any() else _is_called(samples.name, event)


def _is_called(names: Coded, name: str) -> npt.NDArray[np.bool_]:
    return np.isin(names.codes, [code for code, each in enumerate(names.names) if each == name])


def grouped(history: History, samples: SampleTable, by: str) -> Coded:
    """Return what each of a history's samples is grouped by in a map.

    Raises:
        UsageError: If samples cannot be grouped this way.
    """
    gathering = Gathering(history, Choice(by=by), history.bounds, "")
    keys = gathering.sample_keys(samples)
    return Coded(keys.astype(np.int32), gathering.names)


def offset_map(
    history: History, fold: Fold, choice: Choice, *, source: str, offset_ns: int = 0
) -> OffsetMap:
    """Return the map of a history, exact to the nanosecond.

    Spans are mapped from the outermost in, so each moment of a thread counts once; those of one
    name (`choice.event`) wherever they are. Intervals that reach beyond the window are clipped;
    they count as starting or ending only if they do so inside, and without a window wherever they
    do. A window outside the history gives a map in which nothing is recorded.

    Args:
        history: What happened.
        fold: The cells, in the times of the map.
        choice: What of it.
        source: What the recording is called.
        offset_ns: What to add to the history's times to get the map's.

    Raises:
        UsageError: If this kind of thing has no such value, or cannot be taken apart so.
    """
    kind = kind_of(history, choice)
    value = choice.value or VALUES[kind][0]
    if value not in VALUES[kind]:
        raise UsageError(f"{kind} have no {value}; choose one of: {', '.join(VALUES[kind])}")
    window = window_of(history, choice)
    gathering = Gathering(history, choice, window, source)
    own_fold = replace(fold, origin_ns=fold.origin_ns - offset_ns)
    times = Times.of(fold, offset_ns, window)
    builder = CellsBuilder(own_fold)
    stacks: StackCells | None = None
    # spans of one name count wherever they are, and so do what is in them and what is around them
    is_kept = choice.stacks and (kind == "states" or (kind == "spans" and choice.event is None))
    parts = IntervalStacks(own_fold) if is_kept else None
    traits = TraitCells(own_fold)
    for rows in gathering.rows(kind) if window[0] < window[1] else ():
        key = np.zeros_like(rows.key) if choice.by is None else rows.key
        if rows.end_ns is None:
            at_ns = times.of_instants(rows.start_ns)
            weights = rows.weight if value == "weight" else None
            builder.add_times(at_ns, keys=key, weights=weights)
            traits.add(own_fold.numbers(at_ns), key, rows.traits)
            if rows.stack is not None and rows.weight is not None:
                stacks = StackCells.of(
                    own_fold,
                    at_ns,
                    key,
                    rows.stack,
                    rows.weight if value == "weight" else np.ones_like(rows.weight),
                    names=[""] if choice.by is None else gathering.names,
                    stacks=gathering.stacks,
                )
            continue
        begin, end = np.maximum(rows.start_ns, window[0]), np.minimum(rows.end_ns, window[1])
        if parts is not None and rows.stack is not None:
            parts.add(*times.of_intervals(begin, end, key, rows.stack))
        if value == "ns":
            begin, end, key, *columns = times.of_intervals(
                begin, np.maximum(begin, end), key, *rows.traits
            )
            builder.add_intervals(begin, end, keys=key)
            traits.add_intervals(begin, end, key, columns)
        else:
            at_ns = rows.end_ns if value == "ends" else rows.start_ns
            # Without a window, intervals that end at the end of the history count as ended.
            inside = inside_of(at_ns, choice.window)
            at_ns = times.of_instants(at_ns[inside])
            builder.add_times(at_ns, keys=key[inside])
            columns = [column[inside] for column in rows.traits]
            traits.add(own_fold.numbers(at_ns), key[inside], columns)
    if parts is not None and window[0] < window[1]:
        gathering.add_segments(parts, kind, times)
        stacks = parts.cells([""] if choice.by is None else gathering.names, gathering.stacks)
    recorded = clipped([history.bounds], *window)
    found = OffsetMap.of(
        builder,
        value,
        names=None if choice.by is None else gathering.names,
        sources=[
            Source(
                source,
                times.of_ranges(recorded),
                times.of_ranges(clipped(history.lost, *window)),
                _entities(history, kind, choice),
                sampling_interval_ns(history.samples()) if kind == "samples" else None,
                kind,
                gathering.idle(),
                is_cut=parts is not None and stacks is None,
                repeated=times.repeated(recorded),
                uncompared=gathering.uncompared,
            )
        ],
        anomalies=history.anomalies,
    )
    of_traits = gathering.trait_cells(traits)
    return replace(found, fold=fold, stacks=stacks, traits=of_traits)


def inside_of(at_ns: Int64s, window: tuple[int | None, int | None]) -> npt.NDArray[np.bool_]:
    """Return which times are in a window, of which a side may be open."""
    low, high = window
    inside = np.ones(len(at_ns), np.bool_) if low is None else at_ns >= low
    if high is not None:
        inside &= at_ns < high
    return inside


def _named_by(names: Coded) -> Callable[[int], str | None]:
    return lambda code: names.names[code] if code >= 0 else None


def window_of(history: History, choice: Choice) -> Range:
    """Return the range of a history that is mapped."""
    low, high = choice.window
    first_ns, end_ns = history.bounds
    return (
        first_ns if low is None else max(low, first_ns),
        end_ns if high is None else min(high, end_ns),
    )


def _entities(history: History, kind: Kind, choice: Choice) -> int:
    """Return how many things can be busy at a time; unknown for samples."""
    if kind == "states":
        return len(choice.of(history, state_quarks(history)))
    return 1 if kind == "samples" else len(choice.of(history, history.spans().threads))


class Times:
    """The times of a source in its fold at the source's own origin: local ones in a calendar."""

    def __init__(self, offsets: Offsets | None, offset_ns: int) -> None:
        self._offsets = offsets
        self._offset_ns = offset_ns

    @classmethod
    def of(cls, fold: Fold, offset_ns: int, window: Range) -> Times:
        """Return those of a fold, for the times in a window of the source."""
        if fold.calendar is None:
            return cls(None, offset_ns)
        # the calendar is that of the map, and the offsets are those of the source
        zero_ns = fold.calendar.utc_at_zero_ns + offset_ns
        return cls(fold.calendar._replace(utc_at_zero_ns=zero_ns).offsets(*window), offset_ns)

    def of_instants(self, time_ns: Int64s) -> Int64s:
        """Return the times of the fold at which these are."""
        return time_ns if self._offsets is None else self._offsets.local(time_ns)

    def of_intervals(self, start_ns: Int64s, end_ns: Int64s, *columns: Any) -> tuple[Any, ...]:
        """Return intervals, cut where the clock changes, with their other columns."""
        if self._offsets is None:
            return start_ns, end_ns, *columns
        parts: list[tuple[Any, ...]] = []
        for piece in self._offsets.pieces:
            begin = np.maximum(start_ns, piece.start_ns)
            end = np.minimum(end_ns, piece.end_ns)
            kept = np.flatnonzero(begin < end)
            times = begin[kept] + piece.offset_ns, end[kept] + piece.offset_ns
            parts.append((*times, *(column[kept] for column in columns)))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    def of_ranges(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """Return ranges of the source in the times of the fold."""
        parts = ranges if self._offsets is None else union(self._parts(ranges))
        return tuple((start + self._offset_ns, end + self._offset_ns) for start, end in parts)

    def repeated(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """Return the times of the fold that occur twice in ranges of the source."""
        parts = sorted(self._parts(ranges))
        return tuple(
            (later[0] + self._offset_ns, min(earlier[1], later[1]) + self._offset_ns)
            for earlier, later in pairwise(parts)
            if later[0] < earlier[1]
        )

    def _parts(self, ranges: Sequence[Range]) -> list[Range]:
        if self._offsets is None:
            return []
        return [part for each in ranges for part in self._offsets.parts(*each)]


class Gathering:
    """Reads rows from a history; `names` gets the names of their keys."""

    def __init__(self, history: History, choice: Choice, window: Range, source: str) -> None:
        self._history = history
        self._choice = choice
        self._window = window
        self._source = source
        self.names: list[str] = []
        self.stacks: StackTable = history.samples().stacks
        self._states_of_entities = StackTableBuilder()
        self._key = Interner(self.names).code
        self._traits = TraitTable() if choice.traits else None
        # an entity has a share whatever it does
        self._has_traits = choice.traits and choice.y != "utilisation"
        self._idle: set[str] = set()

    def idle(self) -> tuple[str, ...]:
        """Return the names under which there is nothing but idle CPUs."""
        return tuple(sorted(self._idle))

    @property
    def uncompared(self) -> tuple[str, ...]:
        """The attributes that have too many values to be traits."""
        return () if self._traits is None else tuple(sorted(self._traits.left_out))

    def trait_cells(self, cells: TraitCells) -> StackCells | None:
        """Return the traits of what was read in cells; None if they were not, or are too many."""
        if self._traits is None:
            return None
        return cells.cells([""] if self._choice.by is None else self.names, self._traits.build())

    def entity_traits(self, quark: Int32s, noun: str = "entity") -> list[Int32s]:
        """Return columns of the traits of threads or entities: their name, process and host."""
        if self._traits is None:
            return []
        path = self._history.attributes.path

        def process(each: int) -> str | None:
            whole = path(each)
            return None if process_id(host_and_path(whole)[1]) is None else self._process_name(each)

        def host(each: int) -> str:
            return host_and_path(path(each))[0] or self._source

        named = ((noun, self.thread_name), ("process", process), ("host", host))
        found = [self._traits.column(attribute, quark, text) for attribute, text in named]
        return [column for column in found if column is not None]

    def _trait(self, attribute: str, codes: Any, text_of: Callable[[int], object]) -> list[Int32s]:
        column = None if self._traits is None else self._traits.column(attribute, codes, text_of)
        return [] if column is None else [column]

    def rows(self, kind: Kind) -> Iterator[Rows]:
        """Return what is mapped, in batches."""
        return {"samples": self._samples, "spans": self._spans, "states": self._states}[kind]()

    def _samples(self) -> Iterator[Rows]:
        samples = self._history.samples(
            self._filtered(self._history.samples().thread),
            start_ns=self._window[0],
            end_ns=self._window[1],
            event=None if self._choice.event is None else ALL_EVENTS,
        )
        chosen: slice | Int64s = slice(None)
        if self._choice.event is not None:
            chosen = np.flatnonzero(of_event(samples, self._choice.event))
        key = self.sample_keys(samples)
        stack = None
        # Names alone would only repeat the cells.
        if self._choice.stacks and (samples.stack >= 0).any():
            rooted = with_roots(samples, sample_names(self._history, samples))
            self.stacks, stack = rooted.stacks, rooted.stack[chosen]
        at_ns, weight, thread = samples.time_ns, samples.weight, samples.thread
        traits: tuple[Int32s, ...] = ()
        if self._traits is not None and self._has_traits:
            traits = (
                *self._trait("name", samples.name.codes[chosen], _named_by(samples.name)),
                *self._trait("event", samples.event.codes[chosen], _named_by(samples.event)),
                *self._trait("CPU", samples.cpu[chosen], lambda cpu: None if cpu < 0 else cpu),
                *self.entity_traits(thread[chosen], "thread"),
            )
        yield Rows(at_ns[chosen], None, key[chosen], weight[chosen], thread[chosen], stack, traits)

    def sample_keys(self, samples: SampleTable) -> Int64s:
        """Return the key of each sample; those of idle CPUs have keys of their own."""
        key = self._group_keys(samples)
        if self._choice.by is None:
            return key
        rows = np.flatnonzero(are_idle(self._history, samples))
        groups, which = np.unique(key[rows], return_inverse=True)
        names = [self.names[group] + IDLE_SUFFIX for group in groups.tolist()]
        self._idle.update(names)
        key[rows] = np.array([*map(self._key, names)], np.int64)[which]
        return key

    def _group_keys(self, samples: SampleTable) -> Int64s:
        match self._choice.by:
            case None:
                return self._coded(np.zeros(len(samples), np.int64), [self._source])
            case "host":
                return self._of_host(samples.thread)
            case "name":
                return self._named(samples.name, samples.thread)
            case "event":
                return self._coded(samples.event.codes, samples.event.names)
            case "cpu":
                return self._each(samples.cpu, lambda cpu: "no CPU" if cpu < 0 else f"CPU {cpu}")
            case "thread" | "process":
                return self._of_thread(samples.thread)
            case _:
                raise self._refusal(
                    "samples", ("name", "thread", "process", "cpu", "event", "host")
                )

    def _spans(self) -> Iterator[Rows]:
        spans = self._history.spans(
            self._filtered(self._history.spans().threads),
            start_ns=self._window[0],
            end_ns=self._window[1],
        )
        if self._choice.event is None:
            # each moment of a thread counts once; durations count for all spans
            is_all = self._choice.y == "duration"
            chosen = np.flatnonzero(np.ones(len(spans), np.bool_) if is_all else spans.depth == 0)
        else:
            codes = [i for i, name in enumerate(spans.name.names) if name == self._choice.event]
            chosen = np.flatnonzero(np.isin(spans.name.codes, codes))
        key = self._span_keys(spans)
        start_ns, end_ns = spans.start_ns[chosen], spans.end_ns[chosen]
        thread = spans.thread[chosen]
        traits: tuple[Int32s, ...] = ()
        if self._traits is not None and self._has_traits:
            traits = (
                *self._trait("name", spans.name.codes[chosen], _named_by(spans.name)),
                *self._trait("category", spans.category.codes[chosen], _named_by(spans.category)),
                *self.entity_traits(thread, "thread"),
                *self._traits.of_arguments(spans, chosen),
            )
        yield Rows(start_ns, end_ns, key[chosen], None, thread, None, traits)

    def add_segments(self, parts: IntervalStacks, kind: Kind, times: Times) -> None:
        """Add the stacks of spans of threads, and have `stacks` contain what was added."""
        if kind == "states":
            self.stacks = self._states_of_entities.build()
            return
        threads = self._choice.of(self._history, thread_quarks(self._history))
        start_ns, end_ns = self._window
        spans = self._history.spans(threads, start_ns=start_ns, end_ns=end_ns)
        found = segments_of(spans, self._window)
        key = np.zeros(len(spans), np.int64)
        if self._choice.by is not None:
            key = self._span_keys(spans)
        self.stacks = found.stacks
        segments = (found.start_ns, found.end_ns, key[found.root], found.stack)
        parts.add(*times.of_intervals(*segments))

    def _span_keys(self, spans: SpanTable) -> Int64s:
        match self._choice.by:
            case None:
                return self._coded(np.zeros(len(spans), np.int64), [self._source])
            case "host":
                return self._of_host(spans.thread)
            case "name":
                return self._coded(spans.name.codes, spans.name.names)
            case "thread" | "process":
                return self._of_thread(spans.thread)
            case _:
                raise self._refusal("spans", ("name", "thread", "process", "host"))

    def _states(self) -> Iterator[Rows]:
        quarks = self._choice.of(self._history, state_quarks(self._history))
        if not len(quarks):
            return
        for batch in self._history.interval_batches(quarks, *self._window):
            column = named(batch.value)
            names = column.names
            wanted = [
                not self._choice.states
                or any(fnmatchcase(name, pattern) for pattern in self._choice.states)
                for name in names
            ]
            # The last one is for what has no state.
            chosen = np.flatnonzero(np.array([*wanted, False])[column.codes])
            key = self._state_keys(batch, column)
            stack = None
            if self._choice.stacks:
                stack = self._nodes(column.codes[chosen], names, batch.quark[chosen])
            start_ns, end_ns = batch.start_ns[chosen], batch.end_ns[chosen]
            quark = batch.quark[chosen]
            traits: tuple[Int32s, ...] = ()
            if self._traits is not None and self._has_traits:
                traits = (
                    *self._trait("state", column.codes[chosen], names.__getitem__),
                    *self.entity_traits(quark),
                    *self._traits.of_tags(self._history.tags, batch.tag[chosen]),
                )
            yield Rows(start_ns, end_ns, key[chosen], None, quark, stack, traits)

    def _state_keys(self, batch: Intervals, column: Coded) -> Int64s:
        match self._choice.by:
            case None:
                return self._coded(np.zeros(len(batch), np.int64), [self._source])
            case "host":
                return self._of_host(batch.quark)
            case "state":
                return self._coded(column.codes, column.names)
            case "name" | "thread" | "process":
                return self._of_thread(batch.quark)
            case "cpu":
                return self._each(batch.tag, lambda tag: f"CPU {self._tag(tag, 'cpu')}")
            case str(by) if by.startswith("tag:"):
                return self._each(batch.tag, lambda tag: self._tag(tag, by[4:]))
            case _:
                raise self._refusal(
                    "states",
                    ("state", "name", "thread", "process", "cpu", "host", "tag:FIELD"),
                )

    def _nodes(self, codes: Int32s, names: Sequence[str], quarks: Int32s) -> Int32s:
        """Return the stack of a state, below which is the entity, for each interval."""
        pairs, at = np.unique(codes.astype(np.int64) << 32 | quarks, return_inverse=True)
        stacks = self._states_of_entities
        found = np.empty(len(pairs), np.int32)
        for index, pair in enumerate(pairs.tolist()):
            state = stacks.push(NO_STACK, stacks.frame(names[pair >> 32]))
            found[index] = stacks.push(state, stacks.frame(self.thread_name(pair & 0xFFFFFFFF)))
        return found[at]

    def _filtered(self, threads: Int32s) -> Int32s | None:
        """Return those of some threads that are mapped; None for all of them."""
        if self._choice.filter is None and self._choice.quarks is None:
            return None
        return self._choice.of(self._history, distinct(threads))

    def entity_keys(self, quark: Int64s) -> Int64s:
        """Return the key of each thread or entity.

        Raises:
            UsageError: If they are grouped by what can change while they run.
        """
        match self._choice.by:
            case None:
                return np.zeros(len(quark), np.int64)
            case "host":
                return self._of_host(quark.astype(np.int32))
            case "name" | "thread" | "process":
                return self._of_thread(quark.astype(np.int32))
            case _:
                raise self._refusal("entities", ("name", "thread", "process", "host"))

    def _refusal(self, kind: str, possible: Sequence[str]) -> UsageError:
        return UsageError(
            f"cannot group {kind} by {self._choice.by!r}; choose one of: {', '.join(possible)}"
        )

    def _coded(self, codes: Int32s | Int64s, names: Sequence[str]) -> Int64s:
        """Return keys for codes of strings; -1 is what has none."""
        key_of = np.full(len(names) + 1, -1, np.int64)
        for code in distinct(codes.astype(np.int64)).tolist():
            key_of[code] = self._key(names[code] if code >= 0 else "(none)")
        return key_of[codes]

    def _each(self, codes: Int32s, name_of: Callable[[int], str]) -> Int64s:
        """Return keys for numbers that have names."""
        present, at = np.unique(codes, return_inverse=True)
        key = np.array([self._key(name_of(int(code))) for code in present], np.int64)
        return key[at] if len(codes) else np.zeros(0, np.int64)

    def _named(self, name: Coded, thread: Int32s) -> Int64s:
        """Return keys for names, for what has none those of its thread."""
        key = self._coded(name.codes, name.names)
        nameless = name.codes < 0
        if nameless.any():
            key[nameless] = self._each(thread[nameless], self.thread_name)
        return key

    def _of_thread(self, quark: Int32s) -> Int64s:
        return self._each(
            quark, self._process_name if self._choice.by == "process" else self.thread_name
        )

    def _of_host(self, quark: Int32s) -> Int64s:
        if self._history.find(HOSTS) is None:
            return self._coded(np.zeros(len(quark), np.int64), [self._source])
        path = self._history.attributes.path
        return self._each(quark, lambda each: host_and_path(path(each))[0] or self._source)

    def thread_name(self, quark: int) -> str:
        """Return what a thread or an entity is called."""
        path = self._history.attributes.path(quark)
        name = self._history.names.get(quark)
        # the states of a thread are an attribute below it
        path = path[:-1] if path[-1] == STATUS and len(path) > 1 else path
        host, _ = host_and_path(path)
        return on_host(host, f"{name} {path[-1]}") if name else entity_name(path)

    def _process_name(self, quark: int) -> str:
        attributes = self._history.attributes
        whole = attributes.path(quark)
        host, path = host_and_path(whole)
        pid = process_id(path)
        if pid is None:
            return self.thread_name(quark)
        above = whole[: len(whole) - len(path)]
        process = attributes.find(*above, *process_path(pid))
        name = None if process is None else self._history.names.get(process)
        return on_host(host, f"{name} {pid}" if name else pid)

    def _tag(self, tag: int, field: str) -> str:
        value = self._history.tags[tag].get(field) if tag >= 0 else None
        return "(none)" if value is None else str(value)
