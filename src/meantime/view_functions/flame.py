"""The flame graph or chart of one input, or the comparison of two."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError, UsageError
from meantime.model.units import duration_ns, format_ns
from meantime.options import keywords_of
from meantime.query.counting import beside, what_counts
from meantime.query.durations import count_unfinished, unfinished_text
from meantime.query.idle_samples import left_out as idle_left_out
from meantime.query.idle_samples import without_idle
from meantime.query.offsets.band import samples_in_band, samples_of_names
from meantime.query.parts import extent_of, given_range, part_of
from meantime.query.roots import sample_names, with_roots
from meantime.query.sample_units import events, sample_unit
from meantime.query.stacks import difference, gone, sample_tree
from meantime.query.threads import thread_quarks
from meantime.query.trees import call_tree
from meantime.structs import struct
from meantime.view_functions.flame_options import FlameArguments
from meantime.view_functions.sources import history_of, label_of, texts, title_of
from meantime.views.flame.view import FlameView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.history.samples import SampleTable
    from meantime.opening.directory_build import Notify
    from meantime.query.counting import Counted
    from meantime.query.parts import Part
    from meantime.query.stacks import CallTree
    from meantime.view_functions.sources import Source

__all__ = ["flame"]

# Options that apply to samples, and what errors call them.
_OF_SAMPLES = {
    **{name: name for name in ("band", "event", "idle", "isolate", "exclude")},
    "names": "no-names",
}


@keywords_of(FlameArguments)
def flame(source: Source, **given: Any) -> FlameView:
    """Return the flame graph of a history's spans or samples, or its flame chart.

    Times are nanoseconds of the trace's own clock, or texts: `"1.5s"` counts from where the trace
    begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"` is of the trace's own clock.

    >>> from meantime.testing import history_from_samples
    >>> flame(history_from_samples([(0, "t", ["a", "b"], 1), (1, "t", ["a", "c"], 3)]))
    <Flame graph 'history': 3 stacks, in samples>

    Args:
        source: A history or a path.
        **given: What is drawn, and how paths are read: see `FlameArguments`.

    Raises:
        InputError: If a file cannot be read, or there is nothing to draw.
        MeantimeError: If the filter matches no thread.
        TimeRangeError: If a range is empty or starts outside the history.
        UsageError: If arguments exclude each other.
    """
    options = FlameArguments(**given)
    _check(options)
    return _drawn(source, options).made_of([source, options.against])


def _drawn(source: Source, options: FlameArguments) -> FlameView:
    if options.of is None and options.whole:
        options = options.changed(of="spans")
    against, notify = options.against, options.notify
    label = label_of(source)
    history = history_of(source, options)
    _check_contents(history, label, options.of, chart=options.chart)
    counting = _Counting(label, options)
    part = part_of(history, options.start, options.end, options.filter)
    has_range = options.start is not None or options.end is not None
    title = options.title or history.title or title_of(source)
    if options.chart:
        return _chart(part, title, label, options, has_range=has_range)
    tree, unit, left_out = counting.tree(part)
    if not len(tree):
        left_out += _nothing(part, options)
    chosen = counting.chosen(part if has_range else None) + left_out
    chosen += _mentioned(history, counting.kind(history), left_out, source, notify)
    command = _command(source, options)
    if against is None:
        return FlameView(tree, title=title, unit=unit, chosen=chosen, command=command)
    if isinstance(against, tuple):
        other = part_of(history, *against, options.filter)
        chosen.append(f"against {_range(other)}")
    else:
        compared = history_of(against, options)
        other = part_of(compared, None, None, options.filter)
        chosen.append(f"against {title_of(against)}")
    before, unit_before, _ = counting.tree(other)
    if unit != unit_before and len(tree) and len(before):
        raise UsageError(f"cannot compare {unit} with {unit_before}; choose an event")
    both = difference(before, tree)
    if options.elided:
        return FlameView(
            gone(both), title=f"{title}: gone", unit=unit, chosen=chosen, command=command
        )
    return FlameView(both, title=title, unit=unit, chosen=chosen, command=command)


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


def _nothing(part: Part, options: FlameArguments) -> list[str]:
    """Return the sentence about a range in which there is nothing; none about a whole trace."""
    history, start_ns, end_ns, _ = part
    if (start_ns, end_ns) == history.bounds:
        return []
    asked = given_range(history, options.start, options.end)
    return [str(extent_of(history).nothing(*asked))]


@struct
class _Counting:
    """What of a part is counted, and how.

    Attributes:
        label: The name of the input in errors.
        options: The options.
    """

    label: str
    options: FlameArguments

    @property
    def band_ns(self) -> tuple[int, int] | None:
        """The offsets of samples in each period, if only some are counted."""
        band = self.options.band
        return None if band is None else (duration_ns(band[0]), duration_ns(band[1]))

    @property
    def period_ns(self) -> int:
        """The period of the offsets."""
        return duration_ns("1s" if self.options.period is None else self.options.period)

    @property
    def is_selected(self) -> bool:
        """Whether only some samples are counted."""
        return bool(self.options.given & {"band", "event", "isolate", "exclude"})

    def kind(self, history: History) -> Counted:
        """Return whether spans or samples are counted."""
        return "samples" if self.is_selected else what_counts(history, self.options.of)

    def chosen(self, part: Part | None) -> list[str]:
        """Return what is selected, in words; with a part, its range too."""
        options = self.options
        chosen = [] if part is None else [_range(part)]
        if self.band_ns is not None:
            low, high = map(format_ns, self.band_ns)
            chosen.append(f"offsets {low} to {high} of every {format_ns(self.period_ns)}")
        if options.filter is not None:
            chosen.append(f"threads {options.filter}")
        chosen += [] if options.event is None else [f"event {options.event}"]
        for how, names in (("only", options.isolate), ("without", options.exclude)):
            chosen += [f"{how} {', '.join(texts(names))}"] if names else []
        return chosen

    def tree(self, part: Part) -> tuple[CallTree, str, list[str]]:
        """Return the call tree of a part, the unit of its weights, and what is left out, in words.

        Raises:
            InputError: If an event or offsets are selected, and no sample is left.
            UsageError: If an option of samples is given, and there are spans.
        """
        history, start_ns, end_ns, threads = part
        if self.kind(history) == "spans":
            if not self.options.names:
                raise UsageError("no-names applies to samples, and these are spans")
            if self.options.idle:
                raise UsageError("idle applies to samples, and these are spans")
            found = call_tree(
                history,
                threads,
                start_ns=start_ns,
                end_ns=end_ns,
                whole=self.options.whole,
                of="spans",
            )
            unfinished = count_unfinished(
                history,
                threads,
                start_ns,
                end_ns,
                whole=self.options.whole,
            )
            return (*found, [unfinished_text(unfinished)] if unfinished else [])
        samples = history.samples(
            threads, start_ns=start_ns, end_ns=end_ns, event=self.options.event
        )
        if self.band_ns is not None:
            samples = samples_in_band(samples, self.band_ns, self.period_ns)
        idle_count = 0
        if not self.options.idle:
            is_chosen = threads is not None
            samples, idle_count = without_idle(history, samples, is_chosen=is_chosen)
        if not len(samples) and self.is_selected:
            raise InputError(self.label, f"no samples match these options{_events(history)}")
        samples = self._named(history, samples)
        if self.options.names:
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
        isolated = texts(self.options.isolate)
        names = isolated or texts(self.options.exclude)
        if not names:
            return samples
        from meantime.query.offsets.gather import grouped  # noqa: PLC0415 - 10 ms, for few graphs

        groups = grouped(history, samples, self.options.by or "name")
        try:
            return samples_of_names(samples, groups, names, are_left_out=not isolated)
        except UsageError as error:
            # Which names exist depends on the file, so this is not an error of the command line.
            raise InputError(self.label, str(error)) from None


def _command(source: Source, options: FlameArguments) -> str | None:
    """Return the command that draws the same; None if an input is not a file."""
    inputs = [source]
    if options.against is not None and not isinstance(options.against, tuple):
        inputs.append(options.against)
    if options.provider is not None or not all(
        isinstance(each, str | os.PathLike) for each in inputs
    ):
        return None
    if (file := label_of(source)) == "-":
        return None
    words = options.words(leave_out=("title", "chart", "label_arg", "strict"))
    words += [f"--{options.of}"] if options.of else []
    return shlex.join(["meantime", "flame", file, *words, "-o", "flame.svg"])


def _events(history: History) -> str:
    names = list(events(history))
    return f"; the events are {', '.join(names)}" if len(names) > 1 else ""


def _range(part: Part) -> str:
    extent = extent_of(part.history)
    return f"{extent.text(part.start_ns)} to {extent.text(part.end_ns)}"


def _check(options: FlameArguments) -> None:
    """Reject options that exclude each other, and those that need another one.

    Raises:
        UsageError: If there is one.
    """
    given, of = options.given, options.of
    if {"against", "chart"} <= given:
        raise UsageError("against compares flame graphs; leave out chart")
    if {"isolate", "exclude"} <= given:
        raise UsageError("isolate and exclude are mutually exclusive")
    if "chart" in given:
        for name in [each for each in (*_OF_SAMPLES, "whole") if each in given]:
            raise UsageError(f"{_OF_SAMPLES.get(name, name)} does not apply to a chart")
    for name in [each for each in _OF_SAMPLES if each in given]:
        if "whole" in given:
            raise UsageError(f"whole applies to spans, {_OF_SAMPLES[name]} applies to samples")
        if of == "spans":
            raise UsageError(f"{_OF_SAMPLES[name]} applies to samples; leave out spans")
    if of == "samples" and "whole" in given:
        raise UsageError("whole applies to spans; leave out samples")
    _check_needs(given)


def _check_needs(given: set[str]) -> None:
    if "elided" in given and "against" not in given:
        raise UsageError("elided needs against: the range or trace to compare with")
    if "period" in given and "band" not in given:
        raise UsageError("period is the period of band, which is not given")
    if "label_arg" in given and "chart" not in given:
        raise UsageError("label_arg applies to charts; add chart")
    if "by" in given and not given & {"isolate", "exclude"}:
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
    part: Part, title: str, source: str, options: FlameArguments, *, has_range: bool
) -> FlameView:
    """Return the chart of spans or samples; unless given, of what the trace's own tool shows.

    Raises:
        InputError: If there are only samples without stacks.
    """
    from meantime.views.flame.sample_chart import sample_chart  # noqa: PLC0415 - only for charts
    from meantime.views.flame.span_chart import chart  # noqa: PLC0415 - as above

    history, start_ns, end_ns, threads = part
    has_spans = len(history.spans()) > 0
    if options.of is not None or history.metadata.samples_first:
        has_spans = what_counts(history, options.of) == "spans"
    draw = chart if has_spans else sample_chart
    drawn = draw(history, threads, title=title, start_ns=start_ns, end_ns=end_ns)
    if not len(drawn) and options.notify is not None:
        for each in _nothing(part, options):
            options.notify(each)
    if not has_spans and not len(drawn) and not has_range:
        raise InputError(source, "no sample has a stack to draw")
    return FlameView(replace(drawn, source=source, label=options.label_arg), title=title, unit="ns")
