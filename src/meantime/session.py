"""The shell side of a session: a command is sent to `meantime serve`, and its answer printed.

Importing it takes less than a millisecond, so it uses what Python has loaded when it starts.
"""

# The module `socket` takes 8 ms to import.
import _socket
import os
import sys

__all__ = [
    "EXIT",
    "FLAG",
    "STDERR",
    "STDOUT",
    "SessionError",
    "answer",
    "ask",
    "frame",
    "socket_path",
]

FLAG = "--session"
_NAME = "MEANTIME_SESSION"
STDOUT, STDERR, EXIT = b"1", b"2", b"0"
# A frame is its kind, the length of what follows in eight bytes, and that.
_HEAD = 9
_BLOCK = 1 << 16
_OTHERS = 0o077
_START = "start one with: meantime serve FILE"


class SessionError(Exception):
    """A session that cannot be asked."""


def socket_path() -> str:
    """Return the path of the socket of the session that `MEANTIME_SESSION` names.

    Raises:
        SessionError: If the name is not one, or this system has no such sockets.
    """
    name = os.environ.get(_NAME) or "default"
    if "/" in name or name.startswith("."):
        raise SessionError(f"{_NAME} is {name!r}; a name of a session has no / and no . first")
    if not hasattr(os, "getuid") or not hasattr(_socket, "AF_UNIX"):
        raise SessionError("sessions need Unix sockets, which this system does not have")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = f"{runtime}/meantime" if runtime else f"/tmp/meantime-{os.getuid()}"  # noqa: S108 - checked by `check_folder`
    return f"{folder}/{name}.sock"


def check_folder(path: str) -> None:
    """Check that nobody else can put a socket where this one is.

    Raises:
        SessionError: If others can, or there is none.
    """
    folder = os.path.dirname(path)  # noqa: PTH120 - pathlib is slow to import
    try:
        state = os.lstat(folder)
    except OSError:
        raise SessionError(f"no session is open; {_START}") from None
    if (
        state.st_uid != os.getuid()
        or state.st_mode & _OTHERS
        or state.st_mode & 0o170000 != 0o040000
    ):
        raise SessionError(f"{folder}: is not a folder that you alone can use; remove it")


def frame(kind: bytes, content: bytes) -> bytes:
    """Return one part of an answer."""
    return kind + len(content).to_bytes(8, "big") + content


def ask(path: str, words: list[str]) -> tuple[int, bytes, bytes]:
    """Return the exit status of a command in a session, and what it prints on both outputs.

    Args:
        path: The socket.
        words: The words of the command, without the program.

    Raises:
        SessionError: If there is no session, or it ends before it has answered.
    """
    check_folder(path)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(path)
        request = b"\0".join(os.fsencode(each) for each in (os.getcwd(), *words))  # noqa: PTH109 - pathlib is slow to import
        sent = 0
        while sent < len(request):
            sent += connection.send(request[sent : sent + _BLOCK])
        connection.shutdown(_socket.SHUT_WR)
        return _received(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        raise SessionError(f"no session is open; {_START}") from None
    except OSError as error:
        raise SessionError(
            f"the session ended before it answered ({error.strerror}); {_START}"
        ) from None
    finally:
        connection.close()


def _received(connection: _socket.socket) -> tuple[int, bytes, bytes]:
    parts = {STDOUT: b"", STDERR: b""}
    waiting = bytearray()
    while block := connection.recv(_BLOCK):
        waiting += block
        while len(waiting) >= _HEAD:
            kind = bytes(waiting[:1])
            end = _HEAD + int.from_bytes(waiting[1:_HEAD], "big")
            if len(waiting) < end:
                break
            content = bytes(waiting[_HEAD:end])
            del waiting[:end]
            if kind == EXIT:
                return int(content), parts[STDOUT], parts[STDERR]
            parts[kind] = parts.get(kind, b"") + content
    raise SessionError(f"the session ended before it answered; {_START}")


def answer(words: list[str]) -> int:
    """Print the answer of the session to a command, all of it or nothing, and return its status."""
    try:
        status, out, err = ask(socket_path(), [each for each in words if each != FLAG])
    except SessionError as error:
        status, out, err = 1, b"", f"meantime: {error}\n".encode()
    try:
        _write(1, out)
        _write(2, err)
    except BrokenPipeError:
        return 1
    return status


def _write(number: int, content: bytes) -> None:
    while content:
        content = content[os.write(number, content) :]


def main() -> None:
    """Answer the command line of the process."""
    sys.exit(answer(sys.argv[1:]))
