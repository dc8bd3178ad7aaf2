"""The strength of a cell's colour, and the colours of Joyent's Cloud Analytics, bit for bit.

Strength follows the rank of a value, or its proportion to the largest, among cells that are drawn
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s

__all__ = ["Colors", "Method", "Norm", "Scale", "Ties", "cloud_colors", "cloud_hue", "mix"]

Norm: TypeAlias = npt.NDArray[np.float64]
Colors: TypeAlias = npt.NDArray[np.uint8]
Method: TypeAlias = Literal["rank", "linear"]
Ties: TypeAlias = Literal["middle", "upper"]


@struct
class Scale:
    """The scale from values of the cells drawn together to strengths of colour.

    >>> scale = Scale.of("rank", [np.array([1, 1, 1, 5])])
    >>> scale.norm(np.array([0, 1, 5])).tolist()
    [0.0, 0.375, 0.875]
    >>> Scale.of("linear", [np.array([1, 1, 1, 5])]).norm(np.array([0, 1, 5])).tolist()
    [0.0, 0.2, 1.0]

    Attributes:
        method: By rank among the cells that are not zero, or in proportion to the largest.
        values: All values that are not zero, sorted.
        ties: The rank of equal values: the middle of theirs, or the highest as in Cloud Analytics.
            Counts have few distinct values, so the highest makes the most frequent one almost as
            strong as the largest.
        least: The strength of the weakest value that is not zero.
    """

    method: Method
    values: npt.NDArray[np.float64 | np.int64]
    ties: Ties = "middle"
    least: float = 0.0

    @classmethod
    def of(
        cls,
        method: Method,
        maps: Sequence[npt.NDArray[np.float64 | np.int64]],
        *,
        ties: Ties = "middle",
        least: float = 0.0,
    ) -> Scale:
        """Return the scale of these maps drawn together."""
        values = np.concatenate([np.zeros(0), *[np.ravel(each) for each in maps]])
        return cls(method, np.sort(values[values > 0]), ties, least)

    @property
    def largest(self) -> float:
        """The value with the strongest colour of a linear scale; at least 1."""
        return max(1.0, float(self.values[-1])) if len(self.values) else 1.0

    def norm(self, values: npt.NDArray[np.float64 | np.int64]) -> Norm:
        """Return how strong each value is, from 0 for 0 to 1."""
        if self.method == "linear":
            strength: Norm = np.minimum(values / self.largest, 1.0)
        elif not len(self.values):
            return np.zeros(np.shape(values))
        else:
            # By rank, a few extreme cells do not make all others pale.
            count = len(self.values)
            rank = np.searchsorted(self.values, values, side="right") / count
            if self.ties == "middle":
                rank = (rank + np.searchsorted(self.values, values, side="left") / count) / 2
            strength = np.maximum(rank, 1 / count if self.ties == "upper" else 0.5 / count)
        return np.where(values > 0, self.least + (1 - self.least) * strength, 0.0)


def cloud_hue(index: int) -> int:
    """Return the hue of the map with this index: 21 degrees, and 91 more for each further map.

    >>> [cloud_hue(index) for index in range(6)]
    [21, 112, 203, 294, 25, 116]
    """
    return (21 + 91 * index) % 360


def cloud_colors(norm: Norm, hue: float) -> Colors:
    """Return Cloud Analytics' colours: HSV(hue, 0.9 * norm, 0.95), and white for empty cells.

    >>> cloud_colors(np.array([0, 0.5, 1]), 21).tolist()
    [[255, 255, 255], [242, 171, 133], [242, 101, 24]]
    """
    value, saturation = 0.95, 0.9 * np.asarray(norm, np.float64)
    sector, within = divmod(hue / 60, 1)
    low = value * (1 - saturation)
    falling = value * (1 - saturation * within)
    rising = value * (1 - saturation * (1 - within))
    full = np.full_like(low, value)
    channels = [
        (full, rising, low),
        (falling, full, low),
        (low, full, rising),
        (low, falling, full),
        (rising, low, full),
        (full, low, falling),
    ][int(sector)]
    # JavaScript rounds halves up, NumPy to even.
    colors = np.floor(np.stack(channels, axis=-1) * 255 + 0.5).astype(np.uint8)
    colors[norm == 0] = 255
    return colors


def mix(
    parts: Sequence[tuple[Int64s, Norm]],
    colors: Sequence[Colors],
    ground: Colors,
) -> Colors:
    """Return the colours of cells that several maps share, averaged by strength.

    >>> red, blue = np.array([[200, 0, 0]], np.uint8), np.array([[0, 0, 100]], np.uint8)
    >>> parts = [(np.array([0]), np.array([0.75])), (np.array([0]), np.array([0.25]))]
    >>> mix(parts, [red, blue], np.full((2, 3), 255, np.uint8)).tolist()
    [[150, 0, 25], [255, 255, 255]]

    Args:
        parts: For each map, the indices of its busy cells, and their strengths.
        colors: For each map, the colours of these cells.
        ground: The colours below, of the cells that are empty in all these maps.
    """
    total = np.zeros(len(ground))
    for at, norm in parts:
        total[at] += norm
    mixed = np.zeros((len(ground), 3))
    for (at, norm), color in zip(parts, colors, strict=True):
        mixed[at] += color * (norm / total[at])[:, None]
    return np.where(total[:, None] > 0, mixed, ground).astype(np.uint8)
