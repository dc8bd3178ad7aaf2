"""How the file of a summary begins: known where summaries themselves are not imported."""

from __future__ import annotations

import os

from meantime.files import open_regular

__all__ = ["BEGINS", "is_summary"]

# The version follows.
BEGINS = b"meantime summary "


def is_summary(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a file that begins as a summary does."""
    if not os.path.isfile(path):  # noqa: PTH113 - it also takes texts that cannot be paths
        return False
    try:
        with open_regular(path) as file:
            return file.read(len(BEGINS)) == BEGINS
    except OSError:
        return False
