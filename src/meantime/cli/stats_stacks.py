"""`meantime stats` of spans and samples: statistics, and questions about a name."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from meantime.cli.dump_spans import span_fields
from meantime.cli.tables import Column, print_table
from meantime.errors import MeantimeError, UsageError
from meantime.query.durations import duration_histogram, longest_spans, span_statistics
from meantime.query.stacks import callees, callers, left_heavy
from meantime.query.threads import thread_of, thread_quarks, thread_title
from meantime.query.trees import by_name, call_tree
from meantime.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.cli.parts import Part
    from meantime.history.spans import SpanTable
    from meantime.query.durations import Grouping
    from meantime.query.stacks import CallTree

__all__ = ["answer"]

_MOST_ROWS = 60
_LONGEST = 10
_BINS = 20
_BAR = 40
_MOST_TEXT = 100


class _Table(NamedTuple):
    """An answer for people: columns by name, those of times marked by `_ns`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def answer(
    part: Part,
    by: Grouping,
    question: tuple[str, str] | None,
    other: Part | None,
    *,
    whole: bool,
    as_json: bool,
) -> None:
    """Print statistics, or the answer to a question, as one JSON object or as a table.

    Raises:
        MeantimeError: If there is no such name.
        UsageError: If the question makes no sense for samples.
    """
    has_spans = len(part.history.spans()) > 0
    what, name = question or ("", "")
    has_samples = len(part.history.samples()) > 0
    if not has_spans and has_samples and (by != "name" or what in {"longest", "histogram"}):
        asked = f"--{what}" if what else f"--by {by}"
        raise UsageError(f"{asked} is about spans, and this trace has samples only")
    if other is not None:
        document, table = _compared(part, other, whole=whole)
    elif what in {"longest", "histogram"}:
        spans = part.history.spans(_threads(part), start_ns=part.start_ns, end_ns=part.end_ns)
        if not whole:
            spans = spans.clipped(part.start_ns, part.end_ns)
        _check(name, spans.name.names, np.unique(spans.name.codes))
        document, table = (_longest if what == "longest" else _histogram)(part, spans, name)
    elif what:
        tree, unit = _tree(part, whole=whole)
        if what == "tree":
            document, table = _all_calls(tree, unit)
        else:
            _check(name, tree.stacks.frames, np.unique(tree.stacks.frame))
            document, table = _neighbours(tree, unit, what, name)
    elif has_spans or not has_samples:
        document, table = _span_statistics(part, by, whole=whole)
    else:
        document, table = _sample_statistics(part)
    if as_json:
        click.echo(json.dumps({**document, "range_ns": [part.start_ns, part.end_ns]}))
    else:
        _print(table)


def _threads(part: Part) -> Any:
    return thread_quarks(part.history) if part.threads is None else part.threads


def _tree(part: Part, *, whole: bool) -> tuple[CallTree, str]:
    return call_tree(
        part.history, part.threads, start_ns=part.start_ns, end_ns=part.end_ns, whole=whole
    )


def _check(name: str, names: Sequence[str], there: Any) -> None:
    if not any(names[code] == name for code in there.tolist()):
        raise MeantimeError(f"nothing is called {name!r} in this part of the trace")


def _span_statistics(part: Part, by: Grouping, *, whole: bool) -> tuple[dict[str, Any], _Table]:
    threads = _threads(part)
    found = span_statistics(
        part.history,
        by,
        quarks=threads,
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        whole=whole,
    )
    window_ns = max(1, part.end_ns - part.start_ns)
    whole_ns = window_ns * (1 if by == "thread" else max(1, len(threads)))
    columns = ("total", "self", "median", "p90", "p99", "min", "max")
    rows: list[dict[str, Any]] = []
    for row, key in enumerate(found.keys):
        times = {f"{name}_ns": int(getattr(found, f"{name}_ns")[row]) for name in columns}
        count = int(found.count[row])
        total = {name: times.pop(name) for name in ("total_ns", "self_ns")}
        share = {"share": total["total_ns"] / whole_ns, "mean_ns": total["total_ns"] / count}
        rows.append({"key": key, "count": count, **total, **share, **times})
    shown = ["self_ns", "total_ns", "mean_ns", "median_ns", "p90_ns", "p99_ns", "max_ns"]
    return {"by": by, "rows": rows}, _Table(
        f"Time in spans over {format_ns(window_ns)}",
        [by, "count", *shown],
        [
            [row["key"] or "(none)", row["count"], *(round(row[name]) for name in shown)]
            for row in rows
        ],
    )


def _amount(name: str, unit: str) -> str:
    """Return the key of an amount: what is in nanoseconds says so."""
    return f"{name}_ns" if unit == "ns" else name


def _sample_statistics(part: Part) -> tuple[dict[str, Any], _Table]:
    tree, unit = _tree(part, whole=False)
    own, total = _amount("self", unit), _amount("total", unit)
    everything = max(1, int(tree.own.sum()))
    rows = [
        {
            "key": row.name,
            "count": row.calls,
            total: row.total,
            own: row.own,
            "share": row.total / everything,
        }
        for row in by_name(tree)
    ]
    return {"by": "name", "unit": unit, "rows": rows}, _Table(
        f"Samples of {len(tree):,} stacks, in {unit}",
        ["name", "count", own, total],
        [[row["key"], row["count"], row[own], row[total]] for row in rows],
    )


def _compared(part: Part, other: Part, *, whole: bool) -> tuple[dict[str, Any], _Table]:
    """Return each name's weights in both parts, what changed most in itself first."""
    after, unit = _tree(part, whole=whole)
    before, unit_before = _tree(other, whole=whole)
    if unit != unit_before and len(after) and len(before):
        raise UsageError(f"one counts {unit}, the other {unit_before}")
    sides = [{row.name: row for row in by_name(tree)} for tree in (before, after)]
    keys = [_amount(name, unit) for name in ("self", "total")]
    rows = []
    for name in {**sides[0], **sides[1]}:
        told: dict[str, Any] = {"key": name}
        for side, found in zip(("before", "after"), sides, strict=True):
            row = found.get(name)
            amounts = (row.calls, row.own, row.total) if row else (0, 0, 0)
            told[side] = dict(zip(("count", *keys), amounts, strict=True))
        rows.append(told)
    own, total = keys
    rows.sort(key=lambda row: (-abs(row["after"][own] - row["before"][own]), row["key"]))
    against = {"against_range_ns": [other.start_ns, other.end_ns]}
    return {"by": "name", "unit": unit, **against, "rows": rows}, _Table(
        "What changed",
        ["name", "count before", "count", f"before {own}", own, f"change {own}", f"change {total}"],
        [
            [
                row["key"],
                row["before"]["count"],
                row["after"]["count"],
                row["before"][own],
                row["after"][own],
                row["after"][own] - row["before"][own],
                row["after"][total] - row["before"][total],
            ]
            for row in rows
        ],
    )


def _longest(part: Part, spans: SpanTable, name: str) -> tuple[dict[str, Any], _Table]:
    rows = longest_spans(spans, name, _LONGEST).tolist()
    threads = spans.thread
    told = [span_fields(part.history, spans, row) for row in rows]
    return {"longest": name, "rows": told}, _Table(
        f"The longest of {name}",
        ["start_ns", "duration_ns", "thread", "arguments"],
        [
            [
                fields["start_ns"],
                fields["end_ns"] - fields["start_ns"],
                thread_title(thread_of(part.history, int(threads[row]))),
                "" if fields["args"] is None else json.dumps(fields["args"])[:_MOST_TEXT],
            ]
            for row, fields in zip(rows, told, strict=True)
        ],
    )


def _histogram(part: Part, spans: SpanTable, name: str) -> tuple[dict[str, Any], _Table]:
    del part
    edges, counts = (column.tolist() for column in duration_histogram(spans, name, bins=_BINS))
    most = max(1, *counts)
    return {"histogram": name, "edges_ns": edges, "counts": counts}, _Table(
        f"How long {name} lasted",
        ["from_ns", "to_ns", "count", ""],
        [
            [low, high, count, "#" * -(-count * _BAR // most)]
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
            if high > low
        ],
    )


def _all_calls(tree: CallTree, unit: str) -> tuple[dict[str, Any], _Table]:
    """Return the stacks in left-heavy order."""
    own, total = _amount("self", unit), _amount("total", unit)
    names, frame = tree.stacks.frames, tree.stacks.frame
    depth = np.zeros(len(tree), np.int64)
    rows = []
    for row in left_heavy(tree):
        above = int(tree.stacks.parent[row])
        depth[row] = depth[above] + 1 if above >= 0 else 0
        amounts = {total: int(tree.total[row]), own: int(tree.own[row])}
        rows.append(
            {
                "depth": int(depth[row]),
                "name": names[frame[row]],
                "count": int(tree.count[row]),
                **amounts,
            }
        )
    return {"tree": True, "unit": unit, "rows": rows}, _Table(
        "Who called whom",
        [total, own, "count", "name"],
        [
            [row[total], row[own], row["count"], "  " * min(row["depth"], _BAR) + row["name"]]
            for row in rows
        ],
    )


def _neighbours(tree: CallTree, unit: str, what: str, name: str) -> tuple[dict[str, Any], _Table]:
    found = (callers if what == "callers" else callees)(tree, name)
    total = _amount("total", unit)
    rows = [{"name": row.name, "count": row.calls, total: row.total} for row in found]
    heading = f"Who called {name}" if what == "callers" else f"Whom {name} called"
    return {what: name, "unit": unit, "rows": rows}, _Table(
        heading,
        ["name", "count", total],
        [[row["name"] or "(nobody)", row["count"], row[total]] for row in rows],
    )


def _print(table: _Table) -> None:
    is_text = [bool(table.rows) and isinstance(cell, str) for cell in (table.rows or [[]])[0]]
    columns = [
        Column(name.replace("_ns", ""), numeric=not text)
        for name, text in zip(table.columns, is_text or [True] * len(table.columns), strict=False)
    ]
    shown = table.rows[:_MOST_ROWS]
    print_table(
        table.title,
        columns,
        [
            [_cell(name, value) for name, value in zip(table.columns, row, strict=True)]
            for row in shown
        ],
    )
    if len(table.rows) > len(shown):
        click.echo(f"{len(table.rows) - len(shown):,} more; --json has all of them")


def _cell(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return format_ns(value) if column.endswith("_ns") else f"{value:,}"
