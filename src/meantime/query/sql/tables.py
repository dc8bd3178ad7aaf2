"""The tables of a history as Arrow batches: of the columns and in the limits that are asked for."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from meantime.errors import UsageError
from meantime.history.history import moment
from meantime.history.samples import ALL_EVENTS
from meantime.history.source import cut_groups
from meantime.kernels.tail import STR
from meantime.model.anomalies import CATALOGUE
from meantime.model.attribute_paths import (
    HOSTS,
    PROCESSES,
    STATUS,
    THREADS,
    host_and_path,
    process_id,
)
from meantime.model.attributes import parse_pattern
from meantime.model.columns import Coded, Mixed, distinct
from meantime.model.tabular import need
from meantime.query.sql.pushed import Limits, schema_of
from meantime.query.sql.schema import columns_of, table_names
from meantime.query.stats import stats
from meantime.query.threads import threads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.history import History
    from meantime.history.results import Intervals
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s, Values
    from meantime.query.findings import Finding
    from meantime.query.handles import Handle
    from meantime.query.sql.pushed import LimitsOf

    # A column, or what makes it, which is called only if the column is asked for.
    Lazy: TypeAlias = "Any | Callable[[], Any]"
    Batches: TypeAlias = "Iterator[dict[str, Lazy]]"

__all__ = ["HistoryTables"]

RowT = TypeVar("RowT", bound=np.int32 | np.int64)

_ROWS = 2**17
_PAIRS = 2**20
# Statements of others are answered, too: how many bins of attributes there may be.
_MOST_CELLS = 20_000_000
_INT64 = np.iinfo(np.int64)
_ANY = Limits()
# A dictionary with many more strings than rows is reduced to the strings that the rows use.
_STRINGS_PER_ROW = 4


class HistoryTables:
    """The tables of a history as it is when this is made.

    Args:
        history: The history.
        handle: What the table `handle` has as its only row; without one there is no such table.

    Attributes:
        failure: Why a table could not be read, if one could not.
    """

    def __init__(self, history: History, handle: Handle | None = None) -> None:
        self._history = history.snapshot()
        self._named = handle
        self._pyarrow = need("pyarrow", "SQL", "sql")
        self.failure: Exception | None = None

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return table_names(handle=self._named is not None)

    def read(self, table: str, columns: Sequence[str], limits: LimitsOf) -> Any:
        """Return a `RecordBatchReader` of columns of a table: at least the rows within limits.

        Raises:
            KeyError: If there is no such table or column.
        """
        if table not in self.names:
            raise KeyError(table)
        kinds = columns_of(table)
        schema = schema_of({name: kinds[name] for name in columns})
        batches: Batches = getattr(self, f"_{table.removeprefix('meantime_')}")(limits)
        return self._pyarrow.RecordBatchReader.from_batches(
            schema, self._arrow_batches(batches, kinds, schema)
        )

    def _arrow_batches(
        self, batches: Batches, kinds: Mapping[str, str], schema: Any
    ) -> Iterator[Any]:
        arrow = _Arrow(self._pyarrow)
        try:
            for batch in batches:
                arrays = [arrow.array(_made(batch[name]), kinds[name]) for name in schema.names]
                yield self._pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
        except Exception as error:
            # what reads the batches reports it among much else, and with all of its traceback
            self.failure = error
            raise

    def _bounds(self, _: LimitsOf) -> Batches:
        start_ns, end_ns = self._history.bounds
        clock = self._history.clock
        yield {
            "start_ns": [start_ns],
            "end_ns": [end_ns],
            "duration_ns": [end_ns - start_ns],
            "clock": [clock.kind],
            "host": [clock.host],
            "utc_at_origin_ns": [clock.utc_at_origin_ns],
            "title": [self._history.title],
        }

    def _facts(self, _: LimitsOf) -> Batches:
        facts = self._history.facts
        yield {"name": [*facts], "value": [*facts.values()]}

    def _anomalies(self, _: LimitsOf) -> Batches:
        anomalies = self._history.anomalies
        yield {
            "name": [*anomalies],
            "count": [anomalies[name] for name in anomalies],
            "meaning": [CATALOGUE[name] for name in anomalies],
        }

    def _lost(self, _: LimitsOf) -> Batches:
        lost = np.array([*self._history.lost], np.int64).reshape(-1, 2)
        start_ns, end_ns = lost[:, 0].copy(), lost[:, 1].copy()
        yield {"start_ns": start_ns, "end_ns": end_ns, "duration_ns": end_ns - start_ns}

    def _attributes(self, limits: LimitsOf) -> Batches:
        tree = self._history.attributes

        def batch(quarks: Int32s) -> dict[str, Lazy]:
            return {
                "quark": quarks,
                # outermost attributes have the parent -1
                "parent": lambda: np.ma.masked_less(tree.parents(quarks), 0),
                "name": lambda: self._text(*tree.name_texts(quarks)),
                "path": lambda: self._paths(quarks),
                "has_values": lambda: self._history.has_values(quarks),
            }

        return map(batch, _parts(self._quarks(limits, "quark", "path")))

    def _names(self, _: LimitsOf) -> Batches:
        names = self._history.names
        yield {"quark": np.array([*names], np.int32), "name": [*names.values()]}

    def _processes(self, _: LimitsOf) -> Batches:
        tree, names = self._history.attributes, self._history.names
        quarks = self._below_hosts(PROCESSES)
        yield {
            "process": quarks,
            "pid": self._text(*tree.name_texts(quarks)),
            "process_name": [names.get(quark) for quark in quarks.tolist()],
        }

    def _threads(self, _: LimitsOf) -> Batches:
        history = self._history
        quarks = self._thread_quarks()
        found = threads_of(history, quarks.tolist())
        yield {
            "thread": quarks,
            "tid": [None if each.tid is None else str(each.tid) for each in found],
            "thread_name": [each.name for each in found],
            "process": self._processes_of(quarks),
            "pid": [None if each.pid == "" else str(each.pid) for each in found],
            "process_name": [each.process for each in found],
        }

    def _lanes(self, _: LimitsOf) -> Batches:
        lanes = self._history.lanes
        sizes = [len(lane.quarks) for lane in lanes]
        number = np.repeat(np.arange(len(lanes), dtype=np.int32), sizes)

        def of_each(texts: list[str | None]) -> Coded:
            coded = Coded.of(texts)
            return Coded(coded.codes[number], coded.names)

        declared = [lane.declaration for lane in lanes]
        yield {
            "lane": number,
            "quark": np.concatenate([np.empty(0, np.int32), *(lane.quarks for lane in lanes)]),
            "kind": of_each([each.kind for each in declared]),
            "label": of_each([each.label for each in declared]),
            "unit": of_each([each.unit for each in declared]),
            "entity_kind": of_each([each.entity_kind for each in declared]),
        }

    def _states(self, _: LimitsOf) -> Batches:
        rows = [
            (lane.declaration.pattern, state)
            for lane in self._history.lanes
            for state in lane.declaration.states
        ]
        yield {
            "pattern": [pattern for pattern, _ in rows],
            "state": [state.name for _, state in rows],
            "number": np.array([state.value for _, state in rows], np.int64),
            "color": [state.color for _, state in rows],
        }

    def _intervals(self, limits: LimitsOf) -> Batches:
        quarks = self._quarks(limits, "quark", "attribute")
        return self._intervals_of(quarks, limits)

    def _counters(self, limits: LimitsOf) -> Batches:
        lanes = [lane for lane in self._history.lanes if lane.declaration.kind == "counter"]
        units = {quark: lane.declaration.unit for lane in lanes for quark in lane.quarks.tolist()}
        counted = np.array(sorted(units), np.int32)
        quarks = self._quarks(limits, "quark", "attribute")
        quarks = quarks[np.isin(quarks, counted)]
        texts = Coded.of([units[quark] for quark in counted.tolist()])
        own = {name: each for name, each in limits.items() if name != "value"}
        for batch in self._intervals_of(quarks, own):
            index = np.searchsorted(counted, _made(batch["quark"]))
            yield {
                **batch,
                "value": batch["numbers"],
                "unit": Coded(texts.codes[index], texts.names),
            }

    def _intervals_of(self, quarks: Int32s, limits: LimitsOf) -> Batches:
        """Yield the intervals of attributes, without those that limits exclude as a whole."""
        history = self._history
        now = moment(history, derived=True)
        window_ns = now.window_ns()
        range_ns = _range(limits, window_ns)
        # a history in which no time passes has no intervals
        if range_ns is None or history.start_ns >= history.end_ns:
            return
        quarks = _having(history, quarks, now.kinds, limits, range_ns)
        if not len(quarks):
            return
        for part in history.interval_batches(quarks, *range_ns, rows=_ROWS):
            yield self._interval_columns(part, window_ns)

    def _interval_columns(self, part: Intervals, window_ns: tuple[int, int]) -> dict[str, Lazy]:
        # at the edges of the asked range they stay whole, but not at those of the trace
        start_ns = np.maximum(part.start_ns, window_ns[0])
        end_ns = np.minimum(part.end_ns, window_ns[1])
        return {
            "quark": part.quark,
            "attribute": lambda: self._paths_of(part.quark),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "duration_ns": lambda: end_ns - start_ns,
            "value": lambda: self._texts(part.value),
            "value_int": lambda: _of_kind(part.value, 2),
            "value_float": lambda: _of_kind(part.value, 3),
            "numbers": lambda: _numbers(part.value),
            "tag": lambda: np.ma.masked_less(part.tag, 0),
        }

    def _tags(self, _: LimitsOf) -> Batches:
        rows = [
            (tag, field, value if isinstance(value, str) else json.dumps(value))
            for tag, fields in enumerate(self._history.tags)
            for field, value in fields.items()
        ]
        yield {
            "tag": np.array([tag for tag, _, _ in rows], np.int32),
            "field": [field for _, field, _ in rows],
            "value": [value for _, _, value in rows],
        }

    @cached_property
    def spans(self) -> SpanTable:
        """All spans: what is outside of the limits decides about parents and times within."""
        return self._history.spans()

    @cached_property
    def _self_ns(self) -> Int64s:
        return self.spans.self_ns

    def _spans(self, limits: LimitsOf) -> Batches:
        return map(self._span_columns, _parts(_span_rows(self.spans, limits)))

    def _span_columns(self, rows: Int64s) -> dict[str, Lazy]:
        spans = self.spans
        thread = spans.threads[np.searchsorted(spans.offsets, rows, side="right") - 1]
        start_ns, end_ns = spans.start_ns[rows], spans.end_ns[rows]
        return {
            "span": lambda: spans.rows[rows],
            "thread": thread,
            "process": lambda: self._processes_of(thread),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "duration_ns": lambda: end_ns - start_ns,
            "self_ns": lambda: self._self_ns[rows],
            "name": lambda: _rows_of(spans.name, rows),
            "category": lambda: _rows_of(spans.category, rows),
            "depth": lambda: spans.depth[rows],
            "lane": lambda: spans.lane[rows],
            "parent": lambda: self._numbered(spans.parent[rows]),
            "unfinished": lambda: spans.unfinished[rows],
            "arguments": lambda: [*map(spans.arguments, rows.tolist())],
        }

    def _points(self, limits: LimitsOf) -> Batches:
        low, high = _low_high(limits.get("time_ns", _ANY))
        points = self._history.points(start_ns=low, end_ns=None if high is None else high + 1)
        wanted = _coded_as(points.name, limits.get("name", _ANY))
        rows = np.flatnonzero(wanted & _among(points.quark, limits.get("quark", _ANY)))

        def batch(rows: Int64s) -> dict[str, Lazy]:
            return {
                "time_ns": points.time_ns[rows],
                "quark": points.quark[rows],
                "name": lambda: _rows_of(points.name, rows),
                "arguments": lambda: [*map(points.arguments, rows.tolist())],
            }

        return map(batch, _parts(rows))

    def _samples(self, limits: LimitsOf) -> Batches:
        low, high = _low_high(limits.get("time_ns", _ANY))
        samples = self._history.samples(
            start_ns=low, end_ns=None if high is None else high + 1, event=ALL_EVENTS
        )
        units = Coded.of([samples.units.get(event) for event in samples.event.names])
        wanted = _coded_as(samples.event, limits.get("event", _ANY))
        rows = np.flatnonzero(wanted & _among(samples.thread, limits.get("thread", _ANY)))

        def batch(rows: Int64s) -> dict[str, Lazy]:
            part = samples.rows(rows)
            return {
                "time_ns": part.time_ns,
                "thread": part.thread,
                "process": lambda: self._processes_of(part.thread),
                "stack": lambda: np.ma.masked_less(part.stack, 0),
                "weight": part.weight,
                "unit": lambda: Coded(units.codes[part.event.codes], units.names),
                "event": part.event,
                "name": part.name,
                "cpu": lambda: np.ma.masked_less(part.cpu, 0),
            }

        return map(batch, _parts(rows))

    def _stacks(self, _: LimitsOf) -> Batches:
        stacks = self._history.samples(event=ALL_EVENTS).stacks
        yield {
            "stack": np.arange(len(stacks), dtype=np.int32),
            "parent": np.ma.masked_less(stacks.parent, 0),
            "frame": stacks.frame,
            "depth": lambda: _depths(stacks.parent),
        }

    def _frames(self, _: LimitsOf) -> Batches:
        frames = self._history.samples(event=ALL_EVENTS).stacks.frames
        number = np.arange(len(frames), dtype=np.int32)
        yield {"frame": number, "name": Coded(number, frames)}

    def _flows(self, limits: LimitsOf) -> Batches:
        flows = self._history.flows()
        wanted = _coded_as(flows.name, limits.get("name", _ANY))
        for name in ("from_ns", "from_quark", "to_ns", "to_quark"):
            wanted &= _among(getattr(flows, name), limits.get(name, _ANY))

        def batch(rows: Int64s) -> dict[str, Lazy]:
            from_ns, from_quark = flows.from_ns[rows], flows.from_quark[rows]
            to_ns, to_quark = flows.to_ns[rows], flows.to_quark[rows]
            return {
                "flow": rows,
                "name": _rows_of(flows.name, rows),
                "from_ns": from_ns,
                "from_quark": from_quark,
                "from_span": lambda: self._innermost(from_quark, from_ns),
                "from_state": lambda: self._state_at(from_quark, from_ns),
                "to_ns": to_ns,
                "to_quark": to_quark,
                "to_span": lambda: self._innermost(to_quark, to_ns),
                "to_state": lambda: self._state_at(to_quark, to_ns),
            }

        return map(batch, _parts(np.flatnonzero(wanted)))

    @cached_property
    def _found(self) -> list[Finding]:
        from meantime.query.findings import findings  # noqa: PLC0415 - for this table alone

        return findings(self._history)

    def _findings(self, _: LimitsOf) -> Batches:
        found = self._found
        yield {
            "finding": np.arange(len(found), dtype=np.int32),
            "kind": [each.kind for each in found],
            "sentence": [each.sentence for each in found],
            "lost_ns": np.array([each.lost_ns for each in found], np.int64),
            "start_ns": np.array([each.start_ns for each in found], np.int64),
            "end_ns": np.array([each.end_ns for each in found], np.int64),
            "count": np.array([each.count for each in found], np.int64),
            "path": [each.rows[0] if each.rows else None for each in found],
        }

    def _asked_range(self, limits: LimitsOf) -> tuple[tuple[int, int] | None, tuple[int, int]]:
        """Return the range that a function is asked about, in the bounds, and as it was given."""
        given = (
            _argument(limits, "asked_from_ns", "the beginning of the range"),
            _argument(limits, "asked_to_ns", "the end of the range"),
        )
        window_ns = moment(self._history, derived=False).window_ns()
        start_ns, end_ns = max(given[0], window_ns[0]), min(given[1], window_ns[1])
        is_empty = start_ns >= end_ns or self._history.start_ns >= self._history.end_ns
        return None if is_empty else (start_ns, end_ns), given

    def _shares(self, limits: LimitsOf) -> Batches:
        history = self._history
        bins = _argument(limits, "asked_bins", "the number of bins")
        range_ns, given = self._asked_range(limits)
        quarks = self._quarks(limits, "quark", "attribute")
        quarks = quarks[history.has_values(quarks)]
        if not len(quarks) or range_ns is None:
            return
        if not isinstance(bins, int) or not 1 <= bins <= _MOST_CELLS // len(quarks):
            raise UsageError(
                f"shares has from 1 to {_MOST_CELLS // len(quarks):,} bins for {len(quarks):,}"
                f" attributes, and not {bins!r}; select attributes for more"
            )
        found = history.shares(quarks, *range_ns, bins=bins).columns()
        start_ns, end_ns = range_ns
        edges_ns = np.array(
            [start_ns - (start_ns - end_ns) * each // bins for each in range(bins + 1)], np.int64
        )
        quark, number, value = found["quark"], found["bin"], found["value"]
        assert isinstance(quark, np.ndarray)
        assert isinstance(number, np.ndarray)
        assert isinstance(value, Coded | Mixed)
        yield {
            **_asked(len(quark), bins=bins, from_ns=given[0], to_ns=given[1]),
            "bin": number,
            "start_ns": lambda: edges_ns[number],
            "end_ns": lambda: edges_ns[number + 1],
            "quark": quark,
            "attribute": lambda: self._paths_of(quark),
            "value": lambda: self._texts(value),
            "value_int": lambda: _of_kind(value, 2),
            "value_float": lambda: _of_kind(value, 3),
            "duration_ns": found["ns"],
        }

    def _durations(self, limits: LimitsOf) -> Batches:
        by = _argument(limits, "asked_by", "what durations are grouped by")
        range_ns, given = self._asked_range(limits)
        groupings = ("state", "entity", "name", "category", "thread")
        if by not in groupings:
            raise UsageError(f"durations are by {', '.join(groupings)}, and not by {by!r}")
        if range_ns is None:
            return
        is_whole = range_ns == moment(self._history, derived=False).window_ns()
        start_ns, end_ns = (None, None) if is_whole else range_ns
        found = stats(self._history, by, start_ns=start_ns, end_ns=end_ns).columns()
        rows = len(found["count"])
        missing = [None] * rows
        name = found.get("state", found.get("key", found.get("path")))
        yield {
            **_asked(rows, by=by, from_ns=given[0], to_ns=given[1]),
            **{
                column: found.get(column, missing)
                for column in columns_of("meantime_durations")
                if not column.startswith("asked_")
            },
            "name": name,
        }

    def _span_states(self, limits: LimitsOf) -> Batches:
        # times are those of states within the span
        of_spans = {name: each for name, each in limits.items() if not name.endswith("_ns")}
        spans, history = self.spans, self._history
        rows = _span_rows(spans, of_spans)
        thread = np.searchsorted(spans.offsets, rows, side="right") - 1
        for index in distinct(thread).tolist():
            status = self._status_of(int(spans.threads[index]))
            own = rows[thread == index]
            low, high = int(spans.start_ns[own].min()), int(spans.end_ns[own].max())
            low, high = max(low, history.start_ns), min(high, history.end_ns)
            if status is None or low >= high:
                continue
            states = history.intervals(status, low, high)
            for row, part in _overlapping(spans, own, states):
                yield self._span_state_columns(row, states, part)

    def _span_state_columns(self, rows: Int64s, states: Intervals, part: Int64s) -> dict[str, Lazy]:
        spans = self.spans
        start_ns = np.maximum(spans.start_ns[rows], states.start_ns[part])
        end_ns = np.minimum(spans.end_ns[rows], states.end_ns[part])

        def state() -> Any:
            texts = _Arrow(self._pyarrow).array(self._texts(states.value), "text")
            return texts.take(self._pyarrow.array(part))

        return {
            **self._span_columns(rows),
            "quark": lambda: states.quark[part],
            "state": state,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "duration_ns": lambda: end_ns - start_ns,
        }

    def _status_of(self, thread: int) -> int | None:
        """Return the attribute of the states of a thread with spans."""
        history = self._history
        status = history.find(STATUS, parent=thread)
        if status is not None:
            return status
        path = history.attributes.path(thread)
        _, below = host_and_path(path)
        host = path[: len(path) - len(below)]
        return history.attributes.find(*host, THREADS, path[-1], STATUS)

    def _ancestors(self, limits: LimitsOf) -> Batches:
        spans = self.spans
        asked = np.flatnonzero(_among(spans.rows, limits.get("asked_span", _ANY)))
        for first in range(0, len(asked), _ROWS):
            for row, above, distance in _above(spans, asked[first : first + _ROWS]):
                yield {
                    **self._span_columns(above),
                    "asked_span": spans.rows[row],
                    "distance": np.full(len(row), distance, np.int32),
                }

    def _descendants(self, limits: LimitsOf) -> Batches:
        spans = self.spans
        is_asked = _among(spans.rows, limits.get("asked_span", _ANY))
        asked = np.flatnonzero(is_asked)
        if not len(asked):
            return
        # what is inside of a span comes after it, on its thread, and begins before its end
        last = spans.offsets[np.searchsorted(spans.offsets, asked, side="right")]
        below = np.arange(int(asked.min()), int(last.max()))
        end_ns = int(spans.end_ns[asked].max())
        below = below[spans.start_ns[below] <= end_ns]
        for first in range(0, len(below), _ROWS):
            for row, above, distance in _above(spans, below[first : first + _ROWS]):
                wanted = is_asked[above]
                yield {
                    **self._span_columns(row[wanted]),
                    "asked_span": spans.rows[above[wanted]],
                    "distance": np.full(int(wanted.sum()), distance, np.int32),
                }

    def _critical_path(self, limits: LimitsOf) -> Batches:
        from meantime.query.critical_path import critical_path  # noqa: PLC0415 - for this alone

        thread = _argument(limits, "asked_thread", "the thread of a critical path")
        range_ns, given = self._asked_range(limits)
        if range_ns is None:
            return
        is_whole = range_ns == moment(self._history, derived=False).window_ns()
        start_ns, end_ns = (None, None) if is_whole else range_ns
        path = critical_path(
            self._history,
            thread,
            start=None if start_ns is None else f"abs:{start_ns}",
            end=None if end_ns is None else f"abs:{end_ns}",
        )
        found = path.columns()
        yield {
            **found,
            **_asked(len(path), thread=thread, from_ns=given[0], to_ns=given[1]),
            "duration_ns": path.end_ns - path.start_ns,
            "thread_name": found["title"],
        }

    def _handle(self, _: LimitsOf) -> Batches:
        handle = self._named
        assert handle is not None
        yield {
            "path": [handle.path],
            "quark": [handle.quark],
            "span": [handle.span],
            "time_ns": [handle.time_ns],
            "start_ns": [handle.start_ns],
            "end_ns": [handle.end_ns],
        }

    def _quarks(self, limits: LimitsOf, number: str, path: str) -> Int32s:
        """Return the attributes within the limits of a column of them and of one of their paths."""
        tree = self._history.attributes
        of_number = limits.get(number, _ANY)
        among = limits.get(path, _ANY).among
        names = None if among is None else _names_of(among)
        if names is not None:
            named = [tree.find(*each) for each in names]
            quarks = np.array(sorted(each for each in named if each is not None), np.int32)
            return quarks[_among(quarks, of_number)]
        low, high = _low_high(of_number)
        first = 0 if low is None else max(0, low)
        last = len(tree) if high is None else min(len(tree), high + 1)
        quarks = np.arange(first, max(first, last), dtype=np.int32)
        return quarks[_among(quarks, of_number)]

    def _below_hosts(self, name: str) -> Int32s:
        """Return the children of an attribute of this name at the top, and of that of each host."""
        history = self._history
        found = [history.quarks((name, *_ANY_NAME))]
        above: tuple[Any, ...] = ()
        while True:
            above = (*above, HOSTS, *_ANY_NAME)
            if not len(history.quarks(above)):
                return np.concatenate(found)
            found.append(history.quarks((*above, name, *_ANY_NAME)))

    def _thread_quarks(self) -> Int32s:
        history = self._history
        found = [
            self.spans.threads,
            distinct(history.samples(event=ALL_EVENTS).thread),
            self._below_hosts(THREADS),
        ]
        tree = history.attributes
        for process in self._below_hosts(PROCESSES).tolist():
            threads = history.find(THREADS, parent=process)
            if threads is not None:
                found.append(tree.children(threads))
        return distinct(np.concatenate(found))

    def _processes_of(self, quarks: Int32s) -> Any:
        """Return the process of each attribute; masked where there is none."""
        tree = self._history.attributes
        used, index = np.unique(quarks, return_inverse=True)
        found = np.full(len(used), -1, np.int32)
        for row, quark in enumerate(used.tolist()):
            path = tree.path(quark)
            _, below = host_and_path(path)
            if process_id(below) is not None:
                process = tree.find(*path[: len(path) - len(below) + 2])
                found[row] = -1 if process is None else process
        return np.ma.masked_less(found[index], 0)

    def _numbered(self, rows: Int32s | Int64s) -> Any:
        """Return the numbers of spans, given their rows; masked where there is none."""
        numbers = np.append(self.spans.rows, np.int32(-1))[rows]
        return np.ma.masked_less(numbers, 0)

    def _innermost(self, quarks: Int32s, times_ns: Int64s) -> Any:
        """Return the number of the innermost span of each thread at a time."""
        return self._numbered(innermost(self.spans, quarks, times_ns))

    def _state_at(self, quarks: Int32s, times_ns: Int64s) -> Any:
        """Return the state of each attribute, or of the status below it, at a time."""
        history = self._history
        used, index = np.unique(quarks, return_inverse=True)
        stated = used.copy()
        for row in np.flatnonzero(~history.has_values(used)).tolist():
            status = history.find(STATUS, parent=int(used[row]))
            stated[row] = used[row] if status is None else status
        inside = (times_ns >= history.start_ns) & (times_ns < history.end_ns)
        values = history.states(stated[index][inside], times_ns[inside]).value
        texts = _Arrow(self._pyarrow).array(self._texts(values), "text")
        rows = np.cumsum(inside) - 1
        return texts.take(self._pyarrow.array(rows, mask=~inside))

    def _paths(self, quarks: Int32s) -> Any:
        return self._text(*self._history.attributes.texts(quarks))

    def _paths_of(self, quark: Int32s) -> Any:
        """Return the paths of a column in which attributes recur."""
        used, index = np.unique(quark, return_inverse=True)
        return self._pyarrow.DictionaryArray.from_arrays(index.astype(np.int32), self._paths(used))

    def _text(self, text: bytes, offsets: Int32s) -> Any:
        pyarrow = self._pyarrow
        return pyarrow.StringArray.from_buffers(
            len(offsets) - 1, pyarrow.py_buffer(offsets), pyarrow.py_buffer(text)
        )

    def _texts(self, value: Values) -> Any:
        """Return values as text."""
        if isinstance(value, Coded) or not (value.kinds > STR).any():
            return value if isinstance(value, Coded) else _strings(value)
        pyarrow = self._pyarrow
        kinds = value.kinds
        column = pyarrow.array(value.words, mask=kinds != 2).cast(pyarrow.string())
        if (kinds == 3).any():
            floats = pyarrow.array(value.words.view(np.float64), mask=kinds != 3)
            column = pyarrow.compute.coalesce(column, floats.cast(pyarrow.string()))
        if (kinds == STR).any():
            texts = _Arrow(pyarrow).array(_strings(value), "text").cast(pyarrow.string())
            column = pyarrow.compute.coalesce(texts, column)
        return column


# A name of any attribute, in a pattern.
_ANY_NAME = tuple(parse_pattern("*"))


class _Arrow:
    """Makes arrays of columns; the strings of one dictionary are converted once."""

    def __init__(self, pyarrow: Any) -> None:
        self._pyarrow = pyarrow
        self._dictionaries: dict[int, tuple[Sequence[str], Any]] = {}

    def array(self, column: Any, kind: str) -> Any:
        """Return a column as an array of a type."""
        pyarrow = self._pyarrow
        if isinstance(column, Coded):
            return self._coded(column)
        if isinstance(column, list):
            column = pyarrow.array(column, pyarrow.string() if kind == "text" else None)
        if kind == "text":
            if pyarrow.types.is_dictionary(column.type):
                return column
            return column.dictionary_encode()
        return pyarrow.array(column).cast(schema_of({"": kind}).field(0).type)

    def _coded(self, column: Coded) -> Any:
        pyarrow = self._pyarrow
        codes, names = column.codes, column.names
        known = self._dictionaries.get(id(names))
        if known is None and len(names) > _STRINGS_PER_ROW * len(codes):
            used, ranks = np.unique(codes, return_inverse=True)
            missing = int(np.count_nonzero(used < 0))
            texts = pyarrow.array(
                [names[code] for code in used[missing:].tolist()], pyarrow.string()
            )
            codes = ranks.astype(np.int32) - np.int32(missing)
        else:
            if known is None:
                known = names, pyarrow.array([*names], pyarrow.string())
                self._dictionaries[id(names)] = known
            texts = known[1]
        mask = codes < 0
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=mask), texts)


def innermost(spans: SpanTable, quarks: Int32s, times_ns: Int64s) -> Int64s:
    """Return the row of the innermost span of each thread at a time, or -1.

    An empty span is there at its time, and a span no longer at its end.
    """
    found = np.full(len(quarks), -1, np.int64)
    order = np.argsort(spans.threads)
    threads = spans.threads[order]
    for quark in distinct(quarks).tolist():
        index = int(np.searchsorted(threads, quark))
        if index == len(threads) or threads[index] != quark:
            continue
        first, last = spans.offsets[order[index]], spans.offsets[order[index] + 1]
        asked = np.flatnonzero(quarks == quark)
        start_ns = spans.start_ns[first:last]
        row = np.searchsorted(start_ns, times_ns[asked], side="right") - 1 + first
        row[row < first] = -1
        while True:
            # the latest begun span may have ended, and what it is in may not
            at = np.flatnonzero(row >= 0)
            ends, begins = spans.end_ns[row[at]], spans.start_ns[row[at]]
            time_ns = times_ns[asked[at]]
            over = at[(ends <= time_ns) & ~((ends == begins) & (begins == time_ns))]
            if not len(over):
                break
            row[over] = spans.parent[row[over]]
        found[asked] = row
    return found


def _argument(limits: LimitsOf, name: str, what: str) -> Any:
    """Return the argument of a function.

    Raises:
        UsageError: If it is not one value.
    """
    low, high, among = limits.get(name, _ANY)
    if among is None and low is not None and low == high:
        return low
    if among is None or len(among) != 1:
        raise UsageError(
            f"{what} has to be a constant or a parameter, and an integer if it is a number"
        )
    return next(iter(among))


def _asked(rows: int, **arguments: Any) -> dict[str, Lazy]:
    """Return the columns with the arguments of a function."""
    return {f"asked_{name}": [value] * rows for name, value in arguments.items()}


def _above(spans: SpanTable, rows: Int64s) -> Iterator[tuple[Int64s, Int64s, int]]:
    """Yield of each of some spans what it is in, and how far above that is."""
    above = spans.parent[rows]
    distance = 1
    while (is_in := above >= 0).any():
        rows, above = rows[is_in], above[is_in]
        yield rows, above.astype(np.int64), distance
        above = spans.parent[above]
        distance += 1


def _overlapping(
    spans: SpanTable, rows: Int64s, states: Intervals
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield rows of spans of one thread and of its states that overlap, some at a time."""
    start_ns, end_ns = spans.start_ns[rows], spans.end_ns[rows]
    first = np.searchsorted(states.end_ns, start_ns, side="right")
    last = np.searchsorted(states.start_ns, end_ns, side="left")
    counts = np.where(start_ns < end_ns, np.maximum(last - first, 0), 0)
    for begin, end in cut_groups(counts, _PAIRS):
        own = counts[begin:end]
        offsets = np.cumsum(own) - own
        part = np.arange(int(own.sum())) + np.repeat(first[begin:end] - offsets, own)
        yield np.repeat(rows[begin:end], own), part


def _parts(rows: npt.NDArray[RowT]) -> Iterator[npt.NDArray[RowT]]:
    return (rows[first : first + _ROWS] for first in range(0, len(rows), _ROWS))


def _made(column: Lazy) -> Any:
    return column() if callable(column) else column


def _low_high(limits: Limits) -> tuple[int | None, int | None]:
    """Return the least and the greatest integer of a column; a least one above that for none."""
    low, high = limits.low, limits.high
    if limits.among is not None:
        values = [each for each in limits.among if isinstance(each, int)]
        if not values:
            return 1, 0
        low = min(values) if low is None else max(low, min(values))
        high = max(values) if high is None else min(high, max(values))
    low = None if low is None else max(_INT64.min, min(low, _INT64.max - 1))
    return low, None if high is None else max(_INT64.min, min(high, _INT64.max - 1))


def _range(limits: LimitsOf, window_ns: tuple[int, int]) -> tuple[int, int] | None:
    """Return a range that all intervals overlap that are within limits; None if there are none."""
    start, end = (_low_high(limits.get(name, _ANY)) for name in ("start_ns", "end_ns"))
    low = max(
        window_ns[0] if start[0] is None else start[0],
        window_ns[0] if end[0] is None else end[0] - 1,
        window_ns[0],
    )
    high = min(
        window_ns[1] if start[1] is None else start[1] + 1,
        window_ns[1] if end[1] is None else end[1],
        window_ns[1],
    )
    if low >= window_ns[1] or high <= window_ns[0]:
        return None
    # an interval that contains all of the range between contains its beginning
    return (low, high) if low < high else (high - 1, high)


def _having(
    history: History,
    quarks: Int32s,
    kinds: npt.NDArray[np.uint8],
    limits: LimitsOf,
    range_ns: tuple[int, int],
) -> Int32s:
    """Return the attributes that may have the values of limits in a range."""
    if any(limits.get(name, _ANY) != _ANY for name in ("value_int", "value_float")):
        quarks = quarks[kinds[quarks] > STR]
    among = limits.get("value", _ANY).among
    if among is None or len(among) > 1:
        return quarks
    texts = quarks[kinds[quarks] <= STR]
    if not among or not len(texts):
        return quarks if among else quarks[:0]
    has = history.count(texts, *range_ns, value=str(next(iter(among)))) > 0
    return np.sort(np.concatenate([texts[has], quarks[kinds[quarks] > STR]]))


def _span_rows(spans: SpanTable, limits: LimitsOf) -> Int64s:
    """Return the rows of the spans within limits."""
    start, end = (_low_high(limits.get(name, _ANY)) for name in ("start_ns", "end_ns"))
    lows = [each for each in (start[0], None if end[0] is None else end[0] - 1) if each is not None]
    highs = [each + 1 for each in (start[1], end[1]) if each is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None and low >= high:
        low = high - 1
    thread = limits.get("thread", _ANY)
    quarks = spans.threads[_among(spans.threads, thread)]
    part = spans.by_index().select(quarks, start_ns=low, end_ns=high)
    rows: Int64s = part.rows.astype(np.int64)
    for name in ("span", "depth"):
        if limits.get(name, _ANY) != _ANY:
            column = spans.rows if name == "span" else spans.depth
            rows = rows[_among(column[rows], limits[name])]
    for name in ("name", "category"):
        if limits.get(name, _ANY).among is not None:
            rows = rows[_coded_as(_rows_of(getattr(spans, name), rows), limits[name])]
    return rows


def _among(column: npt.NDArray[Any], limits: Limits) -> npt.NDArray[np.bool_]:
    """Return which numbers are within limits."""
    wanted = np.ones(len(column), np.bool_)
    low, high = _low_high(limits)
    if low is not None:
        wanted &= column >= low
    if high is not None:
        wanted &= column <= high
    if limits.among is not None and len(limits.among) > 1:
        values = [each for each in limits.among if isinstance(each, int)]
        values = [each for each in values if _INT64.min <= each <= _INT64.max]
        wanted &= np.isin(column, np.array(values, np.int64))
    return wanted


def _coded_as(column: Coded, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return which strings are among those of limits."""
    if limits.among is None:
        return np.ones(len(column), np.bool_)
    codes = [code for code, name in enumerate(column.names) if name in limits.among]
    return np.isin(column.codes, codes)


def _rows_of(column: Coded, rows: Int64s) -> Coded:
    return Coded(column.codes[rows], column.names)


def _names_of(texts: Iterable[int | str]) -> list[tuple[str, ...]] | None:
    """Return the names of paths in text form; None if one is a pattern."""
    found = []
    for text in texts:
        try:
            elements = parse_pattern(str(text))
        except UsageError:
            return None
        names = tuple(each for each in elements if isinstance(each, str))
        if not names or len(names) < len(elements):
            return None
        found.append(names)
    return found


def _strings(value: Mixed) -> Coded:
    return Coded(np.where(value.kinds == STR, value.words, -1).astype(np.int32), value.names)


def _of_kind(value: Values, kind: int) -> Any:
    """Return the numbers of one type; masked where there is none."""
    if isinstance(value, Coded):
        return [None] * len(value)
    words = value.words if kind == 2 else value.words.view(np.float64)
    return np.ma.masked_array(words, value.kinds != kind)


def _numbers(value: Values) -> Any:
    """Return numbers as doubles; masked where there is none."""
    if isinstance(value, Coded):
        return [None] * len(value)
    return np.ma.masked_array(value.numbers(), value.kinds <= STR)


def _depths(parent: Int32s) -> Int32s:
    """Return how many callers each stack has; a parent comes before its children."""
    depths = np.zeros(len(parent), np.int32)
    above = parent.copy()
    while (has := above >= 0).any():
        depths += has
        above = np.where(has, parent[above], np.int32(-1))
    return depths
