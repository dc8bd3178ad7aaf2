"""The file in a zip archive, as its bytes come: the directory at the end is not needed.

Folders, and what macOS adds, do not count. Definition: APPNOTE.TXT 6.3 of PKWARE.
"""

from __future__ import annotations

import struct
import zlib

__all__ = ["ZipError", "ZipMember"]

_LOCAL, _CENTRAL, _END, _DESCRIPTOR = b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\7\x08"
# signature, version, flags, method, time, date, CRC, both sizes, the sizes of name and extra field
_HEADER = struct.Struct("<4s5H3I2H")
_ENCRYPTED, _DESCRIBED = 1, 8
_STORED, _DEFLATED = 0, 8
# The sizes of files of 4 GiB and more are in the extra field.
_LARGE = 0xFFFFFFFF
_ZIP64 = 1
_MOST_SKIPPED = 1 << 24
# What describes a file behind it: a signature or none, the CRC, and two sizes of 4 or 8 bytes.
_DESCRIPTORS = (12, 16, 20, 24)


class ZipError(ValueError):
    """What is wrong with an archive."""


class ZipMember:
    """The only file of an archive; its directory is read over.

    Attributes:
        failure: What is raised for an archive that is damaged, encrypted or has several files.
        has_rest: That what follows the file belongs to the archive.
        ended: Whether the directory was reached.
    """

    failure: type[Exception] = ZipError
    has_rest = True

    def __init__(self) -> None:
        self.ended: bool = False
        # the bytes of a header that is not whole yet
        self._header = b""
        self._name = ""
        self._stream: zlib._Decompress | None = None
        # how many bytes of a file are left that is not compressed
        self._left = 0
        self._is_inside = False
        self._is_skipped = False
        self._is_described = False
        self._skipped_bytes = 0
        self._crc = self._expected_crc = 0

    def feed(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """Return the output, at most `room` bytes, and the unused rest of `data`.

        Raises:
            ZipError: If the archive cannot be read.
        """
        if self.ended:
            return b"", b""
        if not self._is_inside:
            return b"", self._next_file(self._header + data)
        if self._stream is None:
            out, rest = data[: min(self._left, room)], data[min(self._left, room) :]
            self._left -= len(out)
            self._is_inside = self._left > 0
        else:
            try:
                out = self._stream.decompress(data, room)
            except zlib.error as error:
                raise ZipError(str(error)) from error
            self._is_inside = not self._stream.eof
            rest = self._stream.unconsumed_tail if self._is_inside else self._stream.unused_data
        self._crc = zlib.crc32(out, self._crc)
        if not self._is_inside and not self._is_described:
            self._check(self._expected_crc)
        if not self._is_skipped:
            return out, rest
        self._skipped_bytes += len(out)
        if self._skipped_bytes > _MOST_SKIPPED:
            raise ZipError(f"what macOS adds takes more than {_MOST_SKIPPED:,} bytes: unpack it")
        return b"", rest

    def copy(self) -> None:
        """Return nothing, since what is read up to damage is not wanted byte by byte."""

    def _check(self, crc: int) -> None:
        if crc != self._crc:
            raise ZipError("its checksum is wrong")

    def _next_file(self, data: bytes) -> bytes:
        """Read what is between files, and return what is behind it; nothing if it is not whole."""
        self._header = data
        if self._is_described:
            begin = self._descriptor_end(data)
            if begin is None:
                return b""
            data, self._is_described = data[begin:], False
        self._header = data
        if len(data) < len(_LOCAL):
            return b""
        if data.startswith((_CENTRAL, _END)):
            self.ended = True
            return b""
        if not data.startswith(_LOCAL):
            raise ZipError("a file in it is followed by other data")
        if len(data) < _HEADER.size:
            return b""
        _, _, flags, method, _, _, crc, stored, _, name_size, extra_size = _HEADER.unpack_from(data)
        name_end = _HEADER.size + name_size
        if len(data) < name_end + extra_size:
            return b""
        self._expected_crc = crc
        self._left = _stored_bytes(stored, data[name_end : name_end + extra_size])
        self._begin(data[_HEADER.size : name_end].decode("utf-8", "replace"), flags, method)
        self._header = b""
        return data[name_end + extra_size :]

    def _descriptor_end(self, data: bytes) -> int | None:
        """Return where what describes the last file ends; None if it is not whole."""
        for size in _DESCRIPTORS:
            if len(data) < size + len(_LOCAL):
                return None
            if data[size : size + 4] in {_LOCAL, _CENTRAL}:
                at = 4 if data.startswith(_DESCRIPTOR) and size in {16, 24} else 0
                self._check(int.from_bytes(data[at : at + 4], "little"))
                return size
        raise ZipError("a file in it is followed by other data")

    def _begin(self, name: str, flags: int, method: int) -> None:
        self._is_skipped = name.endswith(("/", ".DS_Store")) or name.startswith("__MACOSX/")
        if not self._is_skipped:
            if self._name:
                raise ZipError(
                    f"it has several files ({self._name}, {name}): unpack it and open one of them"
                )
            self._name = name or "a file"
        self._is_described = bool(flags & _DESCRIBED)
        if flags & _ENCRYPTED:
            raise ZipError(f"{name} in it is encrypted: unpack it first")
        is_unknown = method == _STORED and self._is_described and not name.endswith("/")
        if method not in {_STORED, _DEFLATED} or is_unknown:
            raise ZipError(f"{name} in it is compressed in an unusual way ({method}): unpack it")
        self._crc = 0
        self._stream = zlib.decompressobj(-15) if method == _DEFLATED else None
        self._is_inside = method == _DEFLATED or self._left > 0


def _stored_bytes(stored: int, extra: bytes) -> int:
    """Return the size of a file as it is stored; that of a large one is in the extra field."""
    at = 0
    while stored == _LARGE and at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64 and size >= 16 and at + 20 <= len(extra):
            return int.from_bytes(extra[at + 12 : at + 20], "little")
        at += 4 + size
    return stored
