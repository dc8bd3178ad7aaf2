"""Recordings of Python programs, `NAME.mtr`: tasks, event loops, pool workers and threads.

The format is specified in docs/reference/recording-format.md. Tasks become `Tasks/<site>/<id>`
with the states of `meantime.kernels.tasks.STATES`, loops `Loops/<thread>`, pool threads
`Workers/<thread>`, other threads `Threads/<thread>`. How a task ended is a state of one
nanosecond, after which it has none. Who woke, spawned or submitted whom are flows.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from meantime.clocks import Clock
from meantime.kernels.record_kinds import KINDS
from meantime.kernels.tasks import ENTITIES, FLOWS, STATES, TaskStates
from meantime.readers.recording.blocks import NEVER_NS, Block
from meantime.readers.recording.facts import Loss, read_facts
from meantime.readers.recording.files import is_clock_time, open_recording, stream_words
from meantime.readers.recording.labels import Labels
from meantime.readers.recording.lanes import lane_of
from meantime.readers.recording.merge import Oddities, merged
from meantime.readers.recording.places import DefinedPlaces, parents_of, thread_name
from meantime.readers.recording.samples import SampledStacks, Sampling
from meantime.trace import Flows, StateChanges, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.readers.recording.facts import Facts
    from meantime.readers.recording.files import Piece, RecordingFiles
    from meantime.readers.recording.merge import Payload, Records
    from meantime.trace import Batch

__all__ = ["FORMAT", "Reading", "read"]

FORMAT = "recording"

_NAME, _LABEL, _THREAD = KINDS["NAME"], KINDS["LABEL"], KINDS["THREAD"]
_LOST, _CALLED, _CLOCK = KINDS["LOST"], KINDS["CALLED"], KINDS["CLOCK"]
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
            (process.pid, process.incarnation): read_facts(process, files.anomalies)
            for process in files.processes
        }
        known = [facts for facts in self._facts.values() if facts]
        self.origin_ns = min((facts.base_ns for facts in known), default=0)
        self._defined = DefinedPlaces()
        self._described = 0
        self._lanes: set[str] = set()
        self._thread_names: dict[tuple[int, int], str] = {}
        self._lost: Counter[int] = Counter()
        self._lost_by_tail: list[int] = []
        self._paths: Counter[tuple[str, ...]] = Counter()
        self._process_labels = [files.label(process) for process in files.processes]
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
            if facts and facts.base_ns == self.origin_ns and facts.realtime_ns is not None
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
        keys = [(process.pid, process.incarnation) for process in self._files.processes]
        parents = {key: facts.parent for key, facts in self._facts.items() if facts}
        states = TaskStates(
            np.array(self._owners, np.int32), parents_of(keys, parents), *self._defined.columns()
        )
        states.watch_blocks(self._block_ns)
        sampling = self._open_samples()
        last_ns = [self.origin_ns] * len(self._files.processes)
        unfinished = set(range(len(last_ns)))
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
            ended = unfinished - {self._owners[stream] for stream in item.going_on}
            unfinished -= ended
            self._finish(states, ended, last_ns)
            yield from self._take(states)
            yield from self._take_samples(states, sampling)
        sampling.finish()
        yield from self._take_samples(states, sampling)
        self._finish(states, unfinished, last_ns)
        yield from self._take(states)
        self.trace.anomalies.add("undefined_location", states.undefined_places)
        self._count_lost()
        self.trace.anomalies.update(self._files.anomalies)
        if streams:
            self.trace.bounds = (0, max(last_ns) + 1 - self.origin_ns)
        self._tell_unwritten()

    def _finish(self, states: TaskStates, processes: set[int], last_ns: list[int]) -> None:
        """End what the processes did that have no more records, in order of time."""
        for number in sorted(processes, key=lambda number: last_ns[number]):
            end_ns = last_ns[number]
            states.end_blocks(number, (self._now_ns or end_ns) - self.origin_ns)
            if not self._growing or self._is_replaced(number):
                states.finish(number, end_ns + 1 - self.origin_ns)

    def _is_replaced(self, number: int) -> bool:
        """Return whether another process has had the process's id since."""
        processes = self._files.processes
        return number + 1 < len(processes) and processes[number + 1].pid == processes[number].pid

    def _count_lost(self) -> None:
        """Count the events that were lost, of which not all records tell."""
        told: Counter[int] = Counter()
        for stream, lost in enumerate(self._lost_by_tail):
            # a tail counts what its stream may not have come to say
            told[self._owners[stream]] += max(lost, self._lost[stream])
        for number, process in enumerate(self._files.processes):
            facts = self._facts[process.pid, process.incarnation]
            closed = None if facts is None else facts.closed
            lost = told[number] if closed is None else max(told[number], closed.lost)
            self.trace.anomalies.add("records_lost", lost)

    def _tell_unwritten(self) -> None:
        """Count what processes could write nowhere, and tell when that was."""
        closed = [facts.closed for facts in self._facts.values() if facts and facts.closed]
        closed = [each for each in closed if each.unwritten]
        shared = self._files.unwritten
        events = max(shared.events, sum(each.unwritten for each in closed))
        self.trace.anomalies.add("records_lost", events)
        self.trace.anomalies.add("definitions_lost", shared.facts)
        spans = [(each.from_ns, each.until_ns) for each in closed]
        if events and (shared.from_ns, shared.until_ns) not in spans:
            spans.append((shared.from_ns, shared.until_ns))
        for from_ns, until_ns in spans:
            if is_clock_time(until_ns) and self.origin_ns <= from_ns <= until_ns:
                lost = from_ns - self.origin_ns, until_ns - self.origin_ns
                self.trace.lost.append(lost)
                end_ns = 0 if self.trace.bounds is None else self.trace.bounds[1]
                self.trace.bounds = (0, max(end_ns, lost[1] + 1))

    def _open_streams(self) -> list[tuple[list[Piece], int]]:
        streams = []
        for number, process in enumerate(self._files.processes):
            facts = self._facts[process.pid, process.incarnation]
            if facts is not None:
                self._tell_rotated(facts)
            slots = 0
            for files in process.streams.values():
                words = stream_words(files, self._files.anomalies)
                slots += words.slots
                self.trace.anomalies.add("records_missing", words.gaps)
                self.trace.anomalies.add("file_damaged", words.damaged)
                if words.base_ns is not None and process.base_ns is not None:
                    streams.append((words.pieces, process.base_ns))
                    self._owners.append(number)
                    self._lost_by_tail.append(words.lost_events)
            if facts is not None:
                # one that has ended says so in its last fact
                is_cut = facts.closed is None and bool(process.streams) and not process.has_tail
                self.trace.anomalies.add("truncated", facts.truncated + is_cut)
                if facts.closed is not None and facts.closed.slots > slots:
                    self.trace.anomalies.add("records_missing", facts.closed.slots - slots)
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
        if len(table := stacks.table()):
            self.trace.stacks = table
        return Sampling(self.trace, self._owners, periods_ns, stacks)

    def _tell_places(self) -> None:
        for number, process in enumerate(self._files.processes):
            facts = self._facts[process.pid, process.incarnation]
            if facts is not None:
                new = self._defined.add(number, facts.places)
                self.trace.tags.extend(dict(place.fields()) for place in new)

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
            elif kind in (_LABEL, _LOST):
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
                    self._lose(states, payload, int(item.time_ns[payload.row]))
        self._feed_rows(states, item, time_ns, begin, len(item.order))
        self._anchor(item)

    def _lose(self, states: TaskStates, payload: Payload, time_ns: int) -> None:
        base_ns = self._files.processes[self._owners[payload.stream]].base_ns or 0
        loss = Loss.parse(payload.data, time_ns - base_ns)
        if loss is None:
            return
        self._lost[payload.stream] += loss.events
        from_ns, until_ns = (t + base_ns - self.origin_ns for t in loss[1:])
        self.trace.lost.append((from_ns, until_ns))
        states.lost(payload.stream, from_ns)

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
            new = [(time_ns, utc_ns) for time_ns, utc_ns in pairs if is_clock_time(utc_ns)]
            anchors = tuple(sorted([*clock.anchors, *new]))
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
                whole = ("Processes", self._process_labels[number])
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
                path = (group, self._thread(number, name))
                self._paths[path] += 1
                # another thread that has its number and its name
                again = self._paths[path]
                self.trace.paths.append(path if again == 1 else (group, f"{path[1]} #{again}"))
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
        words = self._files.processes[process].facts.get("argv")
        if not isinstance(words, list) or not words:
            words = ["python"]
        return " ".join(PurePath(str(word)).name for word in words[:2])

    def _site(self, tag: int) -> str:
        fields = self.trace.tags[tag] if tag >= 0 else {}
        name = str(fields.get("coroutine", "unknown"))
        return f"{name} ({fields['location']})" if "location" in fields else name

    def _task_id(self, process: int, ident: int) -> str:
        if len(self._files.processes) == 1:
            return str(ident)
        return f"{self._process_labels[process]}.{ident}"

    def _thread(self, stream: int, tid: int) -> str:
        name = self._thread_names.get((stream, tid), f"thread {tid}")
        if len(self._files.processes) == 1:
            return name
        return f"{self._process_labels[self._owners[stream]]} {name}"


def _ends(item: Records, owners: list[int]) -> Iterator[tuple[int, int]]:
    for stream in np.unique(item.stream).tolist():
        yield owners[stream], int(item.time_ns[item.stream == stream].max())
