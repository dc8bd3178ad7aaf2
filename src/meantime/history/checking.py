"""Checking all of a history on disk, and saving what is whole of a damaged one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.history.changes import Changes
from meantime.history.engine import Engine
from meantime.history.loading import load
from meantime.history.pyramid import check_pyramid
from meantime.history.segment_file import check_rows
from meantime.history.tables import unpack
from meantime.kernels.search import Segments

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check", "save"]


def check(path: Path) -> tuple[int, int]:
    """Return how many segments and changes a whole history has.

    Raises:
        InputError: If something of it is missing or damaged.
    """
    engine = Engine()
    loaded = load(path, engine)
    for segment_path, segment, checksum in zip(
        loaded.paths, loaded.segments, loaded.checksums, strict=True
    ):
        check_rows(segment_path, segment)
        check_pyramid(segment_path, segment, checksum, loaded.kinds)
    if loaded.closed is not None:
        unpack(path / "tables", loaded.closed["tables"], engine.catalogue.strings.names)
    for file, place in loaded.damaged:
        raise InputError(
            str(file),
            "is damaged; `meantime check --salvage` keeps what is before it",
            offset=place,
        )
    changes = sum(segment.head.changes for segment in loaded.segments)
    return len(loaded.segments), changes + sum(len(e.changes.time_ns) for e in loaded.entries)


def save(path: Path, to: Path) -> list[str]:
    """Write a history of all that is whole before the first damage; return what is damaged.

    Raises:
        InputError: If not even the beginning is whole.
        OutputError: If the new directory exists or cannot be written.
    """
    source = Engine()
    loaded = load(path, source, salvage=True)
    missing = list(loaded.missing)
    saved = Engine(to)
    saved.catalogue = source.catalogue
    searched = Segments()
    for index, (segment_path, segment) in enumerate(
        zip(loaded.paths, loaded.segments, strict=True)
    ):
        try:
            check_rows(segment_path, segment)
        except InputError as error:
            missing.append(str(error))
            break
        segment.add_to(searched)
        changes = Changes.room(segment.head.changes)
        searched.unseal(index, *changes)
        saved.take_changes(changes.in_order(), loaded.kinds)
    else:
        for changes in (loaded.late, *(entry.changes for entry in loaded.entries)):
            saved.take_changes(changes, loaded.kinds)
    end_ns, tables = None, None
    if loaded.closed is not None:
        end_ns = None if missing else loaded.closed["end_ns"]
        try:
            names = source.catalogue.strings.names
            tables = unpack(path / "tables", loaded.closed["tables"], names)
        except InputError as error:
            missing.append(str(error))
    saved.close(end_ns, tables=tables)
    return missing
