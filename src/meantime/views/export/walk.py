"""Spans in the order in which they began and ended, as formats with begins and ends require."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import span_records
from meantime.trace import SpanFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.columns import Int32s, Int64s
    from meantime.history.spans import SpanTable

__all__ = ["Step", "is_structured", "lanes", "steps", "walk"]


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
    index, begins, time_ns = steps(spans, np.array(rows, np.int32), spans.parent)
    for step in zip(begins.tolist(), index.tolist(), time_ns.tolist(), strict=True):
        yield Step(*step)


def steps(
    spans: SpanTable, rows: Int32s, parent: Int32s
) -> tuple[Int32s, npt.NDArray[np.bool_], Int64s]:
    """Return the same as columns: rows, whether each begins, and the times.

    Rows may be of several lanes, one after the other, if `parent` has no parents in other lanes.
    """
    order = span_records.walk(rows, parent)
    begins = order >= 0
    index = rows[np.where(begins, order, ~order)]
    return index, begins, np.where(begins, spans.start_ns[index], spans.end_ns[index])


def is_structured(spans: SpanTable, thread: int) -> bool:
    """Return whether all spans of a thread are nested in the order of their begins and ends."""
    flags = spans.flags[int(spans.offsets[thread]) : int(spans.offsets[thread + 1])]
    return bool(np.all(flags & np.uint8(SpanFlag.STRUCTURED)))
