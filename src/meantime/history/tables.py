"""The event tables of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from meantime.history.results import Flows, Points
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable

__all__ = ["Tables"]


class Tables(NamedTuple):
    """The event tables."""

    points: Points
    flows: Flows
    spans: SpanTable
    samples: SampleTable
