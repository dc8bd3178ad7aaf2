"""Spans of services, collected until the input ends, and then laid out as batches.

All are needed first: a parent may come after its children, on another line or of another service.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.kernels import service_rows
from meantime.kernels.service_rows import (
    LINK,
    ServiceRows,
    generations,
    grouped,
    lanes_of_groups,
    open_counts,
    relate,
)
from meantime.model.anomalies import Anomalies
from meantime.model.attribute_paths import COUNTER_PATTERN, counter_path, process_path, thread_path
from meantime.model.clocks import UTC
from meantime.model.columns import Interner, distinct
from meantime.model.service_spans import (
    ENTERING,
    LEAVING,
    NO_ID,
    OWN_FIELDS,
    SERVICE,
)
from meantime.model.trace import (
    Arguments,
    ArgumentText,
    Counters,
    Flows,
    LaneDeclaration,
    Points,
    SpanFlag,
    Spans,
    State,
    StateChanges,
)
from meantime.model.units import MAX_NS, format_ns
from meantime.readers.contract import MOST_BATCH_ROWS
from meantime.readers.private_fields import PRIVATE_NAMES, is_private
from meantime.readers.services.clock_repair import shifts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.services.model import Record, Resource, ServiceSpan

__all__ = ["Collected"]

_REQUESTS = "Open requests"
_SERIES = "requests"
_IDLE = "idle"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str, separators=(",", ":"))
# How many pairs of services whose clocks differ a fact names, and how much of their names.
_MOST_PAIRS = 5
_LONGEST_NAME = 60
_UNKNOWN_SERVICE = "unknown service"
_ERROR, _EXCEPTION = "error", "exception"
# From so many on, each has its instance in its name.
_MANY_SERVICES = 1000
# Doubling, so that a few states show any number of requests; from light blue to dark orange.
_COLORS = ("#9ecae1", "#6baed6", "#3182bd", "#fdae6b", "#fd8d3c", "#e6550d", "#a63603")
_MOST_DOUBLINGS = len(_COLORS)
# The kinds of spans by their numbers in OpenTelemetry.
_KIND_CODES = {
    kind: code
    for code, kind in enumerate(("", "internal", "server", "client", "producer", "consumer"))
}
_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_WORD = 2**64 - 1


class _Columns(NamedTuple):
    """The spans of an input, in their order there."""

    start: Int64s
    end: Int64s
    resource: Int32s
    thread: Int32s
    kind: npt.NDArray[np.uint8]
    unfinished: npt.NDArray[np.bool_]
    parent: Int64s
    rows: npt.NDArray[np.void]


class Collected:
    """The spans of an input, in columns.

    Args:
        trace: What they are added to. Its clock is set to UTC.
        private: Whether fields that are private are kept.
        repair_clocks: Whether the times of services are shifted so that calls fit their callers.

    Attributes:
        rows: The spans, for scanners that add them without this class.
        anomalies: Oddities of the document that is read.
    """

    def __init__(self, trace: Trace, *, private: bool = False, repair_clocks: bool = False) -> None:
        self._trace = trace
        self._with_private = private
        self._repair_clocks = repair_clocks
        trace.clock = UTC
        self.rows: ServiceRows = ServiceRows(
            () if private else ("\n".join(["", *PRIVATE_NAMES, ""]).encode(),),
            tuple(each.encode() for each in OWN_FIELDS),
        )
        self.anomalies: Anomalies = Anomalies()
        self._resources: dict[Resource, int] = {}
        self._resource_of: list[Resource] = []
        self._values = Interner(trace.values)
        self._categories = Interner(trace.categories)
        # ids that have not as many hexadecimal digits as those of OpenTelemetry
        self._other_ids: dict[str, int] = {}
        self._shared_ids = 0
        self._records = 0
        self._logs: list[tuple[int, tuple[str, str], Record]] = []
        self._marked = (0, 0, 0)

    def __len__(self) -> int:
        return len(self.rows)

    def begin(self, message_bytes: int = -1) -> None:
        """Begin a document, which can be taken back until it is finished.

        Args:
            message_bytes: The size of a message of protobuf; -1 for JSON.
        """
        self.rows.begin(message_bytes)
        self._marked = len(self._resources), len(self._logs), self._shared_ids

    def finish(self) -> None:
        """Keep what was added since `begin`."""
        if self.anomalies:
            self._trace.anomalies.update(self.anomalies)
            self.anomalies = Anomalies()
        self._trace.records += self._records
        self._records = 0

    def take_back(self) -> None:
        """Forget what was added since `begin`."""
        self.rows.take_back()
        self.anomalies = Anomalies()
        self._records = 0
        resources, logs, self._shared_ids = self._marked
        while len(self._resource_of) > resources:
            del self._resources[self._resource_of.pop()]
        del self._logs[logs:]

    def resource_code(self, resource: Resource) -> int:
        """Return the number of a resource."""
        code = self._resources.setdefault(resource, len(self._resources))
        if code == len(self._resource_of):
            self._resource_of.append(resource)
        return code

    def category_code(self, name: str) -> int:
        """Return the number of a category; -1 for no name."""
        return self._categories.code(name) if name else -1

    @property
    def context(self) -> tuple[Resource, str]:
        """The resource of the span that a scan stopped at, and the name of its category."""
        resource, category = self.rows.context
        name = "" if category < 0 else self._trace.categories[category]
        return self._resource_of[resource], name

    def add(self, span: ServiceSpan) -> None:
        """Add a span; one without a start is counted and left out."""
        self._records += 1
        start_ns, end_ns = span.start_ns, span.end_ns
        if start_ns is None:
            self.anomalies.add("span_without_start")
            return
        is_unfinished = end_ns is None or end_ns >= MAX_NS
        if end_ns is None or end_ns >= MAX_NS:
            self.anomalies.add("span_without_end")
            end_ns = max([start_ns, *(record.time_ns or 0 for record in span.records)])
        elif end_ns < start_ns:
            self.anomalies.add("negative_duration")
            end_ns = start_ns
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
        row = len(self.rows)
        ids, forms = self._words(span.trace_id, span.span_id, span.parent_id)
        self.rows.put(
            (start_ns, end_ns),
            ids,
            (self.resource_code(span.resource), self.category_code(span.category)),
            (_KIND_CODES.get(span.kind, 0), forms, span.is_error, is_unfinished),
            _encoded(span.name),
            _encoded(span.thread),
            self._text(fields | attributes),
        )
        self._shared_ids += span.shares_id
        for record in span.records:
            text = self._text(self._public(record.fields))
            self.rows.put_point(row, record.time_ns or 0, _encoded(record.name), text)
        for trace_id, span_id in span.links:
            (high, low, own, _), forms = self._words(trace_id, span_id, NO_ID)
            self.rows.put_link(row, high, low, own, forms)

    def add_log(self, resource: Resource, span: tuple[str, str], record: Record) -> None:
        """Add a line of a log, with the trace id and span id of the span that it belongs to."""
        self._records += 1
        self._logs.append((self.resource_code(resource), span, record))

    def batches(self) -> Iterator[Batch]:
        """Yield all that was added; call it once."""
        self.finish()
        scanned, private, dropped = self.rows.counts()
        self._trace.records += scanned
        self._trace.anomalies.add("private_field", private)
        self._trace.anomalies.add("fields_dropped", dropped)
        rows, links = self.rows.rows(), self.rows.links()
        if not len(rows) and not self._logs:
            return
        wanted = self._links_of_logs()
        parent, linked, ids, missing = relate(rows, np.concatenate([links, wanted]))
        self._trace.anomalies.add("repeated_span_id", len(rows) - ids - self._shared_ids)
        self._trace.anomalies.add("parent_not_in_input", missing)
        generation, cycles = generations(parent)
        self._trace.anomalies.add("parent_cycle", cycles)
        spans = _Columns(*service_rows.split(rows), parent=parent, rows=rows)
        processes = self._process_ids(spans.resource)
        names = self._values.codes([_decoded(name) for name in self.rows.names()])
        points = self.rows.points()
        if self._repair_clocks:
            self._repair(spans, points, processes)
        order = _in_order(spans, generation)
        of_services = _by_code(spans.resource, order, len(processes))
        of_row, level, structured = self._entities(processes, spans, of_services)
        flags = structured.view(np.uint8) * np.uint8(SpanFlag.STRUCTURED)
        flags |= spans.unfinished.view(np.uint8) * np.uint8(SpanFlag.UNFINISHED)
        self._trace.text = ArgumentText(self.rows.text().data)
        yield from self._spans(order, spans, names, of_row, level, flags)
        of_logs = linked[len(links) :]
        yield from self._points(points, names, of_row, spans, of_logs, processes)
        self._compare_clocks(spans, processes)
        yield from self._flows(of_row, spans, links["row"], linked[: len(links)])
        yield from self._open_requests(spans, processes, of_services)

    def _repair(
        self, spans: _Columns, points: npt.NDArray[np.void], processes: Sequence[str]
    ) -> None:
        """Shift the times of services whose clocks differ from those of their callers."""
        start, end, resource, parent = spans.start, spans.end, spans.resource, spans.parent
        rows = _calls(spans)
        above = parent[rows]
        low, high = start[above] - start[rows], end[above] - end[rows]
        # a call that took longer than its caller waited does not limit anything
        kept = low <= high
        rows, above, low, high = rows[kept], above[kept], low[kept], high[kept]
        found = shifts(resource[above].astype(np.int64), resource[rows].astype(np.int64), low, high)
        first, last = np.full(len(processes), MAX_NS), np.zeros(len(processes), np.int64)
        np.minimum.at(first, resource, start)
        np.maximum.at(last, resource, end)
        applied = {
            number: shift
            for number, shift in found.items()
            if int(first[number]) + shift > 0 and int(last[number]) + shift < MAX_NS
        }
        if not applied:
            return
        added = np.zeros(len(processes), np.int64)
        added[[*applied]] = [*applied.values()]
        start += added[resource]
        end += added[resource]
        row, time_ns = points["row"], points["time_ns"]
        shift_ns = added[resource[row]]
        fits = np.where(shift_ns > 0, time_ns <= MAX_NS - shift_ns, time_ns > -shift_ns)
        points["time_ns"] = np.where(fits & (time_ns > 0), time_ns + shift_ns, time_ns)
        for at, (number, span, record) in enumerate(self._logs):
            moved_ns = (record.time_ns or 0) + int(added[number])
            if record.time_ns and 0 < moved_ns < MAX_NS:
                self._logs[at] = number, span, record._replace(time_ns=moved_ns)
        largest = sorted(applied.items(), key=lambda each: (-abs(each[1]), each[0]))
        texts = [
            f"{processes[number][:_LONGEST_NAME]}"
            f" {'+' if shift > 0 else '-'}{format_ns(abs(shift))}"
            for number, shift in largest[:_MOST_PAIRS]
        ]
        if len(largest) > _MOST_PAIRS:
            texts.append(f"{len(largest) - _MOST_PAIRS} more services")
        self._trace.facts["clocks shifted"] = "; ".join(texts)

    def _words(
        self, trace_id: str, span_id: str, parent_id: str
    ) -> tuple[tuple[int, int, int, int], int]:
        """Return ids as the words of rows, and which of them are codes of other forms."""
        trace, is_other = self._word(trace_id, _TRACE_ID)
        own, is_own_other = self._word(span_id, _SPAN_ID)
        parent, is_parent_other = self._word(parent_id, _SPAN_ID)
        forms = is_other | is_own_other << 1 | is_parent_other << 2
        return (trace >> 64, trace & _WORD, own, parent), forms

    def _word(self, id_: str, form: re.Pattern[str]) -> tuple[int, int]:
        if id_ == NO_ID:
            return 0, 0
        if form.fullmatch(id_):
            return int(id_, 16), 0
        return self._other_ids.setdefault(id_, len(self._other_ids)), 1

    def _links_of_logs(self) -> npt.NDArray[np.void]:
        links = np.zeros(len(self._logs), LINK)
        for number, (_, (trace_id, span_id), _) in enumerate(self._logs):
            (high, low, own, _), forms = self._words(trace_id, span_id, NO_ID)
            links[number] = number, high, low, own, forms
        return links

    def _public(self, fields: dict[str, Any]) -> dict[str, Any]:
        private = [key for key in fields if is_private(key)]
        if not private or self._with_private:
            return fields
        self.anomalies.add("private_field", len(private))
        return {key: value for key, value in fields.items() if key not in private}

    def _text(self, fields: dict[str, Any]) -> bytes:
        if not fields:
            return b""
        try:
            text = _ENCODER.encode(fields)
        except (RecursionError, ValueError):
            text = _ENCODER.encode(self._plain(fields))
        return text.encode("utf-8", "replace")

    def _plain(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that JSON can have; the others are counted."""
        kept = {}
        for key, value in fields.items():
            try:
                _ENCODER.encode(value)
            except (RecursionError, ValueError):
                self.anomalies.add("bad_metadata")
            else:
                kept[key] = value
        return kept

    def _process_ids(self, resource: Int32s) -> list[str]:
        """Return what each resource is called: as short as the others with spans or logs allow."""
        used = {
            *np.flatnonzero(np.bincount(resource)).tolist(),
            *(number for number, _, _ in self._logs),
        }
        resources = self._resource_of
        namespaces = {each.namespace for code, each in enumerate(resources) if code in used}
        named = []
        for each in resources:
            service = each.service or _UNKNOWN_SERVICE
            own = len(namespaces) > 1 and each.namespace
            named.append(f"{each.namespace}/{service}" if own else service)
        times = Counter(named[code] for code in used)
        found: list[str] = []
        taken: set[str] = set()
        for code, (name, each) in enumerate(zip(named, resources, strict=True)):
            own = (
                f"{name} {each.instance}"
                if each.instance and (times[name] > 1 or len(used) >= _MANY_SERVICES)
                else name
            )
            # such as an instance b of the service a, and a service "a b"
            number = 2
            while own in taken:
                own = f"{own} ({number})"
                number += 1
            if code in used:
                taken.add(own)
            found.append(own)
        return found

    def _entities(
        self,
        processes: Sequence[str],
        spans: _Columns,
        of_services: Sequence[tuple[int, Int64s]],
    ) -> tuple[Int32s, Int32s, npt.NDArray[np.bool_]]:
        """Return the thread or lane of each span, its level there, and if that is known."""
        paths = self._trace.paths
        count = len(spans.start)
        entity, level = np.zeros(count, np.int32), np.zeros(count, np.int32)
        # lanes show whole requests, but a service that names all its threads is drawn by these
        without = np.zeros(len(processes), np.bool_)
        without[spans.resource[spans.thread < 0]] = True
        structured = without[spans.resource]
        if not structured.all():
            threads, of = self.rows.threads()
            named = np.full(len(threads), -1, np.int32)
            for code in distinct(spans.thread[~structured]).tolist():
                named[code] = paths.code(thread_path(_decoded(threads[code]), processes[of[code]]))
            entity[~structured] = named[spans.thread[~structured]]
        in_lanes = [(number, rows) for number, rows in of_services if without[number]]
        found = lanes_of_groups(
            spans.start, spans.end, spans.parent, [rows for _, rows in in_lanes], level
        )
        for (number, rows), lanes in zip(in_lanes, found, strict=True):
            process = processes[number]
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
        spans: _Columns,
        names: Int32s,
        entity: Int32s,
        level: Int32s,
        flags: npt.NDArray[np.uint8],
    ) -> Iterator[Batch]:
        for first in range(0, len(order), MOST_BATCH_ROWS):
            rows = order[first : first + MOST_BATCH_ROWS]
            name, category, offset, length = service_rows.chosen(spans.rows, rows, names)
            yield Spans(
                start_ns=spans.start[rows],
                end_ns=spans.end[rows],
                thread=entity[rows],
                name=name,
                category=category,
                level=level[rows],
                flags=flags[rows],
                arguments=Arguments(offset, length),
            )

    def _points(  # noqa: PLR0917 - columns of one table, in its order
        self,
        points: npt.NDArray[np.void],
        names: Int32s,
        entity: Int32s,
        spans: _Columns,
        of_logs: Int64s,
        processes: Sequence[str],
    ) -> Iterator[Batch]:
        """Yield events of spans, errors of which there is no event, and logs."""
        rows, name = points["row"], names[points["name"]]
        explained = np.zeros(len(spans.start), np.bool_)
        explained[rows[name == self._values.code(_EXCEPTION)]] = True
        errors = np.flatnonzero((spans.rows["is_error"] != 0) & ~explained)
        times, entities, of_log, offsets, lengths = self._log_points(entity, of_logs, processes).T
        own_ns, start_ns = points["time_ns"], spans.start[rows]
        time_ns = np.where(own_ns > 0, own_ns, start_ns)
        time_ns = np.concatenate([time_ns, times, spans.end[errors]])
        if not len(time_ns):
            return
        nothing = np.zeros(len(errors), np.int64)
        error = np.full(len(errors), self._values.code(_ERROR))
        yield Points(
            time_ns=time_ns,
            entity=np.concatenate([entity[rows], entities, entity[errors]]).astype(np.int32),
            name=np.concatenate([name, of_log, error]).astype(np.int32),
            target=np.full(len(time_ns), -1, np.int32),
            arguments=Arguments(
                np.concatenate([points["offset"], offsets, nothing]),
                np.concatenate([points["length"], lengths, nothing]).astype(np.int32),
            ),
        )

    def _log_points(
        self, entity: Int32s, of_logs: Int64s, processes: Sequence[str]
    ) -> npt.NDArray[np.int64]:
        """Return the time, entity, name, offset and length of each log that has a time."""
        paths = self._trace.paths
        found = []
        for (number, _, record), row in zip(self._logs, of_logs.tolist(), strict=True):
            code = int(entity[row]) if row >= 0 else paths.code(process_path(processes[number]))
            if not record.time_ns:
                self._trace.anomalies.add("event_without_time")
                continue
            text = self._text(self._public(record.fields))
            offset = self._trace.text.add(text) if text else 0
            found.append((record.time_ns, code, self._values.code(record.name), offset, len(text)))
        self.finish()
        return np.array(found, np.int64).reshape(-1, 5)

    def _compare_clocks(self, spans: _Columns, processes: Sequence[str]) -> None:
        """Count calls that are not within their caller in another service, and say by how much."""
        start, end, resource, parent = spans.start, spans.end, spans.resource, spans.parent
        rows = np.flatnonzero(parent >= 0)
        above = parent[rows]
        is_within = resource[rows] == resource[above]
        backwards = is_within & (start[rows] < start[above])
        self._trace.anomalies.add("span_before_parent", int(backwards.sum()))
        rows, above = rows[~is_within], above[~is_within]
        before_ns = np.maximum(start[above] - start[rows], 0)
        # only a client waits for its answer: all other children may outlive their parents
        after_ns = np.where(_is_call(spans, rows, above), np.maximum(end[rows] - end[above], 0), 0)
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

    def _flows(
        self, entity: Int32s, spans: _Columns, linking: Int64s, linked: Int64s
    ) -> Iterator[Batch]:
        """Yield the calls between services and between lanes, and the links between traces."""
        start, end, resource, parent = spans.start, spans.end, spans.resource, spans.parent
        rows = np.flatnonzero(parent >= 0)
        above = parent[rows]
        backwards = start[rows] < start[above]
        elsewhere = resource[rows] != resource[above]
        drawn = ~backwards & (entity[rows] != entity[above])
        rows, above, elsewhere = rows[drawn], above[drawn], elsewhere[drawn]
        leaving = _is_of(LEAVING)[spans.kind]
        # a client's span begins with its call; any other called at some time while it was open
        called = np.where(
            leaving[above] & elsewhere, start[above], np.minimum(end[above], start[rows])
        )
        call, child, link = (self._values.code(name) for name in ("call", "child", "link"))
        columns = [
            (above, called, rows, np.where(elsewhere, call, child).astype(np.int32)),
        ]
        causes, effects = linked[linked >= 0], linking[linked >= 0]
        if len(causes):
            kept = start[causes] <= start[effects]
            causes, effects = causes[kept], effects[kept]
            at = np.minimum(end[causes], start[effects])
            columns.append((causes, at, effects, np.full(len(at), link, np.int32)))
        self._trace.anomalies.add(
            "link_left_out", len(linking) - sum(len(each[0]) for each in columns[1:])
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
        spans: _Columns,
        processes: Sequence[str],
        of_services: Sequence[tuple[int, Int64s]],
    ) -> Iterator[Batch]:
        """Yield how many requests each service had open, as a counter and as a state."""
        trace = self._trace
        start, end = spans.start, spans.end
        entering = _is_of(ENTERING)[spans.kind]
        paths = trace.paths
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
        for number, own in of_services:
            process = processes[number]
            chosen = own[entering[own]]
            if not len(chosen):
                above = spans.parent[own]
                chosen = own[(above < 0) | (spans.resource[above] != number)]
            # they are in the order of their starts
            extent_ns = int(start[own[0]]), int(end[own].max())
            time_ns, requests = open_counts(start[chosen], np.sort(end[chosen]), extent_ns[0])
            service = paths.code(process_path(process))
            counter = paths.code(counter_path(process, _REQUESTS, _SERIES))
            yield Counters(
                time_ns=time_ns,
                entity=np.full(len(time_ns), counter, np.int32),
                value=requests,
            )
            # the exponent of a number is how often it can be halved to less than 1
            doublings = np.frexp(np.arange(int(requests.max()) + 1))[1]
            state = codes[np.minimum(doublings, _MOST_DOUBLINGS)][requests]
            changed = np.append(True, state[1:] != state[:-1]) & (time_ns < extent_ns[1])
            times = np.append(time_ns[changed], extent_ns[1])
            yield StateChanges(
                time_ns=times,
                entity=np.full(len(times), service, np.int32),
                # nothing is known of a service after its last span
                state=np.append(state[changed], np.int32(-1)),
                tag=np.full(len(times), -1, np.int32),
            )


def _is_of(kinds: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return by the code of each kind of span whether it is one of some."""
    found = np.zeros(len(_KIND_CODES), np.bool_)
    found[[_KIND_CODES[kind] for kind in kinds]] = True
    return found


def _is_call(spans: _Columns, rows: Int64s, above: Int64s) -> npt.NDArray[np.bool_]:
    """Return which rows are servers' spans that a client above, of another service, waited for."""
    waited: npt.NDArray[np.bool_] = (
        (spans.kind[rows] == _KIND_CODES["server"])
        & (spans.kind[above] == _KIND_CODES["client"])
        & (spans.resource[above] != spans.resource[rows])
        & ~(spans.unfinished[above] | spans.unfinished[rows])
    )
    return waited


def _calls(spans: _Columns) -> Int64s:
    """Return the rows of servers' spans that a client of another service waited for."""
    rows = np.flatnonzero(spans.parent >= 0)
    found: Int64s = rows[_is_call(spans, rows, spans.parent[rows])]
    return found


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")


def _in_order(spans: _Columns, generation: Int64s) -> Int64s:
    """Return the rows by start; of those that begin together longer ones first, then parents."""
    order = np.argsort(spans.start, kind="stable")
    start = spans.start[order]
    again = start[1:] == start[:-1]
    together = np.flatnonzero(np.append(again, False) | np.append(False, again))
    rows = order[together]
    order[together] = rows[np.lexsort((generation[rows], -spans.end[rows], spans.start[rows]))]
    return order


def _by_code(codes: Int32s, order: Int64s, groups: int) -> list[tuple[int, Int64s]]:
    """Return each code that there is, of so many, and the rows that have it, in an order of all."""
    rows, edges = grouped(codes, order, groups)
    ends = enumerate(pairwise(edges.tolist()))
    return [(code, rows[first:end]) for code, (first, end) in ends if first < end]


def _serving(doubling: int) -> str:
    least = 2**doubling
    if doubling == _MOST_DOUBLINGS - 1:
        return f"serving {least}+"
    return f"serving {least}" if doubling == 0 else f"serving {least}-{2 * least - 1}"
