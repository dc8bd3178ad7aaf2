"""Union and clipping of half-open ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from meantime.model.columns import Int64s

__all__ = ["Range", "clipped", "ranges_of", "union"]

Range: TypeAlias = "tuple[int, int]"


def ranges_of(start_ns: Int64s, end_ns: Int64s) -> tuple[Range, ...]:
    """Return two columns as ranges."""
    return tuple(zip(start_ns.tolist(), end_ns.tolist(), strict=True))


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the union of half-open ranges: in order, with gaps between them, none empty.

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
    """Return the parts of half-open ranges that are in [start, end).

    >>> clipped([(0, 4), (6, 9)], 2, 7)
    ((2, 4), (6, 7))
    """
    return union((max(begin, start), min(finish, end)) for begin, finish in ranges)
