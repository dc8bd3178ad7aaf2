"""Which clock a trace's times count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "MOST_DRIFT_PPT",
    "UTC",
    "Clock",
    "ClockShift",
    "drift_text",
    "naive_dates",
    "with_utc",
]

# No clock of a computer gains or loses more than a thousandth, in parts per 10^12.
MOST_DRIFT_PPT = 10**9

_PPT = 10**12
_SECOND_NS = 10**9

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


# That of traces whose format promises dates: their times are those since 1970.
UTC: Final = Clock("realtime", utc_at_origin_ns=0)


class ClockShift(NamedTuple):
    """How times of one clock become times of another, exactly and in order.

    >>> shift = ClockShift(offset_ns=500, drift_ppt=60_000_000, at_ns=0)
    >>> shift.of(10**9), shift.first_at(shift.of(10**9))
    (1000060500, 1000000000)

    Attributes:
        offset_ns: What to add at `at_ns`.
        drift_ppt: What to add for each 10^12 ns since then, at most `MOST_DRIFT_PPT`.
        at_ns: A time of the clock that is converted.
    """

    offset_ns: int
    drift_ppt: int = 0
    at_ns: int = 0

    def of(self, time_ns: int) -> int:
        """Return a time of the other clock."""
        since_ns = time_ns - self.at_ns
        return time_ns + self.offset_ns + since_ns * self.drift_ppt // _PPT

    def of_range(self, range_ns: tuple[int, int]) -> tuple[int, int]:
        """Return a range with times of the other clock; one that is not empty stays so."""
        start_ns, end_ns = range_ns
        end_ns = self.of(end_ns - 1) + 1 if end_ns > start_ns else self.of(end_ns)
        return self.of(start_ns), end_ns

    def of_all(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return times of the other clock."""
        since_ns = times_ns - self.at_ns
        # in two parts, as the product has more than 64 bits
        seconds, rest_ns = since_ns // _SECOND_NS, since_ns % _SECOND_NS
        more = (seconds * self.drift_ppt + rest_ns * self.drift_ppt // _SECOND_NS) // 1000
        found: npt.NDArray[np.int64] = times_ns + self.offset_ns + more
        return found

    def first_at(self, time_ns: int) -> int:
        """Return the first time of this clock that becomes one not before a time of the other."""
        since_ns = time_ns - self.offset_ns - self.at_ns
        return self.at_ns - (-since_ns * _PPT // (_PPT + self.drift_ppt))


def drift_text(drift_ppt: int) -> str:
    """Return what a clock that drifts does, from what its times lack.

    >>> drift_text(58_625_066), drift_text(-200_000_000)
    ('loses 58.63 us each second', 'gains 200.00 us each second')
    """
    return f"{'loses' if drift_ppt > 0 else 'gains'} {abs(drift_ppt) / 10**6:.2f} us each second"


def naive_dates(zone: str = "") -> str:
    """Return what a trace says of its times if its dates have no zone: in which they were read.

    >>> naive_dates(), naive_dates("Europe/Oslo")
    ('dates without a zone, read as UTC', 'dates without a zone, read as Europe/Oslo')
    """
    return f"dates without a zone, read as {zone or 'UTC'}"


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
