"""The colours of names: the same for a name in every picture, quiet for names of libraries.

A page computes them itself, by the same rule in `web/shared/name-colors.ts`; here they are for the
static picture, which is light.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meantime.views.palette import oklch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.views.palette import RGB

__all__ = ["NameColors", "name_hash"]

# Without the hues of running and blocked states.
_HUES = (46, 66, 88, 110, 132, 190, 208, 228, 250, 272, 294, 316, 340)
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]|\bpython3?\.\d+t?[/\\]"
    r"|\bmeantime[/\\]collect[/\\]|<frozen |<built-in|<string>|node_modules|\bnode:|\[kernel"
    r"|\bvmlinux\b|\.so\b|\.dll\b|/usr/|rustlib",
    re.ASCII,
)
# Where files have such folders, those of the program itself have none.
_PACKAGE = re.compile(r"(?:^|[/\\])(?:site-packages|dist-packages|python3\.\d+t?)[/\\]", re.ASCII)
_BARE_FILE = re.compile(r"[^/\\<]+\.pyx?\Z")
# Functions in which an event loop or a thread does nothing but wait.
_IDLE = re.compile(
    r"(?:(?:Epoll|Poll|Select|Kqueue|Devpoll)Selector\._?select|(?:__)?(?:epoll_p?wait2?|p?poll|p?select))"
    r"(?: \(.*)?\Z",
    re.DOTALL,
)
_IDLE_COLOR = (0.945, 0.006, 265)
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

    Own code is strong beside that of libraries:

    >>> colors = NameColors(["main (app.py:1)", "run (python3.11/asyncio/runners.py:86)"])
    >>> str(colors["main (app.py:1)"]), str(colors["run (python3.11/asyncio/runners.py:86)"])
    ('#81bbf7', '#cae4e2')
    """

    def __init__(self, names: Iterable[str]) -> None:
        has_libraries = has_own = has_packages = has_bare = False
        for name in names:
            file = _file(name)
            is_library = _is_library(file)
            has_libraries |= is_library
            has_own |= not is_library and ("/" in file or "\\" in file)
            has_packages |= _PACKAGE.search(file) is not None
            has_bare |= _BARE_FILE.match(file) is not None
        self._is_known = has_libraries and (has_own or (has_packages and has_bare))

    def __getitem__(self, name: str) -> RGB:
        """Return the colour of a name."""
        if _IDLE.match(name):
            return oklch(*_IDLE_COLOR)
        code = name_hash(name)
        file = _file(name)
        is_quiet = self._is_known and _is_library(file)
        by = code
        if not self._is_known or is_quiet:
            module = _MODULE.match(name)
            by = name_hash(file or (module[1] if module else name))
        hue = _HUES[by % len(_HUES)] + (code >> 7) % 3 * 6 - 6
        lightness = (0.9 if is_quiet else 0.8) - (code >> 11) % 3 * 0.025
        return oklch(lightness, 0.028 if is_quiet else 0.105, hue)


def _is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None


def _file(name: str) -> str:
    """Return the file that a name mentions, or an empty text."""
    found = _FILE.search(name) or _PERF_FILE.match(name) or _LEADING_FILE.match(name)
    return found[1] if found else ""
