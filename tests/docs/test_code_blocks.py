"""The code in the documents runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SETS_UP = re.compile(r"\b(pip|npm|apt-get|venv|setup\.py)\b")


def blocks(language: str) -> list[object]:
    return [
        pytest.param(match[1], id=f"{document.stem}-{number}")
        for document in DOCUMENTS
        for number, match in enumerate(
            re.finditer(rf"(?ms)^```{language}\n(.*?)^```$", document.read_text())
        )
        if not SETS_UP.search(match[1])
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code: str, folder: Path) -> None:
    exec(compile(code, str(folder), "exec"), {"__name__": "document"})  # noqa: S102 - our own documents


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_run(code: str, folder: Path) -> None:
    program = f'set -e\nmeantime() {{ "{sys.executable}" -m meantime "$@"; }}\n{code}'

    done = subprocess.run(
        ["bash", "-c", program],  # noqa: S607 - whichever bash the machine has
        cwd=folder,
        env=os.environ
        | {
            "PYTHONWARNINGS": "error",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["files.py", "files.toml"])
def test_the_providers_shown_are_the_examples(name: str) -> None:
    shown = (ROOT / "docs" / "bytes-read-and-written.md").read_text()
    example = (ROOT / "examples" / name).read_text()

    assert example[example.index("\n\n") :].strip().split("\n\n\n")[-1] in shown
