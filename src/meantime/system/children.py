"""Programs that record for us, and end when we do."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["start", "stop", "wait"]

_PR_SET_PDEATHSIG = 1
_LOOKS_EVERY_S = 0.05
_ENDS_WITHIN_S = 30.0


def start(
    words: Sequence[str],
    *,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    environment: Mapping[str, str] | None = None,
    passed: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, which the kernel ends when we are killed.

    Ctrl-C therefore reaches only us, and `stop` ends the program.

    Raises:
        OSError: If it cannot be started.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return subprocess.Popen(  # noqa: S603 - a program of the system, found by checks
        words,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=stdout,
        stderr=stderr,
        env=None if environment is None else {**os.environ, **environment},
        pass_fds=passed,
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - it makes two system calls and no object
    )


def wait(child: subprocess.Popen[bytes]) -> None:
    """Wait until a program ends, so that Ctrl-C ends the waiting."""
    while child.poll() is None:
        time.sleep(_LOOKS_EVERY_S)


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a program as Ctrl-C would, so that it writes what it has, and wait for its end."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
    child.wait()
