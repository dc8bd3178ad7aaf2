"""`meantime stats`: the time in states, spans and samples."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import click

from meantime.cli.inputs import load, load_joined
from meantime.cli.options import (
    file_argument,
    filter_option,
    input_options,
    json_option,
    lenient_option,
    of_options,
    once,
    provider_option,
    range_options,
    reject,
    strict_option,
)
from meantime.cli.parts import against as compared_with
from meantime.errors import InputError, UsageError
from meantime.stores import is_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s
    from meantime.history.history import History
    from meantime.query.counting import Counted
    from meantime.query.duration_sums import Keep
    from meantime.query.parts import Part
    from meantime.query.scheduling import ThreadScheduling
    from meantime.query.statistics import StateStatistics

__all__ = ["command"]

_Groups = Literal["request", "route", "function", "site", "process", "service", "operation"]
_OfStates = Literal["state", "entity", "host"]
_By = Literal[_OfStates, _Groups, "name", "category", "thread"]


@click.command(
    "stats",
    epilog="Example:  meantime stats pg.statemap.gz --by entity --from 100ms --to 200ms",
)
@input_options
@file_argument("files", "FILE... [HANDLE]", nargs=-1, required=True)
@once(
    "--by",
    type=click.Choice(get_args(_By)),
    metavar="GROUPING",
    help="Group states by state, entity or host, requests of a recording by request, route or"
    " function, its tasks and callbacks by function or by site, these and its event loops by"
    " process, spans of services by service or operation, spans by name, category or thread, the"
    " use of CPUs by thread, and samples by name.  [name if there are spans or samples, otherwise"
    " state]",
)
@range_options
@filter_option
@of_options
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    metavar="PATTERN",
    help="Only lanes whose path matches, or else those below it. Repeatable.",
)
@click.option(
    "--whole", is_flag=True, help="Count the full duration of spans that cross the range's edges."
)
@click.option("--idle", is_flag=True, help="Count samples of idle CPUs, too.")
@once(
    "--against",
    metavar="FROM..TO|FILE",
    help="Compare with this range, or with another trace: states, or spans or samples by name.",
)
@once("--event", metavar="NAME", help="Count only samples of this event.")
@click.option(
    "--sketch",
    is_flag=True,
    help="Take quantiles from a histogram: within 0.4 % of a duration of that rank.",
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
    files: tuple[str, ...],
    by: _By | None,
    from_: str | None,
    to: str | None,
    pattern: str | None,
    of: Counted | None,
    lanes: tuple[str, ...],
    whole: bool,
    idle: bool,
    against: str | None,
    event: str | None,
    sketch: bool,
    tree: bool,
    as_json: bool,
    provider: str | None,
    lenient: bool,
    strict: bool,
    **of_name: str | None,
) -> None:
    """Show where the time went: by state or entity, or by name of spans or samples.

    HANDLE is a span or the time of a lane, as `findings --json` and the page of
    `view` print it: the statistics are of its lane while it lasted.
    """
    files, handle = _without_handle(files)
    file = " ".join(files)
    if handle is not None or lanes:
        reject(("against",), "chosen lanes")
    if handle is not None:
        reject(("from_", "to", "lanes"), "a handle, which has a lane and a range")
    question = _question(of_name, by=by, against=against, tree=tree)
    compared_to = None if against is None else compared_with(against)
    # to compare the range with another one, or to find a handle, all is needed
    start, end = (from_, to) if against is None and handle is None else (None, None)
    history = load_joined(
        files, lenient=lenient, strict=strict, provider=provider, start=start, end=end
    )
    if compared_to is not None and not len(history.lanes) and not len(history.samples()):
        raise InputError(file, "there are no states, spans or samples for --against")
    chosen = _named(history, handle, _Chosen(from_, to, pattern, lanes))
    threads = chosen.threads(history)
    by = by or _default_by(history, question, threads, of or event, has_lanes=len(chosen.lanes) > 0)
    _check_event(by, event)
    _check_sketch(by, question)
    if (  # mypy narrows by ==
        by == "request"  # noqa: PLR1714 - as above
        or by == "route"
        or by == "function"
        or by == "site"
        or by == "process"
        or by == "service"
        or by == "operation"
    ):
        reject(("idle",), f"--by {by}")
        _reject_for_groups(by, question, whole=whole, lanes=len(chosen.lanes) > 0)
        _answer_groups(file, history, by, chosen, as_json=as_json)
        return
    if (
        by != "state"  # noqa: PLR1714 - mypy narrows by !=
        and by != "entity"
        and (by != "host" or _has_only_spans(history))
    ):
        scheduling = chosen.scheduling(history, by)
        if not threads.exist or (scheduling is not None and not _has_spans(history)):
            reject(("idle",), "the use of CPUs")
            _show_scheduling(
                scheduling, _no_names(file, by, question, chosen), whole=whole, as_json=as_json
            )
            return
        from meantime.cli import stats_stacks  # noqa: PLC0415 - NumPy is not for --help

        other = compared_to and compared_to.part(
            history, pattern, lenient=lenient, strict=strict, provider=provider
        )
        part = chosen.part(history, threads)
        stats_stacks.answer(
            part,
            by,
            question,
            other,
            scheduling,
            whole=whole,
            idle=idle,
            of="samples" if event is not None else of,
            event=event,
            keep="sketch" if sketch else None,
            as_json=as_json,
        )
        return
    if whole:
        raise UsageError("--whole applies to spans; these are states")
    reject(("idle",), "states")
    statistics = chosen.statistics(history, by, keep="sketch" if sketch else None)
    if compared_to is None:
        _show(statistics, by, as_json=as_json)
        return
    from meantime.cli import stats_states  # noqa: PLC0415 - NumPy is not for --help

    compared = history
    if compared_to.file is not None:
        compared = load(compared_to.file, lenient=lenient, strict=strict, provider=provider)
    before = _Chosen(compared_to.from_, compared_to.to, pattern, ()).statistics(compared, by)
    stats_states.compare(before, statistics, by, is_json=as_json)


def _without_handle(files: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the files, and the handle behind them, if there is one."""
    *before, last = files
    is_handle = ("@" in last or last.startswith("span ")) and not (
        is_url(last) or Path(last).exists()
    )
    return (tuple(before), last) if before and is_handle else (files, None)


def _check_event(by: str, event: str | None) -> None:
    """Reject options that do not apply to the samples of an event."""
    if event is None:
        return
    if by != "name":
        raise UsageError(f"--event applies to samples by name; leave out --by {by}")
    reject(("whole", "sketch"), "--event, which counts samples")


def _check_sketch(by: str, question: tuple[str, str] | None) -> None:
    """Reject `--sketch` for what are not statistics of states or spans."""
    if question is not None:
        reject(("sketch",), f"--{question[0]}")
    if by in get_args(_Groups):
        reject(("sketch",), f"--by {by}")


class _Threads(NamedTuple):
    """Threads with spans or samples; `quarks` is None for all."""

    quarks: Int32s | None
    exist: bool


class _Chosen(NamedTuple):
    """The range, filter and lanes that the statistics are about."""

    from_: str | None
    to: str | None
    pattern: str | None
    lanes: Sequence[str]

    def threads(self, history: History) -> _Threads:
        """Return the chosen threads that have spans or samples."""
        if not self.lanes:
            found = len(history.spans()) + len(history.samples()) + len(history.points())
            return _Threads(None, found > 0)
        import numpy as np  # noqa: PLC0415 - it is not for --help

        from meantime.query.handles import choose_lanes  # noqa: PLC0415 - as above
        from meantime.query.threads import sampled_or_spanned  # noqa: PLC0415 - as above

        quarks = np.intersect1d(choose_lanes(history, self.lanes), sampled_or_spanned(history))
        return _Threads(quarks, len(quarks) > 0)

    def part(self, history: History, threads: _Threads) -> Part:
        """Return the part of a history in which names are counted."""
        from meantime.query.parts import part_of  # noqa: PLC0415 - NumPy is not for --help

        # names are of spans and samples: no attribute derived from spans is needed
        stored = history.without_derived()
        return part_of(stored, self.from_, self.to, self.pattern, threads.quarks)

    def scheduling(self, history: History, by: str) -> ThreadScheduling | None:
        """Return how the chosen threads got the CPU; None if by something else or not known."""
        if by != "thread":
            return None
        from meantime.query.handles import choose_lanes  # noqa: PLC0415 - NumPy is not for --help
        from meantime.query.parts import given_range  # noqa: PLC0415 - as above
        from meantime.query.scheduling import thread_scheduling  # noqa: PLC0415 - as above

        start_ns, end_ns = given_range(history, self.from_, self.to)
        quarks = choose_lanes(history, self.lanes) if self.lanes else None
        found = thread_scheduling(
            history, pattern=self.pattern, quarks=quarks, start_ns=start_ns, end_ns=end_ns
        )
        return found if found.rows else None

    def statistics(
        self, history: History, by: _OfStates, keep: Keep | None = None
    ) -> StateStatistics:
        """Return the time in states."""
        from meantime.query.handles import choose_lanes  # noqa: PLC0415 - NumPy is not for --help
        from meantime.query.parts import extent_of, given_range, range_of  # noqa: PLC0415 - as above
        from meantime.query.sampled_states import with_sampled_states  # noqa: PLC0415 - as above
        from meantime.query.statistics import (  # noqa: PLC0415 - as above
            host_statistics,
            state_statistics,
        )

        history = with_sampled_states(history)
        start_ns, end_ns = given_range(history, self.from_, self.to)
        of = host_statistics if by == "host" else partial(state_statistics, by=by)
        statistics = of(
            history,
            pattern=self.pattern,
            quarks=choose_lanes(history, self.lanes) if self.lanes else None,
            start_ns=start_ns,
            end_ns=end_ns,
            keep=keep,
        )
        if not statistics.rows and (self.from_ is not None or self.to is not None):
            raise extent_of(history).nothing(*range_of(history, self.from_, self.to))
        return statistics


def _answer_groups(
    file: str, history: History, by: _Groups, chosen: _Chosen, *, as_json: bool
) -> None:
    """Print what has a begin and an end, such as requests, in groups."""
    if by == "service" or by == "operation":  # noqa: PLR1714 - mypy narrows by ==
        from meantime.cli import stats_services  # noqa: PLC0415 - NumPy is not for --help

        stats_services.answer(
            file, history, by, chosen.from_, chosen.to, chosen.pattern, as_json=as_json
        )
        return
    from meantime.cli import stats_groups  # noqa: PLC0415 - NumPy is not for --help

    stats_groups.answer(file, history, by, chosen.from_, chosen.to, chosen.pattern, as_json=as_json)


def _has_spans(history: History) -> bool:
    from meantime.query.threads import thread_quarks  # noqa: PLC0415 - NumPy is not for --help

    return len(thread_quarks(history)) > 0


def _has_only_spans(history: History) -> bool:
    return _has_spans(history) and not any(
        lane.declaration.kind == "state" for lane in history.lanes
    )


def _show_scheduling(
    scheduling: ThreadScheduling | None, missing: InputError, *, whole: bool, as_json: bool
) -> None:
    """Print how threads got the CPU, of a trace without spans; without that, raise the error."""
    if scheduling is None:
        raise missing
    if whole:
        raise UsageError("--whole applies to spans; these are states")
    reject(("sketch",), "the use of CPUs")
    from meantime.cli import stats_scheduling  # noqa: PLC0415 - NumPy is not for --help

    if as_json:
        click.echo(json.dumps({"by": "thread", **stats_scheduling.document(scheduling)}))
    else:
        stats_scheduling.show(scheduling)


def _default_by(
    history: History,
    question: tuple[str, str] | None,
    threads: _Threads,
    wanted: str | None,
    *,
    has_lanes: bool,
) -> Literal["name", "state"]:
    """Return what is counted: spans, samples with stacks, states or events, the first there is."""
    if (question is not None and question[0] != "against") or wanted is not None:
        return "name"
    if not threads.exist or has_lanes or len(history.spans()):
        return "name" if threads.exist else "state"
    from meantime.query.sampled_states import has_sampled_states  # noqa: PLC0415 - NumPy is not for --help

    has_states = any(
        lane.declaration.kind == "state" and len(lane.quarks) for lane in history.lanes
    )
    if (history.samples().stack >= 0).any() or not (has_states or has_sampled_states(history)):
        return "name"
    return "state"


def _no_names(file: str, by: str, question: tuple[str, str] | None, chosen: _Chosen) -> InputError:
    option = f"--{question[0]}" if question else f"--by {by}"
    of = " of these lanes" if chosen.lanes else ""
    return InputError(file, f"there are no spans and no samples{of} for {option}")


def _named(history: History, handle: str | None, chosen: _Chosen) -> _Chosen:
    """Return the lane and the range of what a handle names; without one, what is chosen already."""
    if handle is None:
        return chosen
    from meantime.query.handles import resolve  # noqa: PLC0415 - NumPy is not for --help

    found = resolve(history, handle)
    end_ns = max(found.end_ns, found.start_ns + 1)
    return _Chosen(f"abs:{found.start_ns}ns", f"abs:{end_ns}ns", chosen.pattern, (found.path,))


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
    if against is not None and by in get_args(_OfStates):
        return asked[0]
    if asked and by not in {None, "name"}:
        raise UsageError(f"--{asked[0][0]} applies to names; leave out --by {by}")
    return asked[0] if asked else None


def _reject_for_groups(
    by: str, question: tuple[str, str] | None, *, whole: bool, lanes: bool
) -> None:
    if question is not None:
        raise UsageError(f"--{question[0]} does not apply with --by {by}")
    if whole:
        raise UsageError("--whole applies to spans; requests and tasks are counted in full")
    if lanes:
        raise UsageError(f"a handle or --lane does not apply with --by {by}; use --filter")


def _show(statistics: StateStatistics, by: _OfStates, *, as_json: bool) -> None:
    from meantime.cli import stats_states  # noqa: PLC0415 - NumPy is not for --help

    if as_json:
        click.echo(json.dumps(stats_states.document(statistics, by)))
    else:
        stats_states.show(statistics, by)
