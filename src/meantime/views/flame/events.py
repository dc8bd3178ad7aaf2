"""What a chart has beside spans: instants as boxes without a width, counters, and flows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.tail import FLOAT, INT
from meantime.model.columns import Mixed
from meantime.query.threads import process_title, thread_of, thread_title
from meantime.structs import struct
from meantime.views.flame.chart import ChartPanel, Counter, Flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.history.history import History
    from meantime.history.results import Points
    from meantime.model.columns import Int32s, Int64s
    from meantime.views.flame.arguments import ArgumentCollector
    from meantime.views.flame.chart import Chart

__all__ = ["Instants", "counters", "flows", "instants", "with_instants"]


@struct
class Instants:
    """Instants by attribute, each attribute in a panel of its own.

    Attributes:
        points: The instants of the range.
        rows: Their rows, panel by panel, in order of time.
        panels: What each panel is.
    """

    points: Points
    rows: Int64s
    panels: tuple[ChartPanel, ...]


def instants(
    history: History, quarks: Sequence[int] | Int32s | None, start_ns: int, end_ns: int
) -> Instants:
    """Return the instants of a range; with quarks, only those on these threads."""
    points = history.points(quarks, start_ns=start_ns, end_ns=end_ns)
    rows = np.argsort(points.quark, kind="stable")
    panels = []
    owners, firsts = np.unique(points.quark[rows], return_index=True)
    edges = [*firsts.tolist(), len(rows)]
    for index, quark in enumerate(owners.tolist()):
        whose = thread_of(history, quark)
        process = process_title(history, quark)
        title = thread_title(whose) if len(history.attributes.path(quark)) >= 4 else process
        name = f"{title}: instants"
        panels.append(
            ChartPanel(name, process, "instants", edges[index], edges[index + 1], 1, (quark,))
        )
    return Instants(points, rows, tuple(panels))


def with_instants(chart: Chart, events: Instants, arguments: ArgumentCollector) -> Chart:
    """Return a chart with instants as boxes of no width, in panels after the others."""
    points, at = events.points, events.rows
    if not len(at):
        return replace(chart, arguments=arguments.result())
    none = np.zeros(len(at), np.int64)
    length = points.arguments_length[at].astype(np.int64)
    arguments.add(points.text, points.arguments_offset[at], length, none)
    boxes = len(chart)
    return replace(
        chart,
        start=np.concatenate([chart.start, points.time_ns[at] - chart.origin_ns]),
        length=np.concatenate([chart.length, none]),
        own=np.concatenate([chart.own, none]),
        row=np.concatenate([chart.row, none.astype(np.int32)]),
        parent=np.concatenate([chart.parent, np.full(len(at), -1, np.int32)]),
        frame=np.concatenate([chart.frame, points.name.codes[at] + np.int32(len(chart.frames))]),
        frames=[*chart.frames, *points.name.names],
        panels=(
            *chart.panels,
            *(
                replace(panel, first=panel.first + boxes, last=panel.last + boxes)
                for panel in events.panels
            ),
        ),
        arguments=arguments.result(),
    )


def counters(history: History, start_ns: int, end_ns: int) -> tuple[Counter, ...]:
    """Return the counters that have a number in the range."""
    found = []
    for lane in history.lanes:
        if lane.declaration.kind != "counter" or start_ns == end_ns:
            continue
        for quark in lane.quarks.tolist():
            intervals = history.intervals([quark], start_ns, end_ns)
            if not isinstance(intervals.value, Mixed):
                continue
            value = _numbers(intervals.value)
            if np.isnan(value).all():
                continue
            path = history.attributes.path(quark)
            found.append(
                Counter(
                    title="/".join(path[3:]) if len(path) > 3 else "/".join(path),
                    process=process_title(history, quark),
                    time=np.maximum(intervals.start_ns, start_ns) - start_ns,
                    value=value,
                )
            )
    return tuple(found)


def _numbers(column: Mixed) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the numbers of a column; NaN where there is none."""
    value = np.full(len(column), np.nan)
    is_int, is_float = column.kinds == INT, column.kinds == FLOAT
    value[is_int] = column.words[is_int]
    value[is_float] = column.words[is_float].view(np.float64)
    return value


def flows(
    history: History, panels: Sequence[ChartPanel], start_ns: int, end_ns: int
) -> Flows | None:
    """Return the flows between panels that begin and end in the range; None without any."""
    table = history.flows(start_ns=start_ns, end_ns=end_ns)
    if not len(table):
        return None
    quarks = [quark for each in panels for quark in each.quarks]
    last = max(int(table.from_quark.max()), int(table.to_quark.max()), *quarks, 0)
    panel = np.full(last + 1, -1, np.int64)
    # a thread's first panel is that of its first lane
    for index, each in reversed(list(enumerate(panels))):
        panel[list(each.quarks)] = index
    source, target = panel[table.from_quark], panel[table.to_quark]
    rows = np.flatnonzero(
        (source >= 0)
        & (target >= 0)
        & (table.from_ns >= start_ns)
        & (table.from_ns < end_ns)
        & (table.to_ns >= start_ns)
        & (table.to_ns < end_ns)
    )
    if not len(rows):
        return None
    return Flows(
        from_time=table.from_ns[rows] - start_ns,
        from_panel=source[rows],
        to_time=table.to_ns[rows] - start_ns,
        to_panel=target[rows],
        name=table.name.codes[rows],
        names=table.name.names,
    )
