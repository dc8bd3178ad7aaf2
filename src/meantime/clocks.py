"""Which clock a trace's times count, and how the times of several traces are aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

__all__ = ["Alignment", "Clock", "align", "with_utc"]

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


class Alignment(NamedTuple):
    """How to convert one clock's times to another's: add `offset_ns`.

    Attributes:
        offset_ns: The first clock's time minus the second's.
        how: `utc`, `clock` (one clock of one machine), or `start` (unrelated: not aligned).
    """

    offset_ns: int
    how: Literal["utc", "clock", "start"]


def align(
    reference: Clock, other: Clock, *, reference_start_ns: int = 0, other_start_ns: int = 0
) -> Alignment:
    """Return how to convert times of `other` to times of `reference`.

    Both are converted by UTC if it is known of both. The offset is 0 if they are the same clock of
    the same machine and boot. Otherwise the two starts are aligned, which a view has to point out.

    >>> align(Clock(utc_at_origin_ns=1_000), Clock(utc_at_origin_ns=5_000))
    Alignment(offset_ns=4000, how='utc')
    """
    if reference.utc_at_origin_ns is not None and other.utc_at_origin_ns is not None:
        return Alignment(other.utc_at_origin_ns - reference.utc_at_origin_ns, "utc")
    same = (
        reference.kind == other.kind != "unknown"
        and reference.host is not None
        and (reference.host, reference.boot_id) == (other.host, other.boot_id)
    )
    if same:
        return Alignment(0, "clock")
    return Alignment(reference_start_ns - other_start_ns, "start")
