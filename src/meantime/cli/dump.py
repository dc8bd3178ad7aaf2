"""`meantime dump`: the content of a trace, one JSON object per line."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import exported_rows
from meantime.cli.inputs import import_numpy, load, notify_of_nothing
from meantime.cli.options import (
    file_argument,
    filter_option,
    input_options,
    limit_option,
    once,
    range_options,
    reading_options,
    reject,
    session_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command"]

_LINES_AT_ONCE = 2**14
# Kinds that only a trace has: a history does not store them.
_OF_TRACE = {"changes", "events"}


@click.command("dump", epilog="Example:  meantime dump pg.statemap.gz --kind intervals | head")
@input_options
@session_option
@file_argument("file", "FILE")
@once(
    "--kind",
    type=click.Choice(
        [
            "changes",
            "intervals",
            "events",
            "spans",
            "samples",
            "points",
            "counters",
            "flows",
            "tags",
        ]
    ),
    default="changes",
    help="Kind of records to print.  [changes]",
)
@range_options
@limit_option(None)
@filter_option
@reading_options
def command(
    *,
    file: str,
    kind: str,
    from_: str | None,
    to: str | None,
    pattern: str | None,
    **reading: Any,
) -> None:
    """Print the content of a trace, one JSON object per line."""
    if kind in _OF_TRACE | {"tags"}:
        reject(("from_", "to", "pattern"), f"--kind {kind}")
    if kind in _OF_TRACE:
        reject(("provider",), f"--kind {kind}")
        import_numpy()
        from meantime.cli import dump_trace  # noqa: PLC0415 - NumPy is not for --help

        lines: Iterator[str] = dump_trace.lines(
            file, kind, lenient=reading["lenient"], strict=reading["strict"]
        )
    else:
        history = load(file, **reading, start=from_, end=to)
        from meantime.cli import dump_history  # noqa: PLC0415 - as above
        from meantime.query.parts import given_range  # noqa: PLC0415 - as above

        notify_of_nothing(history, from_, to)
        lines = dump_history.lines(history, kind, given_range(history, from_, to), pattern)
    waiting: list[str] = []
    for line in islice(lines, exported_rows()):
        waiting.append(line)
        if len(waiting) == _LINES_AT_ONCE:
            sys.stdout.write("".join(waiting))
            waiting.clear()
    sys.stdout.write("".join(waiting))
