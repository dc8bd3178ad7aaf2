"""Lint, types and import contracts hold for the sources; a failure prints what to mend."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, *command: str) -> None:
    program = shutil.which(command[0], path=str(Path(sys.executable).parent))
    assert program, f"{command[0]} is not installed: pip install '.[test]'"

    done = subprocess.run(
        [program, *command[1:]], cwd=root, capture_output=True, text=True, check=False
    )

    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


def test_lint(root: Path) -> None:
    run(root, "ruff", "check", "--no-cache")


def test_format(root: Path) -> None:
    run(root, "ruff", "format", "--check", "--no-cache")


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="types are those of the oldest Python, and of the packages that it has",
)
def test_types(root: Path) -> None:
    # all is checked once, so there is no cache to write
    run(root, "mypy", "--cache-dir", os.devnull)


def test_import_contracts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))

    run(root, "lint-imports", "--no-cache")
