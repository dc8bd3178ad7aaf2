"""Notes of a session, in a small JSON file beside the first trace."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from meantime.errors import MeantimeError
from meantime.files import mode_of, write_whole
from meantime.stores import is_url

__all__ = ["MOST_BYTES", "TOO_LARGE", "ChangedError", "Notes", "ReadOnlyError"]

# Of the file, and of what a page may send.
MOST_BYTES = 1 << 20
TOO_LARGE = "these notes have more than 1 MB"


class ReadOnlyError(MeantimeError):
    """Notes cannot be written."""


class ChangedError(MeantimeError):
    """Notes were changed since they were read."""


class Notes:
    """The notes in a file.

    Args:
        trace: The trace that they are beside; empty for one that has no folder.
    """

    def __init__(self, trace: str) -> None:
        self._path = None
        self._trace = trace
        if trace and trace != "-" and not is_url(trace):
            # without symbolic links: the folder of the trace itself, under its own name
            path = Path(trace).resolve()
            self._path = path.with_name(f"{path.name}.notes.json")
        self._lock = Lock()

    def reason(self) -> str | None:
        """Return why notes cannot be written; None if they can."""
        if self._path is None:
            return "notes are kept beside the first file that was named, and none was"
        folder = self._path.parent
        target = self._path if self._path.exists() else folder
        if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
            return f"notes cannot be kept: {folder} is read-only"
        return None

    def read(self) -> tuple[list[Any], str]:
        """Return the notes, and a digest of them.

        Raises:
            MeantimeError: If the file is not one of notes.
        """
        try:
            data = b"" if self._path is None else _content(self._path)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise MeantimeError(f"{self._path}: cannot be read: {error.strerror}") from None
        return self._parsed(data) if data else [], _digest(data)

    def _parsed(self, data: bytes) -> list[Any]:
        try:
            return _checked(data)
        except MeantimeError as error:
            raise MeantimeError(
                f"{self._path}: {error}; rename it, and the next note makes a new one"
            ) from None

    def write(self, data: bytes, expected: str) -> str:
        """Replace the notes, which must be those with this digest; return the new digest.

        Raises:
            ChangedError: If they were changed in the meantime.
            MeantimeError: If the data are not notes.
            ReadOnlyError: If they cannot be written.
        """
        text = json.dumps({"notes": _checked(data)}, indent=1).encode()
        if len(text) > MOST_BYTES:
            # the file is longer than what the page sent, and could not be read again
            raise MeantimeError(TOO_LARGE)
        with self._lock:
            if (reason := self.reason()) is not None or self._path is None:
                raise ReadOnlyError(reason or "")
            if self.read()[1] != expected:
                raise ChangedError("the notes were changed by another page: read them again")
            try:
                write_whole(self._path, [text], mode_of([self._trace]))
            except OSError as error:
                raise ReadOnlyError(f"{self._path}: cannot be written: {error.strerror}") from None
        return _digest(text)


def _content(path: Path) -> bytes:
    """Return what is in a file; of one that is too large, only enough to see that."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _checked(data: bytes) -> list[Any]:
    """Return the notes in a JSON document.

    Raises:
        MeantimeError: If there are none, or too many.
    """
    if len(data) > MOST_BYTES:
        raise MeantimeError(TOO_LARGE)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    notes = found.get("notes") if isinstance(found, dict) else None
    if not isinstance(notes, list) or not all(isinstance(note, dict) for note in notes):
        raise MeantimeError('this is not a file of notes, {"notes": [...]}')
    return notes
