"""How long the requests of services and their operations took, and the time that was their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import MeantimeError
from meantime.model.attribute_paths import host_and_path
from meantime.model.columns import Coded
from meantime.model.durations import Durations, figure_columns
from meantime.model.service_spans import (
    ENTERING,
    LEAVING,
    MESSAGES,
    NO_ID,
    SERVICE,
    parents,
    rows_by_id,
)
from meantime.model.tabular import Tabular
from meantime.query.aligning import Message
from meantime.query.filtering import matching
from meantime.query.parts import range_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.service_spans import SpanId
    from meantime.model.tabular import Column

__all__ = [
    "CallSide",
    "ServiceCalls",
    "ServiceGroup",
    "ServiceGrouping",
    "ServiceStatistics",
    "calls_between",
    "service_calls",
    "service_statistics",
    "sides_of_calls",
    "spans_of_trace",
]

ServiceGrouping: TypeAlias = Literal["service", "operation"]

_ERROR = "error"


@dataclass(frozen=True, slots=True)
class ServiceGroup(Durations[int, float]):
    """The requests of a service, or the spans of one of its operations.

    Durations are from begin to end, also outside of the range; `total_ns` is the time in it.

    Attributes:
        service: The service; with its instance if it has several.
        operation: The name of the spans; None by service.
        spans: How many spans of it were open in the range.
        count: How many of them are requests to the service; by operation, all.
        failed: How many of those failed.
        own_ns: The time in the range of all spans of the row in which none of their children was
            open, in whatever service.
        share: The part of the own time of all spans; of one trace, if only that was selected.
    """

    service: str
    operation: str | None
    spans: int
    failed: int
    own_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class ServiceStatistics(Tabular):
    """Services or operations in a range, most own time first; as a table, its rows.

    Attributes:
        by: `service` or `operation`.
        range_ns: Where [start, end).
        trace_id: The only trace that was selected; None for all.
        rows: The services or operations.
    """

    by: ServiceGrouping
    range_ns: tuple[int, int]
    trace_id: str | None
    rows: list[ServiceGroup]

    def columns(self) -> dict[str, Column]:
        """Return a column for each field of a row."""
        columns: dict[str, Column] = {
            "service": Coded.of([row.service for row in self.rows]),
            "operation": Coded.of([row.operation for row in self.rows]),
        }
        return columns | figure_columns(ServiceGroup, self.rows)


def service_statistics(
    history: History,
    *,
    by: ServiceGrouping,
    pattern: str | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> ServiceStatistics:
    """Return how long requests to services took, or their operations; without services, no rows.

    Requests to a service are its spans of servers and consumers; of a service without any, those
    that have no parent in the service. The own time of a span is exactly the part of its recorded
    time in which none of its children was open. Parents are those that the trace names, and times
    of different services are compared as they were recorded.

    >>> from meantime.testing import history_from_spans
    >>> service_statistics(history_from_spans({"main": [("a", 0, 9)]}), by="service").rows
    []

    Args:
        history: A history of traces of services.
        by: What the spans of a row have in common.
        pattern: A trace id selects the spans of that trace. Anything else selects the rows whose
            service or operation it is, or where `SERVICE OPERATION` contains a match of this
            regular expression.
        start_ns: Where the range begins.
        end_ns: Where it ends.

    Raises:
        MeantimeError: If the pattern matches nothing, or a sum of times exceeds 64 bits.
        UsageError: If it is not a regular expression.
    """
    range_ns = range_of(history, start_ns, end_ns)
    calls = service_calls(history)
    if not len(calls.rows):
        return ServiceStatistics(by, range_ns, None, [])
    spans = history.spans()
    start, end = spans.start_ns[calls.rows], spans.end_ns[calls.rows]
    low, high = np.maximum(start, range_ns[0]), np.minimum(end, range_ns[1])
    # an empty span is in the range if its time is
    is_empty = (start == end) & (start == low) & ((start < range_ns[1]) | (end_ns is None))
    chosen = (low < high) | is_empty
    open_ns = np.maximum(high - low, 0)
    own_ns = open_ns - _covered(calls.parent, low, high)
    duration_ns = end - start
    if max(float(each.sum(dtype=np.float64)) for each in (duration_ns, open_ns)) >= 2**63:
        raise MeantimeError(
            "the durations of these spans add up to more than 2^63 ns; a time is probably wrong"
        )
    names = [name or "" for name in spans.name.names] + [""]
    codes = spans.name.codes[calls.rows].astype(np.int64)
    trace_id = None
    if pattern is not None and (of_trace := _of_trace(calls.trace_ids, pattern)).any():
        trace_id = pattern.lower()
        chosen &= of_trace
    counted = calls.is_request if by == "service" else np.ones(len(calls.rows), np.bool_)
    group = calls.service * len(names)
    if by == "operation":
        group += codes % len(names)
    all_own_ns = int(own_ns[chosen].sum())
    order = np.flatnonzero(chosen)
    order = order[np.argsort(group[order], kind="stable")]
    edges = [*np.flatnonzero(np.diff(group[order], prepend=-1)).tolist(), len(order)]
    rows = []
    for first, last in pairwise(edges):
        members = order[first:last]
        requests = members[counted[members]]
        own = int(own_ns[members].sum())
        rows.append(
            ServiceGroup.of(
                duration_ns[requests],
                service=calls.services[int(calls.service[members[0]])],
                operation=names[int(codes[members[0]])] if by == "operation" else None,
                spans=len(members),
                failed=int(calls.failed[requests].sum()),
                total_ns=int(open_ns[requests].sum()),
                own_ns=own,
                share=own / all_own_ns if all_own_ns else 0.0,
            )
        )
    if pattern is not None and trace_id is None and rows:
        rows = _matching(rows, pattern)
        if not rows and (start_ns, end_ns) == (None, None):
            raise MeantimeError(f"the filter {pattern!r} matches no service, operation or trace id")
        if not rows:
            # what has nothing in a range is an error only if it has nothing in any
            service_statistics(history, by=by, pattern=pattern)
    rows.sort(key=lambda row: (-row.own_ns, row.service, row.operation or ""))
    return ServiceStatistics(by, range_ns, trace_id, rows)


def spans_of_trace(history: History, trace_id: str) -> Int32s:
    """Return the numbers of the spans of services that have a trace id, in whatever case.

    >>> from meantime.testing import history_from_spans
    >>> spans_of_trace(history_from_spans({"main": [("a", 0, 9)]}), "5b8eff").tolist()
    []
    """
    spans = history.spans()
    rows, _ = _rows_of_services(history, _services(history))
    trace_ids = [_text(_fields(spans, row), "trace_id") for row in rows.tolist()]
    return np.sort(spans.rows[rows[_of_trace(trace_ids, trace_id)]])


class ServiceCalls(NamedTuple):
    """The spans of services, in the order in which they came.

    Attributes:
        rows: Their rows in the table of spans.
        services: The names of the services.
        service: The number of each span's service.
        trace_ids: The trace that each belongs to; empty if unknown.
        parent: The index of each span's parent among these; -1 for none.
        is_request: Whether each is a request to its service.
        is_entering: Whether each is the side of a call that is called: a server's or consumer's.
        is_leaving: Whether each is the side that calls: a client's or producer's.
        is_message: Whether each is a producer's or a consumer's, whose parent need not wait for it.
        failed: Whether it failed.
    """

    rows: Int64s
    services: list[str]
    service: Int64s
    trace_ids: list[str]
    parent: Int64s
    is_request: npt.NDArray[np.bool_]
    is_entering: npt.NDArray[np.bool_]
    is_leaving: npt.NDArray[np.bool_]
    is_message: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]


def service_calls(history: History) -> ServiceCalls:
    """Return the spans of the services of a history."""
    spans = history.spans()
    processes = _services(history)
    row, of_service = _rows_of_services(history, processes)
    fields = [_fields(spans, each) for each in row.tolist()]
    ids = [(_text(each, "trace_id"), _text(each, "span_id")) for each in fields]
    parent_ids = [_text(each, "parent_id") for each in fields]
    parent, _ = parents(ids, parent_ids, of_service.tolist(), rows_by_id(ids))
    kinds = [each.get("kind") for each in fields]
    is_entering = np.array([kind in ENTERING for kind in kinds], np.bool_)
    without = np.ones(len({*processes.values()}), np.bool_)
    without[of_service[is_entering]] = False
    is_first = (parent < 0) | (of_service[parent] != of_service) if len(row) else is_entering
    return ServiceCalls(
        row,
        [*dict.fromkeys(host_and_path(process)[1][1] for process in processes)],
        of_service,
        [trace_id for trace_id, _ in ids],
        parent,
        np.where(without[of_service], is_first, is_entering),
        is_entering,
        np.array([kind in LEAVING for kind in kinds], np.bool_),
        np.array([kind in MESSAGES for kind in kinds], np.bool_),
        np.array([each.get("status") == _ERROR for each in fields], np.bool_),
    )


def _services(history: History) -> dict[tuple[str, ...], int]:
    """Return a number of each service, by the path of its process: one on several hosts has one."""
    quarks = [
        quark
        for lane in history.lanes
        if lane.declaration.entity_kind == SERVICE
        for quark in lane.quarks.tolist()
    ]
    paths = dict.fromkeys(history.attributes.path(quark) for quark in quarks)
    numbers: dict[str, int] = {}
    below = {path: host_and_path(path)[1] for path in paths}
    return {
        path: numbers.setdefault(own[1], len(numbers))
        for path, own in below.items()
        if len(own) == 2
    }


def _rows_of_services(
    history: History, processes: dict[tuple[str, ...], int]
) -> tuple[Int64s, Int64s]:
    """Return the rows of the spans of services, in the order of their numbers, and the service."""
    spans = history.spans()
    rows, service = [], []
    for index, quark in enumerate(spans.threads.tolist()):
        path = history.attributes.path(quark)
        process = path[: len(path) - len(host_and_path(path)[1]) + 2]
        if process in processes:
            first, last = spans.offsets[index : index + 2].tolist()
            rows.append(np.arange(first, last, dtype=np.int64))
            service.append(np.full(last - first, processes[process], np.int64))
    empty = np.empty(0, np.int64)
    row, of_service = np.concatenate([empty, *rows]), np.concatenate([empty, *service])
    # so that of equal ids the first that came is the parent
    order = np.argsort(spans.rows[row], kind="stable")
    return row[order], of_service[order]


class CallSide(NamedTuple):
    """A span of a service that calls another one, or that was called.

    Attributes:
        id: The ids of its trace and of itself.
        parent_id: The id of its parent.
        kind: Which side it is, as in `meantime.model.service_spans`.
        start_ns: When it began.
        end_ns: When it ended.
    """

    id: SpanId
    parent_id: str
    kind: str
    start_ns: int
    end_ns: int


def sides_of_calls(history: History) -> list[CallSide]:
    """Return the sides of calls that are in a history, in the order in which they came."""
    processes = _services(history)
    if not processes:
        return []
    spans = history.spans()
    sides = []
    for row in _rows_of_services(history, processes)[0].tolist():
        fields = _fields(spans, row)
        kind = _text(fields, "kind")
        if kind in ENTERING or kind in LEAVING:
            id_ = _text(fields, "trace_id"), _text(fields, "span_id")
            times = int(spans.start_ns[row]), int(spans.end_ns[row])
            sides.append(CallSide(id_, _text(fields, "parent_id"), kind, *times))
    return sides


def calls_between(hosts: Sequence[Sequence[CallSide]]) -> list[Message]:
    """Return the calls between hosts: each was sent before it was received.

    The two sides of such a call are of different hosts; a client has the answer only after the
    server has sent it.

    Args:
        hosts: The sides of each host.
    """
    sides = [(index, side) for index, own in enumerate(hosts) for side in own]
    rows_of_id = rows_by_id([side.id for _, side in sides])
    found = []
    for index, side in sides:
        if side.kind not in ENTERING or side.parent_id == NO_ID:
            continue
        for row in rows_of_id.get((side.id[0], side.parent_id), ()):
            sender, above = sides[row]
            if sender == index or above.kind not in LEAVING:
                continue
            found.append(Message(sender, above.start_ns, index, side.start_ns))
            # a producer does not wait for an answer
            if above.kind == "client":
                found.append(Message(index, side.end_ns, sender, above.end_ns))
    return found


def _fields(spans: SpanTable, row: int) -> dict[str, object]:
    try:
        fields = json.loads(spans.arguments(row) or "{}")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _text(fields: dict[str, object], key: str) -> str:
    value = fields.get(key, NO_ID)
    return value if isinstance(value, str) else NO_ID


def _covered(parent: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """Return how much of each span any of its children was open.

    >>> times = np.array([0, 1, 3, 8]), np.array([10, 5, 6, 12])
    >>> _covered(np.array([-1, 0, 0, 0]), *times).tolist()
    [7, 0, 0, 0]
    """
    covered = np.zeros(len(parent), np.int64)
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    low, high = np.maximum(start[child], start[above]), np.minimum(end[child], end[above])
    kept = np.flatnonzero(low < high)
    kept = kept[np.lexsort((low[kept], above[kept]))]
    low, high, above = low[kept], high[kept], above[kept]
    if not len(low):
        return covered
    # the latest end so far of the children of one parent: ends are replaced by their ranks, to
    # which the number of the parent is added, so that one running maximum is over each of them
    ends, rank = np.unique(high, return_inverse=True)
    latest = np.maximum.accumulate(above * len(ends) + rank.reshape(-1)) % len(ends)
    before = np.concatenate([low[:1], ends[latest[:-1]]])
    is_first = np.append(True, above[1:] != above[:-1])
    low = np.where(is_first, low, np.maximum(low, before))
    np.add.at(covered, above, np.maximum(high - low, 0))
    return covered


def _of_trace(trace_ids: Sequence[str], trace_id: str) -> npt.NDArray[np.bool_]:
    wanted = trace_id.lower()
    return np.array([wanted == each and wanted != NO_ID for each in trace_ids], np.bool_)


def _matching(rows: list[ServiceGroup], pattern: str) -> list[ServiceGroup]:
    exact = [row for row in rows if pattern in {row.service, row.operation}]
    if exact:
        return exact
    texts = [f"{row.service} {row.operation or ''}".rstrip() for row in rows]
    matches = matching(pattern, texts)
    return [row for row, text in zip(rows, texts, strict=True) if matches(text)]
