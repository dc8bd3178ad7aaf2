"""What a trace says about itself as a whole, and about its entities, beside what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meantime.anomalies import Anomalies
from meantime.clocks import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.trace import LaneDeclaration

__all__ = ["TraceMetadata"]


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """The metadata of a history; entities are identified by quark.

    Attributes:
        clock: Which clock the times count.
        title: The trace's name for itself.
        bounds: The window [begin_ns, finish_ns) that the trace covers, if it says so.
        lanes: Which attributes can be drawn, and how.
        descriptions: By quark, the trace's description of that attribute.
        names: By quark, the trace's name for that process, thread or task.
        sort_keys: By quark, its rank among its siblings; 0 if the trace has none.
        facts: All other metadata of the trace, by the trace's own names.
        lost: Ranges [from_ns, to_ns) in which the tracer lost some events.
        anomalies: Oddities of the input, counted.
        provenance: What the history is made of, and by whom: a history of the same is the same.
    """

    clock: Clock = field(default_factory=Clock)
    title: str | None = None
    bounds: tuple[int, int] | None = None
    lanes: Sequence[LaneDeclaration] = ()
    descriptions: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    sort_keys: dict[int, int] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    lost: Sequence[tuple[int, int]] = field(default_factory=list)
    anomalies: Anomalies = field(default_factory=Anomalies)
    provenance: dict[str, str] = field(default_factory=dict)
