"""Which directories are CTF traces: those with the metadata of one, or with such below."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from meantime.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAGIC_2", "is_ctf", "metadata_heads"]

# Metadata of CTF 2 is a sequence of JSON; before, it was text, or packets in either byte order.
MAGIC_2 = b"\x1e"
_MAGIC = (MAGIC_2, b"/* CTF", b"\x57\x1d\xd1\x75", b"\x75\xd1\x1d\x57")
_NAME = "metadata"
_HEAD_BYTES = 1 << 16
_MOST_DEPTH = 6
_MOST_DIRECTORIES = 1000


def is_ctf(path: Path) -> bool:
    """Return whether a directory is a CTF trace, or contains the traces of a session."""
    return any(True for _ in metadata_heads(path))


def metadata_heads(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the directories of traces, this one or those below, with 64 KiB of their metadata."""
    waiting = [(path, 0)]
    for _ in range(_MOST_DIRECTORIES):
        if not waiting:
            return
        folder, depth = waiting.pop()
        with suppress(OSError):
            own = folder / _NAME
            if own.is_file():
                with open_regular(own) as file:
                    head = file.read(_HEAD_BYTES)
                if head.startswith(_MAGIC):
                    yield folder, head
            elif depth < _MOST_DEPTH:
                below = sorted(each for each in folder.iterdir() if each.is_dir())
                waiting += [(each, depth + 1) for each in below if not each.is_symlink()]
