"""The statemap of one source, or of several, one above the other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from meantime.errors import InputError, UsageError
from meantime.model.clocks import Clock
from meantime.model.extent import Extent, current_zone, in_zone
from meantime.model.input_path import format_for
from meantime.model.units import duration_ns
from meantime.options import keywords_of
from meantime.query.parts import extent_of
from meantime.query.sampled_states import with_sampled_states
from meantime.structs import struct
from meantime.view_functions.sources import history_of, label_of, listed
from meantime.view_functions.statemap_options import GivenWindow, StatemapArguments
from meantime.views.statemap import (
    HistoryProblem,
    StatemapOptions,
    StatemapView,
    build,
    check_states,
    count,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.history import History
    from meantime.model.units import Instant
    from meantime.model.zones import Zone
    from meantime.view_functions.sources import Source
    from meantime.views.statemap.data import Counted

__all__ = ["OpenedStatemap", "open_statemap", "statemap"]

_T = TypeVar("_T")
# The times of statemap data count from its `start`, which is known before it is read.
_STATEMAP = Extent(0, 0, Clock())


@keywords_of(StatemapArguments)
def statemap(sources: Source | Sequence[Source], **given: Any) -> StatemapView:
    """Return the statemap of a history, or of several, one above the other.

    Times are nanoseconds of the trace's own clock, or texts: `"1.5s"` counts from where the trace
    begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"` is of the trace's own clock.

    A history that has only samples is drawn as far as they show whether threads were `on-cpu`. As
    in the original statemap, data after the end of the map may be malformed.

    >>> from meantime.testing import history_from_picture
    >>> statemap(history_from_picture("disk0  aab."))
    <Statemap: 1 rows, 2 rectangles, 4ns>

    Args:
        sources: A history or a path, or several of them.
        **given: What is drawn, and how paths are read: see `StatemapArguments`.

    Raises:
        InputError: If a file cannot be read, a history has no states that could be drawn, or the
            filter matches none.
        MeantimeError: If a state to sort by or a color does not exist.
        UsageError: If an argument is invalid.
    """
    view = open_statemap(sources, StatemapArguments(**given)).drawn()
    return view.made_of(listed(sources))


def open_statemap(
    sources: Source | Sequence[Source],
    arguments: StatemapArguments,
    labels: Sequence[str] | None = None,
    *,
    draws: bool = True,
) -> OpenedStatemap:
    """Open the sources of a statemap.

    Args:
        sources: The sources.
        arguments: What is to be drawn.
        labels: What messages call the sources, if not as their paths.
        draws: Whether it will be drawn; otherwise colors and order are not checked.

    Raises:
        InputError: If a source cannot be read, or defines an illegal color.
        MeantimeError: If a state to sort by does not exist.
        UsageError: If an argument is invalid.
    """
    given = listed(sources)
    if not given:
        raise UsageError("a statemap needs a source: a history or a path")
    labels = labels or [label_of(source) for source in given]
    offsets_ns = {index: duration_ns(each) for index, each in (arguments.offsets or {}).items()}
    if not offsets_ns.keys() <= set(range(len(given))):
        raise UsageError(f"the keys of offsets are indices of sources: 1 to {len(given) - 1}")
    with in_zone(arguments.zone):
        window = GivenWindow.of(arguments.start, arguments.end, arguments.duration)
        options = arguments.narrowed(
            StatemapOptions, begin_ns=None, end_ns=None, offsets_ns=offsets_ns
        )
        end_ns = window.within(_STATEMAP)[1] if window.is_relative else None
        if draws and arguments.provider is None:
            _check_states(given, options, lenient=arguments.lenient)
        # anomalies are counted once it is known what is drawn
        intact = arguments.intact and not arguments.strict
        reading = arguments.changed(strict=False, intact=intact)
        histories = [
            # the windows of others depend on their clocks, which are known once they are read
            _opened(source, reading) if number else _opened(source, reading, window.ends, end_ns)
            for number, source in enumerate(given)
        ]
        begin_ns, end_ns = window.within(extent_of(histories[0]))
        options = options.changed(begin_ns=begin_ns, end_ns=end_ns)
        return OpenedStatemap(labels, histories, options, arguments, current_zone())


@struct
class OpenedStatemap:
    """What a statemap is drawn of.

    Attributes:
        labels: What messages call each history.
        histories: The histories.
        options: What is drawn of them.
        arguments: The arguments.
        zone: The time zone of dates.
    """

    labels: Sequence[str]
    histories: Sequence[History]
    options: StatemapOptions
    arguments: StatemapArguments
    zone: Zone | None

    def drawn(self) -> StatemapView:
        """Return the statemap.

        Raises:
            InputError: If the filter leaves nothing to draw, or `strict` and there is an anomaly.
        """
        drawn = _of_histories(self.labels, lambda: build(self.histories, self.options))
        title = self.arguments.title or ""
        view = StatemapView(replace(drawn, given_title=title, zone=self.zone))
        self._check(view.counts)
        return view

    def counts(self) -> list[Counted]:
        """Return the rectangles and anomalies of each history, without drawing them.

        Raises:
            InputError: If the filter leaves nothing to draw, or `strict` and there is an anomaly.
        """
        found = _of_histories(self.labels, lambda: count(self.histories, self.options))
        self._check(found)
        return found

    def _check(self, found: Sequence[Counted]) -> None:
        options = self.options
        if not any(each.rectangles for each in found):
            if options.filter is not None and not self._is_elsewhere():
                raise InputError(
                    self.labels[0],
                    f"no entity that the filter {options.filter!r} matches has a state here",
                )
            notify = self.arguments.notify
            if notify and not (options.begin_ns is None and options.end_ns is None):
                extent = extent_of(self.histories[0])
                notify(str(extent.nothing(options.begin_ns, options.end_ns)))
        if self.arguments.strict:
            for label, each in zip(self.labels, found, strict=True):
                each.anomalies.refuse(label)

    def _is_elsewhere(self) -> bool:
        """Return whether what the filter matches has states outside of the window."""
        options = self.options
        if options.begin_ns is None and options.end_ns is None:
            return False
        whole = options.changed(begin_ns=None, end_ns=None)
        found = _of_histories(self.labels, lambda: count(self.histories, whole))
        return any(each.rectangles for each in found)


def _of_histories(labels: Sequence[str], make: Callable[[], _T]) -> _T:
    """Return what is made of histories, whose problems name them.

    Raises:
        InputError: If a history cannot be drawn.
    """
    try:
        return make()
    except HistoryProblem as problem:
        raise InputError(labels[problem.history], str(problem)) from None


def _check_states(sources: Sequence[Source], options: StatemapOptions, *, lenient: bool) -> None:
    """Check colors and the states to sort by in files that define them at their beginning.

    Raises:
        InputError: If a file has an illegal color.
        MeantimeError: If there is no such state.
    """
    from meantime.readers import statemap as reader  # noqa: PLC0415 - a history needs no reader
    from meantime.readers.source import open_source  # noqa: PLC0415 - as above

    defined, labels = [], []
    for source in sources:
        if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
            continue
        with open_source(source) as opened:
            states = reader.defined_states(opened, lenient=lenient)
        if states is not None:
            defined.append(states)
            labels.append(label_of(source))
    if defined:
        _of_histories(labels, lambda: check_states(defined, options))


def _opened(
    source: Source,
    reading: StatemapArguments,
    ends: tuple[Instant | None, Instant | None] = (None, None),
    end_ns: int | None = None,
) -> History:
    """Return the history of a source, of which data after the end of the window may be malformed.

    Args:
        source: The source.
        reading: How it is read.
        ends: Begin and end of the window: other states are not needed.
        end_ns: The end in the times of a statemap file, if it is known.

    Raises:
        InputError: If it cannot be read up to there.
    """
    try:
        return with_sampled_states(history_of(source, reading, *ends))
    except InputError:
        if not end_ns or reading.provider is not None or not _is_statemap(source):
            raise
    history = history_of(source, reading, *ends, until_ns=end_ns)
    history.anomalies.add("unread_after_end")
    return history


def _is_statemap(source: Source) -> bool:
    """Return whether a source is a statemap file, which can be read again."""
    from meantime.readers.recognition import seen  # noqa: PLC0415 - as above
    from meantime.readers.source import open_source  # noqa: PLC0415 - as above

    if not isinstance(source, str | os.PathLike) or not Path(source).is_file():
        return False
    if (format_ := format_for(source)) is not None:
        return format_ == "statemap"
    with open_source(source) as opened:
        return [*seen(opened.head(), opened.name)] == ["statemap"]
