"""Start and stop a recording: `meantime.record`, `meantime.start`, `meantime.stop`."""

from __future__ import annotations

import atexit
import os
import sys
import time

from meantime.collect import _recorder
from meantime.collect.command_lines import without_secrets
from meantime.collect.hooks import Hooks
from meantime.errors import MeantimeError, OutputError, UsageError

# Whatever this module imports appears in the recorded program's sys.modules and delays its start,
# so it imports little: typing, pathlib and json, for example, are avoided.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType
    from typing import Literal, Self, TypedDict

    Tracing = Literal["tasks", "workers", "both", "none"]
    Policy = Literal["block", "drop", "ring"]

    class RecordingOptions(TypedDict, total=False):
        """The keywords of `Options`."""

        trace: Tracing
        policy: Policy
        max_bytes: int
        ring_bytes: int
        ring_ns: int
        duration_ns: int
        blocked_ns: int
        threads: bool
        samples: float


__all__ = ["Options", "record", "recording_path", "start", "stop"]

_POLICIES = {name.lower(): number for name, number in _recorder.POLICIES.items()}
# `block` needs one chunk to fill while the other is flushed; with `drop`, 15 absorb a slow disk
_CHUNKS = {"block": 2, "drop": 16}
_CHUNK_BYTES, _MAX_CHUNKS = _recorder.SIZES["CHUNK_BYTES"], _recorder.SIZES["MAX_CHUNKS"]
_MIN_SIZE_BYTES = 1_000_000
_MIN_HZ, _MAX_HZ = 1, 10_000
_BLOCKED_NS, _MIN_BLOCKED_NS = 50_000_000, 1_000_000
_NS_PER_S = 10**9


class Options:
    """The options of a recording.

    Args:
        trace: `tasks`, `workers` (event loops and pool threads), `both` or `none`.
        policy: What happens when records are made faster than the disk accepts them: `block`
            writes before the program continues, `drop` counts the records it omits, `ring` keeps
            the newest in memory and writes them on request.
        max_bytes: The size from which the oldest parts are deleted; 0 is unlimited.
        ring_bytes: The size of a `ring`, per thread.
        ring_ns: The newest part of a `ring` that a dump writes; 0 is all.
        duration_ns: How long to record; 0 is until the program ends.
        blocked_ns: The stack of a step that takes this long is recorded; 0 records none, and None
            is 50 ms. If it is given, a `ring` is dumped, too.
        threads: Whether to record when threads wait for the GIL and for locks, which replaces the
            interpreter's entries for the platform's wait functions.
        samples: Samples of each thread's stack per second; 0 is none.
        secrets: Whether to record command lines with their secrets; otherwise these are `***`.
    """

    def __init__(
        self,
        *,
        trace: Tracing = "both",
        policy: Policy = "block",
        max_bytes: int = 0,
        ring_bytes: int = 4_000_000,
        ring_ns: int = 0,
        duration_ns: int = 0,
        blocked_ns: int | None = None,
        threads: bool = False,
        samples: float = 0,
        secrets: bool = False,
    ) -> None:
        self.trace = trace
        self.policy = policy
        self.max_bytes = max_bytes
        self.ring_bytes = ring_bytes
        self.ring_ns = ring_ns
        self.duration_ns = duration_ns
        self.blocked_ns = blocked_ns
        self.threads = threads
        self.samples = samples
        self.secrets = secrets

    @classmethod
    def parsed(cls, texts: Mapping[str, str]) -> Options:
        """Return the options from their texts; other keys are ignored."""
        options = cls()
        for name, default in options.values().items():
            value: object = texts[name]
            if name == "samples":
                value = float(texts[name])
            elif isinstance(default, int) or default is None:
                value = None if texts[name] == "None" else int(texts[name])
            setattr(options, name, value)
        return options

    def values(self) -> dict[str, object]:
        """Return the options by name."""
        return dict(vars(self))

    def texts(self) -> dict[str, str]:
        """Return the options as `parsed` takes them."""
        return {
            name: str(int(value)) if isinstance(value, bool) else str(value)
            for name, value in self.values().items()
        }

    def check(self) -> None:
        """Raise UsageError if an option is wrong or contradicts another."""
        if self.trace not in ("tasks", "workers", "both", "none"):
            raise UsageError(f"trace is {self.trace!r}, not tasks, workers, both or none")
        if self.policy not in _POLICIES:
            raise UsageError(f"policy is {self.policy!r}, not block, drop or ring")
        if self.max_bytes and self.max_bytes < _MIN_SIZE_BYTES:
            from meantime.model.units import format_bytes  # noqa: PLC0415 - for the message only

            raise UsageError(
                f"max size is {format_bytes(self.max_bytes)}: a recording needs at least "
                f"{format_bytes(_MIN_SIZE_BYTES)}"
            )
        if self.samples and not _MIN_HZ <= self.samples <= _MAX_HZ:
            raise UsageError(
                f"samples are taken {_MIN_HZ} to {_MAX_HZ:,} times a second, not {self.samples:,}"
            )
        if self.blocked_ns and self.blocked_ns < _MIN_BLOCKED_NS:
            raise UsageError("steps are watched if they take at least 1ms")
        if self.ring_bytes > _MAX_CHUNKS * _CHUNK_BYTES:
            from meantime.model.units import format_bytes  # noqa: PLC0415 - as above

            raise UsageError(
                f"ring size is {format_bytes(self.ring_bytes)}: a thread's ring holds at most "
                f"{format_bytes(_MAX_CHUNKS * _CHUNK_BYTES)}"
            )
        if self.ring_ns and self.policy != "ring":
            raise UsageError("how much of a ring is written out goes with policy ring only")

    @property
    def period_ns(self) -> int:
        """The time between two samples; 0 if there are none."""
        return round(_NS_PER_S / self.samples) if self.samples else 0

    @property
    def watched_ns(self) -> int:
        """From when on a step's stack is recorded; 0 if none is."""
        return _BLOCKED_NS if self.blocked_ns is None else self.blocked_ns

    @property
    def dump_ns(self) -> int:
        """From when on a step dumps a ring; 0 if none does."""
        return self.blocked_ns or 0 if self.policy == "ring" else 0

    @property
    def chunks(self) -> int:
        """The number of chunks in a thread's tail."""
        if self.policy == "ring":
            return max(2, -(-self.ring_bytes // _CHUNK_BYTES))
        return _CHUNKS[self.policy]


_session: tuple[str, Hooks] | None = None  # the recording's path, and its hooks
_changing = False  # whether it is being begun or ended


def start(
    path: str | os.PathLike[str],
    *,
    trace: Tracing = "both",
    policy: Policy = "block",
    max_bytes: int = 0,
    ring_bytes: int = 4_000_000,
    ring_ns: int = 0,
    duration_ns: int = 0,
    blocked_ns: int | None = None,
    threads: bool = False,
    samples: float = 0,
    secrets: bool = False,
) -> None:
    """Begin to record this process into the directory `path`, until `stop` or the program's end.

    The keywords are those of `Options`. In a program that is being recorded already, for example by
    `meantime record`, nothing happens.

    Raises:
        UsageError: If an option is wrong.
        OutputError: If `path` exists or cannot be written.
    """
    options = Options(
        trace=trace,
        policy=policy,
        max_bytes=max_bytes,
        ring_bytes=ring_bytes,
        ring_ns=ring_ns,
        duration_ns=duration_ns,
        blocked_ns=blocked_ns,
        threads=threads,
        samples=samples,
        secrets=secrets,
    )
    begin(os.fspath(path), options, fresh=True)


def begin(path: str, options: Options, *, fresh: bool) -> None:
    """Record this process into the directory `path`, which is created if it is `fresh`."""
    global _session, _changing  # noqa: PLW0603 - a process has one recording
    options.check()
    if _session is not None:
        return
    check_possible()
    _changing = True
    try:
        _session = path, _begun(path, options, fresh=fresh)
    finally:
        _changing = False
    atexit.register(stop)


def _begun(path: str, options: Options, *, fresh: bool) -> Hooks:
    if not fresh:
        return _started(path, options)
    try:
        create(path, secrets=options.secrets)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    try:
        return _started(path, options)
    except BaseException:
        _discard(path)
        raise


def _started(path: str, options: Options) -> Hooks:
    try:
        _recorder.start(
            os.fsencode(os.path.abspath(path)),  # noqa: PTH100 - no pathlib inside the program
            policy=_POLICIES[options.policy],
            chunks=options.chunks,
            max_bytes=options.max_bytes,
            duration_ns=options.duration_ns,
            dump_ns=options.dump_ns,
            ring_ns=options.ring_ns,
        )
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    try:
        return _hooks(path, options)
    except BaseException as error:
        # nothing else could end what has begun
        _recorder.stop()
        if isinstance(error, OSError):
            raise OutputError(f"{path}: {error.strerror}") from error
        raise


def _hooks(path: str, options: Options) -> Hooks:
    _write_process_facts(path, options.secrets)
    if options.policy == "ring":
        _recorder.dump_upon(_dump_signal())
    if options.watched_ns and options.trace != "none":
        # where the interpreter's frames cannot be read, steps have the names of their callbacks
        _recorder.watch_steps(options.watched_ns)
    hooks = Hooks(
        tasks=options.trace in ("tasks", "both"),
        workers=options.trace in ("workers", "both"),
        threads=options.threads or options.samples > 0,
        waits=options.threads,
        polls=options.dump_ns > 0,
        errors=options.policy == "ring",
    )
    if options.threads and not hooks.waits_recorded:
        _warn("waits of threads are not recorded: this interpreter's cannot be watched", 4)
    if options.samples:
        _begin_samples(options.period_ns)
    return hooks


def check_possible() -> None:
    """Raise MeantimeError if no process can be recorded here."""
    if not sys.platform.startswith("linux"):
        raise MeantimeError(f"recording is not possible on {sys.platform} yet: it needs Linux")
    # sysconfig would answer this too, but imports threading and others into the program
    if "t" in sys.abiflags:
        raise MeantimeError("recording is not possible in a free-threaded Python yet")
    if (unexpected := _unexpected_layout()) is not None:
        raise MeantimeError(
            f"recording is not possible in this Python {sys.version.split()[0]}: its {unexpected}"
            f" are not where the recorder expects them, which was compiled for Python"
            f" {_recorder.COMPILED_FOR}; reinstall meantime with it: pip install --force-reinstall"
            " --no-cache-dir --no-binary meantime meantime"
        )


class _Suspended:
    def __await__(self) -> Generator[None]:
        yield


async def _suspended(until: _Suspended) -> None:
    await until


def _unexpected_layout() -> str | None:
    """Return what is not in memory where the recorder expects it; None if all is there."""
    if (unexpected := _recorder.unexpected_in_thread_state()) is not None:
        return unexpected
    argument = _Suspended()
    coroutine = _suspended(argument)
    for state, change in (
        ("created", lambda: coroutine.send(None)),
        ("suspended", coroutine.close),
        ("ended", coroutine.close),
    ):
        unexpected = _recorder.unexpected_in(coroutine, _suspended, argument, state)
        if unexpected is not None:
            break
        change()
    coroutine.close()
    return unexpected


def create(path: str, command: list[str] | None = None, *, secrets: bool = False) -> None:
    """Create the directory of a recording, which only its owner may look into.

    Args:
        path: The directory.
        command: What is run; None is this process.
        secrets: Whether secrets in the command are written, too.

    Raises:
        OutputError: If `path` exists already.
        OSError: If it cannot be created.
    """
    try:
        os.makedirs(path, 0o700)  # noqa: PTH103 - no pathlib inside the program
    except FileExistsError:
        raise OutputError(
            f"{path}: exists already; remove it, or give the recording another name"
        ) from None
    try:
        _write_json(
            f"{path}/recording.json",
            {
                "format": "meantime recording",
                "version": _recorder.SIZES["FORMAT_VERSION"],
                "host": os.uname().nodename,
                "boot_id": _boot_id(),
                "created_utc_ns": time.time_ns(),
                "command": _shown(command if command is not None else sys.orig_argv, secrets),
            },
        )
    except OSError:
        _discard(path)
        raise


def _discard(path: str) -> None:
    """Remove a recording that has not begun, as far as that is possible."""
    try:
        for name in os.listdir(path):  # noqa: PTH208 - no pathlib inside the program
            os.unlink(f"{path}/{name}")  # noqa: PTH108 - as above
        os.rmdir(path)  # noqa: PTH106 - as above
    except OSError:
        return


def stop() -> str | None:
    """End the recording, remove all hooks, and return its path; None if there is none.

    A write that failed, for example because the disk was full, raises nothing here: the number of
    lost events is in the recording.
    """
    global _session, _changing  # noqa: PLW0603 - a process has one recording
    if _session is None:
        return None
    path, hooks = _session
    _session = None
    _changing = True
    try:
        # first, so that no sample shows the recorder's own work from here on
        _recorder.end_samples()
        hooks.remove()
    finally:
        _recorder.stop()
        _changing = False
    atexit.unregister(stop)
    return path


def is_changing() -> bool:
    """Return whether a recording is being begun or ended, which a signal may interrupt."""
    return _changing


def recording_path() -> str | None:
    """Return the directory into which this process is recorded; None if it is not."""
    return None if _session is None else _session[0]


class record:  # noqa: N801 - used as a function: with meantime.record(...)
    """Record the program inside `with` or `async with`.

        with meantime.record("app.mtr"):
            asyncio.run(main())

    The keywords are those of `Options`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trace: Tracing = "both",
        policy: Policy = "block",
        max_bytes: int = 0,
        ring_bytes: int = 4_000_000,
        ring_ns: int = 0,
        duration_ns: int = 0,
        blocked_ns: int | None = None,
        threads: bool = False,
        samples: float = 0,
        secrets: bool = False,
    ) -> None:
        self._path = os.fspath(path)
        self._options = Options(
            trace=trace,
            policy=policy,
            max_bytes=max_bytes,
            ring_bytes=ring_bytes,
            ring_ns=ring_ns,
            duration_ns=duration_ns,
            blocked_ns=blocked_ns,
            threads=threads,
            samples=samples,
            secrets=secrets,
        )
        self._ours = False

    def __enter__(self) -> Self:
        # inside another recording, only the outermost block stops it
        self._ours = _session is None
        begin(self._path, self._options, fresh=True)
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
    # threads that run already have passed the hook that notes a thread's name
    _recorder.note_thread(os.getpid(), "MainThread")
    threading = sys.modules.get("threading")
    for thread in [] if threading is None else threading.enumerate():
        if thread.native_id is not None:
            _recorder.note_thread(thread.native_id, thread.name)
    if not _recorder.sample_threads(period_ns):
        _warn("no samples are taken: this interpreter's frames cannot be read", 5)


def _warn(text: str, level: int) -> None:
    import warnings  # noqa: PLC0415 - as above

    warnings.warn(f"meantime: {text}", RuntimeWarning, stacklevel=level)


def _write_process_facts(path: str, secrets: bool) -> None:  # noqa: FBT001 - private
    pid, incarnation = _recorder.process_key()
    _write_json(
        f"{path}/{pid}.{incarnation}.json",
        {
            "pid": pid,
            "parent_pid": os.getppid(),
            "argv": _shown(sys.orig_argv, secrets),
            "executable": sys.executable,
            "python": sys.version.split()[0],
        },
    )


def _write_json(path: str, content: dict[str, object]) -> None:
    # renamed when complete: a reader of a growing recording never finds half a file
    with open(path + ".new", "w", encoding="utf-8", opener=_private) as file:
        file.write(_json(content))
    os.rename(path + ".new", path)  # noqa: PTH104 - no pathlib here


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _shown(command: list[str], secrets: bool) -> list[str]:  # noqa: FBT001 - private
    return command if secrets else without_secrets(command)


def _json(value: object) -> str:
    """Return the text of a value; the standard module for it would import 25 others."""
    from _json import encode_basestring_ascii  # noqa: PLC0415 - see above

    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(key)}: {_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, str):
        return str(encode_basestring_ascii(value))
    return "null" if value is None else str(value)


def _boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
            return file.read().strip()
    except OSError:
        return None
