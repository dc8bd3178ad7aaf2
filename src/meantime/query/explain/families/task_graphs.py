"""Graphs of tasks on workers, as dask has them: whether the workers computed, and on what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from meantime.kernels.activity_paths import at_once
from meantime.model.durations import nearest_rank
from meantime.model.units import rounded_ns
from meantime.query.explain.budget import Budget
from meantime.query.explain.conclusion import Conclusion, Evidence, Explanation, importance
from meantime.query.explain.lanes import TimeClass
from meantime.query.explain.resources import resource_use
from meantime.query.explain.span_rows import (
    NO_RANGES,
    by_name,
    categories_of,
    rows_in,
    total_of,
)
from meantime.query.sentences import FILE, counted, listed, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.history.spans import SpanTable
    from meantime.model.columns import Int64s
    from meantime.query.explain.subject import Subject

__all__ = ["explain_task_graph"]

_COMPUTE, _TRANSFER = "compute", "transfer"
_KINDS = {_COMPUTE, _TRANSFER, "disk-read", "disk-write", "deserialize"}
_NOBODY_SAID, _TRANSFER_SAID, _BUSY_SAID, _IMBALANCE, _SKEW = 0.05, 0.1, 0.8, 1.3, 5
_FEWEST = 20
_NAMED = 3


def explain_task_graph(subject: Subject) -> Explanation | None:
    """Return how busy the workers of a graph of tasks were; None for other traces."""
    spans = subject.spans
    categories = categories_of(spans)
    if _COMPUTE not in categories or not categories <= _KINDS:
        return None
    compute = rows_in(spans, _COMPUTE)
    threads = len(spans.threads)
    whole_ns = threads * subject.length_ns
    computed_ns = total_of(spans, compute)
    moved_ns = total_of(spans, np.setdiff1d(np.arange(len(spans)), compute))
    workers = resource_use(
        "worker thread",
        subject.range_ns,
        busy=(spans.start_ns[compute], spans.end_ns[compute]),
        ready=NO_RANGES,
        capacity=threads,
    )
    measures = [
        *_busy(subject, spans, compute, whole_ns, threads),
        *_transfers(subject, spans, whole_ns),
        *_nobody(subject, spans, compute),
        *_failed(spans, compute),
        *_skew(subject, spans, compute),
        *_imbalance(spans, compute, threads),
    ]
    names = by_name(spans.name, spans.end_ns - spans.start_ns, compute)
    rows = [(TimeClass.WORK, name, time_ns) for name, time_ns in names]
    rows.append((TimeClass.WAIT, "data from other workers", moved_ns))
    rows.append((TimeClass.IDLE, "no task", max(0, whole_ns - computed_ns - moved_ns)))
    return Explanation(
        "tasks",
        "task",
        len(compute),
        subject.range_ns,
        tuple(sorted(measures, key=importance)),
        Budget.of_rows(rows),
        (workers,),
    )


def _busy(
    subject: Subject, spans: SpanTable, compute: Int64s, whole_ns: int, threads: int
) -> Iterator[Conclusion]:
    computed_ns = total_of(spans, compute)
    share = computed_ns / whole_ns
    names = by_name(spans.name, spans.end_ns - spans.start_ns, compute)
    first = [f"{name} {rounded_ns(time_ns)}" for name, time_ns in names[:_NAMED]]
    yield Conclusion(
        "workers.idle",
        f"{counted(threads, 'thread')} of workers computed {percent(share)} of"
        f" {rounded_ns(subject.length_ns)}: {listed(first)}.",
        whole_ns - computed_ns,
        1 - share,
        (whole_ns - computed_ns) // threads,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        parts={
            "threads": threads,
            "busy_share": share,
            "by": [{"name": name, "ns": time_ns} for name, time_ns in names[:20]],
        },
        is_notable=share < _BUSY_SAID,
    )


def _nobody(subject: Subject, spans: SpanTable, compute: Int64s) -> Iterator[Conclusion]:
    open_ns = at_once(
        np.sort(spans.start_ns[compute]), np.sort(spans.end_ns[compute]), *subject.range_ns
    )
    none_ns = int(open_ns[0])
    share = none_ns / subject.length_ns
    yield Conclusion(
        "workers.nobody",
        f"For {rounded_ns(none_ns)} ({percent(share)}) no worker computed anything: no task was"
        " ready, or the scheduler was late.",
        none_ns,
        share,
        none_ns,
        "bound",
        evidence=(subject.command("flame", FILE, "--chart", "-o", "tasks.svg"),),
        is_notable=share > _NOBODY_SAID,
    )


def _transfers(subject: Subject, spans: SpanTable, whole_ns: int) -> Iterator[Conclusion]:
    moved_ns = total_of(spans, rows_in(spans, _TRANSFER))
    share = moved_ns / whole_ns
    yield Conclusion(
        "workers.transfers",
        f"Workers fetched data from others for {rounded_ns(moved_ns)} ({percent(share)}).",
        moved_ns,
        share,
        moved_ns,
        "bound",
        evidence=(subject.command("stats", FILE, "--by", "name"),),
        is_notable=share > _TRANSFER_SAID,
    )


def _failed(spans: SpanTable, compute: Int64s) -> Iterator[Conclusion]:
    failed = []
    for row in compute.tolist():
        try:
            fields = json.loads(spans.arguments(row) or "{}")
        except ValueError:
            continue
        if isinstance(fields, dict) and fields.get("status", "OK") != "OK":
            failed.append(row)
    names = sorted({str(spans.name[row]) for row in failed})
    yield Conclusion(
        "tasks.failed",
        f"{counted(len(failed), 'task')} failed{': ' + listed(names) if names else ''}.",
        share=len(failed) / len(compute),
        evidence=tuple(
            Evidence(f"span {int(spans.rows[row])}", ("dump", FILE, "--kind", "spans"))
            for row in failed[:_NAMED]
        ),
        ranges=tuple((int(spans.start_ns[row]), int(spans.end_ns[row])) for row in failed[:100]),
        parts={"failed": len(failed)},
        is_notable=bool(failed),
    )


def _skew(subject: Subject, spans: SpanTable, compute: Int64s) -> Iterator[Conclusion]:
    """Yield the kind of task whose slowest differ most from the usual ones."""
    worst: tuple[float, str, int, int] | None = None
    all_lengths = spans.end_ns[compute] - spans.start_ns[compute]
    codes = spans.name.codes[compute]
    order = np.lexsort((all_lengths, codes))
    kinds, first = np.unique(codes[order], return_index=True)
    for code, lengths in zip(kinds.tolist(), np.split(all_lengths[order], first[1:]), strict=True):
        if code < 0 or len(lengths) < _FEWEST:
            continue
        name = spans.name.names[code]
        median = max(1, int(lengths[nearest_rank(len(lengths), 50)]))
        p99 = int(lengths[nearest_rank(len(lengths), 99)])
        if worst is None or p99 / median > worst[0]:
            worst = p99 / median, name, median, p99
    if worst is None:
        return
    ratio, name, median, p99 = worst
    yield Conclusion(
        "tasks.skew",
        f"Of the tasks {name} the slowest hundredth take {rounded_ns(p99)}, {ratio:.1f} times the"
        f" median of {rounded_ns(median)}: their data may be uneven.",
        p99 - median,
        (p99 - median) / subject.length_ns,
        p99 - median,
        "bound",
        is_notable=ratio > _SKEW,
    )


def _imbalance(spans: SpanTable, compute: Int64s, threads: int) -> Iterator[Conclusion]:
    which = np.searchsorted(spans.offsets, compute, side="right") - 1
    busy = np.zeros(threads, np.int64)
    np.add.at(busy, which, spans.end_ns[compute] - spans.start_ns[compute])
    if threads < 2 or not busy.sum():
        return
    ratio = float(busy.max() / busy.mean())
    yield Conclusion(
        "workers.imbalance",
        f"One thread of {threads:,} computed {ratio:.1f} times as long as the mean.",
        int(busy.max() - busy.mean()),
        ratio - 1,
        int(busy.max() - busy.mean()),
        "bound",
        is_notable=ratio > _IMBALANCE,
    )
