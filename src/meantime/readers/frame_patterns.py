"""The patterns of frames that a pprof profile wants dropped from its stacks.

They are regular expressions of an untrusted file. Python's take exponential time on some, so only
alternatives of literal text are applied, with optional groups and one `.*` each: what profilers
write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["frame_pattern"]

_ALTERNATIVE = re.compile(r"(?:[\w:~$ ,<>&/@%#=!-]|\\[^\w]|\(\w+\)\?|\.(?![*+?{]))*")
_MOST_PATTERN = 4000
_MOST_NAME = 1000


def frame_pattern(drop: str, keep: str) -> Callable[[str], bool] | None:
    """Return whether a frame is dropped, by its name; None if a pattern is too complex.

    >>> dropped = frame_pattern(r"malloc|tcmalloc::.*|(__)?free", "tcmalloc::Keep")
    >>> [dropped(name) for name in ("malloc", "tcmalloc::x", "__free", "tcmalloc::Keep", "my")]
    [True, True, True, False, False]
    >>> frame_pattern("(a|b)*c", "") is None
    True
    """
    for pattern in (drop, keep):
        if len(pattern) > _MOST_PATTERN:
            return None
        for each in pattern.split("|"):
            before, star, after = each.partition(".*")
            if star and not _ALTERNATIVE.fullmatch(after):
                return None
            if not _ALTERNATIVE.fullmatch(before):
                return None
    dropped = re.compile(drop)
    kept = re.compile(keep) if keep else None

    def matches(name: str) -> bool:
        text = name[:_MOST_NAME]
        return bool(dropped.fullmatch(text)) and not (kept and kept.fullmatch(text))

    return matches
