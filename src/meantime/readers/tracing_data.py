r"""What a kernel says of its tracepoints, as perf and trace-cmd write it: formats, names, tables.

    data = 17 08 44 "tracing" version\0 order long page header_page header_event ftrace systems ...

The format of an event lists its fields: a type, a name, an offset, a size. Definition: `trace-cmd
help trace-cmd.dat.v6`, of which perf writes the beginning. A `Tracepoint` is what the kernels that
read raw data need: see tracepoint_raw.h.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.model.trace import Sliceable

__all__ = [
    "MAGIC",
    "Cursor",
    "Tracepoint",
    "TracingData",
    "read_formats",
    "read_header_pages",
    "read_tracing_data",
    "tracepoint_of",
]

MAGIC = b"\x17\x08\x44tracing"

# Of tracepoint_raw.h.
_UNSIGNED, _SIGNED, _POINTER, _TEXT, _DYNAMIC, _RELATIVE, _ARRAY = range(7)
_FIELDS, _SWITCH, _SOFTIRQ, _REQUEST, _ENTER, _EXIT, _MARK, _FUNCTION, _GRAPH = range(9)
# By event, how its fields are written, and the fields that this needs; one with ? may be missing.
_SPELLINGS: dict[str, tuple[int, tuple[str, ...]]] = {
    "sched_switch": (
        _SWITCH,
        (
            *("prev_comm", "prev_pid", "prev_prio", "prev_state"),
            *("next_comm", "next_pid", "next_prio"),
        ),
    ),
    "softirq_entry": (_SOFTIRQ, ("vec",)),
    "softirq_exit": (_SOFTIRQ, ("vec",)),
    "softirq_raise": (_SOFTIRQ, ("vec",)),
    "block_rq_issue": (_REQUEST, ("dev", "rwbs", "cmd?", "sector", "nr_sector")),
    "block_rq_complete": (_REQUEST, ("dev", "rwbs", "cmd?", "sector", "nr_sector")),
    "sys_enter": (_ENTER, ("id", "args")),
    "sys_exit": (_EXIT, ("id", "ret")),
    "print": (_MARK, ("buf",)),
    "function": (_FUNCTION, ("ip", "parent_ip")),
    "funcgraph_entry": (_GRAPH, ("func",)),
    "funcgraph_exit": (_GRAPH, ("func",)),
    # the thread that they name
    "sched_wakeup": (_FIELDS, ("comm", "pid")),
    "sched_wakeup_new": (_FIELDS, ("comm", "pid")),
}
_MOST_EVENTS, _MOST_FIELDS = 1 << 16, 1 << 8
# The longest format of a kernel has some 10 kB.
_MOST_FORMAT_BYTES = 1 << 18
_MOST_OFFSET = 1 << 20
_FIELD = re.compile(
    r"^[ \t]*field:([^;\n]{1,400});[ \t]*offset:(\d{1,9});[ \t]*size:(\d{1,9});"
    r"(?:[ \t]*signed:(\d);)?",
    re.MULTILINE,
)
_NAME = re.compile(r"^name: ([^\n]{1,200})$", re.MULTILINE)
_ID = re.compile(r"^ID: (\d{1,9})$", re.MULTILINE)
_DECLARED = re.compile(r"(.*?)([\w.$-]+)\s*(?:\[([^\]]*)\])?\s*$", re.DOTALL)
_FLAG = re.compile(r'\{\s*(0x[0-9a-fA-F]{1,8}|\d{1,9})\s*,\s*"(\w)"\s*\}')
_STATES = b"SDTtXZPI"
_MOST_LETTERS = 16
_NUMBER_BYTES = (1, 2, 4, 8)
_PLACE_BYTES = 4
_COUNT = re.compile(r"[0-9]{1,6}")


class Cursor:
    """Reads numbers and texts from bytes one after the other.

    All methods raise ValueError where the bytes end.
    """

    def __init__(self, data: Sliceable, *, big: bool = False, at: int = 0) -> None:
        self.data = data
        self.at: int = at
        self._order = "big" if big else "little"

    def take(self, size: int) -> bytes:
        """Return so many bytes."""
        if size < 0 or size > len(self.data) - self.at:
            raise ValueError(f"{size:,} bytes are wanted, {len(self.data) - self.at:,} are left")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def number(self, size: int) -> int:
        """Return a number of so many bytes, without a sign."""
        return int.from_bytes(self.take(size), self._order)  # type: ignore[arg-type] # one of two

    def sized(self, width: int) -> bytes:
        """Return bytes with their number, of so many bytes, before them."""
        return self.take(self.number(width))

    def text(self, most: int = 1 << 12) -> str:
        """Return the text before the next zero byte."""
        found = bytes(self.data[self.at : self.at + most]).find(b"\0")
        if found < 0:
            raise ValueError("a text has no end")
        return self.take(found + 1)[:-1].decode("utf-8", "backslashreplace")


class Tracepoint(NamedTuple):
    """An event as the kernel describes it.

    Attributes:
        group: The group, such as `sched`.
        name: Its name in the group.
        number: The number in its raw data.
        spelling: How tracepoint_raw.h writes the fields.
        named: The indices of the fields that the spelling needs; -1 is none.
        letters: Of the states of threads, by their bits.
        fields: Of each field its name, offset, size, kind, and the size of an item.
    """

    group: str
    name: str
    number: int
    spelling: int
    named: tuple[int, ...]
    letters: bytes
    fields: list[tuple[bytes, int, int, int, int]]

    @property
    def raw(self) -> tuple[int, tuple[int, ...], bytes, list[tuple[bytes, int, int, int, int]]]:
        """What kernels take."""
        return self.spelling, self.named, self.letters, self.fields


class TracingData(NamedTuple):
    """What stands before the events.

    Attributes:
        version: The version of the form.
        big: Whether numbers have their highest byte first.
        long_bytes: The size of a long.
        page_bytes: The size of a page.
        header_page: The fields of the header of a page of the ring.
        tracepoints: The events, in order.
        unread: How many formats could not be read.
        kallsyms: The addresses and names of functions.
        cmdlines: The ids and names of threads, if they are there.
        end: Where these data end.
    """

    version: str
    big: bool
    long_bytes: int
    page_bytes: int
    header_page: str
    tracepoints: list[Tracepoint]
    unread: int
    kallsyms: bytes
    cmdlines: bytes
    end: int


def read_tracing_data(data: Sliceable) -> TracingData:
    """Return what perf and trace-cmd up to version 6 write of the tracepoints of a kernel.

    Raises:
        ValueError: If it is damaged.
    """
    cursor = Cursor(data)
    if cursor.take(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as such data do")
    version = cursor.text(16)
    big = cursor.number(1) == 1
    cursor = Cursor(data, big=big, at=cursor.at)
    long_bytes, page_bytes = cursor.number(1), cursor.number(4)
    header_page = read_header_pages(cursor)
    tracepoints, unread = read_formats(cursor, cursor)
    kallsyms = cursor.sized(4)
    # the formats of printk
    cursor.sized(4)
    cmdlines = cursor.sized(8) if version >= "0.6" and cursor.at < len(data) else b""
    return TracingData(
        version,
        big,
        long_bytes,
        page_bytes,
        header_page,
        tracepoints,
        unread,
        kallsyms,
        cmdlines,
        cursor.at,
    )


def read_header_pages(cursor: Cursor) -> str:
    """Return the description of the header of a page; that of an event is skipped."""
    found = []
    for name in ("header_page", "header_event"):
        if cursor.text(16) != name:
            raise ValueError(f"it has no {name}")
        found.append(cursor.sized(8).decode("ascii", "replace"))
    return found[0]


def read_formats(
    of_ftrace: Cursor | None, of_events: Cursor | None
) -> tuple[list[Tracepoint], int]:
    """Return the events that are described, ftrace's first, and how many cannot be read.

    Raises:
        ValueError: If the descriptions are damaged.
    """
    formats = [("ftrace", text) for text in _formats(of_ftrace)] if of_ftrace else []
    for _ in range(of_events.number(4) if of_events else 0):
        assert of_events is not None
        group = of_events.text()
        formats += [(group, text) for text in _formats(of_events)]
        if len(formats) > _MOST_EVENTS:
            raise ValueError("it has too many events")
    found = [tracepoint_of(group, text) for group, text in formats]
    tracepoints = [each for each in found if each is not None]
    return tracepoints, len(found) - len(tracepoints)


def _formats(cursor: Cursor) -> Iterator[bytes]:
    count = cursor.number(4)
    if count > _MOST_EVENTS:
        raise ValueError(f"it has {count:,} events")
    for _ in range(count):
        yield cursor.sized(8)


def tracepoint_of(group: str, text: bytes) -> Tracepoint | None:
    r"""Return an event of its format; None if that cannot be read.

    >>> text = b"name: x\nID: 7\n\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n"
    >>> tracepoint_of("sched", text).fields
    [(b'pid', 8, 4, 1, 4)]
    """
    if len(text) > _MOST_FORMAT_BYTES:
        return None
    decoded = text.decode("utf-8", "backslashreplace")
    name, number = _NAME.search(decoded), _ID.search(decoded)
    if name is None or number is None:
        return None
    fields = []
    for found in _FIELD.finditer(decoded):
        if (field := _field(*found.groups())) is not None:
            fields.append(field)
        if len(fields) > _MOST_FIELDS:
            return None
    spelling, wanted = _SPELLINGS.get(name[1], (_FIELDS, ()))
    places = {field[0].decode(): place for place, field in enumerate(fields)}
    named = tuple(places.get(each.rstrip("?"), -1) for each in wanted)
    if any(
        place < 0 and not each.endswith("?") for each, place in zip(wanted, named, strict=True)
    ) or (spelling == _ENTER and fields[named[1]][3] != _ARRAY):
        spelling, named = _FIELDS, ()
    letters = _letters(decoded) if spelling == _SWITCH else b""
    return Tracepoint(group, name[1], int(number[1]), spelling, named, letters, fields)


def _field(
    declared: str, offset: str, size: str, signed: str | None
) -> tuple[bytes, int, int, int, int] | None:
    """Return a field; None for those that all events have, and what has no place."""
    found = _DECLARED.fullmatch(declared.strip())
    at, length = int(offset), int(size)
    if found is None or at > _MOST_OFFSET or length > _MOST_OFFSET:
        return None
    kind, name, items = found.groups()
    # the number of a system call is in its name
    if name.startswith("common_") or name == "__syscall_nr":
        return None
    form, item = _form_of(kind.rstrip(), items, length, is_signed=signed == "1")
    return None if form is None else (name.encode(), at, length, form, item)


def _form_of(
    kind: str, items: str | None, length: int, *, is_signed: bool
) -> tuple[int | None, int]:
    """Return of which kind a field is, None if of none that is read, and the size of an item."""
    is_characters = re.search(r"\bchar\b", kind) is not None
    item = length
    form: int | None = _SIGNED if is_signed else _UNSIGNED
    if "__data_loc" in kind or "__rel_loc" in kind:
        form = _RELATIVE if "__rel_loc" in kind else _DYNAMIC
        # an offset and a size of 16 bits
        return (form if is_characters and length == _PLACE_BYTES else None), 1
    if items is not None and is_characters:
        return _TEXT, 1
    if items is not None:
        count = int(items) if _COUNT.fullmatch(items) else 0
        item = length // count if count and length % count == 0 else 8
        form = _ARRAY
    elif kind.endswith("*"):
        form = _POINTER
    return (form if item in _NUMBER_BYTES else None), item


def _letters(text: str) -> bytes:
    """Return the letters of the states of threads by their bits, as the format prints them."""
    letters: dict[int, bytes] = {}
    for value, letter in _FLAG.findall(text[text.find("print fmt") :]):
        number = int(value, 0)
        if number and not number & (number - 1) and number.bit_length() <= _MOST_LETTERS:
            letters[number.bit_length() - 1] = letter.encode()
    if not letters:
        return _STATES
    return b"".join(letters.get(bit, b"\0") for bit in range(max(letters) + 1))
