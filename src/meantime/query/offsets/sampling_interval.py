"""At which interval samples were taken, where a clock took them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meantime.columns import Int32s, Int64s
    from meantime.history.samples import SampleTable

__all__ = ["interval_ns", "sampling_interval_ns"]

_CLOCKS = {"cpu-clock", "task-clock"}
_FEWEST = 64
_MOST = 2**17
# Slower than this, it is the events that keep time, and not who samples.
_LONGEST_NS = 10**8


def sampling_interval_ns(samples: SampleTable) -> int | None:
    """Return the time from a sample to the next, or None if they do not come at one interval."""
    first = samples if len(samples) <= _MOST else _first(samples)
    return interval_ns(
        first.time_ns,
        first.cpu if (first.cpu >= 0).all() else first.thread,
        first.weight,
        events={first.event.names[code] for code in np.unique(first.event.codes).tolist()},
        threads=first.thread,
    )


def interval_ns(
    time_ns: Int64s, cpu_or_thread: Int32s, weight: Int64s, *, events: set[str], threads: Int32s
) -> int | None:
    """Return the time from a sample to the next, or None if they do not come at one interval.

    For perf's clocks it is the weight of each sample; otherwise the most frequent distance between
    samples of a CPU or thread. Tracepoints are not sampled.

    Args:
        time_ns: When each sample was taken.
        cpu_or_thread: On which CPU, or in which thread, each sample was taken.
        weight: The weight of each.
        events: What was counted.
        threads: Of which thread each is: what is taken of only one may keep time itself.
    """
    if len(time_ns) < _FEWEST or any(_is_tracepoint(event) for event in events):
        return None
    if all(event.partition(":")[0] in _CLOCKS for event in events):
        found = int(np.median(weight))
        if found > 1:
            return found
    several = np.count_nonzero(np.unique(threads, return_counts=True)[1] >= _FEWEST // 4) > 1
    return _mostly(time_ns, cpu_or_thread) if several else None


def _first(samples: SampleTable) -> SampleTable:
    return samples.select(end_ns=int(samples.time_ns[_MOST]))


def _is_tracepoint(event: str) -> bool:
    """Return whether an event is one that happens; what is counted has short modifiers at most."""
    group, colon, name = event.partition(":")
    return bool(colon and group and len(name) > 3)


def _mostly(time_ns: Int64s, cpu_or_thread: Int32s) -> int | None:
    """Return the most frequent distance of neighbours with one key, within two percent."""
    order = np.lexsort((time_ns, cpu_or_thread))
    steps = np.diff(time_ns[order])[np.diff(cpu_or_thread[order]) == 0]
    steps = steps[(steps > 0) & (steps <= _LONGEST_NS)]
    if len(steps) < _FEWEST:
        return None
    bins, at = np.unique(np.rint(np.log(steps) * 50).astype(np.int64), return_inverse=True)
    counts = np.bincount(at)
    most = int(np.argmax(counts))
    near = np.abs(bins[at] - bins[most]) <= 1
    return int(np.median(steps[near])) if near.sum() >= 0.25 * len(steps) else None
