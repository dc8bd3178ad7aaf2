"""Half-open ranges, put in order and together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Range", "union"]

Range: TypeAlias = "tuple[int, int]"


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return what the half-open ranges cover: in order, apart from each other, none empty.

    >>> union([(5, 7), (0, 2), (2, 3), (6, 9), (4, 4)])
    ((0, 3), (5, 9))
    """
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
