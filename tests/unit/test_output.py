from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meantime.cli.output import write
from meantime.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def failing() -> Iterator[bytes]:
    yield b"half"
    raise RuntimeError


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    path.write_bytes(b"old")

    with pytest.raises(RuntimeError):
        write(str(path), failing())

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    umask = os.umask(0o022)

    write(str(path), [b"a", b"b"])
    os.umask(umask)

    assert path.read_bytes() == b"ab"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(str(path), [b"a", b"b"])

        assert os.read(reader, 10) == b"ab"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_as_it_is() -> None:
    before = Path("/dev/null").stat()

    write("/dev/null", [b"a"])

    assert Path("/dev/null").stat().st_ino == before.st_ino
    assert Path("/dev/null").is_char_device()


def test_an_unwritable_path_is_reported_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"missing/out\.svg: cannot be written: No such file"):
        write(str(tmp_path / "missing" / "out.svg"), [b""])
