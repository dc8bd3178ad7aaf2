"""Streams of CTF 1.8: the packets in their files, and what the tracer lost between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.files import open_regular
from meantime.kernels import ctf_packets as kernel
from meantime.model.anomalies import Anomalies
from meantime.readers.ctf.program import Program
from meantime.readers.ctf.tsdl import UnsupportedError, parse, text_of_metadata

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.readers.ctf.program import TraceProgram

__all__ = ["PacketText"]

_METADATA = "metadata"
_MAGIC = 0xC1FC1FC1
_MOST_METADATA_BYTES = 1 << 26
_MOST_STREAMS = 4096
_HEAD_BYTES = (1 << 12, 1 << 16)
# Text of an event is a few times as long as the event, with long names a hundred times.
_MOST_EXPANDED = 1000
_EXPANDED_FREELY = 1 << 30


@dataclass(frozen=True, slots=True)
class _Packet:
    """Where a packet is, and what its context says.

    Attributes:
        path: The file.
        offset: Where it begins, in bytes.
        bits: The size of its content, in bits, as far as the file has it.
        header: The node of its header.
        class_: The class of its stream.
        begin: The clock's value at its beginning; None if it has none, as the others.
        end: That at its end.
        discarded: How many events the stream has lost up to its end.
        number: Its number in the stream.
        is_cut: Whether the file ends before it does.
    """

    path: Path
    offset: int
    bits: int
    header: int
    class_: int
    begin: int | None
    end: int | None
    discarded: int | None
    number: int | None
    is_cut: bool


class PacketText:
    """The events of traces as ftrace text, read like a file.

    Args:
        name: The name of the input, for messages.
        folders: The directories of the traces.
        is_old: Whether the kernel is older than 4.14.
        is_lenient: Whether what is damaged is skipped and counted.

    Attributes:
        rewriting: What decodes the packets.
        anomalies: What is wrong with the files; complete at the end.
        lost: Stretches without events: from_ns, to_ns, how many events or packets.
        read_ns: From when and until when all streams of a trace, the one with the longest such
            range, have all events; None for what is not known.

    Raises:
        UnsupportedError: If the metadata have a form that is not read here.
        InputError: If a file cannot be read, or is damaged.
    """

    def __init__(self, name: str, folders: list[Path], *, is_old: bool, is_lenient: bool) -> None:
        self.name = name
        self.anomalies: Anomalies = Anomalies()
        self.lost: list[tuple[int, int, int]] = []
        self.read_ns: tuple[int | None, int | None] = (None, None)
        self._is_lenient = is_lenient
        program = Program()
        traces = [program.add(parse(_metadata(folder / _METADATA))) for folder in folders]
        self.rewriting: kernel.CtfPackets = kernel.CtfPackets(*program.arrays(), is_old=is_old)
        self._waiting: list[deque[_Packet]] = []
        self._current: list[_Packet | None] = []
        self._used_bytes = self._written_bytes = 0
        self._ready = memoryview(b"")
        spare = self.rewriting.add_stream()
        self._add_stream([])
        for folder, trace in zip(folders, traces, strict=True):
            streams = self._streams(folder, trace, spare)
            self.read_ns = max(self.read_ns, self._read_ns(streams), key=_length_ns)
            for packets in streams:
                if len(self._waiting) > _MOST_STREAMS:
                    message = f"more than {_MOST_STREAMS:,} streams"
                    raise UnsupportedError(message)
                self.rewriting.add_stream()
                self._add_stream(packets)
        self.lost.sort()
        for stream in range(len(self._waiting)):
            self._load(stream)

    def _add_stream(self, packets: list[_Packet]) -> None:
        self._waiting.append(deque(packets))
        self._current.append(None)
        self._find_lost(packets)

    def readinto(self, buffer: memoryview, /) -> int:
        """Read the next bytes; 0 at the end.

        Raises:
            InputError: If a packet is damaged, or its text is far longer than it.
        """
        while not len(self._ready):
            written, is_full, is_over = self._run(buffer)
            if written or is_over:
                return written
            if is_full:
                # the text of the next event is longer than the buffer
                event = memoryview(bytearray(self.rewriting.needed))
                written, _, _ = self._run(event)
                self._ready = event[:written]
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Nothing is open between two packets."""

    def _run(self, buffer: memoryview) -> tuple[int, bool, bool]:
        """Write events until a packet ends; return their bytes, and whether full, and all ended."""
        written, status, stream, failed = self.rewriting.run(buffer)
        self._written_bytes += written
        if self._written_bytes > max(_EXPANDED_FREELY, _MOST_EXPANDED * self._used_bytes):
            raise InputError(
                self.name,
                f"{self._used_bytes:,} bytes of its packets expand to more than"
                f" {self._written_bytes:,} bytes of text",
            )
        if status == kernel.IS_DAMAGED:
            self._report(stream, failed)
        if status in {kernel.IS_DAMAGED, kernel.NEEDS_PACKET}:
            self._load(stream)
        return written, status == kernel.FULL, status == kernel.ENDED

    def _load(self, stream: int) -> None:
        """Give a stream its next packet with events, if there is one."""
        waiting = self._waiting[stream]
        while waiting:
            packet = self._current[stream] = waiting.popleft()
            data = _read(packet.path, packet.offset, (packet.bits + 7) // 8)
            self._used_bytes += len(data)
            failed = self.rewriting.load(stream, data, packet.bits, packet.header, packet.class_)
            if failed:
                self._report(stream, failed)
            if self.rewriting.has_event(stream):
                return

    def _report(self, stream: int, failed: int) -> None:
        """Count or refuse a packet that cannot be read to its end.

        Raises:
            InputError: If the file was not cut there, and nothing is to be skipped.
        """
        packet = self._current[stream]
        assert packet is not None
        # of what is cut, that is what is to be expected
        if packet.is_cut and failed == kernel.BEYOND:
            return
        bits, time_ns = self.rewriting.at_bits(stream)
        if not self._is_lenient:
            raise _damage(packet.path, packet.offset + bits // 8, kernel.REASONS[failed])
        self.anomalies.add("bad_record")
        if packet.end is not None:
            end_ns = self.rewriting.time_ns(packet.class_, packet.end)
            if end_ns > time_ns > 0:
                self.lost.append((time_ns, end_ns, 0))

    def _streams(self, folder: Path, trace: TraceProgram, spare: int) -> list[list[_Packet]]:
        """Return the packets of each stream in a directory, in their order."""
        streams: dict[object, list[_Packet]] = {}
        try:
            paths = sorted(each for each in folder.iterdir() if each.is_file())
        except OSError as error:
            raise InputError(str(folder), f"it cannot be read ({error.strerror})") from error
        for path in paths:
            if path.name == _METADATA or path.name.startswith("."):
                continue
            for instance, packet in self._packets(path, trace, spare):
                key = path if instance is None else (packet.class_, instance)
                streams.setdefault(key, []).append(packet)
        for packets in streams.values():
            # a tracer that rotates its files may begin again with the first one
            if len({each.path for each in packets}) > 1:
                packets.sort(key=lambda each: each.begin or 0)
        return list(streams.values())

    def _packets(
        self, path: Path, trace: TraceProgram, spare: int
    ) -> list[tuple[int | None, _Packet]]:
        """Return the packets in a file, each with the number of its stream if it has one."""
        found: list[tuple[int | None, _Packet]] = []
        size = _size(path)
        offset = 0
        while offset < size:
            try:
                packet, instance, count = self._packet(path, offset, size, trace, spare)
            except InputError:
                if not self._is_lenient:
                    raise
                self.anomalies.add("bad_record")
                break
            if packet is None:
                self.anomalies.add("truncated")
                break
            self.anomalies.add("truncated", int(packet.is_cut))
            found.append((instance, packet))
            offset += count
        return found

    def _packet(
        self, path: Path, offset: int, size: int, trace: TraceProgram, spare: int
    ) -> tuple[_Packet | None, int | None, int]:
        """Return the packet at an offset, the number of its stream, and its bytes.

        The packet is None if the file ends in its header or context.

        Raises:
            InputError: If there is none.
        """
        left = size - offset
        failed, class_, bits, means = kernel.BEYOND, -1, 0, dict[int, int]()
        for most in _HEAD_BYTES:
            head = _read(path, offset, min(left, most))
            failed, class_, bits, means = self.rewriting.head(
                spare, head, trace.headers[0], trace.first, len(trace.headers)
            )
            if failed != kernel.BEYOND or left <= most:
                break
        if means.get(kernel.MAGIC, _MAGIC) != _MAGIC:
            raise _damage(path, offset, "no packet begins here")
        if failed == kernel.BEYOND and left <= _HEAD_BYTES[1]:
            return None, None, 0
        if failed:
            raise _damage(path, offset, kernel.REASONS[failed])
        if class_ < 0:
            number = means.get(kernel.STREAM_ID, 0)
            raise _damage(path, offset, f"the metadata have no stream of the number {number}")
        packet_bits = means.get(kernel.PACKET_BITS, 8 * left)
        content = means.get(kernel.CONTENT_BITS, packet_bits)
        if packet_bits % 8 or not packet_bits or not bits <= content <= packet_bits:
            raise _damage(
                path, offset, f"a packet of {packet_bits:,} bits with {content:,} of content"
            )
        packet = _Packet(
            path,
            offset,
            min(content, 8 * left),
            trace.headers[class_ - trace.first],
            class_,
            means.get(kernel.BEGIN_TIME),
            means.get(kernel.END_TIME),
            means.get(kernel.DISCARDED),
            means.get(kernel.SEQUENCE_NUMBER),
            is_cut=packet_bits > 8 * left,
        )
        return packet, means.get(kernel.INSTANCE), packet_bits // 8

    def _read_ns(self, streams: list[list[_Packet]]) -> tuple[int | None, int | None]:
        """Return from when and until when the packets of all streams have all events."""
        firsts = [packets[0] for packets in streams if packets]
        lasts = [packets[-1] for packets in streams if packets]
        begins = [None if each.discarded else each.begin for each in firsts]
        ends = [None if each.is_cut else each.end for each in lasts]
        begin_ns = (
            max(map(self._time_ns, firsts, begins)) if begins and None not in begins else None
        )
        end_ns = min(map(self._time_ns, lasts, ends)) if ends and None not in ends else None
        return begin_ns, end_ns

    def _find_lost(self, packets: list[_Packet]) -> None:
        """Add what a stream lost in or before its packets."""
        before: _Packet | None = None
        for packet in packets:
            begin_ns = self._time_ns(packet, packet.begin)
            end_ns = max(self._time_ns(packet, packet.end), begin_ns)
            since_ns = begin_ns if before is None else self._time_ns(before, before.end)
            earlier = before.discarded if before is not None else 0
            if packet.discarded is not None and packet.discarded > (earlier or 0):
                count = packet.discarded - (earlier or 0)
                self.lost.append((min(since_ns, end_ns), end_ns, count))
            if before is not None and None not in {packet.number, before.number}:
                assert packet.number is not None
                assert before.number is not None
                count = packet.number - before.number - 1
                if count > 0:
                    self.lost.append((min(since_ns, begin_ns), begin_ns, count))
            before = packet

    def _time_ns(self, packet: _Packet, cycles: int | None) -> int:
        return 0 if cycles is None else self.rewriting.time_ns(packet.class_, cycles)


def _length_ns(range_ns: tuple[int | None, int | None]) -> int:
    begin_ns, end_ns = range_ns
    return -1 if begin_ns is None or end_ns is None else end_ns - begin_ns


def _metadata(path: Path) -> str:
    size = _size(path)
    if size > _MOST_METADATA_BYTES:
        message = "the metadata are longer than 64 MiB"
        raise UnsupportedError(message)
    return text_of_metadata(_read(path, 0, size))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError(str(path), f"it cannot be read ({error.strerror})") from error


def _read(path: Path, offset: int, size: int) -> bytes:
    """Return a range of a file.

    Raises:
        InputError: If it cannot be read, or is shorter by now.
    """
    try:
        with open_regular(path) as file:
            pieces = []
            file.seek(offset)
            while size > 0 and (piece := file.read(size)):
                pieces.append(piece)
                size -= len(piece)
    except OSError as error:
        raise InputError(str(path), f"it cannot be read ({error.strerror})") from error
    if size:
        raise InputError(str(path), "the file became shorter while it was read")
    return b"".join(pieces)


def _damage(path: Path, offset: int, reason: str) -> InputError:
    return InputError(str(path), f"byte {offset:,}: {reason}")
