"""Method traces of Android's runtime: `Debug.startMethodTracing`, `am profile start`.

Text about threads and methods is followed by a record of 9 to 14 bytes for each method that was
entered or left. Read are the versions 1 to 3 of files that were written at the end; those that were
streamed have another layout. Definition: https://android.googlesource.com/platform/art, `trace.cc`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.attribute_paths import process_path, thread_path
from meantime.columns import Interner
from meantime.errors import InputError
from meantime.kernels import nest
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.readers.matching import Begins, Ends, close_spans
from meantime.trace import SpanFlag, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source
    from meantime.trace import Batch, Trace

__all__ = ["FORMAT", "read", "recognises"]

FORMAT = "art"

_MAGIC: Final = b"SLOW"
_END = b"*end\n"
_HEADER = struct.Struct("<4sHHQ")
_RECORD_BYTES = struct.Struct("<H")
_SECTIONS = ("*version", "*threads", "*methods")
_ENTERED = 0
_WITH_SIZE = 3
_NS_PER_US = 1000


def recognises(head: bytes, name: str) -> bool:
    """Return whether an input begins with the first lines of a trace."""
    del name
    return head.startswith(b"*version\n")


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Text(NamedTuple):
    """What the text before the records says.

    Attributes:
        facts: The settings.
        threads: By id, the names of threads.
        methods: By number, the names of methods.
    """

    facts: dict[str, str]
    threads: dict[int, str]
    methods: dict[int, str]


def _batches(source: Source, trace: Trace, options: ReadOptions) -> Iterator[Batch]:
    with source:
        data = source.whole()
    options.report_progress(source.read_bytes, source.stored_bytes or 0)
    text_bytes = bytes(data).find(_END)
    if text_bytes < 0:
        raise InputError(source.name, "the method trace has no line *end: it is cut")
    try:
        found = _text_of(bytes(data[:text_bytes]).decode("utf-8", "replace"))
        begin = text_bytes + len(_END)
        offset, layout = _layout(data, begin)
    except (ValueError, struct.error):
        raise InputError(
            source.name, "the header of the method trace is malformed, or of an unknown version"
        ) from None
    body = data[begin + offset :]
    whole = len(body) // layout.itemsize * layout.itemsize
    if whole != len(body):
        if not options.lenient:
            raise InputError(source.name, "the last record of the method trace is cut")
        trace.anomalies.add("truncated")
    yield from _spans(np.frombuffer(body[:whole], layout), found, trace)


def _layout(data: memoryview, begin: int) -> tuple[int, np.dtype[np.void]]:
    """Return where the records begin after the header, and their layout.

    Raises:
        ValueError: If the version is unknown, or has no records of this size.
        struct.error: If the header is cut.
    """
    magic, version, offset, _ = _HEADER.unpack_from(data, begin)
    if magic != _MAGIC or not 1 <= version <= _WITH_SIZE:
        raise ValueError(version)
    size = 9 if version == 1 else 10
    if version == _WITH_SIZE:
        (size,) = _RECORD_BYTES.unpack_from(data, begin + _HEADER.size)
    tid = "u1" if version == 1 else "<u2"
    at = 1 if version == 1 else 2
    # with both clocks, the time on the CPU comes before the time of the wall
    if size not in {at + 8, at + 12}:
        raise ValueError(size)
    return offset, np.dtype(
        {
            "names": ["tid", "method", "time"],
            "formats": [tid, "<u4", "<u4"],
            "offsets": [0, at, size - 4],
            "itemsize": size,
        }
    )


def _text_of(text: str) -> _Text:
    """Read the text before the records.

    Raises:
        ValueError: If it is malformed.
    """
    found = _Text({}, {}, {})
    section = ""
    for line in text.split("\n"):
        if line in _SECTIONS:
            section = line
        elif section == "*version":
            name, _, value = line.partition("=")
            found.facts[name if value else "version"] = value or name
        elif section == "*threads" and line:
            tid, _, name = line.partition("\t")
            found.threads[int(tid)] = name
        elif section == "*methods" and line:
            number, class_, method, *_ = [*line.split("\t"), "", ""]
            found.methods[int(number, 16)] = f"{class_}.{method}" if method else class_
    return found


def _spans(records: npt.NDArray[np.void], found: _Text, trace: Trace) -> Iterator[Batch]:
    pid = found.facts.get("pid", "0")
    trace.facts |= {name: value[:200] for name, value in found.facts.items()}
    trace.records = len(records)
    tids, thread = np.unique(records["tid"], return_inverse=True)
    for tid in tids.tolist():
        trace.names[len(trace.paths)] = found.threads.get(tid, f"thread {tid}")
        trace.paths.append(thread_path(tid, pid))
    trace.paths.append(process_path(pid))
    if not len(records):
        return
    time_ns: Int64s = records["time"].astype(np.int64) * _NS_PER_US
    # the two lowest bits say what happened
    method = records["method"] & ~np.uint32(3)
    numbers, name = np.unique(method, return_inverse=True)
    values = Interner(trace.values)
    codes = values.codes(
        [found.methods.get(each, f"method {each:#x}") for each in numbers.tolist()]
    )
    name, thread = codes[name].astype(np.int32), thread.astype(np.int32)
    is_begin = (records["method"] & 3) == _ENTERED
    rows = int(is_begin.sum())
    start_ns, level = time_ns[is_begin].copy(), np.zeros(rows, np.int32)
    end_ns, flags = start_ns.copy(), np.full(rows, SpanFlag.STRUCTURED | nest.OPEN, np.uint8)
    spans = Begins(start_ns, end_ns, thread[is_begin].copy(), name[is_begin].copy(), flags)
    last_ns, backwards = np.zeros(len(tids), np.int64), np.zeros(len(tids), np.bool_)
    for number in range(len(tids)):
        own = time_ns[thread == number]
        last_ns[number], backwards[number] = own.max(), bool((np.diff(own) < 0).any())
    ended = ~is_begin
    close_spans(
        spans,
        level,
        Ends(
            time_ns[ended].copy(),
            thread[ended].copy(),
            name[ended].copy(),
            np.cumsum(is_begin)[ended].astype(np.int32),
        ),
        last_ns=last_ns,
        backwards=backwards,
        anomalies=trace.anomalies,
    )
    for first in range(0, rows, MOST_BATCH_ROWS):
        part = slice(first, first + MOST_BATCH_ROWS)
        yield Spans(
            start_ns=start_ns[part],
            end_ns=end_ns[part],
            thread=spans.thread[part],
            name=spans.name[part],
            category=np.full(len(start_ns[part]), -1, np.int32),
            level=level[part],
            flags=flags[part],
        )
