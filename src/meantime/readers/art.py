"""Method traces of Android's runtime: `Debug.startMethodTracing`, `am profile start`.

A record of 9 to 14 bytes says that a method was entered or left. In a file that was written at the
end, text about threads and methods is before the records; in one that was streamed, each thread and
method is described between them. Read are the versions 1 to 3 of both.
Definition: https://android.googlesource.com/platform/art, `trace.cc`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.kernels import nest
from meantime.model.attribute_paths import process_path, thread_path
from meantime.model.columns import Interner
from meantime.model.trace import SpanFlag, Spans
from meantime.readers.contract import MOST_BATCH_ROWS, lazy_trace
from meantime.readers.matching import Begins, Ends, close_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "art"
OBJECTS = True

_MAGIC: Final = b"SLOW"
_END = b"*end\n"
_HEADER = struct.Struct("<4sHHQ")
_RECORD_BYTES = struct.Struct("<H")
_SECTIONS = ("*version", "*threads", "*methods")
_ENTERED = 0
_WITH_SIZE = 3
_NS_PER_US = 1000
# Added to the version of a file that was streamed, in which a thread 0 stands for a description.
_STREAMED: Final = 0xF0
_METHOD, _THREAD, _SUMMARY = 1, 2, 3
# Records that are compared at once with a thread 0, at first.
_FEWEST_ROWS, _MOST_ROWS = 64, 1 << 16
_VERSION_PROBLEM = (
    "the header of the method trace is malformed, or of an unknown version: meantime reads 1 to 3;"
    " record newer ones with Perfetto"
)


def read(source: Source, options: ReadOptions) -> Trace:
    """Return the trace; its batches read the whole file. Of the options, `lenient` is used.

    Raises:
        InputError: From the batches, if it is malformed.
    """
    return lazy_trace(source, FORMAT, _batches, options)


class _Text(NamedTuple):
    """What is known besides the records.

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
    if bytes(data[: len(_MAGIC)]) == _MAGIC:
        yield from _streamed(source, trace, data, options)
        return
    text_bytes = bytes(data).find(_END)
    if text_bytes < 0:
        raise InputError(source.name, "the method trace has no line *end: it is cut")
    try:
        found = _text_of(bytes(data[:text_bytes]).decode("utf-8", "replace"))
        begin = text_bytes + len(_END)
        offset, layout = _layout(data, begin)
    except (ValueError, struct.error):
        raise InputError(source.name, _VERSION_PROBLEM) from None
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
    version -= _STREAMED if begin == 0 else 0
    header_bytes = _HEADER.size + (_RECORD_BYTES.size if version == _WITH_SIZE else 0)
    if magic != _MAGIC or not 1 <= version <= _WITH_SIZE:
        raise ValueError(version)
    if not header_bytes <= offset <= len(data) - begin:
        raise ValueError(offset)
    size = 9 if version == 1 and begin > 0 else 10
    if version == _WITH_SIZE:
        (size,) = _RECORD_BYTES.unpack_from(data, begin + _HEADER.size)
    # a thread 0 of two bytes marks descriptions
    is_byte = version == 1 and begin > 0
    tid = "u1" if is_byte else "<u2"
    at = 1 if is_byte else 2
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
    for line in text.partition("*end\n")[0].split("\n"):
        if line in _SECTIONS:
            section = line
        elif section == "*version":
            name, _, value = line.partition("=")
            found.facts[name if value else "version"] = value or name
        elif section == "*threads" and line:
            tid, _, name = line.partition("\t")
            found.threads[int(tid)] = name
        elif section == "*methods" and line:
            _add_method(found, line)
    return found


def _add_method(found: _Text, line: str) -> None:
    """Add a method: its number, its class, its name, and more that is not read.

    Raises:
        ValueError: If it has no number.
    """
    number, class_, method, *_ = [*line.split("\t"), "", ""]
    found.methods[int(number, 16)] = f"{class_}.{method}" if method else class_


def _streamed(
    source: Source, trace: Trace, data: memoryview, options: ReadOptions
) -> Iterator[Batch]:
    """Yield what is in records that were written while they were made.

    Raises:
        InputError: If the file is malformed; if it is cut, unless reading is lenient.
    """
    try:
        at, layout = _layout(data, 0)
    except (ValueError, struct.error):
        raise InputError(source.name, _VERSION_PROBLEM) from None
    found = _Text({}, {}, {})
    parts: list[npt.NDArray[np.void]] = []
    is_whole = False
    while True:
        rows = _rows_at(data, at, layout)
        parts += rows
        at += sum(map(len, rows)) * layout.itemsize
        try:
            end, is_whole = _description(data, at, found)
        except ValueError:
            if not options.lenient:
                raise InputError(
                    source.name, "a description in the method trace is malformed", offset=at
                ) from None
            trace.anomalies.add("bad_record")
            break
        except (IndexError, struct.error):
            break
        at = end
        if is_whole:
            break
    if not is_whole:
        if not options.lenient:
            raise InputError(
                source.name, "the method trace has no summary at its end: it is cut", offset=at
            )
        trace.anomalies.add("truncated")
    else:
        trace.anomalies.add("trailing_bytes", len(data) - at)
    yield from _spans(np.concatenate([np.zeros(0, layout), *parts]), found, trace)


def _rows_at(data: memoryview, at: int, layout: np.dtype[np.void]) -> list[npt.NDArray[np.void]]:
    """Return the records from an offset until the next description, in parts."""
    found: list[npt.NDArray[np.void]] = []
    most = _FEWEST_ROWS
    while count := min(most, (len(data) - at) // layout.itemsize):
        rows = np.frombuffer(data, layout, count, at)
        described = np.flatnonzero(rows["tid"] == 0)
        if len(described):
            return [*found, rows[: described[0]]]
        found.append(rows)
        at += count * layout.itemsize
        most = min(2 * most, _MOST_ROWS)
    return found


def _description(data: memoryview, at: int, found: _Text) -> tuple[int, bool]:
    """Read a description, and return the offset after it and whether it was the last one.

    Raises:
        ValueError: If it is malformed.
        IndexError, struct.error: If it is cut.
    """
    tid, kind = struct.unpack_from("<HB", data, at)
    if tid or kind not in {_METHOD, _THREAD, _SUMMARY}:
        raise ValueError(kind)
    at += 3
    number = 0
    if kind == _THREAD:
        (number,) = struct.unpack_from("<H", data, at)
        at += 2
    form = "<I" if kind == _SUMMARY else "<H"
    (size,) = struct.unpack_from(form, data, at)
    at += struct.calcsize(form)
    if at + size > len(data):
        raise IndexError(at)
    text = bytes(data[at : at + size]).decode("utf-8", "replace")
    if kind == _THREAD:
        found.threads[number] = text
    elif kind == _METHOD:
        _add_method(found, text.strip())
    else:
        summary = _text_of(text)
        found.facts.update(summary.facts)
        found.threads.update(summary.threads)
        found.methods.update(summary.methods)
    return at + size, kind == _SUMMARY


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
    by_thread = np.argsort(thread, kind="stable")
    own_ns, of = time_ns[by_thread], thread[by_thread]
    last_ns = np.maximum.reduceat(own_ns, np.flatnonzero(np.diff(of, prepend=-1)))
    backwards = np.zeros(len(tids), np.bool_)
    backwards[of[1:][(own_ns[1:] < own_ns[:-1]) & (of[1:] == of[:-1])]] = True
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
