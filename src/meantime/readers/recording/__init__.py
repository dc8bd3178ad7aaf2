"""Recordings of Python programs, `NAME.mtr`: tasks, event loops, pool workers and threads.

The format is specified in docs/reference/recording-format.md. Tasks become `Tasks/<site>/<id>`
with the states of `meantime.kernels.tasks.STATES`, loops `Loops/<thread>`, pool threads
`Workers/<thread>`, other threads `Threads/<thread>`. How a task ended is a state of one
nanosecond, after which it has none. Who woke, spawned or submitted whom are flows.
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from meantime.clocks import Clock
from meantime.kernels.tasks import ENTITIES, FLOWS, STATES, TaskStates
from meantime.readers.recording.blocks import NEVER_NS, Block
from meantime.readers.recording.facts import read_facts
from meantime.readers.recording.files import open_recording, stream_words
from meantime.readers.recording.labels import Labels
from meantime.readers.recording.lanes import lane_of
from meantime.readers.recording.merge import Oddities, merged
from meantime.readers.recording.places import thread_name, wait_state
from meantime.readers.recording.samples import SampledStacks, Sampling
from meantime.trace import Flows, StateChanges, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.files import Piece, RecordingFiles
    from meantime.readers.recording.merge import Payload, Records
    from meantime.readers.recording.places import Place
    from meantime.trace import Batch

__all__ = ["FORMAT", "Reading", "read"]

FORMAT = "recording"

_NAME, _LABEL, _THREAD, _LOST, _CALLED = 128, 129, 130, 134, 138
_CLOCK = 51
_MAX_ANCHORS = 1000
_PROCESS, _SAMPLED = ENTITIES.index("process"), ENTITIES.index("sampled thread")


def read(path: str | os.PathLike[str], *, growing: bool = False) -> Trace:
    """Return the trace that a recording's directory holds, also while it is being written.

    At the end of a process nothing more is known of its tasks and threads, so they are in no
    state from there on; with `growing`, they keep the state they are in.

    Raises:
        InputError: If it is not a recording, or a file of it is not what it should be.
    """
    return Reading(Path(path), growing=growing).trace


class Reading:
    """One pass over a recording: the tables it needs, and the trace that it fills.

    Args:
        recording: The recording's directory, or what has been opened of it already.
        growing: Whether the program that is recorded still runs, perhaps.
        block_ns: From which length on times are taken note of in which a loop did one thing.
        now_ns: Until when, on CLOCK_MONOTONIC, loops did what they do at the recording's end.
    """

    def __init__(
        self,
        recording: Path | RecordingFiles,
        *,
        growing: bool = False,
        block_ns: int = NEVER_NS,
        now_ns: int | None = None,
    ) -> None:
        self._files = files = (
            open_recording(recording) if isinstance(recording, Path) else recording
        )
        self._growing = growing
        self._block_ns = block_ns
        self._now_ns = now_ns
        self.blocks: list[Block] = []
        self.trace = Trace(str(files.path), FORMAT, self._batches())
        self._facts = {
            (process.pid, process.incarnation): read_facts(process) for process in files.processes
        }
        known = [facts for facts in self._facts.values() if facts]
        self.origin_ns = min((facts.base_ns for facts in known), default=0)
        self._described = 0
        self._lanes: set[str] = set()
        self._thread_names: dict[tuple[int, int], str] = {}
        self._lost: Counter[int] = Counter()
        self._lost_by_tail: list[int] = []
        self._owners: list[int] = []
        self._names: list[tuple[int, int, str]] = []
        self._called: dict[tuple[int, int], str] = {}
        self._sampled: dict[tuple[int, int], int] = {}
        self._labels = Labels(self.trace)
        self._describe()

    def _describe(self) -> None:
        trace, description = self.trace, self._files.description
        trace.values.extend([*STATES, *FLOWS])
        command = description.get("command") or []
        words = [str(word) for word in command]
        trace.facts["command"] = " ".join(words)
        trace.title = " ".join([PurePath(word).name for word in words[:2]] + words[2:])
        utc_ns = [
            facts.realtime_ns
            for facts in self._facts.values()
            if facts and facts.base_ns == self.origin_ns
        ]
        trace.clock = Clock(
            "monotonic",
            host=description.get("host"),
            boot_id=description.get("boot_id"),
            utc_at_origin_ns=utc_ns[0] if utc_ns else None,
        )

    def _batches(self) -> Iterator[Batch]:
        streams = self._open_streams()
        self._tell_places()
        states = TaskStates(np.array(self._owners, np.int32), self._waits, self._offsets)
        states.watch_blocks(self._block_ns)
        sampling = self._open_samples()
        last_ns = [self.origin_ns] * len(self._files.processes)
        for item in merged(streams):
            if isinstance(item, Oddities):
                for name, count in item._asdict().items():
                    self.trace.anomalies.add(name, count)
                continue
            self._feed(states, item)
            self.trace.records += len(item.order)
            for number, end_ns in _ends(item, self._owners):
                last_ns[number] = max(last_ns[number], end_ns)
            sampling.feed(item, item.time_ns - self.origin_ns)
            yield from self._take(states)
            yield from self._take_samples(states, sampling)
        sampling.finish()
        yield from self._take_samples(states, sampling)
        for number, end_ns in enumerate(last_ns):
            states.end_blocks(number, (self._now_ns or end_ns) - self.origin_ns)
            if not self._growing:
                states.finish(number, end_ns + 1 - self.origin_ns)
        yield from self._take(states)
        # a tail counts what its stream may not have come to say
        for stream, lost in enumerate(self._lost_by_tail):
            self.trace.anomalies.add("records_lost", max(lost, self._lost[stream]))
        if streams:
            self.trace.bounds = (0, max(last_ns) + 1 - self.origin_ns)

    def _open_streams(self) -> list[tuple[list[Piece], int]]:
        streams = []
        for number, process in enumerate(self._files.processes):
            facts = self._facts[process.pid, process.incarnation]
            if facts is not None:
                self._tell_rotated(facts)
            for files in process.streams.values():
                words = stream_words(files)
                if words.base_ns is not None:
                    streams.append((words.pieces, words.base_ns))
                    self._owners.append(number)
                    self._lost_by_tail.append(words.lost_events)
        return streams

    def _tell_rotated(self, facts: Facts) -> None:
        since_ns = facts.base_ns - self.origin_ns
        for slots, from_ns, until_ns in facts.rotated:
            self.trace.anomalies.add("records_rotated", slots)
            self.trace.lost.append((from_ns + since_ns, until_ns + since_ns))

    def _open_samples(self) -> Sampling:
        stacks = SampledStacks()
        periods_ns = []
        for process in self._files.processes:
            facts = self._facts[process.pid, process.incarnation]
            stacks.add({} if facts is None else facts.frames, {} if facts is None else facts.stacks)
            periods_ns.append(0 if facts is None else facts.period_ns)
        if any(periods_ns):
            self.trace.stacks = stacks.table()
        return Sampling(self.trace, self._owners, periods_ns, stacks)

    def _tell_places(self) -> None:
        waits: list[int] = []
        offsets = [0]
        for process in self._files.processes:
            places = self._places_of((process.pid, process.incarnation))
            for ident in range(max(places, default=0) + 1):
                place = places.get(ident)
                waits.append(STATES.index("waiting") if place is None else wait_state(place))
                self.trace.tags.append({} if place is None else dict(place.fields()))
            offsets.append(len(waits))
        self._waits = np.array(waits, np.int8)
        self._offsets = np.array(offsets, np.int64)

    def _places_of(self, key: tuple[int, int]) -> dict[int, Place]:
        """Return the places of a process; a forked one goes on with its parent's."""
        places: dict[int, Place] = {}
        facts = self._facts.get(key)
        seen = set()
        while facts is not None and key not in seen:
            seen.add(key)
            places = facts.places | places
            key = facts.parent
            facts = self._facts.get(key)
        return places

    def _feed(self, states: TaskStates, item: Records) -> None:
        time_ns = item.time_ns - self.origin_ns
        # some mean something at their place among the others
        placed: list[Payload] = []
        for payload in item.payloads:
            kind = int(item.kind[payload.row])
            if kind == _NAME:
                text = payload.data.decode("utf-8", "replace")
                process = self._owners[payload.stream]
                self._names.append((process, int(item.ident[payload.row]), text))
            elif kind == _THREAD:
                tid = int(item.ident[payload.row])
                pid = self._files.processes[self._owners[payload.stream]].pid
                name = thread_name(payload.data, tid, pid)
                self._thread_names[payload.stream, tid] = f"{name} {tid}"
                if payload.data:
                    self._called[self._owners[payload.stream], tid] = name
            elif kind == _CALLED:
                key = (self._owners[payload.stream], int(item.ident[payload.row]))
                self._called[key] = payload.data.decode("utf-8", "replace")
            elif kind == _LABEL or (kind == _LOST and len(payload.data) >= _LOSS.size):
                placed.append(payload)
        begin = 0
        if placed:
            place = np.empty(len(item.order), np.int64)
            place[item.order] = np.arange(len(item.order))
            for payload in sorted(placed, key=lambda payload: int(place[payload.row])):
                at = int(place[payload.row])
                self._feed_rows(states, item, time_ns, begin, at)
                begin = at
                if item.kind[payload.row] == _LABEL:
                    task, label = int(item.ident[payload.row]), self._labels.number(payload.data)
                    process = self._owners[payload.stream]
                    states.label(int(time_ns[payload.row]), process, task, label)
                else:
                    self._lose(states, payload)
        self._feed_rows(states, item, time_ns, begin, len(item.order))
        self._anchor(item)

    def _lose(self, states: TaskStates, payload: Payload) -> None:
        events, from_ns, until_ns = _LOSS.unpack_from(payload.data)
        self._lost[payload.stream] += events
        base_ns = self._base_of(payload.stream)
        from_ns, until_ns = (t + base_ns - self.origin_ns for t in (from_ns, until_ns))
        self.trace.lost.append((from_ns, max(from_ns, until_ns)))
        states.lost(payload.stream, from_ns)

    def _base_of(self, stream: int) -> int:
        process = self._files.processes[self._owners[stream]]
        facts = self._facts[process.pid, process.incarnation]
        return facts.base_ns if facts else self.origin_ns

    def _feed_rows(
        self,
        states: TaskStates,
        item: Records,
        time_ns: npt.NDArray[np.int64],
        begin: int,
        end: int,
    ) -> None:
        states.feed(time_ns, item.stream, item.kind, item.ident, item.aux, item.order[begin:end])

    def _anchor(self, item: Records) -> None:
        clock = self.trace.clock
        rows = np.flatnonzero(item.kind == _CLOCK)[: _MAX_ANCHORS - len(clock.anchors)]
        if len(rows):
            utc = item.ident[rows].astype(np.int64) | item.aux[rows].astype(np.int64) << 32
            pairs = zip((item.time_ns[rows] - self.origin_ns).tolist(), utc.tolist(), strict=True)
            anchors = tuple(sorted([*clock.anchors, *pairs]))
            self.trace.clock = Clock(
                clock.kind, clock.host, clock.boot_id, clock.utc_at_origin_ns, anchors
            )

    def _take(self, states: TaskStates) -> Iterator[Batch]:
        self._name_entities(states)
        self._take_blocks(states)
        labels = states.take_labels()
        time_ns, entity, state, tag = states.take_changes()
        if labels is not None:
            tag = self._labels.tags(tag, labels)
        if len(time_ns):
            yield StateChanges(time_ns, entity, state, tag)
        flows = states.take_flows()
        if len(flows[0]):
            yield Flows(*flows[:4], flows[4] + np.int32(len(STATES)))

    def _take_blocks(self, states: TaskStates) -> None:
        paths, tags = self.trace.paths, self.trace.tags
        for begin_ns, end_ns, loop, task, *places in zip(
            *(column.tolist() for column in states.take_blocks()), strict=True
        ):
            resumed, paused = (
                str(tags[tag].get("location", "")) if tag >= 0 else "" for tag in places
            )
            self.blocks.append(
                Block(
                    begin_ns,
                    end_ns,
                    paths[loop] if loop >= 0 else None,
                    paths[task] if task >= 0 else None,
                    resumed,
                    paused,
                )
            )

    def _name_entities(self, states: TaskStates) -> None:
        what, owner, ident, place = states.entities_since(self._described).tolist()
        self._described = states.entity_count()
        for kind, number, name, tag in zip(what, owner, ident, place, strict=True):
            if kind in (_PROCESS, _SAMPLED):
                whole = ("Processes", str(self._files.processes[number].pid))
                own = () if kind == _PROCESS else ("Threads", str(name))
                self.trace.paths.append((*whole, *own))
                continue
            group = f"{ENTITIES[kind].capitalize()}s"
            if group not in self._lanes:
                self._lanes.add(group)
                self.trace.lanes.append(lane_of(group))
            if group == "Tasks":
                self.trace.paths.append((group, self._site(tag), self._task_id(number, name)))
            else:
                self.trace.paths.append((group, self._thread(number, name)))
        for process, number, text in self._names:
            if (entity := states.task_entity(process, number)) >= 0:
                self.trace.names[entity] = text
        self._names.clear()

    def _take_samples(self, states: TaskStates, sampling: Sampling) -> Iterator[Batch]:
        for process, tid in sorted(sampling.threads() - self._sampled.keys()):
            if (process, 0) not in self._sampled:
                self._sampled[process, 0] = states.add_process(process)
                self.trace.names[self._sampled[process, 0]] = self._command(process)
            self._sampled[process, tid] = states.add_sampled_thread(process, tid)
        self._name_entities(states)
        for process, tid in self._sampled:
            if name := self._called.get((process, tid)):
                self.trace.names[self._sampled[process, tid]] = name

        def name_of(process: int, tid: int, task: int) -> str:
            entity = states.task_entity(process, task) if task else -1
            if entity >= 0:
                return str(self.trace.paths[entity][1])
            return self._called.get((process, tid), f"thread {tid}")

        yield from sampling.take(self._sampled, name_of)

    def _command(self, process: int) -> str:
        words = self._files.processes[process].facts.get("argv") or ["python"]
        return " ".join(PurePath(str(word)).name for word in words[:2])

    def _site(self, tag: int) -> str:
        fields = self.trace.tags[tag] if tag >= 0 else {}
        name = str(fields.get("coroutine", "unknown"))
        return f"{name} ({fields['location']})" if "location" in fields else name

    def _task_id(self, process: int, ident: int) -> str:
        if len(self._files.processes) == 1:
            return str(ident)
        return f"{self._files.processes[process].pid}.{ident}"

    def _thread(self, stream: int, tid: int) -> str:
        name = self._thread_names.get((stream, tid), f"thread {tid}")
        if len(self._files.processes) == 1:
            return name
        return f"{self._files.processes[self._owners[stream]].pid} {name}"


_LOSS = struct.Struct("<QQQ")


def _ends(item: Records, owners: list[int]) -> Iterator[tuple[int, int]]:
    for stream in np.unique(item.stream).tolist():
        yield owners[stream], int(item.time_ns[item.stream == stream].max())
