"""The process in which a statement of someone else runs; see `confined`.

It has neither histories nor files. It asks for columns of tables, and for the rows within limits,
through a socket, with the writing end of a pipe for each, and gets them as Arrow streams; the
result is one on its standard output.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from meantime.confinement import confine, limit

if __name__ == "__main__":
    # Threads begin with what was forbidden before, and Arrow starts one when it is imported.
    confine()

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from meantime.query.sql.pushed import PushedTable, json_of, schema_of
from meantime.query.sql.schema import columns_of, macros, table_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meantime.query.sql.pushed import LimitsOf

__all__: list[str] = []

# No files, no network and no Python variables; a statement cannot change that.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "max_temp_directory_size": "0KB",
    "lock_configuration": "true",
}
_BATCH_ROWS = 1 << 16
# A message to the other process arrives as a whole.
_MOST_MESSAGE = 1 << 12
# Beside the library's buffers are texts, results and stacks of threads.
_ADDRESSES = 2


def main() -> None:
    """Answer one statement."""
    control = socket.socket(fileno=int(sys.argv[1]))
    most_bytes, most_s = int(sys.argv[2]), int(sys.argv[3])
    connection = duckdb.connect(config=_CONFIG | {"memory_limit": f"{most_bytes // 10**6}MB"})
    _warm(connection)
    asks = partial(_Reader, control, Lock())
    for name in table_names(handle=False):
        _register(connection, name, asks)
    connection.execute(";".join(macros().values()))
    control.sendall(b"\n")
    request = control.makefile("rb").readline()
    if not request:
        return
    limit(_ADDRESSES * most_bytes, most_s * (os.cpu_count() or 1))
    signal.alarm(most_s + 1)
    asked: dict[str, Any] = json.loads(request)
    try:
        if asked["handle"]:
            _register(connection, "handle", asks)
        _answer(connection, asked)
        answered: dict[str, Any] = {}
    except duckdb.Error as error:
        is_memory = isinstance(error, duckdb.OutOfMemoryException)
        answered = {"memory": True} if is_memory else {"error": f"SQL: {error}"}
    except (MemoryError, pa.ArrowMemoryError):
        answered = {"memory": True}
    except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:
        answered = {"error": str(error)}
    with suppress(OSError):
        control.sendall(json.dumps(answered).encode() + b"\n")
    # not through the exit of the interpreter, which frees what the process has
    os._exit(0)


def _warm(connection: Any) -> None:
    """Let the library import what it does with the first statement, such as pandas."""
    one = pa.table({"x": [1]})
    table = PushedTable(one.schema, lambda columns, _: one.select([*columns]).to_reader())
    connection.register("one", table)
    connection.sql("select sum(x) from one where x > 0").to_arrow_reader(1).read_all()
    connection.unregister("one")


class _Reader:
    """Asks the other process for a table whenever it is read."""

    def __init__(self, control: socket.socket, lock: Lock, name: str) -> None:
        self._control = control
        self._lock = lock
        self._name = name

    def __call__(self, columns: Sequence[str], limits: LimitsOf) -> Any:
        asked = {"table": self._name, "columns": [*columns], "limits": json_of(limits)}
        message = json.dumps(asked).encode()
        if len(message) > _MOST_MESSAGE:
            # lists of values are applied here in any case
            message = json.dumps(asked | {"limits": {}}).encode()
        reading, writing = os.pipe()
        with self._lock:
            socket.send_fds(self._control, [message], [writing])
            # one answer for each request keeps messages apart
            self._control.recv(1)
        os.close(writing)
        return pa.ipc.open_stream(os.fdopen(reading, "rb"))


def _register(connection: Any, name: str, asks: Callable[[str], _Reader]) -> None:
    connection.register(name, PushedTable(schema_of(columns_of(name)), asks(name)))


def _answer(connection: Any, asked: dict[str, Any]) -> None:
    """Write the result of a statement."""
    kinds = [each.type for each in connection.extract_statements(asked["statement"])]
    if kinds != [duckdb.StatementType.SELECT]:
        raise ValueError("write one select")
    reader = connection.sql(asked["statement"]).to_arrow_reader(_BATCH_ROWS)
    if asked["most_rows"] is not None:
        reader = _beginning(reader, asked["most_rows"], asked["most_cell"])
    with pa.ipc.new_stream(sys.stdout.buffer, reader.schema) as stream:
        for batch in reader:
            stream.write_batch(batch)
    sys.stdout.buffer.flush()


def _beginning(reader: Any, most_rows: int, most_cell: int) -> Any:
    """Return the first rows as texts, whose types are in the metadata of the columns."""
    columns: list[list[str | None]] = [[] for _ in reader.schema]
    left = most_rows
    for batch in reader:
        for column, found in zip(batch.columns, columns, strict=True):
            found += [_text(cell, most_cell) for cell in column.slice(0, left).to_pylist()]
        left -= min(left, batch.num_rows)
        if not left:
            break
    schema = pa.schema(
        pa.field(field.name, pa.string(), metadata={"type": str(field.type)})
        for field in reader.schema
    )
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.table(arrays, schema=schema).to_reader()


def _text(cell: Any, most: int) -> str | None:
    """Return a value as text, which is cut: JavaScript's numbers lose integers above 2^53."""
    if cell is None:
        return None
    text = str(cell)
    if isinstance(cell, bool):
        text = text.lower()
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most else f"{text[:most]}…"


if __name__ == "__main__":
    main()
