"""The numbers of items that wait for a pool's threads, and that run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.attribute_paths import COUNTER_PATTERN
from meantime.kernels.record_kinds import KINDS
from meantime.trace import Counters, LaneDeclaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.merge import Records
    from meantime.trace import Trace

__all__ = ["PoolCounters"]

_BEGIN, _END = KINDS["ITEM_BEGIN"], KINDS["ITEM_END"]
_POOL, _DROPPED = KINDS["ITEM_POOL"], KINDS["ITEM_DROPPED"]
_KINDS = np.array([_BEGIN, _END, _POOL, _DROPPED], np.uint8)
_SERIES = ("queued", "running")


class _Pool(NamedTuple):
    """A pool that has had items: the entities of its counters, and their values."""

    process: int
    entities: tuple[int, int]
    counts: list[int]


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
        self._pools: dict[tuple[int, int], _Pool] = {}
        # the items that are queued or run, and what each is counted in
        self._items: dict[tuple[int, int], tuple[_Pool, int]] = {}
        self._rows: list[tuple[int, int, int]] = []

    def feed(self, item: Records, origin_ns: int) -> None:
        """Count the items of these records."""
        rows = item.order[np.isin(item.kind[item.order], _KINDS)]
        columns = (item.time_ns, item.stream, item.kind, item.ident, item.aux)
        for time_ns, stream, kind, ident, aux in zip(
            *(column[rows].tolist() for column in columns), strict=True
        ):
            process = self._owners[stream]
            key = process, ident
            before = self._items.pop(key, None)
            if kind == _POOL:
                pool = self._pool(process, aux)
            elif before is not None:
                pool = before[0]
                self._count(pool, before[1], -1, time_ns - origin_ns)
            else:
                continue
            if kind in (_POOL, _BEGIN):
                series = 0 if kind == _POOL else 1
                self._items[key] = pool, series
                self._count(pool, series, 1, time_ns - origin_ns)

    def finish(self, process: int, time_ns: int) -> None:
        """Set the counters of a process that has ended to 0."""
        for pool in self._pools.values():
            if pool.process == process:
                for series, count in enumerate(pool.counts):
                    if count:
                        self._count(pool, series, -count, time_ns)

    def take(self) -> Iterator[Counters]:
        """Yield the values since the last call."""
        if self._rows:
            time_ns, entity, value = np.array(self._rows, np.int64).T
            self._rows.clear()
            order = np.argsort(time_ns, kind="stable")
            yield Counters(time_ns[order], entity[order].astype(np.int32), value[order])

    def _count(self, pool: _Pool, series: int, change: int, time_ns: int) -> None:
        pool.counts[series] += change
        self._rows.append((time_ns, pool.entities[series], pool.counts[series]))

    def _pool(self, process: int, number: int) -> _Pool:
        key = process, number
        if key not in self._pools:
            if not self._pools:
                lane = LaneDeclaration(COUNTER_PATTERN, kind="counter", label="Pools")
                self._trace.lanes.append(lane)
            name = self._name(process, number)
            queued, running = (self._add(process, name, series) for series in _SERIES)
            self._pools[key] = _Pool(process, (queued, running), [0, 0])
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
