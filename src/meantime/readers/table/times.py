"""Columns of times: numbers, dates and durations of any form, as nanoseconds.

The kernel reads the forms that files have by the million; `parse` reads all others, one at a time.
A number is in the unit that its column is given, or in that which makes it a date between 1990 and
2100. Smaller and larger numbers may be of any unit.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.kernels.csv_rows import MISSING, TimeKind, parse_times
from meantime.model.clocks import naive_dates
from meantime.model.column_mapping import UNITS_NS
from meantime.model.units import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.zones import Zone

__all__ = [
    "MISSING",
    "Resolved",
    "TimeColumn",
    "date_unit",
    "joined",
    "number_kinds",
    "parse",
    "put_values",
    "resolve",
    "times_of",
]

# A kind that only Python reads: a length of time in nanoseconds.
DURATION: Final = 101

_LIMIT = 2**63 - 1
_NOTHING = frozenset(
    ("", "-", "null", "none", "nan", "nat", "na", "n/a", "unknown", "invalid", "\\n", "<na>")
)
_SCALES = {
    TimeKind.INTEGER: 0,
    TimeKind.DECIMAL_9: 9,
    TimeKind.DECIMAL_6: 6,
    TimeKind.DECIMAL_3: 3,
}
_LONGEST = 64
_DATES = "dates"
_SINCE = "lengths of time since a beginning that is not known"
_FROM_1990_S, _TO_2100_S = 631_152_000, 4_102_444_800
# as web servers write them
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LOGGED = re.compile(
    rf"(\d\d)/({'|'.join(_MONTHS)})/(\d{{4}}):(\d\d:\d\d:\d\d(?:\.\d+)?)(?: ([+-]\d{{4}}))?"
)
_CLOCK = re.compile(
    r"(?:(\d{1,6})(?:-| days?,? ))?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2})"
    # Instruments has a point between milliseconds and microseconds, too
    r"(?:[.,](\d{1,18}|\d{3}(?:\.\d{3}){1,2}))?"
)
_PARTS = re.compile(r"(\d+(?:\.\d+)?) ?(ns|us|µs|\u03bcs|ms|s|min|m|h|d)(?![a-z])")
_PART_NS = UNITS_NS | {"µs": 10**3, "\u03bcs": 10**3, "m": 60 * 10**9, "min": 60 * 10**9}
_PART_NS |= {"h": 3600 * 10**9, "d": 86400 * 10**9}


class TimeColumn(NamedTuple):
    """A column of times as they are written.

    Attributes:
        values: int64: numbers, scaled by their kind, or nanoseconds.
        kinds: uint8, of each: a `TimeKind`, `MISSING` or `DURATION`; `ODD` cannot be read.
    """

    values: Int64s
    kinds: npt.NDArray[np.uint8]


class Resolved(NamedTuple):
    """A column of times in nanoseconds.

    Attributes:
        time_ns: int64; 0 where there is none.
        missing: Which rows have none.
        bad: Which rows have something else, or a time that does not fit into 64 bits.
        unit: What they were read as, for a message.
        number_unit: The unit of its numbers; empty if it has none.
    """

    time_ns: Int64s
    missing: npt.NDArray[np.bool_]
    bad: npt.NDArray[np.bool_]
    unit: str
    number_unit: str = ""


def parse(text: str) -> tuple[int, int]:
    """Return a value and its kind from any text.

    >>> parse("10/Oct/2000:13:55:36 -0700") == parse("2000-10-10T20:55:36Z")
    True

    >>> parse("1-02:00:00") == (93_600_000_000_000, DURATION), parse("Unknown") == (0, MISSING)
    (True, True)
    """
    stripped = text.strip()
    if stripped.lower() in _NOTHING:
        return 0, MISSING
    if len(stripped) > _LONGEST:
        return 0, TimeKind.ODD
    try:
        number = int(stripped)
    except ValueError:
        return _parsed(stripped)
    return (number, TimeKind.INTEGER) if -_LIMIT - 1 <= number <= _LIMIT else (0, TimeKind.ODD)


def _parsed(text: str) -> tuple[int, int]:
    """Return the value and kind of a text that is not an integer."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        pass
    else:
        return _of_decimal(exact)
    if match := _LOGGED.fullmatch(text):
        day, month, year, clock, zone = match.groups()
        text = f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}{zone or ''}"
    if text[:4].isdecimal() and text[4:5] in {"-", "/"}:
        iso = text.replace("/", "-").replace(",", ".").removesuffix(" UTC")
        iso += "Z" if text.endswith(" UTC") else ""
        iso = re.sub(r" (?=[+-]\d\d:?\d\d$)", "", iso)
        try:
            instant = parse_instant(iso)
        except UsageError:
            return 0, TimeKind.ODD
        kind = TimeKind.NAIVE if instant.is_naive else TimeKind.ZONED
        if instant.base == "utc" and -_LIMIT < instant.ns < _LIMIT:
            return instant.ns, kind
        return 0, TimeKind.ODD
    return _duration(text)


def _of_decimal(exact: Decimal) -> tuple[int, int]:
    if exact.is_nan():
        return 0, MISSING
    if exact.is_finite() and exact.adjusted() < 16:
        for kind, scale in list(_SCALES.items())[1:]:
            number = int(exact.scaleb(scale))
            if abs(number) < 9 * 10**18:
                return number, kind
    return 0, TimeKind.ODD


def _duration(text: str) -> tuple[int, int]:
    """Return a length of time: `1-02:03:04`, `2:03.5` or `1h 5m`."""
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds, fraction = match.groups()
        whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)) * 60 + int(seconds)
        value = whole * 10**9 + int((fraction or "0").replace(".", "")[:9].ljust(9, "0"))
        return (value, DURATION) if value < _LIMIT else (0, TimeKind.ODD)
    parts = _PARTS.findall(text)
    if parts and not _PARTS.sub("", text).strip():
        value = int(sum(Decimal(number) * _PART_NS[unit] for number, unit in parts))
        return (value, DURATION) if value < _LIMIT else (0, TimeKind.ODD)
    return 0, TimeKind.ODD


def times_of(values: Iterable[Any]) -> TimeColumn:
    """Return a column of Python values: numbers, texts, None."""
    listed = list(values)
    column = TimeColumn(*parse_times(listed))
    odd = np.flatnonzero(column.kinds == TimeKind.ODD).tolist()
    put_values(column, ((row, listed[row]) for row in odd))
    return column


def put_values(column: TimeColumn, values: Iterable[tuple[int, Any]]) -> None:
    """Put values of any type, by row, into a column in which their rows are `ODD`."""
    numbers, kinds = column
    for row, value in values:
        if value is None:
            kinds[row] = MISSING
        elif isinstance(value, str):
            numbers[row], kinds[row] = parse(value)
        elif isinstance(value, float):
            # the shortest text of a float is what its writer meant
            numbers[row], kinds[row] = _of_decimal(Decimal(repr(value)))


def number_kinds() -> dict[TimeKind, int]:
    """Return the kinds that are numbers, and the decimal digits of each."""
    return _SCALES


def date_unit(columns: Sequence[TimeColumn]) -> str | None:
    """Return the unit in which numbers are dates from 1990 to 2100 if they count from 1970.

    None if there is none.

    >>> date_unit([times_of([1_700_000_000_123])]), date_unit([times_of([12, 90])])
    ('ms', None)
    """
    largest = _largest(columns, lambda numbers: max(int(numbers.max()), -int(numbers.min())))
    # a few numbers may mean that there is no time, such as a date in the year 9999
    return _unit_of_date(largest) or _unit_of_date(
        _largest(columns, lambda numbers: int(np.median(numbers)))
    )


def _unit_of_date(number: int) -> str | None:
    for unit, ns in UNITS_NS.items():
        if _FROM_1990_S * 10**9 <= number * ns < _TO_2100_S * 10**9:
            return unit
    return None


def _largest(columns: Sequence[TimeColumn], of: Callable[[Int64s], int]) -> int:
    """Return the largest of what these numbers are like, as a whole number; 0 if there are none."""
    largest = 0
    for values, kinds in columns:
        only = _only_kind(kinds)
        for kind, scale in _SCALES.items():
            if only is not None and only != kind:
                continue
            rows = values if only == kind else values[kinds == kind]
            if len(rows):
                largest = max(largest, of(rows) // 10**scale)
    return largest


def joined(parts: Sequence[TimeColumn]) -> TimeColumn:
    """Return one column of several parts."""
    if len(parts) == 1:
        return parts[0]
    return TimeColumn(
        np.concatenate([np.empty(0, np.int64), *(part.values for part in parts)]),
        np.concatenate([np.empty(0, np.uint8), *(part.kinds for part in parts)]),
    )


def resolve(
    columns: Sequence[TimeColumn],
    units: Sequence[str],
    zone: str,
    *,
    is_duration: bool = False,
) -> list[Resolved]:
    """Return columns in nanoseconds.

    Args:
        columns: The columns.
        units: The unit of the numbers of each. `ns!` is whole nanoseconds and nothing else.
        zone: The time zone of dates without one.
        is_duration: Whether they are lengths of time.
    """
    return [
        _resolved(column, unit, zone, is_duration=is_duration)
        for column, unit in zip(columns, units, strict=True)
    ]


def _resolved(column: TimeColumn, unit: str, zone: str, *, is_duration: bool) -> Resolved:
    values, kinds = column
    if unit == "ns!":
        bad = kinds != TimeKind.INTEGER
        return Resolved(np.where(bad, 0, values), np.zeros(len(values), np.bool_), bad, "ns", "ns")
    if (found := _of_one_kind(column, unit, zone, is_duration=is_duration)) is not None:
        return found
    missing = kinds == MISSING
    dated = (kinds == TimeKind.ZONED) | (kinds == TimeKind.NAIVE)
    lasting = kinds == DURATION
    bad = (kinds == TimeKind.ODD) | (dated if is_duration else lasting)
    are_lasting = not is_duration and _are_lengths(kinds)
    bad &= not are_lasting
    time_ns = np.where(dated | lasting, values, 0)
    naive = kinds == TimeKind.NAIVE
    if zone and naive.any():
        time_ns[naive] = _zone(zone).to_utc(time_ns[naive])
    unit_ns = UNITS_NS[unit]
    numeric = False
    for kind, scale in _SCALES.items():
        rows = np.flatnonzero(kinds == kind)
        if not len(rows):
            continue
        numeric = True
        numbers = values[rows]
        factor, divisor = max(1, unit_ns // 10**scale), max(1, 10**scale // unit_ns)
        most = _LIMIT // factor
        fits = (numbers >= -most - int(factor == 1)) & (numbers <= most)
        bad[rows] |= ~fits
        time_ns[rows] = np.where(fits, numbers, 0) * factor // divisor
    what = [f"numbers of {unit}"] if numeric else []
    what += [_DATES] if (kinds == TimeKind.ZONED).any() else []
    what += [naive_dates(zone)] if naive.any() else []
    what += [_SINCE] if are_lasting else []
    return Resolved(time_ns, missing, bad, " and ".join(what), unit if numeric else "")


def _are_lengths(kinds: npt.NDArray[np.uint8]) -> bool:
    """Return whether all times are like `00:01.250` or `20 ms`: they count from a beginning."""
    lasting = kinds == DURATION
    return bool(lasting.any() and (lasting | (kinds == MISSING)).all())


def _only_kind(kinds: npt.NDArray[np.uint8]) -> int | None:
    """Return the kind that all times have; None if they have several, or there is none."""
    if not len(kinds):
        return None
    least, most = int(kinds.min()), int(kinds.max())
    return least if least == most else None


def _of_one_kind(column: TimeColumn, unit: str, zone: str, *, is_duration: bool) -> Resolved | None:
    """Return the nanoseconds of a column that has only good times of one kind; None otherwise."""
    values, kinds = column
    kind = _only_kind(kinds)
    none = np.zeros(len(values), np.bool_)
    if kind == TimeKind.ZONED and not is_duration:
        return Resolved(values, none, none, _DATES)
    if kind == TimeKind.NAIVE and not zone and not is_duration:
        return Resolved(values, none, none, naive_dates(zone))
    if kind != TimeKind.INTEGER:
        return None
    unit_ns = UNITS_NS[unit]
    most = _LIMIT // unit_ns
    if int(values.min()) < -most or int(values.max()) > most:
        return None
    return Resolved(values * unit_ns, none, none, f"numbers of {unit}", unit)


@lru_cache
def _zone(name: str) -> Zone:
    from meantime.model.zones import Zone  # noqa: PLC0415 - few tables name a zone

    return Zone(name)
