"""pprof's `profile.proto`: stacks with weights; of spans, the time in which each was innermost.

Format: https://github.com/google/pprof/blob/main/proto/profile.proto
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.history.samples import ALL_EVENTS
from meantime.kernels import calls, export_rows, nest
from meantime.model.columns import Interner, distinct
from meantime.model.stacks import StackTable
from meantime.query.sample_units import sample_unit
from meantime.query.stacks import CallTree, check_expansion_limit
from meantime.query.threads import thread_of, thread_quarks
from meantime.views.export.protobuf import message, number
from meantime.views.export.rest import count_rest
from meantime.views.export.rows import Texts

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s

__all__ = ["write"]

_NOT_HELD = ("categories", "arguments", "points", "flows", "counter series", "objects")
_GZIP = 16 + zlib.MAX_WBITS
_UNITS = {"ns": "nanoseconds"}
_UNKNOWN_UNIT = "count"
_LOCATED = re.compile(r"(.+) \((.+):(\d{1,9})\)", re.DOTALL)
# so many bytes are compressed at a time
_ENOUGH = 1 << 16
_SAMPLES_AT_ONCE = 1 << 14


def write(history: History, lost: Counter[str], *, version: int) -> Iterator[bytes]:
    """Yield the file, compressed with gzip.

    Raises:
        MeantimeError: If its stacks, written out one by one, are too long for any file.
    """
    del version
    spans = history.spans(thread_quarks(history))
    lost["times of spans"] += len(spans)
    lost["times of samples"] += len(history.samples())
    lost["async spans"] += len(history.spans()) - len(spans)
    count_rest(history, lost, *_NOT_HELD)
    compressor = zlib.compressobj(wbits=_GZIP)
    ready = bytearray()
    for field in _profile(history):
        ready += field
        if len(ready) >= _ENOUGH:
            yield compressor.compress(ready)
            ready.clear()
    yield compressor.compress(ready) + compressor.flush()


class _Part(NamedTuple):
    """Stacks with weights of one kind or several: by row, the thread, the stack and weights."""

    stacks: StackTable
    thread: Int64s
    stack: Int64s
    weights: Int64s
    types: list[tuple[str, str]]


def _profile(history: History) -> Iterator[bytes]:
    parts = [part for part in (_of_samples(history), _of_spans(history)) if part is not None]
    strings: list[str] = [""]
    text = Interner(strings).code
    width = sum(len(part.types) for part in parts)
    for part in parts:
        for name, unit in part.types:
            yield message(1, number(1, text(name)) + number(2, text(unit)))
    names: list[str] = []
    function = Interner(names).code
    first = 0
    for part in parts:
        codes = np.array([function(name) for name in part.stacks.frames], np.uint64)
        threads, label = np.unique(part.thread, return_inverse=True)
        labels = Texts([_labels(history, thread, text) for thread in threads.tolist()])
        location = codes[part.stacks.frame] + np.uint64(1)
        after = width - first - len(part.types)
        for begin in range(0, len(part.stack), _SAMPLES_AT_ONCE):
            rows = slice(begin, begin + _SAMPLES_AT_ONCE)
            yield export_rows.stack_samples(
                part.stacks.parent,
                location,
                part.stack[rows],
                part.weights[rows],
                first,
                after,
                *labels.of(label.reshape(-1)[rows].astype(np.int32)),
            )
        first += len(part.types)
    yield from _functions(names, text)
    start_ns, end_ns = history.bounds
    if (utc_ns := history.clock.utc_at_origin_ns) is not None and utc_ns + start_ns > 0:
        yield number(9, utc_ns + start_ns)
    if not history.metadata.sample_units:
        yield number(10, end_ns - start_ns)
    if parts:
        yield number(14, text(parts[0].types[0][0]))
    yield number(13, text("converted by meantime"))
    for string in strings:
        yield message(6, string.encode("utf-8", "replace"))


def _functions(names: list[str], text: Callable[[str], int]) -> Iterator[bytes]:
    """Yield a location and a function for each name; one that ends in (FILE:LINE) has these."""
    for id_, name in enumerate(names, 1):
        found = _LOCATED.fullmatch(name)
        line = number(1, id_) + (number(2, int(found[3])) if found else b"")
        called = number(1, id_) + number(2, text(found[1] if found else name))
        if found:
            called += number(4, text(found[2]))
        yield message(4, number(1, id_) + message(4, line))
        yield message(5, called)


def _of_samples(history: History) -> _Part | None:
    samples = history.samples(event=ALL_EVENTS)
    if not len(samples):
        return None
    units = history.metadata.sample_units
    used = {samples.event.names[code] for code in distinct(samples.event.codes).tolist()}
    events = [event for event in units if event in used] + sorted(used - units.keys())
    key, row = _rows(samples.thread, samples.stack, len(samples.stacks))
    weights = np.zeros((len(key), len(events)), np.int64)
    types = []
    for column, event in enumerate(events):
        chosen = np.isin(samples.event.codes, [samples.event.names.index(event)])
        np.add.at(weights[:, column], row[chosen], samples.weight[chosen])
        unit = sample_unit(samples.of_event(event))
        types.append((event, _UNITS.get(unit, unit if event in units else _UNKNOWN_UNIT)))
    return _checked(_Part(samples.stacks, *_thread_and_stack(key, samples.stacks), weights, types))


def _of_spans(history: History) -> _Part | None:
    spans = history.spans(thread_quarks(history))
    if not len(spans):
        return None
    stack, parent, frame = calls.stacks(spans.parent, spans.name.codes)
    table = StackTable(parent, frame, spans.name.names)
    own = nest.innermost_time(spans.start_ns, spans.end_ns, spans.offsets)
    key, row = _rows(spans.thread, stack, len(table))
    weights = np.zeros((len(key), 2), np.int64)
    np.add.at(weights[:, 0], row, own)
    np.add.at(weights[:, 1], row, 1)
    types = [("wall", "nanoseconds"), ("spans", "count")]
    return _checked(_Part(table, *_thread_and_stack(key, table), weights, types))


def _rows(thread: Int32s, stack: Int32s, stacks: int) -> tuple[Int64s, Int64s]:
    """Return the different pairs of a thread and a stack as numbers, and the pair of each row."""
    key, row = np.unique(thread.astype(np.int64) * (stacks + 1) + stack + 1, return_inverse=True)
    return key, row.reshape(-1)


def _thread_and_stack(key: Int64s, table: StackTable) -> tuple[Int64s, Int64s]:
    thread, stack = np.divmod(key, len(table) + 1)
    return thread, stack - 1


def _checked(part: _Part) -> _Part:
    own = np.zeros(len(part.stacks), np.int64)
    own[part.stack[part.stack >= 0]] = 1
    check_expansion_limit(CallTree(part.stacks, own, own, own))
    return part


def _labels(history: History, quark: int, text: Callable[[str], int]) -> bytes:
    """Return the labels of a thread's samples: its name and that of its process."""
    whose = thread_of(history, quark)
    texts = {
        "thread": whose.name or whose.path or str(whose.tid),
        "process": whose.process or str(whose.pid),
    }
    return b"".join(
        message(3, number(1, text(key)) + number(2, text(value))) for key, value in texts.items()
    )
