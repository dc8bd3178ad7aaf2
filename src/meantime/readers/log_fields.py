"""Which fields of a log of JSON lines have the time and the name of an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.kernels.csv_rows import TimeKind
from meantime.model.column_mapping import halves
from meantime.readers.table.number_units import Unit, date_or_uptime, has_numbers
from meantime.readers.table.records import nested
from meantime.readers.table.times import DURATION, MISSING, date_unit, resolve, times_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meantime.model.column_mapping import ColumnMapping

__all__ = ["LogFields", "is_event", "log_fields", "time_ns_of", "value_of"]

# As structlog, python-json-logger, logstash, pino, zap, Bunyan and Docker write them.
_TIMES = (
    "timestamp",
    "@timestamp",
    "ts",
    "time",
    "datetime",
    "asctime",
    "created",
    "date+time",
    "date",
    "t",
)
_NAMES = ("event", "message", "msg", "log", "name")


class LogFields(NamedTuple):
    """The fields of an event.

    Attributes:
        time: The field with its time; empty for `time_ns` or `ts` in whole nanoseconds.
        name: The field with its name.
        unit: The unit of times that are numbers; None if it is not known.
        zone: The time zone of dates without one.
        is_guess: Whether that was guessed.
        is_number: Whether the first time is a number.
        decided: What its unit rests on, or what is not known.
        is_naive: Whether the first time is a date without a zone.
    """

    time: str = ""
    name: str = "name"
    unit: str | None = "ns"
    zone: str = ""
    is_guess: bool = False
    is_number: bool = False
    decided: Unit = Unit("ns", "")
    is_naive: bool = False


def is_event(members: Mapping[str, Any]) -> bool:
    """Return whether an object of a log has a time and a name."""
    return log_fields(members, None) is not None


def log_fields(members: Mapping[str, Any], given: ColumnMapping | None) -> LogFields | None:
    """Return which fields of the first object are its time and its name; None if it has none.

    Of several times the most precise one counts, of those the first in the order of `_TIMES`.
    """
    time = None if given is None else given.column("time")
    name = None if given is None or given.pairs else given.column("name")
    if (time, name) == (None, None) and _is_own(members):
        return LogFields()
    if time is None:
        known = [key for key in _TIMES if value_of(members, key) is not None]
        found = [(-_digits(value_of(members, key)), at, key) for at, key in enumerate(known)]
        found = [each for each in found if each[0] < 0]
        if not found:
            return None
        time = min(found)[2]
    if name is None:
        name = next((key for key in _NAMES if isinstance(members.get(key), str)), None)
        if name is None:
            return None
    column = times_of([value_of(members, time)])
    unit = given.units.get("time") if given is not None else None
    decided = Unit(unit, "")
    if unit is None:
        decided = date_or_uptime([column], [time]) if has_numbers(column) else Unit("s", "")
        unit = decided.unit
    zone = "" if given is None else given.zone
    is_guess = given is None or not {"time", "name"} <= given.columns.keys()
    is_number = type(members.get(time)) in {int, float}
    is_naive = int(column.kinds[0]) == TimeKind.NAIVE
    return LogFields(time, name, unit, zone, is_guess, is_number, decided, is_naive)


def value_of(members: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field, or of two that have a date and a time; None if there is none.

    >>> value_of({"date": "2026-01-01", "time": "10:00"}, "date+time")
    '2026-01-01 10:00'
    """
    pair = halves(name, members)
    if pair is None:
        return nested(dict(members), name)
    values = [members[half] for half in pair]
    return " ".join(values) if all(isinstance(value, str) for value in values) else None


def _is_own(members: Mapping[str, Any]) -> bool:
    """Whether there are a name, and `time_ns` or a `ts` of whole nanoseconds."""
    if not isinstance(members.get("name"), str) or "time_ns" in members:
        return isinstance(members.get("name"), str)
    value = members.get("ts")
    whole = type(value) is int or (isinstance(value, str) and value.lstrip("-").isdecimal())
    return whole and not any(key in members for key in _NAMES[:-1])


def _digits(value: object) -> int:
    """Return how many digits of a second a time has, and one more; 0 if it is not a time."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return 0
    column = times_of([value])
    kind = int(column.kinds[0])
    if kind in {int(TimeKind.ODD), MISSING, DURATION}:
        return 0
    if kind == TimeKind.INTEGER:
        return 1 + {None: 0, "s": 0, "ms": 3, "us": 6, "ns": 9}[date_unit([column])]
    if kind in {TimeKind.ZONED, TimeKind.NAIVE}:
        _, _, fraction = str(value).replace(",", ".").partition(".")
        return 1 + len(fraction) - len(fraction.lstrip("0123456789"))
    # a float of seconds since 1970 has 6 exact digits
    return 7


def time_ns_of(value: object, fields: LogFields) -> int | None:
    """Return the time of an event in nanoseconds; None if it is none."""
    if isinstance(value, bool):
        return None
    assert fields.unit is not None
    [found] = resolve([times_of([value])], [fields.unit], fields.zone)
    return None if found.bad[0] or found.missing[0] else int(found.time_ns[0])
