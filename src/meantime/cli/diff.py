"""`meantime diff`: what changed from some runs to others."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from meantime.cli.answers import print_answer, table_rows
from meantime.cli.inputs import import_numpy, notify, of_session
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    of_options,
    once,
    options_of,
    output_option,
    reject,
    session_option,
    zone_option,
)
from meantime.cli.progress import progress_bar
from meantime.cli.tables import Column, print_table, sentence_lines
from meantime.cli.terminal import width_of
from meantime.cli.two_sides import TwoSides, two_sides
from meantime.errors import UsageError
from meantime.options import file_or_range
from meantime.query.compared_by import BELOW
from meantime.query.sentences import counted
from meantime.view_functions.compare_options import DiffOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.compare import ComparedRow, Comparison
    from meantime.query.rules import Rule

__all__ = ["command"]

FAILED = 3
# Left out in this order on a terminal that is too narrow.
_DROP = ("p", "points", "95 %", "before")
_DOTTED = re.compile(r"\w+(\.\w+)+")


@click.command(
    "diff",
    cls=TwoSides,
    epilog="Example:  meantime diff before/*.json -- after/*.json --by name --fail-on worse",
)
@input_options
@session_option
@file_argument("files", "FILE...", nargs=-1, required=True)
@options_of(DiffOptions)
@of_options
@once(
    "--ranges",
    metavar="FROM..TO,FROM..TO",
    help="Compare two ranges of one FILE, the one before first.",
)
@output_option("OUT", "Draw what changed, and both sides over time: .svg or .html.")
@limit_option(20)
@once(
    "--fail-on",
    metavar="worse|any|RULE",
    help="Exit with status 3 if something takes noticeably more, if anything changed noticeably, or"
    """ if a rule is broken, such as 'p99 of "checkout" no more than 10 % up'.""",
)
@click.option("--markdown", is_flag=True, help="Print a short table for a pull request.")
@zone_option
@json_option
def command(
    *,
    files: tuple[str, ...],
    ranges: str | None,
    output: str | None,
    fail_on: str | None,
    markdown: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compare some runs with others: what changed, by how much, and how sure that is.

    BEFORE and AFTER are the traces of one run each; several a side distinguish a change from
    noise. Without `--` there are two FILEs, one of each.
    """
    _check_output(output, as_json=as_json, markdown=markdown)
    options = DiffOptions(**given, intact=True, notify=notify, progress=progress_bar)
    if ranges is not None:
        reject(("start", "end"), "--ranges, which are the two ranges")
    rule = _rule(fail_on)
    before, after = _sides(files, ranges)
    import_numpy()
    from meantime.view_functions.comparing import diff  # noqa: PLC0415 - NumPy is not for --help

    view = diff(before, after, **vars(options))
    found = view.comparison
    if fail_on is not None and not found.is_certain:
        raise UsageError(
            "--fail-on needs at least 4 runs a side: fewer cannot distinguish a change from noise"
        )
    if output is not None:
        from meantime.cli.output import write  # noqa: PLC0415 - only with -o

        form = PurePath(output).suffix[1:] or "svg"
        write(output, view.render(form), [each for side in (before, after) for each in side])
    if output != "-":
        print_ = _print_json if as_json else _print_markdown if markdown else _print
        print_(found)
    if rule is not None:
        verdict = view.verdict(rule)
        click.echo(
            f"{'holds' if verdict.holds else 'BROKEN'}  {rule.text}: {verdict.measured}", err=True
        )
        return 0 if verdict.holds else FAILED
    is_failure = found.is_worse if fail_on == "worse" else bool(found.changed)
    return FAILED if fail_on is not None and is_failure else 0


def _rule(fail_on: str | None) -> Rule | None:
    """Return the rule after `--fail-on`, if it is one.

    Raises:
        UsageError: If it is neither a rule nor a word.
    """
    if fail_on in {None, "worse", "any"}:
        return None
    from meantime.query.rules.grammar import parse_rule  # noqa: PLC0415 - few comparisons have one

    assert fail_on is not None
    return parse_rule(fail_on)


def _check_output(output: str | None, *, as_json: bool, markdown: bool) -> None:
    """Check that options for the output apply.

    Raises:
        UsageError: If one does not.
    """
    if as_json and markdown:
        raise UsageError("--json and --markdown are mutually exclusive")
    if output is None:
        reject(("title", "align", "period"), "figures: it is for the picture that -o writes")
        return
    if output == "-":
        reject(("as_json", "markdown", "limit"), "-o -, which prints the picture alone")
    elif PurePath(output).suffix not in {".svg", ".html"}:
        raise UsageError(f"{output!r} must end in .svg or .html")


def _print_json(found: Comparison) -> None:
    print_answer(found.as_json())


def _sides(files: Sequence[str], ranges: str | None) -> tuple[list[Any], list[Any]]:
    """Return the runs before and after.

    Raises:
        UsageError: If it is not clear which is which.
    """
    if ranges is not None:
        both = [file_or_range("--ranges")(each) for each in ranges.split(",")]
        if len(both) != 2 or any(isinstance(each, str) for each in both):
            raise UsageError(f"--ranges {ranges!r}: write two ranges, such as 0s..10s,20s..30s")
        if len(files) != 1:
            raise UsageError("--ranges compares two ranges of one FILE")
        [source] = of_session(files)
        before, after = ((source, *each) for each in both)
        return [before], [after]
    return two_sides(files, "; --ranges compares two ranges of one FILE")


def _print(found: Comparison) -> None:
    for sentence in found.sentences:
        for line in sentence_lines(sentence, width_of(sys.stdout)):
            click.echo(line)
    if not (rows := _rows(found)):
        return
    cells = [_cells(found, row) for row in rows]
    if found.by == "stack" and width_of(sys.stdout) is not None:
        cells = [[*_brief(*each[:2]), *each[2:]] for each in cells]
    click.echo()
    print_table(
        _title(found),
        [
            *(Column(name) for name in _names(found)),
            *(Column(name, numeric=True) for name in _figures(found)),
        ],
        cells,
        drop=_DROP,
    )


def _brief(function: str, callers: str) -> tuple[str, str]:
    """Return a stack for a terminal: without modules, and of the callers the nearest."""
    caller, *others = (_without_module(each) for each in callers.split(BELOW))
    return _without_module(function), caller + (f"{BELOW}…" if others else "")


def _without_module(name: str) -> str:
    """Return the last two parts of a name with dots, such as a class and its method."""
    return ".".join(name.split(".")[-2:]) if _DOTTED.fullmatch(name) else name


def _print_markdown(found: Comparison) -> None:
    for sentence in found.sentences:
        click.echo(f"{sentence}\n")
    if not found.rows:
        return
    headings = [*_names(found), *_figures(found)]
    names = len(_names(found))
    click.echo(f"| {' | '.join(headings)} |")
    click.echo("|" + "---|" * names + "---:|" * (len(headings) - names))
    for row in _rows(found)[: table_rows()]:
        cells = [cell.replace("|", "\\|") for cell in _cells(found, row)]
        click.echo(f"| {' | '.join(cells)} |")


def _rows(found: Comparison) -> list[ComparedRow]:
    """Return the rows that have something: outermost spans often take no time themselves."""
    return [row for row in found.rows if any(found.values(row))]


def _title(found: Comparison) -> str:
    before, after = found.runs
    figure = f"{found.title} time" if found.title in {"self", "total"} else found.title
    return (
        f"What changed: {figure} by {found.by}, {counted(before, 'run')} before and {after} after"
    )


def _figures(found: Comparison) -> list[str]:
    """Return the headings of the figures; without certainty there are none about it."""
    certain = ["95 %", "p"] if found.is_certain else []
    return ["before", "after", "change", *certain, *(["points"] if found.wholes else [])]


def _names(found: Comparison) -> list[str]:
    """Return the headings of the names; all of one kind need none for it."""
    if found.by == "stack":
        return ["function", "called by"]
    return [name for name in found.names if name != "kind" or _has_kinds(found)]


def _has_kinds(found: Comparison) -> bool:
    return found.names[0] == "kind" and len({row.key[0] for row in found.rows}) > 1


def _cells(found: Comparison, row: ComparedRow) -> list[str]:
    key = row.key if found.names[0] != "kind" or _has_kinds(found) else row.key[1:]
    if found.by == "stack":
        key = row.stack
    sides = ["" if value is None else found.text(value) for value in found.values(row)]
    if row.relative is None or row.before is None or row.after is None:
        change = "new" if row.before is None else "gone" if row.after is None else ""
    else:
        change = f"{row.relative:+.1%}"
    mark = "*" if row.is_noticeable else ""
    interval = (
        "" if row.interval is None else f"{row.interval.low:+.1%} to {row.interval.high:+.1%}"
    )
    probability = "" if row.corrected is None else f"{row.corrected:.2g}"
    points = [f"{100 * row.part:+.2f}" if row.part is not None else ""] if found.wholes else []
    certain = [interval, probability] if found.is_certain else []
    return [*key, *sides, change + mark, *certain, *points]
