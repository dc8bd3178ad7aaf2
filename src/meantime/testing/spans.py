"""Histories of spans and of samples, from plain lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.history.ingest import build
from meantime.model.attribute_paths import thread_path
from meantime.model.columns import Interner
from meantime.model.stacks import StackTableBuilder
from meantime.model.trace import Samples, Spans, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meantime.history.history import History

__all__ = ["history_from_samples", "history_from_spans"]


def history_from_spans(threads: Mapping[str, Sequence[tuple[str, int, int]]]) -> History:
    """Return the history of threads, each with its spans (name, start_ns, end_ns) in any order.

    >>> history_from_spans({"main": [("work", 0, 10), ("read", 2, 5)]}).spans()
    SpanTable(2 spans on 1 threads)
    """
    rows = [
        (start_ns, end_ns, thread, name)
        for thread, spans in enumerate(threads.values())
        for name, start_ns, end_ns in spans
    ]
    names: list[str] = []
    batch = Spans(
        start_ns=np.array([row[0] for row in rows], np.int64),
        end_ns=np.array([row[1] for row in rows], np.int64),
        thread=np.array([row[2] for row in rows], np.int32),
        name=Interner(names).codes(row[3] for row in rows),
        category=np.full(len(rows), -1, np.int32),
        level=np.zeros(len(rows), np.int32),
        flags=np.zeros(len(rows), np.uint8),
    )
    trace = Trace("spans", "list", iter([batch]))
    trace.paths.extend(thread_path(thread, 1) for thread in threads)
    trace.values = names
    return build(trace)


def history_from_samples(samples: Sequence[tuple[int, str, Sequence[str], int]]) -> History:
    """Return the history of samples (time_ns, thread, stack from the outermost, weight).

    >>> history_from_samples([(5, "main", ["work", "read"], 1)]).samples()
    SampleTable(1 samples of 2 stacks)
    """
    stacks = StackTableBuilder()
    threads: list[str] = []
    batch = Samples(
        time_ns=np.array([row[0] for row in samples], np.int64),
        thread=Interner(threads).codes(row[1] for row in samples),
        stack=np.array([stacks.add(row[2]) for row in samples], np.int32),
        weight=np.array([row[3] for row in samples], np.int64),
        event=np.zeros(len(samples), np.int32),
    )
    trace = Trace("samples", "list", iter([batch]))
    trace.paths.extend(thread_path(thread, 1) for thread in threads)
    trace.values = ["samples"]
    trace.stacks = stacks.build()
    return build(trace)
