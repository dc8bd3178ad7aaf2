"""Opening a history on disk, finished or being built by another process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.history.contents import Contents
from meantime.history.directory import is_history
from meantime.history.directory.read import fingerprint, read_directory
from meantime.history.directory.segments import stored_pyramids
from meantime.history.directory.stored_tables import StoredTables
from meantime.history.directory.write import is_empty
from meantime.history.history import History
from meantime.history.sealed import SealedSegments
from meantime.history.snapshot import Snapshot

if TYPE_CHECKING:
    from os import PathLike

    from meantime.history.directory.segments import StoredSegment

__all__ = ["is_unfinished", "open_history"]


def open_history(path: str | PathLike[str], *, salvage: bool = False) -> History:
    """Return the history in a directory; one that is being built grows between queries.

    Args:
        path: The directory.
        salvage: Use the intact part of a damaged history: all before the damage.

    Raises:
        InputError: If it is not a history, is of a later version, or is damaged.
    """
    return History(_Source(Path(path), salvage=salvage))


class _Source:
    """Reads a directory again when more was written to it."""

    def __init__(self, path: Path, *, salvage: bool) -> None:
        self._path = path
        self._salvage = salvage
        # Opening a salvaged history again without salvaging would fail.
        self._kept_path = None if salvage else path
        self._opened: dict[int, StoredSegment] = {}
        self._seen: tuple[tuple[int, ...], Snapshot] | None = None

    def __call__(self) -> Snapshot:
        there = fingerprint(self._path)
        while self._seen is None or self._seen[0] != there:
            self._seen = (there, self._read())
            # What was sealed in between is in neither the segments nor the log that were read.
            there = fingerprint(self._path)
        return self._seen[1]

    def _read(self) -> Snapshot:
        loaded = read_directory(self._path, salvage=self._salvage, opened=self._opened)
        self._opened = {segment.checksum: segment for segment in loaded.segments}
        loaded.catalogue.set_metadata("source", str(self._path))
        if loaded.closed is None:
            contents = Contents(loaded.catalogue)
            contents.restore(loaded)
            return replace(contents.snapshot(), path=self._kept_path)
        catalogue, closed = loaded.catalogue, loaded.closed
        catalogue.attributes.freeze()
        segments = SealedSegments(loaded.segments, closed["start_ns"], closed["end_ns"])
        if loaded.extremes is not None:
            segments.extremes = loaded.extremes
        segments.pyramids = stored_pyramids(segments, loaded.segments, loaded.limits)
        return Snapshot(
            segments,
            catalogue.attributes,
            catalogue.strings.names,
            loaded.kinds,
            True,
            None,
            catalogue.tags,
            StoredTables(self._path / "tables", closed["tables"], catalogue),
            catalogue.final_metadata(loaded.replaced),
            path=self._kept_path,
        )


def is_unfinished(path: Path) -> bool:
    """Return whether there is a history in a directory that was not closed.

    Raises:
        InputError: If it is of a later version, or damaged.
    """
    return is_empty(path) or (is_history(path) and read_directory(path).closed is None)
