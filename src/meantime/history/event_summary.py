"""Computed once, from the event tables of a finished history: thread order, overlaps, range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.attribute_paths import THREADS, is_async
from meantime.attributes import ROOT

if TYPE_CHECKING:
    from meantime.attributes import Attributes
    from meantime.columns import Int32s
    from meantime.history.catalogue import Catalogue
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable

__all__ = ["event_range", "overlapping_spans", "thread_ranks"]

# Longer ids are sorted as text: Python refuses to convert thousands of digits.
_MOST_DIGITS = 40


def thread_ranks(catalogue: Catalogue, quarks: Int32s) -> Int32s:
    """Return the ranks of threads: by process, each as the trace sorts them, then by id."""
    known: dict[int, list[tuple[int, bool, int, str]]] = {ROOT: []}
    keys = [_sort_key_of(catalogue, quark, known) for quark in quarks.tolist()]
    ranks = np.empty(len(keys), np.int32)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def _sort_key_of(
    catalogue: Catalogue, quark: int, known: dict[int, list[tuple[int, bool, int, str]]]
) -> list[tuple[int, bool, int, str]]:
    """Return the key of an attribute; those of the attributes above it are added to `known`."""
    waiting = []
    while quark not in known:
        waiting.append(quark)
        quark = catalogue.attributes.parent(quark)
    key = known[quark]
    for index, below in enumerate(reversed(waiting), 1):
        name = catalogue.attributes.name(below)
        digits = name.removeprefix("-")
        number = int(name) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0
        key = [*key, (catalogue.metadata.sort_keys.get(below, 0), name != THREADS, number, name)]
        if index < len(waiting):
            known[below] = key
    return key


def overlapping_spans(attributes: Attributes, spans: SpanTable) -> int:
    """Return how many spans of threads had to leave their parent's lane; operations may overlap."""
    rows = np.flatnonzero(spans.lane)
    parent = spans.parent[rows]
    rows = rows[(parent < 0) | (spans.lane[parent] != spans.lane[rows])]
    threads = np.searchsorted(spans.offsets, rows, side="right") - 1
    return sum(
        count
        for thread, count in zip(
            *(part.tolist() for part in np.unique(threads, return_counts=True)), strict=True
        )
        if not is_async(attributes.path(int(spans.threads[thread])))
    )


def event_range(spans: SpanTable, samples: SampleTable) -> tuple[int, int] | None:
    """Return the range that spans and samples are in; None if there are none."""
    starts, ends = [], []
    if len(spans):
        starts.append(int(spans.start_ns.min()))
        ends += [int(spans.end_ns.max()), int(spans.start_ns.max()) + 1]
    if len(samples):
        starts.append(int(samples.time_ns[0]))
        ends.append(int(samples.time_ns[-1]) + 1)
    return (min(starts), max(ends)) if starts else None
