"""`meantime stats` by service or operation: how long requests took, and the time of their own."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from meantime.cli.tables import Column, print_table
from meantime.errors import InputError
from meantime.query.parts import given_range
from meantime.query.services import service_statistics
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.query.services import ServiceGrouping

__all__ = ["answer"]

# Left out in this order on a terminal that is too narrow.
_DROP = ("longest", "total", "spans", "p50", "failed")


def answer(  # noqa: PLR0917 - the options of the command
    file: str,
    history: History,
    by: ServiceGrouping,
    from_: str | None,
    to: str | None,
    pattern: str | None,
    *,
    as_json: bool,
) -> None:
    """Print a table, or one JSON object.

    Raises:
        InputError: If the history has no spans of services.
    """
    start_ns, end_ns = given_range(history, from_, to)
    found = service_statistics(history, by=by, pattern=pattern, start_ns=start_ns, end_ns=end_ns)
    if not found.rows:
        asked = from_ is not None or to is not None
        raise InputError(
            file,
            f"there is nothing in this range for --by {by}"
            if asked
            else f"there are no services for --by {by}: they are in traces of OpenTelemetry, Jaeger"
            " and Zipkin",
        )
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    is_by_service = by == "service"
    of_trace = f" of trace {found.trace_id}" if found.trace_id else ""
    what = "Requests by service" if is_by_service else "Spans by operation"
    print_table(
        f"{what}{of_trace} over {format_ns(found.range_ns[1] - found.range_ns[0])}",
        [
            *([] if is_by_service else [Column("operation")]),
            Column("service"),
            *([Column("spans", numeric=True)] if is_by_service else []),
            Column("requests" if is_by_service else "spans", numeric=True),
            *(
                Column(name, numeric=True)
                for name in ("failed", "p50", "p99", "longest", "total", "own", "share")
            ),
        ],
        [
            [
                *([] if row.operation is None else [row.operation]),
                row.service,
                *([f"{row.spans:,}"] if is_by_service else []),
                f"{row.count:,}",
                f"{row.failed:,}",
                *map(
                    format_ns,
                    (row.median_ns, row.p99_ns, row.max_ns, row.total_ns, row.own_ns),
                ),
                f"{row.share:.2%}",
            ]
            for row in found.rows
        ],
        drop=_DROP if is_by_service else tuple(name for name in _DROP if name != "spans"),
    )
