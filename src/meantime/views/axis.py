"""Time axes: positions and labels of ticks, in integers."""

from __future__ import annotations

from typing import NamedTuple

from meantime.units import NS_PER_S, format_utc

__all__ = ["Tick", "exact", "ticks", "wall_ticks"]

_MINUTE_NS = 60 * NS_PER_S
_HOUR_NS = 60 * _MINUTE_NS
_DAY_NS = 24 * _HOUR_NS
_LONG_STEPS_NS = tuple(
    count * unit
    for unit, counts in (
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


def wall_ticks(start_ns: int, end_ns: int, most: int) -> list[Tick]:
    """Return at most `most` + 1 round ticks in [start_ns, end_ns], times since 1970 in UTC.

    The first label contains the date; so does every label if the step is a day or longer.

    >>> hour = 3600 * 10**9
    >>> [mark.label for mark in wall_ticks(470_000 * hour, 470_002 * hour, 4)]
    ['2023-08-14 08:00', '08:30', '09:00', '09:30', '10:00']
    """
    step = _step_ns(end_ns - start_ns, max(1, most))
    decimals = _decimals(step, NS_PER_S)
    marks = []
    for time in range(-(-start_ns // step) * step, end_ns + 1, step):
        date, _, clock = format_utc(time)[:-1].partition("T")
        if not clock:
            return ticks(start_ns, end_ns, most)[1]
        clock = clock[:5] if step >= _MINUTE_NS else clock[: 8 + bool(decimals) + decimals]
        if step >= _DAY_NS:
            marks.append(Tick(time, date))
        else:
            marks.append(Tick(time, clock if marks else f"{date} {clock}"))
    return marks


def _step_ns(span_ns: int, most: int) -> int:
    for exponent in range(11):
        for digit in (1, 2, 5):
            step: int = digit * 10**exponent
            if step * most >= span_ns and step < _MINUTE_NS:
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
    """Return a time in its largest unit up to seconds, to the nanosecond.

    >>> exact(1_408_123), exact(-2_000_000_000), exact(0)
    ('1.408123 ms', '-2 s', '0 s')
    """
    if time_ns == 0:
        return "0 s"
    scale, unit = next((scale, unit) for scale, unit in _UNITS if abs(time_ns) >= scale)
    digits = len(str(scale)) - 1
    text = _decimal(time_ns, scale, digits) if digits else str(time_ns)
    return f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"
