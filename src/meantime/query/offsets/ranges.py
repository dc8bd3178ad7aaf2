"""Half-open ranges, put in order and together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Range", "clipped", "union"]

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


def clipped(ranges: Iterable[Range], start: int, end: int) -> tuple[Range, ...]:
    """Return what of the half-open ranges lies in [start, end).

    >>> clipped([(0, 4), (6, 9)], 2, 7)
    ((2, 4), (6, 7))
    """
    return union((max(begin, start), min(finish, end)) for begin, finish in ranges)
