from __future__ import annotations

import io

import pytest

from meantime.readers.source import Source
from meantime.readers.window import Window

TEXT = b"".join(b"line %d\n" % number for number in range(500))


def window(text: bytes = TEXT, block_bytes: int = 64) -> Window:
    return Window(Source("x", io.BytesIO(text)), block_bytes=block_bytes)


def test_what_was_read_is_dropped() -> None:
    read = window()
    seen = b""
    while read.more():
        seen += read.block[read.start : read.end]
        read.start = read.end

    assert seen == TEXT
    assert len(read.block) == 64
    assert read.offset(read.end) == len(TEXT)
    assert read.line(read.end) == 501


@pytest.mark.parametrize("marked", [0, 10, 1_000])
def test_data_after_a_mark_are_kept_however_far_one_reads(marked: int) -> None:
    read = window()
    read.more()
    while read.offset(read.start) < marked:
        read.start = min(read.end, read.start + marked - read.offset(read.start))
        read.more()
    line = read.line(read.start)
    read.mark()
    while read.more():
        read.start = read.end
    assert read.offset(read.start) == len(TEXT)

    read.rewind()

    assert read.offset(read.start) == marked
    assert read.line(read.start) == line
    assert bytes(read.block[read.start : read.end]) == TEXT[marked:]


def test_after_a_rewind_what_was_read_is_dropped_again() -> None:
    read = window()
    read.more()
    read.mark()
    read.rewind()
    read.start = read.end
    read.more()

    assert read.offset(0) == 64
