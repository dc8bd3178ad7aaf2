"""`meantime.record_system`: what a Linux system does, into a file that meantime reads."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from os import fspath
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from meantime.errors import MeantimeError, OutputError, UsageError
from meantime.files import whole_file
from meantime.model.units import format_ns, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from meantime.system.kinds import Kind, Method, Request

__all__ = ["SystemRecording", "record_system"]

# What a system does is not for all its accounts.
_OWNER = 0o600


class SystemRecording(NamedTuple):
    """What was recorded.

    Attributes:
        path: The file.
        method: The program that recorded it: `bpftrace`, `perf` or `tracefs`.
        lost: How many events were lost, as far as the program counts them; perf counts chunks of
            several events.
        skipped: How many lines were left out because they were cut.
        shown_by: The commands that show it.
    """

    path: str
    method: Method
    lost: int
    skipped: int
    shown_by: tuple[str, ...]


def record_system(
    kind: Literal["cpu", "threads", "block", "postgres", "sched"],
    output: str | PathLike[str],
    *,
    pid: int | None = None,
    duration: str | int | None = None,
    notify: Callable[[str], None] | None = None,
) -> SystemRecording:
    """Record what this Linux system does, for a time or until a `KeyboardInterrupt`.

    `cpu`, `threads`, `block` and `postgres` are recorded by bpftrace as a statemap. Where it cannot
    be used, perf records the tracepoints as `perf script` text, otherwise an instance of tracefs as
    ftrace text; `postgres` needs bpftrace. `sched` is recorded by tracefs, otherwise by perf. The
    program that records ends when this process does, even if it is killed; then nothing is left but
    a file that is not complete and whose name begins with a dot.

    Args:
        kind: `cpu`: what each CPU does. `threads`: what each thread does or waits for. `block`: how
            many requests each block device works on. `postgres`: what the processes of a server
            wait for. `sched`: switches and wake-ups of all threads, for `meantime why`.
        output: The file, which appears under its name when it is complete. It is private; where
            sudo ran this, it is the user's.
        pid: For `threads`, the process whose threads and children are recorded; by default all. For
            `postgres`, the server's first process; by default the only server that runs.
        duration: How long to record: nanoseconds, or a text such as `10s`.
        notify: Called with a sentence when the recording begins.

    Raises:
        UsageError: If the kind is not known, or `pid` or the duration cannot be used.
        MeantimeError: If nothing here can record it, with what is missing and how to get it; if the
            program fails; or if nothing was recorded.
        OutputError: If the file cannot be written.
    """
    from meantime.system.checks import method_for  # noqa: PLC0415 - not on other systems
    from meantime.system.kinds import KINDS, Request  # noqa: PLC0415 - as above

    found = KINDS.get(kind)
    if found is None:
        raise UsageError(f"{kind!r} cannot be recorded; choose one of {', '.join(KINDS)}")
    duration_ns = parse_duration(duration) if isinstance(duration, str) else duration or 0
    if duration is not None and duration_ns <= 0:
        raise UsageError(f"{duration!r} is not a duration: write a positive one, such as 10s")
    if pid is not None:
        _check_pid(kind, found, pid)
    if not sys.platform.startswith("linux"):
        raise MeantimeError(f"recording a system is not possible on {sys.platform}: it needs Linux")
    method = method_for(kind, found)
    path = Path(fspath(output))
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the directory {path.parent} does not exist")
    if path.is_dir():
        raise OutputError(f"{path}: is a directory")
    if notify is not None:
        length = f"for {format_ns(duration_ns)}" if duration_ns else "until Ctrl-C"
        notify(f"recording {found.what} with {method} {length}")
    try:
        lost, skipped = _recorded(Request(found, pid, duration_ns), method, path)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    return SystemRecording(str(path), method, lost, skipped, _shown_by(found, path, method))


def _give_to_user(output: IO[bytes]) -> None:
    """Let the user own the file who runs this as root by sudo, and could not read it otherwise."""
    user, group = (os.environ.get(f"SUDO_{kind}", "") for kind in ("UID", "GID"))
    if os.geteuid() == 0 and user.isdecimal() and group.isdecimal():
        with suppress(OSError):  # as on file systems without owners
            os.fchown(output.fileno(), int(user), int(group))


def _recorded(request: Request, method: Method, path: Path) -> tuple[int, int]:
    """Record into a file; return how many events were lost, and lines skipped."""
    folder = path.resolve().parent
    with whole_file(path, _OWNER) as output:
        _give_to_user(output)
        if method == "bpftrace":
            from meantime.system import with_bpftrace  # noqa: PLC0415 - one of three

            return with_bpftrace.record(request, output, folder)
        if method == "perf":
            from meantime.system import with_perf  # noqa: PLC0415 - one of three

            return with_perf.record(request, output, folder), 0
        from meantime.system import with_tracefs  # noqa: PLC0415 - one of three

        return with_tracefs.record(request, output), 0


def _check_pid(name: str, kind: Kind, pid: int) -> None:
    if not kind.of_process:
        raise UsageError(f"{name} is recorded of the whole system: --pid does not apply")
    if not Path(f"/proc/{pid}").is_dir():
        raise UsageError(f"there is no process {pid}")


def _shown_by(kind: Kind, path: Path, method: Method) -> tuple[str, ...]:
    file = shlex.quote(str(path))
    if method == "bpftrace":
        picture = shlex.quote(str(path.with_suffix(".svg")))
        return (f"meantime statemap {file} -o {picture}", f"meantime view {file}")
    if "sched:sched_switch" not in kind.events:
        return (f"meantime view {file}",)
    return (f"meantime view {file}", f"meantime why {file} --thread NAME")
