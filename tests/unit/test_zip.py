"""A zip archive with one file is read as that file, from anywhere and in pieces of any size."""

from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING

import pytest

import meantime
from meantime.errors import InputError
from meantime.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONTENT = os.urandom(2000) + b"states of a history " * 5000
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]


class Pieces:
    """A pipe that delivers a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def readinto(self, buffer: memoryview) -> int:
        return self._data.readinto(buffer[: self._size])

    def close(self) -> None:
        pass


class Pipe(io.BytesIO):
    """What cannot be changed once it is written, so that sizes stand behind a file."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation

    def seek(self, at: int, whence: int = 0) -> int:
        del at, whence
        raise io.UnsupportedOperation


def zipped(
    files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, *, piped: bool = False
) -> bytes:
    target = Pipe() if piped else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def unzipped(data: bytes, piece: int = 1 << 16) -> tuple[bytes, bool]:
    """Return the content, and whether it is cut."""
    source = Source("a.zip", Pieces(data, piece))
    return bytes(source.whole()), source.truncated


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("method", METHODS)
def test_the_only_file_is_read(method: int, piece: int) -> None:
    files = {"a/": b"", "a/b.json": CONTENT, "__MACOSX/a/._b.json": b"x", "a/.DS_Store": b"y"}

    assert unzipped(zipped(files, method), piece) == (CONTENT, False)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_file_whose_size_stands_behind_it_is_read(piece: int) -> None:
    assert unzipped(zipped({"a/": b"", "b": CONTENT}, piped=True), piece) == (CONTENT, False)


def test_a_large_file_has_its_size_elsewhere() -> None:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive,
        archive.open("a", "w", force_zip64=True) as file,
    ):
        file.write(CONTENT)

    assert unzipped(target.getvalue()) == (CONTENT, False)


@pytest.mark.parametrize("method", METHODS)
def test_a_cut_archive_is_cut(method: int) -> None:
    data = zipped({"a": CONTENT}, method)
    for end in (4, 29, 31, 500, len(data) // 2):
        content, truncated = unzipped(data[:end])
        assert CONTENT.startswith(content)
        assert truncated


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (zipped({"a": b"1", "b": b"2"}), r"it has several files \(a, b\): unpack it"),
        (zipped({"a": b"1"}, zipfile.ZIP_BZIP2), r"a in it is compressed in an unusual way \(12\)"),
        (zipped({"a": b"1"}, zipfile.ZIP_STORED).replace(b"a1", b"a2", 1), "its checksum is wrong"),
        (zipped({"a": b"1"})[:6] + b"\1" + zipped({"a": b"1"})[7:], "a in it is encrypted"),
        (zipped({"a": CONTENT}).replace(b"PK\1\2", b"none"), "is followed by other data"),
    ],
)
def test_what_cannot_be_read_of_an_archive_is_said(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=f"the zip archive cannot be read .*{message}"):
        unzipped(data)


def test_what_does_not_count_may_not_be_large() -> None:
    with pytest.raises(InputError, match="what macOS adds takes more than"):
        unzipped(zipped({"__MACOSX/a": bytes(1 << 25), "a": b"1"}))


def test_a_trace_in_an_archive_is_opened(root: Path, tmp_path: Path) -> None:
    states = (root / "tests" / "samples" / "statemap" / "tokio-workers.statemap").read_bytes()
    (path := tmp_path / "a.zip").write_bytes(zipped({"b/workers.statemap": states}))
    (plain := tmp_path / "workers.statemap").write_bytes(states)

    assert repr(meantime.stats(meantime.open(path)).rows) == repr(
        meantime.stats(meantime.open(plain)).rows
    )


def test_an_archive_without_files_is_empty(tmp_path: Path) -> None:
    (path := tmp_path / "a.zip").write_bytes(zipped({"a/": b""}))

    with pytest.raises(InputError, match="the input is empty"):
        meantime.open(path)
