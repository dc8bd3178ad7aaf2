"""Chrome Trace Event JSON, one event per line, with everything in a history of a span trace.

Spans that were recorded as begins and ends become B and E events, others X events.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.kernels import span_records
from meantime.model import attribute_paths as tree
from meantime.model.trace import SpanFlag
from meantime.query.threads import numbered, thread_of, threads_of
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Texts, given, numbered_pairs, pieces
from meantime.views.export.walk import steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s
    from meantime.query.threads import Thread
    from meantime.views.export.rows import Parts

__all__ = ["write"]

_LINES_AT_ONCE = 2**12
_EVENTS_AT_ONCE = 2**15
# How the spans of a thread are written.
_ASYNC, _FLAT, _NESTED, _MIXED = range(4)
_EARLIEST_NS = -(2**63)
# The path of an async operation with a scope has more names.
_SCOPED = 4
_UNFINISHED = int(SpanFlag.UNFINISHED)
# Facts that `write` writes itself, from other data of the history.
_WRITTEN = {
    *("displayTimeUnit", "traceName", "baseTimeNanoseconds"),
    *("traceEvents", "samples", "stackFrames"),
}


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file."""
    del version
    head = {"displayTimeUnit": history.facts.get("displayTimeUnit", "ns")}
    if history.title:
        head["traceName"] = history.title
    text = json.dumps(head)[:-1]
    for name, value in history.facts.items():
        if name not in _WRITTEN:
            text += f", {json.dumps(name)}: {_fact(value)}"
    if history.clock.utc_at_origin_ns is not None:
        text += f', "baseTimeNanoseconds": {history.clock.utc_at_origin_ns}'
    yield f'{text}, "traceEvents": [\n'.encode()
    separator = b""
    for events in _joined(_events(history, lost)):
        yield separator + events
        separator = b",\n"
    yield b"\n]"
    samples = _samples(history)
    while lines := "".join(islice(samples, _LINES_AT_ONCE)):
        yield lines.encode()
    yield b"}\n"


def _joined(events: Iterator[str | bytes]) -> Iterator[bytes]:
    """Yield events, many at a time: writing single lines is slow."""
    waiting: list[str] = []
    for event in events:
        if isinstance(event, str):
            waiting.append(event)
        if waiting and (len(waiting) == _LINES_AT_ONCE or isinstance(event, bytes)):
            yield ",\n".join(waiting).encode()
            waiting.clear()
        if isinstance(event, bytes):
            yield event
    if waiting:
        yield ",\n".join(waiting).encode()


def _fact(text: str) -> str:
    """Return the JSON that is read back as the text of a fact."""
    if text.startswith(("{", "[")):
        try:
            json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return json.dumps(text)
        return text
    return json.dumps(text)


def _events(history: History, lost: Counter[str]) -> Iterator[str | bytes]:
    """Yield events, many of them as bytes."""
    yield from _metadata(history)
    ids = _Ids(history)
    yield from _Spans(history, ids).events()
    yield from _points(history, lost)
    yield from _counters(history)
    _count_the_rest(history, lost)
    _count_ends(history, lost)
    yield from _flows(history, ids, lost)
    yield from _objects(history)


def _count_the_rest(history: History, lost: Counter[str]) -> None:
    """Count the counters and descriptions of attributes outside processes."""
    held: Counter[str] = Counter()
    count_rest(history, held, "counter series", "descriptions")
    lost["counter series of no process"] += held["counter series"] - len(
        history.quarks(tree.COUNTER_PATTERN)
    )
    lost["descriptions"] += held["descriptions"] - sum(
        len(path) in {2, 4} and path[0] == tree.PROCESSES
        for path in map(history.attributes.path, history.descriptions)
    )


def _count_ends(history: History, lost: Counter[str]) -> None:
    """Count the unfinished spans that end after everything that is written of their thread."""
    spans, points = history.spans(), history.points()
    unfinished = spans.unfinished
    if not unfinished.any():
        return
    of_points = np.full(1 + max(map(_largest, (points.quark, spans.threads))), _EARLIEST_NS)
    np.maximum.at(of_points, points.quark, points.time_ns)
    for thread, quark in enumerate(spans.threads.tolist()):
        part = slice(int(spans.offsets[thread]), int(spans.offsets[thread + 1]))
        ends_ns = spans.end_ns[part]
        last_ns = max(
            int(spans.start_ns[part].max()),
            int(ends_ns[~unfinished[part]].max(initial=_EARLIEST_NS)),
            int(of_points[quark]),
        )
        lost["ends of unfinished spans"] += int((ends_ns[unfinished[part]] > last_ns).sum())


def _largest(quarks: Int32s) -> int:
    return int(quarks.max(initial=0))


def _us(time_ns: int) -> str:
    """Return microseconds as an exact decimal.

    >>> _us(1_500), _us(2_000), _us(-1)
    ('1.500', '2', '-0.001')
    """
    sign = "-" if time_ns < 0 else ""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{sign}{whole}.{rest:03}" if rest else f"{sign}{whole}"


class _Ids(dict[int, str]):
    """The fields with the ids of a thread by its attribute; empty for what is not a thread."""

    def __init__(self, history: History) -> None:
        self._history = history

    def __missing__(self, quark: int) -> str:
        self.add([quark])
        return self[quark]

    def add(self, quarks: list[int]) -> None:
        """Look up many at once."""
        self.update(dict.fromkeys(quarks, ""))
        paths = map(self._history.attributes.path, quarks)
        # there may be as many async operations as spans
        others = [
            quark
            for quark, path in zip(quarks, paths, strict=True)
            if len(path) <= _SCOPED or not tree.is_async(path)
        ]
        for quark, whose in zip(others, threads_of(self._history, others), strict=True):
            fields = f'"pid":{json.dumps(_pid(whose))},"tid":{json.dumps(whose.tid)}'
            self[quark] = "" if whose.tid is None else fields


def _pid(whose: Thread) -> int | str:
    """Return the id of a process; 0 for attributes outside processes."""
    return 0 if whose.pid == "" else whose.pid


def _metadata(history: History) -> Iterator[str]:
    facts: list[tuple[str, str, dict[int, Any]]] = [
        ("name", "name", history.names),
        ("sort_index", "sort_index", history.sort_keys),
        ("labels", "labels", history.descriptions),
    ]
    for name, key, values in facts:
        for quark, value in values.items():
            path = history.attributes.path(quark)
            if path[0] != tree.PROCESSES or len(path) not in {2, 4}:
                continue
            event: dict[str, Any] = {"ph": "M", "pid": numbered(path[1])}
            if len(path) == 4:
                event["tid"] = numbered(path[3])
            kind = "thread" if len(path) == 4 else "process"
            yield json.dumps({**event, "name": f"{kind}_{name}", "args": {key: value}})


def _details(spans: SpanTable, row: int) -> str:
    text = ""
    if (category := spans.category[row]) is not None:
        text = f',"cat":{json.dumps(category)}'
    arguments = spans.arguments(row)
    return text if arguments is None else f'{text},"args":{_json_text(arguments).decode()}'


def _json_text(text: str) -> bytes:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        text = json.dumps(text)
    return text.encode()


class _Spans:
    """Writes the spans of a history."""

    def __init__(self, history: History, ids: _Ids) -> None:
        self._spans = spans = history.spans()
        quarks = spans.threads.tolist()
        ids.add(quarks)
        # by thread, its fields, and whether they are those of an async operation, with a scope
        self._ids = [ids[quark] for quark in quarks]
        self._is_async = np.array([not fields for fields in self._ids], np.bool_)
        self._has_scope = np.zeros(len(quarks), np.bool_)
        known: dict[tuple[str, ...], tuple[str, str]] = {}
        for thread in np.flatnonzero(self._is_async).tolist():
            path = history.attributes.path(quarks[thread])
            self._ids[thread] = _async_ids(path, known)
            self._has_scope[thread] = len(path) > _SCOPED
        self._names = [json.dumps(name) for name in spans.name.names]
        self._name_texts = Texts(name.encode() for name in self._names)
        # the last one is for spans without a category, whose code is -1
        self._categories = [*(f',"cat":{json.dumps(name)}' for name in spans.category.names), ""]

    def events(self) -> Iterator[str | bytes]:
        """Yield the events of each thread, in the order of the table."""
        for first, last, kind in self._runs():
            if kind == _NESTED:
                yield from self._begun(first, last)
            elif kind == _FLAT:
                yield from self._complete(first, last)
            elif kind == _MIXED:
                yield from self._mixed(first)
            else:
                yield from self._async(first, last)

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first of some threads, the one after the last, and how they are written.

        There are several where each has few spans, since NumPy's calls take longer than these.
        """
        spans = self._spans
        is_structured = (spans.flags & np.uint8(SpanFlag.STRUCTURED)) != 0
        begun = np.append(np.int64(0), np.cumsum(is_structured))[spans.offsets]
        begun, sizes = np.diff(begun), np.diff(spans.offsets)
        kinds = np.where(begun == 0, _FLAT, np.where(begun == sizes, _NESTED, _MIXED))
        kinds[self._is_async] = _ASYNC
        listed, offsets = kinds.tolist(), spans.offsets.tolist()
        first = 0
        for last in range(1, len(listed) + 1):
            kind = listed[first]
            if (
                last == len(listed)
                or listed[last] != kind
                or kind == _MIXED
                or offsets[last + 1] - offsets[first] > _EVENTS_AT_ONCE
            ):
                yield first, last, kind
                first = last

    def _complete(self, first: int, last: int) -> Iterator[bytes]:
        """Yield X events of the spans of threads, B events of unfinished ones.

        X events are nested by their times only; in a thread with lanes begins and ends would not
        come in the order of time.
        """
        spans = self._spans
        rows = np.arange(spans.offsets[first], spans.offsets[last], dtype=np.int32)
        unfinished = (spans.flags[rows] & np.uint8(SpanFlag.UNFINISHED)) != 0
        phase = np.where(unfinished, ord("B"), ord("X"))
        yield from self._in_columns(rows, phase.astype(np.uint8), spans.start_ns[rows])

    def _begun(self, first: int, last: int) -> Iterator[bytes]:
        """Yield B and E events of the spans of threads, B events of unfinished ones."""
        spans = self._spans
        begin, end = int(spans.offsets[first]), int(spans.offsets[last])
        rows = np.arange(begin, end, dtype=np.int32)
        lane = spans.lane[begin:end]
        parent = spans.parent
        if lane.any():
            sizes = np.diff(spans.offsets[first : last + 1])
            rows = rows[np.lexsort((lane, np.repeat(np.arange(last - first), sizes)))]
            # roots of a lane have parents in others
            parent = np.where(spans.lane[parent] == spans.lane, parent, np.int32(-1))
        index, begins, time_ns = steps(spans, rows, parent)
        kept = begins | ((spans.flags[index] & np.uint8(SpanFlag.UNFINISHED)) == 0)
        phase = np.where(begins, ord("B"), ord("E")).astype(np.uint8)
        yield from self._in_columns(index[kept], phase[kept], time_ns[kept])

    def _async(self, first: int, last: int) -> Iterator[bytes]:
        """Yield b and e events of the spans of async operations, b events of unfinished ones."""
        spans = self._spans
        part = slice(int(spans.offsets[first]), int(spans.offsets[last]))
        start_ns, end_ns = spans.start_ns[part], spans.end_ns[part]
        rows = np.arange(part.start, part.stop, dtype=np.int32)
        is_empty = start_ns == end_ns
        # events at one instant are ordered: ends, then begins, then empty spans
        rank = np.empty((len(rows), 2), np.uint8)
        rank[:, 0], rank[:, 1] = np.where(is_empty, 2, 1), np.where(is_empty, 2, 0)
        kept = np.ones((len(rows), 2), np.bool_)
        kept[:, 1] = (spans.flags[part] & np.uint8(SpanFlag.UNFINISHED)) == 0
        chosen = np.flatnonzero(kept)
        time_ns = np.column_stack((start_ns, end_ns)).reshape(-1)[chosen]
        thread = np.repeat(np.arange(last - first), np.diff(spans.offsets[first : last + 1]))
        order = np.lexsort((rank.reshape(-1)[chosen], time_ns, thread[chosen // 2]))
        phase = np.where(chosen % 2, ord("e"), ord("b")).astype(np.uint8)
        yield from self._in_columns(rows[chosen // 2][order], phase[order], time_ns[order])

    def _in_columns(
        self, index: Int32s, phase: npt.NDArray[np.uint8], time_ns: Int64s
    ) -> Iterator[bytes]:
        """Yield events of spans."""
        spans = self._spans
        for part in pieces(spans.arguments_length[index]):
            rows, phases = index[part], phase[part]
            ends = (phases == ord("E")) | (phases == ord("e"))
            arguments = _json_arguments(given(spans, rows, ~ends))
            yield span_records.chrome(
                phases,
                time_ns[part],
                spans.end_ns[rows] - spans.start_ns[rows],
                *self._name_texts.of(spans.name.codes[rows]),
                *self._tails(rows, ends),
                *arguments,
            )

    def _tails(self, rows: Int32s, ends: npt.NDArray[np.bool_]) -> tuple[Int32s, bytes, Int64s]:
        """Return what follows the times of some events: ids and a category.

        Ends have no category, but for those of async operations with a scope.
        """
        spans = self._spans
        thread = np.searchsorted(spans.offsets, rows, "right") - 1
        ends = ends & ~self._has_scope[thread]
        first, width = int(thread.min()), len(self._categories)
        category = np.where(ends, np.int32(-1), spans.category.codes[rows]) % np.int32(width)
        threads = int(thread.max()) - first + 1
        listed, code = numbered_pairs((thread - first) * width + category, threads * width)
        texts = [
            f",{self._ids[first + pair // width]}{self._categories[pair % width]}".encode()
            for pair in listed.tolist()
        ]
        return Texts(texts).of(code)

    def _mixed(self, thread: int) -> Iterator[str]:
        """Yield B and E events of spans that were recorded that way, X events of other spans."""
        spans, ids, names = self._spans, self._ids[thread], self._names
        flags, code = spans.flags, spans.name.codes
        for begins, row, time_ns in _steps(spans, thread):
            if begins is None:
                start_ns = int(spans.start_ns[row])
                kind = '"ph":"B"'
                if not flags[row] & _UNFINISHED:
                    kind = f'"ph":"X","dur":{_us(time_ns - start_ns)}'
                fields = f'"name":{names[code[row]]},"ts":{_us(start_ns)},{ids}'
                yield f"{{{kind},{fields}{_details(spans, row)}}}"
            elif begins:
                fields = f'"name":{names[code[row]]},"ts":{_us(time_ns)},{ids}'
                yield f'{{"ph":"B",{fields}{_details(spans, row)}}}'
            elif not flags[row] & _UNFINISHED:
                yield f'{{"ph":"E","ts":{_us(time_ns)},{ids}}}'


def _json_arguments(arguments: Parts) -> tuple[npt.NDArray[np.uint8], Int64s, Int32s]:
    """Return arguments as JSON: those that are not become texts."""
    plain = span_records.plain_json(
        arguments.text, arguments.offset, arguments.length.astype(np.int32)
    )
    others = np.flatnonzero(plain == 0)
    if len(others):
        texts = [
            _json_text(arguments.of_row(row).decode("utf-8", "replace")) for row in others.tolist()
        ]
        arguments = arguments.with_parts(others, texts)
    return arguments.text, arguments.offset, arguments.length.astype(np.int32)


def _steps(spans: SpanTable, thread: int) -> Iterator[tuple[bool | None, int, int]]:
    """Yield whether a span begins (None: it is written as one event), its row, and the time."""
    rows = range(int(spans.offsets[thread]), int(spans.offsets[thread + 1]))
    begun = np.zeros(len(rows), np.bool_)
    # With lanes, begins and ends of one thread would overlap: all its spans become X events.
    if not spans.lane[rows.start : rows.stop].any():
        begun = (spans.flags[rows.start : rows.stop] & np.uint8(SpanFlag.STRUCTURED)) != 0
    parents = spans.parent
    open_: list[int] = []
    for row in rows:
        parent = int(parents[row])
        # X events are never open: the nearest ancestor that has a begin event is the open one.
        while parent >= 0 and not begun[parent - rows.start]:
            parent = int(parents[parent])
        while open_ and open_[-1] != parent:
            ended = open_.pop()
            yield False, ended, int(spans.end_ns[ended])
        if begun[row - rows.start]:
            open_.append(row)
            yield True, row, int(spans.start_ns[row])
        else:
            yield None, row, int(spans.end_ns[row])
    while open_:
        ended = open_.pop()
        yield False, ended, int(spans.end_ns[ended])


def _async_ids(path: tuple[str, ...], known: dict[tuple[str, ...], tuple[str, str]]) -> str:
    """Return the fields with the ids of an async operation.

    Args:
        path: Its path.
        known: What is before and after the id, by what it depends on, from earlier calls.
    """
    scope = path[3:4] if len(path) > _SCOPED else ()
    key = (path[1], *scope)
    if key not in known:
        after = f',"scope":{json.dumps(scope[0])}' if scope else ""
        known[key] = f'"pid":{json.dumps(numbered(path[1]))},"id":', after
    before, after = known[key]
    return f"{before}{json.dumps(path[-1])}{after}"


def _points(history: History, lost: Counter[str]) -> Iterator[str]:
    points = history.points()
    heads: dict[tuple[int, int], str] = {}
    rows = np.arange(len(points))
    for part in pieces(points.arguments_length):
        text, offset, length = _json_arguments(given(points, rows[part]))
        arguments = text.tobytes()
        columns = (points.quark[part], points.name.codes[part], points.time_ns[part])
        for quark, name, time_ns, first, size in zip(
            *(column.tolist() for column in (*columns, offset, length)), strict=True
        ):
            head = heads.get((quark, name))
            if head is None:
                event = _point(history, quark, points.name.names[name] if name >= 0 else None)
                head = heads[quark, name] = json.dumps(event)[:-1] if event else ""
            if not head:
                lost["points of other attributes"] += 1
                continue
            own = f',"args":{arguments[first : first + size].decode()}' if size else ""
            yield f'{head}, "ts": {_us(time_ns)}{own}}}'


def _point(history: History, quark: int, name: str | None) -> dict[str, Any]:
    """Return a point of an attribute without its time; empty if it cannot be written."""
    event: dict[str, Any] = {"name": name}
    match history.attributes.path(quark):
        case (tree.GLOBAL,):
            event |= {"ph": "i", "s": "g"}
        case (tree.PROCESSES, pid):
            event |= {"ph": "i", "s": "p", "pid": numbered(pid)}
        case (tree.PROCESSES, pid, tree.THREADS, tid):
            event |= {"ph": "i", "s": "t", "pid": numbered(pid), "tid": numbered(tid)}
        case (tree.PROCESSES, pid, tree.ASYNC, scope, id_):
            event |= {"ph": "n", "pid": numbered(pid), "id": id_, "scope": scope}
        case (tree.PROCESSES, pid, tree.OBJECTS, _, id_):
            event |= {"ph": "O", "pid": numbered(pid), "id": id_}
        case _ if (whose := thread_of(history, quark)).tid is not None:
            event |= {"ph": "i", "s": "t", "pid": _pid(whose), "tid": whose.tid}
        case _:
            return {}
    return event


def _counters(history: History) -> Iterator[str]:
    for quark in history.quarks(tree.COUNTER_PATTERN).tolist():
        _, pid, _, name, series = history.attributes.path(quark)
        event = {"ph": "C", "name": name, "pid": numbered(pid), "args": {series: 0}}
        head = json.dumps(event).removesuffix("0}}")
        for batch in history.interval_batches([quark], history.start_ns, history.end_ns):
            for start_ns, value in zip(batch.start_ns.tolist(), batch.value.to_list(), strict=True):
                if value is not None:
                    yield f'{head}{json.dumps(value)}}}, "ts": {_us(start_ns)}}}'


def _flows(history: History, ids: _Ids, lost: Counter[str]) -> Iterator[str]:
    flows = history.flows()
    columns = (flows.from_quark, flows.to_quark, flows.from_ns, flows.to_ns, flows.name.codes)
    # the last one is for flows without a name, whose code is -1
    names = [json.dumps(name) for name in [*flows.name.names, None]]
    for row, (source, target, from_ns, to_ns, name) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        start, end = ids[source], ids[target]
        if not start or not end:
            lost["flows between other attributes than threads"] += 1
            continue
        fields = f'"name":{names[name]},"id":{row},"ts":'
        yield f'{{"ph":"s",{fields}{_us(from_ns)},{start}}}'
        # bp: e binds the arrival to the enclosing slice instead of to the next one that begins
        yield f'{{"ph":"f","bp":"e",{fields}{_us(to_ns)},{end}}}'


def _objects(history: History) -> Iterator[str]:
    for quark in history.quarks(tree.OBJECT_PATTERN).tolist():
        _, pid, _, name, id_ = history.attributes.path(quark)
        event = {"name": name, "id": id_, "pid": numbered(pid)}
        alive = False
        for batch in history.interval_batches([quark], history.start_ns, history.end_ns):
            for _, start_ns, _, value, _, _ in batch:
                if alive or value is not None:
                    alive = value is not None
                    text = json.dumps({"ph": "N" if alive else "D", **event})
                    yield f'{text[:-1]}, "ts": {_us(start_ns)}}}'


def _samples(history: History) -> Iterator[str]:
    samples = history.samples(event=ALL_EVENTS)
    if not len(samples):
        return
    table = samples.stacks
    frames = {
        str(row): {"name": table.frames[frame]} | ({"parent": str(parent)} if parent >= 0 else {})
        for row, (parent, frame) in enumerate(
            zip(table.parent.tolist(), table.frame.tolist(), strict=True)
        )
    }
    yield f',\n"stackFrames": {json.dumps(frames)},\n"samples": ['
    columns = (samples.thread, samples.event.codes, samples.weight, samples.cpu, samples.stack)
    times, *others = (column.tolist() for column in (samples.time_ns, *columns))
    heads: dict[tuple[int, int], str] = {}
    separator = "\n"
    for time_ns, thread, event, weight, cpu, stack in zip(times, *others, strict=True):
        head = heads.get((thread, event))
        if head is None:
            whose = thread_of(history, thread)
            name = samples.event.names[event] if event >= 0 else None
            fields = {"pid": _pid(whose), "tid": whose.tid, "name": name}
            head = heads[thread, event] = json.dumps(fields)[:-1]
        yield (
            f'{separator}{head}, "weight": {weight}, "cpu": {cpu}, "sf": "{stack}",'
            f' "ts": {_us(time_ns)}}}'
        )
        separator = ",\n"
    yield "]"
