"""`meantime findings`: what limited a trace, and what stands out in it, most time lost first."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer, table_rows
from meantime.cli.inputs import expanded, load_joined, notify_of_nothing
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    range_options,
    reading_options,
    session_option,
)
from meantime.cli.tables import Column, more, print_table, sentence_lines
from meantime.cli.terminal import width_of
from meantime.model.extent import format_handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.history.history import History
    from meantime.model.extent import Extent
    from meantime.query.explain import Conclusion, Explanation
    from meantime.query.findings import Finding

__all__ = ["command", "handle", "headlines"]

_HEADLINES, _MOST_BEHIND = 3, 2
_CARE = {"lost", "care"}
# the joined history that commands name, where there are several files
_JOINED = "joined.mtj"


@click.command("findings", epilog="Example:  meantime findings app.mtr --from 2s --to 10s")
@input_options
@session_option
@file_argument("files", "FILE...", nargs=-1, required=True)
@limit_option(10)
@range_options
@json_option
@reading_options
def command(
    *,
    files: tuple[str, ...],
    from_: str | None,
    to: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Report what stands out: blocked loops, slow calls, long waits, stops, lost data.

    What limited the whole trace comes first: `meantime explain` says more about that. Several FILEs
    are the hosts of one joined history.
    """
    paths = expanded(files)
    history = load_joined(paths, **reading)
    from meantime.query.explain import explain_briefly  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.findings import findings  # noqa: PLC0415 - as above
    from meantime.query.parts import extent_of, range_of  # noqa: PLC0415 - as above

    extent = extent_of(history)
    range_ns = range_of(history, from_, to)
    notify_of_nothing(history, from_, to)
    explanation = explain_briefly(history, range_ns)
    found = findings(history, start=from_, end=to, explanation=explanation)
    # standard input cannot be read again
    name = _JOINED if len(paths) > 1 else "FILE" if paths == ["-"] else paths[0]
    if as_json:
        conclusions = explanation.conclusions if explanation else ()
        document = {
            "range_ns": list(range_ns),
            "conclusions": [{"id": each.id, "sentence": each.sentence} for each in conclusions],
            "total": len(found),
            "findings": [_document(each, name) for each in found],
        }
        print_answer(document, _following(found, name))
        return
    if explanation is not None:
        _print_conclusions(explanation, found)
    own = [each for each in found if not each.cause]
    limit = table_rows()
    shown = own[:limit]
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
    if len(own) > len(shown):
        click.echo(f"\n{more(len(own), len(shown))}")


def headlines(history: History) -> list[Conclusion | Finding]:
    """Return what to say first of a trace: what limited it, then what stands out."""
    from meantime.query.explain import explain_briefly  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.findings import findings  # noqa: PLC0415 - as above
    from meantime.query.parts import range_of  # noqa: PLC0415 - as above

    explanation = explain_briefly(history, range_of(history, None, None))
    conclusions = explanation.conclusions if explanation else ()
    found = findings(history, explanation=explanation)
    own = [each for each in found if each.lost_ns and not each.cause][:_HEADLINES]
    listed = {f"{each.sentence}." for each in own}
    return [*[each for each in conclusions if each.sentence not in listed][:_HEADLINES], *own]


def _print_conclusions(explanation: Explanation, found: Sequence[Finding]) -> None:
    """Print what limited the trace, with what that explains."""
    width = width_of(sys.stdout)
    listed = {f"{each.sentence}." for each in found}
    said = [each for each in explanation.conclusions if each.sentence not in listed][:_HEADLINES]
    for each in said:
        _print_lines(each.sentence, width)
        behind = [finding for finding in found if finding.cause == each.id]
        for finding in behind[:_MOST_BEHIND]:
            _print_lines(f"explains: {finding.sentence}", width, indent="  ")
        if len(behind) > _MOST_BEHIND:
            click.echo(f"  and {len(behind) - _MOST_BEHIND:,} more of that time")
    if not explanation.conclusions:
        _print_lines(explanation.no_conclusion, width)
    if said or not explanation.conclusions:
        click.echo()


def _print_lines(text: str, width: int | None, *, indent: str = "") -> None:
    for line in sentence_lines(text, None if width is None else width - len(indent)):
        click.echo(indent + line)


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
    from meantime.model.units import rounded_ns  # noqa: PLC0415 - NumPy is not for --help

    # what is to be read with care has lost no time
    is_timed = any(each.lost_ns for each in found)
    times = [[rounded_ns(each.lost_ns)] if is_timed else [] for each in found]
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


def _following(found: Sequence[Finding], file: str) -> Iterator[tuple[str, str]]:
    """Yield what to ask next: what the worst finding shows, and what else happened there."""
    for each in found[:1]:
        yield each.command(file), "shows the first finding"
        where = shlex.join(["meantime", "query", file, handle(each), "--json"])
        yield where, "what is at its handle"
