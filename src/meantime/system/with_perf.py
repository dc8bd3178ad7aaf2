"""Records with perf: tracepoints of all CPUs, as the text of `perf script`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

from meantime.errors import MeantimeError
from meantime.system import children

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.system.kinds import Request

__all__ = ["record"]

# Fields that only some kinds of events have are ignored for the others, which is what is wanted.
_HARMLESS = b"Ignoring."
_LOST = re.compile(rb"lost (\d+) (?:chunks|samples|events)")
_FIELDS = "comm,pid,tid,cpu,time,event,trace"
_BUFFER = "8M"


def record(request: Request, output: IO[bytes], folder: Path) -> int:
    """Record tracepoints and write their text; return how many chunks of events were lost.

    Raises:
        MeantimeError: If perf fails, or nothing was recorded.
    """
    with (
        tempfile.TemporaryFile(dir=folder) as data,
        tempfile.TemporaryFile() as problems,
    ):
        # the data goes through a file without a name, of which a kill leaves nothing
        words = ["perf", "record", "-a", "-m", _BUFFER, "-k", "CLOCK_MONOTONIC", "-o", "-"]
        words += [word for event in request.kind.events for word in ("-e", event)]
        if request.duration_ns:
            # counted from when the events are on
            seconds, rest = divmod(request.duration_ns, 10**9)
            words += ["--", "sleep", f"{seconds}.{rest:09}"]
        child = children.start(words, stdout=data, stderr=problems)
        try:
            children.wait(child)
        except KeyboardInterrupt:
            pass
        finally:
            children.stop(child)
        # it ends itself by the signal with which it was stopped
        if child.returncode not in (0, -signal.SIGINT) or not os.fstat(data.fileno()).st_size:
            raise MeantimeError(f"perf record failed: {_reported(problems)}")
        # the offset is shared with the program that reads it
        os.lseek(data.fileno(), 0, os.SEEK_SET)
        words = ["perf", "script", "-i", "-", "--ns", "-F", _FIELDS, "--show-lost-events"]
        child = children.start(words, stdin=data, stdout=subprocess.PIPE, stderr=problems)
        assert child.stdout is not None
        try:
            # perf does not notice that a disk is full
            with child.stdout as text:
                shutil.copyfileobj(text, output)
            status = child.wait()
        finally:
            children.stop(child)
        if status:
            raise MeantimeError(f"perf script failed: {_reported(problems)}")
        if not output.tell():
            raise MeantimeError(f"perf recorded no event: {_reported(problems)}".rstrip(": "))
        problems.seek(0)
        return sum(int(found[1]) for found in _LOST.finditer(problems.read()))


def _reported(problems: IO[bytes]) -> str:
    problems.seek(0)
    lines = [line for line in problems.read().splitlines() if not line.endswith(_HARMLESS)]
    return " ".join(b" ".join(dict.fromkeys(lines)).decode(errors="replace").split())[:500]
