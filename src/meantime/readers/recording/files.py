"""The files of a recording: processes, streams, and each stream's words in order.

The format is specified in docs/reference/recording-format.md. A recording that is still being
written is read as far as it goes.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from meantime.errors import InputError
from meantime.kernels.records import count

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    Piece: TypeAlias = npt.NDArray[np.uint64] | Callable[[], npt.NDArray[np.uint64]]

__all__ = [
    "DESCRIPTION",
    "Header",
    "Piece",
    "Process",
    "RecordingFiles",
    "StreamFiles",
    "StreamWords",
    "facts_words",
    "open_recording",
    "stream_words",
]

DESCRIPTION = "recording.json"
VERSION = 1

_HEADER = struct.Struct("<8s4Iq4IQq")
_HEADER_BYTES = 64
_TAIL = struct.Struct("<8s4Iq2I9Q")
_TAIL_HEADER_BYTES = 4096
_WRITTEN_BYTES = 128
_NAME = re.compile(r"(\d+)\.(\d+)\.(facts|json|(\d+)\.(?:tail|(\d+)\.ev))")
_RING = 2
_LOST = 134
_ATTEMPTS = 8
_SEQ_BYTES = 40
_MAX_WRITTEN = 2**63


class Header(NamedTuple):
    """The first 64 bytes of a facts or segment file."""

    pid: int
    incarnation: int
    base_ns: int
    parent: tuple[int, int]
    slots_before: int
    realtime_ns: int


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
    """

    pid: int
    incarnation: int
    facts_path: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    streams: dict[int, StreamFiles] = field(default_factory=dict)
    packed_facts: tuple[Header, list[Piece]] | None = None


@dataclass(slots=True)
class RecordingFiles:
    """A recording's directory.

    Attributes:
        path: Where it lies.
        description: What `recording.json` says.
        processes: In order of pid and incarnation.
    """

    path: Path
    description: dict[str, Any]
    processes: list[Process]


def open_recording(path: Path) -> RecordingFiles:
    """Return what lies in a recording's directory.

    Raises:
        InputError: If it is not a recording, or one of a format that this version cannot read.
    """
    if not (path / DESCRIPTION).is_file():
        raise InputError(
            str(path), "it is a directory, but neither a recording nor a history; give a file in it"
        )
    description = _read_json(path / DESCRIPTION)
    if description.get("format") != "meantime recording":
        raise InputError(str(path / DESCRIPTION), "does not describe a recording")
    if description.get("version") != VERSION:
        raise InputError(
            str(path / DESCRIPTION),
            f"is of format version {description.get('version')!r}; this meantime reads {VERSION}",
        )
    processes: dict[tuple[int, int], Process] = {}
    for entry in sorted(path.iterdir()):
        if match := _NAME.fullmatch(entry.name):
            key = int(match[1]), int(match[2])
            _add(processes.setdefault(key, Process(*key)), entry, match)
    return RecordingFiles(path, description, [processes[key] for key in sorted(processes)])


def _add(process: Process, entry: Path, match: re.Match[str]) -> None:
    if match[3] == "facts":
        process.facts_path = entry
    elif match[3] == "json":
        process.facts = _read_json(entry)
    else:
        number = int(match[4])
        stream = process.streams.setdefault(number, StreamFiles(number))
        if match[5] is None:
            stream.tail = entry
        else:
            stream.segments[int(match[5])] = entry


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InputError(str(path), "is not a JSON object")
    return content


def _read_header(path: Path, magic: bytes) -> Header | None:
    """Return a file's header; None if its writer was killed before it was whole.

    Raises:
        InputError: If the file is something else, or of another format version.
    """
    with path.open("rb") as file:
        data = file.read(_HEADER_BYTES)
    if len(data) < _HEADER_BYTES:
        return None
    found, version, pid, incarnation, _, base_ns, _, *rest = _HEADER.unpack(data)
    if found != magic:
        raise InputError(str(path), f"begins with {found!r}, not {magic!r}", offset=0)
    if version != VERSION:
        raise InputError(
            str(path), f"is of format version {version}; this meantime reads {VERSION}", offset=8
        )
    parent_pid, parent_incarnation, _, slots_before, realtime_ns = rest
    parent = (parent_pid, parent_incarnation)
    return Header(pid, incarnation, base_ns, parent, slots_before, realtime_ns)


def facts_words(process: Process) -> tuple[Header, list[Piece]] | None:
    """Return a process's facts: the file's header and its words; None if it was never begun.

    Raises:
        InputError: If the file is something else, or of another format version.
    """
    if process.packed_facts is not None or process.facts_path is None:
        return process.packed_facts
    header = _read_header(process.facts_path, b"mtrfacts")
    return None if header is None else (header, [_words_of(process.facts_path)])


def _words_of(path: Path) -> npt.NDArray[np.uint64]:
    """Return the whole slots of a facts or segment file after its header, mapped."""
    slots = max(0, path.stat().st_size - _HEADER_BYTES) // 16
    if not slots:
        return np.empty(0, np.uint64)
    return np.memmap(path, np.uint64, "r", offset=_HEADER_BYTES, shape=(slots * 2,))


class StreamWords(NamedTuple):
    """A stream's words.

    Attributes:
        pieces: In order, as words or what returns them; a record does not go over the end of one.
        base_ns: The CLOCK_MONOTONIC time from which its times count; None if nothing is there.
        missing_slots: How many slots before the first piece are gone.
        lost_events: Events that its writer could not keep, by the tail's count.
        is_ring: Whether it is a ring in memory, which goes on to be written over.
    """

    pieces: list[Piece]
    base_ns: int | None
    missing_slots: int
    lost_events: int
    is_ring: bool = False


def stream_words(stream: StreamFiles) -> StreamWords:
    """Return what is there of a stream, each record once."""
    if stream.packed is not None:
        return stream.packed
    # the tail first: what is flushed meanwhile is then known to be in both places
    try:
        tail = None if stream.tail is None else _read_tail(stream.tail)
    except FileNotFoundError:
        # the recording has ended since the directory was listed: all is in segments now
        tail = None
        _list_segments(stream)
    base_ns = None if tail is None else tail.base_ns
    pieces: list[Piece] = []
    missing = in_files = 0
    for number in sorted(stream.segments):
        try:
            header = _read_header(stream.segments[number], b"mtrevent")
            if header is None:
                continue
            words = _words_of(stream.segments[number])
        except FileNotFoundError:
            # taken away since the directory was listed, to keep a growing recording small
            continue
        base_ns = header.base_ns
        if not pieces:
            missing = header.slots_before
        pieces.append(words)
        in_files = header.slots_before + len(words) // 2
    if tail is None:
        return StreamWords(pieces, base_ns, missing, 0)
    # what was being written when the process was killed is in both places, too
    skip = max(0, in_files - tail.written) * 2
    for words in tail.chunks:
        pieces.append(words[skip:])
        skip = max(0, skip - len(words))
    return StreamWords(pieces, base_ns, missing, tail.lost, tail.is_ring)


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


def _read_tail(path: Path) -> _Tail | None:
    for _ in range(_ATTEMPTS):
        data = path.read_bytes()
        if len(data) < _TAIL_HEADER_BYTES or data[:8] != b"mtrtail1":
            return None
        base_ns, chunk_bytes, chunks, seq, flushed, lost, passed, *dumped = _TAIL.unpack_from(data)[
            5:
        ]
        dumped_seq, dumped_slots, policy, reported, dumped_ns = dumped
        ring = policy == _RING
        first = max(0, seq + 1 - chunks, dumped_seq) if ring else flushed
        # a chunk that its writer came back to while it was copied must be copied again
        if _seq_now(path) - first < chunks:
            break
    pieces: list[npt.NDArray[np.uint64]] = []
    for number in range(first, seq + 1):
        begin = _TAIL_HEADER_BYTES + number % chunks * chunk_bytes
        words = np.frombuffer(data, np.uint64, chunk_bytes // 8, begin)
        skip = dumped_slots * 2 if ring and number == dumped_seq else 0
        pieces.append(words[skip : count(words, len(words))[2]])
    if ring and passed > reported:
        pieces.insert(0, _gap(pieces, passed - reported, dumped_ns))
    written = _MAX_WRITTEN
    if not ring:
        (written,) = struct.unpack_from("<Q", data, _WRITTEN_BYTES + flushed % chunks * 8)
    return _Tail(pieces, base_ns, written, lost, ring)


def _gap(pieces: list[npt.NDArray[np.uint64]], events: int, from_ns: int) -> npt.NDArray[np.uint64]:
    """Return the record that says what a ring passed over and never came to say itself."""
    until_ns = next((int(words[0]) >> 8 for words in pieces if len(words)), from_ns)
    return np.array([until_ns << 8 | _LOST, 32 << 32, events, from_ns, until_ns, 0], np.uint64)


def _seq_now(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(_SEQ_BYTES)
        return int.from_bytes(file.read(8), "little")
