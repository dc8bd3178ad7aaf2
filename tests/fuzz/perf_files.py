"""Small perf.data files, written field by field in either order of bytes.

file = PerfFile()
file.event(1, 0, name="cpu-clock")
file.map(7, 0x1000, 0x1000, "/bin/app")
file.sample(0, 1_000, 7, 7, ip=0x1010)
data = file.built()
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["OTHER_FORMAT", "SWITCH_FORMAT", "PerfFile", "events_of", "tracing_data"]

IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD, RAW, IDENTIFIER = (
    *(1, 2, 4, 32, 64, 128, 256, 1024),
    65536,
)
_USUAL = IP | TID | TIME | CPU | PERIOD | IDENTIFIER
_IDS_AT_END, _USE_CLOCK = 1 << 18, 1 << 25
_COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
SWITCH_FORMAT = (
    "name: sched_switch\nID: 300\nformat:\n"
    + _COMMON
    + "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
    "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
    "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
    "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
    "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
    "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n"
    'print fmt: "...", __print_flags(REC->prev_state & 255, "|", { 0x00000001, "S" },'
    ' { 0x00000002, "D" }) : "R"\n'
)
OTHER_FORMAT = (
    "name: odd\nID: 301\nformat:\n" + _COMMON + "\tfield:u8 small;\toffset:8;\tsize:1;\tsigned:0;\n"
    "\tfield:s16 less;\toffset:10;\tsize:2;\tsigned:1;\n"
    "\tfield:const void * at;\toffset:16;\tsize:8;\tsigned:0;\n"
    "\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n"
    "\tfield:u32 list[2];\toffset:28;\tsize:8;\tsigned:0;\n"
    "\tfield:__rel_loc char[] other;\toffset:36;\tsize:4;\tsigned:0;\n\n"
    'print fmt: "%d", REC->small\n'
)


def events_of(order: str, *formats: str) -> bytes:
    """Return formats, each in a group: `sched`, then `odd`."""
    found = struct.pack(order + "I", len(formats))
    for group, text in zip((b"sched", b"odd"), formats, strict=True):
        data = text.encode()
        found += group + b"\0" + struct.pack(order + "IQ", 1, len(data)) + data
    return found


def tracing_data(order: str = "<") -> bytes:
    """Return what perf writes of a kernel's tracepoints: two of them."""

    def sized(layout: str, data: bytes) -> bytes:
        return struct.pack(order + layout, len(data)) + data

    return b"".join(
        (
            b"\x17\x08\x44tracing0.6\0",
            bytes([order == ">", 8]),
            struct.pack(order + "I", 4096),
            b"header_page\0" + sized("Q", b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\n"),
            b"header_event\0" + sized("Q", b"# compressed entry header\n"),
            struct.pack(order + "I", 0),
            events_of(order, SWITCH_FORMAT, OTHER_FORMAT),
            sized("I", b""),
            sized("I", b""),
            sized("Q", b""),
        )
    )


class PerfFile:
    """A file of which all samples have the same fields, unless an event says otherwise."""

    def __init__(self, order: str = "<", *, sample_type: int = _USUAL) -> None:
        self.order = order
        self.sample_type = sample_type
        self.attributes: list[tuple[bytes, list[int], str]] = []
        self.types: list[int] = []
        self.records: list[bytes] = []
        self.features: dict[int, bytes] = {}

    def pack(self, layout: str, *values: Any) -> bytes:
        """Return numbers in the file's order of bytes."""
        return struct.pack(self.order + layout, *values)

    def event(
        self,
        kind: int,
        config: int,
        *,
        name: str = "",
        sample_type: int | None = None,
        clock: int | None = None,
    ) -> int:
        """Add an event, and return its number."""
        fields = self.sample_type if sample_type is None else sample_type
        flags = _IDS_AT_END | (0 if clock is None else _USE_CLOCK)
        if self.order == ">":
            flags = int(f"{flags:064b}"[::-1], 2)
        data = self.pack("IIQQQQQ", kind, 128, config, 1, fields, 4, flags)
        data += bytes(92 - len(data)) + self.pack("i", clock or 0)
        number = len(self.attributes)
        self.types.append(fields)
        self.attributes.append((data.ljust(128, b"\0"), [100 + number], name))
        return number

    def record(self, kind: int, content: bytes, misc: int = 0) -> None:
        """Add a record."""
        content += bytes(-len(content) % 8)
        self.records.append(self.pack("IHH", kind, misc, 8 + len(content)) + content)

    def round(self) -> None:
        """End a round."""
        self.record(68, b"")

    def identified(self, pid: int, tid: int, time: int, cpu: int = 0) -> bytes:
        """Return what other records end with."""
        return self.pack("IIQIIQ", pid, tid, time, cpu, 0, 100)

    def name(self, pid: int, tid: int, comm: str, time: int = 0) -> None:
        """Name a thread."""
        text = comm.encode() + b"\0"
        text += bytes(-len(text) % 8)
        self.record(3, self.pack("II", pid, tid) + text + self.identified(pid, tid, time))

    def map(
        self, pid: int, start: int, size: int, file: str, *, time: int = 0, misc: int = 2
    ) -> None:
        """Map a file into a process."""
        text = file.encode() + b"\0"
        text += bytes(-len(text) % 8)
        head = self.pack("iIQQQ", pid, 0, start, size, 0)
        self.record(
            1, head + text + self.identified(pid & 0x7FFFFFFF, pid & 0x7FFFFFFF, time), misc
        )

    def fork(self, pid: int, parent: int, time: int = 0) -> None:
        """Begin a process."""
        head = self.pack("IIIIQ", pid, parent, pid, parent, time)
        self.record(7, head + self.identified(pid, pid, time))

    def sample(
        self,
        event: int,
        time: int,
        pid: int,
        tid: int,
        *,
        ip: int = 0,
        cpu: int = 0,
        period: int = 1,
        chain: tuple[int, ...] = (),
        raw: bytes = b"",
        misc: int = 2,
    ) -> None:
        """Add a sample."""
        fields = self.types[event]
        parts = [
            (IDENTIFIER, self.pack("Q", 100 + event)),
            (IP, self.pack("Q", ip)),
            (TID, self.pack("II", pid & 0xFFFFFFFF, tid & 0xFFFFFFFF)),
            (TIME, self.pack("Q", time)),
            (CPU, self.pack("II", cpu, 0)),
            (PERIOD, self.pack("Q", period)),
            (CALLCHAIN, self.pack("Q", len(chain)) + self.pack(f"{len(chain)}Q", *chain)),
            (RAW, self.pack("I", len(raw)) + raw),
        ]
        self.record(9, b"".join(part for bit, part in parts if fields & bit), misc)

    def switch(
        self, event: int, time: int, leaving: tuple[int, str, int], coming: tuple[int, str]
    ) -> None:
        """Add a sample of sched_switch on CPU 0."""
        (tid, comm, state), (next_tid, next_comm) = leaving, coming
        raw = self.pack("HBBi", 300, 0, 0, tid) + comm.encode().ljust(16, b"\0")
        raw += self.pack("iiq", tid, 120, state) + next_comm.encode().ljust(16, b"\0")
        raw += self.pack("iii", next_tid, 120, 0)
        self.sample(event, time, tid, tid, raw=raw)

    def _string(self, text: str) -> bytes:
        data = text.encode() + b"\0"
        data += bytes(-len(data) % 64)
        return self.pack("I", len(data)) + data

    def described(self, *, formats: bool = True) -> None:
        """Add the sections that say what machine it was, and what events are called."""
        for number, text in ((3, "host"), (4, "6.1.0"), (5, "6.1"), (6, "x86_64")):
            self.features[number] = self._string(text)
        self.features[7] = self.pack("II", 4, 2)
        self.features[11] = self.pack("I", 2) + self._string("perf") + self._string("record")
        names = [self._string(name) for _, _, name in self.attributes]
        self.features[12] = self.pack("II", len(names), 128) + b"".join(
            data + self.pack("I", len(ids)) + name + self.pack(f"{len(ids)}Q", *ids)
            for (data, ids, _), name in zip(self.attributes, names, strict=True)
        )
        if formats:
            self.features[1] = tracing_data(self.order)

    def built(self) -> bytes:
        """Return the file."""
        header_bytes = 104
        ids_at = header_bytes
        ids = b"".join(self.pack(f"{len(each)}Q", *each) for _, each, _ in self.attributes)
        attrs_at = ids_at + len(ids)
        attrs, at = b"", ids_at
        for data, numbers, _ in self.attributes:
            attrs += data + self.pack("QQ", at, 8 * len(numbers))
            at += 8 * len(numbers)
        begin = attrs_at + len(attrs)
        records = b"".join(self.records)
        flags = [0, 0, 0, 0]
        for number in self.features:
            flags[number // 64] |= 1 << number % 64
        sections, table = b"", b""
        behind = begin + len(records) + 16 * len(self.features)
        for _, section in sorted(self.features.items()):
            table += self.pack("QQ", behind + len(sections), len(section))
            sections += section
        magic = b"PERFILE2" if self.order == "<" else b"2ELIFREP"
        head = self.pack("QQ", header_bytes, 144) + self.pack("QQ", attrs_at, len(attrs))
        head += self.pack("QQ", begin, len(records)) + bytes(16) + self.pack("4Q", *flags)
        return magic + head + ids + attrs + records + table + sections

    def piped(self) -> bytes:
        """Return the same as `perf record -o -` writes it."""
        own = PerfFile(self.order)
        for data, ids, _ in self.attributes:
            own.record(64, data + self.pack(f"{len(ids)}Q", *ids))
        for number, section in self.features.items():
            if number != 1:
                own.record(80, self.pack("Q", number) + section)
        if formats := self.features.get(1):
            own.record(66, self.pack("I", len(formats)))
            own.records.append(formats + bytes(-len(formats) % 8))
        magic = b"PERFILE2" if self.order == "<" else b"2ELIFREP"
        return magic + self.pack("Q", 16) + b"".join(own.records + self.records)

    def packed(self, compressed: bytes) -> None:
        """Replace the records by one that holds them compressed."""
        self.records = []
        self.record(83, self.pack("Q", len(compressed)) + compressed)
