"""The facts of a process: definitions of its numbers, and other rare records."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from meantime.kernels.record_kinds import KINDS
from meantime.model.stacks import short_path
from meantime.readers.recording.layout import MAX_TIME_NS, SLOT_BYTES, is_clock_time
from meantime.readers.recording.locations import CodeLocation
from meantime.readers.recording.merge import Oddities, merged
from meantime.readers.recording.streams import facts_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.anomalies import Anomalies
    from meantime.readers.recording.listing import Process
    from meantime.readers.recording.pieces import Piece

__all__ = ["Closed", "Facts", "Loss", "add_facts", "read_facts"]

_LOCATION, _FRAME, _STACK = KINDS["LOCATION"], KINDS["FRAME"], KINDS["STACK"]
_POOL = KINDS["POOL"]
_ROTATED, _CLOSED, _SAMPLER = KINDS["ROTATED"], KINDS["CLOSED"], KINDS["SAMPLER"]
_BLOCKED_STACK, _UNRECOGNISED = KINDS["BLOCKED_STACK"], KINDS["UNRECOGNISED"]
_UNWATCHED = KINDS["UNWATCHED"]
# the numbers of long steps' stacks, among those of locations
_STACK_BIT = 1 << 31
_LOSS = struct.Struct("<3Q")
_END_BYTES, _MAX_END_BYTES = 40, 72
_MAX_DIGITS = 9
_MAX_UNRECOGNISED = 100
_MAX_PERIOD_NS = 10**10
_ROTATION = struct.Struct("<5Q")
_STACK_ROW = struct.Struct("<2I")
_PERIOD = struct.Struct("<Q")


class Loss(NamedTuple):
    """Lost events of a stream.

    Attributes:
        events: Their number.
        from_ns: The time of the first, as in the stream's records.
        until_ns: The time of the last.
    """

    events: int
    from_ns: int
    until_ns: int

    @classmethod
    def parse(cls, data: bytes, time_ns: int) -> Loss | None:
        """Return the loss in a record of that time; None if it has too few bytes."""
        if len(data) < _LOSS.size:
            return None
        events, from_ns, until_ns = _LOSS.unpack_from(data)
        # a loss precedes its record: a later end is damaged
        until_ns = min(until_ns, time_ns)
        return cls(min(events, MAX_TIME_NS), min(from_ns, until_ns), until_ns)


class Closed(NamedTuple):
    """The counters of a process at the end of its recording.

    Attributes:
        lost: Events of its streams that were lost.
        unwritten: Events of threads without a stream.
        from_ns: CLOCK_MONOTONIC of the first of those.
        until_ns: CLOCK_MONOTONIC of the last.
        slots: Slots in all its segments.
    """

    lost: int
    unwritten: int
    from_ns: int
    until_ns: int
    slots: int


@dataclass(slots=True)
class Facts:
    """The content of a process's file of facts.

    Attributes:
        base_ns: The CLOCK_MONOTONIC time that is time 0 of the process.
        realtime_ns: UTC at that time.
        parent: Process id and incarnation of the process it was forked from, or (0, 0).
        locations: By number.
        rotated: The slots, begin and end of each segment that rotation deleted.
        frames: The names of the sampler's frames, by number.
        stacks: The sampler's stacks (parent, frame), by number.
        pools: The number of threads, 0 if unknown, and the name of thread pools, by number.
        unrecognised: Sentences about what is not recorded of libraries whose version is not known.
        unwatched: Why the waits of threads are not recorded; empty if they are, or it has one only.
        is_unwatched_by_choice: Whether they would be with other options.
        period_ns: The time between two samples; 0 if there are none.
        closed: Its counters at the end; None if it was killed.
        truncated: The number of its records that are cut off.
    """

    base_ns: int
    realtime_ns: int | None
    parent: tuple[int, int]
    locations: dict[int, CodeLocation] = field(default_factory=dict)
    rotated: list[tuple[int, int, int]] = field(default_factory=list)
    frames: dict[int, str] = field(default_factory=dict)
    stacks: dict[int, tuple[int, int]] = field(default_factory=dict)
    pools: dict[int, tuple[int, str]] = field(default_factory=dict)
    unrecognised: set[str] = field(default_factory=set)
    unwatched: str = ""
    is_unwatched_by_choice: bool = False
    period_ns: int = 0
    closed: Closed | None = None
    truncated: int = 0

    def stack(self, number: int) -> CodeLocation | None:
        """Return the location of a long step's stack; None if it is not defined."""
        return self.locations.get(number | _STACK_BIT)

    def add(self, kind: int, ident: int, data: bytes) -> None:
        """Add a record; those of other kinds, and of too few bytes, are ignored."""
        if kind == _LOCATION:
            self.locations[ident] = CodeLocation.parse(_text(data))
        elif kind == _BLOCKED_STACK:
            self.locations[ident | _STACK_BIT] = CodeLocation.parse_stack(_text(data))
        elif kind == _FRAME:
            self.frames[ident] = _frame_name(data)
        elif kind == _STACK and len(data) >= _STACK_ROW.size:
            self.stacks[ident] = _STACK_ROW.unpack_from(data)
        elif kind == _POOL:
            threads, _, name = _text(data).partition("\0")
            has_number = threads.isdecimal() and len(threads) <= _MAX_DIGITS
            self.pools[ident] = int(threads) if has_number else 0, name
        elif kind in {_UNRECOGNISED, _UNWATCHED}:
            self._add_missing(kind, ident, _text(data))
        elif kind == _ROTATED and len(data) >= _ROTATION.size:
            slots, from_ns, until_ns = _ROTATION.unpack_from(data)[2:]
            until_ns = min(until_ns, MAX_TIME_NS)
            self.rotated.append((min(slots, MAX_TIME_NS), min(from_ns, until_ns), until_ns))
        elif kind == _SAMPLER and len(data) >= _PERIOD.size:
            (period_ns,) = _PERIOD.unpack_from(data)
            self.period_ns = period_ns if period_ns <= _MAX_PERIOD_NS else 0
        elif kind == _CLOSED and len(data) >= _END_BYTES:
            # older recorders wrote fewer counters: the missing ones are 0
            numbers = struct.unpack("<9Q", data[:_MAX_END_BYTES].ljust(_MAX_END_BYTES, b"\0"))
            lost, _, _, unwritten, _, from_ns, until_ns, slots, _ = numbers
            self.closed = Closed(lost - min(unwritten, lost), unwritten, from_ns, until_ns, slots)

    def _add_missing(self, kind: int, ident: int, text: str) -> None:
        if kind == _UNWATCHED:
            self.unwatched = text
            self.is_unwatched_by_choice = ident == 1
        elif len(self.unrecognised) < _MAX_UNRECOGNISED:
            self.unrecognised.add(_unrecognised(text))


def read_facts(process: Process, anomalies: Anomalies) -> Facts | None:
    """Return a process's facts; None if it was killed before it wrote a file."""
    if process.base_ns is None:
        return None
    if (found := facts_words(process, anomalies)) is None:
        return Facts(process.base_ns, None, (0, 0))
    header, pieces = found
    realtime_ns = header.realtime_ns if is_clock_time(header.realtime_ns) else None
    facts = Facts(process.base_ns, realtime_ns, header.parent)
    add_facts(facts, pieces)
    if process.facts_path is not None and process.facts_path.stat().st_size % SLOT_BYTES:
        facts.truncated = 1
    return facts


def add_facts(facts: Facts, pieces: Sequence[Piece]) -> None:
    """Add the records in pieces of a file of facts."""
    for item in merged([(pieces, 0)]):
        if isinstance(item, Oddities):
            facts.truncated += item.truncated
            continue
        for payload in item.payloads():
            facts.add(payload.kind, payload.ident, payload.data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _unrecognised(text: str) -> str:
    library, version, what, *_ = [*text.split("\0"), "", ""]
    name = f"{library} {version}" if version else library
    return f"{what or 'parts'} of {name} are not recorded: this version is not recognised"


def _frame_name(data: bytes) -> str:
    """Return a frame as `function (app.py:12)`, by the line on which the function begins.

    Of a library, the path from where it is installed shows that it is not the program's own.
    """
    line, name, file, *_ = [*_text(data).split("\0"), "", "", ""]
    return f"{name} ({short_path(file)}:{line})" if file else name
