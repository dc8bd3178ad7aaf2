"""Reading a history's directory, finished or not."""

from __future__ import annotations

import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from meantime.errors import InputError
from meantime.history.catalogue import Catalogue
from meantime.history.directory.delta import Cursor, apply_delta
from meantime.history.directory.loaded import SALVAGE, VERSION, WRONG, LoadedHistory, reason_of
from meantime.history.directory.manifest import (
    file_state,
    items_in,
    number_in,
    read_lines,
    to_json,
)
from meantime.history.directory.segments import MissingSegment, open_segment
from meantime.history.directory.unread import UnreadAttributes, UnreadIntegers
from meantime.history.directory.upgrade import missing_step, upgraded
from meantime.history.extremes import Extremes
from meantime.history.numbers import AFTER_ALL, BEFORE_ALL
from meantime.model.clocks import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from meantime.history.directory.event_files import StoredBlock
    from meantime.history.directory.segments import StoredSegment

__all__ = ["FORMAT", "fingerprint", "read_directory"]

FORMAT = "meantime history"
# Bins of an overview are at most 2 to the power of this wide.
_MOST_LEVEL = 62
# A finished history with more bytes of names and types reads them when they are first needed.
_READ_AT_ONCE = 2**17
_SEGMENT_NAME = re.compile(r"\d{6,}(-late)?\.seg")


def read_directory(
    path: Path,
    *,
    salvage: bool = False,
    lenient: bool = False,
    opened: Mapping[int, StoredSegment] | None = None,
    blocks: Mapping[Path, StoredBlock] | None = None,
    catalogue: Catalogue | None = None,
) -> LoadedHistory:
    """Return the contents of a directory; nothing is built or written.

    Args:
        path: The directory.
        salvage: Stop before the first damaged line or segment instead of raising.
        lenient: Return a `MissingSegment` for each segment that cannot be opened, instead of
            raising.
        opened: By checksum, segments of it that were opened earlier.
        blocks: By path, blocks of event tables that were opened earlier.
        catalogue: Receives the names and metadata; what the directory lacks stays unchanged.

    Raises:
        InputError: If it is not a history, is of a later version, or is damaged.
    """
    manifest = _manifest(path)
    loaded = LoadedHistory(path, Catalogue(0, Clock()) if catalogue is None else catalogue)
    loaded.lenient = lenient
    try:
        _load(loaded, manifest, opened or {}, blocks or {}, salvage=salvage)
    except FileNotFoundError as error:
        raise InputError(
            str(error.filename or path), "is gone: was the history removed while it was read?"
        ) from None
    return loaded


def _load(
    loaded: LoadedHistory,
    manifest: Path,
    opened: Mapping[int, StoredSegment],
    blocks: Mapping[Path, StoredBlock],
    *,
    salvage: bool,
) -> None:
    # Compared in `load_unfinished`: a builder may seal a segment, or finish, while this reads.
    before = file_state(manifest)
    lines = read_lines(manifest, salvage=salvage)
    loaded.version = version = _version(manifest, lines.records)
    if lines.ends[-1] > _READ_AT_ONCE and "closed" in lines.records[-1] and not salvage:
        loaded.catalogue.attributes = UnreadAttributes()
    loaded.ends, loaded.cursors = lines.ends[:1], [Cursor()]
    for number, (record, end) in enumerate(zip(lines.records[1:], lines.ends[1:], strict=True), 1):
        wrong = partial(_wrong, manifest, number + 1, lines.ends[number - 1])
        try:
            try:
                _add(loaded, upgraded(record, version, VERSION), opened, wrong, salvage=salvage)
            except WRONG as error:
                raise wrong(error) from None
        except InputError as error:
            if not salvage:
                raise
            loaded.missing.append(str(error))
            break
        loaded.ends.append(end)
    else:
        if salvage and lines.ends and lines.ends[-1] < manifest.stat().st_size:
            loaded.missing.append(f"{manifest}: byte {lines.ends[-1]}: the rest is damaged")
        if loaded.closed is None:
            from meantime.history.directory.read_logs import load_unfinished  # noqa: PLC0415 - 4 ms, not for finished ones

            load_unfinished(loaded, manifest, before, blocks, salvage=salvage)
    loaded.set_limits()


def _wrong(manifest: Path, line: int, offset: int, error: Exception) -> InputError:
    reason = f"line {line} is invalid: {reason_of(error)}; {SALVAGE}"
    return InputError(str(manifest), reason, offset=offset)


def _add(
    loaded: LoadedHistory,
    record: dict[str, Any],
    opened: Mapping[int, StoredSegment],
    wrong: Callable[[Exception], InputError],
    *,
    salvage: bool,
) -> None:
    """Add a line of the manifest.

    Raises:
        InputError: If its segment is damaged.
        ValueError: If it is invalid.
    """
    if loaded.closed is not None:
        raise ValueError("it comes after the history was closed")
    attributes = loaded.catalogue.attributes
    if isinstance(attributes, UnreadAttributes) and "attributes" in record:
        attributes.defer(record.pop("attributes"), wrong)
    kinds = apply_delta(loaded.catalogue, record, loaded.kinds)
    if "segment" in record:
        _add_segment(loaded, record, opened, salvage=salvage)
    else:
        loaded.closed = _closing(loaded, record.get("closed"))
        # Version 1 does not have them.
        if "extremes" in loaded.closed:
            integers = UnreadIntegers(loaded.closed["extremes"], len(kinds), wrong)
            loaded.extremes = Extremes([integers])
            if not isinstance(attributes, UnreadAttributes):
                loaded.extremes.resolve(kinds)
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


def _add_segment(
    loaded: LoadedHistory,
    record: dict[str, Any],
    opened: Mapping[int, StoredSegment],
    *,
    salvage: bool,
) -> None:
    name = record["segment"]
    if not isinstance(name, str) or not _SEGMENT_NAME.fullmatch(name):
        raise ValueError(f"segment is {name!r}")
    segment_path = loaded.path.joinpath("segments", name)
    checksum = number_in(record, "checksum", most=2**32 - 1)
    boundary_ns = number_in(record, "boundary_ns", BEFORE_ALL, AFTER_ALL)
    replaced = number_in(record, "replaced")
    try:
        segment = _open(segment_path, checksum, loaded, opened.get(checksum))
    except InputError as error:
        if not loaded.lenient:
            raise
        segment = _missing(loaded, segment_path, error)
    if salvage:
        segment.check_index()
    # Kernels search segments by bisection, so they must be in order and not overlap.
    if loaded.segments and segment.head.base_ns <= loaded.segments[-1].head.last_ns:
        raise InputError(str(segment_path), f"begins before the segment before it ends; {SALVAGE}")
    # A logged change at the time of a sealed one would replace it in the tail, which lacks it.
    if boundary_ns <= segment.head.last_ns:
        raise ValueError(f"boundary_ns is {boundary_ns}, before the segment ends")
    loaded.segments.append(segment)
    loaded.boundary_ns, loaded.replaced = boundary_ns, replaced


def _missing(loaded: LoadedHistory, path: Path, error: InputError) -> MissingSegment:
    """Return a segment that cannot be opened, which begins where the one before it ends."""
    before = loaded.segments[-1] if loaded.segments else None
    if before is None:
        return MissingSegment(path, BEFORE_ALL + 1, error, None)
    base_ns = before.head.last_ns + 1
    if isinstance(before, MissingSegment):
        base_ns = max(base_ns, loaded.boundary_ns)
    return MissingSegment(path, base_ns, error, before)


def _closing(loaded: LoadedHistory, closed: Any) -> dict[str, Any]:
    """Return the last line of a finished history, checked."""
    if not isinstance(closed, dict):
        raise ValueError("it is neither of a segment nor the last")  # noqa: TRY004 - of a file
    start_ns = number_in(closed, "start_ns", BEFORE_ALL + 1, AFTER_ALL)
    end_ns = number_in(closed, "end_ns", BEFORE_ALL + 1, AFTER_ALL)
    number_in(closed, "replaced")
    if loaded.segments and isinstance(loaded.segments[0], MissingSegment):
        loaded.segments[0].begin_at(start_ns)
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
    if "overview" in closed:
        overview = closed["overview"]
        if not isinstance(overview, dict):
            raise ValueError(f"overview is {overview!r}")
        number_in(overview, "level", most=_MOST_LEVEL)
        number_in(overview, "checksum", most=2**32 - 1)
    return {"tables": [], **closed}


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
