"""Spans in the order in which they began and ended, as formats with begins and ends require."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import span_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = ["LaneGroup", "lane_groups", "steps"]

# NumPy's calls take longer than the rows of a short lane
_ROWS_AT_ONCE = 1 << 14


class LaneGroup(NamedTuple):
    """Some lanes of threads, one after the other.

    Attributes:
        thread: By lane, the index of its thread in the table.
        lane: By lane, its number within the thread.
        rows: The rows of all these lanes.
        starts: By lane, where its rows begin, and where those of the last one end.
    """

    thread: npt.NDArray[np.intp]
    lane: Int64s
    rows: Int32s
    starts: npt.NDArray[np.intp]


def lane_groups(spans: SpanTable) -> Iterator[LaneGroup]:
    """Yield all lanes in the order of the table: one with many rows, or several with few."""
    if not len(spans):
        return
    thread = np.repeat(np.arange(len(spans.threads)), np.diff(spans.offsets))
    lane = spans.lane.astype(np.int64)
    rows = np.arange(len(spans), dtype=np.int32)
    if lane.any():
        rows = np.lexsort((lane, thread)).astype(np.int32)
        lane = lane[rows]
    changes = (thread[1:] != thread[:-1]) | (lane[1:] != lane[:-1])
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(rows)]])
    first = 0
    while first < len(starts) - 1:
        most = int(starts[first]) + _ROWS_AT_ONCE
        last = max(int(np.searchsorted(starts, most, "right")) - 1, first + 1)
        begin, end = int(starts[first]), int(starts[last])
        in_group = starts[first:last]
        yield LaneGroup(
            thread[in_group], lane[in_group], rows[begin:end], starts[first : last + 1] - begin
        )
        first = last


def steps(
    spans: SpanTable, rows: Int32s, parent: Int32s
) -> tuple[Int32s, npt.NDArray[np.bool_], Int64s]:
    """Return the begins and ends of some spans: rows, whether each begins, and the times.

    Unfinished spans end too. Rows may be of several lanes, one after the other, if `parent` has no
    parents in other lanes.
    """
    order = span_records.walk(rows, parent)
    begins = order >= 0
    index = rows[np.where(begins, order, ~order)]
    return index, begins, np.where(begins, spans.start_ns[index], spans.end_ns[index])
