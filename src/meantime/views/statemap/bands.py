"""Bands, for more rows than a picture has pixels: adjacent rows share a band of their average."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from meantime.columns import Int64s
    from meantime.views.statemap.data import Rectangles

__all__ = ["GROUND", "Bands", "bands"]

# The colour where no state is, as red, green and blue.
GROUND = (0xF1, 0xF2, 0xF4)

_LEVEL = 17  # a channel has 16 steps, so that adjacent cells often have one colour


class Bands(NamedTuple):
    """Runs of cells of one colour, row after row; times are numbers of cells."""

    row_offsets: Int64s
    start: Int64s
    end: Int64s
    fill: npt.NDArray[np.uint8]


def bands(
    rectangles: Rectangles,
    *,
    start_ns: int,
    end_ns: int,
    rows_a_band: int,
    cells: int,
    ground: tuple[int, int, int],
) -> Bands:
    """Return the average of each `rows_a_band` rows in each of `cells` parts of the window.

    A cell has the average colour of its rows, each weighted by how much of the cell it covers;
    what no rectangle covers counts as `ground`. A cell that nothing covers is in no run.
    """
    rows = len(rectangles.row_offsets) - 1
    count = -(-rows // rows_a_band)
    band = np.repeat(np.arange(rows) // rows_a_band, np.diff(rectangles.row_offsets))
    width = end_ns - start_ns
    edges = [
        ((column - start_ns) * (cells / width)).astype(np.float64)
        for column in (rectangles.start_ns, rectangles.end_ns)
    ]
    covered = _sum(band, edges, None, count, cells)
    members = np.minimum(rows_a_band, rows - np.arange(count) * rows_a_band)[:, None]
    fill = np.empty((count, cells, 3), np.uint8)
    for channel in range(3):
        color = _sum(band, edges, rectangles.fill[:, channel], count, cells)
        color += (members - covered) * ground[channel]
        fill[:, :, channel] = np.clip(np.rint(color / members / _LEVEL), 0, 15) * _LEVEL
    return _runs(fill, covered > 1e-9)


def _sum(
    band: Int64s,
    edges: list[npt.NDArray[np.float64]],
    weights: npt.NDArray[np.uint8] | None,
    count: int,
    cells: int,
) -> npt.NDArray[np.float64]:
    """Return the covered part of every cell, added up over the rectangles of a band."""
    total = np.zeros(count * (cells + 2))
    for sign, edge in zip((-1.0, 1.0), edges, strict=True):
        # The area left of an edge is 1 in all cells before the edge's own, and the fraction there.
        # A rectangle is the difference of the areas of its edges; storing only where an area
        # changes, and summing up at the end, makes the cost independent of the length.
        cell = np.clip(edge.astype(np.int64), 0, cells)
        fraction = edge - cell
        weight = sign if weights is None else sign * weights
        start = band * (cells + 2)
        total += np.bincount(start, np.broadcast_to(weight, start.shape), len(total))
        total += np.bincount(start + cell, weight * (fraction - 1), len(total))
        total -= np.bincount(start + cell + 1, weight * fraction, len(total))
    return total.reshape(count, cells + 2).cumsum(axis=1)[:, :cells]


def _runs(fill: npt.NDArray[np.uint8], covered: npt.NDArray[np.bool_]) -> Bands:
    count, cells = covered.shape
    changes = np.ones((count, cells), bool)
    changes[:, 1:] = (fill[:, 1:] != fill[:, :-1]).any(axis=2) | (covered[:, 1:] != covered[:, :-1])
    first = np.flatnonzero(changes)
    after = np.append(first[1:], count * cells)
    kept = covered.ravel()[first]
    row, start = np.divmod(first[kept], cells)
    offsets = np.searchsorted(row, np.arange(count + 1))
    return Bands(
        offsets.astype(np.int64),
        start,
        after[kept] - row * cells,
        np.ascontiguousarray(fill.reshape(-1, 3)[first[kept]]),
    )
