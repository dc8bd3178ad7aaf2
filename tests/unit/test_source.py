from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstd_frames

from meantime.errors import InputError
from meantime.readers import open_trace
from meantime.readers import source as source_module
from meantime.readers.file_text import FileText
from meantime.readers.source import HEAD_BYTES, Source, open_source

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = b"".join(b"line %d of a text that repeats itself\n" % (i % 1000) for i in range(20_000))

COMPRESSORS = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "Zstandard": partial(zstd_frames.compress, checksum=True),
}
compressed = pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)


def contents(source: Source) -> bytes:
    block = bytearray(50_000)
    pieces = []
    while count := source.readinto(memoryview(block)):
        pieces.append(bytes(block[:count]))
    return b"".join(pieces)


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(TEXT)

    with open_source(path) as source:
        assert source.head() == TEXT[:HEAD_BYTES]
        assert contents(source) == TEXT
        assert (source.read_bytes, source.stored_bytes) == (len(TEXT), len(TEXT))


@pytest.mark.parametrize("begin", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef\xbb\xbf\xef\xbb\xbf"])
def test_one_byte_order_mark_is_left_out(begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / "marked"
    path.write_bytes(begin + TEXT)
    text = (begin + TEXT).removeprefix(b"\xef\xbb\xbf")

    for stored in (begin + TEXT, gzip.compress(begin + TEXT)):
        path.write_bytes(stored)
        with open_source(path) as source:
            assert source.head() == text[:HEAD_BYTES]
            assert contents(source) == text
        with open_source(path) as source:
            assert source.whole() == text
        with open_source(path) as source:
            assert source.text()[:] == text


def test_lines_of_a_file_with_a_mark_are_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "marked"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT)

    with open_source(path) as source:
        contents(source)
        assert b"".join(source.again(7, len(TEXT))) == TEXT[7:]


@compressed
def test_compressed_data_are_recognised_by_their_content(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    stored = compress(TEXT)
    path = tmp_path / "no-suffix"
    path.write_bytes(stored)

    with open_source(path) as source:
        assert source.head() == TEXT[:HEAD_BYTES]
        assert contents(source) == TEXT
        assert source.read_bytes == len(stored)
        assert not source.truncated


@compressed
def test_several_compressed_members_are_one_input(compress: Callable[[bytes], bytes]) -> None:
    stored = compress(TEXT) + compress(b"") + compress(b"end") + bytes(1000)

    source = Source("x", io.BytesIO(stored))

    assert contents(source) == TEXT + b"end"
    assert not source.truncated


@compressed
@pytest.mark.parametrize("missing", [1, 3, 500])
def test_of_truncated_data_what_there_is_is_read(
    compress: Callable[[bytes], bytes], missing: int
) -> None:
    stored = compress(os.urandom(100_000) + TEXT)

    source = Source("x", io.BytesIO(stored[:-missing]))
    read = contents(source)

    assert source.truncated
    assert len(read) >= 100_000 - 2**17


@compressed
def test_damaged_data_are_refused_in_one_line(compress: Callable[[bytes], bytes]) -> None:
    stored = bytearray(compress(TEXT))
    stored[len(stored) // 2] ^= 0x55

    with pytest.raises(InputError, match=r"^x\.gz: the \w+ data are damaged \([^\n]+\)$"):
        contents(Source("x.gz", io.BytesIO(stored)))


@compressed
def test_read_leniently_damaged_data_end_where_they_are_damaged(
    compress: Callable[[bytes], bytes],
) -> None:
    text = os.urandom(200_000)
    stored = bytearray(compress(text))
    stored[len(stored) // 2] ^= 0x55

    with pytest.raises(InputError, match="are damaged"):
        contents(Source("x", io.BytesIO(stored)))
    source = Source("x", io.BytesIO(stored), lenient=True)
    found = contents(source)

    assert source.damaged
    assert not source.truncated
    # blocks of bzip2 and xz are checked as a whole, and may be all there is
    assert found == text[: len(found)] or len(found) <= len(text)


def test_of_gzip_everything_before_the_damage_is_read_leniently() -> None:
    stored = bytearray(gzip.compress(TEXT))
    stored[-6] ^= 1  # of the checksum

    source = Source("x", io.BytesIO(stored), lenient=True)

    assert contents(source) == TEXT
    assert source.damaged


@compressed
def test_other_data_after_compressed_data_are_left_out_leniently(
    compress: Callable[[bytes], bytes],
) -> None:
    source = Source("x", io.BytesIO(compress(TEXT) + b"{}........"), lenient=True)

    assert contents(source) == TEXT
    assert source.damaged


@pytest.mark.parametrize("how", ["file", "gzip"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("x.jsonl", b'{"time_ns": %d, "name": "open the file"}\n'),
        ("x.json", b'{"ph": "X", "ts": %d, "dur": 1, "name": "a name", "pid": 1, "tid": 1}\n'),
        ("x.txt", b"a 7 [000] %d.000000: cycles: \n\t 7f f (x)\n\n"),
        ("x.csv", b"%d,a long name\n"),
        ("x.folded", b"main;f%d some function 1\n"),
        ("x.log", b"2026-03-02 08:00:00,123 INFO message %d of many\n"),
    ],
)
def test_zero_bytes_in_a_text_are_counted(
    tmp_path: Path, how: str, name: str, lines: bytes
) -> None:
    text = bytearray(b"".join(lines % number for number in range(1, 60_000)))
    if name == "x.csv":
        text = bytearray(b"time_ns,name\n") + text
    # in a name, so that what the lines say beside it can be read
    at = text.index(lines.split(b"%d")[1][1:4], 1 << 20)
    text[at : at + 2] = bytes(2)
    stored = gzip.compress(text) if how == "gzip" else bytes(text)
    (path := tmp_path / name).write_bytes(stored)

    trace = open_trace(path, lenient=True)
    assert sum(1 for _ in trace.batches) > 0

    assert trace.anomalies["zero_bytes"] == 2


@compressed
def test_other_data_after_compressed_data_are_rejected(
    compress: Callable[[bytes], bytes],
) -> None:
    source = Source("x", io.BytesIO(compress(TEXT) + b"{}"))

    with pytest.raises(InputError, match="are followed by other data"):
        contents(source)


@compressed
def test_the_blocks_of_a_bomb_stay_small(compress: Callable[[bytes], bytes]) -> None:
    source = Source("x", io.BytesIO(compress(bytes(50_000_000))))
    block = bytearray(1 << 16)

    total = 0
    while count := source.readinto(memoryview(block)):
        total += count

    assert total == 50_000_000


@pytest.mark.parametrize("size", [0, 1, 5, HEAD_BYTES, HEAD_BYTES + 1])
def test_the_whole_is_the_same_of_a_file_and_of_a_pipe(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(TEXT[:size])

    with open_source(path) as file:
        whole = file.whole()
    read = Source("x", io.BytesIO(TEXT[:size])).whole()

    assert bytes(whole) == bytes(read) == TEXT[:size]


@compressed
def test_the_whole_is_joined_from_its_pieces(
    compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_PIECE_BYTES", 70_001)
    for size in (69_999, 70_001, 140_002, len(TEXT)):
        whole = Source("x", io.BytesIO(compress(TEXT[:size]))).whole()

        assert bytes(whole) == TEXT[:size]


def test_a_large_text_is_decompressed_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_MOST_IN_MEMORY", 100_000)
    monkeypatch.setattr(source_module, "_PIECE_BYTES", 30_000)
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    text = Source("pipe", io.BytesIO(gzip.compress(TEXT))).text()

    assert isinstance(text, FileText)
    assert bytes(text[0 : len(text)]) == TEXT
    assert not list(tmp_path.iterdir())


def test_a_large_text_without_room_for_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source_module, "_MOST_IN_MEMORY", 100_000)
    missing = str(tmp_path / "missing")
    monkeypatch.setattr("tempfile.tempdir", missing)
    monkeypatch.setenv("TMPDIR", missing)

    said = rf"^pipe: its decompressed .* {re.escape(missing)} .*TMPDIR"
    with pytest.raises(InputError, match=said):
        Source("pipe", io.BytesIO(gzip.compress(TEXT))).text()


def test_text_that_begins_like_bzip2_is_text() -> None:
    assert contents(Source("pipe", io.BytesIO(b"BZh9;main 3\n"))) == b"BZh9;main 3\n"


def test_a_file_that_is_cut_before_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(TEXT)

    with open_source(path) as source:
        os.truncate(path, 100_000)
        with pytest.raises(InputError) as caught:
            source.whole()

    assert str(caught.value) == (
        f"{path}: the file became shorter while it was read: 100,000 of 777,800 bytes are left"
    )


def test_a_file_that_is_cut_after_it_was_read_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(TEXT)

    with open_source(path) as source:
        whole = source.whole()
    os.truncate(path, 0)

    assert bytes(whole) == TEXT


def test_input_that_expands_beyond_measure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_EXPANDED_FREELY", 1_000_000)
    monkeypatch.setattr(source_module, "_PIECE_BYTES", 500_000)
    bomb = gzip.compress(bytes(50_000_000))

    with pytest.raises(InputError) as caught:
        Source("x.gz", io.BytesIO(bomb)).whole()

    assert "compressed bytes expand to more than" in caught.value.reason
    assert caught.value.reason.endswith(
        "over 300 times as many: if you trust the file, allow it with --memory SIZE, or"
        " memory=BYTES from Python"
    )
    allowed = Source("x.gz", io.BytesIO(bomb))
    allowed.most_memory = 50_000_000
    assert len(allowed.whole()) == 50_000_000


def test_what_shrinks_well_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "_EXPANDED_FREELY", 0)
    text = b"a line of a text that is always the same\n" * 200_000
    stored = zstd_frames.compress(text[:8_000]) * (len(text) // 8_000)
    assert 100 < len(text) / len(stored) < 300

    assert bytes(Source("x.zst", io.BytesIO(stored)).whole()) == text[:8_000] * (len(text) // 8_000)


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=[TEXT])
    writer.start()

    with open_source(path) as source:
        assert source.stored_bytes is None
        assert source.path is None
        assert contents(source) == TEXT
    writer.join()


def test_a_dash_is_standard_input_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT)))
    monkeypatch.setattr(sys, "stdin", stdin)

    with open_source("-") as source:
        assert source.name == "standard input"
        assert contents(source) == TEXT
    assert not stdin.closed


def test_a_file_that_cannot_be_opened_is_reported_in_one_line(tmp_path: Path) -> None:
    for path, reason in {
        tmp_path / "none": "there is no such file",
        tmp_path: "it is a directory; give a file in it",
        tmp_path / "a\0b": "it cannot be read (embedded null byte)",
    }.items():
        with pytest.raises(InputError) as caught:
            open_source(path)
        assert str(caught.value) == f"{path}: {reason}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0)

    with pytest.raises(InputError, match="permission denied"):
        open_source(path)


def test_a_read_that_fails_midway_is_an_input_error() -> None:
    class Failing(io.BytesIO):
        def readinto(self, _: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(InputError, match=r"^disk: it cannot be read \(Input/output error\)$"):
        Source("disk", Failing())


@pytest.mark.skipif(sys.platform != "linux", reason="it has no /proc")
def test_a_file_without_a_size_is_read_whole() -> None:
    with open_source("/proc/self/status") as source:
        assert source.stored_bytes == 0
        assert bytes(source.whole()).startswith(b"Name:")


def open_files() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {str(link.readlink()) for link in links if link.is_symlink()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}'),
        ("a.folded", "main;work 3\n"),
        ("a.csv", "time_ns,name\n1,a\n"),
        ("a.statemap", '{"start": [0, 0], "states": {"on": {"value": 0}}}\n'),
        ("a.jsonl", '{"time_ns": 1, "name": "start"}\n'),
    ],
)
def test_a_trace_that_is_closed_before_it_is_read_closes_its_file(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)

    trace = open_trace(path)
    held = open_files()
    trace.close()

    assert str(path) in held
    assert str(path) not in open_files()
