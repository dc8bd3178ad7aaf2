"""A recording in one compressed file: written from its directory, and read in its place.

The format is specified in docs/reference/recording-format.md. What is kept is what a reader makes
of the directory's files: the words of each stream, each once, in blocks of whole records.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.kernels.records import count
from meantime.readers.recording.files import (
    Header,
    Process,
    RecordingFiles,
    StreamFiles,
    StreamWords,
    facts_words,
    open_recording,
    stream_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from meantime.readers.recording.files import Piece

    _Words = npt.NDArray[np.uint64]

__all__ = ["MAGIC", "open_packed", "pack"]

MAGIC = b"mtrpack1"

_TRAILER = struct.Struct("<QQ8s")
_BLOCK_RECORDS = 1 << 18
_LEVEL = 6
_TIME = np.uint64(2**56 - 1)
_KIND = np.uint64(255)
_SHIFT = np.uint64(8)


def pack(path: Path) -> Iterator[bytes]:
    """Yield the file that holds a recording, as far as it goes if it is still growing.

    Raises:
        InputError: If it is not a recording, or a file of it is not what it should be.
    """
    files = open_recording(path)
    yield MAGIC
    offset = len(MAGIC)
    processes: list[dict[str, Any]] = []
    for process in files.processes:
        described: dict[str, Any] = {
            "pid": process.pid,
            "incarnation": process.incarnation,
            "facts": process.facts,
            "header": None,
            "blocks": [],
            "streams": [],
        }
        processes.append(described)
        if (facts := facts_words(process)) is not None:
            described["header"] = facts[0]
            for block, entry in _blocks(facts[1], offset):
                yield block
                offset += len(block)
                described["blocks"].append(entry)
        for stream in process.streams.values():
            words = stream_words(stream)
            entries: list[list[int]] = []
            for block, entry in _blocks(words.pieces, offset):
                yield block
                offset += len(block)
                entries.append(entry)
            described["streams"].append(
                {
                    "number": stream.number,
                    "base_ns": words.base_ns,
                    "missing_slots": words.missing_slots,
                    "lost_events": words.lost_events,
                    "blocks": entries,
                }
            )
    directory = _compress(
        json.dumps({"description": files.description, "processes": processes}).encode()
    )
    yield directory
    yield _TRAILER.pack(offset, len(directory), MAGIC)


def open_packed(name: str, data: memoryview, path: Path) -> RecordingFiles:
    """Return the recording in a packed file's bytes, which are decompressed when they are read.

    Raises:
        InputError: If they are damaged, or end too early.
    """
    if len(data) < len(MAGIC) + _TRAILER.size:
        raise InputError(name, "ends too early for a packed recording")
    offset, size, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if magic != MAGIC or offset + size > len(data):
        raise InputError(name, "is a packed recording whose end is missing; copy it again")
    try:
        directory = json.loads(_decompress(name, data[offset : offset + size]))
        processes = [_process(name, data, described) for described in directory["processes"]]
        return RecordingFiles(path, directory["description"], processes)
    except (KeyError, TypeError, ValueError):
        raise InputError(name, "is a packed recording whose directory is damaged") from None


def _process(name: str, data: memoryview, described: dict[str, Any]) -> Process:
    process = Process(described["pid"], described["incarnation"], facts=described["facts"])
    if described["header"] is not None:
        pid, incarnation, base_ns, parent, slots_before, realtime_ns = described["header"]
        header = Header(pid, incarnation, base_ns, tuple(parent), slots_before, realtime_ns)
        process.packed_facts = (header, _pieces(name, data, described["blocks"]))
    for stream in described["streams"]:
        words = StreamWords(
            _pieces(name, data, stream["blocks"]),
            stream["base_ns"],
            stream["missing_slots"],
            stream["lost_events"],
        )
        process.streams[stream["number"]] = StreamFiles(stream["number"], packed=words)
    return process


def _pieces(name: str, data: memoryview, entries: list[list[int]]) -> list[Piece]:
    return [partial(_decoded, name, data, *entry) for entry in entries]


def _blocks(pieces: Iterable[Piece], offset: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield blocks of whole records, and of each where it lies, its bytes and its words."""
    for piece in pieces:
        words = piece() if callable(piece) else piece
        at = 0
        while at < len(words):
            used = count(words[at:], _BLOCK_RECORDS)[2]
            # what is left of a record that was cut off stays as it is, to be counted by its reader
            part = words[at : at + used] if used else words[at:]
            block = _compress(_encoded(part))
            yield block, [offset, len(block), len(part)]
            offset += len(block)
            at += len(part)


def _encoded(words: _Words) -> bytes:
    """Return the bytes of slots, times as differences, all first bytes before all second ones."""
    first = words[0::2]
    time = first >> _SHIFT
    step = np.diff(time, prepend=np.uint64(0)) & _TIME
    slots = np.empty((len(first), 2), np.uint64)
    slots[:, 0] = step << _SHIFT | (first & _KIND)
    slots[:, 1] = words[1::2]
    return np.ascontiguousarray(slots.view(np.uint8).reshape(-1, 16).T).tobytes()


def _decoded(name: str, data: memoryview, offset: int, size: int, words: int) -> _Words:
    content = _decompress(name, data[offset : offset + size])
    if len(content) != words * 8:
        raise InputError(name, "is damaged: a block holds too little", offset=offset)
    planes = np.frombuffer(content, np.uint8).reshape(16, -1)
    slots: _Words = np.array(planes.T, order="C").view(np.uint64).reshape(-1, 2)
    time = np.cumsum(slots[:, 0] >> _SHIFT, dtype=np.uint64) & _TIME
    slots[:, 0] = time << _SHIFT | (slots[:, 0] & _KIND)
    return slots.reshape(-1)


def _compress(content: bytes) -> bytes:
    import zstandard  # noqa: PLC0415 - a recording's directory is read without it

    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def _decompress(name: str, content: memoryview) -> bytes:
    import zstandard  # noqa: PLC0415 - as above

    try:
        return zstandard.ZstdDecompressor().decompress(content)
    except zstandard.ZstdError as error:
        raise InputError(name, f"is damaged: {error}") from None
