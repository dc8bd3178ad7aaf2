"""The event tables of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from meantime.history.results import Flows, Points
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable

__all__ = ["Tables", "TablesInMemory"]


class Tables(Protocol):
    """The event tables."""

    @property
    def points(self) -> Points:
        """The instants."""

    @property
    def flows(self) -> Flows:
        """The arrows."""

    @property
    def spans(self) -> SpanTable:
        """The spans."""

    @property
    def samples(self) -> SampleTable:
        """The samples."""

    def within(self, start_ns: int | None, end_ns: int | None, /) -> Tables:
        """Return tables that have at least the rows in [start_ns, end_ns)."""


class TablesInMemory(NamedTuple):
    """Event tables whose columns are all in memory."""

    points: Points
    flows: Flows
    spans: SpanTable
    samples: SampleTable

    def within(self, start_ns: int | None, end_ns: int | None) -> TablesInMemory:
        """Return these tables."""
        del start_ns, end_ns
        return self
