"""Decompression in bounded memory, recognised by the first bytes: gzip, Zstandard, xz and bzip2.

A file may have several compressed members in a row (`cat a.gz b.gz`, `pigz`, `bgzip`); they are
read as one stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from meantime.errors import InputError

if TYPE_CHECKING:
    from bz2 import BZ2Decompressor
    from collections.abc import Callable
    from lzma import LZMADecompressor

__all__ = ["Decompressor", "compression_of"]

# A Zstandard block can expand 4 bytes to 128 KiB and its library has no output limit, so its input
# is in pieces that expand to 128 MiB at worst. The other libraries have a limit.
PIECE_BYTES = 1 << 12

_MAGIC = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "Zstandard", b"\xfd7zXZ\x00": "xz"}
# After `BZh` and a digit: a block, or the end of an empty file. Text can begin with `BZh`.
_BZIP2 = (b"1AY&", b"\x17rE8")
MAGIC_BYTES = 8


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
    """

    @property
    def failure(self) -> type[Exception]: ...

    @property
    def ended(self) -> bool: ...

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """Return the output, if possible at most `room` bytes, and the unused rest of `data`."""


class _Gzip:
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


class _Limited:
    """A stream of a library that keeps what it was fed until its output is wanted."""

    failure: type[Exception]
    _stream: BZ2Decompressor | LZMADecompressor

    @property
    def ended(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        if self._stream.needs_input:
            out, rest = self._stream.decompress(data[:PIECE_BYTES], room), data[PIECE_BYTES:]
        else:
            out, rest = self._stream.decompress(b"", room), data
        return out, self._stream.unused_data + rest if self.ended else rest


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


class _Zstandard:
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


_MEMBERS: dict[str, Callable[[], _Member]] = {
    "gzip": _Gzip,
    "Zstandard": _Zstandard,
    "xz": _Xz,
    "bzip2": _Bzip2,
}


class Decompressor:
    """Decompresses the bytes returned by `read`.

    Attributes:
        truncated: Whether the compressed bytes ended inside a member.
    """

    def __init__(self, name: str, compression: str, read: Callable[[], bytes]) -> None:
        self.truncated = False
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
            if self._member.ended and not self._next_member():
                return 0
            if not self._input:
                self._input = self._read()
            at_end = not self._input
            self._output = self._feed(len(buffer))
            # at the end, feeding nothing returns what the library still buffers
            if at_end and not self._output:
                self.truncated = not self._member.ended
                return 0
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _feed(self, room: int) -> memoryview:
        try:
            out, self._input = self._member.feed(self._input, room)
        except self._member.failure as error:
            raise InputError(
                self._name, f"the {self._compression} data are damaged ({error})"
            ) from error
        return memoryview(out)

    def _next_member(self) -> bool:
        """Start the next member, if there is one; zero padding between them is skipped."""
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
            raise InputError(self._name, f"the {self._compression} data are followed by other data")
        self._member = _MEMBERS[self._compression]()
        return True
