"""Opening a history on disk, finished or being built by another process."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.history.directory import is_empty
from meantime.history.engine import Engine
from meantime.history.history import History
from meantime.history.loading import fingerprint, load
from meantime.history.present import Facts, Present
from meantime.history.pyramid import Pyramids
from meantime.history.segment_file import check_rows
from meantime.history.tables import unpack
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from os import PathLike

    from meantime.history.loading import Loaded

__all__ = ["is_history", "is_unfinished", "open_history"]


def is_history(path: str | PathLike[str]) -> bool:
    """Return whether a path is a history's directory."""
    return (Path(path) / "manifest").is_file()


def open_history(path: str | PathLike[str], *, salvage: bool = False) -> History:
    """Return the history in a directory; one that is being built grows as it is asked.

    Args:
        path: The directory.
        salvage: Take what is whole of a damaged one: all before the damage.

    Raises:
        InputError: If it is no history, is of a later version, or is damaged.
    """
    return History(_Source(Path(path), salvage=salvage))


class _Source:
    """Reads a directory anew when there is more in it."""

    def __init__(self, path: Path, *, salvage: bool) -> None:
        self._path = path
        self._salvage = salvage
        self._seen: tuple[tuple[int, ...], Present] | None = None

    def __call__(self) -> Present:
        there = fingerprint(self._path)
        while self._seen is None or self._seen[0] != there:
            self._seen = (there, self._read())
            # What was sealed in between is in neither the segments nor the log that were read.
            there = fingerprint(self._path)
        return self._seen[1]

    def _read(self) -> Present:
        engine = Engine()
        loaded = load(self._path, engine, salvage=self._salvage)
        if loaded.closed is None:
            engine.restore(loaded)
            present = engine.present()
            return Present(present.segments, present.facts, built=False, verify=_Verifier(loaded))
        segments = Segments()
        for segment in loaded.segments:
            segment.add_to(segments)
        segments.start_ns = loaded.closed["start_ns"]
        segments.end_ns = loaded.closed["end_ns"]
        strings = engine.catalogue.strings.names
        tables = unpack(self._path / "tables", loaded.closed["tables"], strings)
        facts = Facts.of(engine.catalogue, loaded.kinds, tables, loaded.replaced)
        files = list(zip(loaded.paths, loaded.checksums, strict=True))
        pyramids = Pyramids(segments, loaded.segments, loaded.kinds, files)
        return Present(segments, facts, built=True, verify=_Verifier(loaded), pyramids=pyramids)


class _Verifier:
    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._bases_ns = [segment.head.base_ns for segment in loaded.segments]
        self._unchecked = set(range(len(loaded.segments)))

    def __call__(self, start_ns: int, end_ns: int) -> None:
        """Check the segments of a range, each once."""
        if not self._unchecked:
            return
        first = max(0, bisect_right(self._bases_ns, start_ns) - 1)
        for index in range(first, bisect_right(self._bases_ns, end_ns - 1)):
            if index in self._unchecked:
                check_rows(self._loaded.paths[index], self._loaded.segments[index])
                self._unchecked.discard(index)


def is_unfinished(path: Path) -> bool:
    """Return whether there is a history in a directory that was not closed.

    Raises:
        InputError: If it is of a later version, or damaged.
    """
    return is_empty(path) or (is_history(path) and load(path, Engine()).closed is None)
