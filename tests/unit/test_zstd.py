"""Frames of Zstandard are the same whichever library makes them."""

from __future__ import annotations

import sys

import pytest

from meantime.readers import zstd

CONTENT = b"states of a history " * 99
FRAME = zstd.compress(CONTENT, 3)


def test_content_returns() -> None:
    assert zstd.decompress(memoryview(FRAME), len(CONTENT)) == CONTENT


@pytest.mark.parametrize("frame", [b"", b"none", FRAME[:-3]])
def test_damaged_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - callers say which file
        zstd.decompress(memoryview(frame), len(CONTENT))


def test_content_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - callers say which file
        zstd.decompress(memoryview(FRAME), len(CONTENT) - 1)


def test_the_standard_library_is_used_where_it_has_zstandard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = "zstandard" if sys.version_info >= (3, 14) else "compression.zstd"
    monkeypatch.setitem(sys.modules, absent, None)  # importing it fails

    assert zstd.decompress(memoryview(zstd.compress(CONTENT, 3)), len(CONTENT)) == CONTENT
