"""A history on disk, `NAME.mth/`: writing it, reading it back, checking and salvaging it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["is_history", "is_joined"]


def is_history(path: str | PathLike[str]) -> bool:
    """Return whether a path is a history's directory."""
    return (Path(path) / "manifest").is_file()


def is_joined(path: str | PathLike[str]) -> bool:
    """Return whether a path is the file of a joined history, `NAME.mtj`."""
    return Path(path).suffix == ".mtj"
