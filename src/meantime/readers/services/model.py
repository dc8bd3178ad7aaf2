"""A span as services record it, whatever the format: what the readers of these formats make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from meantime.model.service_spans import NO_ID
from meantime.model.units import MAX_NS

__all__ = [
    "MALFORMED",
    "NO_ID",
    "Record",
    "Resource",
    "ServiceSpan",
    "end_after",
    "hexadecimal",
    "reason",
    "time_of",
]

# What reading a value of another type than the format says raises.
MALFORMED = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)


class Resource(NamedTuple):
    """What recorded a span.

    Attributes:
        service: Its name; empty if unknown.
        namespace: The namespace of the name; empty for none.
        instance: Which of the processes of the service it is; empty if unknown.
    """

    service: str
    namespace: str = ""
    instance: str = ""


class Record(NamedTuple):
    """Something that happened during a span: an event, an annotation, a line of a log.

    Attributes:
        time_ns: When, since 1970; None if unknown.
        name: What.
        fields: All else that is known of it.
    """

    time_ns: int | None
    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class ServiceSpan:
    """An operation of a service.

    Attributes:
        resource: What recorded it.
        trace_id: The request that it belongs to, in hexadecimal digits.
        span_id: Its own id within the trace, in hexadecimal digits.
        parent_id: The id of the span that caused it; `NO_ID` for none.
        name: What it is called.
        category: What recorded it within the service, such as a library; empty if unknown.
        kind: `server`, `client`, `producer`, `consumer` or `internal`; empty if unknown.
        start_ns: When it began, since 1970; None if unknown.
        end_ns: When it ended; None if unknown.
        is_error: Whether it failed.
        thread: The thread that it ran on; empty if unknown.
        fields: All else that is known of it.
        records: What happened during it.
        links: The trace ids and span ids of other spans that caused it.
        shares_id: Whether it is the server's side of a call whose client's side has the same id.
    """

    resource: Resource
    trace_id: str
    span_id: str
    parent_id: str = NO_ID
    name: str = ""
    category: str = ""
    kind: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    is_error: bool = False
    thread: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    shares_id: bool = False


def time_of(value: object, unit_ns: int = 1) -> int | None:
    """Return a time in nanoseconds since 1970; None if there is none, as 0 means too.

    >>> time_of("1700000000000000000"), time_of(1700000000000000, 1000), time_of(0)
    (1700000000000000000, 1700000000000000000, None)

    Args:
        value: An integer, or its digits.
        unit_ns: How many nanoseconds one of it is.
    """
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    time_ns = value * unit_ns
    return time_ns if 0 < time_ns < MAX_NS else None


def end_after(start_ns: int | None, duration_us: object) -> int | None:
    """Return when a span ends that lasts so many microseconds; None if one of both is unknown.

    Raises:
        TypeError: If the duration is neither an integer nor None.
    """
    if isinstance(duration_us, bool) or not isinstance(duration_us, (int, type(None))):
        raise TypeError("its duration is not an integer")
    return None if start_ns is None or duration_us is None else start_ns + duration_us * 1000


def hexadecimal(value: object) -> str:
    """Return an id in lower case; `NO_ID` for none, as zeros are too.

    >>> hexadecimal("5B8EFFF798038103"), hexadecimal("0000000000000000")
    ('5b8efff798038103', '')

    Raises:
        TypeError: If it is not text.
    """
    if not isinstance(value, str):
        raise TypeError("an id is not text")
    return value.lower() if value.strip("0") else NO_ID


def reason(error: Exception) -> str:
    """Return what is wrong with a record, by one of the errors `MALFORMED`.

    >>> reason(KeyError("traceID"))
    "it has no 'traceID'"
    """
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
