"""One map of several sources, in the times of the first."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import InputError, TimeRangeError, UsageError
from meantime.model.extent import Extent
from meantime.model.units import parse_instant
from meantime.query.aligning import align
from meantime.query.offsets.axis import column_ns
from meantime.query.offsets.fold import Fold
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.model.units import Time
    from meantime.model.zones import Zone
    from meantime.query.aligning import Alignment
    from meantime.query.offsets.gather import Choice
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.offsets.sources import MapSource
    from meantime.query.ranges import Range

__all__ = [
    "EVERY_STATE",
    "MapQuery",
    "Mapped",
    "NotAlignedError",
    "Reference",
    "combined",
    "first_map",
    "further_map",
    "nothing_mapped",
    "rows_of",
    "together",
]

# The pattern of all states: maps them even if there are samples or spans.
EVERY_STATE = "*"
_MINUTE_NS = 60 * 10**9
_WEEK_NS = 10_080 * _MINUTE_NS
# The first Monday of 1970.
_MONDAY_NS = 4 * 1440 * _MINUTE_NS
_ROWS = {_MINUTE_NS: 60, 60 * _MINUTE_NS: 60, 1440 * _MINUTE_NS: 96, _WEEK_NS: 168}


@struct
class MapQuery:
    """The part of the sources to map, and the cells to map it to.

    Attributes:
        period_ns: The width of a column; 0 is a round one for the range, for maps that no period
            folds.
        rows: How many rows a column has, if they are offsets.
        origin: Where a column begins: a time, `first` for the first source's begin, `wall` for
            whole periods of UTC, or None for whole periods of the first source's clock. In a zone
            `wall` and None are both whole periods of local time. Weeks begin on Mondays if dates
            are known.
        choice: What is counted; its window is set from `start` and `end`.
        start: Where the range begins, in the first source's times.
        end: Where it ends.
        assume_aligned: Treat unrelated clocks as synchronised.
        zone: The time zone whose local times are folded.
    """

    period_ns: int
    rows: int
    origin: Time | None
    choice: Choice
    start: Time | None = None
    end: Time | None = None
    assume_aligned: bool = False
    zone: Zone | None = None

    @property
    def is_relative(self) -> bool:
        """Whether a time counts from where the first source begins."""
        texts = [time for time in (self.start, self.end, self.origin) if isinstance(time, str)]
        return any(
            parse_instant(text).base == "start" for text in texts if text not in {"first", "wall"}
        )

    def on_columns(self, span_ns: int) -> MapQuery:
        """Return this query with a width of columns, for a range of this length."""
        return self if self.period_ns else replace(self, period_ns=column_ns(max(1, span_ns)))

    def fold(self, first_ns: int, extent: Extent) -> Fold:
        """Return the cells of a map that begins at this time of the first source.

        Raises:
            UsageError: If the origin or the zone needs the clock's UTC, which is unknown.
        """
        utc_ns = extent.clock.utc_at_origin_ns
        if self.choice.y == "weekday" and utc_ns is None:
            raise UsageError("--y weekday needs the start of the trace in UTC, which is unknown")
        if self.zone is None:
            if self.choice.y == "weekday" and utc_ns is not None:
                return Fold(self._week_ns(first_ns, utc_ns), self.period_ns, 1)
            return Fold(self._origin_ns(first_ns, extent), self.period_ns, self.rows)
        if utc_ns is None:
            raise UsageError("--zone needs the start of the trace in UTC, which is unknown")
        from meantime.model.zones import Calendar  # noqa: PLC0415 - few maps have a zone

        calendar = Calendar(self.zone, utc_ns)
        if self.choice.y == "weekday":
            monday_ns = self._week_ns(calendar.local(first_ns), utc_ns)
            return Fold(monday_ns, self.period_ns, 1, calendar)
        whole = self.origin in {None, "wall"}
        from_ns = first_ns if whole else self._origin_ns(first_ns, extent)
        origin_ns = calendar.local(from_ns)
        if whole:
            origin_ns = self._whole_ns(origin_ns, utc_ns)
        return Fold(origin_ns, self.period_ns, self.rows, calendar)

    @staticmethod
    def _week_ns(time_ns: int, utc_ns: int) -> int:
        """Return where the week begins that a time is in, of the clock that is UTC at 0."""
        return time_ns - (time_ns + utc_ns - _MONDAY_NS) % _WEEK_NS

    def _whole_ns(self, time_ns: int, utc_ns: int) -> int:
        """Return where whole periods begin that a time is in, of the clock that is UTC at 0."""
        since_ns = 0 if self.period_ns % _WEEK_NS else _MONDAY_NS
        return time_ns - (time_ns + utc_ns - since_ns) % self.period_ns

    def _origin_ns(self, first_ns: int, extent: Extent) -> int:
        utc_ns = extent.clock.utc_at_origin_ns
        if self.origin is None and (utc_ns is None or self.period_ns % _WEEK_NS):
            return first_ns // self.period_ns * self.period_ns
        if self.origin == "first":
            return first_ns
        if self.origin in {None, "wall"}:
            if utc_ns is None:
                raise UsageError(
                    "--origin wall needs the start of the trace in UTC, which is unknown"
                )
            return self._whole_ns(first_ns, utc_ns)
        return extent.time_ns(self.origin)


class NotAlignedError(InputError):
    """The clock of a source is not related to that of the first one, or messages may contradict it.

    Attributes:
        has_messages: Whether the source has what hosts sent each other, which may relate it.
        alignment: What the clocks say.
    """

    def __init__(self, source: str, *, has_messages: bool, alignment: Alignment) -> None:
        super().__init__(
            source,
            "its clock cannot be aligned with the first input's; use --offset, or"
            " --assume-aligned to treat them as synchronised",
        )
        self.has_messages = has_messages
        self.alignment = alignment

    def __reduce__(self) -> tuple[Callable[..., InputError], tuple[object, ...]]:
        return _not_aligned, (self.source, self.has_messages, self.alignment)


def _not_aligned(
    source: str,
    has_messages: bool,  # noqa: FBT001 - for pickle
    alignment: Alignment,
) -> NotAlignedError:
    return NotAlignedError(source, has_messages=has_messages, alignment=alignment)


class Mapped(NamedTuple):
    """The map of one source, and what the source covers, in the times of the map."""

    bounds: Range
    map: OffsetMap


@struct
class Reference:
    """The settings that the first source determines for the others.

    Attributes:
        extent: What it covers; its times are the map's.
        fold: The cells.
        choice: What is mapped, and how it is grouped.
        start_ns: Where the range begins.
    """

    extent: Extent
    fold: Fold
    choice: Choice
    start_ns: int


def rows_of(period_ns: int) -> int:
    """Return the default number of rows of a column of this width.

    >>> rows_of(10**9), rows_of(60 * 10**9), rows_of(20)
    (50, 60, 20)
    """
    return _ROWS.get(period_ns, max(1, min(50, period_ns)))


def first_map(
    source: MapSource, query: MapQuery, *, name: str, offset_ns: int = 0
) -> tuple[Reference, Mapped]:
    """Map the first source, and return the settings that it determines for the others.

    Raises:
        InputError: If the source does not contain what the query selects.
        UsageError: If the query does not fit the source.
    """
    extent = source.extent
    low, high = (
        None if time is None else extent.time_ns(time) for time in (query.start, query.end)
    )
    if low is not None and high is not None:
        extent.check_order(low, high)
    begin_ns, end_ns = (
        source.bounds[0] if low is None else low,
        source.bounds[1] if high is None else high,
    )
    query = query.on_columns(end_ns - begin_ns)
    fold = query.fold(source.first_ns if low is None else low, extent)
    choice = replace(query.choice, window=(low, high))
    mapped, by = _mapped(source, fold, choice, name, offset_ns)
    start_ns = source.bounds[0] if low is None else low
    # what a source that is a stream covers is known only now
    extent = Extent(*source.bounds, extent.clock)
    reference = Reference(extent, fold, replace(choice, by=by), start_ns)
    return reference, mapped


def further_map(
    source: MapSource,
    query: MapQuery,
    reference: Reference,
    *,
    name: str,
    offset_ns: int | None = None,
) -> Mapped:
    """Map another source in the times of the first.

    Args:
        source: The source to map.
        query: The query.
        reference: The settings from the first source.
        name: The name of this source in the map.
        offset_ns: What to add to its times; None aligns the clocks, unless messages may contradict
            them.

    Raises:
        InputError: If the source lacks what the query selects.
        NotAlignedError: If the clocks cannot be aligned, or messages may contradict them.
        UsageError: If the query does not fit the source.
    """
    if offset_ns is not None:
        return _mapped(source, reference.fold, reference.choice, name, offset_ns)[0]
    alignment = align(reference.extent.clock, source.extent.clock)
    is_known = alignment.aligned or query.assume_aligned

    def check() -> None:
        # UTC of two machines is only as good as their clocks were set
        has_messages = alignment.how != "clock" and source.has_messages
        if has_messages or not is_known:
            raise NotAlignedError(source.path, has_messages=has_messages, alignment=alignment)

    check()
    found = _mapped(source, reference.fold, reference.choice, name, alignment.offset_ns)[0]
    # what a stream contains is known only now
    check()
    return found


def _mapped(
    source: MapSource, fold: Fold, choice: Choice, name: str, offset_ns: int
) -> tuple[Mapped, str]:
    # the window is in the times of the map; the source expects it in its own
    low, high = (None if time is None else time - offset_ns for time in choice.window)
    moved = replace(choice, window=(low, high))
    try:
        found, by = source.mapped(fold, moved, name=name, offset_ns=offset_ns)
    except TimeRangeError as error:
        raise InputError(source.path, str(error)) from None
    start_ns, end_ns = source.bounds
    return Mapped((start_ns + offset_ns, end_ns + offset_ns), found), by


def together(parts: Sequence[Mapped]) -> Mapped:
    """Return the sum of maps, and what they cover together."""
    starts, ends = zip(*(part.bounds for part in parts), strict=True)
    return Mapped((min(starts), max(ends)), reduce(add, (part.map for part in parts)))


def combined(
    path: str, query: MapQuery, reference: Reference, parts: Sequence[Mapped]
) -> OffsetMap:
    """Return the sum of the maps of all sources.

    Args:
        path: The name of the first source in errors.
        query: The query.
        reference: The settings from the first source.
        parts: The maps, or sums of them, that of the first source first.

    Raises:
        InputError: If no state matches.
    """
    together = replace(
        reduce(add, (part.map for part in parts)),
        utc_at_zero_ns=reference.extent.clock.utc_at_origin_ns,
        begin_ns=_in_fold(reference.fold, reference.extent.start_ns),
    )
    window, states = reference.choice.window, reference.choice.states
    pattern = reference.choice.filter
    # in a window there may be nothing now of what there is at other times
    is_nothing = window == (None, None) and not len(together.total.number)
    if pattern is not None and is_nothing:
        raise InputError(path, f"the filter {pattern!r} matches no row with anything to map")
    if states == (EVERY_STATE,) and is_nothing:
        raise InputError(path, "there are no states to map")
    if states and is_nothing:
        patterns = ", ".join(states)
        raise InputError(path, f"nothing is ever in a state that matches --state {patterns}")
    together = together.fitted()
    if query.choice.y == "weekday":
        return together
    if query.origin is None:
        return together.from_first_column()
    if query.origin == "wall":
        start_ns = _in_fold(reference.fold, reference.start_ns)
        return together.from_column(reference.fold.column(start_ns))
    return together


def nothing_mapped(reference: Reference, parts: Sequence[Mapped]) -> str | None:
    """Return the sentence about a window in which nothing was recorded; None about any other."""
    window = reference.choice.window
    if window == (None, None) or any(part.map.recorded for part in parts):
        return None
    starts, ends = zip(*(part.bounds for part in parts), strict=True)
    covered = (min(starts), max(ends)) if len(parts) > 1 else None
    return str(reference.extent.nothing(*window, covered=covered))


def _in_fold(fold: Fold, time_ns: int) -> int:
    """Return a time of the map as one of its fold."""
    return time_ns if fold.calendar is None else fold.calendar.local(time_ns)
