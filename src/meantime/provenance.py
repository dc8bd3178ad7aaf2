"""What a history is made of: an input told from any other by its contents, and a provider."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import InputError

if TYPE_CHECKING:
    import os

__all__ = ["can_be_read_again", "fingerprint"]

# Smaller inputs are read whole; of larger ones so many blocks, so that asking stays cheap.
_WHOLE_BYTES = 1 << 26
_BLOCKS = 256
_BLOCK_BYTES = 1 << 16


def can_be_read_again(path: str | os.PathLike[str]) -> bool:
    """Return whether an input is a file or a directory, not a pipe."""
    place = Path(path)
    return str(path) != "-" and (place.is_file() or place.is_dir())


def fingerprint(path: str | os.PathLike[str]) -> str | None:
    """Return what tells an input from another; None if it can be read only once, as a pipe.

    Of a large file that is when it was changed, its size, and parts of its contents.

    Raises:
        InputError: If it cannot be read.
    """
    place = Path(path)
    if not can_be_read_again(path):
        if str(path) == "-" or place.exists():
            return None
        raise InputError(str(path), "there is no such file")
    digest = hashlib.blake2b(digest_size=16)
    try:
        parts = sorted(part for part in place.rglob("*") if part.is_file())
        for part in parts:
            digest.update(f"{part.relative_to(place)}\0".encode())
            _add(digest, part)
        if place.is_file():
            _add(digest, place)
    except OSError as error:
        raise InputError(str(path), f"it cannot be read ({error.strerror})") from None
    return digest.hexdigest()


def _add(digest: hashlib.blake2b, path: Path) -> None:
    with path.open("rb") as file:
        status = path.stat()
        size = status.st_size
        digest.update(f"{size}\0".encode())
        if size <= _WHOLE_BYTES:
            while block := file.read(1 << 20):
                digest.update(block)
            return
        digest.update(f"{status.st_mtime_ns}\0".encode())
        for part in range(_BLOCKS):
            file.seek(part * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
