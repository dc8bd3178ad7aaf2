"""The documentation as a site."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def test_the_site_is_built_without_warnings_and_has_live_pages(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", root / "docs", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert 'src="postgres.svg"' in (tmp_path / "index.html").read_text()
    assert b"<script" in (tmp_path / "postgres.svg").read_bytes()
    assert 'src="../demo.html"' in (tmp_path / "how-to" / "look-at-traces.html").read_text()
    assert b"meantime-session" in (tmp_path / "demo.html").read_bytes()
