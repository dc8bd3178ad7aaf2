"""Binary .spall, versions 1 and 3: the spans of threads, to the nanosecond."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from meantime.query.threads import thread_of
from meantime.trace import SpanFlag
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lanes, walk

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from meantime.history.history import History
    from meantime.history.spans import SpanTable

__all__ = ["write"]

_MAGIC = 0x0BADF00D
_NOT_HELD = ("categories", "samples", "points", "flows", "counter series", "objects")
_BEGIN_1 = struct.Struct("<BBIIdBB")
_END_1 = struct.Struct("<BIId")
_BEGIN_3 = struct.Struct("<BQBB")
_END_3 = struct.Struct("<BQ")
_BUFFER = struct.Struct("<IIIQ")
_MOST_BYTES = 255
_MOST_BUFFER_BYTES = 1 << 20
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
    texts = [_cut(name.encode("utf-8", "replace"), "names", lost) for name in spans.name.names]
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
                yield from _buffers(spans, rows, texts, head, (pid, tid), lost)
            else:
                yield from _stream(spans, rows, texts, (pid, tid), lost)


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


def _arguments(spans: SpanTable, row: int, lost: Counter[str]) -> bytes:
    text = spans.arguments(row)
    return b"" if text is None else _cut(text.encode(), "arguments", lost)


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
    spans: SpanTable, rows: list[int], texts: list[bytes], ids: tuple[int, int], lost: Counter[str]
) -> Iterator[bytes]:
    left_open = _left_open(spans, rows, lost)
    records = bytearray()
    for begins, row, time_ns in walk(spans, rows):
        if abs(time_ns) > _LARGEST_DOUBLE:
            lost["times beyond 2^53 ns, which became inexact"] += 1
        if begins:
            name = texts[spans.name.codes[row]]
            arguments = _arguments(spans, row, lost)
            records += _BEGIN_1.pack(3, 0, *ids, float(time_ns), len(name), len(arguments))
            records += name + arguments
        elif row not in left_open:
            records += _END_1.pack(4, *ids, float(time_ns))
        if len(records) > _MOST_BUFFER_BYTES:
            yield bytes(records)
            records.clear()
    yield bytes(records)


def _buffers(  # noqa: PLR0917 - what all threads share
    spans: SpanTable,
    rows: list[int],
    texts: list[bytes],
    head: bytes,
    ids: tuple[int, int],
    lost: Counter[str],
) -> Iterator[bytes]:
    early = {row for row in rows if spans.start_ns[row] < 0}
    lost["spans that begin before time 0"] += len(early)
    left_open = _left_open(spans, [row for row in rows if row not in early], lost)
    records = bytearray(head)
    first_ns: int | None = None
    for begins, row, time_ns in walk(spans, rows):
        if row in early:
            continue
        first_ns = time_ns if first_ns is None else first_ns
        if begins:
            name = texts[spans.name.codes[row]]
            arguments = _arguments(spans, row, lost)
            records += _BEGIN_3.pack(3, time_ns, len(name), len(arguments)) + name + arguments
        elif row not in left_open:
            records += _END_3.pack(4, time_ns)
        if len(records) > _MOST_BUFFER_BYTES:
            yield _BUFFER.pack(len(records), ids[1], ids[0], first_ns) + records
            records.clear()
            first_ns = None
    if records:
        yield _BUFFER.pack(len(records), ids[1], ids[0], first_ns or 0) + records
