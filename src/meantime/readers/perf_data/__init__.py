"""`perf.data`, as `perf record` writes it, without perf.

Samples, tracepoints and what follows from them are the same as in the text that `perf script`
prints, and go the same way: see `meantime.readers.perf`. `header` reads what stands before and
behind the records, `symbols` names addresses.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Final

import numpy as np

from meantime.errors import InputError
from meantime.kernels import perf, perf_data
from meantime.model.clocks import Clock
from meantime.model.columns import distinct
from meantime.model.trace import Trace
from meantime.model.units import MAX_NS
from meantime.readers.decompress import ZstandardStream
from meantime.readers.perf import BATCH_ROWS, Reading, text_of
from meantime.readers.perf_data import header as heads
from meantime.readers.perf_data.symbols import (
    functions_of_elf,
    functions_of_kernel,
    functions_of_map,
)
from meantime.readers.tracing_data import Cursor, read_tracing_data
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.clocks import Kind
    from meantime.model.trace import Samples, Sliceable
    from meantime.readers.contract import ReadOptions
    from meantime.readers.perf_data.symbols import Functions
    from meantime.readers.source import Source
    from meantime.readers.tracing_data import Tracepoint

__all__ = ["FORMAT", "read"]

FORMAT = "perf-data"

_PIECE_BYTES: Final = 1 << 22
_RECORD_HEADER: Final = 8
_MOST_FORMATS_BYTES: Final = 1 << 27
# Records of perf itself.
_ATTR, _EVENT_TYPE, _TRACING_DATA, _BUILD_ID, _ROUND = range(64, 69)
_AUXTRACE, _EVENT_UPDATE, _FEATURE, _COMPRESSED, _COMPRESSED_2 = 71, 78, 80, 81, 83
# Those that say nothing of what happened: indices of ids, lists of threads and CPUs, clocks, marks.
_DESCRIPTIONS = frozenset({_EVENT_TYPE, 69, 70, 73, 74, _EVENT_UPDATE, 79, 82, 84})
# The same of the kernel's: ends of threads and of throttling, namespaces, BPF, control groups.
_DESCRIPTIONS_OF_KERNEL = frozenset({4, 6, 16, 18, 19})
_UPDATE_NAME = 2
_CLOCKS: dict[int, Kind] = {0: "realtime", 1: "monotonic", 7: "boottime"}
_TIME = 4
_KERNEL, _UNKNOWN = b"[kernel.kallsyms]", b"[unknown]"
_MOST_FACT = 200
_EXPANDED_FREELY, _MOST_EXPANDED = 1 << 30, 300


def read(
    source: Source, options: ReadOptions, *, stacks: bool = True, switches: bool = True
) -> Trace:
    """Return the samples of a `perf.data` file, and the states that follow from its tracepoints.

    Times count from the clock's own zero. A thread is `Processes/PID/Threads/TID`; `keep` is called
    with its name. The weight of a sample is its period, 1 for a tracepoint. `stacks` and `switches`
    are as for text. Functions come from files of this machine with the recorded build id.

    Raises:
        InputError: From the batches, if it is damaged, has no times, or no samples.
    """
    trace = Trace(source.name, FORMAT, iter(()))
    reading = _DataReading(trace, source, options)
    trace.batches = reading.batches(with_stacks=stacks, with_switches=switches)
    return trace


class _DataReading(Reading):
    """Reads one file into a trace."""

    called = "perf.data"

    def __init__(self, trace: Trace, source: Source, options: ReadOptions) -> None:
        super().__init__(trace, Window(source, block_bytes=1), options)
        self._options = options
        self._features = heads.Features()
        self._attributes: list[heads.Attribute] = []
        self._is_begun = False
        self._events_with_fields: set[str] = set()
        self._is_cut = False
        self._tracepoints: list[Tracepoint] = []
        self._formats: dict[int, int] = {}
        self._files: list[tuple[int, bytes, tuple[int, int, int], bytes]] = []
        self._functions: dict[object, Functions | None] = {}
        self._renamed: dict[int, str] = {}
        self._inner = ZstandardStream()
        self._rest = b""
        self._expanded = self._packed = self._aux_bytes = 0

    @property
    def is_cut(self) -> bool:
        """Whether records at the end are missing."""
        return self._is_cut

    def scanner(self, *, with_stacks: bool, with_switches: bool) -> perf.PerfText:
        """Return what reads the records, of which this reads the beginning."""
        self._data: Sliceable = self.source.text()
        self._header = heads.read_header(self.source.name, self._data)
        self._text = perf_data.PerfData(
            perf.IDS | perf.CPU | perf.NANOS, with_stacks, with_switches
        )
        self._text.begin_reading(self._header.big != (sys.byteorder == "big"), self._with_events)
        self._is_cut = self._header.is_cut
        for number, place in self._header.sections.items():
            section = heads.section_of(self._data, place)
            if section is None:
                self.trace.anomalies.add("bad_metadata")
            else:
                self._read_section(number, section)
        self._attributes += self._header.attributes
        self.trace.anomalies.add("trailing_bytes", max(0, len(self._data) - self._header.file_end))
        if not self._header.is_pipe:
            self._begin_events()
        return self._text

    def samples(self, text: perf.PerfText) -> Iterator[Samples]:
        """Yield all samples, in batches.

        Raises:
            InputError: If a record is damaged, and reading is not lenient.
        """
        del text
        at, end = self._header.begin, self._header.end
        while at < end:
            piece = memoryview(bytes(self._data[at : min(end, at + _PIECE_BYTES)]))
            self._options.report_progress(at, end)
            done = 0
            while True:
                done, why = self._push(piece, done, at)
                if why <= perf_data.MORE:
                    break
                _, _, size = self._text.header_at(piece, done)
                record = bytes(piece[done + _RECORD_HEADER : done + size])
                done += size
                if why in {_TRACING_DATA, _AUXTRACE}:
                    # what it is about stands behind it
                    done += self._read_behind(why, record, at + done)
                elif why == _ROUND:
                    yield from self._ordered(is_last=False)
                elif why in {_COMPRESSED, _COMPRESSED_2}:
                    yield from self._read_compressed(why, record, at + done - size)
                else:
                    self._read_own(why, record, at + done - size)
                if done >= len(piece):
                    break
            at += done
            if why == perf_data.MALFORMED:
                self.trace.anomalies.add("skipped_bytes", end - at)
                break
            if not done:
                self._is_cut = True
                break
        self._is_cut |= bool(self._rest)
        yield from self._ordered(is_last=True)

    def _push(self, piece: memoryview, done: int, at: int) -> tuple[int, int]:
        """Queue records; return up to where, and the type of the record of perf that stands there.

        Raises:
            InputError: If one is damaged, and reading is not lenient.
        """
        while True:
            done, why = self._text.push(piece, done)
            if why == perf_data.UNREADABLE and not self._is_begun:
                self._begin_events()
                continue
            if why >= perf_data.MORE:
                return done, why
            if not self._options.lenient:
                reason = (
                    "too short for its fields" if why == perf_data.UNREADABLE else "without size"
                )
                raise InputError(self.source.name, f"a record is {reason}", offset=at + done)
            if why == perf_data.MALFORMED:
                return done, why
            self.trace.anomalies.add("bad_record")
            done += self._text.header_at(piece, done)[2]

    def _ordered(self, *, is_last: bool) -> Iterator[Samples]:
        """Yield the samples of which no earlier ones can follow."""
        if is_last and not self._is_begun:
            self._begin_events()
        text, room, full = self._text, BATCH_ROWS, True
        text.end_round(is_last)
        while full:
            time_ns, period = np.empty(room, np.int64), np.empty(room, np.int64)
            thread, cpu, event = (np.empty(room, np.int32) for _ in range(3))
            tail = np.empty((room, 2), np.int64) if self._with_events else None
            rows, full = text.scan_ordered(time_ns, period, thread, cpu, event, tail)
            self._name_places()
            if not rows:
                continue
            stack = np.empty(rows, np.int32)
            text.stacks_of_rows(stack)
            columns = [each[:rows] for each in (time_ns, period, thread, cpu, event)]
            fields = memoryview(text.fields_text() if tail is not None else b"")
            yield self.batch_of(text, [*columns, stack], fields, tail)

    def _read_compressed(self, kind: int, record: bytes, at: int) -> Iterator[Samples]:
        """Yield what is complete when the records that a record holds are read."""
        if kind == _COMPRESSED_2:
            # the size of the data, behind which are zeros
            size = int.from_bytes(record[:8], "big" if self._header.big else "little")
            record = record[8 : 8 + size]
        self._packed += len(record)
        try:
            for out in self._inner.pieces(record):
                self._expanded += len(out)
                self._check_expansion()
                piece = memoryview(self._rest + out)
                done = 0
                while True:
                    done, why = self._push(piece, done, at)
                    if why <= perf_data.MORE:
                        break
                    _, _, size = self._text.header_at(piece, done)
                    if why == _ROUND:
                        yield from self._ordered(is_last=False)
                    else:
                        own = bytes(piece[done + _RECORD_HEADER : done + size])
                        self._read_own(why, own, at)
                    done += size
                self._rest = bytes(piece[done:]) if why == perf_data.MORE else b""
        except ValueError as error:
            if not self._options.lenient:
                raise InputError(
                    self.source.name, f"the compressed records are damaged: {error}", offset=at
                ) from None
            self._rest = b""
            self.trace.anomalies.add("damaged_compression")

    def _check_expansion(self) -> None:
        freely = max(_EXPANDED_FREELY, self.source.most_memory or 0)
        if self._expanded > max(freely, _MOST_EXPANDED * self._packed):
            raise InputError(
                self.source.name,
                f"its {self._packed:,} bytes of compressed records expand to more than"
                f" {self._expanded:,}: if you trust the file, allow it with --memory SIZE, or"
                " memory=BYTES from Python",
            )

    def _read_behind(self, kind: int, record: bytes, at: int) -> int:
        """Read what stands behind a record, and return how many bytes that is."""
        width = 4 if kind == _TRACING_DATA else 8
        size = int.from_bytes(record[:width], "big" if self._header.big else "little")
        size = min(size, self._header.end - at)
        if kind == _AUXTRACE:
            self._aux_bytes += size
            return size
        if not self._is_begun and size <= _MOST_FORMATS_BYTES:
            self._read_section(heads.TRACING_DATA, bytes(self._data[at : at + size]))
        else:
            self.trace.anomalies.add("bad_metadata")
        # it is filled up to words of 8 bytes
        return min(-(-size // 8) * 8, self._header.end - at)

    def _read_own(self, kind: int, record: bytes, at: int) -> None:
        """Read a record of perf itself.

        Raises:
            InputError: If it is damaged, and reading is not lenient.
        """
        cursor = Cursor(record, big=self._header.big)
        try:
            if kind == _ATTR:
                self._add_pipe_attribute(record)
            elif kind == _FEATURE:
                number = cursor.number(8)
                self._read_section(number, record[8:])
            elif kind == _EVENT_UPDATE and cursor.number(8) == _UPDATE_NAME:
                own = cursor.number(8)
                self._renamed[own] = cursor.text()
            elif kind == _BUILD_ID:
                cursor.take(4)
                self._features.add_build_id(cursor.take(24), 0, record[28:])
            elif kind not in _DESCRIPTIONS:
                self.trace.anomalies.add("record_skipped")
        except ValueError as error:
            if not self._options.lenient:
                raise InputError(
                    self.source.name, f"a record of perf is damaged: {error}", offset=at
                ) from None
            self.trace.anomalies.add("bad_record")

    def _add_pipe_attribute(self, record: bytes) -> None:
        size = Cursor(record[4:8], big=self._header.big).number(4)
        attribute = heads.attribute_of(record[:size], big=self._header.big)
        ids = Cursor(record[size:], big=self._header.big)
        numbers = tuple(ids.number(8) for _ in range((len(record) - size) // 8))
        self._attributes.append(attribute._replace(ids=numbers))
        if self._is_begun:
            self._add_attribute(len(self._attributes) - 1)

    def _read_section(self, number: int, section: bytes) -> None:
        """Read a section of the header; one that is damaged is counted."""
        try:
            if number != heads.TRACING_DATA:
                self._features.add(number, section, big=self._header.big)
                return
            tracing = read_tracing_data(section)
        except ValueError:
            self.trace.anomalies.add("bad_metadata")
            return
        self.trace.anomalies.add("bad_metadata", tracing.unread)
        self._tracepoints = tracing.tracepoints
        self._formats = {each.number: place for place, each in enumerate(self._tracepoints)}

    def _begin_events(self) -> None:
        """Define the events, once all that describes them is read.

        Raises:
            InputError: If samples have no times.
        """
        self._is_begun = True
        self._text.set_formats([each.raw for each in self._tracepoints])
        if not self._attributes:
            raise InputError(self.source.name, "this perf.data has no events")
        if not any(each.sample_type & _TIME for each in self._attributes):
            raise InputError(
                self.source.name,
                "the samples of this perf.data have no times: record with `perf record -T`",
            )
        for row in range(len(self._attributes)):
            self._add_attribute(row)
        self.trace.clock = self._clock()

    def _add_attribute(self, row: int) -> None:
        attribute = self._attributes[row]
        is_tracepoint = attribute.kind == heads.TRACEPOINT
        place = self._formats.get(attribute.config, -1) if is_tracepoint else -1
        names = self._features.events
        name = next((self._renamed[each] for each in attribute.ids if each in self._renamed), None)
        if name is None and len(names) == len(self._attributes):
            name = names[row]
        if name is None and place >= 0:
            name = f"{self._tracepoints[place].group}:{self._tracepoints[place].name}"
        name = name or heads.event_name(attribute)
        if is_tracepoint:
            self._events_with_fields.add(name)
        self._text.add_attr(
            attribute.sample_type,
            attribute.read_format,
            attribute.period,
            attribute.has_ids_at_end,
            is_tracepoint,
            place,
            name.encode(),
            list(attribute.ids),
        )

    def is_event(self, name: str) -> bool:
        """Return whether an event is a tracepoint, which has fields."""
        return name in self._events_with_fields

    def _clock(self) -> Clock:
        number = next((each.clock for each in self._attributes if each.clock is not None), None)
        kind = _CLOCKS.get(number, "unknown") if number is not None else "unknown"
        utc_ns = 0 if kind == "realtime" else None
        if self._features.reference is not None and self._features.reference[0] == number:
            _, wall_ns, clock_ns = self._features.reference
            utc_ns = wall_ns - clock_ns if max(wall_ns, clock_ns) < MAX_NS else None
        return Clock(kind, host=self._features.texts.get(heads.HOSTNAME), utc_at_origin_ns=utc_ns)

    def _name_places(self) -> None:
        """Give the addresses that are new the names of their functions, or of their files."""
        address, file = self._text.new_places()
        if not len(file):
            return
        self._files += self._text.files_from(len(self._files))
        names: list[bytes] = [_UNKNOWN]
        is_file = [0]
        which = np.zeros(len(file), np.int32)
        for each in distinct(file[file >= 0]).tolist():
            rows = np.flatnonzero(file == each)
            kind, _, _, name = self._files[each]
            functions = self._functions_of(each)
            found = np.full(len(rows), -1) if functions is None else functions.at(address[rows])
            own, which_own = np.unique(found, return_inverse=True)
            which[rows] = len(names) + which_own
            for function in own.tolist():
                if functions is not None and function >= 0:
                    names.append(functions.names[function])
                    is_file.append(0)
                else:
                    names.append(_shown(kind, name))
                    is_file.append(kind != perf_data.FUNCTION)
        self._text.name_places(names, which, np.array(is_file, np.uint8))

    @property
    def _is_ours(self) -> bool:
        """Whether the file says that it is of this host."""
        return self._features.texts.get(heads.HOSTNAME) == socket.gethostname()

    def _functions_of(self, file: int) -> Functions | None:
        """Return the functions of a file of code; None if it is not here, or another one."""
        kind, build_id, inode, name = self._files[file]
        # other systems have neither these files nor such calls
        if kind == perf_data.FUNCTION or not hasattr(os, "uname"):
            return None
        if kind == perf_data.KERNEL_FILE:
            # the list of the kernel has the functions of its modules, too
            if "kernel" not in self._functions:
                build_id = build_id or self._features.build_ids.get(text_of(_KERNEL), b"")
                release = self._features.texts.get(heads.RELEASE) if self._is_ours else None
                symbol, at = self._text.kernel_symbol()
                self._functions["kernel"] = functions_of_kernel(build_id, release, symbol, at)
            return self._functions["kernel"]
        if file not in self._functions:
            if kind == perf_data.COMPILED:
                pid = text_of(name)[len("/tmp/perf-") : -len(".map")]  # noqa: S108 - only its name
                found = functions_of_map(int(pid)) if self._is_ours else None
            else:
                path = text_of(name)
                build_id = build_id or self._features.build_ids.get(path, b"")
                found = functions_of_elf(path, build_id, inode if self._is_ours else (0, 0, 0))
            self._functions[file] = found
        return self._functions[file]

    def ended(self, text: perf.PerfText) -> None:
        """Add what is known when all has been read."""
        del text
        add, found = self.trace.anomalies.add, self._text
        add("bad_record", found.unreadable)
        add("undefined_event", found.unknown_ids)
        add("event_without_time", found.untimed)
        add("lost_events", found.lost_samples)
        add("throttled", found.throttled)
        add("stack_not_unwound", found.unwound_later)
        add("maps_left_out", found.maps_left_out)
        add("hardware_trace", self._aux_bytes)
        for kind, number in found.skipped_records().items():
            add("record_skipped", 0 if kind in _DESCRIPTIONS_OF_KERNEL else number)
        features, facts = self._features, self.trace.facts
        for number, called in heads.TEXTS.items():
            if number != heads.HOSTNAME and number in features.texts:
                facts[called] = features.texts[number][:_MOST_FACT]
        if features.cpus is not None:
            facts["CPUs"] = f"{features.cpus[0]:,} of {features.cpus[1]:,}"
        if features.command:
            if self._options.private:
                facts["command"] = " ".join(features.command)[:_MOST_FACT]
            else:
                add("private_field")


def _shown(kind: int, name: bytes) -> bytes:
    """Return what stands for the functions of a file that have no names, as perf prints it."""
    if kind == perf_data.KERNEL_FILE:
        if name.startswith(b"["):
            return name[: name.find(b"]") + 1] or name
        module = name.rpartition(b"/")[2].partition(b".ko")[0]
        return b"[%b]" % module.replace(b"-", b"_")
    return name.rpartition(b"/")[2] or name or _UNKNOWN
