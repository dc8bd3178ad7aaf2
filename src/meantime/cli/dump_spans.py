"""`meantime dump --kind spans`, `samples` and `counters`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.model.attribute_paths import PROCESSES
from meantime.model.attributes import format_path
from meantime.query.threads import numbered, thread_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s

__all__ = ["counters", "parsed", "samples", "span_fields", "spans"]


def _finite(text: str) -> float | str:
    """Return the number, or the text if it overflows: JSON has no infinity."""
    number = float(text)
    return number if math.isfinite(number) else text


# created once: `json.loads` creates a decoder for every text that is not strict
_DECODER = json.JSONDecoder(strict=False, parse_constant=str, parse_float=_finite)


def spans(
    history: History,
    threads: Int32s,
    start_ns: int | None,
    end_ns: int | None,
    *,
    only: Int32s | None = None,
) -> Iterator[str]:
    """Yield a line per span, in order of thread or async operation, start and depth.

    If `only` is given, it has the numbers of the spans that are printed.
    """
    table = history.spans(threads, start_ns=start_ns, end_ns=end_ns)
    names = [json.dumps(name) for name in table.name.names]
    # the last is for spans without a category, whose code is -1
    categories = [*(json.dumps(name) for name in table.category.names), "null"]
    self_ns, number = table.self_ns, table.rows
    wanted = None if only is None else {*only.tolist()}
    for thread, quark in enumerate(table.threads.tolist()):
        head = _ids(history, quark)
        rows = slice(int(table.offsets[thread]), int(table.offsets[thread + 1]))
        columns = (
            number,
            table.name.codes,
            table.category.codes,
            table.start_ns,
            table.end_ns,
            table.depth,
            table.lane,
            self_ns,
            table.unfinished,
            table.arguments_length,
        )
        values = zip(*(column[rows].tolist() for column in columns), strict=True)
        for row, (span, name, category, start, end, depth, lane, own, unfinished, length) in zip(
            range(rows.start, rows.stop), values, strict=True
        ):
            if wanted is not None and span not in wanted:
                continue
            args = json.dumps(parsed(table.arguments(row))) if length else "null"
            yield (
                f'{{"span": {span}, "name": {names[name]}, "category": {categories[category]},'
                f" {head},"
                f' "start_ns": {start}, "end_ns": {end},'
                f' "depth": {depth}, "lane": {lane}, "self_ns": {own},'
                f' "unfinished": {"true" if unfinished else "false"}, "args": {args}}}\n'
            )


def span_fields(history: History, table: SpanTable, row: int) -> dict[str, Any]:
    """Return the members of a span's line in `spans`."""
    thread = int(np.searchsorted(table.offsets, row, side="right")) - 1
    return {
        "span": int(table.rows[row]),
        "name": table.name[row],
        "category": table.category[row],
        **json.loads(f"{{{_ids(history, int(table.threads[thread]))}}}"),
        "start_ns": int(table.start_ns[row]),
        "end_ns": int(table.end_ns[row]),
        "depth": int(table.depth[row]),
        "lane": int(table.lane[row]),
        "self_ns": int(table.self_ns[row]),
        "unfinished": bool(table.unfinished[row]),
        "args": parsed(table.arguments(row)),
    }


def _ids(history: History, quark: int) -> str:
    whose = thread_of(history, quark)
    ids = f'"pid": {json.dumps(whose.pid)}, "tid": {json.dumps(whose.tid)}'
    if whose.tid is None:
        ids += f', "path": {json.dumps(format_path(history.attributes.path(quark)))}'
    return ids


def parsed(text: str | None) -> Any:
    """Return arguments parsed as JSON, or as text if they are not JSON."""
    try:
        return _DECODER.decode(text or "null")
    except (ValueError, RecursionError):
        return text


def samples(
    history: History, threads: Int32s, start_ns: int | None, end_ns: int | None
) -> Iterator[str]:
    """Yield a line per sample, in order of time."""
    table = history.samples(threads, start_ns=start_ns, end_ns=end_ns, event=ALL_EVENTS)
    frames: dict[int, str] = {}
    for row in range(len(table)):
        stack = int(table.stack[row])
        if stack not in frames:
            frames[stack] = json.dumps(table.stacks.frames_of(stack))
        whose = thread_of(history, int(table.thread[row]))
        fields = {
            "time_ns": int(table.time_ns[row]),
            "pid": whose.pid,
            "tid": whose.tid,
            "weight": int(table.weight[row]),
            "event": table.event[row],
        }
        if (name := table.name[row]) is not None:
            fields["name"] = name
        yield f'{json.dumps(fields)[:-1]}, "stack": {frames[stack]}}}\n'


def counters(
    history: History, quarks: Int32s, start_ns: int | None, end_ns: int | None
) -> Iterator[str]:
    """Yield a line per change of a counter's value."""
    for batch in history.interval_batches(quarks, start_ns, end_ns) if len(quarks) else ():
        for quark, since_ns, _, value, _, _ in batch:
            if value is None:
                continue
            path = history.attributes.path(quark)
            fields: dict[str, Any] = {"time_ns": since_ns, "path": format_path(path)}
            if path[0] == PROCESSES and len(path) == 5:
                fields |= {"pid": numbered(path[1]), "name": path[3], "series": path[4]}
            yield json.dumps({**fields, "value": value}) + "\n"
