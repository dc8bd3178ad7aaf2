"""How a map is coloured: the palette, and the scales from values to strengths of colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.structs import struct
from meantime.views.heatmap.color import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.model.columns import Int64s
    from meantime.views.heatmap.color import Method, Ties
    from meantime.views.heatmap.selection import Layer

__all__ = ["Look", "Scales"]

# What is selected stays visible in cells in which it has little.
LEAST_STRENGTH = 0.4


class Scales(NamedTuple):
    """The scales of a picture.

    Attributes:
        rest: That of what is not selected.
        selected: That of the selected names.
    """

    rest: Scale
    selected: Scale

    def of(self, layer: Layer) -> Scale:
        """Return the scale of a map."""
        return self.rest if layer.name is None else self.selected


@struct
class Look:
    """How a map is coloured.

    Attributes:
        method: Whether colour follows the rank of a value or the value.
        palette: One of `palette.PALETTES`.
        hues: Hues that replace Cloud Analytics' own.
        lock: Whether the whole map determines the scale, whatever is selected.
        largest: The value of the strongest colour; None uses the largest value.
        least: The strength of the least value that is not zero, where a single thing must be seen.
    """

    method: Method = "rank"
    palette: str = "even"
    hues: tuple[float, ...] = ()
    lock: bool = False
    largest: float | None = None
    least: float = 0.0

    @property
    def is_cloud(self) -> bool:
        """Whether maps are drawn as in Cloud Analytics: all on one scale, mixed by strength."""
        return self.palette == "cloud-analytics"

    def scales(
        self, drawn: Sequence[Layer], values: Sequence[Int64s], whole: Int64s | None = None
    ) -> Scales:
        """Return the scales of maps.

        Args:
            drawn: The maps.
            values: For each map, the values of its cells that are not zero.
            whole: The values of the whole map, which a locked scale depends on.
        """
        ties: Ties = "upper" if self.is_cloud else "middle"
        if self.largest is not None:
            scale = Scale("linear", np.array([self.largest]))
            return Scales(scale, scale)
        common = [whole] if self.lock and whole is not None else values
        scale = Scale.of(self.method, common, ties=ties, least=self.least)
        named = [each for layer, each in zip(drawn, values, strict=True) if layer.name is not None]
        if self.is_cloud or len(named) in {0, len(drawn)}:
            return Scales(scale, scale)
        # Selected names are drawn over the rest, and ranked among themselves.
        over = common if self.lock else named
        return Scales(scale, Scale.of(self.method, over, ties=ties, least=LEAST_STRENGTH))
