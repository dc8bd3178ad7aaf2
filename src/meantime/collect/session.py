"""Start and stop a recording: `meantime.record`, `meantime.start`, `meantime.stop`."""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Literal, NamedTuple

from meantime.collect import _recorder
from meantime.collect.hooks import Hooks
from meantime.errors import MeantimeError, OutputError, UsageError
from meantime.units import format_bytes

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Options", "record", "recording_path", "start", "stop"]

Tracing = Literal["tasks", "workers", "both", "none"]
Policy = Literal["block", "drop", "ring"]

POLICIES: dict[str, int] = {"block": 0, "drop": 1, "ring": 2}
_CHUNKS = {"block": 2, "drop": 16}
_CHUNK_BYTES = 64 * 1024
_MAX_CHUNKS = 240
_MIN_SIZE_BYTES = 1_000_000
_MIN_HZ, _MAX_HZ = 1, 10_000
_NS_PER_S = 10**9


class Options(NamedTuple):
    """What a recording records, and what it does when it cannot.

    Attributes:
        trace: What is recorded: `tasks`, `workers` (event loops and pool threads), `both`, `none`.
        policy: What happens when records come faster than the disk takes them: `block` writes
            before the program goes on, `drop` counts what it leaves out, `ring` keeps the newest
            in memory and writes it when asked to.
        max_bytes: How large the recording may grow before its oldest parts go; 0 is unlimited.
        ring_bytes: How much a `ring` holds for each thread.
        ring_ns: How much of that is written out when the time comes; 0 is all.
        duration_ns: How long to record; 0 is until the end.
        blocked_ns: How long a task may keep its loop from running before a `ring` is written out;
            0 is forever.
        threads: Whether to record when threads wait for the GIL and for locks, which replaces the
            interpreter's entries for the platform's wait functions.
        samples: How many times a second to take a sample of what each thread is doing; 0 is never.
    """

    trace: Tracing = "both"
    policy: Policy = "block"
    max_bytes: int = 0
    ring_bytes: int = 4_000_000
    ring_ns: int = 0
    duration_ns: int = 0
    blocked_ns: int = 0
    threads: bool = False
    samples: float = 0

    def check(self) -> None:
        """Raise UsageError if they contradict each other."""
        if self.trace not in ("tasks", "workers", "both", "none"):
            raise UsageError(f"trace is {self.trace!r}, not tasks, workers, both or none")
        if self.policy not in POLICIES:
            raise UsageError(f"policy is {self.policy!r}, not block, drop or ring")
        if self.max_bytes and self.max_bytes < _MIN_SIZE_BYTES:
            raise UsageError(
                f"max size is {format_bytes(self.max_bytes)}: a recording needs at least "
                f"{format_bytes(_MIN_SIZE_BYTES)}"
            )
        if self.samples and not _MIN_HZ <= self.samples <= _MAX_HZ:
            raise UsageError(
                f"samples are taken {_MIN_HZ} to {_MAX_HZ:,} times a second, not {self.samples:,}"
            )
        if self.blocked_ns and self.policy != "ring":
            raise UsageError("a blocked loop is dumped by policy ring only")
        if self.ring_bytes > _MAX_CHUNKS * _CHUNK_BYTES:
            raise UsageError(
                f"ring size is {format_bytes(self.ring_bytes)}: a thread's ring holds at most "
                f"{format_bytes(_MAX_CHUNKS * _CHUNK_BYTES)}"
            )
        if self.ring_ns and self.policy != "ring":
            raise UsageError("how much of a ring is written out goes with policy ring only")

    @property
    def period_ns(self) -> int:
        """How long it is from sample to sample; 0 if none are taken."""
        return round(_NS_PER_S / self.samples) if self.samples else 0

    @property
    def chunks(self) -> int:
        """How many chunks a thread's tail has."""
        if self.policy == "ring":
            return max(2, -(-self.ring_bytes // _CHUNK_BYTES))
        return _CHUNKS[self.policy]


class _Session(NamedTuple):
    path: str
    hooks: Hooks


_session: _Session | None = None


def start(path: str | os.PathLike[str], **options: object) -> None:
    """Begin to record this process into the directory `path`, until `stop` or the program's end.

    What is recorded and how is said by keywords, the fields of `Options`. In a program that is
    being recorded already, by `meantime record` say, nothing more happens.

    Raises:
        UsageError: If an option is wrong.
        OutputError: If there is something at `path`, or it cannot be written.
    """
    begin(os.fspath(path), Options(**options), fresh=True)  # type: ignore[arg-type] # Options checks them


def begin(path: str, options: Options, *, fresh: bool) -> None:
    """Record this process into `path`, a directory that is to be made if it is `fresh`."""
    global _session  # noqa: PLW0603 - a process has one recording
    options.check()
    if _session is not None:
        return
    if not sys.platform.startswith("linux"):
        raise MeantimeError(f"recording is not possible on {sys.platform} yet: it needs Linux")
    if hasattr(sys, "_is_gil_enabled"):
        import sysconfig  # noqa: PLC0415 - only where the question can arise

        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise MeantimeError("recording is not possible in a free-threaded Python yet")
    try:
        if fresh:
            create(path)
        _recorder.start(
            os.fsencode(os.path.abspath(path)),  # noqa: PTH100 - no pathlib inside the program
            policy=POLICIES[options.policy],
            chunks=options.chunks,
            max_bytes=options.max_bytes,
            duration_ns=options.duration_ns,
            blocked_ns=options.blocked_ns,
            ring_ns=options.ring_ns,
        )
        _write_process_facts(path)
        if options.policy == "ring":
            _recorder.dump_upon(_dump_signal())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    hooks = Hooks(
        tasks=options.trace in ("tasks", "both"),
        workers=options.trace in ("workers", "both"),
        threads=options.threads or options.samples > 0,
        polls=options.blocked_ns > 0,
        errors=options.policy == "ring",
    )
    if options.threads and not _recorder.watch_threads():
        warnings.warn(
            "meantime: waits of threads are not recorded: this interpreter's cannot be watched",
            RuntimeWarning,
            stacklevel=3,
        )
    if options.samples:
        _begin_samples(options.period_ns)
    _session = _Session(path, hooks)
    atexit.register(stop)


def create(path: str, command: list[str] | None = None) -> None:
    """Make the directory of a recording.

    Raises:
        OutputError: If there is something at `path` already.
        OSError: If it cannot be made.
    """
    try:
        os.makedirs(path)  # noqa: PTH103 - no pathlib inside the program
    except FileExistsError:
        raise OutputError(
            f"{path}: exists already; remove it, or give the recording another name"
        ) from None
    _write_json(
        f"{path}/recording.json",
        {
            "format": "meantime recording",
            "version": 1,
            "host": os.uname().nodename,
            "boot_id": _boot_id(),
            "created_utc_ns": time.time_ns(),
            "command": command if command is not None else sys.orig_argv,
        },
    )


def stop() -> str | None:
    """End the recording, take all hooks away, and return where it lies; None if there is none.

    A write that failed meanwhile, because the disk was full say, does not fail this: how many
    events were lost is in the recording.
    """
    global _session  # noqa: PLW0603 - a process has one recording
    if _session is None:
        return None
    path, hooks = _session
    _session = None
    # what follows is ours, not the program's
    _recorder.end_samples()
    hooks.remove()
    _recorder.stop()
    atexit.unregister(stop)
    return path


def recording_path() -> str | None:
    """Return where this process is being recorded into; None if it is not."""
    return None if _session is None else _session.path


class record:  # noqa: N801 - used as a function: with meantime.record(...)
    """Record what happens inside `with` or `async with`.

        with meantime.record("app.mtr"):
            asyncio.run(main())

    It takes what `start` takes.
    """

    def __init__(self, path: str | os.PathLike[str], **options: object) -> None:
        self._path = path
        self._options = options
        self._ours = False

    def __enter__(self) -> Self:
        self._ours = _session is None
        start(self._path, **self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ours:
            stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def _dump_signal() -> int:
    import signal  # noqa: PLC0415 - the program may not have imported it

    return signal.SIGUSR2


def _begin_samples(period_ns: int) -> None:
    # the sampler cannot ask the threads that run already what they are called
    _recorder.note_thread(os.getpid(), "MainThread")
    threading = sys.modules.get("threading")
    for thread in [] if threading is None else threading.enumerate():
        if thread.native_id is not None:
            _recorder.note_thread(thread.native_id, thread.name)
    if not _recorder.sample_threads(period_ns):
        warnings.warn(
            "meantime: no samples are taken: this interpreter's frames cannot be read",
            RuntimeWarning,
            stacklevel=4,
        )


def _write_process_facts(path: str) -> None:
    pid, incarnation = _recorder.process_key()
    _write_json(
        f"{path}/{pid}.{incarnation}.json",
        {
            "pid": pid,
            "parent_pid": os.getppid(),
            "argv": sys.orig_argv,
            "executable": sys.executable,
            "python": sys.version.split()[0],
        },
    )


def _write_json(path: str, content: dict[str, object]) -> None:
    import json  # noqa: PLC0415 - json may be named in the program's own imports only after this

    with open(path + ".new", "w", encoding="utf-8") as file:  # noqa: PTH123 - no pathlib here
        json.dump(content, file)
    os.rename(path + ".new", path)  # noqa: PTH104 - no pathlib here


def _boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
            return file.read().strip()
    except OSError:
        return None
