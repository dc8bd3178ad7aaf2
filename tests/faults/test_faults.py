"""What commands leave when a call for one of their files fails: a few of all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent / "try_calls.py"
EVERY = 40

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="calls are made to fail by a library that a C compiler makes, on Linux",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *arguments], capture_output=True, text=True, check=False
    )


def test_nothing_is_left_half_done_and_all_is_said() -> None:
    done = run("--every", str(EVERY))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" calls failed") > 60
