"""`meantime stats`: the time in states, spans and samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import click

from meantime.cli.answers import print_answer
from meantime.cli.inputs import load_joined
from meantime.cli.options import (
    file_argument,
    input_options,
    json_option,
    limit_option,
    of_options,
    options_of,
    reject,
    session_option,
    zone_option,
)
from meantime.cli.stats_options import Groups, StatsOptions, after_stats, other_side
from meantime.errors import InputError, UsageError
from meantime.stores import is_url

if TYPE_CHECKING:
    from meantime.cli.stats_options import OfStates
    from meantime.history.history import History
    from meantime.model.columns import Int32s
    from meantime.query.durations import Grouping
    from meantime.query.scheduling import ThreadScheduling
    from meantime.query.statistics import StateStatistics

__all__ = ["command"]


@click.command(
    "stats",
    epilog="Example:  meantime stats pg.statemap.gz --by entity --from 100ms --to 200ms",
)
@input_options
@session_option
@file_argument("files", "FILE... [HANDLE]", nargs=-1, required=True)
@options_of(StatsOptions)
@of_options
@zone_option
@limit_option()
@json_option
def command(*, files: tuple[str, ...], **given: Any) -> None:
    """Show where the time went: by state or entity, or by name of spans or samples.

    HANDLE is a span or the time of a lane, as `findings --json` and the page of
    `view` print it: the statistics are of its lane while it lasted.
    """
    files, handle = _without_handle(files)
    file = " ".join(files)
    options = StatsOptions(**given)
    if handle is not None or options.lanes:
        reject(("against",), "chosen lanes")
    if handle is not None:
        reject(("start", "end", "lanes"), "a handle, which has a lane and a range")
    # to compare the range with another one, or to find a handle, all is needed
    is_part = options.against is None and handle is None
    start, end = (options.start, options.end) if is_part else (None, None)
    history = load_joined(files, start=start, end=end, **options.reading)
    if options.against is not None and not len(history.lanes) and not len(history.samples()):
        raise InputError(file, "there are no states, spans or samples for --against")
    options = _named(history, handle, options)
    threads = _threads(history, options)
    by = options.by or _default_by(history, threads, options)
    _check_event(by, options.event)
    _check_sketch(by, options.question)
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
        _reject_for_groups(by, options)
        _answer_groups(file, history, by, options)
        return
    if (
        by != "state"  # noqa: PLR1714 - mypy narrows by !=
        and by != "entity"
        and (by != "host" or _has_only_spans(history))
    ):
        scheduling = _scheduling(history, by, options)
        if not threads.exist or (scheduling is not None and not _has_spans(history)):
            reject(("idle",), "the use of CPUs")
            _show_scheduling(scheduling, _no_names(file, by, options), options)
        else:
            _answer_names(history, by, threads, scheduling, options)
        return
    if options.whole:
        raise UsageError("--whole applies to spans; these are states")
    reject(("idle",), "states")
    statistics = _statistics(history, by, options)
    if options.against is None:
        _show(statistics, by, as_json=options.as_json)
        return
    from meantime.cli import stats_states  # noqa: PLC0415 - NumPy is not for --help

    compared, before = other_side(history, options)
    stats_states.compare(_statistics(compared, by, before), statistics, by, is_json=options.as_json)


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
    reject(("whole", "sketch", "exact"), "--event, which counts samples")


def _check_sketch(by: str, question: tuple[str, str] | None) -> None:
    """Reject `--sketch` and `--exact` for what are not statistics of states or spans."""
    if question is not None:
        reject(("sketch", "exact"), f"--{question[0]}")
    if by in get_args(Groups):
        reject(("sketch", "exact"), f"--by {by}")


class _Threads(NamedTuple):
    """Threads with spans or samples; `quarks` is None for all."""

    quarks: Int32s | None
    exist: bool


def _threads(history: History, options: StatsOptions) -> _Threads:
    """Return the chosen threads that have spans or samples."""
    if not options.lanes:
        found = len(history.spans()) + len(history.samples()) + len(history.points())
        return _Threads(None, found > 0)
    import numpy as np  # noqa: PLC0415 - it is not for --help

    from meantime.query.handles import choose_lanes  # noqa: PLC0415 - as above
    from meantime.query.threads import sampled_or_spanned  # noqa: PLC0415 - as above

    quarks = np.intersect1d(choose_lanes(history, options.lanes), sampled_or_spanned(history))
    return _Threads(quarks, len(quarks) > 0)


def _scheduling(history: History, by: str, options: StatsOptions) -> ThreadScheduling | None:
    """Return how the chosen threads got the CPU; None if by something else or not known."""
    if by != "thread":
        return None
    from meantime.query.handles import choose_lanes  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.parts import given_range  # noqa: PLC0415 - as above
    from meantime.query.scheduling import thread_scheduling  # noqa: PLC0415 - as above

    start_ns, end_ns = given_range(history, options.start, options.end)
    quarks = choose_lanes(history, options.lanes) if options.lanes else None
    found = thread_scheduling(
        history, pattern=options.filter, quarks=quarks, start_ns=start_ns, end_ns=end_ns
    )
    return found if found.rows else None


def _statistics(history: History, by: OfStates, options: StatsOptions) -> StateStatistics:
    """Return the time in states."""
    from meantime.query.handles import choose_lanes  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.parts import extent_of, given_range  # noqa: PLC0415 - as above
    from meantime.query.sampled_states import with_sampled_states  # noqa: PLC0415 - as above
    from meantime.query.statistics import (  # noqa: PLC0415 - as above
        host_statistics,
        state_statistics,
    )

    history = with_sampled_states(history)
    start_ns, end_ns = given_range(history, options.start, options.end)
    of = host_statistics
    if by != "host":
        of = partial(state_statistics, by=by, exact=options.exact)
    statistics = of(
        history,
        pattern=options.filter,
        quarks=choose_lanes(history, options.lanes) if options.lanes else None,
        start_ns=start_ns,
        end_ns=end_ns,
        keep=options.keep,
    )
    if not statistics.rows and (options.start is not None or options.end is not None):
        click.echo(str(extent_of(history).nothing(start_ns, end_ns)), err=True)
    return statistics


def _answer_names(
    history: History,
    by: Grouping,
    threads: _Threads,
    scheduling: ThreadScheduling | None,
    options: StatsOptions,
) -> None:
    """Print what is known of names: of spans, samples or events."""
    from meantime.cli import stats_stacks  # noqa: PLC0415 - NumPy is not for --help
    from meantime.query.parts import part_of  # noqa: PLC0415 - as above

    # names are of spans and samples: no attribute derived from spans is needed
    stored = history.without_derived()
    part = part_of(stored, options.start, options.end, options.filter, threads.quarks)
    other = None
    if options.against is not None:
        compared, before = other_side(history, options)
        other = part_of(compared, before.start, before.end, before.filter)
    if options.event is not None:
        options = options.changed(of="samples")
    stats_stacks.answer(part, by, other, scheduling, options)


def _answer_groups(file: str, history: History, by: Groups, options: StatsOptions) -> None:
    """Print what has a begin and an end, such as requests, in groups."""
    if by == "service" or by == "operation":  # noqa: PLR1714 - mypy narrows by ==
        from meantime.cli import stats_services  # noqa: PLC0415 - NumPy is not for --help

        stats_services.answer(file, history, by, options)
        return
    from meantime.cli import stats_groups  # noqa: PLC0415 - NumPy is not for --help

    stats_groups.answer(file, history, by, options)


def _has_spans(history: History) -> bool:
    from meantime.query.threads import thread_quarks  # noqa: PLC0415 - NumPy is not for --help

    return len(thread_quarks(history)) > 0


def _has_only_spans(history: History) -> bool:
    return _has_spans(history) and not any(
        lane.declaration.kind == "state" for lane in history.lanes
    )


def _show_scheduling(
    scheduling: ThreadScheduling | None, missing: InputError, options: StatsOptions
) -> None:
    """Print how threads got the CPU, of a trace without spans; without that, raise the error."""
    if scheduling is None:
        raise missing
    if options.whole:
        raise UsageError("--whole applies to spans; these are states")
    reject(("sketch", "exact"), "the use of CPUs")
    from meantime.cli import stats_scheduling  # noqa: PLC0415 - NumPy is not for --help

    if options.as_json:
        print_answer({"by": "thread", **stats_scheduling.document(scheduling)})
    else:
        stats_scheduling.show(scheduling)


def _default_by(
    history: History, threads: _Threads, options: StatsOptions
) -> Literal["name", "state"]:
    """Return what is counted: spans, samples with stacks, states or events, the first there is."""
    is_about_names = options.question is not None and options.against is None
    if is_about_names or (options.of or options.event) is not None:
        return "name"
    if not threads.exist or options.lanes or len(history.spans()):
        return "name" if threads.exist else "state"
    from meantime.query.sampled_states import has_sampled_states  # noqa: PLC0415 - NumPy is not for --help

    has_states = any(
        lane.declaration.kind == "state" and len(lane.quarks) for lane in history.lanes
    )
    if (history.samples().stack >= 0).any() or not (has_states or has_sampled_states(history)):
        return "name"
    return "state"


def _no_names(file: str, by: str, options: StatsOptions) -> InputError:
    option = f"--{options.question[0]}" if options.question else f"--by {by}"
    of = " of these lanes" if options.lanes else ""
    return InputError(file, f"there are no spans and no samples{of} for {option}")


def _named(history: History, handle: str | None, options: StatsOptions) -> StatsOptions:
    """Return the lane and the range of what a handle names; without one, what is chosen already."""
    if handle is None:
        return options
    from meantime.query.handles import resolve  # noqa: PLC0415 - NumPy is not for --help

    found = resolve(history, handle)
    end_ns = max(found.end_ns, found.start_ns + 1)
    return options.changed(start=found.start_ns, end=end_ns, lanes=(found.path,))


def _reject_for_groups(by: str, options: StatsOptions) -> None:
    if options.question is not None:
        raise UsageError(f"--{options.question[0]} does not apply with --by {by}")
    if options.whole:
        raise UsageError("--whole applies to spans; requests and tasks are counted in full")
    if options.lanes:
        raise UsageError(f"a handle or --lane does not apply with --by {by}; use --filter")


def _show(statistics: StateStatistics, by: OfStates, *, as_json: bool) -> None:
    from meantime.cli import stats_states  # noqa: PLC0415 - NumPy is not for --help

    if as_json:
        document = stats_states.document(statistics, by)
        print_answer(document, after_stats(document))
    else:
        stats_states.show(statistics, by)
