"""A short run of each format, and all that longer ones found, which stays repaired."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_inputs_are_read_or_refused(name: str) -> None:
    # elsewhere than where results are compared, each run tries other inputs
    seed = 0 if "CI" in os.environ else random.randrange(2**30)  # noqa: S311 - not a secret

    done = run("--format", name, "--inputs", str(INPUTS), "--seed", str(seed))

    assert done.returncode == 0, f"from seed {seed}:\n{done.stdout}{done.stderr}"
    assert done.stdout.startswith(f"{name}: {INPUTS} inputs")


@pytest.mark.parametrize("name", [name for name in FORMATS if (FOUND / name).is_dir()])
def test_what_was_found_is_repaired(name: str) -> None:
    done = run("--format", name, "--replay", str(FOUND))

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 inputs" not in done.stdout
