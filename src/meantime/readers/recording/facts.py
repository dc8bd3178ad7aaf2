"""The facts of a process: what its numbers stand for, and other rare records."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meantime.readers.recording.files import facts_words
from meantime.readers.recording.merge import Oddities, merged
from meantime.readers.recording.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.readers.recording.files import Piece, Process

__all__ = ["Facts", "add_facts", "read_facts"]

_PLACE, _FRAME, _STACK, _ROTATED, _SAMPLER = 131, 132, 133, 135, 137
_ROTATION = struct.Struct("<5Q")
_STACK_ROW = struct.Struct("<2I")
_PERIOD = struct.Struct("<Q")


@dataclass(slots=True)
class Facts:
    """What a process said of itself.

    Attributes:
        base_ns: The CLOCK_MONOTONIC time from which its times count.
        realtime_ns: UTC at that time.
        parent: Process id and incarnation of the process it was forked from, or (0, 0).
        places: By number.
        rotated: Of each segment that was taken away its slots, from when, until when.
        frames: What the sampler's frames are called, by number.
        stacks: The sampler's stacks (parent, frame), by number.
        period_ns: How long it is from sample to sample; 0 if none are taken.
    """

    base_ns: int
    realtime_ns: int
    parent: tuple[int, int]
    places: dict[int, Place] = field(default_factory=dict)
    rotated: list[tuple[int, int, int]] = field(default_factory=list)
    frames: dict[int, str] = field(default_factory=dict)
    stacks: dict[int, tuple[int, int]] = field(default_factory=dict)
    period_ns: int = 0

    def add(self, kind: int, ident: int, data: bytes) -> None:
        """Take a record; those of other kinds, and of too few bytes, say nothing."""
        if kind == _PLACE:
            self.places[ident] = Place.parse(_text(data))
        elif kind == _FRAME:
            self.frames[ident] = _frame_name(data)
        elif kind == _STACK and len(data) >= _STACK_ROW.size:
            self.stacks[ident] = _STACK_ROW.unpack_from(data)
        elif kind == _ROTATED and len(data) >= _ROTATION.size:
            self.rotated.append(_ROTATION.unpack_from(data)[2:])
        elif kind == _SAMPLER and len(data) >= _PERIOD.size:
            (self.period_ns,) = _PERIOD.unpack_from(data)


def read_facts(process: Process) -> Facts | None:
    """Return a process's facts; None if it was killed before its file was begun.

    Raises:
        InputError: If the file is something else, or of another format version.
    """
    if (found := facts_words(process)) is None:
        return None
    header, pieces = found
    facts = Facts(header.base_ns, header.realtime_ns, header.parent)
    add_facts(facts, pieces)
    return facts


def add_facts(facts: Facts, pieces: Sequence[Piece]) -> None:
    """Take the records in pieces of a file of facts."""
    for item in merged([(pieces, 0)]):
        if isinstance(item, Oddities):
            continue
        for payload in item.payloads:
            facts.add(int(item.kind[payload.row]), int(item.ident[payload.row]), payload.data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _frame_name(data: bytes) -> str:
    """Return a frame as `function (app.py:12)`, by the line on which the function begins."""
    line, name, file, *_ = [*_text(data).split("\0"), "", "", ""]
    return f"{name} ({file.rsplit('/', 1)[-1]}:{line})" if file else name
