"""The demo: three recordings of one slow request, and a tour of them.

`examples/demo` has the programs that made them.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from meantime.server.session import Session
from meantime.server.tour import Tour
from meantime.server.view import MOST_BYTES, View

__all__ = ["demo", "demo_session"]


def demo_session() -> Session:
    """Return the files of the demo, with the tour; they are not read yet."""
    folder = Path(str(files("meantime.server") / "demo_traces"))
    tour = json.loads((folder / "tour.json").read_text(encoding="utf-8"))
    sources = [folder / name for name in tour["files"]]
    return Session(sources, tour=Tour(tour["title"], tour["steps"]))


def demo(most_bytes: int = MOST_BYTES) -> View:
    """Return the page of the demo.

    Args:
        most_bytes: The size of a page in one file above which short detail is merged.
    """
    return View(demo_session(), most_bytes)
