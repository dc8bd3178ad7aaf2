"""A short run of each format, and all that longer ones found, which stays repaired."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from corpus import FORMATS

HERE = Path(__file__).resolve().parent
FOUND = HERE / "found"
INPUTS = 40


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own: a worker is forked from one without threads."""
    return subprocess.run(
        [sys.executable, str(HERE / "run.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


class Reported(NamedTuple):
    """What a run of several formats printed: of each its line and those of its failures."""

    formats: dict[str, list[str]]
    seed: int
    errors: str


def reported(request: pytest.FixtureRequest, *arguments: str, seed: int = 0) -> Reported:
    """Run all chosen formats that a test has, in one process: each imports all readers."""
    names = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and request.fixturename in item.fixturenames
    ]
    chosen = [word for name in names for word in ("--format", name)]
    done = run(*chosen, *arguments, "--seed", str(seed))
    formats: dict[str, list[str]] = {}
    of_format: list[str] = []
    for line in done.stdout.splitlines():
        if not line.startswith("  "):
            of_format = formats[line.partition(":")[0]] = []
        of_format.append(line)
    return Reported(formats, seed, done.stderr)


@pytest.fixture(scope="module")
def damaged(request: pytest.FixtureRequest) -> Reported:
    seed: int = request.config.getoption("randomly_seed")
    return reported(request, "--inputs", str(INPUTS), seed=seed)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_inputs_are_read_or_refused(damaged: Reported, name: str) -> None:
    assert name in damaged.formats, f"from seed {damaged.seed}:\n{damaged.errors}"
    line, *failures = damaged.formats[name]

    assert not failures, f"from seed {damaged.seed}"
    assert line.startswith(f"{name}: {INPUTS} inputs")


@pytest.fixture(scope="module")
def replayed(request: pytest.FixtureRequest) -> Reported:
    return reported(request, "--replay", str(FOUND))


@pytest.mark.parametrize("name", [name for name in FORMATS if (FOUND / name).is_dir()])
def test_what_was_found_is_repaired(replayed: Reported, name: str) -> None:
    assert name in replayed.formats, replayed.errors
    line, *failures = replayed.formats[name]

    assert not failures
    assert not line.startswith(f"{name}: 0 inputs")


def test_many_inputs_are_tried_quickly_and_what_is_new_is_kept(tmp_path: Path) -> None:
    done = run("--quick", "--inputs", "120", "--format", "folded", "--fresh", str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("folded: 120 inputs")
    kept = len([*(tmp_path / "folded").iterdir()])
    assert kept > 3

    run(
        "--quick", "--inputs", "30", "--seed", "500", "--format", "folded", "--fresh", str(tmp_path)
    )

    assert len([*(tmp_path / "folded").iterdir()]) >= kept
