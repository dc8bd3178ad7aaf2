"""`meantime top`: show what a recorded program is doing, in a table that refreshes."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meantime.cli.options import once, reject
from meantime.errors import UsageError
from meantime.units import format_ns, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from meantime.readers.recording.activity import Group
    from meantime.readers.recording.live import LiveActivity

__all__ = ["command"]

_NS_PER_S = 10**9
_ORDER = ("Loops", "Workers", "Threads", "Tasks")
_COLUMNS = ("running", "runnable")


@click.command("top", epilog="Example:  meantime top app.mtr")
@click.argument("file", metavar="NAME.mtr")
@once("--every", metavar="TIME", default="1s", help="Time between refreshes.  [1s]")
@once("-n", "--rows", type=click.IntRange(1), default=20, help="Number of groups to show.  [20]")
@click.option("--once", "single", is_flag=True, help="Print one table and exit.")
def command(*, file: str, every: str, rows: int, single: bool) -> None:
    """Show what a program is doing while it is being recorded.

    The recording's files are read from outside; the program itself is not interrupted.
    """
    if single:
        reject(("every",), "--once")
    every_ns = parse_duration(every)
    if every_ns <= 0:
        raise UsageError(f"--every {every!r} is not positive; write a time such as 500ms")
    if not Path(file).is_dir():
        raise UsageError(
            f"{file}: not a recording; name the directory that `meantime record` writes"
        )
    from rich.console import Console  # noqa: PLC0415 - not for --help

    from meantime.readers.recording.live import LiveActivity  # noqa: PLC0415 - as above

    console = Console()
    following = LiveActivity(Path(file))
    following.update()
    if single or not sys.stdout.isatty():
        console.print(_table(file, following, rows))
        return
    from rich.live import Live  # noqa: PLC0415 - not for --help

    table = _table(file, following, rows)
    with (
        Live(table, console=console, screen=True, auto_refresh=False) as live,
        suppress(KeyboardInterrupt),
    ):
        while True:
            time.sleep(every_ns / _NS_PER_S)
            following.update()
            live.update(_table(file, following, rows), refresh=True)


def _table(file: str, following: LiveActivity, rows: int) -> Table:
    from rich.table import Table  # noqa: PLC0415 - not for --help

    groups = sorted(
        following.activity.groups(),
        # groups of which nothing is active now are last
        key=lambda group: (_ORDER.index(group.name[0]), not any(group.now.values())),
    )
    ended = "" if following.is_live else ", ended"
    table = Table(
        title="\n".join([f"{file}: {format_ns(following.duration_ns)}{ended}", *_said(following)]),
        caption=f"{len(groups) - rows:,} more: see --rows" if len(groups) > rows else None,
        box=None,
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("group", overflow="fold")
    for name in ("all", "now", "running", "runnable", "waiting", "longest\nblock"):
        table.add_column(name, justify="right")
    table.add_column("in or for", overflow="fold")
    for group in groups[:rows]:
        table.add_row(*_cells(group))
    return table


def _said(following: LiveActivity) -> Iterator[str]:
    if (longest := following.longest) is not None:
        yield f"longest block: {format_ns(longest.duration_ns)} by {longest.where()}"
    if following.lost:
        yield f"{following.lost:,} events could not be recorded"


def _cells(group: Group) -> list[str]:
    now = group.now
    waiting = {state: count for state, count in now.items() if state.startswith("waiting")}
    others = {state: count for state, count in now.items() if state not in _COLUMNS}
    reasons = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    one = group.name[0] != "Tasks"
    return [
        "/".join(group.name),
        *(
            f"{count:,}" if count else ""
            for count in (
                group.members,
                sum(now.values()),
                now.get("running", 0),
                now.get("runnable", 0),
                sum(waiting.values()),
            )
        ),
        format_ns(group.longest_ns) if group.longest_ns else "",
        ", ".join(
            (state.partition(":")[2] or state) + ("" if one else f" {count:,}")
            for state, count in reasons
        ),
    ]
