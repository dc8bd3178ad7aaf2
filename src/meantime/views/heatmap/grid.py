"""The grid of a picture: the columns that are drawn, and the values of their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meantime.model.columns import distinct
from meantime.structs import struct
from meantime.views.heatmap.color import mix

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from meantime.model.columns import Int64s
    from meantime.query.offsets import Cells, Fold, OffsetMap
    from meantime.query.ranges import Range
    from meantime.views.heatmap.color import Colors
    from meantime.views.heatmap.look import Scales
    from meantime.views.heatmap.palette import Palette
    from meantime.views.heatmap.selection import Layer

__all__ = ["Grid", "colored", "paint"]

# A stretch of empty columns longer than this is drawn as a break, if the picture would otherwise
# be mostly empty.
_GAP_COLUMNS = 60
_BREAK_COLUMNS = 3


@struct
class Grid:
    """The columns of a map side by side, adjacent ones added up if there are too many.

    Attributes:
        fold: The cells of the map.
        runs: Runs of columns (first, how many), in order; between two runs is a break.
        group: How many columns are added up into one that is drawn.
    """

    fold: Fold
    runs: tuple[tuple[int, int], ...]
    group: int

    @classmethod
    def of(cls, found: OffsetMap, most: int) -> Grid:
        """Return a grid of at most `most` columns for a map."""
        first, last = found.columns
        runs = [(first, last - first + 1)]
        busy = distinct(found.total.number // found.fold.rows)
        # Breaks hide distances: there are none unless under 2 % of the picture would be busy.
        if len(busy) and last - first + 1 > 50 * (len(busy) + _GAP_COLUMNS):
            cuts = np.flatnonzero(np.diff(busy) > _GAP_COLUMNS)
            firsts, lasts = busy[np.append(0, cuts + 1)], busy[np.append(cuts, len(busy) - 1)]
            runs = [
                (int(begin), int(end - begin + 1)) for begin, end in zip(firsts, lasts, strict=True)
            ]
        columns = sum(count for _, count in runs)
        return cls(found.fold, tuple(runs), max(1, -(-columns // max(1, most))))

    @property
    def run_starts(self) -> list[int]:
        """The drawn column at which each run begins, and the one at which the last run ends."""
        starts = [0]
        for _, count in self.runs:
            starts.append(starts[-1] + -(-count // self.group) + _BREAK_COLUMNS)
        starts[-1] -= _BREAK_COLUMNS
        return starts

    @property
    def width(self) -> int:
        """The number of drawn columns, breaks included."""
        return self.run_starts[-1]

    def values(self, cells: Cells) -> Int64s:
        """Return the value of each cell drawn, int64, columns x rows."""
        rows = self.fold.rows
        grid = np.zeros(self.width * rows, np.int64)
        for (first, count), run_start in zip(self.runs, self.run_starts, strict=False):
            low, high = np.searchsorted(cells.number, [first * rows, (first + count) * rows])
            numbers, values = cells.number[low:high], cells.value[low:high]
            column, row = np.divmod(numbers - first * rows, rows)
            at = (column // self.group + run_start) * rows + row
            if self.group == 1:
                # no two cells are drawn as one, and assignment is much faster than np.add.at
                grid[at] = values
            else:
                np.add.at(grid, at, values)
        return grid.reshape(-1, rows)

    def busy(self, cells: Cells) -> tuple[Int64s, Int64s]:
        """Return the drawn cells that are not zero, as column * rows + row, and their values."""
        values = self.values(cells).ravel()
        at = np.flatnonzero(values)
        return at, values[at]

    def within(self, cells: Sequence[Range]) -> npt.NDArray[np.bool_]:
        """Return a mask of the drawn cells that have some of these runs, each as first and last."""
        rows = self.fold.rows
        found = np.zeros((self.width, rows), np.bool_)
        for low, high in cells:
            for (first, count), run_start in zip(self.runs, self.run_starts, strict=False):
                begin = max(low, first * rows) - first * rows
                end = min(high, (first + count) * rows - 1) - first * rows
                if begin > end:
                    continue
                # A run covers part of its first and last column, and all rows of those between.
                (left, bottom), (right, top) = divmod(begin, rows), divmod(end, rows)
                same = left == right
                left, right = left // self.group + run_start, right // self.group + run_start
                if same:
                    found[left, bottom : top + 1] = True
                else:
                    found[left, bottom:] = True
                    found[left + 1 : right] = True
                    found[right, : top + 1] = True
        return found


def paint(
    grid: Grid, layers: Sequence[Layer], scales: Scales, palette: Palette, *, dark: bool
) -> Colors:
    """Return the colours of the cells drawn, uint8, columns x rows x 3."""
    rows = grid.fold.rows
    busy = [grid.busy(layer.cells) for layer in layers]
    return colored(layers, busy, grid.width * rows, scales, palette, dark=dark).reshape(
        grid.width, rows, 3
    )


def colored(
    layers: Sequence[Layer],
    busy: Sequence[tuple[Int64s, Int64s]],
    cells: int,
    scales: Scales,
    palette: Palette,
    *,
    dark: bool,
) -> Colors:
    """Return the colours of cells, uint8, cells x 3.

    Selected names are drawn over the rest, and mixed by strength with each other; by Cloud
    Analytics' rules they are also mixed with the rest.

    Args:
        layers: The maps.
        busy: For each map, the indices of its busy cells, and their values.
        cells: The number of cells.
        scales: The scales of the values.
        palette: The colours.
        dark: Whether they are drawn on a dark page.
    """
    # With thousands of maps most are busy in few cells only: mix these, not whole grids.
    parts = [
        (at, scales.of(layer).norm(values))
        for layer, (at, values) in zip(layers, busy, strict=True)
    ]
    colors = [
        palette.colors(norm, layer.index, dark=dark)
        for (_, norm), layer in zip(parts, layers, strict=True)
    ]
    image = np.tile(np.array(palette.empty(dark=dark), np.uint8), (cells, 1))
    over = [palette.is_cloud or layer.name is not None for layer in layers]
    for is_over in (False, True):
        chosen = [index for index, each in enumerate(over) if each is is_over]
        if chosen:
            image = mix([parts[i] for i in chosen], [colors[i] for i in chosen], image)
    return image
