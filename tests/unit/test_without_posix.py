"""Reading, storing, drawing and serving do without what only POSIX systems have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus import FORMATS

PROGRAM = Path(__file__).with_name("without_posix.py")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A small file of each format, with its provider."""
    found = []
    for kind in FORMATS.values():
        if kind.name == "ctf":
            continue  # the output of a program, which is no file
        folder = tmp_path_factory.mktemp(kind.name)
        files = kind.samples()[0]
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        path = folder if len(files) > 1 or kind.is_directory else folder / next(iter(files))
        path = path if kind.opened is None else folder / kind.opened
        found.append(f"{path}={kind.provider or ''}")
    return found


def found_in(has: str, folder: Path, root: Path, *paths: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, PROGRAM, has, folder, *paths],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_everything_but_recording_is_the_same_without_posix(
    root: Path, tmp_path: Path, inputs: list[str]
) -> None:
    folders = [tmp_path / name for name in ("posix", "none")]
    for folder in folders:
        folder.mkdir()

    usual, without = (found_in(each.name, each, root, *inputs) for each in folders)

    assert without == usual
    assert usual["served"] == 200
    refused = [each for each in usual.items() if isinstance(each[1], list) and len(each[1]) == 1]
    assert not refused
