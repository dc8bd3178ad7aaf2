"""Converts records to state changes, for complete and for growing recordings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.model.anomalies import Anomalies
from meantime.providers.tasks import task_states
from meantime.readers.recording.facts import Loss
from meantime.readers.recording.labels import NO_LABEL
from meantime.readers.recording.locations import DefinedLocations, parents_of
from meantime.readers.recording.merge import Oddities, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from meantime.kernels.tasks import TaskStates
    from meantime.model.columns import Int32s, Int64s
    from meantime.readers.recording.labels import Labels
    from meantime.readers.recording.locations import CodeLocation
    from meantime.readers.recording.merge import Payload, Records
    from meantime.readers.recording.pieces import Piece

__all__ = ["Replay", "ReplayedProcess", "ReplayedStream", "thread_name"]

_LABEL, _THREAD, _LOST = KINDS["LABEL"], KINDS["THREAD"], KINDS["LOST"]
_UNNAMED = "thread"


@dataclass(slots=True)
class ReplayedProcess:
    """A process whose records are replayed.

    Attributes:
        pid: The process id.
        incarnation: Its number among the processes that had this pid.
        parent: Process id and incarnation of the process it was forked from, or (0, 0).
        locations: By number; more are added while it runs.
        last_ns: The CLOCK_MONOTONIC time of its last record.
    """

    pid: int
    incarnation: int
    parent: tuple[int, int]
    locations: Mapping[int, CodeLocation]
    last_ns: int


@dataclass(slots=True)
class ReplayedStream:
    """A stream whose records are replayed.

    Attributes:
        process: Index of its process.
        base_ns: The CLOCK_MONOTONIC time that is time 0 of its records.
        lost_by_tail: Lost events as counted by its tail.
        lost: Lost events as counted by its records, which may be written after the tail counts.
        last_ns: The CLOCK_MONOTONIC time of its last record.
        skip_until_ns: Up to when the records of the next `run` were replayed by an earlier one.
        threads: The names of its threads, by thread id.
    """

    process: int
    base_ns: int
    lost_by_tail: int = 0
    lost: int = 0
    last_ns: int = -1
    skip_until_ns: int = -1
    threads: dict[int, str] = field(default_factory=dict)


class Replay:
    """Passes records, in order of time, to the state machine.

    Args:
        labels: Numbers the labels of tasks; None leaves labels out.

    Attributes:
        processes: The processes; more can be appended before `define`.
        streams: Their streams; as above.
        origin_ns: The CLOCK_MONOTONIC time that is time 0 of the states.
        locations: The code locations that the processes have defined.
        states: The state machine.
        lost: Ranges of time in which events were lost.
        anomalies: Problems of the records.
    """

    def __init__(self, labels: Labels | None = None) -> None:
        self.processes: list[ReplayedProcess] = []
        self.streams: list[ReplayedStream] = []
        self.origin_ns = 0
        self.locations: DefinedLocations = DefinedLocations()
        self.states: TaskStates = task_states()
        self.lost: list[tuple[int, int]] = []
        self.anomalies: Anomalies = Anomalies()
        self._labels = labels

    def define(self) -> None:
        """Add the new processes, streams and code locations to the state machine."""
        for number, process in enumerate(self.processes):
            self.locations.add(number, process.locations)
        keys = [(process.pid, process.incarnation) for process in self.processes]
        parents = dict(zip(keys, (process.parent for process in self.processes), strict=True))
        owners = np.array([stream.process for stream in self.streams], np.int32)
        self.states.extend(owners, parents_of(keys, parents), *self.locations.columns())

    def run(self, pieces: Sequence[Sequence[Piece]]) -> Iterator[Records]:
        """Replay words of each stream; yield the records after each bounded number of them.

        `anomalies` is complete once all are consumed.
        """
        bases_ns = [stream.base_ns for stream in self.streams]
        for item in merged(list(zip(pieces, bases_ns, strict=True))):
            if isinstance(item, Oddities):
                for name, count in item._asdict().items():
                    self.anomalies.add(name, count)
            else:
                self._feed(item)
                yield item

    def finish(self, number: int, now_ns: int | None = None) -> None:
        """End the states of a process; its loops count as busy until `now_ns`, if that is given."""
        end_ns = self.processes[number].last_ns
        self.end_blocks(number, end_ns if now_ns is None else now_ns)
        self.states.finish(number, end_ns + 1 - self.origin_ns)

    def end_blocks(self, number: int, now_ns: int) -> None:
        """Count the present step of each loop of a process as a block until `now_ns`."""
        self.states.end_blocks(number, now_ns - self.origin_ns)

    def owners(self, streams: Int32s | Int64s) -> Int64s:
        """Return the processes of streams."""
        return np.array([stream.process for stream in self.streams], np.int64)[streams]

    def thread_of(self, stream: int, tid: int) -> str:
        """Return a thread's name and number."""
        return f"{self.streams[stream].threads.get(tid, _UNNAMED)} {tid}"

    def is_unnamed(self, stream: int, tid: int) -> bool:
        """Return whether a thread has recorded no name so far."""
        return self.streams[stream].threads.get(tid, _UNNAMED) == _UNNAMED

    def thread_named(self, tid: int) -> str:
        """Return the name and number of the thread that has an id in some process; empty for 0."""
        if not tid:
            return ""
        names = (stream.threads[tid] for stream in self.streams if tid in stream.threads)
        return f"{next(names, _UNNAMED)} {tid}"

    def _feed(self, item: Records) -> None:
        self._note_times(item)
        # Losses are not columns of the kernel: the records are fed in parts, with a call between
        # those before and after each of them.
        between: list[Payload] = []
        for payload in item.payloads(_THREAD, _LOST):
            if payload.kind == _THREAD:
                stream, tid = self.streams[payload.stream], payload.ident
                name = thread_name(payload.data, tid, self.processes[stream.process].pid)
                stream.threads[tid] = name
            else:
                between.append(payload)
        time_ns = item.time_ns - self.origin_ns
        columns = (time_ns, item.stream, item.kind, item.ident, self._labelled(item))
        begin = 0
        if between:
            rank = np.empty(len(item.order), np.int64)
            rank[item.order] = np.arange(len(item.order))
            for payload in sorted(between, key=lambda payload: int(rank[payload.row])):
                end = int(rank[payload.row])
                self.states.feed(*columns, item.order[begin:end])
                begin = end
                self._lose(payload, int(item.time_ns[payload.row]))
        self.states.feed(*columns, item.order[begin:])

    def _note_times(self, item: Records) -> None:
        """Update the last times, and remove the records that were replayed before."""
        for number in np.flatnonzero(np.bincount(item.stream)).tolist():
            stream, rows = self.streams[number], item.stream == number
            if stream.skip_until_ns >= 0:
                item.kind[rows & (item.time_ns <= stream.skip_until_ns)] = 0
            stream.last_ns = max(stream.last_ns, int(item.time_ns[rows].max()))
            process = self.processes[stream.process]
            process.last_ns = max(process.last_ns, stream.last_ns)

    def _labelled(self, item: Records) -> npt.NDArray[np.uint32]:
        """Return the high numbers of records; those of labels are the numbers of their texts."""
        (rows, _, _), texts = item.columns(_LABEL)
        if not len(rows):
            return item.aux
        aux = item.aux.copy()
        if self._labels is None:
            aux[rows] = NO_LABEL
        else:
            aux[rows] = [self._labels.number(text) for text in texts]
        return aux

    def _lose(self, payload: Payload, time_ns: int) -> None:
        stream = self.streams[payload.stream]
        loss = Loss.parse(payload.data, time_ns - stream.base_ns)
        if loss is None:
            return
        stream.lost += loss.events
        from_ns, until_ns = (t + stream.base_ns - self.origin_ns for t in loss[1:])
        self.lost.append((from_ns, until_ns))
        self.states.lost(payload.stream, from_ns)


def thread_name(data: bytes, tid: int, pid: int) -> str:
    """Return a thread's name; a thread that began before the recording did has recorded none."""
    return data.decode("utf-8", "replace") or ("MainThread" if tid == pid else _UNNAMED)
