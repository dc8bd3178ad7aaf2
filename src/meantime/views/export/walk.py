"""Spans in the order in which they began and ended, as formats with begins and ends require."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.trace import SpanFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable

__all__ = ["Step", "is_structured", "lanes", "walk"]


class Step(NamedTuple):
    """One begin or end."""

    begins: bool
    row: int
    time_ns: int


def lanes(spans: SpanTable, thread: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each lane of the thread with this index in the table, with its rows."""
    first, last = int(spans.offsets[thread]), int(spans.offsets[thread + 1])
    lane = spans.lane[first:last]
    rows = np.argsort(lane, kind="stable") + first
    for number, in_lane in enumerate(np.split(rows, np.cumsum(np.bincount(lane))[:-1])):
        yield number, in_lane.tolist()


def walk(spans: SpanTable, rows: list[int]) -> Iterator[Step]:
    """Yield the begins and ends of the spans of one lane; unfinished ones end too."""
    parent = spans.parent[rows].tolist()
    start_ns, end_ns = spans.start_ns[rows].tolist(), spans.end_ns[rows].tolist()
    begun: list[int] = []
    for index, row in enumerate(rows):
        # a parent in another lane matches no open span, so all of them end
        while begun and rows[begun[-1]] != parent[index]:
            ended = begun.pop()
            yield Step(False, rows[ended], end_ns[ended])
        begun.append(index)
        yield Step(True, row, start_ns[index])
    while begun:
        ended = begun.pop()
        yield Step(False, rows[ended], end_ns[ended])


def is_structured(spans: SpanTable, thread: int) -> bool:
    """Return whether all spans of a thread are nested in the order of their begins and ends."""
    flags = spans.flags[int(spans.offsets[thread]) : int(spans.offsets[thread + 1])]
    return bool(np.all(flags & np.uint8(SpanFlag.STRUCTURED)))
