"""`meantime stats` of spans: by name, category or thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.tables import Column, print_table
from meantime.query.durations import span_statistics
from meantime.query.threads import thread_quarks
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.query.durations import Grouping

__all__ = ["print_span_statistics"]

_MOST_ROWS = 60


def print_span_statistics(
    history: History,
    by: Grouping,
    *,
    start_ns: int | None,
    end_ns: int | None,
    whole: bool,
    as_json: bool,
) -> None:
    """Print the statistics of the threads' spans, as one JSON object or as a table.

    Raises:
        TimeRangeError: If the range is empty.
    """
    threads = thread_quarks(history)
    statistics = span_statistics(
        history, by, quarks=threads, start_ns=start_ns, end_ns=end_ns, whole=whole
    )
    begin_ns, finish_ns = history.bounds
    range_ns = (begin_ns if start_ns is None else start_ns, finish_ns if end_ns is None else end_ns)
    window_ns = max(1, range_ns[1] - range_ns[0])
    whole_ns = window_ns * (1 if by == "thread" else max(1, len(threads)))
    rows: list[dict[str, Any]] = [
        {
            "key": statistics.keys[row],
            "count": int(statistics.count[row]),
            "total_ns": int(statistics.total_ns[row]),
            "self_ns": int(statistics.self_ns[row]),
            "share": int(statistics.total_ns[row]) / whole_ns,
            "mean_ns": int(statistics.total_ns[row]) / int(statistics.count[row]),
            "median_ns": int(statistics.median_ns[row]),
            "p90_ns": int(statistics.p90_ns[row]),
            "p99_ns": int(statistics.p99_ns[row]),
            "min_ns": int(statistics.min_ns[row]),
            "max_ns": int(statistics.max_ns[row]),
        }
        for row in range(len(statistics))
    ]
    if as_json:
        click.echo(json.dumps({"by": by, "range_ns": list(range_ns), "rows": rows}))
        return
    times = ["self_ns", "total_ns", "mean_ns", "median_ns", "p90_ns", "p99_ns", "max_ns"]
    shown = rows[:_MOST_ROWS]
    print_table(
        f"Time in spans over {format_ns(window_ns)}",
        [Column(by), Column("count", numeric=True)]
        + [Column(name.removesuffix("_ns"), numeric=True) for name in times],
        [
            [row["key"] or "(none)", f"{row['count']:,}"]
            + [format_ns(round(row[name])) for name in times]
            for row in shown
        ],
    )
    if len(rows) > len(shown):
        click.echo(f"{len(rows) - len(shown):,} more; --json has all of them")
