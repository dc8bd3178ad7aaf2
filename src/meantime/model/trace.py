"""What a reader returns: batches of columns, the tables they refer to, and the metadata."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from meantime.model.attributes import PathTable
from meantime.model.events import Events
from meantime.model.metadata import LaneDeclaration, LaneKind, State, TraceMetadata
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable

__all__ = [
    "ArgumentText",
    "Arguments",
    "Batch",
    "Counters",
    "Events",
    "Flows",
    "LaneDeclaration",
    "LaneKind",
    "Points",
    "Samples",
    "SpanFlag",
    "Spans",
    "State",
    "StateChanges",
    "Trace",
    "rows_of",
]


class _Input(Protocol):
    def close(self) -> None: ...


@struct
class StateChanges:
    """From `time_ns` on, this entity is in this state. Codes index the trace's tables.

    Attributes:
        time_ns: The time, from the trace's origin.
        entity: Index into `Trace.paths`.
        state: Index into `Trace.values`; -1 for none.
        tag: Index into `Trace.tags`; -1 for none.
        magnitude: The numeric value of the change, NaN if it has none; None if no row of the batch
            has one. It becomes the attribute `(*path, "value")`.
    """

    time_ns: Int64s
    entity: Int32s
    state: Int32s
    tag: Int32s
    magnitude: npt.NDArray[np.float64] | None = None


@struct
class Points:
    """Something happened at `time_ns`. Codes index the trace's tables.

    Attributes:
        time_ns: The time, from the trace's origin.
        entity: Index into `Trace.paths`.
        name: Index into `Trace.values`.
        target: Index into `Trace.paths` of the target (the row is a flow then), or -1.
        arguments: Further fields of each row.
    """

    time_ns: Int64s
    entity: Int32s
    name: Int32s
    target: Int32s
    arguments: Arguments | None = None


@struct
class Arguments:
    """The arguments of events, as offsets into the trace's `text`.

    Attributes:
        offset: int64, where the text of each row's arguments begins.
        length: int32, its length in bytes; 0 for no arguments.
    """

    offset: Int64s
    length: Int32s


class Sliceable(Protocol):
    """Bytes in memory, or what reads them from a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


class ArgumentText:
    """The bytes that `Arguments` are offsets into: the input, followed by added texts.

    >>> text = ArgumentText(b'{"a":1}')
    >>> text.add(b'{"b":2}'), text.read(7, 7)
    (7, b'{"b":2}')
    """

    def __init__(self, source: Sliceable = b"") -> None:
        self._source = source
        self._size = len(source)
        self._added = bytearray()

    @property
    def source_bytes(self) -> int:
        """The length of the input: added texts begin there."""
        return self._size

    @property
    def size_bytes(self) -> int:
        """The length of the input and the added texts."""
        return self._size + len(self._added)

    def add(self, text: bytes) -> int:
        """Append a text that is not in the input, and return its offset."""
        self._added += text
        return self._size + len(self._added) - len(text)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes at an offset; none for a length of 0."""
        added = offset - self._size
        if added >= 0:
            return bytes(self._added[added : added + length])
        return bytes(self._source[offset : offset + length])

    def decode(self, offset: int, length: int) -> str | None:
        """Return the text at an offset; None for a length of 0."""
        return self.read(offset, length).decode("utf-8", "replace") if length else None


class SpanFlag(IntFlag):
    """Properties of a span.

    `UNFINISHED` spans have a begin event and no end event. `STRUCTURED` spans were begun and ended
    in order of time, so `Spans.level` is the depth of each among these; the depth of other spans
    follows from their times alone.
    """

    UNFINISHED = 1
    STRUCTURED = 2


@struct
class Spans:
    """Calls, tasks, slices: a name from `start_ns` until `end_ns`, in any order.

    Attributes:
        start_ns: When it began, from the trace's origin.
        end_ns: When it ended, not before it began.
        thread: Index into `Trace.paths` of what it ran on.
        name: Index into `Trace.values`.
        category: Index into `Trace.categories`; -1 is none.
        level: How many spans of the thread were open when it began; 0 if unknown.
        flags: uint8, `SpanFlag`.
        arguments: Further fields of each row.
    """

    start_ns: Int64s
    end_ns: Int64s
    thread: Int32s
    name: Int32s
    category: Int32s
    level: Int32s
    flags: npt.NDArray[np.uint8]
    arguments: Arguments | None = None


@struct
class Samples:
    """A stack was sampled at `time_ns`; it represents `weight`.

    Attributes:
        time_ns: The time, from the trace's origin.
        thread: Index into `Trace.paths`.
        stack: Row of `Trace.stacks`; -1 for none.
        weight: int64, what the sample represents: nanoseconds, bytes, events.
        event: Index into `Trace.values` of the event that was sampled: `cpu-clock`, `wall`.
        name: Index into `Trace.values` of the thread's name at the time, as threads change their
            names; None if samples have no names.
        cpu: The CPU, -1 if unknown; None if samples have none.
    """

    time_ns: Int64s
    thread: Int32s
    stack: Int32s
    weight: Int64s
    event: Int32s
    name: Int32s | None = None
    cpu: Int32s | None = None


@struct
class Flows:
    """Something on one entity caused something on another, later.

    Attributes:
        from_entity: Index into `Trace.paths`.
        from_ns: The time of the cause.
        to_entity: Index into `Trace.paths`.
        to_ns: The time of the effect.
        name: Index into `Trace.values`.
    """

    from_entity: Int32s
    from_ns: Int64s
    to_entity: Int32s
    to_ns: Int64s
    name: Int32s


@struct
class Counters:
    """From `time_ns` on, the entity itself has this numeric value.

    Attributes:
        time_ns: The time, from the trace's origin.
        entity: Index into `Trace.paths`.
        value: int64 or float64; all values of an entity have one type.
    """

    time_ns: Int64s
    entity: Int32s
    value: Int64s | npt.NDArray[np.float64]


Batch: TypeAlias = StateChanges | Points | Spans | Samples | Flows | Counters | Events


def rows_of(batch: Batch) -> int:
    """Return how many rows a batch has."""
    if isinstance(batch, Spans):
        return len(batch.start_ns)
    return len(batch.from_ns if isinstance(batch, Flows) else batch.time_ns)


@dataclass(slots=True, eq=False, repr=False)
class Trace(TraceMetadata):
    """A trace being read: its metadata, and the batches with the tables that they refer to.

    The tables grow while `batches` is consumed: a code in a batch is valid as soon as the batch is
    out. The metadata are final when `batches` is exhausted; they number entities by their index in
    `paths`.

    Attributes:
        batches: The columns, in the order of the input; can be consumed once.
        paths: Entity code to attribute path.
        values: State code to state name.
        tags: Tag code to the fields of that tag.
        categories: Category code to category.
        stacks: The stacks of its samples.
        text: The bytes that `Arguments` are offsets into.
        ends: By entity, the time of its last record if that is after the bounds; what state the
            entity is in after that is unknown.
        input: The input, which `close` closes: a generator that never ran cannot.
    """

    batches: Iterator[Batch] = field(default_factory=lambda: iter(()))
    paths: PathTable = field(default_factory=PathTable)
    values: list[str] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    stacks: StackTable | None = None
    text: ArgumentText = field(default_factory=ArgumentText)
    ends: dict[int, int] = field(default_factory=dict)
    input: _Input | None = None

    def close(self) -> None:
        """Stop reading, and close the input."""
        if isinstance(self.batches, Generator):
            self.batches.close()
        if self.input is not None:
            self.input.close()
