r"""The attribute tree. A path is a tuple of names; its text form escapes `/`, `*` and `\`."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Path"]

Path: TypeAlias = "tuple[str, ...]"
