"""The colours of names: the same for a name in every picture, quiet for names of libraries.

A page computes them itself, by the same rule in `web/shared/name-colors.ts`; here they are for the
static picture, which is light.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import cos, radians, sin
from typing import TYPE_CHECKING

from meantime.views.palette import RGB

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NameColors", "name_hash"]

# Without the hues of running and blocked states.
_HUES = (46, 66, 88, 110, 132, 190, 208, 228, 250, 272, 294, 316, 340)
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]|\bpython3?\.\d+[/\\]|<frozen |<built-in"
    r"|<string>|node_modules|\bnode:|\[kernel|\bvmlinux\b|\.so\b|\.dll\b|/usr/|rustlib",
    re.ASCII,
)
_FILE = re.compile(r"\(([^()]*[./\\<][^()]*?)(?::[0-9]+)?\)\s*\Z")
# As CPython names functions for perf: `py::function:/a/file.py`.
_PERF_FILE = re.compile(r"py::[^:]*:(.+)\Z")
_LEADING_FILE = re.compile(r"([\w./-]+\.\w+)(?::\d+)?[(:]", re.ASCII)
_MODULE = re.compile(r"([\w ]+?)(?:::|:|\.|\()", re.ASCII)


def name_hash(name: str) -> int:
    """Return FNV-1a of a name's UTF-16 code units, with its bits mixed.

    >>> name_hash("main"), name_hash("")
    (2393738048, 760700053)
    """
    code = 2166136261
    units = name.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        code = ((code ^ (low | high << 8)) * 16777619) & 0xFFFFFFFF
    code ^= code >> 15
    code = code * 2246822519 & 0xFFFFFFFF
    return code ^ code >> 13


class NameColors:
    """The colours of the names of a picture; which are of libraries depends on all of them.

    >>> colors = NameColors(["main", "read"])
    >>> str(colors["main"]), str(colors["read"])
    ('#e39b6e', '#a6baff')
    """

    def __init__(self, names: Iterable[str]) -> None:
        has_libraries = has_own = False
        for name in names:
            file = _file(name)
            is_library = _is_library(file)
            has_libraries |= is_library
            has_own |= not is_library and ("/" in file or "\\" in file)
        self._is_known = has_own and has_libraries

    def __getitem__(self, name: str) -> RGB:
        """Return the colour of a name."""
        code = name_hash(name)
        file = _file(name)
        is_quiet = self._is_known and _is_library(file)
        by = code
        if not self._is_known or is_quiet:
            module = _MODULE.match(name)
            by = name_hash(file or (module[1] if module else name))
        hue = _HUES[by % len(_HUES)] + (code >> 7) % 3 * 6 - 6
        lightness = (0.9 if is_quiet else 0.8) - (code >> 11) % 3 * 0.025
        return _oklch(lightness, 0.028 if is_quiet else 0.105, hue)


def _is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def _file(name: str) -> str:
    """Return the file that a name mentions, or an empty text."""
    found = _FILE.search(name) or _PERF_FILE.match(name) or _LEADING_FILE.match(name)
    return found[1] if found else ""


@lru_cache
def _oklch(lightness: float, chroma: float, hue: int) -> RGB:
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3  # noqa: E741 - the cone's name
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    return RGB(
        _encoded(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
        _encoded(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
        _encoded(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
    )


def _encoded(part: float) -> int:
    light = min(1.0, max(0.0, part))
    if light <= 0.0031308:
        return int(255 * 12.92 * light + 0.5)
    return int(255 * (1.055 * light ** (1 / 2.4) - 0.055) + 0.5)
