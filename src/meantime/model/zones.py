"""Time zones: the one place where UTC becomes a local time, and a local time UTC.

Times are nanoseconds since 1970. A local time counts as if its date were one of UTC, so 86,400 s
are a day of the calendar also where the day has 23 or 25 hours. Python's `zoneinfo` has the rules.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.errors import UsageError
from meantime.model.units import NS_PER_S, format_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray

__all__ = ["Calendar", "Offsets", "Zone"]

_HOUR_NS = 3600 * NS_PER_S
_DAY_NS = 24 * _HOUR_NS
# No zone changes its offset twice within a quarter of a day. Of centuries, days are looked at.
_STEP_NS, _LONG_STEP_NS = 6 * _HOUR_NS, _DAY_NS
_LONG_NS = 30 * 366 * _DAY_NS
# The years that dates of Python have.
_FIRST_NS, _LAST_NS = -(2**63), 2**63 - 1
_MARGIN_NS = 2 * _DAY_NS
_NEAREST = 3


class Piece(NamedTuple):
    """A part [start_ns, end_ns) of a range of UTC, in which a zone is `offset_ns` ahead of UTC."""

    start_ns: int
    end_ns: int
    offset_ns: int


class Offsets:
    """How far a zone is ahead of UTC in a range, which has every time that is asked for.

    What is called UTC may also be times that are always as far from UTC, as those of a trace are.

    >>> day = 86_400 * 10**9
    >>> berlin = Zone("Europe/Berlin").offsets(20_384 * day, 20_390 * day)  # 2025-10-23 to 29
    >>> [(format_utc(start), offset // 10**9) for start, _, offset in berlin.pieces]
    [('2025-10-21T00:00:00.000000000Z', 7200), ('2025-10-26T01:00:00.000000000Z', 3600)]
    >>> [[format_utc(edge)[11:19] for edge in each] for each in berlin.repeated]
    [['02:00:00', '03:00:00']]

    Attributes:
        zone: The zone.
        pieces: The parts of the range, in order.
    """

    def __init__(self, zone: Zone, pieces: Iterable[Piece]) -> None:
        self.zone = zone
        self.pieces: tuple[Piece, ...] = tuple(pieces)

    @cached_property
    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts, _, offsets = (
            np.array(column, np.int64) for column in zip(*self.pieces, strict=True)
        )
        return starts, offsets

    def local(self, utc_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the local time of each time of UTC."""
        starts, offsets = self._columns
        at = np.maximum(np.searchsorted(starts, utc_ns, side="right") - 1, 0)
        found: NDArray[np.int64] = utc_ns + offsets[at]
        return found

    def parts(self, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """Return the local times of a range of UTC, as one range for each offset."""
        return [
            (
                max(start_ns, piece.start_ns) + piece.offset_ns,
                min(end_ns, piece.end_ns) + piece.offset_ns,
            )
            for piece in self.pieces
            if piece.start_ns < end_ns and start_ns < piece.end_ns
        ]

    def utc(self, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """Return the ranges of UTC whose local times are in a range.

        There are two of a range that occurs twice, and none of one that does not occur.
        """
        found: list[tuple[int, int]] = []
        for piece in self.pieces:
            first = max(start_ns - piece.offset_ns, piece.start_ns)
            last = min(end_ns - piece.offset_ns, piece.end_ns)
            if first >= last:
                continue
            if found and found[-1][1] == first:
                first = found.pop()[0]
            found.append((first, last))
        return found

    def document(self) -> dict[str, object]:
        """Return the zone and the pieces for a page; times are texts."""
        return {"name": self.zone.name, "pieces": [list(map(str, piece)) for piece in self.pieces]}

    @property
    def repeated(self) -> list[tuple[int, int]]:
        """The ranges of local time that occur twice."""
        return [
            (later.start_ns + later.offset_ns, earlier.end_ns + earlier.offset_ns)
            for earlier, later in self._neighbours
            if later.offset_ns < earlier.offset_ns
        ]

    @property
    def skipped(self) -> list[tuple[int, int]]:
        """The ranges of local time that do not occur."""
        return [
            (earlier.end_ns + earlier.offset_ns, later.start_ns + later.offset_ns)
            for earlier, later in self._neighbours
            if later.offset_ns > earlier.offset_ns
        ]

    @property
    def _neighbours(self) -> Iterator[tuple[Piece, Piece]]:
        return zip(self.pieces, self.pieces[1:], strict=False)


class Calendar(NamedTuple):
    """The local times of a trace: a zone, and UTC at the trace's time 0.

    Attributes:
        zone: The zone.
        utc_at_zero_ns: UTC at time 0, in nanoseconds since 1970.
    """

    zone: Zone
    utc_at_zero_ns: int

    def offsets(self, start_ns: int, end_ns: int) -> Offsets:
        """Return by how much the trace's own times are moved to be local, in a range of them."""
        zero_ns = self.utc_at_zero_ns
        found = self.zone.offsets(start_ns + zero_ns, end_ns + zero_ns)
        pieces = (
            Piece(start - zero_ns, end - zero_ns, offset) for start, end, offset in found.pieces
        )
        return Offsets(self.zone, pieces)

    def local(self, time_ns: int) -> int:
        """Return one of the trace's own times as a local one."""
        return time_ns + self.zone.offset_ns(time_ns + self.utc_at_zero_ns)


class Zone:
    """A time zone by its name in the database of IANA, such as `Europe/Berlin`.

    Raises:
        UsageError: If no zone has this name.
    """

    def __init__(self, name: str) -> None:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - few commands name a zone

        try:
            self._info: ZoneInfo = ZoneInfo(name)
        except (KeyError, OSError, ValueError):
            raise UsageError(f"unknown time zone {name!r}; {_hint(name)}") from None
        self.name = name

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zone) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type[Zone], tuple[str]]:
        return Zone, (self.name,)

    @lru_cache(maxsize=64)  # noqa: B019 - there are a few zones
    def offsets(self, start_ns: int, end_ns: int) -> Offsets:
        """Return the offsets of a range of UTC and of two days around it."""
        start_ns = max(_FIRST_NS, start_ns - _MARGIN_NS)
        end_ns = min(_LAST_NS, end_ns + _MARGIN_NS)
        step_ns = _STEP_NS if end_ns - start_ns <= _LONG_NS else _LONG_STEP_NS
        changes = [(start_ns, self.offset_ns(start_ns))]
        for time_ns in (*range(start_ns + step_ns, end_ns, step_ns), end_ns):
            offset_ns = self.offset_ns(time_ns)
            if offset_ns != changes[-1][1]:
                changes.append((self._change_ns(time_ns - step_ns, time_ns), offset_ns))
        ends = [*(start for start, _ in changes[1:]), end_ns]
        pieces = (
            Piece(start, end, offset) for (start, offset), end in zip(changes, ends, strict=True)
        )
        return Offsets(self, pieces)

    def _change_ns(self, before_ns: int, after_ns: int) -> int:
        """Return the second between two times at which the zone changes its offset."""
        low, high = before_ns // NS_PER_S, -(-after_ns // NS_PER_S)
        offset_ns = self.offset_ns(low * NS_PER_S)
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset_ns(middle * NS_PER_S) == offset_ns:
                low = middle
            else:
                high = middle
        return high * NS_PER_S

    def offset_ns(self, utc_ns: int) -> int:
        """Return how far the zone is ahead of UTC at a time of UTC."""
        return _whole_ns(self._at(utc_ns // NS_PER_S).utcoffset())

    def _at(self, utc_s: int) -> datetime:
        from datetime import UTC, datetime, timedelta  # noqa: PLC0415 - as above

        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=utc_s)).astimezone(self._info)

    def to_utc(self, local_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return local times, in the order in which they were written, as UTC.

        A time that occurs twice is the first one, unless an earlier row of the column is a later
        local time: then the clock was set back between the two. A time that does not occur is as
        long after the change as it seems to be.
        """
        if len(local_ns) <= 1:
            return np.array([self.one_to_utc(each) for each in local_ns.tolist()], np.int64)
        offsets = self.offsets(int(local_ns.min()), int(local_ns.max()))
        starts = np.array([piece.start_ns + piece.offset_ns for piece in offsets.pieces], np.int64)
        ends = np.array([piece.end_ns + piece.offset_ns for piece in offsets.pieces], np.int64)
        ahead = np.array([piece.offset_ns for piece in offsets.pieces], np.int64)
        # the first piece that ends later; of a time that is skipped, the piece before
        at = np.minimum(np.searchsorted(ends, local_ns, side="right"), len(ends) - 1)
        at = np.where((local_ns < starts[at]) & (at > 0), at - 1, at)
        for first_ns, last_ns in offsets.repeated:
            rows = np.flatnonzero((local_ns >= first_ns) & (local_ns < last_ns))
            at[rows[_set_back(local_ns, rows, last_ns - first_ns)]] += 1
        return local_ns - ahead[at]

    def one_to_utc(self, local_ns: int) -> int:
        """Return a local time as UTC; of two, the first."""
        from datetime import datetime, timedelta  # noqa: PLC0415 - as above

        local = datetime(1970, 1, 1) + timedelta(seconds=local_ns // NS_PER_S)  # noqa: DTZ001 - it is local time
        return local_ns - _whole_ns(local.replace(tzinfo=self._info).utcoffset())

    def text(self, utc_ns: int) -> str:
        """Return a time as ISO 8601 with nine digits, in this zone.

        >>> Zone("Europe/Berlin").text(1_760_000_000_000_000_001)
        '2025-10-09T10:53:20.000000001+02:00'
        """
        try:
            offset_ns = self.offset_ns(utc_ns)
        except OverflowError:
            return format_utc(utc_ns)
        sign, size_s = "-" if offset_ns < 0 else "+", abs(offset_ns) // NS_PER_S
        hours, rest = divmod(size_s, 3600)
        minutes, seconds = divmod(rest, 60)
        exact = f":{seconds:02}" if seconds else ""
        return f"{format_utc(utc_ns + offset_ns)[:-1]}{sign}{hours:02}:{minutes:02}{exact}"


def _whole_ns(offset: timedelta | None) -> int:
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * NS_PER_S


def _set_back(
    local_ns: NDArray[np.int64], rows: NDArray[np.int64], repeated_ns: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which of the rows of one repeated range are its second occurrence.

    They are those after the clock was set back: by more than half of the range, or by anything if
    the column is in order apart from that.
    """
    times = local_ns[rows]
    back = np.maximum.accumulate(times) - times
    steps = np.diff(local_ns)
    inside = np.isin(np.arange(len(steps)), rows)
    is_ordered = not (steps[~inside] < 0).any()
    found = np.flatnonzero(back > (0 if is_ordered else repeated_ns // 2))
    second = np.zeros(len(rows), np.bool_)
    if len(found):
        second[found[0] :] = True
    return second


def _hint(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only
    from zoneinfo import available_timezones  # noqa: PLC0415 - as above

    known = available_timezones()
    if not known:
        return "this machine has no database of time zones: python -m pip install tzdata"
    # a city without its continent is enough to find it
    by_city = {each.rpartition("/")[2].lower(): each for each in sorted(known)}
    city = name.rpartition("/")[2].lower().replace(" ", "_")
    near = [by_city[each] for each in get_close_matches(city, by_city, _NEAREST, 0.7)]
    return f"did you mean {' or '.join(near)}?" if near else "write a name such as Europe/Berlin"
