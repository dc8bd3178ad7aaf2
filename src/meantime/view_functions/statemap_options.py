"""The options of `meantime statemap`, which are the keywords of `meantime.statemap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from meantime.errors import UsageError
from meantime.model.extent import instant_of
from meantime.model.units import MAX_NS, Instant, duration_ns
from meantime.options import option, time_text
from meantime.view_functions.sources import Reading
from meantime.views.statemap.options import Drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meantime.model.extent import Extent
    from meantime.model.units import Duration, Time

__all__ = ["GivenWindow", "StatemapArguments"]

_T = TypeVar("_T")
_Given = TypeVar("_Given")


class StatemapArguments(Drawing, Reading):
    """What is drawn, and how the paths among the sources are read."""

    start: Time | None = option(
        "-b",
        "--from",
        "--begin",
        metavar="TIME",
        write=time_text,
        help="Start of the map, in the times of the first file.",
    )
    end: Time | None = option(
        "-e",
        "--to",
        "--end",
        metavar="TIME",
        write=time_text,
        help="End of the map; 0 is the end of the data.",
    )
    duration: Duration | None = option(
        "-d",
        "--duration",
        metavar="TIME",
        help="Length of the map, from its start or up to its end.",
        more="At most two of start, end and duration may be given.",
    )
    title: str | None = option(
        "--title", metavar="TEXT", absent="that of the data", help="Title of the picture."
    )
    offsets: Mapping[int, Duration] | None = option(
        help="By index of a source but the first, a time to add to its times, regardless of its"
        " clock."
    )
    zone: str | None = option(
        absent="that of `meantime.in_zone`, or UTC",
        help="The time zone of dates, by its name in the database of IANA.",
    )


class GivenWindow(NamedTuple):
    """The window of a map, each None if not given; errors are sentences of the original."""

    begin: Instant | None
    end: Instant | None
    duration_ns: int | None

    @classmethod
    def of(cls, begin: Time | None, end: Time | None, duration: Duration | None) -> GivenWindow:
        """Return the window of these arguments.

        Raises:
            UsageError: With the original's message, if one is not a time or all three are given.
        """
        found = cls(
            None if begin is None else _parsed("begin", begin, instant_of),
            # as in the original, an end of 0 is none, whatever the times of the trace are
            None if end is None or end == 0 else _parsed("end", end, instant_of),
            None if duration is None else _parsed("duration", duration, duration_ns),
        )
        if found.duration_ns is not None and found.duration_ns < 0:
            raise UsageError(f'value for duration is negative: "{duration}"')
        if None not in found:
            raise UsageError("cannot specify all of begin, end, and duration")
        return found

    @property
    def is_relative(self) -> bool:
        """Whether the times count from the beginning of the trace, so that no file is needed."""
        return all(instant is None or instant.base == "start" for instant in (self.begin, self.end))

    @property
    def ends(self) -> tuple[Instant | None, Instant | None]:
        """Begin and end, before any file is read; they may contradict each other."""
        if self.duration_ns is None:
            return self.begin, self.end
        if self.end is not None:
            return self.end._replace(ns=self.end.ns - self.duration_ns), self.end
        begin = self.begin or Instant(0, "start")
        return self.begin, begin._replace(ns=min(begin.ns + self.duration_ns, MAX_NS))

    def within(self, extent: Extent) -> tuple[int | None, int | None]:
        """Return begin and end in the times of the first file; None is where its data do.

        Raises:
            UsageError: With the original's message, if they contradict each other.
        """
        # the original's rules are about times since the beginning
        begin_ns, end_ns = (
            None if instant is None else extent.time_ns(instant) - extent.start_ns
            for instant in (self.begin, self.end)
        )
        if self.duration_ns is None:
            if begin_ns is not None and end_ns and begin_ns > end_ns:
                raise UsageError("begin offset must be less than end offset")
        elif end_ns is None:
            end_ns = min((begin_ns or 0) + self.duration_ns, MAX_NS)
        else:
            if self.duration_ns > end_ns:
                raise UsageError("duration cannot exceed end offset")
            begin_ns = end_ns - self.duration_ns
        return (
            None if begin_ns is None else extent.start_ns + begin_ns,
            # as in the original, an end of 0 is none
            min(extent.start_ns + end_ns, MAX_NS) if end_ns else None,
        )


def _parsed(name: str, time: _Given, parse: Callable[[_Given], _T]) -> _T:
    try:
        return parse(time)
    except UsageError:
        raise UsageError(f'value for {name} is not a valid expression of time: "{time}"') from None
