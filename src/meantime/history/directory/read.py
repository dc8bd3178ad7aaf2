"""Reading a history's directory, finished or not."""

from __future__ import annotations

import contextlib
import logging
import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.clocks import Clock
from meantime.errors import InputError
from meantime.history.catalogue import Catalogue
from meantime.history.changes import Changes
from meantime.history.directory.delta import Cursor, apply_delta
from meantime.history.directory.manifest import items_in, number_in, read_lines, to_json
from meantime.history.directory.segments import open_segment
from meantime.history.directory.tail_log import damage_in, read_blocks
from meantime.history.directory.upgrade import missing_step, upgraded
from meantime.history.journal import ScheduledChange
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL, OUTSIDE, fits
from meantime.history.structures import ACTIONS
from meantime.history.validation import Limits, words_fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.directory.segments import StoredSegment
    from meantime.history.directory.tail_log import Entry

__all__ = ["FORMAT", "VERSION", "LoadedHistory", "fingerprint", "read_directory"]

FORMAT = "meantime history"
VERSION = 1
_SALVAGE = "`meantime check --salvage` recovers the intact part"
_SEGMENT_NAME = re.compile(r"\d{6,}(-late)?\.seg")
# A tail has room for at most this many changes, or for twice as many as it ever had: a larger
# number in a file is damage, and would allocate that much.
_CAPACITY = 2**22
# Raised by reading a record that is JSON but does not have the expected content.
_WRONG = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_LOG = logging.getLogger("meantime")


@dataclass(slots=True)
class LoadedHistory:
    """The contents of a directory.

    Attributes:
        path: The directory.
        catalogue: Names, tags and metadata.
        segments: The segments; their rows are read when they are first used.
        ends: Where each line of the manifest ends; the first is not of a segment.
        cursors: After each line, how much of names, tags and metadata had been written.
        kinds: By quark, the type of its values.
        boundary_ns: Where the sealed part ends.
        replaced: How many states of no length were replaced.
        capacity: How many changes there was room for before a segment had to be sealed.
        position: Where in the input an unfinished build can be resumed; None if it is not set.
        done: How many operations since then took effect, and how many rows of the next one.
        scheduled: The changes that were still scheduled.
        closed: The last line of a finished history; None if it is not finished.
        entries: What was logged since the last segment.
        late: The changes that came late.
        late_bytes: How much of their log counts.
        damaged: Logs, and where in them what counts ends because of damage.
        missing: What is damaged or missing, when salvaging.
        version: The version of the format.
        limits: What codes in segments refer to.
    """

    path: Path
    catalogue: Catalogue
    segments: list[StoredSegment] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    kinds: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    boundary_ns: int = np.iinfo(np.int64).min
    replaced: int = 0
    capacity: int = 0
    position: Any = None
    done: tuple[int, int] = (0, 0)
    scheduled: list[ScheduledChange] = field(default_factory=list)
    closed: dict[str, Any] | None = None
    entries: list[Entry] = field(default_factory=list)
    late: Changes = field(default_factory=lambda: Changes.room(0))
    late_bytes: int = 0
    damaged: list[tuple[Path, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    version: int = VERSION
    limits: Limits = field(default_factory=lambda: Limits(np.zeros(0, np.uint8), 0, 0))


def read_directory(
    path: Path,
    *,
    salvage: bool = False,
    opened: Mapping[int, StoredSegment] | None = None,
    catalogue: Catalogue | None = None,
) -> LoadedHistory:
    """Return the contents of a directory; nothing is built or written.

    Args:
        path: The directory.
        salvage: Stop before the first damaged line or segment instead of raising.
        opened: By checksum, segments of it that were opened earlier.
        catalogue: Receives the names and metadata; what the directory lacks stays unchanged.

    Raises:
        InputError: If it is not a history, is of a later version, or is damaged.
    """
    manifest = _manifest(path)
    loaded = LoadedHistory(path, Catalogue(0, Clock()) if catalogue is None else catalogue)
    try:
        _load(loaded, manifest, opened or {}, salvage=salvage)
    except FileNotFoundError as error:
        raise InputError(
            str(error.filename or path), "is gone: was the history removed while it was read?"
        ) from None
    return loaded


def _load(
    loaded: LoadedHistory, manifest: Path, opened: Mapping[int, StoredSegment], *, salvage: bool
) -> None:
    # Compared in `_check_logs`: a builder may seal a segment, or finish, while this reads.
    before = _state(manifest)
    lines = read_lines(manifest, salvage=salvage)
    loaded.version = version = _version(manifest, lines.records)
    loaded.ends, loaded.cursors = lines.ends[:1], [Cursor()]
    for number, (record, end) in enumerate(zip(lines.records[1:], lines.ends[1:], strict=True), 1):
        try:
            _add(loaded, upgraded(record, version, VERSION), opened)
        except InputError as error:
            if not salvage:
                raise
            loaded.missing.append(str(error))
            break
        except _WRONG as error:
            wrong = InputError(
                str(manifest),
                f"line {number + 1} is invalid: {_reason(error)}; {_SALVAGE}",
                offset=lines.ends[number - 1],
            )
            if not salvage:
                raise wrong from None
            loaded.missing.append(str(wrong))
            break
        loaded.ends.append(end)
    else:
        if salvage and lines.ends and lines.ends[-1] < manifest.stat().st_size:
            loaded.missing.append(f"{manifest}: byte {lines.ends[-1]}: the rest is damaged")
        if loaded.closed is None:
            _load_unfinished(loaded, before, salvage=salvage)
    _limit(loaded)


def _add(
    loaded: LoadedHistory, record: dict[str, Any], opened: Mapping[int, StoredSegment]
) -> None:
    """Add a line of the manifest.

    Raises:
        InputError: If its segment is damaged.
        ValueError: If it is invalid.
    """
    if loaded.closed is not None:
        raise ValueError("it comes after the history was closed")
    kinds = apply_delta(loaded.catalogue, record, loaded.kinds)
    if "segment" in record:
        name = record["segment"]
        if not isinstance(name, str) or not _SEGMENT_NAME.fullmatch(name):
            raise ValueError(f"segment is {name!r}")
        segment_path = loaded.path / "segments" / name
        checksum = number_in(record, "checksum", most=2**32 - 1)
        boundary_ns = number_in(record, "boundary_ns", BEFORE_ALL, AFTER_ALL)
        replaced = number_in(record, "replaced")
        segment = _open(segment_path, checksum, loaded, opened.get(checksum))
        if int(segment.sections["quarks"][-1]) >= len(kinds):
            raise InputError(str(segment_path), f"has attributes that are not there; {_SALVAGE}")
        # Kernels search segments by bisection, so they must be in order and not overlap.
        if loaded.segments and segment.head.base_ns <= loaded.segments[-1].head.last_ns:
            raise InputError(
                str(segment_path), f"begins before the segment before it ends; {_SALVAGE}"
            )
        # A logged change at the time of a sealed one would replace it in the tail, which lacks it.
        if boundary_ns <= segment.head.last_ns:
            raise ValueError(f"boundary_ns is {boundary_ns}, before the segment ends")
        loaded.segments.append(segment)
        loaded.boundary_ns, loaded.replaced = boundary_ns, replaced
    else:
        loaded.closed = _closing(loaded, record.get("closed"))
        loaded.replaced = loaded.closed["replaced"]
    loaded.kinds = kinds
    catalogue = loaded.catalogue
    facts = to_json(record["facts"]) if "facts" in record else loaded.cursors[-1].facts
    loaded.cursors.append(
        Cursor(
            len(catalogue.attributes),
            len(catalogue.strings.names),
            len(catalogue.tag_log),
            kinds,
            facts,
        )
    )


def _closing(loaded: LoadedHistory, closed: Any) -> dict[str, Any]:
    """Return the last line of a finished history, checked."""
    if not isinstance(closed, dict):
        raise ValueError("it is neither of a segment nor the last")  # noqa: TRY004 - of a file
    start_ns = number_in(closed, "start_ns", BEFORE_ALL + 1, AFTER_ALL)
    end_ns = number_in(closed, "end_ns", BEFORE_ALL + 1, AFTER_ALL)
    number_in(closed, "replaced")
    heads = [segment.head for segment in loaded.segments]
    if start_ns > end_ns or (
        heads and not start_ns <= heads[0].base_ns <= heads[-1].last_ns < end_ns
    ):
        raise ValueError(f"not all changes are in the range from {start_ns} to {end_ns} ns")
    bounds = loaded.catalogue.metadata.bounds
    if bounds is not None and not start_ns <= bounds[0] <= bounds[1] <= end_ns:
        raise ValueError(f"the trace's bounds {bounds} are outside the range of the history")
    for column in items_in(closed, "tables", list):
        name, kind, rows, offset, checksum = column
        if type(name) is not str or type(kind) is not str:
            raise ValueError(f"a column is {name!r}")
        numbers = {"rows": rows, "offset": offset, "checksum": checksum}
        for number in numbers:
            number_in(numbers, number)
    return {"tables": [], **closed}


def _reason(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _limit(loaded: LoadedHistory) -> None:
    catalogue = loaded.catalogue
    kinds = np.zeros(len(catalogue.attributes), np.uint8)
    kinds[: len(loaded.kinds)] = loaded.kinds
    loaded.kinds = kinds
    # Tags may be defined last, so their number is not final before the history is closed.
    tags = 2**31 - 1 if loaded.closed is None else len(catalogue.tags)
    loaded.limits = Limits(loaded.kinds, len(catalogue.strings.names), tags)
    for segment in loaded.segments:
        segment.limits = loaded.limits


def _version(manifest: Path, records: list[dict[str, Any]]) -> int:
    if not records or records[0].get("format") != FORMAT:
        raise InputError(str(manifest), "is not the manifest of a history", offset=0)
    version = records[0].get("version")
    if type(version) is not int or version < 1:
        raise InputError(str(manifest), f"is of version {version!r}", offset=0)
    if version > VERSION:
        raise InputError(
            str(manifest),
            f"is of version {version}; this meantime reads up to {VERSION}: use a later one",
            offset=0,
        )
    if (step := missing_step(version, VERSION)) is not None:
        raise InputError(
            str(manifest),
            f"is of version {version}; this meantime reads {step + 1} to {VERSION}: rebuild it",
            offset=0,
        )
    return version


def _open(
    path: Path, checksum: int, loaded: LoadedHistory, opened: StoredSegment | None
) -> StoredSegment:
    # Following a growing history, the rows of its segments are read and checked only once.
    if opened is not None and opened.path == path:
        return opened
    segment = open_segment(path, loaded.segments[-1] if loaded.segments else None)
    if segment.checksum != checksum:
        raise InputError(str(path), "is not the segment that the manifest means", offset=0)
    return segment


def _load_unfinished(loaded: LoadedHistory, before: tuple[int, int], *, salvage: bool) -> None:
    """Load the logs of an unfinished history; report damage in them."""
    try:
        _load_logs(loaded)
        _check_logs(loaded, before)
    except InputError as error:
        if not salvage:
            raise
        loaded.missing.append(str(error))
    for file, offset in loaded.damaged:
        complaint = f"{file}: byte {offset}: is damaged: what comes after is left out"
        _LOG.warning("%s", complaint)
        if salvage:
            loaded.missing.append(complaint)


def _load_logs(loaded: LoadedHistory) -> None:
    """Load the changes that are in no segment, up to the first damage in the logs."""
    log = loaded.path / f"tail-{len(loaded.segments):06d}.log"
    late_log = loaded.path / "late.log"
    entries, late = list(read_blocks(log)), list(read_blocks(late_log))
    late_end = late[-1].end if late else 0
    # An entry counts only if all late changes that came before it can be read.
    try:
        kept = list(
            takewhile(lambda entry: number_in(entry.record, "late_bytes") <= late_end, entries)
        )
        for entry in kept:
            record = upgraded(entry.record, loaded.version, VERSION)
            loaded.kinds = apply_delta(loaded.catalogue, record, loaded.kinds)
            loaded.entries.append(entry._replace(record=record))
        _limit(loaded)
        for entry in loaded.entries:
            _check_changes(entry.changes, loaded.limits)
    except _WRONG as error:
        raise InputError(str(log), f"is invalid: {_reason(error)}; {_SALVAGE}") from None
    if len(kept) < len(entries):
        loaded.damaged.append((late_log, late_end))
    end = entries[-1].end if entries else 0
    if (offset := damage_in(log, end)) is not None:
        loaded.damaged.append((log, offset))
    if not loaded.entries:
        return
    last = loaded.entries[-1].record
    try:
        _load_journal(loaded, last)
    except _WRONG as error:
        raise InputError(str(log), f"is invalid: {_reason(error)}; {_SALVAGE}") from None
    _load_late(loaded, late_log, late)


def _load_late(loaded: LoadedHistory, log: Path, entries: list[Entry]) -> None:
    """Load the changes that came late, as far as they count."""
    counting = [entry.changes for entry in entries if entry.end <= loaded.late_bytes]
    if not counting:
        return
    loaded.late = Changes.joined(counting)
    try:
        _check_changes(loaded.late, loaded.limits)
    except ValueError as error:
        raise InputError(str(log), f"is invalid: {error}; {_SALVAGE}") from None
    # They are merged with the rows of segments by compiled code, so these must be checked before.
    for segment in loaded.segments:
        segment.load()


def _check_changes(changes: Changes, limits: Limits) -> None:
    """Raise `ValueError` unless these changes are valid."""
    quark = changes.quark
    if not len(quark):
        return
    if not 0 <= int(quark.min()) <= int(quark.max()) < len(limits.kinds):
        raise ValueError("a change of no attribute")
    if not fits(changes.time_ns):
        raise ValueError(f"a change at a time that does not fit: {OUTSIDE}")
    if (fault := words_fault(changes.word, changes.meta, limits.kinds[quark], limits)) is not None:
        raise ValueError(fault)


def _load_journal(loaded: LoadedHistory, last: dict[str, Any]) -> None:
    """Load from the last log entry what a resumed build needs."""
    loaded.replaced = number_in(last, "replaced")
    loaded.late_bytes = number_in(last, "late_bytes")
    waiting = sum(len(entry.changes.time_ns) for entry in loaded.entries)
    loaded.capacity = number_in(last, "capacity", most=max(_CAPACITY, 4 * waiting))
    loaded.position = last["position"]
    operations, rows = items_in(last, "done", int)
    if min(operations, rows) < 0:
        raise ValueError(f"done is {operations}, {rows}")
    loaded.done = (operations, rows)
    for later in items_in(last, "later", list):
        time_ns, quark, value, action = later
        change = {"time_ns": time_ns, "quark": quark}
        if action not in ACTIONS or not isinstance(value, int | float | str | None):
            raise ValueError(f"later is {later!r}")
        loaded.scheduled.append(
            ScheduledChange(
                number_in(change, "time_ns", BEFORE_ALL + 1, AFTER_ALL - 1),
                number_in(change, "quark", most=len(loaded.kinds) - 1),
                value,
                action,
            )
        )


def _check_logs(loaded: LoadedHistory, before: tuple[int, int]) -> None:
    """Check that an unfinished history has its log.

    Raises:
        InputError: If the log is missing, and the manifest is still what it was before.
    """
    if loaded.entries:
        return
    path = loaded.path
    log = path / f"tail-{len(loaded.segments):06d}.log"
    if log.exists():
        # A log gets its name after its first entry is synced, so one without entries is damaged.
        if loaded.segments and not loaded.damaged:
            loaded.damaged.append((log, 0))
        return
    known = {segment.path.name for segment in loaded.segments}
    others = [file for file in (path / "segments").glob("*.seg") if file.name not in known]
    made = bool(loaded.segments or others or (path / "tables").exists())
    if made and _state(_manifest(path)) == before:
        raise InputError(
            str(_manifest(path)),
            "is cut, or the log of what came after the last segment is lost: the directory has"
            f" more than it lists; {_SALVAGE}",
            offset=loaded.ends[-1],
        )


def _state(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_ino, stat.st_size


def fingerprint(path: Path) -> tuple[int, ...]:
    """Return a value that changes when more of an unfinished history is written."""
    try:
        sizes = [_manifest(path).stat().st_size]
    except FileNotFoundError:
        raise InputError(str(path), "is gone: was the history removed?") from None
    for log in sorted(path.glob("tail-*.log")):
        with contextlib.suppress(FileNotFoundError):
            stat = log.stat()
            sizes += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
    return tuple(sizes)


def _manifest(path: Path) -> Path:
    manifest = path / "manifest"
    if not manifest.is_file():
        raise InputError(str(path), "is not a history: it has no manifest")
    return manifest
