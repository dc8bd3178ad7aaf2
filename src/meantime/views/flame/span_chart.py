"""The flame chart of spans: every span of a range, by thread and depth."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.kernels import nest
from meantime.query.parts import extent_of
from meantime.query.threads import thread_of, thread_quarks, thread_title
from meantime.views.flame.arguments import ArgumentCollector
from meantime.views.flame.chart import Chart, ChartPanel
from meantime.views.flame.events import counters, flows, instants
from meantime.views.flame.merging import MOST_SPANS, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.columns import Int32s, Int64s
    from meantime.history.history import History
    from meantime.history.spans import SpanTable
    from meantime.query.threads import Thread

__all__ = ["chart"]


class _Place(NamedTuple):
    """The panel and the row in it of each span of a table, with what each panel is."""

    panel: Int32s
    row: Int32s
    titles: list[ChartPanel]


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
    rows = np.array([0, *(panel.rows for panel in place.titles)], np.int64).cumsum()
    key = rows[place.panel] + place.row
    # 16 bits are sorted several times as fast
    narrow = key.astype(np.uint16) if rows[-1] < 1 << 16 else key
    order = np.argsort(narrow, kind="stable")
    begin = np.clip(spans.start_ns, start_ns, end_ns)
    length = np.clip(spans.end_ns, start_ns, end_ns) - begin
    index = np.empty(len(order) + 1, np.int32)
    index[order] = np.arange(len(order), dtype=np.int32)
    index[-1] = -1
    edges = np.searchsorted(key[order], rows)
    panels = tuple(
        ChartPanel(
            panel.title, panel.process, panel.kind, int(first), int(last), panel.rows, panel.quarks
        )
        for panel, first, last in zip(place.titles, edges[:-1], edges[1:], strict=True)
    )
    arguments = ArgumentCollector()
    arguments.add(
        spans.text,
        spans.arguments_offset[order],
        spans.arguments_length[order].astype(np.int64),
        length[order],
    )
    events = instants(history, quarks, start_ns, end_ns)
    points, at = events.points, events.rows
    none = np.zeros(len(at), np.int64)
    arguments.add(
        points.text,
        points.arguments_offset[at],
        points.arguments_length[at].astype(np.int64),
        none,
    )
    own = nest.self_time(begin, begin + length, spans.parent)
    drawn = Chart(
        title=title,
        origin_ns=start_ns - extent_of(history).start_ns,
        width=end_ns - start_ns,
        start=np.concatenate([(begin - start_ns)[order], points.time_ns[at] - start_ns]),
        length=np.concatenate([length[order], none]),
        own=np.concatenate([own[order], none]),
        row=np.concatenate([place.row[order], none.astype(np.int32)]),
        parent=np.concatenate([index[spans.parent[order]], none.astype(np.int32) - np.int32(1)]),
        frame=np.concatenate(
            [spans.name.codes[order], points.name.codes[at] + np.int32(len(spans.name.names))]
        ),
        frames=[*spans.name.names, *points.name.names],
        panels=(
            *panels,
            *(
                replace(panel, first=panel.first + len(spans), last=panel.last + len(spans))
                for panel in events.panels
            ),
        ),
        arguments=arguments.result(),
        counters=counters(history, start_ns, end_ns) if quarks is None else (),
    )
    # flows bind to threads, whose first panel is that of their first lane
    panel_of = {
        quark: number
        for number, panel in reversed(list(enumerate(panels)))
        for quark in panel.quarks
    }
    return merged(replace(drawn, flows=flows(history, panel_of, start_ns, end_ns)), most)


def _places(history: History, spans: SpanTable) -> _Place:
    """Return where each span is drawn."""
    panel = np.zeros(len(spans), np.int32)
    row = spans.depth.astype(np.int32)
    titles: list[ChartPanel] = []
    threads = set(thread_quarks(history).tolist())
    operations: dict[tuple[str, str], list[int]] = {}
    for index, quark in enumerate(spans.threads.tolist()):
        part = slice(*spans.offsets[index : index + 2].tolist())
        if quark not in threads:
            whose = thread_of(history, quark)
            group = (whose.path or "").rpartition("/")[0].partition("/")[2] or "Async"
            operations.setdefault((_process(whose), group), []).append(index)
            continue
        lane = spans.lane[part]
        whose = thread_of(history, quark)
        for number in np.unique(lane).tolist():
            within = np.flatnonzero(lane == number) + part.start
            # a further lane may begin at any depth: its rows count from its least one
            row[within] -= row[within].min()
            panel[within] = len(titles)
            name = thread_title(whose) + (f", lane {number}" if number else "")
            rows = int(row[within].max()) + 1
            titles.append(ChartPanel(name, _process(whose), "spans", 0, 0, rows, (quark,)))
    for (process, group), indices in operations.items():
        within = np.concatenate([np.arange(*spans.offsets[i : i + 2]) for i in indices])
        row[within], rows = _first_free(spans.start_ns[within], spans.end_ns[within])
        panel[within] = len(titles)
        name = f"{process} / {group}" if process else group
        quarks = tuple(int(spans.threads[i]) for i in indices)
        titles.append(ChartPanel(name, process, "async", 0, 0, rows, quarks))
    return _Place(panel, row, titles)


def _process(whose: Thread) -> str:
    if whose.pid == "":
        return ""
    return f"{whose.process} {whose.pid}" if whose.process else str(whose.pid)


def _first_free(start_ns: Int64s, end_ns: Int64s) -> tuple[Int32s, int]:
    """Return the first row in which each span overlaps no other, and how many rows there are."""
    row = np.zeros(len(start_ns), np.int32)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    rows = 0
    for index in np.lexsort((-end_ns, start_ns)).tolist():
        start, end = int(start_ns[index]), int(end_ns[index])
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            row[index] = heappop(free)
        else:
            row[index] = rows
            rows += 1
        heappush(busy, (end, int(row[index])))
    return row, rows
