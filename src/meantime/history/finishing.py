"""From all that was put in to the finished history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meantime.history.pyramid import Pyramids
from meantime.history.sealed import SealedSegments

if TYPE_CHECKING:
    from meantime.history.contents import Contents
    from meantime.history.directory.write import DirectoryWriter
    from meantime.history.snapshot import Snapshot
    from meantime.history.tables import Tables

__all__ = ["finish"]


def finish(
    contents: Contents, directory: DirectoryWriter | None, end_ns: int | None, tables: Tables | None
) -> Snapshot:
    """Return the finished history, which is closed in its directory, if it has one."""
    merged = directory.merge_events() if directory is not None and tables is None else None
    if merged is None:
        finished, described = contents.finish(end_ns, tables), None
    else:
        described, tables, overlapping = merged
        finished = contents.finish(end_ns, tables, overlapping)
    segments = finished.segments
    assert isinstance(segments, SealedSegments)
    if directory is None:
        segments.pyramids = Pyramids(segments, segments.segments, finished.kinds)
        return finished
    from meantime.history.directory.answers import Answers  # noqa: PLC0415 - as below
    from meantime.history.directory.open import open_history  # noqa: PLC0415 - as below
    from meantime.history.segment import Limits  # noqa: PLC0415 - not for a history in memory

    directory.close(finished, described)
    limits = Limits(finished.kinds, len(finished.strings), len(finished.tags))
    segments.pyramids = Pyramids(segments, directory.segments, limits.kinds, limits)
    range_ns = segments.start_ns, segments.end_ns
    answers = Answers(directory.path, directory.segments, range_ns)
    return replace(finished, kept=(open_history, directory.path), answers=answers)
