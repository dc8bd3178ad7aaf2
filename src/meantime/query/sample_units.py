"""Which events samples are of, and what their weights count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.model.columns import distinct

if TYPE_CHECKING:
    from meantime.history.history import History
    from meantime.history.samples import SampleTable

__all__ = ["events", "sample_unit"]

_IN_TIME = {"wall", "cpu-clock", "task-clock", "on-cpu", "off-cpu"}


def events(history: History) -> dict[str, int]:
    """Return how many samples there are of each event, the most frequent first."""
    event = history.samples(event=ALL_EVENTS).event
    codes, counts = np.unique(event.codes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {
        event.names[code]: int(count)
        for code, count in zip(codes[order], counts[order], strict=True)
    }


def sample_unit(samples: SampleTable) -> str:
    """Return the unit of the weights of samples: as the trace says, `ns`, or names of events."""
    used = distinct(samples.event.codes)
    events = {None if code < 0 else samples.event.names[code] for code in used.tolist()}
    if samples.units and len(units := {samples.units.get(str(event), "") for event in events}) == 1:
        (unit,) = units
        return unit
    # perf appends the requested precision to the event: cpu-clock:ppp
    in_time = {str(event).partition(":")[0] for event in events} <= _IN_TIME
    # without periods in the trace, each weighs 1
    if in_time and (not len(samples) or (samples.weight != 1).any()):
        return "ns"
    return "/".join(sorted(map(str, events)))
