"""Inputs: a file, a pipe or standard input, decompressed as its first bytes require.

A `Source` returns its bytes in blocks, in bounded memory whatever the compression ratio, or all at
once. A byte order mark of UTF-8 is not among them, so no reader has to expect one.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from meantime.errors import InputError
from meantime.readers.decompress import Decompressor, compression_of
from meantime.readers.file_text import FileText, zeros_in
from meantime.stores import StoreFile, is_url, store_url
from meantime.system_calls import read_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

__all__ = ["HEAD_BYTES", "Source", "open_source"]

HEAD_BYTES = 1 << 16
_PIECE_BYTES = 1 << 24
_AGAIN_BYTES = 1 << 20
_MOST_IN_MEMORY = 1 << 26
# Traces compress to a tenth, at best to a hundredth of their size; more than this is a zip bomb.
_MOST_EXPANDED = 300
_EXPANDED_FREELY = 1 << 30
# The same for readers that make objects, or rows of text of any width, which take more than the
# columns of others.
_MOST_OBJECTS_EXPANDED = 100
_OBJECTS_EXPANDED_FREELY = 1 << 26
_MARK = b"\xef\xbb\xbf"
STANDARD_INPUT = "standard input"


class _File(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...

    def close(self) -> None: ...


class Source:
    """An open input: its name, its beginning, and its decompressed bytes.

    Attributes:
        name: The name given by the user; error messages begin with it.
        path: Its path, if it is a regular file that can be opened again.
        stored_bytes: Its size as stored; None for pipes.
        is_text: Whether it is text, in which zero bytes are damage: they are counted. The reader
            of the format says so.
        most_memory: How many bytes it may expand to, and the objects made of it may take, whatever
            its size is; None is what is usual.
        makes_objects: Whether the reader makes objects of its records, and not columns, or columns
            that are as much larger. The reader of the format says so.
    """

    def __init__(
        self,
        name: str,
        file: _File,
        *,
        path: str | None = None,
        stored_bytes: int | None = None,
        descriptor: int | None = None,
        lenient: bool = False,
    ) -> None:
        self.name = name
        self.path = path
        self.stored_bytes = stored_bytes
        self.most_memory: int | None = None
        self.makes_objects = False
        self._file = file
        self._descriptor = descriptor
        self._read_bytes = 0
        self._taken = False
        self.is_text = False
        self._zero_bytes = 0
        self._expanded_bytes = 0
        self._text: FileText | None = None
        self._decompressor: Decompressor | None = None
        beginning = self._read_stored()
        if compression := compression_of(beginning):
            pieces = iter([beginning])
            self._decompressor = Decompressor(
                name,
                compression,
                lambda: next(pieces, b"") or self._read_stored(),
                lenient=lenient,
            )
            beginning = self._begun(b"", len(_MARK))
        self._mark_bytes = len(_MARK) if beginning.startswith(_MARK) else 0
        self._beginning = beginning[self._mark_bytes :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the results of `text` and `whole` stay valid."""
        if self._decompressor is not None:
            self._decompressor.close()
        # closing standard input would close it for the whole process, such as a REPL's
        if self.name != STANDARD_INPUT:
            self._file.close()

    @property
    def read_bytes(self) -> int:
        """The number of bytes read so far, as stored."""
        return self._read_bytes

    @property
    def truncated(self) -> bool:
        """Whether compressed data ended too early; final once everything is read."""
        return self._decompressor is not None and self._decompressor.truncated

    @property
    def damaged(self) -> bool:
        """Whether compressed data are damaged, and what is behind that was not read."""
        return self._decompressor is not None and self._decompressor.damaged

    @property
    def zero_bytes(self) -> int:
        """The number of zero bytes in what was read of a text."""
        return self._zero_bytes + (0 if self._text is None else self._text.zero_bytes)

    @property
    def is_compressed(self) -> bool:
        """Whether its bytes are decompressed while they are read."""
        return self._decompressor is not None

    def head(self) -> bytes:
        """Return the first `HEAD_BYTES`, or all if there are fewer; `readinto` returns them again.

        Call it before anything else is read.
        """
        self._beginning = self._begun(self._beginning, HEAD_BYTES)
        return self._beginning

    def _begun(self, beginning: bytes, size: int) -> bytes:
        """Return the beginning of the input and what follows, `size` bytes if there are."""
        pieces = [beginning]
        room = size - len(beginning)
        while room > 0:
            piece = bytearray(room)
            if not (count := self._fill(memoryview(piece))):
                break
            pieces.append(bytes(piece[:count]))
            room -= count
        return b"".join(pieces)

    def readinto(self, buffer: memoryview) -> int:
        """Read the next bytes into the buffer and return how many; 0 at the end.

        Raises:
            InputError: If the input cannot be read, its compressed data are damaged, or they expand
                too much.
        """
        self._taken = True
        if self._beginning:
            count = min(len(buffer), len(self._beginning))
            buffer[:count] = self._beginning[:count]
            self._beginning = self._beginning[count:]
        else:
            count = self._fill(buffer)
        self._expanded_bytes += count
        self._check_expansion()
        if self.is_text:
            self._zero_bytes += zeros_in(buffer[:count])
        return count

    @property
    def can_repeat(self) -> bool:
        """Whether `again` can return what was read: of a file that is not compressed."""
        return self._descriptor is not None and self._decompressor is None

    def again(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes in a range that was read before, in pieces.

        They are fewer if the file is shorter by now.

        Raises:
            InputError: If the file cannot be read.
        """
        start, stop = start + self._mark_bytes, stop + self._mark_bytes
        while start < stop:
            assert self._descriptor is not None
            try:
                piece = read_at(self._descriptor, min(stop - start, _AGAIN_BYTES), start)
            except OSError as error:
                raise InputError(self.name, _reason(error)) from error
            if not piece:
                return
            yield piece
            start += len(piece)

    def text(self) -> FileText | memoryview:
        """Return random access to all bytes, read on demand from a file.

        What is compressed or comes from a pipe is in memory, or from 64 MiB on in a temporary
        file, which nothing else can open. It stays valid when the source is closed.

        Raises:
            InputError: As `whole` does, or if there is no room for the temporary file.
        """
        assert not self._taken
        if self._descriptor is not None and self.stored_bytes and self._decompressor is None:
            size = self.stored_bytes - self._mark_bytes
            text = FileText(self.name, self._descriptor, size, self._mark_bytes)
            text.is_counted = self.is_text
            self._text = text
            return text
        pieces, ended = self._pieces(_MOST_IN_MEMORY)
        return _joined(pieces) if ended else self._in_temporary_file(pieces)

    def _in_temporary_file(self, pieces: list[memoryview]) -> FileText:
        from tempfile import TemporaryFile  # noqa: PLC0415 - only for large inputs

        from meantime.files import lasting_folder  # noqa: PLC0415 - as above

        folder = lasting_folder()
        size = 0
        try:
            with TemporaryFile(dir=folder) as file:
                while pieces:
                    for piece in pieces:
                        file.write(piece)
                        size += len(piece)
                    pieces = [piece] if len(piece := self._piece()) else []
                file.flush()
                return FileText(self.name, file.fileno(), size)
        except OSError as error:
            raise InputError(
                self.name,
                f"its decompressed bytes, more than {size:,}, cannot be written to {folder}"
                f" ({error.strerror}): decompress it first, or set TMPDIR to another directory",
            ) from error

    def whole(self) -> memoryview:
        """Return everything in memory, before anything else is read.

        A file is not mapped: see `file_text`.

        Raises:
            InputError: If the input cannot be read, becomes shorter while it is, or expands to
                more than 1 GiB and 300 times what is stored.
        """
        assert not self._taken
        # a size of 0 may be wrong: that of files in /proc is
        if self.stored_bytes and self._decompressor is None:
            return self._whole_file(self.stored_bytes - self._mark_bytes)
        return _joined(self._pieces(None)[0])

    def _pieces(self, most: int | None) -> tuple[list[memoryview], bool]:
        """Return all pieces, or those until more than `most` bytes; and whether these are all."""
        pieces: list[memoryview] = []
        size = 0
        while most is None or size <= most:
            if not len(piece := self._piece()):
                return pieces, True
            pieces.append(piece)
            size += len(piece)
        return pieces, False

    def _whole_file(self, size: int) -> memoryview:
        data = _memory(size)
        at = 0
        while at < size and (count := self.readinto(data[at : at + _PIECE_BYTES])):
            at += count
        if at < size:
            raise InputError(
                self.name,
                f"the file became shorter while it was read: {at:,} of {size:,} bytes are left",
            )
        return data

    def _piece(self) -> memoryview:
        """Return the next piece; empty at the end."""
        data = _memory(_PIECE_BYTES)
        size = 0
        while size < len(data) and (count := self.readinto(data[size:])):
            size += count
        # the buffer of a short last piece would stay in memory with it
        if 2 * size < len(data):
            return memoryview(bytes(data[:size]))
        return data[:size]

    def _check_expansion(self) -> None:
        if self._decompressor is None:
            return
        freely, times = (
            (_OBJECTS_EXPANDED_FREELY, _MOST_OBJECTS_EXPANDED)
            if self.makes_objects
            else (_EXPANDED_FREELY, _MOST_EXPANDED)
        )
        size = self._expanded_bytes
        if size > max(freely, times * self._read_bytes, self.most_memory or 0):
            raise InputError(
                self.name,
                f"its {self._read_bytes:,} compressed bytes expand to more than {size:,}, over"
                f" {times} times as many: if you trust the file, allow it with --memory SIZE, or"
                " memory=BYTES from Python",
            )

    def _fill(self, buffer: memoryview) -> int:
        if self._decompressor is not None:
            return self._decompressor.readinto(buffer)
        return self._fill_stored(buffer)

    def _fill_stored(self, buffer: memoryview) -> int:
        try:
            count = self._file.readinto(buffer) or 0
        except OSError as error:
            raise InputError(self.name, _reason(error)) from error
        self._read_bytes += count
        return count

    def _read_stored(self) -> bytes:
        """Return the next stored bytes, at least 8 unless the input ends; b"" at the end.

        A pipe may deliver single bytes, but the magic of a compression must be complete.
        """
        block = bytearray(HEAD_BYTES)
        size = 0
        while size < 8 and (count := self._fill_stored(memoryview(block)[size:])):
            size += count
        return bytes(block[:size])


def _joined(pieces: list[memoryview]) -> memoryview:
    if len(pieces) == 1:
        return pieces[0]
    # Each piece is freed once it is copied, so at most one exists twice.
    data = _memory(sum(map(len, pieces)))
    at = 0
    for number, piece in enumerate(pieces):
        data[at : at + len(piece)] = piece
        at += len(piece)
        pieces[number] = memoryview(b"")
        del piece
    return data


def _memory(size: int) -> memoryview:
    """Return uninitialised memory."""
    import numpy as np  # noqa: PLC0415 - recognising a format needs no NumPy

    return np.empty(size, np.uint8).data


def open_source(path: str | os.PathLike[str], *, lenient: bool = False) -> Source:
    """Open the input at a path; `-` is standard input.

    Args:
        path: The file, a URL, or `-`.
        lenient: Whether compressed data end where they are damaged, instead of being refused.

    Raises:
        InputError: If it does not exist, is a directory, or cannot be read.
        MissingExtraError: If it is a URL, and what reads it is not installed.
    """
    path = os.fspath(path)
    if is_url(path):
        stored = StoreFile(path)
        try:
            return Source(store_url(path), stored, stored_bytes=stored.size, lenient=lenient)
        except BaseException:
            stored.close()
            raise
    if path == "-":
        if sys.stdin is None:
            raise InputError(STANDARD_INPUT, "it is closed")
        return Source(STANDARD_INPUT, cast("_File", sys.stdin.buffer), lenient=lenient)
    try:
        # unbuffered: blocks are large, and a buffer would copy each of them once more
        file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - the source closes it
        status = os.fstat(file.fileno())
    except (OSError, ValueError) as error:
        raise InputError(path, _reason(error)) from error
    try:
        if stat.S_ISREG(status.st_mode):
            return Source(
                path,
                file,
                path=path,
                stored_bytes=status.st_size,
                descriptor=file.fileno(),
                lenient=lenient,
            )
        return Source(path, file, lenient=lenient)
    except BaseException:
        file.close()
        raise


def _reason(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "there is no such file"
        case IsADirectoryError():
            return "it is a directory; give a file in it"
        case PermissionError():
            return "it may not be read (permission denied)"
        case OSError(strerror=str(text)):
            return f"it cannot be read ({text})"
    return f"it cannot be read ({error})"
