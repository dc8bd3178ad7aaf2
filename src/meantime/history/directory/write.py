"""A history on disk, `NAME.mth/`: what is written when, so that a crash loses no sealed segment.

    manifest        one checksummed line of JSON per segment, and one when it is closed
    segments/       one file per segment, never changed
    overview        the sums of states in wide bins, written when it is closed
    answers/        what statistics of all of it follow from, written by the first (`answers`)
    tables          points, flows, spans and samples, written when it is closed
    events/         the same of an unfinished history: blocks, and logs of what waits for one
    late.log        changes that came too late for the segment they belong to
    tail-N.log      changes that are in none of the first N segments yet
    lock            locked by the builder while there is one; the id of its process

A segment is written to a temporary name, synced and renamed; then its manifest line is synced. The
logs go when the history is closed.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from meantime.errors import HistoryError, OutputError
from meantime.files import belongs_to_another, folder_inside, open_inside
from meantime.history.directory import overviews
from meantime.history.directory.delta import Cursor, metadata_delta, packed_extremes
from meantime.history.directory.event_files import open_files
from meantime.history.directory.loaded import VERSION
from meantime.history.directory.lock import LOCK_NAME, DirectoryLock
from meantime.history.directory.manifest import checksummed_line
from meantime.history.directory.pyramids import pack_pyramid, pyramid_path
from meantime.history.directory.read import FORMAT
from meantime.history.directory.segments import open_segment, packed_segment
from meantime.history.directory.stored_tables import StoredTables
from meantime.history.directory.tables import merge_tables, write_tables
from meantime.history.directory.tail_log import blocks
from meantime.history.pyramid import PYRAMID_ROWS, build_pyramid
from meantime.history.sealed import SealedSegments
from meantime.system_calls import sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meantime.history.contents import Contents
    from meantime.history.directory.event_files import EventFiles
    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.directory.segments import StoredSegment
    from meantime.history.directory.tables import Description
    from meantime.history.journal import Journal
    from meantime.history.sealer import Sealer
    from meantime.history.segment import Segment
    from meantime.history.snapshot import Snapshot
    from meantime.history.tables import Tables

__all__ = ["DirectoryWriter", "is_empty"]

# How old a log may be: readers of a growing history see no newer changes, and a crash loses them.
_LOG_EVERY_S = 0.2


class DirectoryWriter:
    """Writes a history that is being built to its directory.

    After a failure nothing more is written: memory is then ahead of the disk, and a history that
    continued would lack the changes in between.

    Attributes:
        path: The directory.
        segments: The segments that were written.
        failure: The error that every operation raises from now on; None before any failure.
    """

    def __init__(self, path: Path, contents: Contents, journal: Journal) -> None:
        self.path = path
        self._contents = contents
        self._journal = journal
        self._cursor = Cursor()
        self._cursors: list[Cursor] = []
        self._ends: list[int] = []
        self.segments: list[StoredSegment] = []
        self._rewritten: list[Path] = []
        self._logged = Cursor()
        self._events: EventFiles | None = None
        self._next_log_s = 0.0
        self._late_bytes = 0
        self.failure: Exception | None = None
        self._lock: DirectoryLock | None = None

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{path}: {error.strerror or error}; the unfinished history in {self.path} keeps"
                " what was written before; a resumed build continues from there"
            ) from error

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Write nothing more if this fails, for whatever reason."""
        try:
            yield
        except BaseException as error:
            self.failure = (
                error
                if isinstance(error, Exception)
                else HistoryError(f"{self.path}: writing it was interrupted")
            )
            self._contents.direct = None
            raise

    def check(self) -> None:
        """Raise the error of an earlier failure, if there was one."""
        if self.failure is not None:
            raise self.failure

    def lock(self) -> None:
        """Lock the directory against other builders.

        Raises:
            OutputError: If there is another one.
        """
        self._lock = DirectoryLock(self.path, self._forked)

    def _forked(self) -> None:
        self.failure = HistoryError(
            f"{self.path}: this process was forked from the one that builds it, which continues"
        )
        self._contents.direct = None

    def leave(self) -> None:
        """Release the directory to other builders, and write nothing more."""
        if self._lock is not None:
            self._lock.release()
        if self.failure is None:
            self.failure = HistoryError(f"{self.path}: this builder has left it unfinished")
        self._contents.direct = None

    def create(self) -> None:
        """Create the directory of a new history.

        Raises:
            OutputError: If there is something of that name, or it cannot be written.
        """
        self._check_empty()
        # a mistake in a path must not become a tree
        if not self.path.absolute().parent.is_dir():
            raise OutputError(f"{self.path}: there is no folder {self.path.parent}; make it first")
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror or error}") from error
        self.lock()
        # Another builder may have started before the lock was taken.
        self._check_empty()
        with self._writing(self.path):
            folder_inside(self.path / "segments")
            header = checksummed_line({"format": FORMAT, "version": VERSION})
            self._replace("manifest", header)
            self._ends.append(len(header))
            self._cursors.append(self._cursor)

    def _check_empty(self) -> None:
        if self.path.exists() and not is_empty(self.path):
            raise OutputError(
                f"{self.path}: exists; remove it, or pass resume=True to continue a history"
            )
        if self.path.exists() and belongs_to_another(self.path):
            raise OutputError(f"{self.path}: belongs to another user; choose another name")

    def resume(self, loaded: LoadedHistory) -> None:
        """Continue after what was loaded; truncate the rest of each file."""
        self.segments = list(loaded.segments)
        self._ends, self._cursors = loaded.ends, loaded.cursors
        self._cursor = loaded.cursors[-1]
        self._logged = self._cursor
        self._late_bytes = loaded.late_bytes
        # The log that was read may end in a part of an entry, and has names that are new since
        # `_logged`: nothing can be appended to it.
        self._contents.store.sealer.needs_new_log = True
        # New lines are appended, so what is behind those that count must go first.
        with self._writing(self.path):
            _cut(self.path / "manifest", loaded.ends[-1])
            if (self.path / "late.log").exists():
                _cut(self.path / "late.log", loaded.late_bytes)

    def keep_events(self, loaded: LoadedHistory | None = None) -> None:
        """Store the rows of event tables from now on, after those that were loaded."""
        self._events = open_files(self.path, self._contents.events, _replacing)
        if loaded is not None:
            self._events.sizes = dict(loaded.event_sizes)
            stacks = self._contents.events.stacks
            self._events.counts = {"stacks": len(stacks), "frames": len(stacks.frames)}
        self._events.keep_all()

    def seal_events(self, sealer: Sealer) -> None:
        """Write blocks of the rows that wait for one, if there are enough."""
        if self._events is None or not self._contents.events.is_full:
            return
        with self._all_or_nothing(), self._writing(self._events.folder):
            self._contents.events.seal()
        self.log(sealer, new_log=False)
        with self._all_or_nothing(), self._writing(self._events.folder):
            self._events.remove_old_logs()

    def seal(self, segment: Segment, sealer: Sealer) -> Segment:
        """Write the next segment; see `Sink`."""
        with self._all_or_nothing():
            return self._sealed(segment, sealer)

    def _sealed(self, segment: Segment, sealer: Sealer) -> Segment:
        # Segments that replace others have names of their own: until the new manifest has its name,
        # the old one refers to the old files.
        name = f"{len(self.segments):06d}{'-late' if self._rewritten else ''}.seg"
        path = self.path / "segments" / name
        header, index = packed_segment(segment)
        with self._writing(path):
            self._replace(f"segments/{name}", header, index, segment.rows)
        stored = open_segment(path, self.segments[-1] if self.segments else None)
        self._keep_pyramid(segment, stored)
        new, self._cursor = self._since(self._cursor)
        self.segments.append(stored)
        if not self._rewritten:
            # A crash after this line leaves both logs: the manifest decides which one counts, and
            # the new one is complete before the line that makes the old one obsolete.
            self.log(sealer, new_log=True)
        self._append(
            {
                "segment": name,
                "checksum": stored.checksum,
                "boundary_ns": sealer.boundary_ns,
                "replaced": sealer.replaced,
                **new,
            }
        )
        if not self._rewritten:
            self._log_path(len(self.segments) - 1).unlink(missing_ok=True)
        return stored

    def _keep_pyramid(self, segment: Segment, stored: StoredSegment) -> None:
        """Write a segment's pyramid without fsync: it can be rebuilt."""
        # Shorter runs are in none, so that looking at each of a million would be in vain.
        long = int(np.diff(segment.sections["offsets"]).max()) > PYRAMID_ROWS
        arrays = build_pyramid(segment, self._contents.kinds()) if long else None
        path = pyramid_path(stored.path)
        # One of a segment that an interrupted build wrote under this name would not match.
        path.unlink(missing_ok=True)
        if arrays is not None:
            with self._writing(path):
                folder_inside(path.parent)
                try:
                    with open_inside(path, "wb") as file:
                        file.writelines(pack_pyramid(arrays, stored.checksum))
                except OSError:
                    path.unlink(missing_ok=True)
                    raise

    def _since(self, cursor: Cursor) -> tuple[dict[str, Any], Cursor]:
        return metadata_delta(self._contents.catalogue, self._contents.kinds(), cursor)

    def _append(self, record: dict[str, Any]) -> None:
        line = checksummed_line(record)
        path = self.path / ("manifest.new" if self._rewritten else "manifest")
        with self._writing(path):
            try:
                with open_inside(path, "ab") as file:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                # it may be there all the same, and would finish a history whose logs remain
                with suppress(OSError):
                    _cut(path, self._ends[-1])
                raise
        self._ends.append(self._ends[-1] + len(line))
        self._cursors.append(self._cursor)

    def _log_path(self, segments: int) -> Path:
        return self.path / f"tail-{segments:06d}.log"

    def log(self, sealer: Sealer, *, new_log: bool) -> None:
        """Write the changes that are in no segment to the log; see `Sink`."""
        with self._all_or_nothing():
            self._log(sealer, new_log=new_log)

    def _log(self, sealer: Sealer, *, new_log: bool) -> None:
        new_log = new_log or sealer.needs_new_log
        # Late changes first, the entry that counts them last: after a crash in between, the end of
        # late.log is beyond `late_bytes`, and is ignored.
        waiting, late = sealer.waiting(new_log=new_log)
        record, self._logged = self._since(self._cursor if new_log else self._logged)
        path = self._log_path(len(self.segments))
        with self._writing(path):
            if len(late.time_ns):
                with open_inside(self.path / "late.log", "ab") as file:
                    file.writelines(blocks({"late": True}, late))
                    self._late_bytes = file.tell()
            record |= {
                "late_bytes": self._late_bytes,
                "replaced": sealer.replaced,
                "capacity": sealer.capacity,
                "position": self._journal.saved_position(),
                "done": self._journal.done(sealer.batch_rows),
                "later": self._journal.scheduled_changes(),
            }
            if self._events is not None and (events := self._events.log()):
                record["events"] = events
            if new_log:
                self._replace(path.name, *blocks(record, waiting))
            else:
                with open_inside(path, "ab") as file:
                    file.writelines(blocks(record, waiting))
        self._next_log_s = time.monotonic() + _LOG_EVERY_S

    def tick(self, sealer: Sealer) -> None:
        """Log new changes if the last entry is old enough; called between operations."""
        self.check()
        sealer.seal_full()
        if self._contents.events.is_full:
            self.seal_events(sealer)
        if time.monotonic() >= self._next_log_s or sealer.needs_new_log:
            self.log(sealer, new_log=False)

    @property
    def quiet_ns(self) -> int:
        """For how long `tick` does nothing, unless there are as many changes as in a segment."""
        if self._contents.store.sealer.needs_new_log:
            return 0
        return int((self._next_log_s - time.monotonic()) * 1e9)

    def log_at_next_event(self) -> None:
        """Log new changes when the next event begins."""
        self._next_log_s = 0.0

    def sync(self, sealer: Sealer) -> None:
        """Log new changes and fsync."""
        self.log(sealer, new_log=False)
        with self._all_or_nothing(), self._writing(self.path):
            logs = [self._log_path(len(self.segments)), self.path / "late.log"]
            for path in [*(self._events.logs() if self._events else ()), *logs]:
                if path.exists():
                    sync(path)
            sync(self.path)

    def rewind(self, segments: int) -> None:
        """Start a new manifest that has only the first segments; see `Sink`."""
        self._rewritten = [segment.path for segment in self.segments[segments:]]
        self.segments = self.segments[:segments]
        self._ends = self._ends[: segments + 1]
        self._cursors = self._cursors[: segments + 1]
        self._cursor = self._cursors[-1]
        with self._all_or_nothing(), self._writing(self.path / "manifest.new"):
            kept = (self.path / "manifest").read_bytes()[: self._ends[-1]]
            with open_inside(self.path / "manifest.new", "wb") as file:
                file.write(kept)

    def merge_events(self) -> tuple[Description, Tables, int] | None:
        """Write the tables of all rows; return None if there are none.

        Returns:
            The columns of their file, the tables, and how many spans overlap others.
        """
        store, catalogue = self._contents.events, self._contents.catalogue
        if self._events is None or not any(rows.rows for rows in store.tables.values()):
            return None
        with self._all_or_nothing(), self._writing(self.path):
            store.seal(everything=True)
            with self._replacing("tables") as file:
                described, overlapping = merge_tables(file, store, catalogue)
        return described, StoredTables(self.path / "tables", described, catalogue), overlapping

    def _forget_events(self) -> None:
        """Remove the files of the rows that are in the tables now."""
        if self._events is not None:
            self._events.remove()
            # it is in reference cycles with the rows
            for rows in self._contents.events.tables.values():
                rows.sink = None
            self._events = None

    def close(self, finished: Snapshot, described: Description | None = None) -> None:
        """Write the tables, unless they were, and the last line; remove what is superseded."""
        # In this order: the tables are there before the line that refers to them, and the logs
        # until after the line that makes them obsolete. Only the line, or the rename, finishes the
        # history.
        with self._all_or_nothing(), self._writing(self.path):
            tables = finished.tables
            if described is None and any(
                len(table) for table in (tables.points, tables.flows, tables.spans, tables.samples)
            ):
                with self._replacing("tables") as file:
                    described = write_tables(file, tables)
            record = {
                "start_ns": finished.segments.start_ns,
                "end_ns": finished.segments.end_ns,
                "replaced": self._contents.store.sealer.replaced,
                "tables": described or [],
                "extremes": packed_extremes(finished.segments.integers(finished.kinds)),
            }
            if overview := self._write_overview(finished):
                record["overview"] = overview
            new, self._cursor = self._since(self._cursor)
            self._append({"closed": record, **new})
            if self._rewritten:
                (self.path / "manifest.new").replace(self.path / "manifest")
                sync(self.path)
            for path in self._rewritten:
                path.unlink(missing_ok=True)
                pyramid_path(path).unlink(missing_ok=True)
            for log in self.path.glob("*.log"):
                log.unlink()
            self._forget_events()
            if self._lock is not None:
                self._lock.release()
                self._lock = None  # it refers to this writer
            sync(self.path)

    def _write_overview(self, finished: Snapshot) -> dict[str, int] | None:
        """Write the overview, which the snapshot then uses; return what the manifest says of it."""
        segments, builder = finished.segments, self._contents.store.sealer.overview
        made = None if builder is None else builder.merged(self.segments, finished.kinds)
        record = None
        if made is None:
            # that of an earlier attempt to close would not match
            (self.path / overviews.NAME).unlink(missing_ok=True)
        else:
            level, segment = made
            self._replace(overviews.NAME, *overviews.packed_overview(segment))
            checksum = open_segment(self.path / overviews.NAME).checksum
            record = {"level": level, "checksum": checksum}
        range_ns = segments.start_ns, segments.end_ns
        assert isinstance(segments, SealedSegments)
        segments.overview = overviews.stored_overview(self.path, record, range_ns, None)
        return record

    def _replace(self, name: str, *parts: Any) -> None:
        """Write a file; see `_replacing`."""
        with self._replacing(name) as file:
            for part in parts:
                file.write(memoryview(part))

    @contextmanager
    def _replacing(self, name: str) -> Iterator[BinaryIO]:
        """Write a file under a temporary name, fsync it, and rename it.

        The directory is synced too: a rename is durable only then.
        """
        with _replacing(self.path / name) as file:
            yield file


def _cut(path: Path, size_bytes: int) -> None:
    """Cut a file; by its descriptor, as a process that is confined cuts none by a path."""
    with path.open("r+b") as file:
        file.truncate(size_bytes)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open_inside(temporary, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    temporary.replace(path)
    sync(path.parent)


def is_empty(path: Path) -> bool:
    """Return whether a directory contains nothing but the files that a build creates first.

    A build that was killed before it renamed its manifest leaves those.
    """
    if not path.is_dir():
        return False
    begun = {path / "segments", path / "manifest.tmp", path / LOCK_NAME}
    return set(path.iterdir()) <= begun and not any((path / "segments").glob("*"))
