"""The map of samples that come in batches: their cells are kept, and the samples are not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import IDLE_SUFFIX, is_idle_task, process_id
from meantime.model.attributes import entity_name
from meantime.model.columns import distinct
from meantime.query.idle_samples import idle_stacks
from meantime.query.offsets.cells import CellsBuilder
from meantime.query.offsets.map import OffsetMap, Source
from meantime.query.offsets.sampling_interval import interval_ns
from meantime.query.ranges import clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.trace import Samples, Trace
    from meantime.query.offsets.fold import Fold
    from meantime.query.offsets.gather import Choice

__all__ = ["SampleStream"]

_KEPT = 2**16


class SampleStream:
    """Takes the samples of a trace that names and places each of them, batch by batch.

    What they are taken apart by may be left open until all are read: without `choice.by` they are
    kept apart by name, and always by event.

    Attributes:
        counts: How many samples there were of each event.
    """

    def __init__(self, trace: Trace, fold: Fold, choice: Choice, *, offset_ns: int = 0) -> None:
        """Prepare for a trace.

        Args:
            trace: What is read; only its samples are.
            fold: The cells, in the times of the map.
            choice: What of it.
            offset_ns: What to add to the trace's times to get the map's.
        """
        self.counts: Counter[str] = Counter[str]()
        self._trace = trace
        self._fold = fold
        self._choice = choice
        self._offset_ns = offset_ns
        self._builder = CellsBuilder(
            type(fold)(fold.origin_ns - offset_ns, fold.period_ns, fold.rows)
        )
        # by key: its event, its part and, of the idle task, its innermost frames
        self._groups: list[tuple[int, int, int | None]] = []
        self._of_idle_task: dict[tuple[int, int, int], int] = {}
        self._events: list[int] = []
        self._event_at = np.zeros(0, np.int32)
        self._key_of = np.zeros((0, 0), np.int32)
        self._is_idle_task = np.zeros(0, np.bool_)
        self._kept: list[Samples] = []

    def read(self, batches: Iterator[Samples]) -> None:
        """Take batches of the trace."""
        for batch in batches:
            self._add(batch)

    def _add(self, batch: Samples) -> None:
        event = self._dense(batch.event)
        for code, count in enumerate(np.bincount(event).tolist()):
            self.counts[self._trace.values[self._events[code]]] += count
        if sum(map(len, (each.time_ns for each in self._kept))) < _KEPT:
            self._kept.append(batch)
        time_ns, weight, thread, stack = batch.time_ns, batch.weight, batch.thread, batch.stack
        part = self._part(batch)
        chosen = self._chosen(batch)
        if chosen is not None:
            time_ns, weight, thread = time_ns[chosen], weight[chosen], thread[chosen]
            stack = stack[chosen]
            event, part = event[chosen], part[chosen]
        if not len(time_ns):
            return
        key = self._keys(event, part)
        for path in self._trace.paths[len(self._is_idle_task) :]:
            self._is_idle_task = np.append(self._is_idle_task, is_idle_task(path))
        rows = np.flatnonzero(self._is_idle_task[thread])
        if len(rows):
            key[rows] = self._idle_keys(event[rows], part[rows], stack[rows])
        weights = weight if self._choice.value == "weight" else None
        self._builder.add_times(time_ns, keys=key, weights=weights)

    def _dense(self, event: Int32s) -> Int32s:
        """Return numbers of events from 0, in order of appearance."""
        if len(self._event_at) < len(self._trace.values):
            more = np.full(len(self._trace.values) - len(self._event_at), -1, np.int32)
            self._event_at = np.append(self._event_at, more)
        found = self._event_at[event]
        if (found < 0).any():
            for code in distinct(event[found < 0]).tolist():
                self._event_at[code] = len(self._events)
                self._events.append(code)
            found = self._event_at[event]
        return found

    def _part(self, batch: Samples) -> Int32s:
        match self._choice.by:
            case None | "name":
                assert batch.name is not None
                return batch.name
            case "thread" | "process":
                return batch.thread
            case "cpu":
                assert batch.cpu is not None
                return batch.cpu + np.int32(1)
            case _:
                return np.zeros(len(batch.time_ns), np.int32)

    def _chosen(self, batch: Samples) -> npt.NDArray[np.bool_] | None:
        chosen = np.ones(len(batch.time_ns), np.bool_)
        if self._choice.event is not None:
            codes = [i for i, name in enumerate(self._trace.values) if name == self._choice.event]
            chosen &= np.isin(batch.event, codes)
        low, high = self._choice.window
        if low is not None:
            chosen &= batch.time_ns >= low
        if high is not None:
            chosen &= batch.time_ns < high
        return None if chosen.all() else chosen

    def _keys(self, event: Int32s, part: Int32s) -> Int64s:
        """Return a key for each event and part."""
        shape = (int(event.max()) + 1, int(part.max()) + 1)
        held = self._key_of.shape
        if shape[0] > held[0] or shape[1] > held[1]:
            rows, columns = max(shape[0], held[0]), max(shape[1], 2 * held[1])
            grown = np.full((rows, columns), -1, np.int32)
            grown[: held[0], : held[1]] = self._key_of
            self._key_of = grown
        key = self._key_of[event, part]
        new = key < 0
        if new.any():
            pairs = np.unique(np.stack((event[new], part[new])), axis=1)
            for pair in zip(*pairs.tolist(), strict=True):
                self._key_of[pair] = len(self._groups)
                self._groups.append((*pair, None))
            key = self._key_of[event, part]
        return key.astype(np.int64)

    def _idle_keys(self, event: Int32s, part: Int32s, stack: Int32s) -> Int64s:
        """Return a key for each event, part and stack of the idle task."""
        groups, which = np.unique(np.stack((event, part, stack)), axis=1, return_inverse=True)
        keys = []
        for group in zip(*groups.tolist(), strict=True):
            keys.append(self._of_idle_task.setdefault(group, len(self._groups)))
            if keys[-1] == len(self._groups):
                self._groups.append(group)
        return np.array(keys, np.int64)[which.reshape(-1)]

    def found(self, source: str, by: str | None) -> OffsetMap:
        """Return the map of all that was read, taken apart by what is now decided."""
        table = self._trace.stacks
        is_idle = np.ones(1, np.bool_) if table is None else idle_stacks(table)
        names, idle = [], set()
        for event, part, stack in self._groups:
            name = self._name(event, part, by, source)
            if by is not None and stack is not None and is_idle[stack]:
                name += IDLE_SUFFIX
                idle.add(name)
            names.append(name)
        bounds = self._trace.bounds or (0, 0)
        low, high = self._choice.window
        window = (bounds[0] if low is None else low, bounds[1] if high is None else high)
        offset_ns = self._offset_ns

        def moved(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
            return tuple((a + offset_ns, b + offset_ns) for a, b in clipped(ranges, *window))

        return OffsetMap.of(
            self._builder,
            self._choice.value or "count",
            names=names,
            sources=[
                Source(
                    source,
                    moved([bounds]),
                    moved(self._trace.lost),
                    interval_ns=self._interval_ns(),
                    idle=tuple(sorted(idle)),
                )
            ],
            anomalies=self._trace.anomalies,
        ).relabelled(self._fold)

    def _name(self, event: int, part: int, by: str | None, source: str) -> str:
        trace = self._trace
        match by:
            case "name":
                return trace.values[part]
            case "thread":
                return _thread_name(trace, part)
            case "process":
                return process_id(trace.paths[part]) or _thread_name(trace, part)
            case "cpu":
                return f"CPU {part - 1}" if part else "no CPU"
            case "event":
                return trace.values[self._events[event]]
            case _:
                return source

    def _interval_ns(self) -> int | None:
        kept = self._kept
        if not kept:
            return None
        cpu = np.concatenate([each.cpu for each in kept if each.cpu is not None])
        thread = np.concatenate([each.thread for each in kept])
        return interval_ns(
            np.concatenate([each.time_ns for each in kept]),
            cpu if len(cpu) == len(thread) and (cpu >= 0).all() else thread,
            np.concatenate([each.weight for each in kept]),
            events=set(self.counts),
            threads=thread,
        )


def _thread_name(trace: Trace, thread: int) -> str:
    path, name = trace.paths[thread], trace.names.get(thread)
    return f"{name} {path[-1]}" if name else entity_name(path)
