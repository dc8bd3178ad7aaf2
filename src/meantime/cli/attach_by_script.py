"""Passes a request to a process that was not prepared, by `sys.remote_exec` of CPython 3.14.

The process executes a script at the next instruction of its main thread, as it executes the handler
of a signal: there, `meantime.collect.enabling` answers the request. Nothing stays behind in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from meantime.errors import MeantimeError
from meantime.inspection.memory import why_unreadable
from meantime.inspection.processes import python_version

__all__ = ["FIRST_VERSION", "answer_of"]

FIRST_VERSION = (3, 14)
_LOOKS_EVERY_S = 0.01
_PERMITTED, _REFUSED, _DISABLED = 0, 3, 4
# Executed by the process, in a dictionary of its own. What it prints would be the program's output.
_SCRIPT = """
import os, sys
def answer(request, home, tag, folder):
    try:
        os.mkdir(folder + "/claim")
    except OSError:
        # nobody waits for an answer any more
        return
    try:
        is_ours = sys.implementation.cache_tag == tag
        if is_ours:
            # only while meantime is imported: the program's own imports must not find our packages
            sys.path.insert(0, home)
        try:
            from meantime.collect.enabling import answered
        finally:
            if is_ours:
                sys.path.remove(home)
        text = answered(request)
    except ImportError:
        version = ".".join(map(str, sys.version_info[:2]))
        text = ("meantime 1\\nerror=install meantime in its Python, " + version).encode()
    except Exception as error:
        text = ("meantime 1\\nerror=" + " ".join(repr(error).split())).encode("utf-8", "replace")
    try:
        with open(folder + "/new", "wb") as file:
            file.write(text)
        os.rename(folder + "/new", folder + "/answer")
    except OSError:
        pass
answer(*arguments)
"""
# What replaces a script that was not executed in time, and may be later.
_NOTHING = """
import os
for remove, name in ((os.unlink, "script"), (os.rmdir, "claim"), (os.rmdir, "")):
    try:
        remove(os.path.join(folder, name))
    except OSError:
        pass
"""
_EXECUTE = f"""
import sys
try:
    sys.remote_exec(int(sys.argv[1]), sys.argv[2])
except PermissionError:
    sys.exit({_REFUSED})
except RuntimeError as error:
    sys.stderr.write(str(error))
    sys.exit({_DISABLED})
"""


def answer_of(pid: int, request: bytes, within_s: float) -> bytes | None:
    """Return the answer of a process to a request; None if it does not answer in time.

    Raises:
        MeantimeError: If the process cannot be reached: with the reason, and what to do.
    """
    version = python_version(pid)
    if version < FIRST_VERSION:
        text = ".".join(map(str, version))
        raise MeantimeError(
            f"process {pid} cannot be recorded: it runs Python {text} and was not prepared; start"
            " it with MEANTIME=1 in its environment, or call meantime.enable() in it. `meantime top"
            f" {pid}` shows what it is doing"
        )
    if not _sees_our_files(pid):
        raise MeantimeError(
            f"process {pid} is in a container: run `meantime attach` in that, with the number that"
            " the process has there"
        )
    with _folder_of(pid) as folder:
        home = str(Path(__file__).parents[2])
        arguments = request, home, sys.implementation.cache_tag, str(folder)
        _write(folder, _SCRIPT, {"arguments": arguments})
        _execute(pid, folder / "script")
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s or not _is_abandoned(folder):
            with suppress(FileNotFoundError):
                return (folder / "answer").read_bytes()
            if not Path(f"/proc/{pid}").exists():
                raise MeantimeError(f"process {pid} has ended")
            time.sleep(_LOOKS_EVERY_S)
    return None


def _is_abandoned(folder: Path) -> bool:
    """Return whether the process will not begin to answer; it does not if we claim that first."""
    try:
        (folder / "claim").mkdir()
    except FileExistsError:
        return False
    return True


class _folder_of:  # noqa: N801 - used as a function
    """A folder that only a process's user can read; removed when the process has answered."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._path = Path(tempfile.mkdtemp(prefix="meantime-"))
        self._owner = Path(f"/proc/{pid}").stat()

    def __enter__(self) -> Path:
        if os.geteuid() != self._owner.st_uid:
            os.chown(self._path, self._owner.st_uid, self._owner.st_gid)
        return self._path

    def __exit__(self, *_: object) -> None:
        if (self._path / "answer").exists() or not Path(f"/proc/{self._pid}").exists():
            shutil.rmtree(self._path, ignore_errors=True)
        else:
            # the process may still execute it, and would print an error if there were none
            _is_abandoned(self._path)
            _write(self._path, _NOTHING, {"folder": str(self._path)})


def _write(folder: Path, source: str, names: dict[str, object]) -> None:
    """Write a script that leaves no name in the program's main module, in which it is executed."""
    new = folder / "script.new"
    new.write_text(f"exec({source!r}, {names!r})\n", encoding="utf-8")
    new.chmod(0o644)
    new.replace(folder / "script")


def _execute(pid: int, script: Path) -> None:
    """Let a process execute a script, by an interpreter of its own version."""
    command = [f"/proc/{pid}/exe", "-I", "-S", "-c", _EXECUTE, str(pid), str(script)]
    try:
        done = subprocess.run(  # noqa: S603 - the program that the process runs
            command, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise MeantimeError(
            f"process {pid} cannot be recorded: its program cannot be executed: {error.strerror}"
        ) from error
    if done.returncode == _PERMITTED:
        return
    if done.returncode == _REFUSED:
        raise MeantimeError(why_unreadable(pid).replace("read", "recorded", 1))
    reason = " ".join(done.stderr.split()) or "its program is not a Python"
    raise MeantimeError(
        f"process {pid} cannot be recorded: {reason}; start it with MEANTIME=1 in its environment."
        f" `meantime top {pid}` shows what it is doing"
    )


def _sees_our_files(pid: int) -> bool:
    """Return whether paths mean the same to a process: it may be in a container or a chroot."""
    try:
        spaces = [Path(f"/proc/{each}/ns/mnt").readlink() for each in (pid, os.getpid())]
        roots = [Path(f"/proc/{each}/root").stat() for each in (pid, os.getpid())]
    except OSError:
        return False
    return spaces[0] == spaces[1] and os.path.samestat(*roots)
