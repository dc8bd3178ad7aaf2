"""Damage to what a file says, behind which it is written again: its lengths and tables are right.

Bytes that are changed at random are mostly refused by the first check of a length. These are not,
so what they say wrong reaches the code that believes it.
"""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zlib
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mutate import Words, mutated

if TYPE_CHECKING:
    from random import Random

__all__ = [
    "arrow",
    "change_member",
    "flight_recording",
    "json_text",
    "otlp",
    "protobuf",
    "simpleperf",
    "sqlite",
]

_DEEPEST = 16
_MOST_NODES = 4000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_UNSIGNED = (0, 1, 2, 127, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_SIGNED = (-(2**63), -1, 0, 1, 2**31, 2**32, 2**62, 2**63 - 1)
_FEW = Words((b"\0", b"\xff", b"/", b"x" * 300))


def json_text(data: bytes, random: Random) -> bytes:
    """Change something in a document, or in one of the documents on lines of their own."""
    try:
        value = json.loads(data)
    except ValueError:
        lines = data.splitlines()
        number = random.randrange(len(lines))
        value = json.loads(lines[number])
        change_member(value, random)
        lines[number] = json.dumps(value).encode()
        return b"\n".join(lines) + b"\n"
    for _ in range(random.choice((1, 1, 2, 4))):
        change_member(value, random)
    return json.dumps(value).encode()


def change_member(value: Any, random: Random) -> None:
    """Replace, remove or repeat something somewhere in a JSON value."""
    while isinstance(value, dict | list) and value:
        key: Any = (
            random.choice(sorted(value))
            if isinstance(value, dict)
            else random.randrange(len(value))
        )
        inner = value[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.85:
            value = inner
            continue
        kind = random.randrange(8)
        if kind == 0:
            del value[key]
        elif kind == 1 and isinstance(value, list):
            value.insert(key, inner)
        elif kind == 2 and isinstance(inner, int):
            value[key] = inner + random.choice((-1, 1, 64, 1000))
        else:
            value[key] = random.choice(
                (
                    *(None, True, "", "x", [], {}, [[]], 0.5, float("nan"), "\ud800", [1, 2]),
                    *(-1, 0, 1, 2**31 - 1, 2**31, 2**32, -(2**63), 2**63 - 1, 2**63, 2**64),
                    *(-(2**31), 10**9, 10**400, 1e300),
                )
            )
        return


class _Field:
    """A field of a message: its number, and a number, bytes, or the fields of a message in it."""

    __slots__ = ("content", "number", "wire")

    def __init__(self, number: int, wire: int, content: int | bytes | list[_Field]) -> None:
        self.number, self.wire, self.content = number, wire, content


def protobuf(data: bytes, random: Random) -> bytes:
    """Change a message as a tree: fields, their numbers, order and contents.

    Raises:
        ValueError: If it is no message.
    """
    fields = _fields(data, 0)
    if not fields:
        raise ValueError("no message")
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        _change_field(fields, random)
    return _encoded(fields)


def simpleperf(data: bytes, random: Random) -> bytes:
    """Change one of the records, each of which has its length before it."""
    return data[:12] + _delimited(data[12:-4], random, "<I") + data[-4:]


def otlp(data: bytes, random: Random) -> bytes:
    """Change a document, lines, a message, or one of several that have their length before them."""
    if data[:1] in b"{[":
        return json_text(data, random)
    if data[:1] == b"\0":
        return _delimited(data, random, ">I")
    return protobuf(data, random)


def _delimited(data: bytes, random: Random, layout: str) -> bytes:
    parts, at = [], 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(layout, data, at)
        parts.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    number = random.randrange(len(parts))
    kind = random.randrange(8)
    if kind == 0:
        del parts[number]
    elif kind == 1:
        parts.insert(random.randrange(len(parts) + 1), parts[number])
    else:
        parts[number] = protobuf(parts[number], random)
    return b"".join(struct.pack(layout, len(part)) + part for part in parts)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _get_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("no number")


def _fields(data: bytes, depth: int) -> list[_Field]:
    """Return the fields of a message, or none if it is not one."""
    found, at = [], 0
    try:
        while at < len(data):
            tag, at = _get_varint(data, at)
            number, wire = tag >> 3, tag & 7
            content: int | bytes | list[_Field]
            if wire == _VARINT:
                content, at = _get_varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                content = data[at : at + _FIXED[wire]]
                at += _FIXED[wire]
            elif wire == _BYTES:
                size, at = _get_varint(data, at)
                content = data[at : at + size]
                at += size
                if inner := _fields(content, depth + 1) if depth < _DEEPEST else []:
                    content = inner
            else:
                return []
            if not number or at > len(data):
                return []
            found.append(_Field(number, wire, content))
    except (IndexError, ValueError):
        return []
    return found


def _encoded(fields: list[_Field]) -> bytes:
    parts = []
    for field in fields:
        content = field.content
        parts.append(_varint(field.number << 3 | field.wire))
        if isinstance(content, int):
            parts.append(_varint(content))
            continue
        data = _encoded(content) if isinstance(content, list) else content
        if field.wire == _BYTES:
            parts.append(_varint(len(data)))
        parts.append(data)
    return b"".join(parts)


def _change_field(fields: list[_Field], random: Random) -> None:
    """Change one field of a message, or of a message in it."""
    every: list[tuple[list[_Field], int]] = []
    waiting = [fields]
    while waiting and len(every) < _MOST_NODES:
        these = waiting.pop()
        every += [(these, index) for index in range(len(these))]
        waiting += [field.content for field in these if isinstance(field.content, list)]
    if not every:
        return
    within, index = random.choice(every)
    other, other_index = random.choice(every)
    field = within[index]
    kind = random.randrange(10)
    if kind == 0:
        del within[index]
    elif kind == 1:
        within[index:index] = [field] * random.choice((1, 1, 2, 50))
    elif kind == 2:
        within[index], other[other_index] = other[other_index], within[index]
    elif kind == 3:
        within.insert(index, _copied(other[other_index]))
    elif kind == 4:
        within[index] = _Field(
            random.choice((1, 2, 3, 5, 15, 16, 59, 2**29 - 1, field.number + 1)),
            field.wire,
            field.content,
        )
    elif kind == 5 and field.wire == _BYTES:
        for _ in range(random.choice((1, 2, 60))):
            field = _Field(within[index].number, _BYTES, [field])
        within[index] = field
    else:
        within[index] = _changed_content(field, random)


def _copied(field: _Field) -> _Field:
    content = field.content
    if isinstance(content, list):
        content = [_copied(inner) for inner in content]
    return _Field(field.number, field.wire, content)


def _changed_content(field: _Field, random: Random) -> _Field:
    content = field.content
    if isinstance(content, int):
        near = (content + random.choice((-1, 1, 64)), content * 2, random.getrandbits(64))
        content = random.choice((*_UNSIGNED, *near)) % 2**64
    elif field.wire in _FIXED:
        content = random.choice(_SIGNED).to_bytes(9, "little", signed=True)[: _FIXED[field.wire]]
    else:
        data = _encoded(content) if isinstance(content, list) else content
        try:  # packets that are compressed
            content = zlib.compress(protobuf(zlib.decompress(data), random))
        except (zlib.error, ValueError):
            content = mutated(data, random, _FEW)
    return _Field(field.number, field.wire, content)


def sqlite(data: bytes, random: Random) -> bytes:
    """Change cells, rows, columns and tables of a database, or how it is divided into pages."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = [name for (name,) in names]
        for _ in range(random.choice((1, 1, 2, 5))):
            table = random.choice(tables)
            # not each table allows each change, and one before may have dropped it
            with suppress(sqlite3.Error, IndexError):
                columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
                _change_table(database, table, random.choice(columns), random)
                database.commit()
        return bytes(database.serialize())


def _change_table(database: sqlite3.Connection, table: str, column: str, random: Random) -> None:
    kind = random.randrange(12)
    ids = f'SELECT rowid FROM "{table}" ORDER BY rowid LIMIT 1 OFFSET ?'  # noqa: S608 - its names
    some = f"rowid IN ({ids})"
    offset = random.randrange(6)
    if kind == 0:
        database.execute(f'DELETE FROM "{table}" WHERE {some}', (offset,))  # noqa: S608 - its names
    elif kind == 1:
        database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
    elif kind == 2:
        database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif kind == 3:
        database.execute(f'DROP TABLE "{table}"')
    elif kind == 4:
        database.execute(f'ALTER TABLE "{table}" RENAME TO other')
    elif kind == 5:
        database.execute(f"PRAGMA page_size = {random.choice((512, 1024, 65536))}")
        database.execute("VACUUM")
    elif kind == 6:
        database.execute("PRAGMA writable_schema = 1")
        page = random.choice((0, 1, 2, 3, 2**31 - 1, -1))
        database.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (page, table))
    elif kind == 7:
        rows = f'SELECT * FROM "{table}" WHERE {some}'  # noqa: S608 - its own names
        database.execute(f'INSERT INTO "{table}" {rows}', (offset,))
    elif kind == 8:
        row = random.choice(_SIGNED)
        database.execute(f'UPDATE "{table}" SET rowid = ? WHERE {some}', (row, offset))  # noqa: S608 - its names
    else:
        value = random.choice(
            (
                *_SIGNED,
                None,
                0.5,
                -1e300,
                1e18,
                float("inf"),
                "",
                "x",
                "9" * 30,
                b"\0\xff",
                "é" * 400,
            )
        )
        where = some if random.random() < 0.7 else "? >= 0"
        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value, offset))  # noqa: S608 - its names


_JFR_HEADER = struct.Struct(">4sHHqqqqqqqI")


def flight_recording(data: bytes, random: Random) -> bytes:
    """Change the events of a chunk, among them its types and constants; all sizes are right."""
    begins = [at for at in range(len(data) - 3) if data[at : at + 4] == b"FLR\0"]
    number = random.randrange(len(begins))
    begin, end = begins[number], [*begins[1:], len(data)][number]
    header = [*_JFR_HEADER.unpack_from(data, begin)]
    events, at = [], begin + _JFR_HEADER.size
    while at < end:
        size, behind = _get_varint(data, at)
        events.append(data[behind : at + size])
        at += size
    for _ in range(random.choice((1, 1, 2, 4))):
        chosen, kind = random.randrange(len(events)), random.randrange(8)
        if kind == 0 and len(events) > 1:
            del events[chosen]
        elif kind == 1:
            events.insert(random.randrange(len(events) + 1), events[chosen])
        else:
            events[chosen] = mutated(events[chosen], random, _FEW)
    # a size of three bytes, whatever it is: those of the size count, too
    content = b"".join(
        bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + event
        for event in events
        if (size := len(event) + 3) < 1 << 21
    )
    if header[3]:
        header[3] = _JFR_HEADER.size + len(content)
    if random.random() < 0.1:
        header[random.choice((6, 7, 8, 9))] = random.choice(_SIGNED)
    return data[:begin] + _JFR_HEADER.pack(*header) + content + data[end:]


def arrow(data: bytes, random: Random) -> bytes:
    """Change columns of a table and their types, and write it in one of many ways."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    file = io.BytesIO(data)
    is_parquet = data[:4] == b"PAR1"
    table = parquet.read_table(file) if is_parquet else pa.ipc.open_file(file).read_all()
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(table.num_columns)
        name, kind = table.column_names[at], random.randrange(8)
        if kind == 0 and table.num_columns > 1:
            table = table.remove_column(at)
        elif kind == 1:
            table = pa.concat_tables([table, table.slice(1)])
        elif kind == 2:
            table = table.slice(random.randrange(3), random.randrange(4))
        elif kind == 3:
            table = table.append_column(name, table.column(at))
        else:
            column = _odd_column(pa, table.num_rows, random)
            table = table.set_column(at, name, column)
    written = io.BytesIO()
    if is_parquet:
        parquet.write_table(
            table,
            written,
            compression=random.choice(("none", "snappy", "zstd")),
            use_dictionary=random.random() < 0.5,
            data_page_version=random.choice(("1.0", "2.0")),
            row_group_size=random.choice((1, 2, 1000)),
            store_schema=random.random() < 0.5,
        )
    else:
        with pa.ipc.new_file(written, table.schema) as writer:
            writer.write_table(table, random.choice((None, 1, 2)))
    return written.getvalue()


def _odd_column(pa: Any, rows: int, random: Random) -> Any:
    values, kind = random.choice(
        (
            (_SIGNED, pa.int64()),
            (_UNSIGNED, pa.uint64()),
            ((0.5, float("nan"), float("inf"), 1e300, -1e18), pa.float64()),
            ((0, 1), pa.int8()),
            ((0.5, float("nan")), pa.float16()),
            ((True, False), pa.bool_()),
            ((None,), pa.null()),
            (("", "x", "a/b", "\0", "é" * 300), pa.large_string()),
            ((b"", b"\xff\0", b"x"), pa.binary()),
            (("a", "b"), pa.dictionary(pa.int8(), pa.string())),
            (_SIGNED, pa.timestamp(random.choice(("s", "ms", "us", "ns")))),
            (_SIGNED[1:4], pa.timestamp("ns", "UTC")),
            (_SIGNED, pa.duration(random.choice(("s", "ns")))),
            ((0, 1, 2**31 - 1), pa.date32()),
            (([], [1], None), pa.list_(pa.int64())),
            (({"a": 1}, None), pa.struct([("a", pa.int64())])),
        )
    )
    chosen = [random.choice(values) if random.random() < 0.9 else None for _ in range(rows)]
    return pa.array(chosen, kind)
