"""The interval of samples that a clock triggered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct

if TYPE_CHECKING:
    from meantime.history.samples import SampleTable
    from meantime.model.columns import Int32s, Int64s

__all__ = ["clock_interval_ns", "interval_ns", "is_tracepoint", "sampling_interval_ns"]

_CLOCKS = {"cpu-clock", "task-clock"}
_FEWEST = 64
_MOST = 2**17
# A longer interval is that of periodic events, not of sampling.
_LONGEST_NS = 10**8


def sampling_interval_ns(samples: SampleTable) -> int | None:
    """Return the sampling interval, or None if samples do not have a constant one."""
    first = samples if len(samples) <= _MOST else _first(samples)
    return interval_ns(
        first.time_ns,
        first.cpu if (first.cpu >= 0).all() else first.thread,
        first.weight,
        events={first.event.names[code] for code in distinct(first.event.codes).tolist()},
        threads=first.thread,
    )


def interval_ns(
    time_ns: Int64s, cpu_or_thread: Int32s, weight: Int64s, *, events: set[str], threads: Int32s
) -> int | None:
    """Return the sampling interval, or None if samples do not have a constant one.

    For perf's clocks it is the weight of each sample; otherwise the most frequent distance between
    samples of a CPU or thread. Tracepoints are not sampled.

    Args:
        time_ns: When each sample was taken.
        cpu_or_thread: On which CPU, or in which thread, each sample was taken.
        weight: The weight of each.
        events: The names of the sampled events.
        threads: The thread of each sample; the samples of a single thread may show its own period.
    """
    if len(time_ns) < _FEWEST or any(is_tracepoint(event) for event in events):
        return None
    found = clock_interval_ns(weight, events)
    if found is not None:
        return found
    several = np.count_nonzero(np.unique(threads, return_counts=True)[1] >= _FEWEST // 4) > 1
    return _mostly(time_ns, cpu_or_thread) if several else None


def clock_interval_ns(weight: Int64s, events: set[str]) -> int | None:
    """Return the interval of perf's clocks, which is the weight of their samples; None of others.

    >>> clock_interval_ns(np.array([100, 100, 90]), {"cpu-clock:u"})
    100
    """
    if not len(weight) or not all(event.partition(":")[0] in _CLOCKS for event in events):
        return None
    found = int(np.median(weight))
    return found if found > 1 else None


def _first(samples: SampleTable) -> SampleTable:
    return samples.select(end_ns=int(samples.time_ns[_MOST]))


def is_tracepoint(event: str) -> bool:
    """Return whether an event is a tracepoint: others have short modifiers after the colon."""
    group, colon, name = event.partition(":")
    return bool(colon and group and len(name) > 3)


def _mostly(time_ns: Int64s, cpu_or_thread: Int32s) -> int | None:
    """Return the most frequent distance of neighbours with one key, within two percent."""
    order = np.lexsort((time_ns, cpu_or_thread))
    steps = np.diff(time_ns[order])[np.diff(cpu_or_thread[order]) == 0]
    steps = steps[(steps > 0) & (steps <= _LONGEST_NS)]
    if len(steps) < _FEWEST:
        return None
    # logarithmic bins of 2 %, as jitter is relative to an interval that is not known yet
    bins, at = np.unique(np.rint(np.log(steps) * 50).astype(np.int64), return_inverse=True)
    counts = np.bincount(at)
    most = int(np.argmax(counts))
    near = np.abs(bins[at] - bins[most]) <= 1
    return int(np.median(steps[near])) if near.sum() >= 0.25 * len(steps) else None
