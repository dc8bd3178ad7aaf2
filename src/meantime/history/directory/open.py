"""Opening a history on disk, finished or being built by another process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from meantime.errors import InputError
from meantime.history.damage import DamageLog
from meantime.history.directory import is_history
from meantime.history.directory.answers import Answers
from meantime.history.directory.event_files import StoredBlock
from meantime.history.directory.read import fingerprint, read_directory
from meantime.history.directory.segments import MissingSegment
from meantime.history.directory.stored_tables import StoredTables
from meantime.history.history import History
from meantime.history.pyramid import Pyramids
from meantime.history.sealed import SealedSegments
from meantime.history.snapshot import Snapshot

if TYPE_CHECKING:
    from os import PathLike

    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.directory.segments import StoredSegment
    from meantime.history.tables import Tables

__all__ = ["is_unfinished", "open_history"]


def open_history(
    path: str | PathLike[str],
    *,
    salvage: bool = False,
    lenient: bool = False,
    source: str | None = None,
) -> History:
    """Return the history in a directory; one that is being built grows between queries.

    Of a finished history, what is damaged is found when it is first needed. Without it, queries
    about other times have the same answers, except that states end where it begins. With
    `lenient`, queries about a damaged segment answer too: attributes have no state where it is
    unknown. `History.damage` has what was found.

    Args:
        path: The directory.
        salvage: Use the intact part of a damaged history: all before the damage.
        lenient: Answer queries about the intact part of a damaged history: all but the damage.
        source: What it is a copy of; None if it is none.

    Raises:
        InputError: If it is not a history, is of a later version, or is damaged.
    """
    return History(_Source(Path(path), salvage=salvage, lenient=lenient, source=source))


class _Source:
    """Reads a directory again when more was written to it."""

    def __init__(self, path: Path, *, salvage: bool, lenient: bool, source: str | None) -> None:
        self._path = path
        self._source = str(path) if source is None else source
        self._salvage = salvage
        self._lenient = lenient
        # Opening a salvaged history again without salvaging would fail.
        self._kept = None if salvage else (open_history, path)
        self._opened: dict[int, StoredSegment] = {}
        self._blocks: dict[Path, StoredBlock] = {}
        self._seen: tuple[tuple[int, ...], Snapshot] | None = None

    def __call__(self) -> Snapshot:
        there = fingerprint(self._path)
        if self._seen is None or self._seen[0] != there:
            self._seen = (there, self._read_whole(there))
        return self._seen[1]

    def _read_whole(self, there: tuple[int, ...]) -> Snapshot:
        """Return what is in the directory, read while nothing in it was replaced.

        A builder replaces its log when it seals a segment, and removes files when it finishes. What
        it appends meanwhile is left for the next time: it may append as fast as this reads.
        """
        while True:
            before, wrong = there, None
            try:
                loaded = self._read()
            except InputError as error:
                wrong = error
            there = fingerprint(self._path)
            if wrong is None and (loaded.closed is not None or loaded.entries):
                return self._snapshot(loaded)
            if there == before:
                if wrong is not None:
                    raise wrong
                return self._snapshot(loaded)

    def _read(self) -> LoadedHistory:
        loaded = read_directory(
            self._path,
            salvage=self._salvage,
            lenient=self._lenient,
            opened=self._opened,
            blocks=self._blocks,
        )
        self._opened = {segment.checksum: segment for segment in loaded.segments}
        tables = loaded.events.tables.values() if loaded.events is not None else ()
        stored = [block for rows in tables for block in rows.blocks]
        self._blocks = {block.path: block for block in stored if isinstance(block, StoredBlock)}
        return loaded

    def _snapshot(self, loaded: LoadedHistory) -> Snapshot:
        loaded.catalogue.set_metadata("source", self._source)
        if loaded.closed is None:
            return replace(_unfinished(loaded), kept=self._kept)
        catalogue, closed = loaded.catalogue, loaded.closed
        catalogue.attributes.freeze()
        range_ns = closed["start_ns"], closed["end_ns"]
        damage = DamageLog(loaded.kinds, skips=self._lenient)
        segments = SealedSegments(loaded.segments, *range_ns, damage)
        if loaded.extremes is not None:
            segments.extremes = loaded.extremes
        segments.pyramids = Pyramids(segments, segments.segments, loaded.kinds, loaded.limits)
        if "overview" in closed:
            from meantime.history.directory.overviews import stored_overview  # noqa: PLC0415 - 2 ms

            record = closed["overview"]
            segments.overview = stored_overview(self._path, record, range_ns, loaded.limits)
        for index, segment in enumerate(loaded.segments):
            if isinstance(segment, MissingSegment):
                segments.lose(index, segment, segment.error)
        tables: Tables = _stored_tables(loaded, damage)
        answers = None
        if not (self._salvage or self._lenient):
            # of all of it, whatever is damaged
            answers = Answers(self._path, loaded.segments, range_ns)
        return Snapshot(
            segments,
            catalogue.attributes,
            catalogue.strings.names,
            loaded.kinds,
            True,
            None,
            catalogue.tags,
            tables,
            catalogue.final_metadata(loaded.replaced),
            kept=self._kept,
            damage=damage,
            answers=answers,
        )


def _unfinished(loaded: LoadedHistory) -> Snapshot:
    """Return what there is of a history that was not closed.

    Raises:
        InputError: If it is damaged, unless the intact rest is to be used.
    """
    from meantime.history.contents import Contents  # noqa: PLC0415 - 10 ms, not for finished ones

    contents = Contents(loaded.catalogue)
    if not loaded.lenient:
        contents.restore(loaded)
        return contents.snapshot()
    damage = DamageLog(loaded.kinds, skips=True)
    if any(isinstance(segment, MissingSegment) for segment in loaded.segments):
        _lose_damaged(loaded, damage)
    try:
        contents.restore(loaded)
    except InputError:
        # the states at its end depend on segments that are damaged
        _lose_damaged(loaded, damage)
        contents = Contents(loaded.catalogue)
        contents.restore(loaded)
    snapshot = contents.snapshot()
    segments = snapshot.segments
    assert isinstance(segments, SealedSegments)
    segments.collect(damage)
    return replace(snapshot, damage=damage)


def _lose_damaged(loaded: LoadedHistory, damage: DamageLog) -> None:
    """Replace the damaged segments of an unfinished history by what is known without them."""
    heads = [segment.head for segment in loaded.segments]
    first = loaded.segments[0]
    if isinstance(first, MissingSegment):
        intact = [each.base_ns for each in heads[1:] if each.runs]
        first.begin_at(min([loaded.catalogue.start_ns, *intact]))
    times = [entry.changes.time_ns for entry in loaded.entries if len(entry.changes.time_ns)]
    latest = [int(time_ns.max()) for time_ns in times]
    end_ns = max([loaded.boundary_ns, *latest, *(head.last_ns for head in heads)]) + 1
    segments = SealedSegments(loaded.segments, first.head.base_ns, end_ns, damage)
    for index, segment in enumerate(loaded.segments):
        try:
            segment.load()
        except InputError as error:
            segments.lose(index, segment, error)
    # the others are only searched from now on
    loaded.segments[:] = cast("list[StoredSegment]", segments.segments)


def _stored_tables(loaded: LoadedHistory, damage: DamageLog) -> Tables:
    """Return the event tables of a finished history."""
    closed = loaded.closed
    assert closed is not None
    path = loaded.path / "tables"
    if not damage.skips:
        return StoredTables(path, closed["tables"], loaded.catalogue)
    from meantime.history.directory.intact_tables import IntactTables  # noqa: PLC0415 - 2 ms

    return IntactTables(path, closed, loaded.catalogue, damage)


def is_unfinished(path: Path) -> bool:
    """Return whether there is a history in a directory that was not closed.

    Raises:
        InputError: If it is of a later version, or damaged.
    """
    from meantime.history.directory.write import is_empty  # noqa: PLC0415 - 5 ms, for builds only

    return is_empty(path) or (is_history(path) and read_directory(path).closed is None)
