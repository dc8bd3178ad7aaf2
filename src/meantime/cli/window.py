"""The options -b, -e and -d of the statemap: a window, with the original's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from meantime.errors import UsageError
from meantime.extent import instant_of
from meantime.units import MAX_NS, Instant, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from meantime.extent import Extent

__all__ = ["Asked", "named_time", "parse_window"]

T = TypeVar("T")


class Asked(NamedTuple):
    """The options -b, -e and -d, each None if not given."""

    begin: Instant | None
    end: Instant | None
    duration_ns: int | None

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

    def window(self, extent: Extent) -> tuple[int | None, int | None]:
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


def parse_window(begin: str | None, end: str | None, duration: str | None) -> Asked:
    """Parse -b, -e and -d.

    Raises:
        UsageError: With the original's message, if one is not a time or all three are given.
    """
    asked = Asked(
        _instant("begin", begin),
        _instant("end", end),
        None if duration is None else _duration(duration),
    )
    if None not in asked:
        raise UsageError("cannot specify all of begin, end, and duration")
    return asked


def _instant(name: str, text: str | None) -> Instant | None:
    return None if text is None else named_time(name, text, instant_of)


def _duration(text: str) -> int:
    duration_ns = named_time("duration", text, parse_duration)
    if duration_ns < 0:
        raise UsageError(f'value for duration is negative: "{text}"')
    return duration_ns


def named_time(name: str, text: str, parse: Callable[[str], T]) -> T:
    """Return the parsed value of an option.

    Raises:
        UsageError: With the original's message, if it is not a time.
    """
    try:
        return parse(text)
    except UsageError:
        raise UsageError(f'value for {name} is not a valid expression of time: "{text}"') from None
