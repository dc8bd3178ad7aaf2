"""Pairs of events of a log as spans: a job from `job_started` to `job_finished`.

A begin and an end belong together if their `by` fields are equal. A pair whose `by` begins with
that of another one is inside it: a step of a job. When the job ends, its open steps end with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.attribute_paths import thread_path
from meantime.columns import Interner
from meantime.errors import InputError
from meantime.readers.services.lanes import lanes_of
from meantime.readers.services.model import is_private
from meantime.trace import Arguments, SpanFlag, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.column_mapping import ColumnMapping, Pair
    from meantime.events import Event, Events
    from meantime.readers.contract import ReadOptions
    from meantime.trace import Batch, Trace

__all__ = ["paired"]

_Key = tuple[int, tuple[str, ...]]
_ALL = "log"
_MOST_LISTED = 12
_ENCODER = json.JSONEncoder(ensure_ascii=False)


@dataclass(eq=False, slots=True)
class _Open:
    """A span that was begun."""

    row: int
    key: _Key
    parent: _Open | None
    fields: dict[str, Any]
    children: dict[_Key, _Open] | None = None


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
        pairs.events += len(batch)
        for event in batch:
            pairs.add(event)
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
        self._begins: dict[str, list[int]] = {}
        self._ends: dict[str, list[int]] = {}
        for number, pair in enumerate(mapping.pairs):
            self._begins.setdefault(pair.begin, []).append(number)
            for end in pair.ends:
                self._ends.setdefault(end, []).append(number)
        self._titles = [_title(pair) for pair in mapping.pairs]
        self._open: dict[_Key, _Open] = {}
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        self._entities: list[tuple[str, str]] = []
        self._codes = Interner(self._entities)
        self._last_ns = 0
        self._seen: set[str] = set()
        self.events = 0
        # by row
        self._start: list[int] = []
        self._end: list[int] = []
        self._of: list[int] = []
        self._label: list[int] = []
        self._category: list[int] = []
        self._parent: list[int] = []
        self._unfinished: list[bool] = []
        self._offset: list[int] = []
        self._length: list[int] = []

    def add(self, event: Event) -> None:
        """Add an event, after all that are earlier."""
        name = event.name
        self._last_ns = event.time_ns
        if name not in self._seen and len(self._seen) <= _MOST_LISTED:
            self._seen.add(name)
        for number in self._ends.get(name, ()):
            self._finish(number, event)
        for number in self._begins.get(name, ()):
            self._begin(number, event)

    def check(self) -> None:
        """Check that there are such events.

        Raises:
            InputError: If there is none.
        """
        if self.events and not self._start:
            listed = ", ".join(sorted(self._seen)[:_MOST_LISTED])
            begins = " or ".join(map(repr, self._begins))
            raise InputError(
                self._trace.source, f"no event is called {begins}; the log has {listed}"
            )

    def _begin(self, number: int, event: Event) -> None:
        pair = self._pairs[number]
        key = _key(number, pair, event)
        if (before := self._open.get(key)) is not None:
            # it was begun again without an end
            self._close(before, event.time_ns, None)
        parent = self._parent_of(key) if len(self._pairs) > 1 else None
        row = len(self._start)
        opened = self._open[key] = _Open(row, key, parent, {**event.fields})
        if parent is not None:
            if parent.children is None:
                parent.children = {}
            parent.children[key] = opened
        above, own = "", _ALL
        if self._entity:
            own = str(event.get(self._entity[-1]))
            if len(self._entity) > 1:
                above = " ".join([str(event.get(name)) for name in self._entity[:-1]])
        name = event.get(self._name) if self._name is not None else None
        self._start.append(event.time_ns)
        self._end.append(event.time_ns)
        self._of.append(self._codes.code((above or _ALL, own)))
        self._label.append(
            self._values.code(name if isinstance(name, str) else self._titles[number])
        )
        self._category.append(self._categories.code(self._titles[number]))
        self._parent.append(-1 if parent is None else parent.row)
        self._unfinished.append(True)
        self._offset.append(0)
        self._length.append(0)

    def _parent_of(self, key: _Key) -> _Open | None:
        """Return the open span that this one is in: the latest whose fields are among its own."""
        number, values = key
        by = self._pairs[number].by
        found = None
        for other, pair in enumerate(self._pairs):
            if other == number or len(pair.by) > len(by) or pair.by != by[: len(pair.by)]:
                continue
            if pair.by == by and other > number:
                continue
            opened = self._open.get((other, values[: len(pair.by)]))
            if opened is not None and (found is None or opened.row > found.row):
                found = opened
        return found

    def _finish(self, number: int, event: Event) -> None:
        pair = self._pairs[number]
        opened = self._open.get(_key(number, pair, event))
        if opened is None:
            self._trace.anomalies.add("end_without_begin")
            return
        opened.fields.update(event.fields)
        if len(pair.ends) > 1:
            opened.fields["end"] = event.name
        self._unfinished[opened.row] = False
        self._close(opened, event.time_ns, event.name)

    def _close(self, opened: _Open, time_ns: int, end: str | None) -> None:
        """Close a span and the open ones in it, which have no end of their own."""
        waiting = [opened]
        while waiting:
            each = waiting.pop()
            if each.children:
                waiting += each.children.values()
            del self._open[each.key]
            self._end[each.row] = time_ns
            fields = each.fields
            if each is not opened and end is not None:
                fields["ended_by"] = end
            if self._unfinished[each.row]:
                self._trace.anomalies.add("begin_without_end")
            if not self._with_private and _has_private(tuple(fields)):
                public = {key: value for key, value in fields.items() if not is_private(key)}
                self._trace.anomalies.add("private_field", len(fields) - len(public))
                fields = public
            if fields:
                text = _ENCODER.encode(fields).encode("utf-8", "replace")
                self._offset[each.row] = self._trace.text.add(text)
                self._length[each.row] = len(text)
        if opened.parent is not None and opened.parent.children is not None:
            opened.parent.children.pop(opened.key, None)

    def spans(self) -> Iterator[Spans]:
        """Yield the spans; those still open end with the log."""
        for opened in list(self._open.values()):
            if opened.key in self._open and opened.parent is None:
                self._close(opened, self._last_ns, None)
        for opened in list(self._open.values()):
            if opened.key in self._open:
                self._close(opened, self._last_ns, None)
        if not self._start:
            return
        start, end = np.array(self._start, np.int64), np.array(self._end, np.int64)
        of, parent = np.array(self._of, np.int32), np.array(self._parent, np.int64)
        order = np.lexsort((np.arange(len(start)), -end, start))
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        thread, level = np.zeros(len(order), np.int32), np.zeros(len(order), np.int32)
        paths = Interner(self._trace.paths)
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
        flags = SpanFlag.STRUCTURED | np.where(
            np.array(self._unfinished, np.bool_), SpanFlag.UNFINISHED, 0
        )
        yield Spans(
            start_ns=start,
            end_ns=end,
            thread=thread,
            name=np.array(self._label, np.int32)[order],
            category=np.array(self._category, np.int32)[order],
            level=level,
            flags=flags.astype(np.uint8)[order],
            arguments=Arguments(
                np.array(self._offset, np.int64)[order], np.array(self._length, np.int32)[order]
            ),
        )


@lru_cache(1 << 8)
def _has_private(names: tuple[str, ...]) -> bool:
    """Whether a field is private; logs have the same ones on nearly every line."""
    return any(map(is_private, names))


def _key(number: int, pair: Pair, event: Event) -> _Key:
    by = pair.by
    if len(by) == 1:
        return number, (str(event.get(by[0])),)
    return number, tuple([str(event.get(name)) for name in by])


def _title(pair: Pair) -> str:
    """Return what a pair is called: what its events have in common.

    >>> from meantime.column_mapping import Pair
    >>> _title(Pair("job_started", ("job_finished", "job_failed")))
    'job'
    """
    first, last = min(pair.begin, *pair.ends), max(pair.begin, *pair.ends)
    size = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return first[:size].rstrip("_-. :/") or pair.begin
