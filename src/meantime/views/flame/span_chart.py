"""The flame chart of spans: every span of a range, by thread and depth."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import nest
from meantime.model.columns import distinct
from meantime.query.parts import extent_of
from meantime.query.threads import process_title, thread_of, thread_quarks, thread_title
from meantime.views.flame.arguments import ArgumentCollector
from meantime.views.flame.chart import Chart, ChartPanel
from meantime.views.flame.events import counters, flows, instants, with_instants
from meantime.views.flame.merging import MOST_SPANS, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int32s, Int64s

__all__ = ["chart"]


class _Place(NamedTuple):
    """Where spans are drawn.

    Attributes:
        panel: The panel of each span.
        row: Its row in the panel.
        by_time: The spans in an order that ascends in each row.
        panels: What each panel is, without its boxes.
    """

    panel: Int32s
    row: Int32s
    by_time: Int64s
    panels: list[ChartPanel]


def chart(
    history: History,
    quarks: Sequence[int] | Int32s | None = None,
    *,
    title: str,
    start_ns: int,
    end_ns: int,
    most: int = MOST_SPANS,
) -> Chart:
    """Return the flame chart of a range: the spans of each thread in time, clipped to the range.

    Without quarks, asynchronous operations and counters are drawn too.

    >>> from meantime.testing import history_from_spans
    >>> history = history_from_spans({"main": [("a", 0, 10), ("b", 2, 5)]})
    >>> drawn = chart(history, title="", start_ns=3, end_ns=9)
    >>> drawn.start.tolist(), drawn.length.tolist(), drawn.row.tolist()
    ([0, 0], [6, 2], [0, 1])
    """
    spans = history.spans(quarks, start_ns=start_ns, end_ns=end_ns)
    place = _places(history, spans)
    order, panels = _order(place)
    begin = np.clip(spans.start_ns, start_ns, end_ns)
    length = np.clip(spans.end_ns, start_ns, end_ns) - begin
    own = nest.self_time(begin, begin + length, spans.parent)
    index = np.full(len(order) + 1, -1, np.int32)
    index[order] = np.arange(len(order), dtype=np.int32)
    arguments = ArgumentCollector()
    arguments.add(
        spans.text,
        spans.arguments_offset[order],
        spans.arguments_length[order].astype(np.int64),
        length[order],
    )
    drawn = Chart(
        title=title,
        origin_ns=start_ns,
        begin_ns=extent_of(history).start_ns,
        width=end_ns - start_ns,
        start=(begin - start_ns)[order],
        length=length[order],
        own=own[order],
        row=place.row[order],
        parent=index[spans.parent[order]],
        frame=spans.name.codes[order],
        frames=spans.name.names,
        panels=panels,
        counters=counters(history, start_ns, end_ns) if quarks is None else (),
        flows=flows(history, panels, start_ns, end_ns),
    )
    events = instants(history, quarks, start_ns, end_ns)
    return merged(with_instants(drawn, events, arguments), most)


def _order(place: _Place) -> tuple[Int64s, tuple[ChartPanel, ...]]:
    """Return the spans by panel, row and time, and the panels with their first and last boxes."""
    rows = np.array([0, *(panel.rows for panel in place.panels)], np.int64).cumsum()
    key = rows[place.panel] + place.row
    if rows[-1] < 1 << 16:
        # 16 bits are sorted several times as fast
        key = key.astype(np.uint16)
    order = place.by_time[np.argsort(key[place.by_time], kind="stable")]
    edges = np.searchsorted(key[order], rows)
    panels = (
        replace(panel, first=int(first), last=int(last))
        for panel, first, last in zip(place.panels, edges[:-1], edges[1:], strict=True)
    )
    return order, tuple(panels)


def _places(history: History, spans: SpanTable) -> _Place:
    """Return where each span is drawn."""
    panel = np.zeros(len(spans), np.int32)
    row = spans.depth.astype(np.int32)
    panels: list[ChartPanel] = []
    by_time = np.arange(len(spans))
    threads = set(thread_quarks(history).tolist())
    operations: dict[tuple[str, str], list[int]] = {}
    for index, quark in enumerate(spans.threads.tolist()):
        part = slice(*spans.offsets[index : index + 2].tolist())
        if quark not in threads:
            whose = thread_of(history, quark)
            group = (whose.path or "").rpartition("/")[0].partition("/")[2] or "Async"
            operations.setdefault((process_title(history, quark), group), []).append(index)
            continue
        lane = spans.lane[part]
        whose = thread_of(history, quark)
        for number in distinct(lane).tolist():
            within = np.flatnonzero(lane == number) + part.start
            # a further lane may begin at any depth: its rows count from its least one
            row[within] -= row[within].min()
            panel[within] = len(panels)
            name = thread_title(whose) + (f", lane {number}" if number else "")
            rows = int(row[within].max()) + 1
            panels.append(
                ChartPanel(name, process_title(history, quark), "spans", 0, 0, rows, (quark,))
            )
    for (process, group), indices in operations.items():
        within = np.concatenate([np.arange(*spans.offsets[i : i + 2]) for i in indices])
        # spans of a thread are in order of time, but these are of several operations
        within_time = within[np.lexsort((spans.end_ns[within], spans.start_ns[within]))]
        by_time[np.sort(within)] = within_time
        row[within_time], rows = _first_free(spans.start_ns[within_time], spans.end_ns[within_time])
        panel[within] = len(panels)
        name = f"{process} / {group}" if process else group
        quarks = tuple(int(spans.threads[i]) for i in indices)
        panels.append(ChartPanel(name, process, "async", 0, 0, rows, quarks))
    return _Place(panel, row, by_time, panels)


def _first_free(start_ns: Int64s, end_ns: Int64s) -> tuple[Int32s, int]:
    """Return the first row in which each span overlaps no other, and how many rows there are.

    They are in order of their starts.
    """
    row = np.zeros(len(start_ns), np.int32)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    rows = 0
    for index, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            row[index] = heappop(free)
        else:
            row[index] = rows
            rows += 1
        heappush(busy, (end, int(row[index])))
    return row, rows
