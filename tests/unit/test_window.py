from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING

import pytest

from meantime.readers.source import Source, open_source
from meantime.readers.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_lines_of_a_file_are_counted_when_they_are_asked_for(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(compress(TEXT))
    with open_source(tmp_path / "x") as source:
        read = Window(source, block_bytes=64)
        while read.more():
            # up to the middle of a line, and not for every block
            read.start = max(read.start, read.end - 3)
            expected = 1 + TEXT.count(b"\n", 0, read.offset(read.start))
            if expected % 3 == 0:
                assert read.line(read.start) == read.line(read.start) == expected
        assert read.line(read.end) == 501


def test_lines_of_a_file_that_was_cut_meanwhile_are_those_that_are_left(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(TEXT)
    with open_source(tmp_path / "x") as source:
        read = Window(source, block_bytes=len(TEXT))
        read.more()
        read.start = read.end
        read.more()
        (tmp_path / "x").write_bytes(TEXT[: TEXT.index(b"line 9")])

        assert read.line(read.start) == 10


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
