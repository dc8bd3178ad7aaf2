"""How Sphinx builds the documentation."""

from meantime import __version__ as _version

project = "meantime"
author = "The meantime developers"
copyright = "the meantime developers"  # noqa: A001 - Sphinx's name for it
release = _version

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
nitpicky = False

html_theme = "furo"
html_title = "meantime"
html_static_path: list[str] = []
exclude_patterns = ["_build"]
