from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from meantime.cli.output import write
from meantime.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()

    write(str(path), [b"a", b"b"])
    reader.join()

    assert got == [b"ab"]


def test_an_unwritable_place_is_said_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"missing/out\.svg: cannot be written: No such file"):
        write(str(tmp_path / "missing" / "out.svg"), [b""])
