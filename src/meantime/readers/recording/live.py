"""Follows a growing recording: each update reads only the records that are new."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.kernels.record_kinds import KINDS
from meantime.kernels.records import count
from meantime.kernels.tasks import BLOCKED_AFTER_NS, CALLBACK, TASK
from meantime.model.anomalies import Anomalies
from meantime.model.columns import distinct
from meantime.providers.tasks import GROUPS
from meantime.readers.recording.activity import Activity
from meantime.readers.recording.blocks import Block
from meantime.readers.recording.facts import Facts, add_facts
from meantime.readers.recording.lag import Lag
from meantime.readers.recording.listing import Unwritten, open_recording
from meantime.readers.recording.pieces import FilePiece, taken
from meantime.readers.recording.replay import Replay, ReplayedProcess, ReplayedStream
from meantime.readers.recording.streams import facts_words, stream_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.readers.recording.listing import Process, StreamFiles
    from meantime.readers.recording.merge import Records
    from meantime.readers.recording.pieces import Piece, StreamWords

__all__ = ["LiveActivity"]

_MANY = 100_000
_MAX_ERROR = 4096
_IO_WAIT, _BLOCKED = KINDS["IO_WAIT"], KINDS["BLOCKED"]
# a writer removes the record of a shorter wait; longer than that, as it may be interrupted
_REMOVABLE_NS = 1_000_000


@dataclass(slots=True)
class _KnownProcess:
    number: int
    facts: Facts
    facts_read: int = 0


@dataclass(slots=True)
class _KnownStream:
    number: int
    read: int = 0
    tail_slot: int = 0


class LiveActivity:
    """A recording's activity so far.

    Args:
        path: The recording's directory.

    Attributes:
        activity: The sums.
        longest: The longest block of a loop, if there was any.
        is_live: Whether a process was still being recorded, on this machine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._processes: dict[tuple[int, int], _KnownProcess] = {}
        self._streams: dict[tuple[int, int, int], _KnownStream] = {}
        self._replay = Replay()
        self._replay.states.watch_blocks(0)
        self._file_anomalies = Anomalies()
        self._elided = Anomalies()
        self._unwritten = Unwritten()
        self._entities = 0
        self._began_ns = 0
        # the processes and ids of the threads of groups, and that of the longest block
        self._threads: dict[int, tuple[int, int]] = {}
        self._longest_thread: tuple[int, int] | None = None
        # groups of threads without a name so far: their streams and thread ids
        self._unnamed: dict[int, tuple[int, int]] = {}
        self.activity: Activity = Activity()
        self.longest: Block | None = None
        self.is_live: bool = False

    @property
    def duration_ns(self) -> int:
        """The time from the recording's begin to the last record that was read."""
        last_ns = max((stream.last_ns for stream in self._replay.streams), default=-1)
        return 0 if last_ns < 0 else last_ns + 1 - self._replay.origin_ns

    @property
    def lost(self) -> int:
        """The number of events that could not be recorded."""
        # a tail also counts losses that its stream has not reported yet
        streams = self._replay.streams
        lost = sum(max(stream.lost, stream.lost_by_tail) for stream in streams)
        return lost + self._unwritten.events

    @property
    def anomalies(self) -> Anomalies:
        """The problems of the recording so far."""
        found = Anomalies()
        found.update(self._file_anomalies)
        found.update(self._elided)
        found.add("records_lost", self.lost)
        processes = self._processes.values()
        rotated = sum(slots for process in processes for slots, _, _ in process.facts.rotated)
        found.add("records_rotated", rotated)
        found.add("definitions_lost", self._unwritten.facts)
        return found

    @property
    def lags(self) -> list[tuple[str, Lag]]:
        """The threads of event loops, and how late these were."""
        return [
            (self.activity.name_of(entity)[1], Lag.of(late, turns))
            for entity, late, turns in self._replay.states.lags_counted()
        ]

    @property
    def failure(self) -> str:
        """Why the first file could not be opened or written; empty if all could."""
        error = self._unwritten.error
        return os.strerror(error) if 0 < error < _MAX_ERROR else ""

    @property
    def unrecognised(self) -> list[str]:
        """Sentences about what is not recorded of libraries whose version is not known."""
        processes = self._processes.values()
        return sorted(set().union(*(each.facts.unrecognised for each in processes)))

    @property
    def unwatched(self) -> list[str]:
        """Why the waits of threads are not recorded, for each reason."""
        processes = self._processes.values()
        return sorted({each.facts.unwatched for each in processes} - {""})

    @property
    def is_sampled(self) -> bool:
        """Whether it contains samples."""
        return any(process.facts.period_ns for process in self._processes.values())

    def update(self) -> None:
        """Read the records that were written since the last call.

        Raises:
            InputError: If it is not a recording, or one of its files is damaged.
        """
        new: dict[int, Sequence[Piece]] = {}
        self._began_ns = time.monotonic_ns()
        files = open_recording(self._path)
        self._file_anomalies, self._unwritten = files.anomalies, files.unwritten
        if not self._processes:
            bases_ns = [each.base_ns for each in files.processes if each.base_ns is not None]
            self._replay.origin_ns = min(bases_ns, default=0)
        for process in files.processes:
            if self._read_facts(process):
                for stream in process.streams.values():
                    self._read_stream(process, stream, new)
                # what these records refer to may have been defined meanwhile
                self._read_facts(process)
        self._replay.define()
        for item in self._replay.run([new.get(at, ()) for at in range(len(self._replay.streams))]):
            self._take()
            self._add_late_stacks(item)
            self._forget_ended()
        running = [process for process in files.processes if _runs(process, files.description)]
        self.is_live = bool(running)
        for process in running:
            known = self._processes.get((process.pid, process.incarnation))
            if known is not None:
                # a loop that is blocked now writes no record: count its block until now
                self._replay.end_blocks(known.number, self._began_ns)
        self._take()
        self._replay.lost.clear()

    def finish(self) -> None:
        """End all states at the last record, since no more will follow."""
        for number in range(len(self._replay.processes)):
            self._replay.finish(number)
        self._take()
        # threads whose end was not recorded
        self.activity.end(self.duration_ns)

    def _read_facts(self, process: Process) -> bool:
        """Read a process's new facts; return whether its base time is known."""
        key = process.pid, process.incarnation
        found = facts_words(process, self._elided)
        if key not in self._processes:
            if process.base_ns is None:
                return False
            parent = (0, 0) if found is None else found[0].parent
            facts = Facts(process.base_ns, None, parent)
            self._processes[key] = _KnownProcess(len(self._replay.processes), facts)
            self._replay.processes.append(
                ReplayedProcess(*key, parent, facts.locations, process.base_ns)
            )
        known = self._processes[key]
        if found is not None:
            new, known.facts_read = _unread(found[1], known.facts_read, 0)
            add_facts(known.facts, new)
        return True

    def _read_stream(
        self, process: Process, files: StreamFiles, new: dict[int, Sequence[Piece]]
    ) -> None:
        words = stream_words(files, self._elided)
        if words.base_ns is None:
            return
        key = process.pid, process.incarnation, files.number
        if key not in self._streams:
            owner = self._processes[key[:2]]
            self._streams[key] = _KnownStream(len(self._replay.streams))
            self._replay.streams.append(ReplayedStream(owner.number, owner.facts.base_ns))
        known = self._streams[key]
        stream = self._replay.streams[known.number]
        # slots can have been reused for other records: then times show which ones are new
        stream.skip_until_ns = -1
        if words.is_ring:
            stream.skip_until_ns = stream.last_ns
            new[known.number] = words.pieces
        else:
            if self._has_lost(process, words, stream):
                stream.skip_until_ns = stream.last_ns
                known.read = min(known.read, known.tail_slot)
            unread, known.read = _unread(words.pieces, known.read, words.missing_slots)
            if words.tail_slot is not None:
                known.read -= _hold_back(unread, self._began_ns - stream.base_ns)
            new[known.number] = unread
            known.tail_slot = known.read if words.tail_slot is None else words.tail_slot
        stream.lost_by_tail = words.lost_events

    def _has_lost(self, process: Process, words: StreamWords, stream: ReplayedStream) -> bool:
        """Return whether events of a stream's tail may have been lost after they were read.

        If so, later events have the same slot numbers.
        """
        if words.tail_slot is not None:
            return words.lost_events != stream.lost_by_tail
        closed = self._processes[process.pid, process.incarnation].facts.closed
        return closed is None or closed.lost > 0

    def _take(self) -> None:
        self._name_threads()
        self._name_entities()
        time_ns, entity, state, _ = self._replay.states.take_changes()
        self.activity.add(time_ns, entity, state)
        self._replay.states.take_flows()
        self._replay.states.take_lags()
        blocks = self._replay.states.take_blocks()
        begin_ns, end_ns, _, _, _, _, loop, *_ = blocks
        duration_ns, on_loop = end_ns - begin_ns, loop >= 0
        groups = self.activity.group_of(loop[on_loop])
        self.activity.note_longest(groups, duration_ns[on_loop])
        if len(duration_ns):
            at = int(duration_ns.argmax())
            self._note_block([column.item(at) for column in blocks])
            self._watch_blocks()

    def _watch_blocks(self) -> None:
        # a shorter one is nobody's longest any more, but of a loop that begins from now on
        self._replay.states.watch_blocks(self.activity.least_longest_loop(), self._entities)

    def _forget_ended(self) -> None:
        """Keep memory in proportion to the tasks that exist, however many have ended."""
        known, there = self.activity.entities
        if known > _MANY + 4 * there:
            self.activity.keep(self._replay.states.forget_ended())
            self._entities = self.activity.entities[0]
            self._watch_blocks()

    def _note_block(self, block: list[int]) -> None:
        begin_ns, end_ns, waited_ns, gil_ns, code_ns, off_ns, *whose, code, holder = block
        loop, task, resumed, paused = whose
        ran = self._replay.locations.all[code] if code >= 0 else None
        if self.longest is None or end_ns - begin_ns > self.longest.duration_ns:
            self.longest = Block(
                begin_ns,
                end_ns,
                self.activity.name_of(loop) if loop >= 0 else None,
                self.activity.name_of(task) if task >= 0 else None,
                self._location(resumed),
                self._location(paused),
                self.activity.has("Tasks"),
                waited_ns,
                "" if ran is None else ran.code,
                "" if ran is None else ran.calls,
                code_ns,
                gil_ns,
                self._replay.thread_named(holder),
                off_ns,
            )
            self._longest_thread = None
            if loop >= 0:
                (group,) = self.activity.group_of(np.array([loop], np.int32)).tolist()
                self._longest_thread = self._threads[group]

    def _add_late_stacks(self, item: Records) -> None:
        """Add the code of the longest block, if its stack was read after its end."""
        longest = self.longest
        if longest is None or longest.code_ns >= 0:
            return
        # of several, the last is of the longest part
        for row in np.flatnonzero(item.kind == _BLOCKED)[::-1].tolist():
            time_ns = int(item.time_ns[row]) - self._replay.origin_ns
            process = self._replay.streams[int(item.stream[row])].process
            is_its = (process, int(item.ident[row])) == self._longest_thread
            if is_its and longest.begin_ns + BLOCKED_AFTER_NS <= time_ns <= longest.end_ns:
                stack = self._facts_of(process).stack(int(item.aux[row]))
                if stack is not None and stack.function:
                    self.longest = longest._replace(
                        code=stack.code, calls=stack.calls, code_ns=time_ns
                    )
                    return

    def _facts_of(self, process: int) -> Facts:
        replayed = self._replay.processes[process]
        return self._processes[replayed.pid, replayed.incarnation].facts

    def _location(self, tag: int) -> str:
        return self._replay.locations.all[tag].location if tag >= 0 else ""

    def _name_entities(self) -> None:
        what, owner, ident, location = self._replay.states.entities_since(self._entities)
        self._entities += len(what)
        groups = np.empty(len(what), np.int64)
        by_site = (what == TASK) | (what == CALLBACK)
        for kind in (TASK, CALLBACK):
            of_kind = what == kind
            for tag in distinct(location[of_kind]).tolist():
                known = self._replay.locations.all[tag] if tag >= 0 else None
                site = "" if known is None else known.site if kind == TASK else known.code
                group = self.activity.group((GROUPS[kind], site or "unknown"))
                groups[of_kind & (location == tag)] = group
        for row in np.flatnonzero(~by_site).tolist():
            stream, tid = int(owner[row]), int(ident[row])
            group = self.activity.group((GROUPS[int(what[row])], self._thread(stream, tid)))
            self._threads[group] = self._replay.streams[stream].process, tid
            if self._replay.is_unnamed(stream, tid):
                self._unnamed[group] = stream, tid
            groups[row] = group
        self.activity.enter(groups)

    def _name_threads(self) -> None:
        """Rename the groups of threads whose names were recorded after their first states.

        A thread whose first state is a wait for the GIL cannot read its name before the wait ends.
        """
        for group, (stream, tid) in list(self._unnamed.items()):
            if not self._replay.is_unnamed(stream, tid):
                name = self.activity.name_of_group(group)[0], self._thread(stream, tid)
                self.activity.rename(group, name)
                self._threads[self.activity.group(name)] = self._threads[group]
                del self._unnamed[group]

    def _thread(self, stream: int, tid: int) -> str:
        name = self._replay.thread_of(stream, tid)
        if len(self._processes) > 1:
            process = self._replay.processes[self._replay.streams[stream].process]
            name = f"{process.pid} {name}"
        return name


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


def _hold_back(pieces: list[npt.NDArray[np.uint64]], began_ns: int) -> int:
    """Remove a last record that its writer may still remove; return how many slots that are.

    Args:
        pieces: The records that were read.
        began_ns: When reading began: that it took long does not make a wait long.
    """
    if not pieces or not len(pieces[-1]):
        return 0
    word = int(pieces[-1][-2])
    if word & 255 != _IO_WAIT or began_ns - (word >> 8) > _REMOVABLE_NS:
        return 0
    pieces[-1] = pieces[-1][:-2]
    return 1


def _unread(
    pieces: Sequence[Piece], read: int, first: int
) -> tuple[list[npt.NDArray[np.uint64]], int]:
    """Return the whole records after slot `read` of pieces that begin at slot `first`.

    The second value is the slot after them, from which to continue.
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
        first = max(first, end)  # keeps the numbering if a file is missing
    return found, read
