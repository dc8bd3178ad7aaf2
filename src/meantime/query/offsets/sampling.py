"""At which interval samples were taken, where a clock took them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s
    from meantime.history.samples import SampleTable

__all__ = ["sampling_interval_ns"]

_CLOCKS = {"cpu-clock", "task-clock"}
_FEWEST = 64
_MOST = 2**20
# Slower than this, it is the events that keep time, and not who samples.
_LONGEST_NS = 10**8


def sampling_interval_ns(samples: SampleTable) -> int | None:
    """Return the time from a sample to the next, or None if they do not come at one interval.

    perf's clocks tell it as the weight of each sample; else it is what most samples of a CPU, or of
    a thread, are apart. Tracepoints are not sampled.
    """
    samples = samples.select() if len(samples) <= _MOST else _first(samples)
    if len(samples) < _FEWEST:
        return None
    events = {samples.event.names[code] for code in np.unique(samples.event.codes).tolist()}
    if any(_is_tracepoint(event) for event in events):
        return None
    if all(event.partition(":")[0] in _CLOCKS for event in events):
        weight = int(np.median(samples.weight))
        if weight > 1:
            return weight
    if len(np.unique(samples.name.codes)) < 2:
        return None
    on_cpus = bool((samples.cpu >= 0).all())
    return _mostly(samples.time_ns, samples.cpu if on_cpus else samples.thread)


def _first(samples: SampleTable) -> SampleTable:
    return samples.select(end_ns=int(samples.time_ns[_MOST]))


def _is_tracepoint(event: str) -> bool:
    """Return whether an event is one that happens; what is counted has short modifiers at most."""
    group, colon, name = event.partition(":")
    return bool(colon and group and len(name) > 3)


def _mostly(time_ns: Int64s, place: Int32s) -> int | None:
    """Return by how much most neighbours of one place are apart, to two parts in a hundred."""
    order = np.lexsort((time_ns, place))
    steps = np.diff(time_ns[order])[np.diff(place[order]) == 0]
    steps = steps[(steps > 0) & (steps <= _LONGEST_NS)]
    if len(steps) < _FEWEST:
        return None
    bins, at = np.unique(np.rint(np.log(steps) * 50).astype(np.int64), return_inverse=True)
    counts = np.bincount(at)
    most = int(np.argmax(counts))
    near = np.abs(bins[at] - bins[most]) <= 1
    return int(np.median(steps[near])) if near.sum() >= 0.25 * len(steps) else None
