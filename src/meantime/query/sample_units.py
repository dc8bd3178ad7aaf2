"""What the weights of samples count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.columns import distinct

if TYPE_CHECKING:
    from meantime.history.samples import SampleTable

__all__ = ["sample_unit"]

_IN_TIME = {"wall", "cpu-clock", "task-clock", "on-cpu", "off-cpu"}


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
