"""The code in the documents runs, in the order of the pages."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tomllib
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from meantime.readers import formats
from meantime.readers.evidence import Head

ROOT = Path(__file__).resolve().parents[2]
ADD_A_FORMAT = (
    ROOT / "docs" / "how-to" / "add-a-format.md"
)  # its blocks are modules that import each other
SETS_UP = re.compile(r"\b(pip|npm|apt-get|venv|setup\.py)\b")


class Block(NamedTuple):
    """A block of code of a document."""

    document: str
    number: int
    language: str
    code: str


def reading_order() -> list[Path]:
    """Return the documents: the README, then the pages in the order of the index."""
    docs = ROOT / "docs"
    listed = re.findall(r"^([a-z][\w/-]*)$", (docs / "index.md").read_text(), re.MULTILINE)
    pages = [docs / "index.md", *(docs / f"{name}.md" for name in listed)]
    return [ROOT / "README.md", *(page for page in pages if page != ADD_A_FORMAT)]


BLOCKS = [
    Block(document.relative_to(ROOT).as_posix(), number, match[1], match[2])
    for document in reading_order()
    for number, match in enumerate(
        re.finditer(r"(?ms)^```(python|sh)\n(.*?)^```$", document.read_text()), 1
    )
    if not SETS_UP.search(match[2])
]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    """Run all blocks in one folder, as a reader does who follows every page; return what failed."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "examples").symlink_to(ROOT / "examples")
    failed = {}
    with contextlib.chdir(folder):
        for block in BLOCKS:
            error = in_python(block) if block.language == "python" else in_shell(block, folder)
            if error is not None:
                failed[block.document, block.number] = error
    return failed


def in_python(block: Block) -> str | None:
    code = compile(block.code, block.document, "exec")
    try:
        # In a thread of its own: browser tests leave an event loop running in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(exec, code, {"__name__": "document"}).result()
    except Exception:  # noqa: BLE001 - reported by the test of this block
        return traceback.format_exc()
    return None


def in_shell(block: Block, folder: Path) -> str | None:
    program = f'set -e\nmeantime() {{ "{sys.executable}" -m meantime "$@"; }}\n{block.code}'
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
    return done.stderr or f"exit status {done.returncode}" if done.returncode else None


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"{block.document}-{block.number}") for block in BLOCKS]
)
def test_every_block_of_code_runs(block: Block, failures: dict[tuple[str, int], str]) -> None:
    assert failures.get((block.document, block.number)) is None


@pytest.mark.parametrize("name", ["files.py", "files.toml"])
def test_the_providers_shown_are_the_examples(name: str) -> None:
    shown = (ROOT / "docs" / "tutorials" / "derive-states-from-events.md").read_text()
    example = (ROOT / "examples" / name).read_text()

    assert example[example.index("\n\n") :].strip().split("\n\n\n")[-1] in shown


def test_the_format_that_is_added_keeps_the_contract_and_is_converted(tmp_path: Path) -> None:
    text = ADD_A_FORMAT.read_text()
    reader, test, writer = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    (log,) = re.findall(r"(?ms)^```text\n(.*?)^```$", text)
    (declared,) = re.findall(r"(?ms)^```toml\n(.*?)^```$", text)
    points = tomllib.loads(declared)["project"]["entry-points"]
    assert points == {"meantime.readers": {"intervals": "intervals"}}
    (declaration,) = re.findall(r"(?ms)^```py\n(.*?)^```$", text)
    declared_format = eval(declaration, vars(formats))  # noqa: S307 - our own page
    assert declared_format.example in test.encode().decode("unicode_escape").encode()
    assert [sign.is_seen(Head(log.encode(), "x")) for sign in declared_format.signs] == [True]
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
