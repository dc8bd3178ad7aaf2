"""How Sphinx builds the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import meantime
from meantime import __version__ as _version
from meantime.server.demo import demo

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_HERE = Path(__file__).resolve().parent
# the pages that the landing page shows, drawn when the site is built
_DRAWN = _HERE / "_drawn"
_DRAWN.mkdir(exist_ok=True)

project = "meantime"
author = "The meantime developers"
copyright = "the meantime developers"  # noqa: A001 - Sphinx's name for it
release = _version

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_use_ivar = True  # the fields of named tuples and dataclasses are listed once
nitpicky = False

html_theme = "furo"
html_title = "meantime"
html_static_path: list[str] = []
html_extra_path = ["_drawn"]
exclude_patterns = ["_build", "_drawn"]
# links of the pages that GitHub shows too, which are relative to the checkout
suppress_warnings = ["myst.xref_missing"]


def _draw(app: Sphinx) -> None:
    del app
    view = meantime.statemap(_HERE.parent / "examples" / "postgres.statemap.gz")
    view.save(_DRAWN / "postgres.svg")
    demo().save(_DRAWN / "demo.html")


def setup(app: Sphinx) -> None:
    """Register what is drawn for the site; Sphinx calls it."""
    app.connect("builder-inited", _draw)
