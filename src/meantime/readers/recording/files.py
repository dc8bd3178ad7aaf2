"""The files of a recording: processes, streams, and each stream's words in order.

The format is specified in docs/reference/recording-format.md. A recording that is still being
written is read as far as it goes, and so is a damaged one: what cannot be read is counted.
"""

from __future__ import annotations

import json
import re
import stat
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.anomalies import Anomalies
from meantime.errors import InputError
from meantime.kernels.record_kinds import KINDS, POLICIES, SIZES
from meantime.kernels.records import count

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    Words: TypeAlias = npt.NDArray[np.uint64]
    Piece: TypeAlias = "Words | Callable[[], Words] | FilePiece"

__all__ = [
    "DESCRIPTION",
    "MAX_TIME_NS",
    "FilePiece",
    "Header",
    "Piece",
    "Process",
    "RecordingFiles",
    "StreamFiles",
    "StreamWords",
    "Unwritten",
    "agree_on_base",
    "description_of",
    "facts_words",
    "is_clock_time",
    "open_recording",
    "stream_words",
    "taken",
    "unrecorded_in",
]

DESCRIPTION = "recording.json"
VERSION = SIZES["FORMAT_VERSION"]
MAX_TIME_NS = 2**56 - 1  # what a record's time can be

_HEADER = struct.Struct("<8s4Iq4IQq")
_HEADER_BYTES, _SLOT_BYTES = SIZES["HEADER_BYTES"], SIZES["SLOT_BYTES"]
_READ_SLOTS = 1 << 17  # a record has fewer
_TAIL = struct.Struct("<8s4Iq2I9Q")
_TAIL_HEADER_BYTES, _CHUNK_BYTES = SIZES["TAIL_HEADER_BYTES"], SIZES["CHUNK_BYTES"]
_MAX_CHUNKS = SIZES["MAX_CHUNKS"]
_WRITTEN_BYTES = 128
_NAME = re.compile(r"([0-9]+)\.([0-9]+)\.(facts|json|([0-9]+)\.(?:tail|([0-9]+)\.ev))")
_MAGIC = {"facts": b"mtrfacts", "ev": b"mtrevent", "tail": b"mtrtail1"}
_SHARED = struct.Struct("<6Q")
_RING = POLICIES["RING"]
_LOST = KINDS["LOST"]
_ATTEMPTS = 8
_SEQ_BYTES = 40
_MAX_WRITTEN = 2**63
_MAX_JSON_BYTES = 1 << 24
# a clock that counts from a boot, or UTC from 1970, is far below this; sums still fit into 64 bits
_MAX_CLOCK_NS = 2**62


def is_clock_time(time_ns: object) -> bool:
    """Return whether a number can be what a clock has shown."""
    return isinstance(time_ns, int) and 0 <= time_ns < _MAX_CLOCK_NS


class Header(NamedTuple):
    """The first 64 bytes of a facts or segment file."""

    pid: int
    incarnation: int
    base_ns: int
    parent: tuple[int, int]
    slots_before: int
    realtime_ns: int


class Unwritten(NamedTuple):
    """What processes counted because they could write it nowhere.

    Attributes:
        events: Events of threads that got no stream.
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
    """One stream's files: what one thread after another wrote.

    Attributes:
        number: The stream's number in its process.
        segments: Segment number to path.
        tail: The crash-safe tail, if it is still there.
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
        incarnation: Which user of that pid it was.
        facts_path: Definitions and other rare records; None if it was lost.
        facts: What it said of itself: `argv`, `python`.
        streams: By number.
        packed_facts: What the file at `facts_path` would hold, in a packed recording.
        base_ns: The CLOCK_MONOTONIC time from which its times count, as most of its files have it;
            None if none has.
        has_tail: Whether a tail is still there, so that it runs, or was killed.
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
        path: Where it lies.
        description: What `recording.json` says.
        processes: In order of pid and incarnation.
        unwritten: What the processes could write nowhere.
        unrecorded: As `unrecorded_in` returns them.
        anomalies: What was wrong with the files.
    """

    path: Path
    description: dict[str, Any]
    processes: list[Process]
    unwritten: Unwritten
    unrecorded: list[list[str]]
    anomalies: Anomalies

    def label(self, process: Process) -> str:
        """Return what a process is called: its pid, and which of several that had it."""
        if sum(other.pid == process.pid for other in self.processes) == 1:
            return str(process.pid)
        return f"{process.pid}-{process.incarnation}"


class _Listing:
    """The files that are found in a directory, and what is wrong with them."""

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
        # where two contradict each other, the facts count
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
        """Return from when a file's times count; None if its header is not one of such a file."""
        try:
            with entry.open("rb") as file:
                data = file.read(_HEADER_BYTES)
        except FileNotFoundError:
            # taken away since the directory was listed
            return None
        except OSError as error:
            raise InputError(str(entry), f"cannot be read: {error.strerror}") from error
        if len(data) < _HEADER_BYTES:
            self.anomalies.add("truncated")
            return None
        magic, version, _, _, _, base_ns = _HEADER.unpack(data)[:6]
        if kind == "tail" and not any(magic):
            # it was being made when the process was killed
            return None
        if magic == _MAGIC[kind] and version != VERSION:
            self.versions.add(version)
        if magic != _MAGIC[kind] or version != VERSION or not is_clock_time(base_ns):
            self.anomalies.add("file_damaged")
            return None
        return int(base_ns)

    def json(self, path: Path) -> dict[str, Any]:
        """Return what a file says that is only information; nothing if it cannot be read."""
        try:
            with path.open("rb") as file:
                content = json.loads(file.read(_MAX_JSON_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            self.anomalies.add("description_damaged")
            return {}
        return content


def open_recording(path: Path) -> RecordingFiles:
    """Return what lies in a recording's directory.

    Raises:
        InputError: If it is not a recording, or one of a format that this version cannot read.
    """
    listing = _Listing()
    entries = sorted(path.iterdir())
    found = [(entry, match) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    for entry, match in found:
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
    listing.anomalies.add("process_not_recorded", len(unrecorded))
    return RecordingFiles(
        path,
        description,
        processes,
        _read_shared(path / "usage", listing.anomalies),
        unrecorded,
        listing.anomalies,
    )


def description_of(content: object, anomalies: Anomalies) -> dict[str, Any]:
    """Return what is as it should be of a recording's description."""
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
    """Decide from when a process's times count, and count the files that have it otherwise."""
    if bases_ns:
        ((process.base_ns, agreeing),) = Counter(bases_ns).most_common(1)
        anomalies.add("header_damaged", len(bases_ns) - agreeing)


def unrecorded_in(path: Path) -> list[list[str]]:
    """Return, of each process that could not be recorded, its pid, its Python's version and why."""
    try:
        with (path / "unrecorded").open("rb") as file:
            text = file.read(_MAX_JSON_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [[*line.split("\t", 2), "", ""][:3] for line in text.splitlines()]


def _read_shared(path: Path, anomalies: Anomalies) -> Unwritten:
    try:
        with path.open("rb") as file:
            data = file.read(_SHARED.size)
    except OSError:
        return Unwritten()
    if len(data) < _SHARED.size:
        anomalies.add("file_damaged", len(data) > 0)
        return Unwritten()
    _, events, from_ns, until_ns, facts, error = _SHARED.unpack(data)
    return Unwritten(events, from_ns, until_ns, facts, error)


def _read_header(path: Path) -> Header:
    with path.open("rb") as file:
        data = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
    _, _, pid, incarnation, _, base_ns, _, *rest = _HEADER.unpack(data)
    parent_pid, parent_incarnation, _, slots_before, realtime_ns = rest
    parent = (parent_pid, parent_incarnation)
    return Header(pid, incarnation, base_ns, parent, slots_before, realtime_ns)


def facts_words(process: Process, anomalies: Anomalies) -> tuple[Header, list[Piece]] | None:
    """Return a process's facts: the file's header and its words; None if it was never begun.

    What is gone when the words are read is counted in `anomalies`.
    """
    if process.packed_facts is not None or process.facts_path is None:
        return process.packed_facts
    return _read_header(process.facts_path), [_piece_of(process.facts_path, anomalies)]


class FilePiece(NamedTuple):
    """Slots of a facts or segment file that are still to be read.

    They are not mapped: what is cut off a mapped file ends the process that reads it with SIGBUS.

    Attributes:
        path: The file.
        begin: The first slot.
        end: The slot after the last that was there when the file was listed.
        anomalies: Where slots are counted that are gone when they are read.
    """

    path: Path
    begin: int
    end: int
    anomalies: Anomalies

    @property
    def slots(self) -> int:
        """How many there are to be read."""
        return self.end - self.begin

    def read(self) -> tuple[Words, FilePiece | None]:
        """Return whole records, and what is left after them.

        Where a record is cut off by the end of the piece, its beginning is among the words.
        """
        slots = min(self.slots, _READ_SLOTS)
        try:
            with self.path.open("rb") as file:
                file.seek(_HEADER_BYTES + self.begin * _SLOT_BYTES)
                data = file.read(slots * _SLOT_BYTES)
        except FileNotFoundError:
            # taken away since the directory was listed, to keep a growing recording small
            data = b""
        words = np.frombuffer(data, np.uint64, len(data) // _SLOT_BYTES * 2)
        if len(words) < slots * 2:
            self.anomalies.add("records_missing", self.slots - len(words) // 2)
            return words, None
        if slots == self.slots:
            return words, None
        used = count(words, slots)[2]
        if not used:
            # what follows words that are no record cannot be told from its inside
            return words, None
        return words[:used], self._replace(begin=self.begin + used // 2)


def taken(piece: Piece) -> tuple[Words, FilePiece | None]:
    """Return words of a piece, and what is left of it."""
    if isinstance(piece, FilePiece):
        return piece.read()
    return (piece() if callable(piece) else piece), None


def _piece_of(path: Path, anomalies: Anomalies) -> FilePiece:
    """Return the whole slots of a facts or segment file after its header."""
    slots = max(0, path.stat().st_size - _HEADER_BYTES) // _SLOT_BYTES
    return FilePiece(path, 0, slots, anomalies)


class StreamWords(NamedTuple):
    """A stream's words.

    Attributes:
        pieces: In order; `taken` gives their words. A record does not go over the end of one.
        base_ns: The CLOCK_MONOTONIC time from which its times count; None if nothing is there.
        missing_slots: How many slots before the first piece are gone.
        lost_events: Events that its writer could not keep, by the tail's count.
        is_ring: Whether it is a ring in memory, which goes on to be written over.
        slots: How many slots there were in segments up to the last piece from one.
        gaps: How many slots between the pieces are not there.
        damaged: How many files, or parts of them, could not be read.
    """

    pieces: list[Piece]
    base_ns: int | None
    missing_slots: int
    lost_events: int
    is_ring: bool = False
    slots: int = 0
    gaps: int = 0
    damaged: int = 0


def stream_words(stream: StreamFiles, anomalies: Anomalies) -> StreamWords:  # noqa: C901 - what is wrong is counted where it is met
    """Return what is there of a stream, each record once.

    What is gone when the words are read is counted in `anomalies`.
    """
    if stream.packed is not None:
        return stream.packed
    # the tail first: what is flushed meanwhile is then known to be in both places
    tail = None
    damaged = 0
    try:
        if stream.tail is not None:
            tail = _read_tail(stream.tail)
            damaged += tail is None or tail.is_cut
    except FileNotFoundError:
        # the recording has ended since the directory was listed: all is in segments now
        _list_segments(stream)
    base_ns = None if tail is None else tail.base_ns
    pieces: list[Piece] = []
    missing = slots = gaps = 0
    for number in sorted(stream.segments):
        try:
            header = _read_header(stream.segments[number])
            piece = _piece_of(stream.segments[number], anomalies)
        except FileNotFoundError:
            # taken away since the directory was listed, to keep a growing recording small
            continue
        base_ns = header.base_ns
        before = header.slots_before
        if not MAX_TIME_NS > before >= slots:
            damaged += 1
        elif pieces:
            gaps += before - slots
            slots = before
        else:
            missing = slots = before
        pieces.append(piece)
        slots += piece.slots
    if tail is None:
        return StreamWords(pieces, base_ns, missing, 0, False, slots, gaps, damaged)
    twice = 0
    if tail.written != _MAX_WRITTEN:
        # what was being written when the process was killed is in both places
        twice = slots - tail.written
        if twice > _CHUNK_BYTES // _SLOT_BYTES or tail.written > MAX_TIME_NS:
            damaged, twice = damaged + 1, 0
        gaps += max(0, -twice)
    skip = max(0, twice) * 2
    for words in tail.chunks:
        pieces.append(words[skip:])
        skip = max(0, skip - len(words))
    return StreamWords(pieces, base_ns, missing, tail.lost, tail.is_ring, slots, gaps, damaged)


def _list_segments(stream: StreamFiles) -> None:
    assert stream.tail is not None
    for entry in stream.tail.parent.glob(f"{stream.tail.stem}.*.ev"):
        if match := _NAME.fullmatch(entry.name):
            stream.segments[int(match[5])] = entry


class _Tail(NamedTuple):
    chunks: list[npt.NDArray[np.uint64]]
    base_ns: int
    written: int
    lost: int
    is_ring: bool
    is_cut: bool


def _read_tail(path: Path) -> _Tail | None:
    """Return what a tail holds; None if its header cannot be."""
    for _ in range(_ATTEMPTS):
        with path.open("rb") as file:
            data = file.read(_TAIL_HEADER_BYTES + _MAX_CHUNKS * _CHUNK_BYTES)
        if len(data) < _TAIL_HEADER_BYTES:
            return None
        base_ns, chunk_bytes, chunks, seq, flushed, lost, passed, *dumped = _TAIL.unpack_from(data)[
            5:
        ]
        dumped_seq, dumped_slots, policy, reported, dumped_ns = dumped
        if chunk_bytes != _CHUNK_BYTES or not 0 < chunks <= _MAX_CHUNKS:
            return None
        ring = policy == _RING
        first = max(0, seq + 1 - chunks, dumped_seq) if ring else flushed
        # a chunk that its writer came back to while it was copied must be copied again
        if _seq_now(path) - first < chunks:
            break
    # of one that has just been written, the next has not begun yet
    if not -1 <= seq - first < chunks or max(lost, passed, reported) > MAX_TIME_NS:
        return None
    pieces: list[npt.NDArray[np.uint64]] = []
    for number in range(first, seq + 1):
        begin = _TAIL_HEADER_BYTES + number % chunks * chunk_bytes
        there = max(0, min(chunk_bytes, len(data) - begin)) // _SLOT_BYTES * 2
        words = np.frombuffer(data, np.uint64, there, begin if there else 0)
        skip = dumped_slots * 2 if ring and number == dumped_seq else 0
        pieces.append(words[skip : count(words, len(words))[2]])
    if ring and passed > reported:
        pieces.insert(0, _gap(pieces, passed - reported, min(dumped_ns, MAX_TIME_NS)))
    written = _MAX_WRITTEN
    if not ring:
        (written,) = struct.unpack_from("<Q", data, _WRITTEN_BYTES + flushed % chunks * 8)
    is_cut = len(data) < _TAIL_HEADER_BYTES + chunks * chunk_bytes
    return _Tail(pieces, base_ns, written, lost, ring, is_cut)


def _gap(pieces: list[npt.NDArray[np.uint64]], events: int, from_ns: int) -> npt.NDArray[np.uint64]:
    """Return the record that says what a ring passed over and never came to say itself."""
    until_ns = next((int(words[0]) >> 8 for words in pieces if len(words)), from_ns)
    return np.array([until_ns << 8 | _LOST, 32 << 32, events, from_ns, until_ns, 0], np.uint64)


def _seq_now(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(_SEQ_BYTES)
        return int.from_bytes(file.read(8), "little")
