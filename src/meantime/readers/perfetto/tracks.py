"""Processes, threads and tracks of a trace, as paths.

A thread has its own path below its process. Any other track is in the group of its name below the
process that it or an ancestor belongs to, or below `global`: tracks of one name are drawn together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meantime.model.attribute_paths import async_path, counter_path, process_path, thread_path
from meantime.readers.perfetto.messages import BYTES, VARINT, fields, signed, text_of

if TYPE_CHECKING:
    from meantime.model.attributes import Path
    from meantime.readers.perfetto.messages import Field

__all__ = ["Descriptor", "Tracks"]

GLOBAL = "global"
_DEEPEST = 64
_DEFAULT_TRACK = "Default Track"
_THREAD_COUNTERS = {1: "thread_time", 2: "thread_instruction_count"}
_UNITS = {1: "ns", 2: "count", 3: "bytes"}


@dataclass(slots=True)
class Descriptor:
    """What is known of a track; None and -1 are unknown."""

    name: str | None = None
    parent: int = 0
    pid: int = -1
    tid: int = -1
    is_thread: bool = False
    is_process: bool = False
    is_counter: bool = False
    is_incremental: bool = False
    counter_type: int = 0
    unit: str = ""
    multiplier: int = 1


class Tracks:
    """The tracks, threads and processes that were described so far."""

    def __init__(self) -> None:
        self._tracks: dict[int, Descriptor] = {}
        # by id of a thread, its process and its name; of several the last
        self.process_of: dict[int, int] = {}
        self.thread_names: dict[tuple[int, int], str] = {}
        self.process_names: dict[int, str] = {}
        self.command_lines: dict[int, str] = {}
        self.called: dict[int, str] = {}
        self.sort_keys: dict[int, int] = {}

    def track(self, uuid: int) -> Descriptor:
        """Return a track; an empty description if there is none."""
        return self._tracks.get(uuid) or Descriptor()

    def add_descriptor(self, message: memoryview) -> None:
        """Take a track's description; a later one changes what it names.

        Raises:
            ValueError: If it is malformed.
        """
        found = list(fields(message))
        uuid = next((value for number, wire, value, _ in found if (number, wire) == (1, VARINT)), 0)
        track = self._tracks.setdefault(uuid, Descriptor())
        for number, wire, value, content in found:
            if number in {2, 10, 13} and wire == BYTES:
                track.name = text_of(content)
            elif number == 5 and wire == VARINT:
                track.parent = value
            elif number == 3 and wire == BYTES:
                track.is_process = True
                track.pid = self.add_process(content)
            elif number == 4 and wire == BYTES:
                track.is_thread = True
                track.pid, track.tid = self.add_thread(content)
            elif number == 8 and wire == BYTES:
                track.is_counter = True
                _counter(track, content)

    def add_process(self, message: bytes | memoryview) -> int:
        """Take a process's description, and return its id."""
        pid, name = -1, ""
        words: list[str] = []
        for number, wire, value, content in fields(message):
            if number == 1 and wire == VARINT:
                pid = signed(value)
            elif number == 6 and wire == BYTES:
                name = text_of(content)
            elif number == 2 and wire == BYTES:
                words.append(text_of(content))
        self._name_process(pid, name or _called(words))
        self._add_command(pid, words)
        return pid

    def add_thread(self, message: bytes | memoryview) -> tuple[int, int]:
        """Take a thread's description, and return the ids of its process and its own."""
        pid, tid, name = -1, -1, ""
        for number, wire, value, content in fields(message):
            if number == 1 and wire == VARINT:
                pid = signed(value)
            elif number == 2 and wire == VARINT:
                tid = signed(value)
            elif number == 5 and wire == BYTES:
                name = text_of(content)
        self.add_name(pid, tid, name)
        return pid, tid

    def add_name(self, pid: int, tid: int, name: str) -> None:
        """Take what a thread belongs to and is called."""
        if pid >= 0:
            self.process_of[tid] = pid
        if name:
            self.thread_names[pid, tid] = name
            self.called[tid] = name

    def add_tree(self, message: memoryview) -> None:
        """Take the processes and threads that were found in /proc.

        A process has the name of its program; its arguments are kept apart from that.

        Raises:
            ValueError: If it is malformed.
        """
        for number, wire, _, content in fields(message):
            if wire != BYTES:
                continue
            found = list(fields(content))
            own, owner = (_integer(found, wanted) for wanted in (1, 3))
            if number == 1:
                words = [
                    text_of(part) for each, kind, _, part in found if (each, kind) == (3, BYTES)
                ]
                self._name_process(own, _called(words))
                self._add_command(own, words)
                self.process_of[own] = own
            elif number == 2:
                self.add_name(owner, own, _text(found, 2))

    def _name_process(self, pid: int, name: str) -> None:
        """Take a process's name; of a command line only the program, unless there is a name."""
        if pid >= 0:
            self.process_of.setdefault(pid, pid)
        if name.startswith("/"):
            self.process_names.setdefault(pid, _program(name))
        elif name:
            self.process_names[pid] = name

    def _add_command(self, pid: int, words: list[str]) -> None:
        """Keep a command line apart from the names, if it has arguments."""
        line = " ".join(words)
        if line != _called(words):
            self.command_lines[pid] = line

    def thread_path(self, tid: int) -> Path:
        """Return the path of a thread of which only the id is known."""
        return thread_path(tid, self.process_of.get(tid))

    def owner(self, uuid: int) -> tuple[int, int, list[str]]:
        """Return the process and the thread of a track, and the names from there down to it."""
        pid = tid = -1
        names: list[str] = []
        for _ in range(_DEEPEST):
            track = self._tracks.get(uuid)
            if track is None:
                break
            if track.is_thread or track.is_process:
                pid, tid = track.pid, track.tid
                break
            if track.name:
                names.append(track.name)
            uuid = track.parent
        return pid, tid, names[::-1]

    def path(self, uuid: int, first_name: str) -> Path:
        """Return the path of a track's events; one without a name has that of its first event."""
        track = self._tracks.get(uuid)
        if track is not None and track.is_thread:
            return thread_path(track.tid, track.pid)
        pid, tid, names = self.owner(uuid)
        process = str(pid) if pid >= 0 else GLOBAL
        if track is not None and track.is_process:
            return async_path(process, "Process", str(pid))
        if not names or (track is not None and not track.name):
            names.append(_DEFAULT_TRACK if uuid == 0 else first_name or f"{uuid:x}")
        group = " / ".join(names)
        if tid >= 0:
            group = f"{group} ({self.thread_names.get((pid, tid), 'thread')} {tid})"
        return async_path(process, group, f"{uuid:x}")

    def counter_path(self, uuid: int) -> Path:
        """Return the path of a counter."""
        track = self.track(uuid)
        pid, tid, names = self.owner(uuid)
        name = " / ".join(names) or _THREAD_COUNTERS.get(track.counter_type, f"{uuid:x}")
        series = track.unit or "value"
        if tid >= 0:
            series = f"{tid} {track.unit}".rstrip()
        return counter_path(str(pid) if pid >= 0 else GLOBAL, name, series)

    def named(self) -> dict[Path, str]:
        """Return the names of processes and threads by path."""
        found = {process_path(pid): name for pid, name in self.process_names.items()}
        for (pid, tid), name in self.thread_names.items():
            found[thread_path(tid, pid if pid >= 0 else self.process_of.get(tid))] = name
        return found


def _integer(message: list[Field], number: int) -> int:
    """Return a field of a message, or -1."""
    return next(
        (signed(value) for each, wire, value, _ in message if (each, wire) == (number, VARINT)), -1
    )


def _text(message: list[Field], number: int) -> str:
    """Return the first of a field's texts, or an empty one."""
    return next(
        (text_of(part) for each, wire, _, part in message if (each, wire) == (number, BYTES)), ""
    )


def _counter(track: Descriptor, message: bytes | memoryview) -> None:
    for number, wire, value, content in fields(message):
        if number == 6 and wire == BYTES:
            track.unit = text_of(content)
        if wire != VARINT:
            continue
        if number == 1:
            track.counter_type = value
            track.unit = track.unit or ("ns" if value == 1 else "")
        elif number == 3:
            track.unit = track.unit or _UNITS.get(value, "")
        elif number == 4:
            track.multiplier = signed(value)
        elif number == 5:
            track.is_incremental = bool(value)


def _called(words: list[str]) -> str:
    """Return a command line without arguments, which may be behind the program in the same text.

    >>> _called(["chromium --type=renderer"]), _called([])
    ('chromium', '')
    """
    return words[0].partition(" -")[0] if words else ""


def _program(line: str) -> str:
    """Return the name of the program of a command line.

    >>> _program("/usr/lib/chromium/chromium --type=renderer")
    'chromium'
    """
    return line.split(" ", 1)[0].rpartition("/")[2]
