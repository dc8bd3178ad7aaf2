"""Lists the directory of a recording: its description, its processes and their files.

A recording may still be written, or be damaged: unreadable files are counted and skipped.
"""

from __future__ import annotations

import json
import re
import stat
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from meantime.collect import OTHER_INTERPRETER
from meantime.errors import InputError
from meantime.files import open_regular
from meantime.model.anomalies import Anomalies
from meantime.readers.recording.layout import HEADER, HEADER_BYTES, VERSION, is_clock_time

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.readers.recording.layout import Header
    from meantime.readers.recording.pieces import Piece, StreamWords

__all__ = [
    "DESCRIPTION",
    "Process",
    "RecordingFiles",
    "StreamFiles",
    "Unwritten",
    "agree_on_base",
    "description_of",
    "open_recording",
    "segments_beside",
    "unrecorded_in",
]

DESCRIPTION = "recording.json"

_NAME = re.compile(r"([0-9]+)\.([0-9]+)\.(facts|json|([0-9]+)\.(?:tail|([0-9]+)\.ev))")
_MAGIC = {"facts": b"mtrfacts", "ev": b"mtrevent", "tail": b"mtrtail1"}
_SHARED = struct.Struct("<6Q")
_MAX_JSON_BYTES = 1 << 24


class Unwritten(NamedTuple):
    """Counters of records that processes could not write anywhere.

    Attributes:
        events: Events of threads without a stream.
        from_ns: CLOCK_MONOTONIC of the first of them.
        until_ns: CLOCK_MONOTONIC of the last.
        facts: Facts.
        error: The number of the first error, 0 if there was none.
    """

    events: int = 0
    from_ns: int = 0
    until_ns: int = 0
    facts: int = 0
    error: int = 0


@dataclass(slots=True)
class StreamFiles:
    """The files of a stream, which one thread after another may have written.

    Attributes:
        number: The stream's number in its process.
        segments: Segment number to path.
        tail: The tail, if it still exists.
        packed: Its words, in a packed recording, which has no such files.
    """

    number: int
    segments: dict[int, Path] = field(default_factory=dict)
    tail: Path | None = None
    packed: StreamWords | None = None


@dataclass(slots=True)
class Process:
    """One process's files.

    Attributes:
        pid: The process id.
        incarnation: Its number among the processes that had this pid.
        facts_path: Definitions and other rare records; None if the file is missing.
        facts: Its description, with `argv` and `python`.
        streams: By number.
        packed_facts: The content of its file of facts, in a packed recording.
        base_ns: The CLOCK_MONOTONIC time that is time 0, according to most of its files; None if
            there are none.
        has_tail: Whether a tail still exists, so the process is running or was killed.
    """

    pid: int
    incarnation: int
    facts_path: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    streams: dict[int, StreamFiles] = field(default_factory=dict)
    packed_facts: tuple[Header, list[Piece]] | None = None
    base_ns: int | None = None
    has_tail: bool = False


@dataclass(slots=True)
class RecordingFiles:
    """A recording's directory.

    Attributes:
        path: Its path.
        description: The content of `recording.json`.
        processes: In order of pid and incarnation.
        unwritten: Counters of records that could not be written.
        unrecorded: The result of `unrecorded_in`.
        anomalies: Problems of the files.
    """

    path: Path
    description: dict[str, Any]
    processes: list[Process]
    unwritten: Unwritten
    unrecorded: list[list[str]]
    anomalies: Anomalies

    def label(self, process: Process) -> str:
        """Return a process's pid, with its incarnation if several processes had that pid."""
        if sum(other.pid == process.pid for other in self.processes) == 1:
            return str(process.pid)
        return f"{process.pid}-{process.incarnation}"


class _Listing:
    """The files of a directory, and their problems."""

    def __init__(self) -> None:
        self.processes: dict[tuple[int, int], Process] = {}
        self.anomalies = Anomalies()
        self.bases: dict[tuple[int, int], list[int]] = {}
        self.versions: set[int] = set()
        self.read = 0

    def add(self, entry: Path, match: re.Match[str]) -> None:
        key = int(match[1]), int(match[2])
        if match[3] == "json":
            process = self.processes.setdefault(key, Process(*key))
            process.facts = self.json(entry)
            return
        kind = match[3].rpartition(".")[2]
        if kind == "tail":
            self.processes.setdefault(key, Process(*key)).has_tail = True
        base_ns = self._base_of(entry, kind)
        if base_ns is None:
            return
        self.read += 1
        process = self.processes.setdefault(key, Process(*key))
        # most_common prefers the first of equally frequent ones, which is to be that of the facts
        self.bases.setdefault(key, []).insert(0 if kind == "facts" else 1 << 30, base_ns)
        if kind == "facts":
            process.facts_path = entry
            return
        number = int(match[4])
        stream = process.streams.setdefault(number, StreamFiles(number))
        if match[5] is None:
            stream.tail = entry
        else:
            stream.segments[int(match[5])] = entry

    def _base_of(self, entry: Path, kind: str) -> int | None:
        """Return a file's base time; None if its header is not that of such a file."""
        try:
            with open_regular(entry) as file:
                data = file.read(HEADER_BYTES)
        except FileNotFoundError:
            # deleted by rotation since the directory was listed
            return None
        except OSError as error:
            raise _unreadable(entry, error) from error
        if len(data) < HEADER_BYTES:
            self.anomalies.add("truncated")
            return None
        magic, version, _, _, _, base_ns = HEADER.unpack(data)[:6]
        if kind == "tail" and not any(magic):
            # the process was killed while it created the file: the magic is written last
            return None
        if magic == _MAGIC[kind] and version != VERSION:
            self.versions.add(version)
        if magic != _MAGIC[kind] or version != VERSION or not is_clock_time(base_ns):
            self.anomalies.add("file_damaged")
            return None
        return int(base_ns)

    def json(self, path: Path) -> dict[str, Any]:
        """Return the content of a descriptive file; an empty one if it cannot be read."""
        try:
            with open_regular(path) as file:
                content = json.loads(file.read(_MAX_JSON_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unreadable(path, error) from error
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            self.anomalies.add("description_damaged")
            return {}
        return content


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(str(path), f"cannot be read: {error.strerror or error}")


def open_recording(path: Path) -> RecordingFiles:
    """Return the content of a recording's directory.

    Raises:
        InputError: If it is not a recording, or one of a format that this version cannot read.
    """
    listing = _Listing()
    entries = sorted(path.iterdir())
    found = [(entry, match) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    for entry, match in found:
        # the recorder removes a file that it could not fill, also after it was listed here
        with suppress(FileNotFoundError):
            # opening a FIFO of such a name would block, and a link may lead out of the recording
            if stat.S_ISREG(entry.lstat().st_mode):
                listing.add(entry, match)
    if path / DESCRIPTION not in entries:
        if not found:
            raise InputError(
                str(path),
                "it is a directory, but neither a recording nor a history; give a file in it",
            )
        listing.anomalies.add("description_damaged")
        description: dict[str, Any] = {}
    else:
        description = description_of(listing.json(path / DESCRIPTION), listing.anomalies)
    version = description.get("version", VERSION)
    if not listing.read and (listing.versions or version != VERSION):
        version = min(listing.versions, default=version)
        raise InputError(
            str(path), f"is of format version {version!r}; this meantime reads {VERSION}"
        )
    if not listing.read and not description:
        raise InputError(str(path), "is damaged: none of its files can be read")
    processes = [listing.processes[key] for key in sorted(listing.processes)]
    for process in processes:
        bases_ns = listing.bases.get((process.pid, process.incarnation), [])
        agree_on_base(process, bases_ns, listing.anomalies)
    unrecorded = unrecorded_in(path)
    other = sum(reason == OTHER_INTERPRETER for *_, reason in unrecorded)
    listing.anomalies.add("interpreters_not_recorded", other)
    listing.anomalies.add("process_not_recorded", len(unrecorded) - other)
    return RecordingFiles(
        path,
        description,
        processes,
        _read_shared(path / "usage", listing.anomalies),
        unrecorded,
        listing.anomalies,
    )


def description_of(content: object, anomalies: Anomalies) -> dict[str, Any]:
    """Return the valid fields of a recording's description."""
    if not isinstance(content, dict) or content.get("format") != "meantime recording":
        if content:
            anomalies.add("description_damaged")
        return {}
    checked = dict(content)
    for name, kind in (("host", str), ("boot_id", str), ("command", list)):
        if not isinstance(checked.get(name, kind()), kind | None):
            del checked[name]
            anomalies.add("description_damaged")
    return checked


def agree_on_base(process: Process, bases_ns: list[int], anomalies: Anomalies) -> None:
    """Choose the base time of most of a process's files, and count those with another one."""
    if bases_ns:
        ((process.base_ns, agreeing),) = Counter(bases_ns).most_common(1)
        anomalies.add("header_damaged", len(bases_ns) - agreeing)


def unrecorded_in(path: Path) -> list[list[str]]:
    """Return pid, Python version and reason of each process that could not be recorded."""
    try:
        with open_regular(path / "unrecorded") as file:
            text = file.read(_MAX_JSON_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path / "unrecorded", error) from error
    return [[*line.split("\t", 2), "", ""][:3] for line in text.splitlines()]


def _read_shared(path: Path, anomalies: Anomalies) -> Unwritten:
    try:
        with open_regular(path) as file:
            data = file.read(_SHARED.size)
    except FileNotFoundError:
        return Unwritten()
    except OSError as reason:
        raise _unreadable(path, reason) from reason
    if len(data) < _SHARED.size:
        anomalies.add("file_damaged", len(data) > 0)
        return Unwritten()
    _, events, from_ns, until_ns, facts, error = _SHARED.unpack(data)
    return Unwritten(events, from_ns, until_ns, facts, error)


def segments_beside(tail: Path) -> dict[int, Path]:
    """Return the segments of a tail's stream, by number."""
    found = {}
    for entry in tail.parent.glob(f"{tail.stem}.*.ev"):
        if match := _NAME.fullmatch(entry.name):
            found[int(match[5])] = entry
    return found
