"""Binary .spall, versions 1 and 3: the spans of threads, to the nanosecond."""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

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
# By version, the size of an end, and of a begin without its name and arguments.
_END_BYTES = {1: 17, 3: 9}
_BEGIN_BYTES = {1: 20, 3: 11}
_ASCII = 0x80
_LARGEST_ID = 2**32 - 1
_LARGEST_DOUBLE = 2**53
_NEVER = -(2**63)


class _Lane(NamedTuple):
    """The spans of a thread of the file: a format's thread has one stack."""

    pid: int
    tid: int
    head: bytes
    rows: list[int]


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file, thread by thread: both versions require order only within a thread."""
    # a tick is a nanosecond; version 1 stores its length in microseconds
    yield struct.pack("<QQdQ", _MAGIC, version, 1.0 if version == 3 else 0.001, 0)
    count_rest(history, lost, *_NOT_HELD)
    spans = history.spans()
    names = _Names(spans.name.names, lost)
    # roots of a lane have parents in others
    parent = np.where(spans.lane[spans.parent] == spans.lane, spans.parent, np.int32(-1))
    for group in _groups(_lanes(history, lost, version=version)):
        if version == 3:
            yield from _buffers(spans, parent, group, names, lost)
        else:
            yield from _stream(spans, parent, group, names, lost)


def _lanes(history: History, lost: Counter[str], *, version: int) -> Iterator[_Lane]:
    ids = _Ids(history, lost)
    spans = history.spans()
    for thread, quark in enumerate(spans.threads.tolist()):
        if thread_of(history, quark).tid is None:
            first, last = int(spans.offsets[thread]), int(spans.offsets[thread + 1])
            lost["async spans"] += last - first
            continue
        pid, tid = ids.of(quark)
        process, name = ids.process(quark), ids.thread(quark)
        for lane, rows in lanes(spans, thread):
            own = name
            if lane:
                lost["lanes of overlapping spans, which became threads"] += 1
                # a thread of the format has one stack, so each further lane becomes a thread
                tid = ids.unused()
                own = f"{name} (lane {lane})".strip()
            head = _named(8, process) + _named(9, own) if version == 3 else b""
            yield _Lane(pid, tid, head, rows)


def _groups(lanes: Iterable[_Lane]) -> Iterator[list[_Lane]]:
    """Yield lanes together that have few steps, since NumPy's calls take longer than these."""
    group: list[_Lane] = []
    steps = 0
    for lane in lanes:
        if group and steps + 2 * len(lane.rows) > _STEPS:
            yield group
            group, steps = [], 0
        group.append(lane)
        steps += 2 * len(lane.rows)
    if group:
        yield group


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

    def thread(self, quark: int) -> str:
        whose = thread_of(self._history, quark)
        return whose.name or (whose.tid if isinstance(whose.tid, str) else "")


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


class _Steps(NamedTuple):
    """Begins and ends of spans: a row, whether it begins, a time and the index of a lane each."""

    row: Int32s
    begins: npt.NDArray[np.bool_]
    time_ns: Int64s
    lane: npt.NDArray[np.intp]

    def where(self, chosen: slice | npt.NDArray[np.bool_]) -> _Steps:
        return _Steps(
            self.row[chosen], self.begins[chosen], self.time_ns[chosen], self.lane[chosen]
        )

    def starts(self, lanes: int) -> Int64s:
        """Return where the steps of each lane begin, and where those of the last one end."""
        return np.searchsorted(self.lane, np.arange(lanes + 1))


def _stream(
    spans: SpanTable, parent: Int32s, group: list[_Lane], names: _Names, lost: Counter[str]
) -> Iterator[bytes]:
    written = _written(spans, parent, group, [lane.rows for lane in group], lost)
    time_ns = written.time_ns
    lost["times beyond 2^53 ns, which became inexact"] += int(
        np.count_nonzero((time_ns > _LARGEST_DOUBLE) | (time_ns < -_LARGEST_DOUBLE))
    )
    ids = np.array([(lane.pid, lane.tid) for lane in group], "<u4").view(np.uint8)
    for first in range(0, len(time_ns), _STEPS):
        part = written.where(slice(first, first + _STEPS))
        records, offset = _records(spans, part, names, 1, lost)
        # ids follow the kind, and in begins the category
        where = (offset[:-1] + np.where(part.begins, 2, 1))[:, np.newaxis] + np.arange(8)
        records[where] = ids[part.lane]
        yield records.tobytes()


def _buffers(
    spans: SpanTable, parent: Int32s, group: list[_Lane], names: _Names, lost: Counter[str]
) -> Iterator[bytes]:
    rows = [lane.rows for lane in group]
    start_ns = spans.start_ns[np.fromiter(chain.from_iterable(rows), np.int32)]
    if early := int((start_ns < 0).sum()):
        lost["spans that begin before time 0"] += early
        rows = [[row for row in each if spans.start_ns[row] >= 0] for each in rows]
    written = _written(spans, parent, group, rows, lost)
    if early:
        written = written.where(spans.start_ns[written.row] >= 0)
    heads = [lane.head for lane in group]
    for first in range(0, max(len(written.row), 1), _STEPS):
        part = written.where(slice(first, first + _STEPS))
        records, offset = _records(spans, part, names, 3, lost)
        text, starts = records.tobytes(), part.starts(len(group))
        bounds = offset[starts].tolist()
        first_ns = np.append(part.time_ns, 0)[starts[:-1]].tolist()
        for index, lane in enumerate(group):
            begin, end = bounds[index : index + 2]
            content = heads[index] + text[begin:end]
            if content:
                time_ns = first_ns[index] if begin < end else 0
                yield _BUFFER.pack(len(content), lane.tid, lane.pid, time_ns) + content
        heads = [b""] * len(group)


def _written(
    spans: SpanTable,
    parent: Int32s,
    group: list[_Lane],
    kept: list[list[int]],
    lost: Counter[str],
) -> _Steps:
    """Return the steps of lanes without the ends of spans that stay open.

    `kept` are the rows of each lane without those that cannot be written.
    """
    rows = np.fromiter(chain.from_iterable(lane.rows for lane in group), np.int32)
    lane = np.repeat(np.arange(len(group)), [2 * len(lane.rows) for lane in group])
    found = _Steps(*steps(spans, rows, parent), lane)
    if not (spans.flags[rows] & np.uint8(SpanFlag.UNFINISHED)).any():
        return found
    left_open = {row for each in kept if each for row in _left_open(spans, each, lost)}
    if not left_open:
        return found
    return found.where(found.begins | ~np.isin(found.row, list(left_open)))


def _records(
    spans: SpanTable, part: _Steps, names: _Names, version: int, lost: Counter[str]
) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """Return the records of some steps without ids, and where each begins and the last one ends."""
    begins = part.begins
    rows = part.row[begins]
    offset, text, length = _arguments(spans, rows)
    lost[f"arguments over {_MOST_BYTES} bytes, which were cut"] += int((length > _MOST_BYTES).sum())
    name, argument_length = np.zeros(len(begins), np.int32), np.zeros(len(begins), np.int32)
    argument_offset = np.zeros(len(begins), np.int64)
    name[begins] = spans.name.codes[rows]
    argument_offset[begins], argument_length[begins] = offset, length
    records = span_records.spall(
        version,
        0,
        0,
        begins.view(np.uint8),
        part.time_ns,
        name,
        names.text,
        names.offset,
        text,
        argument_offset,
        argument_length,
    )
    size = np.full(len(begins), _END_BYTES[version], np.int64)
    size[begins] = (
        _BEGIN_BYTES[version]
        + np.diff(names.offset)[name[begins]]
        + np.minimum(length, _MOST_BYTES)
    )
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    return np.frombuffer(bytearray(records), np.uint8), ends


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
