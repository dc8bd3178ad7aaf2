"""Binary .spall, versions 1 and 3: the spans of threads, to the nanosecond."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.kernels import span_records
from meantime.query.threads import thread_of
from meantime.trace import SpanFlag
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lanes, steps

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.history import History
    from meantime.history.spans import SpanTable

__all__ = ["write"]

_MAGIC = 0x0BADF00D
_NOT_HELD = ("categories", "samples", "points", "flows", "counter series", "objects")
_BUFFER = struct.Struct("<IIIQ")
_MOST_BYTES = 255
# How many steps are in a buffer, which may have 10 MB: each has at most 521 bytes.
_STEPS = 1 << 14
_ASCII = 0x80
_LARGEST_ID = 2**32 - 1
_LARGEST_DOUBLE = 2**53
_NEVER = -(2**63)


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file, thread by thread: both versions require order only within a thread."""
    # a tick is a nanosecond; version 1 stores its length in microseconds
    yield struct.pack("<QQdQ", _MAGIC, version, 1.0 if version == 3 else 0.001, 0)
    count_rest(history, lost, *_NOT_HELD)
    ids = _Ids(history, lost)
    spans = history.spans()
    names = _Names(spans.name.names, lost)
    for thread, quark in enumerate(spans.threads.tolist()):
        if thread_of(history, quark).tid is None:
            first, last = int(spans.offsets[thread]), int(spans.offsets[thread + 1])
            lost["async spans"] += last - first
            continue
        pid, tid = ids.of(quark)
        for lane, rows in lanes(spans, thread):
            if lane:
                lost["lanes of overlapping spans, which became threads"] += 1
                # a thread of the format has one stack, so each further lane becomes a thread
                tid = ids.unused()
            if version == 3:
                head = _named(8, ids.process(quark)) + _named(9, ids.thread(quark, lane))
                yield from _buffers(spans, rows, names, head, (pid, tid), lost)
            else:
                yield from _stream(spans, rows, names, (pid, tid), lost)


class _Ids:
    """Ids of processes and threads: their own if they are 32-bit numbers, else unused ones."""

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._history = history
        self._lost = lost
        self._given: dict[object, int] = {}
        threads = [thread_of(history, quark) for quark in history.spans().threads.tolist()]
        self._used = {number for whose in threads for number in (whose.pid, whose.tid)}
        self._next = 1

    def unused(self) -> int:
        while self._next in self._used:
            self._next += 1
        self._used.add(self._next)
        return self._next

    def of(self, quark: int) -> tuple[int, int]:
        whose = thread_of(self._history, quark)
        return self._number(whose.pid), self._number(whose.tid)

    def _number(self, id_: int | str | None) -> int:
        if isinstance(id_, int) and 0 <= id_ <= _LARGEST_ID:
            return id_
        if id_ not in self._given:
            self._lost["ids that are not 32-bit numbers, written as names"] += 1
            self._given[id_] = self.unused()
        return self._given[id_]

    def process(self, quark: int) -> str:
        whose = thread_of(self._history, quark)
        return whose.process or (whose.pid if isinstance(whose.pid, str) else "")

    def thread(self, quark: int, lane: int) -> str:
        whose = thread_of(self._history, quark)
        name = whose.name or (whose.tid if isinstance(whose.tid, str) else "")
        return f"{name} (lane {lane})".strip() if lane else name


def _named(kind: int, name: str) -> bytes:
    text = name.encode("utf-8", "replace")[:_MOST_BYTES]
    return bytes([kind, len(text)]) + text if text else b""


def _cut(text: bytes, what: str, lost: Counter[str]) -> bytes:
    if len(text) > _MOST_BYTES:
        lost[f"{what} over {_MOST_BYTES} bytes, which were cut"] += 1
    return text[:_MOST_BYTES]


def _left_open(spans: SpanTable, rows: list[int], lost: Counter[str]) -> set[int]:
    """Return the unfinished spans of a lane that need no end record: they end with the last one.

    The others are written with an end, as finished, and counted.
    """
    index = np.array(rows, np.int64)
    is_unfinished = (spans.flags[index] & np.uint8(SpanFlag.UNFINISHED)) != 0
    unfinished = set(index[is_unfinished].tolist())
    if not unfinished:
        return unfinished
    # After the last span begins, only its end and those of its ancestors follow. An end closes the
    # innermost open span, so only the outermost of them can stay open.
    lane, row = spans.lane[rows[0]], rows[-1]
    last = [row]
    while (row := int(spans.parent[row])) >= 0 and spans.lane[row] == lane:
        last.append(row)
    until_ns = int(spans.end_ns[last[-1]])
    found: list[int] = []
    while last and last[-1] in unfinished and spans.end_ns[last[-1]] == until_ns:
        found.append(last.pop())
    written = np.setdiff1d(index, found)
    last_ns = max(int(spans.start_ns[index].max()), int(spans.end_ns[written].max(initial=_NEVER)))
    if found and last_ns < until_ns:
        found.pop()
    lost["unfinished spans, which became finished"] += len(unfinished) - len(found)
    return set(found)


def _stream(
    spans: SpanTable, rows: list[int], names: _Names, ids: tuple[int, int], lost: Counter[str]
) -> Iterator[bytes]:
    left_open = _left_open(spans, rows, lost)
    index, begins, time_ns = _written(spans, rows, left_open)
    lost["times beyond 2^53 ns, which became inexact"] += int(
        np.count_nonzero((time_ns > _LARGEST_DOUBLE) | (time_ns < -_LARGEST_DOUBLE))
    )
    for first in range(0, len(index), _STEPS):
        part = slice(first, first + _STEPS)
        yield _records(spans, index[part], begins[part], time_ns[part], names, (1, *ids), lost)


def _buffers(  # noqa: PLR0917 - what all threads share
    spans: SpanTable,
    rows: list[int],
    names: _Names,
    head: bytes,
    ids: tuple[int, int],
    lost: Counter[str],
) -> Iterator[bytes]:
    early = spans.start_ns[np.array(rows, np.int32)] < 0
    lost["spans that begin before time 0"] += int(early.sum())
    kept = np.array(rows, np.int32)[~early].tolist()
    left_open = _left_open(spans, kept, lost)
    index, begins, time_ns = _written(spans, rows, left_open)
    late = spans.start_ns[index] >= 0
    index, begins, time_ns = index[late], begins[late], time_ns[late]
    for first in range(0, max(len(index), 1), _STEPS):
        part = slice(first, first + _STEPS)
        records = head + _records(
            spans, index[part], begins[part], time_ns[part], names, (3, *ids), lost
        )
        if records:
            first_ns = int(time_ns[first]) if len(index) else 0
            yield _BUFFER.pack(len(records), ids[1], ids[0], first_ns) + records
        head = b""


def _written(
    spans: SpanTable, rows: list[int], left_open: set[int]
) -> tuple[Int32s, npt.NDArray[np.bool_], Int64s]:
    """Return the steps of a lane without the ends of spans that stay open."""
    index, begins, time_ns = steps(spans, np.array(rows, np.int32))
    if not left_open:
        return index, begins, time_ns
    kept = begins | ~np.isin(index, list(left_open))
    return index[kept], begins[kept], time_ns[kept]


def _records(  # noqa: PLR0917 - what all threads share
    spans: SpanTable,
    index: Int32s,
    begins: npt.NDArray[np.bool_],
    time_ns: Int64s,
    names: _Names,
    head: tuple[int, int, int],
    lost: Counter[str],
) -> bytes:
    """Return the records of some steps; `head` is the version, the process and the thread."""
    rows = index[begins]
    offset, text, length = _arguments(spans, rows)
    lost[f"arguments over {_MOST_BYTES} bytes, which were cut"] += int((length > _MOST_BYTES).sum())
    name, argument_length = np.zeros(len(index), np.int32), np.zeros(len(index), np.int32)
    argument_offset = np.zeros(len(index), np.int64)
    name[begins] = spans.name.codes[rows]
    argument_offset[begins], argument_length[begins] = offset, length
    return span_records.spall(
        *head,
        begins.view(np.uint8),
        time_ns,
        name,
        names.text,
        names.offset,
        text,
        argument_offset,
        argument_length,
    )


def _arguments(spans: SpanTable, rows: Int32s) -> tuple[Int64s, npt.NDArray[np.uint8], Int32s]:
    """Return where the arguments of some spans begin in a text, that, and their lengths."""
    length = spans.arguments_length[rows]
    offset, parts = joined_texts(spans.text, spans.arguments_offset[rows], length)
    text = np.concatenate([np.empty(0, np.uint8), *parts])
    if (text < _ASCII).all():
        return offset, text, length
    # what is not UTF-8 is replaced, which changes lengths
    given = text.tobytes()
    texts = [
        given[first : first + size].decode("utf-8", "replace").encode()
        for first, size in zip(offset.tolist(), length.tolist(), strict=True)
    ]
    length = np.array([*map(len, texts)], np.int32)
    offset = np.cumsum(length, dtype=np.int64) - length
    return offset, np.frombuffer(b"".join(texts), np.uint8), length


class _Names:
    """The names of spans as one text.

    Attributes:
        text: All names, each cut to what a record has room for.
        offset: By code, where its name begins; the next one's is its end.
    """

    def __init__(self, names: Iterable[str], lost: Counter[str]) -> None:
        texts = [_cut(name.encode("utf-8", "replace"), "names", lost) for name in names]
        self.text = np.frombuffer(b"".join(texts), np.uint8)
        self.offset = np.cumsum([0, *map(len, texts)], dtype=np.int64)
