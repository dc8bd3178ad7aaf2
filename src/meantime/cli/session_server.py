"""The server of a session: histories that stay open, and a process for each command about them.

A command runs in a copy of this process, which has the histories in memory already. It can read
their files and nothing else, has a limited time, and answers all or nothing. What goes wrong in it
ends that copy alone.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import contextmanager, suppress
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING

from meantime import cli
from meantime.cli import inputs
from meantime.confinement import confine, limit
from meantime.errors import MeantimeError, MissingExtraError, OutputError
from meantime.model.units import format_bytes, format_ns
from meantime.session import EXIT, STDERR, STDOUT, SessionError, check_folder, frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["COMMANDS", "SessionServer"]

# The commands that answer, and write no file.
COMMANDS = (
    *("info", "explain", "findings", "stats", "why", "assert", "query", "sql", "dump"),
    *("diff", "flame"),
)
# Why others do not.
_OTHERS = {
    "hosts": "it reads its files in processes of their own",
    "top": "it shows a program that runs, not a file",
    **dict.fromkeys(("statemap", "heatmap", "view"), "it draws into a file"),
    **dict.fromkeys(("build", "convert", "join", "pack", "summary"), "it writes a file"),
}
_MOST_ANSWER, _MOST_REQUEST = 16_000_000, 1_000_000
_MOST_MEMORY = 4_000_000_000
_MOST_AT_ONCE = 4
_REQUEST_S, _SEND_S = 5, 10
_LOOK_MS, _LOOK_IDLE_MS = 20, 1_000
_WARM_S = 2.0
_OWNER_ONLY = 0o600
_NS_PER_S = 10**9


class SessionServer:
    """A socket in a private folder, until `close`.

    Args:
        path: The path of the socket.
        most_s: How long one command may take.

    Raises:
        OutputError: If a session is open there already, or its folder is not private.
    """

    def __init__(self, path: str, most_s: int) -> None:
        self._path = path
        self._most_s = most_s
        self._children: dict[int, socket.socket] = {}
        import fcntl  # noqa: PLC0415 - a module of POSIX, as the processes that run this are

        folder = os.path.dirname(path)  # noqa: PTH120 - as a text, which it is
        try:
            with suppress(FileExistsError):
                os.makedirs(folder, mode=0o700)  # noqa: PTH103 - as above
            check_folder(path)
            self._lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _OWNER_ONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{path}: a session is open already; end it, or set MEANTIME_SESSION to another"
                " name for this one and its commands"
            ) from None
        except SessionError as error:
            raise OutputError(str(error)) from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be made: {error.strerror}") from None
        # one that was killed leaves its socket; nobody has the lock, so it is not in use
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - as above
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._listener.bind(path)
        except OSError as error:
            raise OutputError(f"{path}: cannot be made: {error.strerror or error}") from None
        finally:
            os.umask(before)
        self._listener.listen(16)

    def run(self, *, parent: int | None = None) -> None:
        """Answer until a signal ends it, or its parent process has ended."""
        gc.collect()
        gc.freeze()  # so that copies do not touch, and copy, all pages
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while parent is None or os.getppid() == parent:
            is_full = len(self._children) >= _MOST_AT_ONCE
            if is_full:
                time.sleep(_LOOK_MS / 1000)
            elif poll.poll(_LOOK_MS if self._children else _LOOK_IDLE_MS):
                self._accept()
            self._reap()

    def close(self) -> None:
        """Remove the socket, and end the commands that run."""
        for child in self._children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for leftover in (self._path, f"{self._path}.lock"):
            with suppress(OSError):
                os.unlink(leftover)  # noqa: PTH108 - as above
        self.leave()

    def leave(self) -> None:
        """Let go of the socket in this process, since another one answers."""
        self._listener.close()
        os.close(self._lock)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if _user_of(connection) != os.getuid():
            connection.close()
            return
        sys.stdout.flush()
        child = os.fork()
        if child:
            self._children[child] = connection
            return
        status = 1
        try:
            # or who comes once the session was killed would wait for this command
            self.leave()
            self._answer(connection)
            status = 0
        finally:
            os._exit(status)

    def _answer(self, connection: socket.socket) -> None:
        """Run a command in this copy of the process, and send what it prints."""
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(self._most_s)
        connection.settimeout(_REQUEST_S)
        words = _request(connection)
        limit(_MOST_MEMORY, self._most_s)
        confine(list(inputs.opened))
        with _captured() as (out, err):
            status = _status(words)
        connection.settimeout(_SEND_S)
        connection.sendall(
            frame(STDOUT, out.getvalue())
            + frame(STDERR, err.getvalue())
            + frame(EXIT, b"%d" % status)
        )

    def _reap(self) -> None:
        for child, connection in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            del self._children[child]
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                line = f"meantime: {self._reason(-code)}\n"
                with suppress(OSError):
                    connection.settimeout(1)
                    connection.sendall(frame(STDERR, line.encode()) + frame(EXIT, b"1"))
            connection.close()

    def _reason(self, number: int) -> str:
        if number in {signal.SIGALRM, signal.SIGXCPU}:
            return (
                f"this takes more than {format_ns(self._most_s * _NS_PER_S)}: choose a range with"
                " --from and --to, or leave out --session"
            )
        name = signal.Signals(number).name
        return (
            f"the command was ended by {name}: it may need more than {format_bytes(_MOST_MEMORY)}"
        )


def warm(files: Sequence[str]) -> None:
    """Ask what is often asked, so that copies of this process find it computed and imported."""
    _open_databases()
    begin = time.monotonic()
    for file in files:
        for words in (
            ["info", file, "--json"],
            ["stats", file, "--json"],
            ["query", file, "tree", "--json"],
            ["sql", file, "select count(*) from intervals where quark = 0", "--json"],
            ["explain", file, "--json"],
            ["findings", file, "--json"],
        ):
            if time.monotonic() - begin > _WARM_S:
                return
            with _captured():
                _status(words)


def _open_databases() -> None:
    """Open a database of each history, if what SQL needs is installed."""
    from meantime.query.sql import Database  # noqa: PLC0415 - NumPy

    for path, each in inputs.opened.items():
        with suppress(MissingExtraError):
            # a copy of the process would not have the threads
            found = Database(each.history, threads=1)
            inputs.opened[path] = each._replace(database=found)


def _status(words: list[str]) -> int:
    if not words or words[0] not in COMMANDS:
        named = words[0] if words else "nothing"
        reason = f": {_OTHERS[named]}; leave out --session. It" if named in _OTHERS else ": it"
        sys.stderr.write(
            f"meantime: a session does not answer {named}{reason} answers {', '.join(COMMANDS)}\n"
        )
        return 2
    return cli.status_of(words)


class _Bounded(BytesIO):
    """Bytes in memory that are not more than an answer may have."""

    def write(self, content: bytes) -> int:  # type: ignore[override]  # of a buffer, bytes are enough
        if self.tell() + len(content) > _MOST_ANSWER:
            raise MeantimeError(
                f"the answer has more than {format_bytes(_MOST_ANSWER)}: use --limit, or --from and"
                " --to, or leave out --session"
            )
        return super().write(content)


@contextmanager
def _captured() -> Iterator[tuple[BytesIO, BytesIO]]:
    """Keep what is printed in memory."""
    before = sys.stdout, sys.stderr
    buffers = _Bounded(), BytesIO()
    out, err = (TextIOWrapper(each, encoding="utf-8", write_through=True) for each in buffers)
    sys.stdout, sys.stderr = out, err
    try:
        yield buffers
    finally:
        sys.stdout, sys.stderr = before
        out.detach()
        err.detach()


def _user_of(connection: socket.socket) -> int:
    """Return the user at the other end; where the system does not say, the folder decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", found)[1])


def _request(connection: socket.socket) -> list[str]:
    """Return the words of a command, in the folder in which it was called."""
    content = b""
    while block := connection.recv(1 << 16):
        content += block
        if len(content) > _MOST_REQUEST:
            return []
    folder, *words = (os.fsdecode(each) for each in content.split(b"\0"))
    with suppress(OSError):
        os.chdir(folder)
    return words
