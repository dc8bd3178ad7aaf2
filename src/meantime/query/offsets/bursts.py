"""Bursts: ranges in which much more happened than usual, at any length from a cell to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.query.ranges import union

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meantime.query.offsets.cells import Cells
    from meantime.query.offsets.spectrum import Float64s
    from meantime.query.ranges import Range

__all__ = ["Burst", "bursts"]

_MOST_CELLS = 2**19
_MOST_COLUMNS = 4
_FEWEST_WINDOWS = 32
# How far above the median a burst is: in standard deviations, in distances of the median from the
# highest of what is usual, and in medians.
_DEVIATIONS, _DISTANCES, _MEDIANS = 10.0, 2.5, 0.5
_USUAL = 0.97
# The least standard deviation that is assumed, as a part of the median.
_STEADY = 0.1
# From the median absolute deviation of normally distributed values to their standard deviation.
_NORMAL = 1.4826


class Burst(NamedTuple):
    """A range of cells with more than usual.

    Attributes:
        cells: The range.
        times: How many times the usual load it has.
        deviations: How many standard deviations it is above the usual.
    """

    cells: Range
    times: float
    deviations: float


def bursts(total: Cells, first: int, cells: int, rows: int, *, counts: bool) -> list[Burst]:
    """Return the bursts in some cells of a map.

    Args:
        total: The cells of all names together.
        first: The first cell to examine.
        cells: How many.
        rows: The rows of a column.
        counts: Whether values are counts of things that happen by chance.
    """
    joined = -(-cells // _MOST_CELLS)
    low, high = np.searchsorted(total.number, [first, first + cells])
    at = (total.number[low:high] - first) // joined
    load = np.bincount(at, weights=total.value[low:high], minlength=-(-cells // joined)).astype(
        np.float64
    )
    sums = np.concatenate([[0.0], np.cumsum(load)])
    best: dict[Range, tuple[float, float]] = {}
    for width in _widths(len(load), _MOST_COLUMNS * rows // joined):
        best |= _above(sums, width, counts=counts)
    found = []
    for start, end in union(best):
        inside = [window for window in best if start <= window[0] < end]
        window = max(inside, key=lambda each: best[each])
        deviations, usual = best[window]
        edges = _edges(load, window, (start, end), usual)
        times = float(load[slice(*edges)].mean()) / usual
        found.append(Burst((edges[0] * joined, edges[1] * joined), times, deviations))
    return found


def _widths(cells: int, most: int) -> Iterator[int]:
    width = 1
    while width <= most and cells >= _FEWEST_WINDOWS * width:
        yield width
        width *= 2


def _above(sums: Float64s, width: int, *, counts: bool) -> dict[Range, tuple[float, float]]:
    """Return the windows of a width that are far above the others.

    Each with its distance in standard deviations, and the usual load of a cell.
    """
    starts = np.arange(0, len(sums) - width, max(1, width // 2))
    loads = sums[starts + width] - sums[starts]
    median, usual = np.quantile(loads, [0.5, _USUAL])
    if median <= 0:
        return {}
    deviation = max(
        _NORMAL * float(np.median(np.abs(loads - median))),
        # the standard deviation of a count
        median**0.5 if counts else 0.0,
        _STEADY * median,
    )
    least = max(_DEVIATIONS * deviation, _DISTANCES * (usual - median), _MEDIANS * median)
    return {
        (int(starts[i]), int(starts[i]) + width): (
            float((loads[i] - median) / deviation),
            float(median / width),
        )
        for i in np.flatnonzero(loads - median >= least)
    }


def _edges(load: Float64s, window: Range, around: Range, usual: float) -> Range:
    """Return the cells from where the load rises to where it falls, half-way to its height."""
    start, end = window
    width = end - start
    low, high = max(0, around[0] - width), min(len(load), around[1] + width)
    smooth = max(1, width // 4)
    near = np.convolve(load[low:high], np.full(smooth, 1 / smooth), "same")
    above = near >= (usual + float(load[start:end].mean())) / 2
    inside = np.flatnonzero(above[start - low : end - low]) + start - low
    if not len(inside):
        return window
    first, last = int(inside[0]), int(inside[-1])
    while first > 0 and above[first - 1]:
        first -= 1
    while last + 1 < len(above) and above[last + 1]:
        last += 1
    return low + first, low + last + 1
