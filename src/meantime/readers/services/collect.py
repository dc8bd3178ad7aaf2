"""Spans of services, collected until the input ends, and then laid out as batches.

All are needed first: a parent may come after its children, on another line or of another service.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.attribute_paths import COUNTER_PATTERN, counter_path, process_path, thread_path
from meantime.clocks import Clock
from meantime.columns import Interner
from meantime.readers.contract import MOST_BATCH_ROWS
from meantime.readers.services.lanes import lanes_of
from meantime.readers.services.model import is_private
from meantime.service_spans import (
    ENTERING,
    LEAVING,
    NO_ID,
    OWN_FIELDS,
    SERVICE,
    parents,
    rows_by_id,
)
from meantime.trace import (
    Arguments,
    Counters,
    Flows,
    LaneDeclaration,
    Points,
    SpanFlag,
    Spans,
    State,
    StateChanges,
)
from meantime.units import MAX_NS, format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.readers.services.model import Record, Resource, ServiceSpan
    from meantime.trace import Batch, Trace

__all__ = ["Collected"]

_REQUESTS = "Open requests"
_SERIES = "requests"
_IDLE = "idle"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str, separators=(",", ":"))
# How many pairs of services whose clocks differ a fact names, and how much of their names.
_MOST_PAIRS = 5
_LONGEST_NAME = 60
_UNKNOWN_SERVICE = "unknown service"
_ERROR = "error"
# Doubling, so that a few states show any number of requests; from light blue to dark orange.
_COLORS = ("#9ecae1", "#6baed6", "#3182bd", "#fdae6b", "#fd8d3c", "#e6550d", "#a63603")
_MOST_DOUBLINGS = len(_COLORS)


class _Open(NamedTuple):
    """How many requests a service had open, from each time on."""

    time_ns: Int64s
    requests: Int64s


class Collected:
    """The spans of an input, in columns.

    Args:
        trace: What they are added to. Its clock is set to UTC.
        private: Whether fields that are private are kept.
    """

    def __init__(self, trace: Trace, *, private: bool = False) -> None:
        self._trace = trace
        self._with_private = private
        trace.clock = Clock("realtime", utc_at_origin_ns=0)
        self._resources: dict[Resource, int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        # one entry a span
        self._start: list[int] = []
        self._end: list[int] = []
        self._resource: list[int] = []
        self._thread: list[int] = []
        self._name: list[int] = []
        self._category: list[int] = []
        self._kind: list[str] = []
        self._id: list[tuple[str, str]] = []
        self._parent_id: list[str] = []
        self._is_error: list[bool] = []
        self._is_unfinished: list[bool] = []
        self._offset: list[int] = []
        self._length: list[int] = []
        self._shared_ids = 0
        # by the row of the span
        self._records: list[tuple[int, int, Record]] = []
        self._links: list[tuple[int, tuple[str, str]]] = []
        self._logs: list[tuple[int, tuple[str, str], Record]] = []

    def __len__(self) -> int:
        return len(self._start)

    def add(self, span: ServiceSpan) -> None:
        """Add a span; one without a start is counted and left out."""
        trace = self._trace
        trace.records += 1
        start_ns, end_ns = span.start_ns, span.end_ns
        if start_ns is None:
            trace.anomalies.add("span_without_start")
            return
        is_unfinished = end_ns is None or end_ns >= MAX_NS
        if end_ns is None or end_ns >= MAX_NS:
            trace.anomalies.add("span_without_end")
            end_ns = max([start_ns, *(record.time_ns or 0 for record in span.records)])
        elif end_ns < start_ns:
            trace.anomalies.add("negative_duration")
            end_ns = start_ns
        row = len(self._start)
        resource = self._resources.setdefault(span.resource, len(self._resources))
        thread = -1
        if span.thread:
            thread = self._threads.setdefault((resource, span.thread), len(self._threads))
        self._start.append(start_ns)
        self._end.append(end_ns)
        self._resource.append(resource)
        self._thread.append(thread)
        self._name.append(self._values.code(span.name))
        self._category.append(self._categories.code(span.category) if span.category else -1)
        self._kind.append(span.kind)
        self._id.append((span.trace_id, span.span_id))
        self._parent_id.append(span.parent_id)
        self._is_error.append(span.is_error)
        self._is_unfinished.append(is_unfinished)
        self._shared_ids += span.shares_id
        fields: dict[str, Any] = {"trace_id": span.trace_id, "span_id": span.span_id}
        if span.parent_id != NO_ID:
            fields["parent_id"] = span.parent_id
        if span.kind:
            fields["kind"] = span.kind
        if span.is_error:
            fields["status"] = _ERROR
        attributes = self._public(span.fields)
        if not OWN_FIELDS.isdisjoint(attributes):
            attributes = {
                f"attributes.{key}" if key in OWN_FIELDS else key: value
                for key, value in attributes.items()
            }
        offset, length = self._text(fields | attributes)
        self._offset.append(offset)
        self._length.append(length)
        self._records += [(row, resource, record) for record in span.records]
        self._links += [(row, link) for link in span.links]

    def add_log(self, resource: Resource, span: tuple[str, str], record: Record) -> None:
        """Add a line of a log, with the trace id and span id of the span that it belongs to."""
        self._trace.records += 1
        number = self._resources.setdefault(resource, len(self._resources))
        self._logs.append((number, span, record))

    def batches(self) -> Iterator[Batch]:
        """Yield all that was added; call it once."""
        if not self._resources:
            return
        rows_of_id = rows_by_id(self._id)
        repeated = len(self._id) - len(rows_of_id) - self._shared_ids
        self._trace.anomalies.add("repeated_span_id", repeated)
        start, end = np.array(self._start, np.int64), np.array(self._end, np.int64)
        resource = np.array(self._resource, np.int32)
        unfinished = np.array(self._is_unfinished, np.bool_)
        parent, missing = parents(self._id, self._parent_id, self._resource, rows_of_id)
        self._trace.anomalies.add("parent_not_in_input", missing)
        order = np.lexsort((self._generations(parent), -end, start))
        row_of = np.empty(len(order), np.int64)
        row_of[order] = np.arange(len(order))
        processes = self._process_ids()
        entity, level, structured = self._entities(
            processes, start[order], end[order], resource[order], order, row_of, parent
        )
        of_row = np.empty(len(order), np.int32)
        of_row[order] = entity
        flags = np.where(structured, SpanFlag.STRUCTURED, 0) | np.where(
            unfinished[order], SpanFlag.UNFINISHED, 0
        )
        yield from self._spans(order, start, end, entity, level, flags.astype(np.uint8))
        yield from self._points(of_row, start, end, rows_of_id, processes)
        self._compare_clocks(start, end, unfinished, resource, parent, processes)
        yield from self._flows(of_row, start, end, resource, parent, rows_of_id)
        yield from self._open_requests(start, end, resource, parent, processes)

    def _public(self, fields: dict[str, Any]) -> dict[str, Any]:
        private = [key for key in fields if is_private(key)]
        if not private or self._with_private:
            return fields
        self._trace.anomalies.add("private_field", len(private))
        return {key: value for key, value in fields.items() if key not in private}

    def _text(self, fields: dict[str, Any]) -> tuple[int, int]:
        if not fields:
            return 0, 0
        try:
            text = _ENCODER.encode(fields)
        except (RecursionError, ValueError):
            text = _ENCODER.encode(self._plain(fields))
        data = text.encode("utf-8", "replace")
        return self._trace.text.add(data), len(data)

    def _plain(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that JSON can have; the others are counted."""
        kept = {}
        for key, value in fields.items():
            try:
                _ENCODER.encode(value)
            except (RecursionError, ValueError):
                self._trace.anomalies.add("bad_metadata")
            else:
                kept[key] = value
        return kept

    def _process_ids(self) -> list[str]:
        """Return what each resource is called: as short as the others of the input allow."""
        resources = list(self._resources)
        namespaces = {each.namespace for each in resources}
        named = []
        for each in resources:
            service = each.service or _UNKNOWN_SERVICE
            own = len(namespaces) > 1 and each.namespace
            named.append(f"{each.namespace}/{service}" if own else service)
        several = {name for name in named if named.count(name) > 1} if len(named) < 1000 else None
        return [
            f"{name} {each.instance}"
            if each.instance and (several is None or name in several)
            else name
            for name, each in zip(named, resources, strict=True)
        ]

    def _generations(self, parent: Int64s) -> Int64s:
        """Return how many ancestors each span has; a cycle of parents is cut at one of them."""
        above = parent.tolist()
        found = [-1] * len(above)
        for row in range(len(above)):
            chain = []
            at = row
            while at >= 0 and found[at] < 0:
                found[at] = 0
                chain.append(at)
                at = above[at]
            if at >= 0 and at in chain:
                self._trace.anomalies.add("parent_cycle")
                above[chain[-1]] = parent[chain[-1]] = -1
                at = -1
            generation = found[at] + 1 if at >= 0 else 0
            for each in reversed(chain):
                found[each] = generation
                generation += 1
        return np.array(found, np.int64)

    def _entities(  # noqa: PLR0917 - columns of one table, in its order
        self,
        processes: Sequence[str],
        start: Int64s,
        end: Int64s,
        resource: Int32s,
        order: Int64s,
        row_of: Int64s,
        parent: Int64s,
    ) -> tuple[Int32s, Int32s, npt.NDArray[np.bool_]]:
        """Return the thread or lane of each sorted span, its level there, and if that is known."""
        paths = Interner(self._trace.paths)
        entity, level = np.zeros(len(order), np.int32), np.zeros(len(order), np.int32)
        thread = np.array(self._thread, np.int32)[order]
        # lanes show whole requests, but a service that names all its threads is drawn by these
        without = np.zeros(len(processes), np.bool_)
        without[resource[thread < 0]] = True
        structured = without[resource]
        named = np.array(
            [
                -1 if without[number] else paths.code(thread_path(name, processes[number]))
                for number, name in self._threads
            ],
            np.int32,
        )
        entity[~structured] = named[thread[~structured]]
        above = parent[order]
        above[above >= 0] = row_of[above[above >= 0]]
        for number, process in enumerate(processes):
            rows = np.flatnonzero((resource == number) & structured)
            if not len(rows):
                continue
            # rows are numbered within the service, where a parent elsewhere is none
            of = np.full(len(order) + 1, -1, np.int64)
            of[rows] = np.arange(len(rows))
            lanes, level[rows] = lanes_of(start[rows], end[rows], of[above[rows]])
            of_lane = [
                paths.code(thread_path(lane + 1, process)) for lane in range(lanes.max() + 1)
            ]
            entity[rows] = np.array(of_lane, np.int32)[lanes]
            for lane, code in enumerate(of_lane):
                self._trace.sort_keys[code] = lane
                self._trace.names[code] = "lane"
        return entity, level, structured

    def _spans(  # noqa: PLR0917 - columns of one table, in its order
        self,
        order: Int64s,
        start: Int64s,
        end: Int64s,
        entity: Int32s,
        level: Int32s,
        flags: npt.NDArray[np.uint8],
    ) -> Iterator[Batch]:
        name, category = np.array(self._name, np.int32), np.array(self._category, np.int32)
        offset, length = np.array(self._offset, np.int64), np.array(self._length, np.int32)
        for first in range(0, len(order), MOST_BATCH_ROWS):
            part = slice(first, first + MOST_BATCH_ROWS)
            rows = order[part]
            yield Spans(
                start_ns=start[rows],
                end_ns=end[rows],
                thread=entity[part],
                name=name[rows],
                category=category[rows],
                level=level[part],
                flags=flags[part],
                arguments=Arguments(offset[rows], length[rows]),
            )

    def _points(
        self,
        entity: Int32s,
        start: Int64s,
        end: Int64s,
        rows_of_id: dict[tuple[str, str], list[int]],
        processes: Sequence[str],
    ) -> Iterator[Batch]:
        """Yield events of spans, errors of which there is no event, and logs."""
        found: list[tuple[int, int, Record]] = []
        explained = set()
        for row, _, record in self._records:
            if record.name == "exception":
                explained.add(row)
            found.append((int(entity[row]), int(start[row]), record))
        paths = Interner(self._trace.paths)
        for number, id_, record in self._logs:
            rows = rows_of_id.get(id_)
            code = int(entity[rows[0]]) if rows else paths.code(process_path(processes[number]))
            found.append((code, 0, record))
        times, entities, names, offsets, lengths = [], [], [], [], []
        for code, otherwise_ns, record in found:
            time_ns = record.time_ns or otherwise_ns
            if not time_ns:
                self._trace.anomalies.add("event_without_time")
                continue
            times.append(time_ns)
            entities.append(code)
            names.append(self._values.code(record.name))
            offset, length = self._text(self._public(record.fields))
            offsets.append(offset)
            lengths.append(length)
        for row in np.flatnonzero(np.array(self._is_error, np.bool_)).tolist():
            if row not in explained:
                times.append(int(end[row]))
                entities.append(int(entity[row]))
                names.append(self._values.code(_ERROR))
                offsets.append(0)
                lengths.append(0)
        if times:
            yield Points(
                time_ns=np.array(times, np.int64),
                entity=np.array(entities, np.int32),
                name=np.array(names, np.int32),
                target=np.full(len(times), -1, np.int32),
                arguments=Arguments(np.array(offsets, np.int64), np.array(lengths, np.int32)),
            )

    def _compare_clocks(  # noqa: PLR0917 - columns of one table, in its order
        self,
        start: Int64s,
        end: Int64s,
        unfinished: npt.NDArray[np.bool_],
        resource: Int32s,
        parent: Int64s,
        processes: Sequence[str],
    ) -> None:
        """Count calls that are not within their caller in another service, and say by how much."""
        rows = np.flatnonzero((parent >= 0) & (resource != resource[parent]))
        above = parent[rows]
        before_ns = np.maximum(start[above] - start[rows], 0)
        # only a client waits for its answer: all other children may outlive their parents
        client, server = (
            np.array([each == kind for each in self._kind], np.bool_)
            for kind in ("client", "server")
        )
        waited = client[above] & server[rows] & ~unfinished[above] & ~unfinished[rows]
        after_ns = np.where(waited, np.maximum(end[rows] - end[above], 0), 0)
        self._trace.anomalies.add("child_before_parent", int((before_ns > 0).sum()))
        self._trace.anomalies.add("child_after_parent", int((after_ns > 0).sum()))
        most: dict[tuple[int, int], tuple[int, int]] = {}
        outside = (before_ns > 0) | (after_ns > 0)
        columns = (resource[above], resource[rows], before_ns, after_ns)
        for caller, called, before, after in zip(
            *(column[outside].tolist() for column in columns), strict=True
        ):
            known = most.get((caller, called), (0, 0))
            most[caller, called] = max(known[0], before), max(known[1], after)
        if not most:
            return
        largest = sorted(most.items(), key=lambda each: -max(each[1]))
        texts = [
            f"{processes[called][:_LONGEST_NAME]}, called by {processes[caller][:_LONGEST_NAME]}, "
            + " and ".join(
                f"{what} up to {format_ns(amount)} {side} it"
                for what, side, amount in (
                    ("begins", "before", amounts[0]),
                    ("ends", "after", amounts[1]),
                )
                if amount
            )
            for (caller, called), amounts in largest[:_MOST_PAIRS]
        ]
        if len(largest) > _MOST_PAIRS:
            texts.append(f"{len(largest) - _MOST_PAIRS} more pairs of services")
        self._trace.facts["clocks differ"] = "; ".join(texts)

    def _flows(  # noqa: PLR0917 - columns of one table, in its order
        self,
        entity: Int32s,
        start: Int64s,
        end: Int64s,
        resource: Int32s,
        parent: Int64s,
        rows_of_id: dict[tuple[str, str], list[int]],
    ) -> Iterator[Batch]:
        """Yield the calls between services and between lanes, and the links between traces."""
        rows = np.flatnonzero(parent >= 0)
        above = parent[rows]
        backwards = start[rows] < start[above]
        elsewhere = resource[rows] != resource[above]
        drawn = ~backwards & (entity[rows] != entity[above])
        rows, above, elsewhere = rows[drawn], above[drawn], elsewhere[drawn]
        leaving = np.array([kind in LEAVING for kind in self._kind], np.bool_)
        # a client's span begins with its call; any other called at some time while it was open
        called = np.where(
            leaving[above] & elsewhere, start[above], np.minimum(end[above], start[rows])
        )
        call, child, link = (self._values.code(name) for name in ("call", "child", "link"))
        columns = [
            (above, called, rows, np.where(elsewhere, call, child).astype(np.int32)),
        ]
        linked = [(found[0], row) for row, id_ in self._links if (found := rows_of_id.get(id_))]
        if linked:
            pairs = np.array(linked, np.int64)
            causes, effects = pairs[:, 0], pairs[:, 1]
            kept = start[causes] <= start[effects]
            causes, effects = causes[kept], effects[kept]
            at = np.minimum(end[causes], start[effects])
            columns.append((causes, at, effects, np.full(len(at), link, np.int32)))
        self._trace.anomalies.add(
            "link_left_out", len(self._links) - sum(len(each[0]) for each in columns[1:])
        )
        for causes, at, effects, name in columns:
            if len(causes):
                yield Flows(
                    from_entity=entity[causes],
                    from_ns=at,
                    to_entity=entity[effects],
                    to_ns=start[effects],
                    name=name,
                )

    def _open_requests(
        self,
        start: Int64s,
        end: Int64s,
        resource: Int32s,
        parent: Int64s,
        processes: Sequence[str],
    ) -> Iterator[Batch]:
        """Yield how many requests each service had open, as a counter and as a state."""
        trace = self._trace
        entering = np.array([kind in ENTERING for kind in self._kind], np.bool_)
        first = (parent < 0) | (resource[parent] != resource)
        paths = Interner(trace.paths)
        serving = [_IDLE, *map(_serving, range(_MOST_DOUBLINGS))]
        colors = (None, *_COLORS)
        codes = np.array([self._values.code(name) for name in serving], np.int32)
        trace.lanes += [
            LaneDeclaration(COUNTER_PATTERN, kind="counter", label=_REQUESTS),
            LaneDeclaration(
                "Processes/*",
                entity_kind=SERVICE,
                label="Services",
                states=tuple(
                    State(name, number, color)
                    for number, (name, color) in enumerate(zip(serving, colors, strict=True))
                ),
            ),
        ]
        for number, process in enumerate(processes):
            own = resource == number
            if not own.any():
                continue
            chosen = own & entering
            if not chosen.any():
                chosen = own & first
            extent_ns = int(start[own].min()), int(end[own].max())
            open_ = _open(start[chosen], end[chosen], extent_ns)
            service = paths.code(process_path(process))
            counter = paths.code(counter_path(process, _REQUESTS, _SERIES))
            yield Counters(
                time_ns=open_.time_ns,
                entity=np.full(len(open_.time_ns), counter, np.int32),
                value=open_.requests,
            )
            doubling = np.zeros(len(open_.requests), np.int64)
            some = open_.requests > 0
            doubling[some] = np.minimum(
                np.log2(open_.requests[some]).astype(np.int64) + 1, _MOST_DOUBLINGS
            )
            state = codes[doubling]
            changed = np.append(True, state[1:] != state[:-1]) & (open_.time_ns < extent_ns[1])
            times = np.append(open_.time_ns[changed], extent_ns[1])
            yield StateChanges(
                time_ns=times,
                entity=np.full(len(times), service, np.int32),
                # nothing is known of a service after its last span
                state=np.append(state[changed], np.int32(-1)),
                tag=np.full(len(times), -1, np.int32),
            )


def _serving(doubling: int) -> str:
    least = 2**doubling
    if doubling == _MOST_DOUBLINGS - 1:
        return f"serving {least}+"
    return f"serving {least}" if doubling == 0 else f"serving {least}-{2 * least - 1}"


def _open(start_ns: Int64s, end_ns: Int64s, extent_ns: tuple[int, int]) -> _Open:
    """Return how many of some spans are open, wherever that changes, from a time to another."""
    time_ns = np.concatenate([np.array(extent_ns[:1]), start_ns, end_ns])
    change = np.concatenate(
        [np.zeros(1, np.int64), np.ones(len(start_ns), np.int64), -np.ones(len(end_ns), np.int64)]
    )
    order = np.argsort(time_ns, kind="stable")
    time_ns, count = time_ns[order], np.cumsum(change[order])
    last = np.append(time_ns[1:] != time_ns[:-1], True)
    time_ns, count = time_ns[last], count[last]
    changed = np.append(True, count[1:] != count[:-1])
    return _Open(time_ns[changed], count[changed])
