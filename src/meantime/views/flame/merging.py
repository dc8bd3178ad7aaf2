"""Merge the shortest spans of a chart with too many for one page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.views.flame.chart import Chart

__all__ = ["MERGED_NAME", "MOST_SPANS", "merged"]

# A page of so many spans has some 60 MB and opens in seconds.
MOST_SPANS = 8_000_000
MERGED_NAME = "(short spans)"
_CELL = 16


def merged(chart: Chart, most: int) -> Chart:
    """Return a chart of at most about `most` boxes, in which neighbours that are short are one box.

    A merged box has the length that its spans cover together, so that the busy time of a row stays
    the same. It begins with the first of them; all are within 16 times `merged_ns`.
    """
    if len(chart) <= most:
        return chart
    is_same_row = np.ones(len(chart), np.bool_)
    is_same_row[chart.row_start[:-1][np.diff(chart.row_start) > 0]] = False
    gap = np.empty(len(chart), np.int64)
    gap[0] = 0
    gap[1:] = chart.start[1:] - chart.start[:-1] - chart.length[:-1]
    limit = 1
    while True:
        joins = _joins(chart, is_same_row, gap, limit)
        if len(chart) - int(joins.sum()) <= most or limit > chart.width:
            return _joined(chart, joins, limit)
        limit *= 2


def _joins(
    chart: Chart, is_same_row: npt.NDArray[np.bool_], gap: Int64s, limit: int
) -> npt.NDArray[np.bool_]:
    """Return which boxes are merged with the one before them."""
    short = chart.length < limit
    joins = is_same_row & short & (gap < limit)
    joins[1:] &= short[:-1]
    cell = chart.start // (limit * _CELL)
    joins[1:] &= cell[1:] == cell[:-1]
    joins[0] = False
    return joins


def _joined(chart: Chart, joins: npt.NDArray[np.bool_], limit: int) -> Chart:
    first = np.flatnonzero(~joins)
    index = np.cumsum(~joins, dtype=np.int32) - np.int32(1)
    count = np.diff(np.append(first, len(chart)))
    several = count > 1
    frame = chart.frame[first]
    frame[several] = len(chart.frames)
    parent = chart.parent[first]
    code = None if chart.arguments.code is None else chart.arguments.code[first]
    if code is not None:
        code[several] = -1
    return replace(
        chart,
        start=chart.start[first],
        length=np.add.reduceat(chart.length, first),
        own=np.add.reduceat(chart.own, first),
        row=chart.row[first],
        parent=np.where(parent < 0, parent, index[parent]),
        frame=frame,
        frames=[*chart.frames, MERGED_NAME],
        arguments=replace(chart.arguments, code=code),
        count=count.astype(np.int64),
        merged_ns=limit,
        panels=tuple(
            replace(
                panel,
                first=int(np.searchsorted(first, panel.first)),
                last=int(np.searchsorted(first, panel.last)),
            )
            for panel in chart.panels
        ),
    )
