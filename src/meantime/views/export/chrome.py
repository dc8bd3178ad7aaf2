"""Chrome Trace Event JSON, one event per line, with everything in a history of a span trace.

Spans that were recorded as begins and ends become B and E events, others X events.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime import attribute_paths as tree
from meantime.history.argument_texts import joined_texts
from meantime.history.samples import ALL_EVENTS
from meantime.kernels import span_records
from meantime.query.threads import numbered, thread_of
from meantime.trace import SpanFlag
from meantime.views.export.rest import count_rest
from meantime.views.export.walk import is_structured, lanes, steps, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.query.threads import Thread

__all__ = ["write"]

_LINES_AT_ONCE = 2**12
_EVENTS_AT_ONCE = 2**15
_EARLIEST_NS = -(2**63)
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
    waiting: list[str] = []
    separator = ""
    # thousands of lines are joined into one piece, as writing them one by one is slow
    for event in _events(history, lost):
        if isinstance(event, str):
            waiting.append(event)
        if waiting and (len(waiting) == _LINES_AT_ONCE or isinstance(event, bytes)):
            yield (separator + ",\n".join(waiting)).encode()
            separator = ",\n"
            waiting.clear()
        if isinstance(event, bytes):
            yield separator.encode() + event
            separator = ",\n"
    if waiting:
        yield (separator + ",\n".join(waiting)).encode()
    yield b"\n]" + "".join(_samples(history)).encode() + b"}\n"


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
    spans = history.spans()
    names = _Texts([json.dumps(name) for name in spans.name.names])
    # the first is for spans without a category, whose code is -1
    categories = ["", *(f',"cat":{json.dumps(name)}' for name in spans.category.names)]
    for thread, quark in enumerate(spans.threads.tolist()):
        path = history.attributes.path(quark)
        if thread_of(history, quark).tid is None:
            yield from _async(spans, thread, path, names.texts)
        else:
            yield from _thread(spans, thread, _ids(history, quark), names, categories)
    yield from _points(history, lost)
    yield from _counters(history)
    _count_the_rest(history, lost)
    _count_ends(history, lost)
    yield from _flows(history, lost)
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


def _ids(history: History, quark: int) -> str:
    whose = thread_of(history, quark)
    return f'"pid":{json.dumps(_pid(whose))},"tid":{json.dumps(whose.tid)}'


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
    return text + _arguments(spans.arguments(row))


def _arguments(text: str | None) -> str:
    return "" if text is None else f',"args":{_json_text(text).decode()}'


def _json_text(text: str) -> bytes:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        text = json.dumps(text)
    return text.encode()


class _Texts:
    """Texts by code, for the kernel as one.

    Attributes:
        texts: The texts.
        joined: All of them, which are ASCII as all JSON that is written here.
        offset: By code, where its text begins; the next one's is its end.
    """

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.joined = "".join(texts).encode()
        self.offset = np.cumsum([0, *map(len, texts)], dtype=np.int64)


def _thread(
    spans: SpanTable, thread: int, ids: str, names: _Texts, categories: list[str]
) -> Iterator[str | bytes]:
    """Yield B and E events of spans that were recorded that way, X events of other spans.

    X events are nested by their times only; in a thread with lanes begins and ends would not come
    in the order of time.
    """
    first, last = int(spans.offsets[thread]), int(spans.offsets[thread + 1])
    structured = (spans.flags[first:last] & np.uint8(SpanFlag.STRUCTURED)) != 0
    if structured.all() or not structured.any():
        tails = _Texts([*(f",{ids}{category}" for category in categories), f",{ids}"])
        if structured.any():
            for _, in_lane in lanes(spans, thread):
                yield from _begun(spans, np.array(in_lane, np.int32), names, tails)
        else:
            yield from _complete(spans, np.arange(first, last, dtype=np.int32), names, tails)
        return
    flags, code, texts = spans.flags, spans.name.codes, names.texts
    for begins, row, time_ns in _steps(spans, thread):
        if begins is None:
            start_ns = int(spans.start_ns[row])
            kind = '"ph":"B"'
            if not flags[row] & _UNFINISHED:
                kind = f'"ph":"X","dur":{_us(time_ns - start_ns)}'
            fields = f'"name":{texts[code[row]]},"ts":{_us(start_ns)},{ids}'
            yield f"{{{kind},{fields}{_details(spans, row)}}}"
        elif begins:
            fields = f'"name":{texts[code[row]]},"ts":{_us(time_ns)},{ids}'
            yield f'{{"ph":"B",{fields}{_details(spans, row)}}}'
        elif not flags[row] & _UNFINISHED:
            yield f'{{"ph":"E","ts":{_us(time_ns)},{ids}}}'


def _complete(spans: SpanTable, rows: Int32s, names: _Texts, tails: _Texts) -> Iterator[bytes]:
    """Yield X events of spans, B events of unfinished ones."""
    unfinished = (spans.flags[rows] & np.uint8(SpanFlag.UNFINISHED)) != 0
    phase = np.where(unfinished, ord("B"), ord("X")).astype(np.uint8)
    yield from _in_columns(spans, rows, phase, spans.start_ns[rows], names, tails)


def _begun(spans: SpanTable, rows: Int32s, names: _Texts, tails: _Texts) -> Iterator[bytes]:
    """Yield B and E events of the spans of a lane, B events of unfinished ones."""
    index, begins, time_ns = steps(spans, rows, spans.parent)
    kept = begins | ((spans.flags[index] & np.uint8(SpanFlag.UNFINISHED)) == 0)
    phase = np.where(begins, ord("B"), ord("E")).astype(np.uint8)
    yield from _in_columns(spans, index[kept], phase[kept], time_ns[kept], names, tails)


def _in_columns(  # noqa: PLR0917 - the columns of events
    spans: SpanTable,
    index: Int32s,
    phase: npt.NDArray[np.uint8],
    time_ns: Int64s,
    names: _Texts,
    tails: _Texts,
) -> Iterator[bytes]:
    """Yield events of spans; ends have the last tail, which is without a category."""
    for first in range(0, len(index), _EVENTS_AT_ONCE):
        part = slice(first, first + _EVENTS_AT_ONCE)
        rows, phases = index[part], phase[part]
        ends = phases == ord("E")
        length = np.where(ends, np.int32(0), spans.arguments_length[rows])
        offset, text, length = _json_arguments(spans, rows, length)
        yield span_records.chrome(
            phases,
            time_ns[part],
            spans.end_ns[rows] - spans.start_ns[rows],
            spans.name.codes[rows],
            names.joined,
            names.offset,
            np.where(ends, np.int32(len(tails.texts) - 1), spans.category.codes[rows] + 1),
            tails.joined,
            tails.offset,
            text,
            offset,
            length,
        )


def _json_arguments(
    spans: SpanTable, rows: Int32s, length: Int32s
) -> tuple[Int64s, npt.NDArray[np.uint8], Int32s]:
    """Return where the arguments of some spans begin in a text, that, and their lengths."""
    offset, parts = joined_texts(spans.text, spans.arguments_offset[rows], length)
    text = np.concatenate([np.empty(0, np.uint8), *parts])
    others = np.flatnonzero(span_records.plain_json(text, offset, length) == 0)
    if not len(others):
        return offset, text, length
    more = [
        _json_text(
            text[offset[row] : offset[row] + length[row]].tobytes().decode("utf-8", "replace")
        )
        for row in others.tolist()
    ]
    sizes = np.array([*map(len, more)], np.int64)
    offset[others] = len(text) + np.cumsum(sizes) - sizes
    length[others] = sizes
    return offset, np.append(text, np.frombuffer(b"".join(more), np.uint8)), length


def _steps(spans: SpanTable, thread: int) -> Iterator[tuple[bool | None, int, int]]:
    """Yield whether a span begins (None: it is written as one event), its row, and the time."""
    if is_structured(spans, thread):
        for _, in_lane in lanes(spans, thread):
            yield from walk(spans, in_lane)
        return
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


def _async(spans: SpanTable, thread: int, path: tuple[str, ...], names: list[str]) -> Iterator[str]:
    ids = f'"pid":{json.dumps(numbered(path[1]))},"id":{json.dumps(path[-1])}'
    scope = f',"scope":{json.dumps(path[3])}' if len(path) > 4 else ""
    events: list[tuple[int, int, int]] = []
    for row in range(int(spans.offsets[thread]), int(spans.offsets[thread + 1])):
        start_ns, end_ns = int(spans.start_ns[row]), int(spans.end_ns[row])
        # events at one instant are ordered: ends, then begins, then empty spans
        events.append((start_ns, 1 if end_ns > start_ns else 2, row))
        if not spans.flags[row] & _UNFINISHED:
            events.append((end_ns, 0 if end_ns > start_ns else 2, row))
    begun: set[int] = set()
    for time_ns, _, row in sorted(events):
        ends = row in begun
        begun.add(row)
        details = "" if ends else _details(spans, row)
        category = f',"cat":{json.dumps(spans.category[row])}' if ends and scope else ""
        if ends and spans.category[row] is None:
            category = ""
        yield (
            f'{{"ph":"{"e" if ends else "b"}","name":{names[spans.name.codes[row]]},'
            f'"ts":{_us(time_ns)},{ids}{scope}{category}{details}}}'
        )


def _points(history: History, lost: Counter[str]) -> Iterator[str]:
    points = history.points()
    for row in range(len(points)):
        quark = int(points.quark[row])
        path = history.attributes.path(quark)
        event: dict[str, Any] = {"name": points.name[row]}
        match path:
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
                lost["points of other attributes"] += 1
                continue
        arguments = _arguments(points.arguments(row))
        yield f'{json.dumps(event)[:-1]}, "ts": {_us(int(points.time_ns[row]))}{arguments}}}'


def _counters(history: History) -> Iterator[str]:
    for quark in history.quarks(tree.COUNTER_PATTERN).tolist():
        _, pid, _, name, series = history.attributes.path(quark)
        event = {"ph": "C", "name": name, "pid": numbered(pid)}
        for batch in history.interval_batches([quark]):
            for _, start_ns, _, value, _, _ in batch:
                if value is not None:
                    text = json.dumps({**event, "args": {series: value}})
                    yield f'{text[:-1]}, "ts": {_us(start_ns)}}}'


def _flows(history: History, lost: Counter[str]) -> Iterator[str]:
    flows = history.flows()
    for row in range(len(flows)):
        ends = [int(flows.from_quark[row]), int(flows.to_quark[row])]
        if any(thread_of(history, quark).tid is None for quark in ends):
            lost["flows between other attributes than threads"] += 1
            continue
        name = f'"name":{json.dumps(flows.name[row])},"id":{row}'
        for kind, time_ns, quark in zip(
            # bp: e binds the arrival to the enclosing slice instead of to the next one that begins
            ('"ph":"s"', '"ph":"f","bp":"e"'),
            (int(flows.from_ns[row]), int(flows.to_ns[row])),
            ends,
            strict=True,
        ):
            yield f'{{{kind},{name},"ts":{_us(time_ns)},{_ids(history, quark)}}}'


def _objects(history: History) -> Iterator[str]:
    for quark in history.quarks(tree.OBJECT_PATTERN).tolist():
        _, pid, _, name, id_ = history.attributes.path(quark)
        event = {"name": name, "id": id_, "pid": numbered(pid)}
        alive = False
        for batch in history.interval_batches([quark]):
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
    for row in range(len(samples)):
        whose = thread_of(history, int(samples.thread[row]))
        fields = {
            "pid": _pid(whose),
            "tid": whose.tid,
            "name": samples.event[row],
            "weight": int(samples.weight[row]),
            "cpu": int(samples.cpu[row]),
            "sf": str(samples.stack[row]),
        }
        comma = "," if row else ""
        yield f'{comma}\n{json.dumps(fields)[:-1]}, "ts": {_us(int(samples.time_ns[row]))}}}'
    yield "]"
