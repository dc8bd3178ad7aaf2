"""Answers that a finished history keeps: what took a look at everything once.

Statistics of 100 million changes take 0.3 s, and what is asked about a history is asked again, by
another command. So what such an answer follows from is kept beside the segments, in files of its
own: a copy of the history has them, and what removes it removes them. They are not written while
the history is built: counting takes a fifteenth of what building takes, by attribute it needs all
rows in memory, and most histories are never asked.

A file is written under a temporary name and renamed, readable for those who may read the manifest.
Nobody writes into a history of another user, and what cannot be written is not kept. A file that
is damaged, or of other segments, is not used.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from meantime.errors import InputError
from meantime.files import belongs_to_another, folder_of_mode, mode_of, write_whole
from meantime.history.directory.container import (
    HEADER_BYTES,
    ContainerFile,
    Section,
    pack_arrays,
    pack_header,
    views,
)
from meantime.kernels.checksum import crc32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from meantime.history.directory.segments import StoredSegment

__all__ = ["FOLDER", "Answers", "check_answers"]

FOLDER = "answers"
_MAGIC = b"MTANS\0\0\1"
# Magic, what it is an answer of, the bytes of the description, the checksum of all behind the
# header, and that of the header.
_HEADER = Struct("<8s16sIII")
_ADVICE = "answers do without it: it may be removed"
_DTYPES = {"u1", "i4", "i8", "u8"}
_MOST_BYTES = 2**25
_MOST_FILES = 16


class Answers:
    """The answers that are kept with a history.

    Args:
        path: The directory of the history.
        segments: Its segments.
        range_ns: When it begins and ends.
    """

    def __init__(
        self, path: Path, segments: Sequence[StoredSegment], range_ns: tuple[int, int]
    ) -> None:
        self._path = path
        checksums = [segment.checksum for segment in segments]
        self._identity = blake2b(repr((checksums, range_ns)).encode(), digest_size=16).digest()

    def find(self, question: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return what was kept for a question; None if there is nothing."""
        path = self._path_of(question)
        if not path.exists():
            return None
        try:
            identity, asked, arrays = _read(path)
        except InputError as error:
            import logging  # noqa: PLC0415 - 2 ms, for damaged files only

            logging.getLogger("meantime").warning("%s", error)
            return None
        return arrays if (identity, asked) == (self._identity, question) else None

    def keep(self, question: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep arrays of uint8, int32, int64 or uint64 for a question, unless they are large."""
        listed = [[name, array.dtype.str[1:], len(array)] for name, array in arrays.items()]
        text = json.dumps({"question": question, "arrays": listed}).encode()
        parts = [*pack_arrays([np.frombuffer(text, np.uint8)]), *pack_arrays(arrays.values())]
        if sum(map(len, parts)) > _MOST_BYTES:
            return
        body_crc = 0
        for part in parts:
            body_crc = crc32(part, body_crc)
        header = pack_header(_HEADER, _MAGIC, self._identity, len(text), body_crc)
        path = self._path_of(question)
        # the history may be of another user, in use or on a medium that is only read
        with suppress(OSError):
            if belongs_to_another(self._path):
                return
            mode = mode_of([self._path / "manifest"])
            folder_of_mode(path.parent, mode)
            if path.exists() or len([*path.parent.iterdir()]) < _MOST_FILES:
                write_whole(path, [header, *parts], mode)

    def _path_of(self, question: str) -> Path:
        name = blake2b(question.encode(), digest_size=8).hexdigest()
        return self._path / FOLDER / f"{name}.ans"


def check_answers(path: Path) -> None:
    """Check that no kept answer is damaged.

    Raises:
        InputError: If one is.
    """
    for each in sorted((path / FOLDER).glob("*.ans")):
        _read(each)


def _read(path: Path) -> tuple[bytes, str, dict[str, npt.NDArray[Any]]]:
    """Return which history an answer is of, the question and the arrays.

    Raises:
        InputError: If the file cannot be read, or is damaged.
    """
    file = ContainerFile(path, _ADVICE)
    identity, text_bytes, body_crc, _ = file.header(_HEADER, _MAGIC)
    if file.size_bytes - HEADER_BYTES > 2 * _MOST_BYTES:
        raise file.error("is too large")
    body = file.read(HEADER_BYTES, file.size_bytes - HEADER_BYTES)
    file.close()
    if crc32(body.data) != body_crc:
        raise file.error("is damaged", HEADER_BYTES)
    try:
        described = json.loads(body[:text_bytes].tobytes())
        question, listed = described["question"], described["arrays"]
        sections = [Section("", np.dtype("u1"), text_bytes)]
        for name, kind, length in listed:
            if kind not in _DTYPES or type(length) is not int or length < 0:
                raise ValueError(f"an array is {kind!r}")  # noqa: TRY301 - as all that is wrong
            sections.append(Section(name, np.dtype(kind), length))
        arrays = views(body, sections)
    except (ValueError, KeyError, TypeError) as error:
        raise file.error(f"is invalid: {error}", HEADER_BYTES) from None
    del arrays[""]
    return identity, question, arrays
