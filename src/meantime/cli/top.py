"""`meantime top`: what a program that is being recorded is doing, as a table that refreshes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.options import once
from meantime.errors import UsageError
from meantime.units import format_ns, parse_duration

if TYPE_CHECKING:
    from rich.table import Table

    from meantime.readers.recording.activity import Group

__all__ = ["command"]

_NS_PER_S = 10**9


@click.command("top", epilog="Example:  meantime top app.mtr")
@click.argument("file", metavar="NAME.mtr")
@once("--every", metavar="TIME", default="1s", help="How often to refresh.  [1s]")
@once("-n", "--rows", type=click.IntRange(1), default=20, help="How many groups.  [20]")
@click.option("--once", "single", is_flag=True, help="Print one table and leave.")
def command(*, file: str, every: str, rows: int, single: bool) -> None:
    """Show what a program that is being recorded is doing.

    It reads the recording's files beside the program, which does nothing for it.
    """
    every_ns = parse_duration(every)
    if every_ns <= 0:
        raise UsageError(f"{every!r} is no time to wait for: write a positive one, as in 500ms")
    if not Path(file).is_dir():
        raise UsageError(f"{file}: is not a recording: give the directory that is being written")
    from rich.console import Console  # noqa: PLC0415 - not for --help

    console = Console()
    if single or not sys.stdout.isatty():
        console.print(_table(file, rows))
        return
    from rich.live import Live  # noqa: PLC0415 - not for --help

    with Live(_table(file, rows), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every_ns / _NS_PER_S)
            live.update(_table(file, rows), refresh=True)


def _table(file: str, rows: int) -> Table:
    from rich.table import Table  # noqa: PLC0415 - not for --help

    from meantime.readers import recording  # noqa: PLC0415 - NumPy is not for --help
    from meantime.readers.recording.activity import Activity  # noqa: PLC0415 - as above
    from meantime.trace import StateChanges  # noqa: PLC0415 - as above

    trace = recording.read(file, growing=True)
    activity = Activity(trace)
    for batch in trace.batches:
        if isinstance(batch, StateChanges):
            activity.add(batch)
    span_ns = trace.bounds[1] if trace.bounds else 0
    table = Table(title=f"{file}: {format_ns(span_ns)}", box=None, title_justify="left")
    table.add_column("group", overflow="fold")
    for name in ("all", "now", "running", "runnable", "waiting", "longest run"):
        table.add_column(name, justify="right")
    table.add_column("waits for")
    for group in activity.groups()[:rows]:
        table.add_row(*_cells(group))
    return table


def _cells(group: Group) -> list[str]:
    now = group.now
    waiting = {state: count for state, count in now.items() if state.startswith("waiting")}
    reasons = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    return [
        "/".join(group.name),
        f"{group.members:,}",
        f"{sum(now.values()):,}",
        f"{now.get('running', 0):,}",
        f"{now.get('runnable', 0):,}",
        f"{sum(waiting.values()):,}",
        format_ns(group.longest_ns),
        ", ".join(f"{state.partition(':')[2] or state} {count}" for state, count in reasons),
    ]
