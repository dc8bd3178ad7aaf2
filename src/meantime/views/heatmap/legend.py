"""The legend of a heat map: names with their colours, and values with theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meantime.model.columns import distinct
from meantime.model.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.offsets import OffsetMap
    from meantime.views.heatmap.look import Scales
    from meantime.views.heatmap.palette import Palette
    from meantime.views.heatmap.selection import Layer

__all__ = ["LISTED", "Entry", "Key", "entries", "keys"]


LISTED = 24


class Key(NamedTuple):
    """A colour and the value that it represents."""

    color: tuple[int, int, int]
    dark_color: tuple[int, int, int]
    amount: str


class Entry(NamedTuple):
    """A line of the legend: a colour, a name, and its total."""

    color: tuple[int, int, int]
    dark_color: tuple[int, int, int]
    name: str
    amount: str


def entries(found: OffsetMap, drawn: Sequence[Layer], colors: Palette) -> list[Entry]:
    """Return a line for each map drawn, unless there is only one, without a name."""
    if len(drawn) == 1 and drawn[0].name is None:
        return []
    total = int(found.total.value.sum()) or 1
    listed = []
    for layer in drawn:
        amount = int(layer.cells.value.sum())
        light, dark = (
            tuple(int(channel) for channel in colors.ramp(layer.index, dark=dark)[210])
            for dark in (False, True)
        )
        name = layer.name or ("all others" if len(drawn) > 1 else "all")
        listed.append(Entry(light, dark, name, f"{_amount(found, amount)}  {amount / total:.1%}"))  # type: ignore[arg-type]
    return listed[:LISTED]


def keys(found: OffsetMap, scales: Scales, colors: Palette, drawn: Sequence[Layer]) -> list[Key]:
    """Return values from the least to the most, and the colours of the map selected first."""
    layer = next((layer for layer in drawn if layer.name is not None), drawn[0])
    scale = scales.of(layer)
    if not len(scale.values):
        return []
    at = np.array([0.02, 0.2, 0.4, 0.6, 0.8, 1])
    if scale.method == "rank":
        ranks = np.ceil(at * len(scale.values)).astype(np.int64) - 1
        values = distinct(np.rint(scale.values[np.maximum(ranks, 0)]))
    else:
        values = distinct(np.maximum(1, np.rint(at * scale.largest)))
    norm = scale.norm(values)
    light, dark = (colors.colors(norm, layer.index, dark=dark).tolist() for dark in (False, True))
    return [
        Key(tuple(day), tuple(night), _amount(found, int(value)))
        for day, night, value in zip(light, dark, values.tolist(), strict=True)
    ]


def _amount(found: OffsetMap, value: int) -> str:
    return format_ns(value) if found.value == "ns" else f"{value:,}"
