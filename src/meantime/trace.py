"""What a reader returns: batches of columns, and the facts about the trace that they refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meantime.anomalies import Anomalies
from meantime.clocks import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from meantime.attributes import Path
    from meantime.columns import Int32s, Int64s

__all__ = ["Batch", "LaneDeclaration", "Points", "State", "StateChanges", "Trace"]

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
    """

    time_ns: Int64s
    entity: Int32s
    name: Int32s
    target: Int32s


Batch: TypeAlias = StateChanges | Points


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
        title: What the trace calls itself.
        descriptions: Entity code to what the trace says about that entity.
        anomalies: What was odd, counted.
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
    title: str | None = None
    descriptions: dict[int, str] = field(default_factory=dict)
    anomalies: Anomalies = field(default_factory=Anomalies)
