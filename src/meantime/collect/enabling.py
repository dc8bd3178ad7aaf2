"""Starts and stops the recording of this process from outside: by `meantime attach`, or a signal.

The process listens on a socket, and the kernel sends it a signal when a request arrives. So it
needs no thread, and until then nothing of it runs.
"""

from __future__ import annotations

import os
import sys

from meantime.collect import messages, session
from meantime.collect.hooks import CHANGED_MODULES
from meantime.collect.imports import unfinished_import
from meantime.errors import MeantimeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Unpack

__all__ = ["answered", "enable"]

# of fcntl, which has no names for them before Python 3.13
_F_SETSIG, _F_SETOWN_EX, _F_OWNER_TID = 10, 15, 0

_socket: Any = None
_options: dict[str, Any] = {}
_number = 0  # the signal of the socket
_follows_forks = False
_answers = False  # whether the handler of requests is running


def enable(**options: Unpack[session.RecordingOptions]) -> None:
    """Let `meantime attach PID` start and stop a recording of this process.

    So does the signal SIGUSR2, unless the program handles it itself: it starts a recording into a
    new directory in the current one, and the next ends it. Until then, this costs nothing. A
    program that is started with the environment variable `MEANTIME=1` calls this itself. Processes
    that it forks are enabled, too.

    The keywords are those of `Options`. They apply where `meantime attach` says nothing else.

    Raises:
        MeantimeError: If recording is not possible here, or this is not the main thread.
    """
    global _follows_forks  # noqa: PLW0603 - it cannot be unregistered
    session.check_possible()
    session.Options(**options).check()
    _options.clear()
    _options.update(options)
    if _socket is not None:
        return
    try:
        _listen()
    except ValueError as error:
        raise MeantimeError("call meantime.enable() in the main thread") from error
    except OSError as error:
        raise MeantimeError(f"meantime.enable(): {error.strerror}") from error
    if not _follows_forks:
        _follows_forks = True
        os.register_at_fork(after_in_child=_listen_in_child)


def _listen() -> None:
    global _socket  # noqa: PLW0603 - a process listens once
    # imported here, and the compiled modules only: the program may never need the others
    import _signal as signal  # type: ignore[import-not-found] # noqa: PLC0415 - see above; mypy knows `signal` only
    import _socket as sockets  # noqa: PLC0415 - see above
    import fcntl  # noqa: PLC0415 - see above

    kind = sockets.SOCK_DGRAM | sockets.SOCK_NONBLOCK | sockets.SOCK_CLOEXEC
    listening = sockets.socket(sockets.AF_UNIX, kind)
    try:
        _watch(listening, signal, sockets, fcntl)
    except BaseException:
        listening.close()
        raise
    _socket = listening


def _watch(listening: Any, signal: Any, sockets: Any, fcntl: Any) -> None:
    """Bind the socket, and let its requests send a signal to the main thread."""
    global _number  # noqa: PLW0603 - as above
    listening.setsockopt(sockets.SOL_SOCKET, sockets.SO_PASSCRED, 1)
    listening.bind(messages.address(os.getpid()))
    _number = _number or _free_signal(signal)
    signal.signal(_number, _answer_all)
    if signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, _toggle)
    # the main thread, in which Python runs handlers: it may be waiting, which the signal interrupts
    owner = b"".join(part.to_bytes(4, sys.byteorder) for part in (_F_OWNER_TID, os.getpid()))
    fcntl.fcntl(listening.fileno(), _F_SETOWN_EX, owner)
    fcntl.fcntl(listening.fileno(), _F_SETSIG, _number)
    flags = fcntl.fcntl(listening.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(listening.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)


def _free_signal(signal: Any) -> int:
    # from the end: those that programs use are counted from the beginning
    for number in range(signal.SIGRTMAX, signal.SIGRTMIN, -1):
        if signal.getsignal(number) == signal.SIG_DFL:
            return int(number)
    raise MeantimeError("meantime.enable(): the program uses all real-time signals")


def _listen_in_child() -> None:
    global _socket
    inherited, _socket = _socket, None
    try:
        inherited.close()
        _listen()
    except Exception:  # noqa: BLE001 - a child that cannot be attached to must run all the same
        return


def _answer_all(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's
    global _answers  # noqa: PLW0603 - of the handler, which another signal interrupts
    if _answers:
        # the interrupted one answers this request, too, once what it began has come to an end
        return
    _answers = True
    try:
        _answer_each()
    finally:
        _answers = False


def _answer_each() -> None:
    while _socket is not None:  # a forked process that could not listen has the handler, too
        try:
            data, ancillary, _, sender = _socket.recvmsg(messages.MAX_BYTES, messages.ROOM)
        except OSError:
            # no more, or the program has closed the descriptor
            return
        if not sender:
            continue
        was_recorded = session.recording_path()
        try:
            _socket.sendto(messages.encoded(_answer(data, ancillary)), sender)
        except OSError:
            # who asked has gone, and would never stop what was started
            if was_recorded is None:
                session.stop()


def answered(data: bytes) -> bytes:
    """Answer a request of `meantime attach` in a process that was not enabled."""
    return messages.encoded(_outcome(data))


def _answer(data: bytes, ancillary: list[tuple[int, int, bytes]]) -> dict[str, str]:
    try:
        uid = messages.sender_of(ancillary)[1]
        if uid not in (0, os.geteuid()):
            return {"error": f"it belongs to user {os.geteuid()}: only that user and root may"}
    except ValueError as error:
        return {"error": str(error)}
    return _outcome(data)


def _outcome(data: bytes) -> dict[str, str]:
    try:
        return _done(messages.decoded(data))
    except MeantimeError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - nothing may be raised into the program
        return {"error": f"{type(error).__name__}: {error}"}


def _done(request: dict[str, str]) -> dict[str, str]:
    if session.is_changing():
        return {"again": "beginning or ending a recording"}
    recorded = session.recording_path()
    if request["do"] == "stop":
        if recorded is None:
            return {"error": "it is not being recorded"}
        return {"path": os.path.abspath(session.stop() or recorded)}  # noqa: PTH100 - no pathlib here
    if recorded is not None:
        return {"error": f"it is being recorded already, into {recorded}"}
    if (name := unfinished_import(CHANGED_MODULES)) is not None:
        return {"again": f"importing {name}"}
    options = session.Options.parsed({**session.Options(**_options).texts(), **request})
    session.begin(request["path"], options, fresh=True)
    return {"path": request["path"]}


def _toggle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's
    try:
        if session.is_changing():
            _print("a recording is being begun or ended: send the signal again")
            return
        path = session.stop()
        if path is not None:
            _print(f"recorded into {path}")
            return
        if (name := unfinished_import(CHANGED_MODULES)) is not None:
            _print(f"{name} is being imported: send the signal again")
            return
        path = _free_name()
        session.begin(path, session.Options(**_options), fresh=True)
        _print(f"recording into {path}")
    except Exception as error:  # noqa: BLE001 - nothing may be raised into the program
        _print(str(error))


def _print(text: str) -> None:
    """Write a line to standard error, from a signal handler: without raising anything."""
    line = f"meantime: {text}\n"
    try:
        sys.stderr.write(line)
    except RuntimeError:
        # the signal interrupted a write of the program, and its buffer takes no second one
        try:
            os.write(sys.stderr.fileno(), line.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError, AttributeError):
            return
    except (OSError, ValueError, AttributeError):
        # it is closed
        return


def _free_name() -> str:
    stem = os.path.splitext(os.path.basename(sys.argv[0] or "python"))[0]  # noqa: PTH119,PTH122 - as above
    name, number = f"{stem}-{os.getpid()}.mtr", 2
    while os.path.exists(name):  # noqa: PTH110 - as above
        name, number = f"{stem}-{os.getpid()}-{number}.mtr", number + 1
    return os.path.abspath(name)  # noqa: PTH100 - as above
