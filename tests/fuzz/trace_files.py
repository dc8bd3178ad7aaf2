"""Small files of trace-cmd, written field by field in either order of bytes and both versions.

file = TraceFile()
file.event(0, 1_000, number, content)
data = file.version_6()
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import zstd_frames
from perf_files import OTHER_FORMAT, SWITCH_FORMAT, events_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FUNCTION", "GRAPH", "GRAPH_END", "PRINT", "SWITCH", "TraceFile"]

FUNCTION, GRAPH, GRAPH_END, PRINT, SWITCH, OTHER = 1, 11, 10, 5, 300, 301
_PAGE = 256
_COMMON = (
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
)
_OF_FTRACE = tuple(
    f"name: {name}\nID: {number}\nformat:\n{_COMMON}"
    + "".join(
        f"\tfield:{field};\toffset:{8 + 8 * place};\tsize:{size};\tsigned:0;\n"
        for place, (field, size) in enumerate(fields)
    )
    for name, number, fields in (
        ("function", FUNCTION, (("unsigned long ip", 8), ("unsigned long parent_ip", 8))),
        ("funcgraph_entry", GRAPH, (("unsigned long func", 8), ("int depth", 4))),
        ("funcgraph_exit", GRAPH_END, (("unsigned long func", 8), ("u64 calltime", 8))),
        ("print", PRINT, (("unsigned long ip", 8), ("char buf[]", 0))),
    )
)
_KALLSYMS = b"0000000000001000 T first\nffffffff81000000 t second\n0000000000002000 D data\n"
_HEADER_PAGE = (
    b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    b"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
)


class TraceFile:
    """A file with the events of two CPUs."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.cpus: list[list[bytes]] = [[], []]
        self._page: list[tuple[int, bytearray]] = [(0, bytearray()), (0, bytearray())]
        self._last = [0, 0]
        self.cmdlines = b"7 app\n8 other\n"
        self.options: list[tuple[int, bytes]] = [
            (4, b"local [mono]\0"),
            (5, b"Linux host 6.1\0"),
            (2, b"CPU: 0\nentries: 0\noverrun: 2\n\0"),
        ]

    def pack(self, layout: str, *values: Any) -> bytes:
        """Return numbers in the file's order of bytes."""
        return struct.pack(self.order + layout, *values)

    def _word(self, kind: int, delta: int) -> bytes:
        return self.pack("I", kind << 27 | delta if self.order == ">" else delta << 5 | kind)

    def raw(self, cpu: int, data: bytes) -> None:
        """Add bytes to the page of a CPU."""
        self._page[cpu][1].extend(data)

    def event(self, cpu: int, time: int, number: int, content: bytes, tid: int = 7) -> None:
        """Add an event, with what its time needs before it."""
        data = self.pack("HBBi", number, 0, 0, tid) + content
        data += bytes(-len(data) % 4)
        page = self._page[cpu][1]
        if len(page) + len(data) + 16 > _PAGE - 16:
            self.end_page(cpu)
        page = self._page[cpu][1]
        if not page:
            self._page[cpu] = time, page
            self._last[cpu] = time
        delta = time - self._last[cpu]
        if delta >> 27:
            page.extend(self._word(30, delta & 0x7FFFFFF) + self.pack("I", delta >> 27))
            delta = 0
        self._last[cpu] = time
        if len(data) <= 112:
            page.extend(self._word(len(data) // 4, delta) + data)
        else:
            page.extend(self._word(0, delta) + self.pack("I", len(data) + 4) + data)

    def end_page(self, cpu: int, flags: int = 0) -> None:
        """End the page of a CPU."""
        begin, page = self._page[cpu]
        head = self.pack("QQ", begin, len(page) | flags)
        self.cpus[cpu].append((head + page).ljust(_PAGE, b"\0"))
        self._page[cpu] = 0, bytearray()

    def switch(
        self, cpu: int, time: int, leaving: tuple[int, str], coming: tuple[int, str]
    ) -> None:
        """Add a switch between two threads, of which the first sleeps."""
        (tid, comm), (next_tid, next_comm) = leaving, coming
        raw = comm.encode().ljust(16, b"\0") + self.pack("iiq", tid, 120, 1)
        raw += next_comm.encode().ljust(16, b"\0") + self.pack("iii", next_tid, 120, 0)
        self.event(cpu, time, SWITCH, raw, tid)

    def _sized(self, layout: str, data: bytes) -> bytes:
        return self.pack(layout, len(data)) + data

    def _pages(self) -> list[bytes]:
        for cpu in range(2):
            if self._page[cpu][1]:
                self.end_page(cpu)
        return [b"".join(pages) for pages in self.cpus]

    def _formats(self) -> tuple[bytes, bytes]:
        of_ftrace = self.pack("I", len(_OF_FTRACE)) + b"".join(
            self._sized("Q", each.encode()) for each in _OF_FTRACE
        )
        return of_ftrace, events_of(self.order, SWITCH_FORMAT, OTHER_FORMAT)

    def _head_pages(self) -> bytes:
        own = b"header_page\0" + self._sized("Q", _HEADER_PAGE)
        return own + b"header_event\0" + self._sized("Q", b"# compressed entry header\n")

    def version_6(self, *, in_instance: bool = False) -> bytes:
        """Return the file in version 6, its events in a buffer with a name if that is wanted."""
        head = b"\x17\x08\x44tracing6\0" + bytes([self.order == ">", 8]) + self.pack("I", _PAGE)
        head += self._head_pages() + b"".join(self._formats())
        head += (
            self._sized("I", _KALLSYMS) + self._sized("I", b"") + self._sized("Q", self.cmdlines)
        )
        head += self.pack("I", 2) + b"options  \0"
        pages = self._pages()
        options = [*self.options, *([(3, bytes(8) + b"own\0")] if in_instance else [])]
        size = sum(6 + len(each) for _, each in options) + 2
        table = len(head) + size + 42
        begin = table + 42
        if in_instance:
            options[-1] = 3, self.pack("Q", table) + b"own\0"
        head += b"".join(self.pack("HI", number, len(each)) + each for number, each in options)
        head += self.pack("H", 0)
        own = self.pack("QQQQ", begin, len(pages[0]), begin + len(pages[0]), len(pages[1]))
        first, second = (bytes(32), own) if in_instance else (own, bytes(32))
        head += b"flyrecord\0" + first + b"flyrecord\0" + second
        return head + b"".join(pages)

    def version_7(self, compression: str = "none") -> bytes:
        """Return the file in version 7, compressed by zstd, zlib or not at all."""
        packers: dict[str, Callable[[bytes], bytes]]
        packers = {"zstd": zstd_frames.compress, "zlib": zlib.compress}
        pack = packers.get(compression)
        head = b"\x17\x08\x44tracing7\0" + bytes([self.order == ">", 8]) + self.pack("I", _PAGE)
        head += compression.encode() + b"\0" + b"1.0\0"
        at = len(head) + 8
        body = b""
        options = list(self.options)

        def section(number: int, data: bytes) -> int:
            nonlocal body
            place = at + len(body)
            if pack is not None:
                packed = pack(data)
                data = self.pack("II", len(packed), len(data)) + packed
            flags = int(pack is not None)
            body += self.pack("HHIQ", number, flags, 0, len(data)) + data
            return place

        of_ftrace, of_events = self._formats()
        for number, data in (
            (16, self._head_pages()),
            (17, of_ftrace),
            (18, of_events),
            (19, self._sized("I", _KALLSYMS)),
            (21, self._sized("Q", self.cmdlines)),
        ):
            options.append((number, self.pack("Q", section(number, data))))
        pages = self._pages()
        place = at + len(body)
        begin = place + 16
        content, table = b"", b""
        for cpu, data in enumerate(pages):
            stored = data
            if pack is not None:
                chunks = [data[at : at + _PAGE] for at in range(0, len(data), _PAGE)]
                parts = [(pack(each), len(each)) for each in chunks]
                stored = self.pack("I", len(parts)) + b"".join(
                    self.pack("II", len(packed), whole) + packed for packed, whole in parts
                )
            table += self.pack("IQQ", cpu, begin + len(content), len(stored) if data else 0)
            content += stored
        body += self.pack("HHIQ", 3, int(pack is not None), 0, len(content)) + content
        buffer = self.pack("Q", place) + b"\0mono\0" + self.pack("II", _PAGE, 2) + table
        options += [(3, buffer), (0, bytes(8))]
        first = section(
            0, b"".join(self.pack("HI", number, len(each)) + each for number, each in options)
        )
        return head + self.pack("Q", first) + body
