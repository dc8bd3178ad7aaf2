"""`meantime explain`: where the time of a trace, or of one activity, went, and what limited it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from meantime.cli.answers import print_answer, table_rows
from meantime.cli.inputs import load_joined, notify_of_nothing
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    once,
    output_option,
    range_options,
    reading_options,
    reject,
    session_option,
)
from meantime.cli.tables import Column, print_table, sentence_lines
from meantime.cli.terminal import width_of
from meantime.errors import MeantimeError, UsageError
from meantime.model.units import format_ns
from meantime.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.explain import Conclusion, Explanation
    from meantime.query.explain.activity_path import ActivityPath

__all__ = ["command"]

FAILED = 3
_MOST_STEPS = 3
_RULE = re.compile(r"^\s*(?P<id>[\w./ -]+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<limit>\S+)\s*$")


@click.command("explain", epilog="Example:  meantime explain sched.txt postgres --from 2s --to 3s")
@input_options
@session_option
@file_argument("files", "FILE... [ACTIVITY]", nargs=-1, required=True)
@range_options
@limit_option(10)
@once(
    "--roles",
    metavar="FILE.toml",
    type=click.Path(),
    help="What the states of the trace mean, where their names do not say it.",
)
@click.option(
    "--fail-if",
    "rules",
    metavar="RULE",
    multiple=True,
    help="Exit with status 3 if this holds, such as 'cpu.full > 0.9' or 'lock.waits > 50ms'."
    " Repeatable.",
)
@output_option("PATH.svg", "Draw the path of the activity: what each lane did for it.")
@json_option
@reading_options
def command(
    *,
    files: tuple[str, ...],
    from_: str | None,
    to: str | None,
    roles: str | None,
    rules: tuple[str, ...],
    output: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Explain what limited a trace: where its time went, which resources were full.

    With ACTIVITY, the same of one thread, request or step: its path through all that it waited for.
    Several FILEs are the hosts, or the ranks, of one joined history.
    """
    files, activity = _files_and_activity(files)
    parsed = [_rule(text) for text in rules]
    _check_options(activity, output, as_json=as_json)
    history = load_joined(files, **reading)
    from meantime.query.explain import explain  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.explain.roles import read_roles  # noqa: PLC0415 - as above

    given = None if roles is None else read_roles(Path(roles))
    notify_of_nothing(history, from_, to)
    found = explain(history, activity, start=from_, end=to, roles=given)
    file = "FILE" if files == ("-",) else files[0] if len(files) == 1 else "joined.mtj"
    if output is not None:
        if found.path is None:
            raise MeantimeError("there is no path to draw in this range")
        _draw(found.path, file, output)
    broken = [rule for rule in parsed if rule.holds(found)]
    if as_json:
        document = found.as_json(file)
        if parsed:
            document["failed"] = [rule.text for rule in broken]
        print_answer(document, _following(found, file))
    elif output != "-":
        _print(found, file)
    for rule in broken:
        click.echo(f"meantime: {rule.text}: {rule.measured(found)}", err=True)
    return FAILED if broken else 0


def _files_and_activity(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the files, and the activity if the last argument names no file."""
    last = arguments[-1]
    is_file = last == "-" or is_url(last) or any(mark in last for mark in "*?[")
    if len(arguments) == 1 or is_file or Path(last).exists():
        return arguments, None
    return arguments[:-1], last


def _check_options(activity: str | None, output: str | None, *, as_json: bool) -> None:
    if as_json and output == "-":
        reject(("output",), "--json, which prints to standard output too")
    if output is not None and activity is None:
        raise UsageError("-o draws the path of one activity: name it after the file")
    if output not in {None, "-"} and not str(output).endswith(".svg"):
        raise UsageError(f"-o {output!r} does not end in .svg, which is what is drawn")


class _Rule(NamedTuple):
    """A limit for a measure: of its share, or of its time."""

    text: str
    id: str
    sign: str
    limit: float
    of_time: bool

    def _value(self, found: Explanation) -> float | None:
        measure = next((each for each in found.measures if each.id == self.id), None)
        if measure is None:
            return None
        return measure.value_ns if self.of_time else measure.share

    def holds(self, found: Explanation) -> bool:
        """Return whether the measure is beyond the limit; one that was not measured is 0.

        Raises:
            UsageError: If no trace of this family has such a measure.
        """
        value = self._value(found) or 0
        match self.sign:
            case ">":
                return value > self.limit
            case ">=":
                return value >= self.limit
            case "<":
                return value < self.limit
            case _:
                return value <= self.limit

    def measured(self, found: Explanation) -> str:
        value = self._value(found) or 0
        return f"it is {format_ns(int(value)) if self.of_time else f'{value:.3g}'}"


def _rule(text: str) -> _Rule:
    from meantime.model.units import parse_duration  # noqa: PLC0415 - only with --fail-if

    parts = _RULE.match(text)
    if parts is None:
        raise UsageError(
            f"--fail-if {text!r} is not a rule; write ID > SHARE or ID > TIME, such as"
            " 'cpu.full > 0.9'"
        )
    limit = parts["limit"]
    try:
        return _Rule(text, parts["id"], parts["sign"], float(limit), of_time=False)
    except ValueError:
        return _Rule(text, parts["id"], parts["sign"], parse_duration(limit), of_time=True)


def _draw(path: ActivityPath, file: str, output: str) -> None:
    from meantime.cli.output import write  # noqa: PLC0415 - only with -o
    from meantime.view_functions.statemap import statemap  # noqa: PLC0415 - as above

    title = f"Path of {path.title}"
    write(output, statemap(path.history(), title=title).render("svg"), [file])


def _print(found: Explanation, file: str) -> None:
    for sentence in found.sentences:
        for line in sentence_lines(sentence, width_of(sys.stdout)):
            click.echo(line)
    click.echo()
    _print_budget(found)
    _print_resources(found)
    for sentence in found.missing:
        click.echo(f"not known: {sentence}")
    commands = dict.fromkeys(_command(each, file) for each in found.conclusions)
    if shown := [each for each in commands if each]:
        click.echo("see")
        for line in shown:
            click.echo(f"  {line}")


def _command(conclusion: Conclusion, file: str) -> str:
    return conclusion.evidence[0].command(file) if conclusion.evidence else ""


def _print_budget(found: Explanation) -> None:
    from meantime.query.explain.budget import percentages  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.sentences import counted  # noqa: PLC0415 - as above

    rows = found.budget.shown(table_rows())
    shares = percentages([row.total_ns for row in rows])
    of = found.path.title if found.path else counted(found.activities, found.kind)
    print_table(
        f"The time of {of}, {format_ns(found.budget.total_ns)} in all",
        [
            Column("class"),
            Column("what"),
            Column("time", numeric=True),
            Column("share", numeric=True),
        ],
        [
            [row.kind.text, row.label, format_ns(row.total_ns), f"{share:.1f}%"]
            for row, share in zip(rows, shares, strict=True)
        ],
    )


def _print_resources(found: Explanation) -> None:
    if not found.resources:
        return
    print_table(
        "Resources",
        [
            Column("resource"),
            *(
                Column(name, numeric=True)
                for name in ("capacity", "used", "full", "waiting", "somebody waits", "p99")
            ),
            Column("verdict"),
        ],
        [
            [
                each.name,
                str(each.capacity) if each.is_declared else f"at least {each.capacity}",
                f"{each.utilisation:.1%}",
                f"{each.full_share:.1%}",
                f"{each.queue_mean:.2f}",
                f"{each.somebody_waits:.1%}",
                "" if each.latency is None else format_ns(each.latency.p99_ns),
                each.verdict,
            ]
            for each in found.resources
        ],
        drop=("p99", "somebody waits"),
    )


def _following(found: Explanation, file: str) -> Iterator[tuple[str, str]]:
    """Yield what to ask next: the evidence of the conclusions, and what stands out."""
    for each in found.conclusions[:_MOST_STEPS]:
        if command := _command(each, file):
            yield command, f"shows {each.id}"
    yield shlex.join(["meantime", "findings", file, "--json"]), "what stands out"
