"""Statements of someone else, as of a page, in a process of their own.

DuckDB counts only its buffers against its limit of memory, and looks at an interrupt only between
its operators. What it does not keep, the system keeps: it bounds the memory and the time of the
process, which has no network, and no files but Python's own libraries where Linux can refuse them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from meantime.errors import MeantimeError, UsageError
from meantime.model.tabular import need
from meantime.model.units import format_bytes
from meantime.query.sql import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history import History
    from meantime.query.handles import Handle
    from meantime.query.sql.tables import HistoryTables

__all__ = ["MOST_BYTES", "Confined", "prepare"]

MOST_BYTES = 1_000_000_000
_MOST_MESSAGE = 1 << 16
_MOST_ANSWER = 250_000_000
_CHILD = "meantime.query.confined_child"
# The beginning of a message of an Arrow stream, which has another 16 bytes.
_CUT = b"\xff\xff\xff\xff\x10\x00\x00\x00"


class Confined:
    """A statement in a process of its own, which another thread can stop.

    Args:
        statement: The statement: one select.
        most_s: For how long it may run; None is any time.
        most_rows: How many rows are returned, as texts with the type of each column in its
            metadata; None returns all rows, with their types.
        most_cell: How many characters of a text are returned then.
    """

    def __init__(
        self,
        statement: str,
        *,
        most_s: float | None = None,
        most_rows: int | None = None,
        most_cell: int = 0,
    ) -> None:
        self._statement = statement
        self._most_s, self._most_rows = most_s, most_rows
        self._limits = {"most_rows": most_rows, "most_cell": most_cell}
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._is_stopped = self._is_late = False

    @contextmanager
    def answer(self, history: History, handle: Handle | None = None) -> Iterator[Answer]:
        """Yield what the statement returns over the tables of a history; see `sql.answer`.

        Raises:
            MissingExtraError: If DuckDB or pyarrow is not installed.
            UsageError: If the statement is rejected, takes too long or too much memory, or was
                stopped.
        """
        need("duckdb", "SQL", "sql")
        pyarrow = need("pyarrow", "SQL", "sql")
        with contextlib.ExitStack() as stack:
            if self._most_s is not None:
                timer = threading.Timer(self._most_s, self._expire)
                timer.daemon = True
                timer.start()
                stack.callback(timer.cancel)
            child = _taken()
            stack.callback(child.end)
            with self._lock:
                self._child = child
                is_stopped = self._is_stopped
            if is_stopped:
                raise self._reason(None)
            from meantime.query.sql.tables import HistoryTables  # noqa: PLC0415 - needs pyarrow

            tables = HistoryTables(history, handle)
            asked = {"statement": self._statement, "handle": handle is not None, **self._limits}
            child.begin(asked, tables)
            try:
                output = child.output if self._most_rows is None else self._beginning(child)
                reader = pyarrow.ipc.open_stream(output)
                yield Answer(_checked(reader, pyarrow))
            except (pyarrow.ArrowException, OSError, EOFError) as error:
                raise tables.failure or self._reason(child) from error
            if (reason := child.answered()) is not None:
                raise tables.failure or UsageError(reason)

    def _beginning(self, child: _Child) -> bytes:
        """Return a whole answer of few rows, which is small unless the process lies.

        Raises:
            UsageError: If it is not.
        """
        answer = child.output.read(_MOST_ANSWER + 1)
        if len(answer) > _MOST_ANSWER:
            raise UsageError(f"the answer has more than {format_bytes(_MOST_ANSWER)}")
        return answer

    def stop(self) -> None:
        """End it at once."""
        with self._lock:
            self._is_stopped = True
            child = self._child
        if child is not None:
            child.kill()

    def _expire(self) -> None:
        self._is_late = True
        self.stop()

    def _reason(self, child: _Child | None) -> UsageError:
        """Return why there is no result."""
        if self._is_late:
            return UsageError(f"the statement takes more than {self._most_s:.0f} s")
        if self._is_stopped or child is None:
            return UsageError("the statement was stopped")
        return UsageError(child.answered() or "SQL: the statement has no result")


class _Child:
    """A process that waits for a statement."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._service: threading.Thread | None = None
        self._writers: list[threading.Thread] = []
        self._answer: dict[str, Any] | None = None
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this program
                [
                    *(sys.executable, "-P", "-m", _CHILD, str(theirs.fileno())),
                    *(str(MOST_BYTES), str(_MOST_CPU_S)),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for the process that asks
                start_new_session=True,
                # each thread of these would take address space
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"},
            )
        assert self._process.stdout is not None
        self.output = self._process.stdout

    def begin(self, asked: dict[str, Any], tables: HistoryTables) -> None:
        """Run a statement."""
        with suppress(OSError):  # it has ended: then there is no output
            self._control.recv(1)  # it is ready
            self._control.sendall(json.dumps(asked).encode() + b"\n")
        self._service = threading.Thread(target=self._serve, args=[tables], daemon=True)
        self._service.start()

    def _serve(self, tables: HistoryTables) -> None:
        """Write the tables that it asks for."""
        from meantime.query.sql.pushed import limits_from  # noqa: PLC0415 - needs pyarrow

        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            while True:
                data, handles, _, _ = socket.recv_fds(self._control, _MOST_MESSAGE, 1)
                if not data:
                    return
                message = json.loads(data)
                if "table" not in message:
                    self._answer = message
                    return
                [writing] = handles
                try:
                    reader = tables.read(
                        message["table"], message["columns"], limits_from(message["limits"])
                    )
                except BaseException:
                    os.close(writing)
                    raise
                thread = threading.Thread(target=_write, args=[reader, writing], daemon=True)
                self._writers.append(thread)
                thread.start()
                self._control.sendall(b"\n")

    def answered(self) -> str | None:
        """Wait for the end, and return why there is no result, or not all of it."""
        if self._service is not None:
            self._service.join()
        status = self._process.wait()
        if self._answer == {}:
            return None
        if self._answer is not None and "error" in self._answer:
            return " ".join(str(self._answer["error"]).split())
        if status == -signal.SIGXCPU:
            return "the statement takes too much time of the processor"
        if status < 0 or self._answer is not None:
            return f"the statement needs more than {format_bytes(MOST_BYTES)} of memory"
        return "SQL: the process that was to answer the statement failed"

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def end(self) -> None:
        """End it, and free what it has."""
        with suppress(PermissionError):  # a process that is confined itself ends none
            self.kill()
        self.output.close()
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._process.wait()
        if self._service is not None:
            self._service.join()
        # with it goes the end of a pipe that the process may have sent, and nobody has taken
        self._control.close()
        # Nobody reads what they write. Python could not end while Arrow runs in a thread.
        for each in self._writers:
            each.join()


# Of all threads of a process: few seconds for each processor.
_MOST_CPU_S = 30
_lock = threading.Lock()
_prepared: list[_Child] = []


def prepare() -> None:
    """Start a process that waits for the next statement, unless there is one."""
    with _lock:
        if not _prepared:
            _prepared.append(_Child())


def _taken() -> _Child:
    with _lock:
        return _prepared.pop() if _prepared else _Child()


@atexit.register
def _end_prepared() -> None:
    with _lock:
        for child in _prepared:
            child.end()
        _prepared.clear()


def _write(reader: Any, writing: int) -> None:
    """Write a table into a pipe, until it has all of it or wants no more."""
    pyarrow = need("pyarrow", "SQL", "sql")
    # why a table cannot be read is reported by whoever asked
    unreadable = (OSError, pyarrow.ArrowException, MeantimeError)
    with suppress(*unreadable), os.fdopen(writing, "wb") as file:
        stream = pyarrow.ipc.new_stream(file, reader.schema)
        try:
            for batch in reader:
                stream.write_batch(batch)
        except BaseException:
            # The end of a stream would look like that of the table.
            file.write(_CUT)
            raise
        stream.close()


def _checked(reader: Any, pyarrow: Any) -> Any:
    """Return a reader whose batches are looked at: another process has written them."""

    def batches() -> Iterator[Any]:
        for batch in reader:
            batch.validate(full=True)
            yield batch

    return pyarrow.RecordBatchReader.from_batches(reader.schema, batches())
