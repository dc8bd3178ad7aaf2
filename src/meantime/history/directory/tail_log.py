"""The log of changes that are in no segment yet: blocks, each checked by itself."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.files import open_regular
from meantime.history.changes import Changes
from meantime.history.directory.manifest import parsed, to_json
from meantime.kernels.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Entry", "blocks", "damage_in", "read_blocks"]

_MAGIC = b"MTLG"
_HEADER = Struct("<4sIII")
# A time and a word of 8 bytes, an attribute and a meta of 4.
_ROW_BYTES = 24
_BLOCK_ROWS = 2**16 // _ROW_BYTES
# Behind damage, an intact block is looked for with checksums of so many times what is left. Where
# more seem to begin, what is there was not written as blocks.
_MOST_CHECKED = 8


class Entry(NamedTuple):
    """What one call logged: a record, the changes before it, and the offset where it ends."""

    record: dict[str, Any]
    changes: Changes
    end: int


def blocks(record: dict[str, Any], changes: Changes) -> Iterator[bytes]:
    """Yield changes as blocks of up to 64 KiB; the last one has the record.

    So an entry that was cut anywhere has no record, and none of its changes count.
    """
    rows = len(changes.time_ns)
    for first in range(0, max(rows, 1), _BLOCK_ROWS):
        last = first + _BLOCK_ROWS >= rows
        part = changes.part(first, min(rows, first + _BLOCK_ROWS))
        text = to_json(record) if last else b""
        body = text + b"".join(column.tobytes() for column in part)
        yield _HEADER.pack(_MAGIC, len(text), len(part.time_ns), crc32(body)) + body


def read_blocks(path: Path, size_bytes: int | None = None) -> Iterator[Entry]:
    """Yield the entries of a log, or of its first bytes, up to the first damaged block.

    Changes count only if the record behind them is there.

    Raises:
        InputError: If the record of an intact block is not JSON.
    """
    if not path.exists():
        return
    waiting: list[Changes] = []
    with open_regular(path) as file:
        there = path.stat().st_size
        while size_bytes is None or file.tell() < size_bytes:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            magic, text_bytes, rows, crc = _HEADER.unpack(header)
            if magic != _MAGIC:
                return
            length = text_bytes + rows * _ROW_BYTES
            # A damaged length may be more memory than there is, so it is compared with the file.
            body = file.read(length) if length <= there - file.tell() else b""
            if len(body) != length or crc32(body) != crc:
                return
            waiting.append(_changes(body[text_bytes:], rows))
            if text_bytes:
                try:
                    record = parsed(body[:text_bytes])
                except ValueError as error:
                    raise InputError(str(path), f"a block {error}", offset=file.tell()) from None
                yield Entry(record, Changes.joined(waiting), file.tell())
                waiting = []


def damage_in(path: Path, position: int) -> int | None:
    """Return where a log is damaged behind a position where a block begins; None if it is not.

    An unfinished last block is not damage: its writer was killed, or is still writing.
    """
    if not path.exists():
        return None
    with open_regular(path) as file:
        file.seek(position)
        data = file.read()
    # A block that is cut at the end of the file was being written. It is damage if an intact block
    # follows, if all its bytes are there, or if its header is not one that is written.
    begin = 0
    while (end := _block_end(data, begin)) is not None:
        begin = end
    if len(data) - begin < _HEADER.size:
        return None
    finished_later = _has_block(data, begin + 1)
    _, text_bytes, rows, _ = _HEADER.unpack_from(data, begin)
    there = begin + _HEADER.size + text_bytes + rows * _ROW_BYTES <= len(data)
    known = data[begin : begin + len(_MAGIC)] == _MAGIC and rows <= _BLOCK_ROWS
    return position + begin if finished_later or there or not known else None


def _has_block(data: bytes, position: int) -> bool:
    """Return whether an intact block begins at a position or later, or too many seem to."""
    left = _MOST_CHECKED * len(data)
    while (position := data.find(_MAGIC, position)) >= 0:
        if _block_end(data, position) is not None:
            return True
        left -= _block_bytes(data, position)
        if left < 0:
            return True
        position += 1
    return False


def _block_bytes(data: bytes, begin: int) -> int:
    """Return how many bytes the block that begins here has, if these are there; else 0."""
    if len(data) - begin < _HEADER.size:
        return 0
    _, text_bytes, rows, _ = _HEADER.unpack_from(data, begin)
    length: int = _HEADER.size + text_bytes + rows * _ROW_BYTES
    return length if begin + length <= len(data) else 0


def _block_end(data: bytes, begin: int) -> int | None:
    """Return where the block that begins here ends; None if it is not whole."""
    length = _block_bytes(data, begin)
    if not length:
        return None
    magic, _, _, crc = _HEADER.unpack_from(data, begin)
    end = begin + length
    body = memoryview(data)[begin + _HEADER.size : end]
    return end if magic == _MAGIC and crc32(body) == crc else None


def _changes(body: bytes, rows: int) -> Changes:
    quark, word, meta = 8 * rows, 12 * rows, 20 * rows
    return Changes(
        np.frombuffer(body, np.int64, rows),
        np.frombuffer(body, np.int32, rows, quark),
        np.frombuffer(body, np.int64, rows, word),
        np.frombuffer(body, np.uint32, rows, meta),
    )
