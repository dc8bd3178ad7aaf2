"""Frames of Zstandard for tests: by the standard library from Python 3.14 on, as the readers."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd

    Damaged = zstd.ZstdError

    def compress(content: bytes, *, checksum: bool = False) -> bytes:
        """Return a frame with the content and its size, and a checksum if it is to have one."""
        return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: checksum})

    def decompress(content: bytes) -> bytes:
        """Return the content of a frame, which need not say its size; otherwise raise `Damaged`."""
        frame = zstd.ZstdDecompressor()
        found = frame.decompress(content)
        if not frame.eof:
            raise Damaged
        return found

else:
    import zstandard

    Damaged = zstandard.ZstdError

    def compress(content: bytes, *, checksum: bool = False) -> bytes:
        """Return a frame with the content and its size, and a checksum if it is to have one."""
        return zstandard.ZstdCompressor(write_checksum=checksum).compress(content)

    def decompress(content: bytes) -> bytes:
        """Return the content of a frame, which need not say its size; otherwise raise `Damaged`."""
        frame = zstandard.ZstdDecompressor().decompressobj()
        found = frame.decompress(content)
        if not frame.eof:
            raise Damaged
        return found
