"""The flame chart of samples: the stack of each thread over time, as far as samples show it.

A sample represents the time until the next one of its thread, at most for its weight if that is a
time, otherwise for the median distance of the thread's samples. Gaps of up to three such intervals
are bridged; longer ones stay gaps. Equal frames with equal callers in a row are one box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.query.parts import extent_of
from meantime.query.sample_units import sample_unit
from meantime.query.threads import process_title, thread_of, thread_title
from meantime.views.flame.chart import Chart, ChartPanel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.model.columns import Int32s, Int64s
    from meantime.model.stacks import StackTable

__all__ = ["sample_chart"]

_BRIDGED_INTERVALS = 3


def sample_chart(
    history: History,
    quarks: Sequence[int] | Int32s | None = None,
    *,
    title: str,
    start_ns: int,
    end_ns: int,
) -> Chart:
    """Return the flame chart of the samples of a range.

    >>> from meantime.testing import history_from_samples
    >>> rows = [(0, "t", ["a", "b"], 1), (10, "t", ["a", "c"], 1), (20, "t", ["a", "c"], 1)]
    >>> drawn = sample_chart(history_from_samples(rows), title="", start_ns=0, end_ns=30)
    >>> drawn.start.tolist(), drawn.length.tolist(), drawn.count.tolist()
    ([0, 0, 10], [30, 10, 20], [3, 1, 2])
    """
    samples = history.samples(quarks, start_ns=start_ns, end_ns=end_ns)
    is_time = sample_unit(samples) == "ns"
    depth = _depths(samples.stacks)
    parts: list[dict[str, Int64s]] = []
    panels: list[ChartPanel] = []
    boxes = 0
    # samples without a stack show only that the thread was sampled
    known = np.flatnonzero(samples.stack >= 0)
    for quark in distinct(samples.thread[known]).tolist():
        chosen = known[samples.thread[known] == quark]
        begin, weight = samples.time_ns[chosen], samples.weight[chosen]
        # profiles without times have the sum of the weights before in their place
        is_length = is_time or np.array_equal(np.diff(begin), np.abs(weight[:-1]))
        end = _ends(begin, weight if is_length else None, end_ns)
        drawn = _boxes(samples.stacks, depth, samples.stack[chosen], begin, end)
        parts.append(drawn)
        name = thread_title(thread_of(history, quark))
        process = process_title(history, quark)
        last, rows = boxes + len(drawn["start"]), int(drawn["row"].max()) + 1
        panels.append(ChartPanel(name, process, "samples", boxes, last, rows, (quark,)))
        drawn["parent"][drawn["parent"] >= 0] += boxes
        boxes = last
    joined = [
        np.concatenate([np.empty(0, np.int64), *(part[name] for part in parts)])
        for name in ("start", "length", "own", "row", "parent", "frame", "count")
    ]
    start, length, own, row, parent, frame, count_of = joined
    return Chart(
        title=title,
        origin_ns=start_ns,
        begin_ns=extent_of(history).start_ns,
        width=end_ns - start_ns,
        start=start - start_ns,
        length=length,
        own=own,
        row=row.astype(np.int32),
        parent=parent.astype(np.int32),
        frame=frame.astype(np.int32),
        frames=samples.stacks.frames,
        panels=tuple(panels),
        count=count_of,
    )


def _depths(stacks: StackTable) -> Int32s:
    depth = np.zeros(len(stacks), np.int32)
    for row, parent in enumerate(stacks.parent.tolist()):
        if parent >= 0:
            depth[row] = depth[parent] + 1
    return depth


def _ends(begin: Int64s, weight: Int64s | None, end_ns: int) -> Int64s:
    """Return until when each sample of a thread counts."""
    following = np.append(begin[1:], end_ns)
    distance = following - begin
    between = distance[:-1][distance[:-1] > 0]
    if weight is not None and (weight > 0).any():
        interval = int(np.median(weight[weight > 0]))
        length = weight
    else:
        interval = int(np.median(between)) if len(between) else 1
        length = np.full(len(begin), interval, np.int64)
    end: Int64s = begin + np.minimum(np.maximum(length, 0), distance)
    bridged = following - end <= _BRIDGED_INTERVALS * interval
    # the last sample has no next one to reach
    bridged[-1:] = False
    return np.where(bridged, following, end)


def _boxes(
    stacks: StackTable, depth: Int32s, stack: Int32s, begin: Int64s, end: Int64s
) -> dict[str, Int64s]:
    """Return the boxes of the samples of a thread, which are in order of time, row by row."""
    rows = int(depth[stack].max()) + 1
    gap = np.ones(len(stack), np.bool_)
    gap[1:] = begin[1:] > end[:-1]
    found: list[dict[str, Int64s]] = []
    # the stack of each sample in each row, from the innermost row outwards
    ancestor = stack.copy()
    by_row: list[Int32s] = []
    for row in range(rows - 1, -1, -1):
        deeper = depth[ancestor] > row
        ancestor = np.where(deeper, stacks.parent[ancestor], ancestor)
        by_row.append(np.where(depth[ancestor] == row, ancestor, -1))
    above = np.full(len(stack), -1, np.int64)
    boxes = 0
    for row, node in enumerate(reversed(by_row)):
        starts = gap | (node != np.concatenate([[-2], node[:-1]]))
        number = np.cumsum(starts) - 1
        firsts = np.flatnonzero(starts)
        lasts = np.append(firsts[1:], len(node)) - 1
        kept = node[firsts] >= 0
        index = np.where(kept, np.cumsum(kept) - 1 + boxes, -1)
        found.append(
            {
                "start": begin[firsts][kept],
                "length": (end[lasts] - begin[firsts])[kept],
                "row": np.full(int(kept.sum()), row, np.int64),
                "parent": above[firsts][kept],
                "frame": stacks.frame[node[firsts][kept]].astype(np.int64),
                "count": (lasts - firsts + 1)[kept],
            }
        )
        above = index[number]
        boxes += int(kept.sum())
    columns = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    own = columns["length"].copy()
    inside = columns["parent"] >= 0
    np.subtract.at(own, columns["parent"][inside], columns["length"][inside])
    return {**columns, "own": own}
