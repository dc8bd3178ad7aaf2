"""`trace.dat`, as `trace-cmd record` writes it, without trace-cmd: versions 6 and 7.

The formats of events, tables of names, and for each CPU the pages of the kernel's ring buffer. An
event is the same as a line of `trace-cmd report`, and goes the same way: see
`meantime.readers.ftrace`. Buffers of several instances are read as one, in order of time.

Definition: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).
"""

from __future__ import annotations

import re
import sys
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from meantime.errors import InputError
from meantime.kernels import perf, trace_dat
from meantime.model.trace import Trace
from meantime.readers.decompress import ZstandardStream
from meantime.readers.ftrace import FtraceReading
from meantime.readers.marks import clock_of
from meantime.readers.perf import BATCH_ROWS
from meantime.readers.tracing_data import (
    MAGIC,
    Cursor,
    TracingData,
    read_formats,
    read_header_pages,
    read_tracing_data,
)
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Samples, Sliceable
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["FORMAT", "read"]

FORMAT = "trace-dat"

_VERSIONS = ("6", "7")
# How many pages of a CPU are in memory, and the most that a page may have.
_FED_BYTES: Final = 1 << 20
_MOST_PAGE_BYTES: Final = 1 << 22
_MOST_CPUS, _MOST_BUFFERS, _MOST_OPTIONS = 1 << 12, 1 << 10, 1 << 16
_MOST_OPTION_BYTES: Final = 1 << 24
_MOST_SECTION_BYTES: Final = 1 << 28
_MOST_CHUNKS: Final = 1 << 22
_MOST_EXPANDED: Final = 300
_MOST_NUMBER = 1 << 16
# Options.
_DONE, _DATE, _CPUSTAT, _BUFFER, _TRACECLOCK, _UNAME = range(6)
_OFFSET, _CPUCOUNT, _VERSION = 7, 8, 9
_STRINGS = 15
_HEADER_INFO, _FTRACE, _FORMATS, _KALLSYMS, _PRINTK, _CMDLINES, _BUFFER_TEXT = range(16, 23)
_IS_COMPRESSED = 1
_COMMIT = re.compile(r"commit;\s*offset:\d+;\s*size:([48]);")
_OVERRUN = re.compile(rb"^overrun: (\d{1,15})$", re.MULTILINE)
_CHOSEN = re.compile(r"\[([\w-]+)\]|^([\w-]+)\s*$")
_SYMBOL = re.compile(rb"^([0-9a-f]{1,16}) [tTwW] ([^\s]{1,500})", re.MULTILINE)
_COUNTERS = ("counter", "x86-tsc")


class _Buffer(NamedTuple):
    """The pages of one CPU: where they are, and whether they are compressed."""

    cpu: int
    offset: int
    size: int
    page_bytes: int
    is_compressed: bool


def read(
    source: Source, options: ReadOptions, *, stacks: bool = True, switches: bool = True
) -> Trace:
    """Return the events of a `trace.dat` file, and the states and spans that follow from them.

    Times count from the zero of the tracer's clock. A thread is `Threads/TID`; `keep` is called
    with its name. `stacks` and `switches` are as for text.

    Raises:
        InputError: From the batches, if it is damaged, its times are not nanoseconds, or it has no
            events.
    """
    trace = Trace(source.name, FORMAT, iter(()))
    reading = _FileReading(trace, source, options)
    trace.batches = reading.batches(with_stacks=stacks, with_switches=switches)
    return trace


class _FileReading(FtraceReading):
    """Reads one file into a trace."""

    called = "trace-cmd file"
    _is_whole = True

    def __init__(self, trace: Trace, source: Source, options: ReadOptions) -> None:
        super().__init__(trace, Window(source, block_bytes=1), options)
        self._options = options
        self._buffers: list[_Buffer] = []
        self._kallsyms = b""
        self._clock_name = ""
        self._shift_ns = self._fed = self._end = 0
        self._utc_us: int | None = None
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """Whether pages at the end are missing."""
        return self._is_cut

    def scanner(self, *, with_stacks: bool, with_switches: bool) -> perf.PerfText:
        """Return what reads the buffers, of which this reads the descriptions.

        Raises:
            InputError: If they are damaged.
        """
        self._data: Sliceable = self.source.text()
        name = self.source.name
        try:
            found = self._described()
        except ValueError as error:
            raise InputError(name, f"the descriptions of events are damaged: {error}") from None
        if self._clock_name in _COUNTERS:
            raise InputError(
                name,
                f"the times count ticks of the clock {self._clock_name}: record with"
                " `trace-cmd record -C mono`",
            )
        page = _COMMIT.search(found.header_page)
        sizes = {each.page_bytes for each in self._buffers} or {found.page_bytes}
        if len(sizes) > 1 or not all(64 <= size <= _MOST_PAGE_BYTES for size in sizes):
            raise InputError(name, "the size of its pages is not one that a kernel has")
        self._kallsyms = found.kallsyms
        self._text = trace_dat.TraceDat(perf.FTRACE, with_stacks, with_switches)
        self._text.begin_reading(found.big != (sys.byteorder == "big"), self._with_events)
        self.trace.anomalies.add("bad_metadata", found.unread)
        tracepoints = [each for each in found.tracepoints if each.number < _MOST_NUMBER]
        self._text.set_formats([each.raw for each in tracepoints])
        self._text.name_events([(each.number, each.name.encode()) for each in tracepoints])
        self._text.name_threads(_threads_of(found.cmdlines))
        self._text.begin_buffers(
            [each.cpu for each in self._buffers],
            sizes.pop(),
            int(page[1]) if page else 8,
            self._shift_ns,
            found.big,
        )
        self.trace.clock = clock_of(self._clock_name or None)
        if self._clock_name:
            self.trace.facts["trace_clock"] = self._clock_name
        if self._utc_us is not None:
            from dataclasses import replace  # noqa: PLC0415 - few recordings have a date

            self.trace.clock = replace(self.trace.clock, utc_at_origin_ns=1000 * self._utc_us)
        return self._text

    def samples(self, text: perf.PerfText) -> Iterator[Samples]:
        """Yield all events, in batches."""
        del text
        found, room = self._text, BATCH_ROWS
        feeding = [self._pages(each) for each in self._buffers]
        why = 0
        while why != trace_dat.ENDED:
            time_ns, period = np.empty(room, np.int64), np.empty(room, np.int64)
            thread, cpu, event, stack = (np.empty(room, np.int32) for _ in range(4))
            tail = np.empty((room, 2), np.int64) if self._with_events else None
            rows = 0
            while True:
                columns = (time_ns, period, thread, cpu, event, stack)
                rows, why = found.scan_buffers(*columns, tail, rows)
                if why >= 0:
                    pages = next(feeding[why], b"")
                    found.feed(why, memoryview(pages), not pages)
                    self._options.report_progress(self._fed, len(self._data))
                elif why == trace_dat.WANTS_FUNCTIONS:
                    found.set_functions(*_functions_of(self._kallsyms))
                else:
                    break
            if rows:
                fields = memoryview(found.fields_text() if tail is not None else b"")
                yield self.batch_of(found, [each[:rows] for each in columns], fields, tail)

    def ended(self, text: perf.PerfText) -> None:
        """Add what is known when all has been read."""
        super().ended(text)
        add = self.trace.anomalies.add
        add("undefined_event", self._text.undefined)
        add("event_without_time", self._text.untimed)
        add("skipped_bytes", self._text.malformed_pages)
        add("trailing_bytes", max(0, len(self._data) - self._file_end()))

    def _file_end(self) -> int:
        """Return the end of the last part, behind which nothing should be."""
        end = max([self._end, *(each.offset + each.size for each in self._buffers)])
        # the names of sections, which nothing refers to
        cursor = Cursor(self._data, big=self._big, at=end)
        try:
            number, _, _, size = (cursor.number(width) for width in (2, 2, 4, 8))
        except ValueError:
            return end
        return cursor.at + size if number == _STRINGS else end

    def _pages(self, buffer: _Buffer) -> Iterator[bytes]:
        """Yield the pages of a CPU, some at once."""
        pieces = self._expanded(buffer) if buffer.is_compressed else self._plain(buffer)
        rest = b""
        for piece in pieces:
            whole = rest + piece
            size = len(whole) // buffer.page_bytes * buffer.page_bytes
            rest = whole[size:]
            if size:
                yield whole[:size]
        # the last page may be without its empty end
        if rest:
            yield rest + bytes(buffer.page_bytes - len(rest))

    def _plain(self, buffer: _Buffer) -> Iterator[bytes]:
        at, end = buffer.offset, min(buffer.offset + buffer.size, len(self._data))
        self._is_cut |= end < buffer.offset + buffer.size
        while at < end:
            piece = bytes(self._data[at : min(end, at + _FED_BYTES)])
            at += len(piece)
            self._fed += len(piece)
            yield piece

    def _expanded(self, buffer: _Buffer) -> Iterator[bytes]:
        """Yield what the chunks of a compressed buffer expand to."""
        cursor = Cursor(self._data, big=self._big, at=buffer.offset)
        try:
            count = cursor.number(4)
            for _ in range(min(count, _MOST_CHUNKS)):
                size, whole = cursor.number(4), cursor.number(4)
                packed = cursor.take(min(size, _MOST_SECTION_BYTES))
                self._fed += size
                yield self._expand(packed, whole)
        except ValueError as error:
            if not self._options.lenient:
                raise InputError(
                    self.source.name, f"a compressed chunk is damaged: {error}", offset=cursor.at
                ) from None
            self.trace.anomalies.add("damaged_compression")

    def _expand(self, packed: bytes, size: int) -> bytes:
        """Return what compressed bytes expand to.

        Raises:
            ValueError: If that does not have the given size.
        """
        if size > min(_MOST_SECTION_BYTES, 4096 + _MOST_EXPANDED * len(packed)):
            raise ValueError(f"{len(packed):,} bytes are said to expand to {size:,}")
        if self._compression == "zstd":
            found, length = [], 0
            for piece in ZstandardStream().pieces(packed):
                length += len(piece)
                if length > size:
                    raise ValueError(f"it expands to more than {size:,} bytes")
                found.append(piece)
            whole = b"".join(found)
        elif self._compression == "zlib":
            try:
                whole = zlib.decompressobj().decompress(packed, size + 1)
            except zlib.error as error:
                raise ValueError(str(error)) from None
        else:
            raise ValueError(f"compression by {self._compression[:40]!r} is not read")
        if len(whole) != size:
            raise ValueError(f"it expands to {len(whole):,} bytes in place of {size:,}")
        return whole

    def _described(self) -> TracingData:
        """Read all but the buffers.

        Raises:
            ValueError: If it is damaged.
        """
        cursor = Cursor(self._data, at=len(MAGIC))
        version = cursor.text(16)
        if version not in _VERSIONS:
            raise ValueError(f"version {version[:16]!r} is not read, but 6 and 7 are")
        self._big = cursor.number(1) == 1
        self._compression = "none"
        return self._described_7(cursor.at) if version == "7" else self._described_6()

    def _described_6(self) -> TracingData:
        found = read_tracing_data(self._data)
        cursor = Cursor(self._data, big=self._big, at=found.end)
        cpus = cursor.number(4)
        others: list[int] = []
        kind = cursor.take(10)
        if kind == b"options  \0":
            for number, option in self._options_at(cursor):
                if number == _BUFFER:
                    others.append(Cursor(option, big=self._big).number(8))
                elif number == _CPUCOUNT:
                    cpus = Cursor(option, big=self._big).number(4)
                else:
                    self._read_option(number, option)
            kind = cursor.take(10)
        if cpus > _MOST_CPUS or len(others) > _MOST_BUFFERS:
            raise ValueError(f"it has {cpus:,} CPUs")
        self._add_buffers(cursor, kind, cpus, found.page_bytes)
        for offset in others:
            cursor = Cursor(self._data, big=self._big, at=offset)
            self._add_buffers(cursor, cursor.take(10), cpus, found.page_bytes)
        return found

    def _add_buffers(self, cursor: Cursor, kind: bytes, cpus: int, page_bytes: int) -> None:
        if kind == b"latency  \0":
            raise ValueError("it has the text of a latency tracer: run `trace-cmd report` on it")
        if kind != b"flyrecord\0":
            raise ValueError(f"{kind!r} stands where buffers should")
        for cpu in range(cpus):
            offset, size = cursor.number(8), cursor.number(8)
            if size:
                self._buffers.append(_Buffer(cpu, offset, size, page_bytes, False))
        self._end = max(self._end, cursor.at)

    def _options_at(self, cursor: Cursor) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the content of options, in version 6 up to the last one."""
        for _ in range(_MOST_OPTIONS):
            number = cursor.number(2)
            if number == _DONE:
                return
            size = cursor.number(4)
            if size > _MOST_OPTION_BYTES:
                raise ValueError(f"an option has {size:,} bytes")
            yield number, cursor.take(size)

    def _described_7(self, at: int) -> TracingData:
        big, places = self._big, dict[int, int]()
        cursor = Cursor(self._data, big=big, at=at)
        long_bytes, page_bytes = cursor.number(1), cursor.number(4)
        self._compression = cursor.text()
        cursor.text()
        offset, seen = cursor.number(8), set[int]()
        while offset and offset not in seen and len(seen) < _MOST_BUFFERS:
            seen.add(offset)
            options = Cursor(self._section(offset), big=big)
            offset = 0
            for number, option in self._options_in(options):
                if number == _DONE:
                    offset = Cursor(option, big=big).number(8)
                elif number == _BUFFER:
                    self._add_buffer_7(Cursor(option, big=big))
                elif _HEADER_INFO <= number <= _CMDLINES:
                    places[number] = Cursor(option, big=big).number(8)
                elif number == _BUFFER_TEXT:
                    raise ValueError("it has the text of a latency tracer: run `trace-cmd report`")
                else:
                    self._read_option(number, option)

        def section(number: int) -> Cursor:
            data = self._section(places[number]) if number in places else b""
            return Cursor(data, big=big)

        header_page = ""
        if _HEADER_INFO in places:
            header_page = read_header_pages(section(_HEADER_INFO))
        tracepoints, unread = read_formats(
            section(_FTRACE) if _FTRACE in places else None,
            section(_FORMATS) if _FORMATS in places else None,
        )
        kallsyms = section(_KALLSYMS).sized(4) if _KALLSYMS in places else b""
        cmdlines = section(_CMDLINES).sized(8) if _CMDLINES in places else b""
        described = (header_page, tracepoints, unread, kallsyms, cmdlines)
        return TracingData("7", big, long_bytes, page_bytes, *described, 0)

    def _options_in(self, cursor: Cursor) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the content of the options of a section, with the last one."""
        number = -1
        while number != _DONE and len(cursor.data) - cursor.at:
            number, size = cursor.number(2), cursor.number(4)
            yield number, cursor.take(size)

    def _section(self, offset: int) -> bytes:
        """Return the content of a section."""
        cursor = Cursor(self._data, big=self._big, at=offset)
        _, flags, _, size = (cursor.number(width) for width in (2, 2, 4, 8))
        if size > _MOST_SECTION_BYTES:
            raise ValueError(f"a section has {size:,} bytes")
        self._end = max(self._end, cursor.at + size)
        if not flags & _IS_COMPRESSED:
            return cursor.take(size)
        packed, whole = cursor.number(4), cursor.number(4)
        return self._expand(cursor.take(min(packed, _MOST_SECTION_BYTES)), whole)

    def _add_buffer_7(self, cursor: Cursor) -> None:
        offset = cursor.number(8)
        cursor.text()
        clock = cursor.text()
        page_bytes, cpus = cursor.number(4), cursor.number(4)
        if cpus > _MOST_CPUS or len(self._buffers) > _MOST_BUFFERS * _MOST_CPUS:
            raise ValueError(f"it has {cpus:,} CPUs")
        head = Cursor(self._data, big=self._big, at=offset)
        _, flags = head.number(2), head.number(2)
        is_compressed = bool(flags & _IS_COMPRESSED)
        for _ in range(cpus):
            cpu, place, size = (cursor.number(width) for width in (4, 8, 8))
            if size:
                self._clock_name = _chosen(clock) or self._clock_name
                self._buffers.append(
                    _Buffer(cpu & 0x7FFFFFFF, place, size, page_bytes, is_compressed)
                )

    def _read_option(self, number: int, option: bytes) -> None:
        text = option.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").strip()
        if number == _TRACECLOCK:
            self._clock_name = self._clock_name or _chosen(text)
        elif number == _CPUSTAT:
            self._overwritten += sum(int(each) for each in _OVERRUN.findall(option))
        elif number == _DATE:
            self._utc_us = int(text, 0)
        elif number == _OFFSET:
            self._shift_ns += int(text, 0)
        elif number == _UNAME:
            self.trace.facts["system"] = text[:200]
        elif number == _VERSION:
            self.trace.facts["trace-cmd version"] = text[:200]


def _chosen(text: str) -> str:
    """Return the clock in brackets, or the only one."""
    found = _CHOSEN.search(text.strip())
    return (found[1] or found[2]) if found else ""


def _threads_of(text: bytes) -> list[tuple[int, bytes]]:
    """Return the ids and names of threads: `ID NAME` on each line."""
    rows = (line.split(b" ", 1) for line in text.split(b"\n"))
    return [
        (int(row[0]), row[1])
        for row in rows
        if len(row) > 1 and row[0].isdigit() and len(row[0]) < 10 and row[1]
    ]


def _functions_of(text: bytes) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Return where functions begin, where the name of each ends in all names, and these."""
    rows = sorted((int(address, 16) - (1 << 63), name) for address, name in _SYMBOL.findall(text))
    start = np.array([address for address, _ in rows], np.int64)
    stop = np.cumsum([len(name) for _, name in rows], dtype=np.int64)
    return start, stop, b"".join(name for _, name in rows)
