"""Minimal PNG files: eight bits each of red, green, blue and alpha, or of a colour's index."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["indexed_png", "png"]

_INDEXED, _RGBA = 3, 6

# Filters of a row: none, and Up, the differences from the row above.
_SAME = b"\0"
_UP = b"\2"


def png(pixels: bytes, *, width: int, tall: int = 1) -> bytes:
    r"""Return a PNG of RGBA rows from the top, each repeated `tall` times.

    >>> png(b"\xff\0\0\xff" * 2, width=2)[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    stride = 4 * width
    repeats = (_UP + bytes(stride)) * (tall - 1)
    lines = b"".join(
        _SAME + pixels[start : start + stride] + repeats for start in range(0, len(pixels), stride)
    )
    return _file(width, tall * len(pixels) // stride, _RGBA, b"", zlib.compress(lines, 1))


def indexed_png(pixels: bytes, *, width: int, colors: Iterable[bytes]) -> bytes:
    r"""Return a PNG of rows from the top: 0 is transparent, n is the n-th colour.

    >>> indexed_png(b"\0\1", width=2, colors=[b"\xff\0\0"])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    palette = _chunk(b"PLTE", b"\0\0\0" + b"".join(colors)) + _chunk(b"tRNS", b"\0")
    image = np.frombuffer(pixels, np.uint8).reshape(-1, width)
    lines = np.empty((len(image), 1 + width), np.uint8)
    lines[:, 0] = ord(_UP)
    lines[:1, 1:] = image[:1]
    np.subtract(image[1:], image[:-1], out=lines[1:, 1:])
    # mostly zeros: to look for other repetitions than these costs more, and finds less
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    packed = packer.compress(lines.data) + packer.flush()
    return _file(width, len(image), _INDEXED, palette, packed)


def _file(width: int, height: int, kind: int, palette: bytes, packed: bytes) -> bytes:
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
            palette,
            _chunk(b"IDAT", packed),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
