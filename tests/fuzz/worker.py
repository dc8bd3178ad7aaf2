"""Trying inputs in a process of their own, so that whatever one of them does is known and survived.

A worker is forked, tries a batch of inputs and says at a pipe which one it begins and how it went.
Whoever reads that sees a worker that crashed, hangs or takes too much memory, and forks the next.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from exercise import exercise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from containers import Files
    from corpus import Format

__all__ = [
    "BATCH",
    "SANITIZED",
    "Limits",
    "Outcome",
    "Trial",
    "attempt",
    "place_of",
    "put",
    "tried",
    "tries",
]

SANITIZED = "MEANTIME_SANITIZE" in os.environ

# The inputs of one worker. It tries them all, also beyond the time that a format has.
BATCH = 32
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.2
_STUCK_FACTOR = 6
_DUMP_S = 0.3
# A crash is looked for in so many inputs before it, each tried so often.
_SUSPECTS = 20
_REPEATED = 20
_ERROR_BYTES = 20_000
_MAPPED_BYTES = 1 << 30
_RUNTIME_ERROR = re.compile(r"(\w+\.(?:c|h|pyx)):(\d+):\d+: runtime error: (.{0,60})")
_OWN_FRAME = re.compile(r"in (\w+) \S*meantime/\S*?(\w+\.(?:h|pyx|c)):(\d+)")
_KIND_OF_ERROR = re.compile(r"ERROR: AddressSanitizer:? ([\w-]+)")
_FRAME_OF_PYTHON = re.compile(r'File "[^"]*/meantime/([^"]+\.pyx?)", line \d+,? in (\w+)')


class Limits(NamedTuple):
    """What an input may take.

    Attributes:
        seconds: Processor time, much more than any small input needs.
        bytes: Memory, whatever the input.
        bytes_per_byte: Memory on top for each byte of the input.
    """

    seconds: float = 10.0
    bytes: int = 200 << 20
    bytes_per_byte: int = 1000

    def of(self, size_bytes: int) -> int:
        """Return how much memory an input of this size may take."""
        return self.bytes + self.bytes_per_byte * size_bytes


class Trial(NamedTuple):
    """An input to be tried.

    Attributes:
        format: Of which format.
        name: What tells it from the others; for generated ones the seed.
        files: What it is made of.
        lenient: Whether bad records are passed over.
        draw: Whether it is drawn, too, and how much of it: see `exercise`.
        ask: Whether its history is asked everything.
        recognise: Whether its format is recognised, or given.
    """

    format: Format
    name: str
    files: Files
    lenient: bool = False
    draw: int = 1
    ask: bool = True
    recognise: bool = True

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return sum(map(len, self.files.values()))


class Outcome(NamedTuple):
    """How a trial went.

    Attributes:
        trial: Which.
        result: `accepted`, `refused`, or what went wrong: `exception`, `crash`, `hang`, `memory`.
        where: What went wrong in one line, by which the same defects are the same; otherwise what
            tells the input from others.
        detail: All that is known of it.
    """

    trial: Trial
    result: str
    where: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether something went wrong."""
        return self.result not in ("accepted", "refused")


def attempt(trial: Trial, limits: Limits) -> Outcome:
    """Return how one trial went."""
    return next(iter(tries([trial], limits)))


def tries(
    trials: Iterable[Trial], limits: Limits, in_one_process: int = BATCH
) -> Iterator[Outcome]:
    """Yield how each trial went, in their order."""
    waiting = iter(trials)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory_folder()) as folder:
        while batch := list(islice(waiting, in_one_process)):
            while batch:
                done = 0
                for outcome in _forked(batch, Path(folder), limits):
                    done += 1
                    yield (
                        _culprit(outcome, batch[:done], Path(folder), limits)
                        if outcome.result == "crash" and not SANITIZED
                        else outcome
                    )
                batch = batch[done:]


def _culprit(crash: Outcome, batch: list[Trial], folder: Path, limits: Limits) -> Outcome:
    """Return the crash of the input to blame: memory may be damaged long before it shows."""
    for trial in batch[: -_SUSPECTS - 1 : -1]:
        for outcome in _forked([trial] * _REPEATED, folder, limits):
            if outcome.result == "crash":
                return outcome
    return crash._replace(where=f"{crash.where}, after other inputs")


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - faster than a disk


def _forked(batch: list[Trial], folder: Path, limits: Limits) -> Iterator[Outcome]:
    """Fork a worker and yield how its trials go, until the last or one that it cannot survive."""
    errors = folder / "stderr"
    reading, writing = os.pipe()
    sys.stdout.flush()
    worker = os.fork()
    if not worker:
        os.close(reading)
        try:
            _work(batch, folder, limits, writing)
            os._exit(0)  # whatever is to be cleaned up is the parent's
        except BaseException:  # noqa: BLE001 - this process must not go on as if it were the parent
            os.write(2, traceback.format_exc().encode())
            os._exit(1)
    os.close(writing)
    at = 0
    try:
        for line in _lines(reading, worker, limits):
            if isinstance(line, _Stop):
                os.kill(worker, signal.SIGUSR1)  # it says where it is
                time.sleep(_DUMP_S)
                text = _last_words(errors)
                python = _FRAME_OF_PYTHON.search(text)
                where = f"{line.result} in {python[1]}:{python[2]}" if python else line.result
                yield Outcome(batch[at], line.result, where, f"{line.detail}\n{text}")
                return
            result, where, detail = line
            yield Outcome(batch[at], result, where, detail)
            at += 1
            if result == "memory":
                return
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
    if at < len(batch):
        text = _last_words(errors)
        yield Outcome(batch[at], "crash", _crash(status, text), text)


def _last_words(errors: Path) -> str:
    return errors.read_bytes()[-_ERROR_BYTES:].decode(errors="replace") if errors.exists() else ""


class _Stop(NamedTuple):
    result: str
    detail: str


def _lines(reading: int, worker: int, limits: Limits) -> Iterator[tuple[str, str, str] | _Stop]:
    """Yield what a worker says of its trials, or why it has to be stopped."""
    rest = b""
    began_s, size_bytes = time.monotonic(), 0
    began_cpu_s = 0.0
    while True:
        ready, _, _ = select.select([reading], [], [], _POLL_S)
        if not ready:
            cpu_s, memory = _usage(worker)
            stuck = time.monotonic() - began_s > _STUCK_FACTOR * limits.seconds
            if cpu_s - began_cpu_s > limits.seconds or stuck:
                yield _Stop("hang", f"{cpu_s - began_cpu_s:.1f} s of processor time")
                return
            if memory > 2 * limits.of(size_bytes) + _base_bytes():
                yield _Stop("memory", f"{memory >> 20} MiB are in use")
                return
            continue
        data = os.read(reading, 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "begin" in said:
                began_s, began_cpu_s, size_bytes = time.monotonic(), said["begin"], said["bytes"]
            else:
                yield said["result"], said["where"], said["detail"]


def _base_bytes() -> int:
    """Return what a worker has in memory before it tries anything."""
    return _usage(os.getpid())[1]


def _usage(process: int) -> tuple[float, int]:
    """Return how much processor time and memory a process has taken."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return 0.0, 0
    return (int(stat[11]) + int(stat[12])) / _CLOCK_TICKS, int(stat[21]) * _PAGE_BYTES


def _work(batch: list[Trial], folder: Path, limits: Limits, writing: int) -> None:
    """Try a batch of inputs in this process."""
    with (folder / "stderr").open("wb") as errors:
        os.dup2(errors.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGUSR1, 2, all_threads=False)
    if not SANITIZED:  # which reserves terabytes of addresses, and reports signals better
        faulthandler.enable(2, all_threads=False)
        largest = max(trial.size_bytes for trial in batch)
        addresses = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE_BYTES
        most = addresses + 2 * limits.of(largest) + _MAPPED_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    warnings.simplefilter("error")  # NumPy warns where a number does not fit: a wrong figure
    ignored: list[str] = []
    sys.unraisablehook = lambda error: ignored.append(repr(error.exc_value))
    gc.freeze()

    def say(**said: object) -> None:
        os.write(writing, json.dumps(said).encode() + b"\n")

    for trial in batch:
        say(begin=time.process_time(), bytes=trial.size_bytes)
        path = put(trial.format, trial.files, folder / "input")
        before = _peak_bytes()
        result, where, detail = tried(
            trial.format,
            path,
            lenient=trial.lenient,
            draw=trial.draw,
            ask=trial.ask,
            recognise=trial.recognise,
        )
        taken = _peak_bytes(again=False) - before
        if ignored:
            result, where, detail = "exception", f"ignored {ignored[0]}", "\n".join(ignored)
            ignored.clear()
        if taken > limits.of(trial.size_bytes) and result != "memory":
            detail = f"{taken >> 20} MiB for an input of {trial.size_bytes} bytes\n{detail}"
            result, where = "memory", f"over the limit; {where or result}"
        say(result=result, where=where, detail=detail)
        if result == "memory":
            return


def put(kind: Format, files: Files, folder: Path) -> Path:
    """Write an input's files where the last one's were; return what is to be opened."""
    if (
        kind.is_directory
        or not folder.exists()
        or {*files} != {each.name for each in folder.iterdir()}
    ):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    if kind.is_directory:
        path = folder / f"input.{kind.name}"
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        path.mkdir(exist_ok=True)
        return path if kind.opened is None else path / kind.opened
    ((name, data),) = files.items()
    (folder / name).write_bytes(data)
    return folder / name


def _peak_bytes(*, again: bool = True) -> int:
    """Return the most memory that this process had in use, perhaps counted again from now."""
    if again:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def tried(
    kind: Format,
    path: Path,
    *,
    lenient: bool,
    draw: int,
    ask: bool = True,
    recognise: bool = True,
) -> tuple[str, str, str]:
    """Return how an input is used, in one line what went wrong or is seen, and all of that."""
    try:
        used = exercise(
            path,
            provider=kind.provider,
            lenient=lenient,
            ask=ask,
            draw=draw,
            exact=kind.name != "mth",
            reader=None if recognise else kind.reader,
        )
    except MemoryError as error:
        return "memory", place_of(error), traceback.format_exc()
    except Exception as error:  # noqa: BLE001 - whatever it is, that is what is looked for
        return "exception", place_of(error), traceback.format_exc()[-_ERROR_BYTES:]
    return ("accepted" if used.accepted else "refused"), used.seen, ""


def place_of(error: BaseException) -> str:
    """Return what was raised, and by which function of the project."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "meantime/" in frame.filename] or frames
    file = own[-1].filename.rpartition("meantime/")[2]
    return f"{type(error).__name__} in {file}:{own[-1].name}"


def _crash(status: int, text: str) -> str:
    """Return in one line why a worker ended, from its status and its last words."""
    ended = (
        signal.Signals(os.WTERMSIG(status)).name
        if os.WIFSIGNALED(status)
        else f"exit status {os.waitstatus_to_exitcode(status)}"
    )
    if found := _RUNTIME_ERROR.search(text):
        return f"{found[3]} in {found[1]}:{found[2]}"
    if kind := _KIND_OF_ERROR.search(text):
        frame = _OWN_FRAME.search(text)
        return f"{kind[1]} in {frame[2]}:{frame[3]}:{frame[1]}" if frame else kind[1]
    python = _FRAME_OF_PYTHON.search(text)
    return f"{ended} in {python[1]}:{python[2]}" if python else ended
