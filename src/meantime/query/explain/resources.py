"""Resources: how much they were used, how many waited for them, and whether they were full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from meantime.kernels.activity_paths import at_once, stretches
from meantime.model.durations import Durations
from meantime.query.explain.lanes import in_order

if TYPE_CHECKING:
    from meantime.model.columns import Int64s

__all__ = ["Latency", "Resource", "Verdict", "resource_use"]

Verdict: TypeAlias = Literal["full", "full at times", "not full", ""]

_FULL, _NEARLY_FULL, _SOMEBODY = 0.9, 0.7, 0.5
_NOT_FULL, _NOBODY = 0.5, 0.05
_BINS = 40


@dataclass(frozen=True, slots=True)
class Latency(Durations[int, float]):
    """How long it took from when something was ready until it got the resource.

    Attributes:
        longest: Which one is the longest, of those given.
    """

    longest: int


class Resource(NamedTuple):
    """How a resource was used over a range.

    Attributes:
        name: What it is called: `CPU`, `GPU 0`, `slot`.
        capacity: How many could use it at once.
        is_declared: Whether the trace says so; otherwise it is the most that ever did.
        range_ns: [start, end).
        busy_ns: How long it was used, summed over its units.
        unknown_ns: For how long that is not known, summed over its units.
        full_ns: For how long all of its units were used.
        ready_ns: How long something was ready and waited for it, summed.
        most_ready: How many waited at once at most.
        somebody_ns: For how long at least one waited.
        longest_full: The longest stretch in which it was full nine tenths of the time, of at least
            a twentieth of the range; None if there is none.
        latency: From being ready until using it; None if that is not known.
    """

    name: str
    capacity: int
    is_declared: bool
    range_ns: tuple[int, int]
    busy_ns: int
    unknown_ns: int
    full_ns: int
    ready_ns: int
    most_ready: int
    somebody_ns: int
    longest_full: tuple[int, int] | None
    latency: Latency | None = None

    @property
    def slug(self) -> str:
        """Its name as the ids of conclusions have it: `cpu`, `event_loop`."""
        return self.name.lower().replace(" ", "_")

    @property
    def length_ns(self) -> int:
        """The length of the range."""
        return self.range_ns[1] - self.range_ns[0]

    @property
    def utilisation(self) -> float:
        """The share of its known time in which it was used, 0 to 1."""
        known_ns = self.capacity * self.length_ns - self.unknown_ns
        return self.busy_ns / known_ns if known_ns > 0 else 0.0

    @property
    def queue_mean(self) -> float:
        """How many waited for it on average."""
        return self.ready_ns / self.length_ns

    @property
    def full_share(self) -> float:
        """The share of the range in which it was full."""
        return self.full_ns / self.length_ns

    @property
    def somebody_waits(self) -> float:
        """The share of the range in which at least one waited."""
        return self.somebody_ns / self.length_ns

    @property
    def verdict(self) -> Verdict:
        """Whether it was full; empty if the numbers do not decide."""
        full, waits = self.full_share, self.somebody_waits
        if full >= _FULL or (full >= _NEARLY_FULL and waits >= _SOMEBODY):
            return "full"
        if self.longest_full is not None:
            return "full at times"
        if waits < _NOBODY:
            return "not full"
        # how many there are in all is not known
        return "not full" if full < _NOT_FULL and self.is_declared else ""

    def as_json(self) -> dict[str, Any]:
        """Return its figures as values that JSON can represent."""
        latency = self.latency
        return {
            "name": self.name,
            "capacity": self.capacity,
            "capacity_from": "declared" if self.is_declared else "most at once",
            "busy_ns": self.busy_ns,
            "unknown_ns": self.unknown_ns,
            "utilisation": self.utilisation,
            "queue_mean": self.queue_mean,
            "queue_max": self.most_ready,
            "full_share": self.full_share,
            "somebody_waits": self.somebody_waits,
            "verdict": self.verdict,
            "latency_ns": latency
            and {"p50": latency.median_ns, "p99": latency.p99_ns, "max": latency.max_ns},
        }


def resource_use(
    name: str,
    range_ns: tuple[int, int],
    *,
    busy: tuple[Int64s, Int64s],
    ready: tuple[Int64s, Int64s],
    capacity: int | None = None,
    unknown_ns: int = 0,
    latency: Latency | None = None,
) -> Resource:
    """Return how a resource was used.

    >>> import numpy as np
    >>> used = np.array([0, 5]), np.array([10, 20])
    >>> waited = np.array([2]), np.array([5])
    >>> found = resource_use("slot", (0, 20), busy=used, ready=waited)
    >>> found.capacity, found.utilisation, found.full_share, found.queue_mean
    (2, 0.625, 0.25, 0.15)

    Args:
        name: What it is called.
        range_ns: The range.
        busy: When it was used, in the range: begins and ends, in any order.
        ready: When something waited for it, in the range: begins and ends, in any order.
        capacity: How many can use it at once; by default as many as ever did.
        unknown_ns: For how long its use is not known, summed over its units.
        latency: From being ready until using it.
    """
    busy_start, busy_end = in_order(*busy)
    used_ns = at_once(busy_start, busy_end, *range_ns)
    is_declared = capacity is not None
    if capacity is None:
        capacity = max(1, len(used_ns) - 1)
    ready_start, ready_end = in_order(*ready)
    waiting_ns = at_once(ready_start, ready_end, *range_ns)
    full = stretches(busy_start, busy_end, capacity)
    return Resource(
        name,
        capacity,
        is_declared,
        range_ns,
        int((busy[1] - busy[0]).sum()),
        unknown_ns,
        int(used_ns[capacity:].sum()),
        int((ready[1] - ready[0]).sum()),
        int(np.flatnonzero(waiting_ns)[-1]) if waiting_ns.any() else 0,
        int(waiting_ns[1:].sum()),
        _longest_full(range_ns, *full, 0 if latency is None else latency.median_ns),
        latency,
    )


def _longest_full(
    range_ns: tuple[int, int], begins: Int64s, ends: Int64s, latency_ns: int
) -> tuple[int, int] | None:
    """Return the longest stretch that is full nine tenths of the time, in bins.

    It has at least two bins: a twentieth of the range, and 20 latencies.
    """
    start_ns, end_ns = range_ns
    bins = min(_BINS, (end_ns - start_ns) // max(1, 10 * latency_ns))
    if bins < 2 or not len(begins):
        return None
    edges = start_ns + (end_ns - start_ns) * np.arange(bins + 1) // bins
    # for how long it was full until each edge
    total = np.append(0, np.cumsum(ends - begins))
    row = np.searchsorted(begins, edges)
    after = np.append(ends, end_ns)[row - 1]
    until = total[row] - np.where(row > 0, np.maximum(after - edges, 0), 0)
    is_full = np.diff(until) >= _FULL * np.diff(edges)
    change = np.flatnonzero(np.diff(np.concatenate(([0], is_full.view(np.int8), [0]))))
    first, last = change[::2], change[1::2]
    if not len(first) or (last - first).max() < 2:
        return None
    longest = int(np.argmax(last - first))
    return int(edges[first[longest]]), int(edges[last[longest]])
