"""Times of findings in words: as people say them where dates are known and a recording is long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.model.units import NS_PER_S, format_exact, format_ns, format_utc

if TYPE_CHECKING:
    from meantime.query.offsets.map import OffsetMap
    from meantime.query.ranges import Range

__all__ = ["DAY_NS", "HOUR_NS", "MINUTE_NS", "WEEK_NS", "Wording", "every"]

MINUTE_NS = 60 * NS_PER_S
HOUR_NS, DAY_NS = 60 * MINUTE_NS, 1440 * MINUTE_NS
WEEK_NS = 7 * DAY_NS
# The first Monday of 1970.
_MONDAY_NS = 4 * DAY_NS
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORDS = {MINUTE_NS: "minute", HOUR_NS: "hour", DAY_NS: "day", WEEK_NS: "week"}


def every(period_ns: int) -> str:
    """Return a period in words.

    >>> every(8 * NS_PER_S), every(DAY_NS), every(90 * MINUTE_NS), every(2 * WEEK_NS)
    ('every 8s', 'every day', 'every 1 h 30 min', 'every 14 d')
    """
    return f"every {_WORDS.get(period_ns) or format_ns(period_ns)}"


class Wording:
    """How the times of a map are put in words.

    In a recording of hours whose dates are known they are dates, in the zone of the map; otherwise
    they count from the beginning.

    Attributes:
        is_civil: Whether they are dates.
    """

    def __init__(self, found: OffsetMap) -> None:
        recorded = found.recorded
        length_ns = recorded[-1][1] - recorded[0][0] if recorded else 0
        self._found = found
        self._utc_ns = found.utc_at_zero_ns or 0
        self.is_civil: bool = found.utc_at_zero_ns is not None and length_ns >= HOUR_NS

    def moment(self, time_ns: int) -> str:
        """Return a time, as the end of a sentence."""
        if not self.is_civil:
            return f"from {format_exact(time_ns - self._found.begin_ns)}"
        return f"on {self._weekday(time_ns)} {self._date(time_ns)} at {self._clock(time_ns)}"

    def columns(self, span_ns: Range) -> str:
        """Return offsets within each column."""
        fold = self._found.fold
        begin, end = fold.origin_ns + span_ns[0], fold.origin_ns + span_ns[1]
        if self._is_whole(DAY_NS):
            return f"every day, {self._clock_range(begin, end)}"
        if self._is_whole(WEEK_NS):
            return f"every {self._week_range(begin, end)}"
        return f"from {format_ns(span_ns[0])} to {format_ns(span_ns[1])}"

    @property
    def noun(self) -> str:
        """What the columns are."""
        return (
            "days" if self._is_whole(DAY_NS) else "weeks" if self._is_whole(WEEK_NS) else "columns"
        )

    def offset(self, offset_ns: int) -> str | None:
        """Return the time of the day or the week at an offset; None if columns are neither."""
        if self._is_whole(DAY_NS):
            return (
                "24:00"
                if offset_ns == DAY_NS
                else self._clock(self._found.fold.origin_ns + offset_ns)
            )
        if self._is_whole(WEEK_NS):
            day, rest_ns = divmod(offset_ns, DAY_NS)
            clock = (
                f" {rest_ns // HOUR_NS:02}:{rest_ns % HOUR_NS // MINUTE_NS:02}" if rest_ns else ""
            )
            return f"{_WEEKDAYS[day % 7][:3]}{clock}"
        return None

    def recurring(self, period_ns: int, begin_ns: int, end_ns: int | None = None) -> str:
        """Return when something happens that has a period, and once happened then."""
        if not self.is_civil or period_ns not in {DAY_NS, WEEK_NS}:
            return every(period_ns)
        when = "every day" if period_ns == DAY_NS else f"every {self._weekday(begin_ns)}"
        if end_ns is None:
            return f"{when} at {self._clock(begin_ns)}"
        if period_ns == WEEK_NS:
            return f"every {self._week_range(begin_ns, end_ns)}"
        return f"{when}, {self._clock_range(begin_ns, end_ns)}"

    def local_ns(self, time_ns: int) -> int:
        """Return a time in nanoseconds since a Monday, by the clock."""
        return time_ns + self._utc_ns - _MONDAY_NS

    def _is_whole(self, period_ns: int) -> bool:
        fold = self._found.fold
        return (
            self.is_civil
            and fold.period_ns == period_ns
            and self.local_ns(fold.origin_ns) % period_ns == 0
        )

    def _week_range(self, begin_ns: int, end_ns: int) -> str:
        first, last = self._weekday(begin_ns), self._weekday(end_ns - 1)
        if first == last:
            return f"{first}, {self._clock_range(begin_ns, end_ns)}"
        return f"{first}, {self._clock(begin_ns)}, to {last}, {self._end_clock(end_ns)}"

    def _clock_range(self, begin_ns: int, end_ns: int) -> str:
        return f"{self._clock(begin_ns)} to {self._end_clock(end_ns)}"

    def _weekday(self, time_ns: int) -> str:
        return _WEEKDAYS[self.local_ns(time_ns) // DAY_NS % 7]

    def _date(self, time_ns: int) -> str:
        return format_utc(self._rounded(time_ns) + self._utc_ns)[:10]

    def _clock(self, time_ns: int) -> str:
        text = format_utc(self._rounded(time_ns) + self._utc_ns)[11:19]
        return text[:5] if text.endswith(":00") else text

    def _end_clock(self, time_ns: int) -> str:
        text = self._clock(time_ns)
        return "24:00" if text == "00:00" else text

    @staticmethod
    def _rounded(time_ns: int) -> int:
        return (time_ns + NS_PER_S // 2) // NS_PER_S * NS_PER_S
