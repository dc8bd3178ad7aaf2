"""Opening a history on disk, finished or being built by another process."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meantime.history.contents import Contents
from meantime.history.directory.read import fingerprint, read_directory
from meantime.history.directory.write import is_empty
from meantime.history.history import History
from meantime.history.pyramid import Pyramids
from meantime.history.snapshot import Snapshot
from meantime.history.tables import unpack
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from os import PathLike

    from meantime.columns import Int32s
    from meantime.history.directory.read import LoadedHistory

__all__ = ["is_history", "is_unfinished", "open_history"]


def is_history(path: str | PathLike[str]) -> bool:
    """Return whether a path is a history's directory."""
    return (Path(path) / "manifest").is_file()


def open_history(path: str | PathLike[str], *, salvage: bool = False) -> History:
    """Return the history in a directory; one that is being built grows between queries.

    Args:
        path: The directory.
        salvage: Use the intact part of a damaged history: all before the damage.

    Raises:
        InputError: If it is no history, is of a later version, or is damaged.
    """
    return History(_Source(Path(path), salvage=salvage))


class _Source:
    """Reads a directory again when more was written to it."""

    def __init__(self, path: Path, *, salvage: bool) -> None:
        self._path = path
        self._salvage = salvage
        # Opening a salvaged history again without salvaging would fail.
        self._place = None if salvage else path
        self._verified: set[int] = set()
        self._seen: tuple[tuple[int, ...], Snapshot] | None = None

    def __call__(self) -> Snapshot:
        there = fingerprint(self._path)
        while self._seen is None or self._seen[0] != there:
            self._seen = (there, self._read())
            # What was sealed in between is in neither the segments nor the log that were read.
            there = fingerprint(self._path)
        return self._seen[1]

    def _read(self) -> Snapshot:
        loaded = read_directory(self._path, salvage=self._salvage, verified=self._verified)
        loaded.catalogue.set_metadata("source", str(self._path))
        if loaded.closed is None:
            contents = Contents(loaded.catalogue)
            contents.restore(loaded)
            snapshot = contents.snapshot()
            assert isinstance(snapshot.segments, Segments)
            return replace(snapshot, verify=_Verifier(loaded, snapshot.segments), path=self._place)
        segments = Segments()
        for segment in loaded.segments:
            segment.add_to(segments)
        loaded.catalogue.attributes.freeze()
        segments.start_ns = loaded.closed["start_ns"]
        segments.end_ns = loaded.closed["end_ns"]
        tables = unpack(self._path / "tables", loaded.closed["tables"], loaded.catalogue)
        catalogue = loaded.catalogue
        files = list(zip(loaded.paths, loaded.checksums, strict=True))
        return Snapshot(
            segments,
            catalogue.attributes,
            catalogue.strings.names,
            loaded.kinds,
            catalogue.tags,
            tables,
            catalogue.final_metadata(loaded.replaced),
            built=True,
            verify=_Verifier(loaded, segments),
            pyramids=Pyramids(segments, loaded.segments, loaded.limits, files),
            path=self._place,
        )


class _Verifier:
    """Checks the segments that an answer depends on, each once."""

    def __init__(self, loaded: LoadedHistory, segments: Segments) -> None:
        self._loaded = loaded
        self._segments = segments
        self._bases_ns = [segment.head.base_ns for segment in loaded.segments]
        self._unchecked = set(range(len(loaded.segments)))

    def __call__(self, quarks: Int32s, start_ns: int, end_ns: int) -> None:
        """Check the segments of a range, and those with the states around it of these attributes.

        Raises:
            InputError: If one is damaged.
        """
        if not self._unchecked:
            return
        # The segments that begin in the range; that of its start is a source, where it matters.
        first = bisect_right(self._bases_ns, start_ns)
        needed = set(range(first, bisect_right(self._bases_ns, end_ns - 1)))
        if self._unchecked - needed:
            used = np.zeros(len(self._segments), np.uint8)
            self._segments.sources(quarks, start_ns, end_ns, used)
            needed.update(np.flatnonzero(used).tolist())
        for index in sorted(needed & self._unchecked):
            self._loaded.verify(index)
            self._unchecked.discard(index)


def is_unfinished(path: Path) -> bool:
    """Return whether there is a history in a directory that was not closed.

    Raises:
        InputError: If it is of a later version, or damaged.
    """
    return is_empty(path) or (is_history(path) and read_directory(path).closed is None)
