"""The header of perf.data: attributes of events, and sections about the machine and the recording.

    file = magic, u64 size, attr size, attrs (offset, size), data (offset, size), types (offset,
           size), 256 flags, one for each section behind the data

Definition: tools/perf/Documentation/perf.data-file-format.txt of Linux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from meantime.errors import InputError
from meantime.readers.tracing_data import Cursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.trace import Sliceable

__all__ = ["Attribute", "Features", "Header", "attribute_of", "event_name", "read_header"]

MAGICS = {b"PERFILE2": False, b"2ELIFREP": True, b"PERFFILE": False, b"ELIFFREP": True}
_HEADER_BYTES, _PIPE_BYTES = 104, 16
_PLACE_BYTES = 16
_ATTR_BYTES = 64
_MOST_ATTRS = 1 << 16
_MOST_SECTION = 1 << 28
_FLAG_BITS = 256
# bits of the flags of an attribute
_FREQ, _SAMPLE_ID_ALL, _USE_CLOCKID = 1 << 10, 1 << 18, 1 << 25
TRACEPOINT = 2
_SOFTWARE = (
    *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations"),
    *("minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy"),
    *("bpf-output", "cgroup-switches"),
)
_HARDWARE = (
    *("cpu-cycles", "instructions", "cache-references", "cache-misses", "branches"),
    *("branch-misses", "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend"),
    "ref-cycles",
)
_KINDS = ("hardware", "software", "tracepoint", "hw-cache", "raw", "breakpoint")
TRACING_DATA, BUILD_ID, HOSTNAME, RELEASE, NRCPUS = 1, 2, 3, 4, 7
CMDLINE, EVENT_DESC, CLOCK_DATA = 11, 12, 29
# Sections that are one text, by what it is called.
TEXTS = {
    HOSTNAME: "host",
    RELEASE: "kernel",
    5: "perf version",
    6: "architecture",
    8: "processor",
    9: "processor id",
}


class Attribute(NamedTuple):
    """An event that was recorded.

    Attributes:
        kind: Its type: 2 is a tracepoint.
        config: Which event of the type; of a tracepoint its number.
        period: How many events a sample stands for, if it does not say that itself.
        sample_type: Which fields samples have.
        read_format: The form of the counters in them.
        has_ids_at_end: Whether all other records have their time and thread, too.
        clock: The number of the clock of times; None is perf's own.
        ids: The ids of the event in records.
    """

    kind: int
    config: int
    period: int
    sample_type: int
    read_format: int
    has_ids_at_end: bool
    clock: int | None
    ids: tuple[int, ...] = ()


class Header(NamedTuple):
    """What a file begins with.

    Attributes:
        big: Whether numbers have their highest byte first.
        is_pipe: Whether all else is in records, as `perf record -o -` writes it.
        attributes: The events.
        begin: Where the records begin.
        end: Where they end.
        sections: By number, where sections begin, and their size.
        is_cut: Whether the end of the data is missing, as where perf was killed.
    """

    big: bool
    is_pipe: bool
    attributes: Sequence[Attribute]
    begin: int
    end: int
    sections: dict[int, tuple[int, int]]
    is_cut: bool = False

    @property
    def file_end(self) -> int:
        """The end of its last part, behind which nothing should be."""
        ends = [offset + size for offset, size in self.sections.values()]
        return max([self.end + _PLACE_BYTES * len(self.sections), *ends])


class Features:
    """What sections say of the recording."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.cpus: tuple[int, int] | None = None
        self.events: list[str] = []
        self.reference: tuple[int, int, int] | None = None
        self.command: list[str] = []
        self.build_ids: dict[str, bytes] = {}

    def add(self, number: int, data: bytes, *, big: bool) -> None:
        """Read a section; those that nothing is made of are left.

        Raises:
            ValueError: If it is damaged.
        """
        cursor = Cursor(data, big=big)
        if number in TEXTS:
            self.texts[number] = _string(cursor)
        elif number == NRCPUS:
            available, online = cursor.number(4), cursor.number(4)
            self.cpus = online, available
        elif number == CMDLINE:
            count = cursor.number(4)
            self.command = [_string(cursor) for _ in range(min(count, len(data)))]
        elif number == CLOCK_DATA:
            cursor.number(4)
            clock, wall_ns, clock_ns = cursor.number(4), cursor.number(8), cursor.number(8)
            self.reference = clock, wall_ns, clock_ns
        elif number == BUILD_ID:
            self._add_build_ids(cursor)
        elif number == EVENT_DESC:
            self._add_events(cursor)

    def _add_events(self, cursor: Cursor) -> None:
        count, size = cursor.number(4), cursor.number(4)
        for _ in range(min(count, _MOST_ATTRS)):
            cursor.take(size)
            ids = cursor.number(4)
            self.events.append(_string(cursor))
            cursor.take(8 * ids)

    def _add_build_ids(self, cursor: Cursor) -> None:
        while cursor.at < len(cursor.data):
            cursor.number(4)
            misc, size = cursor.number(2), cursor.number(2)
            record = Cursor(cursor.take(size - 8))
            record.take(4)
            self.add_build_id(record.take(24), misc, record.take(len(record.data) - 28))

    def add_build_id(self, number: bytes, misc: int, file: bytes) -> None:
        """Add the build id of a file."""
        # older versions of perf do not write its size
        size = number[20] if misc & 1 << 15 else 20
        name = file.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
        self.build_ids[name] = number[: min(size, 20)]


def read_header(name: str, data: Sliceable) -> Header:
    """Return what a file begins with.

    Raises:
        InputError: If it is damaged.
    """
    size = len(data)
    magic = bytes(data[: min(size, 8)])
    if magic not in MAGICS:
        raise InputError(name, "this does not begin as a perf.data file does", offset=0)
    big = MAGICS[magic]
    # the magic is a number: in the other order of bytes it is reversed
    cursor = Cursor(bytes(data[: min(size, _HEADER_BYTES)]), big=big, at=8)
    try:
        header_bytes = cursor.number(8)
        if header_bytes == _PIPE_BYTES:
            return Header(big, True, [], _PIPE_BYTES, size, {})
        attr_bytes = cursor.number(8)
        attrs, attrs_size, begin, data_size = (cursor.number(8) for _ in range(4))
        cursor.take(16)
        flags = _flags(cursor.take(_FLAG_BITS // 8), big=big)
    except ValueError:
        raise InputError(name, "this perf.data ends inside its header", offset=0) from None
    if header_bytes < _HEADER_BYTES or attr_bytes < _ATTR_BYTES + 16:
        raise InputError(name, "the header of this perf.data has an unknown size", offset=8)
    attributes = _attributes(name, data, (attrs, attrs_size, attr_bytes), big=big)
    if begin < _HEADER_BYTES or begin > size:
        raise InputError(
            name, f"the records are said to begin behind the end of the file ({begin:,})", offset=40
        )
    end = min(size, begin + data_size)
    # perf writes the size at last
    is_open = not data_size
    sections: dict[int, tuple[int, int]] = {}
    if not is_open and begin + data_size <= size:
        table = Cursor(bytes(data[end : min(size, end + _PLACE_BYTES * len(flags))]), big=big)
        for number in flags:
            try:
                sections[number] = table.number(8), table.number(8)
            except ValueError:
                break
    is_cut = is_open or end < begin + data_size
    return Header(big, False, attributes, begin, size if is_open else end, sections, is_cut)


def section_of(data: Sliceable, place: tuple[int, int]) -> bytes | None:
    """Return the bytes of a section; None if they are not in the file, or too many."""
    offset, size = place
    if size > _MOST_SECTION or offset + size > len(data):
        return None
    return bytes(data[offset : offset + size])


def _flags(data: bytes, *, big: bool) -> list[int]:
    words = [
        int.from_bytes(data[at : at + 8], "big" if big else "little") for at in range(0, 32, 8)
    ]
    return [
        64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1
    ]


def _attributes(
    name: str, data: Sliceable, place: tuple[int, int, int], *, big: bool
) -> list[Attribute]:
    begin, size, each_bytes = place
    count = size // each_bytes
    if not count or count > _MOST_ATTRS or begin + size > len(data):
        raise InputError(
            name, f"the header of this perf.data names {count:,} events that it has not", offset=24
        )
    cursor = Cursor(bytes(data[begin : begin + size]), big=big)
    found = []
    for row in range(count):
        try:
            attribute = attribute_of(cursor.take(each_bytes - 16), big=big)
            offset, length = cursor.number(8), cursor.number(8)
        except ValueError as error:
            raise InputError(
                name, f"an event is damaged: {error}", offset=begin + row * each_bytes
            ) from None
        ids = section_of(data, (offset, length)) or b""
        order = "big" if big else "little"
        numbers = (
            int.from_bytes(ids[at : at + 8], order)  # type: ignore[arg-type] # one of two
            for at in range(0, len(ids) - 7, 8)
        )
        found.append(attribute._replace(ids=tuple(numbers)))
    return found


def attribute_of(data: bytes, *, big: bool) -> Attribute:
    """Return an attribute of its bytes.

    Raises:
        ValueError: If they are too few.
    """
    cursor = Cursor(data, big=big)
    kind, _ = cursor.number(4), cursor.number(4)
    config, period, sample_type, read_format, flags = (cursor.number(8) for _ in range(5))
    if big:
        # bits are counted from the other end there
        flags = int(f"{flags:064b}"[::-1], 2)
    clock = None
    if flags & _USE_CLOCKID:
        # behind the breakpoint, the branches and the registers
        clock = int.from_bytes(data[92:96], "big" if big else "little", signed=True)
    return Attribute(
        kind,
        config,
        0 if flags & _FREQ else period,
        sample_type,
        read_format,
        bool(flags & _SAMPLE_ID_ALL),
        clock,
    )


def event_name(attribute: Attribute) -> str:
    """Return a name for an event of which the file has none.

    >>> event_name(Attribute(4, 0x1C2, 0, 0, 0, False, None))
    'raw 0x1c2'
    """
    names = {0: _HARDWARE, 1: _SOFTWARE}.get(attribute.kind, ())
    if attribute.config < len(names):
        return names[attribute.config]
    kind = attribute.kind
    called = _KINDS[kind] if kind < len(_KINDS) else f"type {kind}"
    return f"{called} {attribute.config:#x}"


def _string(cursor: Cursor) -> str:
    return cursor.sized(4).split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
