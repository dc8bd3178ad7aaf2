"""`meantime dump` of what a history stores, one JSON object per line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.cli import dump_spans
from meantime.errors import MeantimeError
from meantime.model.attributes import entity_name, format_path
from meantime.model.columns import distinct
from meantime.query.services import spans_of_trace
from meantime.query.threads import choose_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s

__all__ = ["lines"]


def lines(
    history: History, kind: str, range_ns: tuple[int | None, int | None], pattern: str | None
) -> Iterator[str]:
    """Return the lines of a history's records.

    Raises:
        MeantimeError: If the filter matches nothing that has such records.
    """
    if kind == "tags":
        return (json.dumps(fields) + "\n" for fields in _tags(history))
    rows = _rows(history, kind)
    if pattern is not None:
        chosen = choose_rows(history, rows, pattern)
        if not len(chosen) and kind == "spans":
            of_trace = spans_of_trace(history, pattern)
            if len(of_trace):
                return dump_spans.spans(history, rows, *range_ns, only=of_trace)
        rows = chosen
        if not len(rows):
            raise MeantimeError(f"the filter {pattern!r} matches no entity and no thread of {kind}")
    if kind in {"spans", "samples", "counters"}:
        of_kind = {
            "spans": dump_spans.spans,
            "samples": dump_spans.samples,
            "counters": dump_spans.counters,
        }[kind]
        return of_kind(history, rows, *range_ns)
    made = {"intervals": _intervals, "points": _points, "flows": _flows}[kind]
    return (json.dumps(fields) + "\n" for fields in made(history, rows, *range_ns))


def _rows(history: History, kind: str) -> Int32s:
    """Return the attributes that have records of a kind."""
    if kind == "spans":
        return history.spans().threads
    if kind == "intervals":
        return np.arange(len(history.attributes), dtype=np.int32)
    if kind == "counters":
        counters = [lane.quarks for lane in history.lanes if lane.declaration.kind == "counter"]
        return distinct(np.concatenate([np.empty(0, np.int32), *counters]))
    if kind == "samples":
        return distinct(history.samples().thread)
    if kind == "points":
        return distinct(history.points().quark)
    flows = history.flows()
    return distinct(np.concatenate([flows.from_quark, flows.to_quark]))


def _intervals(
    history: History, rows: Int32s, start_ns: int | None, end_ns: int | None
) -> Iterator[dict[str, Any]]:
    if history.start_ns == history.end_ns:
        return  # an empty history has no range to query
    for batch in history.interval_batches(rows, start_ns, end_ns):
        for quark, since_ns, until_ns, value, tag, _ in batch:
            yield {
                "path": format_path(history.attributes.path(quark)),
                "start_ns": since_ns,
                "end_ns": until_ns,
                "value": value,
                "tag": tag,
            }


def _points(
    history: History, rows: Int32s, start_ns: int | None, end_ns: int | None
) -> Iterator[dict[str, Any]]:
    points, shown = history.points(), set(rows.tolist())
    for row in _rows_within(points.time_ns, start_ns, end_ns):
        if int(points.quark[row]) not in shown:
            continue
        fields = {
            "time_ns": int(points.time_ns[row]),
            "entity": entity_name(history.attributes.path(int(points.quark[row]))),
            "event": points.name[row],
        }
        if (arguments := points.arguments(row)) is not None:
            fields["args"] = dump_spans.parsed(arguments)
        yield fields


def _flows(
    history: History, rows: Int32s, start_ns: int | None, end_ns: int | None
) -> Iterator[dict[str, Any]]:
    flows, shown = history.flows(), set(rows.tolist())
    for row in _rows_within(flows.from_ns, start_ns, end_ns):
        if shown.isdisjoint((int(flows.from_quark[row]), int(flows.to_quark[row]))):
            continue
        yield {
            "time_ns": int(flows.from_ns[row]),
            "entity": entity_name(history.attributes.path(int(flows.from_quark[row]))),
            "event": flows.name[row],
            "target": entity_name(history.attributes.path(int(flows.to_quark[row]))),
        }


def _rows_within(times_ns: Int64s, start_ns: int | None, end_ns: int | None) -> range:
    """Return the rows of a column in order of time that are in a range."""
    first = 0 if start_ns is None else int(times_ns.searchsorted(start_ns))
    last = len(times_ns) if end_ns is None else int(times_ns.searchsorted(end_ns))
    return range(first, last)


def _tags(history: History) -> Iterator[dict[str, Any]]:
    for index, fields in enumerate(history.tags):
        yield {"tag": index, "fields": fields}
