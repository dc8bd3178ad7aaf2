"""`meantime stats`: where the time went."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from meantime.cli.inputs import load, resolve
from meantime.cli.options import once
from meantime.cli.tables import Column, print_table
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.query.statistics import StateStatistics, StatisticsRow

__all__ = ["command"]


@click.command(
    "stats",
    epilog="Example:  meantime stats pg.statemap.gz --by entity --from 100ms --to 200ms",
)
@click.argument("file", metavar="FILE")
@once(
    "--by",
    type=click.Choice(["state", "entity", "name", "category", "thread"]),
    help="One row a state, or one a state of each entity; of spans one row a name, a category or a"
    " thread.  [state, or name where there are spans]",
)
@once("--from", "from_", metavar="TIME", help="Where the range begins.")
@once("--to", "to", metavar="TIME", help="Where the range ends.")
@click.option("--whole", is_flag=True, help="Count spans whole that stick out of the range.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--lenient", is_flag=True, help="Skip and count what cannot be read.")
def command(
    *,
    file: str,
    by: Literal["state", "entity", "name", "category", "thread"] | None,
    from_: str | None,
    to: str | None,
    whole: bool,
    as_json: bool,
    lenient: bool,
) -> None:
    """Tell where the time went: per state or entity, or per name of spans."""
    _, history = load(file, lenient=lenient)
    start_ns, end_ns = resolve(from_, history.clock), resolve(to, history.clock)
    if by is None:
        by = "name" if len(history.spans()) else "state"
    if by == "name" or by == "category" or by == "thread":  # noqa: PLR1714 - mypy narrows by ==
        from meantime.cli.stats_spans import (  # noqa: PLC0415 - NumPy is not for --help
            print_span_statistics,
        )

        print_span_statistics(
            history, by, start_ns=start_ns, end_ns=end_ns, whole=whole, as_json=as_json
        )
        return
    from meantime.query.statistics import state_statistics  # noqa: PLC0415 - NumPy is not for --help

    statistics = state_statistics(history, by=by, start_ns=start_ns, end_ns=end_ns)
    if as_json:
        click.echo(json.dumps(_document(statistics)))
    else:
        _print(statistics)


def _document(statistics: StateStatistics) -> dict[str, Any]:
    return {
        "by": statistics.by,
        "range_ns": list(statistics.range_ns),
        "rows": [_fields(row) for row in statistics.rows],
        "transitions": [list(transition) for transition in statistics.transitions],
    }


def _fields(row: StatisticsRow) -> dict[str, Any]:
    fields = asdict(row)
    if row.entity is None:
        del fields["entity"]
    return fields


def _print(statistics: StateStatistics) -> None:
    start_ns, end_ns = statistics.range_ns
    by_entity = statistics.by == "entity"
    names = ["total", "share", "count", "mean", "median", "p90", "p99", "longest"]
    print_table(
        f"Time in states over {format_ns(end_ns - start_ns)}",
        [Column("entity")] * by_entity
        + [Column("state"), *(Column(name, numeric=True) for name in names)],
        [
            [row.entity or ""] * by_entity
            + [
                row.key,
                format_ns(row.total_ns),
                f"{row.share:.2%}",
                f"{row.count:,}",
                format_ns(round(row.mean_ns)),
                *map(format_ns, (row.median_ns, row.p90_ns, row.p99_ns, row.max_ns)),
            ]
            for row in statistics.rows
        ],
    )
    if statistics.transitions:
        print_table(
            "Transitions",
            [Column("from"), Column("to"), Column("count", numeric=True)],
            [[before, after, f"{count:,}"] for before, after, count in statistics.transitions],
        )
