"""The part of a source that is in memory: one block, refilled when it is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meantime.errors import InputError
from meantime.kernels.scan_statemap import count_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meantime.readers.contract import ReadOptions
    from meantime.readers.source import Source

__all__ = ["BLOCK_BYTES", "Window", "lines"]

# A block is copied through the second-level cache rather than mapped: that costs 3 %, and a file
# that is truncated meanwhile ends early instead of killing the process.
BLOCK_BYTES = 1 << 20
MAX_RECORD_BYTES = 1 << 30


class Window:
    """A block of a source; the bytes at [start, end) of `block` are still to be parsed.

    Attributes:
        source: The input.
        block: The buffer.
        start: The index of the next record; advanced by the parser.
        end: The index behind the bytes read so far.
    """

    def __init__(
        self,
        source: Source,
        *,
        block_bytes: int = BLOCK_BYTES,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.source = source
        self.block: bytearray = bytearray(block_bytes)
        self.start: int = 0
        self.end: int = 0
        self._offset = 0
        # How many lines the input has up to which offset: the rest is counted for messages only.
        self._lines = 0
        self._lines_offset = 0
        self._marked: int | None = None
        self._progress = progress

    def more(self) -> bool:
        """Read more, keeping what is still to be parsed; return False at the end of the input.

        Raises:
            InputError: If a single record is larger than 1 GiB.
        """
        self._drop(self.start if self._marked is None else self._marked)
        # at least half the block is refilled, so that moving the rest stays cheap; a larger record
        # doubles it, which costs linear time in all
        if 2 * self.end > len(self.block):
            if self.end - self.start > MAX_RECORD_BYTES:
                raise InputError(
                    self.source.name,
                    f"a record is larger than {MAX_RECORD_BYTES:,} bytes",
                    line=self.line(self.start),
                )
            larger = bytearray(2 * len(self.block))
            larger[: self.end] = memoryview(self.block)[: self.end]
            self.block = larger
        end = self.end
        with memoryview(self.block) as view:
            while self.end < len(view) and (count := self.source.readinto(view[self.end :])):
                self.end += count
        if self._progress is not None:
            self._progress(self.source.read_bytes, self.source.stored_bytes or 0)
        return self.end > end

    def mark(self) -> None:
        """Keep everything from `start` on in memory until `rewind`."""
        self._marked = self.start

    def rewind(self) -> None:
        """Return to where `mark` was called."""
        assert self._marked is not None
        self.start, self._marked = self._marked, None

    def line(self, position: int) -> int:
        """Return the line number, from 1, of an index in the block."""
        for piece in self.source.again(self._lines_offset, self._offset):
            self._lines += count_lines(piece, 0, len(piece))
        self._lines_offset = self._offset
        return 1 + self._lines + count_lines(self.block, 0, position)

    def column(self, position: int) -> int:
        """Return the column, from 1, of an index, within the part of its line that is in memory."""
        start = self.block.rfind(b"\n", 0, position) + 1
        return 1 + len(self.block[start:position].decode(errors="replace"))

    def offset(self, position: int) -> int:
        """Return the offset in the input of an index in the block."""
        return self._offset + position

    def _drop(self, count: int) -> None:
        if count:
            if not self.source.can_repeat:
                self._lines += count_lines(self.block, 0, count)
                self._lines_offset += count
            self._offset += count
            with memoryview(self.block) as view:
                view[: self.end - count] = view[count : self.end]
            self.start -= count
            self.end -= count
            if self._marked is not None:
                self._marked -= count


def lines(source: Source, options: ReadOptions) -> Iterator[bytes]:
    """Yield the lines of an input, without their line feeds, and close it.

    Raises:
        InputError: If it cannot be read, or a line is larger than 1 GiB.
    """
    window = Window(source, progress=options.progress)
    with source:
        more = True
        while more:
            more = window.more()
            text = bytes(memoryview(window.block)[window.start : window.end])
            # the last line is complete only at the end of the input
            end = text.rfind(b"\n") + 1 if more else len(text)
            window.start += end
            if end:
                yield from text[:end].removesuffix(b"\n").split(b"\n")
