"""`meantime stats` by service or operation: how long requests took, and the time of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from meantime.cli.answers import print_answer
from meantime.cli.figures import print_figures
from meantime.cli.tables import Column
from meantime.errors import InputError
from meantime.model.durations import as_json as row_as_json
from meantime.model.durations import figures_of
from meantime.model.units import format_ns
from meantime.query.parts import extent_of, given_range
from meantime.query.services import ServiceGroup, service_statistics

if TYPE_CHECKING:
    from meantime.cli.stats_options import StatsOptions
    from meantime.history.history import History
    from meantime.query.services import ServiceGrouping

__all__ = ["answer"]


def answer(file: str, history: History, by: ServiceGrouping, options: StatsOptions) -> None:
    """Print a table, or one JSON object.

    Raises:
        InputError: If the history has no spans of services.
    """
    start_ns, end_ns = given_range(history, options.start, options.end)
    grouped = partial(service_statistics, history, by=by, pattern=options.filter)
    found = grouped(start_ns=start_ns, end_ns=end_ns)
    if not found.rows:
        if not grouped().rows:
            raise InputError(
                file,
                f"there are no services for --by {by}: they are in traces of OpenTelemetry, Jaeger"
                " and Zipkin",
            )
        click.echo(str(extent_of(history).nothing(start_ns, end_ns)), err=True)
    if options.as_json:
        rows = [row_as_json(row) for row in found.rows]
        about = {"by": by, "range_ns": found.range_ns, "trace_id": found.trace_id}
        print_answer(about | {"rows": rows})
        return
    is_by_service = by == "service"
    of_trace = f" of trace {found.trace_id}" if found.trace_id else ""
    what = "Requests by service" if is_by_service else "Spans by operation"
    names = {Column("service"): [row.service for row in found.rows]}
    figures = figures_of(ServiceGroup)
    if not is_by_service:
        names = {Column("operation"): [row.operation or "" for row in found.rows]} | names
        figures = [figure for figure in figures if figure.key != "spans"]
    print_figures(
        f"{what}{of_trace} over {format_ns(found.range_ns[1] - found.range_ns[0])}",
        names,
        figures,
        found.rows,
        titles={"count": "requests" if is_by_service else "spans"},
    )
