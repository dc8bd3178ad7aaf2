"""A history on disk, `NAME.mth/`: writing it, reading it back, checking and salvaging it.

- `write`, `resume`, `upgrade`, `lock`: how a directory gets its files, and who may write.
- `read`, `read_logs`, `open`, `check`: the manifest and what it lists, into `loaded`.
- `manifest`, `delta`: the lines of the manifest; names and metadata in them. A new field of the
  metadata changes `delta`, a new kind of checksum `manifest`.
- `container`: alignment, headers, checksums and bounds of the files of columns: `segments` with
  `segment_index`, `pyramids`, `overviews`, `tables` and `stored_tables`, and `event_files` of what
  is unfinished.
- `answers`: what earlier questions to a finished history left, the only files that reading writes.
- `packed`, `tail_log`: columns in a line of JSON; the changes that wait for a segment.

Reading a directory does not construct a builder. `read_directory` returns a `LoadedHistory`: open
segments, names, metadata, and for an unfinished history also its logs and the state of its
journal. A finished history is queried from that. An unfinished one is put into `Contents`, as for
resuming, because its log is not sorted. Only salvaging constructs a builder, since it writes a
history.
"""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.stores import is_url

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["is_history", "is_joined", "is_stored_history"]


def is_history(path: str | PathLike[str]) -> bool:
    """Return whether a path is a history's directory."""
    return (Path(path) / "manifest").is_file()


def is_stored_history(path: str | PathLike[str]) -> bool:
    """Return whether a path is the URL of a history: one that ends in `.mth`."""
    return is_url(path) and fspath(path).rstrip("/").endswith(".mth")


def is_joined(path: str | PathLike[str]) -> bool:
    """Return whether a path is the file of a joined history, `NAME.mtj`."""
    return Path(path).suffix == ".mtj"
