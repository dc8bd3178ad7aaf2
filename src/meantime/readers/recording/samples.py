"""The samples of a recording: the stack of each thread at each tick of its sampler.

A sample represents the time since the previous tick. The part in which the thread was not on a
processor is a row of the event `off-cpu`. The rest is a row of the event `on-cpu` if the thread was
running when it was sampled; otherwise the stack with which it ran is unknown, and its time is added
to the next sample in which it is running. If there is none, the time has no stack, and is a row at
the last sample before which the thread ran. So the weights of both events add up to the time that
passed, and those of `on-cpu` to the processor time. Time in which the sampler was delayed is
reported as lost, and counted in neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import NO_STACK, StackTableBuilder
from meantime.model.trace import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable
    from meantime.model.trace import Trace
    from meantime.readers.recording.merge import Records

__all__ = ["SampledStacks", "Sampling"]

_SAMPLE, _ON_CPU = KINDS["SAMPLE"], KINDS["ON_CPU"]
_TICK, _NOT_ON_CPU = KINDS["TICK"], KINDS["NOT_ON_CPU"]
_TORN = 0xFFFFFFFF
_EVENTS = ("on-cpu", "off-cpu")
_NOTHING = np.empty((4, 0), np.int64)


class SampledStacks:
    """The stacks of all processes as one table."""

    def __init__(self) -> None:
        self._builder = StackTableBuilder()
        self._numbers: list[Int64s] = []
        self._rows: list[Int32s] = []

    def add(self, frames: Mapping[int, str], stacks: Mapping[int, tuple[int, int]]) -> None:
        """Add the next process's frames, by number, and stacks (parent, frame), by number."""
        row_of: dict[int, int] = {}
        # the sampler numbers a parent before its children
        for number in sorted(stacks):
            parent, frame = stacks[number]
            below = row_of.get(parent, NO_STACK) if parent else NO_STACK
            name = frames.get(frame, "(unknown)")
            row_of[number] = self._builder.push(below, self._builder.frame(name))
        self._numbers.append(np.array(list(row_of), np.int64))
        self._rows.append(np.array(list(row_of.values()), np.int32))

    def rows(self, process: int, numbers: Int64s) -> Int32s:
        """Return the table's rows of a process's stacks; `NO_STACK` for those not defined."""
        known = self._numbers[process]
        if not len(known):
            return np.full(len(numbers), NO_STACK, np.int32)
        at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        return np.where(known[at] == numbers, self._rows[process][at], NO_STACK).astype(np.int32)

    def table(self) -> StackTable:
        """Return the stacks of all processes."""
        return self._builder.build()


class _Seen(NamedTuple):
    """Samples of one process: columns, `number` being the stack's in its process."""

    process: int
    time_ns: Int64s
    tid: Int64s
    number: Int64s
    task: Int64s
    on_cpu_ns: Int64s
    off_cpu_ns: Int64s


class _Unseen(NamedTuple):
    """The processor time of a thread that no sample has yet, and the last sample after it."""

    ran_ns: int
    time_ns: int


class _Sampler:
    """Reads the records of one sampler.

    Args:
        period_ns: The time between two ticks.
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._held = _NOTHING
        self._tick_ns: int | None = None
        self._interval_ns = 0
        self._seen_ns = 0
        self._unseen: dict[int, _Unseen] = {}
        self.skipped = 0
        self.lost: list[tuple[int, int]] = []

    def take(self, records: Int64s, process: int) -> _Seen:
        """Return the samples in the next records of its stream, all but the last.

        The records are columns of time, kind and their two numbers.
        """
        records = np.hstack([self._held, records])
        # the last sample may have further records, for times of more than 32 bits
        samples = np.flatnonzero(records[1] == _SAMPLE)
        end = int(samples[-1]) if len(samples) else records.shape[1]
        self._held = records[:, end:]
        return self._seen(records[:, :end], process)

    def last(self, process: int) -> _Seen:
        """Return the last sample, which `take` has not returned."""
        held, self._held = self._held, _NOTHING
        return self._seen(held, process)

    def unseen(self, process: int) -> _Seen:
        """Return the processor time that no sample followed in which the thread was running."""
        rows = sorted((tid, *each) for tid, each in self._unseen.items() if each.ran_ns and tid)
        tid, on_cpu_ns, time_ns = np.array(rows, np.int64).reshape(-1, 3).T
        nothing = np.zeros(len(tid), np.int64)
        return _Seen(process, time_ns, tid, nothing, nothing, on_cpu_ns, nothing)

    def _seen(self, records: Int64s, process: int) -> _Seen:
        time_ns, kind, ident, aux = records
        ticks, samples = (np.flatnonzero(kind == wanted) for wanted in (_TICK, _SAMPLE))
        shares = np.flatnonzero((kind == _ON_CPU) | (kind == _NOT_ON_CPU))
        shares = shares[np.searchsorted(samples, shares) > 0]
        whose = np.searchsorted(samples, shares) - 1
        # the latest record before each one: threads are sampled a little after their tick
        before_ns = np.concatenate([[self._seen_ns], time_ns])[:-1]
        interval_ns = self._intervals(time_ns[ticks], ident[ticks], before_ns[ticks])
        # a long pause between two records of a tick: the sampler itself was stopped
        for row in np.flatnonzero((kind != _TICK) & (time_ns - before_ns > self._period_ns)):
            self.lost.append((int(before_ns[row]) + 1, int(time_ns[row])))
        if len(time_ns):
            self._seen_ns = int(time_ns[-1])
        self.skipped += int(aux[ticks].sum())
        ran_ns, task = np.zeros((2, len(samples)), np.int64)
        np.add.at(ran_ns, whose, aux[shares])
        task[whose] = ident[shares]
        running = np.zeros(len(samples), np.bool_)
        running[whose] = kind[shares] == _ON_CPU
        off_cpu_ns = interval_ns[np.searchsorted(ticks, samples)] - ran_ns
        seen = _Seen(
            process,
            time_ns[samples],
            ident[samples],
            aux[samples],
            task,
            self._on_cpu(time_ns[samples], ident[samples], ran_ns, running),
            np.maximum(off_cpu_ns, 0),
        )
        self._interval_ns = int(interval_ns[-1])
        return seen

    def _on_cpu(
        self, time_ns: Int64s, tid: Int64s, ran_ns: Int64s, running: npt.NDArray[np.bool_]
    ) -> Int64s:
        """Return the processor time that each sample represents: since the last that ran."""
        on_cpu_ns = np.zeros(len(tid), np.int64)
        for thread in distinct(tid).tolist():
            own = np.flatnonzero(tid == thread)
            before = self._unseen.get(thread, _Unseen(0, 0))
            total = np.cumsum(ran_ns[own]) + before.ran_ns
            seen = np.flatnonzero(running[own])
            on_cpu_ns[own[seen]] = np.diff(total[seen], prepend=0)
            ran = np.flatnonzero(ran_ns[own])
            self._unseen[thread] = _Unseen(
                int(total[-1] - (total[seen[-1]] if len(seen) else 0)),
                int(time_ns[own[ran[-1]]]) if len(ran) else before.time_ns,
            )
        return on_cpu_ns

    def _intervals(self, tick_ns: Int64s, late_ns: Int64s, seen_ns: Int64s) -> Int64s:
        """Return the time that each tick represents, beginning with the tick before these."""
        if not len(tick_ns):
            return np.array([self._interval_ns], np.int64)
        longest_ns = late_ns + self._period_ns
        since_ns = tick_ns - longest_ns
        before_ns = np.concatenate(
            [[since_ns[0] if self._tick_ns is None else self._tick_ns], tick_ns[:-1]]
        )
        for row in np.flatnonzero(np.maximum(before_ns, seen_ns + 1) < since_ns).tolist():
            self.lost.append((int(max(before_ns[row], seen_ns[row] + 1)), int(since_ns[row])))
        self._tick_ns = int(tick_ns[-1])
        intervals = np.minimum(tick_ns - before_ns, longest_ns)
        return np.concatenate([[self._interval_ns], intervals])


class Sampling:
    """All samples of a recording.

    Args:
        trace: The trace whose values, lost ranges and anomalies are extended.
        owners: The process of each stream.
        periods_ns: The period of each process's sampler; 0 if it has none.
        stacks: The processes' stacks.
    """

    def __init__(
        self,
        trace: Trace,
        owners: Sequence[int],
        periods_ns: Sequence[int],
        stacks: SampledStacks,
    ) -> None:
        self._trace = trace
        self._owners = owners
        self._periods_ns = periods_ns
        self._stacks = stacks
        self._samplers: dict[int, _Sampler] = {}
        self._names = Interner(trace.values)
        self._seen: list[_Seen] = []

    def feed(self, item: Records, time_ns: Int64s) -> None:
        """Read the samples among these records; `time_ns` counts from the trace's origin."""
        kinds = (item.kind >= _SAMPLE) & (item.kind <= _NOT_ON_CPU)
        if not kinds.any():
            return
        rows = np.flatnonzero(kinds)
        for stream in distinct(item.stream[rows]).tolist():
            own = rows[item.stream[rows] == stream]
            process = self._owners[stream]
            if stream not in self._samplers:
                self._samplers[stream] = _Sampler(self._periods_ns[process])
            columns = (time_ns[own], item.kind[own], item.ident[own], item.aux[own])
            records = np.array([column.astype(np.int64) for column in columns])
            self._seen.append(self._samplers[stream].take(records, process))

    def finish(self) -> None:
        """Add the samplers' last samples, and report the times that were not sampled."""
        for stream, sampler in self._samplers.items():
            process = self._owners[stream]
            self._seen += [sampler.last(process), sampler.unseen(process)]
            self._trace.lost.extend(sampler.lost)
            self._trace.anomalies.add("samples_skipped", sampler.skipped)

    def threads(self) -> set[tuple[int, int]]:
        """Return the threads (process, number) of the samples that `take` will return."""
        return {
            (seen.process, tid) for seen in self._seen for tid in distinct(seen.tid).tolist() if tid
        }

    def take(
        self,
        entity_of: Mapping[tuple[int, int], int],
        name_of: Callable[[int, int, int], str],
    ) -> list[Samples]:
        """Return the samples since the last call.

        Args:
            entity_of: The trace's entities of threads (process, number).
            name_of: Returns a sample's name from its process, thread and task (0 for none).
        """
        seen, self._seen = self._seen, []
        return [self._batch(each, entity_of, name_of) for each in seen if len(each.tid)]

    def _batch(
        self,
        seen: _Seen,
        entity_of: Mapping[tuple[int, int], int],
        name_of: Callable[[int, int, int], str],
    ) -> Samples:
        torn = seen.number == _TORN
        stack = self._stacks.rows(seen.process, seen.number)
        self._trace.anomalies.add("samples_torn", int(torn.sum()))
        unknown = (stack == NO_STACK) & (seen.number != 0) & ~torn
        self._trace.anomalies.add("stack_unknown", int(unknown.sum()))
        whose, at = np.unique(np.stack([seen.tid, seen.task]), axis=1, return_inverse=True)
        at = at.reshape(-1)
        pairs = [(int(tid), int(task)) for tid, task in whose.T]
        thread = np.array([entity_of.get((seen.process, tid), -1) for tid, _ in pairs], np.int32)
        name = np.array(
            [self._names.code(name_of(seen.process, tid, task)) for tid, task in pairs], np.int32
        )
        on, off = (
            np.flatnonzero((weight > 0) & (seen.tid > 0))
            for weight in (seen.on_cpu_ns, seen.off_cpu_ns)
        )
        rows = np.concatenate([on, off])
        weight = np.concatenate([seen.on_cpu_ns[on], seen.off_cpu_ns[off]])
        codes = [self._names.code(event) for event in _EVENTS]
        event = np.repeat(np.array(codes, np.int32), [len(on), len(off)])
        order = np.argsort(seen.time_ns[rows], kind="stable")
        rows = rows[order]
        return Samples(
            time_ns=seen.time_ns[rows],
            thread=thread[at[rows]],
            stack=stack[rows],
            weight=weight[order],
            event=event[order],
            name=name[at[rows]],
        )
