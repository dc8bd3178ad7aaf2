"""The heat map of one or several inputs: each is opened and mapped, and the maps are added up."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from meantime.errors import InputError, MeantimeError, UsageError
from meantime.history.directory import is_joined, is_stored_history
from meantime.model.extent import current_zone, in_zone
from meantime.model.units import duration_ns
from meantime.options import keywords_of
from meantime.query.aligning_histories import align_histories
from meantime.query.offsets import Choice, Fold
from meantime.query.offsets.cells import merge_cells
from meantime.query.offsets.combine import (
    EVERY_STATE,
    MapQuery,
    NotAlignedError,
    combined,
    first_map,
    further_map,
    nothing_mapped,
    rows_of,
    together,
)
from meantime.query.offsets.sources import HistorySource, SampleSource
from meantime.readers import open_trace, open_without_stacks
from meantime.shards import Failure, total
from meantime.structs import struct
from meantime.view_functions.heatmap_options import HeatmapArguments
from meantime.view_functions.sources import (
    Reading,
    history_of,
    label_of,
    listed,
    texts,
    title_of,
)
from meantime.views.axis import exact
from meantime.views.heatmap import RATIOS
from meantime.views.heatmap.command import FlameCommand
from meantime.views.heatmap.look import Look
from meantime.views.heatmap.selection import Selection, check
from meantime.views.heatmap.view import HeatmapView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.model.clocks import Clock, ClockShift
    from meantime.query.aligning import Alignment
    from meantime.query.offsets import OffsetMap, Value
    from meantime.query.offsets.combine import Mapped, Reference
    from meantime.query.offsets.sources import MapSource
    from meantime.view_functions.sources import Source
    from meantime.views.heatmap.color import Method

__all__ = ["heatmap"]


_MOST_ROWS = 1000
_LEAST_SEEN = 0.25


@keywords_of(HeatmapArguments)
def heatmap(inputs: Source | Sequence[Source], **given: Any) -> HeatmapView:
    """Return a heat map of activity by offset within each second, or within another period.

    Times are nanoseconds of the trace's own clock, or texts: `"1.5s"` counts from where the trace
    begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"` is of the trace's own clock.

    >>> from meantime.testing import history_from_picture
    >>> heatmap(history_from_picture("disk0  aabbaabb"), period=4, states="a")
    <Heat map 'history': 2 columns of 4ns in 4 rows, 1 names>

    Args:
        inputs: A history or a path, or several of them; several are added up in the times of the
            first.
        **given: What is mapped and drawn, and how paths are read: see `HeatmapArguments`.

    Raises:
        InputError: If an input cannot be read or `strict` and it has an anomaly, or has nothing
            that matches the arguments.
        UsageError: If an argument is wrong, or does not apply to the inputs.
    """
    options = HeatmapArguments(**given)
    sources, names = listed(inputs), options.names
    if not sources:
        raise UsageError("a heat map needs an input: a history or a path")
    if names is not None and len(names) != len(sources):
        raise UsageError(f"there are {len(sources)} inputs and {len(names)} names for them")
    selection = _selection(options)
    # what is wrong with them is said before anything is read
    _look(options, "rank")
    query = _query(options)
    offsets_ns = {index: duration_ns(each) for index, each in (options.offsets or {}).items()}
    if not offsets_ns.keys() <= set(range(len(sources))):
        raise UsageError(f"the keys of offsets are indices of inputs: 0 to {len(sources) - 1}")
    reading = options.narrowed(Reading)
    tasks = [
        _Task(
            each,
            label_of(each),
            None if names is None else names[index],
            offsets_ns.get(index),
            query,
            reading,
        )
        for index, each in enumerate(sources)
    ]
    jobs, client = options.jobs, options.client
    with in_zone(options.zone):
        data, reference = _added(tasks, jobs, client, options.failed, options.done)
    if options.strict:
        data.anomalies.refuse(tasks[0].path)
    with in_zone(options.zone):
        data = _checked(data, selection, tasks, partial(_added, jobs=jobs, client=client))
    said: tuple[str, ...] = ("value", "idle", "palette", "hues", "title")
    if options.y != "offset":
        # a map of offsets is folded otherwise in its page
        said += ("y", "spacing", "rows", "period", "zone")
    drawn = options.words(only=said)
    view = HeatmapView(
        data,
        selection,
        _look(options, "linear" if data.value == "ns" else "rank"),
        title=options.title or _title(sources),
        command=_command(tasks[0], reference, data, tuple(drawn)) if len(tasks) == 1 else None,
        ratio=options.value if options.value in RATIOS else None,
        idle=options.idle,
        extent=reference.extent,
    )
    return view.made_of(sources)


def _query(options: HeatmapArguments) -> MapQuery:
    """Return which part of the inputs is mapped, and to which cells.

    Raises:
        UsageError: If the options exclude each other.
    """
    _check_axis(options)
    patterns = texts(options.states)
    if options.provider is not None and options.event is None and not patterns:
        patterns = (EVERY_STATE,)
    if options.event is not None and patterns:
        raise UsageError("event applies to samples and spans, state applies to states; choose one")
    period_ns = _period_ns(options)
    rows = options.rows
    if options.y == "offset":
        rows = Fold(0, period_ns, rows_of(period_ns) if rows is None else rows).rows
    with in_zone(options.zone):
        folded_in = current_zone()
    return MapQuery(
        period_ns,
        rows if options.y == "offset" and rows else 1,
        options.origin,
        Choice(
            value="ns" if options.value in RATIOS else cast("Value | None", options.value),
            by=options.by,
            event=options.event,
            states=patterns,
            filter=options.filter,
            stacks=options.stacks,
            y=options.y,
            spacing=options.spacing or "log",
            rows=options.rows,
            traits=options.stacks and options.y != "offset",
        ),
        options.start,
        options.end,
        options.assume_aligned,
        folded_in,
    )


# By what rows are, the options that have no meaning then.
_INAPPLICABLE = {
    "offset": ("spacing",),
    "duration": ("idle",),
    "utilisation": ("spacing", "value", "idle"),
    "row": ("spacing", "rows"),
    "weekday": ("spacing", "rows", "period", "origin"),
}


def _check_axis(options: HeatmapArguments) -> None:
    """Check that what was given has a meaning for these rows.

    Raises:
        UsageError: If an option has none.
    """
    for name in _INAPPLICABLE[options.y]:
        if name in options.given:
            flag = options.declared[name].flags[0]
            raise UsageError(f"{flag} does not apply to --y {options.y}")
    if options.y == "duration" and options.rows is not None and not 1 <= options.rows <= _MOST_ROWS:
        raise UsageError(f"a map of durations has 1 to {_MOST_ROWS} rows; --rows is {options.rows}")
    if options.y == "utilisation" and not 1 <= (options.rows or 1) <= _MOST_ROWS:
        raise UsageError(f"a map of shares has 1 to {_MOST_ROWS} rows; --rows is {options.rows}")
    if options.y != "offset" and options.value in RATIOS:
        raise UsageError(f"--value {options.value} applies to --y offset")


def _period_ns(options: HeatmapArguments) -> int:
    """Return the width of a column; 0 lets the range decide."""
    if options.y == "weekday":
        return 3600 * 10**9
    if options.period is None:
        return 10**9 if options.y == "offset" else 0
    return duration_ns(options.period)


def _checked(
    data: OffsetMap,
    selection: Selection,
    tasks: Sequence[_Task],
    added: Callable[[Sequence[_Task]], tuple[OffsetMap, Reference]],
) -> OffsetMap:
    """Return a map with all names that were chosen; those of other times have nothing in it.

    Raises:
        InputError: If a name, or what the query selects, is not there at any time.
    """
    first = tasks[0]
    missing = [name for name in selection.names if name not in data.by]
    is_nothing = not len(data.total.number) and bool(
        first.query.choice.states or first.query.choice.filter
    )
    is_whole = first.query.start is None and first.query.end is None
    # Which names exist depends on the file, so this is not an error of the command line.
    if not missing and not (is_nothing and not is_whole):
        return data
    # standard input cannot be read again
    if is_whole or all(task.path != "-" for task in tasks):
        whole = data
        if not is_whole:
            everything = replace(first.query, start=None, end=None)
            whole = added([replace(task, query=everything) for task in tasks])[0]
        try:
            check(whole, selection)
        except UsageError as error:
            raise InputError(first.path, str(error)) from None
    return replace(data, by={**data.by, **dict.fromkeys(missing, merge_cells([]))})


@struct
class _Task:
    """An input and how to map it; it is sent to the process that reads the file."""

    given: Source
    path: str
    name: str | None
    offset_ns: int | None
    query: MapQuery
    reading: Reading
    # of a clock that drifts
    shift: ClockShift | None = None

    def first(self) -> tuple[Reference, Mapped]:
        # standard input cannot be read again
        streamed = self.path != "-" or not self.query.is_relative
        with self._opened(streamed=streamed, first=True) as source:
            found = self._first(source)
            if not self.query.is_relative or source.bounds[0] == source.extent.start_ns:
                return found
        # the first batch of samples, from which times were counted, did not have the earliest one
        with self._opened(streamed=False, first=True) as source:
            return self._first(source)

    def _first(self, source: MapSource) -> tuple[Reference, Mapped]:
        name, offset_ns = self._name(source), self.offset_ns or 0
        return first_map(source, self.query, name=name, offset_ns=offset_ns)

    def further(self, reference: Reference) -> Mapped:
        with self._opened(clock=reference.extent.clock) as source:
            name = self._name(source)
            return further_map(source, self.query, reference, name=name, offset_ns=self.offset_ns)

    def _name(self, source: MapSource) -> str:
        path = self.path
        own = path if path == "-" else Path(path).name.partition(".")[0]
        return self.name or source.extent.clock.host or own

    @contextmanager
    def _opened(
        self, *, streamed: bool = True, first: bool = False, clock: Clock | None = None
    ) -> Iterator[MapSource]:
        path = self.path
        if self.shift is not None and clock is not None:
            from meantime.history.joined import placed  # noqa: PLC0415 - of clocks that drift

            history = history_of(self.given, self.reading)
            yield HistorySource(placed(history, self.shift, clock)[0], path)
            return
        # which part of other inputs, or of shifted times, is mapped depends on the clocks
        whole = not first or bool(self.offset_ns)
        start, end = (None, None) if whole else (self.query.start, self.query.end)
        lenient, reported = self.reading.lenient, self.reading.reported
        file = self.given if isinstance(self.given, str | os.PathLike) else None
        is_built = (
            Path(path).is_dir()
            or is_joined(path)
            or is_stored_history(path)
            or self.reading.provider is not None
        )
        if file is None or is_built:
            yield HistorySource(history_of(self.given, self.reading, start, end), path)
            return
        if self.query.choice.stacks and not self.query.choice.states:
            from meantime.history import build  # noqa: PLC0415 - a third of the start-up time

            with reported(path) as report:
                trace = open_trace(file, lenient=lenient, progress=report, start=start, end=end)
                yield HistorySource(build(trace), path)
            return
        switches = bool(self.query.choice.states)
        with (
            reported(path) as report,
            open_without_stacks(
                file, lenient=lenient, switches=switches, progress=report, start=start, end=end
            ) as (trace, is_stream),
        ):
            # The time of the first sample of a stream is known only after it was mapped.
            choice = self.query.choice
            is_counted = choice.filter is None and choice.y == "offset"
            is_streamed = streamed and is_counted and self.query.zone is None
            if is_streamed and is_stream and self.query.origin != "first":
                yield SampleSource(trace, path)
                return
            from meantime.history import build  # noqa: PLC0415 - a third of the start-up time

            yield HistorySource(build(trace), path)


@struct
class _Further:
    """Maps inputs in the times of the first; it is sent to the processes that read them."""

    reference: Reference

    def __call__(self, task: _Task) -> Mapped:
        return task.further(self.reference)


def _added(
    tasks: Sequence[_Task],
    jobs: int,
    client: Any,
    failed: Callable[[Failure], None] | None = None,
    done: Callable[[int, int], None] | None = None,
) -> tuple[OffsetMap, Reference]:
    """Return the map of all inputs; files but the first are read by workers."""
    number = 0
    while True:
        first, *others = tasks[number:]
        try:
            reference, mapped = first.first()
        except MeantimeError as error:
            if failed is None or not others:
                raise
            failed(Failure(number, error))
            number += 1
        else:
            break
    # histories in memory are not sent
    if not all(isinstance(task.given, str | os.PathLike) for task in others):
        jobs, client = 1, None
    progress = None if done is None else lambda count: done(number + 1 + count, len(tasks))
    found = total(_Further(reference), others, together, client=client, jobs=jobs, done=progress)
    moved = _settled_by_messages(first, others, found.failures)
    # the place of an input among those that are mapped again, and then among all
    again = total(_Further(reference), [*moved.values()], together, client=client, jobs=jobs)
    places = [*moved]
    failures = [
        *(failure for failure in found.failures if failure.number not in moved),
        *(Failure(places[failure.number], failure.error) for failure in again.failures),
    ]
    for failure in sorted(failures, key=lambda each: each.number):
        if failed is None:
            raise failure.error
        failed(Failure(number + 1 + failure.number, failure.error))
    parts = [mapped, *(each.value for each in (found, again) if each.value is not None)]
    nothing = nothing_mapped(reference, parts)
    if nothing is not None and first.reading.notify is not None:
        first.reading.notify(nothing)
    return combined(first.path, first.query, reference, parts), reference


def _settled_by_messages(
    first: _Task, others: Sequence[_Task], failures: Sequence[Failure]
) -> dict[int, _Task]:
    """Return, by index, the inputs that messages between hosts place, or whose clocks they confirm.

    Inputs are opened again only if one of them has messages.
    """
    lost = {
        failure.number: failure.error
        for failure in failures
        if isinstance(failure.error, NotAlignedError)
    }
    if not any(error.has_messages for error in lost.values()):
        return {}
    failed = {failure.number for failure in failures} - lost.keys()
    # standard input cannot be read again
    chosen = [
        index
        for index, task in enumerate(others)
        if index not in failed
        and "-" not in {task.path, first.path}
        and (index not in lost or lost[index].has_messages)
    ]
    found = dict(zip(chosen, _aligned([first, *(others[index] for index in chosen)]), strict=False))
    moved = {}
    for index, error in lost.items():
        how = found.get(index, error.alignment)
        if not how.aligned:
            how = error.alignment
        if not (how.aligned or first.query.assume_aligned):
            continue
        task = others[index]
        moved[index] = (
            replace(task, shift=how.shift, offset_ns=0)
            if how.drift_ppt
            else replace(task, offset_ns=how.offset_ns)
        )
        if how.note and task.reading.notify is not None:
            task.reading.notify(
                f"{task.path}: {exact(how.offset_ns)} is added to its times, {how.note}"
            )
    return moved


def _aligned(tasks: Sequence[_Task]) -> list[Alignment]:
    """Return how the histories of all inputs but the first are aligned, if these can be read."""
    if len(tasks) == 1:
        return []
    try:
        histories = [history_of(task.given, task.reading.changed(strict=False)) for task in tasks]
    except (MeantimeError, OSError):
        # what could be read once and cannot be read again relates nothing
        return []
    given = {
        place: task.offset_ns for place, task in enumerate(tasks) if task.offset_ns is not None
    }
    return align_histories(histories, given)[1:]


def _command(
    task: _Task, reference: Reference, data: OffsetMap, drawn: tuple[str, ...]
) -> FlameCommand | None:
    """Return the command that shows the same of a map of a file, if there is one."""
    is_file = isinstance(task.given, str | os.PathLike) and task.path != "-"
    kind = data.sources[0].kind
    if not is_file or not data.recorded:
        return None
    is_without = data.stacks is None or reference.choice.event is not None
    if data.fold.axis is None and kind != "samples" and is_without:
        return None
    by = reference.choice.by
    assert by is not None
    bounds = (
        data.in_map(data.recorded[0][0], data.recorded[0][1])[0][0],
        data.in_map(data.recorded[-1][0], data.recorded[-1][1])[-1][1],
    )
    choice, provider = reference.choice, task.reading.provider
    if provider is not None and not isinstance(provider, str | os.PathLike):
        return None
    return FlameCommand(
        kind,
        task.path,
        choice.event,
        by,
        bounds,
        task.offset_ns or 0,
        states=() if choice.states == (EVERY_STATE,) else choice.states,
        filter=choice.filter,
        provider=None if provider is None else os.fspath(provider),
        drawn=drawn,
    )


def _title(given: Sequence[Source]) -> str:
    first = title_of(given[0])
    return first if len(given) == 1 else f"{first} and {len(given) - 1} more"


def _look(options: HeatmapArguments, usual: Method) -> Look:
    """Return how a map is coloured; `usual` is the method unless one is given."""
    color, scale, hues = options.color or usual, options.scale, tuple(options.hues)
    # one CPU or one slow request, far from all others, is what these maps are for
    least = _LEAST_SEEN if options.y in {"duration", "utilisation"} else 0.0
    if scale in {"auto", "lock"}:
        return Look(color, options.palette, hues, scale == "lock", None, least)
    if isinstance(scale, str) or not 0 < scale < float("inf"):
        raise UsageError(f"unknown scale {scale!r}; choose auto, lock, or the largest value")
    return Look(color, options.palette, hues, lock=False, largest=float(scale))


def _selection(options: HeatmapArguments) -> Selection:
    modes = ("highlight", "isolate", "exclude", "decompose")
    chosen = [mode for mode in modes if mode in options.given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} are mutually exclusive")
    for mode in chosen:
        return Selection(() if mode == "decompose" else texts(getattr(options, mode)), mode)
    return Selection()
