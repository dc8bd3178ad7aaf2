"""The code in the documents runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADD_A_FORMAT = ROOT / "docs" / "how-to" / "add-a-format.md"
# its blocks are modules that import each other
DOCUMENTS = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != ADD_A_FORMAT),
]
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
    if "to_pandas()" in code:
        pytest.importorskip("pandas", reason="the extra [test] is not installed")
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


def test_the_format_that_is_added_keeps_the_contract_and_is_converted(tmp_path: Path) -> None:
    text = ADD_A_FORMAT.read_text()
    reader, test, writer = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    (log,) = re.findall(r"(?ms)^```text\n(.*?)^```$", text)
    (declared,) = re.findall(r"(?ms)^```toml\n(.*?)^```$", text)
    points = tomllib.loads(declared)["project"]["entry-points"]
    assert points == {"meantime.readers": {"intervals": "intervals"}}
    (tmp_path / "intervals.py").write_text(reader)
    (tmp_path / "interval_writer.py").write_text(writer)
    (tmp_path / "test_intervals.py").write_text(test)
    (tmp_path / "machines").write_text(log)
    installed = tmp_path / "intervals-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: intervals\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[meantime.readers]\nintervals = intervals\n[meantime.views]\nintervals = interval_writer\n"
    )

    def run(*arguments: str) -> str:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path.rstrip(os.pathsep)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "11 passed" in run("pytest", "-q", "-p", "no:randomly", "test_intervals.py")
    assert "intervals" in run("meantime", "info", "machines")
    run("meantime", "convert", "machines", "again.intervals")

    again = (tmp_path / "again.intervals").read_text()
    assert sorted(again.splitlines()) == sorted(log.splitlines())
