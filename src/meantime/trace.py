"""What a reader returns: batches of columns, and the facts about the trace that they refer to."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from meantime.anomalies import Anomalies
from meantime.clocks import Clock
from meantime.events import Events

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from meantime.attributes import Path
    from meantime.columns import Int32s, Int64s
    from meantime.stacks import StackTable

__all__ = [
    "ArgumentText",
    "Arguments",
    "Batch",
    "Counters",
    "Events",
    "Flows",
    "LaneDeclaration",
    "Points",
    "Samples",
    "SpanFlag",
    "Spans",
    "State",
    "StateChanges",
    "Trace",
]


class _Input(Protocol):
    def close(self) -> None: ...


LaneKind: TypeAlias = Literal["state", "stack", "counter", "async", "object"]


@dataclass(frozen=True, slots=True)
class State:
    """One row of a state table: a name, its number in the trace, and its colour if it has one."""

    name: str
    value: int
    color: str | None = None


@dataclass(frozen=True, slots=True)
class LaneDeclaration:
    """Makes attributes drawable.

    Attributes:
        pattern: The path pattern of the attributes meant, as `Attributes.quarks` takes it.
        kind: What is drawn.
        entity_kind: What one of these attributes is called: `CPU`, `Thread`.
        label: What the group of them is called.
        states: The state table, in order of value.
        unit: The unit of a counter.
    """

    pattern: str
    kind: LaneKind = "state"
    entity_kind: str | None = None
    label: str | None = None
    states: tuple[State, ...] = ()
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class StateChanges:
    """From `time_ns` on, this entity is in this state. Codes index the trace's tables.

    Attributes:
        time_ns: When, from the trace's origin.
        entity: Index into `Trace.paths`.
        state: Index into `Trace.values`; -1 is no state.
        tag: Index into `Trace.tags`; -1 is no tag.
        magnitude: The numeric value that came with the change, NaN where none did; None if no row
            of the batch has one. It becomes the attribute `(*path, "value")`.
    """

    time_ns: Int64s
    entity: Int32s
    state: Int32s
    tag: Int32s
    magnitude: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Points:
    """Something happened at `time_ns`. Codes index the trace's tables.

    Attributes:
        time_ns: When, from the trace's origin.
        entity: Index into `Trace.paths`.
        name: Index into `Trace.values`.
        target: Index into `Trace.paths` of whom it was done to (the row is a flow then), or -1.
        arguments: What else was said of it.
    """

    time_ns: Int64s
    entity: Int32s
    name: Int32s
    target: Int32s
    arguments: Arguments | None = None


@dataclass(frozen=True, slots=True)
class Arguments:
    """What events carried besides their name, as places in the trace's `text`.

    Attributes:
        offset: int64, where the text of each row's arguments begins.
        length: int32, its bytes; 0 is none.
    """

    offset: Int64s
    length: Int32s


class ArgumentText:
    """The bytes that `Arguments` point into: the input itself, and what was added behind it.

    >>> text = ArgumentText(b'{"a":1}')
    >>> text.add(b'{"b":2}'), text.read(7, 7)
    (7, b'{"b":2}')
    """

    def __init__(self, source: memoryview | bytes = b"") -> None:
        self._source = memoryview(source)
        self._added = bytearray()

    def add(self, text: bytes) -> int:
        """Keep a text that does not stand in the input, and return its offset."""
        self._added += text
        return len(self._source) + len(self._added) - len(text)

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes at that place; none for a length of 0."""
        behind = offset - len(self._source)
        if behind >= 0:
            return bytes(self._added[behind : behind + length])
        return bytes(self._source[offset : offset + length])

    def told(self, offset: int, length: int) -> str | None:
        """Return the text at that place; None for a length of 0."""
        return self.read(offset, length).decode("utf-8", "replace") if length else None


class SpanFlag(IntFlag):
    """What is known of a span besides its times.

    `UNFINISHED` spans were begun and never ended. `STRUCTURED` spans were begun and ended in the
    order of time, so `Spans.level` is the depth of each among these; that of others follows from
    the times alone.
    """

    UNFINISHED = 1
    STRUCTURED = 2


@dataclass(frozen=True, slots=True)
class Spans:
    """Calls, tasks, slices: a name from `start_ns` until `end_ns`, in any order.

    Attributes:
        start_ns: When it began, from the trace's origin.
        end_ns: When it ended, not before it began.
        thread: Index into `Trace.paths` of what it ran on.
        name: Index into `Trace.values`.
        category: Index into `Trace.categories`; -1 is none.
        level: How many begun ones of the thread were open when it began; 0 if that is not known.
        flags: uint8, `SpanFlag`.
        arguments: What else was said of it.
    """

    start_ns: Int64s
    end_ns: Int64s
    thread: Int32s
    name: Int32s
    category: Int32s
    level: Int32s
    flags: npt.NDArray[np.uint8]
    arguments: Arguments | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """A stack was seen at `time_ns`, standing for `weight`.

    Attributes:
        time_ns: When, from the trace's origin.
        thread: Index into `Trace.paths`.
        stack: Row of `Trace.stacks`; -1 is no stack.
        weight: int64, how much the sample stands for: nanoseconds, bytes, events.
        event: Index into `Trace.values` of what was counted: `cpu-clock`, `wall`.
        name: Index into `Trace.values` of what the thread called itself then, as threads change
            their names; None if the trace does not say it with each sample.
        cpu: Where it ran, -1 where unknown; None if the trace never says.
    """

    time_ns: Int64s
    thread: Int32s
    stack: Int32s
    weight: Int64s
    event: Int32s
    name: Int32s | None = None
    cpu: Int32s | None = None


@dataclass(frozen=True, slots=True)
class Flows:
    """One thing led to another, elsewhere and later.

    Attributes:
        from_entity: Index into `Trace.paths`.
        from_ns: When it left.
        to_entity: Index into `Trace.paths`.
        to_ns: When it arrived.
        name: Index into `Trace.values`.
    """

    from_entity: Int32s
    from_ns: Int64s
    to_entity: Int32s
    to_ns: Int64s
    name: Int32s


@dataclass(frozen=True, slots=True)
class Counters:
    """From `time_ns` on, the entity itself has this numeric value.

    Attributes:
        time_ns: When, from the trace's origin.
        entity: Index into `Trace.paths`.
        value: int64 or float64; all values of an entity have one type.
    """

    time_ns: Int64s
    entity: Int32s
    value: Int64s | npt.NDArray[np.float64]


Batch: TypeAlias = StateChanges | Points | Spans | Samples | Flows | Counters | Events


@dataclass(slots=True)
class Trace:
    """A trace being read.

    The tables grow while `batches` is consumed: a code in a batch is valid as soon as the batch is
    out. The other facts are final when `batches` is exhausted.

    Attributes:
        source: The input's name, as messages give it.
        format: The reader's name.
        batches: The columns, in the order of the input; can be consumed once.
        paths: Entity code to attribute path.
        values: State code to state name.
        tags: Tag code to the fields of that tag.
        lanes: What of it can be drawn.
        clock: Which clock its times count.
        bounds: The window [begin_ns, finish_ns) that it covers, if it says so.
        ends: Entity code to when the trace last heard of it, of entities of which that is after the
            bounds: what state such a one is in then is not known.
        title: What the trace calls itself.
        descriptions: Entity code to what the trace says about that entity.
        anomalies: What was odd, counted.
        records: How many records the input held, beside those that describe the whole trace.
        categories: Category code to category.
        stacks: The stacks of its samples.
        names: Entity code to what the trace calls that process, thread or task.
        sort_keys: Entity code to where the trace wants it among its like; 0 if it does not say.
        lost: Ranges [from_ns, to_ns) in which the tracer lost some of what happened.
        text: What `Arguments` point into.
        facts: What else the trace says of itself, by the trace's own names.
        input: What is read; `close` closes it, which a generator that never ran cannot.
    """

    source: str
    format: str
    batches: Iterator[Batch]
    paths: list[Path] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    lanes: list[LaneDeclaration] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    bounds: tuple[int, int] | None = None
    ends: dict[int, int] = field(default_factory=dict)
    title: str | None = None
    descriptions: dict[int, str] = field(default_factory=dict)
    anomalies: Anomalies = field(default_factory=Anomalies)
    records: int = 0
    categories: list[str] = field(default_factory=list)
    stacks: StackTable | None = None
    names: dict[int, str] = field(default_factory=dict)
    sort_keys: dict[int, int] = field(default_factory=dict)
    lost: list[tuple[int, int]] = field(default_factory=list)
    text: ArgumentText = field(default_factory=ArgumentText)
    facts: dict[str, str] = field(default_factory=dict)
    input: _Input | None = field(default=None, repr=False)

    def close(self) -> None:
        """Stop reading, and close the input."""
        if isinstance(self.batches, Generator):
            self.batches.close()
        if self.input is not None:
            self.input.close()
