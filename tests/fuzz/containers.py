"""Damage behind checksums: a history's directory, a recording and a packed one, made whole again.

A checksum guards against accidents. To see what readers do with content that somebody made up, the
content is changed and every checksum that covers it is computed again. The layouts are those of
docs/reference/history-format.md and docs/reference/recording-format.md.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import zstd_frames
from mutate import Words, mutated
from structures import change_member

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    import numpy.typing as npt

__all__ = ["Files", "mutated_history", "mutated_packed", "mutated_recording"]

Files = dict[str, bytes]

_ALIGNMENT = 64
_SEGMENT_HEADER_BYTES = 128
_HEAD = struct.Struct("<8q")
_FLAGS_AT, _INDEX_CRC_AT, _ROWS_CRC_AT, _HEADER_CRC_AT = 72, 80, 84, 124
# The bytes of each column of the index.
_COLUMNS, _COLUMNS_AT = struct.Struct("<5I"), 88
_LARGEST_SEGMENT = 1 << 20
_PYRAMID_HEADER_BYTES = 128
_PYRAMID_HEADER_END = 80
_LOG_HEADER = struct.Struct("<4sIII")
_LOG_ROW_BYTES = 24
_SEGMENT_LINE = re.compile(rb'("segment":"([^"]*)","checksum":)\d+')
_TABLE_COLUMN = re.compile(
    rb'(\["[a-z_.]*","[|<>]?[a-zA-Z](\d+)",(-?\d{1,18}),(-?\d{1,18}),)(-?\d+)\]'
)

_RECORD_HEADER_BYTES, _TAIL_HEADER_BYTES = 64, 4096
_SLOT_BYTES = 16
_KINDS = (
    *(*range(12), *range(16, 20), *range(24, 27), *range(32, 37), *range(40, 44)),
    *(*range(49, 53), *range(128, 140), 255),
)
_IDS = (0, 1, 2, 3, 1000, 10**6, 2**24, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1)
_TIMES = (0, 1, 2**31, 2**32, 2**40, 2**55, 2**56 - 1)
_PACKED_MAGIC = b"mtrpack1"
_TRAILER = struct.Struct("<QQ8s")
_JSON = Words((b'"base_ns":', b"[0,0]", b"-1", b"null"), text=True)
_NUMBERS = Words()


def mutated_history(files: Files, random: Random) -> Files:
    """Return a history's directory with one file damaged, and mostly right checksums."""
    files = dict(files)
    name = random.choice(sorted(files))
    if random.random() < 0.1:
        files[name] = mutated(files[name], random, _NUMBERS)
        return files
    if random.random() < 0.02:
        del files[name]
        return files
    if name.endswith(".seg"):
        files[name] = _mutated_segment(files[name], random)
    elif name.endswith(".pyr"):
        files[name] = _mutated_pyramid(files[name], random)
    elif name.endswith(".log"):
        files[name] = _mutated_log(files[name], random)
    elif name == "manifest":
        files[name] = _mutated_manifest(files[name], random)
    else:
        files[name] = mutated(files[name], random, _NUMBERS)
    return _with_checksums(files)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def _segment_sizes(header: bytes) -> tuple[int, int]:
    """Return how long a segment's index is, and all that follows its header."""
    _, _, changes, _, numbers, width, *_ = _HEAD.unpack_from(header, 8)
    (flags,) = struct.unpack_from("<q", header, _FLAGS_AT)
    rest = (changes * width + 8, 8 * changes if flags & 1 else 0, 8 * numbers)
    index_bytes = _aligned(sum(_COLUMNS.unpack_from(header, _COLUMNS_AT)))
    return index_bytes, index_bytes + sum(map(_aligned, rest))


def _mutated_segment(data: bytes, random: Random) -> bytes:
    """Damage the header, the index or the rows of a segment, each as often as the others."""
    header, body = data[:_SEGMENT_HEADER_BYTES], data[_SEGMENT_HEADER_BYTES:]
    index_bytes = _segment_sizes(header)[0]
    part = random.randrange(3)
    if part == 0:
        numbers = _COLUMNS_AT + _COLUMNS.size
        header = _same_length(header[:numbers], random) + header[numbers:]
        size_bytes = _segment_sizes(header)[1]
        if 0 <= size_bytes <= _LARGEST_SEGMENT and random.random() < 0.7:
            # a file of another length than its header promises is refused before it is looked at
            body = body[:size_bytes].ljust(size_bytes, b"\0")
    elif part == 1:
        body = _same_length(body[:index_bytes], random) + body[index_bytes:]
    else:
        body = body[:index_bytes] + _same_length(body[index_bytes:], random)
    return header + body


def _same_length(data: bytes, random: Random) -> bytes:
    damaged = mutated(data, random, _NUMBERS)
    return damaged[: len(data)].ljust(len(data), b"\0")


def _mutated_pyramid(data: bytes, random: Random) -> bytes:
    header, body = data[:_PYRAMID_HEADER_BYTES], data[_PYRAMID_HEADER_BYTES:]
    if random.random() < 0.4:
        numbers = _same_length(header[8:68], random)
        return header[:8] + numbers + header[68:] + body
    damage = _same_length if random.random() < 0.8 else _other_length
    return header + damage(body, random)


def _other_length(data: bytes, random: Random) -> bytes:
    return mutated(data, random, _NUMBERS)


def _mutated_log(data: bytes, random: Random) -> bytes:
    """Damage the text or the rows of one block of a log."""
    blocks, position = [], 0
    while len(data) - position >= _LOG_HEADER.size:
        _, text_bytes, rows, _ = _LOG_HEADER.unpack_from(data, position)
        middle = position + _LOG_HEADER.size + text_bytes
        end = middle + rows * _LOG_ROW_BYTES
        blocks.append((data[position + _LOG_HEADER.size : middle], data[middle:end], rows))
        position = end
    if not blocks:
        return data
    number = random.randrange(len(blocks))
    text, body, rows = blocks[number]
    if random.random() < 0.5:
        text = mutated(text, random, _JSON)
    else:
        body = _same_length(body, random)
    blocks[number] = (text, body, rows)
    return b"".join(
        _LOG_HEADER.pack(b"MTLG", len(text), rows, zlib.crc32(text + body)) + text + body
        for text, body, rows in blocks
    )


def _mutated_manifest(data: bytes, random: Random) -> bytes:
    lines = [line[9:] for line in data.splitlines()] or [b""]
    number = random.randrange(len(lines))
    record = None
    if random.random() < 0.5:
        # one member of one line as something else: random damage is rarely valid JSON
        with suppress(ValueError, RecursionError):  # a second damage may meet what the first left
            record = json.loads(lines[number])
    if record is None:
        words = Words(_JSON.tokens, lines, text=True)
        return _checksummed(mutated(b"\n".join(lines), random, words))
    change_member(record, random)
    lines[number] = json.dumps(record, separators=(",", ":")).encode()
    return _checksummed(b"\n".join(lines))


def _checksummed(texts: bytes) -> bytes:
    return b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts.split(b"\n"))


def _with_checksums(files: Files) -> Files:
    """Return a history's directory with the checksums that its content has now."""
    checksums: dict[bytes, int] = {}
    for name, data in files.items():
        if name.endswith(".seg") and len(data) >= _SEGMENT_HEADER_BYTES:
            header = bytearray(data[:_SEGMENT_HEADER_BYTES])
            body = data[_SEGMENT_HEADER_BYTES:]
            index_bytes = min(max(0, _segment_sizes(data)[0]), len(body))
            struct.pack_into("<I", header, _INDEX_CRC_AT, zlib.crc32(body[:index_bytes]))
            struct.pack_into("<I", header, _ROWS_CRC_AT, zlib.crc32(body[index_bytes:]))
            checksum = zlib.crc32(header[:_HEADER_CRC_AT])
            struct.pack_into("<I", header, _HEADER_CRC_AT, checksum)
            files[name] = bytes(header) + body
            checksums[name.rpartition("/")[2].encode()] = checksum
    for name, data in files.items():
        if name.endswith(".pyr") and len(data) >= _PYRAMID_HEADER_BYTES:
            header = bytearray(data[:_PYRAMID_HEADER_BYTES])
            segment = name.rpartition("/")[2].removesuffix(".pyr") + ".seg"
            if segment.encode() in checksums:
                struct.pack_into("<I", header, 8, checksums[segment.encode()])
            struct.pack_into("<I", header, 68, zlib.crc32(data[_PYRAMID_HEADER_BYTES:]))
            checksum = zlib.crc32(header[: _PYRAMID_HEADER_END - 4])
            struct.pack_into("<I", header, _PYRAMID_HEADER_END - 4, checksum)
            files[name] = bytes(header) + data[_PYRAMID_HEADER_BYTES:]

    def segment_line(match: re.Match[bytes]) -> bytes:
        checksum = checksums.get(match[2])
        return match[0] if checksum is None else match[1] + b"%d" % checksum

    def column(match: re.Match[bytes]) -> bytes:
        item, rows, offset = int(match[2]), int(match[3]), int(match[4])
        part = files.get("tables", b"")[max(0, offset) : max(0, offset + rows * item)]
        return match[1] + b"%d]" % zlib.crc32(part)

    if "manifest" in files:
        texts = b"\n".join(line[9:] for line in files["manifest"].split(b"\n")[:-1])
        texts = _TABLE_COLUMN.sub(column, _SEGMENT_LINE.sub(segment_line, texts))
        files["manifest"] = _checksummed(texts)
    return files


def mutated_recording(files: Files, random: Random) -> Files:
    """Return a recording's directory with one file damaged."""
    files = dict(files)
    name = random.choice(sorted(files))
    data = files[name]
    if random.random() < 0.02:
        del files[name]
    elif name.endswith(".json"):
        files[name] = _mutated_json(data, random)
    elif random.random() < 0.3:
        files[name] = mutated(data, random, _NUMBERS)
    else:
        header_bytes = _TAIL_HEADER_BYTES if name.endswith(".tail") else _RECORD_HEADER_BYTES
        header, slots = data[:header_bytes], data[header_bytes:]
        if random.random() < 0.2:
            header = _same_length(header[:240], random) + header[240:]
        else:
            slots = _mutated_slots(slots, random)
        files[name] = header + slots
    return files


def _mutated_json(data: bytes, random: Random) -> bytes:
    if random.random() < 0.5:
        return mutated(data, random, _JSON)
    value = json.loads(data)
    change_member(value, random)
    return json.dumps(value).encode()


def _mutated_slots(slots: bytes, random: Random) -> bytes:
    """Change fields of records, or move whole slots about."""
    if len(slots) < _SLOT_BYTES:
        return slots
    changed = bytearray(slots)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(changed) // _SLOT_BYTES) * _SLOT_BYTES
        first, ident, aux = struct.unpack_from("<QII", changed, at)
        field = random.randrange(7)
        if field == 0:
            first = first & ~0xFF | random.choice(_KINDS)
        elif field == 1:
            first = first & 0xFF | random.choice(_TIMES) << 8
        elif field == 2:
            ident = random.choice(_IDS)
        elif field == 3:
            aux = random.choice((*_IDS, len(changed)))
        elif field == 4:
            other = random.randrange(len(changed) // _SLOT_BYTES) * _SLOT_BYTES
            changed[at:at] = changed[other : other + _SLOT_BYTES * random.randint(1, 8)]
            continue
        elif field == 5:
            del changed[at : at + _SLOT_BYTES * random.randint(1, 8)]
            if len(changed) < _SLOT_BYTES:
                break
            continue
        else:
            ident, aux = random.getrandbits(32), random.getrandbits(32)
        struct.pack_into("<QII", changed, at, first, ident, aux)
    return bytes(changed)


def mutated_packed(files: Files, random: Random) -> Files:
    """Return a packed recording with its directory or a block damaged within its compression."""
    ((name, data),) = files.items()
    if random.random() < 0.1:
        return {name: mutated(data, random, _NUMBERS)}
    offset, size, _ = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    directory = json.loads(zstd_frames.decompress(data[offset : offset + size]))
    listed = list(_block_lists(directory))
    blocks = [
        zstd_frames.decompress(data[begin : begin + length])
        for blocks in listed
        for begin, length, _ in blocks
    ]
    if random.random() < 0.6 and blocks:
        number = random.randrange(len(blocks))
        blocks[number] = _encoded(_mutated_slots(_decoded(blocks[number]), random))
    packed, position, waiting = [_PACKED_MAGIC], len(_PACKED_MAGIC), iter(blocks)
    for entries in listed:
        for entry in entries:
            content = next(waiting)
            block = _compressed(content)
            entry[:] = [position, len(block), len(content) // 8]
            packed.append(block)
            position += len(block)
    text = json.dumps(directory).encode()
    if random.random() < 0.4 or not blocks:
        text = _mutated_json(text, random)
    end = _compressed(text)
    trailer = _TRAILER.pack(position, len(end), _PACKED_MAGIC)
    if random.random() < 0.05:
        trailer = mutated(trailer[:16], random, _NUMBERS) + trailer[16:]
    return {name: b"".join([*packed, end, trailer])}


def _block_lists(directory: dict[str, Any]) -> Iterable[list[list[int]]]:
    for process in directory["processes"]:
        yield process["blocks"]
        for stream in process["streams"]:
            yield stream["blocks"]


def _decoded(content: bytes) -> bytes:
    """Return the slots of a block: bytes side by side again, and times as they are."""
    slots = np.frombuffer(content, np.uint8).reshape(16, -1).T.copy()
    words: npt.NDArray[np.uint64] = slots.view(np.uint64)
    time = np.cumsum(words[:, 0] >> np.uint64(8), dtype=np.uint64)
    words[:, 0] = time << np.uint64(8) | words[:, 0] & np.uint64(255)
    return words.tobytes()


def _encoded(slots: bytes) -> bytes:
    words = np.frombuffer(slots[: len(slots) // 16 * 16], np.uint64).reshape(-1, 2).copy()
    time = words[:, 0] >> np.uint64(8)
    words[:, 0] = np.diff(time, prepend=np.uint64(0)) << np.uint64(8) | words[:, 0] & np.uint64(255)
    return words.view(np.uint8).reshape(-1, 16).T.tobytes()


def _compressed(content: bytes) -> bytes:
    return zstd_frames.compress(content, checksum=True)
