"""`meantime why`: what a thread waited for, and what that waited for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer, table_rows
from meantime.cli.inputs import load, notify_of_nothing
from meantime.cli.options import (
    file_argument,
    format_options,
    json_option,
    limit_option,
    once,
    output_option,
    range_options,
    reading_options,
    reject,
    session_option,
)
from meantime.cli.tables import Column, more, print_table
from meantime.errors import UsageError
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.query.critical_path import CriticalPath

__all__ = ["command"]


@click.command("why", epilog="Example:  meantime why sched.txt --thread postgres --from 2s --to 3s")
@format_options
@session_option
@file_argument("file", "FILE")
@once(
    "--thread",
    metavar="THREAD",
    required=True,
    help="Id or name of the thread, or a regular expression that matches one `name (id)`.",
)
@range_options
@limit_option(10)
@output_option("PATH.svg", "Draw the path: what each thread on it did for the thread.")
@json_option
@reading_options
def command(
    *,
    file: str,
    thread: str,
    from_: str | None,
    to: str | None,
    output: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Show why a thread took its time: what it waited for, and who woke it.

    This is the critical path that ends where the range ends: where the thread waits, the path is on
    the thread that woke it, and on what that waited for.
    The trace must have the scheduler's switches and wake-ups, as `perf sched record` and
    `trace-cmd record -e sched` write them.
    """
    if as_json and output == "-":
        reject(("output",), "--json, which prints to standard output too")
    if output is not None and output != "-" and not output.endswith(".svg"):
        raise UsageError(f"-o {output!r} does not end in .svg, which is what is drawn")
    history = load(file, **reading)
    from meantime.query.critical_path import critical_path  # noqa: PLC0415 - NumPy is not for --help

    notify_of_nothing(history, from_, to)
    path = critical_path(history, thread, start=from_, end=to)
    if output is not None:
        _draw(path, file, output)
    if as_json:
        print_answer(path.as_json())
    elif output != "-":
        _print(history, path)


def _draw(path: CriticalPath, file: str, output: str) -> None:
    from meantime.cli.output import write  # noqa: PLC0415 - only with -o
    from meantime.view_functions.statemap import statemap  # noqa: PLC0415 - as above

    title = f"Critical path of {path.titles[path.quark]}"
    write(output, statemap(path.history(), title=title).render("svg"), [file])


def _print(history: History, path: CriticalPath) -> None:
    from meantime.query.parts import extent_of  # noqa: PLC0415 - NumPy is not for --help

    shares = path.shares()
    if not shares:
        return
    limit = table_rows()
    start_ns, end_ns = path.range_ns
    extent = extent_of(history)
    by_state: Counter[str] = Counter()
    for row in shares:
        by_state[row.state] += row.total_ns
    print_table(
        f"Why {path.titles[path.quark]} took {format_ns(end_ns - start_ns)}"
        f" from {extent.text(start_ns)} to {extent.text(end_ns)}",
        [
            Column("thread"),
            Column("state"),
            *(Column(name, numeric=True) for name in ("share", "time", "parts", "longest")),
            Column("because"),
        ],
        [
            [
                row.thread,
                row.state,
                f"{row.share:.1%}",
                format_ns(row.total_ns),
                f"{row.parts:,}",
                format_ns(row.max_ns),
                row.because,
            ]
            for row in shares[:limit]
        ],
        drop=("parts", "longest"),
    )
    if limit is not None and len(shares) > limit:
        rest_ns = sum(row.total_ns for row in shares[limit:])
        click.echo(f"{more(len(shares), limit)}, {format_ns(rest_ns)} in all\n")
    states = [f"{name} {ns / (end_ns - start_ns):.1%}" for name, ns in by_state.most_common()]
    click.echo(f"the path in all: {', '.join(states)}\n")
    longest = path.longest(limit)
    print_table(
        "The longest parts of the path",
        [
            Column("from", numeric=True),
            Column("time", numeric=True),
            Column("thread"),
            Column("state"),
            Column("because"),
        ],
        [
            [
                extent.text(int(path.start_ns[row])),
                format_ns(int(path.end_ns[row] - path.start_ns[row])),
                path.titles[int(path.thread[row])],
                path.state[row] or "",
                path.because[row] or "",
            ]
            for row in longest.tolist()
        ],
    )
