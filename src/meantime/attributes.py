"""The attribute tree's paths. A path is a tuple of names; its text form escapes `/`, `*` and `\\`."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Path", "format_path"]

Path: TypeAlias = "tuple[str, ...]"
