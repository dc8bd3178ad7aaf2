"""The process in which a statement of someone else runs; see `confined`.

It knows neither histories nor files. It asks for tables through a socket, with the writing end of a
pipe for each, and gets them as Arrow streams; the result is one on its standard output.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import socket
import struct
import sys
import sysconfig
from contextlib import suppress
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

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
_ADDRESSES = 2
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# By version of Landlock: how many kinds of access to files it knows, and to the network since 4.
_FILE_KINDS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_READ = 1 << 2 | 1 << 3  # files and directories
# Beside Python's modules, which may be imported late: what DuckDB and the interpreter look at.
_READABLE = (
    *("/proc/self", "/proc/meminfo", "/sys/fs/cgroup", "/sys/devices/system/cpu"),
    *("/usr/share/zoneinfo", "/dev/urandom"),
)
# By processor its number, and those of socket, socketpair, connect, accept, bind, listen, accept4,
# execve, execveat, ptrace, process_vm_readv, process_vm_writev, kill, pidfd_open,
# open_by_handle_at, io_uring_setup, unshare, setns, mount, bpf and perf_event_open.
_REFUSED = {
    "x86_64": (
        0xC000003E,
        *(41, 53, 42, 43, 49, 50, 288, 59, 322, 101, 310, 311, 62, 434),
        *(304, 425, 272, 308, 165, 321, 298),
    ),
    "aarch64": (
        0xC00000B7,
        *(198, 199, 203, 202, 200, 201, 242, 221, 281, 117, 270, 271, 129, 434),
        *(265, 425, 97, 268, 40, 280, 241),
    ),
}


def main() -> None:
    """Answer one statement."""
    control = socket.socket(fileno=int(sys.argv[1]))
    most_bytes, most_s = int(sys.argv[2]), int(sys.argv[3])
    # Its threads begin with what was forbidden before.
    _confine()
    connection = duckdb.connect(config=_CONFIG | {"memory_limit": f"{most_bytes // 10**6}MB"})
    _warm(connection)
    control.sendall(b"\n")
    request = control.makefile("rb").readline()
    if not request:
        return
    _limit(most_bytes, most_s)
    asked: dict[str, Any] = json.loads(request)
    try:
        _answer(connection, asked, control)
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


class _One:
    """A table of one row."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"x": [1]}).__arrow_c_stream__(requested_schema)


def _warm(connection: Any) -> None:
    """Let the library import what it does with the first statement, such as pandas."""
    connection.register("one", _One())
    connection.sql("select sum(x) from one").to_arrow_reader(1).read_all()
    connection.unregister("one")


class _Table:
    """A table of the other process, which is asked for whenever it is read."""

    def __init__(self, name: str, control: socket.socket, lock: Lock) -> None:
        self._name = name
        self._control = control
        self._lock = lock

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reading, writing = os.pipe()
        with self._lock:
            socket.send_fds(self._control, [json.dumps({"table": self._name}).encode()], [writing])
            # one answer for each request keeps messages apart
            self._control.recv(1)
        os.close(writing)
        reader = pa.ipc.open_stream(os.fdopen(reading, "rb"))
        return reader.__arrow_c_stream__(requested_schema)


def _answer(connection: Any, asked: dict[str, Any], control: socket.socket) -> None:
    """Write the result of a statement."""
    lock = Lock()
    for name in asked["tables"]:
        connection.register(name, _Table(name, control, lock))
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


def _limit(most_bytes: int, most_s: int) -> None:
    """Let the system end what takes more: the library counts only its buffers, and looks at an
    interrupt only between its operators."""  # noqa: D205,D209 - one sentence
    import resource  # noqa: PLC0415 - a module of POSIX, as the processes that run this are

    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no pathlib
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        # beside the library's buffers are texts, results and stacks of threads
        most = used + _ADDRESSES * most_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if most_s:
        cpu_s = most_s * (os.cpu_count() or 1)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        signal.alarm(most_s + 1)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _confine() -> None:
    """Give up files, but those of Python's libraries, networks and other processes, on Linux."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return
    _restrict_files(libc)
    _restrict_calls(libc)


def _restrict_files(libc: Any) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return
    files = (1 << _FILE_KINDS.get(version, 16)) - 1
    networks = 3 if version >= 4 else 0
    data = struct.pack("=QQ", files, networks)[: 16 if version >= 4 else 8]
    rules = libc.syscall(_CREATE_RULESET, data, len(data), 0)
    if rules < 0:
        return
    for path in {*sys.path, *sysconfig.get_paths().values(), *_READABLE}:
        with suppress(OSError):
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _READ if os.path.isdir(path) else 1 << 2, folder)  # noqa: PTH112 - no pathlib
            libc.syscall(_ADD_RULE, rules, 1, rule, 0)
            os.close(folder)
    libc.syscall(_RESTRICT_SELF, rules, 0)
    os.close(rules)


def _restrict_calls(libc: Any) -> None:
    if (known := _REFUSED.get(platform.machine())) is None:
        return
    architecture, *refused = known
    load, jump, end = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1  # EPERM
    program = [
        (load, 0, 0, 4),
        (jump, 1, 0, architecture),
        (end, 0, 0, refuse),
        (load, 0, 0, 0),
        # calls of the same number in the ABI of 32 bits
        (0x35, len(refused) + 1, 0, 0x40000000),
        *((jump, len(refused) - place, 0, call) for place, call in enumerate(refused)),
        (end, 0, 0, allow),
        (end, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0)


if __name__ == "__main__":
    main()
