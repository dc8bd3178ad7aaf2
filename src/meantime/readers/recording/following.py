"""A recording that grows, read on from where it was read to: what is new is what it costs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.anomalies import Anomalies
from meantime.kernels.record_kinds import KINDS
from meantime.kernels.records import count
from meantime.kernels.tasks import ENTITIES, TaskStates
from meantime.readers.recording.activity import Activity
from meantime.readers.recording.blocks import Block
from meantime.readers.recording.facts import Facts, Loss, add_facts
from meantime.readers.recording.files import (
    FilePiece,
    Unwritten,
    facts_words,
    open_recording,
    stream_words,
    taken,
)
from meantime.readers.recording.merge import Oddities, merged
from meantime.readers.recording.places import DefinedPlaces, parents_of, thread_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.readers.recording.files import Piece, Process, StreamFiles
    from meantime.readers.recording.merge import Payload, Records

__all__ = ["Following"]

_THREAD, _LOST = KINDS["THREAD"], KINDS["LOST"]
_TASK, _LOOP = ENTITIES.index("task"), ENTITIES.index("loop")
_MANY = 100_000
_MAX_ERROR = 4096


@dataclass(slots=True)
class _Process:
    pid: int
    facts: Facts
    facts_read: int = 0
    last_ns: int = 0


@dataclass(slots=True)
class _Stream:
    process: int
    base_ns: int
    read: int = 0
    last_ns: int = -1
    lost: int = 0
    lost_by_tail: int = 0
    is_ring: bool = False
    threads: dict[int, str] = field(default_factory=dict)


class Following:
    """A recording's activity up to now.

    Args:
        path: The recording's directory.

    Attributes:
        activity: The sums.
        longest: The longest time in which a loop did one thing, if there was any.
        duration_ns: From the recording's begin to the last that it tells.
        is_live: Whether a process was still being recorded, on this machine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._processes: dict[tuple[int, int], _Process] = {}
        self._streams: dict[tuple[int, int, int], _Stream] = {}
        self._defined = DefinedPlaces()
        self._file_anomalies = Anomalies()
        self._gone = Anomalies()
        self._unwritten = Unwritten()
        self._origin_ns = 0
        self._entities = 0
        nothing = np.empty(0, np.int32)
        self._states = TaskStates(nothing, nothing, *self._defined.columns())
        self._states.watch_blocks(0)
        self.activity = Activity()
        self.longest: Block | None = None
        self.duration_ns = 0
        self.is_live = False

    @property
    def lost(self) -> int:
        """How many events could not be recorded."""
        # a tail counts what its stream may not have come to say
        lost = sum(max(stream.lost, stream.lost_by_tail) for stream in self._streams.values())
        return lost + self._unwritten.events

    @property
    def anomalies(self) -> Anomalies:
        """What is wrong with the recording so far."""
        found = Anomalies()
        found.update(self._file_anomalies)
        found.update(self._gone)
        found.add("records_lost", self.lost)
        processes = self._processes.values()
        rotated = sum(slots for process in processes for slots, _, _ in process.facts.rotated)
        found.add("records_rotated", rotated)
        found.add("definitions_lost", self._unwritten.facts)
        return found

    @property
    def failure(self) -> str:
        """Why the first file could not be opened or written; empty if all could."""
        error = self._unwritten.error
        return os.strerror(error) if 0 < error < _MAX_ERROR else ""

    @property
    def is_sampled(self) -> bool:
        """Whether there are samples in it."""
        return any(process.facts.period_ns for process in self._processes.values())

    def update(self) -> None:
        """Read what has been written since the last time.

        Raises:
            InputError: If it is not a recording, or a file of it is not what it should be.
        """
        new: dict[tuple[int, int, int], Sequence[Piece]] = {}
        now_ns = time.monotonic_ns()
        files = open_recording(self._path)
        self._file_anomalies, self._unwritten = files.anomalies, files.unwritten
        if not self._processes:
            bases_ns = [each.base_ns for each in files.processes if each.base_ns is not None]
            self._origin_ns = min(bases_ns, default=0)
        for process in files.processes:
            if self._read_facts(process):
                for stream in process.streams.values():
                    self._read_stream(process, stream, new)
        self._tell_places()
        streams = list(self._streams.items())
        for item in merged([(new.get(key, []), stream.base_ns) for key, stream in streams]):
            if not isinstance(item, Oddities):
                self._feed(item, [stream for _, stream in streams])
                self._take()
                self._forget_ended()
        keys = list(self._processes)
        running = [process for process in files.processes if _runs(process, files.description)]
        self.is_live = bool(running)
        for process in running:
            if (process.pid, process.incarnation) in keys:
                # a loop that is blocked now writes nothing; what it had done by then has been read
                number = keys.index((process.pid, process.incarnation))
                self._states.end_blocks(number, now_ns - self._origin_ns)
        self._take()

    def finish(self) -> None:
        """Take note that all has ended: what is going on counts until the last that is told."""
        for number, process in enumerate(self._processes.values()):
            last_ns = process.last_ns - self._origin_ns
            self._states.end_blocks(number, last_ns)
            self._states.finish(number, last_ns)
        self._take()

    def _read_facts(self, process: Process) -> bool:
        """Read on in a process's facts; return whether anything is known of it."""
        key = process.pid, process.incarnation
        found = facts_words(process, self._gone)
        if key not in self._processes:
            if process.base_ns is None:
                return False
            parent = (0, 0) if found is None else found[0].parent
            facts = Facts(process.base_ns, None, parent)
            self._processes[key] = _Process(process.pid, facts, last_ns=process.base_ns)
        known = self._processes[key]
        if found is not None:
            new, known.facts_read = _unread(found[1], known.facts_read, 0)
            add_facts(known.facts, new)
        return True

    def _read_stream(
        self, process: Process, files: StreamFiles, new: dict[tuple[int, int, int], Sequence[Piece]]
    ) -> None:
        words = stream_words(files, self._gone)
        if words.base_ns is None:
            return
        key = process.pid, process.incarnation, files.number
        if key not in self._streams:
            number = list(self._processes).index(key[:2])
            base_ns = self._processes[key[:2]].facts.base_ns
            self._streams[key] = _Stream(number, base_ns, is_ring=words.is_ring)
        stream = self._streams[key]
        stream.lost_by_tail = words.lost_events
        if words.is_ring:
            # it moves on under the reader, so its records are told apart by their times
            new[key] = words.pieces
        else:
            new[key], stream.read = _unread(words.pieces, stream.read, words.missing_slots)

    def _tell_places(self) -> None:
        for number, process in enumerate(self._processes.values()):
            self._defined.add(number, process.facts.places)
        parents = {key: process.facts.parent for key, process in self._processes.items()}
        owners = [stream.process for stream in self._streams.values()]
        self._states.extend(
            np.array(owners, np.int32),
            parents_of(list(self._processes), parents),
            *self._defined.columns(),
        )

    def _feed(self, item: Records, streams: list[_Stream]) -> None:
        losses: list[Payload] = []
        for payload in item.payloads:
            kind, stream = int(item.kind[payload.row]), streams[payload.stream]
            if kind == _THREAD:
                tid = int(item.ident[payload.row])
                stream.threads[tid] = thread_name(payload.data, tid, self._pid_of(stream))
            elif kind == _LOST:
                losses.append(payload)
        for number in np.unique(item.stream).tolist():
            stream, of_stream = streams[number], item.stream == number
            if stream.is_ring:
                item.kind[of_stream & (item.time_ns <= stream.last_ns)] = 0
            stream.last_ns = max(stream.last_ns, int(item.time_ns[of_stream].max()))
            process = list(self._processes.values())[stream.process]
            process.last_ns = max(process.last_ns, stream.last_ns)
            self.duration_ns = max(self.duration_ns, stream.last_ns + 1 - self._origin_ns)
        begin, place = 0, np.empty(len(item.order), np.int64)
        place[item.order] = np.arange(len(item.order))
        for payload in sorted(losses, key=lambda payload: int(place[payload.row])):
            if item.kind[payload.row]:
                begin = self._feed_rows(item, begin, int(place[payload.row]))
                stream = streams[payload.stream]
                loss = Loss.parse(payload.data, int(item.time_ns[payload.row]) - stream.base_ns)
                if loss is not None:
                    stream.lost += loss.events
                    from_ns = loss.from_ns + stream.base_ns - self._origin_ns
                    self._states.lost(payload.stream, from_ns)
        self._feed_rows(item, begin, len(item.order))

    def _feed_rows(self, item: Records, begin: int, end: int) -> int:
        columns = item.stream, item.kind, item.ident, item.aux, item.order[begin:end]
        self._states.feed(item.time_ns - self._origin_ns, *columns)
        return end

    def _take(self) -> None:
        self._name_entities()
        time_ns, entity, state, _ = self._states.take_changes()
        self.activity.add(time_ns, entity, state)
        self._states.take_flows()
        blocks = self._states.take_blocks()
        begin_ns, end_ns, loop, *_ = blocks
        duration_ns, on_loop = end_ns - begin_ns, loop >= 0
        groups = self.activity.group_of(loop[on_loop])
        self.activity.note_longest(groups, duration_ns[on_loop])
        if len(duration_ns):
            at = int(duration_ns.argmax())
            self._note_block([column.item(at) for column in blocks])
            # a shorter one is nobody's longest any more
            self._states.watch_blocks(self.activity.least_longest_loop())

    def _forget_ended(self) -> None:
        """Hold no more than what is there needs, however many tasks there have been."""
        known, there = self.activity.entities
        if known > _MANY + 4 * there:
            self.activity.keep(self._states.forget_ended())
            self._entities = self.activity.entities[0]

    def _note_block(self, block: list[int]) -> None:
        begin_ns, end_ns, loop, task, resumed, paused = block
        if self.longest is None or end_ns - begin_ns > self.longest.duration_ns:
            self.longest = Block(
                begin_ns,
                end_ns,
                self.activity.name_of(loop) if loop >= 0 else None,
                self.activity.name_of(task) if task >= 0 else None,
                self._location(resumed),
                self._location(paused),
                self.activity.has("Tasks"),
            )

    def _location(self, place: int) -> str:
        return self._defined.places[place].location if place >= 0 else ""

    def _pid_of(self, stream: _Stream) -> int:
        return list(self._processes.values())[stream.process].pid

    def _name_entities(self) -> None:
        what, owner, ident, place = self._states.entities_since(self._entities)
        self._entities += len(what)
        groups = np.empty(len(what), np.int64)
        tasks = what == _TASK
        for site in np.unique(place[tasks]).tolist():
            name = ("Tasks", self._defined.places[site].site if site >= 0 else "unknown")
            groups[tasks & (place == site)] = self.activity.group(name)
        streams = list(self._streams.values())
        for row in np.flatnonzero(~tasks).tolist():
            kind = f"{ENTITIES[what[row]].capitalize()}s"
            stream, tid = streams[owner[row]], int(ident[row])
            name = kind, f"{stream.threads.get(tid, 'thread')} {tid}"
            if len(self._processes) > 1:
                name = kind, f"{self._pid_of(stream)} {name[1]}"
            groups[row] = self.activity.group(name)
        self.activity.enter(groups)


def _runs(process: Process, description: dict[str, Any]) -> bool:
    """Return whether a process is being recorded, on this machine."""
    if not any(stream.tail is not None for stream in process.streams.values()):
        return False
    boot = Path("/proc/sys/kernel/random/boot_id")
    return (
        Path(f"/proc/{process.pid}").exists()
        and boot.exists()
        and boot.read_text(encoding="ascii").strip() == description.get("boot_id")
    )


def _unread(
    pieces: Sequence[Piece], read: int, first: int
) -> tuple[list[npt.NDArray[np.uint64]], int]:
    """Return the whole records after slot `read` of pieces that begin at slot `first`.

    With them comes the slot after them, to go on from.
    """
    found = []
    for piece in pieces:
        rest: Piece | None = piece
        end = first
        if isinstance(piece, FilePiece):
            end += piece.slots
            known = min(max(0, read - first), piece.slots)
            first += known
            rest = piece._replace(begin=piece.begin + known)
        while rest is not None:
            words, rest = taken(rest)
            slots = len(words) // 2
            if first + slots > read:
                begin = max(0, read - first)
                used = count(words[begin * 2 :], slots)[2]
                found.append(words[begin * 2 : begin * 2 + used])
                read = first + begin + used // 2
            first += slots
        first = max(first, end)  # also where a file is gone
    return found, read
