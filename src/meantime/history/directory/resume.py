"""Beginning a history in a directory, or resuming the unfinished one that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import HistoryClosedError, HistoryError, InputError
from meantime.history.directory.event_files import StoredBlock
from meantime.history.directory.loaded import VERSION
from meantime.history.directory.read import read_directory
from meantime.history.directory.write import DirectoryWriter

if TYPE_CHECKING:
    from pathlib import Path

    from meantime.history.contents import Contents
    from meantime.history.journal import Journal

__all__ = ["open_writer"]


def open_writer(
    path: Path, contents: Contents, journal: Journal, *, resume: bool, reorder_ns: int
) -> DirectoryWriter:
    """Return the writer of a directory; the contents are stored through it from now on.

    Args:
        path: The directory.
        contents: What is to be written; receives the contents of an unfinished history.
        journal: Supplies the position to be saved; receives that of an unfinished history.
        resume: Resume the unfinished history in the directory, if there is one.
        reorder_ns: How late changes may come; such a history cannot be resumed.

    Raises:
        HistoryError: If the unfinished history cannot be resumed.
        InputError: If it is damaged.
        OutputError: If the directory exists and is not to be resumed, or cannot be written.
    """
    writer = DirectoryWriter(path, contents, journal)
    try:
        if resume and (path / "manifest").exists():
            _resume(writer, contents, journal, reorder_ns=reorder_ns)
        else:
            writer.create()
            contents.store.keep_in(writer)
            writer.keep_events()
    except BaseException:
        writer.leave()
        raise
    return writer


def _resume(
    writer: DirectoryWriter, contents: Contents, journal: Journal, *, reorder_ns: int
) -> None:
    path = writer.path
    # Before reading: a builder that still runs could change what is read.
    writer.lock()
    if reorder_ns:
        raise HistoryError(f"{path}: the changes delayed by reorder_ns are lost: rebuild it")
    loaded = read_directory(path, catalogue=contents.catalogue)
    if loaded.closed is not None:
        raise HistoryClosedError(f"{path}: this history was closed: it accepts no more changes")
    if loaded.version != VERSION:
        raise HistoryError(
            f"{path}: is of version {loaded.version} of the format, and would continue in"
            f" {VERSION}: rebuild it"
        )
    # The first entry of a log comes with its segment, and has the position and the journal. Without
    # it, operations that took effect would be repeated.
    if loaded.segments and not loaded.entries:
        raise InputError(
            str(path), "the log of what came after the last segment is lost: rebuild it"
        )
    # In this order: a sink replaces the tail, and `restore` fills it.
    contents.store.keep_in(writer)
    contents.restore(loaded)
    journal.restore(loaded.position, loaded.done, loaded.scheduled)
    writer.resume(loaded)
    for rows in contents.events.tables.values():
        for block in rows.blocks:
            assert isinstance(block, StoredBlock)
            # the table is made of them without checking again
            block.check()
            block.limits = None
    writer.keep_events(loaded)
