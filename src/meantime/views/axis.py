"""Time axes: positions and labels of ticks, in integers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from meantime.model.units import NS_PER_S, format_exact, format_utc

if TYPE_CHECKING:
    from meantime.model.zones import Offsets

__all__ = ["Tick", "dated", "exact", "ticks", "wall_ticks"]

_MINUTE_NS = 60 * NS_PER_S
_HOUR_NS = 60 * _MINUTE_NS
_DAY_NS = 24 * _HOUR_NS
_LONG_STEPS_NS = tuple(
    count * unit
    for unit, counts in (
        (NS_PER_S, (15, 30)),
        (_MINUTE_NS, (1, 2, 5, 10, 15, 30)),
        (_HOUR_NS, (1, 2, 3, 6, 12)),
        (_DAY_NS, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)),
    )
    for count in counts
)
_UNITS = ((NS_PER_S, "s"), (10**6, "ms"), (10**3, "μs"), (1, "ns"))
# With more digits than this, labels are distances from a base instead.
_MOST_DIGITS = 7


class Tick(NamedTuple):
    """A position on a time axis and its label; the first may contain the base of the others."""

    time_ns: int
    label: str


def ticks(start_ns: int, end_ns: int, most: int) -> tuple[str, list[Tick]]:
    """Return at most `most` + 1 round ticks in [start_ns, end_ns], and the base of their labels.

    The first result is empty unless the numbers would be too long to read; then the labels are
    distances, such as `+20 ns`, from the time that it names.

    >>> base, marks = ticks(0, 1_600_000_000, 4)
    >>> base, [mark.label for mark in marks]
    ('', ['0.0 s', '0.5 s', '1.0 s', '1.5 s'])
    >>> ticks(1_234_567_890, 1_234_567_899, 2)
    ('1.234567 s', [Tick(time_ns=1234567890, label='+890 ns'),
                    Tick(time_ns=1234567895, label='+895 ns')])
    """
    step = _step_ns(end_ns - start_ns, max(1, most))
    first = -(-start_ns // step) * step
    times = range(first, end_ns + 1, step)
    if step >= _MINUTE_NS:
        return "", [Tick(time, _clock(time, step)) for time in times]
    largest = max(abs(start_ns), abs(end_ns))
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if largest >= scale), _UNITS[-1])
    decimals = _decimals(step, scale)
    if len(str(largest // scale)) + decimals <= _MOST_DIGITS:
        return "", [Tick(time, f"{_decimal(time, scale, decimals)} {unit}") for time in times]
    scale, unit = next((scale, unit) for scale, unit in _UNITS if step >= scale)
    base = start_ns // (1000 * scale) * 1000 * scale
    return exact(base), [Tick(time, f"+{(time - base) // scale} {unit}") for time in times]


def wall_ticks(
    start_ns: int, end_ns: int, most: int, offsets: Offsets | None = None
) -> tuple[str, list[Tick]]:
    """Return at most `most` + 1 round ticks in [start_ns, end_ns], times since 1970, and a date.

    Labels are times of the day, and dates at midnight and if the step is a day or longer. The first
    result is the date of the first one; it is empty if that is its label.

    >>> hour = 3600 * 10**9
    >>> date, marks = wall_ticks(470_000 * hour, 470_002 * hour, 4)
    >>> date, [mark.label for mark in marks]
    ('2023-08-14', ['08:00', '08:30', '09:00', '09:30', '10:00'])

    Args:
        start_ns: Where the axis begins, in UTC.
        end_ns: Where it ends.
        most: How many ticks there may be.
        offsets: What makes local times of these; an hour that occurs twice has ticks of its own.
    """
    step = _step_ns(end_ns - start_ns, max(1, most))
    decimals = _decimals(step, NS_PER_S)
    pieces = [(start_ns, end_ns + 1, 0)] if offsets is None else offsets.pieces
    marks: list[Tick] = []
    dates: list[str] = []
    for piece_start, piece_end, offset_ns in pieces:
        begin = max(start_ns, piece_start) + offset_ns
        for local in range(-(-begin // step) * step, min(end_ns + 1, piece_end) + offset_ns, step):
            date, _, clock = format_utc(local)[:-1].partition("T")
            if not clock:
                return ticks(start_ns, end_ns, most)
            clock = clock[:5] if step >= _MINUTE_NS else clock[: 8 + bool(decimals) + decimals]
            is_date = step >= _DAY_NS or not clock.strip("0:.")
            marks.append(Tick(local - offset_ns, date if is_date else clock))
            dates.append(date)
    return "" if not marks or marks[0].label == dates[0] else dates[0], marks


def dated(date: str, marks: list[Tick]) -> list[Tick]:
    """Return ticks of which the first has the date of its time, too."""
    if not date or not marks:
        return marks
    return [marks[0]._replace(label=f"{date} {marks[0].label}"), *marks[1:]]


def _step_ns(span_ns: int, most: int) -> int:
    for exponent in range(11):
        for digit in (1, 2, 5):
            step: int = digit * 10**exponent
            if step * most >= span_ns and step <= 10 * NS_PER_S:
                return step
    return next((step for step in _LONG_STEPS_NS if step * most >= span_ns), span_ns)


def _decimals(step_ns: int, scale_ns: int) -> int:
    decimals = 0
    while (step_ns * 10**decimals) % scale_ns:
        decimals += 1
    return decimals


def _decimal(time_ns: int, scale_ns: int, decimals: int) -> str:
    sign = "-" if time_ns < 0 else ""
    whole, rest = divmod(abs(time_ns), scale_ns)
    if decimals == 0:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{rest * 10**decimals // scale_ns:0{decimals}}"


def _clock(time_ns: int, step_ns: int) -> str:
    sign = "-" if time_ns < 0 else ""
    days, rest = divmod(abs(time_ns), _DAY_NS)
    hours, rest = divmod(rest, _HOUR_NS)
    minutes = rest // _MINUTE_NS
    parts = [f"{days} d"] if days else []
    if step_ns < _DAY_NS and (hours or (days and minutes)):
        parts.append(f"{hours} h")
    if step_ns < _HOUR_NS and (minutes or not parts):
        parts.append(f"{minutes} min")
    return sign + " ".join(parts or ["0"])


def exact(time_ns: int) -> str:
    """Return a time to the nanosecond: in one unit, from a minute on in as many as it has.

    >>> exact(1_408_123), exact(-2_000_000_000), exact(0), exact(93_603_500_000_000)
    ('1.408123 ms', '-2 s', '0 s', '1 d 2 h 3.5 s')
    """
    if abs(time_ns) >= _MINUTE_NS:
        size = abs(time_ns)
        units = (
            (size // _DAY_NS, "d"),
            (size % _DAY_NS // _HOUR_NS, "h"),
            (size % _HOUR_NS // _MINUTE_NS, "min"),
        )
        parts = [f"{count:,} {unit}" for count, unit in units if count]
        if rest := size % _MINUTE_NS:
            parts.append(f"{_decimal(rest, NS_PER_S, 9).rstrip('0').rstrip('.')} s")
        return ("-" if time_ns < 0 else "") + " ".join(parts)
    text = format_exact(time_ns).replace("us", "μs")
    return re.sub(r"(?=[a-zμ]+$)", " ", text, count=1)
