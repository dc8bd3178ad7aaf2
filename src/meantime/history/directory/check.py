"""Checking all of a history on disk, and saving the intact part of a damaged one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.files import folder_of_mode, mode_of
from meantime.history.builder import HistoryBuilder
from meantime.history.changes import Changes, TypedChanges
from meantime.history.contents import Contents
from meantime.history.directory.answers import check_answers
from meantime.history.directory.event_files import StoredBlock
from meantime.history.directory.loaded import SALVAGE
from meantime.history.directory.overviews import check_overview
from meantime.history.directory.read import read_directory
from meantime.history.directory.stored_tables import StoredTables
from meantime.history.sealed import search_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meantime.history.directory.loaded import LoadedHistory
    from meantime.history.event_rows import Block

__all__ = ["check", "save"]


def check(path: Path) -> tuple[int, int]:
    """Return how many segments and changes an intact history has.

    Raises:
        InputError: If something of it is missing or damaged.
    """
    loaded = read_directory(path)
    try:
        loaded.catalogue.attributes.check_unique()
    except ValueError as error:
        raise InputError(str(path / "manifest"), f"is invalid: {error}; {SALVAGE}") from None
    if loaded.extremes is not None:
        loaded.extremes.resolve(loaded.kinds)
    for segment in loaded.segments:
        segment.load()
        segment.check_pyramid(loaded.limits)
    if loaded.closed is None:
        Contents(loaded.catalogue).restore(loaded)
        for block in _stored_blocks(loaded):
            block.check()
    else:
        StoredTables(path / "tables", loaded.closed["tables"], loaded.catalogue).check()
        range_ns = loaded.closed["start_ns"], loaded.closed["end_ns"]
        record = loaded.closed.get("overview")
        check_overview(path, record, range_ns, loaded.limits, loaded.segments)
        check_answers(path)
    for file, offset in loaded.damaged:
        raise InputError(
            str(file),
            "is damaged; `meantime check --salvage` recovers what is before it",
            offset=offset,
        )
    changes = sum(segment.head.changes for segment in loaded.segments)
    return len(loaded.segments), changes + sum(len(e.changes.time_ns) for e in loaded.entries)


def save(path: Path, to: Path) -> list[str]:
    """Write a history of everything before the first damage; return what is damaged.

    Raises:
        InputError: If even the beginning is damaged.
        OutputError: If the new directory exists or cannot be written.
    """
    loaded = read_directory(path, salvage=True)
    missing = list(loaded.missing)
    with suppress(OSError):  # what exists is refused by the builder
        folder_of_mode(to, mode_of([path]))
    saved = HistoryBuilder(to)
    contents = saved.contents
    contents.catalogue = loaded.catalogue
    for segment in loaded.segments:
        try:
            segment.load()
        except InputError as error:
            missing.append(str(error))
            break
        changes = Changes.room(segment.head.changes)
        search_all([segment]).unseal(0, *changes)
        contents.put_verbatim(_typed(changes.in_order(), loaded))
    else:
        for changes in (loaded.late, *(entry.changes for entry in loaded.entries)):
            contents.put_verbatim(_typed(changes, loaded))
        missing += _keep_events(contents, loaded)
    end_ns, tables = None, None
    if loaded.closed is not None:
        end_ns = None if missing else loaded.closed["end_ns"]
        try:
            stored = StoredTables(path / "tables", loaded.closed["tables"], loaded.catalogue)
            stored.check()
            tables = stored
        except InputError as error:
            missing.append(str(error))
    saved.close(end_ns, tables=tables)
    return missing


def _keep_events(contents: Contents, loaded: LoadedHistory) -> list[str]:
    """Keep the rows of event tables before the first damage; return what is damaged."""
    missing: list[str] = []
    if loaded.events is None:
        return missing
    contents.events.stacks = loaded.events.stacks
    for table, rows in loaded.events.tables.items():
        intact: list[Block] = []
        try:
            for block in rows.blocks:
                assert isinstance(block, StoredBlock)
                block.check()
                intact.append(block)
        except InputError as error:
            missing.append(str(error))
        contents.events.tables[table].text = rows.text
        whole = len(intact) == len(rows.blocks)
        contents.events.restore(table, intact, rows.parts if whole else [])
    return missing


def _stored_blocks(loaded: LoadedHistory) -> Iterator[StoredBlock]:
    tables = loaded.events.tables.values() if loaded.events is not None else ()
    for rows in tables:
        for block in rows.blocks:
            assert isinstance(block, StoredBlock)
            yield block


def _typed(changes: Changes, loaded: LoadedHistory) -> TypedChanges:
    return TypedChanges(*changes, loaded.kinds[changes.quark])
