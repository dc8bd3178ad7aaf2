"""The options of `meantime stats`, and the other side of a comparison."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from meantime.cli.inputs import load
from meantime.errors import UsageError
from meantime.options import (
    EXACT,
    FILTER,
    IDLE,
    LENIENT,
    PROVIDER,
    STRICT,
    WHOLE,
    Range,
    file_or_range,
    option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.query.counting import Counted
    from meantime.query.duration_sums import Keep

__all__ = ["By", "Groups", "OfStates", "StatsOptions", "after_stats", "other_side"]

Groups = Literal["request", "route", "function", "site", "process", "service", "operation"]
OfStates = Literal["state", "entity", "host"]
By = Literal[OfStates, Groups, "name", "category", "thread"]


class StatsOptions(Range):
    """What is counted, and how it is grouped."""

    by: By | None = option(
        "--by",
        choices=get_args(By),
        metavar="GROUPING",
        absent="name if there are spans or samples, otherwise state",
        help="Group states by state, entity or host, requests of a recording by request, route or"
        " function, its tasks and callbacks by function or by site, these and its event loops by"
        " process, spans of services by service or operation, spans by name, category or thread,"
        " the use of CPUs by thread, and samples by name.",
    )
    filter: str | None = FILTER
    of: Counted | None = option(help="Count `spans` or `samples` of a trace that has both.")
    lanes: tuple[str, ...] = option(
        "--lane",
        default=(),
        metavar="PATTERN",
        repeated=True,
        help="Only lanes whose path matches, or else those below it.",
        more="The pattern is that of [`meantime query`](#meantime-query). Lanes below are taken if"
        " what matches has no states, spans or samples itself.",
    )
    whole: bool = WHOLE
    idle: bool = IDLE
    against: str | tuple[str, str] | None = option(
        "--against",
        metavar="FROM..TO|FILE",
        parse=file_or_range("--against"),
        help="Compare with this range, or with another trace: states, or spans or samples by name.",
        more="It prints totals and shares before and after, and how they changed, the largest"
        " change first. Shares are of each range times its entities, so ranges of different length"
        " can be compared.",
    )
    event: str | None = option(
        "--event",
        metavar="NAME",
        help="Count only samples of this event.",
        more="Also where there are spans.",
    )
    sketch: bool = option(
        "--sketch",
        default=False,
        help="Take quantiles from a histogram: within 0.4 % of a duration of that rank.",
        more="Its cells are at most 2^-7 of a duration wide, and the heading says so. Statistics of"
        " many hosts are added up in much less memory this way; all other figures are the same.",
    )
    exact: bool = EXACT
    tree: bool = option("--tree", default=False, help="Print the call tree, heaviest calls first.")
    callers: str | None = option(
        "--callers", metavar="NAME", help="Print the callers of this function."
    )
    callees: str | None = option(
        "--callees", metavar="NAME", help="Print the functions called by this function."
    )
    longest: str | None = option(
        "--longest", metavar="NAME", help="Print the longest spans with this name, in full."
    )
    histogram: str | None = option(
        "--histogram",
        metavar="NAME",
        help="Print a histogram of the durations of spans with this name, in 20 equal parts.",
    )
    as_json: bool = option(default=False, help="Print one JSON object.")
    provider: str | None = PROVIDER
    lenient: bool = LENIENT
    strict: bool = STRICT

    @property
    def question(self) -> tuple[str, str] | None:
        """The option that replaces the statistics, and its name; None if there is none."""
        for what in ("callers", "callees", "longest", "histogram"):
            if (name := getattr(self, what)) is not None:
                return what, name
        if self.tree:
            return "tree", ""
        return None if self.against is None else ("against", "")

    @property
    def keep(self) -> Keep | None:
        """How durations are kept for their quantiles."""
        return "sketch" if self.sketch else None

    @property
    def reading(self) -> dict[str, Any]:
        """How files are read."""
        return {name: getattr(self, name) for name in ("provider", "lenient", "strict")}

    def _check(self) -> None:
        if self.exact and self.sketch:
            raise UsageError("--exact and --sketch are mutually exclusive")
        asked = [
            name
            for name in ("callers", "callees", "longest", "histogram", "tree", "against")
            if name in self.given
        ]
        if len(asked) > 1:
            raise UsageError(f"--{asked[0]} and --{asked[1]} are mutually exclusive")
        if self.against is not None and self.by in get_args(OfStates):
            return
        if asked and self.by not in {None, "name"}:
            raise UsageError(f"--{asked[0]} applies to names; leave out --by {self.by}")


def after_stats(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what to ask after statistics of the running command: about their first row."""
    params = click.get_current_context().params
    files = params["files"]
    within = [
        word
        for option, name in (("--from", "start"), ("--to", "end"))
        if params[name] is not None
        for word in (option, params[name])
    ]
    row: dict[str, Any] = next(iter(document.get("rows", [])), {})
    if "against_range_ns" in document:
        return
    if "quantile_error" in document and not params["sketch"]:
        words = ["stats", *files, "--by", document["by"], *within, "--exact", "--json"]
        yield shlex.join(["meantime", *words]), "exact quantiles"
    if "span" in row:
        words, purpose = ["query", *files, f"span {row['span']}"], "what is in the longest one"
    elif document.get("by") == "state":
        words, purpose = ["stats", *files, "--by", "entity"], "time of each entity in each state"
    elif document.get("by") == "entity" and row:
        words, purpose = ["query", *files, "intervals", row["entity"]], "states of the first row"
    elif document.get("by") == "name" and row.get("key") and "self_ns" in row:
        longest = "median_ns" in row
        words = ["stats", *files, "--longest" if longest else "--callers", row["key"]]
        purpose = "longest spans of the first row" if longest else "what called the first row"
    else:
        return
    if "span" not in row:
        words += within
    yield shlex.join(["meantime", *words, "--json"]), purpose


def other_side(history: History, options: StatsOptions) -> tuple[History, StatsOptions]:
    """Return what `--against` compares with: another trace, or another range of the same one."""
    if isinstance(options.against, str):
        other = load(options.against, **options.reading)
        return other, options.changed(start=None, end=None, lanes=())
    start, end = options.against or (None, None)
    return history, options.changed(start=start, end=end, lanes=())
