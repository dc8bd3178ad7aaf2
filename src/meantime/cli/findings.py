"""`meantime findings`: what stands out in a trace, most time lost first."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.inputs import expanded, load_joined
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    lenient_option,
    limit_option,
    provider_option,
    range_options,
    strict_option,
)
from meantime.cli.tables import Column, more, print_table
from meantime.extent import format_handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.extent import Extent
    from meantime.history.history import History
    from meantime.query.findings import Finding

__all__ = ["command", "handle", "headlines"]

_HEADLINES = 3
_CARE = {"lost", "care"}
# the joined history that commands name, where there are several files
_JOINED = "joined.mtj"


@click.command("findings", epilog="Example:  meantime findings app.mtr --from 2s --to 10s")
@input_options
@file_argument("files", "FILE...", nargs=-1, required=True)
@limit_option("findings to print", 10)
@range_options
@json_option
@provider_option
@lenient_option
@strict_option
def command(
    *,
    files: tuple[str, ...],
    limit: int,
    from_: str | None,
    to: str | None,
    as_json: bool,
    provider: str | None,
    lenient: bool,
    strict: bool,
) -> None:
    """Report what stands out: blocked loops, slow calls, long waits, stops, lost data.

    Several FILEs are the hosts of one joined history.
    """
    paths = expanded(files)
    history = load_joined(paths, lenient=lenient, strict=strict, provider=provider)
    from meantime.query.findings import findings  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.parts import extent_of, range_of  # noqa: PLC0415 - as above

    extent = extent_of(history)
    found = findings(history, start=from_, end=to)
    # standard input cannot be read again
    name = _JOINED if len(paths) > 1 else "FILE" if paths == ["-"] else paths[0]
    if as_json:
        document = {
            "range_ns": list(range_of(history, from_, to)),
            "total": len(found),
            "findings": [_document(each, name) for each in found[:limit]],
        }
        click.echo(json.dumps(document))
        return
    shown = found[:limit]
    events = [each for each in shown if each.kind not in _CARE]
    if events:
        _print("What stands out", events, extent)
    else:
        click.echo("nothing stands out")
    if care := [each for each in shown if each.kind in _CARE]:
        if not events:
            click.echo()
        _print("Read with care", care, extent)
    if events:
        click.echo("see")
        if len(paths) > 1:
            click.echo(f"  {shlex.join(['meantime', 'join', *paths, '-o', name])}")
        for line in dict.fromkeys(each.command(name) for each in events):
            click.echo(f"  {line}")
    if len(found) > limit:
        click.echo(f"\n{more(len(found), limit)}")


def headlines(history: History) -> list[Finding]:
    """Return the first findings that are not about the input."""
    from meantime.query.findings import findings  # noqa: PLC0415 - NumPy is not for --help

    return [each for each in findings(history) if each.lost_ns][:_HEADLINES]


def handle(finding: Finding) -> str:
    """Return the place of a finding: the number of a span, or `lane@time`."""
    if finding.spans:
        return f"span {finding.spans[0]}"
    return format_handle(finding.rows[0] if finding.rows else "", finding.start_ns)


def _document(finding: Finding, file: str) -> dict[str, Any]:
    return finding.as_json() | {
        "handle": handle(finding),
        "command": finding.command(file),
    }


def _print(title: str, found: Sequence[Finding], extent: Extent) -> None:
    from meantime.query.findings.finding import text_of_ns  # noqa: PLC0415 - NumPy is not for --help

    # what is to be read with care has lost no time
    is_timed = any(each.lost_ns for each in found)
    times = [[text_of_ns(each.lost_ns)] if is_timed else [] for each in found]
    print_table(
        title,
        [
            *([Column("time", numeric=True)] if is_timed else []),
            Column("kind"),
            Column("from", numeric=True),
            Column("finding", prose=True),
        ],
        [
            [
                *time,
                each.kind,
                "" if each.kind == "care" else extent.text(each.start_ns),
                each.sentence,
            ]
            for time, each in zip(times, found, strict=True)
        ],
        drop=("kind",),
    )
