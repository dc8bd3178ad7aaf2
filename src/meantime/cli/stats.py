"""`meantime stats`: the time in states, spans and samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from meantime.cli.inputs import load
from meantime.cli.options import (
    file_argument,
    filter_option,
    json_option,
    lenient_option,
    once,
    provider_option,
    range_options,
    strict_option,
)
from meantime.cli.parts import against as compared_with
from meantime.cli.tables import Column, print_table
from meantime.errors import InputError, UsageError
from meantime.units import format_ns

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.query.statistics import StateStatistics, StatisticsRow

__all__ = ["command"]

_By = Literal[
    "state", "entity", "request", "route", "function", "site", "name", "category", "thread"
]
# Left out in this order on a terminal that is too narrow.
_DROP = ("mean", "median", "p90", "p99", "count", "longest", "share")


@click.command(
    "stats",
    epilog="Example:  meantime stats pg.statemap.gz --by entity --from 100ms --to 200ms",
)
@file_argument("file", "FILE")
@once(
    "--by",
    type=click.Choice(
        ["state", "entity", "request", "route", "function", "site", "name", "category", "thread"]
    ),
    help="Group states by state or by entity, a recording's requests by request, route or function,"
    " its tasks by function or by the site of their spawn, spans by name, category or thread, and"
    " samples by name.  [name if there are spans or samples, otherwise state]",
)
@range_options
@filter_option
@click.option(
    "--whole", is_flag=True, help="Count the full duration of spans that cross the range's edges."
)
@once(
    "--against",
    metavar="FROM..TO|FILE",
    help="Compare with this range, or with another trace: states, or spans or samples by name.",
)
@click.option("--tree", is_flag=True, help="Print the call tree, heaviest calls first.")
@once("--callers", metavar="NAME", help="Print the callers of this function.")
@once("--callees", metavar="NAME", help="Print the functions called by this function.")
@once("--longest", metavar="NAME", help="Print the longest spans with this name.")
@once(
    "--histogram",
    metavar="NAME",
    help="Print a histogram of the durations of spans with this name.",
)
@json_option
@provider_option
@lenient_option
@strict_option
def command(
    *,
    file: str,
    by: _By | None,
    from_: str | None,
    to: str | None,
    pattern: str | None,
    whole: bool,
    against: str | None,
    tree: bool,
    as_json: bool,
    provider: str | None,
    lenient: bool,
    strict: bool,
    **of_name: str | None,
) -> None:
    """Show where the time went: by state or entity, or by name of spans or samples."""
    question = _question(of_name, by=by, against=against, tree=tree)
    compared_to = None if against is None else compared_with(against)
    # to compare the range with another one, all is needed
    start, end = (from_, to) if against is None else (None, None)
    history = load(file, lenient=lenient, strict=strict, provider=provider, start=start, end=end)
    has_stacks = len(history.spans()) + len(history.samples()) > 0
    if by is None:
        is_of_names = question is not None and question[0] != "against"
        by = "name" if has_stacks or is_of_names else "state"
    if by == "request" or by == "route" or by == "function" or by == "site":  # noqa: PLR1714 - mypy narrows by ==
        _reject_for_groups(by, question, whole=whole)
        from meantime.cli import stats_groups  # noqa: PLC0415 - NumPy is not for --help

        stats_groups.answer(file, history, by, from_, to, pattern, as_json=as_json)
        return
    if by != "state" and by != "entity":  # noqa: PLR1714 - mypy narrows by !=
        if not has_stacks:
            option = f"--{question[0]}" if question else f"--by {by}"
            raise InputError(file, f"there are no spans and no samples for {option}")
        from meantime.cli import stats_stacks  # noqa: PLC0415 - NumPy is not for --help
        from meantime.query.parts import part_of  # noqa: PLC0415 - as above

        asked = part_of(history, from_, to, pattern)
        other = compared_to and compared_to.part(
            history, pattern, lenient=lenient, strict=strict, provider=provider
        )
        stats_stacks.answer(asked, by, question, other, whole=whole, as_json=as_json)
        return
    if whole:
        raise UsageError("--whole applies to spans; these are states")
    statistics = _statistics(history, by, from_, to, pattern)
    if compared_to is None:
        if as_json:
            click.echo(json.dumps(_document(statistics)))
        else:
            _print(statistics)
        return
    from meantime.cli import stats_compared  # noqa: PLC0415 - only for --against

    compared = history
    if compared_to.file is not None:
        compared = load(compared_to.file, lenient=lenient, strict=strict, provider=provider)
    if not len(history.lanes) and not len(history.samples()):
        raise InputError(file, "there are no states, spans or samples for --against")
    before = _statistics(compared, by, compared_to.from_, compared_to.to, pattern)
    stats_compared.show(before, statistics, as_json=as_json)


def _statistics(
    history: History,
    by: Literal["state", "entity"],
    from_: str | None,
    to: str | None,
    pattern: str | None,
) -> StateStatistics:
    from meantime.query.parts import extent_of, given_range, range_of  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.sampled_states import with_sampled_states  # noqa: PLC0415 - as above
    from meantime.query.statistics import state_statistics  # noqa: PLC0415 - NumPy is not for --help

    history = with_sampled_states(history)
    start_ns, end_ns = given_range(history, from_, to)
    statistics = state_statistics(history, by=by, pattern=pattern, start_ns=start_ns, end_ns=end_ns)
    if not statistics.rows and (from_ is not None or to is not None):
        raise extent_of(history).nothing(*range_of(history, from_, to))
    return statistics


def _question(
    of_name: dict[str, str | None], *, by: str | None, against: str | None, tree: bool
) -> tuple[str, str] | None:
    """Return the option that replaces the statistics, and its name; None if there is none.

    Raises:
        UsageError: If there is more than one such option, or it does not apply with `by`.
    """
    asked = [(what, name) for what, name in of_name.items() if name is not None]
    if tree:
        asked.append(("tree", ""))
    if against is not None:
        asked.append(("against", ""))
    if len(asked) > 1:
        first, second = (f"--{what}" for what, _ in asked[:2])
        raise UsageError(f"{first} and {second} are mutually exclusive")
    if against is not None and by in {"state", "entity"}:
        return asked[0]
    if asked and by not in {None, "name"}:
        raise UsageError(f"--{asked[0][0]} applies to names; leave out --by {by}")
    return asked[0] if asked else None


def _reject_for_groups(by: str, question: tuple[str, str] | None, *, whole: bool) -> None:
    if question is not None:
        raise UsageError(f"--{question[0]} does not apply with --by {by}")
    if whole:
        raise UsageError("--whole applies to spans; requests and tasks are counted in full")


def _document(statistics: StateStatistics) -> dict[str, Any]:
    return {
        "by": statistics.by,
        "range_ns": list(statistics.range_ns),
        "rows": [_fields(row) for row in statistics.rows],
        "transitions": [list(transition) for transition in statistics.transitions],
    }


def _fields(row: StatisticsRow) -> dict[str, Any]:
    fields = asdict(row)
    if row.entity is None:
        del fields["entity"]
    return fields


def _print(statistics: StateStatistics) -> None:
    start_ns, end_ns = statistics.range_ns
    by_entity = statistics.by == "entity"
    names = ["total", "share", "count", "mean", "median", "p90", "p99", "longest"]
    kinds = statistics.kinds or [""]
    for kind in kinds:
        # the share of a loop and that of its tasks cannot be added up, so each has a table
        named = f"{kind}: time" if len(kinds) > 1 else "Time"
        print_table(
            f"{named} in states over {format_ns(end_ns - start_ns)}",
            [Column("entity")] * by_entity
            + [Column("state"), *(Column(name, numeric=True) for name in names)],
            [
                [row.entity or ""] * by_entity
                + [
                    row.key,
                    format_ns(row.total_ns),
                    f"{row.share:.2%}",
                    f"{row.count:,}",
                    format_ns(round(row.mean_ns)),
                    *map(format_ns, (row.median_ns, row.p90_ns, row.p99_ns, row.max_ns)),
                ]
                for row in statistics.rows
                if row.kind == kind
            ],
            drop=_DROP,
        )
    for kind in kinds:
        followed = [row for row in statistics.transitions if row.kind == kind]
        if followed:
            print_table(
                f"{kind}: transitions" if len(kinds) > 1 else "Transitions",
                [Column("from"), Column("to"), Column("count", numeric=True)],
                [[row.before, row.after, f"{row.times:,}"] for row in followed],
            )
