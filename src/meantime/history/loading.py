"""Reading a history's directory, finished or not."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.history.changes import Changes
from meantime.history.ledger import Cursor, apply
from meantime.history.records import read_lines, to_json
from meantime.history.segment_file import check_rows, open_segment
from meantime.history.tail_log import damage_in, read_blocks
from meantime.history.upgrading import missing_step, upgraded

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.engine import Engine
    from meantime.history.segment import Segment
    from meantime.history.tail_log import Entry

__all__ = ["FORMAT", "VERSION", "Loaded", "fingerprint", "load"]

FORMAT = "meantime history"
VERSION = 1
_SALVAGE = "`meantime check --salvage` keeps what is whole"
_LOG = logging.getLogger("meantime")


@dataclass(slots=True)
class Loaded:
    """What a directory holds.

    Attributes:
        segments: The segments, mapped into memory.
        paths: Their files.
        checksums: Those of their headers.
        ends: Where each line of the manifest ends; the first is no segment's.
        cursors: How much was written down after each line.
        kinds: By quark, the type of its values.
        boundary_ns: Where the sealed part ends.
        replaced: How many states of no length were replaced.
        capacity: How many changes there was room for before a segment had to be sealed.
        closed: What the last line of a finished history says; None if it is not finished.
        entries: What was logged since the last segment.
        late: The changes that came late.
        late_bytes: How much of their log counts.
        damaged: Logs, and where in them what counts ends because of damage.
        missing: What is damaged or missing, where that was to be passed over.
        version: Which version of the format it is of.
    """

    segments: list[Segment] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    kinds: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    boundary_ns: int = np.iinfo(np.int64).min
    replaced: int = 0
    capacity: int = 0
    closed: dict[str, Any] | None = None
    entries: list[Entry] = field(default_factory=list)
    late: Changes = field(default_factory=lambda: Changes.room(0))
    late_bytes: int = 0
    damaged: list[tuple[Path, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    version: int = VERSION


def load(path: Path, engine: Engine, *, salvage: bool = False) -> Loaded:
    """Return what a directory holds; its names and facts are told to a fresh engine.

    Args:
        path: The directory.
        engine: Takes the names and facts.
        salvage: Stop before the first damaged line or segment instead of raising.

    Raises:
        InputError: If it is no history, is of a later version, or is damaged.
    """
    manifest = _manifest(path)
    before = _state(manifest)
    lines = read_lines(manifest, salvage=salvage)
    version = _version(manifest, lines.records)
    loaded = Loaded(ends=lines.ends[:1], cursors=[Cursor()], version=version)
    for told, end in zip(lines.records[1:], lines.ends[1:], strict=True):
        record = upgraded(told, version, VERSION)
        if "segment" in record:
            try:
                segment_path = path / "segments" / record["segment"]
                loaded.segments.append(_open(segment_path, record["checksum"]))
            except InputError as error:
                if not salvage:
                    raise
                loaded.missing.append(str(error))
                return loaded
            loaded.paths.append(segment_path)
            loaded.checksums.append(record["checksum"])
            loaded.boundary_ns = record["boundary_ns"]
            loaded.replaced = record["replaced"]
        else:
            loaded.closed = record["closed"]
            loaded.replaced = loaded.closed["replaced"]
        _apply(loaded, engine, record)
        loaded.ends.append(end)
    if lines.ends and lines.ends[-1] < manifest.stat().st_size and salvage:
        loaded.missing.append(f"{manifest}: byte {lines.ends[-1]}: the rest is damaged")
    if loaded.closed is None:
        _load_unfinished(path, loaded, engine, before, salvage=salvage)
    return loaded


def _version(manifest: Path, records: list[dict[str, Any]]) -> int:
    if not records or records[0].get("format") != FORMAT:
        raise InputError(str(manifest), "is not the manifest of a history", offset=0)
    version: int = records[0]["version"]
    if version > VERSION:
        raise InputError(
            str(manifest),
            f"is of version {version}; this meantime reads up to {VERSION}: use a later one",
            offset=0,
        )
    if (step := missing_step(version, VERSION)) is not None:
        raise InputError(
            str(manifest),
            f"is of version {version}; this meantime reads {step + 1} to {VERSION}: build it anew",
            offset=0,
        )
    return version


def _open(path: Path, checksum: int) -> Segment:
    segment = open_segment(path)
    with path.open("rb") as file:
        header = file.read(128)
    if int.from_bytes(header[-4:], "little") != checksum:
        raise InputError(str(path), "is not the segment that the manifest means", offset=0)
    return segment


def _apply(loaded: Loaded, engine: Engine, record: dict[str, Any]) -> None:
    loaded.kinds = apply(engine.catalogue, record, loaded.kinds)
    facts = to_json(record["facts"]) if "facts" in record else loaded.cursors[-1].facts
    loaded.cursors.append(
        Cursor(
            len(engine.attributes),
            len(engine.catalogue.strings.names),
            len(engine.catalogue.tag_log),
            loaded.kinds,
            facts,
        )
    )


def _load_unfinished(
    path: Path, loaded: Loaded, engine: Engine, before: tuple[int, int], *, salvage: bool
) -> None:
    """Load what an unfinished history has beside its segments; say what of it is damaged."""
    try:
        _load_logs(path, loaded, engine)
        _check_logs(path, loaded, before)
    except InputError as error:
        if not salvage:
            raise
        loaded.missing.append(str(error))
    for file, place in loaded.damaged:
        complaint = f"{file}: byte {place}: is damaged: what comes after is left out"
        _LOG.warning("%s", complaint)
        if salvage:
            loaded.missing.append(complaint)


def _load_logs(path: Path, loaded: Loaded, engine: Engine) -> None:
    """Load what is in no segment, as far as the logs are whole."""
    log, late_log = path / f"tail-{len(loaded.segments):06d}.log", path / "late.log"
    entries, late = list(read_blocks(log)), list(read_blocks(late_log))
    late_end = late[-1].end if late else 0
    kept = list(takewhile(lambda entry: entry.record["late_bytes"] <= late_end, entries))
    if len(kept) < len(entries):
        loaded.damaged.append((late_log, late_end))
    end = entries[-1].end if entries else 0
    if (place := damage_in(log, end)) is not None:
        loaded.damaged.append((log, place))
    for entry in kept:
        record = upgraded(entry.record, loaded.version, VERSION)
        loaded.kinds = apply(engine.catalogue, record, loaded.kinds)
        loaded.entries.append(entry._replace(record=record))
    if not loaded.entries:
        return
    last = loaded.entries[-1].record
    loaded.replaced = last["replaced"]
    loaded.late_bytes = last["late_bytes"]
    loaded.capacity = last["capacity"]
    counting = [entry.changes for entry in late if entry.end <= loaded.late_bytes]
    if counting:
        loaded.late = Changes.joined(counting)
        # They are put among the rows of segments, which have to be right for that.
        for segment_path, segment in zip(loaded.paths, loaded.segments, strict=True):
            check_rows(segment_path, segment)
    engine.catalogue.position = last["position"]
    if last["position"] is not None:
        engine.skip(*last["done"])
    for time_ns, quark, value, action in last["later"]:
        engine.put_off(time_ns, quark, value, action)


def _check_logs(path: Path, loaded: Loaded, before: tuple[int, int]) -> None:
    """See that an unfinished history has the log that it should have.

    Raises:
        InputError: If the log is missing, and the manifest is still what it was before.
    """
    if loaded.entries:
        return
    log = path / f"tail-{len(loaded.segments):06d}.log"
    if log.exists():
        # What a log begins with is on the disk before the log has its name.
        if loaded.segments and not loaded.damaged:
            loaded.damaged.append((log, 0))
        return
    known = {segment.name for segment in loaded.paths}
    others = [file for file in (path / "segments").glob("*.seg") if file.name not in known]
    made = bool(loaded.segments or others or (path / "tables").exists())
    if made and _state(_manifest(path)) == before:
        raise InputError(
            str(_manifest(path)),
            "is cut, or the log of what came after the last segment is lost: there is more than"
            f" it tells of; {_SALVAGE}",
            offset=loaded.ends[-1],
        )


def _state(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_ino, stat.st_size


def fingerprint(path: Path) -> tuple[int, ...]:
    """Return what differs once more of an unfinished history is on the disk."""
    told = [_manifest(path).stat().st_size]
    for log in sorted(path.glob("tail-*.log")):
        with contextlib.suppress(FileNotFoundError):
            stat = log.stat()
            told += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
    return tuple(told)


def _manifest(path: Path) -> Path:
    manifest = path / "manifest"
    if not manifest.is_file():
        raise InputError(str(path), "is not a history: it has no manifest")
    return manifest
