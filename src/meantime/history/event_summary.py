"""Computed once, from the event tables of a finished history: thread order, overlaps, range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.attribute_paths import THREADS, is_async
from meantime.model.attributes import ROOT
from meantime.model.columns import ranked

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.history.catalogue import Catalogue
    from meantime.history.samples import SampleTable
    from meantime.history.spans import SpanTable
    from meantime.model.attributes import Attributes
    from meantime.model.columns import Int32s

__all__ = ["ThreadRanks", "event_range", "overlapping_spans", "overlaps_of", "thread_ranks"]

# Longer ids are sorted as text: Python refuses to convert thousands of digits.
_MOST_DIGITS = 40
# How many selections of threads a growing history has the ranks of.
_MOST_KNOWN = 64


def thread_ranks(catalogue: Catalogue, quarks: Int32s) -> Int32s:
    """Return the ranks of threads: by process, each as the trace sorts them, then by id."""
    ranks = _ranks_in_columns(catalogue, quarks)
    if ranks is not None:
        return ranks
    known: dict[int, list[tuple[int, bool, int, str]]] = {ROOT: []}
    keys = [_sort_key_of(catalogue, quark, known) for quark in quarks.tolist()]
    ranks = np.empty(len(keys), np.int32)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def _ranks_in_columns(catalogue: Catalogue, quarks: Int32s) -> Int32s | None:
    """Return the ranks, None if a name or a sort key is a number that columns cannot hold."""
    attributes, given = catalogue.attributes, catalogue.metadata.sort_keys
    if any(abs(key) >= 2**62 for key in given.values()):
        return None
    sort_keys = np.zeros(len(attributes), np.int64)
    sort_keys[np.fromiter(given, np.int64)] = np.fromiter(given.values(), np.int64)
    ranks = []
    # the attributes of one depth are in one column; a shorter path comes first
    for column in _from_the_top(attributes, quarks):
        if len(column) and column.min() == column.max():
            continue
        different, index = ranked(column)
        missing = int(ROOT in different[:1])
        found = different[missing:].astype(np.int32)
        own = attributes.ranks(found, sort_keys[found], first=THREADS)
        if own is None:
            return None
        ranks.append(np.append(np.full(missing, -1, np.int32), own)[index])
    order = np.lexsort(ranks[::-1]) if ranks else np.arange(len(quarks))
    result = np.empty(len(quarks), np.int32)
    result[order] = np.arange(len(quarks), dtype=np.int32)
    return result


def _from_the_top(attributes: Attributes, quarks: Int32s) -> list[Int32s]:
    """Return the ancestor at each depth of each attribute, itself included; `ROOT` below it."""
    up = [quarks]
    while (above := attributes.parents(up[-1])).max(initial=ROOT) > ROOT:
        up.append(above)
    if up[-1].min(initial=0) > ROOT:
        return up[::-1]
    depths = np.sum([level != ROOT for level in up], axis=0)
    rows = np.arange(len(quarks))
    levels = np.stack([*up, np.full(len(quarks), ROOT, np.int32)])
    return [
        levels[np.where(depths > depth, depths - 1 - depth, len(up)), rows]
        for depth in range(len(up))
    ]


class ThreadRanks:
    """The ranks of threads of a history that grows; the keys of those that are known are kept."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._metadata = catalogue.metadata
        self._known: dict[bytes, Int32s] = {}

    def __call__(self, quarks: Int32s) -> Int32s:
        """Return the rank of each thread among these."""
        # the metadata are replaced when something in them changes
        if self._metadata is not self.catalogue.metadata or len(self._known) > _MOST_KNOWN:
            self._metadata, self._known = self.catalogue.metadata, {}
        key = quarks.tobytes()
        ranks = self._known.get(key)
        if ranks is None:
            ranks = self._known[key] = thread_ranks(self.catalogue, quarks)
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
    where = np.searchsorted(spans.offsets, rows, side="right") - 1
    moved = np.bincount(where, minlength=len(spans.threads))
    return overlaps_of(attributes, spans.threads, moved)


def overlaps_of(attributes: Attributes, threads: Int32s, moved: npt.NDArray[np.int64]) -> int:
    """Return how many spans left the lane of their parent, given for each thread; no operations."""
    return sum(
        int(moved[index])
        for index in np.flatnonzero(moved).tolist()
        if not is_async(attributes.path(int(threads[index])))
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
