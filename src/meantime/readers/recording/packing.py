"""A recording in one compressed file, which can be read instead of its directory.

The format is specified in docs/reference/recording-format.md. The file contains the words of each
stream without duplicates, as a reader of the directory has them, in blocks of whole records.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels.records import count
from meantime.model.anomalies import Anomalies
from meantime.readers import zstd
from meantime.readers.recording.layout import MAX_TIME_NS, PACKED_MAGIC, Header, is_clock_time
from meantime.readers.recording.listing import (
    Process,
    RecordingFiles,
    StreamFiles,
    Unwritten,
    agree_on_base,
    description_of,
    open_recording,
)
from meantime.readers.recording.pieces import StreamWords, taken
from meantime.readers.recording.streams import facts_words, stream_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from meantime.readers.recording.pieces import Piece

    _Words = npt.NDArray[np.uint64]

__all__ = ["Packed", "open_packed", "pack"]

_TRAILER = struct.Struct("<QQ8s")
_BLOCK_RECORDS = 1 << 17
_BLOCK_WORDS = 1 << 20  # files of older versions have blocks as large as that
_DIRECTORY_BYTES = 1 << 20  # more than that only in a file that is large itself
_MOST_PACKED = 64
_MAX_NUMBER = 2**32 - 1
_LEVEL = 6
_TIME = np.uint64(2**56 - 1)
_KIND = np.uint64(255)
_SHIFT = np.uint64(8)


@dataclass(slots=True)
class Packed:
    """What was packed so far.

    Attributes:
        processes: The number of processes.
        streams: The number of their streams.
        words: The number of words in these, 8 bytes each.
        anomalies: What was odd in the files.
    """

    processes: int = 0
    streams: int = 0
    words: int = 0
    anomalies: Anomalies = field(default_factory=Anomalies)


def pack(path: Path, packed: Packed | None = None) -> Iterator[bytes]:
    """Yield the bytes of the packed file of a recording, up to now if it is still growing.

    Args:
        path: The recording's directory.
        packed: Counts what is packed; complete at the end.

    Raises:
        InputError: If it is not a recording, or one of its files is damaged.
    """
    packed = packed or Packed()
    files = open_recording(path)
    yield PACKED_MAGIC
    offset = len(PACKED_MAGIC)
    processes: list[dict[str, Any]] = []
    for process in files.processes:
        described: dict[str, Any] = {
            "pid": process.pid,
            "incarnation": process.incarnation,
            "facts": process.facts,
            "has_tail": process.has_tail,
            "header": None,
            "blocks": [],
            "streams": [],
        }
        processes.append(described)
        packed.processes += 1
        if (facts := facts_words(process, files.anomalies)) is not None:
            described["header"] = facts[0]
            for block, entry in _blocks(facts[1], offset):
                yield block
                offset += len(block)
                described["blocks"].append(entry)
        for stream in process.streams.values():
            words = stream_words(stream, files.anomalies)
            entries: list[list[int]] = []
            for block, entry in _blocks(words.pieces, offset):
                yield block
                offset += len(block)
                entries.append(entry)
                packed.words += entry[2]
            packed.streams += 1
            described["streams"].append(
                {
                    "number": stream.number,
                    "base_ns": words.base_ns,
                    "missing_slots": words.missing_slots,
                    "lost_events": words.lost_events,
                    "slots": words.slots,
                    "gaps": words.gaps,
                    "damaged": words.damaged,
                    "blocks": entries,
                }
            )
    described_all = {
        "description": files.description,
        "processes": processes,
        "unwritten": files.unwritten,
        "unrecorded": files.unrecorded,
        "anomalies": dict(files.anomalies),
    }
    packed.anomalies = files.anomalies
    directory = zstd.compress(json.dumps(described_all).encode(), _LEVEL)
    yield directory
    yield _TRAILER.pack(offset, len(directory), PACKED_MAGIC)


def open_packed(name: str, data: memoryview, path: Path) -> RecordingFiles:
    """Return the recording in a packed file's bytes, which are decompressed when they are read.

    Raises:
        InputError: If they are damaged, or end too early.
    """
    if len(data) < len(PACKED_MAGIC) + _TRAILER.size:
        raise InputError(name, "is a packed recording whose end is missing; copy it again")
    offset, size, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if magic != PACKED_MAGIC or offset + size > len(data):
        raise InputError(name, "is a packed recording whose end is missing; copy it again")
    most = max(_DIRECTORY_BYTES, _MOST_PACKED * len(data))
    try:
        directory = json.loads(zstd.decompress(data[offset : offset + size], most))
        return _Directory(directory, data).files(path)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(
            name, "is a packed recording whose directory is damaged; copy it again"
        ) from None


class _Directory:
    """The directory of a packed file, checked.

    Args:
        content: The JSON.
        data: The whole file.
    """

    def __init__(self, content: dict[str, Any], data: memoryview) -> None:
        self._content = content
        self._data = data
        self._anomalies = Anomalies()

    def files(self, path: Path) -> RecordingFiles:
        """Return the recording.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: If it is damaged.
        """
        for anomaly, times in self._content["anomalies"].items():
            self._anomalies.add(anomaly, _within(times, MAX_TIME_NS))
        processes = [self._process(described) for described in self._content["processes"]]
        if len({(process.pid, process.incarnation) for process in processes}) < len(processes):
            raise ValueError
        return RecordingFiles(
            path,
            description_of(self._content["description"], self._anomalies),
            processes,
            Unwritten(*(_within(number, 2**64 - 1) for number in self._content["unwritten"])),
            [[str(field) for field in fields] for fields in self._content["unrecorded"]],
            self._anomalies,
        )

    def _process(self, described: dict[str, Any]) -> Process:
        facts = described["facts"] if isinstance(described["facts"], dict) else {}
        process = Process(
            _within(described["pid"], _MAX_NUMBER),
            _within(described["incarnation"], _MAX_NUMBER),
            facts=facts,
            has_tail=bool(described["has_tail"]),
        )
        bases_ns = []
        if described["header"] is not None:
            pid, incarnation, base_ns, parent, slots_before, realtime_ns = described["header"]
            first, second = (_within(number, _MAX_NUMBER) for number in parent)
            header = Header(pid, incarnation, base_ns, (first, second), slots_before, realtime_ns)
            process.packed_facts = (header, self._pieces(described["blocks"]))
            bases_ns.append(base_ns)
        for stream in described["streams"]:
            number = _within(stream["number"], _MAX_NUMBER)
            words = StreamWords(
                self._pieces(stream["blocks"]),
                stream["base_ns"],
                _within(stream["missing_slots"], MAX_TIME_NS),
                _within(stream["lost_events"], MAX_TIME_NS),
                slots=_within(stream["slots"], 2 * MAX_TIME_NS),
                gaps=_within(stream["gaps"], 2 * MAX_TIME_NS),
                damaged=_within(stream["damaged"], MAX_TIME_NS),
            )
            if words.base_ns is not None:
                bases_ns.append(words.base_ns)
            process.streams[number] = StreamFiles(number, packed=words)
        if not all(map(is_clock_time, bases_ns)):
            raise ValueError
        agree_on_base(process, bases_ns, Anomalies())
        return process

    def _pieces(self, entries: list[list[int]]) -> list[Piece]:
        pieces: list[Piece] = []
        for offset, size, words in entries:
            end = _within(offset, len(self._data)) + _within(size, len(self._data))
            if end > len(self._data) or _within(words, _BLOCK_WORDS) % 2:
                raise ValueError
            pieces.append(partial(self._decoded, offset, size, words))
        return pieces

    def _decoded(self, offset: int, size: int, words: int) -> _Words:
        """Return a block's words; none if it is damaged, which is counted."""
        try:
            content = zstd.decompress(self._data[offset : offset + size], words * 8)
        except ValueError:
            content = b""
        if len(content) != words * 8:
            self._anomalies.add("file_damaged")
            self._anomalies.add("records_missing", words // 2)
            return np.empty(0, np.uint64)
        planes = np.frombuffer(content, np.uint8).reshape(16, -1)
        slots: _Words = np.array(planes.T, order="C").view(np.uint64).reshape(-1, 2)
        time = np.cumsum(slots[:, 0] >> _SHIFT, dtype=np.uint64) & _TIME
        slots[:, 0] = time << _SHIFT | (slots[:, 0] & _KIND)
        return slots.reshape(-1)


def _within(number: object, most: int) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError
    return number


def _blocks(pieces: Iterable[Piece], offset: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield blocks of whole records, each with its offset, its bytes and its words."""
    for piece in pieces:
        rest: Piece | None = piece
        while rest is not None:
            words, rest = taken(rest)
            at = 0
            while at < len(words):
                used = count(words[at : at + _BLOCK_WORDS], _BLOCK_RECORDS)[2]
                # of a record that is cut off, one slot is packed, for its reader to count
                part = words[at : at + (used or 2)]
                block = zstd.compress(_encoded(part), _LEVEL)
                yield block, [offset, len(block), len(part)]
                offset += len(block)
                at = at + used if used else len(words)


def _encoded(words: _Words) -> bytes:
    """Return the bytes of slots, times as differences, all first bytes before all second ones."""
    # bytes of the same rank in a slot resemble each other, so they compress better side by side;
    # payload slots are encoded like records, which is reversible for any word
    first = words[0::2]
    time = first >> _SHIFT
    step = np.diff(time, prepend=np.uint64(0)) & _TIME
    slots = np.empty((len(first), 2), np.uint64)
    slots[:, 0] = step << _SHIFT | (first & _KIND)
    slots[:, 1] = words[1::2]
    return np.ascontiguousarray(slots.view(np.uint8).reshape(-1, 16).T).tobytes()
