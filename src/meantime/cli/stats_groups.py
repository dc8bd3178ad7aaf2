"""`meantime stats` by request, route, function, site or process: how long, and on what."""

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
from meantime.query.groups import Group, group_statistics
from meantime.query.parts import extent_of, given_range

if TYPE_CHECKING:
    from meantime.cli.stats_options import StatsOptions
    from meantime.history.history import History
    from meantime.query.groups import Grouping

__all__ = ["answer"]

_STATES = ("running", "runnable", "blocked")
_MOST_REASONS = 3
_MOST_BLOCKS = 2
_LEAST_SHARE = 0.0005
_NO_REQUESTS = (
    "there are no requests: those of uvicorn and aiohttp are recorded, and those of other servers"
    " with the middleware RequestTags"
)
_MISSING = {
    "site": "there are no tasks of a recording for --by site",
    "function": "there are no tasks or requests of a recording for --by function",
    "process": "there are no processes: this is not a recording of several of them",
}


def answer(file: str, history: History, by: Grouping, options: StatsOptions) -> None:
    """Print a table for each kind of entity, or one JSON object.

    Raises:
        InputError: If the history has no such entities.
    """
    start_ns, end_ns = given_range(history, options.start, options.end)
    grouped = partial(group_statistics, history, by=by, pattern=options.filter)
    found = grouped(start_ns=start_ns, end_ns=end_ns)
    if not found.rows:
        if not grouped().rows:
            raise InputError(file, _MISSING.get(by, _NO_REQUESTS))
        click.echo(str(extent_of(history).nothing(start_ns, end_ns)), err=True)
    if options.as_json:
        content = [row_as_json(row) for row in found.rows]
        print_answer({"by": by, "range_ns": found.range_ns, "rows": content})
        return
    for kind in dict.fromkeys(row.kind for row in found.rows):
        rows = [row for row in found.rows if row.kind == kind]
        states = {
            Column(name, numeric=True): [_share(row, row.state_ns.get(name, 0)) for row in rows]
            for name in _STATES
        }
        more = states | {Column("waiting"): [*map(_waits, rows)]}
        if any(row.block_ns for row in rows):
            more[Column("blocked the loop")] = [*map(_blocks, rows)]
        print_figures(
            f"{kind} by {by} over {format_ns(found.range_ns[1] - found.range_ns[0])}",
            {Column(by): [row.key for row in rows]},
            figures_of(Group),
            rows,
            more=more,
        )


def _waits(row: Group) -> str:
    waits = {
        name.partition(":")[2] or name: ns
        for name, ns in row.state_ns.items()
        if name not in _STATES
    }
    return ", ".join(
        f"{name} {_share(row, ns)}"
        for name, ns in list(waits.items())[:_MOST_REASONS]
        if ns >= _LEAST_SHARE * row.total_ns
    )


def _blocks(row: Group) -> str:
    most = list(row.block_ns.items())[:_MOST_BLOCKS]
    rest = [f"{len(row.block_ns) - len(most)} more"] if len(row.block_ns) > len(most) else []
    return ", ".join([f"{code} {_share(row, ns)}" for code, ns in most] + rest)


def _share(row: Group, ns: int) -> str:
    return f"{ns / row.total_ns:.1%}" if row.total_ns else "0.0%"
