"""Minimal PNG files: eight bits each of red, green, blue and alpha."""

from __future__ import annotations

import struct
import zlib

__all__ = ["png"]

# Filters of a row: none, and Up, by which a row of zeros repeats the row above it.
_SAME = b"\0"
_AS_ABOVE = b"\2"


def png(pixels: bytes, *, width: int, tall: int = 1) -> bytes:
    r"""Return a PNG of RGBA rows from the top, each repeated `tall` times.

    >>> png(b"\xff\0\0\xff" * 2, width=2)[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    stride = 4 * width
    repeats = (_AS_ABOVE + bytes(stride)) * (tall - 1)
    lines = b"".join(
        _SAME + pixels[start : start + stride] + repeats for start in range(0, len(pixels), stride)
    )
    height = tall * len(pixels) // stride
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(lines, 1)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
