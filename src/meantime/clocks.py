"""Which clock a trace's times count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Clock", "with_utc"]

# The years 2000 and 2100, in nanoseconds since 1970.
_FIRST_UTC_NS, _LAST_UTC_NS = 946_684_800_000_000_000, 4_102_444_800_000_000_000

Kind = Literal["realtime", "monotonic", "boottime", "unknown"]


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock that a history's times count.

    Attributes:
        kind: The kernel's name for the clock, in lower case.
        host: The machine, if known.
        boot_id: The boot of that machine, if known.
        utc_at_origin_ns: UTC nanoseconds since 1970 at the history's time 0, if known.
        anchors: Pairs (time_ns, utc_ns) read together while recording, in order of time.
    """

    kind: Kind = "unknown"
    host: str | None = None
    boot_id: str | None = None
    utc_at_origin_ns: int | None = None
    anchors: tuple[tuple[int, int], ...] = ()


def with_utc(clock: Clock, first_ns: int) -> Clock:
    """Return the clock of a trace that begins at this time.

    A clock of which nothing is known counts UTC if that is a time between 2000 and 2100 since 1970:
    no machine was up for so long.

    >>> with_utc(Clock(), 1_700_000_000_000_000_000).utc_at_origin_ns
    0
    """
    unknown = clock.kind == "unknown" and clock.utc_at_origin_ns is None
    if unknown and _FIRST_UTC_NS <= first_ns < _LAST_UTC_NS:
        return replace(clock, kind="realtime", utc_at_origin_ns=0)
    return clock
