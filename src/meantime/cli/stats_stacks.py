"""`meantime stats` of spans and samples: statistics, call trees and single names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from meantime.cli import stats_scheduling
from meantime.cli.stats_names import (
    Table,
    all_calls,
    compared,
    histogram,
    longest,
    neighbours,
    tree_of,
)
from meantime.cli.tables import Column, print_table
from meantime.columns import distinct
from meantime.errors import MeantimeError, UsageError
from meantime.history.samples import ALL_EVENTS
from meantime.query.durations import span_statistics
from meantime.query.parts import extent_of
from meantime.query.sample_units import events
from meantime.query.threads import thread_quarks
from meantime.query.trees import amount, by_name
from meantime.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.extent import Extent
    from meantime.query.duration_sums import Keep
    from meantime.query.durations import Grouping
    from meantime.query.parts import Part
    from meantime.query.scheduling import ThreadScheduling

__all__ = ["answer"]

_MOST_ROWS = 60
# Left out in this order on a terminal that is too narrow.
_DROP = ("mean", "median", "p90", "p99", "count", "max", "total")


def answer(
    part: Part,
    by: Grouping,
    question: tuple[str, str] | None,
    other: Part | None,
    scheduling: ThreadScheduling | None,
    *,
    whole: bool,
    event: str | None,
    keep: Keep | None,
    as_json: bool,
) -> None:
    """Print statistics, or the result of a question, as one JSON object or as a table.

    The JSON object has also how threads got the CPU, if that is given.
    With an event, they are of its samples, even if there are spans.

    Raises:
        MeantimeError: If the name does not occur, or there are no samples of the event.
        UsageError: If an option does not apply to samples.
    """
    async_spans = _count_async_spans(part)
    what, _ = question or ("", "")
    has_spans = len(thread_quarks(part.history)) > 0 and event is None
    if event is not None and event not in (counts := events(part.history)):
        named = f"; choose one of {', '.join(counts)}" if counts else ""
        raise MeantimeError(f"there are no samples of the event {event!r}{named}")
    if not has_spans and len(part.history.samples(event=ALL_EVENTS)):
        _reject_for_samples(by, what, whole=whole, keep=keep)
    if other is not None:
        document, table = compared(part, other, whole=whole, event=event)
    elif question is not None:
        document, table = _about(part, question, async_spans, whole=whole, event=event)
    elif has_spans or not len(part.history.samples(event=ALL_EVENTS)):
        most = None if as_json else _MOST_ROWS
        document, table = _span_statistics(part, by, whole=whole, most=most, keep=keep)
    else:
        document, table = _sample_statistics(part, event)
    if not table.rows and not async_spans and scheduling is None:
        raise extent_of(part.history).nothing(part.start_ns, part.end_ns)
    document["range_ns"] = [part.start_ns, part.end_ns]
    if async_spans:
        document["async_spans"] = async_spans
    if as_json:
        more = {} if scheduling is None else stats_scheduling.document(scheduling)
        click.echo(json.dumps(more | document))
    else:
        _show(part, table, async_spans, scheduling)


def _show(part: Part, table: Table, async_spans: int, scheduling: ThreadScheduling | None) -> None:
    if scheduling is not None:
        stats_scheduling.show(scheduling)
    if table.rows or scheduling is None:
        _print(table, extent_of(part.history))
    if async_spans:
        click.echo(f"{_not_counted(async_spans)}; meantime dump --kind spans prints them")


def _reject_for_samples(by: str, what: str, *, whole: bool, keep: Keep | None) -> None:
    """Reject options that do not apply to samples."""
    asked = None
    if by != "name" or what in {"longest", "histogram"}:
        asked = f"--{what}" if what else f"--by {by}"
    elif whole or keep is not None:
        asked = "--whole" if whole else "--sketch"
    if asked is not None:
        raise UsageError(f"{asked} applies to spans of threads; this trace has samples only")


def _about(
    part: Part,
    question: tuple[str, str],
    async_spans: int,
    *,
    whole: bool,
    event: str | None,
) -> tuple[dict[str, Any], Table]:
    """Return the document and table of a call tree, or of a single name."""
    what, name = question
    if what in {"longest", "histogram"}:
        spans = part.history.spans(_threads(part), start_ns=part.start_ns, end_ns=part.end_ns)
        if not whole:
            spans = spans.clipped(part.start_ns, part.end_ns)
        _check(name, spans.name.names, distinct(spans.name.codes), async_spans)
        return (longest if what == "longest" else histogram)(part, spans, name)
    tree, unit = tree_of(part, whole=whole, event=event)
    if what == "tree":
        return all_calls(tree, unit)
    _check(name, tree.stacks.frames, distinct(tree.stacks.frame), async_spans)
    return neighbours(tree, unit, what, name)


def _count_async_spans(part: Part) -> int:
    """Return the number of spans of async operations, which are not in the statistics."""
    if part.threads is not None:
        return 0
    spans = part.history.spans(start_ns=part.start_ns, end_ns=part.end_ns)
    is_async = ~np.isin(spans.threads, thread_quarks(part.history))
    return int(np.diff(spans.offsets)[is_async].sum())


def _not_counted(async_spans: int) -> str:
    return f"{async_spans:,} spans of async operations are not counted"


def _threads(part: Part) -> Any:
    return thread_quarks(part.history) if part.threads is None else part.threads


def _check(name: str, names: Sequence[str], there: Any, async_spans: int) -> None:
    if not any(names[code] == name for code in there.tolist()):
        left_out = f"; {_not_counted(async_spans)}" if async_spans else ""
        raise MeantimeError(f"{name!r} does not occur in this part of the trace{left_out}")


def _span_statistics(
    part: Part, by: Grouping, *, whole: bool, most: int | None, keep: Keep | None
) -> tuple[dict[str, Any], Table]:
    """Return the document and the table; both have at most `most` rows."""
    threads = _threads(part)
    found = span_statistics(
        part.history,
        by,
        quarks=threads,
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        whole=whole,
        keep=keep,
    )
    window_ns = max(1, part.end_ns - part.start_ns)
    whole_ns = window_ns * (1 if by == "thread" else max(1, len(threads)))
    columns = ("total", "self", "median", "p90", "p99", "min", "max")
    # by column, as there can be a million names
    total_ns, self_ns, *others = (getattr(found, f"{name}_ns")[:most].tolist() for name in columns)
    rows: list[dict[str, Any]] = [
        {
            "key": key,
            "count": count,
            "total_ns": total,
            "self_ns": own,
            "share": covered / whole_ns,
            "mean_ns": total / count,
            "median_ns": median,
            "p90_ns": p90,
            "p99_ns": p99,
            "min_ns": least,
            "max_ns": most,
        }
        for key, count, total, own, covered, median, p90, p99, least, most in zip(
            found.keys[:most],
            found.count[:most].tolist(),
            total_ns,
            self_ns,
            found.covered_ns[:most].tolist(),
            *others,
            strict=True,
        )
    ]
    shown = ["self_ns", "total_ns", "mean_ns", "median_ns", "p90_ns", "p99_ns", "max_ns"]
    about = ", quantiles within 0.4 %" if found.is_sketch else ""
    document: dict[str, Any] = {"by": by, "rows": rows}
    if found.is_sketch:
        document["sketch"] = True
    return document, Table(
        f"Time in spans over {format_ns(window_ns)}{about}",
        [by, "count", *shown],
        [
            [row["key"] or "(none)", row["count"], *(round(row[name]) for name in shown)]
            for row in rows[:_MOST_ROWS]
        ],
        _DROP,
        max(0, len(found) - _MOST_ROWS),
    )


def _sample_statistics(part: Part, event: str | None) -> tuple[dict[str, Any], Table]:
    tree, unit = tree_of(part, whole=False, event=event)
    own, total = amount("self", unit), amount("total", unit)
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
    return {"by": "name", "unit": unit, "rows": rows}, Table(
        f"Samples of {len(tree):,} stacks, in {unit}",
        ["name", "count", own, total],
        [[row["key"], row["count"], row[own], row[total]] for row in rows],
    )


def _print(table: Table, extent: Extent) -> None:
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
            [_cell(name, value, extent) for name, value in zip(table.columns, row, strict=True)]
            for row in shown
        ],
        drop=table.drop,
    )
    more = len(table.rows) - len(shown) + table.more
    if more:
        click.echo(f"{more:,} more; --json has all of them")


def _cell(column: str, value: Any, extent: Extent) -> str:
    if isinstance(value, str):
        return value
    if column == "start_ns":
        return extent.text(value)
    return format_ns(value) if column.endswith("_ns") else f"{value:,}"
