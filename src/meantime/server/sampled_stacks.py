"""The stacks that samples show, as spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.spans import SpanTable
from meantime.model.columns import Coded
from meantime.model.trace import ArgumentText
from meantime.query.threads import thread_quarks
from meantime.server.lane_blocks import SpanRows

if TYPE_CHECKING:
    from meantime.history import History

__all__ = ["sampled_stacks"]


def sampled_stacks(history: History) -> tuple[dict[int, tuple[int, int]], SpanRows | None]:
    """Return the stacks that samples show as spans, and the rows of each thread among them."""
    samples = history.samples()
    if len(thread_quarks(history)) or not (samples.stack >= 0).any():
        return {}, None
    from meantime.views.flame.sample_chart import sample_chart  # noqa: PLC0415 - few histories need it

    end_ns = max(history.bounds[1], int(samples.time_ns[-1]) + 1)
    chart = sample_chart(
        history, title="", start_ns=min(history.bounds[0], int(samples.time_ns[0])), end_ns=end_ns
    )
    quarks = np.array([panel.quarks[0] for panel in chart.panels], np.int32)
    sizes = [panel.last - panel.first for panel in chart.panels]
    panel = np.repeat(np.arange(len(quarks)), sizes)
    order = np.lexsort((chart.row, chart.start, panel))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    place = np.empty(len(order) + 1, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    place[-1] = -1
    start_ns = chart.start[order] + chart.origin_ns
    nothing = np.zeros(len(order), np.int64)
    table = SpanTable.of_arrays(
        threads=quarks,
        offsets=offsets,
        start_ns=start_ns,
        end_ns=start_ns + chart.length[order],
        name=Coded(chart.frame[order].astype(np.int32), chart.frames),
        category=Coded(np.full(len(order), -1, np.int32), []),
        depth=chart.row[order].astype(np.int32),
        lane=np.zeros(len(order), np.uint8),
        parent=place[chart.parent[order]],
        flags=np.zeros(len(order), np.uint8),
        arguments_offset=nothing,
        arguments_length=np.zeros(len(order), np.int32),
        text=ArgumentText(),
    )
    assert chart.count is not None
    counts = chart.count[order].astype(np.int32)
    spans = SpanRows(table, np.zeros(len(order), np.int32), samples=counts)
    ends = zip(quarks.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return {quark: (first, last) for quark, first, last in ends}, spans
