"""Frames of Zstandard: by the standard library from Python 3.14 on, by `zstandard` before."""

import sys

__all__ = ["compress", "decompress"]

if sys.version_info >= (3, 14):

    def compress(content: bytes, level: int) -> bytes:
        """Return a frame with the content, its size and a checksum."""
        from compression import zstd  # noqa: PLC0415 - most files are read without it

        known = zstd.CompressionParameter
        options = {known.compression_level: level, known.checksum_flag: 1}
        return zstd.compress(content, options=options)

    def decompress(content: memoryview, most: int) -> bytes:
        """Return the content of a frame.

        Raises:
            ValueError: If it is damaged, or its content is larger than `most` bytes.
        """
        from compression import zstd  # noqa: PLC0415 - as above

        try:
            size = zstd.get_frame_info(content).decompressed_size
            if size is None or size > most:
                raise ValueError
            frame = zstd.ZstdDecompressor()
            found = frame.decompress(content)
        except zstd.ZstdError as error:
            raise ValueError from error
        if not frame.eof:
            raise ValueError
        return found

else:

    def compress(content: bytes, level: int) -> bytes:
        """Return a frame with the content, its size and a checksum."""
        import zstandard  # noqa: PLC0415 - most files are read without it

        return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(content)

    def decompress(content: memoryview, most: int) -> bytes:
        """Return the content of a frame.

        Raises:
            ValueError: If it is damaged, or its content is larger than `most` bytes.
        """
        import zstandard  # noqa: PLC0415 - as above

        try:
            if not 0 <= zstandard.frame_content_size(content) <= most:
                raise ValueError
            return zstandard.ZstdDecompressor().decompress(content)
        except zstandard.ZstdError as error:
            raise ValueError from error
