"""The numbers of items that wait for a pool's threads, and that run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.model.attribute_paths import COUNTER_PATTERN
from meantime.model.columns import distinct
from meantime.model.trace import Counters, LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.trace import Trace
    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.merge import Records

__all__ = ["PoolCounters"]

_BEGIN, _END = KINDS["ITEM_BEGIN"], KINDS["ITEM_END"]
_POOL, _DROPPED = KINDS["ITEM_POOL"], KINDS["ITEM_DROPPED"]
_KINDS = np.array([_BEGIN, _END, _POOL, _DROPPED], np.uint8)
_NUMBER = (1 << 32) - 1
_SERIES = ("queued", "running")


class _Items(NamedTuple):
    """Items that are queued or run, as columns in order of their keys.

    Attributes:
        key: Index of the process in the high 32 bits, and the number there.
        counted: The number of the counter that counts it.
    """

    key: Int64s
    counted: Int64s


class PoolCounters:
    """Counts the items of each pool from their records.

    Args:
        trace: The trace that gets a lane for the counters.
        owners: By stream, its process.
        facts: By process, its facts, or None; a forked process also uses its parent's pools.
        parents: By process, the one it was forked from, or -1.
        add: Returns a new entity for a counter of a process, by its name and series.
    """

    def __init__(
        self,
        trace: Trace,
        owners: Sequence[int],
        facts: Sequence[Facts | None],
        parents: Sequence[int],
        add: Callable[[int, str, str], int],
    ) -> None:
        self._trace = trace
        self._owners = owners
        self._facts = facts
        self._parents = parents
        self._add = add
        # each pool has two counters: of its queued items, and one more of those that run
        self._pools: dict[tuple[int, int], int] = {}
        self._items = _Items(*np.empty((2, 0), np.int64))
        self._entities: list[int] = []
        self._counts = np.empty(0, np.int64)
        # columns of times, numbers of counters, and changes of their values
        self._rows: list[Int64s] = []

    def feed(self, item: Records, origin_ns: int) -> None:
        """Count the items of these records."""
        rows = item.order[np.isin(item.kind[item.order], _KINDS)]
        if not len(rows):
            return
        process = np.array(self._owners, np.int64)[item.stream[rows]]
        kind = item.kind[rows]
        queued = np.full(len(rows), -1, np.int64)
        queued[kind == _POOL] = self._queued(process[kind == _POOL], item.aux[rows[kind == _POOL]])

        # the records of each item in order of time, after one that represents what it was before
        records = process << 32 | item.ident[rows].astype(np.int64)
        keys = distinct(records)
        before = self._known(keys)
        order = np.argsort(np.concatenate([keys, records]), kind="stable")
        ran = np.concatenate([np.zeros(len(keys), np.bool_), kind == _BEGIN])[order]
        counted = np.concatenate([before, queued])[order]
        # an item that begins to run is of the pool that it was of
        known = np.maximum.accumulate(np.where(ran, 0, np.arange(len(order))))
        counted = np.where(ran & (counted[known] >= 0), counted[known] | 1, counted[known])
        is_record = order >= len(keys)
        row = order[is_record] - len(keys)
        left, entered = np.empty((2, len(rows)), np.int64)
        left[row] = counted[np.flatnonzero(is_record) - 1]
        entered[row] = counted[is_record]
        after = counted[np.append(np.flatnonzero(~is_record)[1:], len(order)) - 1]
        self._keep(keys, after)

        time_ns = np.repeat(item.time_ns[rows] - origin_ns, 2)
        change = np.tile(np.array([-1, 1], np.int64), len(rows))
        found = np.stack([time_ns, np.stack([left, entered], axis=1).ravel(), change])
        if (found[1] >= 0).any():
            self._rows.append(found[:, found[1] >= 0])

    def finish(self, process: int, time_ns: int) -> None:
        """Set the counters of a process that has ended to 0."""
        counts = self._counts.copy()
        for _, counter, change in self._rows:
            np.add.at(counts, counter, change)
        own = [first for (of, _), first in self._pools.items() if of == process]
        counters = np.array([[first, first + 1] for first in own], np.int64).ravel()
        counters = counters[counts[counters] != 0]
        if len(counters):
            time = np.full(len(counters), time_ns, np.int64)
            self._rows.append(np.stack([time, counters, -counts[counters]]))

    def take(self) -> Iterator[Counters]:
        """Yield the values since the last call."""
        if not self._rows:
            return
        time_ns, counter, change = np.concatenate(self._rows, axis=1)
        self._rows.clear()
        # the sums of each counter's changes: sums of all, less those of the counters before it
        by_counter = np.argsort(counter, kind="stable")
        sums = np.cumsum(change[by_counter])
        own, first, count = np.unique(counter[by_counter], return_index=True, return_counts=True)
        since = self._counts[own] - (sums[first] - change[by_counter[first]])
        value = np.empty(len(time_ns), np.int64)
        value[by_counter] = sums + np.repeat(since, count)
        self._counts[own] = value[by_counter[first + count - 1]]
        order = np.argsort(time_ns, kind="stable")
        entity = np.array(self._entities, np.int32)[counter]
        yield Counters(time_ns[order], entity[order], value[order])

    def _known(self, keys: Int64s) -> Int64s:
        """Return what counts items; -1 for those that are not known."""
        items = self._items
        if not len(items.key):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(items.key, keys), len(items.key) - 1)
        counted: Int64s = np.where(items.key[at] == keys, items.counted[at], -1)
        return counted

    def _keep(self, keys: Int64s, counted: Int64s) -> None:
        """Remember what counts these items now; those that are not counted are forgotten."""
        others = ~np.isin(self._items.key, keys)
        key = np.concatenate([self._items.key[others], keys[counted >= 0]])
        counted = np.concatenate([self._items.counted[others], counted[counted >= 0]])
        order = np.argsort(key)
        self._items = _Items(key[order], counted[order])

    def _queued(self, processes: Int64s, numbers: npt.NDArray[np.uint32]) -> Int64s:
        """Return the counters of the queued items of pools, which are added if they are new."""
        pools, first, which = np.unique(
            processes << 32 | numbers.astype(np.int64), return_index=True, return_inverse=True
        )
        counters = np.empty(len(pools), np.int64)
        for at in np.argsort(first).tolist():
            pool = int(pools[at])
            counters[at] = self._counter(pool >> 32, pool & _NUMBER)
        found: Int64s = counters[which.reshape(-1)]
        return found

    def _counter(self, process: int, number: int) -> int:
        key = process, number
        if key not in self._pools:
            if not self._pools:
                lane = LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Pools")
                self._trace.lanes.append(lane)
            name = self._name(process, number)
            self._pools[key] = len(self._entities)
            self._entities += [self._add(process, name, series) for series in _SERIES]
            self._counts = np.append(self._counts, [0, 0])
        return self._pools[key]

    def _name(self, process: int, number: int) -> str:
        # bounded, since a damaged recording can make processes their own ancestors
        for _ in range(len(self._parents)):
            facts = self._facts[process]
            if facts is not None and number in facts.pools:
                threads, name = facts.pools[number]
                return f"{name} ({threads} threads)" if threads else name
            if self._parents[process] < 0:
                break
            process = self._parents[process]
        return f"pool {number}"
