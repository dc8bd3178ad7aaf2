"""The records of several streams as columns, in order of time, a bounded number at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from meantime.kernels import records
from meantime.readers.recording.pieces import taken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int32s, Int64s
    from meantime.readers.recording.pieces import Piece

__all__ = ["Oddities", "Payload", "Records", "merged", "texts_of"]

_Scalar = TypeVar("_Scalar", bound=np.generic)

BLOCK_RECORDS = 1 << 17


class Payload(NamedTuple):
    """A record with a payload: its row among the records, its columns, and the bytes."""

    row: int
    stream: int
    kind: int
    ident: int
    data: bytes


def texts_of(data: bytes, number: int) -> list[str]:
    """Return the first texts of a payload, which NUL separates; those missing are empty."""
    found = data.decode("utf-8", "replace").split("\0")
    return found[:number] if len(found) >= number else found + [""] * (number - len(found))


class Records(NamedTuple):
    """Records as columns; `order` has the rows in order of time.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        stream: Index of the stream.
        kind: The record's kind.
        ident: Its low number.
        aux: Its high number.
        order: Rows in order of time.
        payload_row: The rows that have a payload, in ascending order.
        payload_begin: Where it begins in `text`.
        payload_end: Where it ends there.
        text: The bytes of all payloads, and more.
        going_on: The streams that may have more records.
    """

    time_ns: Int64s
    stream: Int32s
    kind: npt.NDArray[np.uint8]
    ident: npt.NDArray[np.uint32]
    aux: npt.NDArray[np.uint32]
    order: Int64s
    payload_row: Int64s
    payload_begin: Int64s
    payload_end: Int64s
    text: bytes
    going_on: frozenset[int]

    def payloads(self, *kinds: int) -> Iterator[Payload]:
        """Yield the records of some kinds with a payload, in order of row; of all without any."""
        if kinds:
            chosen = np.flatnonzero(np.isin(self.kind[self.payload_row], kinds))
        else:
            chosen = np.arange(len(self.payload_row))
        at = self.payload_row[chosen]
        columns = (
            column.tolist() for column in (at, self.stream[at], self.kind[at], self.ident[at])
        )
        begins, ends = self.payload_begin[chosen], self.payload_end[chosen]
        yield from map(Payload, *columns, self.texts(begins, ends))

    def columns(self, kind: int) -> tuple[Int64s, list[bytes]]:
        """Return columns (row, stream, ident) of the records of a kind, and their payloads."""
        columns, begins, ends = self.ranges(kind)
        return columns, self.texts(begins, ends)

    def ranges(self, kind: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the same columns, and where the payloads begin and end in `text`."""
        chosen = np.flatnonzero(self.kind[self.payload_row] == kind)
        row = self.payload_row[chosen]
        columns = np.array([row, self.stream[row], self.ident[row]], np.int64)
        return columns, self.payload_begin[chosen], self.payload_end[chosen]

    def texts(self, begins: Int64s, ends: Int64s) -> list[bytes]:
        """Return the bytes in ranges of `text`."""
        text = self.text
        return [text[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


class Oddities(NamedTuple):
    """Problems of the records: pieces cut in a record, times that went backwards."""

    truncated: int
    time_backwards: int


class _Block(NamedTuple):
    time_ns: Int64s
    kind: npt.NDArray[np.uint8]
    ident: npt.NDArray[np.uint32]
    aux: npt.NDArray[np.uint32]
    payload_row: Int64s
    payload_begin: Int64s
    payload_end: Int64s
    text: memoryview


class _Cursor:
    """Reads one stream block by block."""

    def __init__(self, pieces: Sequence[Piece], base_ns: int) -> None:
        self._pieces = list(reversed(pieces))
        self._base_ns = base_ns
        self.block: _Block | None = None
        self.taken = 0
        self._latest_ns = 0
        self.torn = 0
        self.backwards = 0

    def fill(self) -> bool:
        """Read the next block if all of the last was taken; return whether there is one."""
        while self.block is None or self.taken == len(self.block.time_ns):
            self.block = None
            self.taken = 0
            if not self._pieces:
                return False
            words, rest = taken(self._pieces.pop())
            if rest is not None:
                self._pieces.append(rest)
            rows, payloads, used = records.count(words, BLOCK_RECORDS)
            if rows:
                self.block = self._decode(words, rows, payloads)
                self._pieces.append(words[used:])
            elif len(words):
                self.torn += 1
        return True

    @property
    def more(self) -> bool:
        """Whether there may be records after this block."""
        return bool(self._pieces)

    @property
    def going_on(self) -> bool:
        """Whether there may be records that have not been taken."""
        return self.more or (self.block is not None and self.taken < len(self.block.time_ns))

    def _decode(self, words: npt.NDArray[np.uint64], rows: int, payloads: int) -> _Block:
        columns = (
            np.empty(rows, np.int64),
            np.empty(rows, np.uint8),
            np.empty(rows, np.uint32),
            np.empty(rows, np.uint32),
            np.empty(payloads, np.int64),
        )
        at = np.empty(payloads, np.int64)
        self.backwards += records.decode(words, self._base_ns, self._latest_ns, *columns, at)
        time_ns, _, _, aux, payload_row = columns
        self._latest_ns = int(time_ns[-1])
        text = words.data.cast("B")
        begin = np.minimum(at * 8, len(text))
        end = np.minimum(begin + aux[payload_row], len(text))
        return _Block(*columns, begin, end, text)


def merged(
    streams: Sequence[tuple[Sequence[Piece], int]],
) -> Iterator[Records | Oddities]:
    """Yield the records of streams, given as (pieces, base_ns), in order of time.

    Last come the oddities, if there are any.
    """
    cursors = [_Cursor(pieces, base_ns) for pieces, base_ns in streams]
    while True:
        ready = [(number, cursor) for number, cursor in enumerate(cursors) if cursor.fill()]
        if not ready:
            break
        # A stream's further records are not earlier than its last one, so everything up to the
        # earliest such record can be merged without reading more.
        until_ns = min((_last_ns(cursor) for _, cursor in ready if cursor.more), default=2**63 - 1)
        item = _take(ready, until_ns)
        going_on = frozenset(number for number, cursor in enumerate(cursors) if cursor.going_on)
        yield item._replace(going_on=going_on)
    oddities = Oddities(
        sum(cursor.torn for cursor in cursors), sum(cursor.backwards for cursor in cursors)
    )
    if any(oddities):
        yield oddities


def _last_ns(cursor: _Cursor) -> int:
    assert cursor.block is not None
    return int(cursor.block.time_ns[-1])


def _take(ready: Sequence[tuple[int, _Cursor]], until_ns: int) -> Records:
    parts: list[tuple[int, _Block, slice]] = []
    payload_row: list[Int64s] = []
    payload_begin: list[Int64s] = []
    payload_end: list[Int64s] = []
    texts: list[memoryview] = []
    text_bytes = 0
    offsets = [0]
    for number, cursor in ready:
        block = cursor.block
        assert block is not None
        end = int(np.searchsorted(block.time_ns, until_ns, "right"))
        end = max(end, cursor.taken)
        part = slice(cursor.taken, end)
        first = offsets[-1]
        begin, stop = np.searchsorted(block.payload_row, [part.start, end]).tolist()
        payload_row.append(block.payload_row[begin:stop] + (first - part.start))
        if begin < stop:
            text = block.text[block.payload_begin[begin] : block.payload_end[stop - 1]]
            moved = text_bytes - block.payload_begin[begin]
            payload_begin.append(block.payload_begin[begin:stop] + moved)
            payload_end.append(block.payload_end[begin:stop] + moved)
            texts.append(text)
            text_bytes += len(text)
        parts.append((number, block, part))
        offsets.append(first + end - part.start)
        cursor.taken = end
    time_ns = _joined([block.time_ns[part] for _, block, part in parts])
    order = np.empty(len(time_ns), np.int64)
    records.merge(time_ns, np.array(offsets, np.int64), order)
    return Records(
        time_ns,
        np.repeat(np.array([number for number, _, _ in parts], np.int32), np.diff(offsets)),
        _joined([block.kind[part] for _, block, part in parts]),
        _joined([block.ident[part] for _, block, part in parts]),
        _joined([block.aux[part] for _, block, part in parts]),
        order,
        _joined(payload_row),
        _joined(payload_begin or [np.empty(0, np.int64)]),
        _joined(payload_end or [np.empty(0, np.int64)]),
        b"".join(texts),
        frozenset(),
    )


def _joined(parts: Sequence[npt.NDArray[_Scalar]]) -> npt.NDArray[_Scalar]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
