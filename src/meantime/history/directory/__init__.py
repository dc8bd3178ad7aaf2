"""A history on disk, `NAME.mth/`: writing it, reading it back, checking and salvaging it."""

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
