"""The metadata of a trace, about itself and about its entities, and the lanes to draw.

`TraceMetadata` declares each field once. A `Trace` extends it: a reader fills in the fields while
it reads, and numbers entities by their index in `Trace.paths`. After reading, `by_quark` returns
the same metadata with entities numbered by quark, for the catalogue, the snapshots and
`History.metadata`. Fields whose keys are entities are marked in the declaration, so no other
module lists them.

A new field takes two edits: its declaration here, and its row in `history/directory/delta.py`,
which writes it to a manifest and checks it when it is read. A field that is not stored, such as
`format`, takes one.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meantime.model.anomalies import Anomalies
from meantime.model.clocks import Clock

if TYPE_CHECKING:
    from meantime.model.columns import Int32s

__all__ = ["SUITES_FACT", "LaneDeclaration", "LaneKind", "State", "TraceMetadata"]

# The fact of a trace of tests that has how long its suites took, by themselves: `0.425 s`.
SUITES_FACT = "suites took"

LaneKind: TypeAlias = Literal["state", "stack", "counter", "async", "object"]


@dataclass(frozen=True, slots=True)
class State:
    """One row of a state table: a name, its number in the trace, and its colour if it has one."""

    name: str
    value: int
    color: str | None = None


@dataclass(frozen=True, slots=True)
class LaneDeclaration:
    """Declares that attributes can be drawn.

    Attributes:
        pattern: The path pattern of the attributes, as `Attributes.quarks` takes it.
        kind: What is drawn.
        entity_kind: The name of one of these attributes: `CPU`, `Thread`.
        label: The name of the group.
        states: The state table, in order of value.
        unit: The unit of a counter.
        short_lived: Whether an entity exists only while it has a state, as tasks and requests do,
            so that entities which never overlap can share a row. Any other exists from its first
            state to the end of its last one.
    """

    pattern: str
    kind: LaneKind = "state"
    entity_kind: str | None = None
    label: str | None = None
    states: tuple[State, ...] = ()
    unit: str | None = None
    short_lived: bool = False

    @property
    def name(self) -> str:
        """What to call the lane: its label, its kind of entity, or its pattern."""
        return self.label or self.entity_kind or self.pattern


# The dataclass metadata of fields whose keys are entities.
_BY_ENTITY = {"by_entity": True}


@dataclass(slots=True, eq=False)
class TraceMetadata:
    """The metadata of a trace or a history.

    Entities are numbered by trace codes while a reader fills the metadata in, as a part of its
    `Trace`, and by quark in a history. There it does not change: a history that grows has new
    metadata in each snapshot.

    Attributes:
        source: The name of the input, as messages print it; empty if there was none.
        format: The format of the input: a reader's, or `history` for a directory.
        recognised: By what the format was recognised, as the rest of a sentence; empty if it was
            not, as for a directory.
        clock: Which clock the times count.
        title: The trace's name for itself.
        bounds: The window [begin_ns, finish_ns) that the trace covers, if it is known.
        lanes: Which attributes can be drawn, and how.
        descriptions: By entity, the trace's description of it.
        names: By entity, the trace's name for that process, thread or task.
        sort_keys: By entity, its rank among its siblings; 0 if the trace has none.
        facts: All other metadata of the trace, by the trace's own names.
        sample_units: By event of samples, the unit of its weights: `ns`, `bytes`, `count`. Given
            for samples that have a weight in each of several units, of which one is counted at a
            time: the first, if no other is chosen.
        samples_first: Whether the trace's own tool shows its samples rather than its spans.
        lost: Ranges [from_ns, to_ns) in which the tracer lost some events.
        anomalies: Oddities of the input, counted.
        records: How many records the input had, beside those that describe the whole trace.
        provenance: What a history was built from; see `meantime.opening.provenance`.
        range_ns: The range [start, end) whose states were read: others may be missing. None if all
            were read, as in every stored history.
        left_out: By entity, how many states before `range_ns`, and after it, were left out.
    """

    source: str = ""
    format: str = "history"
    _: KW_ONLY
    recognised: str = ""
    clock: Clock = field(default_factory=Clock)
    title: str | None = None
    bounds: tuple[int, int] | None = None
    lanes: list[LaneDeclaration] = field(default_factory=list)
    descriptions: dict[int, str] = field(default_factory=dict, metadata=_BY_ENTITY)
    names: dict[int, str] = field(default_factory=dict, metadata=_BY_ENTITY)
    sort_keys: dict[int, int] = field(default_factory=dict, metadata=_BY_ENTITY)
    facts: dict[str, str] = field(default_factory=dict)
    sample_units: dict[str, str] = field(default_factory=dict)
    samples_first: bool = False
    lost: list[tuple[int, int]] = field(default_factory=list)
    anomalies: Anomalies = field(default_factory=Anomalies)
    records: int = 0
    provenance: dict[str, str] = field(default_factory=dict)
    range_ns: tuple[int, int] | None = None
    left_out: dict[int, tuple[int, int]] = field(default_factory=dict, metadata=_BY_ENTITY)

    def by_quark(self, quark_of: Int32s) -> TraceMetadata:
        """Return the same metadata with each entity numbered by its quark, `quark_of[entity]`."""
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in _FIELDS}
        for each in _FIELDS:
            if each.metadata.get("by_entity"):
                by_entity = values[each.name].items()
                values[each.name] = {int(quark_of[entity]): value for entity, value in by_entity}
        return TraceMetadata(**values)


_FIELDS = fields(TraceMetadata)
