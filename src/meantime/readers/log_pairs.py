"""Pairs of events of a log as spans: a job from `job_started` to `job_finished`.

A begin and an end belong together if their `by` fields are equal. A pair whose `by` begins with
that of another one is inside it: a step of a job. When the job ends, its open steps end with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from meantime.errors import InputError
from meantime.kernels.log_pairs import Matches
from meantime.model.attribute_paths import thread_path
from meantime.model.columns import Interner
from meantime.model.trace import Arguments, SpanFlag, Spans
from meantime.readers.private_fields import is_private
from meantime.readers.services.lanes import lanes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.column_mapping import ColumnMapping, Pair
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.events import Events
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions

__all__ = ["paired"]

_Key = str | tuple[str, ...]
_ALL = "log"
_MOST_LISTED = 12
_MOST_NUMBERS = 1 << 20
_ENCODER = json.JSONEncoder(ensure_ascii=False)
# Where the name of an event is in the fields of a span that it ended.
_END, _ENDED_BY = "end", "ended_by"


class _Open(NamedTuple):
    """A span that is open after a batch; `parent` is an index among those."""

    row: int
    pair: int
    key: _Key
    parent: int
    fields: dict[str, Any]


class _Ends(NamedTuple):
    """Columns of spans that ended."""

    row: Int64s
    end_ns: Int64s
    is_finished: npt.NDArray[np.bool_]
    offset: Int64s
    length: Int32s


class _Actions(NamedTuple):
    """Begins and ends in a batch; at each event, ends come first."""

    row: Int64s
    pair: Int32s
    is_begin: npt.NDArray[np.uint8]


def paired(
    batches: Iterator[Events], mapping: ColumnMapping, trace: Trace, options: ReadOptions
) -> Iterator[Batch]:
    """Yield the events of a log that belong to no pair, and the spans of the others.

    Raises:
        InputError: If a pair never occurs.
    """
    pairs = _Pairs(mapping, trace, private=options.private)
    for batch in batches:
        yield batch
        if options.events:
            continue
        pairs.add(batch)
    if not options.events:
        pairs.check()
        yield from pairs.spans()


class _Pairs:
    """Collects the spans of one log; a row is a span, in order of its begin."""

    def __init__(self, mapping: ColumnMapping, trace: Trace, *, private: bool) -> None:
        self._pairs = mapping.pairs
        self._with_private = private
        self._entity = mapping.columns.get("entity", ())
        self._name = mapping.column("name")
        self._trace = trace
        # by name of an event: the pairs that it ends, and those that it begins
        self._roles: dict[str, tuple[list[int], list[int]]] = {}
        for number, pair in enumerate(mapping.pairs):
            for end in pair.ends:
                self._roles.setdefault(end, ([], []))[0].append(number)
            self._roles.setdefault(pair.begin, ([], []))[1].append(number)
        # by code of a name: the index of its role, or -1
        self._role_of = np.empty(0, np.int32)
        self._contains = [_containing(mapping.pairs, number) for number in range(len(self._pairs))]
        self._open: list[_Open] = []
        self._values = Interner(trace.values)
        titles = [_title(pair) for pair in mapping.pairs]
        self._titles = self._values.codes(titles)
        self._categories = Interner(trace.categories).codes(titles)
        self._entities: list[tuple[str, str]] = []
        self._codes = Interner(self._entities)
        # texts of the numbers that fields have
        self._numbers: dict[int, str] = {}
        self._last_ns = 0
        self._seen: dict[str, None] = {}
        self._events = 0
        self._rows = 0
        # of each batch, by row: begin, entity, label, pair, parent
        self._begins: list[tuple[Int64s, Int32s, Int32s, Int32s, Int64s]] = []
        self._ends: list[_Ends] = []

    def add(self, batch: Events) -> None:
        """Add events, after all that are earlier."""
        if not len(batch):
            return
        self._events += len(batch)
        self._last_ns = int(batch.time_ns[-1])
        self._note_names(batch)
        actions = self._actions(batch)
        if len(actions.row):
            self._match(batch, actions)

    def check(self) -> None:
        """Check that there are such events.

        Raises:
            InputError: If there is none.
        """
        if self._events and not self._rows:
            listed = ", ".join(sorted(self._seen)[:_MOST_LISTED])
            begins = " or ".join(repr(name) for name in dict.fromkeys(p.begin for p in self._pairs))
            raise InputError(
                self._trace.source, f"no event is called {begins}; the log has {listed}"
            )

    def _note_names(self, batch: Events) -> None:
        if len(self._seen) > _MOST_LISTED:
            return
        codes, first = np.unique(batch.name, return_index=True)
        for code in codes[np.argsort(first)].tolist():
            if len(self._seen) <= _MOST_LISTED:
                self._seen[batch.names[code]] = None

    def _actions(self, batch: Events) -> _Actions:
        """Return what begins and what ends in a batch."""
        index = {name: number for number, name in enumerate(self._roles)}
        # a name may have several codes
        known = len(self._role_of)
        new = [index.get(name, -1) for name in batch.names[known:]]
        self._role_of = np.append(self._role_of, np.array(new, np.int32))
        role = self._role_of[batch.name]
        found = []
        for number, numbers in enumerate(self._roles.values()):
            rows = np.flatnonzero(role == number)
            for is_begin, of in enumerate(numbers):
                found += [(rows, pair, is_begin) for pair in of]
        row = np.concatenate([rows for rows, _, _ in found])
        pairs = np.concatenate([np.full(len(rows), pair, np.int32) for rows, pair, _ in found])
        begins = np.concatenate([np.full(len(rows), of, np.uint8) for rows, _, of in found])
        order = np.lexsort((pairs, begins, row))
        return _Actions(row[order], pairs[order], begins[order])

    def _match(self, batch: Events, actions: _Actions) -> None:
        """Begin and end the spans of a batch."""
        keys: dict[tuple[str, ...], list[_Key]] = {}
        codes, counts, of_open = [], [], np.empty(len(self._open), np.int32)
        for number, pair in enumerate(self._pairs):
            if pair.by not in keys:
                keys[pair.by] = self._keys(batch, pair.by)
            own = [at for at, opened in enumerate(self._open) if opened.pair == number]
            names = [self._open[at].key for at in own]
            of_open[own] = np.arange(len(own))
            codes.append(Interner(names).codes(keys[pair.by]))
            counts.append(len(names))
        matches = Matches(
            np.array(counts, np.int32),
            self._contains,
            np.array([opened.pair for opened in self._open], np.int32),
            of_open,
            np.array([opened.parent for opened in self._open], np.int32),
            int(actions.is_begin.sum()),
        )
        matches.run(actions.row, actions.pair, actions.is_begin, codes)
        self._trace.anomalies.add("end_without_begin", matches.without_begin)
        self._trace.anomalies.add("begin_without_end", matches.without_end)
        before, count = len(self._open), matches.count
        row_of = np.append(
            np.array([opened.row for opened in self._open], np.int64),
            np.arange(self._rows, self._rows + count - before),
        )
        begun = slice(before, count)
        self._add_begins(batch, matches, begun, row_of)
        self._end_opened(batch, matches)
        closed = before + np.flatnonzero(matches.closed[begun] >= 0)
        self._end_begun(batch, matches, closed, row_of[closed])
        self._rows += count - before
        still = np.flatnonzero(matches.closed[:count] < 0).tolist()
        at = {span: number for number, span in enumerate(still)}
        opened = []
        for span in still:
            if span < before:
                each = self._open[span]
                opened.append(each._replace(parent=at.get(each.parent, -1)))
                continue
            event, number = int(matches.begin[span]), int(matches.number[span])
            opened.append(
                _Open(
                    int(row_of[span]),
                    number,
                    keys[self._pairs[number].by][event],
                    at.get(int(matches.parent[span]), -1),
                    {**batch.fields_of(event)},
                )
            )
        self._open = opened

    def _keys(self, batch: Events, by: tuple[str, ...]) -> list[_Key]:
        """Return the fields that events have in common with others, by event."""
        columns = [self._texts(batch, name) for name in by]
        if not columns:
            return [()] * len(batch)
        return [*columns[0]] if len(columns) == 1 else [*zip(*columns, strict=True)]

    def _texts(self, batch: Events, name: str) -> list[str]:
        if len(self._numbers) > _MOST_NUMBERS:
            self._numbers.clear()
        texts = batch.texts_of(name, self._numbers, str)
        # most logs have the field in each line
        if None not in texts:
            return cast("list[str]", texts)
        return [str(None) if text is None else text for text in texts]

    def _add_begins(self, batch: Events, matches: Matches, begun: slice, row_of: Int64s) -> None:
        """Add what is known of spans when they begin."""
        events, pair = matches.begin[begun], matches.number[begun]
        entities = [(_ALL, _ALL)] * len(events)
        rows = events.tolist()
        if self._entity:
            *above, own = (self._texts(batch, name) for name in self._entity)
            groups = [" ".join(texts) or _ALL for texts in zip(*above, strict=True)]
            entities = [(groups[row] if above else _ALL, own[row]) for row in rows]
        label = self._titles[pair]
        if self._name is not None:
            values = batch.values_of(self._name)
            named = [at for at, row in enumerate(rows) if isinstance(values[row], str)]
            label[named] = self._values.codes([values[rows[at]] for at in named])
        parent = matches.parent[begun].astype(np.int64)
        parent[parent >= 0] = row_of[parent[parent >= 0]]
        of = self._codes.codes(entities)
        self._begins.append((batch.time_ns[events], of, label, pair.copy(), parent))

    def _end_opened(self, batch: Events, matches: Matches) -> None:
        """End spans that were begun in an earlier batch."""
        closed = np.flatnonzero(matches.closed[: len(self._open)] >= 0)
        for span in closed.tolist():
            fields = self._open[span].fields
            end, ended_by = int(matches.end[span]), int(matches.ended_by[span])
            if end >= 0:
                fields.update(batch.fields_of(end))
                if len(self._pairs[self._open[span].pair].ends) > 1:
                    fields[_END] = batch.names[batch.name[end]]
            elif ended_by >= 0:
                fields[_ENDED_BY] = batch.names[batch.name[ended_by]]
        opened = [self._open[span] for span in closed.tolist()]
        self._end_all(opened, batch.time_ns[matches.closed[closed]], matches.end[closed] >= 0)

    def _end_all(
        self, opened: Sequence[_Open], end_ns: Int64s, is_finished: npt.NDArray[np.bool_]
    ) -> None:
        offset, length = np.zeros(len(opened), np.int64), np.zeros(len(opened), np.int32)
        for at, each in enumerate(opened):
            fields = each.fields
            if not self._with_private:
                public = {key: value for key, value in fields.items() if not is_private(key)}
                self._trace.anomalies.add("private_field", len(fields) - len(public))
                fields = public
            if fields:
                text = _ENCODER.encode(fields).encode("utf-8", "replace")
                offset[at], length[at] = self._trace.text.add(text), len(text)
        rows = np.array([each.row for each in opened], np.int64)
        self._ends.append(_Ends(rows, end_ns, is_finished, offset, length))

    def _end_begun(self, batch: Events, matches: Matches, spans: Int64s, rows: Int64s) -> None:
        """End spans that were begun in the same batch."""
        end, ended_by = matches.end[spans], matches.ended_by[spans]
        several = np.array([len(pair.ends) > 1 for pair in self._pairs])
        has_end = (end >= 0) & several[matches.number[spans]]
        # the event whose name is a field of the span
        event = np.where(has_end, end, ended_by)
        which = np.full(len(spans), -1, np.int32)
        some = np.flatnonzero(event >= 0)
        names = batch.name[event[some]].astype(np.int64) * 2 + has_end[some]
        used, which[some] = np.unique(names, return_inverse=True)
        extra = [
            (_END if each & 1 else _ENDED_BY, batch.names[each >> 1]) for each in used.tolist()
        ]
        private = _is_never if self._with_private else is_private
        text, offset, length, left_out = batch.merged_json(
            (matches.begin[spans], end), (which, extra), private, _ENCODER.encode
        )
        self._trace.anomalies.add("private_field", left_out)
        offset = np.where(length > 0, offset + self._trace.text.add(text), 0)
        end_ns = batch.time_ns[matches.closed[spans]]
        self._ends.append(_Ends(rows, end_ns, end >= 0, offset, length))

    def spans(self) -> Iterator[Spans]:
        """Yield the spans; those still open end with the log."""
        self._trace.anomalies.add("begin_without_end", len(self._open))
        last_ns = np.full(len(self._open), self._last_ns)
        self._end_all(self._open, last_ns, np.zeros(len(self._open), np.bool_))
        if not self._rows:
            return
        start, of, label, pair, parent = (
            np.concatenate([begins[at] for begins in self._begins]) for at in range(5)
        )
        ended = _Ends._make(map(np.concatenate, zip(*self._ends, strict=True)))
        # every span ended once
        by_row = np.argsort(ended.row)
        ended = _Ends._make(column[by_row] for column in ended)
        end = ended.end_ns
        order = np.lexsort((np.arange(len(start)), -end, start))
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        thread, level = np.zeros(len(order), np.int32), np.zeros(len(order), np.int32)
        paths = self._trace.paths
        title = self._entity[-1] if self._entity else "log"
        start, end = start[order], end[order]
        sorted_of, sorted_parent = of[order], parent[order]
        inside = sorted_parent >= 0
        sorted_parent[inside] = row_of[sorted_parent[inside]]
        groups = np.argsort(sorted_of, kind="stable")
        edges = np.searchsorted(sorted_of[groups], np.arange(len(self._entities) + 1))
        # the last one is of those without a parent
        local = np.full(len(order) + 1, -1, np.int64)
        for code, (process, name) in enumerate(self._entities):
            rows = groups[edges[code] : edges[code + 1]]
            local[rows] = np.arange(len(rows))
            lanes, level[rows] = lanes_of(start[rows], end[rows], local[sorted_parent[rows]])
            local[rows] = -1
            count = int(lanes.max()) + 1
            codes = [
                paths.code(thread_path(name if count == 1 else f"{name}.{lane + 1}", process))
                for lane in range(count)
            ]
            for lane_code in codes:
                self._trace.names[lane_code] = title
            thread[rows] = np.array(codes, np.int32)[lanes]
        flags = SpanFlag.STRUCTURED | np.where(ended.is_finished, 0, SpanFlag.UNFINISHED)
        yield Spans(
            start_ns=start,
            end_ns=end,
            thread=thread,
            name=label[order],
            category=self._categories[pair[order]],
            level=level,
            flags=flags.astype(np.uint8)[order],
            arguments=Arguments(ended.offset[order], ended.length[order]),
        )


def _containing(pairs: Sequence[Pair], number: int) -> Int32s:
    """Return which pairs may contain one: those whose fields are the first of its own."""
    by = pairs[number].by
    found = [
        other
        for other, pair in enumerate(pairs)
        if other != number
        and pair.by == by[: len(pair.by)]
        and not (pair.by == by and other > number)
    ]
    return np.array(found, np.int32)


def _is_never(_: str) -> bool:
    return False


def _title(pair: Pair) -> str:
    """Return what a pair is called: what its events have in common.

    >>> from meantime.model.column_mapping import Pair
    >>> _title(Pair("job_started", ("job_finished", "job_failed")))
    'job'
    """
    first, last = min(pair.begin, *pair.ends), max(pair.begin, *pair.ends)
    size = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return first[:size].rstrip("_-. :/") or pair.begin
