"""The statemap of one source, or of several, one above the other."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.errors import InputError, UsageError
from meantime.extent import current_zone, in_zone
from meantime.query.parts import extent_of
from meantime.query.sampled_states import with_sampled_states
from meantime.units import duration_ns
from meantime.view_functions.sources import Reading, history_of, label_of, listed, silent
from meantime.views.statemap import (
    HistoryProblem,
    StatemapOptions,
    StatemapView,
    build,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.directory_build import Notify
    from meantime.providers.loading import ProviderLike
    from meantime.units import Time
    from meantime.view_functions.sources import Progress, Source

__all__ = ["statemap"]


def statemap(
    sources: Source | Sequence[Source],
    *,
    start: Time | None = None,
    end: Time | None = None,
    coalesce: int | None = None,
    sort_by: str | None = None,
    stack_sort_by: str | None = None,
    filter: str | None = None,  # noqa: A002 - the command's name for it
    packed: bool = True,
    ignore_tags: bool = False,
    state_height_px: int = 10,
    offsets: Mapping[int, Time] | None = None,
    title: str | None = None,
    zone: str | None = None,
    provider: ProviderLike = None,
    lenient: bool = False,
    strict: bool = False,
    notify: Notify | None = None,
    progress: Progress | None = None,
) -> StatemapView:
    """Return the statemap of a history, or of several, one above the other.

    Times are nanoseconds of the trace's own clock, or texts: `"1.5s"` counts from where the trace
    begins, `"2026-07-01T09:00Z"` is a date, and `"abs:1.5s"` is of the trace's own clock.

    A history that has only samples is drawn as far as they show whether threads were `on-cpu`.

    >>> from meantime.testing import history_from_picture
    >>> statemap(history_from_picture("disk0  aab."))
    <Statemap: 1 rows, 2 rectangles, 4ns>

    Args:
        sources: A history or a path, or several of them.
        start: The beginning of the range, in the times of the first source.
        end: The end of the range; as in the original statemap, 0 is the end of the data.
        coalesce: The most rectangles of a map, as far as each run of states without a gap in a row
            can be one; in rows that entities share, a gap can be part of one. With None nothing is
            merged up to 5 million intervals in all maps.
        sort_by: The state whose total time sorts the rows, most first; `entity` (unless a state is
            called that) and None sort them by name.
        stack_sort_by: The state whose total time sorts the maps; None keeps their order.
        filter: Rows to show: an entity's name, or a regular expression that is found in names.
        packed: Let short-lived entities, such as tasks, share rows if they never overlap; otherwise
            each has a row.
        ignore_tags: Leave out the tags; states that differ in nothing else are one.
        state_height_px: The height of a row.
        offsets: By index of a source but the first, a time to add to its times, regardless of its
            clock.
        title: The title of the picture; by default that of the data.
        zone: The time zone of dates, by its name in the database of IANA; None is the zone of
            `meantime.in_zone`, or UTC without one.
        provider: Derives states from the events of a path's trace, as in `meantime.open`; the
            history is kept in the cache.
        lenient: Skip and count records of a file that cannot be read.
        strict: Fail if an input has any anomaly.
        notify: Called with a sentence that gives the reason when a cached history is rebuilt.
        progress: Returns for a path a context manager that yields a progress callback.

    Raises:
        InputError: If a file cannot be read, or the history of a path has no states.
        TimeRangeError: If nothing of the first source is in the range.
        MeantimeError: If a history has no states, or a state to sort by or a color does not exist.
        UsageError: If an argument is invalid.
    """
    given = listed(sources)
    if not given:
        raise UsageError("a statemap needs a source: a history or a path")
    offsets_ns = {index: duration_ns(offset) for index, offset in (offsets or {}).items()}
    if not offsets_ns.keys() <= set(range(len(given))):
        raise UsageError(f"the keys of offsets are indices of sources: 1 to {len(given) - 1}")
    options = StatemapOptions(
        coalesce=coalesce,
        sort_by=sort_by,
        stack_sort_by=stack_sort_by,
        filter=filter,
        packed=packed,
        ignore_tags=ignore_tags,
        state_height_px=state_height_px,
        offsets_ns=offsets_ns,
    )
    reading = Reading(provider, lenient, strict, notify, progress or silent)
    with in_zone(zone):
        histories = [
            # in what the window of the others is depends on the clocks
            with_sampled_states(
                history_of(source, reading) if number else history_of(source, reading, start, end)
            )
            for number, source in enumerate(given)
        ]
        extent = extent_of(histories[0])
        begin_ns = None if start is None else extent.time_ns(start)
        end_ns = None if end is None or end == 0 else extent.time_ns(end)
        extent.check_overlap(begin_ns, end_ns)
        used_zone = current_zone()
    options = replace(options, begin_ns=begin_ns, end_ns=end_ns)
    try:
        drawn = build(histories, options)
        view = StatemapView(replace(drawn, given_title=title or "", zone=used_zone))
        return view.made_of(given)
    except HistoryProblem as problem:
        source = given[problem.history]
        if not isinstance(source, str | os.PathLike):
            raise
        raise InputError(label_of(source), str(problem)) from None
