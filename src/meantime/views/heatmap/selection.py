"""The maps that are drawn together: the selected names, and the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meantime.errors import UsageError
from meantime.query.offsets import Cells, merge_cells
from meantime.structs import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meantime.query.offsets import OffsetMap
    from meantime.views.heatmap.palette import Palette

__all__ = ["Layer", "Selection", "check", "chosen", "hidden_sum", "layers", "numbered"]


@struct
class Selection:
    """Selected names and their use: at most one of `isolate`, `exclude` and `decompose`.

    Attributes:
        names: The selected names, in order.
        mode: `highlight` draws all, the selected in their own colours; `isolate` the selected only;
            `exclude` all but the selected; `decompose` every name in its colour.
        hidden: Names that are left out of everything drawn.
    """

    names: tuple[str, ...] = ()
    mode: str = "highlight"
    hidden: tuple[str, ...] = ()


@struct
class Layer:
    """A map that is drawn with others.

    Attributes:
        name: Its name; None for everything that is not selected.
        index: Its number in the palette.
        cells: Its cells.
    """

    name: str | None
    index: int
    cells: Cells


def layers(found: OffsetMap, selection: Selection) -> list[Layer]:
    """Return the maps to draw: first what is not selected, if that is drawn, then the selected.

    Raises:
        UsageError: If a name is not in the map.
    """
    check(found, selection)
    hidden = [found.by[name] for name in selection.hidden if name in found.by]
    if selection.mode == "decompose":
        names = [name for name in sorted(found.by) if name not in selection.hidden]
        return [Layer(name, index + 1, found.by[name]) for index, name in enumerate(names)]
    chosen = [found.by[name] for name in selection.names]
    selected = [
        Layer(name, index + 1, cells)
        for index, (name, cells) in enumerate(zip(selection.names, chosen, strict=True))
    ]
    if selection.mode == "isolate":
        return selected
    rest = Layer(None, 0, minus(found.total, [*hidden, *chosen]))
    return [rest] if selection.mode == "exclude" else [rest, *selected]


def numbered(drawn: Sequence[Layer], palette: Palette) -> list[Layer]:
    """Return the maps with their indices in a palette."""
    if not palette.is_cloud:
        return list(drawn)
    return [replace(layer, index=rank) for rank, layer in enumerate(drawn)]


def chosen(found: OffsetMap, selection: Selection) -> tuple[Cells, dict[str, Cells]]:
    """Return the cells, altogether and by name, of the names that are isolated or not left out.

    Raises:
        UsageError: If a name is not in the map.
    """
    check(found, selection)
    if selection.mode == "isolate":
        by = {name: found.by[name] for name in selection.names}
        return merge_cells(list(by.values())), by
    left_out = {*selection.hidden} & found.by.keys()
    if selection.mode == "exclude":
        left_out |= {*selection.names}
    rest = {name: cells for name, cells in found.by.items() if name not in left_out}
    return minus(found.total, [found.by[name] for name in sorted(left_out)]), rest


def hidden_sum(found: OffsetMap, selection: Selection) -> int:
    """Return the sum of the cells of names that are hidden."""
    return sum(int(found.by[name].value.sum()) for name in selection.hidden if name in found.by)


def check(found: OffsetMap, selection: Selection) -> None:
    """Check that all selected names are in the map.

    Raises:
        UsageError: If one is not; the message lists the most frequent names.
    """
    unknown = [name for name in selection.names if name not in found.by]
    if unknown:
        most = sorted(found.by, key=lambda name: -int(found.by[name].value.sum()))[:8]
        some = ", ".join(repr(name) for name in most)
        raise UsageError(
            f"unknown name {unknown[0]!r}; the most frequent names are: {some or 'none'}"
        )


def minus(cells: Cells, others: list[Cells]) -> Cells:
    """Return cells minus others, which must be part of them."""
    if not others:
        return cells
    negative = [Cells(other.number, np.negative(other.value)) for other in others]
    return merge_cells([cells, *negative])
