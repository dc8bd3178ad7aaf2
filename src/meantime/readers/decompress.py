"""Decompression in bounded memory, recognised by the first bytes: gzip, Zstandard, xz, bzip2, zip.

A file may have several compressed members in a row (`cat a.gz b.gz`, `pigz`, `bgzip`); they are
read as one stream. A zip archive has one file.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from meantime.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SUFFIXES", "Decompressor", "ZstandardStream", "compression_of"]

# How the names of compressed files end.
SUFFIXES = (".gz", ".zst", ".xz", ".bz2", ".zip")

# A Zstandard block can expand 4 bytes to 128 KiB and `zstandard` has no output limit, so its input
# is in pieces that expand to 128 MiB at worst. The other libraries have a limit.
PIECE_BYTES = 1 << 12

_MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\xfd7zXZ\x00": "xz",
    b"PK\3\4": "zip",
}
# After `BZh` and a digit: a block, or the end of an empty file. Text can begin with `BZh`.
_BZIP2 = (b"1AY&", b"\x17rE8")
MAGIC_BYTES = 8
# A byte of a deflated stream expands to at most 1032.
_PIECE_ROOM = 1 << 12
_STREAM_ROOM = 1 << 22


def compression_of(beginning: bytes) -> str | None:
    """Return the compression of data that begin like this; None if they are not compressed.

    >>> compression_of(bytes.fromhex("28b52ffd04")), compression_of(b"{}")
    ('Zstandard', None)
    """
    for magic, name in _MAGIC.items():
        if beginning.startswith(magic):
            return name
    if beginning[:3] == b"BZh" and beginning[3:4].isdigit() and beginning[4:8] in _BZIP2:
        return "bzip2"
    return None


class _Member(Protocol):
    """One compressed stream within a file.

    Attributes:
        failure: The exception that its library raises for damaged data.
        has_rest: Whether what follows it belongs to it.
    """

    @property
    def failure(self) -> type[Exception]: ...

    @property
    def has_rest(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """Return the output, if possible at most `room` bytes, and the unused rest of `data`."""

    def copy(self) -> _Member | None:
        """Return a stream in the same state; None if its library cannot copy one."""


class _Gzip:
    has_rest = False

    def __init__(self) -> None:
        import zlib  # noqa: PLC0415 - needed for this compression only

        self.failure: type[Exception] = zlib.error
        self._stream = zlib.decompressobj(wbits=31)  # 16 for gzip's header, 15 for the window

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        out = self._stream.decompress(data, room)
        return out, self._stream.unused_data if self.ended else self._stream.unconsumed_tail

    def copy(self) -> _Gzip:
        other = _Gzip()
        other._stream = self._stream.copy()
        return other


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Limited:
    """A stream of a library that keeps what it was fed until its output is wanted."""

    failure: type[Exception]
    has_rest = False
    _stream: _Stream

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        if self._stream.needs_input:
            out, rest = self._stream.decompress(data[:PIECE_BYTES], room), data[PIECE_BYTES:]
        else:
            out, rest = self._stream.decompress(b"", room), data
        return out, self._stream.unused_data + rest if self.ended else rest

    def copy(self) -> None:
        return None


class _Xz(_Limited):
    def __init__(self) -> None:
        import lzma  # noqa: PLC0415 - needed for this compression only

        self.failure = lzma.LZMAError
        # a dictionary's size comes from the file: memory is limited to 1 GiB
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 30)


class _Bzip2(_Limited):
    def __init__(self) -> None:
        import bz2  # noqa: PLC0415 - needed for this compression only

        self.failure = OSError
        self._stream = bz2.BZ2Decompressor()


if sys.version_info >= (3, 14):

    class _Zstandard(_Limited):
        def __init__(self) -> None:
            from compression import zstd  # noqa: PLC0415 - needed for this compression only

            self.failure = zstd.ZstdError
            self._stream = zstd.ZstdDecompressor()

else:

    class _Zstandard:
        has_rest = False

        def __init__(self) -> None:
            import zstandard  # noqa: PLC0415 - needed for this compression only

            self.failure: type[Exception] = zstandard.ZstdError
            self._stream = zstandard.ZstdDecompressor().decompressobj()

        @property
        def ended(self) -> bool:
            return self._stream.eof

        def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
            del room
            out = self._stream.decompress(data[:PIECE_BYTES])
            rest = data[PIECE_BYTES:]
            return out, self._stream.unused_data + rest if self.ended else rest

        def copy(self) -> None:
            return None


def _zip() -> _Member:
    from meantime.readers.zip_archive import ZipMember  # noqa: PLC0415 - few inputs are zipped

    return ZipMember()


_MEMBERS: dict[str, Callable[[], _Member]] = {
    "gzip": _Gzip,
    "Zstandard": _Zstandard,
    "xz": _Xz,
    "bzip2": _Bzip2,
    "zip": _zip,
}


class ZstandardStream:
    """Zstandard data that stand in parts between other data, such as the records of a file."""

    def __init__(self) -> None:
        self._member: _Member | None = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next part expands to, in pieces of some MiB.

        Raises:
            ValueError: If it is damaged.
        """
        rest, out = data, b""
        while rest or len(out) >= _STREAM_ROOM:
            if self._member is None or self._member.ended:
                self._member = _MEMBERS["Zstandard"]()
            try:
                out, rest = self._member.feed(rest, _STREAM_ROOM)
            except self._member.failure as error:
                raise ValueError(str(error)) from None
            if out:
                yield out


class Decompressor:
    """Decompresses the bytes returned by `read`.

    Args:
        name: What the input is called.
        compression: What `compression_of` says of its first bytes.
        read: Returns the next compressed bytes, and none at the end.
        lenient: Whether damaged bytes are an end, instead of an error.

    Attributes:
        truncated: Whether the compressed bytes ended inside a member.
        damaged: Whether they are damaged: what is behind that is not read.
    """

    def __init__(
        self, name: str, compression: str, read: Callable[[], bytes], *, lenient: bool = False
    ) -> None:
        self.truncated: bool = False
        self.damaged: bool = False
        self._lenient = lenient
        self._name = name
        self._compression = compression
        self._read = read
        self._member = _MEMBERS[compression]()
        self._input = b""
        self._output = memoryview(b"")

    def close(self) -> None:
        """Free the buffers, and refer to the input no longer; `truncated` stays valid."""
        self._read = bytes
        self._input, self._output = b"", memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """Read the next bytes into the buffer and return how many; 0 at the end.

        Raises:
            InputError: If the compressed bytes are damaged.
        """
        while not self._output:
            if self.damaged or (self._member.ended and not self._next_member()):
                return 0
            if not self._input:
                self._input = self._read()
            at_end = not self._input
            self._output = self._feed(len(buffer))
            # at the end, feeding nothing returns what the library still buffers
            if at_end and not self._output:
                self.truncated = not (self._member.ended or self.damaged)
                return 0
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _feed(self, room: int) -> memoryview:
        before = self._member.copy() if self._lenient else None
        try:
            out, self._input = self._member.feed(self._input, room)
        except self._member.failure as error:
            is_archive = self._member.has_rest
            what = (
                "the zip archive cannot be read"
                if is_archive
                else (f"the {self._compression} data are damaged")
            )
            self._refuse(f"{what} ({error})", error)
            out = b"" if before is None else self._before_damage(before)
        return memoryview(out)

    def _refuse(self, reason: str, error: Exception | None = None) -> None:
        """End what is read here, or raise.

        Raises:
            InputError: Unless the input is read leniently.
        """
        if not self._lenient:
            raise InputError(self._name, reason) from error
        self.damaged = True

    def _before_damage(self, member: _Member) -> bytes:
        """Return the output of a member up to the byte at which it is damaged."""
        out = bytearray()
        with suppress(member.failure):
            for at in range(len(self._input)):
                out += member.feed(self._input[at : at + 1], _PIECE_ROOM)[0]
        return bytes(out)

    def _next_member(self) -> bool:
        """Start the next member, if there is one; zero padding between them is skipped."""
        if self._member.has_rest:
            while self._read():
                pass
            return False
        rest = self._input.lstrip(b"\0")
        while not rest:
            if not (more := self._read()):
                return False
            rest = more.lstrip(b"\0")
        self._input = rest
        while len(self._input) < MAGIC_BYTES and (more := self._read()):
            self._input += more
        # an error rather than a truncation: what follows would be lost without notice
        if compression_of(self._input) != self._compression:
            self._refuse(f"the {self._compression} data are followed by other data")
            return False
        self._member = _MEMBERS[self._compression]()
        return True
