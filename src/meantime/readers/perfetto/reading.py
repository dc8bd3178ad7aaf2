"""Reads the packets of a trace, and makes batches of what was found."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meantime.errors import InputError
from meantime.kernels import linux_records, perfetto
from meantime.model.columns import Interner, distinct
from meantime.model.process_roles import fact_name
from meantime.readers.perfetto.clocks import Clocks
from meantime.readers.perfetto.events import END, TrackEvents
from meantime.readers.perfetto.kernel import KernelEvents
from meantime.readers.perfetto.messages import BYTES, fields, text_of
from meantime.readers.perfetto.names import PACKETS, TYPED_ARGUMENTS, name_of
from meantime.readers.perfetto.samples import PerfSamples
from meantime.readers.perfetto.scanned import Scanned
from meantime.readers.perfetto.tracks import Tracks
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.model.trace import Batch, Trace
    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["Reading"]

_KINDS = 1024
# Records of the kernel that have their end as a value: it may be the last time of the trace.
_LASTING = (linux_records.IRQ, linux_records.SOFTIRQ, linux_records.RAN)
_SNAPSHOT = 6
(
    _PROCESS_TREE,
    _INTERNED_DATA,
    _PROCESS_DESCRIPTOR,
    _THREAD_DESCRIPTOR,
    _SYSTEM_INFO,
    _STREAMING_PROFILE,
    _DEFAULTS,
    _TRACK_DESCRIPTOR,
    _PERF_SAMPLE,
) = 2, 12, 43, 44, 45, 54, 59, 60, 66
_READ: Final = (
    _PROCESS_TREE,
    _PROCESS_DESCRIPTOR,
    _SYSTEM_INFO,
    _STREAMING_PROFILE,
    _TRACK_DESCRIPTOR,
    _PERF_SAMPLE,
)
# These describe how the trace was made, not what happened.
_ABOUT_THE_TRACE = frozenset({5, 33, 34, 35, 51, 69, 72, 89, 124})
# Deflate packs at most this much into a byte; more than this of packets is a zip bomb.
_MOST_EXPANDED = 300
_EXPANDED_FREELY = 1 << 16
_ODDITIES = (
    "packet_without_state",
    "packets_lost",
    "undefined_number",
    "time_out_of_range",
    "too_deep",
    "lost_events",
    "unknown_packet",
    "bad_counter",
)


class Reading:
    """Reads one trace."""

    def __init__(self, source: Source, trace: Trace, options: ReadOptions) -> None:
        self._source = source
        self._trace = trace
        self._options = options
        wanted = bytearray(_KINDS)
        for number in _READ:
            wanted[number] = 1
        self._scanner = perfetto.PerfettoScanner(bytes(wanted), options.lenient)
        self._clocks = Clocks(self._scanner)
        self._tracks = Tracks()
        self._samples = PerfSamples()
        self._release = ""
        # where in the input the block begins, for messages
        self._block_offset = 0

    def scan(self) -> None:
        """Read all packets.

        Raises:
            InputError: If one is malformed.
        """
        window = Window(self._source, progress=self._options.progress)
        more = True
        while more:
            more = window.more()
            self._block_offset = window.offset(0)
            result = self._scan(window.block, window.start, window.end, last=not more)
            window.start = self._scanner.position
            if result == perfetto.BAD:
                break
            if result == perfetto.FULL:
                raise InputError(self._source.name, "the trace has more than 2^31 events")
            if result == perfetto.TRUNCATED:
                self._trace.anomalies.add("truncated")
        self._trace.anomalies.add("truncated", int(self._source.truncated))

    def _scan(
        self, block: bytes | bytearray, start: int, end: int, *, last: bool, packed: bool = False
    ) -> int:
        """Scan what is at [start, end) of a block; return what ended it."""
        scanner = self._scanner
        while True:
            result = scanner.scan_block(block, start, end, last)
            start = scanner.position
            with memoryview(block) as view:
                self._read_others(view)
                if result == perfetto.BAD:
                    self._refuse(scanner.fault_offset, packed=packed)
                if result != perfetto.STOP:
                    return result
                number, offset, length, sequence = scanner.stopped
                message = view[offset : offset + length]
                try:
                    if number == _SNAPSHOT:
                        self._clocks.add(message, sequence)
                    else:
                        self._read_packed(message, packed=packed)
                except ValueError as error:
                    self._refuse(offset, str(error), packed=packed)
                finally:
                    message.release()

    def _read_packed(self, message: memoryview, *, packed: bool) -> None:
        """Read compressed packets.

        Raises:
            ValueError: If they are malformed.
        """
        if packed:
            raise ValueError("compressed packets are inside compressed packets")
        inner = _inflated(message)
        if self._scan(inner, 0, len(inner), last=True, packed=True) != perfetto.MORE:
            raise ValueError("compressed packets are cut")

    def _refuse(self, offset: int, reason: str = "", *, packed: bool) -> None:
        """Reject what is malformed at an offset of the block, or count it.

        Raises:
            InputError: Unless reading is lenient.
        """
        if self._options.lenient:
            self._trace.anomalies.add("bad_record")
            return
        what = "a packet is malformed" + (f" ({reason})" if reason else "")
        if packed:
            raise InputError(self._source.name, f"{what}, in a compressed packet")
        raise InputError(self._source.name, what, offset=self._block_offset + offset)

    def _read_others(self, block: memoryview) -> None:
        """Read the packets that the scanner listed."""
        for row in self._scanner.take_others().tolist():
            time_ns, offset, length, number, sequence, generation, _ = row
            message = block[offset : offset + length]
            try:
                self._read(number, message, time_ns, (sequence, generation))
            except ValueError as error:
                self._refuse(offset, str(error), packed=False)
            finally:
                message.release()

    def _read(self, number: int, message: memoryview, time_ns: int, state: tuple[int, int]) -> None:
        tracks, samples = self._tracks, self._samples
        if number == _THREAD_DESCRIPTOR:
            samples.set_thread(state, tracks.add_thread(message), message)
        elif number == _PERF_SAMPLE:
            samples.add(state, time_ns, message)
        elif number in {_INTERNED_DATA, _DEFAULTS, _STREAMING_PROFILE}:
            take = {
                _INTERNED_DATA: samples.add_interned,
                _DEFAULTS: samples.add_defaults,
                _STREAMING_PROFILE: samples.add_streaming,
            }[number]
            take(state, message)
        elif number == _PROCESS_DESCRIPTOR:
            tracks.add_process(message)
        else:
            describe = {
                _TRACK_DESCRIPTOR: tracks.add_descriptor,
                _PROCESS_TREE: tracks.add_tree,
                _SYSTEM_INFO: self._read_system,
            }[number]
            describe(message)

    def _read_system(self, message: memoryview) -> None:
        for number, wire, _, content in fields(message):
            if number != 1 or wire != BYTES:
                continue
            for inner, kind, _, text in fields(content):
                if inner == 3 and kind == BYTES:
                    self._release = text_of(text)

    def batches(self) -> Iterator[Batch]:
        """Yield what was found."""
        scanner, trace = self._scanner, self._trace
        tables = scanner.tables(linux_records.RECORD_TYPE)
        names = [text_of(name) for name in scanner.names()]
        counts = scanner.counts()
        scanned = Scanned(tables, counts, names, scanner.cpus(), *scanner.texts())
        trace.records = scanner.packets
        trace.clock = self._clocks.clock()
        self._count_oddities(names)
        waiting = tables["waiting"]
        is_count = waiting["is_count"] != 0
        converted = self._convert_events(tables, waiting[~is_count])
        converted += self._convert_counts(counts, waiting[is_count])
        values = Interner(trace.values)
        kernel = KernelEvents(
            trace,
            scanned,
            self._tracks,
            self._release,
            with_scheduling=self._options.scheduling,
        )
        times = [tables[name]["time_ns"] for name in ("records", "kernel_counts", "kernel_points")]
        records = tables["records"]
        lasts = np.isin(records["kind"], _LASTING)
        times.append(np.maximum(records["value"], records["time_ns"])[lasts])
        times.append(
            np.array([*self._samples.times(), *converted, *(scanner.bounds or ())], np.int64)
        )
        if ends := [(int(each.min()), int(each.max())) for each in times if len(each)]:
            trace.bounds = min(first for first, _ in ends), max(last for _, last in ends) + 1
        self._name()
        yield from TrackEvents(trace, scanned, self._tracks, values).batches()
        yield from kernel.batches(values)
        yield from self._samples.batches(trace, self._tracks, values, kernel.begins_ns)
        self._name()

    def _name(self) -> None:
        """Name the processes and threads."""
        trace = self._trace
        known = {path: code for code, path in enumerate(trace.paths)}
        for path, name in self._tracks.named().items():
            code = known.get(path)
            if code is None and len(path) == 2 and known:
                code = trace.paths.code(path)
            if code is not None:
                trace.names[code] = name

    def _count_oddities(self, names: list[str]) -> None:
        trace, scanner = self._trace, self._scanner
        for oddity, count in zip(_ODDITIES, scanner.oddities(), strict=True):
            trace.anomalies.add(oddity, count)
        trace.anomalies.add("bad_record", scanner.bad_packets)
        trace.anomalies.add("undecodable_text", sum("\ufffd" in name for name in names))
        left_out = {
            number: count
            for number, count in scanner.kinds().items()
            if number not in _READ and number not in _ABOUT_THE_TRACE
        }
        if left_out:
            trace.anomalies.add("packet_not_shown", sum(left_out.values()))
            trace.facts["packets_not_shown"] = _listed(left_out, PACKETS)
        if typed := scanner.fields():
            trace.anomalies.add("argument_not_shown", sum(typed.values()))
            trace.facts["arguments_not_shown"] = _listed(typed, TYPED_ARGUMENTS)
        lines = self._tracks.command_lines
        if self._options.private:
            trace.facts |= {fact_name(str(pid)): line for pid, line in lines.items()}
        else:
            trace.anomalies.add("private_field", len(lines))
        if self._release:
            trace.facts["system_release"] = self._release

    def _convert_events(
        self, tables: dict[str, npt.NDArray[Any]], waiting: npt.NDArray[np.void]
    ) -> list[int]:
        """Convert the times of events that no snapshot before them related to the trace's clock.

        Returns:
            These times.
        """
        table = tables["events"]
        times, kept = self._convert(table["time_ns"], waiting)
        if kept is None:
            return times
        # the row of each event that is kept; before one that is not is before the next
        rows = np.append(np.cumsum(kept) - kept, np.count_nonzero(kept))
        ended = np.flatnonzero((table["kind"] == END) & (table["end"] >= 0))
        end = table["end"]
        end[ended] = rows[end[ended]]
        for column in (tables["ends"][name] for name in ("begin", "before")):
            column[:] = rows[column]
        tables["flows"] = _renumbered(tables["flows"], kept)
        tables["legacy"] = _renumbered(tables["legacy"], kept)
        track = table["track"][kept]
        first = np.full(len(tables["tracks"]), -1, np.int32)
        # of several rows the last one that is assigned stays: the first
        first[track[::-1]] = np.arange(len(track) - 1, -1, -1)
        tables["tracks"]["first"] = first
        tables["events"] = table[kept]
        return times

    def _convert_counts(
        self, counts: dict[str, npt.NDArray[Any]], waiting: npt.NDArray[np.void]
    ) -> list[int]:
        """Convert the times of counters in the same way."""
        times, kept = self._convert(counts["time_ns"], waiting)
        if kept is not None:
            for name, values in counts.items():
                counts[name] = values[kept]
        return times

    def _convert(
        self, time_ns: npt.NDArray[Any], waiting: npt.NDArray[np.void]
    ) -> tuple[list[int], npt.NDArray[np.bool_] | None]:
        """Convert times in place.

        Returns:
            The converted times, and the rows that are kept, which have a time; None for all.
        """
        if not len(waiting):
            return [], None
        scanner = self._scanner
        # nothing has the trace's clock: the one that all times count is as good
        is_alone = len(waiting) == len(time_ns) and len(distinct(waiting["clock"])) == 1
        kept = np.ones(len(time_ns), np.bool_)
        for row, clock, _ in waiting.tolist():
            converted_ns = scanner.converted(clock, int(time_ns[row]))
            if converted_ns is not None:
                time_ns[row] = converted_ns
            elif not is_alone:
                kept[row] = False
        rows = waiting["row"]
        times: list[int] = time_ns[rows[kept[rows]]].tolist()
        if kept.all():
            return times, None
        self._trace.anomalies.add("event_without_clock", int(np.count_nonzero(~kept)))
        return times, kept


def _renumbered(table: npt.NDArray[Any], kept: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    event = table["event"]
    is_kept, row = kept[event], np.cumsum(kept) - 1
    table = table[is_kept]
    table["event"] = row[event][is_kept]
    return table


def _listed(counts: dict[int, int], table: str) -> str:
    names = name_of(table)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(
        f"{names.get(number, f'field {number}')} {count:,}" for number, count in ordered
    )


def _inflated(message: memoryview) -> bytes:
    """Return compressed packets.

    Raises:
        ValueError: If they are damaged, or expand to more than packets can.
    """
    most = _MOST_EXPANDED * len(message) + _EXPANDED_FREELY
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(message, most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof:
        raise ValueError("compressed packets expand to too much, or are cut")
    return data
