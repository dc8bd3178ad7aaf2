"""Small CTF traces in both byte orders, with every type of the language."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mutate import Words, mutated

if TYPE_CHECKING:
    from random import Random

    from containers import Files

__all__ = ["Packer", "Packet", "metadata_packets", "mutated_trace", "perf_trace", "trace"]

_TSDL = Words(
    (
        *(b"struct { ", b"variant <id> { ", b"enum : uint5_t { ", b" } x;", b"[id]", b"[3]", b";"),
        *(b"integer { size = 64; align = 1; } ", b"size = 1", b"align = 32", b"signed = true"),
        *(b"map = clock.monotonic.value", b"encoding = UTF8", b"string ", b"typealias ", b" := "),
        *(b" ... ", b"stream.packet.context.cpu_id", b"event { ", b"fields := ", b"align(64)"),
        *(b"byte_order = be", b"freq = 1", b"offset_s = -5", b"/* ", b"struct { } e[__count];"),
    ),
    text=True,
)
_PACKETS = Words((struct.pack("<I", 0xC1FC1FC1), struct.pack(">I", 0xC1FC1FC1)))

_BASE = 1_000_000
_HEAD = """/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := unsigned long;
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typealias integer {{ size = 16; align = 8; signed = true; }} := int16_t;
trace {{
  major = 1; minor = 8; byte_order = {order};
  packet.header := struct {{
    uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
  }};
}};
env {{ hostname = "web1"; domain = "kernel"; kernel_release = "6.1.0"; note = "a \\"b\\""; }};
clock {{ name = "monotonic"; freq = {frequency}; offset_s = 1457111225; offset = 7; }};
typealias integer {{ size = 27; align = 1; map = clock.monotonic.value; }} := uint27_clock_t;
typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := uint64_clock_t;
struct packet_context {{
  uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end;
  uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num;
  unsigned long events_discarded; uint32_t cpu_id;
}};
struct event_header_compact {{
  enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id; // the short form has 32 bits
  variant <id> {{
    struct {{ uint27_clock_t timestamp; }} compact;
    struct {{ uint32_t id; uint64_clock_t timestamp; }} extended;
  }} v;
}} align(8);
stream {{
  id = 0;
  event.header := struct event_header_compact;
  packet.context := struct packet_context;
  event.context := struct {{
    integer {{ size = 32; align = 8; signed = 1; }} _vtid;
    integer {{ size = 8; align = 8; encoding = UTF8; }} _procname[8];
  }};
}};
event {{
  name = "sched_switch"; id = 0; stream_id = 0;
  fields := struct {{
    integer {{ size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }} _prev_comm[16];
    integer {{ size = 32; align = 8; signed = 1; }} _prev_tid;
    integer {{ size = 32; align = 8; signed = 1; }} _prev_prio;
    integer {{ size = 64; align = 8; signed = 1; }} _prev_state;
    integer {{ size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }} _next_comm[16];
    integer {{ size = 32; align = 8; signed = 1; }} _next_tid;
    integer {{ size = 32; align = 8; signed = 1; }} _next_prio;
  }};
}};
event {{
  name = "app:types"; id = 40; stream_id = 0; loglevel = 13;
  context := struct {{ integer {{ size = 3; align = 1; signed = true; }} bits; }};
  fields := struct {{
    typedef int16_t pair[2];
    integer {{ size = 16; align = 8; byte_order = network; base = 16; }} port;
    integer {{ size = 13; align = 1; signed = true; base = 8; }} octal;
    integer {{ size = 7; align = 1; base = 2; }} binary;
    integer {{ size = 5; align = 1; signed = true; base = hex; }} nibbles;
    floating_point {{ exp_dig = 8; mant_dig = 24; align = 32; }} half;
    floating_point {{ exp_dig = 11; mant_dig = 53; }} whole;
    string {{ encoding = UTF8; }} text;
    enum kind : int16_t {{ low = -3 ... -1, "two words", ONE, _none = 9, high = 9 ... 12 }} _kind;
    uint8_t __count;
    uint32_t numbers[__count];
    pair pairs;
    struct {{ uint8_t x; string s; }} points[2];
    variant <_kind> {{ string low; uint8_t ONE; struct {{ uint5_t a; uint5_t b; }} _none; }} choice;
    integer {{ size = 8; align = 8; encoding = UTF8; }} letters[__count];
  }};
}};
event {{ name = "app:empty"; id = 41; stream_id = 0; fields := struct {{ }}; }};
"""
_PERF = """/* CTF 1.8 */
trace {{
  major = 1; minor = 8; byte_order = {order};
  packet.header := struct {{
    integer {{ size = 32; align = 8; }} magic; integer {{ size = 32; align = 8; }} stream_id;
  }} align(8);
}};
clock {{ name = perf_clock; freq = 1000000000; offset_s = 0; offset = 0; absolute = FALSE; }};
stream {{
  id = 0;
  event.header := struct {{
    integer {{ size = 32; align = 8; }} id;
    integer {{ size = 64; align = 8; map = clock.perf_clock.value; }} timestamp;
  }} align(8);
  packet.context := struct {{
    integer {{ size = 64; align = 8; }} content_size;
    integer {{ size = 64; align = 8; }} packet_size;
  }} align(8);
}};
event {{
  id = 3; name = "sched:sched_wakeup"; stream_id = 0;
  fields := struct {{
    integer {{ size = 32; align = 1; signed = true; }} perf_tid;
    integer {{ size = 32; align = 1; }} perf_cpu;
    string {{ encoding = UTF8; }} comm;
    integer {{ size = 32; align = 1; signed = true; }} pid;
    integer {{ size = 32; align = 1; signed = true; }} prio;
    integer {{ size = 32; align = 1; signed = true; }} target_cpu;
  }} align(8);
}};
"""


class Packer:
    """Bits in a byte order, the lowest or the highest of each byte first.

    Args:
        order: `le` or `be`.
    """

    def __init__(self, order: str) -> None:
        self.is_big = order == "be"
        self._bits: list[int] = []

    def __len__(self) -> int:
        return len(self._bits)

    def add(self, value: int, size: int, align: int = 8, *, is_big: bool | None = None) -> Packer:
        """Append an integer."""
        bits = [value >> each & 1 for each in range(size)]
        if is_big is not None and is_big != self.is_big:
            # whole bytes, in the other order
            data = value.to_bytes(size // 8, "big" if is_big else "little")
            return self.raw(data, align)
        self._bits.extend([0] * (-len(self._bits) % align))
        self._bits.extend(reversed(bits) if self.is_big else bits)
        return self

    def raw(self, data: bytes, align: int = 8) -> Packer:
        """Append bytes."""
        self._bits.extend([0] * (-len(self._bits) % align))
        for byte in data:
            bits = [byte >> each & 1 for each in range(8)]
            self._bits.extend(reversed(bits) if self.is_big else bits)
        return self

    def real(self, value: float, size: int, align: int = 8) -> Packer:
        """Append a number of IEEE 754."""
        layout = "f" if size == 32 else "d"
        return self.raw(struct.pack(f"{'>' if self.is_big else '<'}{layout}", value), align)

    def data(self) -> bytes:
        """Return all, up to a whole byte."""
        bits = self._bits + [0] * (-len(self._bits) % 8)
        chunks = (bits[each : each + 8] for each in range(0, len(bits), 8))
        if self.is_big:
            return bytes(sum(bit << (7 - at) for at, bit in enumerate(chunk)) for chunk in chunks)
        return bytes(sum(bit << at for at, bit in enumerate(chunk)) for chunk in chunks)


@dataclass
class Packet:
    """A packet of the first trace: its CPU, number, losses so far and events.

    An event is its time in cycles, its thread, its number and its fields.
    """

    cpu: int
    number: int
    discarded: int = 0
    events: list[tuple[int, int, int, tuple[int | bytes, ...]]] = field(default_factory=list)

    def data(self, order: str) -> bytes:
        """Return the packet; a byte after the content is padding."""
        begin, end = self.events[0][0], self.events[-1][0]
        out = Packer(order).add(0xC1FC1FC1, 32).raw(bytes(range(16))).add(0, 32).add(self.cpu, 64)
        context = len(out)
        for value in (begin, end, 0, 0, self.number, self.discarded):
            out.add(value, 64)
        out.add(self.cpu, 32)
        last = 0
        for time, tid, id_, fields in self.events:
            if id_ < 31 and time - (last or begin) < 1 << 27:
                out.add(id_, 5, 8).add(time & (1 << 27) - 1, 27, 1)
            else:
                out.add(31, 5, 8).add(id_, 32).add(time, 64)
            last = time
            out.add(tid, 32).raw(b"w-%d" % (tid % 10) + bytes(5))
            if id_ == 0:
                _switch(out, fields)
            elif id_ == 40:
                _types(out, fields)
        size = 8 * (len(out.data()) + 1)
        whole = bytearray(out.data() + b"\xff")
        layout = ">QQ" if order == "be" else "<QQ"
        struct.pack_into(layout, whole, context // 8 + 16, len(out), size)
        return bytes(whole)


def _switch(out: Packer, fields: tuple[int | bytes, ...]) -> None:
    for text, tid, state in (fields[:3], (*fields[3:5], None)):
        assert isinstance(text, bytes)
        assert isinstance(tid, int)
        out.raw(text.ljust(16, b"\0")).add(tid, 32).add(20, 32)
        if isinstance(state, int):
            out.add(state, 64)


def _types(out: Packer, fields: tuple[int | bytes, ...]) -> None:
    kind, text = fields
    assert isinstance(kind, int)
    assert isinstance(text, bytes)
    out.add(-2, 3, 1)
    # a struct is aligned as the field with the most
    out.add(8080, 16, 32, is_big=True)
    out.add(-9, 13, 1).add(5, 7, 1).add(-3, 5, 1)
    out.real(1.5, 32, 32).real(-2.25e-300, 64)
    out.raw(text + b"\0").add(kind, 16).add(3, 8)
    for number in (1, 2**31, 7):
        out.add(number, 32)
    out.add(-5, 16).add(6, 16)
    out.add(1, 8).raw(b"a b\0").add(2, 8).raw(b'"\0')
    if kind < 0:
        out.raw(b"low\0")
    elif kind == 1:
        out.add(77, 8)
    else:
        out.add(3, 5, 1).add(30, 5, 1)
    out.raw(b"ab\0")


def trace(order: str = "le", *, frequency: int = 1_000_000_000) -> Files:
    """Return the files of a trace of two CPUs: losses, times that wrap, and a file per packet."""
    a, b = b"app one", b"app/2"
    first = [
        Packet(0, 0, 0, [
            (_BASE, 7, 0, (b"swapper/0", 0, 0, a, 7)),
            (_BASE + 500, 7, 40, (-2, b'a "q"? \\ \xc3\xa9')),
            (_BASE + 900, 7, 40, (1, b"tab\there\x7f")),
            (_BASE + 3000, 7, 41, ()),
        ]),
        # the 27 bits of its times wrap twice; it lost 5 events
        Packet(0, 1, 5, [
            (_BASE + 5000, 7, 0, (a, 7, 1, b, 8)),
            (_BASE + 5000 + (1 << 27) - 1, 8, 0, (b, 8, 2, a, 7)),
            (_BASE + 5000 + (1 << 28) - 9, 7, 40, (9, b"")),
        ]),
        # a packet was lost before
        Packet(0, 3, 5, [(_BASE + (1 << 29), 7, 0, (a, 7, 0, b, 8))]),
    ]  # fmt: skip
    second = [
        Packet(1, 0, 2, [
            (_BASE + 700, 9, 0, (b"swapper/1", 0, 0, b"db", 9)),
            (_BASE + 1300, 9, 40, (1, b"x")),
            (_BASE + 1400, 9, 0, (b"db", 9, 64, b"swapper/1", 0)),
        ]),
    ]  # fmt: skip
    return {
        "metadata": _HEAD.format(order=order, frequency=frequency).encode(),
        "channel0_0": b"".join(packet.data(order) for packet in first),
        "channel0_1": b"".join(packet.data(order) for packet in second),
    }


def perf_trace(order: str = "le") -> Files:
    """Return the files of a trace as perf converts its data."""
    out = Packer(order)
    for time in (979_417_057_183, 979_417_073_483):
        out.add(3, 32).add(time, 64).add(18, 32).add(1, 32).raw(b"perf tool\0")
        for value in (18, 120, 0):
            out.add(value, 32)
    size = 8 * (len(out.data()) + 24)
    head = Packer(order).add(0xC1FC1FC1, 32).add(0, 32).add(size, 64).add(size, 64)
    return {"metadata": _PERF.format(order=order).encode(), "stream": head.data() + out.data()}


def metadata_packets(text: bytes, order: str = "le", size: int = 600) -> bytes:
    """Return metadata in packets, as LTTng writes them."""
    packets = []
    layout = f"{'>' if order == 'be' else '<'}I16sIII5B"
    for at in range(0, len(text), size):
        part = text[at : at + size]
        bits = 8 * (len(part) + 37)
        head = struct.pack(layout, 0x75D11D57, bytes(range(16)), 0, bits, 8192, 0, 0, 0, 1, 8)
        packets.append((head + part).ljust(1024, b"\0"))
    return b"".join(packets)


def mutated_trace(files: Files, random: Random) -> Files:
    """Return a trace's directory with one file damaged, left out, or given twice."""
    files = dict(files)
    name = random.choice(sorted(files))
    chance = random.random()
    if chance < 0.03:
        del files[name]
    elif chance < 0.06:
        files["channel0_9"] = files[name]
    else:
        words = _TSDL if name == "metadata" else _PACKETS
        files[name] = mutated(files[name], random, words)
    return files
