"""Reading the logs of an unfinished history: the changes that are in no segment yet."""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.history.changes import Changes
from meantime.history.directory.delta import apply_delta
from meantime.history.directory.event_files import load_events
from meantime.history.directory.loaded import SALVAGE, VERSION, WRONG, reason_of
from meantime.history.directory.manifest import file_state, items_in, number_in
from meantime.history.directory.tail_log import damage_in, read_blocks
from meantime.history.directory.upgrade import upgraded
from meantime.history.journal import ScheduledChange
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL, OUTSIDE, fits
from meantime.history.structures import ACTIONS
from meantime.history.validation import words_fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from meantime.history.directory.event_files import StoredBlock
    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.directory.tail_log import Entry
    from meantime.history.segment import Limits

__all__ = ["load_unfinished"]

# A tail has room for at most this many changes, or for twice as many as it ever had: a larger
# number in a file is damage, and would allocate that much.
_CAPACITY = 2**22
_LOG = logging.getLogger("meantime")


def load_unfinished(
    loaded: LoadedHistory,
    manifest: Path,
    before: tuple[int, int],
    opened: Mapping[Path, StoredBlock],
    *,
    salvage: bool,
) -> None:
    """Load the logs of an unfinished history; report damage in them.

    Args:
        loaded: What the manifest has; the logs are added.
        manifest: The manifest.
        before: Its `file_state` before it was read.
        opened: By path, blocks of event tables that were opened earlier.
        salvage: Report a missing or invalid log in `loaded.missing` instead of raising.

    Raises:
        InputError: If a log is invalid, or missing although the manifest is unchanged.
    """
    try:
        _load_logs(loaded, opened)
        _check_logs(loaded, manifest, before)
    except InputError as error:
        if not salvage:
            raise
        loaded.missing.append(str(error))
    for file, offset in loaded.damaged:
        complaint = f"{file}: byte {offset}: is damaged: what comes after is left out"
        _LOG.warning("%s", complaint)
        if salvage:
            loaded.missing.append(complaint)


def _load_logs(loaded: LoadedHistory, opened: Mapping[Path, StoredBlock]) -> None:
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
        loaded.set_limits()
        for entry in loaded.entries:
            _check_changes(entry.changes, loaded.limits)
    except WRONG as error:
        raise InputError(str(log), f"is invalid: {reason_of(error)}; {SALVAGE}") from None
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
    except WRONG as error:
        raise InputError(str(log), f"is invalid: {reason_of(error)}; {SALVAGE}") from None
    _load_late(loaded, late_log, late)
    try:
        _load_events(loaded, last.get("events", {}), opened)
    except WRONG as error:
        raise InputError(str(log), f"is invalid: {reason_of(error)}; {SALVAGE}") from None


def _load_events(loaded: LoadedHistory, record: Any, opened: Mapping[Path, StoredBlock]) -> None:
    """Load the rows of event tables."""
    if not isinstance(record, dict):
        raise ValueError(f"events is {record!r}")  # noqa: TRY004 - of a file, not an argument
    if record:
        loaded.events = load_events(loaded.path, record, loaded.limits, opened)
        loaded.event_sizes = {table: (blocks, size) for table, (blocks, size) in record.items()}


def _load_late(loaded: LoadedHistory, log: Path, entries: list[Entry]) -> None:
    """Load the changes that came late, as far as they count."""
    counting = [entry.changes for entry in entries if entry.end <= loaded.late_bytes]
    if not counting:
        return
    loaded.late = Changes.joined(counting)
    try:
        _check_changes(loaded.late, loaded.limits)
    except ValueError as error:
        raise InputError(str(log), f"is invalid: {error}; {SALVAGE}") from None
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


def _check_logs(loaded: LoadedHistory, manifest: Path, before: tuple[int, int]) -> None:
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
    if made and file_state(manifest) == before:
        raise InputError(
            str(manifest),
            "is cut, or the log of what came after the last segment is lost: the directory has"
            f" more than it lists; {SALVAGE}",
            offset=loaded.ends[-1],
        )
