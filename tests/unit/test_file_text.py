"""A file's bytes by offset: read on demand, whatever becomes of the file meanwhile."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from meantime.errors import InputError
from meantime.history.ingest import build
from meantime.readers import open_trace
from meantime.readers.file_text import FileText
from meantime.readers.source import open_source

TEXT = bytes(range(256)) * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.write_bytes(TEXT)
    return path


def text_of(path: Path) -> FileText:
    with open_source(path) as source:
        text = source.text()
    assert isinstance(text, FileText)
    return text


def test_parts_and_blocks_are_those_of_the_file(path: Path) -> None:
    text = text_of(path)

    assert len(text) == len(TEXT)
    for start, stop in (
        (0, 10),
        (5, 5),
        (20_000, 90_000),
        (3, 7),
        (255_990, 256_000),
        (255_999, 9**9),
    ):
        assert text[start:stop] == TEXT[start:stop]
    assert bytes(text.block(10, 300)) == TEXT[10:310]
    assert bytes(text.block(len(TEXT) - 5, 300)) == TEXT[-5:]


def test_a_file_that_was_deleted_or_grew_has_the_bytes_that_it_had(path: Path) -> None:
    text = text_of(path)
    with path.open("ab") as file:
        file.write(b"more")
    path.unlink()

    assert text[len(TEXT) - 3 : len(TEXT) + 3] == TEXT[-3:]


def test_a_file_that_was_cut_or_overwritten_is_an_error(path: Path) -> None:
    text = text_of(path)
    path.write_bytes(TEXT[::-1])
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputError, match="the file was changed after it was read"):
        text[0:1]

    os.truncate(path, 100)

    with pytest.raises(InputError, match="became shorter while it was read: 100 of 256,000"):
        text[0:1]
    with pytest.raises(InputError, match="became shorter while it was read: 100 of 256,000"):
        text.block(0, 200)


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_the_descriptor_is_closed_with_the_text(path: Path) -> None:
    before = descriptors()
    text = text_of(path)
    assert descriptors() == before + 1

    del text

    assert descriptors() == before


def test_compressed_files_are_in_memory(path: Path) -> None:
    path.write_bytes(gzip.compress(TEXT))

    with open_source(path) as source:
        text = source.text()

    assert isinstance(text, memoryview)
    assert bytes(text) == TEXT


def test_arguments_are_read_when_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[{"ph":"X","ts":1,"dur":1,"name":"a","args":{"k":1}}]')
    spans = build(open_trace(path)).spans()

    assert spans.arguments(0) == '{"k":1}'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b'[{"ph":"X","ts":1,"dur":1,"name":"a"}' + b" " * 70_000 + b"]"),
        (
            "x.spall",
            bytes.fromhex("0df0ad0b00000000 0300000000000000 000000000000f03f") + bytes(70_000),
        ),
    ],
)
def test_a_trace_that_is_cut_while_it_is_read_is_an_error(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    trace = open_trace(path)
    os.truncate(path, 100)

    with pytest.raises(InputError, match=r": the file became shorter while it was read: 100 of"):
        list(trace.batches)
