"""Running a command while a call for one of its files fails, and what is wrong with how it ended.

Each trial is a fork of the runner, in a folder of its own: inputs, outputs, the cache, temporary
files and standard output are all below it, so that a call for any of them can fail.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import meantime
from meantime.cli import main as run_command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands import Command

__all__ = ["FAULTS", "Runner", "Shared"]

_LONGEST_S = 30
# The exit status of a process that ended in another way than a command does.
_BROKEN = 70
_PROGRAM_STATUS = 3
_SUMMARY = "meantime: recorded "
_POLL_S = 0.02
_STDOUT, _CACHE, _TEMPORARY = "stdout", "cache", "tmp"
_UNREPORTED = ("Traceback (most recent", "Exception ignored", "Fatal Python error")


class Fault(NamedTuple):
    """What a call answers: its number in `faults.c`, and whether all later ones answer it too."""

    number: int
    lasting: bool


FAULTS = {
    "EIO": Fault(1, lasting=False),
    "ENOSPC": Fault(2, lasting=True),  # a full disk stays full
    "EINTR": Fault(3, lasting=False),
    "short": Fault(4, lasting=True),
    "ENOMEM": Fault(5, lasting=False),
}


class Shared:
    """The memory that `faults.c` and the runner share."""

    LAYOUT = struct.Struct("=6i512s512s")

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), self.LAYOUT.size)

    def arm(self, folder: Path, fault: Fault, first: int) -> None:
        """Let the calls of this process and its children fail from the `first` on; 0 counts."""
        numbers = os.getppid(), fault.number, first, fault.lasting, 0, 0
        self.LAYOUT.pack_into(self._memory, 0, *numbers, bytes(folder), b"")

    def disarm(self) -> tuple[int, str]:
        """Return how many calls there were, and which of them failed."""
        *_, calls, _, _, call = self.LAYOUT.unpack_from(self._memory)
        struct.pack_into("=i", self._memory, 4, 0)
        return calls, call.rstrip(b"\0").decode(errors="replace")


class _Ended(NamedTuple):
    """How a command ended: its status, negative after a signal, and which call failed."""

    status: int
    errors: str
    files: dict[str, bytes]
    calls: int
    call: str
    wrong: list[str]

    def found(self, before: str = "") -> dict[str, bytes]:
        """Return the files that are not of the cache or temporary, with a prefix of their names."""
        return {
            name: data
            for name, data in self.files.items()
            if name.startswith(before) and name.partition("/")[0] not in {_CACHE, _TEMPORARY}
        }


class Runner:
    """Runs one command, sound and with faults.

    Args:
        command: The command.
        folder: Where it runs; what is in it is removed.
        shared: What `faults.c` shares with this process.
    """

    def __init__(self, command: Command, folder: Path, shared: Shared) -> None:
        self._command = command
        self._given, self._folder = folder / "given", folder / "trial"
        self._errors, self._shared = folder / "stderr", shared
        self._given.mkdir(parents=True)
        command.prepare(self._given)
        self._inputs = _files(self._given)
        first, second = (self._ended(FAULTS["EIO"], 0) for _ in range(2))
        assert first.status == command.status, first.errors
        self._sound = first
        # what is printed once a recording has begun
        self._begins = command.prints if command.program is None else "recording process"
        # of two runs, what has times or random numbers in it
        self._varying = {
            name for name, data in first.files.items() if second.files.get(name) != data
        }

    def calls(self, fault: Fault) -> int:
        """Return how many calls can fail in this way."""
        return self._ended(fault, 0).calls

    def trial(self, fault: Fault, first: int) -> tuple[str, list[str]]:
        """Return which call failed, and what is wrong with how the command ended."""
        ended = self._ended(fault, first)
        wrong = [*self._wrong(ended)] if ended.call or self._command.varies else ["no call failed"]
        if not wrong and ended.status and (self._command.directory or self._command.has_cache):
            wrong += self._wrong_again(self._run(FAULTS["EIO"], 0))
        return ended.call, [f"{each}: {ended.errors.splitlines()[:3]}" for each in wrong]

    def _ended(self, fault: Fault, first: int) -> _Ended:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._given, self._folder)
        (self._folder / _TEMPORARY).mkdir()
        return self._run(fault, first)

    def _run(self, fault: Fault, first: int) -> _Ended:
        sys.stdout.flush()
        with self._program() as program:
            pid = "" if program is None else str(program.pid)
            child = os.fork()
            if not child:
                self._work(fault, first, pid)
            wrong = self._used(child)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        calls, call = self._shared.disarm()
        errors = self._errors.read_text(errors="replace")
        if program is not None:
            assert program.stderr
            errors += program.stderr.read()
            program.stderr.close()
            if program.returncode != _PROGRAM_STATUS:
                wrong.append(f"the program ended with {program.returncode}")
        return _Ended(status, errors, _files(self._folder), calls, call, wrong)

    @contextmanager
    def _program(self) -> Iterator[subprocess.Popen[str] | None]:
        """Let the program run that the command is about, and end well."""
        if self._command.program is None:
            yield None
            return
        program = subprocess.Popen(
            [sys.executable, "-P", "-c", self._command.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
        )
        assert program.stdin
        assert program.stdout
        with program.stdin, program.stdout:
            assert program.stdout.readline() == "ready\n"
            yield program
            with suppress(BrokenPipeError):
                program.stdin.write("\n")
                program.stdin.flush()
            program.wait(_LONGEST_S)

    def _used(self, child: int) -> list[str]:
        """Use a command that answers until it is interrupted; return what is wrong with answers."""
        if self._command.client is None:
            return []
        printed = self._folder / _STDOUT
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            address, end, _ = (
                printed.read_text().partition("  ") if printed.exists() else ("", "", "")
            )
            if end:
                wrong = self._command.client(address)
                os.kill(child, signal.SIGINT)
                return wrong
            time.sleep(_POLL_S)
        return []

    def _work(self, fault: Fault, first: int, program: str) -> None:
        """Run the command in this process, which ends."""
        status: object = _BROKEN
        try:
            signal.alarm(_LONGEST_S)
            os.chdir(self._folder)
            os.environ["XDG_CACHE_HOME"] = str(self._folder / _CACHE)
            os.environ["TMPDIR"] = str(self._folder / _TEMPORARY)
            streams = Path(os.devnull), self._folder / _STDOUT, self._errors
            for number, path in enumerate(streams):
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
                handle = os.open(path, flags, 0o600)
                os.dup2(handle, number)
                os.close(handle)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            if self._command.within is not None:
                self._command.within(self._given)
            self._shared.arm(self._folder, fault, first)
            try:
                run_command_line(
                    [word.format(pid=program) for word in self._command.arguments]
                    if program
                    else [*self._command.arguments]
                )
            except SystemExit as left:
                status = left.code
            gc.collect()
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 - it is reported, and must not return to the runner
            traceback.print_exc()
            status = _BROKEN
        finally:
            os._exit(status if isinstance(status, int) else _BROKEN)

    def _wrong(self, ended: _Ended) -> Iterator[str]:
        if ended.status < 0:
            yield f"ended by {signal.Signals(-ended.status).name}"
            return
        if any(each in ended.errors for each in _UNREPORTED):
            yield "a traceback"
            return
        yield from ended.wrong
        if self._command.prints not in ended.errors and self._harms(ended):
            yield "the program was harmed"
        if self._command.prints:
            yield from self._wrong_recording(ended)
        elif self._command.client is not None:
            yield from self._left(ended)  # a page that could not write notes says so
        elif (
            ended.status == self._command.status
            and self._differing(ended)
            and not self._said(ended)  # what a damaged history lacks is said
            and _anomalies(ended) == _anomalies(self._sound)  # or counted
        ):
            yield f"exit status {ended.status}, but {self._differing(ended)} differ"
        if ended.status == self._command.status:
            return
        if ended.status != 1:
            yield f"exit status {ended.status}"
        if len([line for line in self._said(ended) if line.startswith("meantime")]) != 1:
            yield "not one line that says why"
        yield from self._left(ended)

    def _wrong_recording(self, ended: _Ended) -> Iterator[str]:
        """Yield what is wrong with a recording, which is different each time."""
        if self._begins not in ended.errors or self._said(ended):
            return
        name = next(name.partition("/")[0] for name in self._sound.found() if "/" in name)
        history = meantime.open(self._folder / name)
        tasks = sum(
            1
            for path in map(history.attributes.path, range(len(history.attributes)))
            if path[0] == "Tasks"
        )
        if tasks < self._command.tasks and not history.anomalies:
            yield f"{tasks} tasks are left of {self._command.tasks}, and nothing says so"

    def _said(self, ended: _Ended) -> list[str]:
        """Return the lines that a command does not print where nothing fails."""
        return [
            line
            for line in ended.errors.splitlines()
            if line not in self._sound.errors and not line.startswith(_SUMMARY)
        ]

    def _harms(self, ended: _Ended) -> bool:
        """Return whether a program that has begun has not run to its end."""
        return self._command.program is not None or ended.status == self._command.status

    def _differing(self, ended: _Ended) -> list[str]:
        """Return the files that are not as after a run without a fault."""
        found, sound = ended.found(), self._sound.found()
        return [
            name
            for name in {**found, **sound}
            if (name in found) != (name in sound)
            or (name not in self._varying and found[name] != sound[name])
        ]

    def _left(self, ended: _Ended) -> Iterator[str]:
        """Yield what a command that failed has left, and should not."""
        sound = self._sound.found()
        for name, data in ended.found().items():
            is_built = self._command.directory and name.startswith(f"{self._command.directory}/")
            if name == _STDOUT or is_built or self._inputs.get(name) == data:
                continue
            if self._command.prints and self._begins in ended.errors:
                continue  # all is kept that could be written
            if name not in sound and name.partition("/")[0] not in ended.errors:
                yield f"it left {name}"
            elif data != sound.get(name, data) and name not in self._varying:
                yield f"it left {name} half written"
        for name in self._inputs:
            if name not in ended.files and name in sound:
                yield f"{name} is gone"
        for name in ended.files:
            if name.startswith((f"{_TEMPORARY}/", f"{_CACHE}/meantime/.building")):
                yield f"it left {name}"

    def _wrong_again(self, ended: _Ended) -> Iterator[str]:
        """Yield what is wrong with the run after a failed one, which completes what that left."""
        folder = self._command.directory or _STDOUT
        if ended.status == self._command.status or "already exists" in ended.errors:
            if ended.status == 1 and folder == _STDOUT:
                yield f"then: {ended.errors}"
            names = sorted(ended.found(folder)), sorted(self._sound.found(folder))
            if names[0] != names[1]:
                yield f"then there are {names[0]} instead of {names[1]}"
        else:
            yield f"then exit status {ended.status}: {ended.errors}"


def _anomalies(ended: _Ended) -> object:
    """Return the anomalies that a command prints as JSON, if it does."""
    try:
        return json.loads(ended.files.get(_STDOUT, b"")).get("anomalies")
    except (AttributeError, ValueError):
        return None


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
