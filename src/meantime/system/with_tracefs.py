"""Records with tracefs alone: an instance of its own, whose text is read while it grows."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from meantime.errors import MeantimeError
from meantime.system.checks import tracefs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meantime.system.kinds import Request

__all__ = ["record", "remove_stale"]

_NAME = re.compile(r"meantime-(\d+)-(\d+)")
_PROC = Path("/proc")
_BUFFER_KB = "8192"
_CHUNK = 1 << 20
_LOOKS_EVERY_S = 0.1
_OVERRUN = re.compile(r"^(?:overrun|dropped events): (\d+)", re.MULTILINE)
# What removes the instance when our end of its pipe closes, however we end.
_GUARD = """
read -r _
[ -d "$1" ] || exit
echo 0 > "$1/tracing_on"
# it is busy until the last descriptor of the killed process is closed
for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$1" && exit; sleep 1; done
"""


def record(request: Request, output: IO[bytes]) -> int:
    """Record tracepoints and write their text; return how many events were lost.

    With a process, only events of its threads and of those that they start.

    Raises:
        MeantimeError: If tracefs refuses.
    """
    root = tracefs()
    assert root is not None  # as checked
    remove_stale(root)
    instance = root / "instances" / f"meantime-{os.getpid()}-{_started(os.getpid())}"
    try:
        # guarded before it exists, as this process may be killed at any moment
        with _guarded(instance):
            instance.mkdir()
            _enable(instance, request.kind.events, request.pid)
            with suppress(KeyboardInterrupt):
                _copy(instance, output, request.duration_ns)
            _write(instance / "tracing_on", "0")
            _copy(instance, output, -1)
            return _lost(instance)
    except OSError as error:
        raise MeantimeError(f"{error.filename or instance}: {error.strerror}") from error


def remove_stale(root: Path) -> list[Path]:
    """Remove the instances of recordings whose process is gone, and return them."""
    removed = []
    for path in sorted((root / "instances").iterdir()):
        found = _NAME.fullmatch(path.name)
        if found is None or _started(int(found[1])) == int(found[2]):
            continue
        with suppress(OSError):
            _remove(path)
            removed.append(path)
    return removed


@contextmanager
def _guarded(instance: Path) -> Iterator[None]:
    """Remove an instance at the end, or when this process is killed."""
    guard = subprocess.Popen(  # noqa: S603 - a constant program, and a path of the kernel
        ["/bin/sh", "-c", _GUARD, "sh", str(instance)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        start_new_session=True,
    )
    assert guard.stdin is not None
    try:
        yield
    finally:
        guard.stdin.close()
        guard.wait()
        if instance.exists():
            # it was killed
            _remove(instance)


def _enable(instance: Path, events: Sequence[str], pid: int | None) -> None:
    _write(instance / "buffer_size_kb", _BUFFER_KB)
    with suppress(OSError):
        # the clock of other programs, on kernels that have it
        _write(instance / "trace_clock", "mono")
    if pid is not None:
        _write(instance / "options" / "event-fork", "1")
        _follow(instance / "set_event_pid", _PROC / str(pid) / "task")
    for event in events:
        _write(instance / "events" / event.replace(":", "/") / "enable", "1")


def _follow(chosen: Path, tasks: Path) -> None:
    """Choose the threads of a process, also those that begin meanwhile; they choose their own."""
    threads: set[str] = set()
    while new := {path.name for path in tasks.iterdir()} - threads:
        with chosen.open("w" if not threads else "a") as file:
            file.write(" ".join(new))
        threads |= new


def _copy(instance: Path, output: IO[bytes], duration_ns: int) -> None:
    """Copy what was recorded: for a time, until an interrupt (0), or what is there now (-1)."""
    until_s = time.monotonic() + duration_ns / 1e9 if duration_ns > 0 else None
    pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        if output.tell() == 0:
            clock = re.search(r"\[([\w-]+)\]", (instance / "trace_clock").read_text())
            output.write(b"# tracer: nop\n")
            output.write(f"# clock: {clock[1] if clock else 'local'}\n".encode())
        while until_s is None or time.monotonic() < until_s:
            try:
                text = os.read(pipe, _CHUNK)
            except BlockingIOError:
                text = b""
            if text:
                output.write(text)
            elif duration_ns < 0:
                return
            else:
                select.select([pipe], [], [], _LOOKS_EVERY_S)
    finally:
        os.close(pipe)


def _lost(instance: Path) -> int:
    return sum(
        int(number)
        for path in (instance / "per_cpu").glob("cpu*/stats")
        for number in _OVERRUN.findall(path.read_text())
    )


def _remove(instance: Path) -> None:
    _write(instance / "tracing_on", "0")
    instance.rmdir()


def _started(pid: int) -> int:
    """Return when a process was started, in ticks; 0 if there is none."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[19])


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
