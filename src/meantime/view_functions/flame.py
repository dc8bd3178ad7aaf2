"""The flame graph or chart of one input, or the comparison of two."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.query.counting import beside, what_counts
from meantime.query.idle_samples import left_out as idle_left_out
from meantime.query.idle_samples import without_idle
from meantime.query.offsets.band import samples_in_band, samples_of_names
from meantime.query.parts import extent_of, part_of
from meantime.query.roots import sample_names, with_roots
from meantime.query.sample_units import events, sample_unit
from meantime.query.stacks import difference, gone, sample_tree
from meantime.query.threads import thread_quarks
from meantime.query.trees import call_tree
from meantime.structs import struct
from meantime.units import duration_ns, format_ns
from meantime.view_functions.sources import Reading, history_of, label_of, silent, texts, title_of
from meantime.views.flame.view import FlameView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.directory_build import Notify
    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.providers.loading import ProviderLike
    from meantime.query.counting import Counted
    from meantime.query.parts import Part
    from meantime.query.stacks import CallTree
    from meantime.units import Time
    from meantime.view_functions.sources import Progress, Source

__all__ = ["flame"]


def flame(
    source: Source,
    *,
    start: Time | None = None,
    end: Time | None = None,
    filter: str | None = None,  # noqa: A002 - the command's name for it
    of: Counted | None = None,
    whole: bool = False,
    idle: bool = False,
    against: Source | tuple[Time, Time] | None = None,
    elided: bool = False,
    band: tuple[Time, Time] | None = None,
    period: Time | None = None,
    event: str | None = None,
    by: str | None = None,
    isolate: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    names: bool = True,
    chart: bool = False,
    label_arg: str | None = None,
    title: str | None = None,
    provider: ProviderLike = None,
    lenient: bool = False,
    strict: bool = False,
    notify: Notify | None = None,
    progress: Progress | None = None,
) -> FlameView:
    """Return the flame graph of a history's spans or samples, or its flame chart.

    Times are nanoseconds of the trace's own clock, or texts: `"1.5s"` counts from where the trace
    begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"` is of the trace's own clock.

    >>> from meantime.testing import history_from_samples
    >>> flame(history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a", "c"], 3)]))
    <Flame graph 'history': 3 stacks, in samples>

    Args:
        source: A history or a path.
        start: The beginning of the range.
        end: The end of the range.
        filter: Only threads with this id, name or `PROCESS/THREAD`, or that contain a match of
            this regular expression.
        of: Count `spans` or `samples` of a trace that has both; what its own tool shows first
            unless given.
        whole: Count the full duration of spans that cross the range's edges.
        idle: Count samples of idle CPUs, too.
        against: Colour by the change of share since this range, or since another history or path.
        elided: Draw only what is in `against` and not in the range.
        band: Only samples between these two offsets of every period.
        period: The period of `band`; one second unless given.
        event: Only samples of this event.
        by: What `isolate` and `exclude` name: samples by `name`, `thread`, `process`, `cpu` or
            `event`, as in a heat map; the name of the program or thread unless given.
        isolate: Only samples of these names.
        exclude: Only samples of all other names.
        names: Begin the stacks of samples with the name of the thread or process.
        chart: Draw the spans of each thread over time, or the stacks that were sampled.
        label_arg: Show the value of this argument of a span in its label on a chart.
        title: The title of the picture.
        provider: Derives states from the events of a path's trace, as in `meantime.open`; the
            history is kept in the cache.
        lenient: Skip and count records of a file that cannot be read.
        strict: Fail if an input has any anomaly.
        notify: Called with a sentence that gives the reason when a cached history is rebuilt.
        progress: Returns for a path a context manager that yields a progress callback.

    Raises:
        InputError: If a file cannot be read, or there is nothing to draw.
        MeantimeError: If the filter matches no thread.
        TimeRangeError: If a range is empty or starts outside the history.
        UsageError: If arguments exclude each other.
    """
    _check(
        {
            "against": against is not None,
            "chart": chart,
            "elided": elided,
            "by": by is not None,
            "event": event is not None,
            "band": band is not None,
            "exclude": bool(exclude),
            "idle": idle,
            "isolate": bool(isolate),
            "no-names": not names,
            "label_arg": label_arg is not None,
            "period": period is not None,
            "whole": whole,
        },
        of,
    )
    if of is None and whole:
        of = "spans"
    reading = Reading(provider, lenient, strict, notify, progress or silent)
    label = label_of(source)
    history = history_of(source, reading)
    _check_contents(history, label, of, chart=chart)
    counting = _Counting(
        label,
        filter,
        None if band is None else (duration_ns(band[0]), duration_ns(band[1])),
        duration_ns("1s" if period is None else period),
        event,
        by or "name",
        texts(isolate),
        texts(exclude),
        names,
        whole,
        of,
        idle,
    )
    part = part_of(history, start, end, filter)
    has_range = start is not None or end is not None
    title = title or history.title or title_of(source)
    if chart:
        drawn = _chart(part, title, label, label_arg, of, has_range=has_range)
        return drawn.made_of([source])
    tree, unit, left_out = counting.tree(part)
    if not len(tree) and against is None and has_range:
        raise extent_of(history).nothing(part.start_ns, part.end_ns)
    chosen = counting.chosen(part if has_range else None) + left_out
    chosen += _mentioned(history, counting.kind(history), left_out, source, notify)
    words = None if provider is not None else _words(source, start, end, against, elided=elided)
    command = (
        None if words is None else shlex.join([*words, *counting.options(), "-o", "flame.svg"])
    )
    if against is None:
        drawn = FlameView(tree, title=title, unit=unit, chosen=chosen, command=command)
        return drawn.made_of([source])
    if isinstance(against, tuple):
        other = part_of(history, *against, filter)
        chosen.append(f"against {_range(other)}")
    else:
        compared = history_of(against, reading)
        other = part_of(compared, None, None, filter)
        chosen.append(f"against {title_of(against)}")
    before, unit_before, _ = counting.tree(other)
    if unit != unit_before and len(tree) and len(before):
        raise UsageError(f"cannot compare {unit} with {unit_before}; choose an event")
    both = difference(before, tree)
    drawn = FlameView(
        gone(both) if elided else both,
        title=f"{title}: gone" if elided else title,
        unit=unit,
        chosen=chosen,
        command=command,
    )
    return drawn.made_of([source, against])


def _mentioned(
    history: History,
    kind: Counted,
    left_out: Sequence[str],
    source: Source,
    notify: Notify | None,
) -> list[str]:
    """Return what a trace has beside what is counted, in words, and say it and what is left out."""
    others = beside(history, kind)
    other_kind = "samples" if kind == "spans" else "spans"
    if notify is not None:
        for each in left_out:
            notify(each)
        if others is not None and isinstance(source, str | os.PathLike):
            copied = ["meantime", "flame", os.fspath(source), f"--{other_kind}", "-o", "flame.svg"]
            notify(f"this counts {kind}; {others} are in {shlex.join(copied)}")
    return [] if others is None else [f"{kind}; {others} with --{other_kind}"]


@struct
class _Counting:
    """What of a part is counted, and how.

    Attributes:
        label: The name of the input in errors.
        filter: The filter of threads, if any.
        band_ns: The offsets of samples in each period.
        period_ns: The period.
        event: The event of samples.
        by: What samples are grouped by.
        isolated: The groups that are counted; none counts all.
        excluded: The groups that are not counted.
        names: Whether stacks of samples begin with the name of the thread or process.
        whole: Whether spans that cross the range's edges count whole.
        of: Whether spans or samples are counted, if that is given.
        idle: Whether samples of idle CPUs are counted.
    """

    label: str
    filter: str | None
    band_ns: tuple[int, int] | None
    period_ns: int
    event: str | None
    by: str
    isolated: tuple[str, ...]
    excluded: tuple[str, ...]
    names: bool
    whole: bool
    of: Counted | None
    idle: bool

    @property
    def is_selected(self) -> bool:
        """Whether only some samples are counted."""
        return (
            self.band_ns is not None
            or self.event is not None
            or bool(self.isolated or self.excluded)
        )

    def kind(self, history: History) -> Counted:
        """Return whether spans or samples are counted."""
        return "samples" if self.is_selected else what_counts(history, self.of)

    def chosen(self, part: Part | None) -> list[str]:
        """Return what is selected, in words; with a part, its range too."""
        chosen = [] if part is None else [_range(part)]
        if self.band_ns is not None:
            low, high = map(format_ns, self.band_ns)
            chosen.append(f"offsets {low} to {high} of every {format_ns(self.period_ns)}")
        if self.filter is not None:
            chosen.append(f"threads {self.filter}")
        chosen += [] if self.event is None else [f"event {self.event}"]
        chosen += [f"only {', '.join(self.isolated)}"] if self.isolated else []
        return [*chosen, f"without {', '.join(self.excluded)}"] if self.excluded else chosen

    def options(self) -> list[str]:
        """Return the same as options of the command."""
        words = ["--whole"] if self.whole else []
        words += [f"--{self.of}"] if self.of else []
        if not self.names:
            words.append("--no-names")
        words += ["--idle"] if self.idle else []
        if self.filter is not None:
            words += ["--filter", self.filter]
        if self.event is not None:
            words += ["--event", self.event]
        if self.band_ns is not None:
            low, high = self.band_ns
            words += ["--band", f"{low}ns..{high}ns", "--period", f"{self.period_ns}ns"]
        for option, names in (("--isolate", self.isolated), ("--exclude", self.excluded)):
            if names:
                words += [option, ",".join(name.replace(",", "\\,") for name in names)]
                words += ["--by", self.by]
        return words

    def tree(self, part: Part) -> tuple[CallTree, str, list[str]]:
        """Return the call tree of a part, the unit of its weights, and what is left out, in words.

        Raises:
            InputError: If an event or offsets are selected, and no sample is left.
            UsageError: If an option of samples is given, and there are spans.
        """
        history, start_ns, end_ns, threads = part
        if self.kind(history) == "spans":
            if not self.names:
                raise UsageError("no-names applies to samples, and these are spans")
            if self.idle:
                raise UsageError("idle applies to samples, and these are spans")
            found = call_tree(
                history,
                threads,
                start_ns=start_ns,
                end_ns=end_ns,
                whole=self.whole,
                of="spans",
            )
            return (*found, [])
        samples = history.samples(threads, start_ns=start_ns, end_ns=end_ns, event=self.event)
        if self.band_ns is not None:
            samples = samples_in_band(samples, self.band_ns, self.period_ns)
        idle_count = 0
        if not self.idle:
            is_chosen = threads is not None
            samples, idle_count = without_idle(history, samples, is_chosen=is_chosen)
        if not len(samples) and self.is_selected:
            raise InputError(self.label, f"no samples match these options{_events(history)}")
        samples = self._named(history, samples)
        if self.names:
            samples = with_roots(samples, sample_names(history, samples))
        unit = sample_unit(samples)
        left_out = [idle_left_out(idle_count)] if idle_count else []
        negative = samples.weight < 0
        if negative.any():
            # a box cannot be narrower than nothing: the increases are drawn
            less = format_ns if unit == "ns" else "{:,}".format
            total = less(-int(samples.weight[negative].sum()))
            left_out.append(f"without {int(negative.sum()):,} decreases, {total} in all")
            samples = samples.rows(np.flatnonzero(~negative))
        return sample_tree(samples), unit, left_out

    def _named(self, history: History, samples: SampleTable) -> SampleTable:
        names = self.isolated or self.excluded
        if not names:
            return samples
        from meantime.query.offsets.gather import grouped  # noqa: PLC0415 - 10 ms, for few graphs

        groups = grouped(history, samples, self.by)
        try:
            return samples_of_names(samples, groups, names, are_left_out=not self.isolated)
        except UsageError as error:
            # Which names exist depends on the file, so this is not an error of the command line.
            raise InputError(self.label, str(error)) from None


def _words(
    source: Source,
    start: Time | None,
    end: Time | None,
    against: Source | tuple[Time, Time] | None,
    *,
    elided: bool,
) -> list[str] | None:
    """Return the command for a path and what it is compared with; None if one is a history."""
    if not isinstance(source, str | os.PathLike) or os.fspath(source) == "-":
        return None
    words = ["meantime", "flame", os.fspath(source)]
    for option, time in (("--from", start), ("--to", end)):
        if time is not None:
            words += [option, _time(time)]
    if isinstance(against, tuple):
        words += ["--against", "..".join(map(_time, against))]
    elif isinstance(against, str | os.PathLike):
        words += ["--against", os.fspath(against)]
    elif against is not None:
        return None
    return [*words, "--elided"] if elided else words


def _time(time: Time) -> str:
    return time if isinstance(time, str) else f"abs:{time}ns"


def _events(history: History) -> str:
    names = list(events(history))
    return f"; the events are {', '.join(names)}" if len(names) > 1 else ""


def _range(part: Part) -> str:
    extent = extent_of(part.history)
    return f"{extent.text(part.start_ns)} to {extent.text(part.end_ns)}"


def _check(given: Mapping[str, bool], of: Counted | None) -> None:
    """Reject options that exclude each other, and those that need another one.

    Raises:
        UsageError: If there is one.
    """
    if given["against"] and given["chart"]:
        raise UsageError("against compares flame graphs; leave out chart")
    if given["isolate"] and given["exclude"]:
        raise UsageError("isolate and exclude are mutually exclusive")
    of_samples = ("band", "event", "idle", "isolate", "exclude", "no-names")
    for option in (*of_samples, "whole"):
        if given[option] and given["chart"]:
            raise UsageError(f"{option} does not apply to a chart")
    for option in of_samples:
        if given["whole"] and given[option]:
            raise UsageError(f"whole applies to spans, {option} applies to samples")
        if of == "spans" and given[option]:
            raise UsageError(f"{option} applies to samples; leave out spans")
    if of == "samples" and given["whole"]:
        raise UsageError("whole applies to spans; leave out samples")
    _check_needs(given)


def _check_needs(given: Mapping[str, bool]) -> None:
    if given["elided"] and not given["against"]:
        raise UsageError("elided needs against: the range or trace to compare with")
    if given["period"] and not given["band"]:
        raise UsageError("period is the period of band, which is not given")
    if given["label_arg"] and not given["chart"]:
        raise UsageError("label_arg applies to charts; add chart")
    if given["by"] and not given["isolate"] and not given["exclude"]:
        raise UsageError("by groups samples for isolate and exclude, which are not given")


def _check_contents(history: History, label: str, of: Counted | None, *, chart: bool) -> None:
    """Reject a history without the spans or samples that are drawn.

    Raises:
        InputError: If there are none.
    """
    has_spans, has_samples = len(history.spans()) > 0, len(history.samples()) > 0
    if not has_spans and not has_samples:
        raise InputError(label, "there are no spans and no samples to draw")
    if (of == "spans" and not has_spans) or (of == "samples" and not has_samples):
        there = "samples" if has_samples else "spans"
        raise InputError(label, f"there are no {of}, only {there}")
    if not chart and (of == "spans" or not has_samples) and not len(thread_quarks(history)):
        raise InputError(label, "all spans are of async operations, which only a flame chart shows")


def _chart(
    part: Part,
    title: str,
    source: str,
    label_arg: str | None,
    of: Counted | None,
    *,
    has_range: bool,
) -> FlameView:
    """Return the chart of spans or samples; unless given, of what the trace's own tool shows.

    Raises:
        InputError: If there are only samples without stacks.
        TimeRangeError: If there is nothing in the range.
    """
    from meantime.views.flame.sample_chart import sample_chart  # noqa: PLC0415 - only for charts
    from meantime.views.flame.span_chart import chart  # noqa: PLC0415 - as above

    history, start_ns, end_ns, threads = part
    has_spans = len(history.spans()) > 0
    if of is not None or history.metadata.samples_first:
        has_spans = what_counts(history, of) == "spans"
    draw = chart if has_spans else sample_chart
    drawn = draw(history, threads, title=title, start_ns=start_ns, end_ns=end_ns)
    if not len(drawn) and has_range:
        raise extent_of(history).nothing(start_ns, end_ns)
    if not has_spans and not len(drawn):
        raise InputError(source, "no sample has a stack to draw")
    return FlameView(replace(drawn, source=source, label=label_arg), title=title, unit="ns")
