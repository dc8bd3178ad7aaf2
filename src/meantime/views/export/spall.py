"""Binary .spall, versions 1 and 3: the spans of threads, to the nanosecond."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.argument_texts import joined_texts
from meantime.kernels import span_records
from meantime.model.columns import distinct
from meantime.model.trace import SpanFlag
from meantime.query.threads import threads_of
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import lane_groups, steps

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

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


class _Lane(NamedTuple):
    """A thread of the file, which has one stack: a lane of a thread of the history."""

    pid: int
    tid: int
    head: bytes


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file, thread by thread: both versions require order only within a thread."""
    # a tick is a nanosecond; version 1 stores its length in microseconds
    yield struct.pack("<QQdQ", _MAGIC, version, 1.0 if version == 3 else 0.001, 0)
    count_rest(history, lost, *_NOT_HELD)
    spans = history.spans()
    records = _Records(spans, lost, version)
    threads = _Threads(history, lost)
    for group in lane_groups(spans):
        lanes, rows, sizes = [], group.rows, np.diff(group.starts)
        is_thread = np.array([threads.has(thread) for thread in group.thread.tolist()])
        if not is_thread.all():
            lost["async spans"] += int(sizes[~is_thread].sum())
            rows, sizes = rows[np.repeat(is_thread, sizes)], sizes[is_thread]
        for thread, lane in zip(
            group.thread[is_thread].tolist(), group.lane[is_thread].tolist(), strict=True
        ):
            lanes.append(threads.lane(thread, lane))
        if version == 3:
            yield from _buffers(records, lanes, rows, sizes)
        else:
            yield from _stream(records, lanes, rows, sizes)


class _Threads:
    """The lanes of threads as threads of the file.

    Ids of processes and threads are their own if they are 32-bit numbers, else unused ones.
    """

    def __init__(self, history: History, lost: Counter[str]) -> None:
        self._lost = lost
        self._given: dict[object, int] = {}
        self._threads = threads_of(history, history.spans().threads.tolist())
        self._used = {number for whose in self._threads for number in (whose.pid, whose.tid)}
        self._next = 1

    def has(self, thread: int) -> bool:
        """Return whether the thread with this index in the table is one, and no operation."""
        return self._threads[thread].tid is not None

    def lane(self, thread: int, lane: int) -> _Lane:
        """Return a lane of the thread with this index in the table."""
        whose = self._threads[thread]
        pid, tid = self._number(whose.pid), self._number(whose.tid)
        process = whose.process or (whose.pid if isinstance(whose.pid, str) else "")
        name = whose.name or (whose.tid if isinstance(whose.tid, str) else "")
        if lane:
            self._lost["lanes of overlapping spans, which became threads"] += 1
            # a thread of the format has one stack, so each further lane becomes a thread
            tid = self._unused()
            name = f"{name} (lane {lane})".strip()
        return _Lane(pid, tid, _named(8, process) + _named(9, name))

    def _unused(self) -> int:
        while self._next in self._used:
            self._next += 1
        self._used.add(self._next)
        return self._next

    def _number(self, id_: int | str | None) -> int:
        if isinstance(id_, int) and 0 <= id_ <= _LARGEST_ID:
            return id_
        if id_ not in self._given:
            self._lost["ids that are not 32-bit numbers, written as names"] += 1
            self._given[id_] = self._unused()
        return self._given[id_]


def _named(kind: int, name: str) -> bytes:
    text = name.encode("utf-8", "replace")[:_MOST_BYTES]
    return bytes([kind, len(text)]) + text if text else b""


def _cut(text: bytes, what: str, lost: Counter[str]) -> bytes:
    if len(text) > _MOST_BYTES:
        lost[f"{what} over {_MOST_BYTES} bytes, which were cut"] += 1
    return text[:_MOST_BYTES]


class _Steps(NamedTuple):
    """Begins and ends of spans: a row, whether it begins, a time and the index of a lane each."""

    row: Int32s
    begins: npt.NDArray[np.bool_]
    time_ns: Int64s
    lane: Int32s

    def where(self, chosen: slice | npt.NDArray[np.bool_]) -> _Steps:
        return _Steps(
            self.row[chosen], self.begins[chosen], self.time_ns[chosen], self.lane[chosen]
        )

    def parts(self) -> Iterator[_Steps]:
        """Yield some steps at a time; none once if there are none."""
        for first in range(0, max(len(self.row), 1), _STEPS):
            yield self.where(slice(first, first + _STEPS))

    def starts(self, lanes: int) -> Int64s:
        """Return where the steps of each lane begin, and where those of the last one end."""
        return np.searchsorted(self.lane, np.arange(lanes + 1))


def _stream(records: _Records, lanes: list[_Lane], rows: Int32s, sizes: Int64s) -> Iterator[bytes]:
    steps = records.steps(rows, sizes)
    records.lost["times beyond 2^53 ns, which became inexact"] += int(
        np.count_nonzero((steps.time_ns > _LARGEST_DOUBLE) | (steps.time_ns < -_LARGEST_DOUBLE))
    )
    ids = np.array([(lane.pid, lane.tid) for lane in lanes], np.uint32).reshape(-1, 2)
    for part in steps.parts():
        yield records.of(part, ids)[0].tobytes()


def _buffers(records: _Records, lanes: list[_Lane], rows: Int32s, sizes: Int64s) -> Iterator[bytes]:
    ids, heads = np.zeros((len(lanes), 2), np.uint32), [lane.head for lane in lanes]
    for part in records.steps(rows, sizes).parts():
        found, offset = records.of(part, ids)
        text = found.data
        starts = part.starts(len(lanes))
        bounds = offset[starts].tolist()
        first_ns = np.append(part.time_ns, 0)[starts[:-1]].tolist()
        for index, lane in enumerate(lanes):
            begin, end = bounds[index : index + 2]
            if size := len(heads[index]) + end - begin:
                head = _BUFFER.pack(size, lane.tid, lane.pid, first_ns[index] if end > begin else 0)
                yield b"".join((head, heads[index], text[begin:end]))
        heads = [b""] * len(lanes)


class _Records:
    """Records of spans of a table."""

    def __init__(self, spans: SpanTable, lost: Counter[str], version: int) -> None:
        self.lost = lost
        self._spans = spans
        self._version = version
        self._names = _Names(spans.name.names, lost)
        # roots of a lane have parents in others
        is_inside = spans.lane[spans.parent] == spans.lane
        self._parent = np.where(is_inside, spans.parent, np.int32(-1))

    def steps(self, rows: Int32s, sizes: Int64s) -> _Steps:
        """Return the steps of lanes with so many rows each, without the ends that are left out.

        Those are the ends of spans that stay open, and all of spans that cannot be written.
        """
        spans = self._spans
        is_early = spans.start_ns[rows] < 0 if self._version == 3 else np.zeros(len(rows), np.bool_)
        lane = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        found = _Steps(*steps(spans, rows, self._parent), np.repeat(lane, 2))
        if is_early.any():
            self.lost["spans that begin before time 0"] += int(np.count_nonzero(is_early))
            found = found.where(spans.start_ns[found.row] >= 0)
        if left_open := self._left_open(rows[~is_early], lane[~is_early]):
            found = found.where(found.begins | ~np.isin(found.row, left_open))
        return found

    def _left_open(self, rows: Int32s, lane: Int32s) -> list[int]:
        """Return the unfinished spans of lanes that need no end record: they end with the last one.

        The others are written with an end, as finished, and counted.
        """
        is_unfinished = (self._spans.flags[rows] & np.uint8(SpanFlag.UNFINISHED)) != 0
        found: list[int] = []
        for each in distinct(lane[is_unfinished]).tolist():
            first, last = np.searchsorted(lane, [each, each + 1]).tolist()
            unfinished = set(rows[first:last][is_unfinished[first:last]].tolist())
            left_open = self._open_at_end(rows[first:last], unfinished)
            self.lost["unfinished spans, which became finished"] += len(unfinished) - len(left_open)
            found += left_open
        return found

    def _open_at_end(self, rows: Int32s, unfinished: set[int]) -> list[int]:
        spans = self._spans
        # After the last span begins, only its end and those of its ancestors follow. An end closes
        # the innermost open span, so only the outermost of them can stay open.
        row = int(rows[-1])
        last = [row]
        while (row := int(self._parent[row])) >= 0:
            last.append(row)
        until_ns = int(spans.end_ns[last[-1]])
        found: list[int] = []
        while last and last[-1] in unfinished and spans.end_ns[last[-1]] == until_ns:
            found.append(last.pop())
        written = rows[~np.isin(rows, found)]
        last_ns = max(
            int(spans.start_ns[rows].max()), int(spans.end_ns[written].max(initial=_NEVER))
        )
        if found and last_ns < until_ns:
            found.pop()
        return found

    def of(self, part: _Steps, ids: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint8], Int64s]:
        """Return the records of some steps, and where each begins and the last one ends."""
        rows = part.row[part.begins]
        offset, text, length = _arguments(self._spans, rows)
        self.lost[f"arguments over {_MOST_BYTES} bytes, which were cut"] += int(
            np.count_nonzero(length > _MOST_BYTES)
        )
        return span_records.spall(
            self._version,
            ids,
            part.lane,
            part.begins.view(np.uint8),
            part.time_ns,
            self._spans.name.codes[rows],
            self._names.text,
            self._names.offset,
            text,
            offset,
            length,
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
