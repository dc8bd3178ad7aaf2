"""Rows by likeness: those that are in the same states at the same times stand together.

A row is a vector: the part of each state in each of a few parts of the time. Kinds are found by
k-means, which begins with rows that are far from each other, so that the result is always the same;
the largest kind stands first, and in it the row that is most like the others. `alike.ts` orders
rows on the page by the same rule, and a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.ranges import Range
    from meantime.views.statemap.data import Rectangles

__all__ = ["by_likeness"]

_PARTS = 12
_KINDS = 12
_MOST_STATES = 24
_SAMPLE = 512
_ROUNDS = 6


def by_likeness(held: Rectangles, states: int, window_ns: Range) -> Int64s:
    """Return the rows of rectangles in an order in which like ones are neighbours.

    Args:
        held: The rectangles.
        states: How many states there are.
        window_ns: Where the map begins and ends.
    """
    vectors = _vectors(held, min(states, _MOST_STATES), window_ns)
    rows = len(vectors)
    if not rows:
        return np.arange(0)
    centers = vectors[_seeds(vectors)].astype(np.float64)
    kind = np.zeros(rows, np.int64)
    distance = np.zeros(rows)
    for _ in range(_ROUNDS):
        apart = np.stack([_far(vectors, center) for center in centers])
        kind = apart.argmin(axis=0)
        distance = apart.min(axis=0)
        for each in range(len(centers)):
            if (kind == each).any():
                centers[each] = vectors[kind == each].mean(axis=0, dtype=np.float64)
    counts = np.bincount(kind, minlength=len(centers))
    return np.lexsort((np.arange(rows), distance, kind, -counts[kind]))


def _vectors(held: Rectangles, states: int, window_ns: Range) -> npt.NDArray[np.float32]:
    """Return for each row the part of each state in each part of the time."""
    rows = len(held.row_offsets) - 1
    of_rectangle = np.repeat(np.arange(rows), np.diff(held.row_offsets))
    entries = np.diff(held.state_offsets)
    start, end = (np.repeat(each, entries) for each in (held.start_ns, held.end_ns))
    state = np.minimum(held.state_index, states - 1)
    place = np.repeat(of_rectangle, entries) * states + state
    part = held.state_ns / np.maximum(1, end - start)
    edges = np.linspace(window_ns[0], max(window_ns[0] + 1, window_ns[1]), _PARTS + 1)
    # the time in each state up to each edge
    before = np.stack(
        [
            np.bincount(place, np.clip(edge - start, 0, end - start) * part, rows * states)
            for edge in edges
        ]
    )
    parts = np.diff(before, axis=0) / (edges[1] - edges[0])
    vectors: npt.NDArray[np.float32] = (
        parts.reshape(_PARTS, rows, states)
        .transpose(1, 2, 0)
        .reshape(rows, states * _PARTS)
        .astype(np.float32)
    )
    return vectors


def _far(
    vectors: npt.NDArray[np.float32], center: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    apart = vectors - center
    found: npt.NDArray[np.float64] = np.einsum("ij,ij->i", apart, apart)
    return found


def _seeds(vectors: npt.NDArray[np.float32]) -> list[int]:
    """Return rows that are far from each other: each next one is furthest from those before."""
    sample = np.arange(0, len(vectors), max(1, len(vectors) // _SAMPLE))
    seeds = [0]
    nearest = np.full(len(sample), np.inf)
    while len(seeds) < _KINDS:
        nearest = np.minimum(nearest, _far(vectors[sample], vectors[seeds[-1]].astype(np.float64)))
        furthest = int(nearest.argmax())
        if not nearest[furthest]:
            break
        seeds.append(int(sample[furthest]))
    return seeds
