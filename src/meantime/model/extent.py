"""The range of a trace, and its times as text: what `--from 1.5s` refers to, and what is printed.

Times in columns, JSON and arguments of the library are nanoseconds of the trace's own clock. Texts
count from where the trace begins, so that a time that is printed can be given back.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple, cast

from meantime.errors import TimeRangeError, UsageError
from meantime.model.units import Instant, format_exact, format_utc, parse_instant, whole_ns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from meantime.model.clocks import Clock
    from meantime.model.units import Time
    from meantime.model.zones import Zone

__all__ = ["Extent", "current_zone", "format_handle", "in_zone", "instant_of", "parse_handle"]

_zone: ContextVar[Zone | None] = ContextVar("_zone", default=None)


@contextmanager
def in_zone(name: str | None) -> Iterator[None]:
    """Write and read dates in a time zone instead of UTC, in a `with` statement.

    Dates that name a zone themselves, such as `2026-07-01T09:00Z`, keep it.

    >>> from meantime.model.clocks import Clock
    >>> extent = Extent(0, 9, Clock(utc_at_origin_ns=1_782_900_000_000_000_000))
    >>> with in_zone("Europe/Berlin"):
    ...     extent.utc(0), extent.time_ns("2026-07-01T12:00:00.000000005")
    ('2026-07-01T12:00:00.000000000+02:00', 5)

    Args:
        name: A name of the database of IANA, such as `Europe/Berlin`; None changes nothing.

    Raises:
        UsageError: If no zone has this name.
    """
    if name is None:
        yield
        return
    from meantime.model.zones import Zone  # noqa: PLC0415 - NumPy, which few uses of this module need

    token = _zone.set(Zone(name))
    try:
        yield
    finally:
        _zone.reset(token)


def current_zone() -> Zone | None:
    """Return the zone in which dates are written and read; None is UTC."""
    return _zone.get()


def instant_of(time: Time) -> Instant:
    """Return the instant that a time names: a text by `parse_instant`, in the current zone.

    Raises:
        TypeError: If it is neither an integer, a text nor a datetime.
        UsageError: If the text is not a time, or a datetime has no zone.
    """
    if hasattr(time, "utcoffset"):  # a datetime, whose module few programs need
        return _instant_of_date(cast("datetime", time))
    if not isinstance(time, str):
        return Instant(whole_ns(time), "trace")
    zone = _zone.get()
    return parse_instant(time, None if zone is None else zone.one_to_utc)


def _instant_of_date(date: datetime) -> Instant:
    """Return the instant of a datetime, exact to its microsecond."""
    from datetime import datetime, timedelta  # noqa: PLC0415 - few programs need it

    if date.utcoffset() is None:
        raise UsageError(f"{date} has no time zone; write datetime(..., tzinfo=timezone.utc)")
    since = date - datetime(1970, 1, 1, tzinfo=UTC)
    return Instant(since // timedelta(microseconds=1) * 1000, "utc")


def format_handle(path: str, time_ns: int) -> str:
    """Return the text that names a time of a lane, or of the whole trace if the path is empty.

    The time is one of the trace's own clock, so that the text stays valid in a trace that grows or
    loses its beginning.

    >>> format_handle("CPUs/3", 1500), format_handle("", 1500)
    ('CPUs/3@abs:1500', '@abs:1500')
    """
    return f"{path}@abs:{time_ns}"


def parse_handle(text: str) -> tuple[str, str]:
    """Return the path and the time in a handle, or an empty path and the text of a time.

    >>> parse_handle("CPUs/3@abs:1500"), parse_handle("@abs:1500"), parse_handle("1.5ms")
    (('CPUs/3', 'abs:1500'), ('', 'abs:1500'), ('', '1.5ms'))
    >>> parse_handle("@1528482355.856")  # a date
    ('', '@1528482355.856')
    """
    path, _, time = text.rpartition("@")
    return path, time if path or time.startswith("abs:") else text


class Extent(NamedTuple):
    """The range [start_ns, end_ns) that a trace covers, and the clock of its times.

    It begins at the first event, or at time 0 in formats that define what their time 0 is, such as
    a statemap's `start`.

    >>> from meantime.model.clocks import Clock
    >>> extent = Extent(2_000, 9_000, Clock(utc_at_origin_ns=1_500_000_000_000_000_000))
    >>> extent.time_ns("3us"), extent.time_ns("abs:3us"), extent.time_ns(3000)
    (5000, 3000, 3000)
    >>> extent.text(5000), extent.utc(5000)
    ('3us', '2017-07-14T02:40:00.000005000Z')
    """

    start_ns: int
    end_ns: int
    clock: Clock

    def time_ns(self, time: Time | Instant) -> int:
        """Return a time in nanoseconds of the trace; an integer is that already.

        Raises:
            TypeError: If it is neither an integer, a text nor a datetime.
            UsageError: If the text is not a time, a datetime has no zone, or it is a date and the
                trace's date is unknown.
        """
        if not isinstance(time, Instant):
            time = instant_of(time)
        if time.base == "start":
            return self.start_ns + time.ns
        if time.base == "trace":
            return time.ns
        if self.clock.utc_at_origin_ns is None:
            raise UsageError(
                f"{format_utc(time.ns)} is a date, but this trace's dates are unknown; write a time"
                " since its beginning, such as 1.5s"
            )
        return time.ns - self.clock.utc_at_origin_ns

    def text(self, time_ns: int) -> str:
        """Return a time of the trace as text that `time_ns` accepts, exact to the nanosecond."""
        return format_exact(time_ns - self.start_ns)

    def utc(self, time_ns: int) -> str | None:
        """Return the date and time in UTC, or in the current zone, if known."""
        origin_ns = self.clock.utc_at_origin_ns
        if origin_ns is None:
            return None
        zone = _zone.get()
        return format_utc(origin_ns + time_ns) if zone is None else zone.text(origin_ns + time_ns)

    def described(self, covered: tuple[int, int] | None = None) -> str:
        """Return both ends of this or another range, with their dates if known."""
        start_ns, end_ns = covered or (self.start_ns, self.end_ns)
        ends = f"from {self.text(start_ns)} to {self.text(end_ns)}"
        first, last = self.utc(start_ns), self.utc(end_ns)
        return ends if first is None else f"{ends} ({first} to {last})"

    def instant(self, time: Time) -> int:
        """Return a time within the range in nanoseconds of the trace.

        Raises:
            TimeRangeError: If it is outside.
        """
        time_ns = self.time_ns(time)
        if not self.start_ns <= time_ns < max(self.end_ns, self.start_ns + 1):
            raise TimeRangeError(
                f"{self.text(time_ns)} is outside the trace, which is {self.described()}"
            )
        return time_ns

    def part(self, start: Time | None, end: Time | None) -> tuple[int, int]:
        """Return the range between two times, each by default where the trace's range ends.

        The range may be outside of the trace: then there is nothing in it, as `misses` says.

        Raises:
            TimeRangeError: If the range ends before it begins, or is empty.
        """
        start_ns = self.start_ns if start is None else self.time_ns(start)
        end_ns = self.end_ns if end is None else self.time_ns(end)
        if start is not None and end is not None:
            self.check_order(start_ns, end_ns)
        # the end that is not given is that of the trace, unless the other one is beyond it
        elif end is not None:
            start_ns = min(start_ns, end_ns - 1)
        elif start is not None:
            end_ns = max(start_ns + 1, end_ns)
        return start_ns, end_ns

    def misses(self, start_ns: int | None, end_ns: int | None) -> bool:
        """Return whether a range is before or after the trace; None is an end that was not given.

        >>> from meantime.model.clocks import Clock
        >>> extent = Extent(2, 9, Clock())
        >>> extent.misses(9, None), extent.misses(None, 2), extent.misses(0, 3)
        (True, True, False)
        """
        # a trace without any length has its only time
        last_ns = max(self.end_ns, self.start_ns + 1)
        is_before = end_ns is not None and end_ns <= self.start_ns
        return is_before or (start_ns is not None and start_ns >= last_ns)

    def check_order(self, start_ns: int, end_ns: int) -> None:
        """Check that a range begins before it ends.

        Raises:
            TimeRangeError: If it does not.
        """
        if start_ns >= end_ns:
            raise TimeRangeError(
                f"the range from {self.text(start_ns)} to {self.text(end_ns)} is empty: it must"
                " begin before it ends"
            )

    def nothing(
        self, start_ns: int | None, end_ns: int | None, *, covered: tuple[int, int] | None = None
    ) -> TimeRangeError:
        """Return the error for a range that contains nothing.

        Args:
            start_ns: Where the range begins; None if that was not given.
            end_ns: Where it ends; None if that was not given.
            covered: What all inputs together cover, if there are several.
        """
        has_all = (start_ns is None or start_ns <= self.start_ns) and (
            end_ns is None or end_ns >= self.end_ns
        )
        if has_all and covered is None:
            return TimeRangeError(f"nothing is counted; the trace is {self.described(None)}")
        ends = [] if start_ns is None else [f"from {self.text(start_ns)}"]
        ends += [] if end_ns is None else [f"to {self.text(end_ns)}"]
        asked = " ".join(ends) + (" on" if end_ns is None else "")
        inputs = "the trace is" if covered is None else "the inputs are"
        return TimeRangeError(f"there is nothing {asked}; {inputs} {self.described(covered)}")
