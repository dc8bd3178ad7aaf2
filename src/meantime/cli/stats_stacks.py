"""`meantime stats` of spans and samples: statistics, call trees and single names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

from meantime.cli import stats_scheduling
from meantime.cli.answers import most_rows, print_answer
from meantime.cli.options import reject
from meantime.cli.stats_names import (
    Table,
    all_calls,
    compared,
    histogram,
    longest,
    neighbours,
    tree_of,
)
from meantime.cli.stats_options import after_stats
from meantime.cli.tables import Column, print_table
from meantime.errors import MeantimeError, UsageError
from meantime.history.samples import ALL_EVENTS
from meantime.model.columns import distinct
from meantime.model.durations import FIGURES, dropped, figure_values, figures_of
from meantime.model.units import format_ns
from meantime.query.counting import beside, what_counts
from meantime.query.duration_sums import SKETCH_ERROR
from meantime.query.durations import (
    SpanStatistics,
    count_unfinished,
    span_statistics,
    unfinished_text,
)
from meantime.query.idle_samples import left_out, without_idle
from meantime.query.parts import extent_of, given_range
from meantime.query.sample_units import events
from meantime.query.threads import thread_quarks
from meantime.query.trees import amount, by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.cli.stats_options import StatsOptions
    from meantime.history.history import History
    from meantime.model.extent import Extent
    from meantime.query.counting import Counted
    from meantime.query.durations import Grouping
    from meantime.query.parts import Part
    from meantime.query.scheduling import ThreadScheduling

__all__ = ["answer"]

_PRINTS_THEM = "meantime dump --kind spans prints them"


def answer(
    part: Part,
    by: Grouping,
    other: Part | None,
    scheduling: ThreadScheduling | None,
    options: StatsOptions,
) -> None:
    """Print statistics, or the result of a question, as one JSON object or as a table.

    The JSON object has also how threads got the CPU, if that is given. They are of what `of` says
    or, unless given, of the first of these that a trace has: spans, asynchronous operations,
    samples with stacks, events. If the trace's own tool shows samples, these come first.

    Raises:
        MeantimeError: If the name does not occur, or there are no samples of the event.
        UsageError: If an option does not apply to samples.
    """
    what, _ = options.question or ("", "")
    if by != "name" or what in {"longest", "histogram"} or options.whole or options.sketch:
        # these are of spans, if there are any
        of = options.of or ("spans" if len(part.history.spans()) else None)
        options = options.changed(of=of)
    kind = _kind(part.history, options.of)
    async_spans = _count_async_spans(part) if kind == "spans" else 0
    _check_samples(part, kind, by, what, options)
    if kind != "samples":
        reject(("idle",), kind)
    if other is not None:
        document, table = compared(part, other, options)
    elif what:
        document, table = _about(part, async_spans, options)
    else:
        document, table = _statistics(part, kind, by, options)
    _mention_doubts(part, kind, options, document)
    if not table.rows and not async_spans and scheduling is None:
        _say_nothing(part, kind, options)
    document["range_ns"] = [part.start_ns, part.end_ns]
    if async_spans:
        document["async_spans"] = async_spans
    if options.as_json:
        threads = {} if scheduling is None else stats_scheduling.document(scheduling)
        total = len(document.get("rows", ())) + table.more
        following = after_stats(document)
        print_answer(threads | document, following, total=total)
    else:
        _show(part, table, async_spans, scheduling)
    if kind == "spans" or kind == "samples":  # noqa: PLR1714 - mypy narrows by ==
        _mention_others(part.history, kind)


def _say_nothing(part: Part, kind: str, options: StatsOptions) -> None:
    """Say that there is nothing in a range.

    Raises:
        MeantimeError: If nothing passes the filter.
        TimeRangeError: If that is the whole trace.
    """
    if options.filter is not None and not _is_anywhere(part, kind):
        others = _others(part.history, kind)
        raise MeantimeError(f"--filter {options.filter!r}: none of the {kind} passes it{others}")
    asked = given_range(part.history, options.start, options.end)
    nothing = extent_of(part.history).nothing(*asked)
    if (part.start_ns, part.end_ns) == part.history.bounds:
        raise nothing
    click.echo(str(nothing), err=True)


def _is_anywhere(part: Part, kind: str) -> bool:
    """Return whether the chosen threads have any of what is counted, in any range."""
    history, threads = part.history, part.threads
    if kind in {"spans", "operations"}:
        return bool(len(history.spans(threads)))
    return bool(len(history.samples(threads, event=ALL_EVENTS)) + len(history.points(threads)))


def _mention_others(history: History, kind: Counted) -> None:
    """Say what else there is, and how it is counted."""
    if others := _others(history, kind):
        click.echo(f"this counts {kind}{others}", err=True)


def _others(history: History, kind: str) -> str:
    """Return the end of a sentence about what else there is; empty if there is nothing."""
    if kind == "samples":
        other_kind, others = "spans", beside(history, "samples")
    elif kind == "spans":
        other_kind, others = "samples", beside(history, "spans")
    else:
        return ""
    return "" if others is None else f"; --{other_kind} counts {others}"


def _statistics(
    part: Part, kind: str, by: Grouping, options: StatsOptions
) -> tuple[dict[str, Any], Table]:
    """Return the document and the table of what is counted."""
    if kind == "events":
        return _event_statistics(part)
    if kind == "samples":
        return _sample_statistics(part, options.changed(of="samples", whole=False))
    return _span_statistics(part, by, options)


def _kind(
    history: History, of: Counted | None
) -> Literal["spans", "operations", "samples", "events"]:
    """Return what the statistics count.

    Raises:
        MeantimeError: If there is nothing of what is wanted.
    """
    kind = what_counts(history, of)
    if of is not None:
        if not len(history.spans() if of == "spans" else history.samples(event=ALL_EVENTS)):
            raise MeantimeError(f"the trace has no {of}")
        return kind
    if kind == "spans" and len(thread_quarks(history)):
        return "spans"
    if len(history.spans()) and not (kind == "samples" and history.metadata.samples_first):
        return "operations"
    samples = history.samples(event=ALL_EVENTS)
    if (samples.stack >= 0).any():
        return "samples"
    return "events" if len(samples) + len(history.points()) else "spans"


def _show(part: Part, table: Table, async_spans: int, scheduling: ThreadScheduling | None) -> None:
    if scheduling is not None:
        stats_scheduling.show(scheduling)
    if table.rows or scheduling is None:
        _print(table, extent_of(part.history))
    if async_spans:
        click.echo(f"{_not_counted(async_spans)}; {_PRINTS_THEM}")


def _check_samples(part: Part, kind: str, by: str, what: str, options: StatsOptions) -> None:
    """Check that there are samples of an event, and that options apply to samples.

    Raises:
        MeantimeError: If there are none.
        UsageError: If an option does not apply.
    """
    event = options.event
    if event is not None and event not in (counts := events(part.history)):
        named = f"; choose one of {', '.join(counts)}" if counts else ""
        raise MeantimeError(f"there are no samples of the event {event!r}{named}")
    if kind not in {"samples", "events"} or not len(part.history.samples(event=ALL_EVENTS)):
        return
    asked = None
    if by != "name" or what in {"longest", "histogram"}:
        asked = f"--{what}" if what else f"--by {by}"
    elif options.whole or options.sketch:
        asked = "--whole" if options.whole else "--sketch"
    if asked is not None:
        raise UsageError(f"{asked} applies to spans of threads; this trace has samples only")


def _about(part: Part, async_spans: int, options: StatsOptions) -> tuple[dict[str, Any], Table]:
    """Return the document and table of a call tree, or of a single name."""
    what, name = options.question or ("", "")
    if what in {"longest", "histogram"}:
        spans = part.history.spans(_threads(part), start_ns=part.start_ns, end_ns=part.end_ns)
        if what == "histogram" and not options.whole:
            spans = spans.clipped(part.start_ns, part.end_ns)
        _check(part, name, spans.name.names, distinct(spans.name.codes), async_spans)
        if what == "longest":
            return longest(part, spans, name, as_json=options.as_json)
        return histogram(spans, name)
    tree, unit = tree_of(part, options)
    if what == "tree":
        return all_calls(tree, unit)
    _check(part, name, tree.stacks.frames, distinct(tree.stacks.frame), async_spans)
    return neighbours(tree, unit, what, name)


def _count_async_spans(part: Part) -> int:
    """Return the number of spans of async operations, which are not in the statistics."""
    if part.threads is not None:
        return 0
    spans = part.history.spans(start_ns=part.start_ns, end_ns=part.end_ns)
    is_async = ~np.isin(spans.threads, thread_quarks(part.history))
    return int(np.diff(spans.offsets)[is_async].sum())


def _not_counted(async_spans: int) -> str:
    return f"{async_spans:,} spans of async operations are not counted"


def _threads(part: Part) -> Any:
    """Return what has the spans: threads or, without any, asynchronous operations."""
    if part.threads is not None:
        return part.threads
    threads = thread_quarks(part.history)
    return threads if len(threads) else part.history.spans().threads


def _check(part: Part, name: str, names: Sequence[str], there: Any, async_spans: int) -> None:
    """Check that a name occurs; one of another range has nothing in this one.

    Raises:
        MeantimeError: If it does not.
    """
    if name in names and (part.start_ns, part.end_ns) != part.history.bounds:
        return
    if not any(names[code] == name for code in there.tolist()):
        left_out = f"; {_not_counted(async_spans)}: {_PRINTS_THEM}" if async_spans else ""
        raise MeantimeError(f"{name!r} does not occur in this part of the trace{left_out}")


def _span_statistics(
    part: Part, by: Grouping, options: StatsOptions
) -> tuple[dict[str, Any], Table]:
    """Return the document and the table; the table has the first rows."""
    most = most_rows(as_json=options.as_json)
    threads = _threads(part)
    found = span_statistics(
        part.history,
        by,
        quarks=threads,
        start_ns=part.start_ns,
        end_ns=part.end_ns,
        whole=options.whole,
        keep=options.keep,
    )
    window_ns = max(1, part.end_ns - part.start_ns)
    whole_ns = window_ns * (1 if by == "thread" else max(1, len(threads)))
    # by column, as there can be a million names
    figures = {name: each[:most].tolist() for name, each in figure_values(found).items()}
    figures["share"] = (found.covered_ns[:most] / whole_ns).tolist()
    rows: list[dict[str, Any]] = [
        dict(zip(("key", *figures), row, strict=True))
        for row in zip(found.keys[:most], *figures.values(), strict=True)
    ]
    shown = [
        each
        for each in figures_of(SpanStatistics)
        if each.rank is not None and not (each.if_any and not any(figures[each.key]))
    ]
    about = ", quantiles within 0.4 %" if found.is_sketch else ""
    document: dict[str, Any] = {"by": by, "rows": rows}
    if found.is_sketch:
        document |= {"sketch": True, "quantile_error": SKETCH_ERROR}
    return document, Table(
        f"Time in spans over {format_ns(window_ns)}{about}",
        [by, *(each.key for each in shown)],
        [[row["key"] or "(none)", *(round(row[each.key]) for each in shown)] for row in rows],
        [each.title for each in dropped(shown)],
        len(found) - len(rows),
    )


def _mention_doubts(part: Part, kind: str, options: StatsOptions, document: dict[str, Any]) -> None:
    """Say what is left out of samples, or counts although it has no end."""
    if kind == "samples":
        _count_left_out(part, options, document)
    elif kind in {"spans", "operations"}:
        _count_unfinished(part, options, document)


def _count_left_out(part: Part, options: StatsOptions, document: dict[str, Any]) -> None:
    """Say how many samples are left out, as they are of idle CPUs."""
    samples = part.history.samples(
        part.threads, start_ns=part.start_ns, end_ns=part.end_ns, event=options.event
    )
    if not options.idle:
        samples, count = without_idle(part.history, samples, is_chosen=part.threads is not None)
        if count:
            document["idle_samples"] = count
            click.echo(left_out(count), err=True)


def _count_unfinished(part: Part, options: StatsOptions, document: dict[str, Any]) -> None:
    """Say how many spans have no end in the trace, if any."""
    count = count_unfinished(
        part.history, _threads(part), part.start_ns, part.end_ns, whole=options.whole
    )
    if count:
        document["unfinished"] = count
        # where rows have a column for it, that says more
        in_rows = any(row.get("unfinished") for row in document.get("rows", ()))
        if not options.as_json and not in_rows:
            click.echo(unfinished_text(count), err=True)


def _sample_statistics(part: Part, options: StatsOptions) -> tuple[dict[str, Any], Table]:
    tree, unit = tree_of(part, options)
    own, total = amount("self", unit), amount("total", unit)
    everything = max(1, int(tree.own.sum()))
    rows = [
        {
            "key": row.name,
            "count": row.calls,
            total: row.total,
            own: row.own,
            "share": row.total / everything,
        }
        for row in by_name(tree)
    ]
    return {"by": "name", "unit": unit, "rows": rows}, Table(
        f"Samples of {len(tree):,} stacks, in {unit}",
        ["name", "count", own, total],
        [[row["key"], row["count"], row[own], row[total]] for row in rows],
    )


def _event_statistics(part: Part) -> tuple[dict[str, Any], Table]:
    """Return how often each event happened: points, and samples without stacks."""
    history, start_ns, end_ns, threads = part
    points = history.points(threads, start_ns=start_ns, end_ns=end_ns)
    samples = history.samples(threads, start_ns=start_ns, end_ns=end_ns, event=ALL_EVENTS)
    # rows of a table are events whose names are in the place of those of programs
    used = [samples.event.names[code] for code in distinct(samples.event.codes).tolist()]
    named = samples.name if used == ["event"] else samples.event
    counts: Counter[str] = Counter()
    for column in (points.name, named):
        codes, number = np.unique(column.codes, return_counts=True)
        for code, count in zip(codes.tolist(), number.tolist(), strict=True):
            counts[column.names[code] if code >= 0 else "(none)"] += count
    seconds = max(1, end_ns - start_ns) / 10**9
    rows = [
        {"key": name, "count": count, "per_second": count / seconds}
        for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]
    return {"by": "name", "rows": rows}, Table(
        f"Events over {format_ns(end_ns - start_ns)}",
        ["name", "count", "per second"],
        [[row["key"], row["count"], f"{row['per_second']:,.4g}"] for row in rows],
    )


def _print(table: Table, extent: Extent) -> None:
    is_text = [bool(table.rows) and isinstance(cell, str) for cell in (table.rows or [[]])[0]]
    columns = [
        Column(_heading(name), numeric=not text)
        for name, text in zip(table.columns, is_text or [True] * len(table.columns), strict=False)
    ]
    print_table(
        table.title,
        columns,
        [
            [_cell(name, value, extent) for name, value in zip(table.columns, row, strict=True)]
            for row in table.rows
        ],
        drop=table.drop,
        total=len(table.rows) + table.more,
    )


def _heading(name: str) -> str:
    return FIGURES[name].title if name in FIGURES else name.replace("_ns", "")


def _cell(column: str, value: Any, extent: Extent) -> str:
    if isinstance(value, str):
        return value
    if column == "start_ns":
        return extent.text(value)
    return format_ns(value) if column.endswith("_ns") else f"{value:,}"
